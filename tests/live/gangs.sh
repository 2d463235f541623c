#!/bin/bash
# usage: gangs.sh PROGRAM_FOLDER
# Tasks of several nodes: this machine and two hosts that have joined it, each with two slots. Of row 25 of the specification's section 7: k cores are
# held at once, never more than all, gangs of two jobs of one user on too few cores both finish, and a real MPI task runs, by Debian's MPICH.
# Gangs of two users are those of tests/unit/test_gateway_gangs.c and world_gangs.
source "$(dirname "$0")/live.sh"
lets_hosts_join
cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[agent]
heartbeat_s = 0.5
lost_after_s = 3
[gang]
collect_s = 5
[site.local]
cores = 2
[site.east]
adapter = join
[site.west]
adapter = join
END
daemons_path=/usr/bin:/bin # no daemon finds the programs of the installation by its own PATH
expect 0 env PATH=$daemons_path "${H[@]}" up --config head.ini
printf '[agent]\norphan_after_s = 3\n' > agent.ini
for name in east west; do
    expect 0 "$htc" keys new stranger-$name.key
    expect 0 "$htc" keys enrol $name --role host --once "$dir/once"
    printf '%s\n' "$out" > $name.once
    expect 0 "$htc" keys show "$dir/key"
    expect 0 "$htc" keys add head "$out" --role member --ring $name.ring
    let_in() { "$htc" keys join "tcp://$store" --server head --role host --key "$1.key" --ring "$1.ring" --once "$1.once" > enrolled.out 2>&1; }
    soon let_in $name || fail "$name is not enrolled: $(cat enrolled.out)"
    known() { grep -q "^host $1 current" "$dir/ring"; }
    soon known $name || fail "$name is not in the ring"
    PATH=$daemons_path "$bin/htc-agent" --join "$gateway" --dir "$top/$name" --config "$PWD/agent.ini" --key $name.key --ring $name.ring --slots 2 --gpus 1 --res matlab=1 > $name.out 2>&1 &
    joined+=($!)
done
has_slots() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = "$1" ]; }
soon has_slots 6 || fail "slots: $("${H[@]}" agents)"

# --- what is refused ---
refuse 255 'htc submit --node-cores N makes one' env -u HTC_GANG "$bin/htc-gang" nowhere true
refuse 2 'asks for 2 cores on each of 4 nodes, and no site has more than 3 such nodes' "${H[@]}" submit -c 8 --node-cores 2 -- true
refuse 2 'no multiple of --node-cores' "${H[@]}" submit -c 5 --node-cores 2 -- true
refuse 2 'asks for 1 of matlab on each of 3 nodes, and no site has that for more than 2' "${H[@]}" submit -c 6 --node-cores 2 --res matlab=1 -- true

# --- all are held at once: while one runs, whoever else wants a slot waits ---
# shellcheck disable=SC2016
expect 0 "${H[@]}" submit -c 6 --node-cores 2 -- sh -c "echo \$HTC_CORES; cat \$HTC_NODEFILE; touch $PWD/at-work; while [ -e $PWD/at-work ]; do sleep 0.05; done"
soon test -e at-work || fail "the gang does not begin: $("${H[@]}" why last)"
[ "$(json "$("${H[@]}" agents --json)" 'sum(a["slots_filled"] for a in v["agents"])')" = 6 ] || fail "slots that are held: $("${H[@]}" agents)"
expect 0 "${H[@]}" submit -- true
sleep 1
expect 0 "${H[@]}" status --json
[ "$(json "$out" 'v["jobs"][0]["tasks"]["done"]')" = 0 ] || fail "a seventh slot: $out"
rm at-work
expect 0 "${H[@]}" wait last
expect 0 "${H[@]}" wait 1
expect 0 "${H[@]}" report 1 --export swf
[ "$(grep -v '^;' <<< "$out" | awk '{ print $5, $8 }')" = "6 6" ] || fail "the log does not have six processors: $out"
expect 0 "${H[@]}" logs 1
[ "$(head -n 1 <<< "$out")" = 6 ] && [ "$(tail -n +2 <<< "$out" | grep -c "^$(uname -n)$")" = 6 ] || fail "cores and nodes: $out"

