#!/bin/bash
# usage: keys.sh PROGRAM_FOLDER KEYS_CLIENT
# A store that is reached over TCP by those whose keys it knows: htc keys, htc-kvd --listen, htc kv --store tcp://, in processes of
# their own; who is unknown, revoked, enrolled, and a flood of strangers.
client=$(realpath "$2")
source "$(dirname "$0")/live.sh"
kvd='' other='' flood=''
pids=()
trap 'code=$?; kill $kvd $other $flood "${pids[@]}" 2> /dev/null; wait $kvd $other $flood 2> /dev/null; (exit $code); clean_up' EXIT
K=("$htc" keys)

# Files.
expect 0 "${K[@]}" new own.key
[ "$(stat -c %a own.key)" = 600 ] || fail "the key file has mode $(stat -c %a own.key)"
public=$out
before=$(sha256sum own.key)
expect 4 "${K[@]}" new own.key
[ "$(sha256sum own.key)" = "$before" ] || fail "a key file was replaced"
expect 0 "${K[@]}" show own.key
[ "$out" = "$public" ] || fail "show said: $out"
expect 0 "${K[@]}" show own.key --json
[[ $out == *"\"public\":"*"$public"* ]] || fail "show --json said: $out"
chmod 644 own.key
expect 4 "${K[@]}" show own.key
chmod 600 own.key
for who in ann stranger; do expect 0 "${K[@]}" new $who.key; done
expect 0 "${K[@]}" show ann.key
ann=$out
expect 1 "${K[@]}" add ann "$ann"
expect 1 "${K[@]}" add ann pub-nonsense --ring ring
expect 1 "${K[@]}" add Ann "$ann" --ring ring
expect 1 "${K[@]}" add ann "$ann" --ring ring --role king
expect 0 "${K[@]}" add ann "$ann" --ring ring
expect 4 "${K[@]}" add bob "$ann" --ring ring
expect 4 "${K[@]}" add ann "$public" --ring ring --role host
expect 0 "${K[@]}" list --ring ring
[ "$(grep -c . <<< "$out")" = 2 ] && grep -q "^user *ann *current *$ann" <<< "$out" || fail "list said: $out"
expect 0 "${K[@]}" list --ring ring --json
[[ $out == *'"name"'*'"ann"'* ]] || fail "list --json said: $out"
for who in ann stranger; do expect 0 "${K[@]}" add store "$public" --ring $who.ring --role member; done

# Beyond this machine nothing goes without keys.
expect 4 htc-kvd --engine memory --resp 0.0.0.0:0
[[ $err == *0.0.0.0* ]] || fail "it said: $err"
expect 4 "$htc" kv get a --store tcp://192.0.2.1:7421
[[ $err == *192.0.2.1*"htc keys new"* ]] || fail "it said: $err"
expect 1 htc-kvd --engine memory --listen 127.0.0.1:0

# kv_at ADDRESS COMMAND WHO WORDS...; a program, for timeout starts no functions
kv_at() { "$htc" kv "$2" "${@:4}" --store "$1" --key "$3.key" --ring "$3.ring"; }
export -f kv_at
export htc

start()
{
    htc-kvd --engine memory --metrics 127.0.0.1:0 --listen 127.0.0.1:"${port:-0}" --key own.key --ring ring --once once > ready 2>> said < /dev/null &
    kvd=$!
    until [ -s ready ] || gone "$kvd"; do sleep 0.05; done
    port=$(sed -n 's/.*with keys on 127.0.0.1:\([0-9]*\)$/\1/p' ready)
    [ -n "$port" ] || fail "it is not ready: $(cat ready said)"
    metrics=$(sed -n 's/.*metrics on 127.0.0.1:\([0-9]*\),.*/\1/p' ready)
    at=tcp://127.0.0.1:$port
}
kv() { kv_at "$at" "$@"; }
hup()
{
    kill -HUP "$kvd"
}
start

