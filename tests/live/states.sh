#!/bin/bash
# Each way an attempt can end, as the agent sees it: its own state, with its reason, in the list of tasks and in why.
# And what is stopped or killed around a task: the task goes on, or runs again, and ends once.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
printf '[agent]\nheartbeat_s = 0.3\nlost_after_s = 6\n[task]\nmax_attempts = 1\nmax_lost = 2\nretry_backoff_s = 0.1\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini

submit() # ARGS...: sets $id
{
    expect 0 "${H[@]}" submit --json "$@"
    id=$(json "$out" 'v["id"]')
}

# ends STATUS PATTERN: the one task of job $id fails with this status, for this reason.
ends()
{
    expect 5 "${H[@]}" wait "$id"
    expect 0 "${H[@]}" tasks "$id" --json
    [ "$(json "$out" 'v["tasks"][0]["status"]')" = "$1" ] || fail "job $id is not $1: $out"
    [[ $(json "$out" 'v["tasks"][0]["reason"]') =~ $2 ]] || fail "the reason of $id does not say '$2': $out"
    expect 0 "${H[@]}" why "$id"
    [[ $out =~ $2 ]] || fail "why $id does not say '$2': $out"
    echo "ok: $out"
}

task_is()
{
    expect 0 "${H[@]}" tasks "$id" --json
    [ "$(json "$out" "bool((lambda v: $1)(v[\"tasks\"][0]))")" = True ]
}

# until CONDITION: a python expression over the task of job $id as v.
until_task()
{
    soon task_is "$1" || fail "job $id never came to '$1': $out"
}

agent_has_it()
{
    expect 0 "${H[@]}" agents --json
    pid=$(json "$out" "([a['pid'] for a in v['agents'] if a.get('task') == '$id.0'] or [''])[0]")
    [ -n "$pid" ]
}

agent_pid() # of job $id, from the list of agents
{
    soon agent_has_it || fail "no agent has job $id: $out"
}

submit -- sh -c 'exit 42'
ends HTC_EEXIT 'exit code 42'
expect 0 "${H[@]}" status "$id" # one is no plural
[[ $out == *'1 of 1 task ended'* ]] || fail "status: $out"
expect 5 "${H[@]}" wait "$id"
[[ $err == *': 1 of 1 task failed: '* ]] || fail "wait: $err"
expect 0 "${H[@]}" fetch "$id" --to one
[[ $out == 'one: 1 of 1 task, 0 files, 0 B'* ]] || fail "fetch: $out"
[ -z "$err" ] || fail "fetch of what has ended: $err"
# Of a job that goes on it brings what there is and says so, or waits.
submit -- sh -c '[ {n} = 0 ] || while [ ! -e "$0" ]; do sleep 0.05; done; echo {n}; exit {n}' "$top/go" ::: n=0:1
until_task 'v["state"] == "done"'
expect 0 "${H[@]}" fetch "$id" --to part
[[ $out == 'part: 1 of 2 tasks,'* && $err == "htc: warning: 1 of 2 tasks have not ended yet: htc fetch $id --wait "* ]] || fail "fetch of a job that goes on: $out $err"
expect 0 "${H[@]}" fetch "$id.1" --to part
[[ $err == "htc: warning: no task of $id.1 has ended yet: htc fetch $id.1 --wait "* ]] || fail "fetch of a task that goes on: $out $err"
expect 0 "${H[@]}" fetch "$id.0-1" --to part # of those that are named some have ended
[[ $err == "htc: warning: 1 of 2 tasks have not ended yet: htc fetch $id.0-1 --wait "* ]] || fail "fetch of tasks of which one goes on: $out $err"
expect 0 "${H[@]}" fetch "$id.0" --to part
[ -z "$err" ] || fail "fetch of a task that has ended, of a job that goes on: $err"
expect 0 "${H[@]}" fetch "$id.0" --wait --to part # the other one goes on
for which in "$id" "$id.1"; do
    "${H[@]}" fetch "$which" --wait --to "whole-$which" > "whole-$which.out" 2>&1 &
    waiting+=($!)
done
expect 0 "${H[@]}" fetch "$id.0" --wait --to part
> "$top/go"
for pid in "${waiting[@]}"; do wait "$pid" || fail "fetch --wait: $(cat whole-*.out)"; done
[ "$(cat "whole-$id/0/stdout" "whole-$id/1/stdout" "whole-$id.1/1/stdout" | xargs)" = '0 1 1' ] || fail "fetch --wait brought $(find whole-*) $(cat whole-*.out)"
rm "$top/go"
submit -- sh -c 'kill -SEGV $$'
ends HTC_ESIGNAL 'SEGV'
submit --mem 40M -- python3 -S -c 'x = bytearray(120 << 20); import time; time.sleep(600)'
ends HTC_EOOM 'MiB of memory in use, 40 MiB allowed'
[[ $out == *"htc retry $id --failed --mem SIZE tries again with more" ]] || fail "why does not say how it goes on: $out"
expect 0 "${H[@]}" tasks "$id"
[[ $out == *" MiB of memory in use, 40 MiB allowed"*"htc retry $id --failed --mem SIZE tries again with more" ]] || fail "tasks does not say how it goes on: $out"
for follow in '' --follow; do
    expect 0 "${H[@]}" logs $follow "$id"
    [[ -z $out && $err == "htc: $id.0 has failed: "*"40 MiB allowed; htc retry $id --failed --mem SIZE tries again with more" ]] || fail "logs $follow does not say it: $out $err"
done
submit -- sh -c 'kill -KILL $$'
ends HTC_EKILLED 'KILL'
submit --time 1s -- sleep 600
ends HTC_EWALLTIME 'limit of 1 s'
refuse 5 'memory' "${H[@]}" submit --mem 900T -- true

# A site that is drained is left when its one task ends. Agents of earlier jobs may be about to leave.
submit -- sleep 600
until_task "v['state'] == 'running'"
drains_one() { expect 0 "${H[@]}" drain local && [ "$out" = 'site local is out of service; 1 slot of it is in use until its task ends' ]; }
soon drains_one || fail "drain: $out"
expect 0 "${H[@]}" resume local
expect 0 "${H[@]}" cancel "$id"

# Refused by the node: what the document names is not there when it runs. Wrong at stage-in: an upload that is gone.
J='xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"'
printf '<j:JobDefinition %s><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>bin/tool</p:Executable></p:POSIXApplication></j:Application><j:DataStaging><j:FileName>bin/tool</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>file:%s/tool</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>' "$J" "$PWD" > refused.jsdl
printf '#!/no/such/interpreter\n' > tool
chmod +x tool
submit refused.jsdl
ends HTC_ENOEXEC 'bin/tool'
# A document in another encoding, and beside it a program whose name XML writes otherwise.
printf '<?xml version="1.0" encoding="ISO-8859-1"?>\n<j:JobDefinition %s><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>t&amp;l</p:Executable><p:Argument>caf\351</p:Argument></p:POSIXApplication></j:Application></j:JobDescription></j:JobDefinition>' "$J" > beside.jsdl
printf '#!/bin/sh\n[ "$1" = caf\303\251 ]\n' > 't&l'
chmod +x 't&l'
"${H[@]}" submit --wait beside.jsdl > /dev/null || fail "a document in another encoding, with a program beside it"
echo some > input.txt
submit --hold --input input.txt -- cat input.txt
held=$id
submit -- sleep 600
first=$id
submit -- sleep 600
second=$id
submit --input other.txt=input.txt -- cat other.txt
find "$dir/data/blobs" -type f -delete
expect 0 "${H[@]}" cancel "$first"
ends HTC_ESTAGEIN 'other.txt'
expect 0 "${H[@]}" cancel "$second"
expect 0 "${H[@]}" cancel "$held"

# Lost: its agent is killed until there is an end of it.
submit -- sleep 600
for attempt in 1 2 3; do
    until_task "v['state'] == 'running' and v['attempt'] == $attempt"
    agent_pid
    kill -9 "$pid"
done
ends HTC_ELOST 'lost 3 times'

# A gateway that is killed, or stopped for longer than agents are waited for: the task goes on.
submit -- sh -c 'sleep 4; echo once >> "$HTC_OUTPUT_DIR/n"'
until_task "v['state'] == 'running'"
daemon_pid htc-gateway
kill -9 "$pid"
expect 0 "${H[@]}" wait "$id"
until_task "v['attempt'] == 1 and v['state'] == 'done'"
submit -- sh -c 'sleep 9; echo once >> "$HTC_OUTPUT_DIR/n"'
until_task "v['state'] == 'running'"
daemon_pid htc-gateway
kill -STOP "$pid"
sleep 7
kill -CONT "$pid"
expect 0 "${H[@]}" wait "$id"
until_task "v['attempt'] == 1 and v['state'] == 'done'"
grep -q 'stalled' "$dir/log/gateway.log" || fail "the gateway did not notice its own stall"

# An agent, and a task, that somebody stopped while it ran: done by another attempt, once.
submit -- sh -c 'while [ ! -e "'"$top"'/go" ]; do sleep 0.1; done; echo "$HTC_TASK_ATTEMPT" > "$HTC_OUTPUT_DIR/n"'
until_task "v['state'] == 'running'"
agent_pid
kill -STOP "$pid"
: > "$top/go"
expect 0 "${H[@]}" wait "$id"
until_task "v['attempt'] == 2 and v['state'] == 'done'"
rm "$top/go"
submit -- sh -c 'echo $$ > "'"$top"'/pid"; while [ ! -e "'"$top"'/go" ]; do sleep 0.1; done'
until_task "v['state'] == 'running'"
soon test -s "$top/pid" || fail "the task does not begin"
kill -STOP "$(cat "$top/pid")"
: > "$top/go"
expect 0 "${H[@]}" wait "$id"
until_task "v['attempt'] == 2 and v['state'] == 'done'"
submit -- sh -c 'kill -STOP $$'
ends HTC_ESTOPPED 'SIGSTOP'

# A record of tasks without sense, as only a hand can have put it there: they are told as that, nobody waits for them, and the gateway goes on.
submit -- true ::: 1 2
expect 0 "${H[@]}" wait "$id"
expect 0 "$htc" kv --store "unix:$dir/kvd.sock" put "$(printf 'c/%016x/%016x' "$id" 0)" nonsense
expect 0 "${H[@]}" tasks "$id" --json
[ "$(json "$out" '[t["state"] for t in v["tasks"]]')" = "['unreadable', 'unreadable']" ] || fail "what makes no sense is listed: $out"
for what in "$id" "$id.1"; do
    expect 0 timeout 60 "${H[@]}" fetch "$what" --wait --to lost
    [ "$(grep -c HTC_ECORRUPT lost/manifest.json)" -ge 1 ] || fail "fetch of what cannot be read: $out $err $(cat lost/manifest.json)"
    rm -rf lost
done
expect 0 "${H[@]}" submit --wait -- true

expect 0 "${H[@]}" down
none_left
echo "states: all is well"
