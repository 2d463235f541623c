#!/bin/bash
# Where results and other files go: odd names, names that meet, one bad output among good ones, and what a file may not replace.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
expect 0 "${H[@]}" up --slots 4

# A control character in a name is shown, and stops nothing.
expect 0 "${H[@]}" submit --wait -- sh -c 'cd "$HTC_OUTPUT_DIR"; echo odd > "$(printf "a\tb\033c")"; echo "$HTC_TASK_INDEX" > plain; echo said' ::: x y
expect 0 "${H[@]}" fetch last --to odd
[ "$(cat odd/0/a%09b%1Bc odd/1/a%09b%1Bc odd/1/plain odd/1/stdout)" = $'odd\nodd\n1\nsaid' ] || fail "odd names: $(find odd)"
expect 0 "${H[@]}" fetch last --tar odd.tar
tar xf odd.tar --one-top-level=unpacked && diff -r odd unpacked || fail "the archive differs from the directory"
[ "$("${H[@]}" fetch last --tar - 2> said | sha256sum)" = "$(sha256sum < odd.tar)" ] || fail "an archive on standard output: $(cat said)"
refuse 1 'standard output' "${H[@]}" fetch last --tar - --json

# One stored output that is gone: the others come, the manifest says what is missing.
find "$dir/data/out/1" -path '*0.1*' -name plain -delete
expect 4 "${H[@]}" fetch 1 --to part
[[ $err == *"1 output could not be fetched"* && -e part/1/plain && -e part/0/stdout && ! -e part/0/plain ]] || fail "one bad output: $err $(find part)"
lost='[o["name"] for t in v["tasks"] for o in t["outputs"] if "error" in o]'
[ "$(json "$(cat part/manifest.json)" "$lost")" = "['plain']" ] || fail "the manifest: $(cat part/manifest.json)"
for to in part.tar -; do
    expect 4 bash -c '"$@" > from-pipe.tar' - "${H[@]}" fetch 1 --tar $to
done
mv from-pipe.tar one.tar
for t in part.tar one.tar; do
    rm -rf unpacked
    tar xf $t --one-top-level=unpacked && diff -r part unpacked || fail "$t differs from the directory"
done

# Names that meet for certain are refused, others are settled when they come.
refuse 1 'one file' "${H[@]}" submit -o '%a' -e '%1a' -- true
refuse 1 'one file' "${H[@]}" submit -o 'all' -e 'all/err' -- true
refuse 1 'one file' "${H[@]}" submit -o 'x' -e '%a/x' -- true ::: 1 2
refuse 1 'manifest.json' "${H[@]}" submit -o 'manifest.json' -- true
expect 0 "${H[@]}" submit --dry-run -o 'manifest.json' -- true ::: 1 2
own='echo own > "$HTC_OUTPUT_DIR/mine"; echo out; echo err >&2'
expect 0 "${H[@]}" submit --wait -o '%a' -- sh -c "$own" ::: 1 2
expect 0 "${H[@]}" submit --wait -e '%a/mine' -- sh -c "$own" ::: 1
expect 0 "${H[@]}" fetch 2 --to met
[ "$(cat met/0/mine met/0~/stdout met/0/stderr met/1/mine)" = $'own\nout\nerr\nown' ] || fail "names that meet: $(find met)"
[[ $err == *'2 outputs have another name'*': 0~/stdout '* ]] || fail "it is not said: $err"
places='sorted(o["file"] for t in v["tasks"] for o in t["outputs"] if "renamed" in o)'
[ "$(json "$(cat met/manifest.json)" "$places")" = "['0~/stdout', '1~/stdout']" ] || fail "the manifest: $(cat met/manifest.json)"
expect 0 "${H[@]}" fetch 2 --to met --json
[ "$(json "$out" '(v["kept"], v["renamed"])')" = "(6, 2)" ] || fail "a second fetch: $out"
expect 0 "${H[@]}" fetch 3 --tar met.tar
[ "$(tar xOf met.tar 0/mine 0~/stderr)" = $'own\nerr' ] || fail "names that meet in an archive: $(tar tf met.tar)"

# A directory that another job's results are in: that both are there now is said.
expect 0 "${H[@]}" fetch 2 --to mixed
expect 0 "${H[@]}" fetch 2 --to mixed
[[ $err != *'another job'* ]] || fail "a job is taken for another one: $err"
expect 0 "${H[@]}" fetch 3 --to mixed
[[ $err == *'mixed had results of another job (2), and files of both are there now'* ]] || fail "two jobs in one directory, in silence: $err"

# Links below the directory lead nowhere.
mkdir elsewhere linked
echo untouched > elsewhere/stdout
ln -s ../elsewhere linked/0
mkdir linked/1
ln -s ../../elsewhere/stdout linked/1/stdout
expect 4 "${H[@]}" fetch 1 --to linked
[ "$(ls elsewhere) $(cat elsewhere/stdout)" = 'stdout untouched' ] || fail "a fetch wrote through a link: $(ls elsewhere)"
[ -L linked/1/stdout ] && [ "$(cat linked/1/plain)" = 1 ] || fail "a link was replaced, or stopped the others: $(find linked)"

# A pipe, a link or a directory is no place for a file; what is there stays.
mkfifo pipe
ln -s target link
echo password > password
expect 0 "${H[@]}" user add ada --password-file password
for there in pipe link elsewhere; do
    before=$(stat -c %F $there)
    refuse 1 'no plain file' "${H[@]}" fetch 1 --tar $there
    refuse 1 'no plain file' "${H[@]}" report 1 --svg $there
    refuse 1 'no plain file' "${H[@]}" generate --out $there -- true
    refuse 1 'no plain file' "${H[@]}" login ada --password-file password --token-file $there
    refuse 1 'no plain file' "${H[@]}" kv backup $there
    [ "$(stat -c %F $there)" = "$before" ] && [ ! -e target ] || fail "$there was replaced"
done
refuse 1 'in a file' "${H[@]}" keys new -
expect 0 "${H[@]}" generate --out - -- true
[[ $out == *JobDefinition* ]] || fail "a document on standard output: $out"
expect 0 "${H[@]}" report 1 --svg -
[[ $out == *'<svg'*'</svg>' ]] || fail "a chart on standard output: $out"
expect 0 "${H[@]}" kv backup file.backup
"${H[@]}" kv backup - 2> said > pipe.backup || fail "a backup on standard output: $(cat said)"
[ "$(head -c 8 pipe.backup)" = HTCKVB02 ] && [ "$(stat -c %s pipe.backup)" = "$(stat -c %s file.backup)" ] || fail "a backup on standard output differs"
[ -z "$(find . -name '*-[0-9]' -o -name '.htc*' -o -name '-')" ] || fail "files are left: $(ls -a)"
expect 0 "${H[@]}" down
none_left
echo "places: all is well"
