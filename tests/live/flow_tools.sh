#!/bin/bash
# What is done with a flow after htc flow run: why, logs, report, render, resume. Figures are compared with those that a plain program makes of
# the list of tasks; resumed flows with the file in which each task says that it has run.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

# says PATTERN WORD...: htc flow why WORD... answers one line that matches.
says()
{
    local pattern=$1
    shift
    expect 0 "${H[@]}" flow why "$@"
    [ "$(printf '%s\n' "$out" | wc -l)" = 1 ] || fail "not one line: $out"
    grep -qE "$pattern" <<< "$out" || fail "flow why $* says: $out"
}
state_is() { "${H[@]}" flow status "$id" --json | grep "\"state\": \"$1\"" > /dev/null; }
flow_of() { id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out"); }

# --- a file needs no system ---
cat > fails.flow << 'END'
a: sh -c 'echo a >> ran'
b: after=a sh -c 'echo b >> ran; [ -e good ]'
c: after=b sh -c 'echo c >> ran; exit $(cat code)'
"d \"<&>": after=b:failed sh -c 'echo d >> ran'
e: after=b:any sh -c 'echo e >> ran'
f: after=c,a sh -c 'echo f >> ran'
g: after=a:failed sh -c 'echo g >> ran'
h: after=g:any sh -c 'echo h >> ran'
i: after=g sh -c 'echo i >> ran'
END
expect 0 "${H[@]}" flow render fails.flow
grep -q 't1 -> t3 \[style=dashed, label="failed"\]' <<< "$out" || fail "$out"
expect 0 "${H[@]}" flow render --svg plain.svg - < fails.flow
python3 -S -c 'import xml.dom.minidom as x; d = x.parse("plain.svg"); assert len(d.getElementsByTagName("path")) == 9, "edges"' || fail "plain.svg is no picture of 9 edges"
refuse 1 'a file has no workers' "${H[@]}" flow render fails.flow --tiles --svg no.svg
refuse 1 'tiles are a picture' "${H[@]}" flow render 1 --tiles
expect 3 "${H[@]}" flow report 1
expect 3 "${H[@]}" flow resume 1

# --- what failed, and why ---
expect 0 "${H[@]}" up --slots 2
echo 1 > code
expect 5 "${H[@]}" flow run fails.flow
[ "$(sort ran | tr -d '\n')" = abdeh ] || fail "these ran: $(cat ran)"
says 'flow 1 has ended: 4 tasks done, 1 failed, 4 cancelled' 1
says 'task a of flow 1 is done' 1.a
says 'task b of flow 1 has failed: exit code 1' 1.1
says 'task f of flow 1 was cancelled: it needs c, and b has failed: exit code 1' 1.f
says 'task g .* was cancelled: it was to run only if a failed, which is done' 1.g
says 'task i .* was cancelled: it needs g, and g was to run only if a failed, which is done' 1.i
expect 4 "${H[@]}" flow why 1.nobody
expect 4 "${H[@]}" flow why 99
expect 0 "${H[@]}" flow why 1.f --json
python3 -S -c 'import json, sys; o = json.loads(sys.argv[1]); assert o["code"] == "cancelled" and "has failed" in o["why"]' "$out" || fail "$out"

# --- what tasks wrote, also those whose numbers are larger than any of the job's ---
for i in $(seq 5); do echo "w$i: sh -c 'echo out $i; echo err $i >&2; exit \$(($i % 2))'"; done > writes.flow
printf 'quiet: true\nnever: after=w1 true\n' >> writes.flow
expect 5 "${H[@]}" flow run writes.flow --agents 2
for i in 1 3 5; do
    grep -q "^task $((i - 1)) (w$i): exit code 1: err $i$" <<< "$out" || fail "how w$i failed is not told: $out"
done
id=2
expect 0 "${H[@]}" flow tasks 2 --failed
grep -q ' w3  *failed .* exit code 1: err 3$' <<< "$out" || fail "$out"
for i in 1 4 5; do
    expect 0 "${H[@]}" flow logs "$id.w$i"
    [ "$out" = "out $i" ] || fail "task w$i wrote: $out"
    expect 0 "${H[@]}" flow logs "$id.$((i - 1))" --stderr
    [ "$out" = "err $i" ] || fail "task w$i wrote on standard error: $out"
done
expect 0 "${H[@]}" flow logs "$id.w5" --json
[ "$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["text"], end="")' "$out")" = "out 5" ] || fail "$out"
expect 0 "${H[@]}" flow logs "$id.quiet"
[ -z "$out" ] || fail "a task that writes nothing wrote: $out"
refuse 4 'it never ran' "${H[@]}" flow logs "$id.never"
refuse 1 'names no task' "${H[@]}" flow logs "$id"
refuse 4 'no task nobody' "${H[@]}" flow logs "$id.nobody"
expect 0 "${H[@]}" rm "$id"
expect 4 "${H[@]}" flow logs "$id.w1"

# --- pictures ---
expect 0 "${H[@]}" flow render 1
grep -qF 't1 [label="b", fillcolor="#f4b6b6", tooltip="failed"]' <<< "$out" || fail "$out"
grep -qF 'label="d \"<&>"' <<< "$out" || fail "$out"
expect 0 "${H[@]}" flow render 1 --svg graph.svg
expect 0 "${H[@]}" flow render 1 --svg tiles.svg --tiles
expect 0 "${H[@]}" flow report 1 --svg lanes.svg
grep -q 'critical path .* a > ' <<< "$out" || fail "$out"
python3 - << 'END' || fail "a picture is not what it should be"
import xml.dom.minidom as x
text = lambda f, tag: ["".join(c.data for c in t.childNodes) for t in x.parse(f).getElementsByTagName(tag)]
assert 'd "<&>: done' in text("graph.svg", "title"), text("graph.svg", "title")
assert "b > f (ok)" not in text("graph.svg", "title") and "c > f (ok)" in text("graph.svg", "title")
assert sorted(t.split(":")[0] for t in text("lanes.svg", "title")) == ["a", "b", 'd "<&>', "e", "h"], text("lanes.svg", "title")
x.parse("tiles.svg")
END
expect 0 "${H[@]}" flow render --shape fanout --tasks 1500
refuse 2 'too many to be laid out' "${H[@]}" flow render --shape fanout --tasks 1500 --svg no.svg

# --- resumed: what is done is not run again ---
rm ran
expect 5 "${H[@]}" flow resume 1
[ "$(sort ran | tr -d '\n')" = b ] || fail "resumed, these ran: $(cat ran)"
touch good
rm ran
expect 5 "${H[@]}" flow resume 3 --tries 2
[ "$(sort ran | tr -d '\n')" = bcc ] || fail "resumed again, these ran: $(cat ran)"
echo 0 > code
rm ran
expect 0 "${H[@]}" flow resume 4 --json
[ "$(sort ran | tr -d '\n')" = cf ] || fail "resumed at last, these ran: $(cat ran)"
expect 0 "${H[@]}" flow tasks 5 --json
python3 -S -c 'import json, sys; assert [(t["name"], t["state"]) for t in json.loads(sys.argv[1])] == [("c", "done"), ("f", "done")]' "$out" || fail "$out"
refuse 4 'nothing of flow 5 is left' "${H[@]}" flow resume 5
expect 0 "${H[@]}" flow run --shape bot --tasks 5
expect 0 "${H[@]}" flow tasks 6 --json
python3 -S -c 'import json, sys; t = json.loads(sys.argv[1]); assert sorted(x["task"] for x in t) == list(range(5)) and all(x["state"] == "done" and x["worker"] and x["ended"] >= x["started"] > 0 for x in t)' "$out" || fail "$out"
expect 0 "${H[@]}" flow tasks 6 --limit 2 --json
[ "$(grep -o '"task"' <<< "$out" | wc -l)" = 2 ] || fail "$out"
says 'task 3 of flow 6 is done: worker [0-9]* ran it' 6.3
refuse 4 'nothing of flow 6 is left' "${H[@]}" flow resume 6
expect 0 "${H[@]}" flow report 6
grep -q 'critical path' <<< "$out" || fail "$out"
refuse 2 'is a bag' "${H[@]}" flow render 6

# --- waiting: for tasks, for a slot of many, for any slot ---
cat > waits.flow << 'END'
first: sh -c 'until [ -e go ]; do sleep 0.05; done; echo first >> ran'
second: after=first sh -c 'echo second >> ran'
third: after=first,second sh -c 'echo third >> ran'
END
for i in $(seq 4); do echo "hold-$i: sh -c 'until [ -e go ]; do sleep 0.05; done'"; done > holds.flow
expect 0 "${H[@]}" flow run waits.flow --detach --json --agents 1
flow_of
soon state_is running || fail "it does not run"
says 'flow 7 runs: slots 1 of 1, tasks ready or running 1, waiting for others 2' "$id"
says 'task third of flow .* waits for first \(ready, or running\) and second \(waiting\)' "$id.third"
says 'task first .* is ready: it runs, or is about to' "$id.first"
refuse 6 'has not ended' "${H[@]}" flow resume "$id"
held=$id
expect 0 "${H[@]}" flow run holds.flow --detach --json --agents 1
flow_of
soon state_is running || fail "it does not run"
says 'task hold-2 .* is ready: it runs, or waits for a slot: so do 3 others, and the flow has 1' "$id.hold-2"
holds=$id
expect 0 "${H[@]}" flow run waits.flow --detach --json
flow_of
says 'waits for a slot: none of its . seats has one; .*job' "$id"
says 'task first .* waits for a slot: none of its' "$id.first"
expect 0 "${H[@]}" flow cancel "$id"

# Cancelled while it runs, and resumed.
rm ran
expect 0 "${H[@]}" flow cancel "$held.1-2"
touch go
id=$held
soon state_is cancelled || fail "it does not end: $("${H[@]}" flow status "$id")"
says 'task second of .* was cancelled: cancelled by its user' "$id.second"
[ "$(cat ran)" = first ] || fail "these ran: $(cat ran)"
expect 0 "${H[@]}" flow resume "$id"
[ "$(tr '\n' ' ' < ran)" = 'first second third ' ] || fail "resumed, these ran: $(cat ran)"
id=$holds
soon state_is done || fail "the other flow does not end"

# Too many failures: what was cancelled for them runs when it is resumed, and what was done does not.
for i in $(seq 120); do echo "t$i: sh -c 'echo $i >> ran; [ -e calm ] || [ $i -gt 3 ]'"; done > many.flow
for i in $(seq 120); do echo "u$i: after=t$i sh -c 'echo u$i >> ran'"; done >> many.flow
rm ran
"${H[@]}" flow run many.flow --max-fails 2 --json > told 2> /dev/null
out=$(cat told)
flow_of
touch calm
cp ran before
"${H[@]}" flow tasks "$id" --json > tasks.json
expect 0 "${H[@]}" flow resume "$id" --agents 2
python3 - << 'END' || fail "not each task ran until it was done, and no more"
import json
done = [t["name"] for t in json.load(open("tasks.json")) if t["state"] == "done"]
names = lambda f: [x if x[0] == "u" else "t" + x for x in open(f).read().split()]
after = names("ran")[len(names("before")):]
want = {"%s%d" % (k, i) for k in "tu" for i in range(1, 121)} - set(done)
assert sorted(after) == sorted(want), (len(after), len(want), sorted(set(after) ^ want))
END

# --- figures, as a plain program makes them of the tasks ---
expect 0 "${H[@]}" flow run --shape fanin --tasks 85 --degree 4 --length 0.01:0.05 --seed 3 --json
flow_of
"${H[@]}" flow tasks "$id" --json > tasks.json
"${H[@]}" flow render "$id" --json > graph.json
"${H[@]}" flow report "$id" --json > report.json
python3 - << 'END' || fail "the figures are not those of the tasks: $(cat report.json)"
import json, math
tasks, graph, r = (json.load(open(f)) for f in ("tasks.json", "graph.json", "report.json"))
began, ended = [t["started"] for t in tasks], [t["ended"] for t in tasks]
length = [e - b for b, e in zip(began, ended)]
ends = {}
def end(t):
    if t not in ends:
        ends[t] = max([end(p["task"]) for p in graph[t]["after"]], default=0) + length[t]
    return ends[t]
path = max(end(t) for t in range(len(tasks)))
span = max(ended) - min(began)
busy = [sum(b <= at < e for b, e in zip(began, ended)) for at in began]
near = lambda a, b: math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4)
assert len(tasks) == r["ran"] == 85 and sum(len(g["after"]) for g in graph) == 84
assert r["slots_used"] >= max(busy) and (len(r["by_worker"]) > 1 or r["slots_used"] == max(busy)), (r["slots_used"], max(busy))
assert near(r["makespan_s"], span) and near(r["run_s"], sum(length)) and near(r["critical_path_s"], path)
assert near(r["bound_s"], max(path, sum(length) / r["slots_used"])) and near(r["efficiency"], r["bound_s"] / span)
assert near(sum(r["busy"]) * span / len(r["busy"]), sum(length)) and sum(w["tasks"] for w in r["by_worker"]) == 85
mean = sum(ended) / 85 - min(began)
k, l = 85 / r["slots_used"], sum(length) / 85
ideal = max(sum(ends.values()) / 85, (k + 1) * l / 2)
assert near(r["turnaround_s"], mean) and near(r["delay_ratio"], (mean - ideal) / ideal)
assert 0 < r["efficiency"] <= 1 + 1e-9
END
# --- a bag goes on under the same numbers: what failed, then what was cancelled ---
cat > bag.flow << 'END'
bag: count=1000 sh -c 'case $HTC_TASK_INDEX in 7|20|991) echo $HTC_TASK_INDEX >> ran; echo out $HTC_TASK_INDEX; echo err $HTC_TASK_INDEX >&2; [ -e mended-$HTC_TASK_INDEX ] ;; 8) echo out 8 ;; esac'
END
counts_are() { "${H[@]}" flow status "$id" --json | grep "\"cancelled\": $1," > /dev/null; }
numbers() { "${H[@]}" flow tasks "$id" --json | python3 -S -c 'import json, sys; print(*sorted((t["task"], t["state"]) for t in json.load(sys.stdin)))'; }
rm -f ran
"${H[@]}" flow run bag.flow --agents 2 --json > told 2> said
[ $? = 5 ] || fail "a bag with tasks that fail: $(cat told said)"
grep -q 'htc flow resume [0-9]* runs what is missing' said || fail "what can be done is not said: $(cat said)"
out=$(cat told)
flow_of
bag=$id
expect 0 "${H[@]}" flow tasks "$id" --failed
for i in 7 20 991; do
    grep -qE "^ *$i .*: err $i$" <<< "$out" || fail "how task $i of a bag failed is not told: $out"
