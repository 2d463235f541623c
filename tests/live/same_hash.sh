#!/bin/bash
# usage: SOURCE=DIR same_hash.sh PROGRAMS [--save]
# Each line of tests/data/sim_hashes.txt is a run of htc-sim with its hash: every build comes to it, with one thread and with two, and one machine of many
# tasks in any number of parts.
# --save: writes there what this build comes to.
set -euo pipefail
sim=$1/htc-sim
list=$SOURCE/tests/data/sim_hashes.txt
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0 lines=0
# hash_of OPTIONS...: of the run ${words[@]}
hash_of()
{
    "$sim" "${words[@]}" "$@" --json < /dev/null | grep -oE '"hash":"[0-9a-f]+"' | cut -d'"' -f4
}
while IFS= read -r line; do
    case $line in
    '#'* | '') printf '%s\n' "$line" >> "$out"; continue ;;
    esac
    eval "words=(${line#* })"
    found=$(hash_of -j 1)
    two=$(hash_of -j 2)
    [ "$found" = "$two" ] || { echo "htc-sim ${line#* }: the hash is $found on one thread, and $two on two"; exit 1; }
    for parts in 2 3; do
        [ "${words[0]}" = manytask ] || continue
        cut=$(hash_of -j 2 --parts $parts)
        [ "$found" = "$cut" ] || { echo "htc-sim ${line#* }: the hash is $found in one part, and $cut in $parts"; exit 1; }
    done
    lines=$((lines + 1))
    printf '%s %s\n' "$found" "${line#* }" >> "$out"
    if [ "$found" != "${line%% *}" ]; then
        failed=$((failed + 1))
        echo "htc-sim ${line#* }: the hash is $found, and was ${line%% *}"
    fi
done < "$list"
if [ "${2:-}" = --save ]; then
    cp "$out" "$list"
    exit
fi
[ $failed = 0 ] || { echo "$failed of $lines runs are others; if that is meant, same_hash.sh PROGRAMS --save writes them down"; exit 1; }
echo "same_hash: $lines runs are the same"
