#!/bin/bash
# usage: resp.sh FOLDER-OF-THE-PROGRAMS [quick | full | sync | etcd | three] [peer...]
# Our RESP listener beside other stores in one run, on the same connections and depths: JSON lines, ratios last. Absolute figures
# drift from minute to minute, so only the ratios say anything. It needs the folder of peers (PEERS, else ../shared/peers beside the
# source tree), which installs what it measures; 77 without it.
#   quick   one run of 0.1 s a row beside the bare echo and Redis (the default)
#   full    three runs beside all volatile peers
#   sync    engine log, durability sync, beside Redis with appendfsync always and the barest synced store
#   etcd    the same member beside one etcd
#   three   three members of a strong store, synced, asked at the first of them, beside three etcd, asked at their leader
set -euo pipefail
programs=$(realpath "$1") how=${2-quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
peers=${PEERS:-$source/../shared/peers}
[ -x "$peers/kvs-peers.sh" ] || { echo "SKIP no peers in $peers"; exit 77; }
shift $(($# > 1 ? 2 : 1))
case $how in
quick) form=(-r 1 -t 0.1) with=(echo redis) grid='' ;;
full) form=(-r 3) with=(echo toy redis memcached) grid='' ;;
sync) form=(-r 3) with=(toy-sync redis-aof) ENGINE=${ENGINE:-log} grid=:sync ;;
etcd) form=(-r 3) with=(etcd1) ENGINE=${ENGINE:-log} grid=:etcd ;;
three) form=(-r 3) with=(etcd3) grid=:etcd ;;
*) sed -n 's/^# //; 2,10p' "$0"; exit 2 ;;
esac
[ $# = 0 ] || with=("$@")

pin=() dir=$(mktemp -d)
if [ "$how" = three ]; then
    trap '"$programs/htc" kv cluster --stop --dir "$dir/cluster" > /dev/null || :; rm -rf "$dir"' EXIT
    base=$(python3 -c 'import random; print(random.randrange(20000, 23000))') # below what the peers take
    "$programs/htc" --json kv cluster --dir "$dir/cluster" --members 3 --base-port "$base" --durability sync > "$dir/members"
    pid=$(python3 -c 'import json, sys; print(*(m["pid"] for m in json.load(sys.stdin)["members"]), sep=",")' < "$dir/members")
    # shellcheck disable=SC2086
    renice -n -20 -p ${pid//,/ } > /dev/null 2>&1 || :
    "$peers/kvs-peers.sh" "${form[@]}" -x "ours:ifeq:$base:$pid$grid" "${with[@]}"
    exit
fi
[ "$(nproc)" -lt 2 ] || [ -n "$grid" ] || pin=(taskset -c 0) # as the peers are
coproc ours { exec "${pin[@]}" "$programs/htc-kvd" --engine "${ENGINE:-memory}" --dir "$dir/state" --resp 127.0.0.1:0 2> /dev/null; }
pid=$ours_PID
trap 'kill $pid 2> /dev/null || :; wait $pid 2> /dev/null || :; rm -rf "$dir"' EXIT
read -r line <&"${ours[0]}"
port=${line#*127.0.0.1:}
port=${port%%,*}
# What the script of peers gives itself and those it starts on a busy machine, where it may.
renice -n -20 -p "$pid" > /dev/null 2>&1 || :
"$peers/kvs-peers.sh" "${form[@]}" -x "ours:ifeq:$port:$pid$grid" "${with[@]}"
