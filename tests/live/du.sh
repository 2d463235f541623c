#!/bin/bash
# What is on disk is told, and given back: uploads that no job names any more, and all that a removed job has left, also where the
# gateway is killed right after it was asked.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
printf '[data]\ncontent_grace_s = 60\nuploads_max = 1M\n[fair]\ntick_s = 0.1\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini --pause-max 0.2s
head -c 1000 /dev/urandom > first
head -c 2000 /dev/urandom > second
aged() { find "$dir/data/blobs" -type f -exec touch -d "2 minutes ago" {} +; }
uploads() { find "$dir/data/blobs" -type f | wc -l; }

expect 0 "${H[@]}" submit --wait -i first -- sh -c 'head -c 300 /dev/zero > "$HTC_OUTPUT_DIR/a"'
expect 0 "${H[@]}" submit --wait -i first -i second -- sh -c 'head -c 500 /dev/zero > "$HTC_OUTPUT_DIR/b"'
expect 0 "${H[@]}" du --json
[ "$(json "$out" '[(u["jobs"], u["content"], u["outputs"] >= 800, u["files"] >= 2) for u in v["users"]]')" = '[(2, 3000, True, True)]' ] ||
    fail "du: $out"
[ "$(json "$out" 'v["total"]["content"]["files"] == 2 and v["total"]["outputs"]["bytes"] >= 800')" = True ] || fail "du, all of it: $out"
expect 0 "${H[@]}" du 2
[[ $out =~ 2.0\ KiB|2.9\ KiB ]] || fail "du of a job: $out"
echo "$out"

# The sweep that removes the second does not take the first, which job 1 names.
expect 0 "${H[@]}" rm 2
one_left() { aged && [ "$(uploads)" = 1 ]; }
soon one_left || fail "an upload that no job names stays: $(ls -l "$dir/data/blobs")"
expect 0 "${H[@]}" du
[[ $out =~ 1000\ B|1000.0\ B|0.98\ KiB|1.0\ KiB ]] || fail "du: $out"

# An upload larger than the bound names it.
head -c 1100000 /dev/zero > large
refuse 2 'uploads_max' "${H[@]}" submit -i large -- true

# Killed right after it was asked: the next gateway removes what is left.
daemon_pid htc-gateway
expect 0 "${H[@]}" rm all
kill -9 "$pid"
nothing_left() { aged && [ "$(uploads)" = 0 ] && [ -z "$(ls "$dir/data/out")" ]; }
soon nothing_left || fail "what was removed is still there: $(find "$dir/data" -type f)"

# What was removed is sent again by who needs it.
again() { "${H[@]}" submit --wait -i first -- true > /dev/null 2>&1; }
soon again || fail "an upload that was removed is not sent again"
# More jobs than a page has are all counted, whether they are named or not; and the last is one.
for i in {1..12}; do expect 0 "${H[@]}" submit -- true; done
expect 0 "${H[@]}" wait all
expect 0 "${H[@]}" status --limit 1000 --json
n=$(json "$out" 'len(v["jobs"])')
for names in '' all; do
    expect 0 "${H[@]}" du $names --json
    [ "$n" -ge 12 ] && [ "$(json "$out" 'sum(u["jobs"] for u in v["users"])')" = "$n" ] || fail "du $names of $n jobs: $out"
done
expect 0 "${H[@]}" du last --json
[ "$(json "$out" 'sum(u["jobs"] for u in v["users"])')" = 1 ] || fail "du last: $out"
expect 0 "${H[@]}" status last --json
[ "$(json "$out" '(len(v["jobs"]), v["more"])')" = '(1, False)' ] || fail "status last: $out"
expect 0 "${H[@]}" status --limit 2 --json
[ "$(json "$out" '(len(v["jobs"]), v["more"])')" = '(2, True)' ] || fail "a page: $out"

expect 0 "${H[@]}" down --now
echo "du: all is well"
