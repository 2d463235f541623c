#!/bin/bash
# usage: SOURCE=DIR symbols.sh LIBRARY MAP
# What the shared library exports, what its public headers promise and what its map names are the same, and all of it is
# called htc_… (those of htc-drmaa: drmaa_…). A header belongs to the library that it names ("Library htcsched-sim"), else to htcsched.
set -euo pipefail
map=$2
other=-L mark=HTC_API begin=htc_
headers=("$SOURCE"/include/htcsched/*.h)
case $1 in
*htcsched-sim*) other=-l ;;
*htc-drmaa*) mark=DRMAA_API begin=drmaa_ headers=("$SOURCE"/include/htc-drmaa/*.h) ;; # the standard's names
esac

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Type A is the version node itself.
nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u > "$dir/exported"
# Comments away, one line, one declaration a line; the name stands before the first parenthesis.
{ grep -Z $other 'Library htcsched-sim' "${headers[@]}" || true; } | xargs -0 cat | grep -v '^#' | tr '\n' ' ' | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g' |
    grep -oE "$mark [^;{]*\\(" | sed -E 's/^([^(]*)\(.*/\1/; s/.*[ *]([A-Za-z_0-9]+) *$/\1/' | sort -u > "$dir/declared"

[ -s "$dir/exported" ] && [ -s "$dir/declared" ] || { echo "nothing exported or nothing declared: this check is broken"; exit 1; }
# Comments away; a name a line, up to its semicolon.
tr '\n' ' ' < "$map" | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g' | grep -oE '[A-Za-z_][A-Za-z_0-9.]*;' | tr -d ';' | grep -vE '^(HTCSCHED|HTC_DRMAA)_' |
    sort > "$dir/mapped"
failed=0
complain() {
    if [ -n "$2" ]; then
        echo "$1:"
        echo "$2"
        failed=1
    fi
}
complain "exported, but not called $begin" "$(grep -v "^$begin[a-zA-Z0-9]" "$dir/exported" || true)"
complain "twice in ${map##*/}" "$(uniq -d "$dir/mapped")"
complain "declared in a public header, but not in ${map##*/}" "$(comm -23 "$dir/declared" "$dir/mapped")"
complain "in ${map##*/}, but in no public header" "$(comm -13 "$dir/declared" "$dir/mapped")"
complain "exported, but in no public header" "$(comm -23 "$dir/exported" "$dir/declared")"
complain "declared in a public header, but not exported" "$(comm -13 "$dir/exported" "$dir/declared")"
echo "$(wc -l < "$dir/exported") symbols exported, $(wc -l < "$dir/declared") declared"
exit $failed
