#!/bin/bash
# usage: manytask.sh SLOTS TASKS LENGTH
# One flow of TASKS sleeps of LENGTH seconds on SLOTS agents of one slot of this machine, all submitted to one of them. Prints one JSON object:
# efficiency, throughput (tasks a second) and makespan_s. htc-sim reproduce --live runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/system.sh"
slots=$1 tasks=$2 length=$3
printf '%s\n' '[agent]' 'slots_max = 1' > "$top/htc.ini"
up --slots "$slots" --config "$top/htc.ini"
cd "$top"
echo "w: count=$slots @sleep 0.3" > warm.flow # agents are there, and have run something, before a clock starts
echo "t: count=$tasks @sleep $length" > sleep.flow
"$htc" --dir "$state" flow run warm.flow --agents "$slots" > /dev/null 2>&1
"$htc" --dir "$state" flow run sleep.flow --agents "$slots" --layout one --json > run.json
python3 - "$slots" "$tasks" "$length" "$("$htc" --dir "$state" flow report "$(python3 -c 'import json; print(json.load(open("run.json"))["flow"])')" --json)" << 'PY'
import json, sys
slots, tasks, length, report = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
took = report["makespan_s"]
print(json.dumps({"makespan_s": took, "throughput": tasks / took, "efficiency": tasks * length / slots / took}))
PY