# --- what is counted: each member takes its own, on the two nodes that have it; htc-gang is the node's own and no upload, however it is named here ---
for gang in htc-gang "$(realpath --relative-to=. "$bin")/htc-gang"; do
# shellcheck disable=SC2016
expect 0 "${H[@]}" submit --wait -c 4 --node-cores 2 --gpus 1 --res matlab=1 -- "$gang" --all sh -c 'echo "member $HTC_GANG_MEMBER has $CUDA_VISIBLE_DEVICES"'
expect 0 "${H[@]}" logs last
[ "$(sort <<< "$out")" = "member 0 has 0
member 1 has 0" ] || fail "GPUs of members: $out"
done
expect 0 "${H[@]}" agents --json
[ "$(json "$out" 'sum(s["resources"]["gpu"]["used"] for s in v["sites"] if "gpu" in s.get("resources", {}))')" = 0 ] || fail "GPUs are still taken: $out"

# --- a real MPI task ---
if command -v mpirun > /dev/null && command -v mpicc > /dev/null && mpirun --version 2> /dev/null | grep HYDRA > /dev/null; then
    cat > ring.c << 'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, sum %d\n", size, sum);
    return MPI_Finalize();
}
END
    CCACHE_DISABLE=1 expect 0 mpicc -o ring ring.c
    # shellcheck disable=SC2016
    expect 0 "${H[@]}" submit --wait -c 6 --node-cores 2 -- sh -c 'mpirun -launcher fork -f "$HTC_NODEFILE" -n "$HTC_CORES" "$0"' "$PWD/ring"
    expect 0 "${H[@]}" logs last
    [ "$out" = '6 ranks, sum 15' ] || fail "MPI: $out"
    # shellcheck disable=SC2016
    expect 0 "${H[@]}" submit --wait -c 2 -- sh -c 'mpirun -launcher fork -f "$HTC_NODEFILE" -n "$HTC_CORES" "$0"' "$PWD/ring"
    expect 0 "${H[@]}" logs last
    [ "$out" = '2 ranks, sum 1' ] || fail "MPI on one node: $out"
else
    echo "no MPICH here (packages mpich, libmpich-dev): its task is left out"
fi

# --- gangs that cannot be at work together, and one-slot tasks beside them: all finish ---
expect 0 "${H[@]}" submit -- sh -c 'sleep 0.2' ::: 1 2 3 4 5 6 7 8
expect 0 "${H[@]}" submit -c 4 --node-cores 2 -- sh -c "mkdir $PWD/one && sleep 0.2 && rmdir $PWD/one" ::: 1 2 3
expect 0 "${H[@]}" submit -c 4 --node-cores 2 -- sh -c "mkdir $PWD/one && sleep 0.2 && rmdir $PWD/one" ::: 1 2 3
for back in 0 1 2; do
    id=$(json "$("${H[@]}" status --json)" "v['jobs'][$back]['id']")
    expect 0 "${H[@]}" wait "$id"
done

# --- a member is lost: the whole gang ends, runs again, and nothing is left of it ---
expect 0 "${H[@]}" submit --name lost -c 6 --node-cores 2 -- sh -c "echo began >> $PWD/began; until [ -e $PWD/go ]; do sleep 0.05; done"
soon test -s began
# shellcheck disable=SC2009
victim=$(ps -eo pid,args | grep -F "htc-agent" | grep -F -- "--dir $top/east" | grep -v -- --join | awk '!n++ { print $1 }')
[ -n "$victim" ] || fail "no agent of east: $(ps -eo pid,args | grep htc-agent)"
kill -9 "$victim"
again() { [ "$(wc -l < began)" = 2 ]; }
soon again || fail "it does not begin again: $("${H[@]}" why last)"
touch go
expect 0 "${H[@]}" wait last
expect 0 "${H[@]}" tasks last --json
[ "$(json "$out" 'v["tasks"][0]["attempts"] if "attempts" in v["tasks"][0] else v["tasks"][0]["attempt"]')" = 2 ] || fail "attempts: $out"

# --- the gateway is killed while one is at work: it goes on ---
rm -f began go
expect 0 "${H[@]}" submit -c 6 --node-cores 2 -- sh -c "echo began >> $PWD/began; until [ -e $PWD/go ]; do sleep 0.05; done"
soon test -s began
daemon_pid htc-gateway
kill -9 "$pid"
sleep 2
touch go
last() { "${H[@]}" wait last > wait.out 2>&1; }
soon last || fail "it does not end: $(cat wait.out)"
[ "$(wc -l < began)" = 1 ] || fail "it began $(wc -l < began) times"

kill "${joined[@]}"
wait "${joined[@]}"
joined=()
expect 0 "${H[@]}" down
none_left
echo "all holds"
