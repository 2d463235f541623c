#!/bin/bash
# usage: sites.sh PROGRAM_FOLDER [real]
# htc-agent --join --batch: agents as jobs of two batch systems, Slurm and Grid Engine, both at once under one gateway, which is on "another host", over TCP
# with keys. The batch systems are batch_fake.py's, or with "real" those that run on this machine. One sweep runs on both sites; jobs that are
# held; a batch system that is away or prints nonsense; a site's broker that is killed, and goes on; a gang of jobs; one that leaves.
fake=$(realpath "$(dirname "$0")/batch_fake.py")
kind=${2:-fake}
source "$(dirname "$0")/live.sh"
[ -z "${HTC_TEST_LIGHT:-}" ] || skip "sites_faults.sh is the light form"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
address=127.0.0.1 space=()
declare -A broker=() queue=()
# With real batch systems the gateway is on a host of its own: a network namespace, which a pair of interfaces joins to this one.
host=htc-$$
own_host()
{
    [ "$kind" = real ] && [ "$(id -u)" = 0 ] && ip netns add $host 2> /dev/null || return 1
    address=10.77.$((port % 250)).1
    ip link add "h$$" type veth peer name eth0 netns $host && ip addr add "${address%.1}.2/24" dev "h$$" && ip link set "h$$" up &&
        ip -n $host addr add "$address/24" dev eth0 && ip -n $host link set eth0 up && ip -n $host link set lo up && space=(ip netns exec $host)
}
own_host || address=127.0.0.1
gateway=$address:$port store=$address:$((port + 1))
trap 'code=$?; ip link del "h$$" 2> /dev/null; ip netns del $host 2> /dev/null; for p in "${broker[@]}" "${queue[@]}"; do kill -9 $p 2> /dev/null; done; (exit $code); clean_up' EXIT

cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[agent]
heartbeat_s = 1
lost_after_s = 6
relaunch_backoff_s = 0.5
[site.local]
cores = 1
[site.slurm]
adapter = join
[site.sge]
adapter = join
END
expect 0 "${space[@]}" "${H[@]}" up --config head.ini
[ ${#space[@]} = 0 ] || echo "the gateway is at $address, a host of its own"

# --- the batch systems ---
for site in slurm sge; do
    mkdir -p "$top/$site.batch" "$top/commands"
    if [ "$kind" = fake ]; then
        python3 "$fake" install $site "$top/$site.batch" "$top/commands"
        python3 "$fake" serve $site "$top/$site.batch" 4 > "$top/$site.served" 2>&1 &
        queue[$site]=$!
        up() { [ -e "$top/$site.batch/up" ]; }
        soon up || fail "no $site: $(cat "$top/$site.served")"
    fi
    printf '[agent]\norphan_after_s = 20\n[batch]\nperiod_s = 0.3\nsubmits_per_s = 10\n' > $site.ini
done
[ "$kind" = fake ] && PATH=$top/commands:$PATH

# --- options ---
refuse 1 'goes with --join' "$bin/htc-agent" --agent 1 --batch slurm
J=("$bin/htc-agent" --join "$gateway" --dir "$top/none" --key no.key --ring no.ring)
refuse 1 'needs --slots N' "${J[@]}" --batch slurm
printf '[batch]\nsystem = lsf\n' > bad.ini
refuse 1 'none|slurm|sge' "${J[@]}" --config bad.ini

# --- two sites join ---
for site in slurm sge; do
    expect 0 "$htc" keys enrol $site --role host --once "$dir/once"
    printf '%s\n' "$out" > $site.once
    let_in() { "$htc" keys join "tcp://$store" --server head --role host --key $site.key --ring $site.ring --once $site.once > enrolled.out 2>&1; }
    soon let_in || fail "$site is not enrolled: $(cat enrolled.out)"
done
refuse 2 'no batch system is called lsf' "$bin/htc-agent" --join "$gateway" --dir "$top/none" --key sge.key --ring sge.ring --slots 2 --batch lsf
start()
{
    "$bin/htc-agent" --join "$gateway" --dir "$top/$1" --config $1.ini --key $1.key --ring $1.ring --slots 4 --batch $1 > $1.out 2>&1 &
    broker[$1]=$!
    is_in() { grep -sq "^joined $gateway with 4 slots; agents are jobs of $1" $1.out; }
    soon is_in $1 || fail "$1 does not join: $(cat $1.out)"
}
start slurm
start sge
has_slots() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = "$1" ]; }
soon has_slots 9 || fail "slots: $("${H[@]}" agents)"
# ran JOB TASKS: how many of its tasks ended where, into n_local, n_slurm, n_sge
ran()
{
    local i last
    n_local=0 n_slurm=0 n_sge=0
    last=$2
    for ((i = 0; i < last; i++)); do
        expect 0 "${H[@]}" logs "$1.$i"
        case $out in
        local) n_local=$((n_local + 1)) ;;
        slurm) n_slurm=$((n_slurm + 1)) ;;
        sge) n_sge=$((n_sge + 1)) ;;
        *) fail "task $1.$i wrote: $out" ;;
        esac
    done
}
sites_of() { json "$("${H[@]}" agents --json)" "[s for s in v['sites'] if s['name'] == '$1'][0]['$2']"; }
agents_of() { json "$("${H[@]}" agents --json)" "sum(a['site'] == '$1' and a['state'] in ('idle', 'busy') for a in v['agents'])"; }
all_run() { [ "$(json "$("${H[@]}" status $1 --json)" 'v["jobs"][0]["tasks"]["running"]')" = 9 ]; }
busy() { json "$("${H[@]}" agents --json)" 'sorted(a["id"] for a in v["agents"] if a["state"] == "busy")'; } # others may come and leave
both_work() { [ "$(agents_of slurm)" -ge 2 ] && [ "$(agents_of sge)" -ge 2 ]; }

