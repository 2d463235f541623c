#!/bin/bash
# usage: figures.sh PROGRAMS [52 | 53 | 54 | 61 | 64 | 66 | table-10]...
#
# MATRIX's figures and Table 10, live, at the size of a machine of two cores: one line for each run. Tasks sleep, so there may be more slots than
# cores. At most 3 minutes each; RUNS=3 (how often; 52: 1), of which the medians come last. Without a number: all of them, 13 minutes.
#   52        sleeps of 1, 2, 4, 8 s, 8 s of work a slot, on 8 agents of 4 slots: as a flow, and as a job, whose tasks the gateway deals out
#   53        tasks that do nothing, on 1, 2 and 4 agents of one slot: a builtin in a bag, one with a record each, and /bin/true in a bag
#   54        36 tasks for each of 1, 4, 16, 32 agents of one slot, lengths of the sub-second part of the trace; each agent begins with another
#             part of the sorted lengths
#   61        (and 60) image stacking: 24 tasks a slot of 158 ms, 2 MB in, 10 KB out, and one that reads all outputs; tasks a file 1, 2, 10, 30 on 4 agents,
#             10 on 1 to 16 agents; policy mdl
#   64        all pairs of 20 files of 6 MB, 0.1 s each, on 4 agents: flds, with room for one task's files and for all
#   66        fMRI of 1 and 10 volumes and MolDyn of 4 molecules, tasks of 0.1 s, on 4 agents of one slot
#   table-10  phases of tasks, 100 times shorter than the paper's mean, on 4 agents of one slot, with files between them; then real words, lines,
#             matches and random text of 64 MB (examples/flows/writers) on 2 agents of one slot, beside one process
# Efficiency: work / slots / time from the first beginning to the last end, as the lengths were asked for. Nothing but a directory of its own
# below TMPDIR is written to.
set -euo pipefail
bin=$(cd "$1" && pwd)
shift
export PATH=$bin:$PATH LC_ALL=C
runs=${RUNS:-3}
writers=$(cd "$(dirname "$0")/../../../examples/flows/writers" && pwd)
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-figures.XXXXXX")
export HTC_DIR=$top/state
trap 'cd /; timeout 60 htc down --now > /dev/null 2>&1 || true; rm -rf "$top"' EXIT
mkdir "$top/work"
cd "$top/work"

# begin AGENTS SLOTS [LINE]...: a system of so many agents of so many slots each; lines for htc.ini.
begin()
{
    local agents=$1 slots=$2
    shift 2
    rm -rf "$HTC_DIR"
    mkdir "$HTC_DIR"
    printf '%s\n' '[agent]' "slots_max = $slots" "$@" > "$HTC_DIR/htc.ini"
    htc up --slots $((agents * slots)) > /dev/null
    echo "w: count=$((agents * slots)) @sleep 0.3" > warm.flow # agents are there, and have run something, before a clock starts
    htc flow run warm.flow --agents $((agents * slots)) > /dev/null 2>&1
}
end() { htc down --now > /dev/null; }

# flow FILE SLOTS OPTION...: runs it; sets made, as JSON: what it took.
flow()
{
    local file=$1 slots=$2 id
    shift 2
    id=$(htc flow run "$file" --agents "$slots" --detach --json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["flow"])')
    until htc flow status "$id" --json | grep -E '"state": "(done|cancelled|done_with_failures)"' > /dev/null; do sleep 0.2; done
    htc flow status "$id" --json | grep '"state": "done"' > /dev/null || { echo "flow $id ($file) has not ended well" >&2; exit 1; }
    made=$(htc flow report "$id" --json)
    flow_id=$id
}

# fetched AGENTS: bytes that agents have brought from each other for the last flow.
fetched()
{
    local lines _
    for _ in $(seq 50); do # each agent writes its line when its last seat ends
        lines=$(cat "$HTC_DIR"/log/agent-*.log* | grep -h "works no more at flow $flow_id:" || true)
        [ "$(wc -l <<< "$lines")" -ge "$1" ] && break
        sleep 0.1
    done
    grep -o 'fetched_bytes=[0-9]*' <<< "$lines" | awk -F= '{ n += $2 } END { print n + 0 }'
}

# line FIGURE WHAT WORK SLOTS [WORD]...: of the last flow: WORK seconds on that many slots.
line()
{
    python3 - "$made" "$@" << 'PY' | tee -a "$top/lines"
import json, sys
made, figure, what, work, slots, rest = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]), sys.argv[6:]
took = made["makespan_s"]
print("%-8s %-28s %7d tasks %8.2f s  efficiency %5.1f %%  %s" % (figure, what, made["tasks"], took, 100 * work / slots / took, " ".join(rest)))
PY
}

# ---- the figures ----

