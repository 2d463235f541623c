#!/bin/bash
# What a task costs at the start and after many have finished, with a million more queued: seconds on the clock, and CPU
# time of gateway and store, which other programs on the machine change little; the gateway's memory, and how long htc
# status takes. Usage: tasks.sh FOLDER-OF-PROGRAMS [FINISHED]   (FINISHED: 10000; 100000 with HTC_TEST_FULL=1)
source "$(dirname "$0")/../live/live.sh"
finished=${2:-$([ "${HTC_TEST_FULL:-0}" = 1 ] && echo 100000 || echo 10000)}
sample=2000
dir=$top/state
H=("$htc" --dir "$dir")

gateway_kib()
{
    local p
    for p in $(ours); do
        [ "$(cat "/proc/$p/comm" 2> /dev/null)" = htc-gateway ] && awk '/VmRSS/ { print $2 }' "/proc/$p/status"
    done
}
# CPU time of gateway and store so far, in microseconds.
cpu_us()
{
    local p t sum=0
    for p in $(ours); do
        case $(cat "/proc/$p/comm" 2> /dev/null) in
        htc-gateway | htc-kvd)
            read -ra t < "/proc/$p/stat"
            sum=$((sum + (t[13] + t[14]) * 1000000 / $(getconf CLK_TCK)))
            ;;
        esac
    done
    echo $sum
}
measure() # LABEL: time of `sample` tasks, memory, status
{
    local begun ended s answered cpu
    cpu=$(cpu_us)
    begun=$(date +%s%N)
    expect 0 "${H[@]}" submit --wait -- true '{n}' ::: "n=1:$sample"
    ended=$(date +%s%N)
    cpu=$(($(cpu_us) - cpu))
    s=$(date +%s%N)
    expect 0 "${H[@]}" status
    answered=$(date +%s%N)
    printf '%-28s %5d us a task (%4d us CPU)   gateway %6d KiB   htc status %4d ms\n' "$1" $(((ended - begun) / sample / 1000)) $((cpu / sample)) \
        "$(gateway_kib)" \
        $(((answered - s) / 1000000))
}
expect 0 "${H[@]}" up --slots 4
expect 0 "${H[@]}" submit --wait -- true '{n}' ::: n=1:200
measure "at the start"
measure "at the start, again"
begun=$(date +%s)
expect 0 timeout 3000 "${H[@]}" submit -- true '{n}' ::: "n=1:$finished"
until timeout 600 "${H[@]}" wait last --timeout 300s > /dev/null 2>&1; do :; done
echo "$finished tasks in $(($(date +%s) - begun)) s"
measure "after $finished finished"
begun=$(date +%s%N)
expect 0 "${H[@]}" submit --hold -- true '{n}' ::: n=1:1000000
echo "1000000 tasks queued in $((($(date +%s%N) - begun) / 1000000)) ms"
measure "and 1000000 queued"
expect 0 "${H[@]}" cancel last || true
expect 0 "${H[@]}" down --now
