#!/bin/bash
# usage: cluster.sh FOLDER-OF-THE-PROGRAMS FOLDER-OF-THE-BENCHMARKS [--quick | --full] [aof | one | three | flight]...
# On their way at once up to 50,000 commands of Redis' protocol, in memory (flight). Synced to disk: one member beside Redis with appendfsync always and the barest synced store (aof) and beside one etcd (one), three
# members of a strong store beside three etcd (three). Members are asked by their own protocol,
# over their Unix sockets, each key's owner by each client, as clients that know the map do (HANDED_ON=1: each by its share of the clients, whatever the key); Redis and the barest store over loopback TCP; etcd by gRPC, at its leader (kvload of the folder of peers: PEERS, else
# ../shared/peers beside the source tree). Without etcd or that folder our own figures are left. One JSON line a row: value is the median
# over the rounds, least and most the bounds of it. VERBOSE=1 shows each take.
#   --quick  two rounds of 0.3 s: about a minute (the default)
#   --full   seven rounds of 1 s
set -euo pipefail
programs=$(realpath "$1") benches=$(realpath "$2") how=${3---quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
shift $(($# > 2 ? 3 : 2))
case $how in
--quick) rounds=${ROUNDS:-2} seconds=0.3 flight_commands=100000 ;;
--full) rounds=${ROUNDS:-7} seconds=1 ;;
*) sed -n 's/^# //; 2,10p' "$0"; exit 2 ;;
esac
direct=()
[ -n "${HANDED_ON:-}" ] || direct=(-O)
themes=("$@")
[ $# != 0 ] || themes=(aof one three flight)
# shellcheck source=rows.sh
. "$(dirname "$0")/rows.sh"
keys=1000 # on the disk of $TMPDIR

# start_members N: $members, their processes, and $addresses.
start_members() {
    local i base
    base=$(row_of_ports "$1")
    members=$("$programs/htc" --json kv cluster --dir "$dir/cluster" --members "$1" --base-port "$base" --durability sync 9>&- |
        python3 -c "import json, sys; print(*(m['pid'] for m in json.load(sys.stdin)['members']), sep=',')")
    addresses=()
    for ((i = 1; i <= $1; i++)); do
        addresses+=("unix:$dir/cluster/$i/kvd.sock")
    done
}

start_one() {
    local i
    start "$programs/htc-kvd" --dir "$dir/one" --engine log --durability sync
    members=$pid addresses=("unix:$dir/one/kvd.sock")
    for ((i = 0; i < 300; i++)); do
        [ ! -S "$dir/one/kvd.sock" ] || "$programs/htc" kv --store "${addresses[0]}" get there > /dev/null 2>&1 || [ $? != 4 ] || return 0
        sleep 0.1
    done
    say "no member: $(tail -qn 3 "$dir"/out.*)"
    exit 1
}

# start_etcd N: $etcd, their processes, and $leader, its port; 1 without them.
start_etcd() {
    local n=$1 i base all='' clients='' p=() first=${#pids[@]}
    etcd='' leader=''
    with_peers && have etcd etcd && have etcdctl etcd || return 0
    base=$(row_of_ports $((2 * n)))
    for ((i = 0; i < 2 * n; i++)); do
        p+=($((base + i)))
    done
    for ((i = 0; i < n; i++)); do
        all+="e$i=http://127.0.0.1:${p[n + i]},"
        clients+="127.0.0.1:${p[i]},"
    done
    for ((i = 0; i < n; i++)); do
        start etcd --name "e$i" --data-dir "$dir/etcd.$n.$i" --listen-client-urls "http://127.0.0.1:${p[i]}" \
            --advertise-client-urls "http://127.0.0.1:${p[i]}" --listen-peer-urls "http://127.0.0.1:${p[n + i]}" \
            --initial-advertise-peer-urls "http://127.0.0.1:${p[n + i]}" --initial-cluster "${all%,}"
    done
    for ((i = 0; i < 150; i++)); do
        leader=$(ETCDCTL_API=3 etcdctl --endpoints "${clients%,}" endpoint status 2> /dev/null |
            awk -F', ' '$5 == "true" { sub(/.*:/, "", $1); print $1 }') || :
        [ -z "$leader" ] || break
        sleep 0.2
    done
    [ -n "$leader" ] || { say "not asked: etcd, which has found no leader"; return 0; }
    etcd=$(IFS=,; echo "${pids[*]:first}")
}

both() { # OP CONNECTIONS
    take "$1 $2" native "$benches/kv_load" "${direct[@]}" -s "$seconds" -w 0.1 -k "$keys" -o "$1" -c "$2" -p "$members" "${addresses[@]}"
    [ -n "$etcd" ] || return 0
    take "$1 $2" etcd "$dir/kvload" -P etcd -p "$leader" -S "$etcd" -n "$keys" -L etcd -t "$seconds" -w 0.1 -o "${1/put/set}" -c "$2" -d 1
}

synced_shapes=('put 1 1' 'put 64 1' 'put 64 16' 'cas 64 1' 'cas 64 16')
declare -A of_redis=(['put 1 1']=1.4 ['put 64 1']=1.5 ['put 64 16']=2.2 ['cas 64 1']=1.8 ['cas 64 16']=5)

beside() { # SIDE PROTOCOL PORT PID OP CONNECTIONS DEPTH
    take "$5 $6 $7" "$1" "$dir/kvload" -P "$2" -p "$3" -S "$4" -n 4096 -L "$1" -t "$seconds" -w 0.1 -o "${5/put/set}" -c "$6" -d "$7"
}

theme_aof() {
    local shape redis='' toy='' base
    start_one
    if with_peers; then
        base=$(row_of_ports 2)
        start "$dir/toy_limit" -s "$dir/toy.log" "$base"
        toy="toy $base $pid"
        up "$base"
        if have redis-server redis; then
            mkdir "$dir/aof"
            start redis-server --port "$((base + 1))" --bind 127.0.0.1 --save '' --appendonly yes --appendfsync always \
                --auto-aof-rewrite-percentage 0 --dir "$dir/aof"
            redis="redis $((base + 1)) $pid"
            up "$((base + 1))"
        fi
    fi
    for ((round = 1; round <= rounds; round++)); do
        hold
        for shape in "${synced_shapes[@]}"; do
            set -- $shape
            take "$shape" native "$benches/kv_load" -s "$seconds" -w 0.1 -k 4096 -o "$1" -c "$2" -d "$3" -p "$members" "${addresses[@]}"
            [ -z "$redis" ] || beside redis $redis $shape
            [ -z "$toy" ] || beside toy $toy $shape
        done
        release
    done
    for shape in "${synced_shapes[@]}"; do
        row "one member, synced, ${shape// /, }" "$shape" per_s native
        row "one member, synced, ${shape// /, }, CPU" "$shape" cpu native
        row "one member, synced, ${shape// /, }, of redis" "$shape" per_s native redis "${of_redis[$shape]}" more
        row "one member, synced, ${shape// /, }, of toy-sync" "$shape" per_s native toy 0.85 more
        row "one member, synced, ${shape// /, }, CPU of redis" "$shape" cpu native redis
    done
    stop "${pids[@]}"
    pids=()
    rm -rf "$dir/takes" "$dir/one" "$dir/aof" "$dir/toy.log"
}

theme_one() {
    local op
    start_one
    start_etcd 1
    for ((round = 1; round <= rounds; round++)); do
        hold
        for op in put cas get; do
            both "$op" 64
        done
        release
    done
    for op in put cas get; do
        row "one member, synced, $op, 64 clients" "$op 64" per_s native
        row "one member, synced, $op, 64 clients, CPU" "$op 64" cpu native
    done
    row 'one member, synced, put, 64 clients, of etcd' 'put 64' per_s native etcd 7 more
    row 'one member, synced, cas, 64 clients, of etcd' 'cas 64' per_s native etcd 14 more
    row "one member, synced, put, 64 clients, CPU of etcd's" 'put 64' cpu native etcd 0.1 less
    row "one member, synced, cas, 64 clients, CPU of etcd's" 'cas 64' cpu native etcd 0.1 less
    stop "${pids[@]}"
    pids=()
    rm "$dir/takes"
}

theme_three() {
    local op
    start_members 3
    start_etcd 3
    for ((round = 1; round <= rounds; round++)); do
        hold
        for op in 'put 1' 'cas 1' 'put 64' 'cas 64' 'get 64'; do
            both $op
        done
        release
    done
    for op in 'put 1' 'cas 1' 'put 64' 'cas 64' 'get 64'; do
        row "three members, synced, ${op/ /, }" "$op" per_s native
        row "three members, synced, ${op/ /, }, CPU of all" "$op" cpu native '' "$([[ $op != put\ 64 && $op != cas\ 64 ]] || echo 18)" less
        row "three members, synced, ${op/ /, }, instructions of all" "$op" instructions native
    done
    row 'three members, synced, put, 1 client, of etcd' 'put 1' per_s native etcd 3.5 more
    row 'three members, synced, cas, 1 client, of etcd' 'cas 1' per_s native etcd 4.5 more
    row 'three members, synced, put, 64 clients, of etcd' 'put 64' per_s native etcd 5 more
    row 'three members, synced, cas, 64 clients, of etcd' 'cas 64' per_s native etcd 10 more
    row 'three members, get, 64 clients, of etcd' 'get 64' per_s native etcd 5 more
    "$programs/htc" kv cluster --dir "$dir/cluster" --stop > /dev/null
    rm -rf "$dir/cluster" "$dir/takes"
    stop "${pids[@]}"
    pids=()
}

# Ever more commands of one op on their way at once, by the protocol of Redis, in memory: throughput beside the best of them.
depths=(4 20 100 1000)
theme_flight() {
    local depth base per_s best
    have redis-benchmark redis || return 0
    base=$(row_of_ports 3)
    "$programs/htc" --json kv cluster --dir "$dir/cluster" --members 3 --base-port "$base" --durability memory > "$dir/members" 9>&-
    for ((round = 1; round <= rounds; round++)); do
        hold
        best=0
        for depth in "${depths[@]}"; do
            per_s=$("${pin_client[@]}" redis-benchmark -p "$base" -t set -c 50 -P "$depth" -n "${flight_commands:-200000}" -r 1000 --csv |
                awk -F'"' '$2 == "SET" { print $4 }')
            [ -z "${VERBOSE-}" ] || say "flight $((50 * depth)): $per_s"
            printf 'flight %d\tours\t%d\t%s\n' $((50 * depth)) "$round" "$per_s" >> "$dir/takes"
            best=$(awk -v a="$best" -v b="$per_s" 'BEGIN { print (a > b ? a : b) }')
        done
        printf 'flight 50000\tbest\t%d\t%s\n' "$round" "$best" >> "$dir/takes"
        release
    done
    for depth in "${depths[@]}"; do
        row "three members, memory, set, $((50 * depth)) in flight" "flight $((50 * depth))" per_s ours
    done
    row 'three members, memory, set, 50000 in flight, of the best' 'flight 50000' per_s ours best 0.9 more
    "$programs/htc" kv cluster --dir "$dir/cluster" --stop > /dev/null
    rm -rf "$dir/cluster" "$dir/takes"
}

for theme in "${themes[@]}"; do
    "theme_$theme"
done
