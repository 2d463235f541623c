#!/bin/bash
# How often agents at a flow wake that has one long task left: the one that runs it, and one that has nothing to do. What is counted is how
# often they gave the processor up. HTC_TEST_FULL=1: for a whole minute, after the idle one has given up asking others for tasks.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
wait=3 window=8
[ -z "${HTC_TEST_FULL-}" ] || wait=125 window=60

mkdir -m 700 "$dir"
echo 'agent.slots_max = 1' > "$dir/htc.ini"
expect 0 "${H[@]}" up --slots 2
{ echo 'long: sh -c "touch runs; sleep 600"'; for i in 1 2 3 4; do echo "short$i: true"; done; } > idle.flow
expect 0 "${H[@]}" flow run idle.flow --agents 2 --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
one_is_left() { "${H[@]}" flow status "$id" --json | grep '"done": 4' > /dev/null && [ -e runs ]; }
soon one_is_left || fail "the short tasks have not ended: $("${H[@]}" flow status "$id")"
both_are_here() { [ "$(cat "$dir"/log/agent* | grep -c 'works at flow')" = 2 ]; }
soon both_are_here || fail "there are not two workers"

# Whose keeper has a child runs the task.
keepers=() idle=0 busy=0
for p in $(ours); do
    if [ "$(cat "/proc/$p/comm")" = htc-keeper ]; then
        keepers+=("$p")
        pgrep -P "$p" > /dev/null && busy=$(awk '/^PPid/ { print $2 }' "/proc/$p/status")
    fi
done
for p in $(ours); do
    [ "$(cat "/proc/$p/comm")" = htc-agent ] && [ "$p" != "$busy" ] && idle=$p
done
[ "$busy" != 0 ] && [ "$idle" != 0 ] && [ ${#keepers[@]} -ge 1 ] || fail "the agents are not there: $busy, $idle, ${keepers[*]}"
# Of all threads of a process.
wakes() { awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }' /proc/"$1"/task/*/status; }
declare -A before
sleep "$wait"
began=$(date +%s)
for p in "$busy" "$idle" "${keepers[@]}"; do before[$p]=$(wakes "$p"); done
sleep "$window"
of_busy=$(($(wakes "$busy") - before[$busy])) of_idle=$(($(wakes "$idle") - before[$idle]))
passed=$(($(date +%s) - began))
for p in "${keepers[@]}"; do
    n=$(($(wakes "$p") - before[$p]))
    [ "$n" -le 2 ] || fail "a keeper woke $n times in $passed s"
done
# A slow machine sleeps longer. The busy one looks at the processes of its task each second, and beats. The idle one still asks for tasks at
# first, half as often each time; later there are the lease and a beat, which may have a minute's end between them.
busy_limit=$((3 * passed + 30)) idle_limit=$((20 + passed / 4))
[ -z "${HTC_TEST_FULL-}" ] || idle_limit=$((8 * (passed / 60 + 1)))
echo "in $passed s the idle agent woke $of_idle times, the busy one $of_busy times"
[ "$of_idle" -le "$idle_limit" ] || fail "the idle agent woke $of_idle times in $passed s, more than $idle_limit"
[ "$of_busy" -le "$busy_limit" ] || fail "the busy agent woke $of_busy times in $passed s, more than $busy_limit"

# Who is killed is missed at once, though its lease is not over: its task begins again in another agent.
rm runs
kill -9 "$busy"
runs_again() { [ -e runs ]; }
soon runs_again || fail "the task of a killed agent does not begin again"
grep -hq 'is gone -> revoke its lease' "$dir"/log/agent* || fail "nobody has said that the killed agent is gone"
expect 0 "${H[@]}" flow cancel "$id"
expect 0 "${H[@]}" down --now
none_left
