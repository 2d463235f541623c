#!/usr/bin/env python3
"""Writes a flow in which stand_in.sh stands for each task of a recorded workflow, and makes the files that no task makes, here.

  htc flow write FILE --to jsonl --time-scale 0.001 --size-scale 0.001 | replay.py > replay.flow && htc flow run replay.flow

FILE is DAX or WfFormat. Where several tasks write a file of one name, as generated workflows have it, each writes one of its own, NAME.TASK, and
who reads that name reads those of all tasks that it waits for."""
import collections, json, os, shutil, sys

here = os.path.dirname(os.path.realpath(__file__))
tasks = [json.loads(line) for line in sys.stdin]
writers = collections.defaultdict(set)
for task in tasks:
    for file in task.get("out", []):
        writers[file["name"]].add(task["name"])


def seconds(text):
    for unit, factor in ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400):
        if text.endswith(unit) and text[:-len(unit)].replace(".", "", 1).isdigit():
            return "%.6g" % (float(text[:-len(unit)]) * factor)
    raise ValueError(text)


def own(name, task):
    return name if len(writers[name]) < 2 else name + "." + task


def read(task):
    """The inputs of a task, each once, in an order that depends on the workflow alone."""
    for file in task.get("in", []):
        by = writers[file["name"]]
        if len(by) < 2:
            yield file["name"]
        else:
            yield from (own(file["name"], parent) for parent in task.get("after", []) if parent in by)


sizes = {}
for task in tasks:
    inputs = list(dict.fromkeys(read(task)))
    outputs = {own(file["name"], task["name"]): file.get("bytes", 0) for file in task.get("out", [])}
    words = [str(word) for output in outputs.items() for word in output]
    sizes.update((f["name"], f.get("bytes", 0)) for f in task.get("in", []) if not writers[f["name"]])
    print(json.dumps({"name": task["name"], "kind": task.get("kind", "none"), "after": task.get("after", []),
                      "in": ["stand_in.sh"] + inputs, "out": [{"name": n, "bytes": b} for n, b in outputs.items()],
                      "command": ["sh", "stand_in.sh", seconds(task.get("run", "0s")), str(len(outputs))] + words + inputs}))
shutil.copy(os.path.join(here, "stand_in.sh"), "stand_in.sh")
for name, size in sizes.items():
    with open(name, "w") as file:
        line = name + " comes from outside\n"
        file.write(line * (1 + size // len(line)))
