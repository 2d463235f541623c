#!/bin/bash
# usage: stores_redis.sh PROGRAM_FOLDER LIVE_STORE
# The requests of stores.sh to a real Redis, also while its connections are cut again and again. Skipped where none is installed.
live_store=$(realpath "$2")
source "$(dirname "$0")/live.sh"

# (Debian's redis-tools has the server too, under the name of one of its tools; it starts no service.)
server=$(command -v redis-server || command -v redis-check-rdb)
if [ -z "$server" ] || ! command -v redis-cli > /dev/null; then
    skip "no Redis is installed (Debian's redis-tools)"
fi

redis='' killer=''
trap 'code=$?; kill $redis $killer 2> /dev/null; wait $redis 2> /dev/null; (exit $code); clean_up' EXIT

hold() {
    "$live_store" "$@" || fail "Redis does not hold: $*"
}

(exec -a redis-server "$server" --port 0 --unixsocket "$top/redis.sock" --save '' --appendonly no --dir "$top" > "$top/redis.log" 2>&1) &
redis=$!
answers() { redis-cli -s "$top/redis.sock" ping > /dev/null 2>&1; }
soon answers || fail "Redis does not answer: $(tail -n 20 "$top/redis.log")"
hold "redis+unix:$top/redis.sock"
hold -p -n 500 "redis+unix:$top/redis.sock"
while redis-cli -s "$top/redis.sock" client kill type normal skipme yes > "$top/killed.now" 2>&1; do
    cat "$top/killed.now" >> "$top/killed"
    sleep 0.03
done &
killer=$!
cut=0
for ((i = 0; i < 20 && cut <= 20; i++)); do # on a busy machine few are cut in one round
    hold -b -n 3000 "redis+unix:$top/redis.sock"
    hold -b -p -n 500 "redis+unix:$top/redis.sock"
    cut=$(awk '{ n += $1 } END { print n + 0 }' "$top/killed" 2> /dev/null)
done
kill $killer
wait $killer 2> /dev/null
echo "connections cut: $cut"
[ "$cut" -gt 20 ] || fail "hardly a connection was cut"
kill $redis
wait $redis
redis='' killer=''
