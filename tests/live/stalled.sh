#!/bin/bash
# usage: stalled.sh PROGRAM_FOLDER
# monitor.stall_s: a task that uses no CPU time and writes nothing is ended and done by another attempt, and nobody acts. How its agent and its process are treated
# when they are stopped is in states.sh.
source "$(dirname "$0")/live.sh"
H=("$htc" --dir "$top/state")
printf '[agent]\nheartbeat_s = 0.2\n[task]\nmax_attempts = 1\nmax_lost = 2\n[monitor]\nstall_s = 1\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini
expect 0 "${H[@]}" submit -- sh -c '[ "$HTC_TASK_ATTEMPT" -gt 1 ] || sleep 600; echo "$HTC_TASK_ATTEMPT" > "$HTC_OUTPUT_DIR/n"'
expect 0 "${H[@]}" submit -- sleep 600
expect 0 "${H[@]}" wait 1
expect 0 "${H[@]}" fetch 1 --to got
[ "$(cat got/0/n)" -gt 1 ] || fail "it was not run again: $(cat got/0/n)"
expect 5 "${H[@]}" wait 2
"${H[@]}" tasks 2 --json > tasks.json
grep 'HTC_ESTOPPED' tasks.json > /dev/null && grep 'monitor.stall_s' tasks.json > /dev/null || fail "why it has failed: $(cat tasks.json)"
expect 0 "${H[@]}" down
