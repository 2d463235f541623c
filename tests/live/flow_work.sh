#!/bin/bash
# Real work as flows: words counted, lines sorted, matches found and text drawn by map and reduce over a real text, images stacked, files
# compared by a function of a shared object, recorded workflows run again with programs that read and write what was read and written. Each
# result is compared, byte by byte, with a plain program's.
source "$(dirname "$0")/live.sh"
tests=$(dirname "$ports")
writers=$(cd "$tests/../../examples/flows/writers" && pwd)
data=$tests/../../../shared/data
dir=$top/state
H=("$htc" --dir "$dir")
maps=8 bytes=$((50 << 20)) images=48 drawn=1000000
[ -z "${HTC_TEST_LIGHT-}" ] || { bytes=$((5 << 20)) images=16 drawn=200000; }
[ -z "${HTC_TEST_FULL-}" ] || { bytes=$((300 << 20)) images=200 drawn=10000000; }

for f in "$writers"/*.sh "$writers"/*.py; do
    grep -q "\`$(basename "$f")\`" "$writers/README.md" || fail "examples/flows/writers/README.md does not have $f"
done

# How tasks come to the files of others. shared: all work in the directory of the flow. apart: each in one of its own, and results are fetched.
modes=(shared apart)
# run FLOW [--all]: --all: also what others have read is wanted.
run()
{
    local flow=$1 id job
    case $mode in
    shared) expect 0 "${H[@]}" flow run "$flow" --agents 4 ;;
    apart) expect 0 "${H[@]}" flow run "$flow" --agents 4 --scratch ;;
    esac
    grep -qE '^flow [0-9]+: [0-9]+ done, 0 failed, 0 cancelled' <<< "$out" || fail "$flow: $out"
    echo "$mode: $flow: $(grep ' done, ' <<< "$out")"
    [ "$mode" = shared ] && return
    read -r _ id _ _ _ job <<< "$out"
    [ $# = 1 ] || expect 0 "${H[@]}" flow fetch "${id%:}" "$2"
    expect 0 "${H[@]}" flow rm "${id%:}"
    expect 0 "${H[@]}" rm "$job"
}
same() { cmp "$1" "$2" || fail "$2 ($mode) is not what a plain program makes"; }

# --- a real text: the files that every system has, in a fixed order, again and again until there is enough ---
mkdir "$top/plain"
find /usr/share/common-licenses /usr/share/doc /usr/share/perl* /usr/lib/python3* /usr/include -type f \
    \( -name '*.h' -o -name '*.py' -o -name '*.p[lm]' -o -name '*.pod' -o -name '*.txt' -o -name copyright -o -path '*/common-licenses/*' \) -print0 2> /dev/null |
    LC_ALL=C sort -z | xargs -0 -r cat 2> /dev/null | tr -d '\0' | head -c $bytes > "$top/plain/once"
[ "$(wc -c < "$top/plain/once")" -gt 100000 ] || skip "there is no text in /usr"
cd "$top/plain" || exit 1
: > text
while [ "$(wc -c < text)" -lt $bytes ]; do
    { cat once; echo; } >> text
done
rm once
LC_ALL=C tr -cs A-Za-z '\n' < text | grep . | LC_ALL=C sort | uniq -c > words.txt
LC_ALL=C sort -o sorted.txt text
pattern='[a-z]+_[a-z]+\('
LC_ALL=C grep -aoE "$pattern" text | LC_ALL=C sort | uniq -c | LC_ALL=C sort -k 1,1nr -k 2 > matches.txt
python3 - $maps $drawn << 'END_OF_PYTHON'
import sys
maps, size = map(int, sys.argv[1:])
words = [line.split()[-1] for line in open("words.txt", "rb")]
for seed in range(maps):
    x, text, n = seed + 1, [], 0
    while n < size:
        line = []
        for _ in range(10):
            x = (x * 69069 + 1) % 2**32
            line.append(words[x * len(words) >> 32])
        text.append(b" ".join(line) + b"\n")
        n += len(text[-1])
    open("random-text.%04d" % seed, "wb").write(b"".join(text))
END_OF_PYTHON
cksum random-text.* > random.sums
for f in words.txt sorted.txt matches.txt random.sums; do
    [ -s $f ] || fail "the plain program made no $f"
done

# --- images, and what a plain program makes of them ---
bash "$writers/sky.sh" $images 128 48 > sky.list
[ "$(wc -l < sky.list)" = $images ] || fail "sky.list: $(cat sky.list)"
python3 - 48 << 'END_OF_PYTHON' || fail "the star is not seen in the plain stack"
import sys
cut, sums, n = int(sys.argv[1]), {}, 0
for line in open("sky.list"):
    file, x, y = line.split()
    words = [w for l in open(file) for w in l.split("#")[0].split()]
    width, pixels = int(words[1]), words[4:]
    n += 1
    for j in range(cut):
        for i in range(cut):
            sums[j, i] = sums.get((j, i), 0) + int(pixels[(int(y) + j) * width + int(x) + i])
mean = [(2 * sums[j, i] + n) // (2 * n) for j in range(cut) for i in range(cut)]
open("stack.pgm", "w").write("P2\n%d %d\n%d\n" % (cut, cut, max(mean)) + "".join("%d\n" % m for m in mean))
assert mean.index(max(mean)) == cut // 2 * cut + cut // 2
END_OF_PYTHON

# --- real files, and in how many bytes each two of them differ ---
find /usr/share/doc -mindepth 2 -maxdepth 2 -type f -name copyright | LC_ALL=C sort | head -n 30 > list
mapfile -t files < list
[ ${#files[@]} -ge 10 ] || skip "there are ${#files[@]} files in /usr/share/doc"
mapfile -t sizes < <(xargs -d '\n' stat -L -c %s < list)
for ((j = 1; j < ${#files[@]}; j++)); do
    for ((i = 0; i < j; i++)); do
        longer=$((sizes[i] - sizes[j]))
        printf '%8d %8d %29d\n' $i $j $(($(cmp -l "${files[i]}" "${files[j]}" 2> /dev/null | wc -l) + ${longer#-}))
    done
done > list.pairs

expect 0 "${H[@]}" up --slots 4
for mode in "${modes[@]}"; do
    mkdir "$top/work/$mode" && cd "$top/work/$mode" || exit 1
    ln "$top/plain/text" text
    ln "$top/plain/words.txt" vocabulary
    sh "$writers/count_words.sh" text $maps 4 > words.flow && run words.flow
    same "$top/plain/words.txt" words.txt && rm words*
    sh "$writers/sort.sh" text $maps 4 > sort.flow && run sort.flow
    same "$top/plain/sorted.txt" sorted.txt && rm sort*
    sh "$writers/grep.sh" text "$pattern" $maps > grep.flow && run grep.flow
    same "$top/plain/matches.txt" matches.txt && rm grep*
    sh "$writers/random_text.sh" vocabulary $maps $drawn > random.flow && run random.flow --all
    for f in random.sums random-text.0000 random-text.0007; do
        same "$top/plain/$f" $f
    done
    ln "$top"/plain/sky* .
    sh "$writers/stack.sh" sky.list 48 48 > stack.flow && run stack.flow
    same "$top/plain/stack.pgm" stack.pgm
done
# A function has no directory of its own.
mode=shared
cd "$top/work/shared" || exit 1
ln "$top/plain/list" list
sh "$writers/all_pairs.sh" "$bin/all_pairs.so" list > pairs.flow && run pairs.flow
same "$top/plain/list.pairs" list.pairs

# --- forms of workflows whose tasks sleep ---
sh "$writers/fmri.sh" 2 0 > fmri.flow && run fmri.flow
sh "$writers/moldyn.sh" 1 0 > moldyn.flow && run moldyn.flow
for shape in 'fmri 38' 'moldyn 85'; do
    expect 0 "${H[@]}" flow check "${shape% *}.flow"
    [[ $out == "${shape#* } tasks,"* ]] || fail "$shape tasks were to be written: $out"
done

# --- recorded workflows: all files of all tasks ---
replay()
{
    local file=$1 name n scale=0.0005
    name=$(basename "${file%.*}")
    if [ ! -d "$top/plain/$name" ]; then
        mkdir "$top/plain/$name" && cd "$top/plain/$name" || exit 1
        expect 0 python3 "$tests/flow_serial.py" "$file" $scale
        n=$(find . -type f | wc -l)
        [ "$out" -gt 10 ] && [ "$n" -gt "$out" ] || fail "$out tasks of $name, and $n files"
    fi
    mkdir "$top/work/$mode/$name" && cd "$top/work/$mode/$name" || exit 1
    if [[ $file == *.txt ]]; then
        sh "$writers/matrix_dag.sh" "$file" $scale $scale
    else
        "${H[@]}" flow write "$file" --to jsonl --time-scale $scale --size-scale $scale
    fi | python3 "$writers/replay.py" > "$name.flow" || fail "$file is not replayed"
    expect 0 "${H[@]}" flow check "$name.flow" --json
    run "$name.flow" --all
    diff -r -x stand_in.sh -x "*.flow" "$top/plain/$name" . > "$top/diff" || fail "$name ($mode): $(head "$top/diff")"
}
if [ -d "$data/dax" ]; then
    genome=wfcommons/1000genome-chameleon-2ch-100k-001.json
    blast=wfcommons/blast-chameleon-small-001.json
    declare -A recorded=(
        [shared]="dax/Montage_1000.xml matrix-dag/wordcount-yarn_task_32_497.txt $genome $blast"
        [apart]="dax/Montage_100.xml $genome $blast"
    )
    [ -z "${HTC_TEST_LIGHT-}" ] || recorded=([shared]="dax/Montage_100.xml $genome" [apart]="dax/Montage_25.xml $blast")
    for mode in "${modes[@]}"; do
        [ -z "${HTC_TEST_FULL-}" ] || recorded[$mode]=$(cd "$data" && ls dax/*.xml matrix-dag/*.txt wfcommons/*-chameleon-*.json)
        for f in ${recorded[$mode]}; do
            replay "$(realpath "$data")/$f"
        done
    done
else
    echo "skipped: recorded workflows: ../shared/data is not there"
fi

cd "$top/work" || exit 1
expect 0 "${H[@]}" down
none_left
