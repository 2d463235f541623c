#!/bin/bash
# What a selector means is settled once: jobs that others submit meanwhile change nothing. And logs of several tasks.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
expect 0 "${H[@]}" up --slots 4

# last.0 and last, followed and waited for while another job becomes the newest.
expect 0 "${H[@]}" submit --name first -- sh -c "echo one; until [ -e '$top/go' ]; do sleep 0.05; done; echo two"
timeout 300 "${H[@]}" logs last.0 -f > followed &
follower=$!
timeout 300 "${H[@]}" wait last > /dev/null 2>&1 &
waiter=$!
soon grep -q one followed || fail "the log of a running task does not show"
expect 0 "${H[@]}" submit --name second -- sh -c "echo another; until [ -e '$top/never' ]; do sleep 0.05; done"
another_runs() { "${H[@]}" logs 2 2> /dev/null | grep another > /dev/null; }
soon another_runs || fail "job 2 does not run"
touch "$top/go"
wait $follower || fail "logs -f ended with $?"
[ "$(cat followed)" = $'one\ntwo' ] || fail "followed two jobs: $(cat followed)"
wait $waiter || fail "wait last waited for another job, or not at all: $?"
expect 6 "${H[@]}" wait 2 --timeout 0
expect 6 "${H[@]}" wait all --timeout 0
refuse 1 'htc tasks' "${H[@]}" status 2.0

# One that has not ended stays, the others are removed.
expect 0 "${H[@]}" rm all
[ "$out" = 'removed 1 job, left 1 job alone: not ended yet, or just being changed' ] || fail "rm all: $out"
expect 0 "${H[@]}" cancel all

# Every task that is named, each under its name; one that cannot be shown does not stop the others.
expect 0 "${H[@]}" submit --hold -- sh -c "until [ -e '$top/held' ]; do sleep 0.05; done; echo out \$HTC_TASK_INDEX; echo err >&2" ::: a b c d e
expect 0 "${H[@]}" cancel last.2
refuse 4 'not started' "${H[@]}" logs last.1
timeout 60 "${H[@]}" logs last.2 -f > said 2>&1 && fail "logs -f of a task that was cancelled before it ran"
grep -q 'cancelled before it started' said || fail "logs -f of a cancelled task: $(cat said)"
expect 0 "${H[@]}" release last
expect 0 "${H[@]}" hold last
[ "$out" = 'held 1 job' ] || fail "hold: $out"
touch "$top/held" # none has ended before
expect 0 "${H[@]}" release last
expect 5 "${H[@]}" wait last
expect 4 "${H[@]}" logs last.0-3
[ "$out" = $'==> 3.0 <==\nout 0\n\n==> 3.1 <==\nout 1\n\n==> 3.3 <==\nout 3' ] || fail "logs of tasks: $out"
expect 0 "${H[@]}" logs last.3-99 -f
[ "$(printf '%s\n' "$out" | grep out)" = $'out 3\nout 4' ] || fail "logs -f of tasks: $out"
expect 0 "${H[@]}" logs last.0,4 --json
[ "$(json "$out" '[(t["task"], t["text"]) for t in v["tasks"]]')" = "[(0, 'out 0\n'), (4, 'out 4\n')]" ] || fail "logs --json: $out"
expect 0 "${H[@]}" down
none_left
echo "selectors: all is well"
