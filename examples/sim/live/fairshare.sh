#!/bin/bash
# usage: fairshare.sh POLICY
# Four users arrive 1.2 s apart with 100, 50, 25 and 10 sleeps of 1.52 s on 36 slots of this machine: the bags of HTCaaS' docking experiment at a tenth
# of its size and a 500th of its time. Prints one JSON object: each user's makespan and mean response time (from submission to a task's end), the makespan of all, and tasks
# a second (E4; row 30 of the specification's section 7). htc-sim reproduce --live runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/system.sh"
policy=$1
users=(ada ben cleo dan) bags=(100 50 25 10)
printf '%s\n' '[fair]' "policy = $policy" > "$top/htc.ini"
[ "$policy" != static ] || printf 'users = ada,ben,cleo,dan\n' >> "$top/htc.ini"
printf '%s\n' '[task]' 'others_as_owner = confined' >> "$top/htc.ini"
up --slots 36 --config "$top/htc.ini"
uid=65210
for u in "${users[@]}"; do
    own=()
    uid=$((uid + 1))
    [ "$(id -u)" != 0 ] || own=(--uid "$uid:$uid")
    (umask 077 && head -c 18 /dev/urandom | base64 > "$top/password")
    "$htc" --dir "$state" user add "$u" "${own[@]}" --password-file "$top/password" > /dev/null
done
begun=$(date +%s%N)
for i in 0 1 2 3; do
    now=$(date +%s%N)
    sleep "$(awk -v due="$i" -v t=$((now - begun)) 'BEGIN { w = due * 1.2 - t / 1e9; printf "%.3f", (w > 0 ? w : 0) }')"
    "$htc" --dir "$state" submit --user "${users[$i]}" --env 'N={n}' -- /bin/sleep 1.52 ::: "n=1:${bags[$i]}" > /dev/null
done
"$htc" --dir "$state" wait all --timeout 120s > /dev/null
"$htc" --dir "$state" report all --json > "$top/report.json"
for i in 1 2 3 4; do "$htc" --dir "$state" tasks $i --limit 1000 --json > "$top/tasks.$i.json"; done
python3 - "$top/report.json" "$top" << 'PY'
import json, sys
report = json.load(open(sys.argv[1]))
out = {"user.%s.makespan" % j["user"]: j["makespan_s"] for j in report["jobs"]}
out["makespan_s"] = report["total"]["last_end_s"]
tasks = 0
for j in report["jobs"]:
    ends = [t["ended"] - j["submitted"] for t in json.load(open("%s/tasks.%d.json" % (sys.argv[2], j["id"])))["tasks"] if t.get("ended")]
    out["user.%s.response_s" % j["user"]] = sum(ends) / len(ends)
    tasks += len(ends)
out["tasks_per_s"] = tasks / out["makespan_s"]
print(json.dumps(out))
PY
