#!/bin/bash
# usage: SOURCE=DIR CC=… deque_mutants.sh
# Each memory order of the deque (lib/sched/deque/deque_atomics.h) weakened to relaxed, in turn: ThreadSanitizer has to report a race in the
# stress of deque.c. Before that it has to find nothing in the text as it is.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE"
export TSAN_OPTIONS=halt_on_error=1:exitcode=66:report_bugs=1
checked=(-std=c11 -O2 -g -w -fsanitize=thread -D_GNU_SOURCE -DHTC__DEQUE_CHECKED -DHTC__DEQUE_INDEX_BITS=7 -Iinclude -Ilib -Itests)

$CC "${checked[@]}" -c -o "$dir/race.o" tests/race/deque.c
for part in util env bytes status; do
    $CC "${checked[@]}" -c -o "$dir/$part.o" "lib/core/$part.c"
done

# answers the exit status: 0, or 66 where a race was reported.
run() {
    local status=0
    $CC "${checked[@]}" "$@" -o "$dir/deque" lib/sched/deque/deque.c "$dir"/*.o -lxxhash -pthread
    timeout 200 "$dir/deque" > "$dir/said" 2>&1 || status=$?
    return $status
}

failed=0
if run; then
    echo "as it is: nothing found"
else
    tail -n 40 "$dir/said"
    echo "as it is: something found"
    failed=1
fi
for order in PUBLISH CLAIM RING_SET RING_GET COPIED COLLECT; do
    status=0
    run "-DDEQUE_$order=relaxed" || status=$?
    if [ $status = 66 ] && grep -q 'data race' "$dir/said"; then
        echo "$order relaxed: data race reported"
    else
        echo "$order relaxed: NOT NOTICED (status $status)"
        failed=1
    fi
done
exit $failed
