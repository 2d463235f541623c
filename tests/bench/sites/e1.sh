#!/bin/bash
# usage: e1.sh PROGRAMS FIRST_LEVEL [SLOTS TASKS LENGTH]     (300 4000 10; E2 at a tenth: 30 400 10). HTC_BENCH_DB: db.mode (interval).
# HTCaaS' micro-benchmark E1, live (the specification's section 4.2; of its section 7 rows 11: a real run with 300 agents; 12: with holds the baseline completes less than all, ours all;
# 14: one job runs on several sites at once; 30: mean response time of the user, tasks a second).
# One bag of TASKS sleeps of LENGTH seconds on SLOTS slots: a third of them of agents that are jobs of the emulated batch system, which holds some, a third of a real
# Slurm, a third of a real Grid Engine. What is not there is the emulated one's. Beside it the emulated one alone (FIRST_LEVEL: tests/bench/first_level), each task a job, for a
# tenth of the tasks with a tenth of the cores and ten times the service time, at the same time. Prints a JSON line each, then the ratio of equation 2 to its bound.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd) first_level=$(realpath "$2") slots=${3:-300} tasks=${4:-4000} length=${5:-10}
htc=$bin/htc ports=$(realpath "$here/../../live/ports.py")
. "$here/services.sh"
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-e1.XXXXXX")
trap 'timeout 60 "$htc" --dir "$top/state" down --now > /dev/null 2>&1; end_services; rm -rf "$top"' EXIT
third=$((slots / 3)) here_slots=$slots wide=1
[ $((third % 20)) = 0 ] && wide=5 # slots of an agent there: a job of Grid Engine takes a tenth of a second of one core to start
sites=()
for s in slurm sge; do
    if want $s SLURM_NODES=4 SLURM_CPUS=$(((third + 3) / 4)) SGE_SLOTS=$third; then
        sites+=("[site.$s]" 'adapter = '$s "cores = $third" "agent_cores = $wide" 'batch_steps = 100' 'period_s = 2')
        here_slots=$((here_slots - third))
    else
        echo "without $s: $missing; its slots are the emulated batch system's" >&2
    fi
done
port=$(python3 "$ports" 2 $$)
mkdir "$top/state"
printf '%s\n' '[server]' "join = 127.0.0.1:$port" 'strangers_max = 900' '[db]' "join = 127.0.0.1:$((port + 1))" "mode = ${HTC_BENCH_DB:-interval}" '[agent]' 'relaunch_backoff_s = 0.5' \
    '[site.emu]' 'adapter = emu' "cores = $here_slots" 'batch_steps = 20' 'period_s = 1' '[emu]' 'service_s = 0.1' 'hold = 0.05' 'hold_rate = 0.0005' "${sites[@]}" > "$top/htc.ini"
"$htc" --dir "$top/state" up --config "$top/htc.ini" > "$top/up.log" 2>&1 || { cat "$top/up.log" >&2; exit 1; }
slots_now() { "$htc" --dir "$top/state" agents --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["slots"])'; }
for _ in $(seq 200); do [ "$(slots_now)" = "$slots" ] && break; sleep 0.2; done
[ "$(slots_now)" = "$slots" ] || { echo "not all sites are there:" >&2; "$htc" --dir "$top/state" sites >&2; exit 1; }
"$first_level" $(((slots + 9) / 10)) $(((tasks + 9) / 10)) "$length" 1 0.005 > "$top/alone.json" &
alone=$!
"$htc" --dir "$top/state" submit --env 'N={n}' -- /bin/sh -c "sleep $length; echo \$HTC_SITE" ::: "n=1:$tasks" > /dev/null
"$htc" --dir "$top/state" wait all --timeout 1500s > /dev/null
"$htc" --dir "$top/state" sites --json > "$top/sites.json"
"$htc" --dir "$top/state" report all --json > "$top/report.json"
"$htc" --dir "$top/state" status 1 --json > "$top/status.json"
"$htc" --dir "$top/state" tasks 1 --limit "$tasks" --json > "$top/tasks.json"
"$htc" --dir "$top/state" fetch 1 --to "$top/got" > /dev/null
find "$top/got" -name stdout -exec cat {} + | sort | uniq -c > "$top/where"
wait $alone || { echo "the emulated batch system alone fails" >&2; exit 1; }
python3 - "$top" "$slots" "$tasks" "$length" << 'PY'
import json, sys
top, slots, tasks, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
load = lambda name: json.load(open("%s/%s.json" % (top, name)))
job, state, rows = load("report")["jobs"][0], load("status")["jobs"][0], load("tasks")["tasks"]
used, rounds = min(slots, tasks), -(-tasks // min(slots, tasks))
span, done = job["makespan_s"], state["tasks"]["done"]
ends = [t["ended"] - job["submitted"] for t in rows if t.get("ended")]
where = {line.split()[1]: int(line.split()[0]) for line in open(top + "/where")}
ours = {"system": "ours on " + ", ".join(sorted(s["name"] for s in load("sites")["sites"])), "makespan_s": round(span, 3), "bound_s": rounds * length,
        "over_bound": round(span / (rounds * length), 4), "efficiency": round(tasks * length / used / span, 4), "completed": done / tasks, "attempts": state.get("attempts"),
        "tasks_per_s": round(tasks / span, 2), "response_s": round(sum(ends) / len(ends), 3) if ends else None, "tasks_at": where}
alone = load("alone")
print(json.dumps(ours))
print(json.dumps(alone))
bound = tasks / used / rounds
print("equation 2 as a part of its bound: %.4f (goal 0.97); completed: ours %.4f (goal 1), the batch system alone %.4f" % (ours["efficiency"] / bound, ours["completed"], alone["completed"]))
PY
