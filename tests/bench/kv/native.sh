#!/bin/bash
# usage: native.sh FOLDER-OF-THE-PROGRAMS FOLDER-OF-THE-BENCHMARKS [--quick | --full] [memory | one | encrypted | keys]...
# One member asked by its own protocol over loopback TCP: the rows of resp.sh beside Redis, memcached and the barest store (where they are
# installed, and the folder of peers is there: PEERS, else ../shared/peers beside the source tree); one client at a time beside the bare
# echo; a secure channel beside the clear; reads, overwrites and new keys with many records beside few. One JSON line a row: value is the
# median over the rounds, least and most the bounds of it. VERBOSE=1 shows each take; HUGE_PAGES=1: the
# member's records are in large pages (htc-kvd --huge-pages).
#   --quick  one or two rounds of 0.06 s, 5,000 keys, 1,000,000 at most: under a minute (the default)
#   --full   seven rounds of 0.4 s, 50,000 keys, 10,000,000 at most (2 GB of memory)
set -euo pipefail
programs=$(realpath "$1") benches=$(realpath "$2") how=${3---quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
shift $(($# > 2 ? 3 : 2))
case $how in
--quick) rounds=1 seconds=0.06 keys=5000 many=1000000 shapes=('50 1' '50 16') ;;
--full) rounds=${ROUNDS:-7} seconds=0.4 keys=50000 many=10000000 shapes=('1 1' '50 1' '50 16') ;;
*) sed -n 's/^# //; 2,10p' "$0"; exit 2 ;;
esac
themes=("$@")
[ $# != 0 ] || themes=(memory one encrypted keys)
# shellcheck source=rows.sh
. "$(dirname "$0")/rows.sh"
[ "$(nproc)" -lt 2 ] || { pin_server=(taskset -c 0) pin_client=(taskset -c 1) pin_echo=(-e 0); }

ours() { # WHAT SIDE OPTION...: of the member in the clear
    local what=$1 side=$2
    shift 2
    take "$what" "$side" "$benches/kv_load" -s "$seconds" -w 0.05 -k "$keys" -p "$member" -T "$dir/member/token" "$@" \
        "tcp://127.0.0.1:$plain"
}

sealed() {
    local what=$1 side=$2
    shift 2
    take "$what" "$side" "$benches/kv_load" -s "$seconds" -w 0.05 -k "$keys" -p "$member" -K "$dir/member/user.key" \
        -R "$dir/member/user.ring" "$@" "tcp://127.0.0.1:$secure"
}

echo_() {
    local what=$1
    shift
    take "$what" echo "$benches/kv_load" -o echo "${pin_echo[@]}" -s "$seconds" -w 0.05 "$@" tcp
}

theirs() { # WHAT SIDE PROTOCOL PORT PID OP CONNECTIONS DEPTH
    take "$1" "$2" "$dir/kvload" -P "$3" -p "$4" -S "$5" -n "$keys" -L "$2" -t "$seconds" -w 0.05 -o "$6" -c "$7" -d "$8"
}

theme_memory() {
    local redis='' memcached='' toy='' base op shape what name
    start_member
    member=$pid
    if with_peers; then
        base=$(row_of_ports 3)
        start "${pin_server[@]}" "$dir/toy_limit" "$base"
        toy="toy $base $pid"
        if have redis-server redis; then
            start "${pin_server[@]}" redis-server --port "$((base + 1))" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir"
            redis="redis $((base + 1)) $pid"
        fi
        if have memcached memcached; then
            start "${pin_server[@]}" memcached -u "$(id -un)" -l 127.0.0.1 -p "$((base + 2))" -U 0 -t 1 -m 1024 -c 4096
            memcached="memcached $((base + 2)) $pid"
        fi
        for name in "$toy" "$redis" "$memcached"; do
            [ -z "$name" ] || up "$(cut -d' ' -f2 <<< "$name")"
        done
    fi
    for ((round = 1; round <= rounds; round++)); do
        hold
        for shape in "${shapes[@]}"; do
            set -- $shape
            echo_ "get $shape" -c "$1" -d "$2"
            for op in get put cas add; do
                what="$op $shape"
                ours "$what" native -o "$op" -c "$1" -d "$2"
                [ "$1" != 1 ] && [ "$op" != add ] || continue
                [ "$2" = 1 ] || ours "$what" batch -o "$op" -c "$1" -b "$2"
                [ -z "$redis" ] || theirs "$what" redis $redis "${op/put/set}" $shape
                [ -z "$memcached" ] || theirs "$what" memcached $memcached "${op/put/set}" $shape
                [ -z "$toy" ] || theirs "$what" toy $toy "${op/put/set}" $shape
            done
        done
        ours 'hot' native -o hot -c 16
        ours 'add hot' native -o add -c 16 -k 1
        [ -z "$redis" ] || theirs 'hot' redis $redis hot 16 1
        [ -z "$redis" ] || theirs 'add hot' redis $redis incr 16 1
        release
    done
    for shape in "${shapes[@]}"; do
        for op in get put cas add; do
            row "native memory, ${shape/ / x }, $op" "$op $shape" per_s native
            row "native memory, ${shape/ / x }, $op, CPU" "$op $shape" cpu native
        done
        row "native memory, ${shape/ / x }, get, p99" "get $shape" p99 native
    done
    for name in redis memcached; do
        row "native memory, 50 x 1, get, of $name" 'get 50 1' per_s native $name 1.05 more
    done
    row 'native memory, 50 x 1, get, of echo' 'get 50 1' per_s native echo 0.85 more
    row 'native memory, 50 x 1, put, of redis' 'put 50 1' per_s native redis 1.2 more
    row 'native memory, 50 x 1, put, of toy' 'put 50 1' per_s native toy 0.85 more
    row 'native memory, 50 x 1, cas, of redis' 'cas 50 1' per_s native redis 1.6 more
    row 'native memory, 50 x 1, cas, of memcached' 'cas 50 1' per_s native memcached 1.25 more
    row 'native memory, 50 x 1, cas, of toy' 'cas 50 1' per_s native toy 0.85 more
    for name in native batch; do
        row "$name memory, 50 x 16, get, of redis" 'get 50 16' per_s $name redis 1.6 more
        row "$name memory, 50 x 16, get, of toy" 'get 50 16' per_s $name toy 0.85 more
        row "$name memory, 50 x 16, put, of redis" 'put 50 16' per_s $name redis 2 more
        row "$name memory, 50 x 16, put, of toy" 'put 50 16' per_s $name toy 0.85 more
        row "$name memory, 50 x 16, cas, of redis" 'cas 50 16' per_s $name redis 6 more
        row "$name memory, 50 x 16, cas, of memcached" 'cas 50 16' per_s $name memcached 2.2 more
        row "$name memory, 50 x 16, cas, of toy" 'cas 50 16' per_s $name toy 0.85 more
        row "$name memory, 50 x 16, get, CPU of echo's" 'get 50 16' cpu $name echo 2.2 less
    done
    row 'native memory, 50 x 1, get, p99 of redis' 'get 50 1' p99 native redis 0.91 less
    row 'native memory, one key, 16 clients, cas loop, of redis' hot per_s native redis 1.8 more
    row 'native memory, one key, 16 clients, add, of redis' 'add hot' per_s native redis 1.1 more
    stop "${pids[@]}"
    pids=()
    rm -rf "$dir/member"
}

theme_one() {
    start_member
    member=$pid
    for ((round = 1; round <= 2 * rounds; round++)); do
        hold
        echo_ one -c 1
        ours one get -o get -c 1
        ours one put -o put -c 1
        release
    done
    row 'one client, one request at a time, get' one per_s get
    row 'one client, one request at a time, get, of echo' one per_s get echo 0.85 more
    row 'one client, one request at a time, put, of echo' one per_s put echo 0.85 more
    row "one client, one request at a time, get, CPU of echo's" one cpu get echo
    row "one client, one request at a time, get, instructions of echo's" one instructions get echo
    stop "$pid"
    rm -rf "$dir/member"
}

theme_encrypted() {
    local op depth unit
    start_member
    member=$pid
    for ((round = 1; round <= 2 * rounds; round++)); do
        hold
        for op in get put; do
            for depth in 1 16; do
                ours "$op $depth" plain -o "$op" -c 50 -d "$depth"
                sealed "$op $depth" sealed -o "$op" -c 50 -d "$depth"
            done
        done
        release
    done
    for op in get put; do
        for unit in cpu cycles instructions; do
            row "encrypted of plain, $op, depth 1, $unit" "$op 1" "$unit" sealed plain "$([ $unit != cpu ] || echo 1.3)" less
            row "encrypted of plain, $op, depth 16, $unit" "$op 16" "$unit" sealed plain "$([ $unit != cpu ] || echo 1.7)" less
        done
    done
    stop "$pid"
    rm -rf "$dir/member"
}

# A member with few keys and one with many, asked in turns. A round adds 5,000 to both: fewer are over before their CPU time
# is counted.
theme_keys() {
    local few=10000 op side fresh=20000000 turns=$((rounds > 2 ? rounds : 3))
    declare -A of address count
    for side in few many; do
        start_member
        of[$side]=$pid address[$side]=tcp://127.0.0.1:$plain count[$side]=${!side}
        "$benches/kv_load" -T "$dir/member/token" -k "${!side}" -m 1 -w 0 "${address[$side]}" > /dev/null
        mv "$dir/member" "$dir/$side"
    done
    for ((round = 1; round <= turns; round++)); do
        hold
        for op in get put new; do
            for side in few many; do
                take "$op" "$side" "$benches/kv_load" -s 10 -w 0 -m "$([ $op = new ] && echo 5000 || echo 20000)" -k "${count[$side]}" \
                    -F -a "$fresh" -c 10 -d 16 -o "$op" -p "${of[$side]}" -T "$dir/$side/token" "${address[$side]}"
            done
        done
        fresh=$((fresh + 100000))
        release
    done
    for op in get put new; do
        row "10 x 16, ${op/new/new key}, $few keys, CPU" "$op" cpu few
        row "10 x 16, ${op/new/new key}, $many keys, CPU" "$op" cpu many
        row "10 x 16, ${op/new/new key}, CPU at $many keys of that at $few" "$op" cpu many few 1.5 less
    done
    stop "${of[@]}"
    rm -rf "$dir/few" "$dir/many"
}

for theme in "${themes[@]}"; do
    "theme_$theme"
done
