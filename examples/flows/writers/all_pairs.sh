#!/bin/sh
# Writes a flow that compares each two of the files that LIST names, one a line: a bag of calls of a function of OBJECT, which is
# examples/functions/all_pairs.c compiled. LIST.pairs has a line for each pair: the numbers of both files, from 0, and in how many bytes they differ.
#
#   all_pairs.sh OBJECT LIST > pairs.flow && htc flow run pairs.flow
#
# A function does not run in the directory of the flow: files are named by absolute paths.
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 2 ] || { echo "usage: all_pairs.sh OBJECT LIST" >&2; exit 1; }
object=$1 list=$(realpath "$2")

if grep -v '^/' "$list" >&2; then
    echo "all_pairs.sh: these are no absolute paths" >&2
    exit 1
fi
files=$(wc -l < "$list")
printf 'pairs: count=%d in=%s' $((files * (files - 1) / 2)) "$(quote "$list")"
while read -r file; do
    printf ',%s' "$(quote "$file")"
done < "$list"
printf ' out=%s @call %s compare_into %s\n' "$(quote "$list.pairs")" "$(quote "$object")" "$(quote "$list")"
