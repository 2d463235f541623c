#!/bin/bash
# usage: stores_etcd.sh PROGRAM_FOLDER LIVE_STORE
# The requests of stores.sh to a real etcd: one member, the same while connections are cut, three of which one is killed. Skipped
# where no etcd is installed and ../shared/services, next to this tree, cannot install one.
live_store=$(realpath "$2")
cutter=$(realpath "$(dirname "$0")/cutter.py")
services=$(realpath -m "$(dirname "$0")/../../../shared/services")
source "$(dirname "$0")/live.sh"
export PATH=$PATH:/usr/sbin:/usr/bin

if ! command -v etcd > /dev/null && [ -x "$services/etcd-up.sh" ] && [ "$(id -u)" = 0 ]; then
    HTC_SVC=$top/services "$services/etcd-up.sh" > "$top/services.log" 2>&1 && HTC_SVC=$top/services "$services/etcd-down.sh"
fi
command -v etcd > /dev/null || skip "no etcd is installed (Debian's etcd-server)"

pids=()
trap 'code=$?; kill -9 "${pids[@]}" 2> /dev/null; wait 2> /dev/null; (exit $code); clean_up' EXIT

# start NAME CLIENT_PORT PEER_PORT CLUSTER
start() {
    etcd --name "$1" --data-dir "$top/$1" --listen-client-urls "http://127.0.0.1:$2" --advertise-client-urls "http://127.0.0.1:$2" \
        --listen-peer-urls "http://127.0.0.1:$3" --initial-advertise-peer-urls "http://127.0.0.1:$3" --initial-cluster "$4" \
        > "$top/$1.log" 2>&1 &
    pids+=($!)
}

has_nothing() {
    "$htc" kv --store "etcd://127.0.0.1:$1" get there > "$top/says" 2>&1
    [ $? = 4 ]
}

answers() {
    soon has_nothing "$1" || fail "etcd does not answer: $(cat "$top/says" "$top"/e*.log | tail -n 20)"
}

hold() {
    "$live_store" "$@" || fail "etcd does not hold: $*"
}

# Who is no etcd is told so, with what to do.
client=$(python3 "$ports" 2 $$) peer=$((client + 1))
"$htc" kv --store "etcd://127.0.0.1:$client" get k 2> "$top/says" && fail "opened what is not there"
grep -q "etcd://127.0.0.1:$client: nobody answers there" "$top/says" || fail "it said: $(cat "$top/says")"

start e1 "$client" "$peer" "e1=http://127.0.0.1:$peer"
answers "$client"
hold "etcd://127.0.0.1:$client"
hold -p -n 300 "etcd://127.0.0.1:$client"
hold -n 300 "etcd://127.0.0.1:1,127.0.0.1:$client/other.prefix"
expect 0 "$htc" kv --store "etcd://127.0.0.1:$client" put greeting hello
expect 0 "$htc" kv --store "etcd://127.0.0.1:$client" get greeting
[ "$out" = hello ] || fail "got $out"
if command -v etcdctl > /dev/null; then
    [ "$(ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$client" get --print-value-only htc/greeting)" = hello ] ||
        fail "etcd's own client does not see the value"
fi

# The same while every connection is cut after some bytes or milliseconds.
"$cutter" "$client" > "$top/cutter" &
cutting=$!
pids+=($cutting)
soon test -s "$top/cutter" || fail "no proxy"
hold -b -n 300 "etcd://127.0.0.1:$(head -n 1 "$top/cutter")"
hold -b -p -n 100 "etcd://127.0.0.1:$(head -n 1 "$top/cutter")"
kill $cutting
wait $cutting
cut=$(sed -n 's/^cut //p' "$top/cutter")
echo "connections cut: $cut"
[ "$cut" -gt 20 ] || fail "hardly a connection was cut"

# Three members, and the one that is asked first is killed meanwhile.
c1=$(python3 "$ports" 6 $$)
p1=$((c1 + 1)) c2=$((c1 + 2)) p2=$((c1 + 3)) c3=$((c1 + 4)) p3=$((c1 + 5))
all="t1=http://127.0.0.1:$p1,t2=http://127.0.0.1:$p2,t3=http://127.0.0.1:$p3"
start t1 "$c1" "$p1" "$all"
first=${pids[-1]}
start t2 "$c2" "$p2" "$all"
start t3 "$c3" "$p3" "$all"
answers "$c1"
"$live_store" -b -n 1000 "etcd://127.0.0.1:$c1,127.0.0.1:$c2,127.0.0.1:$c3" > "$top/three" 2>&1 &
asking=$!
sleep 0.5
kill -9 "$first"
wait $asking || fail "etcd of three does not hold: $(cat "$top/three")"
cat "$top/three"
