#!/bin/bash
# An eventual namespace of three members, from the command line: any of them is asked, values that were written without knowledge of one
# another stand beside each other, and who was away gets what it missed.
mortal_program=$(realpath "$2")
source "$(dirname "$0")/live.sh"

members=()
for i in 1 2 3; do
    expect 0 htc-kvd --dir "$top/m$i" --new-member
    members+=(--member "$out@unix:$top/m$i/kvd.sock")
done

# start I: the member; it says that it is ready when it has met another one.
start()
{
    htc-kvd --dir "$top/m$1" "${members[@]}" --engine log --namespace e=eventual --namespace fast=eventual:3,1,1 \
        > "$top/m$1.out" 2> "$top/m$1.err" &
    pid[$1]=$!
}
declare -A pid
for i in 1 2 3; do start $i; done
ready()
{
    local i
    for i in "$@"; do
        # However slow it is, as long as it lives; what it ended for it has said.
        while ! grep -q ^ready "$top/m$i.out"; do
            kill -0 "${pid[$i]}" 2> /dev/null || { wait "${pid[$i]}"; fail "member $i ended with $? before it was ready: $(cat "$top/m$i.out" "$top/m$i.err")"; }
            sleep 0.1
        done
    done
}
ready 1 2 3
k1=("$htc" kv --store "unix:$top/m1/kvd.sock")
k2=("$htc" kv --store "unix:$top/m2/kvd.sock")
k3=("$htc" kv --store "unix:$top/m3/kvd.sock")

refuse 4 'no such key' "${k1[@]}" get a --namespace e
expect 0 "${k1[@]}" put a one --namespace e
[[ $out =~ ^version\ [0-9]+$ ]] || fail "put said: $out"
expect 0 "${k2[@]}" get a --namespace e
[ "$out" = one ] || fail "get said: $out"
refuse 4 'no such key' "${k2[@]}" get a
# The store itself is a namespace too, by the name of default.
refuse 4 'no such key' "${k2[@]}" get a --namespace default
expect 0 "${k1[@]}" put own 1 --namespace default --ttl 1h
expect 0 "${k2[@]}" get own
[ "$out" = 1 ] || fail "get said: $out"
expect 0 "${k3[@]}" add own 2 --namespace default
expect 0 "${k2[@]}" scan --values --namespace default
[[ $out == own*3 ]] || fail "scan said: $out"
expect 0 "${k1[@]}" members --namespace default
expect 0 "${k1[@]}" backup own.kv --namespace default
[ "$out" = '1 key, 1 with a ttl' ] || fail "backup said: $out"
refuse 1 'default is strong' "${k1[@]}" get own --namespace default --reconcile
expect 0 "${k1[@]}" delete own --namespace default
refuse 4 'no such key' "${k1[@]}" get own
expect 0 "${k3[@]}" --json get a --namespace e
context=$(json "$out" 'v["context"]')
[ "$(json "$out" '[s["value"] for s in v["siblings"]]')" = "['one']" ] || fail "get --json said: $out"

# Two that had seen the same: both stay. One without a context as well.
expect 0 "${k1[@]}" put a two --namespace e --context "$context"
expect 0 "${k2[@]}" put a three --namespace e --context "$context"
expect 0 "${k3[@]}" put a zero --namespace e
expect 0 "${k1[@]}" --json get a --namespace e
[ "$(json "$out" 'sorted(s["value"] for s in v["siblings"])')" = "['three', 'two', 'zero']" ] || fail "get --json said: $out"
expect 0 "${k1[@]}" get a --namespace e
[ "$(sort <<< "$out" | tr '\n' ' ')" = 'three two zero ' ] || fail "get said: $out"
expect 0 "${k2[@]}" get a --namespace e --reconcile
[ "$out" = zero ] || fail "get --reconcile said: $out"
expect 0 "${k3[@]}" get a --namespace e
[ "$out" = zero ] || fail "get said: $out"

# A member is killed: the others go on, and it has all when it is back, though they are gone then.
kill -9 "${pid[3]}"
wait "${pid[3]}" 2> /dev/null
for i in $(seq 20); do expect 0 "${k1[@]}" put "k$i" "v$i" --namespace fast; done
: > "$top/m3.out"
start 3
ready 3
has_it() { out=$("${k3[@]}" get "k$1" --namespace fast 2> /dev/null); }
for i in $(seq 20); do
    soon has_it "$i"
    [ "$out" = "v$i" ] || fail "k$i: $out"
done

expect 0 "${k3[@]}" delete a --namespace e
[[ $out =~ ^version\ [0-9]+$ ]] || fail "delete said: $out"
refuse 4 'no such key' "${k1[@]}" get a --namespace e
refuse 4 'no such key' "${k1[@]}" delete a --namespace e
refuse 1 'no namespace nowhere' "${k1[@]}" get a --namespace nowhere
refuse 1 'no context' "${k1[@]}" put a b --namespace e --context xyz
refuse 1 'goes with --namespace' "${k1[@]}" get a --reconcile
refuse 1 'no strong namespace e' "${k1[@]}" add a --namespace e
for wrong in e E=eventual e=weak e=eventual:3 e=eventual:3,2,4 e=eventual:4,2,2 e=eventual:3,2,2x; do
    refuse 1 'says no namespace' htc-kvd --dir "$top/m1" "${members[@]}" --engine log --namespace "$wrong"
