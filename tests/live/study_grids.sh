#!/bin/bash
# usage: SOURCE=DIR study_grids.sh PROGRAMS
# htc-sim grids: the example is the deployment that the model knows by itself, table 1 comes out in its order, and mistakes are refused with the next step.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# The example, with its files.
example=$SOURCE/examples/sim/grids.ini
ends 0 run "$example" --set workload.jobs=300 --plot "$dir/plots"
grep -qE '^jobs +[0-9]+ completed, [0-9]+ rejected' "$dir/out" || fail "no jobs"
for queue in Q1 Q2 Q3 Q4; do
    grep -qE "^$queue " "$dir/out" || fail "no line of $queue"
    grep -q ">$queue</text>" "$dir/plots/queues.svg" || fail "$queue is not in the picture"
done
head -1 "$dir/plots/queues.csv" | grep -x 'seconds,jobs,Q1 busy,Q1 queued,Q2 busy,Q2 queued,Q3 busy,Q3 queued,Q4 busy,Q4 queued' > /dev/null || fail "the head of queues.csv"
[ "$(wc -l < "$dir/plots/results.csv")" = 9 ] || fail "results.csv has not four queues and four classes"
# Tasks wait that are many times the CPUs: each part of the picture has a scale of its own, and stays in its place.
python3 - "$dir/plots/queues.svg" << 'PY'
import re, sys, xml.dom.minidom
picture = xml.dom.minidom.parse(sys.argv[1])
titles = [int(t.getAttribute("y")) for t in picture.getElementsByTagName("text") if t.getAttribute("font-weight")]
areas = [p.getAttribute("d") for p in picture.getElementsByTagName("path") if p.getAttribute("fill")]
heights = [[float(y) for y in re.findall(r"[ML][0-9.-]+ ([0-9.-]+)", d)] for d in areas]
assert len(titles) == 2 and len(areas) == 8, (titles, len(areas))
assert titles[0] < min(map(min, heights[:4])) and max(map(max, heights[:4])) < titles[1] < min(map(min, heights[4:])), [(min(h), max(h)) for h in heights]
wide = float(picture.documentElement.getAttribute("viewBox").split()[2])
for text in picture.getElementsByTagName("text"):
    if text.getAttribute("text-anchor") == "middle":
        assert float(text.getAttribute("x")) + 4 * len(text.firstChild.data) < wide, text.toxml()
PY
ends 0 run "$example" --jobs-in-all 300 --json
hash=$(grep -oE '"hash":"[0-9a-f]+"' "$dir/out")
ends 0 grids --jobs-in-all 300 --json
[ "$(grep -oE '"hash":"[0-9a-f]+"' "$dir/out")" = "$hash" ] || fail "the example is not the deployment that the model knows"
python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["wrong"] == "" and run["jobs"] == 300 == run["completed"] + run["rejected"] + run["terminated"] + run["failed"], run
assert [q["name"] for q in run["queues"]] == ["Q1", "Q2", "Q3", "Q4"] and [c["name"] for c in run["classes"]] == ["small", "medium", "large", "huge"], run
assert abs(run["busy_core_s"] - run["work_core_s"] - run["evicted_core_s"] - run["moved_core_s"]) < 1, run
for q in run["queues"]:
    parts = sum(q[k] for k in ("estimating_s", "queued_s", "grid_queued_s", "running_s", "moving_s", "flow_s"))
    assert abs(parts - q["response_s"]) < 0.001 * q["response_s"] + 0.01, q
PY

# Table 1: the order of the systems.
ends 0 grids --experiment table1 --vary hierarchy.system=mqh,mq,fcfsh,fcfs --seeds 1..2 --json
python3 - "$dir/out" << 'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
short = [r["response_last_class_s"]["mean"] for r in rows]
assert [r["hierarchy.system"] for r in rows] == ["mqh", "mq", "fcfsh", "fcfs"], rows
assert short[0] < 50 < short[1] < 360 and min(short[2:]) > 3600, short
PY
for option in "--set hierarchy.attempts=3" "--system fcfs" "--mode simple" "--migrate direct" "--sample 1h" "--tick 1s"; do
    # shellcheck disable=SC2086
    ends 0 grids --jobs-in-all 50 $option
done

# In pieces it is the same run, and so is its course.
in_pieces 20000 queues.csv -- grids --jobs-in-all 2000
ends 4 grids --jobs-in-all 2000 --stop-after 20000 --checkpoint "$dir/state"
has_no_makespan