# Who is known; who is not; who calls somebody else.
expect 0 bash -c 'kv_at "$@"' _ "$at" put ann a 'sealed'
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a
[ "$out" = sealed ] || fail "get said: $out"
expect 0 "$htc" kv get a --store "$at" --key ann.key --server "$public"
expect 4 bash -c 'kv_at "$@"' _ "$at" get stranger a
[[ $err == *"does not know our key"* ]] || fail "it said: $err"
expect 4 "$htc" kv get a --store "$at" --key ann.key --server "$ann"
expect 4 "$htc" kv get a --store "$at" --key ann.key --ring ann.ring --server nobody
expect 1 "$htc" kv get a --store "$at" --key ann.key
head -c 3000000 /dev/urandom > big
expect 0 bash -c 'kv_at "$@"' _ "$at" put ann big --file big
kv get ann big > big.back || fail "get"
cmp big big.back || fail "other bytes came back"

# Enrolled with a secret, once.
expect 1 "${K[@]}" enrol bob
expect 0 "${K[@]}" enrol bob --once once --for 5m
[ "$(stat -c %a once)" = 600 ] || fail "the file of secrets has mode $(stat -c %a once)"
echo "$out" > secret
# The member does not know it yet, and is asked again.
"${K[@]}" join "$at" --key bob.key --ring bob.ring --server store --once secret --timeout 2m > joined.out 2>&1 &
joins=$!
soon grep -q 'one-time secret is unknown' said || fail "bob was not turned away: $(cat joined.out)"
hup
wait $joins || fail "bob does not get in: $(cat joined.out)"
expect 0 bash -c 'kv_at "$@"' _ "$at" get bob a
expect 4 "${K[@]}" join "$at" --key other.key --ring other.ring --server store --once secret --timeout 1
[[ $err == *one-time* ]] || fail "it said: $err"
written() { grep -q bob ring && ! grep -q bob once; }
soon written
grep -q "^user bob current" ring || fail "bob is not in the ring: $(cat ring)"
grep -q bob once && fail "the secret is still open"

# Revoked while connected: heard at once, and others go on.
mkfifo to from
"$client" "$at" bob.key bob.ring < to > from &
other=$!
exec 7> to 8< from
read -r -t 120 line <&8 && [ "$line" = open ] || fail "bob: $line"
echo >&7
read -r -t 120 line <&8 && [ "$line" = 1 ] || fail "bob: $line"
expect 0 "${K[@]}" revoke bob --ring ring
hup
soon grep -q revoked said || fail "the member does not say that bob was revoked: $(cat said)"
echo >&7
read -r -t 120 line <&8 && [ "$line" = HTC_ETIMEDOUT ] || fail "bob is still served: $line"
exec 7>&- 8<&-
wait $other
other=''
expect 4 bash -c 'kv_at "$@"' _ "$at" get bob a
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a
expect 4 "${K[@]}" add bob "$("$htc" keys show bob.key)" --ring ring
# No secret lets the key that was revoked in again, and that is said; nor is it known what answers at another port.
expect 0 "${K[@]}" enrol bob --once once
echo "$out" > secret
hup
expect 4 "${K[@]}" join "$at" --key bob.key --ring bob.ring --server store --once secret --timeout 1
[[ $err == *'a key that was revoked there needs another --key'* ]] || fail "it said: $err"
expect 3 "${K[@]}" join tcp://127.0.0.1:1 --key bob.key --ring bob.ring --server store --once secret
[[ $err == *'is this its db.join or server.join, or the --listen of a member?'* ]] || fail "it said: $err"

# Another key without a stop: announced to those who are connected, used, and the old one dropped.
expect 0 "${K[@]}" rotate own.key
expect 4 "${K[@]}" rotate own.key
hup
hears_of_it() { kv get ann a > /dev/null && grep -q ' next ' ann.ring; } # whoever connects
soon hears_of_it
grep -q "^member store next" ann.ring || fail "ann has not heard of the next key: $(cat ann.ring)"
expect 0 "${K[@]}" rotate own.key --use
expect 0 "${K[@]}" rotate own.key --finish
expect 0 "${K[@]}" show own.key
[ "$out" != "$public" ] || fail "the key is the old one"
expect 0 "${K[@]}" add store "$out" --ring ann.ring --role member
expect 0 "${K[@]}" revoke "$public" --ring ann.ring
hup
served() { kv get ann a > /dev/null 2>&1; }
soon served
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a

