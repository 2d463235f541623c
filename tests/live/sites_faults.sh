#!/bin/bash
# usage: sites_faults.sh PROGRAM_FOLDER [real]
# What goes wrong at sites, one after the other while a sweep runs on Slurm and Grid Engine: somebody cancels our jobs, a node goes down, the queue is full, jobs are
# held, the batch systems are away, or print nonsense. Each sentence that is proved stands at its part; in the end each task has one result, and nobody acted.
# The batch systems are batch_fake.py's; with "real" those that run on this machine, where root can do the same to them.
fake=$(realpath "$(dirname "$0")/batch_fake.py")
kind=${2:-fake}
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
queue=()
away_for=1
[ -z "${HTC_TEST_FULL:-}" ] || away_for=60
controllers=()
# What was done to real batch systems is taken back.
let_go()
{
    [ "$kind" = real ] || return 0
    [ ${#controllers[@]} = 0 ] || kill -CONT "${controllers[@]}" 2> /dev/null
    scontrol update partitionname=all state=up 2> /dev/null
    qmod -e '*' > /dev/null 2>&1
}
trap 'code=$?; let_go; kill -9 "${queue[@]}" 2> /dev/null; (exit $code); clean_up' EXIT
if [ "$kind" = fake ]; then
    mkdir -p "$top/commands"
    for site in slurm sge; do
        mkdir -p "$top/$site.batch"
        python3 "$fake" install $site "$top/$site.batch" "$top/commands"
        python3 "$fake" serve $site "$top/$site.batch" 4 > "$top/$site.served" 2>&1 &
        queue+=($!)
        disown $!
    done
    PATH=$top/commands:$PATH
fi
cat > head.ini << END
[server]
join = 127.0.0.1:$port
[db]
join = 127.0.0.1:$((port + 1))
[agent]
heartbeat_s = 1
lost_after_s = 6
relaunch_backoff_s = 0.5
[site.slurm]
adapter = slurm
cores = 4
period_s = 0.3
jobcomp = $top/slurm.batch/jobcomp
[site.sge]
adapter = sge
cores = 4
period_s = 0.3
END
expect 0 "${H[@]}" up --config head.ini
all_there() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = 8 ]; }
soon all_there || fail "not all sites are there: $("${H[@]}" sites)"
reason_of() { json "$("${H[@]}" sites --json)" "[s['reason'] for s in v['sites'] if s['name'] == '$1'][0]"; }
works_at() { json "$("${H[@]}" agents --json)" "sum(a['site'] == '$1' and a['state'] == 'busy' for a in v['agents'])"; }
both_work() { [ "$(json "$("${H[@]}" agents --json)" "len({a['site'] for a in v['agents'] if a['state'] == 'busy'})")" = 2 ]; }
busy_at() { [ "$(works_at "$1")" -ge 1 ]; }
# ids_at SITE: the agents that are busy there.
ids_at() { json "$("${H[@]}" agents --json)" "[a['id'] for a in v['agents'] if a['site'] == '$1' and a['state'] == 'busy']"; }

# One sweep, whose tasks end when their file is there: so each part meets agents that run.
tasks=40
mkdir go
expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0/all" ] && [ ! -e "$0/$1" ]; do sleep 0.3; done; echo "$1 ran at $HTC_SITE"' "$PWD/go" ::: $(seq $tasks)
soon both_work || fail "agents: $("${H[@]}" agents)"

# our_jobs SITE: those of ours that run, as its commands call them.
our_jobs()
{
    case $1 in
    slurm) squeue --noheader --array --states all --format '%i|%T|%j|%L|%r' --user "$(id -un)" | awk -F'|' '$2 == "RUNNING" && $3 ~ /^htc-/ { print $1 }' ;;
    sge) qstat -xml -g d -u "$(id -un)" | tr -d '\n' | sed 's/<job_list/\n&/g' |
        sed -n 's/.*<JB_job_number>\([0-9]*\)<.*<JB_name>htc-.*<state>r<.*<tasks>\([0-9]*\)<.*/\1.\2/p' ;;
    esac
}