# --- one sweep on both, and on the head ---
expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.3; done; echo $HTC_SITE' "$PWD/go" ::: $(seq 40)
soon both_work || fail "agents: $("${H[@]}" agents)"
touch go
expect 0 "${H[@]}" wait 1
ran 1 40
[ $n_local -ge 1 ] && [ $n_slurm -ge 2 ] && [ $n_sge -ge 2 ] || fail "where its tasks ran: $n_local $n_slurm $n_sge"
expect 0 "${H[@]}" fetch 1 --to got
[ "$(find got -name stdout | wc -l)" = 40 ] || fail "fetched: $(find got | head)"
# Agents without work end, and their jobs with them.
nothing_runs() { [ "$(json "$("${H[@]}" agents --json)" 'len(v["agents"])')" = 0 ]; }
soon nothing_runs || fail "agents are left: $("${H[@]}" agents)"
quiet_logs() { ! ls "$top"/slurm/log/htc-* "$top"/sge/log/htc-* > /dev/null 2>&1; }
quiet_logs || fail "files of jobs are left: $(ls "$top"/*/log)"

# --- taken out of service, and back ---
expect 0 "${H[@]}" drain slurm --reason 'new disks'
[ "$out" = 'site slurm is out of service; 0 slots of it are in use until their tasks end' ] || fail "drain: $out"
refuse 4 'no site and no node nowhere' "${H[@]}" drain nowhere
expect 0 "${H[@]}" sites
[[ $out == *slurm*drained*'new disks'* && $out == *sge*open* ]] || fail "sites: $out"
expect 0 "${H[@]}" submit --json --wait -- sh -c 'echo $HTC_SITE' ::: $(seq 20)
ran 2 20
[ $n_slurm = 0 ] || fail "$n_slurm tasks ran at a site that is out of service"
expect 0 "${H[@]}" resume slurm
[ "$(sites_of slurm state)" = open ] || fail "$("${H[@]}" sites)"
soon nothing_runs || fail "agents are left: $("${H[@]}" agents)"

# --- a broker is killed: its jobs go on, and so does another one with them ---
rm go
expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.3; done; echo $HTC_SITE' "$PWD/go" ::: $(seq 9)
soon both_work || fail "agents: $("${H[@]}" agents)"
soon all_run 3 || fail "they do not run: $("${H[@]}" status 3)"
before=$(busy)
kill -9 ${broker[slurm]}
away() { [ "$(sites_of slurm paused)" = True ]; }
soon away || fail "it is not noticed"
start slurm
soon has_slots 9 || fail "slots: $("${H[@]}" agents)"
[ "$(busy)" = "$before" ] || fail "agents were lost: $before, then $("${H[@]}" agents)"
touch go
expect 0 "${H[@]}" wait 3
[ "$(json "$("${H[@]}" status 3 --json)" 'v["jobs"][0]["attempts"]')" = 9 ] || fail "tasks ran twice: $("${H[@]}" status 3 --json)"
soon nothing_runs || fail "agents are left: $("${H[@]}" agents)"

