#!/bin/bash
# htc kv and htc-kvd used wrongly, or where something is in the way: the exit code, and what is said of it.
source "$(dirname "$0")/live.sh"
kvd=$bin/htc-kvd
dir=$top/state

# keeper DIR OPTIONS...: a store of one process in the background, until it is ready; its process into pid.
keeper()
{
    local dir=$1
    shift
    : > "$top/ready"
    "$kvd" --dir "$dir" "$@" > "$top/ready" 2> "$top/said" &
    pid=$!
    soon grep -q '^ready: ' "$top/ready" || fail "htc-kvd $* did not start: $(< "$top/said")"
}

end()
{
    kill "$pid" && wait "$pid" || fail "htc-kvd ended with $?: $(< "$top/said")"
}

# A directory of one engine is none of another: that is the command line's fault.
for engines in 'log lmdb' 'lmdb log'; do
    read -r made other <<< "$engines"
    keeper "$dir-$made" --engine "$made"
    end
    refuse 1 "was made with engine $made, not $other: take engine $made, or another directory" "$kvd" --dir "$dir-$made" --engine "$other"
done

# Twice in one directory, where none can be made, with a word of the other way to start it, at a name.
keeper "$dir-log" --engine log
refuse 6 "another process .*give another --dir" "$kvd" --dir "$dir-log" --engine log
end
touch no-dir
refuse 4 'cannot create no-dir/state: Not a directory: give a --dir that you may write' "$kvd" --dir no-dir/state --engine log
refuse 1 '--config is for the store of htc up: it does not go with --engine' "$kvd" --dir "$dir-log" --config x.ini --engine log
refuse 1 'localhost is not an IP address: take 127.0.0.1' "$kvd" --dir "$dir-log" --engine log --resp localhost:0
refuse 4 'nostore: there is no such directory' "$htc" kv cluster --stop --dir nostore
mkdir empty
refuse 3 'empty: no cluster runs here' "$htc" kv cluster --stop --dir empty

# A dump where a file is, where none can be, and where the disk is full; nothing is left where there is nothing to dump.
echo mine > there
refuse 4 'there: cannot write: File exists: name a file that does not exist yet' "$htc" kv dump "$dir-log" there
[ "$(< there)" = mine ] || fail "a dump has changed what was there"
refuse 4 'nowhere/x: cannot write: No such file or directory: name another place' "$htc" kv dump "$dir-log" nowhere/x
refuse 4 'there is no store' "$htc" kv dump "$top/work" new
refuse 4 'no key of a namespace none' "$htc" kv dump "$dir-log" new --namespace none
[ ! -e new ] || fail "a dump of nothing has left a file"
"$htc" kv dump "$top/work" > new 2> "$top/err" && fail "a dump of nothing has been made"
[ ! -s new ] || fail "a dump of nothing has written $(stat -c %s new) bytes"
"$htc" kv dump "$dir-log" > /dev/full 2> "$top/err"
[ $? = 6 ] && grep -q 'standard output: cannot write: No space left' "$top/err" || fail "a dump to a full disk said: $(< "$top/err")"

# A number below zero is a value, and so is anything behind --.
H=("$htc" --dir "$dir-lmdb" kv)
keeper "$dir-lmdb" --engine lmdb
expect 0 "${H[@]}" put below -5
expect 0 "${H[@]}" get below
[ "$out" = -5 ] || fail "put -5 left: $out"
expect 0 "${H[@]}" add below -7
[ "$out" = -12 ] || fail "add -7 said: $out"
expect 0 "${H[@]}" cas below -.5 --seen -12
expect 0 "${H[@]}" put dash -- -x
expect 0 "${H[@]}" get dash
[ "$out" = -x ] || fail "put -- -x left: $out"

# Who was too late hears what is there now, as an object of the error.
expect 0 "${H[@]}" get dash --json
version=$(json "$out" 'v["version"]')
for seen in '--seen no' "--version $((version + 1))"; do
    expect 6 "${H[@]}" cas dash new $seen --json
    [ "$(json "$out" '"%s %s %d %s" % (v["error"], v["key"], v["version"], v["value"])')" = "HTC_MISMATCH dash $version -x" ] ||
        fail "cas $seen --json said: $out"
    [[ "$(json "$out" 'v["message"]')" = *"version $version now" ]] || fail "cas $seen --json said: $out"
done
expect 6 "${H[@]}" cas nothing new --version 7 --json
[ "$(json "$out" '"%s %d %s" % (v["error"], v["version"], "value" in v)')" = 'HTC_MISMATCH 0 False' ] || fail "cas of no key said: $out"
refuse 1 '--limit: it is 1 or more: leave it out for all' "${H[@]}" scan --limit 0
refuse 1 '--count: it is 1 or more: leave it out' "${H[@]}" watch dash --count 0
refuse 1 'unknown option -x: .*stands behind --$' "${H[@]}" put dash -x
end

# With keys to a port that has none, without to one that wants them, and keys that are not there.
expect 0 "$htc" keys new own.key
public=$out
expect 0 "$htc" keys add me "$public" --ring ring --role member
listen=$(python3 "$ports" 2 $$)
resp=$((listen + 1))
keeper "$dir-lmdb" --engine lmdb --listen "127.0.0.1:$listen" --key own.key --ring ring --resp "127.0.0.1:$resp"
expect 4 "$htc" kv get none --store "tcp://127.0.0.1:$listen" --key own.key --ring ring
refuse 4 "tcp://127.0.0.1:$listen: .* show a key, and none is given: --key FILE and --ring FILE" "$htc" kv get a --store "tcp://127.0.0.1:$listen"
# What Redis' protocol makes of a handshake depends on its bytes: an answer that is none, or silence.
"$htc" kv get a --store "tcp://127.0.0.1:$resp" --key own.key --ring ring --timeout 2s 2> "$top/err"
[[ $? = [36] ]] && grep -q "tcp://127.0.0.1:$resp: .*: is it the port of a member's --listen?" "$top/err" || fail "keys at a port without: $(< "$top/err")"
if ! "$htc" kv get a --store "redis://127.0.0.1:$listen" 2>&1 | grep "not the address of a store" > /dev/null; then
    refuse 3 'this is no Redis: a port of htc-kvd.s --listen speaks with keys' "$htc" kv get a --store "redis://127.0.0.1:$listen"