# --- "scancel, qdel": a user or an administrator cancels our jobs: their tasks wait again, and others are submitted ---
for site in slurm sge; do
    jobs=$(our_jobs $site)
    [ -n "$jobs" ] || fail "none of our jobs runs at $site"
    before=$(json "$("${H[@]}" agents --json)" "max(a['id'] for a in v['agents'])")
    # shellcheck disable=SC2086
    case $site-$kind in
    slurm-*) scancel --quiet $jobs ;;
    sge-fake) qdel $jobs ;;
    sge-real) for j in $jobs; do qdel "${j%.*}" -t "${j#*.}"; done > /dev/null ;;
    esac
    newer() { [ "$(json "$("${H[@]}" agents --json)" "sum(a['id'] > $before and a['site'] == '$site' and a['state'] == 'busy' for a in v['agents'])")" -ge 1 ]; }
    soon newer || fail "none is submitted in place of those: $("${H[@]}" agents)"
done

# --- "node down": what ran there is lost, and waits again; it runs elsewhere until the node is back ---
down=$(ids_at slurm)
case $kind in
fake) touch "$top/slurm.batch/down" ;;
real) for n in $(sinfo -h -o %n); do scontrol update nodename="$n" state=down reason=test; done ;;
esac
# Others may run there at once: a real Slurm may take its nodes back into service by itself (ReturnToService).
are_lost() { [ "$(json "$("${H[@]}" agents --json)" "sum(a['id'] in $down for a in v['agents'])")" = 0 ]; }
soon are_lost || fail "agents $down are still there: $("${H[@]}" agents)"
for i in $(seq 20); do touch go/$i; done
some_done() { [ "$(json "$("${H[@]}" status 1 --json)" 'v["jobs"][0]["tasks"]["done"]')" = 20 ]; }
[ "$kind" = real ] || soon some_done || fail "tasks do not run elsewhere: $("${H[@]}" status 1)"
case $kind in
fake) rm "$top/slurm.batch/down" ;;
real) for n in $(sinfo -h -o %n); do scontrol update nodename="$n" state=resume 2> /dev/null; done ;;
esac
soon busy_at slurm || fail "nothing is submitted when the node is back: $("${H[@]}" sites)"

# --- "a job that the batch system does not list any more": why it has ended is known from its records, or from its accounting ---
if [ "$kind" = fake ]; then
    touch "$top"/slurm.batch/{short,prolog} "$top/sge.batch/prolog"
    # shellcheck disable=SC2046
    scancel --quiet $(our_jobs slurm)
    # shellcheck disable=SC2046
    qdel $(our_jobs sge)
    says_why() { [[ $(reason_of "$1") == *"$2"* ]]; }
    soon says_why slurm 'FAILED, exit code 7' || fail "it does not say why agents end: $("${H[@]}" sites)"
    soon says_why sge 'failed 8: in prolog, exit status 7' || fail "it does not say why agents end: $("${H[@]}" sites)"
    rm "$top"/{slurm,sge}.batch/prolog
    for site in slurm sge; do soon busy_at $site || fail "it is not tried again: $("${H[@]}" sites)"; done
fi

# --- "queue full": submissions are refused; the site pauses with that reason, and is tried again by itself ---
case $kind in
fake) touch "$top/slurm.batch/full" ;;
real) scontrol update partitionname=all state=drain ;;
esac
cancelled=$(json "$("${H[@]}" agents --json)" "[a['id'] for a in v['agents'] if a['site'] == 'slurm' and a['state'] == 'busy']")
# shellcheck disable=SC2046
scancel --quiet $(our_jobs slurm)
refused() { [[ $(reason_of slurm) == *sbatch* || $(reason_of slurm) == *submitting* ]]; }
soon refused || fail "it does not say so: $("${H[@]}" sites)"
case $kind in
fake) rm "$top/slurm.batch/full" ;;
real) scontrol update partitionname=all state=up ;;
esac
soon busy_at slurm || fail "it is not tried again: $("${H[@]}" sites)"

