#!/bin/bash
# Starting and ending: several at once, a terminal that hangs up, and what an end waits for.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

# Of six that start one system at once, one does; the others are told to try again later.
for round in 1 2; do
    for i in 1 2 3 4 5 6; do
        (
            "${H[@]}" up --slots 1 > "said.$i" 2>&1
            echo $? > "code.$i"
        ) &
    done
    wait
    [ "$(sort -n code.? | tr '\n' ' ')" = '0 6 6 6 6 6 ' ] || fail "six at once: $(head said.? code.?)"
    expect 0 "${H[@]}" down
    none_left
    rm -rf "$dir"
done

# A hang-up of the terminal ends the system in order.
up_here() # COMMAND...: in the foreground of a session of its own, $here
{
    setsid env --default-signal=HUP "$@" --dir "$dir" up --foreground --slots 1 > here.out 2>&1 &
    here=$!
    answers() { "${H[@]}" status > /dev/null 2>&1; }
    soon answers || fail "it does not start: $(cat here.out)"
}
up_here "$htc"
expect 0 "${H[@]}" submit -- sh -c "until [ -e '$top/go' ]; do sleep 0.05; done; echo whole"
runs() { "${H[@]}" status "$1" --json | grep '"running": 1' > /dev/null; }
soon runs 1 || fail "no task runs"
kill -HUP -- -$here # as the kernel does: the group in the foreground
ends() { grep -q 'signal asks to end' "$dir/log/supervisor.log"; }
soon ends || fail "a hang-up is not seen"
touch "$top/go"
wait $here
[ $? = 0 ] || fail "a hang-up ended it with $?: $(cat here.out)"
none_left
expect 0 "${H[@]}" up --slots 1
expect 0 "${H[@]}" logs 1
[ "$out" = whole ] || fail "the task did not finish first: $out"
# In the background it means nothing.
daemon_pid htc
kill -HUP "$pid"
goes_on() { grep -q 'hang-up means nothing' "$dir/log/supervisor.log"; }
soon goes_on || fail "a hang-up in the background is not seen"
expect 0 "${H[@]}" submit -- sh -c "until [ -e '$top/then' ]; do sleep 0.05; done"
soon runs 2 || fail "no task runs"

# An end says what it waits for.
"${H[@]}" down > down.out 2>&1 &
down=$!
waits() { grep -q '1 running task finishes first (2.0): htc down --now ends it' down.out; }
soon waits || fail "down waits in silence: $(cat down.out)"
touch "$top/then"
wait $down || fail "down ended with $?: $(cat down.out)"
[ "$(tail -n 1 down.out)" = stopped ] || fail "down said: $(cat down.out)"
none_left

# Two sites of one machine number their slots alike, and each has its own: these two tasks wait for each other.
rm -rf "$dir"
mkdir "$dir"
printf '[site.one]\ncores = 1\n[site.two]\ncores = 1\n' > "$dir/htc.ini"
expect 0 "${H[@]}" up
meet='touch "$1/here.$2"; until [ -e "$1/here.a" ] && [ -e "$1/here.b" ]; do sleep 0.05; done; echo $HTC_SITE'
expect 0 timeout 60 "${H[@]}" submit --wait -- sh -c "$meet" - "$top" ::: a b
expect 0 "${H[@]}" fetch 1 --to two
[ "$(sort two/*/stdout | tr '\n' ' ')" = 'one two ' ] || fail "two sites: $(head two/*/stdout)"
expect 0 "${H[@]}" down
none_left
# Started by a program that ignores SIGCHLD: the ends of tasks and of daemons are seen all the same.
rm -rf "$dir"
expect 0 env --ignore-signal=CHLD "${H[@]}" up --slots 1
expect 5 timeout 60 "${H[@]}" submit --wait -- sh -c 'exit 3'
expect 0 "${H[@]}" tasks 1 --json
[[ $out = *'exit code 3'* ]] || fail "the end of the task is not seen: $out"
daemon_pid htc-kvd
kill -KILL "$pid"
again() { grep -q 'signal 9' "$dir/log/supervisor.log" && "${H[@]}" status > /dev/null 2>&1; }
soon again || fail "the end of the store is not seen: $(cat "$dir/log/supervisor.log")"
expect 0 "${H[@]}" down
none_left
refuse 3 'no system runs here' timeout 25 "${H[@]}" fetch last
echo "up_down: all is well"