done
for wrong in default=eventual default=strong default=strong:n=9 default; do
    refuse 1 'default is the store itself' htc-kvd --dir "$top/m1" "${members[@]}" --engine log --namespace "$wrong"
done
refuse 1 'a store of members' htc-kvd --dir "$top/other" --engine log --namespace e=eventual
refuse 1 'name of another' htc-kvd --dir "$top/m1" "${members[@]}" --engine log --namespace e=eventual --namespace e=eventual
# A backup while they run, asked for at any of them: every key of each namespace once, all values that stand beside each other. Every member
# has to be there for it.
expect 0 "${k1[@]}" put both one --namespace e
expect 0 "${k2[@]}" put both two --namespace e
expect 0 "${k3[@]}" put strong s
backed_up() { out=$("$htc" kv --store "unix:$top/m$1/kvd.sock" backup "live$1.kv" 2> "$top/err"); }
for i in 1 2 3; do
    # One that the machine did not get round to for a second does not say what it holds.
    soon backed_up "$i" || fail "no backup at member $i: $(cat "$top/err")"
    [ "$out" = '1 key, 22 values of eventual namespaces' ] || fail "backup said: $out"
    cmp -s "live$i.kv" live1.kv || [ "$(stat -c %s "live$i.kv")" = "$(stat -c %s live1.kv)" ] || fail "backups of one store differ"
done
kill -9 "${pid[2]}"
wait "${pid[2]}" 2> /dev/null
refuse 3 'does not say what it holds' "${k1[@]}" backup none.kv
[ ! -e none.kv ] || fail "a backup that was refused left a file"
: > "$top/m2.out"
start 2
ready 2
for i in 1 2 3; do
    kill "${pid[$i]}"
    wait "${pid[$i]}" || fail "member $i ended with $?: $(cat "$top/m$i.err")"
done

expect 0 "$htc" kv fsck "$top/m1"
[[ $out == 'log: 1 key'*', 21 of eventual namespaces, '* ]] || fail "fsck said: $out"
expect 0 "$htc" kv dump "$top/m1" --json --namespace default
[ "$(json "$out" '[r["key"] for r in v]')" = "['strong']" ] || fail "dump --json said: $out"
expect 0 "$htc" kv dump "$top/m1" --json --namespace fast
[ "$(json "$out" '"%d %s" % (len(v), v[-1]["value"])')" = '20 v9' ] || fail "dump --json said: $out"

# The same by one command, which remembers it.
cluster=("$htc" kv cluster --dir "$top/c")
refuse 1 'says no namespace' "${cluster[@]}" --members 1 --base-port 1024 --namespace e=weak
refuse 1 'default is the store itself' "${cluster[@]}" --members 1 --base-port 1024 --namespace default=strong
for try in 1 2 3 4 5; do # no other test gets the port, but another program may take it
    port=$(python3 "$ports" 1 $$)
    out=$(timeout 900 "${cluster[@]}" --members 1 --base-port "$port" --engine lmdb --namespace e=eventual 2>&1) && break
    echo "no cluster at port $port: $out"
    [ "$try" != 5 ] || fail "no cluster at any of five ports"
    rm -rf "$top/c"
done
refuse 4 'namespace differs' "${cluster[@]}" --namespace other=eventual
socket=$(find "$top/c" -name kvd.sock)
expect 0 "$htc" kv --store "unix:$socket" put a one --namespace e
expect 0 "$htc" kv --store "unix:$socket" get a --namespace e
[ "$out" = one ] || fail "get said: $out"

