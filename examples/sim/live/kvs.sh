#!/bin/bash
# usage: kvs.sh live|proxy|exact|scale MEMBERS
# 128 puts on their way, of 16 clients of this machine, to a store of MEMBERS members with logs that are synced. live: the clients ask the members; proxy: through
# an aggregating proxy; scale: the model in place of both, with costs that htc-sim calibrate finds first; exact: the members and clients themselves, message by message
# in virtual time, with such costs. Prints one JSON object: requests_per_s, response_ms (the median; of scale and exact the mean); of proxy, requests_per_message; of exact,
# scale_per_s: what the model says with the same costs. htc-sim reproduce --live runs it. KVS_QUICK=1: a first look, by less time.
set -euo pipefail
how=$1 members=$2
bin=${HTC_SIM_BIN:+$HTC_SIM_BIN/}
quick=()
[ -z "${KVS_QUICK:-}" ] || quick=(--quick)
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-live.XXXXXX")
pids=()
leave() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null || true
    wait
    rm -rf "$top"
}
trap leave EXIT
trap 'exit 130' INT TERM

# start NAME OPTIONS...: an htc-kvd, and its log in $top/NAME.log. ready NAME: when it answers.
start() {
    local name=$1
    shift
    "${bin}htc-kvd" "$@" > "$top/$name.out" 2> "$top/$name.log" < /dev/null &
    pids+=($!)
    started=$!
}
ready() {
    until grep -qs ^ready "$top/$1.out"; do
        kill -0 "$2" 2> /dev/null || { cat "$top/$1.log" >&2; exit 1; }
        sleep 0.05
    done
}

# model ENGINE: a run of it in $top/ENGINE.json.
model() {
    "${bin}htc-sim" kvs --store live --engine "$1" --costs "$top/costs.ini" --servers "$members" --copies $((members < 3 ? members : 3)) --clients 16 --depth 8 --requests 2000 \
        --puts 1 --keys 1000 --stall 0 --set clients.programs=1 --json > "$top/$1.json"
}
if [ "$how" = scale ] || [ "$how" = exact ]; then
    "${bin}htc-sim" calibrate "${quick[@]}" --dir "$top" -o "$top/costs.ini" > /dev/null
    model scale
    [ "$how" = scale ] || model exact
    python3 - "$top" "$how" << 'PY'
import json, sys
top, how = sys.argv[1:]
run, scale = (json.load(open(f"{top}/{name}.json")) for name in (how, "scale"))
out = {"requests_per_s": run["throughput"], "response_ms": 1e3 * run["response_s"]}
if how == "exact":
    out["scale_per_s"] = scale["throughput"]
print(json.dumps(out))
PY
    exit
fi

named=()
for ((i = 0; i < members && members > 1; i++)); do
    named+=(--member "$("${bin}htc-kvd" --dir "$top/m$i" --new-member)@unix:$top/m$i/kvd.sock")
done
for ((i = 0; i < members; i++)); do
    mkdir -p "$top/m$i"
    start "m$i" --dir "$top/m$i" --engine log "${named[@]}"
done
for ((i = 0; i < members; i++)); do ready "m$i" "${pids[i]}"; done
ask=unix:$top/m0/kvd.sock
if [ "$how" = proxy ]; then
    start proxy --proxy "$ask" --at "unix:$top/proxy.sock" --metrics "unix:$top/metrics.sock"
    ready proxy "$started"
    ask=unix:$top/proxy.sock
fi
"${bin}htc-sim" calibrate --store "$ask" "${quick[@]}" > "$top/run.json"
python3 - "$top/run.json" "$how" "$top/metrics.sock" << 'PY'
import json, re, socket, sys
out = json.load(open(sys.argv[1]))
if sys.argv[2] == "proxy":
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[3])
    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    page = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    count = {name: int(n) for name, n in re.findall(r"^htc_kv_proxy_(requests|messages)_total (\d+)\r?$", page, re.M)}
    out["requests_per_message"] = count["requests"] / count["messages"]
print(json.dumps(out))
PY
