#!/bin/bash
# usage: simulated.sh FOLDER-OF-THE-PROGRAMS
# A bag of sleeping tasks, each with a record, through `htc flow run` on 1 to 8 workers of one slot each, and the same bag through `htc-sim flow`:
# efficiency and throughput, live and simulated, and how far they are apart. What a task takes of its slot beside its length is calibrated in
# the same run with the same workers, by tasks of 20 ms; those of 10, 50 and 100 ms are predicted. By the records of the tasks, from the first that
# begins to the last that ends. Medians of RUNS=5; WORKERS="1 2 4 8", LENGTHS="10 50 100" (ms), SECONDS_EACH=4.
set -euo pipefail
programs=$(realpath "$1")
dir=$(mktemp -d)
cleanup() { "$programs/htc" --dir "$dir/s" down --now > /dev/null 2>&1 || true; rm -rf "$dir"; }
trap cleanup EXIT
exec 9>> "${BENCH_LOCK:-/tmp/bench.lock}"
flock 9
printf '[agent]\nslots_max = 1\n' > "$dir/htc.ini" # so that each slot is an agent, and each agent a worker
"$programs/htc" --dir "$dir/s" up --slots 8 --config "$dir/htc.ini" > /dev/null 9>&-
RUNS=${RUNS:-5} WORKERS=${WORKERS:-1 2 4 8} LENGTHS=${LENGTHS:-10 50 100} SECONDS_EACH=${SECONDS_EACH:-4} python3 - "$programs" "$dir" 9>&- << 'END_OF_PYTHON'
import json, os, statistics, subprocess, sys
programs, top = sys.argv[1:]
runs, each = int(os.environ["RUNS"]), float(os.environ["SECONDS_EACH"])
state, calibrated = os.path.join(top, "s"), 20

def call(program, *words):
    done = subprocess.run([os.path.join(programs, program), *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} {' '.join(words)}: {done.stderr}")
    return done.stdout

def bag(ms, workers):
    """Tasks with a record each: their lengths differ by a microsecond at most."""
    name, n = os.path.join(top, f"{ms}ms.{workers}"), int(each * workers * 1000 / ms)
    with open(name, "w") as f:
        f.write(call("htc", "flow", "write", "--shape", "bot", "--tasks", str(n), "--length", f"{ms}ms:{ms * 1000 + 1}us", "--to", "text"))
    return name, n

def live(name, workers):
    """Seconds. Every worker has to have run some: with fewer it would be another machine."""
    for _ in range(10):
        flow = json.loads(call("htc", "--dir", state, "flow", "run", name, "--agents", str(workers), "--json"))["flow"]
        tasks = json.loads(call("htc", "--dir", state, "flow", "tasks", str(flow), "--json"))
        call("htc", "--dir", state, "flow", "rm", str(flow))
        if len({t["worker"] for t in tasks}) == workers:
            return max(t["ended"] for t in tasks) - min(t["started"] for t in tasks)
    sys.exit(f"{name}: ten runs, and never {workers} workers")

def simulated(name, workers, start):
    return json.loads(call("htc-sim", "flow", name, "--workers", str(workers), "--slots", "1", "--layout", "each", "--start", f"{max(start, 0) * 1e9:.0f}ns", "--json"))

for workers in map(int, os.environ["WORKERS"].split()):
    files = {ms: bag(ms, workers) for ms in [calibrated] + list(map(int, os.environ["LENGTHS"].split()))}
    rows = {ms: {"live": [], "sim": []} for ms in files if ms != calibrated}
    starts = []
    for run in range(runs):
        starts.append(live(files[calibrated][0], workers) * workers / files[calibrated][1] - calibrated / 1000)
        for ms, row in rows.items():
            name, n = files[ms]
            span = live(name, workers)
            row["live"].append((ms / 1000 * n / workers / span, n / span))
            sim = simulated(name, workers, starts[-1])
            row["sim"].append((sim["efficiency"], sim["tasks_per_s"]))
    print(f"{workers} workers: a task takes {statistics.median(starts) * 1e6:.0f} us of its slot beside its length (least {min(starts) * 1e6:.0f}, most {max(starts) * 1e6:.0f})")
    for ms, row in rows.items():
        middle = {how: [statistics.median(x[i] for x in row[how]) for i in (0, 1)] for how in row}
        apart = [middle["sim"][i] / middle["live"][i] - 1 for i in (0, 1)]
        print(f"{workers} workers, {ms} ms: efficiency live {middle['live'][0]:.4f}, simulated {middle['sim'][0]:.4f} ({apart[0]:+.2%}, goal 3 %); tasks a second live "
              f"{middle['live'][1]:.1f}, simulated {middle['sim'][1]:.1f} ({apart[1]:+.2%}, goal 10 %): {'met' if abs(apart[0]) <= 0.03 and abs(apart[1]) <= 0.1 else 'missed'}", flush=True)
END_OF_PYTHON
