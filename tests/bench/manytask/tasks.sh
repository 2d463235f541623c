#!/bin/bash
# usage: tasks.sh FOLDER-OF-THE-PROGRAMS [noop | sleep | functions | single]
# Short tasks through `htc submit --wait` (htc) and `htc flow run` (flow), every result durable, beside a bare loop of pull and spawn
# (pullspawn-b1), a bare loop of spawn and wait (spawn-2), xargs, and a queue of functions (func-2, pull-b64) in one run: tasks a second, CPU
# time of all that was started, efficiency. Ratios come last, and they alone say anything: absolute figures drift from minute to minute.
#   noop       /bin/true on 2 slots (the default)
#   sleep      /bin/sleep of 1, 0.1 and 0.01 s on 64 slots
#   functions  the builtin noop on 2 slots: a bag of ten million, also with every change synced (flow-durable), beside Python's pools too, in
#              chunks of 100 (pool: multiprocessing, procpool: concurrent.futures)
#   single     the same one at a time: 100,000 tasks with a record each, beside a queue that gives one at a time (pull-b1) and Python's pools
# It needs the folder of peers (PEERS, else ../shared/peers beside the source tree); 77 without it. RUNS=3.
set -euo pipefail
programs=$(realpath "$1") how=${2-noop}
source=$(cd "$(dirname "$0")/../../.." && pwd)
peers=${PEERS:-$source/../shared/peers}
[ -x "$peers/tasks-peers.sh" ] || { echo "SKIP no peers in $peers"; exit 77; }
test=noop
case $how in
noop) with=(pullspawn-b1 xargs htc flow) ;;
sleep) with=(spawn-2 htc flow) test=sleep ;;
functions) with=(func-2 pull-b64 pool-chunk100 procpool-chunk100 flow flow-durable) ;;
single) with=(pull-b1 pool procpool flow) ;;
*) sed -n 's/^# //; 2,13p' "$0"; exit 2 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The system is up, and has run something, before the clock starts; it ends behind the clock.
cat > "$dir/ours.bash" << END
noop_n[htc]=15000; sleep_ok[htc]=1
noop_n[flow]=$(case $how in functions) echo 10000000 ;; single) echo 100000 ;; *) echo 15000 ;; esac); sleep_ok[flow]=1
noop_n[flow-durable]=10000000
noop_n[pool]=40000
noop_n[pool-chunk100]=400000
run_pool() { python3 "$source/tests/bench/manytask/pool.py" "\$1" "\$2" 1; }
run_pool-chunk100() { python3 "$source/tests/bench/manytask/pool.py" "\$1" "\$2" 100; }
run_flow() { flow_of interval "\$@"; }
run_flow-durable() { flow_of sync "\$@"; }
flow_of()
{
    local d t0 t1 c0 c1 task=/bin/true mode=\$1
    shift
    [ "\$3" = 0 ] || task="/bin/sleep \$3"
    case $how in functions | single) task=@noop ;; esac
    d=\$(mktemp -d "$dir/state.XXXXXX")
    printf '[db]\nmode = %s\n' "\$mode" > "\$d/htc.ini"
    "$programs/htc" --dir "\$d/s" up --slots "\$2" --config "\$d/htc.ini" > /dev/null
    echo 'warm: count=100 /bin/true' > "\$d/warm"
    if [ "$how" = single ]; then
        seq -f "t%.0f: \$task" "\$1" > "\$d/flow"
    else
        echo "t: count=\$1 \$task" > "\$d/flow"
    fi
    "$programs/htc" --dir "\$d/s" flow run "\$d/warm" --agents "\$2" > /dev/null 2>&1
    c0=\$(cpu_ns) t0=\$(date +%s%N)
    "$programs/htc" --dir "\$d/s" flow run "\$d/flow" --agents "\$2" > /dev/null 2>&1 || return 1
    t1=\$(date +%s%N) c1=\$(cpu_ns)
    "$programs/htc" --dir "\$d/s" down --now > /dev/null 2>&1
    awk -v w=\$((t1 - t0)) -v c=\$((c1 - c0)) 'BEGIN { printf "%.6f %.6f\\n", w / 1e9, c / 1e9 }'
    rm -rf "\$d"
}
run_htc()
{
    local d t0 t1 c0 c1 task=(/bin/true)
    [ "\$3" = 0 ] || task=(/bin/sleep "\$3")
    d=\$(mktemp -d "$dir/state.XXXXXX")
    "$programs/htc" --dir "\$d/s" up --slots "\$2" > /dev/null
    "$programs/htc" --dir "\$d/s" submit --env 'N={n}' --wait -- /bin/true ::: n=1:100 > /dev/null 2>&1
    c0=\$(cpu_ns) t0=\$(date +%s%N)
    "$programs/htc" --dir "\$d/s" submit --env 'N={n}' --wait -- "\${task[@]}" ::: "n=1:\$1" > /dev/null 2>&1 || return 1
    t1=\$(date +%s%N) c1=\$(cpu_ns)
    "$programs/htc" --dir "\$d/s" down --now > /dev/null 2>&1
    awk -v w=\$((t1 - t0)) -v c=\$((c1 - c0)) 'BEGIN { printf "%.6f %.6f\\n", w / 1e9, c / 1e9 }'
    rm -rf "\$d"
}
END
RUNS=${RUNS:-3} TESTS=$test EXTRA=$dir/ours.bash "$peers/tasks-peers.sh" "${with[@]}" | tee "$dir/lines"
python3 - "$dir/lines" "$how" << 'END'
import json, sys
rows = {}
# At least so many times the peer's rate.
goals = {("flow", "func-2"): 0.5, ("flow", "pull-b64"): 0.35, ("flow", "pool-chunk100"): 1.2, ("flow", "procpool-chunk100"): 1.2, ("flow-durable", "flow"): 0.8,
         ("flow", "pull-b1"): 0.5, ("flow", "pool"): 2.5, ("flow", "procpool"): 2.5} if sys.argv[2] in ("functions", "single") else {}
for line in open(sys.argv[1]):
    try:
        row = json.loads(line)
    except ValueError:
        continue
    if row.get("summary"):
        rows[row["peer"], row["test"]] = row
for (peer, test), row in rows.items():
    for us in ("htc", "flow", "flow-durable"):
        ours = rows.get((us, test))
        if ours and peer not in ("htc", us, "flow-durable") and (peer != "flow" or us == "flow-durable"):
            ratio, goal = ours["tasks_per_s"][1] / row["tasks_per_s"][1], goals.get((us, peer))
            print(f"{test}: {us} rate {ratio:.3f} of {peer}, CPU a task {ours['cpu_s_per_1000'][1] / row['cpu_s_per_1000'][1]:.3f}"
                  + (f"; goal {goal}: {'met' if ratio >= goal else 'missed'}" if goal else ""))
END
