#!/bin/bash
# usage: gang_start.sh PROGRAM_FOLDER
# Processes on all nodes of a task: two hosts that have joined, each with a host name of its own, of which neither listens. What a task starts on its other node by
# htc-gang, and MPICH's mpirun by that, ends with the task, whatever ends that. Without the right to name hosts (unshare --uts) it is left out,
# without MPICH its part.
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
source "$(dirname "$0")/live.sh"
unshare --uts true 2> /dev/null || skip "two host names take the right to unshare --uts"
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
cores = 1
[site.east]
adapter = join
[site.west]
adapter = join
END
expect 0 "${H[@]}" up --config head.ini
printf '[agent]\norphan_after_s = 3\nkill_after_s = 1\n' > agent.ini
for name in east west; do
    expect 0 "$htc" keys new stranger-$name.key
    expect 0 "$htc" keys enrol $name --role host --once "$dir/once"
    printf '%s\n' "$out" > $name.once
    expect 0 "$htc" keys show "$dir/key"
    expect 0 "$htc" keys add head "$out" --role member --ring $name.ring
    let_in() { "$htc" keys join "tcp://$store" --server head --role host --key "$1.key" --ring "$1.ring" --once "$1.once" > enrolled.out 2>&1; }
    soon let_in $name || fail "$name is not enrolled: $(cat enrolled.out)"
    known() { grep "^host $1 current" "$dir/ring" > /dev/null; }
    soon known $name || fail "$name is not in the ring"
    # shellcheck disable=SC2016
    unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' - node-$name \
        "$bin/htc-agent" --join "$gateway" --dir "$top/$name" --config "$PWD/agent.ini" --key $name.key --ring $name.ring --slots 2 --gpus 4 > $name.out 2>&1 &
    joined+=($!)
done
has_slots() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = "$1" ]; }
soon has_slots 5 || fail "slots: $("${H[@]}" agents)"
GANG=("${H[@]}" submit -c 4 --node-cores 2)

# --- once on each node, in a directory of its own, with the inputs ---
echo an-input > data.txt
cat > each.sh << 'END'
#!/bin/sh
sort -u "$HTC_NODEFILE" > nodes.txt
htc-gang --all sh -c 'echo $HTC_GANG_MEMBER/$HTC_GANG_NODES $(uname -n) $HTC_CORES $(cat data.txt) $HTC_SCRATCH' > said.txt
echo "all $?"
for words in 'exit 7' 'kill -9 $$' 'echo to-err >&2; exit 0'; do
    htc-gang '#1' sh -c "$words" > out.txt 2> err.txt
    echo "$?:$(cat out.txt err.txt)"
done
htc-gang "$(uname -n)" echo "here $HTC_GANG_MEMBER"
htc-gang node-nowhere true 2> err.txt || echo "$? $(cat err.txt)"
cut -d ' ' -f 1-4 said.txt | sort
cut -d ' ' -f 5 said.txt | sort -u | grep -c .
END
chmod +x each.sh
expect 0 "${GANG[@]}" --wait -i data.txt -- "$PWD/each.sh"
expect 0 "${H[@]}" logs last
[[ $out == "all 0
7:
137:
0:to-err
here 0
255 htc-gang: node-nowhere: node-nowhere is no node of this task: node-"*"
0/2 node-"*" 4 an-input
1/2 node-"*" 4 an-input
2" ]] || fail "once on each node: $out"

# --- MPICH's mpirun, as it is called everywhere ---
if command -v mpirun > /dev/null && command -v mpicc > /dev/null && mpirun --version 2> /dev/null | grep HYDRA > /dev/null; then
    cp "$source_dir"/examples/mpi/{ring.c,job.sh} .
    CCACHE_DISABLE=1 expect 0 mpicc -o ring ring.c
    # Neither host knows the other's name: they are one machine.
    HYDRA_IFACE=lo expect 0 "${H[@]}" submit --workdir here --env HYDRA_IFACE --wait job.sh
    expect 0 "${H[@]}" logs last
    [ "$(grep -c 'of 4, on node-east' <<< "$out") $(grep -c 'of 4, on node-west' <<< "$out") $(tail -n 1 <<< "$out")" = '2 2 sum 6' ] || fail "MPI: $out"
    # mpirun hands the first node's environment on; htc-gang --own puts back what each node's own agent says: which member it is, its scratch, its devices.
    # shellcheck disable=SC2016
    HYDRA_IFACE=lo expect 0 "${GANG[@]}" --workdir here --env HYDRA_IFACE --wait --gpus 1 -- sh -c 'OWN=$HTC_GANG_MEMBER mpirun "$1" --own sh -c "$0"' \
        'echo "$OWN $(uname -n) $HTC_GANG_MEMBER $CUDA_VISIBLE_DEVICES $HTC_SCRATCH"' "$bin/htc-gang"
    expect 0 "${H[@]}" logs last
    [[ $(cut -d ' ' -f 1-4 <<< "$out" | sort | uniq -c | awk '{ $1 = $1; print }' | sort -k 4) == "2 0 node-"*" 0 "[03]"
2 0 node-"*" 1 "[03] ]] || fail "what MPI's processes know of their node: $out"
    [ "$(cut -d ' ' -f 5 <<< "$out" | sort -u | wc -l)" = 2 ] || fail "both nodes have one scratch directory: $out"
else
    echo "no MPICH here (packages mpich, libmpich-dev): its task is left out"
fi

# --- what runs on the other node ends with the task: cancelled, or its leader or its member lost ---
cat > long.sh << 'END'
#!/bin/sh
htc-gang '#1' sh -c "echo \$\$ > $1/member.\$HTC_TASK_ATTEMPT; exec sleep 1000" &
echo $$ > "$1/leader.$HTC_TASK_ATTEMPT"
wait
END
chmod +x long.sh
at_work() { [ -s member.1 ] && [ -s leader.1 ]; }
begin() { rm -f member.* leader.* && expect 0 "${GANG[@]}" -- "$PWD/long.sh" "$PWD" && { soon at_work || fail "it does not begin: $("${H[@]}" why last)"; }; }
ended() { ! kill -0 "$(cat member.1)" 2> /dev/null && ! kill -0 "$(cat leader.1)" 2> /dev/null; }
begin
expect 0 "${H[@]}" cancel last
soon ended || fail "they go on after the task was cancelled"
if [ -n "${HTC_TEST_FULL-}" ]; then
    for who in leader member; do
        begin
        kill -9 "$(ps -o ppid= -p "$(cat $who.1)")" # its agent
        soon ended || fail "they go on after the agent of its $who was killed"
        again() { [ -s member.2 ] && [ -s leader.2 ]; }
        soon again || fail "it does not begin again: $("${H[@]}" why last)"
        expect 0 "${H[@]}" cancel last
    done
    # The gateway is away for a while: what runs goes on, and its end is told to the next one.
    rm -f member.* leader.* go
    # shellcheck disable=SC2016
    expect 0 "${GANG[@]}" -- sh -c 'htc-gang "#1" sh -c "touch $0/member.1; until [ -e $0/go ]; do sleep 0.05; done; echo went"; touch $0/leader.1' "$PWD"
    soon test -e member.1
    daemon_pid htc-gateway
    kill -9 "$pid"
    touch go
    last() { "${H[@]}" wait last > wait.out 2>&1; }
    soon last || fail "it does not end: $(cat wait.out)"
    expect 0 "${H[@]}" logs last
    [ "$out" = went ] || fail "over a gateway that was killed: $out"
fi

kill "${joined[@]}"
wait "${joined[@]}"
joined=()
expect 0 "${H[@]}" down
none_left
echo "all holds"