# Message by message: a message takes exact.latency, and the network has the seed of the run.
ends 0 grids --jobs-in-all 100 --engine exact --json
python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["wrong"] == "" and run["jobs"] == 100 == run["completed"] + run["rejected"] + run["terminated"] + run["failed"], run
assert run["tick_s"] == 1e-9 and run["memory"] > 0 and abs(run["busy_core_s"] - run["work_core_s"] - run["evicted_core_s"] - run["moved_core_s"]) < 1, run
PY
ends 0 grids --jobs-in-all 50 --engine exact --latency 20ms --set exact.jitter=5ms
grep -q 'system mqh; a message takes 0.02 s$' "$dir/out" || fail "it is not said how long a message takes"
ends 2 grids --engine exact --checkpoint "$dir/none"
says "a run of the exact engine has no checkpoint"
ends 4 grids --engine exact --stop-after 1000
ends 2 grids --engine exact --memory 100K
says "sim.memory"

# Jobs by name, in the model and on this machine: every task is evicted once, jobs move, and each has the result of its whole sum.
cat > "$dir/named.ini" << 'INI'
[sim]
model = grids
[hierarchy]
flow = 0
[grid.one]
cpus = 1
kflops = 1000
[grid.four]
cpus = 4
kflops = 1000
latency = 100ms
evict_part = 1
[queue.Q1]
next = Q2
grids = one
Te = 1s
Tq = 2s
N = 1
P = 1000
[queue.Q2]
level = 2
grids = four
Te = 60s
Tq = 60s
N = 4
P = 1000
target = 200ms
[job.short]
every = 300ms
count = 3
kflop = 200
[job.long]
at = 100ms
kflop = 2000
rho = 2
INI
for way in sim.engine=scale sim.engine=exact sim.live=on; do
    ends 0 run "$dir/named.ini" --set $way --json
    python3 - "$dir/out" $way << 'PY'
import json, sys
run, live = json.load(open(sys.argv[1])), sys.argv[2] == "sim.live=on"
short, long = run["classes"]
assert run["wrong"] == "" and run["completed"] == run["jobs"] == 4 and run["moves"] == 1, run
assert short["completed"] == 3 and long["completed"] == 1 and long["name"] == "long" and long["tasks"] == 10, run
assert 0 < long["evicted"] <= 10 if live else long["evicted"] == 10, run # a busy machine may be late, and what has ended is not evicted
assert run["work_core_s"] > 2.599, run
PY
done
ends 0 run "$dir/named.ini" --set sim.live=on
grep -q '^run  *on this machine: a process for each task$' "$dir/out" || fail "it is not said that it was run"
ends 2 run "$dir/named.ini" --set sim.live=on --set hierarchy.system=fcfs
says "such an experiment cannot be run live"
ends 2 run "$dir/named.ini" --set sim.live=on --checkpoint "$dir/none"
says "what runs on this machine cannot go on later"
ends 2 run "$dir/named.ini" --set sim.live=on --set sim.engine=exact
says "sim.engine: what runs on this machine has no engine"

# Mistakes.
refused() { # WHAT-IT-SAYS NEXT-STEP < FILE
    { printf '[sim]\nmodel = grids\n'; cat; } > "$dir/bad.ini"
    ends 2 run "$dir/bad.ini"
    says "$1"
    says "next: $2"
}
printf '[grid.a]\ncpu = 5\n' | refused "bad.ini:4: there is no key grid.a.cpu" "did you mean grid.*.cpus?"
printf '[grid.a]\n[queue.q]\n' | refused "queue.q has no grids" "write queue.NAME.grids"
printf '[grid.a]\n[queue.q]\ngrids = a,b\n' | refused "queue.q.grids: there is no grid b" "write queue.NAME.grids"
printf '[grid.a]\n[queue.q]\ngrids = a\nnext = r\n' | refused "queue.q.next: there is no queue r" "write queue.NAME.next"
printf '[grid.a]\n[queue.q]\ngrids = a\nlevel = 2\n' | refused "queues, levels and grids are no hierarchy" "change its settings"
printf '[grid.a]\n' | refused "there are queues without grids, or grids without queues" "write sections"
printf '[class.c]\nmin = 5\nmax = 4\n' | refused "a number of class 0 is out of range" "change its settings"
printf '[hierarchy]\nactive = 1\n' | refused "no more may be" "lengthen workload.burst_gap"
printf '[workload]\nexperiment = table1\n[class.c]\n' | refused "table1 has two jobs of its own" "leave out the sections"
printf '[job.a]\n[class.c]\n' | refused "jobs are named, and there are others too" "write sections [job.NAME]"
printf '[job.a]\ncount = 0\n' | refused "are none, or more than a million" "change their count"
ends 2 grids --system none
echo "study_grids: all is well"
