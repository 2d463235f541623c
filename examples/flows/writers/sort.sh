#!/bin/sh
# Writes a flow that sorts the lines of FILE: a sample says which range of lines goes to which reducer, maps deal the lines, reducers sort.
# sorted.txt has what sort prints in the C locale.
#
#   sort.sh FILE [MAPS [REDUCERS]] > sort.flow && htc flow run sort.flow
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 1 ] || { echo "usage: sort.sh FILE [MAPS [REDUCERS]]" >&2; exit 1; }
file=$1 maps=${2:-8} reducers=${3:-4}

sample='
    BEGIN { sort = "sort -o sort-sample"; printf "" | sort }
    FNR % 500 == 1 { print | sort }
    END { exit close(sort) != 0 }'
# "" makes texts of them: what looks like numbers would be compared as numbers.
map='
    BEGIN { for (r = 0; r < reducers; r++) printf "" > (out r) }
    FILENAME == ARGV[1] { sample[n++] = $0; next }
    FNR == 1 { for (r = 1; r < reducers; r++) first[r] = sample[int(n * r / reducers)] "" }
    { for (r = 1; r < reducers && $0 "" >= first[r]; r++) ; print > (out (r - 1)) }'

parts=$(all sort-part.%04.0f "$maps")
say "split: in=$(quote "$file") out=$parts split -n l/$maps -d -a 4 $(quote "$file") sort-part."
say "sample: after=split in=$parts out=sort-sample LC_ALL=C awk '$sample' $(words "$parts")"
for m in $(seq -f %04.0f 0 $((maps - 1))); do
    say "map-$m: after=sample in=sort-sample,sort-part.$m out=$(all "sort-map.$m.%.0f" "$reducers")" \
        "LC_ALL=C awk -v out=sort-map.$m. -v reducers=$reducers '$map' sort-sample sort-part.$m"
done
for r in $(seq 0 $((reducers - 1))); do
    in=$(all "sort-map.%04.0f.$r" "$maps")
    say "reduce-$r: after=$(all map-%04.0f "$maps") in=$in out=sort-reduce.$r LC_ALL=C sort -o sort-reduce.$r $(words "$in")"
done
in=$(all sort-reduce.%.0f "$reducers")
say "concatenate: after=$(all reduce-%.0f "$reducers") in=$in out=sorted.txt sh -c 'cat \"\$@\" > sorted.txt' cat $(words "$in")"
