#!/bin/bash
# A full disk: submissions that need room are refused, what was acknowledged stays, and with room again all goes on.
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
dd if=/dev/zero of="$top/small/filler" bs=64k 2> /dev/null
expect 0 "${H[@]}" status 1
echo some > input
timeout 60 "$htc" --dir "$dir" submit --input input -- true > "$top/work/out" 2> "$top/work/err"
code=$?
[ $code = 6 ] || [ $code = 0 ] || fail "submission to a full disk: exit code $code: $(cat "$top/work/err")"
rm "$top/small/filler"
expect 0 "${H[@]}" submit --wait --input input -- cat input
expect 0 "${H[@]}" fetch 1 --to kept
[ "$(cat kept/0/kept.txt)" = kept ] || fail "work was lost"
expect 0 "${H[@]}" down
none_left
echo "full_disk: all is well"