if [ "$kind" = fake ]; then
    # --- held jobs are cancelled, and the tasks run elsewhere ---
    touch "$top/slurm.batch/hold"
    rm go
    expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.3; done; echo $HTC_SITE' "$PWD/go" ::: $(seq 8)
    says_held() { [[ $(sites_of slurm reason) == *'held by the batch system (JobHeldAdmin), and cancelled'* ]]; }
    soon says_held || fail "it is not told: $("${H[@]}" agents --json)"
    touch go
    expect 0 "${H[@]}" wait 4
    rm "$top/slurm.batch/hold"
    # --- a batch system that is away, prints nonsense or forgets ---
    rm go
    expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.3; done; echo $HTC_SITE' "$PWD/go" ::: $(seq 9)
    soon both_work || fail "agents: $("${H[@]}" agents)"
    soon all_run 5 || fail "they do not run: $("${H[@]}" status 5)"
    before=$(busy)
    for how in away nonsense; do
        touch "$top/slurm.batch/$how" "$top/sge.batch/$how"
        calls=$(wc -l < "$top/slurm.batch/calls")
        called() { [ "$(wc -l < "$top/slurm.batch/calls")" -ge $((calls + 3)) ]; }
        soon called || fail "it is not asked any more"
        rm "$top/slurm.batch/$how" "$top/sge.batch/$how"
    done
    [ "$(busy)" = "$before" ] || fail "agents were lost: $before, then $("${H[@]}" agents)"
    touch go
    expect 0 "${H[@]}" wait 5
    [ "$(json "$("${H[@]}" status 5 --json)" 'v["jobs"][0]["attempts"]')" = 9 ] || fail "tasks ran twice: $("${H[@]}" status 5 --json)"
    soon nothing_runs || fail "agents are left: $("${H[@]}" agents)"
    # --- a job in a queue is no work: it is taken out when the tasks are done ---
    touch "$top/slurm.batch/closed" "$top/sge.batch/closed"
    expect 0 "${H[@]}" submit --json --wait -- true ::: $(seq 20)
    none_queued() { ! grep -l '"state": "\(waits\|held\|runs\)"' "$top"/*.batch/jobs/* > /dev/null 2>&1; }
    soon none_queued || fail "jobs are left: $(cat "$top"/*.batch/jobs/*)"
    rm "$top/slurm.batch/closed" "$top/sge.batch/closed"
fi

# --- a gang: its members are jobs of one batch system, each with its own agent, and all are gone when the task is ---
for site in slurm sge; do
    # shellcheck disable=SC2016
    expect 0 "${H[@]}" submit --hosts $site -c 3 --node-cores 1 --wait -- "$bin/htc-gang" --all sh -c 'echo "$HTC_GANG_MEMBER of $HTC_GANG_NODES at $HTC_SITE"'
    expect 0 "${H[@]}" logs last
    [ "$(sort <<< "$out")" = "0 of 3 at $site
1 of 3 at $site
2 of 3 at $site" ] || fail "a gang at $site: $out"
    soon nothing_runs || fail "agents of a gang are left: $("${H[@]}" agents)"
done

# --- a site leaves: what runs there ends first ---
rm -f go
expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.3; done; echo $HTC_SITE' "$PWD/go" ::: $(seq 9)
last=$(json "$out" 'v["id"]')
soon both_work || fail "agents: $("${H[@]}" agents)"
kill ${broker[slurm]}
leaves() { [ "$(sites_of slurm reason)" = 'its host leaves' ]; }
soon leaves || fail "it does not say so: $("${H[@]}" agents --json)"
touch go
expect 0 "${H[@]}" wait "$last"
gone() { ! kill -0 "$1" 2> /dev/null; }
soon gone ${broker[slurm]} || fail "it does not end: $(cat slurm.out)"
wait ${broker[slurm]} || fail "it ended with $?"
kill ${broker[sge]}
soon gone ${broker[sge]} || fail "it does not end: $(cat sge.out)"
expect 0 "${H[@]}" down
none_left
echo ok