# A flood of half-open handshakes: who is known is served, and memory stays bounded.
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$kvd/status"; }
rss_before=$(rss)
"$client" flood "$port" 2000 < to > from &
flood=$!
exec 7> to 8< from
made=0
while [ $made = 0 ]; do
    expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a
    read -r -t 0.01 line <&8 && made=$line
done
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a
more=$(($(rss) - rss_before))
echo "flood: $made half-open connections, $more KiB more"
[ $more -lt 20000 ] || fail "$made half-open connections cost $more KiB"
exec 7>&- 8<&-
wait $flood
flood=''
exec 9<> "/dev/tcp/127.0.0.1/$metrics"
printf 'GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n' >&9
page=$(timeout 120 cat <&9)
exec 9>&-
for count in opened crowded_out; do
    grep -q "^htc_channel_${count}_total [1-9]" <<< "$page" || fail "$count is not counted: $page"
done
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a

# A file that cannot be read changes nothing.
cp ring ring.good
echo nonsense >> ring
hup
soon grep -q 'go on with those there were' said
grep -q 'keys: ring.* -> go on with those there were' said || fail "a ring that is damaged is not told: $(cat said)"
expect 0 bash -c 'kv_at "$@"' _ "$at" get ann a
cp ring.good ring
kill "$kvd"
wait "$kvd" || fail "it ends with $?"
kvd=''
none_left

# Three members on three addresses of this machine, each with a key of its own: they speak with each other through channels alone.
port=$(python3 "$ports" 1 $$)
members=()
for i in 1 2 3; do
    expect 0 "${K[@]}" new m$i.key
    expect 0 "${K[@]}" add m$i "$out" --ring all.ring --role member
    expect 0 htc-kvd --dir "$top/m$i" --new-member
    members+=(--member "$out@tcp://m$i@127.0.0.$i:$port")
done
expect 0 "${K[@]}" add ann "$ann" --ring all.ring
pids=()
member()
{
    htc-kvd --dir "$top/m$1" --engine log --durability interval --listen "127.0.0.$1:$port" --key "${key:-m$1}.key" --ring all.ring \
        "${members[@]}" > m$1.ready 2>> m$1.said < /dev/null &
    pids[$1]=$!
}
quietly() { "$@" > until.out 2>&1; }
# until COMMAND...: what is being joined may take a moment
until_ok()
{
    soon quietly "$@" || fail "never: $*: $(cat until.out m*.said)"
}
at_member() { "$htc" kv "${@:2}" --store "tcp://127.0.0.$1:$port" --key ann.key --ring all.ring; }
for i in 1 2 3; do member $i; done
until_ok at_member 1 put shared 'by three'
until_ok at_member 3 get shared
[ "$(cat until.out)" = 'by three' ] || fail "member 3 says: $(cat until.out)"
kill -9 "${pids[1]}"
wait "${pids[1]}" 2> /dev/null
until_ok at_member 2 put counter 5 # once or twice is the same
until_ok at_member 3 get counter
[ "$(cat until.out)" = 5 ] || fail "member 3 says: $(cat until.out)"
member 1
until_ok at_member 1 get counter
[ "$(cat until.out)" = 5 ] || fail "member 1 says: $(cat until.out)"

# A member that has come to another one's key speaks as nobody: the others say so, and do without it.
kill "${pids[1]}"
wait "${pids[1]}"
key=m2 member 1
until_ok grep -q "m2's key speaks as member .*, whose key is m1's" m3.said
until_ok at_member 3 put counter 6
until_ok at_member 2 get counter
[ "$(cat until.out)" = 6 ] || fail "member 2 says: $(cat until.out)"
kill "${pids[@]}"
wait "${pids[@]}"

# One who takes connections and says nothing: how long that is borne is said.
mkfifo hold
python3 -S -c 'import socket, sys; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()' < hold > silent.port &
silent=$!
pids=("$silent")
exec 9> hold
soon test -s silent.port || fail "nobody listens"
"${K[@]}" enrol nobody --once silent.once > silent.secret || fail "no secret"
expect 6 "${K[@]}" join "tcp://127.0.0.1:$(cat silent.port)" --server silent --once silent.secret --key silent.key --ring silent.ring --timeout 0.2s
[[ $err == *'no answer within 0.2 s'* ]] || fail "--timeout of htc keys join: $err"
exec 9>&-
wait "$silent"
none_left
echo "all holds"