# A backup does not leave out what a namespace holds without a word; a dump of a member that has ended has it, and brings it back.
kv=("$htc" kv --store "unix:$socket")
expect 0 "${kv[@]}" put b two --namespace e
expect 0 "${kv[@]}" put b three --namespace e
expect 0 "${kv[@]}" put gone x --namespace e
expect 0 "${kv[@]}" delete gone --namespace e
expect 0 "${kv[@]}" put strong s
expect 0 "$mortal_program" "unix:$socket" brief soon ttl 3600
expect 0 "$mortal_program" "unix:$socket" bound gone lease 3600
expect 0 "${kv[@]}" backup with.kv --json
[ "$(json "$out" '"%d %d" % (v["keys"], v["siblings"])')" = '3 3' ] || fail "backup --json said: $out"
expect 0 "${kv[@]}" backup all.kv --without-namespaces
[ "$out" = '3 keys, 1 with a ttl, 1 bound to a lease' ] || fail "backup said: $out"
expect 0 "${cluster[@]}" --stop
expect 0 "$htc" kv fsck "$top/c/1"
[[ $out == 'lmdb: 3 keys, 2 of eventual namespaces: no damage' ]] || fail "fsck said: $out"
expect 0 "$htc" kv fsck "$top/c/1" --json
[ "$(json "$out" '"%d %d" % (v["keys"], v["eventual"])')" = '3 2' ] || fail "fsck --json said: $out"
expect 0 "$htc" kv dump "$top/c/1" --json
told=$(json "$out" 'sorted((r.get("namespace"), r["key"], r["value"]) for r in v if "namespace" in r)')
[ "$told" = "[('e', 'a', 'one'), ('e', 'b', 'three'), ('e', 'b', 'two')]" ] || fail "dump --json said: $out"
expect 0 "$htc" kv dump "$top/c/1" e.kv --namespace e
refuse 4 'no key of a namespace other' "$htc" kv dump "$top/c/1" other.kv --namespace other
expect 0 "${cluster[@]}"
expect 0 "${kv[@]}" put a newer --namespace e --context "$(json "$("${kv[@]}" get a --namespace e --json)" 'v["context"]')"
expect 0 "${kv[@]}" delete b --namespace e
expect 0 "${kv[@]}" restore e.kv --json
[ "$(json "$out" '"%d %d" % (v["restored"], v["kept"])')" = '2 1' ] || fail "restore said: $out"
expect 0 "${kv[@]}" get a --namespace e
[ "$out" = newer ] || fail "restore replaced what exists: $out"
expect 0 "${kv[@]}" restore e.kv --replace
expect 0 "${kv[@]}" get a --namespace e
[ "$out" = one ] || fail "restore --replace left: $out"
expect 0 "${kv[@]}" get b --namespace e
[ "$(sort <<< "$out" | tr '\n' ' ')" = 'three two ' ] || fail "restore --replace left: $out"
expect 0 "${cluster[@]}" --stop

# The backup of the running store too: what was deleted since is there again, with both its values.
expect 0 "${cluster[@]}"
expect 0 "${kv[@]}" delete b --namespace e
expect 0 "${kv[@]}" restore with.kv --replace
expect 0 "${kv[@]}" get b --namespace e
[ "$(sort <<< "$out" | tr '\n' ' ')" = 'three two ' ] || fail "restore of a backup left: $out"
expect 0 "${cluster[@]}" --stop

# Of five members none holds all of them.
members=()
for i in f1 f2 f3 f4 f5; do
    expect 0 htc-kvd --dir "$top/m$i" --new-member
    members+=(--member "$out@unix:$top/m$i/kvd.sock")
done
for i in f1 f2 f3 f4 f5; do start $i; done
ready f1 f2 f3 f4 f5
for i in $(seq 12); do expect 0 "$htc" kv --store "unix:$top/mf$((i % 5 + 1))/kvd.sock" put "k$i" "v$i" --namespace e; done
expect 0 "$htc" kv --store "unix:$top/mf3/kvd.sock" backup five.kv
[ "$out" = '0 keys, 12 values of eventual namespaces' ] || fail "backup said: $out"
for i in f1 f2 f3 f4 f5; do kill "${pid[$i]}"; wait "${pid[$i]}"; done

# Members come and go, from one to three and two, while somebody writes: what was answered is read at every member, at once.
grown=("$htc" kv cluster --dir "$top/g")
for _ in 1 2 3 4 5; do
    port=$(python3 "$ports" 3 $$)
    timeout 900 "${grown[@]}" --members 1 --base-port "$port" --engine log --namespace e=eventual > /dev/null && break
    rm -rf "$top/g"
done
store=unix:$(find "$top/g/1" -name kvd.sock)
: > "$top/written"
write()
{
    local i=0
    while [ ! -e "$top/enough" ] && kill -0 $$ 2> /dev/null; do
        i=$((i + 1))
        timeout 60 "$htc" kv --store "$store" put "g$i" "v$i" --namespace e > /dev/null 2>&1 && echo "$i" >> "$top/written"
        sleep 0.1
    done
}
read_all()
{
    local at i sockets
    mapfile -t sockets < <(find "$top/g" -name kvd.sock | sort)
    [ "${#sockets[@]}" = "$1" ] || fail "there are ${#sockets[@]} members, not $1"
    for at in "${sockets[@]}"; do
        for i in $(head -n 10 "$top/written") $(tail -n 10 "$top/written"); do
            expect 0 "$htc" kv --store "unix:$at" get "g$i" --namespace e
            [ "$out" = "v$i" ] || fail "g$i at $at: $out"
        done
    done
}
write &
writer=$!
for count in 3 2; do
    expect 0 "${grown[@]}" --members $count
    read_all $count
done
touch "$top/enough"
wait "$writer"
read_all 2
expect 0 "${grown[@]}" --stop

# And a whole dump, with the keys that are in none.
expect 0 "$htc" kv dump "$top/c/1" whole.kv
expect 0 "${cluster[@]}"
expect 0 "${kv[@]}" restore whole.kv --replace --json
[ "$(json "$out" '"%d %d" % (v["restored"], v["leased"])')" = '5 1' ] || fail "restore of a whole dump said: $out"
expect 0 "${cluster[@]}" --stop
none_left
echo "namespace: all is well"
