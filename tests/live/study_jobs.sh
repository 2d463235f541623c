#!/bin/bash
# usage: SOURCE=DIR study_jobs.sh PROGRAMS
# htc-sim jobs: the example runs, a job alone takes what its messages take, a monitor spares messages, and mistakes are refused.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

ends 0 run "$SOURCE/examples/sim/jobs.ini" --count 500 --plot "$dir/plots"
grep -qE '^500 jobs on 16384 nodes, 16 controllers, policy monitored' "$dir/out" || fail "no first line"
[ "$(wc -l < "$dir/plots/jobs.csv")" = 2 ] || fail "jobs.csv has not a line"
head -1 "$dir/plots/nodes.csv" | grep -x 'seconds,busy,taken,waiting,running,ended' > /dev/null || fail "the head of nodes.csv"
python3 -S -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$dir/plots/nodes.svg"
grep -q 'jobs that wait for nodes' "$dir/plots/nodes.svg" || fail "waiting jobs are not in the picture"

# One job of one node: 1 ms to parse it, five requests of 1 ms; two messages of 200 us there and back, and 10 ms of work.
ends 0 jobs --nodes 8 --partition 8 --policy random --sizes uniform --count 1 --length 10ms --json
python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["latency_s"] == 0.006 and run["makespan_s"] == 0.0164 and run["messages"] == 5 and run["wrong"] == "", run
PY

# The same experiment again, and the policies beside each other.
ends 0 jobs --nodes 4096 --partition 64 --count 2000 --vary control.policy=random,monitored,central --seeds 1..2 --json -j 1
cp "$dir/out" "$dir/one"
ends 0 jobs --nodes 4096 --partition 64 --count 2000 --vary control.policy=random,monitored,central --seeds 1..2 --json -j 2
cmp "$dir/one" "$dir/out" || fail "two processes come to another table than one"
python3 - "$dir/out" << 'PY'
import json, sys
random, monitored, central = json.load(open(sys.argv[1]))["rows"]
assert monitored["messages"]["mean"] < random["messages"]["mean"] and central["messages"]["mean"] == 0, (random, monitored, central)
PY

# In pieces it is the same run, and so is its course.
ends 4 jobs --nodes 16384 --count 5000 --set control.records=on --stop-after 50000 --checkpoint "$dir/state"
has_no_makespan
in_pieces 50000 nodes.csv -- jobs --nodes 16384 --count 5000 --set control.records=on

# With nodes that have numbers it is the same run as with counts of them.
hash=$(hash_of)
ends 0 jobs --nodes 16384 --count 5000 --json
[ "$(hash_of)" = "$hash" ] || fail "with counts it is another run than with records"

# A log: all of its jobs, at its utilisation; and a broken one.
log=$SOURCE/examples/sim/data/NASA-iPSC-1993-3.1-cln.first14days.swf
for policy in central monitored; do
    ends 0 jobs --nodes 128 --partition 32 --policy $policy --trace "$log" --tick 1ms --wait 1s --wait-max 60s --set control.monitor=60s --set control.pull=60s --json
    python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["ended"] == 2604 and run["wrong"] == "" and 0.37 < run["utilisation"] < 0.38, run
PY
done
# A log of weeks has some jobs an hour; one without jobs is a mistake.
ends 0 jobs --nodes 128 --partition 32 --policy central --trace "$log" --tick 1ms
has '^throughput   7\.[0-9][0-9] jobs a hour$'
printf '; a comment\n' > "$dir/empty.swf"
ends 2 jobs --nodes 128 --trace "$dir/empty.swf"
says "empty.swf: there are no jobs in it"
says "next: give a log with jobs"
printf '1 0 0 -1 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1\n' > "$dir/empty.swf"
ends 2 jobs --nodes 128 --trace "$dir/empty.swf"
says "empty.swf: its 1 job cannot be run"
printf '1 0 0 60 200 -1 -1 8 60 -1 1 3 -1 -1 -1 -1 -1 -1\n' > "$dir/log.swf"
for engine in scale exact; do
    ends 2 jobs --nodes 128 --partition 64 --trace "$dir/log.swf" --engine $engine
    says "log.swf:1: job 1 needs 200 nodes (fields 5 and 8), and there are 128"
    says "next: raise machine.nodes"
