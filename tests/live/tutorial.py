#!/usr/bin/env python3
"""Runs every command of doc/tutorial.md, word by word, and compares what it prints, numbers and times aside."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "tutorial.md")
# What depends on the moment or on the machine: these only have to succeed.
MOMENTARY = ("htc status", "htc why", "htc users", "htc cancel", "htc report", "htc tasks")


def commands():
    """(command with its here-document, expected output) in order; building is not repeated."""
    found = []
    text = open(TEXT).read().split("## A program and its parameters", 1)[1]
    in_document = False
    for line in text.splitlines():
        if not line.startswith("    "):
            continue
        line = line[4:]
        if in_document:
            found[-1][0] += "\n" + line
            in_document = line != "END"
        elif line.startswith("$ "):
            found.append([line[2:], []])
            in_document = "<< 'END'" in line
        else:
            found[-1][1].append(line)
    return found


def plain(line):
    line = line.replace(os.path.join(os.path.realpath(TOP), "htc-state"), "/htc-state")
    return " ".join(re.sub(r"/\S*htc-state", "STATE", re.sub(r"[0-9.]+", "#", line)).split())


def main():
    env = dict(os.environ, PATH=BIN + ":" + os.environ["PATH"], HOME=TOP)
    env.pop("HTC_DIR", None)
    n = 0
    for command, expected in commands():
        r = subprocess.run(["bash", "-c", command], cwd=TOP, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=300)
        code = 5 if any("tasks failed" in line for line in expected) else 0
        momentary = command.startswith(MOMENTARY)
        same = [plain(x) for x in r.stdout.splitlines()] == [plain(x) for x in expected]
        if r.returncode != code or not (same or momentary):
            print(f"FAILED: $ {command}\nexit code {r.returncode}, printed:\n{r.stdout}expected:", *expected, sep="\n")
            return 1
        n += 1
    print(f"tutorial: {n} commands did what it says")
    return 0 if n > 20 else 1


TOP = tempfile.mkdtemp(prefix="htc-tutorial.")
try:
    code = main()
finally:
    subprocess.run([os.path.join(BIN, "htc"), "--dir", os.path.join(TOP, "htc-state"), "down", "--now"], capture_output=True)
    shutil.rmtree(TOP, ignore_errors=True)
sys.exit(code)
