#!/bin/bash
# usage: staging.sh FOLDER-OF-THE-PROGRAMS [MiB]
# One input of 1,024 MiB for four agents of one host, each with one task: from when four agents fall free until all four tasks have it, beside `cp` of
# that file and beside its content hash alone (BLAKE2b of libsodium, as the programs have it). The median of RUNS (3); the ratio alone says something. The goal is 1.3 of the slower
# of the two. The second figure is of four more tasks, which find the input there already: by link, or by blocks that copies share.
# Root's tasks get a copy each, since modes mean nothing to root: as root it runs as uid 65101.
set -euo pipefail
programs=$(realpath "$1") mib=${2-1024} runs=${RUNS-3}
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-bench.XXXXXX")
as=()
if [ "$(id -u)" = 0 ]; then
    chmod 777 "$top"
    mkdir "$top/programs" "$top/programs/examples"
    cp "$programs"/htc* "$top/programs/examples/" 2> /dev/null || true
    find "$programs/.." -maxdepth 1 -name "libhtcsched.so*" ! -type d -exec cp -P {} "$top/programs/" \;
    chmod -R go+rX "$top/programs"
    export LD_LIBRARY_PATH=$top/programs
    programs=$top/programs/examples
    as=(setpriv --reuid 65101 --regid 65101 --clear-groups env HOME="$top/home")
fi
H=("${as[@]}" "$programs/htc" --dir "$top/state")
trap '"${H[@]}" down --now > /dev/null 2>&1 || true; rm -rf "$top"' EXIT
cd "$top"
"${as[@]}" mkdir -p home work
printf '[agent]\nslots_max = 1\n' > htc.ini
chmod 644 htc.ini
"${H[@]}" up --slots 4 --config "$top/htc.ini" > /dev/null
now() { date +%s%N; }
seconds() { awk -v ns="$1" 'BEGIN { printf "%.3f\n", ns / 1e9 }'; }
mkdir times
for ((run = 0; run < runs; run++)); do
    head -c $((mib << 20)) /dev/urandom > big
    chmod 644 big
    begin=$(now)
    "${as[@]}" cp big work/copy
    seconds $(($(now) - begin)) >> times/cp
    begin=$(now)
    python3 - work/copy << 'END'
import ctypes, sys
s = ctypes.CDLL("libsodium.so.23")
s.sodium_init()
state, piece, n = ctypes.create_string_buffer(384 + 64), ctypes.create_string_buffer(65536), 1
state = ctypes.byref(state, -ctypes.addressof(state) % 64)
s.crypto_generichash_init(state, None, ctypes.c_size_t(0), ctypes.c_size_t(32))
with open(sys.argv[1], "rb", 0) as f:
    while n := f.readinto(piece):
        s.crypto_generichash_update(state, piece, ctypes.c_ulonglong(n))
END
    seconds $(($(now) - begin)) >> times/hash
    rm work/copy
    # Each task says when it was there and waits for the others, so that four agents have one each.
    for which in first later; do
        rm -rf work/there
        "${as[@]}" mkdir work/there
        # Four agents are there, busy; the clock begins when they are let go.
        rm -f work/go
        "${H[@]}" submit -- sh -c 'until [ -e "$0" ]; do sleep 0.005; done' "$top/work/go" ::: 1 2 3 4 > /dev/null
        until [ "$("${H[@]}" status last --json | grep -o '"running": *[0-9]*' | grep -o '[0-9]*$')" = 4 ]; do sleep 0.1; done
        "${H[@]}" submit -i big -- sh -c 'stat -c "%h %s" big > there.tmp; date +%s%N >> there.tmp; mv there.tmp '"$top"'/work/there/$HTC_TASK_INDEX; until [ "$(ls '"$top"'/work/there | wc -l)" = 4 ]; do sleep 0.01; done' ::: 1 2 3 4 > /dev/null
        sleep 1
        begin=$(now)
        touch work/go
        "${H[@]}" wait last > /dev/null
        end=$(tail -qn 1 work/there/* | sort -n | tail -1)
        seconds $((end - begin)) >> times/$which
        head -qn 1 work/there/* | sort | uniq -c > links
    done
    "${H[@]}" rm all > /dev/null
done
median() { sort -n "times/$1" | sed -n "$(((runs + 1) / 2))p"; }
awk -v m="$mib" -v c="$(median cp)" -v h="$(median hash)" -v f="$(median first)" -v l="$(median later)" -v links="$(awk '{ printf "%s%s with %s names", n++ ? ", " : "", $1, $2 }' links)" 'BEGIN {
    slower = c > h ? c : h
    printf "%d MiB: cp %.2f s, content hash %.2f s; four agents %.2f s, four more tasks %.2f s (inputs: %s)\n", m, c, h, f, l, links
    printf "four agents / the slower = %.2f (goal 1.3)\n", f / slower }'