done
[ "$(sort -n ran | tr '\n' ' ')" = '7 20 991 ' ] || fail "these ran: $(cat ran)"
rm ran
touch mended-20
expect 5 "${H[@]}" flow resume "$bag"
grep -q ' 3 of 1000 tasks, job ' <<< "$out" && grep -q ' 998 done, 2 failed, 0 cancelled' <<< "$out" || fail "resumed: $out"
[ "$(sort -n ran | tr '\n' ' ')" = '7 20 991 ' ] || fail "resumed, these ran: $(cat ran)"
id=$((bag + 1))
[ "$(numbers)" = "(7, 'failed') (20, 'done') (991, 'failed')" ] || fail "the tasks of the resumed bag: $(numbers)"
expect 0 "${H[@]}" flow status "$id"
grep -q "a bag, resumes flow $bag" <<< "$out" || fail "$out"
touch mended-7 mended-991
rm ran
expect 0 "${H[@]}" flow resume "$id" --json
[ "$(python3 -S -c 'import json, sys; o = json.loads(sys.argv[1]); print(o["tasks"], o["done"], o["failed"], o["cancelled"], o["resumes"])' "$out")" = "1000 1000 0 0 $id" ] || fail "$out"
[ "$(sort -n ran | tr '\n' ' ')" = '7 991 ' ] || fail "resumed again, these ran: $(cat ran)"
id=$((bag + 2))
[ "$(numbers)" = "(7, 'done') (991, 'done')" ] || fail "the tasks of the bag resumed again: $(numbers)"
for i in 7 8 20; do # in the third flow, the first, the second
    expect 0 "${H[@]}" flow logs "$id.$i"
    [ "$out" = "out $i" ] || fail "task $i wrote: $out"