# --- "held jobs": they are cancelled, and the tasks run elsewhere ---
# waiting_jobs SITE: those of ours that a real batch system has not started.
waiting_jobs()
{
    case $1 in
    slurm) squeue --noheader --states pending --format '%F|%j' --user "$(id -un)" | sed -n 's/|htc-.*//p' | sort -u ;;
    sge) qstat -s p -u "$(id -un)" | awk '$3 ~ /^htc-/ { print $1 }' | sort -u ;;
    esac
}
# starts SITE yes|no: jobs are accepted, and start, or do not.
starts()
{
    case $1-$2 in
    slurm-no) scontrol update partitionname=all state=down ;;
    slurm-yes) scontrol update partitionname=all state=up ;;
    sge-no) qmod -d '*' > /dev/null ;;
    sge-yes) qmod -e '*' > /dev/null ;;
    esac
}
hold_waiting()
{
    local jobs
    jobs=$(waiting_jobs "$1")
    [ -n "$jobs" ] || return 1
    # shellcheck disable=SC2086
    case $1 in
    slurm) scontrol hold $jobs ;;
    sge) qhold $jobs > /dev/null ;;
    esac
}
held() { [[ $(reason_of "$1") == *'held by the batch system'* ]]; }
for site in $([ "$kind" = real ] && echo slurm) sge; do
    [ "$kind" = real ] && starts $site no || touch "$top/$site.batch/hold"
    # shellcheck disable=SC2046
    case $site-$kind in
    slurm-*) scancel --quiet $(our_jobs slurm) ;;
    sge-fake) qdel $(our_jobs sge) ;;
    sge-real) for j in $(our_jobs sge); do qdel "${j%.*}" -t "${j#*.}"; done > /dev/null ;;
    esac
    [ "$kind" = fake ] || soon hold_waiting $site || fail "none of our jobs waits at $site: $("${H[@]}" sites)"
    soon held $site || fail "it does not say so: $("${H[@]}" sites)"
    [ "$(json "$("${H[@]}" status 1 --json)" 'v["jobs"][0]["held_agents"]')" -ge 1 ] || fail "the job does not say so: $("${H[@]}" status 1)"
    [ "$kind" = real ] && starts $site yes || rm "$top/$site.batch/hold"
    soon busy_at $site || fail "it is not tried again: $("${H[@]}" sites)"
done

# --- "a batch system away for a minute, one that answers nonsense": what runs goes on, and is known afterwards ---
ids() { json "$("${H[@]}" agents --json)" "sorted(a['id'] for a in v['agents'] if a['state'] == 'busy')"; }
all_busy() { [ "$(json "$("${H[@]}" agents --json)" "sum(a['state'] == 'busy' for a in v['agents'])")" = 8 ]; }
ended() { [ "$(json "$("${H[@]}" agents --json)" "sum(a['id'] in $cancelled for a in v['agents'])")" = 0 ]; }
soon ended || fail "agents whose jobs were cancelled are still there: $("${H[@]}" agents)" # a batch system takes its time
soon all_busy || fail "not all work: $("${H[@]}" agents)"
before=$(ids)
case $kind in
fake)
    for how in away nonsense; do
        touch "$top"/{slurm,sge}.batch/$how
        sleep $away_for # not what decides: as long as it is there, commands are wrong
        rm "$top"/{slurm,sge}.batch/$how
    done
    ;;
real)
    controllers=("$(pgrep -o slurmctld)" "$(pgrep -o sge_qmaster)")
    kill -STOP "${controllers[@]}"
    sleep $away_for
    kill -CONT "${controllers[@]}"
    ;;
esac
[ "$(ids)" = "$before" ] || fail "agents were lost: $before, then $(ids)"

# --- "no task lost, none twice, nobody has to act" ---
touch go/all
expect 0 "${H[@]}" wait 1
expect 0 "${H[@]}" status 1 --json
[ "$(json "$out" '[v["jobs"][0]["tasks"][k] for k in ("done", "failed", "cancelled")]')" = "[$tasks, 0, 0]" ] || fail "not each task is done: $out"
expect 0 "${H[@]}" fetch 1 --to got
[ "$(cat $(find got -name stdout) | cut -d' ' -f1 | sort -n | tr '\n' ' ')" = "$(seq -s ' ' $tasks) " ] || fail "results: $(cat $(find got -name stdout) | sort -n)"
expect 0 "${H[@]}" down
left() { [ -z "$(our_jobs slurm; our_jobs sge)" ]; }
soon left || fail "jobs are left: $(our_jobs slurm; our_jobs sge)"
[ "$kind" = real ] || kill -9 "${queue[@]}"
none_left
echo ok
