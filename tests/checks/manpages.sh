#!/bin/bash
# usage: SOURCE=DIR CC=… SANITIZE=… manpages.sh LIBRARY SIM_LIBRARY
# Every page is well formed and installed; every header has one, and htcsched(7) names it. Each doc/man/htc_NAME.3 names every
# function of htcsched/NAME.h, and the program between its .EX and .EE compiles without a warning, links with the libraries and
# ends with 0. So does each program of doc/policies.md. A page that is named, as htc(1), is there.
set -euo pipefail
library=$(realpath "$1") simulator=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
complain() {
    echo "$1"
    [ -z "${2-}" ] || sed 's/^/    /' <<< "$2"
    failed=1
}

# A sanitizer changes nothing of how a page is written.
if [ "$SANITIZE" != none ]; then
    :
elif command -v groff > /dev/null; then
    for page in "$SOURCE"/doc/man/*.[1-8]; do
        said=$(groff -man -Tutf8 -ww -z -rLL=100n "$page" 2>&1 || true)
        [ -z "$said" ] || complain "${page##*/} is not well formed:" "$said"
    done
else
    echo "no groff: the form of the pages was not looked at"
fi

# A quotation mark without its partner is printed, and the words behind it lose their spaces; groff says nothing.
for page in "$SOURCE"/doc/man/*.[1-8]; do
    odd=$(awk -F'"' '/^\.[A-Z]+ / && !/^\.[A-Z]+ .*\\"/ && NF % 2 == 0 { print FNR ": " $0 }' "$page")
    [ -z "$odd" ] || complain "${page##*/} has a macro with a quotation mark left open:" "$odd"
done

for page in "$SOURCE"/doc/man/*.[1-8]; do
    grep -qF "'${page##*/}'" "$SOURCE/doc/man/meson.build" || complain "${page##*/} is not installed"
done
for header in "$SOURCE"/include/htcsched/*.h; do
    name=${header##*/} name=${name%.h}
    [ "$name" = htcsched ] && continue
    [ -f "$SOURCE/doc/man/htc_$name.3" ] || complain "htcsched/$name.h has no page htc_$name.3"
    grep -q "htc_$name (3)" "$SOURCE/doc/man/htcsched.7" || complain "htcsched.7 does not name htc_$name(3)"
done

# Each page that one of them, or a document, sends its reader to is there.
while IFS=: read -r from name; do
    [ -f "$SOURCE/doc/man/$(tr -d ' ()' <<< "${name/(/.}")" ] || complain "${from#"$SOURCE"/} names $name, and there is no such page"
done < <(grep -HoE '\bhtc[a-z_.-]*[a-z] ?\([1-8]\)' "$SOURCE"/doc/man/*.[1-8] "$SOURCE"/*.md $(find "$SOURCE/doc" -name '*.md') | sort -u)

functions() {
    grep -v '^#' "$1" | tr '\n' ' ' | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g' | grep -oE 'HTC_API [^;{]*\(' |
        sed -E 's/^([^(]*)\(.*/\1/; s/.*[ *]([A-Za-z_0-9]+) *$/\1/' | LC_ALL=C sort -u
}

sanitize=()
[ "$SANITIZE" = none ] || sanitize=("-fsanitize=$SANITIZE")
# try WHAT NAME LIBRARY...: the program $dir/NAME.c
try() {
    local what=$1 name=$2
    shift 2
    if ! $CC -std=c11 -Wall -Wextra -pedantic -Werror "${sanitize[@]}" -I"$SOURCE/include" -o "$dir/$name" "$dir/$name.c" "$@" \
        -Wl,-rpath,"$(dirname "$library")" -lm > "$dir/said" 2>&1; then
        complain "$what does not compile:" "$(cat "$dir/said")"
    elif ! (cd "$dir" && "./$name" > "$dir/said" 2>&1 < /dev/null); then
        complain "$what fails:" "$(cat "$dir/said")"
    fi
}

for page in "$SOURCE"/doc/man/htc_*.3; do
    [ -e "$page" ] || continue
    name=${page##*/htc_} name=${name%.3}
    header=$SOURCE/include/htcsched/$name.h
    [ -f "$header" ] || { complain "${page##*/} describes htcsched/$name.h, which does not exist"; continue; }
    text=$(sed 's/\\f.//g' "$page") # at once: grep -q stops reading, and a pipe would break under whoever writes into it
    for f in $(LC_ALL=C comm -23 <(functions "$header") <(grep -oE '[A-Za-z_0-9]+' <<< "$text" | LC_ALL=C sort -u)); do
        complain "${page##*/} does not name $f"
    done
    awk '/^\.EX/ { inside = 1; next } /^\.EE/ { inside = 0 } inside' "$page" | sed 's/\\e/\\/g; s/\\-/-/g; s/\\(aq/'"'"'/g; s/\\&//g; s/\\(dq/"/g' > "$dir/$name.c"
    [ -s "$dir/$name.c" ] || { complain "${page##*/} has no example"; continue; }
    libraries=("$library")
    ! grep -q 'Library htcsched-sim' "$header" || libraries=("$simulator" "$library" -Wl,-rpath,"$(dirname "$simulator")")
    try "the example of ${page##*/}" "$name" "${libraries[@]}"
done

# Each program stands below the heading of its kind; every kind that a registry knows has one.
awk -v dir="$dir" '/^## / { name = $2 } /^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside { print > (dir "/policy_" name ".c") }' \
    "$SOURCE/doc/policies.md"
for name in $(sed -nE 's/^    HTC_REGISTRY_([A-Z]+)( = 1)?,.*/\L\1/p' "$SOURCE/include/htcsched/registry.h"); do
    if [ -s "$dir/policy_$name.c" ]; then
        try "the program of doc/policies.md for $name" "policy_$name" "$library"
    else
        complain "doc/policies.md has no program for $name"
    fi
done
exit $failed
