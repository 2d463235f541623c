#!/bin/bash
# usage: flow.sh SLOTS FLOW
# The flow of a file on SLOTS agents of one slot of this machine. Prints one JSON object: makespan_s, efficiency, throughput, delay_ratio, as htc flow report has them.
# htc-sim reproduce --live runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/system.sh"
slots=$1 flow=$(realpath "$2")
printf '%s\n' '[agent]' 'slots_max = 1' > "$top/htc.ini"
up --slots "$slots" --config "$top/htc.ini"
cd "$top"
echo "w: count=$slots @sleep 0.3" > warm.flow # agents are there, and have run something, before a clock starts
"$htc" --dir "$state" flow run warm.flow --agents "$slots" > /dev/null 2>&1
"$htc" --dir "$state" flow run "$flow" --agents "$slots" --json > run.json
id=$(python3 -c 'import json; print(json.load(open("run.json"))["flow"])')
"$htc" --dir "$state" flow report "$id" --json | python3 -c '
import json, sys
report = json.load(sys.stdin)
print(json.dumps({"makespan_s": report["makespan_s"], "efficiency": report["efficiency"], "throughput": report["tasks"] / report["makespan_s"],
                  "delay_ratio": report["delay_ratio"]}))
'
