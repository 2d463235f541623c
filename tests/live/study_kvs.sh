#!/bin/bash
# usage: SOURCE=DIR study_kvs.sh PROGRAMS
# htc-sim kvs: the example runs, one request alone takes what its parts take, messages are those of the closed form, a run goes on from a checkpoint, and mistakes
# are refused.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"
# row NAME=VALUE...: of the run in $dir/out, to nine digits
row() {
    python3 - "$dir/out" "$@" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
for one in sys.argv[2:]:
    name, want = one.split("=")
    got = run
    for part in name.split("."):
        got = got[part]
    assert abs(got - float(want)) <= 1e-9 * max(1, abs(float(want))), (name, got, want)
assert run["wrong"] == "", run
PY
}

ends 0 run "$SOURCE/examples/sim/kvs.ini" --plot "$dir/plots"
grep -qE '^65536 clients of dfc, 64 servers, 3 copies, strong; a tick is 1e-07 s$' "$dir/out" || fail "no first line"
grep -q '^which mode   strong: read-intensive work; eventual: high availability' "$dir/out" || fail "it does not say which mode to take"
[ "$(wc -l < "$dir/plots/kvs.csv")" = 2 ] || fail "kvs.csv has not a line"

# One request of one client: packed, sent, unpacked, served, packed, sent, unpacked.
ends 0 kvs --store csingle --clients 1 --requests 1 --stall 0 --service 500us --set cost.latency=100us --set cost.pack=50us --set cost.unpack=40us \
    --set cost.bytes=1000 --set cost.bandwidth=8G --json
row time_s=0.000882 requests.sent=2 consistency_messages.sent=0 efficiency=0.566893

# Without any cost but the service it is the service.
ends 0 kvs --store csingle --clients 1 --stall 0 --service 1ms --set cost.latency=0 --set cost.pack=0 --set cost.unpack=0 --set cost.bytes=0 --set cost.bandwidth=1e18 --json
row time_s=0.01 throughput=1000

# Memory of a server: all of the data at one, a part of it and the list of all at each of many, or of log2 of them.
ends 0 kvs --store csingle --json
row data_bytes=17179869184 members_bytes=10240
ends 0 kvs --clients 65536 --requests 1 --json
row data_bytes=268435456 members_bytes=655360
ends 0 kvs --clients 65536 --requests 1 --store dchord --json
row data_bytes=268435456 members_bytes=61440

# Puts alone of three copies: two messages of the request, four between copies. A get of a majority takes four as well.
ends 0 kvs --clients 4096 --puts 1 --copies 3 --select client --json
row requests.sent=81920 consistency_messages.sent=163840
ends 0 kvs --clients 4096 --puts 0 --copies 3 --select client --consistency majority --json
row requests.sent=81920 consistency_messages.sent=163840

# This library's own store: a get goes to the owner, from there to the two others, and back; members share the cores.
ends 0 kvs --store live --clients 8 --puts 0 --requests 100 --json
row requests.sent=1600 syncs=0
ends 0 kvs --store live --clients 64 --requests 1000 --cores 1 --sync 200us --vary clients.depth=1,8 --json
python3 -S -c 'import json, sys; a, b = json.load(open(sys.argv[1]))["rows"]; assert b["throughput"]["mean"] > 1.5 * a["throughput"]["mean"], (a, b)' "$dir/out"

# The exact engine has the same members and clients message by message, and the same run for a seed; the model says the same within a tenth.
exact=(kvs --store live --clients 16 --depth 8 --requests 200 --keys 500 --zipf 0.5 --sync 300us --stall 0 --cores 4 --json)
ends 0 "${exact[@]}" --engine exact
cp "$dir/out" "$dir/exact"
hash=$(hash_of)
ends 0 "${exact[@]}" --engine exact
[ "$(hash_of)" = "$hash" ] || fail "the exact engine has another run of the same seed"
ends 0 "${exact[@]}"
python3 -S -c '
import json, sys
exact, scale = (json.load(open(f)) for f in sys.argv[1:])
assert exact["answered"] == scale["answered"] == 3200 and exact["failed"] == 0 and exact["wrong"] == "", exact
assert abs(scale["throughput"] / exact["throughput"] - 1) < 0.1, (exact, scale)' "$dir/exact" "$dir/out"
ends 0 kvs --store live --keys 100 --clients 4 --engine exact
has '^4 clients of live, 3 servers, 3 copies, registers; message by message$'
ends 2 kvs --engine exact
says "the exact engine runs this library's own store alone"
says "next: set store.model to live"
ends 2 kvs --store live --engine exact
says "set workload.keys to a number of keys"
ends 2 kvs --store live --keys 100 --clients 2000 --engine exact
says "the exact engine runs at most 64 members and 1024 clients"
ends 2 "${exact[@]}" --engine exact --memory 1M
says "the run needs more than the 1 MiB of memory that are allowed"
says "next: make the experiment smaller, raise sim.memory, or leave out sim.engine"
ends 2 kvs --store live --keys 100 --engine exact --checkpoint "$dir/state"
says "a run of the exact engine has no checkpoint"

# Few keys, some of them hot: eventual copies have conflicts, which clients write back.
ends 0 kvs --clients 4096 --keys 1000 --zipf 1 --copies 3 --consistency eventual --json
python3 -S -c 'import json, sys; r = json.load(open(sys.argv[1])); assert r["conflicts"] > 0 and r["write_backs"] > 0, r' "$dir/out"

# Two processes come to the table of one.
ends 0 kvs --clients 4096 --vary store.model=csingle,ctree,dfc,dchord --seeds 1..2 --json -j 1
cp "$dir/out" "$dir/one"
ends 0 kvs --clients 4096 --vary store.model=csingle,ctree,dfc,dchord --seeds 1..2 --json -j 2
cmp "$dir/one" "$dir/out" || fail "two processes come to another table than one"

# A run that is stopped goes on, and comes to the same end.
in_pieces 150000 -- kvs --clients 65536 --requests 4
in_pieces 20000 -- kvs --store live --clients 64 --requests 200

ends 2 kvs --store nothing
says "store.model takes csingle|ctree|dfc|dchord|live"
ends 2 kvs --clients 1024 --copies 3
says "store.copies is more than there are servers"
ends 2 kvs --zipf 1
says "workload.zipf needs from 1 to 16777216 keys"
ends 2 kvs --clients 4096 --copies 3 --read-quorum 4
says "store.reads or store.writes is above store.copies"
ends 2 kvs --clients 1M --memory 1M
says "make clients.count lower, or raise sim.memory"
ends 2 kvs --clients 4096 --copies 3 --set sim.messages=10
says "raise sim.messages"
ends 2 kvs --tick 0
says "sim.tick takes a span from 1 ns"
