#!/bin/bash
# Tasks of several cores: each takes as many slots, gets there beside tasks of one, and what fits no agent is refused.
source "$(dirname "$0")/live.sh"
d=$top/state
expect 0 "$htc" --dir "$d" up --slots 4
# Two of two cores at most at once: each that begins counts itself and looks who else is there.
mkdir "$top/here"
expect 0 "$htc" --dir "$d" submit -c 2 --env HERE="$top/here" --env 'N={n}' --wait -- sh -c \
    '> "$HERE/$$"; n=$(ls "$HERE" | wc -l); sleep 0.2; rm "$HERE/$$"; echo "$HTC_CORES" > "$HTC_OUTPUT_DIR/cores"; [ "$n" -le 2 ]' ::: n=1:7
expect 0 "$htc" --dir "$d" fetch 1 --to wide
[ "$(cat wide/*/cores | sort -u)" = 2 ] || fail "HTC_CORES: $(cat wide/*/cores)"
# One of four behind tasks of one core and before many more: those before it end, and it is next.
expect 0 "$htc" --dir "$d" submit --name first --env 'N={n}' -- sleep 0.5 ::: n=1:4
expect 0 "$htc" --dir "$d" submit --name wide -c 4 -- true
expect 0 "$htc" --dir "$d" submit --name many --env 'N={n}' -- sleep 0.05 ::: n=1:200
expect 0 "$htc" --dir "$d" wait all
expect 0 "$htc" --dir "$d" status all --json
[ "$(json "$out" '[j["name"] for j in sorted(v["jobs"], key=lambda j: j["ended"])][-1]')" = many ] || fail "the wide one was last: $out"
if "$htc" --dir "$d" submit -c 5 -- true > said 2>&1; then
    fail "five cores were taken on four slots"
fi
grep -q 'asks for 5 cores' said || fail "refused without its reason: $(cat said)"
expect 0 "$htc" --dir "$d" down
none_left
echo "cores: all is well"
