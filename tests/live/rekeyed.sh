#!/bin/bash
# usage: rekeyed.sh PROGRAM_FOLDER
# Two gateways on one store, one active and one waiting, and a user on another "host" who waits for a job. Both gateways change their keys under way, then
# the user's key changes; whoever has a revoked key is refused by both, also after the active one has ended.
source "$(dirname "$0")/live.sh"
port=$(python3 "$ports" 4 $$)
A=127.0.0.1:$port B=127.0.0.1:$((port + 1))
"$bin/htc-kvd" --dir "$top/store" --engine log > store.said 2>&1 &
soon test -S "$top/store/kvd.sock" || fail "no store: $(cat store.said)"
user=$top/ada/.config/htcsched
mkdir -p "$user"
public() { "$htc" keys show "$1" | head -n 1; }
pin() { expect 0 "$htc" keys add "$1" "$2" --role "$3" --ring "$4"; } # NAME PUBLIC ROLE RING
expect 0 "$htc" keys new "$user/key"
for n in 1 2; do
    mkdir -m 700 "$top/head$n"
    printf '[server]\njoin = 127.0.0.1:%s\nlease_s = 1\nportal = 127.0.0.1:%s\n[db]\nstore = unix:%s\n[site.east]\nadapter = join\n' \
        $((port + n - 1)) $((port + n + 1)) "$top/store/kvd.sock" > head$n.ini
    expect 0 "$htc" keys new "$top/head$n/key"
    pin ada "$(public "$user/key")" user "$top/head$n/ring"
    pin head$n "$(public "$top/head$n/key")" member "$user/ring"
    expect 0 "$htc" --dir "$top/head$n" up --config head$n.ini
    [ $n = 2 ] || soon "$htc" --dir "$top/head1" status > /dev/null 2>&1 || fail "the first gateway is not active"
done
echo secret > password
expect 0 "$htc" --dir "$top/head1" user add ada --uid 1234:1234 --password-file password
waits_for() { [[ $("$htc" --dir "$top/head2" status --timeout 0.5s 2>&1) == *"at $A is active"* ]]; }
soon waits_for || fail "the second gateway says: $("$htc" --dir "$top/head2" status 2>&1)"
cat > login.py << 'END'
import sys, urllib.error, urllib.request
asked = urllib.request.Request('http://%s/login' % sys.argv[1], b'{"name":"ada","password":"secret"}', {'X-HTC-Portal': '1', 'Content-Type': 'application/json'})
try:
    print(urllib.request.urlopen(asked).status)
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
END
[ "$(python3 login.py "127.0.0.1:$((port + 2))")" = 200 ] || fail "the portal of the active gateway"
said=$(python3 login.py "127.0.0.1:$((port + 3))")
[[ $said == "503 "*HTC_EUNREACHABLE*"at $A is active"* ]] || fail "the portal of the gateway that waits: $said"

ada() { HOME=$top/ada timeout 100 "$htc" "$@"; }
export -f ada
export top htc
as() { expect "$1" bash -c 'ada "$@"' _ "${@:2}"; }
refused_as() { refuse "$1" "$2" bash -c 'ada "$@"' _ "${@:3}"; }
both() { for at in "$A" "$B"; do as 0 status --gateway "$at"; done; } # the waiting one says where the active one is
both_answer() { ada status --gateway "$A" && ada status --gateway "$B"; } > said 2>&1
# heard WORDS: in the user's ring, which whoever calls writes down
heard() { both && grep "^member $*" "$user/ring" > /dev/null; }
as 0 submit --gateway "$B,$A" -- true
ada wait last --gateway "$B,$A" > waited.out 2>&1 &
waits=$!
waiting() { kill -0 $waits 2> /dev/null || fail "htc wait has ended: $(cat waited.out)"; }

# --- the keys of both gateways, in three steps ---
cp "$user/ring" ring.then
for n in 1 2; do expect 0 "$htc" keys rotate "$top/head$n/key"; done
for n in 1 2; do soon heard "head$n next" || fail "nobody has heard of the next key of head$n: $(cat "$user/ring")"; done
for n in 1 2; do
    public "$top/head$n/key" > old$n
    expect 0 "$htc" keys rotate "$top/head$n/key" --use
done
both
for n in 1 2; do
    expect 0 "$htc" keys rotate "$top/head$n/key" --finish
    expect 0 "$htc" keys add head$n "$(public "$top/head$n/key")" --ring "$user/ring" --role member
    expect 0 "$htc" keys revoke "$(cat old$n)" --ring "$user/ring"
done
soon both_answer || fail "the new keys of the gateways do not count: $(cat said)"
waiting
echo "both gateways have other keys"
cp "$user/ring" ring.now
cp ring.then "$user/ring"
old_is_over() { ! ada status --gateway "$A" > said 2>&1 && ! ada status --gateway "$B" > said 2>&1; }
soon old_is_over || fail "the old keys of the gateways count"
grep 'head[12]\|key' said > /dev/null || fail "of the old keys is said: $(cat said)"
cp ring.now "$user/ring"
waiting

# --- the user's: the new one on both, then the old one is revoked on both ---
mkdir -p "$top/thief/.config"
cp -r "$user" "$top/thief/.config/htcsched"
public "$user/key" > old
rm "$user/key"
expect 0 "$htc" keys new "$user/key"
for n in 1 2; do pin ada "$(public "$user/key")" user "$top/head$n/ring"; done
soon both_answer || fail "the user's new key is not let in: $(cat said)"
waiting
for n in 1 2; do expect 0 "$htc" keys revoke "$(cat old)" --ring "$top/head$n/ring"; done
soon gone $waits || fail "who waits with a revoked key goes on"
wait $waits
[ $? = 4 ] && grep 'does not know our key' waited.out > /dev/null || fail "htc wait says: $(cat waited.out)"
thief() { HOME=$top/thief timeout 100 "$htc" "$@"; }
shut_out() { thief status --gateway "$1" > said 2>&1; [ $? = 4 ] && grep 'does not know our key' said > /dev/null; }
for at in "$A" "$B" "$B,$A"; do soon shut_out "$at" || fail "a revoked key is let in at $at: $(cat said)"; done
as 0 status --gateway "$A,$B"

# --- and the other one, when it is active, knows all of it ---
expect 0 "$htc" --dir "$top/head1" down
goes_on() { ada status --gateway "$A,$B" > said 2>&1; }
soon goes_on || fail "the waiting gateway does not go on: $(cat said)"
soon shut_out "$B" || fail "a revoked key is let in after the other gateway has ended: $(cat said)"
as 0 status --gateway "$A,$B" --json
[ "$(json "$out" 'len(v["jobs"])')" = 1 ] || fail "the job is not there: $out"
expect 0 "$htc" --dir "$top/head2" down --now
kill %1
wait %1
soon nobody || fail "processes are left"
echo "all holds"
