#!/bin/bash
# usage: archive.sh OUT.a OUT.names MAP CC... -- ARCHIVE...
# One static library of these layers: everything is linked into one object, in which only the names of the version map stay global, as in the
# shared library. Without that an archive would show every function that two of its files share.
set -euo pipefail
out=$1 names=$2 map=$3
shift 3
cc=()
while [ "$1" != -- ]; do
    cc+=("$1")
    shift
done
shift
# Comments away; one name a line, up to its semicolon.
tr '\n' ' ' < "$map" | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g' | grep -oE 'htc_[a-z_0-9]+;' | tr -d ';' > "$names"
nolto=()
case "$("${cc[@]}" --version | sed -n 1p)" in *clang*) ;; *) nolto=(-flinker-output=nolto-rel) ;; esac
object=${out%.a}.o
"${cc[@]}" -r -nostdlib "${nolto[@]}" -o "$object" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
objcopy --keep-global-symbols="$names" "$object"
rm -f "$out"
ar rcsD "$out" "$object"
