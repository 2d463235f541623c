#!/bin/bash
# usage: store_spin.sh REGISTER.pml EPOCH.pml
# Every interleaving of the store's protocol within small bounds; then each mistake put into the models has to be found.
# HTC_TEST_FULL in the environment: larger bounds (some GiB of memory, minutes).
set -euo pipefail
register=$(realpath "$1") epoch=$(realpath "$2")
command -v spin > /dev/null || { echo "SKIP no spin"; exit 77; }
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0
# Optimising a verifier takes longer than it saves, but for the larger bounds.
level=-O0
[ -z "${HTC_TEST_FULL-}" ] || level=-O2

# verify WHAT EXPECTED-ERRORS MODEL -DNAME...: all of the state space, or as far as the first error. An owner that waits for ever is fine.
verify() {
    local what=$1 expected=$2 model=$3 states errors depth began=$SECONDS
    shift 3
    spin -a "$@" "$model" > said 2>&1 || { cat said; exit 1; }
    $cc $level -w -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c
    ./pan -E -m1000000 > said 2>&1 || true
    errors=$(sed -n 's/.*errors: *\([0-9]*\).*/\1/p' said)
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' said)
    depth=$(sed -n 's/.*depth reached *\([0-9]*\).*/\1/p' said)
    if grep -qE 'search not completed|max search depth too small|out of memory|reached -DMEMLIM' said && [ "$expected" = 0 ]; then
        tail -n 20 said
        failed=1
    fi
    printf '%-52s %s states, depth %s, %s errors, %s s\n' "$what" "$states" "$depth" "$errors" $((SECONDS - began))
    [ "${errors:-none}" = "$expected" ] || { echo "    expected $expected errors"; tail -n 30 said; failed=1; }
}

verify "two changes, reads, one round trip" 0 "$register" -DBALLOTS=3
verify "two changes, four ballots" 0 "$register" -DBALLOTS=4 -DREADS=0
verify "an owner loses its disk" 0 "$register" -DBALLOTS=3 -DWIPE
verify "a deletion is collected" 0 "$register" -DBALLOTS=3 -DDELETE
verify "an epoch change with two movers" 0 "$epoch"
verify "a bucket of a batch is let go" 0 "$epoch" -DLET_GO
verify "an epoch change, an old owner lost" 0 "$epoch" -DWIPE
if [ -n "${HTC_TEST_FULL-}" ]; then
    verify "no one round trip" 0 "$register" -DBALLOTS=4 -DREADS=0 -DSTICKY=0
    verify "a deletion is collected, four ballots" 0 "$register" -DBALLOTS=4 -DREADS=0 -DDELETE
    verify "three changes, five ballots" 0 "$register" -DBALLOTS=5 -DREADS=0 -DCHANGES=3
    verify "an epoch change, two changes under way" 0 "$epoch" -DWRITERS=2
    verify "a bucket is let go, two changes under way" 0 "$epoch" -DWRITERS=2 -DLET_GO
fi
# What is to be there is reached, or the claims would hold of nothing.
verify "reached: all changes are made" 1 "$register" -DBALLOTS=4 -DREADS=0 -DREACHED
verify "reached: a read after the second mover" 1 "$epoch" -DREACHED
verify "reached: a read of a bucket that was let go" 1 "$epoch" -DLET_GO -DREACHED
verify "reached: a read after the loss of an old owner" 1 "$epoch" -DWIPE -DREACHED

verify "mistake: promise unchecked" 1 "$register" -DBALLOTS=4 -DMISTAKE_PROMISE_UNCHECKED
verify "mistake: ballot used again" 1 "$register" -DBALLOTS=3 -DSTICKY=0 -DMISTAKE_BALLOT_REUSED
verify "mistake: read not written back" 1 "$register" -DBALLOTS=4 -DMISTAKE_READ_NOT_WRITTEN_BACK
verify "mistake: sequence forgotten" 1 "$register" -DBALLOTS=4 -DREADS=0 -DSTICKY=0 -DMISTAKE_SEQUENCE_FORGOTTEN
verify "mistake: floors not raised" 1 "$register" -DBALLOTS=4 -DREADS=0 -DDELETE -DMISTAKE_FLOOR_NOT_RAISED
verify "mistake: lost disk, same name" 1 "$register" -DBALLOTS=3 -DWIPE -DMISTAKE_WIPED_SAME_NAME
verify "mistake: state read before the seal" 1 "$epoch" -DMISTAKE_UNSEALED_READ
verify "mistake: images of two movers mixed" 1 "$epoch" -DMISTAKE_IMAGES_MIXED
verify "mistake: let go and activated" 1 "$epoch" -DLET_GO -DMISTAKE_LET_GO_ACTIVATED
verify "mistake: let go, what arrived takes its place" 1 "$epoch" -DLET_GO -DMISTAKE_ARRIVED_TAKES_PLACE
verify "mistake: lost disk, same name, epoch change" 1 "$epoch" -DWIPE -DMISTAKE_WIPED_SAME_NAME
if [ -n "${HTC_TEST_FULL-}" ]; then
    verify "reached: both changes of the old epoch" 1 "$epoch" -DWRITERS=2 -DREACHED
    verify "reached: both, and the bucket is let go" 1 "$epoch" -DWRITERS=2 -DLET_GO -DREACHED
    verify "mistake: a cached value answers a read" 1 "$register" -DBALLOTS=4 -DMISTAKE_CACHE_READ
fi
exit $failed
