#!/bin/bash
# How long htc status takes beside many jobs, open and ended, and what they cost the gateway while nothing happens.
# Usage: jobs.sh FOLDER-OF-PROGRAMS   (100 open and 1000 ended jobs; ten times as many with HTC_TEST_FULL=1)
source "$(dirname "$0")/../live/live.sh"
open=$([ "${HTC_TEST_FULL:-0}" = 1 ] && echo 1000 || echo 100)
dir=$top/state
H=("$htc" --dir "$dir")

pid_of() # NAME
{
    local p
    for p in $(ours); do
        [ "$(cat "/proc/$p/comm" 2> /dev/null)" = "$1" ] && echo "$p"
    done
}
status_ms()
{
    local i s
    for i in 1 2 3 4 5 6 7 8 9 10 11; do
        s=$(date +%s%N)
        expect 0 "${H[@]}" status
        echo $((($(date +%s%N) - s) / 100000))
    done | sort -n | sed -n '6s/\(.\)$/.\1/p'
}
look() # LABEL
{
    local ms before after
    ms=$(status_ms)
    before=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$gateway/stat")
    sleep 5
    after=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$gateway/stat")
    printf '%-40s status %5s ms; gateway %6d KiB, %2d ms CPU in 5 s\n' "$1" "$ms" \
        "$(awk '/VmRSS/ { print $2 }' "/proc/$gateway/status")" $(((after - before) * 1000 / $(getconf CLK_TCK)))
}
submit() # NUMBER WORDS...: one after another, by two at a time
{
    local n=$1 i lane lanes=()
    shift
    for lane in 1 2; do
        for ((i = 0; i < n / 2; i++)); do
            "${H[@]}" submit "$@" > /dev/null || exit 1
        done &
        lanes+=($!)
    done
    for lane in "${lanes[@]}"; do
        wait "$lane" || fail "submit $*"
    done
}
expect 0 "${H[@]}" up --slots 4
gateway=$(pid_of htc-gateway)
look "nothing"
submit $((10 * open)) -- true
# Not "all": the answer to that names them all.
until timeout 600 "${H[@]}" wait last --timeout 300s > /dev/null 2>&1; do :; done
look "$((10 * open)) jobs ended"
submit "$open" --hold -- true '{n}' ::: n=1:3
look "and $open open, on hold"
begun=$(date +%s%N)
expect 0 "${H[@]}" cancel all
echo "cancel all: $((($(date +%s%N) - begun) / 1000000)) ms"
expect 0 "${H[@]}" down --now
