#!/bin/bash
# usage: output.sh PROGRAM SOURCE.c EXPECTED
# A tutorial program: at most 60 lines, and it prints what stands beside it.
set -euo pipefail
program=$1 source=$2 expected=$3
lines=$(wc -l < "$source")
[ "$lines" -le 60 ] || { echo "$source has $lines lines: a tutorial has at most 60"; exit 1; }
"$program" | diff -u "$expected" - || { echo "$source prints something else than $expected (-: expected, +: printed)"; exit 1; }
