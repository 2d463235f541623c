#!/bin/bash
# usage: SOURCE=DIR CXX=… deque_relacy.sh PROGRAM.cpp [iterations]
# Builds the program and runs it. It is compiled apart from everything else: relacy is a header that redefines new and free.
set -euo pipefail
[ -n "${CXX-}" ] || { echo "SKIP no C++ compiler"; exit 77; }
echo '#include <relacy/relacy.hpp>' | $CXX -w -x c++ -fsyntax-only - 2> /dev/null || { echo "SKIP no relacy (Debian: relacy-dev)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Optimising the program more takes longer than it saves, but for the full form's many schedules.
level=-O1
[ -z "${HTC_TEST_FULL-}" ] || level=-O2
$CXX -std=c++17 $level -w -I"$SOURCE/tests" -I"$SOURCE/lib" -I"$SOURCE/include" -o "$dir/relacy" "$1"
shift
"$dir/relacy" "$@"
