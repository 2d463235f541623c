#!/usr/bin/env python3
"""usage: flow_serial.py FILE SIZE_SCALE
The files that the tasks of a recorded workflow (DAX, WfFormat, a task list of MATRIX) leave if examples/flows/writers/stand_in.sh runs for one after the other: made here, in
this directory, without htc, the scripts or the files that they made. Prints how many tasks there are."""
import hashlib, json, sys, xml.etree.ElementTree as xml

path, scale = sys.argv[1], float(sys.argv[2])
tasks = {}  # name: parents, inputs, outputs; a file is name and bytes


def scaled(size):
    return int(size * scale + 0.5)


if path.endswith(".json"):
    spec = json.load(open(path))["workflow"]["specification"]
    size = {f["id"]: scaled(f["sizeInBytes"]) for f in spec["files"]}
    for task in spec["tasks"]:
        tasks[task["id"]] = (list(task["parents"]), *([(n, size[n]) for n in task[k]] for k in ("inputFiles", "outputFiles")))
elif path.endswith(".txt"):
    lines = [line.split() for line in open(path)]
    maps = [tuple(scaled(int(n)) for n in line[1:3]) for line in lines if line[0] == "map"]
    reduces = [scaled(int(line[1])) for line in lines if line[0] == "reduce"]
    mapped = [("mapped-%d" % i, output) for i, (_, output) in enumerate(maps)]
    for i, (size, _) in enumerate(maps):
        tasks["map-%d" % i] = ([], [("block-%d" % i, size)], [mapped[i]])
    for i, size in enumerate(reduces):
        tasks["reduce-%d" % i] = (["map-%d" % m for m in range(len(maps))], mapped, [("reduced-%d" % i, size)])
else:
    root = xml.parse(path).getroot()
    space = root.tag[:-len("adag")]
    for job in root.iter(space + "job"):
        uses = [(u.get("link"), u.get("file"), scaled(float(u.get("size")))) for u in job.iter(space + "uses")]
        tasks[job.get("id")] = ([], *([(n, s) for link, n, s in uses if link == k] for k in ("input", "output")))
    for child in root.iter(space + "child"):
        tasks[child.get("ref")][0].extend(p.get("ref") for p in child)

writers = {}
for name, (_, _, outputs) in tasks.items():
    for file, _ in outputs:
        writers.setdefault(file, set()).add(name)
content = {}
for _, inputs, _ in tasks.values():
    for file, size in inputs:
        if file not in writers:
            line = file + " comes from outside\n"
            content[file] = (line * (1 + size // len(line))).encode()


def name_of(file, task):
    return file if len(writers[file]) == 1 else file + "." + task


def run(name):
    parents, inputs, outputs = tasks[name]
    read = {}
    for file, _ in inputs:
        if len(writers.get(file, ())) < 2:
            read[file] = 1
        else:
            read.update((name_of(file, p), 1) for p in parents if p in writers[file])
    hash = hashlib.sha256(b"".join(content[file] for file in read)).hexdigest()
    for file, size in outputs:
        line = ("%s %s\n" % (name_of(file, name), hash)).encode()
        content[name_of(file, name)] = (line * (1 + size // len(line)))[:max(size, len(line))]


done = set()
for name in tasks:
    stack = [name]
    while stack:
        waits = [p for p in tasks[stack[-1]][0] if p not in done]
        if waits:
            stack.extend(waits)
            continue
        last = stack.pop()
        if last not in done:
            run(last)
            done.add(last)
for file, bytes in content.items():
    open(file, "wb").write(bytes)
print(len(done))
