#!/bin/bash
# usage: native.sh FOLDER-OF-THE-PROGRAMS KV_LOAD [quick | full] [memory | sync | encrypted | cluster | etcd]...
# The store by its own protocol, in the rows of resp.sh: get, put, cas, add at 1 x 1, 50 x 1 and 50 x 16, and 50 batches of 16; 64 connections
# against synced disks; over a secure channel beside the same in plain; three members beside three etcd (if etcd is installed, or
# ../shared/services beside the source tree can install it). One JSON line a row; absolute figures drift, so compare rows of one run.
#   quick   0.2 s a row, 5,000 keys (the default)
#   full    2 s a row, 50,000 keys
set -euo pipefail
programs=$(realpath "$1") load=$(realpath "$2") how=${3-quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
shift $(($# > 2 ? 3 : 2))
case $how in
quick) form=(-s 0.2 -k 5000) ;;
full) form=(-s 2 -k 50000) ;;
*) sed -n 's/^# //; 2,8p' "$0"; exit 2 ;;
esac
themes=("$@")
[ $# != 0 ] || themes=(memory sync encrypted cluster etcd)

dir=$(mktemp -d) pids=()
end() {
    [ ! -e "$dir/cluster" ] || "$programs/htc" kv cluster --dir "$dir/cluster" --stop > /dev/null || :
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null || :
    wait
    rm -rf "$dir"
}
trap end EXIT

ports() {
    python3 -c "
import socket
s = [socket.create_server(('127.0.0.1', 0)) for _ in range($1)]
print(*(x.getsockname()[1] for x in s))"
}

# serve NAME OPTION...: a member whose line 'ready' is in $dir/NAME.ready; its process in $pid.
serve() {
    local name=$1 i
    shift
    "$programs/htc-kvd" --dir "$dir/$name" "$@" > "$dir/$name.ready" 2> "$dir/$name.err" &
    pid=$!
    pids+=("$pid")
    for ((i = 0; i < 300; i++)); do
        ! grep -q ready "$dir/$name.ready" || return 0
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.1
    done
    echo "no member $name: $(cat "$dir/$name.err")" >&2
    exit 1
}

stop() {
    kill "$1"
    wait "$1" || :
}

# rows NAME PIDS ADDRESS OPTION...: the grid of one store.
rows() {
    local name=$1 pids=$2 address=$3 op shape
    shift 3
    for op in get put cas add; do
        for shape in '-c 1' '-c 50' '-c 50 -d 16' '-c 50 -b 16'; do
            # shellcheck disable=SC2086
            "$load" "${form[@]}" -n "$name" -o "$op" $shape -p "$pids" "$@" $address
        done
    done
}

theme_memory() {
    serve memory --engine memory
    rows memory "$pid" "unix:$dir/memory/kvd.sock"
    stop "$pid"
}

theme_sync() {
    local op
    serve sync --engine log --durability sync
    for op in put cas add; do
        "$load" "${form[@]}" -n sync -o "$op" -c 64 -p "$pid" "unix:$dir/sync/kvd.sock"
    done
    stop "$pid"
}

# One member, asked over a secure channel and over its Unix socket in turns: the ratio of its CPU is the channel's price.
theme_encrypted() {
    local op port i
    port=$(ports 1)
    "$programs/htc" keys new "$dir/server.key" > /dev/null
    "$programs/htc" keys new "$dir/user.key" > /dev/null
    "$programs/htc" keys add server "$("$programs/htc" keys show "$dir/server.key" | grep -o "pub-[^ ]*" | head -n 1)" --role member \
        --ring "$dir/user.ring" > /dev/null
    "$programs/htc" keys add user "$("$programs/htc" keys show "$dir/user.key" | grep -o "pub-[^ ]*" | head -n 1)" --role user \
        --ring "$dir/server.ring" > /dev/null
    serve encrypted --engine memory --listen "127.0.0.1:$port" --key "$dir/server.key" --ring "$dir/server.ring"
    for op in get put; do
        for i in '-c 50' '-c 50 -d 16'; do
            # shellcheck disable=SC2086
            "$load" "${form[@]}" -n plain -o "$op" $i -p "$pid" "unix:$dir/encrypted/kvd.sock" > "$dir/plain"
            # shellcheck disable=SC2086
            "$load" "${form[@]}" -n encrypted -o "$op" $i -p "$pid" -K "$dir/user.key" -R "$dir/user.ring" "tcp://127.0.0.1:$port" > "$dir/sealed"
            cat "$dir/plain" "$dir/sealed"
            python3 -c "
import json
p, s = (json.load(open('$dir/' + n)) for n in ('plain', 'sealed'))
print(json.dumps(dict(bench='kv_native', case='server CPU, encrypted of plain', op=p['op'], connections=p['connections'], depth=p['depth'],
                      ratio=round(s['server_cpu_us'] / p['server_cpu_us'], 3))))"
        done
    done
    stop "$pid"
}

theme_cluster() {
    local base members op
    base=$(ports 1)
    members=$("$programs/htc" --json kv cluster --dir "$dir/cluster" --members 3 --base-port "$base" --durability sync |
        python3 -c "import json, sys; print(*(m['pid'] for m in json.load(sys.stdin)['members']), sep=',')")
    for op in get put cas add; do
        "$load" "${form[@]}" -n cluster -o "$op" -c 64 -p "$members" "unix:$dir/cluster/1/kvd.sock" "unix:$dir/cluster/2/kvd.sock" \
            "unix:$dir/cluster/3/kvd.sock"
    done
    "$programs/htc" kv cluster --dir "$dir/cluster" --stop > /dev/null
    rm -rf "$dir/cluster"
}

theme_etcd() {
    local c1 p1 c2 p2 c3 p3 all i first=${#pids[@]} op members
    export PATH=$PATH:/usr/sbin:/usr/bin
    if ! command -v etcd > /dev/null && [ -x "$source/../shared/services/etcd-up.sh" ] && [ "$(id -u)" = 0 ]; then
        HTC_SVC=$dir/services "$source/../shared/services/etcd-up.sh" > /dev/null 2>&1 &&
            HTC_SVC=$dir/services "$source/../shared/services/etcd-down.sh"
    fi
    command -v etcd > /dev/null || { echo "not asked: etcd, for it is not installed" >&2; return 0; }
    read -r c1 p1 c2 p2 c3 p3 < <(ports 6)
    all="e1=http://127.0.0.1:$p1,e2=http://127.0.0.1:$p2,e3=http://127.0.0.1:$p3"
    for i in "e1 $c1 $p1" "e2 $c2 $p2" "e3 $c3 $p3"; do
        # shellcheck disable=SC2086
        set -- $i
        etcd --name "$1" --data-dir "$dir/$1" --listen-client-urls "http://127.0.0.1:$2" --advertise-client-urls "http://127.0.0.1:$2" \
            --listen-peer-urls "http://127.0.0.1:$3" --initial-advertise-peer-urls "http://127.0.0.1:$3" --initial-cluster "$all" \
            > "$dir/$1.log" 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < 600; i++)); do
        "$programs/htc" kv --store "etcd://127.0.0.1:$c1" get there > "$dir/says" 2>&1 || [ $? != 4 ] || break
        sleep 0.1
    done
    members=$(IFS=,; echo "${pids[*]:first}")
    for op in get put cas add; do
        "$load" "${form[@]}" -k 1000 -n etcd -o "$op" -c 64 -p "$members" "etcd://127.0.0.1:$c1" "etcd://127.0.0.1:$c2" "etcd://127.0.0.1:$c3"
    done
    for i in "${pids[@]:first}"; do
        stop "$i"
    done
    pids=("${pids[@]:0:first}")
}

for theme in "${themes[@]}"; do
    "theme_$theme"
done
