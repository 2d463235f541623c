#!/bin/bash
# usage: heads_apart.sh PROGRAM_FOLDER
# Two gateways, a store, a host that has joined and a user, each on a "host" of its own: network namespaces with a bridge between them. The host of the active
# gateway is cut off, without a word to anybody. The other one goes on, and whoever asks both is answered. HTC_TEST_FULL=1: who waits follows when the
# silence was long enough, as does the host, before it is thought lost: each task has one result, and none is run again. 77: no such namespaces here.
declare -A address=([store]=10.0.0.1 [head1]=10.0.0.2 [head2]=10.0.0.3 [east]=10.0.0.4 [desk]=10.0.0.5)
# shellcheck source=tests/live/hosts_lib.sh
source "$(dirname "$0")/hosts_lib.sh"
store=${address[store]}:7421
# In the short form the job is cancelled: most of its tasks go on until then.
if [ -n "${HTC_TEST_FULL-}" ]; then
    lost_after=30 task='sleep 0.2; echo task {}'
else
    lost_after=6 task='[ {} -le 8 ] || sleep 300; echo task {}'
fi
for n in 1 2; do
    pin head$n user store
    pin store member head$n
    pin east host head$n
    pin head$n member east
    expect 0 "$htc" keys add root "$("$htc" keys show "$top/desk/key")" --role user --ring "$top/head$n/ring"
    printf '[server]\njoin = %s:7420\nlease_s = 1\n[db]\nstore = tcp://store@%s\n[agent]\nheartbeat_s = 0.5\nlost_after_s = %s\n[site.east]\nadapter = join\n' \
        "${address[head$n]}" "$store" "$lost_after" > head$n.ini
done
desk_knows head1 head2

on store "$bin/htc-kvd" --dir "$top/store/data" --engine log --listen "$store" --key "$top/store/key" --ring "$top/store/ring" > store.said 2>&1 &
soon grep -s ready store.said > /dev/null || fail "no store: $(cat store.said)"
A=${address[head1]}:7420 B=${address[head2]}:7420
active() { on "$1" "$htc" --dir "$top/$1" --timeout 1s status > "$1.said" 2>&1; }
expect 0 ip netns exec head1 "$htc" --dir "$top/head1" up --config head1.ini
soon active head1 || fail "the first gateway is not active: $(cat head1.said)"
expect 0 ip netns exec head2 "$htc" --dir "$top/head2" up --config head2.ini
on east "$bin/htc-agent" --join "$A,$B" --dir "$top/east/state" --key "$top/east/key" --ring "$top/east/ring" --slots 2 > joined.out 2>&1 &
soon grep -s '^joined' joined.out > /dev/null || fail "east does not join: $(cat joined.out)"

desk() { HOME=$top/desk ip netns exec desk timeout 200 "$htc" "$1" --gateway "$A,$B" "${@:2}"; }
tasks=30
desk submit -- sh -c "$task" ::: $(seq $tasks) > said 2>&1 || fail "no job: $(cat said)"
desk wait last > waited.out 2>&1 &
waits=$!
some_done() { desk status 1 --json > seen.out 2>&1 && [ "$(json "$(cat seen.out)" 'v["jobs"][0]["tasks"]["done"] if "jobs" in v else v["tasks"]["done"]')" -ge 4 ]; }
soon some_done || fail "the job does not run: $(cat seen.out)"

ip link set to-head1 down
soon active head2 || fail "the other gateway does not go on: $(cat head2.said)"
echo "the other gateway is active"
desk status 1 --timeout 5s > said 2>&1 || fail "who asks both is not answered: $(cat said)"
if [ -n "${HTC_TEST_FULL-}" ]; then
    wait $waits || fail "who waits does not follow: $(cat waited.out)"
    echo "who waited has followed"
fi
active head1 && fail "the one that is cut off answers still"
ip link set to-head1 up
waits_now() { active head1; grep "at $B is active" head1.said > /dev/null; }
soon waits_now || fail "the one that is back says: $(cat head1.said)"
grep -q 'no file of secrets' "$top"/head1/log/* && fail "what it ends for is something else: $(cat head1/log/gateway.log)"
if [ -n "${HTC_TEST_FULL-}" ]; then
    desk status 1 --json > seen.out 2>&1 && [ "$(json "$(cat seen.out)" '(v["jobs"][0] if "jobs" in v else v)["lost"]')" = 0 ] || fail "tasks were lost: $(cat seen.out)"
    desk fetch 1 --to results > said 2>&1 || fail "no results: $(cat said)"
    [ "$(find results -name 'stdout*' -exec cat {} + | sort | uniq -c | awk '{ print $1 }' | sort | uniq -c | tr -s ' ')" = " $tasks 1" ] || fail "results: $(find results)"
else
    desk cancel 1 > said 2>&1 || fail "not cancelled: $(cat said)"
    wait $waits
    how=$?
    [ $how = 5 ] || fail "who waits for a cancelled job ends with $how: $(cat waited.out)"
fi
for n in 2 1; do expect 0 ip netns exec head$n "$htc" --dir "$top/head$n" down --now; done
echo "all holds"
