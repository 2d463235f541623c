#!/bin/sh
# Stands for the program of a recorded task: takes as long, reads all that it read, and writes as much. Each line of an output has its name and a
# hash of all inputs, so that what is wrong anywhere shows in all that depends on it.
#
#   stand_in.sh SECONDS OUTPUTS [OUTPUT BYTES]... [INPUT]...
set -eu
seconds=$1 outputs=$2
shift 2
[ "$seconds" = 0 ] || sleep "$seconds"
hash=$(shift $((2 * outputs)) && cat /dev/null "$@" | sha256sum)
while [ "$outputs" -gt 0 ]; do
    line="$1 ${hash%% *}
"
    text=$line
    while [ ${#text} -lt "$2" ]; do text=$text$text; done
    bytes=$2
    [ "$bytes" -ge ${#line} ] || bytes=${#line}
    printf "%.${bytes}s" "$text" > "$1"
    shift 2
    outputs=$((outputs - 1))
done
