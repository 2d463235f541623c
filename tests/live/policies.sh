#!/bin/bash
# usage: SOURCE=DIR policies.sh PROGRAMS OBJECTS
# Policies of files in htc-sim: they change what comes out, in exact mode and in scale models; a run knows nothing of another; mistakes are refused.
# OBJECTS: where policies_NAME.so are (tests/unit/policies_object.c).
set -euo pipefail
sim=$1/htc-sim
programs=$1
objects=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    exit 1
}
# ends STATUS ARGS...: in $dir/out and $dir/err
ends() {
    local want=$1 got=0
    shift
    "$sim" "$@" > "$dir/out" 2> "$dir/err" < /dev/null || got=$?
    [ "$got" = "$want" ] || { cat "$dir/out" "$dir/err"; fail "htc-sim $* ends with $got, not $want"; }
}
says() { grep -qF -- "$1" "$dir/err" || { cat "$dir/err"; fail "it does not say: $1"; }; }
number() { grep -oE "\"$1\":[-0-9.e+]+" "$dir/out" | sed -n 1p | cut -d: -f2; }
hash_of() { grep -oE '"hash":"[0-9a-f]+"' "$dir/out"; }
good=$objects/policies_good.so
frugal=$programs/frugal.so

# A program that is linked with the archives of the library cannot share it with files.
if ! "$sim" flow --policy-from "$good" --shape bot --tasks 1 > /dev/null 2> "$dir/err" && grep -q 'another copy of the library' "$dir/err"; then
    echo "skipped: this htc-sim is not linked with the shared library"
    exit 77
fi

# ---- exact mode ----
flow=(flow --shape bot --tasks 600 --length "0s..1s" --workers 16 --json)
ends 0 "${flow[@]}"
plain=$(hash_of) plain_stolen=$(number stolen)
ends 0 "${flow[@]}" --policy-from "$frugal"
[ "$(hash_of)" = "$plain" ] || fail "a policy that is not chosen changes the run"
ends 0 "${flow[@]}" --steal-policy random
[ "$(hash_of)" = "$plain" ] || fail "random is not the default"
ends 0 "${flow[@]}" --policy-from "$frugal" --steal-policy frugal
[ "$(hash_of)" != "$plain" ] || fail "frugal does not change the run"
[ "$(number stolen)" -lt "$plain_stolen" ] || fail "frugal moves $(number stolen) tasks, random $plain_stolen"
# What counting remembers of one run is not known in the next, in the same process. (Lengths are drawn by the first seed alone.)
flow=(flow --shape bot --tasks 300 --length 300ms --jitter 2ms --workers 16 --json --policy-from "$good" --steal-policy counting)
for seed in 1 2; do
    ends 0 "${flow[@]}" --seed $seed
    number efficiency
done | sort -n > "$dir/alone"
ends 0 "${flow[@]}" --runs 2
{ number efficiency_min; number efficiency_max; } > "$dir/together"
diff "$dir/alone" "$dir/together" || fail "runs of one process know of each other"
[ "$(uniq "$dir/alone" | wc -l)" = 2 ] || fail "two seeds are one"

