#!/bin/bash
# usage: flow_policies.sh PROGRAMS OBJECT
# Steal policies of files in a live system: agent.policy_from names one, flows name its policy, and agents ask it. A file that is none, or that others
# can write to, ends the start of the system with the reason. OBJECT: policy_used.c.
source "$(dirname "$0")/live.sh"
dir=$top/state
used=$top/policies/used.so
H=("$htc" --dir "$dir")
mkdir -m 755 "$top/policies"
cp "$2" "$used"
chmod 755 "$used"
mkdir -m 700 "$dir"
printf 'many: count=60 sleep 0.05\n' > many.flow

# --- a system that does not know it ---
expect 0 "${H[@]}" up --slots 4
expect 4 "${H[@]}" flow run many.flow --steal site.used
grep -q 'no policy of stealing is called site.used' <<< "$err" || fail "$err"
expect 0 "${H[@]}" down
none_left

# --- one that does ---
printf '[agent]\nslots_max = 1\npolicy_from = %s\n' "$used" > "$dir/htc.ini"
expect 0 "${H[@]}" up --slots 4
expect 0 "${H[@]}" flow run many.flow --agents 4 --layout one --steal site.used
[ -e "$used.asked" ] || fail "no agent has asked the policy"
grep -q '60 done' <<< "$out" || fail "$out"
# An agent may ask still when the flow has ended, until it hears of it: none is left when the file is removed.
expect 0 "${H[@]}" down
none_left
rm "$used.asked"
expect 0 "${H[@]}" up --slots 4
expect 0 "${H[@]}" flow run many.flow --agents 4 --layout one --steal near
[ -e "$used.asked" ] && fail "agents ask a policy that the flow does not name"
expect 4 "${H[@]}" flow run many.flow --steal site.unused
grep -q 'and those that were added' <<< "$err" || fail "$err"
# While it runs.
printf 'many: count=1200 sleep 0.05\n' > long.flow
expect 0 "${H[@]}" flow run long.flow --agents 4 --layout one --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
expect 0 "${H[@]}" flow set "$id" --steal site.used
grep -q 'steal site.used' <<< "$out" || fail "$out"
asked() { [ -e "$used.asked" ]; }
soon asked || fail "no agent asks the policy that was set"
"${H[@]}" flow cancel "$id" > /dev/null 2>&1 || [ $? = 6 ] || fail "the flow is neither cancelled nor has it ended"
expect 0 "${H[@]}" down
none_left

# --- files that are refused at the start; and no harm is done to policies of the library ---
refused() { # CODE WHAT-IT-SAYS
    expect "$1" "${H[@]}" up --slots 4
    grep -qF -- "$2" <<< "$err" || fail "it does not say $2: $err"
    none_left
}
chmod 777 "$used"
refused 4 "used.so: it belongs to another user, or others can write to it"
chmod 755 "$used"
printf '[agent]\npolicy_from = %s\n' "$top/work/many.flow" > "$dir/htc.ini"
refused 2 "build it with cc -shared -fPIC, for this machine"
printf '[agent]\npolicy_from = %s, %s\n' "$used" "$used" > "$dir/htc.ini"
refused 4 "there is a steal policy called site.used already"
echo "flow_policies: all is well"
