#!/bin/bash
# usage: simgrid.sh FOLDER-OF-THE-PROGRAMS [quick | full]
# SimGrid's master-worker beside ours, the same hosts, cores and tasks (10 a core, 0 to 10,000 s), in one run: JSON lines, ratios last. Its `sleep` is beside
# the many-task model with one queue and no cost, its messages beside the exact engine (real workers and their store, all asked of one). Only the ratios say
# anything. It needs the folder of peers (PEERS, else ../shared/peers beside the source tree) and libsimgrid-dev; 77 without them.
#   quick   1,024 and 16,384 hosts, messages of 16 and 64; one run each (the default; half a minute)
#   full    to 65,536 hosts and 256; three runs each
set -euo pipefail
programs=$(realpath "$1") how=${2-quick}
source=$(cd "$(dirname "$0")/../../.." && pwd)
peers=${PEERS:-$source/../shared/peers}
[ -x "$peers/simgrid-peers.sh" ] || { echo "SKIP no peers in $peers"; exit 77; }
[ -e /usr/include/simgrid/s4u.hpp ] || { echo "SKIP no SimGrid: install libsimgrid-dev"; exit 77; }
[ -x /usr/bin/time ] || { echo "SKIP no /usr/bin/time: install time"; exit 77; }
case $how in
quick) runs=1 sizes="1024 16384" exact="16 64" ;;
full) runs=3 sizes="1024 4096 16384 32768 65536" exact="16 32 64 128 256" ;;
*) sed -n 's/^# //; 2,9p' "$0"; exit 2 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
HOSTS1="$sizes" HOSTS1000='' MODES=sleep LOADS=ave5k "$peers/simgrid-peers.sh" "$runs" | tee "$dir/sleep"
HOSTS1="$exact" HOSTS1000='' MODES=msg LOADS=all1 "$peers/simgrid-peers.sh" "$runs" | tee "$dir/msg"

# ours MODE HOSTS ARGS...: CPU time and memory of a run of htc-sim, its start too.
ours()
{
    local mode=$1 hosts=$2
    shift 2
    /usr/bin/time -o "$dir/used" -f '%U %S %M' "$programs/htc-sim" "$@" > "$dir/run"
    python3 - "$mode" "$hosts" "$dir" << 'PY'
import json, sys
mode, hosts, dir = sys.argv[1], int(sys.argv[2]), sys.argv[3]
tasks = json.load(open(dir + "/run"))["tasks"]
user, system, kib = open(dir + "/used").read().split()
cpu = max(float(user) + float(system), 0.005) # it is told in hundredths
print(json.dumps({"impl": "htc-sim", "test": mode, "hosts": hosts, "tasks": tasks, "cpu_s": cpu, "cpu_us_per_task": round(1e6 * cpu / tasks, 4), "peak_rss_MiB": round(int(kib) / 1024, 1)}))
PY
}
for run in $(seq "$runs"); do
    for hosts in $sizes; do
        ours scale "$hosts" manytask --architecture central --nodes "$hosts" --cores 1 --set cost.dispatch=0 --per-core 10 --length 0..10000s --tick 1ms --json
    done
    for hosts in $exact; do
        ours exact "$hosts" flow --shape bot --workers "$hosts" --tasks $((10 * hosts)) --length 1s --json
    done
done | tee "$dir/ours"
python3 - "$dir" << 'PY'
import json, statistics, sys
rows = {}
for name in ("sleep", "msg", "ours"):
    for line in open(sys.argv[1] + "/" + name):
        if line.startswith("{"):
            r = json.loads(line)
            rows.setdefault((r.get("test"), r["hosts"]) if "hosts" in r else None, []).append(r)
def median(key, field):
    return statistics.median(r[field] for r in rows[key])
empty = {"sleep": 32.0, "msg": 32.0} # MiB of a SimGrid with 16 hosts: not counted for a host
small = min(h for t, h in rows if t == "scale")
for (mine, its) in (("scale", "sleep"), ("exact", "msg")):
    for hosts in sorted(h for t, h in rows if t == mine):
        if (its, hosts) not in rows:
            continue
        host = lambda test, none: max(median((test, hosts), "peak_rss_MiB") - none, 1e-3) * 1048576 / hosts
        print(json.dumps({"ratio": mine + " of " + its, "hosts": hosts, "times_less_cpu_a_task": round(median((its, hosts), "cpu_us_per_task") / median((mine, hosts), "cpu_us_per_task"), 2),
                          "bytes_a_host": round(host(mine, 5.5)), "its_bytes_a_host": round(host(its, empty[its]))}))
PY
