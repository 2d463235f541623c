#!/bin/bash
# usage: tasks.sh FOLDER-OF-THE-PROGRAMS [noop | sleep | functions]
# Short tasks through `htc submit --wait` (htc) and `htc flow run` (flow), every result durable, beside a bare loop of pull and spawn
# (pullspawn-b1), a bare loop of spawn and wait (spawn-2), xargs, and a queue of functions (func-2, pull-b64) in one run: tasks a second, CPU
# time of all that was started, efficiency. Ratios come last, and they alone say anything: absolute figures drift from minute to minute.
#   noop       /bin/true on 2 slots (the default)
#   sleep      /bin/sleep of 1, 0.1 and 0.01 s on 64 slots
#   functions  the builtin noop on 2 slots: a bag of ten million
# It needs the folder of peers (PEERS, else ../shared/peers beside the source tree); 77 without it. RUNS=3.
set -euo pipefail
programs=$(realpath "$1") how=${2-noop}
source=$(cd "$(dirname "$0")/../../.." && pwd)
peers=${PEERS:-$source/../shared/peers}
[ -x "$peers/tasks-peers.sh" ] || { echo "SKIP no peers in $peers"; exit 77; }
case $how in noop) with=(pullspawn-b1 xargs htc flow) test=noop ;; sleep) with=(spawn-2 htc flow) test=sleep ;; functions) with=(func-2 pull-b64 flow) test=noop ;; *) sed -n 's/^# //; 2,11p' "$0"; exit 2 ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The system is up, and has run something, before the clock starts; it ends behind the clock.
cat > "$dir/ours.bash" << END
noop_n[htc]=15000; sleep_ok[htc]=1
noop_n[flow]=$([ "$how" = functions ] && echo 10000000 || echo 15000); sleep_ok[flow]=1
run_flow()
{
    local d t0 t1 c0 c1 task=/bin/true
    [ "\$3" = 0 ] || task="/bin/sleep \$3"
    [ "$how" = functions ] && task=@noop
    d=\$(mktemp -d "$dir/state.XXXXXX")
    "$programs/htc" --dir "\$d/s" up --slots "\$2" > /dev/null
    echo 'warm: count=100 /bin/true' > "\$d/warm"
    echo "t: count=\$1 \$task" > "\$d/flow"
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
python3 - "$dir/lines" << 'END'
import json, sys
rows = {}
for line in open(sys.argv[1]):
    try:
        row = json.loads(line)
    except ValueError:
        continue
    if row.get("summary"):
        rows[row["peer"], row["test"]] = row
for (peer, test), row in rows.items():
    if peer in ("htc", "flow"):
        continue
    for us in ("htc", "flow"):
        ours = rows.get((us, test))
        if ours:
            print(f"{test}: {us} rate {ours['tasks_per_s'][1] / row['tasks_per_s'][1]:.3f} of {peer}, "
                  f"CPU a task {ours['cpu_s_per_1000'][1] / row['cpu_s_per_1000'][1]:.3f}")
END