done
printf '1 0 0 x\n' > "$dir/empty.swf"
ends 2 jobs --nodes 128 --trace "$dir/empty.swf"
says "empty.swf:1"
echo '2 0 0 x' >> "$dir/log.swf"
ends 2 jobs --nodes 128 --partition 64 --trace "$dir/log.swf" --per-node 8
says "log.swf:2"

# The history of a run is a log: run again it has as many jobs and the same work, and so has its own history.
# same_work JOBS NODES: what history.swf says, and what came of running it again.
same_work() {
    ends 0 jobs --nodes "$2" --partition 4 --trace "$dir/history.swf" --tick 1us --history "$dir/again.swf" --json
    python3 - "$dir" "$1" "$2" << 'PY'
import json, sys
dir, count, nodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def read(name):
    jobs = [[float(x) for x in line.split()] for line in open(f"{dir}/{name}") if not line.startswith(";")]
    assert all(len(j) == 18 and j[2] >= 0 and j[4] == j[7] >= 1 and j[10] == 1 and 1 <= j[15] <= nodes / 4 for j in jobs), jobs
    assert [j[0] for j in jobs] == list(range(1, count + 1)) and sorted(j[1] for j in jobs) == [j[1] for j in jobs], jobs
    return sum(j[3] * j[4] for j in jobs)
run, first, again = json.load(open(dir + "/out")), read("history.swf"), read("again.swf")
assert run["ended"] == count and run["wrong"] == "", run
assert abs(first - again) < 1e-4 * first and abs(run["utilisation"] * run["nodes"] * run["makespan_s"] - first) < 1e-3 * first, (first, again, run)
PY
    compgen -G "$dir/*.swf.*" > /dev/null && fail "a draft of a history is left"
    return 0
}
for policy in monitored central; do
    ends 0 jobs --nodes 16 --partition 4 --policy $policy --sizes uniform --job-nodes 1..9 --count 200 --length "exponential 2s" --history "$dir/history.swf"
    same_work 200 16
done
echo before > "$dir/history.swf"
ends 2 jobs --nodes 8 --sizes uniform --job-nodes 1..9 --history "$dir/history.swf"
[ "$(cat "$dir/history.swf")" = before ] || fail "a run that failed has written a history"
for bad in "$dir" "$dir/none/history.swf"; do
    ends 2 jobs --count 10 --history "$bad"
    says "$bad"
    says "next: choose for sim.history"
done
long=$dir/$(printf '%0600d' 0)
ends 2 jobs --count 10 --history "$long"
says "sim.history has more than 511 bytes"
ends 2 jobs --count 10 --trace "$long"
says "workload.trace has more than 511 bytes"
ends 2 jobs --count 10 --set sim.store="unix:$long"
says "sim.store has more than"
ends 2 jobs --count 10 --history "$dir/history.swf" --seeds 1..2
says "a history (sim.history) is of one run"
ends 2 jobs --count 10 --history "$dir/history.swf" --checkpoint "$dir/state"
says "a history is of a whole run"

# A table of more than 32 MiB grows.
ends 0 jobs --nodes 470000 --partition 1 --policy random --sizes uniform --job-nodes 1 --count 475000 --length 300ms --json
grep -q '"ended":475000,' "$dir/out" || fail "not all jobs have ended"

# The exact engine has controllers and the real store message by message, and the same run for a seed; the model says the same within a tenth.
exact=(jobs --nodes 64 --partition 16 --sizes uniform --job-nodes 1..16 --count 200 --length "exponential 100ms" --wait 1ms --wait-max 100ms --json)
for policy in monitored random; do
    ends 0 "${exact[@]}" --policy $policy --engine exact
    cp "$dir/out" "$dir/exact"
    hash=$(hash_of)
    ends 0 "${exact[@]}" --policy $policy --engine exact
    [ "$(hash_of)" = "$hash" ] || fail "the exact engine has another run of the same seed"
    ends 0 "${exact[@]}" --policy $policy --engine exact --set exact.jitter=100us
    [ "$(hash_of)" != "$hash" ] || fail "exact.jitter changes nothing"
    ends 0 "${exact[@]}" --policy $policy
    python3 - "$dir/exact" "$dir/out" << 'PY'