done
says "task 8 of flow $bag is done" "$id.8"
says "task 20 of flow $((bag + 1)) is done" "$id.20"
expect 0 "${H[@]}" flow report "$id" --json
refuse 4 "nothing of flow $id is left" "${H[@]}" flow resume "$id"
expect 0 "${H[@]}" flow rm "$((bag + 1))"
refuse 4 "resumes flow $((bag + 1)), which was removed" "${H[@]}" flow logs "$id.8"

echo "bag: count=40 sh -c 'until [ -e freed ]; do sleep 0.05; done; echo \$HTC_TASK_INDEX >> ran'" > held.flow
rm ran
expect 0 "${H[@]}" flow run held.flow --detach --json
flow_of
soon state_is running || fail "it does not run"
refuse 6 'has not ended' "${H[@]}" flow resume "$id"
expect 0 "${H[@]}" flow cancel "$id.10-29"
soon counts_are 20 || fail "they are not cancelled: $("${H[@]}" flow status "$id")"
touch freed
soon state_is cancelled || fail "it does not end: $("${H[@]}" flow status "$id")"
cp ran before
expect 0 "${H[@]}" flow resume "$id"
[ "$(sort -n ran | uniq | tr '\n' ' ')" = "$(seq 0 39 | tr '\n' ' ')" ] || fail "these ran: $(sort -n ran | tr '\n' ' ')"
[ "$(wc -l < ran)" = 40 ] || fail "some ran twice: $(sort -n ran | uniq -d | tr '\n' ' ')"
[ "$(wc -l < before)" = 20 ] || fail "cancelled tasks ran"
# ---- builtins that are called together: each has its share of the time, so no more slots are told than there are ----
seq -f 't%.0f: @sleep 2ms' 200 > together.flow
expect 0 "${H[@]}" flow run together.flow --agents 2 --detach --json
flow_of
soon state_is done || fail "it does not end"
expect 0 "${H[@]}" flow report "$id" --json
[ "$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["slots"] <= 2)' "$out")" = True ] || fail "more slots than there are: $out"

expect 0 "${H[@]}" down
none_left
