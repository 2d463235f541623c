#!/bin/bash
# usage: fuzz.sh PROGRAMS
# htc-sim fuzz: 1000 seeds keep every rule (40 with HTC_TEST_LIGHT, 10,000 with HTC_TEST_FULL), the sum does not depend on how many
# processes there are, and it is called and ends as its page says.
set -euo pipefail
sim=$1/htc-sim
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    exit 1
}
# ends STATUS ARGS...: in $dir/out and $dir/err
ends() {
    local want=$1 got=0
    shift
    "$sim" "$@" > "$dir/out" 2> "$dir/err" || got=$?
    [ "$got" = "$want" ] || { cat "$dir/out" "$dir/err"; fail "htc-sim $* ends with $got, not $want"; }
}

seeds=1000
[ -z "${HTC_TEST_LIGHT-}" ] || seeds=40
[ -z "${HTC_TEST_FULL-}" ] || seeds=10000
ends 0 fuzz --seeds 1..$seeds
sed 's/^/report: /' "$dir/out"
grep -q "^$seeds seeds, 0 failed: " "$dir/out" || fail "not all of the $seeds seeds have run"

# One line says whether two runs were the same one.
ends 0 fuzz --seed 7
head -1 "$dir/out" | grep -E ' events, hash [0-9a-f]{16}$' > /dev/null || fail "the sum does not end with a hash"
head -1 "$dir/out" > "$dir/seven"
ends 0 fuzz --seed 7
head -1 "$dir/out" | cmp -s - "$dir/seven" || fail "a seed is another run when it is run again"

# A bucket was shown in pages that no log with files as short as here could take: a replacement never ended.
ends 0 fuzz --seed 702 --operations 4000 --cells log
# Seeds that have found faults. All but the first did so in builds with fault points; in the others they are other runs.
for seed in 109105 119465 297583 344096 366004 409518 424055 432351 490847 501393 531635 547173 564639 711701 767818; do
    ends 0 fuzz --seed $seed
done

ends 0 fuzz --seeds 5..24 --jobs 1 --json
cp "$dir/out" "$dir/one"
ends 0 fuzz --seeds 5..24 --jobs 3 --json
cmp "$dir/one" "$dir/out" || fail "three processes come to another sum than one"
python3 - "$dir/out" <<'PY'
import json, sys
sum = json.load(open(sys.argv[1]))
assert sum["seeds"] == 20 and sum["failed"] == 0 and sum["operations"] > 1000 and sum["virtual_hours"] > 0, sum
assert sum["asked"]["get"] > 0 and sum["asked"]["lease_grant"] > 0 and sum["asked"]["scan"] > 0, sum
assert sum["changes"] > 0 and sum["moved"] > 0, sum
assert sum["faults"]["crashes"] > 0 and sum["faults"]["messages lost"] > 0, sum
PY
# What is kept is not run again, and the sum is the same; half a line is as if it were not there.
ends 0 fuzz --seeds 1..12 --operations 10 --json
cp "$dir/out" "$dir/once"
ends 0 fuzz --seeds 1..12 --operations 10 --json --kept "$dir/kept"
cmp "$dir/once" "$dir/out" || fail "what is kept changes the sum"
[ "$(wc -l < "$dir/kept")" = 1 ] || fail "12 seeds are not one line"
sed -i 's/ 1 12 / 1 13 /' "$dir/kept"
ends 0 fuzz --seeds 1..13 --operations 10 --kept "$dir/kept"
grep -q '^13 seeds, 0 failed: ' "$dir/out" || fail "what is kept has run again"
# Only a plain file is written to.
echo theirs > "$dir/theirs"
ln -s "$dir/theirs" "$dir/link"
mkfifo "$dir/fifo"
for name in link fifo; do
    timeout 60 "$sim" fuzz --seeds 1..2 --operations 10 --kept "$dir/$name" > "$dir/out" 2>&1 && fail "--kept writes to a $name"
    grep -q "plain file" "$dir/out" || fail "--kept of a $name: $(cat "$dir/out")"
done
[ "$(cat "$dir/theirs")" = theirs ] || fail "--kept writes through a link"
head -c 40 "$dir/kept" > "$dir/half"
ends 0 fuzz --seeds 1..12 --operations 10 --json --kept "$dir/half"
cmp "$dir/once" "$dir/out" || fail "half a line is taken for more"
echo nonsense > "$dir/half"
ends 3 fuzz --seeds 1..12 --operations 10 --kept "$dir/half"
ends 0 fuzz --seed 7 --trace
[ "$(grep -cE '^(get|put|add|append|delete|cas_[a-z]+) process=' "$dir/out")" -ge 20 ] || fail "--trace shows no history"
ends 0 fuzz --seed 7 --trace --verbose
grep -q '^\[ *1000\.0.* m0 < start' "$dir/out" || fail "--trace --verbose shows no trace"
for cells in memory log; do
    ends 0 fuzz --seeds 1..4 --cells $cells --members 5 --operations 20 --search
done
# Whole systems: the same whatever the number of processes, kept beside stores, and seen again.
for jobs in 1 3; do
    ends 0 fuzz --scenario system --seeds 1..12 --json --jobs $jobs
    cp "$dir/out" "$dir/systems.$jobs"
done
cmp "$dir/systems.1" "$dir/systems.3" || fail "systems of three processes differ from those of one"
grep -q '"scenario":"system".*"seeds":12,"failed":0,"tasks":[1-9]' "$dir/out" || fail "systems: $(cat "$dir/out")"
for again in 1 2; do
    ends 0 fuzz --scenario system --seeds 1..12 --json --kept "$dir/kept"
    cmp "$dir/systems.1" "$dir/out" || fail "systems that are kept: $(cat "$dir/out")"
done
ends 0 fuzz --scenario system --seed 7 --trace
grep -q '^\[ *1000\.0.* gateway < start' "$dir/out" || fail "--trace shows no trace of a system"
ends 0 fuzz --help
for option in $(grep -oE '^  --[a-z]+' "$dir/out"); do
    grep -qF -- "${option//-/\\-}" "$SOURCE/doc/man/htc-sim.1" || fail "htc-sim(1) does not say what $option is"
done
ends 0 --version
for wrong in "" "fuzz more" "boil" "fuzz --seeds 5" "fuzz --seeds 5..4" "fuzz --seeds x..4" "fuzz --jobs 0" "fuzz --cells sand" \
    "fuzz --members 2" "fuzz --operations 0" "fuzz --trace" "fuzz --nonsense" "fuzz --seed" "fuzz --kept" "fuzz --scenario" \
    "fuzz --scenario sea" "fuzz --scenario system --members 3"; do
    # shellcheck disable=SC2086
    ends 2 $wrong
    grep -qE 'Try htc-sim( fuzz)? --help' "$dir/err" || fail "htc-sim $wrong: $(cat "$dir/err")"
    grep -q '^htc-sim: ' "$dir/err" || fail "htc-sim $wrong does not say what is wrong"
done
# An error names the option and what it takes.
ends 2 fuzz --seeds 7
grep -q -- '--seeds takes two numbers, A..B' "$dir/err" || fail "--seeds 7: $(cat "$dir/err")"
ends 2 fuzz --seed 7 --seeds 1..2
grep -q -- 'take one of these options' "$dir/err" || fail "--seed with --seeds: $(cat "$dir/err")"
ends 2 nosuch
grep -q 'no command nosuch' "$dir/err" || fail "htc-sim nosuch: $(cat "$dir/err")"
