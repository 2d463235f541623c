#!/bin/bash
# A full disk: submissions that need room are refused, tasks that run go on, one ends meanwhile, what was acknowledged stays, and with room again all goes on.
source "$(dirname "$0")/live.sh"
[ "$(id -u)" = 0 ] || skip "mounting a small tmpfs needs root"
mkdir "$top/small"
mount -t tmpfs -o size=24m,mode=0700 none "$top/small" 2> /dev/null || skip "a tmpfs cannot be mounted here"
unmount()
{
    timeout 60 "$htc" --dir "$top/small/state" down --now > /dev/null 2>&1
    umount "$top/small"
}
trap 'unmount; clean_up' EXIT
dir=$top/small/state
H=("$htc" --dir "$dir")
expect 0 "${H[@]}" up --slots 2
expect 0 "${H[@]}" submit --name witness --wait -- sh -c 'echo kept > $HTC_OUTPUT_DIR/kept.txt'
head -c 64M /dev/zero > big
refuse 6 'full|space' "${H[@]}" submit --input big -- true
# Two tasks run from before to after it, but for the first, which ends while the disk is full. Both slots are theirs: nothing ends beside them and makes room.
expect 0 "${H[@]}" submit -- sh -c 'echo began >> "$1.began"; until [ -e "$1.go" ]; do sleep 0.05; done' sh '{}' ::: "$top/work/first" "$top/work/second"
both_run() { [ -s first.began ] && [ -s second.began ]; }
soon both_run || fail "the tasks do not run: $("${H[@]}" why last)"
dd if=/dev/zero of="$top/small/filler" bs=64k 2> /dev/null
expect 0 "${H[@]}" status 1
echo some > input
# No page is left for an upload: 6, whatever room the log of the store still has.
refuse 6 'full|space' "${H[@]}" submit --input input -- true
expect 0 "${H[@]}" status last --json
running=$(json "$out" 'sum(j["tasks"]["running"] for j in v["jobs"])')
[ "$running" = 2 ] || fail "$running tasks run on a full disk: $out"
touch first.go
# Its result is recorded all the same: the store has reserved the room that results of running tasks need.
first_done() { [ "$(json "$("${H[@]}" status last --json)" 'sum(j["tasks"]["done"] for j in v["jobs"])')" = 1 ]; }
soon first_done || fail "the end of a task is not heard on a full disk: $("${H[@]}" status last)"
rm "$top/small/filler"
touch second.go
expect 0 "${H[@]}" wait last
[ "$(cat first.began second.began | wc -l)" = 2 ] || fail "a task began again: $("${H[@]}" tasks last)"
expect 0 "${H[@]}" submit --wait --input input -- cat input
expect 0 "${H[@]}" fetch 1 --to kept
[ "$(cat kept/0/kept.txt)" = kept ] || fail "work was lost"
expect 0 "${H[@]}" down
none_left
echo "full_disk: all is well"
