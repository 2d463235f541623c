#!/bin/bash
# What `htc generate` writes is the job that `htc submit` makes of the same options: for each option, and for some of them together, the records are equal.
source "$(dirname "$0")/live.sh"
d=$top/state
printf '[server]\nmail_command = /bin/true\n[site.local]\ngpus = 2\nres.wheel = 3\n' > "$top/htc.ini"
expect 0 "$htc" --dir "$d" up --slots 8 --config "$top/htc.ini"
export HTC_DIR=$d COLOUR='gr{e}en' HTC_PROGRAM=$htc
expect 0 "$htc" project add dock --users "$(id -un)"
printf 'one\ntwo\n' > lines
printf 'in the file\n' > words
printf '#!/bin/sh\necho over\n' > report.sh
chmod +x report.sh
cp report.sh tool
python3 - "${HTC_TEST_FULL-}" << 'END' || fail "documents that are other jobs"
import json, os, random, re, struct, subprocess, sys

htc = os.environ["HTC_PROGRAM"]

def run(*words, fine=True):
    p = subprocess.run([htc, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if fine and p.returncode:
        sys.exit("%s: %s" % (words, p.stderr.decode()))
    return p

def submitted(*words):
    p = run("submit", "--json", *words, fine=False)
    if p.returncode:
        return None, p.stderr
    return json.loads(p.stdout)["id"], b""

def of_store(kind, id):
    return run("kv", "get", "%s/%016x" % (kind, id if kind == "s" else ~id & (1 << 64) - 1)).stdout

class Reader:
    def __init__(self, data):
        self.data, self.at, self.out = data, 0, []
    def raw(self, n, keep=True):
        part = self.data[self.at:self.at + n]
        self.at += n
        if keep:
            self.out.append(part)
        return part
    def varint(self, keep=True):
        start, value, shift = self.at, 0, 0
        while True:
            b = self.data[self.at]
            self.at += 1
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                break
        if keep:
            self.out.append(self.data[start:self.at])
        return value
    def text(self, keep=True):
        return self.raw(self.varint(keep), keep)

def record(id, on_end):
    """The job's record but for its number, its key, what the request was, and when it came."""
    r = Reader(of_store("j", id))
    while r.data[r.at:r.at + 8] != struct.pack("<Q", id): # the record's head
        r.raw(1)
    r.raw(8, keep=False)
    r.text() # user
    r.out.append(re.sub(rb"job-\d+", b"job-N", r.text(keep=False))) # name
    r.varint()
    r.raw(8)
    for _ in range(3): r.varint()
    r.raw(4)
    r.varint()
    for _ in range(3): r.text()
    key = r.text(keep=False)
    r.raw(16 if key else 0, keep=False)
    r.raw(24, keep=False)
    return r.out + [r.data[r.at:].replace(struct.pack("<Q", id + 1), b"END") if on_end else r.data[r.at:]]

first, _ = submitted("--hold", "--", "true")
image = os.getcwd()
cases = {
    "name": ["-J", "two <words> & more"], "time": ["-t", "90s"], "mem": ["-m", "64M"], "cores": ["-c", "2"], "node-cores": ["-c", "4", "--node-cores", "2"],
    "gpus": ["--gpus", "1"], "arch": ["--arch", os.uname().machine], "os": ["--os", "LINUX"], "hosts": ["--hosts", os.uname().nodename + ",other"], "res": ["--res", "wheel=2"], "container": ["--container", image], "input": ["-i", "words", "-i", "also=lines"], "target": ["--target", "out=https://example.org/r?a=b&c", "--target", "sub/log=ftp://example.org/l"],
    "env": ["--env", "COLOUR", "--env", "SIZE=9"], "array": ["--array", "1-11:2,20%2"], "workdir": ["--workdir", "here"], "stdin": ["--stdin", "report.sh"],
    "each-line": ["--each-line", "lines"], "retries": ["--retries", "7"], "project": ["--project", "dock"], "priority": ["--priority", "-5"],
    "max-running": ["--max-running", "3"], "begin": ["--begin", "2031-12-01T08:00"], "signal": ["--signal", "USR1@60"],
    "on-end": ["--on-end", "./report.sh 'a < b'"], "mail-to": ["--mail-to", "ada@example.org"], "mail-on": ["--mail-to", "ada@example.org", "--mail-on", "fail"],
    "after": ["--after", "%d:any" % first], "output": ["--output", "out-%j-%a"], "error": ["--error", "err-%a"], "compat": ["--compat", "slurm"], "hold": [],
}
alone = {"wait", "key", "dry-run", "credentials"} # of the submission, and not of the job
asked = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", run("submit", "--help").stdout.decode(), re.M))
common = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", run("sites", "--help").stdout.decode(), re.M))
missing = asked - common - alone - set(cases)
if missing:
    sys.exit("options of submit that are not tried here: %s" % sorted(missing))

def same(name, words, command):
    direct, why = submitted("--hold", *words, "--", *command)
    made = run("generate", "--hold", *words, "--out", "job.jsdl", "--", *command, fine=False)
    by_document, why2 = submitted("job.jsdl") if made.returncode == 0 else (None, made.stderr)
    if not direct or not by_document:
        if direct or by_document or why != why2:
            sys.exit("%s: one is refused: %s%s" % (name, why.decode(), why2.decode()))
        return 0
    if of_store("s", direct) != of_store("s", by_document):
        sys.exit("%s: tasks differ: %s" % (name, open("job.jsdl").read()))
    if record(direct, "--on-end" in words) != record(by_document, "--on-end" in words):
        sys.exit("%s:\n%s\n%s\n%s" % (name, record(direct, "--on-end" in words), record(by_document, "--on-end" in words), open("job.jsdl").read()))
    if run("validate", "job.jsdl").stderr:
        sys.exit("%s: %s" % (name, run("validate", "job.jsdl").stderr))
    return 1

tried = sum(same(name, words, ["./tool", "x{}" if name == "each-line" else "x"]) for name, words in sorted(cases.items()))
if tried < len(cases) - 1: # tasks of several nodes need a site that has them
    sys.exit("only %d options were tried" % tried)
seed = random.randrange(1 << 30)
rng = random.Random(seed)
for i in range(200 if sys.argv[1] else 8):
    names = rng.sample(sorted(set(cases) - {"mail-on", "node-cores"}), rng.randrange(2, 12))
    same("seed %d: %s" % (seed, names), [w for n in names for w in cases[n]], ["./tool", "{}" if "each-line" in names else "x"])
END
unset HTC_DIR
expect 0 "$htc" --dir "$d" down
none_left
echo "generate: all is well"
