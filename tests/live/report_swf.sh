#!/bin/bash
# htc report --export swf: the history of a gateway as a log, which agrees with what the gateway says and is replayed by htc-sim.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
printf '[agent]\nheartbeat_s = 0.5\n[task]\nretry_backoff_s = 0.1\nothers_as_owner = confined\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini
refuse 4 'no jobs to report on' "${H[@]}" report --export swf
expect 0 "${H[@]}" submit --wait -- sleep '{t}' ::: t=0.1,0.3,0.2
expect 5 "${H[@]}" submit --retries 0 --wait -- sh -c 'exit {c}' ::: c=0,3
expect 0 "${H[@]}" submit -- sleep 600
expect 0 "${H[@]}" report --export swf
printf '%s\n' "$out" > log.swf
expect 0 "${H[@]}" tasks 1 --json
printf '%s\n' "$out" > one.json
expect 0 "${H[@]}" status 1 --json
printf '%s\n' "$out" > job.json
python3 - << 'END' || fail "the log is not what the gateway says: $(cat log.swf)"
import json
lines = open("log.swf").read().splitlines()
header = dict(l[2:].split(": ", 1) for l in lines if l.startswith(";") and not l.startswith("; Note"))
jobs = [[float(f) for f in l.split()] for l in lines if not l.startswith(";")]
assert header["MaxJobs"] == header["MaxRecords"] == "5" and header["MaxProcs"] == "2" and header["Version"] == "2.2", header
assert all(len(j) == 18 for j in jobs) and [j[0] for j in jobs] == [1, 2, 3, 4, 5]
assert [j[13] for j in jobs] == [1, 1, 1, 2, 2] and [j[10] for j in jobs] == [1, 1, 1, 1, 0], jobs
assert all(a[1] <= b[1] for a, b in zip(jobs, jobs[1:]))
submitted = json.load(open("job.json"))["jobs"][0]["submitted"]
for j, t in zip(jobs, json.load(open("one.json"))["tasks"]):
    start = float(header["UnixStartTime"]) + j[1]
    assert abs(start - submitted) < 1e-3 and abs(start + j[2] - t["started"]) < 1e-3 and abs(start + j[2] + j[3] - t["ended"]) < 1e-3, (j, t)
assert any("user 1 is" in l for l in lines)
END
# Two slots, tasks of their recorded lengths: the simulator comes to the same work.
expect 0 "$bin/htc-sim" dsp --trace log.swf --system dcs --size 2 --order fcfs --tick 1us --json
[ "$(json "$out" '(v["completed"], v["wrong"], v["busy_node_s"] > 0.6)')" = "(5, '', True)" ] || fail "the replay: $out"
# Or in the gateway's own model: the five tasks of one user, for as long as they took.
expect 0 "$bin/htc-sim" fairshare --trace log.swf --cores 2 --tick 1us --json
[ "$(json "$out" '([(u["name"], u["tasks"]) for u in v["users"]], v["wrong"], v["ended"], v["work_core_s"] > 0.6)')" = "([('u1', 5)], '', 5, True)" ] || fail "the replay: $out"
refuse 1 'two things cannot go to standard output' "${H[@]}" report --export swf --json
refuse 1 'two things cannot go to standard output' "${H[@]}" report --export swf --svg -
refuse 1 'no such form' "${H[@]}" report --export csv
expect 0 "${H[@]}" report 2 --export swf --svg chart.svg
[ "$(grep -vc '^;' <<< "$out")" = 2 ] && grep -q '<svg' chart.svg || fail "one job: $out"
# A task of two cores has two processors, be its job over or not, and the replay its core seconds.
expect 0 "${H[@]}" cancel 3
expect 0 "${H[@]}" submit -c 2 --wait -- sleep '{t}' ::: t=0.1,0.4
expect 0 "${H[@]}" submit -c 2 -- sleep '{t}' ::: t=0.1,600
one_has_ended() { [ "$(json "$("${H[@]}" status 5 --json)" 'v["jobs"][0]["tasks"]["done"]')" = 1 ]; }
soon one_has_ended || fail "no task of two cores: $("${H[@]}" why 5)"
expect 0 "${H[@]}" report 4 5 --export swf
printf '%s\n' "$out" > wide.swf
[ "$(grep -v '^;' wide.swf | awk '{ print $5, $8, $14 }' | sort | uniq -c | xargs)" = "2 2 2 4 1 2 2 5" ] || fail "the tasks of two cores: $out"
expect 0 "$bin/htc-sim" dsp --trace wide.swf --system dcs --size 2 --order fcfs --tick 1us --json
core_s=$(grep -v '^;' wide.swf | awk '{ s += $4 * $5 } END { print s }')
[ "$(json "$out" "(v['completed'], v['wrong'], abs(v['busy_node_s'] - $core_s) < 1e-3, $core_s > 1.1)")" = "(3, '', True, True)" ] || fail "the replay of $core_s core seconds: $out"
expect 0 "$bin/htc-sim" fairshare --trace wide.swf --cores 2 --tick 1us --json
[ "$(json "$out" "(v['ended'], v['wrong'], abs(v['work_core_s'] - $core_s) < 1e-3)")" = "(6, '', True)" ] || fail "the replay of $core_s core seconds by fair shares: $out"
# In the chart it holds two slots: what the users hold, summed over the time, is those core seconds.
expect 0 "${H[@]}" report 4 5 --json
[ "$(json "$out" "(lambda t: abs(sum(sum(u['held']) for u in t['users']) * (t['to'] - t['from']) / 600 - $core_s) < 0.02 * $core_s)(v['chart'])")" = True ] || fail "the chart of $core_s core seconds: $out"
if [ -e /dev/full ]; then
    timeout 60 "${H[@]}" report --export swf > /dev/full 2> "$top/err" && fail "a full disk was not noticed"
fi
expect 0 "${H[@]}" down --now
none_left
echo "report_swf: all is well"
