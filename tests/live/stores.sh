#!/bin/bash
# usage: stores.sh PROGRAM_FOLDER LIVE_STORE
# The same requests to stores that htcsched/store.h can open: inside a handle, behind a member of ours. (Those of others: stores_redis.sh,
# stores_etcd.sh.)
live_store=$(realpath "$2")
source "$(dirname "$0")/live.sh"

member='' cluster=''
trap 'code=$?; [ -z "$cluster" ] || "$htc" kv cluster --dir "$cluster" --stop > /dev/null; kill $member 2> /dev/null; wait $member 2> /dev/null; (exit $code); clean_up' EXIT

hold() {
    "$live_store" "$@" || fail "the store $* does not hold"
}

hold memory:
hold -p memory:

expect 0 "$htc" --dir "$top/state" up --slots 1
hold "unix:$top/state/kvd.sock"
hold -p -n 300 "unix:$top/state/kvd.sock"

# In the loop of the example: what it puts it is told, and what another client puts while it waits.
mkfifo lines
says_all() { [ "$(sort says)" = "$(printf 'notes/%s\n' "$@")" ]; }
for store in memory: "unix:$top/state/kvd.sock"; do
    "$bin/store-poll" "$store" < lines > says &
    polling=$!
    exec 7> lines
    printf '%s\n' 'a one' 'b two words' >&7
    soon says_all 'a is one' 'b is two words' || fail "store-poll $store says $(cat says)"
    if [ "$store" != memory: ]; then
        expect 0 "$htc" kv --store "$store" put notes/c three
        soon says_all 'a is one' 'b is two words' 'c is three' || fail "store-poll is not told: $(cat says)"
    fi
    exec 7>&-
    wait $polling || fail "store-poll $store ends with $?"
done
expect 0 "$htc" --dir "$top/state" down

for engine in log lmdb; do
    "$bin/htc-kvd" --dir "$top/$engine" --engine $engine > "$top/$engine.ready" 2> "$top/err" &
    member=$!
    until grep -qs ready "$top/$engine.ready"; do
        gone $member && fail "no member with engine $engine: $(cat "$top/err")"
        sleep 0.1
    done
    hold "unix:$top/$engine/kvd.sock"
    kill $member
    wait $member || fail "the member with engine $engine ends with $?"
    member=''
done

# A cluster of three: every member answers for all.
base=$(python3 "$ports" 3 $$)
cluster=$top/cluster
expect 0 "$htc" kv cluster --dir "$cluster" --members 3 --base-port "$base" --durability interval
# (The largest values are large.py's.)
hold -n 200 -v 4194304 "unix:$cluster/2/kvd.sock"
# All three named, and the one that is asked first is killed meanwhile: the next one goes on, and knows what was made already.
"$live_store" -b -n 500 "unix:$cluster/1/kvd.sock,unix:$cluster/2/kvd.sock,unix:$cluster/3/kvd.sock" > "$top/three" 2>&1 &
asking=$!
sleep 0.3
read -r first _ < "$cluster/1/pid"
kill -9 "$first"
soon gone "$first"
wait $asking || fail "three members do not hold while one is killed: $(cat "$top/three")"
cat "$top/three"
expect 0 "$htc" kv --store "unix:$cluster/1/kvd.sock,unix:$cluster/2/kvd.sock" put after all
refuse 3 'nobody listens there|refused' "$htc" kv --store "unix:$cluster/1/kvd.sock" put after all
expect 0 "$htc" kv cluster --dir "$cluster" --stop
cluster=''

# Nobody there is said at once, with the address.
"$live_store" "unix:$top/none.sock" 2> says && fail "opened what is not there"
grep -q "none.sock: nobody listens there" says || fail "it said: $(cat says)"
