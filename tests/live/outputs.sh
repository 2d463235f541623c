#!/bin/bash
# What tasks leave comes back as it was, and what cannot be stored is named and costs nothing else.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

printf '[agent]\nheartbeat_s = 0.5\n[task]\nretry_backoff_s = 0.1\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini

# Links, empty directories and execute bits come back, a helper that runs here runs there, and what cannot be stored costs no
# other output and no second try. The list of outputs comes in pages.
printf '#!/bin/sh\necho helped\n' > helper.sh
chmod +x helper.sh
cat > kinds.sh << 'END'
#!/bin/sh
./helper.sh
cd "$HTC_OUTPUT_DIR"
mkdir -p a/empty
cp /bin/true a/tool
ln -s a/tool tool
ln -s /etc/passwd away
mkfifo pipe
seq 1 1500 | split -l 1 -a 4
echo mine > stdout
rm -rf "$TMPDIR"
END
chmod +x kinds.sh
expect 0 "${H[@]}" submit --input helper.sh --wait -- kinds.sh
expect 0 "${H[@]}" fetch 1 --to kinds
[ -d kinds/0/a/empty ] || fail "an empty directory is lost"
[ -x kinds/0/a/tool ] || fail "an execute bit is lost"
[ "$(readlink kinds/0/tool)" = a/tool ] || fail "a link is lost"
[ ! -e kinds/0/away ] && [ ! -L kinds/0/away ] || fail "a link that leaves was made"
[ "$(cat kinds/0/stdout)" = helped ] && [ "$(cat kinds/0/stdout.2)" = mine ] || fail "the stream and the file of its name"
[ "$(ls kinds/0 | grep -c '^xa')" = 1500 ] || fail "files are missing"
[ "$(json "$(cat kinds/manifest.json)" 'sorted((o["name"], o["type"]) for o in v["tasks"][0]["outputs"] if "error" in o)')" = \
    "[('away', 'l'), ('pipe', 'p')]" ] || fail "what is not stored is not named"
expect 0 "${H[@]}" fetch 1 --tar kinds.tar
tar xf kinds.tar --one-top-level=kinds.unpacked && diff -r kinds kinds.unpacked || fail "the archive differs from the directory"
[ -x kinds.unpacked/0/a/tool ] && [ -d kinds.unpacked/0/a/empty ] || fail "the archive keeps no modes or directories"
expect 5 "${H[@]}" submit --wait -- sh -c 'cd "$HTC_OUTPUT_DIR"; echo kept > kept; mkdir stdout; echo > stdout/x; echo said'
expect 0 "${H[@]}" tasks 2 --json
[ "$(json "$out" '[(t["tries"], t["status"]) for t in v["tasks"]]')" = "[(1, 'HTC_ESTAGEOUT')]" ] || fail "tried again in vain: $out"
[[ $out == *"stdout/x: another output has its name"* ]] || fail "no reason: $out"
expect 0 "${H[@]}" fetch 2 --to kept
[ "$(cat kept/0/kept)" = kept ] && [ "$(cat kept/0/stdout)" = said ] || fail "one output cost the others"

# More of them than one answer names.
expect 0 "${H[@]}" submit --wait -- python3 -S -c 'import os
os.chdir(os.environ["HTC_OUTPUT_DIR"])
for i in range(900): os.symlink("t" * 2000, "link%d" % i)'
expect 0 "${H[@]}" fetch 3 --to links --json
[ "$(find links/0 -type l | wc -l)" = 900 ] || fail "links are missing"
[ "$(json "$(cat links/manifest.json)" '[(t["index"], len(t["outputs"])) for t in v["tasks"]]')" = "[(0, 900)]" ] || fail "a task in several answers"

# Of many outputs no more is kept in memory than a page of their list. A sanitizer's allocator keeps what is given back: it says nothing of that.
cat > most.py << 'END'
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
END
expect 0 "${H[@]}" submit --wait -- sh -c 'cd "$HTC_OUTPUT_DIR"; seq 2000 | xargs touch'
expect 0 "${H[@]}" submit --wait -- sh -c 'cd "$HTC_OUTPUT_DIR"; seq 12000 | xargs touch'
expect 0 python3 most.py "${H[@]}" fetch 4 --to few
few=$out
expect 0 python3 most.py "${H[@]}" fetch 5 --to many
many=$out
echo "memory of a fetch: $few KiB for 2,000 outputs, $many KiB for 12,000"
[ "$many" -lt $((few + 10000)) ] || grep -qa __asan_init "$htc" || fail "a fetch keeps the list of all outputs: $few KiB for 2,000 of them, $many KiB for 12,000"
[ "$(find many/0 -type f | wc -l)" = 12000 ] || fail "outputs are missing"
[ "$(json "$(cat many/manifest.json)" 'len(v["tasks"][0]["outputs"])')" = 12000 ] || fail "the manifest is not whole"

expect 0 "${H[@]}" down
none_left
echo "outputs: all is well"
