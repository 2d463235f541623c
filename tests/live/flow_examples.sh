#!/bin/bash
# The flows of examples/flows, each in a directory of its own; what they make is compared with what a plain pipeline makes.
source "$(dirname "$0")/live.sh"
flows=$(cd "$(dirname "$ports")/../../examples/flows" && pwd)
dir=$top/state
H=("$htc" --dir "$dir")

# Each file is named in the README, and is checked and drawn.
n=0
for f in "$flows"/*.flow "$flows"/*.dax; do
    n=$((n + 1))
    grep -q "^\`$(basename "$f")\` " "$flows/README.md" || fail "examples/flows/README.md does not have $f"
    expect 0 "${H[@]}" flow check "$f"
    expect 0 "${H[@]}" flow render "$f" --svg picture.svg
done
[ "$n" = 7 ] || fail "$n flows"

expect 0 "${H[@]}" up --slots 3
# run CODE FILE WORD...: in a directory of its own, which this script goes to.
run()
{
    local code=$1 name=$2
    shift 2
    mkdir "$top/work/$name" && cd "$top/work/$name" || exit 1
    expect "$code" "${H[@]}" flow run "$flows/$name" "$@"
}

run 0 words.flow
tr -s ' ' '\n' < text.txt | sort | uniq -c | awk '{ print $1, $2 }' | sort -k1,1nr -k2 | cmp - words.txt || fail "the words are counted otherwise"
[ "$(head -n 1 words.txt)" = '4000 the' ] || fail "the first word: $(head -n 1 words.txt)"

run 0 sort.flow
sort -n numbers.txt | cmp - sorted.txt || fail "the numbers are sorted otherwise"
[ "$(wc -l < sorted.txt)" = 20000 ] || fail "not all numbers are there"

run 0 grep.flow
grep -o 'error [0-9]*' log.txt | sort | uniq -c | sort -k1,1nr -k3,3n | cmp - errors.txt || fail "the matches are counted otherwise"
[ "$(wc -l < errors.txt)" = 11 ] || fail "$(wc -l < errors.txt) errors"

run 5 diamond.flow
grep -q '4 done, 1 failed, 1 cancelled' <<< "$out" || fail "$out"
[ "$(cat left.txt alarm.txt)" = $'24\nright has failed' ] || fail "the branches left: $(cat left.txt alarm.txt)"
[ ! -e published.txt ] && [ ! -e fetched.txt ] || fail "what was not to be is there: $(ls)"

run 0 sweep.flow
for r in 2.4 2.6 2.8 3.0 3.2 3.4; do
    awk -v r=$r 'BEGIN { x = 0.3; for (i = 0; i < 1000; i++) x = r * x * (1 - x); printf "%s %.6f\n", r, x }'
done | cmp - sweep.txt || fail "the sweep came to something else: $(cat sweep.txt)"

run 0 newton.flow
[ "$(tail -n 1 steps.txt)" = 1.414213562373 ] && [ "$(uniq -d steps.txt | wc -l)" = 1 ] || fail "the steps: $(cat steps.txt)"
grep -q "$(($(wc -l < steps.txt) + 1)) done" <<< "$out" || fail "$out"

# Each task of the mosaic began when its parents had ended.
run 0 mosaic.dax --time-scale 0.01 --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
"${H[@]}" flow tasks "$id" --json > tasks.json
python3 - "$flows/mosaic.dax" << 'END' || fail "the mosaic did not run as it is written"
import json, sys, xml.etree.ElementTree as xml
tasks = {t["name"]: t for t in json.load(open("tasks.json"))}
root, ns = xml.parse(sys.argv[1]).getroot(), "{http://pegasus.isi.edu/schema/DAX}"
assert {j.get("id") for j in root.iter(ns + "job")} == set(tasks) and all(t["state"] == "done" for t in tasks.values())
edges = [(p.get("ref"), c.get("ref")) for c in root.iter(ns + "child") for p in c]
assert len(edges) == 17 and all(tasks[p]["ended"] <= tasks[c]["started"] + 0.002 for p, c in edges), edges
END
cd "$top/work" || exit 1
expect 0 "${H[@]}" down
none_left
