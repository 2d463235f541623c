#!/usr/bin/env python3
"""usage: ndebug.py BUILD_FOLDER LIBRARY on|off

Assertions: a library of a build that tests has them (on), an installed release has none (off). What has assertions also compiles
without them, with no warning: nothing is left that only an assertion looked at."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

build, library, asserts = sys.argv[1:]
source = os.environ["SOURCE"]


def uses(path):
    with open(path, encoding="utf-8") as file:
        return "<assert.h>" in file.read()


def commands():
    """Of each file of lib/ and examples/ with assertions: its path, and the command that looks at it without them."""
    seen = set()
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        if not re.match(r"(lib|examples)/", os.path.relpath(path, source)) or path in seen or not uses(path):
            continue
        seen.add(path)
        words = shlex.split(entry["command"])
        words = words[:words.index("-MD")] + ["-fsyntax-only", "-Werror", "-DNDEBUG", "-c", path]
        yield path, words, entry["directory"]


def compile_one(job):
    path, words, folder = job
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return path, done.returncode, done.stderr


failed = 0
symbols = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
if ("__assert_fail" in symbols) != (asserts == "on"):
    print(f"{library}: assertions should be {asserts}")
    failed = 1
headers = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(source, "lib")) for name in names
           if name.endswith(".h")]
for path in filter(uses, headers):
    print(f"{os.path.relpath(path, source)}: an assertion in a header is not looked at here; move it into a .c file")
    failed = 1
count = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for path, status, said in pool.map(compile_one, commands()):
        count += 1
        if status:
            print(f"{os.path.relpath(path, source)} without assertions:\n{said}")
            failed = 1
if count == 0:
    print("no file with assertions was found")
    failed = 1
print(f"{count} files with assertions compile without them")
sys.exit(failed)
