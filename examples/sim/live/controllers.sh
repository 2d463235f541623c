#!/bin/bash
# usage: controllers.sh FILE [OPTION...]
# The experiment FILE of partition controllers with processes of this machine and a store (htc-kvd, in memory) in place of the model; options go to htc-sim run.
# Prints one JSON object: jobs_per_s, latency_ms, messages, messages_all, steals, granted, right (1: in the end all nodes are free). htc-sim reproduce --live runs it.
set -euo pipefail
bin=${HTC_SIM_BIN:+$HTC_SIM_BIN/}
file=$1
shift
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-live.XXXXXX")
store=
leave() {
    [ -z "$store" ] || kill "$store" 2> /dev/null || true
    wait
    rm -rf "$top"
}
trap leave EXIT
trap 'exit 130' INT TERM
"${bin}htc-kvd" --dir "$top/store" --engine memory > "$top/out" 2> "$top/log" < /dev/null &
store=$!
until grep -qs ^ready "$top/out"; do
    kill -0 "$store" 2> /dev/null || { cat "$top/log" >&2; exit 1; }
    sleep 0.05
done
"${bin}htc-sim" run "$file" --set sim.live=on --set "sim.store=unix:$top/store/kvd.sock" --json "$@" > "$top/run.json"
python3 - "$top/run.json" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
granted = max(run["granted"], 1)
print(json.dumps({"jobs_per_s": run["jobs_per_s"], "latency_ms": 1e3 * run["latency_s"], "messages": run["messages"], "messages_all": run["messages_all"],
                  "steals": run["steals"] / granted, "granted": run["granted"], "right": int(run["wrong"] == "")}))
PY
