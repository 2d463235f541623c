#!/bin/bash
# Members that are named with the rack that they are in, and with a weight: no key is twice in a rack, and shares follow the weights.
source "$(dirname "$0")/live.sh"

ids=() members=()
suffix=(',domain=r1' ',weight=1,domain=r1' ',domain=r-2,weight=2' ',domain=r3')
for i in 0 1 2 3; do
    expect 0 htc-kvd --dir "$top/m$i" --new-member
    ids+=("$out")
    members+=(--member "$out@unix:$top/m$i/kvd.sock${suffix[i]}")
done
for wrong in ,domain= ,domain=a/b,weight=0 ,weight=0 ,weight=65536 ,weight=x ',domain=a b' ,domain=a,domain=b ,weight=1,weight=1; do
    refuse 1 'with ,domain=NAME or ,weight=W' htc-kvd --dir "$top/m0" --engine log --member "${ids[0]}@unix:$top/m0/kvd.sock$wrong"
done
refuse 1 'with ,domain=NAME or ,weight=W' htc-kvd --dir "$top/m0" --engine log --member "${ids[0]}@tcp://127.0.0.1:1,rack=a"
refuse 1 'is for a member that joins|--domain' htc-kvd --dir "$top/m0" "${members[@]}" --engine log --domain r1
refuse 1 'is no name' htc-kvd --dir "$top/m0" --join unix:x --engine log --domain ''

pid=()
for i in 0 1 2 3; do
    htc-kvd --dir "$top/m$i" "${members[@]}" --buckets 256 --engine log > "$top/m$i.out" 2> "$top/m$i.err" &
    pid+=($!)
done
for i in 0 1 2 3; do
    until grep -q ^ready "$top/m$i.out"; do
        gone "${pid[i]}" && fail "member $i is not ready: $(cat "$top/m$i.out" "$top/m$i.err")"
        sleep 0.1
    done
done
expect 0 "$htc" kv members --dir "$top/m0" --json --buckets
printf '%s' "$out" | python3 -S -c '
import json, sys
all, ids = json.load(sys.stdin), sys.argv[1:]
by = {m["id"]: m for m in all["members"]}
print(json.dumps(all["members"]))
assert [by[i]["weight"] for i in ids] == [1, 1, 2, 1], "weights"
rack = [by[i]["domain"] for i in ids]
assert rack[0] == rack[1] and len(set(rack)) == 3 and None not in rack, "domains"
table = [v for v in all.values() if isinstance(v, list) and len(v) == 256][0]
for epoch, owners in table:
    assert len(owners) == 3 and len({by[o]["domain"] for o in owners}) == 3, owners
' "${ids[@]}" || fail "members said: $out"
expect 0 "$htc" kv put a one --dir "$top/m1"
expect 0 "$htc" kv get a --dir "$top/m3"
[ "$out" = one ] || fail "get said: $out"
for i in 0 1 2 3; do
    kill "${pid[i]}"
    wait "${pid[i]}" || fail "member $i ended with $?: $(cat "$top/m$i.err")"
done
none_left
echo "domains: all is well"
