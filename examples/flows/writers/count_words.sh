#!/bin/sh
# Writes a flow that counts the words of FILE by map and reduce. A word is letters; words.txt has what a plain
# tr -cs A-Za-z '\n' < FILE | grep . | sort | uniq -c
# prints in the C locale.
#
#   count_words.sh FILE [MAPS [REDUCERS]] > words.flow && htc flow run words.flow
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 1 ] || { echo "usage: count_words.sh FILE [MAPS [REDUCERS]]" >&2; exit 1; }
file=$1 maps=${2:-8} reducers=${3:-4}

# A map counts the words of its part, and puts each count into the file of the reducer whose word it is.
map='
    { for (i = 1; i <= NF; i++) n[$i]++ }
    END {
        letters = "abcdefghijklmnopqrstuvwxyz"
        delete n[""]
        for (r = 0; r < reducers; r++)
            printf "" > (out r)
        for (w in n)
            print n[w], w > (out (index(letters, substr(w, 1, 1)) + 31 * index(letters, substr(w, 2, 1)) + length(w)) % reducers)
    }'
reduce='
    { n[$2] += $1 }
    END {
        sort = "sort -k 2 -o " out
        printf "" | sort
        for (w in n)
            printf "%7d %s\n", n[w], w | sort
        exit close(sort) != 0
    }'

say "split: in=$(quote "$file") out=$(all words-part.%04.0f "$maps") split -n l/$maps -d -a 4 $(quote "$file") words-part."
for m in $(seq -f %04.0f 0 $((maps - 1))); do
    say "map-$m: after=split in=words-part.$m out=$(all "words-map.$m.%.0f" "$reducers")" \
        "LC_ALL=C awk -F '[^A-Za-z]+' -v out=words-map.$m. -v reducers=$reducers '$map' words-part.$m"
done
for r in $(seq 0 $((reducers - 1))); do
    in=$(all "words-map.%04.0f.$r" "$maps")
    say "reduce-$r: after=$(all map-%04.0f "$maps") in=$in out=words-reduce.$r LC_ALL=C awk -v out=words-reduce.$r '$reduce' $(words "$in")"
done
in=$(all words-reduce.%.0f "$reducers")
say "merge: after=$(all reduce-%.0f "$reducers") in=$in out=words.txt LC_ALL=C sort -m -k 2 -o words.txt $(words "$in")"
