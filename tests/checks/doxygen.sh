#!/bin/bash
# usage: SOURCE=DIR doxygen.sh OUTPUT_DIR
# The programmer's reference is whole: Doxygen, which writes it to OUTPUT_DIR, has nothing to warn about, and what it cannot
# know of is there too: threads and allocation of each header, cost and first version of each function.
set -euo pipefail
out=$(realpath -m "$1")
cd "$SOURCE"
failed=0

for header in include/htcsched/*.h; do
    [ "$header" = include/htcsched/htcsched.h ] && continue
    awk -v header="$header" '
        /^\/\*\*/ { comment = ""; first = first == "" ? "open" : first }
        { comment = comment " " $0 }
        first == "open" && /\*\// { first = comment }
        /^HTC_API/ {
            name = $0
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            if (comment !~ /Cost:/) { print header ": " name " does not say what it costs"; bad = 1 }
            if (comment !~ /Since:/) { print header ": " name " does not say since when there is it"; bad = 1 }
            comment = ""
        }
        END {
            if (first !~ /Threads:/) { print header ": the first comment says nothing of threads"; bad = 1 }
            if (tolower(first) !~ /allocat/) { print header ": the first comment says nothing of allocation"; bad = 1 }
            exit bad
        }' "$header" || failed=1
done

if ! command -v doxygen > /dev/null; then
    [ $failed = 0 ] || exit 1
    echo "SKIP no doxygen: its warnings were not looked at"
    exit 77
fi
rm -rf "$out"
mkdir -p "$out"
said=$({ cat doc/Doxyfile; printf 'OUTPUT_DIRECTORY = "%s"\n' "$out"; } | doxygen - 2>&1) || failed=1
if [ -n "$said" ]; then
    echo "Doxygen warns:"
    sed 's/^/    /' <<< "$said"
    failed=1
fi
for header in include/htcsched/*.h; do
    page=${header##*/} page=${page//_/__} page=$out/html/${page%.h}_8h.html
    [ -f "$page" ] || { echo "Doxygen wrote nothing about $header"; failed=1; }
done
exit $failed
