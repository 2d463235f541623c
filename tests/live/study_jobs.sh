#!/bin/bash
# usage: SOURCE=DIR study_jobs.sh PROGRAMS
# htc-sim jobs: the example runs, a job alone takes what its messages take, a monitor spares messages, and mistakes are refused.
set -euo pipefail
sim=$1/htc-sim
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    exit 1
}
# ends STATUS ARGS...: in $dir/out and $dir/err
ends() {
    local want=$1 got=0
    shift
    "$sim" "$@" > "$dir/out" 2> "$dir/err" < /dev/null || got=$?
    [ "$got" = "$want" ] || { cat "$dir/out" "$dir/err"; fail "htc-sim $* ends with $got, not $want"; }
}
says() { grep -qF -- "$1" "$dir/err" || { cat "$dir/err"; fail "it does not say: $1"; }; }

ends 0 run "$SOURCE/examples/sim/jobs.ini" --count 500 --plot "$dir/plots"
grep -qE '^500 jobs on 16384 nodes, 16 controllers, policy monitored' "$dir/out" || fail "no first line"
[ "$(wc -l < "$dir/plots/jobs.csv")" = 2 ] || fail "jobs.csv has not a line"

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

ends 2 jobs --policy nothing
says "control.policy takes monitored|random|central"
ends 2 jobs --wait 2s
says "control.wait is longer than control.wait_max"
ends 2 jobs --nodes 8 --sizes uniform --job-nodes 1..9
says "would wait for ever: 8 can be taken"
ends 2 jobs --checkpoint "$dir/state"
