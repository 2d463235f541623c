#!/bin/bash
# usage: SOURCE=DIR CC=… CXX=… headers.sh
# Each public header compiles alone, as C11 and as C++17, without a warning, and htcsched.h includes all but the simulator's.
set -euo pipefail

flags=(-Wall -Wextra -pedantic -Werror -fsyntax-only)
failed=0
inits=$(mktemp)
trap 'rm -f "$inits"' EXIT
cd "$SOURCE/include"
for header in htcsched/*.h; do
    $CC -std=c11 "${flags[@]}" -I. -x c - <<<"#include \"$header\"" || { echo "$header does not compile alone as C11"; failed=1; }
    [ -z "$CXX" ] || $CXX -std=c++17 "${flags[@]}" -I. -x c++ - <<<"#include \"$header\"" ||
        { echo "$header does not compile alone as C++17"; failed=1; }
    [ "$header" = htcsched/htcsched.h ] || grep -q 'Library htcsched-sim' "$header" || grep -qF "#include \"$header\"" htcsched/htcsched.h ||
        { echo "htcsched/htcsched.h does not include $header"; failed=1; }
done
# Every …_INIT is a value in both languages.
grep -hoE '#define HTC_[A-Z0-9_]+_INIT\b' htcsched/*.h | sed 's/#define //' | sort -u |
    awk -v headers="$(echo htcsched/*.h)" 'BEGIN { n = split(headers, h, " "); for (i = 1; i <= n; i++) printf "#include \"%s\"\n", h[i] }
        { type = tolower($1); sub(/_init$/, "", type); printf "extern %s v%d;\n%s v%d = %s;\n", type, NR, type, NR, $1 }' > "$inits"
$CC -std=c11 "${flags[@]}" -I. -x c "$inits" || { echo "an _INIT is no initializer in C11"; failed=1; }
[ -z "$CXX" ] || $CXX -std=c++17 "${flags[@]}" -I. -x c++ "$inits" || { echo "an _INIT is no initializer in C++17"; failed=1; }
if [ -z "$CXX" ] && [ $failed = 0 ]; then
    echo "SKIP no C++ compiler: only C11 was tried"
    exit 77
fi
exit $failed
