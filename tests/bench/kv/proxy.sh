#!/bin/bash
# usage: proxy.sh FOLDER-OF-THE-PROGRAMS FOLDER-OF-THE-BENCHMARKS [--quick | --full] [memory | log]...
# 64 clients of one member, straight and through a proxy on the same machine, over Unix sockets: requests a second and what a request costs the
# member, and how many requests a message to it has. Client, proxy and member share the processors, so that the proxy's own work lowers
# what a small machine does in a second; what it saves is the member's. One JSON line a row, as native.sh has them.
#   --quick  one round of 0.3 s (the default)      --full   seven rounds of 1 s
set -euo pipefail
programs=$(realpath "$1") benches=$(realpath "$2") how=${3---quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
shift $(($# > 2 ? 3 : 2))
case $how in
--quick) rounds=1 seconds=0.3 ;;
--full) rounds=${ROUNDS:-7} seconds=1 ;;
*) sed -n 's/^# //; 2,7p' "$0"; exit 2 ;;
esac
themes=("$@")
[ $# != 0 ] || themes=(memory log)
# shellcheck source=rows.sh
. "$(dirname "$0")/rows.sh"

# counted NAME: one of the proxy's counters.
counted() {
    curl -s --unix-socket "$dir/metrics" http://localhost/metrics | awk -v name="htc_kv_proxy_$1_total" '$1 == name { print $2 }'
}

ready() { # FILE: what a program says in the end
    local i
    for ((i = 0; i < 300; i++)); do
        ! grep -q '^ready: ' "$1" || return 0
        sleep 0.1
    done
    say "not ready: $(cat "$1")"
    exit 1
}

theme() {
    local engine=$1 op depth side member what requests messages
    start "$programs/htc-kvd" --engine "$engine" --dir "$dir/$engine"
    member=$pid
    ready "$dir/out.$((${#pids[@]} - 1))"
    start "$programs/htc-kvd" --proxy "unix:$dir/$engine/kvd.sock" --at "unix:$dir/proxy" --metrics "unix:$dir/metrics"
    ready "$dir/out.$((${#pids[@]} - 1))"
    for ((round = 1; round <= rounds; round++)); do
        hold
        for depth in 1 16; do
            for op in get put; do
                what="$engine $op $depth"
                take "$what" straight "$benches/kv_load" -s "$seconds" -w 0.1 -k 5000 -p "$member" -o $op -c 64 -d $depth "unix:$dir/$engine/kvd.sock"
                requests=$(counted requests) messages=$(counted messages)
                take "$what" proxy "$benches/kv_load" -s "$seconds" -w 0.1 -k 5000 -p "$member" -o $op -c 64 -d $depth "unix:$dir/proxy"
                requests=$(($(counted requests) - requests)) messages=$(($(counted messages) - messages))
                printf '%s\t%s\t%s\t%s\n' "$what" packed $round "$(awk "BEGIN { print $requests / $messages }")" >> "$dir/takes"
            done
        done
        release
    done
    for depth in 1 16; do
        for op in get put; do
            what="$engine $op $depth"
            for side in straight proxy; do
                row "$engine, 64 x $depth, $op, $side" "$what" per_s $side
                row "$engine, 64 x $depth, $op, $side, CPU of the member" "$what" cpu $side
            done
            row "$engine, 64 x $depth, $op, proxy, of straight" "$what" per_s proxy straight
            row "$engine, 64 x $depth, $op, proxy, CPU of the member, of straight" "$what" cpu proxy straight
            row "$engine, 64 x $depth, $op, requests a message" "$what" per_s packed | sed 's|"unit":"1/s"|"unit":"1"|'
        done
    done
    stop "${pids[@]}"
    pids=()
    rm -rf "${dir:?}/$engine"
}

for one in "${themes[@]}"; do
    theme "$one"
done