figure_52()
{
    local length n t0 t1
    begin 8 4
    for length in 1 2 4 8; do
        n=$((8 * 32 / length))
        echo "t: count=$n /bin/sleep $length" > sleep.flow
        flow sleep.flow 32
        line 52 "flow, sleep $length" $((n * length)) 32
        t0=$(date +%s%N)
        htc submit --env 'N={n}' --wait -- /bin/sleep $length ::: n=1:$n > /dev/null 2>&1
        t1=$(date +%s%N)
        awk -v l=$length -v n=$n -v t=$((t1 - t0)) 'BEGIN { printf "%-8s %-28s %7d tasks %8.2f s  efficiency %5.1f %%  \n", 52, "job, sleep " l, n, t / 1e9, 100 * n * l / 32 / (t / 1e9) }' |
            tee -a "$top/lines"
    done
    end
}

figure_53()
{
    local agents f
    echo 't: count=1000000000 @noop' > noop.flow
    seq -f 't%.0f: @noop' 50000 > each.flow
    echo 't: count=8000 /bin/true' > true.flow
    for agents in 1 2 4; do
        begin $agents 1
        for f in noop each true; do # from before it is submitted until its end is seen
            python3 - $f $agents "$(htc flow run $f.flow --agents $agents --json)" << 'PY' | tee -a "$top/lines"
import json, sys
o = json.loads(sys.argv[3])
assert o["done"] == o["tasks"], o
print("%-8s %-28s %10d tasks %7.2f s  tasks a second %.0f " % (53, sys.argv[1] + " on " + sys.argv[2], o["tasks"], o["seconds"], o["tasks"] / o["seconds"]))
PY
        done
        end
    done
}

figure_54()
{
    local agents
    for agents in 1 4 16 32; do
        begin $agents 1
        python3 - $agents << 'PY' > trace.flow
import random, sys
random.seed(54)
for i, x in enumerate(sorted(random.betavariate(0.753256, 1.436506) for _ in range(36 * int(sys.argv[1])))):
    print("t%d: @sleep %.4f" % (i, x))
PY
        flow trace.flow $agents
        line 54 "trace on $agents" "$(awk '{ n += $3 } END { print n }' trace.flow)" $agents
        end
    done
}

# stacking SLOTS LOCALITY
stacking()
{
    python3 - "$1" "$2" << 'PY' > stack.flow
import random, sys
slots, locality = int(sys.argv[1]), int(sys.argv[2])
random.seed(61)
n = 24 * slots
files = -(-n // locality)
for i in range(files):
    print("copy%d: kind=copy out=i%d sh -c 'head -c 2000000 /dev/urandom > i%d'" % (i, i, i))
order = [k // locality for k in range(n)]
random.shuffle(order)
for k, i in enumerate(order):
    print("cut%d: kind=cut in=i%d out=o%d sh -c 'head -c 10000 i%d > o%d; sleep 0.158'" % (k, i, k, i, k))
names = ["o%d" % k for k in range(n)]
print("all: in=%s out=all sh -c 'cat o* > all'" % ",".join(names))
PY
    flow stack.flow "$1" --scratch --policy mdl
    line 61 "stacking, $2 a file on $1" "$(awk -v n=$((24 * $1)) 'BEGIN { print n * 0.158 }')" "$1" \
        "$(python3 -c 'import json, sys; m = json.loads(sys.argv[1]); print("%.0f ms a task and slot" % (1000 * m["makespan_s"] * int(sys.argv[2]) / (24 * int(sys.argv[2]))))' "$made" "$1")"
}

figure_61()
{
    local locality agents
    begin 4 1
    for locality in 1 2 10 30; do stacking 4 $locality; done
    end
    for agents in 1 2 8 16; do
        begin $agents 1
        stacking $agents 10
        end
    done
}

figure_64()
{
    local room
    python3 - << 'PY' > pairs.flow
import random
random.seed(64)
n = 20
for i in range(n):
    print("make%d: kind=make out=f%d sh -c 'head -c 6000000 /dev/urandom > f%d'" % (i, i, i))
pairs = [(i, k) for i in range(n) for k in range(i)]
random.shuffle(pairs)
for i, k in pairs:
    print("pair%d-%d: kind=pair in=f%d,f%d sh -c 'cat f%d f%d > /dev/null; sleep 0.1'" % (i, k, i, k, i, k))
PY
    for room in 13M 1G; do
        begin 4 1 '[data]' "cache_max = $room"
        flow pairs.flow 4 --scratch --policy flds
        line 64 "cache $room" 19 4 "$(python3 -c 'import json, sys; m = json.loads(sys.argv[1]); f = int(sys.argv[2]); print("%.0f MB read, %.0f MB fetched, %.1f %% were there" % (m["data_bytes"] / 1e6, f / 1e6, 100 - 100 * f / m["data_bytes"]))' "$made" "$(fetched 4)")"
        end
    done
}

figure_66()
{
    local of
    begin 4 1
    for of in 'fmri.sh 1' 'fmri.sh 10' 'moldyn.sh 4'; do
        # shellcheck disable=SC2086
        sh "$writers/"$of 0.1 > shape.flow
        flow shape.flow 4
        # the longest of all chains, or all tasks on 4 slots
        line 66 "${of/.sh/}" "$(python3 -c 'import json, sys; m = json.loads(sys.argv[1]); print(max(m["tasks"] * 0.1, 4 * 0.1 * int(sys.argv[2])))' "$made" "$([ "${of%.sh*}" = fmri ] && echo 12 || echo 8)")" 4
    done
    end
}

# NAME LENGTH-IN-MS TASKS-OF-EACH-PHASE...: each task of a phase reads what all of the phase before made, 100 kB each, and makes as much.
phases()
{
    python3 - "$@" << 'PY' > phases.flow
import sys
name, ms, sizes = sys.argv[1], int(sys.argv[2]), [int(x) for x in sys.argv[3:]]
for p, n in enumerate(sizes):
    reads = ["p%d-%d" % (p - 1, k) for k in range(sizes[p - 1])] if p else []
    for k in range(n):
        print("%s%d-%d: kind=phase%d %sout=p%d-%d sh -c 'cat %s /dev/null > /dev/null; head -c 100000 /dev/urandom > p%d-%d; sleep %.3f'"
              % (name, p, k, p, "in=%s " % ",".join(reads) if reads else "", p, k, " ".join(reads), p, k, ms / 1000))
PY
    local work
    # the least time that 4 slots take: whole rounds of each phase
    work=$(python3 -c 'import sys; print(4 * int(sys.argv[2]) / 1000 * sum(-(-int(n) // 4) for n in sys.argv[3:]))' "$@")
    flow phases.flow 4 --scratch
    line table-10 "$1, $2 ms" "$work" 4 "$(python3 -c 'import json, sys; print("delay ratio %.3f" % json.loads(sys.argv[1])["delay_ratio"])' "$made")"
}

table_10()
{
    begin 4 1
    phases words 212 64 1
    phases sort 201 64 1
    phases random 362 64
    phases grep 115 64 1 1 1
    phases ligand 123 64 1 64 1 64 1 64 1 64 1
    end
    real
}

# NAME PLAIN WRITER WORD...: a flow that WRITER writes, beside the plain command.
real_one()
{
    local name=$1 plain=$2 t0 t1
    shift 2
    t0=$(date +%s%N)
    sh -c "$plain"
    t1=$(date +%s%N)
    sh "$writers/$1" "${@:2}" > real.flow
    flow real.flow 2 --scratch
    python3 - "$made" "$name" $((t1 - t0)) << 'PY' | tee -a "$top/lines"
import json, sys
m, name, plain = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]) / 1e9
print("%-8s %-28s %7d tasks %8.2f s  efficiency %5.1f %%  %s"
      % ("table-10", "real " + name, m["tasks"], m["makespan_s"], 100 * m["efficiency"], "one process %.2f s" % plain if plain > 0.1 else ""))
PY
}

