#!/bin/bash
# usage: SOURCE=DIR CC=… CXX=… headers.sh
# Each public header compiles alone, as C11 and as C++17, without a warning, htcsched.h includes all but the simulator's, and a struct without a
# size of its own is named as fixed.
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
# DRMAA's header is the standard's, and stands alone.
header=htc-drmaa/drmaa.h
$CC -std=c11 "${flags[@]}" -I. -x c - <<<"#include \"$header\"" || { echo "$header does not compile alone as C11"; failed=1; }
[ -z "$CXX" ] || $CXX -std=c++17 "${flags[@]}" -I. -x c++ - <<<"#include \"$header\"" || { echo "$header does not compile alone as C++17"; failed=1; }
# A struct that may grow says how long the caller's is; every other one is named as fixed.
python3 - ../tests/checks/fixed_structs.txt htcsched/*.h << 'PY' || failed=1
import re, sys
fixed = {line.strip() for line in open(sys.argv[1]) if line.strip() and not line.startswith('#')}
found, wrong = set(), False
for path in sys.argv[2:]:
    text = re.sub(r'/\*.*?\*/', '', open(path).read(), flags=re.S)
    for name, first in re.findall(r'typedef struct (\w+) \{\s*([^;]+);', text):
        if ' '.join(first.split()) == 'size_t size':
            if name in fixed:
                print(f'{name} has a size and is named as fixed')
                wrong = True
            continue
        found.add(name)
        if name not in fixed:
            print(f'{path}: {name} begins with no size and is not named in tests/checks/fixed_structs.txt')
            wrong = True
for name in sorted(fixed - found):
    print(f'tests/checks/fixed_structs.txt names {name}, which no header has')
    wrong = True
sys.exit(wrong)
PY
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
