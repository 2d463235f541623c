#!/bin/bash
# usage: storage_trouble.sh PROGRAM_FOLDER
# Two rows of "HTCaaS, failure handling", in a mount namespace of the test's own: "Scratch full" and "Shared storage overload". A small tmpfs
# is a site's scratch, another takes the outputs.
if [ -z "${HTC_TEST_MOUNTS:-}" ]; then
    if [ "$(id -u)" != 0 ] || ! unshare --mount true 2> /dev/null; then
        echo "skipped: mounting in a namespace needs root"
        exit 77
    fi
    exec env HTC_TEST_MOUNTS=1 unshare --mount --propagation private bash "$0" "$@"
fi
source "$(dirname "$0")/live.sh"
trap 'code=$?; for d in "$top"/*/lock; do [ ! -e "$d" ] || timeout 60 "$htc" --dir "${d%/lock}" down --now > /dev/null 2>&1; done
      umount "$top/state/slots/small.0" "$top/state/slots/early.0" "$top/state/data/out" 2> /dev/null; (exit $code); clean_up' EXIT
dir=$top/state
# As a person: root's agents make their slots anew, which a mount point cannot be.
person=65101
H=(setpriv --reuid "$person" --regid "$person" --clear-groups "$htc" --dir "$dir")
chmod 777 "$top" "$top/work"
for at in slots/small.0 slots/early.0 data/out; do
    mkdir -p "$dir/$at"
    mount -t tmpfs -o "size=2m,mode=0700,uid=$person" none "$dir/$at" || skip "a tmpfs cannot be mounted here"
done
chown "$person" "$dir" "$dir/slots" "$dir/data"
cat > sites.ini << 'END_INI'
[data]
io_backoff_ms = 20
[site.small]
cores = 1
[site.early]
cores = 1
[site.large]
cores = 1
END_INI
expect 0 "${H[@]}" up --config sites.ini
site() { json "$("${H[@]}" sites --json)" "next(s for s in v['sites'] if s['name'] == '$1')['$2']"; }
task() { json "$("${H[@]}" tasks "$1" --json)" "v['tasks'][0]['$2']"; }

# --- Scratch full: the task waits again and no attempt is charged, the agent leaves, its site is marked ---
fill() { dd if=/dev/zero of="$dir/$1/filler" bs=4k 2> /dev/null; }
running() { [ "$(task 1 state)" = running ]; }
marked() { [ "$(site "$1" disk_failed)" = True ]; }
expect 0 "${H[@]}" drain early
expect 0 "${H[@]}" drain large
echo some > input
expect 0 "${H[@]}" submit -i input -- sh -c "until [ -e $top/go ]; do sleep 0.05; done; cat input" ::: 1 2
soon running || fail "it does not begin: $("${H[@]}" why 1)"
marked small && fail "the disk of a site that works is marked"
fill slots/small.0
touch "$top/go" # the agent goes on with the second task, on a disk without room
soon marked small || fail "the site is not marked: $("${H[@]}" sites)"
fill slots/early.0 # and one that begins on such a disk
expect 0 "${H[@]}" resume early
soon marked early || fail "the site is not marked: $("${H[@]}" sites)"
for name in small early; do
    [[ $(site $name reason) == *'disk is full'*"$dir/slots/$name.0"* ]] || fail "why is not said: $("${H[@]}" sites)"
    grep -qx 'htc-agent: the disk is full' "$dir/log/agent-$name.0.out" || fail "the agent of $name did not leave: $(cat "$dir/log/agent-$name.0.out")"
    : > "$dir/log/agent-$name.0.out"
done
expect 0 "${H[@]}" sites
[[ $out == *'disk is full'* ]] || fail "htc sites does not say it: $out"
marked large && fail "a site that has room is marked"
expect 0 "${H[@]}" resume large
expect 0 "${H[@]}" wait 1
[ "$(json "$("${H[@]}" tasks 1 --json)" '[t["tries"] for t in v["tasks"]]')" = '[0, 0]' ] || fail "a full scratch was charged: $("${H[@]}" tasks 1)"
expect 0 "${H[@]}" drain early
expect 0 "${H[@]}" drain large
rm "$dir/slots/small.0/filler"
if [ -n "${HTC_TEST_FULL:-}" ]; then # after the pause of the site: one that ends well there takes the mark away
    expect 0 "${H[@]}" submit --wait -i input -- cat input
    marked small && fail "it is marked for ever: $("${H[@]}" sites)"
fi

# --- Shared storage overload: what a task has made waits for room, and it is not run again ---
fill data/out
expect 0 "${H[@]}" resume large
expect 0 "${H[@]}" drain small
expect 0 "${H[@]}" --json submit -- sh -c "echo ran >> $top/runs; head -c 300000 /dev/zero > \$HTC_OUTPUT_DIR/result"
id=$(json "$out" 'v["id"]')
pauses() { grep -sq 'HTC_ENOSPC in staging -> all staging here pauses for 80 ms' "$dir"/log/agent-large.*; }
soon pauses || fail "no pauses that double: $(cat "$dir"/log/agent-large.*)"
[ "$(task "$id" state)" != done ] || fail "it is done without its output: $("${H[@]}" tasks "$id")"
rm "$dir/data/out/filler"
expect 0 "${H[@]}" wait "$id"
[ "$(cat "$top/runs")" = ran ] || fail "it ran $(wc -l < "$top/runs") times"
expect 0 "${H[@]}" fetch "$id" --to got
[ "$(stat -c %s got/0/result)" = 300000 ] || fail "its output: $(ls -l got/0)"
[ "$(task "$id" attempt)" = 1 ] || fail "it was given to another agent"
expect 0 "${H[@]}" down
none_left
echo "storage_trouble: all is well"
