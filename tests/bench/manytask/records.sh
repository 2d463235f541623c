#!/bin/bash
# usage: records.sh FOLDER-OF-THE-PROGRAMS FOLDER-OF-THE-BENCHMARKS
# Tasks with a record each, the builtin noop, through `htc flow run` on 2 slots: fan-out and fan-in of degree 4, with the store in memory and with
# every change synced. The store of the system counts its operations (db.metrics); kv_load then asks the same store for as many of each kind, by
# two connections, with as many in a request as the run had; synced with as many changes on their way as the run had in a commit, in memory with
# DEPTH requests on each connection, as a worker has of reads. The goal is half of what kv_load has: the run in no more than twice its time.
# One line a row, the median of RUNS. Beside the rate: operations a task by kind, operations in a request, requests on their way, and what
# kv_load takes for each kind. TASKS=50000, RUNS=3, DEPTH=4.
set -euo pipefail
programs=$(realpath "$1") benches=$(realpath "$2")
source=$(cd "$(dirname "$0")/../../.." && pwd)
dir=$(mktemp -d)
cleanup() { "$programs/htc" --dir "$dir/s" down --now > /dev/null 2>&1 || true; rm -rf "$dir"; }
trap cleanup EXIT
exec 9>> "${BENCH_LOCK:-/tmp/bench.lock}"
flock 9
TASKS=${TASKS:-50000} RUNS=${RUNS:-3} DEPTH=${DEPTH:-4} PYTHONPATH=$source/tests/live \
    python3 - "$programs" "$benches" "$dir" 9>&- << 'END_OF_PYTHON'
import json, os, re, statistics, subprocess, sys, urllib.request
import ports
programs, benches, top = sys.argv[1:]
tasks, runs = int(os.environ["TASKS"]), int(os.environ["RUNS"])
state, degree, connections = os.path.join(top, "s"), 4, 2
synced = False
# What kv_load asks for instead: a new key, a compare-and-swap by version, a counter; all else is read, as a get.
AS = {"put": "new", "cas_version": "cas", "cas_value": "cas", "delete": "cas", "append": "put", "add": "add"}

def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout

def write(shape):
    name = os.path.join(top, shape)
    children = lambda i: range(i * degree + 1, min(i * degree + degree + 1, tasks))
    waits = {i: [] for i in range(tasks)}
    for i in range(tasks):
        for child in children(i):
            if shape == "fan-out":
                waits[child].append(i)
            else:
                waits[tasks - 1 - i].append(tasks - 1 - child)
    with open(name, "w") as f:
        for i in range(tasks):
            f.write(f"t{i}: {'after=' + ','.join(f't{p}' for p in waits[i]) + ' ' if waits[i] else ''}@noop\n")
    return name

def counters(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    operations = {}
    for kind, n in re.findall(r'^htc_kv_operations_total\{operation="(\w+)",outcome="\w+"\} (\d+)$', text, re.M):
        operations[kind] = operations.get(kind, 0) + int(n)
    return [operations] + [int(re.search(rf"^htc_kv_{name}_total (\d+)$", text, re.M)[1]) for name in ("requests", "batches")]

def kv_load(kind, n, batch, depth, fresh):
    """Seconds for n operations; the keys that are drawn from are put before the clock starts."""
    out = call(os.path.join(benches, "kv_load"), "-o", kind, "-c", str(connections), "-d", str(depth), "-b", str(batch), "-k", "20000", "-a", str(fresh),
               "-w", "0.05", "-s", "60", "-m", str(max(n, 2000)), "unix:" + os.path.join(state, "kvd.sock"))
    return n / json.loads(out)["per_s"]

def one(port, name, run):
    before, asked_before, commits_before = counters(port)
    seconds = json.loads(call(os.path.join(programs, "htc"), "--dir", state, "flow", "run", name, "--agents", "2", "--json"))["seconds"]
    after, asked, commits = counters(port)
    grown = {kind: after[kind] - before.get(kind, 0) for kind in after if after[kind] > before.get(kind, 0)}
    batch = max(1, round(sum(grown.values()) / (asked - asked_before)))
    kinds = {}
    for kind, n in grown.items():
        kinds[AS.get(kind, "get")] = kinds.get(AS.get(kind, "get"), 0) + n
    depth = int(os.environ["DEPTH"])
    if synced:
        together = sum(n for kind, n in grown.items() if kind in AS) / (commits - commits_before)
        depth = min(64, max(1, round(together / connections / batch)))
    took = {kind: kv_load(kind, n, batch, depth, run * 100000000 + 1) for kind, n in kinds.items()}
    return {"seconds": seconds, "bound": sum(took.values()), "grown": grown, "batch": batch, "depth": depth, "took": took}

for mode in ("memory", "sync"):
    synced = mode == "sync"
    port = ports.row(1)
    with open(os.path.join(top, "htc.ini"), "w") as f:
        f.write(f"[db]\nmode = {mode}\nmetrics = 127.0.0.1:{port}\n")
    call(os.path.join(programs, "htc"), "--dir", state, "up", "--slots", "2", "--config", os.path.join(top, "htc.ini"))
    warm = os.path.join(top, "warm")
    with open(warm, "w") as f:
        f.write("".join(f"w{i}: @noop\n" for i in range(100)))
    call(os.path.join(programs, "htc"), "--dir", state, "flow", "run", warm, "--agents", "2")
    for at, shape in enumerate(("fan-out", "fan-in")):
        name = write(shape)
        rows = [one(port, name, at * runs + run + 1) for run in range(runs)]
        rows.sort(key=lambda r: r["bound"] / r["seconds"])
        r = rows[len(rows) // 2]
        ratio = r["bound"] / r["seconds"]
        print(f"{mode}, {shape}: {tasks / r['seconds']:.0f} tasks a second; kv_load could have had {tasks / r['bound']:.0f}: {ratio:.3f} of it "
              f"({rows[0]['bound'] / rows[0]['seconds']:.3f}-{rows[-1]['bound'] / rows[-1]['seconds']:.3f}), goal 0.5: {'met' if ratio >= 0.5 else 'missed'}; "
              f"operations a task {', '.join(f'{k} {n / tasks:.2f}' for k, n in sorted(r['grown'].items()) if n * 100 >= tasks)}, {r['batch']} in a request, {r['depth']} requests of kv_load on their way; "
              f"kv_load: {', '.join(f'{k} {s:.2f} s' for k, s in sorted(r['took'].items()))}", flush=True)
    call(os.path.join(programs, "htc"), "--dir", state, "down", "--now")
    subprocess.run(["rm", "-rf", state], check=True)
END_OF_PYTHON
