#!/bin/bash
# usage: consumer.sh BUILD_DIR INSTALL_DIR CONSUMER.c CONSUMER.cpp CONSUMER_SIM.c
# A stranger's programs: installs the libraries, finds them by pkg-config, builds against them in C and in C++, runs.
set -euo pipefail
build=$1 installed=$2 c=$3 cpp=$4 c_sim=$5

command -v pkg-config > /dev/null || { echo "SKIP no pkg-config"; exit 77; }
rm -rf "$installed"
meson install -C "$build" --no-rebuild --quiet --destdir "$installed"
# pkg-config cannot cope with a blank in the system root: it gets a name without one.
link=$(mktemp -d /tmp/htc-consumer-XXXXXX)
trap 'rm -rf "$link"' EXIT
root=$link/root
ln -s "$installed" "$root"
pc=$(find "$root/" -name htcsched.pc)
[ -n "$pc" ] || { echo "htcsched.pc was not installed"; exit 1; }
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=${pc%/*}
read -ra cflags <<< "$(pkg-config --cflags htcsched)"
read -ra libs <<< "$(pkg-config --libs htcsched)"
LD_LIBRARY_PATH=$(dirname "$(find "$root/" -name libhtcsched.so)")
export LD_LIBRARY_PATH
sanitize=()
[ "$SANITIZE" = none ] || sanitize=("-fsanitize=$SANITIZE")
strict=(-Wall -Wextra -pedantic -Werror)

$CC -std=c11 "${strict[@]}" "${sanitize[@]}" "${cflags[@]}" -o "$root/consumer_c" "$c" "${libs[@]}"
"$root/consumer_c"
# What the front page shows, word for word: the program, how it is built, what it says.
readme=$(dirname "$c")/../../README.md
sed -n '/^    #include <htcsched/,/^    }$/s/^    //p' "$readme" > "$link/ten.c"
said=$(sed -n '/^    \$ cc ten\.c /{n;s/^    //p}' "$readme")
$CC "${sanitize[@]}" "${cflags[@]}" -o "$link/ten" "$link/ten.c" "${libs[@]}"
[ -n "$said" ] && [ "$("$link/ten")" = "$said" ] || { echo "README.md's program says: $("$link/ten"); README.md: $said"; exit 1; }
read -ra sim_libs <<< "$(pkg-config --cflags --libs htcsched-sim)"
$CC -std=c11 "${strict[@]}" "${sanitize[@]}" -o "$root/consumer_sim" "$c_sim" "${sim_libs[@]}"
"$root/consumer_sim"
if [ -z "$CXX" ]; then
    echo "SKIP no C++ compiler: only the C program was built"
    exit 77
fi
# The C++ compiler of the same house, or the sanitizers' libraries do not fit.
case $CC in *clang*) CXX=$(command -v clang++ || echo "$CXX") ;; esac
$CXX -std=c++17 "${strict[@]}" "${sanitize[@]}" "${cflags[@]}" -o "$root/consumer_cpp" "$cpp" "${libs[@]}"
"$root/consumer_cpp"
