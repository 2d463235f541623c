#!/usr/bin/env python3
"""usage: shares.py PROGRAM_FOLDER
Fair shares over two sites, with real agents: one site of this machine and one of the emulated batch system, under one htc up, ten slots each. The worked example of the
specification (htcaas 3.5; rows 4, 6 and 14 of its section 7) is followed row by row: queues, slots, marks and shares of each user. It is the table's hundred cores
and its jobs divided by five. With HTC_TEST_FULL also the table of maxmin, static and fcfs, weights (row 19), a project's weight, and a quota that is spent (row 26).

No clock decides: each task waits for a line from a pipe of its own, and ends when the test writes it.
"""
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import ports

BIN = os.path.abspath(sys.argv[1])
HTC = os.path.join(BIN, "htc")
WHO = {}  # whose system it is, if not ours
FULL = os.environ.get("HTC_TEST_FULL")
USERS = ("ada", "ben", "cy")
PERSON = 65105  # whose system it is, where root runs the test: tasks of a batch system have the uid of its owner
LONG = 120  # seconds after which something counts as not coming


def fail(text):
    print("FAILED:", text, file=sys.stderr)
    raise SystemExit(1)


def htc(*args, rc=0):
    p = subprocess.run([HTC, "--dir", STATE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, cwd=TOP, **WHO)
    if p.returncode != rc:
        fail(f"htc {' '.join(args)}: exit code {p.returncode}, not {rc}: {p.stdout} {p.stderr}")
    return p.stdout


def users():
    return {u["name"]: u for u in json.loads(htc("users", "--json"))["users"]}


def soon(good, what):
    """Until good() is true; what() tells what is there instead."""
    end = time.monotonic() + LONG
    while not good():
        if time.monotonic() > end:
            fail(what())
        time.sleep(0.03)


# ---- tasks that end when they are told ----

pipes = {}  # user: names of the newest job's pipes begin with this
made = 0


def submit(user, n, *options):
    global made
    made += 1
    prefix = os.path.join(PIPES, f"{made}.")
    for i in range(n):
        os.mkfifo(f"{prefix}{i}")
        os.chmod(f"{prefix}{i}", 0o666)
    pipes[user] = prefix
    out = htc("--user", user, "submit", "--json", *options, "--env", "N={n}", "--", "/bin/sh", "-c", f'read x < {prefix}"$N"', ":::", f"n=0:{n - 1}")
    return json.loads(out)["id"]


def end_tasks(user, first, last):
    """Tasks first to last of the user's newest job end; they run."""
    for i in range(first, last + 1):
        deadline = time.monotonic() + LONG
        while True:
            try:
                fd = os.open(f"{pipes[user]}{i}", os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as e:
                if e.errno != errno.ENXIO or time.monotonic() > deadline:
                    fail(f"task {i} of {user} does not run: {e}")
                time.sleep(0.01)
        os.write(fd, b"end\n")
        os.close(fd)


# ---- the system ----

def up(fair):
    port = ports.row(2)
    with open(os.path.join(TOP, "htc.ini"), "w", encoding="ascii") as f:
        f.write(f"""[server]
join = 127.0.0.1:{port}
[db]
join = 127.0.0.1:{port + 1}
[fair]
tick_s = 3600
{fair}
[agent]
prefetch = 1
heartbeat_s = 1
relaunch_backoff_s = 0.1
[task]
others_as_owner = confined
confined_paths = {PIPES}
[site.local]
cores = 10
[site.emu]
adapter = emu
cores = 10
period_s = 0.1
users = ada, ben, cy
[emu]
service_s = 0.01
""")
    htc("up", "--config", os.path.join(TOP, "htc.ini"))
    agents = lambda: json.loads(htc("agents", "--json"))
    soon(lambda: agents()["slots"] == 20, lambda: f"not all sites are there: {htc('sites')}")


def rows(text, **want):
    """want: of each user what USER has, as 'agents/queued/draining/ra/base'; '-' is anything."""
    fields = ("queued", "agents", "draining", "ra", "base")

    def differs(name, columns):
        u = users()[name]
        return [f"{f} {u[f]}" for f, c in zip(fields, columns.split("/")) if c != "-" and str(u[f]) != c]

    def there():
        return {n: [u[f] for f in fields] for n, u in users().items() if n in USERS}

    soon(lambda: not any(differs(n, c) for n, c in want.items()), lambda: f"{text}: wanted {want} ({'/'.join(fields)}), there is {there()}")
    print("ok:", text, want)


def at_both_sites(user):
    sites = {a["site"] for a in json.loads(htc("agents", "--json"))["agents"] if a["user"] == user}
    if sites != {"local", "emu"}:
        fail(f"{user} has agents at {sites}: {htc('agents')}")


def done():
    for name in USERS:
        htc("--user", name, "wait", "all")
    all_free()


def all_free():
    soon(lambda: json.loads(htc("agents", "--json"))["free"] == 20, lambda: f"slots are not free: {htc('agents')}")


# ---- the worked example: queued / slots / of them marked / share / base ----

def worked_example(policy):
    eq1 = policy == "eq1"
    up(f"policy = {policy}")
    submit("ada", 40)
    rows("t1 = 0, A comes", ada="20/20/0/20/20")
    at_both_sites("ada")
    submit("ben", 10)
    rows("t2 = 50, B comes", ada="20/20/10/10/10", ben="10/0/0/10/10")
    end_tasks("ada", 0, 19)
    rows("100, the first tasks of A end", ada="10/10/0/-/-", ben="0/10/0/-/-")
    rows("100, A alone has tasks that wait", ada="10/10/0/20/20" if eq1 else "10/10/0/10/10")
    submit("cy", 4)
    if eq1:
        rows("t3 = 150, C comes, nobody drains", ada="10/10/0/16/10", ben="0/10/0/-/-", cy="4/0/0/4/4")
    else:
        rows("t3 = 150, C comes, A and B make room", ada="10/10/2/8/8", ben="0/10/2/8/8", cy="4/0/0/4/4")
    end_tasks("ben", 0, 9)
    rows("160, the tasks of B end", ada="4/16/0/-/-", ben="0/0/0/0/0", cy="0/4/0/-/-")
    rows("160, A's share is limited by what is free", ada=f"4/16/0/{20 if eq1 else 16}/{20 if eq1 else 16}")
    end_tasks("ada", 20, 29)
    rows("200, tasks of A end, the last are begun", ada="0/10/0/-/-", cy="0/4/0/-/-")
    end_tasks("ada", 30, 35)
    end_tasks("cy", 0, 3)
    rows("260, tasks of A and of C end", ada="0/4/0/-/-", cy="0/0/0/-/-")
    end_tasks("ada", 36, 39)
    rows("300, the last tasks of A end", ada="0/0/0/0/0")
    done()
    attempts = [(j["tasks"]["done"], j["attempts"]) for n in USERS for j in json.loads(htc("--user", n, "status", "--json"))["jobs"]]
    if any(a != b for a, b in attempts):
        fail(f"not each task ran once: {attempts}")
    htc("down")


# ---- the other rules ----

def static():
    """Each has a third of 20 rounded down, whoever else is there."""
    up("policy = static\nusers = ada, ben, cy")
    submit("ada", 20)
    rows("static: A alone", ada="14/6/0/6/6")
    submit("ben", 10)
    submit("cy", 2)
    rows("static: three users", ada="14/6/0/6/6", ben="4/6/0/6/6", cy="0/2/0/-/-")
    end_tasks("cy", 0, 1)
    rows("static: what C left is nobody's", ada="14/6/0/6/6", ben="4/6/0/6/6", cy="0/0/0/0/0")
    for first, last in (0, 5), (6, 11), (12, 17), (18, 19):
        end_tasks("ada", first, last)
    end_tasks("ben", 0, 9)
    done()
    htc("down")


def fcfs():
    """Who comes first has all, and nobody is asked to make room."""
    up("policy = fcfs")
    submit("ada", 30)
    rows("fcfs: A has all", ada="10/20/0/-/-")
    submit("ben", 10)
    rows("fcfs: B waits", ada="10/20/0/-/-", ben="10/0/0/-/-")
    end_tasks("ada", 0, 9)
    rows("fcfs: A goes on", ada="0/20/0/-/-", ben="10/0/0/-/-")
    end_tasks("ada", 10, 19)
    rows("fcfs: B has what A left", ada="0/10/0/-/-", ben="0/10/0/-/-")
    end_tasks("ada", 20, 29)
    end_tasks("ben", 0, 9)
    done()
    htc("down")


def two_users(text, shares, *options, tasks=(60, 40)):
    """ada and ben ask for more than there is; shares: what they have when a task of each slot has ended."""
    submit("ada", tasks[0], *options)
    rows(f"{text}: A has all", ada=f"{tasks[0] - 20}/20/0/20/20")
    submit("ben", tasks[1], *options)
    rows(f"{text}: A makes room", ada=f"{tasks[0] - 20}/20/{shares[1]}/{shares[0]}/{shares[0]}", ben=f"{tasks[1]}/0/0/{shares[1]}/{shares[1]}")
    end_tasks("ada", 0, 19)
    rows(f"{text}: both have their share", ada=f"{tasks[0] - 20 - shares[0]}/{shares[0]}/0/{shares[0]}/-", ben=f"{tasks[1] - shares[1]}/{shares[1]}/0/{shares[1]}/-")


def cancel_all():
    for name in "ada", "ben":
        htc("--user", name, "cancel", "all")
    all_free()


def weights():
    up("policy = maxmin")
    htc("user", "set", "ada", "--weight", "3")
    two_users("weights 3:1", (15, 5))
    htc("user", "set", "ada", "--weight", "1")
    rows("weights 1:1", ada="25/15/5/10/10", ben="35/5/0/10/10")
    htc("user", "set", "ada", "--weight", "3")
    rows("weights 3:1 again, marks come off", ada="25/15/0/15/15", ben="35/5/0/5/5")
    cancel_all()
    # A project of three shares beside one of one, of which nothing was used yet.
    htc("user", "set", "ada", "--weight", "1")
    htc("project", "add", "zoo", "--shares", "3", "--users", "ada,ben")
    htc("project", "add", "arc", "--shares", "1", "--users", "ada,ben")
    submit("ada", 60, "--project", "zoo")
    rows("projects: A has all", ada="40/20/0/20/20")
    submit("ben", 40, "--project", "arc")
    rows("projects 3:1", ada="40/20/5/15/15", ben="40/0/0/5/5")
    cancel_all()
    htc("down")


def profiled():
    """A run time that is known of A counts for both, so the numbers of unfinished tasks are the weights: 30 beside 10."""
    up("policy = maxmin\nweight = profiled\ngamma = 1")
    submit("ada", 1)
    end_tasks("ada", 0, 0)
    rows("profiled: a task of A has ended", ada="0/0/0/0/0")
    submit("ada", 30)
    rows("profiled: A has all", ada="10/20/0/20/20")
    submit("ben", 10)
    rows("profiled, 3:1", ada="10/20/5/15/15", ben="10/0/0/5/5")
    cancel_all()
    htc("down")


def quota():
    """Core hours that are spent: the agents of A drain, what waits says why; raised, it goes on."""
    up("policy = maxmin")
    job = submit("ada", 30)
    rows("quota: A has all", ada="10/20/0/20/20")
    end_tasks("ada", 0, 0)
    rows("quota: a task has ended", ada="9/20/0/20/20")
    htc("quota", "ada", "--core-hours", "0.0000001")
    rows("quota: spent, all slots drain", ada="0/20/20/0/0")
    end_tasks("ada", 1, 20)
    rows("quota: none is left", ada="0/0/0/0/0")
    why = json.loads(htc("--user", "ada", "why", str(job), "--json"))
    if why["code"] != "Quota" or "core hours of ada" not in json.dumps(why):
        fail(f"why says {why}")
    tasks = json.loads(htc("--user", "ada", "status", str(job), "--json"))["jobs"][0]["tasks"]
    if tasks["waiting"] != 9 or tasks["done"] != 21:
        fail(f"tasks: {tasks}")
    htc("quota", "ada", "--core-hours", "none")
    rows("quota: raised, the queue goes on", ada="0/9/0/-/-")
    end_tasks("ada", 21, 29)
    all_free()
    htc("down")


def main():
    os.chmod(TOP, 0o711)
    if os.getuid() == 0:
        WHO.update(person())
    os.mkdir(PIPES)
    os.chmod(PIPES, 0o755)
    password = os.path.join(TOP, "password")
    with open(password, "w", encoding="ascii") as f:
        f.write("correct horse\n")
    with open(os.path.join(TOP, "plain.ini"), "w", encoding="ascii") as f:
        f.write(f"[task]\nothers_as_owner = confined\nconfined_paths = {PIPES}\n")
    said = htc("up", "--config", os.path.join(TOP, "plain.ini"))
    for name in USERS:
        htc("user", "add", name, "--password-file", password)
    htc("down")
    if "are refused" in said:
        print("skipped: tasks of other users are refused here:", said)
        raise SystemExit(77)
    worked_example("eq1")
    if FULL:
        worked_example("maxmin")
        static()
        fcfs()
        weights()
        profiled()
        quota()
    print("shares hold")


def person():
    """How subprocess runs somebody who is not root. Programs that only root can reach are copied."""
    global BIN, HTC
    os.chown(TOP, PERSON, PERSON)
    who = {"user": PERSON, "group": PERSON, "extra_groups": []}
    try:
        subprocess.run([HTC, "--version"], capture_output=True, check=True, cwd="/", **who)
    except (OSError, subprocess.CalledProcessError):
        there = os.path.join(TOP, "build", "examples")
        shutil.copytree(BIN, there, ignore=lambda folder, names: [n for n in names if os.path.isdir(os.path.join(folder, n))])
        for name in os.listdir(os.path.dirname(BIN)):
            if name.startswith("libhtcsched.so") and os.path.isfile(os.path.join(os.path.dirname(BIN), name)):
                shutil.copy(os.path.join(os.path.dirname(BIN), name), os.path.dirname(there), follow_symlinks=False)
        subprocess.run(["chmod", "-R", "go+rX", os.path.dirname(there)], check=True)
        BIN, HTC = there, os.path.join(there, "htc")
    return who


TOP = tempfile.mkdtemp(prefix="htc-shares.")
STATE = os.path.join(TOP, "state")
PIPES = os.path.join(TOP, "pipes")
os.environ["HOME"] = TOP
os.environ.pop("HTC_DIR", None)
try:
    main()
finally:
    if os.path.exists(os.path.join(STATE, "lock")):
        subprocess.run([HTC, "--dir", STATE, "down", "--now"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, **WHO)
    shutil.rmtree(TOP, ignore_errors=True)
