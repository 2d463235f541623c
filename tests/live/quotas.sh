#!/bin/bash
# Projects, quotas and the report, with real agents at two sites of this machine. Spec htcaas 7, rows 9 and 26.
source "$(dirname "$0")/live.sh"
export HTC_DIR=$top/state
printf '[fair]\ntick_s = 0.2\n[agent]\nheartbeat_s = 0.2\n[site.east]\ncores = 2\n[site.west]\ncores = 1\n' > "$top/two.ini"
"$htc" up --config "$top/two.ini" > /dev/null || fail "up"
me=$(id -un)
value() { python3 -S -c 'import json,sys; v = json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v[int(k)] if k.isdigit() else v[k]
print(v)' "$1"; }

# A project, and work that is known to take a time at both sites.
"$htc" project add physics --shares 3 --users "$me" > /dev/null || fail "project add"
"$htc" submit --wait --project physics --name three --env 'N={n}' -- sleep 0.5 ::: n=1:6 > /dev/null || fail "six tasks"
"$htc" submit --wait --project physics --retries 1 --name one -- sh -c 'exit 3' > /dev/null 2>&1 && fail "a task that fails is done"
"$htc" report --by user,site,project --csv > "$top/report.csv" || fail "report"
[ "$(head -n 1 "$top/report.csv")" = "user,site,project,core_hours,done,failed,lost,attempts,wait_s" ] || fail "the report begins with $(head -n 1 "$top/report.csv")"
for site in east west; do
    grep -q "^$me,$site,physics," "$top/report.csv" || fail "nothing was used at $site: $(cat "$top/report.csv")"
done
# What the agents say of each attempt, added up, is what the report has: within a hundredth.
"$htc" report --json > "$top/jobs.json" || fail "report of jobs"
python3 - "$top/jobs.json" "$top/report.csv" << 'END' || fail "the sums differ"
import csv, json, sys
ran = sum(j["run_s"] for j in json.load(open(sys.argv[1]))["jobs"])
rows = list(csv.DictReader(open(sys.argv[2])))
core = sum(float(r["core_hours"]) for r in rows) * 3600
# A failed task had two attempts, of which the jobs' report has the last: they took no time.
assert abs(core - ran) <= 0.01 * ran + 0.1, (core, ran)
assert sum(int(r["done"]) for r in rows) == 6 and sum(int(r["failed"]) for r in rows) == 1 and sum(int(r["attempts"]) for r in rows) == 8, rows
END
[ "$("$htc" --json project list | value projects.0.shares)" = 3 ] || fail "$("$htc" project list)"

# Core hours that are spent: launches stop, agents leave, tasks stay queued and say why. Raised, the queue goes on.
used=$("$htc" --json quota "$me" | value quota.core_hours.used)
"$htc" quota "$me" --core-hours "$(python3 -S -c "print($used + 1 / 3600)")" > /dev/null || fail "quota"
id=$("$htc" --json submit --project physics --env 'N={n}' -- sleep 0.5 ::: n=1:12 | value id)
for ((i = 0; i < 300; i++)); do
    [ "$("$htc" --json why "$id" | value code)" = Quota ] && [ "$("$htc" --json agents | value free)" = 3 ] && break
    sleep 0.1
done
[[ $("$htc" why "$id") == *"core hours of $me"* ]] || fail "why says $("$htc" why "$id")"
[ "$("$htc" --json agents | value free)" = 3 ] || fail "agents stay: $("$htc" agents)"
waiting=$("$htc" --json status "$id" | value jobs.0.tasks.waiting)
((waiting >= 3 && waiting <= 9)) || fail "$waiting tasks wait"
said=$("$htc" submit -- true 2>&1) && fail "a submission over the quota is taken"
[[ $said == *"core hours of $me"* ]] || fail "refused with $said"
[ "$("$htc" --json status | value jobs.0.id)" = "$id" ] || fail "a job was made"
"$htc" quota "$me" --core-hours none > /dev/null || fail "quota none"
"$htc" wait "$id" --timeout 60 > /dev/null || fail "the queue does not go on"

# Outputs beyond the bytes are not kept, and the task says so.
"$htc" quota "$me" --bytes 100K > /dev/null || fail "quota --bytes"
"$htc" submit --wait --name small -- sh -c 'head -c 60000 /dev/zero > "$HTC_OUTPUT_DIR/x"' > /dev/null || fail "60 KB of 100"
"$htc" submit --wait --name large -- sh -c 'head -c 60000 /dev/zero > "$HTC_OUTPUT_DIR/x"' > /dev/null 2>&1 && fail "120 KB of 100 are kept"
[[ $("$htc" why last) == *"exceed the quota of bytes of $me"* ]] || fail "why says $("$htc" why last)"
"$htc" fetch last --to "$top/large" > /dev/null 2>&1
[ ! -e "$top/large/0/x" ] && [ ! -e "$top/large/x" ] || fail "what exceeded the quota was kept"
"$htc" rm last > /dev/null && "$htc" quota "$me" --bytes none > /dev/null || fail "rm"

# Uploads are of the same bytes: one beyond them is refused, and no job is made.
head -c 60000 /dev/urandom > "$top/one" && head -c 100000 /dev/urandom > "$top/two"
"$htc" quota "$me" --bytes 200K > /dev/null || fail "quota --bytes"
"$htc" submit --wait --name reads -i "$top/one" -- cat one > /dev/null || fail "an upload of 60 KB"
uploads=$("$htc" --json quota "$me" | value quota.bytes.uploads)
((uploads >= 60000 && uploads < 70000)) || fail "uploads come to $uploads bytes"
"$htc" quota "$me" | grep 'of uploads' > /dev/null || fail "$("$htc" quota "$me")"
said=$("$htc" submit -i "$top/two" -- cat two 2>&1) && fail "100 KB beside 120 of 200 are taken"
[[ $said == *"exceeds the quota of bytes of $me"*"bytes are left"* ]] || fail "refused with $said"
[ "$("$htc" --json status | value jobs.0.name)" = reads ] || fail "a job was made"
"$htc" quota "$me" --bytes none > /dev/null || fail "quota none"

# Tasks at once.
"$htc" quota "$me" --processes 1 > /dev/null || fail "quota --processes"
"$htc" submit --wait -- sh -c 'mkdir "$0/lock" && sleep 0.1 && rmdir "$0/lock"' "$top/work" ::: 1 2 3 4 5 6 > /dev/null || fail "two ran at once"
"$htc" down > /dev/null || fail "down"
"$htc" up --config "$top/two.ini" > /dev/null || fail "up again"
[ "$("$htc" --json quota "$me" | value quota.processes.limit)" = 1 ] || fail "the quota is forgotten"
counted() { [ "$("$htc" --json quota "$me" | value quota.bytes.uploads)" = "$uploads" ]; }
soon counted || fail "uploads come to $("$htc" --json quota "$me" | value quota.bytes.uploads) bytes after a restart"
"$htc" report --since 1d --by project > "$top/report" || fail "report after a restart"
grep -q '^physics' "$top/report" || fail "report: $(cat "$top/report")"
"$htc" down > /dev/null || fail "down"
none_left
echo "quotas and report hold"