fi
refuse 4 'there is no key file gone: htc keys new FILE makes one' "$htc" kv get a --store "tcp://127.0.0.1:$listen" --key gone --ring ring
refuse 4 'there is no ring file gone: htc keys add' "$htc" kv get a --store "tcp://127.0.0.1:$listen" --key own.key --ring gone
refuse 4 'there is no key file gone: htc keys new FILE makes one' "$kvd" --dir "$top/keyed" --listen 127.0.0.1:0 --key gone --ring ring
end

# A password of Redis' clients.
echo secret > password
chmod 600 password
keeper "$dir-lmdb" --engine lmdb --resp "127.0.0.1:$resp" --resp-password-file password
refuse 4 'NOAUTH .*htc kv --password-file FILE' "$htc" kv get a --store "redis://127.0.0.1:$resp"
refuse 2 'it has to run scripts' "$htc" kv get a --store "redis://127.0.0.1:$resp" --password-file password
end

# One store a directory: who looks for it there would find the other one.
port=$(($(python3 "$ports" 5 $$) + 1)) # and the one before it
refuse 4 "state-lmdb: there is the store of htc up, or of an htc-kvd, here: give another --dir" \
    "$htc" kv cluster --dir "$dir-lmdb" --members 1 --base-port "$port"
[ ! -e "$dir-lmdb/1" ] || fail "a cluster has left something in the directory of another store"
expect 0 "$htc" kv cluster --dir "$top/cluster" --members 1 --base-port "$port"
for words in '--new-member' '--engine log'; do
    # shellcheck disable=SC2086
    refuse 4 "cluster: a local cluster is here, .*: give another --dir" "$kvd" --dir "$top/cluster" $words
done
refuse 4 "cluster: the store of htc kv cluster is here: give another --dir" "$htc" --dir "$top/cluster" up
[ ! -e "$top/cluster/store" ] || fail "something is left in the directory of a cluster"
expect 4 "$htc" kv cluster --dir "$top/cluster" --base-port $((port + 1))
# Who has both in one directory since an earlier build may start each of them.
cp "$top/cluster/cluster" "$dir-lmdb/cluster"
keeper "$dir-lmdb" --engine lmdb
end
rm "$dir-lmdb/cluster"
expect 0 "$htc" kv cluster --stop --dir "$top/cluster"
refuse 3 "htc kv cluster --dir $top/cluster starts it" "$htc" --dir "$top/cluster" kv get a

# Who knows nobody that could let it in says so.
expect 0 "$kvd" --dir "$top/lonely" --new-member
"$kvd" --dir "$top/lonely" --engine log --join "unix:$top/lonely/kvd.sock" > "$top/ready" 2> "$top/said" &
pid=$!
soon grep -q 'in no store, and no other one is named' "$top/said" || fail "a member that nobody can let in said: $(< "$top/said")"
end
[ "$(grep -c 'no other one is named' "$top/said")" = 1 ] || fail "more than once: $(< "$top/said")"

# A port that is taken: nothing is made before it is known, and one that is known later is no fate.
echo > held
python3 -S -c 'import socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("held", flush=True)
time.sleep(3600)' "$port" > held &
holder=$!
trap 'code=$?; kill $holder 2> /dev/null; wait $holder 2> /dev/null; (exit $code); clean_up' EXIT
soon grep -q held held
C=("$htc" kv cluster --members 2)
refuse 6 "--base-port: port $port of 127.0.0.1 is in use by another process: give another one" "${C[@]}" --dir "$top/late" --base-port "$port"
[ ! -e "$top/late/cluster" ] && [ ! -e "$top/late/1" ] || fail "a cluster without a port has left something"
expect 0 "${C[@]}" --dir "$top/late" --base-port $((port + 1)) --durability memory
expect 0 "$htc" kv cluster --stop --dir "$top/late"
refuse 3 'a member did not start: .*in use' "$htc" kv cluster --dir "$top/cluster"
refuse 4 '--engine differs' "$htc" kv cluster --dir "$top/cluster" --base-port $((port + 3)) --engine lmdb
refuse 3 'a member did not start: .*in use' "$htc" kv cluster --dir "$top/cluster"
expect 0 "$htc" kv cluster --dir "$top/cluster" --base-port $((port + 3))
[[ $out = *"127.0.0.1:$((port + 3))"* ]] || fail "at another port: $out"
expect 0 "$htc" kv cluster --stop --dir "$top/cluster"
refuse 1 '--base-port: this is no port' "$htc" kv cluster --dir "$top/cluster" --base-port 0
# Nor when one is to be added: what runs goes on as it is.
expect 0 "$htc" kv cluster --dir "$top/one" --members 1 --base-port $((port - 1))
refuse 6 "--base-port: port $port of 127.0.0.1 is in use by another process: end what holds it" "$htc" kv cluster --dir "$top/one" --members 2
[ ! -e "$top/one/2" ] || fail "a member without a port has left something"
expect 0 "$htc" kv cluster --dir "$top/one"
expect 0 "$htc" kv cluster --stop --dir "$top/one"
kill "$holder" && wait "$holder" 2> /dev/null
none_left
