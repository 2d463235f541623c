#!/bin/bash
# usage: fetch.sh FOLDER-OF-THE-PROGRAMS [OUTPUTS]
# OUTPUTS (100,000) outputs of 1 KB, of as many tasks / 100, by `htc fetch`, which compares each with its hash, into a directory and into an archive,
# beside `tar c | tar x` of the same files. The median of RUNS (3) of each, one after the other in turn; the ratios say something, absolute
# figures do not. The goal for each is 0.3. PER=N: outputs of one task.
set -euo pipefail
programs=$(realpath "$1") outputs=${2-100000} per=${PER-100} runs=${RUNS-3}
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-bench.XXXXXX")
H=("$programs/htc" --dir "$top/state")
trap '"${H[@]}" down --now > /dev/null 2>&1 || true; rm -rf "$top"' EXIT
cd "$top"
printf '[db]\nmode = interval\n' > htc.ini
"${H[@]}" up --slots 2 --config htc.ini > /dev/null
cat > make.sh << 'END'
head -c 1024 /dev/urandom > one
i=0
while [ $i -lt "$1" ]; do { echo "$2.$i"; tail -c +16 one; } > "$HTC_OUTPUT_DIR/f$i"; i=$((i + 1)); done
END
"${H[@]}" submit --wait -i make.sh -- sh make.sh "$per" {} ::: $(seq $((outputs / per))) > /dev/null
now() { date +%s%N; }
# timed NAME COMMAND...: seconds into times/NAME
mkdir times
timed()
{
    local name=$1 begin
    shift
    sync
    begin=$(now)
    "$@" > /dev/null
    awk -v ns=$(($(now) - begin)) 'BEGIN { printf "%.3f\n", ns / 1e9 }' >> "times/$name"
}
copy() { mkdir copied; tar -C got -c . | tar -C copied -x; }
for ((run = 0; run < runs; run++)); do
    rm -rf got copied got.tar
    timed fetch "${H[@]}" fetch 1 --to got
    timed fetch_tar "${H[@]}" fetch 1 --tar got.tar
    timed tar copy
done
[ "$(find got -type f ! -name manifest.json | wc -l)" -ge $((outputs / per * per)) ]
median() { sort -n "times/$1" | sed -n "$(((runs + 1) / 2))p"; }
awk -v n="$outputs" -v f="$(median fetch)" -v a="$(median fetch_tar)" -v t="$(median tar)" 'BEGIN {
    printf "%d outputs of 1 KB: fetch %.2f s, into an archive %.2f s, tar c | tar x %.2f s\n", n, f, a, t
    printf "tar / fetch = %.2f (goal 0.3)\ntar / fetch into an archive = %.2f (goal 0.3)\n", t / f, t / a }'