# ---- scale models ----
jobs=(jobs --nodes 1024 --partition 64 --count 1000 --json)
ends 0 "${jobs[@]}"
plain=$(hash_of)
ends 0 "${jobs[@]}" --policy-from "$good" --policy in-turn
[ "$(hash_of)" != "$plain" ] || fail "in-turn does not change the run"
grep -q '"policy":"in-turn"' "$dir/out" || fail "the policy is not told"
ends 0 "${jobs[@]}" --policy central
plain=$(hash_of)
ends 0 "${jobs[@]}" --policy-from "$good" --policy central --order widest
[ "$(hash_of)" != "$plain" ] || fail "widest does not change the run"
# Many tasks on nodes that steal: the policy of the example moves fewer tasks.
many=(manytask --architecture distributed --nodes 256 --cores 1 --tasks 5120 --length 0s..1s --json)
ends 0 "${many[@]}"
plain=$(hash_of) plain_stolen=$(number stolen)
ends 0 "${many[@]}" --policy-from "$frugal"
[ "$(hash_of)" = "$plain" ] || fail "a policy that is not chosen changes the run of many tasks"
ends 0 "${many[@]}" --policy-from "$frugal" --steal-policy frugal
[ "$(hash_of)" != "$plain" ] || fail "frugal does not change the run of many tasks"
[ "$(number stolen)" -lt "$plain_stolen" ] || fail "frugal moves $(number stolen) tasks, random $plain_stolen"
ends 0 "${many[@]}" --policy-from "$good" --vary steal.policy=counting --seeds 1..3 -j 1
simulated() { grep -oE '"(efficiency|rounds|stolen)":\{[^}]*\}' "$dir/out"; } # and not how long it took here
simulated > "$dir/one"
ends 0 "${many[@]}" --policy-from "$good" --vary steal.policy=counting --seeds 1..3 -j 3
simulated | cmp "$dir/one" - || fail "a policy that remembers comes to another table in three processes than in one"
# Leased nodes: that of the example asks less often.
lease=(dsp --count 500 --window 3d --json)
ends 0 "${lease[@]}" --provision-policy perlease
plain=$(hash_of) plain_requests=$(number requests)
ends 0 "${lease[@]}" --policy-from "$programs/cushion.so" --provision-policy cushion
[ "$(hash_of)" != "$plain" ] || fail "cushion does not change the run"
[ "$(number requests)" -lt "$plain_requests" ] || fail "cushion asks $(number requests) times, perlease $plain_requests"
ends 0 "${lease[@]}" --policy-from "$good" --order widest
# Shares: who weighs less gets more from the policy of the file.
printf '[cluster]\ncores = 100\n[user.light]\n[user.heavy]\nweight = 4\n' > "$dir/shares.ini"
for user in light heavy; do printf '[job.%s]\nuser = %s\ntasks = 2000\nlength = 10s\n' $user $user; done >> "$dir/shares.ini"
first() { python3 -S -c 'import json, sys; print(min(json.load(open(sys.argv[1]))["users"], key=lambda u: u["makespan_s"])["name"])' "$dir/out"; }
shares=(fairshare "$dir/shares.ini" --json)
ends 0 "${shares[@]}"
plain=$(hash_of)
[ "$(first)" = heavy ] || fail "the user with the larger weight does not end first"
ends 0 "${shares[@]}" --policy-from "$good"
[ "$(hash_of)" = "$plain" ] || fail "a maker of weights that is not chosen changes the run"
ends 0 "${shares[@]}" --policy-from "$good" --set fair.weights=inverse
[ "$(first)" = light ] || fail "inverse does not turn the shares around"
ends 0 "${shares[@]}" --set fair.weights=priority
[ "$(first)" = heavy ] || fail "the library's weights by priority are others"
ends 2 "${shares[@]}" --set fair.weights=inverse
says "fair.weights takes fixed, equal, fair-share, priority, run-time, tasks or usage; --policy-from FILE adds others"
# From a file, beside others, in one process and in two.
printf '[sim]\nmodel = jobs\n[control]\npolicy = in-turn\n[machine]\nnodes = 1024\npartition = 64\n[workload]\njobs = 500\n' > "$dir/turn.ini"
ends 0 run "$dir/turn.ini" --policy-from "$good" --vary control.policy=random,in-turn --seeds 1..3 -j 1 --json
cp "$dir/out" "$dir/one"
ends 0 run "$dir/turn.ini" --policy-from "$good" --vary control.policy=random,in-turn --seeds 1..3 -j 2 --json
cmp "$dir/one" "$dir/out" || fail "two processes come to another table than one"

# ---- mistakes ----
flow=(flow --shape bot --tasks 10)
ends 2 "${flow[@]}" --steal-policy counting
says "--steal-policy takes log2, mesh-2d, mesh-3d, near, one, random, sqrt, static or two, or a policy of --policy-from FILE.so, not counting"
ends 2 "${jobs[@]}" --policy in-turn
says "control.policy cannot be \"in-turn\""
says "control.policy takes central, monitored or random; --policy-from FILE adds others"
ends 2 "${many[@]}" --steal-policy cushion --policy-from "$programs/cushion.so"
says "steal.policy takes log2, mesh-2d"
ends 2 "${lease[@]}" --provision-policy cushion
says "tre.htc.policy takes paper or perlease; --policy-from FILE adds others"
ends 2 run "$dir/turn.ini"
says "turn.ini:4: control.policy cannot be \"in-turn\""
ends 2 "${jobs[@]}" --policy-from "$good" --order counting
says "control.order takes conservative, easy, fcfs, first_fit or widest"
for what in flow jobs; do
    case $what in flow) command=("${flow[@]}") ;; jobs) command=("${jobs[@]}") ;; esac
    ends 2 "${command[@]}" --policy-from "$dir/none.so"
    says "none.so: No such file or directory"
    ends 2 "${command[@]}" --policy-from "$dir/turn.ini"
    says "build it with cc -shared -fPIC"
    ends 2 "${command[@]}" --policy-from "$objects/policies_no_abi.so"
    says "policies_no_abi.so: it has no htc_policy_abi"
    says "put HTC_POLICY_FILE; into one of its sources"
    ends 2 "${command[@]}" --policy-from "$objects/policies_other_abi.so"
    says "it is for version 2 of htcsched/policy_file.h, and this is version 1"
    ends 2 "${command[@]}" --policy-from "$objects/policies_taken.so"
    says "there is a steal policy called random already"
    ends 2 "${command[@]}" --policy-from "$good" --policy-from "$good"
    says "there is a steal policy called counting already"
done
for model in kvs grids micro tco; do
    ends 2 $model --policy-from "$good"
    says "the model $model has no policy that a file can bring: --policy-from is for fairshare, dataflow, dsp, flow, jobs, manytask"
    ends 0 $model --help
    grep -q policy-from "$dir/out" && fail "$model --help has --policy-from"
done
ends 2 jobs --policy-from "$good" --checkpoint "$dir/state"
says "a checkpoint does not hold what a policy of a file remembers"