real()
{
    begin 2 1
    [ -s text ] || {
        find /usr/share/common-licenses /usr/share/doc /usr/share/perl* /usr/lib/python3* /usr/include -type f \
            \( -name '*.h' -o -name '*.py' -o -name '*.p[lm]' -o -name '*.txt' -o -name copyright \) -print0 2> /dev/null | sort -z | xargs -0 -r cat 2> /dev/null |
            tr -d '\0' | head -c 64000000 > once || true
        : > text
        while [ "$(stat -c %s text)" -lt 64000000 ]; do { cat once; echo; } >> text; done
    }
    real_one words "tr -cs A-Za-z '\n' < text | grep . | sort --parallel=1 | uniq -c > plain" count_words.sh text 8 4
    cut -c 9- plain > vocabulary
    real_one sort 'sort --parallel=1 -o plain text' sort.sh text 8 4
    real_one grep "grep -aoE '[a-z]+_[a-z]+\(' text | sort | uniq -c | sort -k 1,1nr -k 2 > plain" grep.sh text '[a-z]+_[a-z]+\(' 8
    real_one random 'true' random_text.sh vocabulary 8 4000000
    end
}

for figure in "${@:-52 53 54 61 64 66 table-10}"; do
    for one in $figure; do
        times=$runs
        [ "$one" != 52 ] || [ -n "${RUNS-}" ] || times=1
        for _ in $(seq "$times"); do
            case $one in
            52 | 53 | 54 | 61 | 64 | 66) figure_"$one" ;;
            table-10) table_10 ;;
            *) sed -n 's/^# //; 2,17p' "$0"; exit 2 ;;
            esac
        done
    done
done
python3 - "$top/lines" << 'PY'
import re, statistics, sys
rows = {}
for l in open(sys.argv[1]):
    rows.setdefault(l[:37], []).append(l[37:].rstrip())
print("--- medians")
number = re.compile(r"\d+(?:\.\d+)?")
for name, lines in rows.items():
    columns = zip(*(number.findall(l) for l in lines))
    medians = iter(["%g" % statistics.median(float(x) for x in c) for c in columns])
    print(name + number.sub(lambda m: next(medians), lines[0]))
PY
