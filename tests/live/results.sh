#!/bin/bash
# usage: results.sh PROGRAM_FOLDER
# Section 7, row 15: the outputs of many tasks as one directory and as one archive, with a manifest, while agents are killed at random: none missing,
# none of another task's, none twice; and a fetch that is killed goes on. With HTC_TEST_FULL 20,000 tasks of 1 MB each, with HTC_TEST_TASKS=N as many, else 120 of 100 KB.
source "$(dirname "$0")/live.sh"
tasks=120 size=100000 kills=6
if [ -n "${HTC_TEST_FULL:-}${HTC_TEST_TASKS:-}" ]; then
    tasks=${HTC_TEST_TASKS:-20000} size=1000000 kills=$((6 + tasks / 400))
    room=$((tasks * 325 / 100)) # MB: each is stored, fetched twice, and in an archive
    [ "$(df --output=avail -B1000000 "$top" | tail -1)" -gt "$room" ] || skip "$room MB of disk are needed"
fi
H=("$htc" --dir "$top/state")
printf '[agent]\nslots_max = 1\nrelaunch_backoff_s = 0.1\n[task]\nmax_lost = 1000\n' > htc.ini
expect 0 "${H[@]}" up --slots 4 --config htc.ini

# Each output says whose it is, at its beginning and at its end.
# The second half waits for the last kill, so that there is always something to be lost.
cat > make.sh << 'END'
until [ "$HTC_TASK_INDEX" -lt $((HTC_TASK_COUNT / 2)) ] || [ -e "$2" ]; do sleep 0.05; done
{ echo "task $HTC_TASK_INDEX"; yes "$HTC_TASK_INDEX" | head -c "$1"; echo; echo "end $HTC_TASK_INDEX"; } > "$HTC_OUTPUT_DIR/made"
echo "said $HTC_TASK_INDEX"
END
expect 0 "${H[@]}" submit --json -i make.sh -- sh make.sh "$size" "$PWD/go" ::: $(seq "$tasks")
pids() { "${H[@]}" agents --json | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*$' | grep -vx 0; }
killed=0
while [ $killed -lt $kills ]; do
    pid=$(pids | shuf -n 1)
    [ -n "$pid" ] && kill -9 "$pid" 2> /dev/null && killed=$((killed + 1))
    sleep "0.$((RANDOM % 4))"
done
touch go
expect 0 "${H[@]}" wait 1

# whole DIR: every task's outputs are there, and its own.
whole()
{
    python3 - "$1" "$tasks" "$size" << 'END' || fail "results: $1 ($killed agents were killed)"
import hashlib, json, os, sys
top, tasks, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
manifest = json.load(open(os.path.join(top, "manifest.json")))
assert [t["index"] for t in manifest["tasks"]] == list(range(tasks)), "tasks of the manifest"
for t in manifest["tasks"]:
    i = t["index"]
    assert sorted(o["name"] for o in t["outputs"]) == ["made", "stdout"], t
    for o in t["outputs"]:
        data = open(os.path.join(top, o["file"]), "rb").read()
        assert hashlib.blake2b(data, digest_size=32).hexdigest() == o["hash"] and len(data) == o["size"], o
        if o["name"] == "made":
            assert data.startswith(b"task %d\n" % i) and data.endswith(b"\nend %d\n" % i) and len(data) > size, "task %d" % i
        else:
            assert data == b"said %d\n" % i, "task %d" % i
files = sum(len(f) for _, _, f in os.walk(top))
assert files == 2 * tasks + 1, "%d files" % files
END
}
"${H[@]}" fetch 1 --to got > fetch.out 2>&1 &
fetching=$!
soon test -e got/3/made || fail "nothing is fetched: $(cat fetch.out)"
kill -9 $fetching
{ wait $fetching; } 2> /dev/null
before=$(stat -c %i got/3/made)
expect 0 "${H[@]}" fetch 1 --to got
[ "$(stat -c %i got/3/made)" = "$before" ] || fail "what was there is fetched again"
find got -name '.*' -type f -delete # what was on its way when it was killed
whole got
rm -rf got
expect 0 "${H[@]}" fetch 1 --tar got.tar
mkdir got
tar -C got -xf got.tar || fail "the archive"
whole got
expect 0 "${H[@]}" down --now