import json, sys
exact, scale = (json.load(open(f)) for f in sys.argv[1:])
assert exact["granted"] == exact["ended"] == scale["granted"] == 200 and exact["wrong"] == "" and exact["controllers"] == 4 and exact["steals"] > 0, exact
assert abs(scale["jobs_per_s"] / exact["jobs_per_s"] - 1) < 0.1, (exact, scale)
assert exact["tick_s"] == 1e-9 and exact["hash"] != scale["hash"], exact
PY
done
ends 0 jobs --nodes 8 --partition 4 --sizes uniform --job-nodes 1..6 --count 30 --engine exact --history "$dir/history.swf"
has '^30 jobs on 8 nodes, 2 controllers, policy monitored; message by message$'
same_work 30 8
ends 0 jobs --nodes 8 --partition 4 --trace "$dir/history.swf" --engine exact --json
grep -q '"ended":30,' "$dir/out" || fail "not all jobs of a log have ended"
ends 2 "${exact[@]}" --engine exact --policy central
says "control.policy: the exact engine has no central controller"
says "next: set control.policy to monitored or random, or leave out sim.engine"
ends 2 "${exact[@]}" --engine exact --set sim.live=on
says "sim.live: the exact engine runs in virtual time"
ends 2 "${exact[@]}" --engine exact --checkpoint "$dir/state"
says "a run of the exact engine has no checkpoint"
ends 2 "${exact[@]}" --engine exact --partition 1 --nodes 65
says "the exact engine has at most 64 controllers, and these are 65"
says "next: make machine.partition larger"
ends 2 "${exact[@]}" --engine exact --memory 1M
says "the run needs more than the 1 MiB of memory that are allowed"

# Controllers of this machine, with a store: every job has its nodes, and all are free in the end.
"$1/htc-kvd" --dir "$dir/store" --engine memory > "$dir/kvd" 2>&1 < /dev/null &
kvd=$!
trap 'kill $kvd; wait; rm -rf "$dir"' EXIT
until grep -qs ^ready "$dir/kvd"; do
    kill -0 $kvd || { cat "$dir/kvd"; fail "no store"; }
    sleep 0.05
done
live=(jobs --nodes 16 --partition 4 --sizes uniform --job-nodes 1..9 --count 60 --length 5ms --wait 1ms --wait-max 20ms --set sim.live=on --set "sim.store=unix:$dir/store/kvd.sock")
for policy in monitored random; do
    ends 0 "${live[@]}" --policy $policy --json
    python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["wrong"] == "" and run["granted"] == run["ended"] == 60 and run["controllers"] == 4 and run["steals"] > 0, run
assert 5 <= run["messages"] <= run["messages_all"] and run["swaps"] >= 120, run
PY
done
ends 0 "${live[@]}" --history "$dir/history.swf" --json
python3 - "$dir" << 'PY'
import json, sys
dir = sys.argv[1]
run = json.load(open(dir + "/out"))
jobs = [[float(x) for x in line.split()] for line in open(dir + "/history.swf") if not line.startswith(";")]
work, told = sum(j[3] * j[4] for j in jobs), run["utilisation"] * run["nodes"] * run["makespan_s"]
assert abs(work - told) < 1e-3 * told, ("a job in the history runs as long as it is, not until its end is noticed", work, told)
PY
ends 0 "${live[@]}" --history "$dir/history.swf"
grep -q '^run  *on this machine: a process for each controller, and a store$' "$dir/out" || fail "it is not said that it was run"
same_work 60 16
ends 2 "${live[@]}" --policy central
says "such an experiment cannot be run live"
ends 2 "${live[@]}" --set sim.store=unix:$dir/none
says "$dir/none"

ends 2 jobs --trace "$dir"
says "$dir: Is a directory"
ends 2 jobs --policy nothing
says "control.policy takes central, monitored or random"
ends 2 jobs --wait 2s
says "control.wait is longer than control.wait_max"
ends 2 jobs --nodes 8 --sizes uniform --job-nodes 1..9
says "would wait for ever: 8 can be taken"
