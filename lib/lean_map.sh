#!/bin/bash
# usage: lean_map.sh MAP OUT ARCHIVE...
# The part of the version map that these layers define, with the same nodes: what a small library of them exports.
set -euo pipefail
map=$1 out=$2
shift 2
nm -g --defined-only "$@" 2> /dev/null | awk 'NF == 3 { print $3 }' | sort -u > "$out.names"
awk -v names="$out.names" 'BEGIN { while ((getline name < names) > 0) has[name] = 1 }
    /^ *htc_[a-z_0-9]+;/ { name = $1; sub(/;.*/, "", name); if (!(name in has)) next }
    { print }' "$map" > "$out"
rm -f "$out.names"
