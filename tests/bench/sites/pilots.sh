#!/bin/bash
# usage: pilots.sh PROGRAMS [TASKS [STEPS]]     (5000 50)
# /bin/true tasks by one pilot inside a real Slurm allocation, by the same agent outside, and as srun steps of such an allocation, one after the other. Prints tasks a
# second of each, and two ratios: pilot to agent outside (goal 0.95) and pilot to srun (goal 50). The agent has one slot in both; runs alternate, the better of three counts.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd) tasks=${2:-5000} steps=${3:-50}
htc=$bin/htc ports=$(realpath "$here/../../live/ports.py")
. "$here/services.sh"
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-pilots.XXXXXX")
trap 'for s in in out; do timeout 60 "$htc" --dir "$top/$s" down --now > /dev/null 2>&1; done; end_services; rm -rf "$top"' EXIT
want slurm SLURM_NODES=1 SLURM_CPUS=4 || { echo "skipped: $missing"; exit 77; }
port=$(python3 "$ports" 2 $$)
mkdir "$top/in" "$top/out"
printf '%s\n' '[server]' "join = 127.0.0.1:$port" '[db]' "join = 127.0.0.1:$((port + 1))" '[site.slurm]' 'adapter = slurm' 'cores = 1' 'period_s = 1' > "$top/in.ini"
printf '%s\n' '[site.local]' 'cores = 1' > "$top/out.ini"
# run WHERE: seconds from the first task's start to the end, of tasks of a system whose one agent works already
run()
{
    local h=("$htc" --dir "$top/$1") id
    id=$("${h[@]}" submit --json -- /bin/true '{n}' ::: "n=1:$tasks" | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
    "${h[@]}" wait "$id" --timeout 600s > /dev/null || return 1
    "${h[@]}" status "$id" --json | python3 -c 'import json, sys; j = json.load(sys.stdin)["jobs"][0]; assert j["tasks"]["done"] == int(sys.argv[1]); print(j["ended"] - j["started"])' "$tasks"
}
for s in in out; do
    "$htc" --dir "$top/$s" up --config "$top/$s.ini" > "$top/up.log" 2>&1 || { cat "$top/up.log" >&2; exit 1; }
done
for round in 1 2 3; do
    for s in in out; do
        echo "$s $(run $s)" >> "$top/times" || exit 1
    done
    # the steps alone: the allocation is not counted
    salloc -Q -n1 bash -c "date +%s%N; for i in \$(seq $steps); do srun -n1 /bin/true || exit 1; done; date +%s%N" < /dev/null > "$top/srun" 2> "$top/srun.log" ||
        { echo "srun fails: $(tail -n 1 "$top/srun.log")" >&2; exit 1; }
    echo "srun $(awk 'NR == 1 { begun = $1 } END { print ($1 - begun) / 1e9 }' "$top/srun")" >> "$top/times"
done
python3 - "$top/times" "$tasks" "$steps" << 'PY'
import sys
best = {}
for line in open(sys.argv[1]):
    name, seconds = line.split()
    best[name] = min(best.get(name, 1e9), float(seconds))
rate = {"in": int(sys.argv[2]) / best["in"], "out": int(sys.argv[2]) / best["out"], "srun": int(sys.argv[3]) / best["srun"]}
print("/bin/true a second: pilot in a Slurm allocation %.0f, the same agent outside %.0f, srun steps %.1f" % (rate["in"], rate["out"], rate["srun"]))
print("pilot / agent outside: %.3f (goal 0.95); pilot / srun: %.0f (goal 50)" % (rate["in"] / rate["out"], rate["in"] / rate["srun"]))
PY
