#!/bin/bash
# usage: consumer.sh BUILD_DIR INSTALL_DIR CONSUMER.c CONSUMER.cpp CONSUMER_SIM.c CONSUMER_DRMAA.c
# A stranger's programs: installs the libraries, finds them by pkg-config, builds against them in C and in C++, runs. Shared and, where they
# were built (-Ddefault_library=both), static; the large library and the primitives alone.
set -euo pipefail
build=$1 installed=$2 c=$3 cpp=$4 c_sim=$5 c_drmaa=$6

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
headers=$(find "$root/" -path '*/htcsched/version.h' -exec sed -n 's/^#define HTC_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' {} + | paste -sd. -)
[ "$headers" = "$(pkg-config --modversion htcsched)" ] || { echo "version.h says $headers, htcsched.pc $(pkg-config --modversion htcsched)"; exit 1; }
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
read -ra drmaa_libs <<< "$(pkg-config --cflags --libs htc-drmaa)"
$CC -std=c11 "${strict[@]}" "${sanitize[@]}" -o "$root/consumer_drmaa" "$c_drmaa" "${drmaa_libs[@]}"
"$root/consumer_drmaa"
# Whoever opens it by its path needs no path to what it calls.
(unset LD_LIBRARY_PATH; ldd "$(find "$root/" -name libhtc-drmaa.so)" | grep -F "not found") && { echo "libhtc-drmaa.so does not find what it calls"; exit 1; }

# ---- the primitives alone, and static libraries ----

# needs PROGRAM NAME...: of all that it is linked with it needs no more than these and the C library.
needs() {
    local program=$1 name found
    shift
    found=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[lib\(.*\)\.so.*/\1/p' | grep -vE '^(c|asan|ubsan|tsan|clang_rt.*|gcc_s|pthread|dl|rt|resolv)$' || true)
    for name in $found; do
        case " $* " in *" $name "*) ;; *) echo "$program needs lib$name"; exit 1 ;; esac
    done
}
read -ra lean <<< "$(pkg-config --cflags --libs htcsched-primitives)"
$CC -std=c11 "${strict[@]}" "${sanitize[@]}" -o "$root/consumer_lean" "$c" "${lean[@]}"
"$root/consumer_lean"
needs "$root/consumer_lean" htcsched-primitives m xxhash
needs "$LD_LIBRARY_PATH/libhtcsched-primitives.so" m xxhash

# static NAME PROGRAM: built with the archive of that name, though the shared library lies beside it.
static() {
    local libs
    read -ra libs <<< "$(pkg-config --static --cflags --libs "$1" | sed -E 's/-l(htcsched[a-z-]*)/-l:lib\1.a/g')"
    $CC -std=c11 "${strict[@]}" "${sanitize[@]}" -o "$root/$1-static" "$2" "${libs[@]}"
    "$root/$1-static"
    if readelf -d "$root/$1-static" | grep -F '[libhtcsched'; then
        echo "$1-static is not static"
        exit 1
    fi
    private=$(nm -g --defined-only "$LD_LIBRARY_PATH/lib$1.a" | awk 'NF == 3 && $3 !~ /^htc_[a-z]/ { print $3 }' | grep -vE '^(__|_?asan|\.)' || true)
    [ -z "$private" ] || { echo "lib$1.a shows what is private:"; echo "$private"; exit 1; }
}
if [ -f "$LD_LIBRARY_PATH/libhtcsched.a" ]; then
    static htcsched "$c"
    static htcsched-primitives "$c"
    static htcsched-sim "$c_sim"
    needs "$root/htcsched-primitives-static" m xxhash
fi
if [ -z "$CXX" ]; then
    echo "SKIP no C++ compiler: only the C program was built"
    exit 77
fi
# The C++ compiler of the same house, or the sanitizers' libraries do not fit.
case $CC in *clang*) CXX=$(command -v clang++ || echo "$CXX") ;; esac
$CXX -std=c++17 "${strict[@]}" "${sanitize[@]}" "${cflags[@]}" -o "$root/consumer_cpp" "$cpp" "${libs[@]}"
"$root/consumer_cpp"
if [ -f "$LD_LIBRARY_PATH/libhtcsched.a" ]; then
    read -ra libs <<< "$(pkg-config --static --cflags --libs htcsched | sed -E 's/-l(htcsched[a-z-]*)/-l:lib\1.a/g')"
    $CXX -std=c++17 "${strict[@]}" "${sanitize[@]}" -o "$root/consumer_cpp_static" "$cpp" "${libs[@]}"
    "$root/consumer_cpp_static"
fi
