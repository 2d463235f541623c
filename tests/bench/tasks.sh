#!/bin/bash
# What a task that does nothing costs at the start, after many have finished, and with a million more queued: time on the
# clock, and CPU time of gateway, store, and agents with their tasks, which other programs on the machine change less. And what
# gateway and store hold in memory, and how long htc status takes (median of 11). And how long the first of a million tasks takes until it runs, beside the one task of
# another job in the same run.
# Usage: tasks.sh FOLDER-OF-PROGRAMS [FINISHED]   (FINISHED: 10000; 10000 and 100000 with HTC_TEST_FULL=1)
source "$(dirname "$0")/../live/live.sh"
full=$([ "${HTC_TEST_FULL:-0}" = 1 ] && echo 1 || echo 0)
levels=(${2:-$([ $full = 1 ] && echo 10000 100000 || echo 10000)})
sample=$([ $full = 1 ] && echo 5000 || echo 2000)
dir=$top/state
H=("$htc" --dir "$dir")

pid_of() # NAME
{
    local p
    for p in $(ours); do
        [ "$(cat "/proc/$p/comm" 2> /dev/null)" = "$1" ] && echo "$p"
    done
}
# Microseconds of CPU time so far: gateway, store, agents with their keepers and tasks. The gateway's children are the agents that have ended.
cpu_us()
{
    # shellcheck disable=SC2046
    awk -v tick="$(getconf CLK_TCK)" -v gateway="$gateway" -v kvd="$kvd" '
        { pid = $1; sub(/.*\) /, ""); own = $12 + $13; all = own + $14 + $15 }
        pid == gateway { g = own; a += all - own; next }
        pid == kvd { k = own; next }
        { a += all }
        END { printf "%d %d %d\n", g / tick * 1e6, k / tick * 1e6, a / tick * 1e6 }' \
        $(printf '/proc/%s/stat ' "$gateway" "$kvd" $(pid_of htc-agent) $(pid_of htc-keeper)) 2> /dev/null
}
kib() # PID
{
    awk '/VmRSS/ { print $2 }' "/proc/$1/status"
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
# Microseconds of CPU time that a shell takes to start `true`, right now: what the machine itself costs changes by the minute, and
# this says by how much.
spawn_us()
{
    bash -c 'for i in {1..500}; do "$0"; done; times' "$(type -P true)" |
        tr 'ms\n' '   ' | awk '{ for (i = 1; i < NF; i += 2) all += 60 * $i + $(i + 1); printf "%d\n", all / 500 * 1e6 }'
}
measure() # LABEL
{
    local begun ended before after spawn_before spawn_after
    spawn_before=$(spawn_us)
    read -ra before <<< "$(cpu_us)"
    begun=$(date +%s%N)
    expect 0 timeout 600 "${H[@]}" submit --wait -- true '{n}' ::: "n=1:$sample"
    ended=$(date +%s%N)
    read -ra after <<< "$(cpu_us)"
    spawn_after=$(spawn_us)
    printf '%-24s %6d us a task on the clock, CPU: gateway %4d, store %4d, agents and tasks %5d us, a shell starts `true` in %4d us; gateway %6d KiB, store %6d KiB; status %5s ms\n' \
        "$1" $(((ended - begun) / sample / 1000)) $(((after[0] - before[0]) / sample)) $(((after[1] - before[1]) / sample)) \
        $(((after[2] - before[2]) / sample)) $(((spawn_before + spawn_after) / 2)) "$(kib "$gateway")" "$(kib "$kvd")" "$(status_ms)"
}
# Milliseconds from the beginning of a submission of N tasks until the first of them runs, the median of 5.
first_of() # N
{
    local i begun
    for i in 1 2 3 4 5; do
        rm -f "$top/first"
        begun=$(date +%s%N)
        # shellcheck disable=SC2016
        expect 0 "${H[@]}" submit -- sh -c 'set -C; date +%s%N > "$0"; exec sleep 600' "$top/first" '{n}' ::: "n=1:$1"
        soon [ -s "$top/first" ] || fail "no task of $1 runs"
        echo $((($(cat "$top/first") - begun) / 1000000))
        expect 0 "${H[@]}" cancel last
        soon no_agents || fail "agents stay: $("${H[@]}" agents)"
    done | sort -n | sed -n 3p
}
no_agents() { [ -z "$(pid_of htc-agent)" ]; }
echo "load at the start: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) cores, $sample tasks a line"
expect 0 "${H[@]}" up --slots 4
gateway=$(pid_of htc-gateway) kvd=$(pid_of htc-kvd)
expect 0 "${H[@]}" submit --wait -- true '{n}' ::: n=1:200
measure "at the start"
measure "again"
for finished in "${levels[@]}"; do
    begun=$(date +%s%N)
    expect 0 "${H[@]}" submit -- true '{n}' ::: "n=1:$finished"
    until timeout 600 "${H[@]}" wait last --timeout 300s > /dev/null 2>&1; do :; done
    ended=$(date +%s%N)
    echo "$finished tasks in $(((ended - begun) / 1000000)) ms"
    measure "after $finished"
done
begun=$(date +%s%N)
expect 0 "${H[@]}" submit --hold -- true '{n}' ::: n=1:1000000
echo "1000000 tasks queued in $((($(date +%s%N) - begun) / 1000000)) ms"
measure "and 1000000 queued"
echo "load at the end: $(cut -d' ' -f1-3 /proc/loadavg)"
expect 0 "${H[@]}" cancel last
soon no_agents || fail "agents stay: $("${H[@]}" agents)"
floor=$(first_of 1) first=$(first_of 1000000)
echo "the first of 1000000 tasks runs $first ms after its submission began, that of a job of one task (the floor) $floor ms; goal: at most 2000 ms"
expect 0 "${H[@]}" down --now
