#!/bin/bash
# usage: staging_apart.sh PROGRAM_FOLDER
# Inputs of 100 KB, 1 MB and 10 MB and a directory at two hosts that have joined, each on a "host" of its own: each content goes to each of them once, whatever
# the number of its tasks and jobs, as the counters of its network say. A host that is gone in the middle of a transfer loses no task, and when it is back
# the transfer goes on. 77: no network namespaces here.
declare -A address=([head]=10.0.0.1 [east]=10.0.0.2 [west]=10.0.0.3)
# shellcheck source=tests/live/hosts_lib.sh
source "$(dirname "$0")/hosts_lib.sh"
gateway=${address[head]}:7420
H=(ip netns exec head "$htc" --dir "$top/head")
declare -A pid
printf '[server]\njoin = %s\n[db]\njoin = %s:7421\n[agent]\nheartbeat_s = 0.5\nlost_after_s = 4\n[site.local]\ncores = 1\n[site.east]\nadapter = join\n[site.west]\nadapter = join\n' "$gateway" "${address[head]}" > head.ini
for host in east west; do
    pin $host host head
    pin head member $host
done
join()
{
    ip netns exec "$1" "$bin/htc-agent" --join "$gateway" --dir "$top/$1/state" --key "$top/$1/key" --ring "$top/$1/ring" --slots 2 > "$1.said" 2>&1 &
    pid[$1]=$!
    disown
    soon grep -sq '^joined' "$1.said" || fail "$1 does not join: $(cat "$1.said")"
}
expect 0 "${H[@]}" up --config head.ini
expect 0 "${H[@]}" drain local # all that follows runs at the other two
join east
join west
sent_to() { ip -s -j link show "to-$1" | python3 -S -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["bytes"])'; }
objects() { find "$top/$1/state/data/cache" -type f 2> /dev/null | sort | xargs -r stat -c '%i %s'; }

# --- once to each host ---
head -c 100000 /dev/urandom > small
head -c 1000000 /dev/urandom > middle
head -c 10000000 /dev/urandom > large
mkdir -p tree/deep/empty
head -c 500000 /dev/urandom > tree/deep/leaf
ln -s deep/leaf tree/link
all=11600000
read_all='cat small middle large tree/deep/leaf tree/link | cksum; [ -L tree/link ] && [ -d tree/deep/empty ]'
right=$(cat small middle large tree/deep/leaf tree/link | cksum)
# job NUMBER TASKS: all its tasks have read what was submitted.
read_right()
{
    expect 0 "${H[@]}" fetch "$1" --wait --to "job$1"
    [ "$(find "job$1" -name 'stdout*' -exec cat {} + | sort | uniq -c | xargs)" = "$2 $right" ] || fail "the tasks of job $1 have read: $(find "job$1" -name 'stdout*' -exec cat {} +)"
}
declare -A before have
number=0
for host in east west; do
    before[$host]=$(sent_to $host)
    for job in 1 2; do # the second one finds all there
        expect 0 "${H[@]}" submit --wait --hosts $host -i small -i middle -i large -i tree/ -- sh -c "$read_all" ::: $(seq 6)
        read_right $((++number)) 6
        [ $job = 1 ] && have[$host]=$(objects $host)
    done
    sent=$(($(sent_to $host) - before[$host]))
    [ "$(wc -l <<< "${have[$host]}")" = 4 ] && [ "$(objects $host)" = "${have[$host]}" ] || fail "at $host were ${have[$host]} and are $(objects $host)"
    [ $sent -ge $all ] && [ $sent -lt $((all + all / 4)) ] || fail "$sent bytes went to $host for $all bytes of content"
    echo "$host: $sent bytes for $all bytes of content, 12 tasks"
done

# --- a host is gone in the middle ---
size=24000000
tc qdisc add dev to-east root tbf rate 8mbit burst 64k latency 100ms 2> "$top/err" || skip "the rest: no slow link here: $(cat "$top/err")"
head -c $size /dev/urandom > huge
right=$(cksum < huge)
before[east]=$(sent_to east)
expect 0 "${H[@]}" submit -i huge -- sh -c 'cksum < huge' ::: $(seq 4)
in_the_middle() { [ $(($(sent_to east) - before[east])) -gt 1000000 ]; }
soon in_the_middle || fail "nothing goes to east: $("${H[@]}" why $((number + 1)))"
cut east
sent=$(($(sent_to east) - before[east]))
[ $sent -lt $size ] || fail "all of it had come already: $sent bytes"
agents() { pgrep -f "^$bin/htc-agent .*$top/east/"; }
# shellcheck disable=SC2046
kill -9 $(agents)
read_right $((++number)) 4
expect 0 "${H[@]}" tasks $number --json
[ "$(json "$out" '{t["state"] for t in v["tasks"]}')" = "{'done'}" ] || fail "a task is lost: $out"
mend east
tc qdisc del dev to-east root
before[east]=$(sent_to east)
join east
expect 0 "${H[@]}" submit --wait --hosts east -i huge -- sh -c 'cksum < huge'
read_right $((++number)) 1
again=$(($(sent_to east) - before[east]))
[ $again -lt $size ] || fail "it began anew: $again bytes after $sent of $size"
echo "$sent bytes of $size had gone to the host that was lost, and $again when it was back"
expect 0 "${H[@]}" down --now
echo "all holds"
