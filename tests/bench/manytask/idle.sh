#!/bin/bash
# usage: idle.sh FOLDER-OF-THE-PROGRAMS
# How soon new work starts at a worker that has none: two agents of one slot at one flow. One task runs, and its end makes two others ready:
# one begins in the same agent, the other in the idle one, which hears of it and steals it. The times from the end of the first task to
# the beginning of each, and from the one beginning to the other, as the tasks' own processes see them. ROUNDS=200.
# With KILLS=10 as well: from kill -9 of an agent to the beginning of its task in another one.
# 77 where bash does not know EPOCHREALTIME.
set -euo pipefail
programs=$(realpath "$1")
[ -n "${EPOCHREALTIME-}" ] || { echo "SKIP this bash does not tell the time by itself"; exit 77; }
rounds=${ROUNDS:-200} kills=${KILLS:-0}
dir=$(mktemp -d)
htc=("$programs/htc" --dir "$dir/s")
trap '"${htc[@]}" down --now > /dev/null 2>&1 || true; rm -rf "$dir"' EXIT
mkdir -m 700 "$dir/s"
echo 'agent.slots_max = 1' > "$dir/s/htc.ini"
"${htc[@]}" up --slots 2 > /dev/null

# A time for each task, written by the shell itself: no process more than there has to be.
for i in $(seq "$rounds"); do
    after=
    [ "$i" = 1 ] || after="after=x$((i - 1)),y$((i - 1)) "
    echo "p$i: ${after}bash -c 'sleep 0.1; echo \$EPOCHREALTIME > $dir/p$i'"
    for c in x y; do
        echo "$c$i: after=p$i bash -c 'echo \$EPOCHREALTIME > $dir/$c$i; sleep 0.3'"
    done
done > "$dir/flow"
"${htc[@]}" flow run "$dir/flow" --agents 2 > /dev/null
python3 - "$dir" "$rounds" << 'END'
import sys
folder, rounds = sys.argv[1], int(sys.argv[2])
read = lambda name: float(open(folder + "/" + name).read().replace(",", "."))
same, other = [], []
for i in range(1, rounds + 1):
    end = read("p%d" % i)
    a, b = sorted(read(c + "%d" % i) - end for c in "xy")
    same.append(a * 1e3)
    other.append(b * 1e3)
ready = [b - a for a, b in zip(same, other)]
for name, t in (("end to the same agent", same), ("end to the idle agent", other), ("same agent to the idle one", ready)):
    t.sort()
    print("%-26s median %.1f ms, nine in ten within %.1f ms, of %d" % (name, t[len(t) // 2], t[len(t) * 9 // 10], len(t)))
END
for i in $(seq "$kills"); do
    : > "$dir/runs"
    echo "a: bash -c 'echo \$PPID \$EPOCHREALTIME >> $dir/runs; sleep 60'" > "$dir/flow"
    id=$("${htc[@]}" flow run "$dir/flow" --agents 2 --detach --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["flow"])')
    until [ -s "$dir/runs" ]; do sleep 0.3; done
    sleep 2
    read -r keeper began < "$dir/runs"
    agent=$(awk '/^PPid/ { print $2 }' "/proc/$keeper/status")
    killed=$EPOCHREALTIME
    kill -9 "$agent"
    until [ "$(wc -l < "$dir/runs")" = 2 ]; do sleep 0.3; done
    tail -n 1 "$dir/runs" | awk -v t="$killed" '{ printf "killed, its task has begun again after %.0f ms\n", ($2 - t) * 1e3 }'
    "${htc[@]}" flow cancel "$id" > /dev/null
done
