#!/bin/sh
# Writes a flow whose maps each write BYTES of text or a little more, in words that are drawn from FILE: the last word of each line is one. What is
# drawn depends on the number of the map alone, so that a map that runs again writes the same. random.sums has checksum and size of each file.
#
#   random_text.sh FILE [MAPS [BYTES]] > random.flow && htc flow run random.flow
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 1 ] || { echo "usage: random_text.sh FILE [MAPS [BYTES]]" >&2; exit 1; }
file=$1 maps=${2:-8} bytes=${3:-1000000}

# All numbers are whole and below 2^53: every awk draws the same.
map='
    NF { word[n++] = $NF }
    END {
        for (x = seed + 1; size < bytes; size += length(line) + 1) {
            line = ""
            for (i = 0; i < 10; i++) {
                x = (x * 69069 + 1) % 4294967296
                line = line (i ? " " : "") word[int(x * n / 4294967296)]
            }
            print line > out
        }
    }'

for m in $(seq -f %04.0f 0 $((maps - 1))); do
    say "map-$m: in=$(quote "$file") out=random-text.$m LC_ALL=C awk -v seed=$m -v bytes=$bytes -v out=random-text.$m '$map' $(quote "$file")"
done
in=$(all random-text.%04.0f "$maps")
say "sum: after=$(all map-%04.0f "$maps") in=$in out=random.sums sh -c 'cksum \"\$@\" > random.sums' sum $(words "$in")"
