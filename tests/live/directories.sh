#!/bin/bash
# usage: directories.sh PROGRAM_FOLDER
# Directories as inputs: each task has what is in them, with links and what may be executed; one of its own for each task; one content, uploaded once and
# brought to a site once; what leads outside is refused before anything is submitted.
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
expect 0 "${H[@]}" up
mkdir -p tool/lib tool/empty
echo 'echo "ran with $(cat tool/lib/data) $1"' > tool/run
{ echo '#!/bin/sh'; cat tool/run; } > tool/run.new && mv tool/run.new tool/run
chmod +x tool/run
echo data > tool/lib/data
ln -s lib/data tool/link

expect 0 "${H[@]}" submit --wait -i tool/ -- tool/run {} ::: a b
expect 0 "${H[@]}" logs 1.1
[ "$out" = 'ran with data b' ] || fail "with a directory: $out"
expect 0 "${H[@]}" submit --wait -i other=tool -- sh -c 'cd other && find . | LC_ALL=C sort | tr "\n" " "; cat link; test -x run; test ! -x lib/data'
expect 0 "${H[@]}" logs 2
[ "$out" = '. ./empty ./lib ./lib/data ./link ./run data' ] || fail "what a task has: $out"
blobs=("$dir"/data/blobs/*/*)
[ ${#blobs[@]} = 1 ] || fail "uploads of one directory: ${blobs[*]}"

# --- each task has one of its own ---
for i in 1 2; do mkdir in$i && echo "content $i" > in$i/x; done
expect 0 "${H[@]}" submit --wait -i 'in{n}/' -- sh -c 'cat in{n}/x' ::: n=1:2
for i in 0 1; do
    expect 0 "${H[@]}" logs 3.$i
    [ "$out" = "content $((i + 1))" ] || fail "task $i read: $out"
done

# --- what leads outside, or is not there ---
ln -s /etc/passwd in1/out
refuse 2 'in1' "${H[@]}" submit -i in1/ -- true
[[ $err == *out*outside* ]] || fail "why: $err"
refuse 2 'none' "${H[@]}" submit -i none/ -- true

# --- outputs come back as they were ---
expect 0 "${H[@]}" submit --wait -i tool/ -- sh -c 'cp -a tool "$HTC_OUTPUT_DIR/"'
expect 0 "${H[@]}" fetch 4 --to back
from=back/tool
[ -e "$from" ] || from=back/0/tool
diff -r tool "$from" || fail "fetched: $(ls -lR back)"
[ -x "$from/run" ] && [ -L "$from/link" ] && [ -d "$from/empty" ] || fail "fetched: $(ls -lR back)"
expect 0 "${H[@]}" down --now
