# Sourced by native.sh and cluster.sh: members to measure, takes of two or more sides one after the other, and rows out of them. Absolute
# figures drift by up to 1.7 times within minutes on a shared machine: so a row is a ratio, formed round by round, and the median of that.
# shellcheck shell=bash

dir=$(mktemp -d) pids=() round=0 pin_server=() pin_client=() pin_echo=()
end() {
    [ ! -e "$dir/cluster" ] || "$programs/htc" kv cluster --dir "$dir/cluster" --stop > /dev/null || :
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null || :
    wait
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM
export PATH=$PATH:/usr/sbin:/usr/bin
exec 9>> "${BENCH_LOCK:-/tmp/bench.lock}"

say() {
    echo "$@" >&2
}

# The first of N free ports in a row, below those that connections are given.
row_of_ports() {
    python3 -c "
import random, socket
while True:
    first = random.randrange(20000, 32000)
    try:
        for s in [socket.create_server(('127.0.0.1', first + i)) for i in range($1)]:
            s.close()
        print(first)
        break
    except OSError:
        pass"
}

# start COMMAND...: in the background; its process in $pid.
start() {
    "$@" > "$dir/out.${#pids[@]}" 2>&1 9>&- &
    pid=$!
    pids+=("$pid")
}

# up PORT: until somebody listens there.
up() {
    local i
    for ((i = 0; i < 300; i++)); do
        (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null && return
        sleep 0.1
    done
    say "nobody listens on port $1: $(tail -qn 3 "$dir"/out.*)"
    exit 1
}

stop() {
    local one
    for one in "$@"; do
        kill "$one" 2> /dev/null || :
        wait "$one" 2> /dev/null || :
    done
}

# A member in the clear and over a channel, on loopback TCP: $pid, $plain, $secure; its keys in $dir/member.
start_member() {
    local i
    mkdir "$dir/member"
    "${pin_server[@]}" "$benches/kv_serve" "$dir/member" ${HUGE_PAGES:+--huge-pages} > "$dir/member/ports" 2> "$dir/member/err" 9>&- &
    pid=$!
    pids+=("$pid")
    for ((i = 0; i < 300; i++)); do
        [ ! -s "$dir/member/ports" ] || break
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.1
    done
    read -r plain secure < "$dir/member/ports" || { say "no member: $(cat "$dir/member/err")"; exit 1; }
}

# Programs that measure others are compiled from the folder of peers: kvload, toy_limit in $dir.
with_peers() {
    peers=${PEERS:-$source/../shared/peers}
    [ -e "$peers/src/kvload.c" ] || { say "not measured beside others: no peers in $peers"; return 1; }
    gcc -O2 -o "$dir/kvload" "$peers/src/kvload.c"
    gcc -O2 -o "$dir/toy_limit" "$peers/src/toy_limit.c"
}

# have PROGRAM [SERVICE]: is it there? Where ../shared/services can install it, it does.
have() {
    local up=$source/../shared/services/${2-}-up.sh down=$source/../shared/services/${2-}-down.sh
    if ! command -v "$1" > /dev/null && [ -x "$up" ] && [ "$(id -u)" = 0 ]; then
        HTC_SVC=$dir/services "$up" > /dev/null 2>&1 9>&- && HTC_SVC=$dir/services "$down" > /dev/null 2>&1 9>&- || :
    fi
    command -v "$1" > /dev/null || { say "not asked: $1, for it is not installed"; return 1; }
}

# take WHAT SIDE COMMAND...: one run of a load generator, its figures kept for the rows: WHAT SIDE round per_s cpu p99 cycles
# instructions.
take() {
    local what=$1 side=$2
    shift 2
    "${pin_client[@]}" "$@" 9>&- > "$dir/take" || { say "$what, $side: failed"; exit 1; }
    [ -z "${VERBOSE-}" ] || cat "$dir/take" >&2
    python3 -c "
import json, sys
t = json.load(open('$dir/take'))
get = lambda *names: next((str(t[n]) for n in names if n in t), '-')
print(sys.argv[1], sys.argv[2], $round, get('ops_per_s', 'per_s'), get('srv_cpu_us_per_op', 'server_cpu_us'), get('p99_us'),
      get('server_cycles'), get('server_instructions'), sep='\t')" "$what" "$side" >> "$dir/takes"
}

field() {
    case $1 in per_s) echo 4 ;; cpu) echo 5 ;; p99) echo 6 ;; cycles) echo 7 ;; instructions) echo 8 ;; esac
}

# row CASE WHAT FIELD SIDE [OTHER [GOAL more|less]]: the median over the rounds, of SIDE or of SIDE / OTHER; nothing where one of them
# was not taken.
row() {
    awk -F'\t' -v name="$1" -v what="$2" -v f="$(field "$3")" -v side="$4" -v other="${5-}" -v goal="${6-}" -v better="${7-}" '
        $1 == what && $2 == side && $f != "-" { a[$3] = $f }
        $1 == what && $2 == other && $f != "-" { b[$3] = $f }
        END {
            for (r in a)
                if (other == "" || b[r] > 0)
                    v[++n] = other == "" ? a[r] : a[r] / b[r]
            if (n == 0)
                exit
            for (i = 2; i <= n; i++)
                for (k = i; k > 1 && v[k - 1] > v[k]; k--) { t = v[k]; v[k] = v[k - 1]; v[k - 1] = t }
            m = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
            unit = other != "" ? "1" : f == 4 ? "1/s" : f == 5 || f == 6 ? "us" : "1"
            printf "{\"bench\":\"kv\",\"case\":\"%s\",\"unit\":\"%s\",\"value\":%.4g", name, unit, m
            if (goal != "")
                printf ",\"goal\":%s", goal
            if (better == "")
                better = f == 4 ? "more" : "less"
            printf ",\"better\":\"%s\",\"least\":%.4g,\"most\":%.4g,\"rounds\":%d}\n", better, v[1], v[n], n
        }' "$dir/takes"
}

# While a round is measured nobody else measures, and where that is allowed it goes before other work.
hold() {
    flock 9
    { renice -n -20 -p $$ "${pids[@]}"; echo -20 > /proc/self/autogroup; } > /dev/null 2>&1 || :
}

release() {
    { renice -n 0 -p $$; echo 0 > /proc/self/autogroup; } > /dev/null 2>&1 || :
    flock -u 9
}
