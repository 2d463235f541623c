#!/bin/bash
# usage: data.sh PROGRAMS [SECONDS]
#
# Flows whose tasks read each other's files, live, on agents of one slot each with objects of their own (htc flow run --scratch): all pairs of
# some files by each policy of placing tasks, and the four shapes with files of 0 to 10 MB. A task waits for a drawn time and reads all that it
# reads. Efficiency: run times of all tasks / slots / time of the whole. One line each: seconds, efficiency, megabytes fetched, tasks pushed.
# About SECONDS (60) seconds in all on two cores that do nothing else. Writes to nothing but a directory of its own below TMPDIR.
set -euo pipefail
bin=$(cd "$1" && pwd)
scale=$(awk -v s="${2:-60}" 'BEGIN { print s / 60 }')
export PATH=$bin:$PATH LC_ALL=C
agents=4
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-data.XXXXXX")
trap 'cd /; timeout 60 htc --dir "$top/state" down --now > /dev/null 2>&1 || true; rm -rf "$top"' EXIT
mkdir "$top/state" "$top/work"
cd "$top/work"
printf '[agent]\nslots_max = 1\n' > "$top/state/htc.ini"
export HTC_DIR=$top/state
htc up --slots $agents > /dev/null

# Files of 2 MB, made by tasks; each pair of them is read by one that takes 100 ms.
all_pairs()
{
    python3 - "$scale" << 'PY'
import sys
n = max(4, int(18 * float(sys.argv[1]) ** 0.5))
for i in range(n):
    print("make%d: kind=make out=f%d sh -c 'head -c 2000000 /dev/urandom > f%d'" % (i, i, i))
for i in range(n):
    for k in range(i):
        print("pair%d-%d: kind=pair in=f%d,f%d sh -c 'cat f%d f%d > /dev/null; sleep 0.1'" % (i, k, i, k, i, k))
PY
}

# SHAPE: lengths of 0 to 100 ms and files of 0 to 10 MB, evenly; degree 10.
shape()
{
    python3 - "$scale" "$1" << 'PY'
import random, sys
random.seed(67)
n, shape, degree = max(20, int(160 * float(sys.argv[1]))), sys.argv[2], 10
def parents(i):
    if shape == "bot":
        return []
    if shape == "fanout":
        return [(i - 1) // degree] if i else []
    if shape == "pipeline":
        return [i - 1] if i % degree else []
    return [k for k in range((n - 1 - i) * degree + 1, (n - 1 - i) * degree + degree + 1) if k < n] # mirrored below
for i in range(n):
    reads = [n - 1 - k for k in parents(i)] if shape == "fanin" else parents(i)
    files = ["o%d" % k for k in reads]
    print("t%d: kind=%s %sout=o%d sh -c 'cat %s /dev/null > /dev/null; head -c %d /dev/zero > o%d; sleep %.3f'"
          % (i, shape, "in=%s " % ",".join(files) if files else "", i, " ".join(files), random.randrange(10000000), i, random.random() / 10))
PY
}

run() # NAME FILE OPTION...
{
    local name=$1 file=$2 id figures report
    shift 2
    id=$(htc flow run "$file" --scratch --agents $agents --detach --json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["flow"])')
    until htc flow status "$id" --json | grep -E '"state": "(done|cancelled|done_with_failures)"' > /dev/null; do sleep 0.1; done
    htc flow status "$id" --json | grep '"state": "done"' > /dev/null || { echo "$name: flow $id has not ended well" >&2; exit 1; }
    report=$(htc flow report "$id" --json)
    for _ in $(seq 50); do # each agent writes its line when its last seat ends
        figures=$(cat "$HTC_DIR"/log/agent-*.log* | grep -h "works no more at flow $id:" || true)
        [ "$(wc -l <<< "$figures")" -ge $agents ] && break
        sleep 0.1
    done
    python3 - "$name" "$report" "$figures" << 'PY'
import json, re, sys
name, report, lines = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
def total(word):
    return sum(int(x) for x in re.findall(r"\b%s=(\d+)" % word, lines))
print("%-16s %4d tasks %7.2f s  efficiency %.3f  %8.1f MB fetched %5d pushed %5d stolen"
      % (name, report["tasks"], report["makespan_s"], report["efficiency"], total("fetched_bytes") / 1e6, total("pushed"), total("stolen")))
PY
}

all_pairs > pairs.flow
for policy in mlb mdl rlds flds; do
    run "all-pairs $policy" pairs.flow --policy $policy
done
run "all-pairs move" pairs.flow --policy flds --tt 1:move
for s in bot pipeline fanout fanin; do
    shape $s > $s.flow
    run $s $s.flow
done
