#!/usr/bin/env python3
"""Kill -9 of random agents, gateway and store at random moments while fast tasks run.

Every task ends with exactly one committed result, the same as in a serial run; no status is ever impossible; tasks of a
living agent go on. Prints its seed; HTC_TEST_SEED repeats one, HTC_TEST_FULL=1 kills for longer and has a job of 10,000 tasks, HTC_TEST_LIGHT=1 kills for less.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
HTC = os.path.join(BIN, "htc")
FULL, LIGHT = os.environ.get("HTC_TEST_FULL") == "1", "HTC_TEST_LIGHT" in os.environ
SECONDS = int(os.environ.get("HTC_KILL_S", 900 if FULL else 20 if LIGHT else 45))
SEED = int(os.environ.get("HTC_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
TASKS = 400  # of a job, but for the first in the long form:
FIRST = int(os.environ.get("HTC_KILL_TASKS", 10000 if FULL else TASKS))
LEAST = FIRST + (0 if LIGHT else 2 * TASKS)  # tasks in all, however slow the machine is
LONGEST = 5  # seconds: a task sleeps for 0.05 s at most, on a machine that may be slow
STATES = ["waiting", "leased", "running", "staging_out", "retry_wait", "done", "failed", "cancelled"]
INI = """[agent]
heartbeat_s = 0.3
lost_after_s = 2
launch_timeout_s = 5
max_relaunch = 1000
relaunch_backoff_s = 0.05
[task]
max_lost = 100000
[fair]
tick_s = 0.2
"""


def fail(text):
    print("FAILED:", text, file=sys.stderr)
    for name in ("supervisor.log", "gateway.log", "kvd.log", "gateway.out", "kvd.out"):
        try:
            lines = open(os.path.join(STATE, "log", name), errors="replace").read().splitlines()[-15:]
            print("---", name, *lines, sep="\n", file=sys.stderr)
        except OSError:
            pass
    raise SystemExit(1)


def htc(*args, check=True, timeout=900):
    r = subprocess.run([HTC, "--dir", STATE, *args], capture_output=True, text=True, timeout=timeout)
    if check and r.returncode != 0:
        fail(f"htc {' '.join(args)}: exit code {r.returncode}: {r.stdout} {r.stderr}")
    return r


def daemons():
    """(name, pid) of the programs that run on this state directory."""
    found = []
    for p in os.listdir("/proc"):
        if not p.isdigit():
            continue
        try:
            words = open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        name = os.path.basename(words[0].decode(errors="replace"))
        if name in ("htc-kvd", "htc-gateway", "htc-agent") and STATE.encode() in words:
            found.append((name, int(p)))
    return found


def check_status(last_done):
    """One look at all jobs; a gateway that is just being started again is not an error."""
    r = htc("status", "--json", check=False)
    if r.returncode not in (0, 3, 6):
        fail(f"status: exit code {r.returncode}: {r.stdout}")
    if r.returncode != 0:
        return 0
    for job in json.loads(r.stdout)["jobs"]:
        counts = job["tasks"]
        if any(counts[s] < 0 for s in STATES) or sum(counts[s] for s in STATES) != job["count"]:
            fail(f"impossible counts: {job}")
        if counts["done"] < last_done.get(job["id"], 0):
            fail(f"done tasks became fewer ({last_done[job['id']]}): {job}")
        if counts["failed"] or counts["cancelled"]:
            fail(f"a task failed: {job} {htc('tasks', str(job['id']), '--failed', check=False).stdout}")
        last_done[job["id"]] = counts["done"]
    return 1


def jobs():
    """How many tasks each job has."""
    return {j["id"]: j["count"] for j in sorted(json.loads(htc("status", "--json").stdout)["jobs"], key=lambda j: j["id"])}


def usage():
    users = json.loads(htc("users", "--json").stdout)
    user = (users if isinstance(users, list) else users["users"])[0]
    return user["tasks_done"], user["core_s"]


def check_usage(counts):
    """What was used is what the results say, and what attempts took that ended without the last result; also after the jobs were removed and the
    gateway killed again.

    An attempt that was lost with its agent counts until that was heard last. One whose process was killed has a result, which counts, and the
    report has the last one alone: it happens where what is killed as an agent is its child, just before that becomes the task."""
    done, core_s = usage()
    total = sum(counts.values())
    ran = sum(j["run_s"] for j in json.loads(htc("report", "--json", *map(str, counts)).stdout)["jobs"])
    tasks = [t for i in counts for t in json.loads(htc("tasks", str(i), "--limit", str(counts[i]), "--json").stdout)["tasks"]]
    if len(tasks) != total:
        fail(f"{len(tasks)} tasks are listed of {total}")
    ended = sum(t["tries"] + t["lost"] for t in tasks)
    if done != total or core_s < ran - 1e-3 or core_s > ran + 1e-3 + ended * LONGEST:
        fail(f"{done} tasks and {core_s} s are counted, and the results are {total} tasks of {ran} s, with {ended} killed or lost besides")
    htc("rm", "all")
    for name, pid in daemons():
        if name == "htc-gateway":
            os.kill(pid, signal.SIGKILL)
    for _ in range(600):
        if htc("users", check=False).returncode == 0 and not os.listdir(os.path.join(STATE, "data", "out")):
            break
        time.sleep(0.1)
    else:
        fail(f"removed jobs are still there: {[d for d in os.walk(os.path.join(STATE, 'data', 'out'))]}")
    if usage() != (done, core_s):
        fail(f"{usage()} is counted after rm, and it was {(done, core_s)}")


def main():
    rng = random.Random(SEED)
    print(f"seed {SEED}, {SECONDS} s")
    os.chdir(TOP)
    with open("htc.ini", "w") as f:
        f.write(INI)
    with open("task.sh", "w") as f:
        f.write('#!/bin/sh\n[ "$2" = 0 ] || sleep "$2"\necho "$1 squared is $(($1 * $1))" > "$HTC_OUTPUT_DIR/result.txt"\n')
    os.chmod("task.sh", 0o755)
    htc("up", "--slots", "4", "--config", "htc.ini", "--pause-max", "0.2s")
    counts, last_done, kills, looks = {}, {}, {}, 0
    until = time.monotonic() + SECONDS
    # For so long, and until there were enough for a verdict: a slow machine needs longer for as many.
    while time.monotonic() < until or sum(kills.values()) < SECONDS / 2 or len(kills) < 3 or sum(counts.values()) < LEAST or sum(last_done.values()) < LEAST - TASKS:
        unfinished = sum(counts.values()) - sum(last_done.values())
        if unfinished < TASKS:
            # Not while somebody may be killed under it: an acknowledgement that is lost leaves the outcome open.
            for _ in range(200):
                r = htc("submit", "--json", "--", "task.sh", "{n}", rng.choice(["0", "0.01", "0.05"]), ":::",
                        f"n=1:{TASKS if counts else FIRST}", check=False)
                if r.returncode == 0:
                    break
                if r.returncode not in (3, 6):
                    fail(f"submit: {r.stdout}")
                time.sleep(0.1)
                counts = jobs()
            counts = jobs()
        time.sleep(rng.choice([0.02, 0.1, 0.3]) * rng.random() * 2)
        victims = daemons()
        name = rng.choice(["htc-agent", "htc-agent", "htc-gateway", "htc-kvd"])
        victims = [v for v in victims if v[0] == name]
        if victims:
            victim = rng.choice(victims)
            try:
                os.kill(victim[1], signal.SIGKILL)
                kills[name] = kills.get(name, 0) + 1
            except ProcessLookupError:
                pass
        looks += check_status(last_done)
    print("kills:", kills, "looks at status:", looks, "jobs:", len(counts), "done before the end:", sum(last_done.values()))
    for i in counts:
        htc("wait", str(i), timeout=1800)
    check_status(last_done)
    total = sum(counts.values())
    if sum(last_done.values()) != total or total < LEAST or max(counts.values()) != max(FIRST, TASKS):
        fail(f"{sum(last_done.values())} tasks of {counts} are done: all have to be, at least {LEAST}, with {FIRST} in one job")
    for i, count in counts.items():
        htc("fetch", str(i), "--to", f"results-{i}")
        manifest = json.load(open(f"results-{i}/manifest.json"))
        if [t["index"] for t in manifest["tasks"]] != list(range(count)):
            fail(f"job {i}: the result set has not each task once")
        for n in range(1, count + 1):
            text = open(f"results-{i}/{n - 1}/result.txt").read()
            if text != f"{n} squared is {n * n}\n":
                fail(f"job {i}, task {n - 1}: {text!r}")
    check_usage(counts)
    htc("down")
    for name in os.listdir(os.path.join(STATE, "log")):
        if name.endswith(".out") and os.path.getsize(os.path.join(STATE, "log", name)):
            fail(f"a daemon said: {open(os.path.join(STATE, 'log', name), errors='replace').read(2000)}")
    left = daemons()
    if left:
        fail(f"processes are left: {left}")
    print(f"kill: {sum(kills.values())} kills, {total} tasks, each with its one result")


TOP = tempfile.mkdtemp(prefix="htc-kill.")
STATE = os.path.join(TOP, "state")
try:
    main()
finally:
    subprocess.run([HTC, "--dir", STATE, "down", "--now"], capture_output=True)
    for _, pid in daemons():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(TOP, ignore_errors=True)
