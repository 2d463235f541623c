#!/bin/bash
# usage: output.sh PROGRAM SOURCE.c EXPECTED [LINES]
# A tutorial program: at most 60 lines, or LINES, and it prints what stands beside it.
set -euo pipefail
program=$1 source=$2 expected=$3 most=${4-60}
lines=$(wc -l < "$source")
[ "$lines" -le "$most" ] || { echo "$source has $lines lines: a tutorial has at most $most"; exit 1; }
"$program" | diff -u "$expected" - || { echo "$source prints something else than $expected (-: expected, +: printed)"; exit 1; }
