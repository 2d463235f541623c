#!/bin/bash
# usage: bag.sh SLOTS TASKS LENGTH
# One job of TASKS sleeps of LENGTH seconds on SLOTS agents of one slot of this machine. Prints one JSON object: makespan_s, efficiency by HTCaaS' equation 2
# and its bound by whole rounds, completed, tasks_per_s, and response_s, the mean from submission to a task's end. htc-sim reproduce --live runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/system.sh"
slots=$1 tasks=$2 length=$3
printf '%s\n' '[agent]' 'slots_max = 1' > "$top/htc.ini"
up --slots "$slots" --config "$top/htc.ini"
"$htc" --dir "$state" submit --env 'N={n}' -- /bin/sleep "$length" ::: "n=1:$tasks" > /dev/null
"$htc" --dir "$state" wait all --timeout 600s > /dev/null
"$htc" --dir "$state" report all --json > "$top/report.json"
"$htc" --dir "$state" tasks 1 --limit "$tasks" --json > "$top/tasks.json"
python3 - "$top/report.json" "$slots" "$tasks" "$length" "$top/tasks.json" << 'PY'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
slots, tasks, length = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
used = min(slots, tasks)
ends = [t["ended"] - job["submitted"] for t in json.load(open(sys.argv[5]))["tasks"] if t.get("ended")]
rounds = -(-tasks // used)
print(json.dumps({"makespan_s": job["makespan_s"], "efficiency": tasks * length / used / job["makespan_s"], "bound_s": rounds * length,
                  "over_bound": job["makespan_s"] / (rounds * length), "completed": job.get("done", tasks) / tasks,
                  "tasks_per_s": tasks / job["makespan_s"], "response_s": sum(ends) / len(ends)}))
PY
