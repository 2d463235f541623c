#!/bin/bash
# usage: SOURCE=DIR CC=… faults.sh LIBRARY...
# An ordinary build has no fault points in it (lib/core/fault.h): none of their functions, none of their names. First proves that it
# would see one.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The names that stand in the sources, and those of the deliberate mistakes.
names=$({ grep -rhoE 'HTC__(FAULT|BROKEN)\([^()]*(\([^()]*\))?[^()]*\)' "$SOURCE/lib" --include='*.c' | sed -E 's/.*[(, ]([a-z_0-9]+)\)$/\1/'
    sed -n '/HTC__BROKEN_TABLE(X) /,/^$/s/^ *X(\([a-z_]*\)).*/\1/p' "$SOURCE/lib/core/fault.h"; } | sort -u)
[ "$(wc -l <<< "$names")" -ge 10 ] || { echo "fewer names than there are mistakes: this check is broken"; exit 1; }

offences() {
    nm "$1" 2> /dev/null | grep -E ' htc__(fault|broken_[a-z]+)$' || true
    strings -a "$1" | grep -xF "$names" || true
}

cat > "$dir/planted.c" <<'C'
#include "core/fault.h"
int planted(const htc_env *env); int planted(const htc_env *env) { return HTC__FAULT(env, ack_before_sync) + HTC__BROKEN(ballot_reused); }
C
$CC -O2 -I"$SOURCE/include" -I"$SOURCE/lib" -c -o "$dir/without.o" "$dir/planted.c"
$CC -O2 -DHTC_FAULTS -I"$SOURCE/include" -I"$SOURCE/lib" -c -o "$dir/with.o" "$dir/planted.c"
$CC -O2 -DHTC_FAULTS -I"$SOURCE/include" -I"$SOURCE/lib" -c -o "$dir/fault.o" "$SOURCE/lib/core/fault.c"
[ -z "$(offences "$dir/without.o")" ] || { echo "an object without fault points is accused"; exit 1; }
nm "$dir/with.o" | grep ' U htc__fault$' > /dev/null && strings -a "$dir/with.o" | grep -x ack_before_sync > /dev/null || { echo "a planted point is not there"; exit 1; }
[ -n "$(offences "$dir/with.o")" ] && [ -n "$(offences "$dir/fault.o")" ] || { echo "a planted fault point was not seen"; exit 1; }

for library in "$@"; do
    found=$(offences "$library")
    [ -z "$found" ] || { echo "fault points in $library:"; echo "$found"; exit 1; }
done
echo "$# libraries hold no fault point"
