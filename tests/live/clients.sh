#!/bin/bash
# usage: clients.sh PROGRAM_FOLDER
# htc --gateway: users on other "hosts", which have a home of their own and reach the gateway over TCP with a key alone. Who is let in as whom, and who
# is not; one address of several; a key that is revoked while its user waits.
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
gateway=127.0.0.1:$port
dead=127.0.0.1:$((port + 1))
cat > head.ini << END
[server]
join = $gateway
others = on
[task]
others_as_owner = confined
[site.local]
cores = 2
[site.east]
adapter = join
[db]
join = $dead
END
expect 0 "${H[@]}" up --config head.ini
echo secret > password
for user in ada bob; do expect 0 "${H[@]}" user add $user --uid 1234:1234 --password-file password; done

# of HOME COMMAND...: a user of another host
of()
{
    HOME=$top/homes/$1 timeout 100 "$htc" "${@:2}"
}
export -f of
export top htc
as() { expect "$1" bash -c 'of "$@"' _ "${@:2}"; }
refused_as() { refuse "$1" "$2" bash -c 'of "$@"' _ "${@:3}"; }
# drawn NAME ROLE: a secret; enrolled NAME ROLE: it goes through a file, after a moment that passes until it is heard of.
drawn()
{
    mkdir -p "$top/homes/$1/.config/htcsched"
    expect 0 "$htc" keys enrol "$1" --role "$2" --once "$dir/once"
    printf '%s\n' "$out" > "$1.once"
}
enrolled()
{
    local at=$top/homes/$1/.config/htcsched
    join() { "$htc" keys join "tcp://$gateway" --server head --role "$2" --key "$at/key" --ring "$at/ring" --once "$1.once" > enrolled.out 2>&1; }
    soon join "$@" || fail "$1 is not enrolled: $(cat enrolled.out)"
    known() { grep "^$2 $1 current" "$dir/ring" > /dev/null; }
    soon known "$@" || fail "$1 is not in the ring"
}

# --- without a key; with one that is not known; that of a host ---
mkdir -p "$top/homes/nobody"
refused_as 4 'reached with a key alone.*htc keys enrol' nobody status --gateway "$gateway"
drawn ada user
drawn east host
drawn lab user
enrolled ada user
refuse 4 "one-time secret" "$htc" keys join "tcp://$gateway" --server head --key other.key --ring other.ring --once ada.once
mkdir -p "$top/homes/stranger/.config/htcsched"
expect 0 "$htc" keys new "$top/homes/stranger/.config/htcsched/key"
cp "$top/homes/ada/.config/htcsched/ring" "$top/homes/stranger/.config/htcsched/ring"
refused_as 4 'does not know our key.*htc keys enrol' stranger status --gateway "$gateway"
enrolled east host
refused_as 4 'does not know our key, or does not let it in' east status --gateway "$gateway"

# --- a user's key is a login of that user, and of nobody else ---
echo 'of ada' > input
as 0 ada submit --gateway "$gateway" --wait -i input -- cat input
as 0 ada logs --gateway "$gateway" 1.0
[ "$out" = 'of ada' ] || fail "logs: $out"
as 0 ada fetch --gateway "$gateway" 1 --to fetched
grep -r 'of ada' fetched > /dev/null || fail "fetched: $(find fetched)"
as 0 ada users --json --gateway "$gateway"
refused_as 4 "the key is ada's, not bob's" ada status --gateway "$gateway" --user bob
refused_as 4 'operator' ada user add eve --password-file "$PWD/password" --gateway "$gateway"
refused_as 1 'no login to end' ada logout --gateway "$gateway"
refused_as 1 'no option of it' ada down --gateway "$gateway"
refused_as 1 'two systems' ada status --gateway "$gateway" --dir "$dir"
expect 0 "${H[@]}" status --user bob --json
[ "$(json "$out" 'len(v["jobs"])')" = 0 ] || fail "bob has jobs: $out"

# --- one of a host that is no user's lets a login in ---
enrolled lab user
refused_as 4 "the key of lab is no user's.*htc login" lab status --gateway "$gateway"
as 0 lab login bob --password-file "$PWD/password" --gateway "$gateway"
as 0 lab submit --gateway "$gateway" -- true
[[ $out == *"job 2"* ]] || fail "bob submits: $out"
as 0 lab status --gateway "$gateway" --json
[ "$(json "$out" '[j["id"] for j in v["jobs"]]')" = '[2]' ] || fail "bob sees: $out"
refused_as 4 'job 1' lab logs --gateway "$gateway" 1.0
as 0 lab logout --gateway "$gateway"
refused_as 4 "the key of lab is no user's" lab status --gateway "$gateway"

# --- which system: an option, the environment, the user's configuration ---
gatewayless=$top/homes/ada/.config/htcsched/htc.ini
export HTC_GATEWAY=$gateway
as 0 ada status last
expect 0 "${H[@]}" users --json
[ "$(json "$out" 'len(v["users"])')" = 3 ] || fail "--dir is not what counts: $out"
unset HTC_GATEWAY
refused_as 3 'no system runs here' ada status
printf '[client]\ngateway = %s\n' "$gateway" > "$gatewayless"
as 0 ada status 1
printf '[client]\ngateway = %s\nserver = nobody\n' "$gateway" > "$gatewayless"
refused_as 4 'no key under that name' ada status
printf '[client]\ngatway = x\n' > "$gatewayless"
refused_as 1 'gatway' ada status
rm "$gatewayless"

# --- several addresses: the one that answers; what each said ---
as 0 ada status 1 --gateway "$dead,$gateway"
as 0 ada status 1 --gateway "$gateway,$dead"
refused_as 3 "no gateway serves: 127.0.0.1:1: .*refused; 127.0.0.1:2: .*refused" ada submit --gateway 127.0.0.1:1,127.0.0.1:2 --timeout 1 -- true
# --timeout ends the search too, which goes on for half a minute without it: how often is knocked says so, and a slow machine knocks less.
cat > knocks.py << 'END'
import socket, sys
at = socket.create_server(('127.0.0.1', 0))
print(at.getsockname()[1], flush=True)
while True:
    at.accept()[0].close()
    print('knock', flush=True)
END
python3 knocks.py > knocks &
knocked=$!
soon test -s knocks
refused_as 3 'hangs up|reset' ada du --gateway "127.0.0.1:$(head -n 1 knocks)" --timeout 1
kill $knocked
[ "$(grep -c knock knocks)" -le 10 ] || fail "--timeout 1 knocks $(grep -c knock knocks) times"
refused_as 1 'no list of HOST:PORT' ada status --gateway 127.0.0.1:1,,2

# --- revoked: whoever is connected is cut off, and not let in again ---
as 0 ada submit --gateway "$gateway" -- sleep 100
of ada wait last --gateway "$gateway" > waited.out 2>&1 &
waiting=$!
has_two() { "${H[@]}" status 3 --json > seen.out && grep '"running"' seen.out > /dev/null; }
soon has_two || fail "the job does not run: $(cat seen.out)"
expect 0 "$htc" keys revoke ada --ring "$dir/ring"
soon gone $waiting || fail "a user whose key was revoked goes on"
wait $waiting
[ $? = 4 ] || fail "htc wait ends with another code: $(cat waited.out)"
grep 'does not know our key' waited.out > /dev/null || fail "htc wait says: $(cat waited.out)"
refused_as 4 'does not know our key' ada status --gateway "$gateway"
expect 0 "${H[@]}" down --now
none_left
echo "all holds"
