#!/bin/bash
# usage: SOURCE=DIR calibrate.sh PROGRAMS
# htc-sim calibrate: it writes costs that a run takes, leaves nothing behind, also when it is interrupted, and says what is wrong. How good the costs are no test of
# a busy machine can say.
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
mkdir "$dir/work"
nothing_left() { [ -z "$(ls "$dir/work")" ] || fail "$1 leaves $(ls "$dir/work") behind"; }

ends 0 calibrate --quick --dir "$dir/work" -o "$dir/costs.ini"
nothing_left "a calibration"
for key in latency turn wake unpack pack service accept client commit write sync; do
    grep -qE "^cost\.$key = [1-9][0-9]*ns" "$dir/costs.ini" || { cat "$dir/costs.ini"; fail "cost.$key is not there, or is nothing"; }
done
ends 0 kvs --store live --costs "$dir/costs.ini" --clients 16 --requests 1000 --json
mv "$dir/out" "$dir/with"
ends 0 kvs --store live --clients 16 --requests 1000 --json
cmp -s "$dir/out" "$dir/with" && fail "the costs change nothing"
# Each of the other models takes its section, and is another run with it.
for model in "manytask --nodes 8 --cores 1" "dataflow --nodes 8" "jobs --nodes 64" "fairshare --cores 8 --tasks 100"; do
    ends 0 $model --costs "$dir/costs.ini" --json
    mv "$dir/out" "$dir/with"
    ends 0 $model --json
    [ "$(grep -o '"makespan_s":[0-9.]*' "$dir/out" | sed -n 1p)" != "$(grep -o '"makespan_s":[0-9.]*' "$dir/with" | sed -n 1p)" ] || fail "the costs change nothing of ${model%% *}"
done
# What stands behind them goes before them.
ends 0 kvs --store live --costs "$dir/costs.ini" --service 7us --clients 16 --requests 1000 --json
grep -q '"service_s":0.000007000' "$dir/out" || fail "an option behind --costs does not hold"

# Interrupted, it ends what it has started and removes what it has made.
"$sim" calibrate --dir "$dir/work" -o "$dir/never.ini" > "$dir/out" 2> "$dir/err" < /dev/null &
pid=$!
while [ -z "$(ls "$dir/work"/*/*/*.sock 2> /dev/null)" ]; do kill -0 "$pid" || fail "it has ended by itself"; done
kill -INT "$pid"
got=0
wait "$pid" || got=$?
[ "$got" = 4 ] || { cat "$dir/err"; fail "interrupted it ends with $got, not 4"; }
nothing_left "an interrupted calibration"
[ ! -e "$dir/never.ini" ] || fail "an interrupted calibration writes costs"
[ -z "$(pgrep -P "$pid" || :)" ] || fail "members go on"

# A store that runs is asked, directly and through a proxy.
for how in live proxy; do
    TMPDIR=$dir/work HTC_SIM_BIN=$(cd "$1" && pwd) KVS_QUICK=1 bash "$SOURCE/examples/sim/live/kvs.sh" $how 3 > "$dir/out" 2> "$dir/err" < /dev/null || { cat "$dir/err"; fail "kvs.sh $how 3 fails"; }
    python3 -S -c '
import json, sys
r = json.load(open(sys.argv[1]))
assert r["requests_per_s"] > 0 and r["response_ms"] > 0 and (r["clients"], r["depth"]) == (16, 8), r
assert sys.argv[2] == "live" or r["requests_per_message"] >= 1, r' "$dir/out" $how || fail "kvs.sh $how 3 says something else"
    nothing_left "kvs.sh $how"
done
TMPDIR=$dir/work HTC_SIM_BIN=$(cd "$1" && pwd) KVS_QUICK=1 bash "$SOURCE/examples/sim/live/kvs.sh" exact 3 > "$dir/out" 2> "$dir/err" < /dev/null || { cat "$dir/err"; fail "kvs.sh exact 3 fails"; }
python3 -S -c '
import json, sys
r = json.load(open(sys.argv[1]))
assert r["response_ms"] > 0 and 0.8 < r["scale_per_s"] / r["requests_per_s"] < 1.25, r' "$dir/out" || fail "kvs.sh exact 3 says something else"
nothing_left "kvs.sh exact"
ends 2 calibrate --store tcp://127.0.0.1:1
says "--store takes unix:PATH"
ends 2 calibrate --store unix:there -o "$dir/costs.ini"
says "it goes with --quick alone"

ends 3 calibrate --quick --dir "$dir/nowhere" -o "$dir/costs.ini"
says "choose with --dir one that can be written"
ends 2 calibrate nothing
says "it takes options alone"
ends 2 grids --costs "$dir/costs.ini"
says "has no section [grids]"
ends 2 kvs --costs "$dir/nowhere.ini"
says "it cannot be read"
printf '[kvs]\ncost.trun = 5us\n' > "$dir/wrong.ini"
ends 2 kvs --costs "$dir/wrong.ini"
says "wrong.ini:2: there is no key cost.trun"
says "did you mean cost.turn?"
