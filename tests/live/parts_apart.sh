#!/bin/bash
# usage: parts_apart.sh PROGRAM_FOLDER
# Two gateways, a store of three members, a host that has joined and a user, each on a "host" of its own. While a job runs, one after the other: the host of the active
# gateway is cut off; a member of the store is killed, and another one cut off; the agents of the host that has joined are killed, and what has joined there; and
# the gateway that is active by then is killed. After each of these tasks go on to end, and in the end each has one result. 77: no network namespaces here.
[ -z "${HTC_TEST_LIGHT:-}" ] || { echo "skipped: standby.py is the light form"; exit 77; }
declare -A address=([a]=10.0.0.1 [b]=10.0.0.2 [c]=10.0.0.3 [head1]=10.0.0.4 [head2]=10.0.0.5 [east]=10.0.0.6 [desk]=10.0.0.7)
# shellcheck source=tests/live/hosts_lib.sh
source "$(dirname "$0")/hosts_lib.sh"
members=()
for m in a b c; do
    for other in a b c; do pin $other member $m; done
    for n in 1 2; do pin head$n user $m; done
    expect 0 "$bin/htc-kvd" --dir "$top/$m/data" --new-member
    members+=(--member "$out@tcp://$m@${address[$m]}:7421")
done
for n in 1 2; do
    for m in a b c; do pin $m member head$n; done
    pin east host head$n
    pin head$n member east
    expect 0 "$htc" keys add root "$("$htc" keys show "$top/desk/key")" --role user --ring "$top/head$n/ring"
    printf '[server]\njoin = %s:7420\nlease_s = 1\n[db]\nstore = tcp://a@%s:7421,tcp://b@%s:7421,tcp://c@%s:7421\n[agent]\nheartbeat_s = 0.5\nlost_after_s = 6\n[task]\nmax_lost = 1000\n[site.east]\nadapter = join\n' \
        "${address[head$n]}" "${address[a]}" "${address[b]}" "${address[c]}" > head$n.ini
done
desk_knows head1 head2

declare -A pid
member()
{
    ip netns exec "$1" "$bin/htc-kvd" --dir "$top/$1/data" --engine log --listen "${address[$1]}:7421" --key "$top/$1/key" --ring "$top/$1/ring" "${members[@]}" > "$1.said" 2>&1 &
    pid[$1]=$!
    disown
}
for m in a b c; do member $m; done
for m in a b c; do soon grep -s ready $m.said > /dev/null || fail "no member $m: $(cat $m.said)"; done
A=${address[head1]}:7420 B=${address[head2]}:7420
active() { on "$1" "$htc" --dir "$top/$1" --timeout 1s status > "$1.said" 2>&1; }
head_up() { expect 0 ip netns exec "$1" "$htc" --dir "$top/$1" up --config "$1.ini"; }
head_up head1
soon active head1 || fail "the first gateway is not active: $(cat head1.said)"
head_up head2
join()
{
    ip netns exec east "$bin/htc-agent" --join "$A,$B" --dir "$top/east/state" --key "$top/east/key" --ring "$top/east/ring" --slots 2 > joined.out 2>&1 &
    pid[east]=$!
    disown
    soon grep -s '^joined' joined.out > /dev/null || fail "east does not join: $(cat joined.out)"
}
join

# A task ends when it has taken a file away: so two of them run whenever something happens, whichever they are.
desk() { HOME=$top/desk ip netns exec desk timeout 200 "$htc" "$1" --gateway "$A,$B" "${@:2}"; }
tasks=40
mkdir go
# shellcheck disable=SC2016
desk submit -- sh -c 'until f=$(ls "$0" | head -n 1) && [ -n "$f" ] && rm "$0/$f" 2> /dev/null; do sleep 0.3; done; echo "task $1"' "$PWD/go" ::: $(seq $tasks) > said 2>&1 ||
    fail "no job: $(cat said)"
done_now() { desk status 1 --timeout 5s --json > seen.out 2>&1 && json "$(cat seen.out)" '(v["jobs"][0] if "jobs" in v else v)["tasks"]["done"]'; }
at_least()
{
    [ -n "$(ls go)" ] || touch "go/$(date +%s%N)" # what an attempt took that is lost is put there again
    [ "$(done_now)" -ge "$1" ] 2> /dev/null
}
ended=0
# more WHAT: some more tasks end.
more()
{
    ended=$((ended + 4))
    soon at_least $ended || fail "$1: no more tasks end: $(cat seen.out)"
    echo "$1: tasks end"
}
more "all is well"
# A connection whose other end is gone without a word ends some time, at both ends.
all_end()
{
    ip netns exec "$1" ss -tnoH state established '( sport = :7421 or dport = :7421 or sport = :7420 or dport = :7420 )' > ways
    [ -s ways ] && ! grep -qv 'timer:' ways
}
for host in a b c head1 head2 east; do soon all_end $host || fail "connections of $host that last for ever: $(cat ways)"; done
cut head1
soon active head2 || fail "the other gateway does not go on: $(cat head2.said)"
more "the host of the active gateway is cut off"
kill -9 "${pid[b]}"
more "a member of the store is killed"
member b
soon grep -s ready b.said > /dev/null || fail "no member b: $(cat b.said)"
# Of the others that one by which the active gateway reaches the store, without a word to anybody.
peer=$(sed -n 's/.*the store at peer \([0-9]*\) answers.*/\1/p' "$top/head2/log/kvd.out" | tail -n 1)
way=$(printf '%s\n' a b c | sed -n "${peer}p")
[ -n "$way" ] || fail "by which member does the gateway reach the store? $(cat "$top/head2/log/kvd.out")"
cut "$way"
more "the member by which the gateway reaches the store is cut off"
grep -q "the store at peer $peer is silent" "$top/head2/log/kvd.out" || fail "that member is not left: $(cat "$top/head2/log/kvd.out")"
mend "$way"
agents() { pgrep -f "^$bin/htc-agent .*$top/east/" | grep -vx "${pid[east]}"; }
killed=$(agents)
[ -n "$killed" ] || fail "no agents of east: $(pgrep -af htc-agent)"
# shellcheck disable=SC2086
kill -9 $killed
more "the agents of a host are killed"
kill -9 "${pid[east]}"
join
more "what has joined there is killed"
active head1 && fail "the one that is cut off answers still"
mend head1
waits_now() { active head1; grep "at $B is active" head1.said > /dev/null; }
soon waits_now || fail "the one that is back says: $(cat head1.said)"
gateway=$(pgrep -f "htc-gateway .*$top/head2") || fail "no gateway: $(pgrep -af htc-gateway)"
# shellcheck disable=SC2086
kill -9 $gateway
more "the active gateway is killed"
soon at_least $tasks || fail "not all tasks end: $(cat seen.out)"
desk wait 1 > said 2>&1 || fail "the job does not end well: $(cat said)"
desk fetch 1 --to results > said 2>&1 || fail "no results: $(cat said)"
[ "$(find results -name 'stdout*' -exec cat {} + | sort -k 2n)" = "$(seq -f 'task %g' $tasks)" ] || fail "results: $(find results -name 'stdout*' -exec cat {} + | sort -k 2n)"
for n in 2 1; do expect 0 ip netns exec head$n "$htc" --dir "$top/head$n" down --now; done
echo "all holds"
