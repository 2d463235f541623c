#!/usr/bin/env python3
"""Gateway or store are stopped (SIGSTOP): no command waits for ever, a submission says how it is repeated, and repeated it is one job.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
HTC = os.path.join(BIN, "htc")
LONG = 120  # seconds after which a command counts as one that waits for ever; each has a time-out of one


def fail(text):
    print("FAILED:", text, file=sys.stderr)
    raise SystemExit(1)


def start(*args):
    return subprocess.Popen([HTC, "--dir", STATE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(p, args):
    try:
        out, err = p.communicate(timeout=LONG)
    except subprocess.TimeoutExpired:
        p.kill()
        fail(f"htc {' '.join(args)} waits for ever")
    return p.returncode, out, err


def htc(*args, rc=0):
    got, out, err = end(start(*args), args)
    if got != rc:
        fail(f"htc {' '.join(args)}: exit code {got}, not {rc}: {out} {err}")
    return out, err


def daemon(name):
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0].decode(errors="replace")) == name and STATE.encode() in words:
            return int(p)
    fail(f"there is no {name}")


COMMANDS = [
    ["status"], ["status", "1"], ["status", "last"], ["tasks", "1"], ["why", "1"], ["why", "--user", "root"], ["logs", "1"], ["logs", "1", "-f"],
    ["fetch", "1", "--to", "fetched"], ["wait", "1"], ["wait", "all"], ["cancel", "1"], ["release", "1"], ["retry", "1", "--failed"], ["rm", "2"],
    ["users"], ["agents"], ["report"], ["user", "add", "anna", "--password-file", "password"],
    ["login", "bert", "--password-file", "password"], ["submit", "--", "true"], ["submit", "--wait", "--", "true"], ["submit", "-i", "fresh", "--", "true"],
    ["kv", "get", "x"], ["kv", "put", "x", "y"], ["kv", "scan"],
]


def all_end():
    """Every command ends."""
    started = [(args, start(args[0], *args[1:args.index("--")], "--timeout", "1s", *args[args.index("--"):]) if "--" in args
                else start(*args, "--timeout", "1s")) for args in COMMANDS]
    results = {}
    for args, p in started:
        rc, out, err = end(p, args)
        if rc < 0 or rc == 70:
            fail(f"htc {' '.join(args)}: exit code {rc}: {out} {err}")
        results[" ".join(args)] = (rc, err)
    return results


def repeats(name):
    """A submission to a system whose daemon of this name is stopped; the key that it tells is that of one job."""
    before = len(json.loads(htc("status", "--json")[0])["jobs"])
    pid = daemon(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        results = all_end()
        for args, (rc, err) in results.items():
            if name == "htc-gateway" and rc != 6 and not args.startswith("kv"):
                fail(f"htc {args}: exit code {rc} with no gateway to answer")
            if rc == 6 and "answer" not in err and "time" not in err.lower():
                fail(f"htc {args} does not say what is missing: {err}")
        p = start("submit", "--json", "--key", "mine-" + name, "--timeout", "1s", "--", "true")
        rc, out, err = end(p, ["submit"])
        if rc != 6 or (name == "htc-kvd" and json.loads(out).get("key") != "mine-" + name):
            fail(f"submit --key: exit code {rc}: {out} {err}")
    finally:
        os.kill(pid, signal.SIGCONT)
    for _ in range(300):  # the store may have taken the first
        rc, out, err = end(start("submit", "--json", "--key", "mine-" + name, "--", "true"), ["submit"])
        if rc == 0:
            break
        time.sleep(0.1)
    else:
        fail(f"submit again: exit code {rc}: {out} {err}")
    job = json.loads(out)["id"]
    if json.loads(htc("submit", "--json", "--key", "mine-" + name, "--", "true")[0])["id"] != job:
        fail("a repeated submission makes another job")
    rc, out, err = end(start("submit", "--key", "mine-" + name, "--", "false"), ["submit"])
    if rc == 0 or f"job {job}" not in err:
        fail(f"a key of another job is taken: {rc} {out} {err}")
    same = [j for j in json.loads(htc("status", "--json")[0])["jobs"] if j["id"] >= job and j["id"] > before]
    print(f"{name}: job {job} of its key, {len(same)} jobs since; htc {len(COMMANDS)} commands ended")


def main():
    os.chdir(TOP)
    for name in ("password", "fresh"):
        with open(name, "w") as f:
            f.write("secret\n")
    htc("up", "--slots", "2")
    htc("user", "add", "bert", "--password-file", "password")
    htc("submit", "--", "sleep", "600")
    htc("submit", "--wait", "--", "true")
    repeats("htc-gateway")
    repeats("htc-kvd")
    htc("cancel", "all")
    htc("down", "--now")


TOP = tempfile.mkdtemp(prefix="htc-stopped.")
STATE = os.path.join(TOP, "state")
try:
    main()
finally:
    subprocess.run([HTC, "--dir", STATE, "down", "--now"], capture_output=True)
    shutil.rmtree(TOP, ignore_errors=True)
