#!/bin/bash
# usage: deque_spin.sh MODEL.pml
# Every interleaving of the deque's model, in several sizes; then each mistake put into the model has to be found.
# HTC_TEST_FULL in the environment: larger sizes (some GiB of memory, minutes).
set -euo pipefail
model=$(realpath "$1")
command -v spin > /dev/null || { echo "SKIP no spin"; exit 77; }
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0
# Optimising a verifier takes longer than it saves, but for the larger bounds.
level=-O0
[ -z "${HTC_TEST_FULL-}" ] || level=-O2

# verify WHAT EXPECTED-ERRORS -DNAME…: all of the state space, or as far as the first error.
verify() {
    local what=$1 expected=$2 said states errors
    shift 2
    spin -a "$@" "$model" > said 2>&1 || { cat said; exit 1; }
    $cc $level -w -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c
    ./pan -m1000000 > said 2>&1 || true
    errors=$(sed -n 's/.*errors: *\([0-9]*\).*/\1/p' said)
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' said)
    if grep -qE 'search not completed|max search depth too small|out of memory|reached -DMEMLIM' said && [ "$expected" = 0 ]; then
        tail -n 20 said
        failed=1
    fi
    printf '%-40s %s states, %s errors\n' "$what" "$states" "$errors"
    [ "${errors:-none}" = "$expected" ] || { echo "    expected $expected errors"; tail -n 30 said; failed=1; }
}

verify "indexes mod 4, two slots" 0 -DITEMS=4
verify "indexes mod 8, one slot grows to two" 0 -DM=8 -DSLOTS=1 -DSLOTS_MAX=2 -DITEMS=4
verify "one thief, indexes mod 4 come round twice" 0 -DTHIEVES=1 -DITEMS=8
verify "one thief, mod 8, two slots grow to four" 0 -DTHIEVES=1 -DM=8 -DSLOTS=2 -DSLOTS_MAX=4 -DITEMS=6
if [ -n "${HTC_TEST_FULL-}" ]; then
    verify "indexes mod 4, two slots, six items" 0 -DITEMS=6
    verify "indexes mod 8, two slots grow to four" 0 -DM=8 -DSLOTS=2 -DSLOTS_MAX=4 -DITEMS=5
    verify "three thieves, indexes mod 4" 0 -DTHIEVES=3 -DITEMS=4
fi
for mistake in EARLY_SLOT NO_WAIT THIRD_EPOCH BLIND_RECLAIM; do
    verify "mistake: $mistake" 1 -DITEMS=4 -DMISTAKE_$mistake
done
for mistake in EARLY_RING GROW_FROM_TOP; do
    verify "mistake: $mistake" 1 -DTHIEVES=1 -DM=8 -DSLOTS=1 -DSLOTS_MAX=2 -DITEMS=5 -DMISTAKE_$mistake
done
exit $failed
