#!/bin/bash
# usage: simulated.sh FOLDER-OF-THE-PROGRAMS
# A bag of sleeping tasks through `htc flow run` on 2 slots, and the same bag through `htc-sim flow`: efficiency and throughput, live and simulated,
# and how far they are apart. What a task takes of its slot beside its length is calibrated in the same run, by tasks of 20 ms; those
# of 10 and 50 ms are predicted. By the records of the tasks, from the first that begins to the last that ends. RUNS=5, SECONDS_EACH=4.
set -euo pipefail
programs=$(realpath "$1")
dir=$(mktemp -d)
cleanup() { "$programs/htc" --dir "$dir/s" down --now > /dev/null 2>&1 || true; rm -rf "$dir"; }
trap cleanup EXIT
"$programs/htc" --dir "$dir/s" up --slots 2 > /dev/null
RUNS=${RUNS:-5} SECONDS_EACH=${SECONDS_EACH:-4} python3 - "$programs" "$dir" << 'END_OF_PYTHON'
import json, os, statistics, subprocess, sys
programs, top = sys.argv[1:]
runs, each, slots = int(os.environ["RUNS"]), float(os.environ["SECONDS_EACH"]), 2
state = os.path.join(top, "s")

def call(program, *words):
    done = subprocess.run([os.path.join(programs, program), *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} {' '.join(words)}: {done.stderr}")
    return done.stdout

def bag(ms):
    """Tasks with a record each: their lengths differ by a microsecond at most."""
    name, n = os.path.join(top, f"{ms}ms.flow"), int(each * slots * 1000 / ms)
    with open(name, "w") as f:
        f.write(call("htc", "flow", "write", "--shape", "bot", "--tasks", str(n), "--length", f"{ms}ms:{ms * 1000 + 1}us", "--to", "text"))
    return name, n

def live(name):
    flow = json.loads(call("htc", "--dir", state, "flow", "run", name, "--json"))["flow"]
    tasks = json.loads(call("htc", "--dir", state, "flow", "tasks", str(flow), "--json"))
    return max(t["ended"] for t in tasks) - min(t["started"] for t in tasks), len({t["worker"] for t in tasks})

def simulated(name, workers, start):
    return json.loads(call("htc-sim", "flow", name, "--workers", str(workers), "--slots", str(slots // workers), "--layout", "each",
                           "--start", f"{max(start, 0) * 1e9:.0f}ns", "--json"))

rows = {ms: {"live": [], "sim": []} for ms in (10, 50)}
starts = []
files = {ms: bag(ms) for ms in (20, 10, 50)}
for run in range(runs):
    span, _ = live(files[20][0])
    starts.append(span * slots / files[20][1] - 0.020)
    for ms, row in rows.items():
        name, n = files[ms]
        span, workers = live(name)
        row["live"].append((ms / 1000 * n / slots / span, n / span))
        sim = simulated(name, workers, starts[-1])
        row["sim"].append((sim["efficiency"], sim["tasks_per_s"]))
print(f"a task takes {statistics.median(starts) * 1e6:.0f} us of its slot beside its length (least {min(starts) * 1e6:.0f}, most {max(starts) * 1e6:.0f})")
for ms, row in rows.items():
    middle = {how: [statistics.median(x[i] for x in row[how]) for i in (0, 1)] for how in row}
    apart = [middle["sim"][i] / middle["live"][i] - 1 for i in (0, 1)]
    print(f"{ms} ms: efficiency live {middle['live'][0]:.4f}, simulated {middle['sim'][0]:.4f} ({apart[0]:+.2%}); "
          f"tasks a second live {middle['live'][1]:.1f}, simulated {middle['sim'][1]:.1f} ({apart[1]:+.2%})")
END_OF_PYTHON
