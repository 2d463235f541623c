#!/bin/bash
# usage: db_modes.sh PROGRAM_FOLDER
# db.mode = on, batch and off run the same work: agents are killed meanwhile and replaced, each task is done with its own output, and what jobs have used is there.
source "$(dirname "$0")/live.sh"
mkdir made
pids() { "${H[@]}" agents --json | python3 -S -c 'import json,sys; [print(a["pid"]) for a in json.load(sys.stdin)["agents"] if a["pid"]]'; }
for mode in on batch off; do
    H=("$htc" --dir "$top/$mode")
    printf '[db]\nmode = %s\n[agent]\nheartbeat_s = 0.2\nslots_max = 1\nrelaunch_backoff_s = 0.1\n[task]\nmax_attempts = 1\n' "$mode" > "$mode.ini"
    expect 0 "${H[@]}" up --slots 2 --config "$mode.ini"
    # The first two wait until an agent has been killed below them.
    rm -f go
    expect 0 "${H[@]}" submit -- sh -c 'until [ "$1" -gt 2 ] || [ -e "$2" ]; do sleep 0.05; done; echo "$1 squared is $(($1 * $1))" > "$HTC_OUTPUT_DIR/n"' sh '{i}' "$PWD/go" ::: i=1:20
    two_run() { [ "$("${H[@]}" status 1 --json | grep -o '"running": *[0-9]*' | grep -o '[0-9]*$' | head -n 1)" = 2 ]; }
    soon two_run || fail "$mode: $("${H[@]}" status 1)"
    pids > before
    kill -9 "$(head -n 1 before)" || fail "$mode: no agent to kill"
    touch go
    expect 0 "${H[@]}" wait 1
    expect 0 "${H[@]}" fetch 1 --to "made/$mode"
    lost=$("${H[@]}" tasks 1 --json | grep -o '"lost": *[0-9]*' | grep -o '[0-9]*$' | awk '{ n += $1 } END { print n }')
    [ "$lost" -ge 1 ] || fail "$mode: nothing was lost"
    # A report names its mode when it is off, for people and for programs.
    for how in "1" "--by user"; do
        # shellcheck disable=SC2086
        expect 0 "${H[@]}" report $how
        case $mode-$(grep -c 'db.mode = off' <<< "$out") in
        off-1 | on-0 | batch-0) ;;
        *) fail "$mode: report $how: $out" ;;
        esac
        # shellcheck disable=SC2086
        durable=$(json "$("${H[@]}" report $how --json)" 'v["durable"]')
        [ "$durable" = "$([ $mode = off ] && echo False || echo True)" ] || fail "$mode: report $how --json: $durable"
    done
    expect 0 "${H[@]}" down
done
for mode in on batch off; do
    for i in $(seq 20); do
        [ "$(cat "made/$mode/$((i - 1))/n")" = "$i squared is $((i * i))" ] || fail "$mode: task $((i - 1)): $(cat "made/$mode/$((i - 1))/n")"
    done
done
