#!/bin/sh
# Writes a flow that says which matches of PATTERN, an extended regular expression, are the most frequent in FILE: searched in parts and counted,
# then put in order. matches.txt has what a plain
# grep -aoE PATTERN FILE | sort | uniq -c | sort -k 1,1nr -k 2
# prints in the C locale.
#
#   grep.sh FILE PATTERN [MAPS] > grep.flow && htc flow run grep.flow
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 2 ] || { echo "usage: grep.sh FILE PATTERN [MAPS]" >&2; exit 1; }
file=$1 pattern=$2 maps=${3:-8}

# grep finds nothing in some parts, which is no failure.
search='grep -aoE -e "$1" "$2" > "$3" || [ $? = 1 ]'

say "split: in=$(quote "$file") out=$(all grep-part.%04.0f "$maps") split -n l/$maps -d -a 4 $(quote "$file") grep-part."
for m in $(seq -f %04.0f 0 $((maps - 1))); do
    say "search-$m: after=split in=grep-part.$m out=grep-found.$m LC_ALL=C sh -c '$search' search $(quote "$pattern") grep-part.$m grep-found.$m"
done
in=$(all grep-found.%04.0f "$maps")
say "count: after=$(all search-%04.0f "$maps") in=$in out=grep-counts LC_ALL=C sh -c 'sort \"\$@\" | uniq -c > grep-counts' count $(words "$in")"
say "order: after=count in=grep-counts out=matches.txt LC_ALL=C sort -k 1,1nr -k 2 -o matches.txt grep-counts"
