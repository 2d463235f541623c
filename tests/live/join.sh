#!/bin/bash
# usage: join.sh PROGRAM_FOLDER KEYS_CLIENT OBJECT
# htc-agent --join: another "host" on this machine, reached over TCP with keys alone. Who is let in and who is not; jobs and flows that run here and
# there, steal from each other, and leave their outputs there; a host that is killed, that leaves, whose key is revoked.
client=$(realpath "$2") adders=$(realpath "$3")
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
gateway=127.0.0.1:$port store=127.0.0.1:$((port + 1))
joined=''
trap 'code=$?; [ -z "$joined" ] || kill -9 $joined 2> /dev/null; (exit $code); clean_up' EXIT

# --- the configuration ---
printf '[site.east]\nadapter = join\n' > bad.ini
refuse 1 'needs server.join and db.join' "${H[@]}" up --config bad.ini
printf '[server]\njoin = 0.0.0.0:%s\n' "$port" > bad.ini
refuse 1 'not 0.0.0.0' "${H[@]}" up --config bad.ini
printf '[site.local]\nusers = ada\n' > bad.ini
refuse 1 'not for adapter = fork' "${H[@]}" up --config bad.ini
cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[agent]
heartbeat_s = 1
lost_after_s = 4
[site.local]
cores = 1
[site.east]
adapter = join
[site.west]
adapter = join
users = ada:1001
END
expect 0 "${H[@]}" up --config head.ini
[ "$(stat -c %a "$dir/key")" = 600 ] || fail "the system's key has mode $(stat -c %a "$dir/key")"

# --- who is let in ---
printf '[agent]\norphan_after_s = 3\n' > agent.ini
J=("$bin/htc-agent" --join "$gateway" --dir "$top/east" --config "$PWD/agent.ini")
refuse 1 'needs --key FILE and --ring FILE' "${J[@]}" --slots 3
expect 0 "$htc" keys new stranger.key
expect 0 "$htc" keys show "$dir/key"
expect 0 "$htc" keys add head "$out" --role member --ring stranger.ring
refuse 4 'does not know our key.*htc keys enrol' "${J[@]}" --key stranger.key --ring stranger.ring
# enrolled NAME: a secret is printed, and shown.
enrolled()
{
    expect 0 "$htc" keys enrol "$1" --role host --once "$dir/once"
    printf '%s\n' "$out" > "$1.once"
    let_in() { "$htc" keys join "tcp://$store" --server head --role host --key "$1.key" --ring "$1.ring" --once "$1.once" > enrolled.out 2>&1; }
    soon let_in "$1" || fail "$1 is not enrolled: $(cat enrolled.out)"
    known() { grep -q "^host $1 current" "$dir/ring"; }
    soon known "$1" || fail "$1 is not in the ring"
}
enrolled nobody
is_told() { "${J[@]}" --key nobody.key --ring nobody.ring > nobody.out 2>&1; grep -q 'needs \[site.nobody\] with adapter = join' nobody.out; }
soon is_told || fail "a host without a site is told: $(cat nobody.out)"
enrolled east
enrolled west

# --- it is a site ---
start() { "${J[@]}" --key east.key --ring east.ring --slots 3 > joined.out 2>&1 & joined=$!; }
is_in() { grep -q "^joined $gateway with 3 slots" joined.out; }
has_slots() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = "$1" ]; }
start
soon is_in || fail "it does not join: $(cat joined.out)"
soon has_slots 4 || fail "slots: $("${H[@]}" agents)"
refuse 6 'in use by process' "${J[@]}" --key east.key --ring east.ring

# --- jobs: tasks run there, and what they leave is read through its host ---
expect 0 "${H[@]}" submit --wait -- sh -c 'echo "$HTC_SITE {}"; echo made > "$HTC_OUTPUT_DIR/made"; sleep 0.5' ::: 1 2 3 4 5 6 7 8
here=0 there=0
for i in 0 1 2 3 4 5 6 7; do
    expect 0 "${H[@]}" logs 1.$i
    [[ $out =~ ^(local|east)\ $((i + 1))$ ]] || fail "task $i wrote: $out"
    [ "${BASH_REMATCH[1]}" = east ] && there=$((there + 1)) || here=$((here + 1))
done
[ $there -ge 4 ] && [ $here -ge 1 ] || fail "$here tasks ran here and $there there"
[ "$(find "$top/east/data/out/1" -name made | wc -l)" = $there ] || fail "outputs: $(find "$top/east/data")"
expect 0 "${H[@]}" fetch 1 --to got
[ "$(cat got/*/made | grep -c made)" = 8 ] || fail "fetched: $(find got)"

# --- a flow: its tasks are stolen from one host by the other ---
printf "b: count=60 sh -c 'sleep 0.1; echo \$HTC_SITE >> sites'\n" > sites.flow
expect 0 "${H[@]}" flow run sites.flow --agents 4
[ "$(wc -l < sites)" = 60 ] || fail "$(wc -l < sites) lines of 60"
[ "$(grep -c east sites)" -ge 10 ] && [ "$(grep -c local sites)" -ge 5 ] || fail "who ran: $(sort sites | uniq -c)"
cat > graph.flow << 'END'
first: sh -c 'echo $HTC_SITE'
left: after=first sh -c 'sleep 0.2; echo $HTC_SITE'
right: after=first sh -c 'sleep 0.2; echo $HTC_SITE'
more: after=first sh -c 'sleep 0.2; echo $HTC_SITE'
last: after=left,right,more sh -c 'echo end'
END
expect 0 "${H[@]}" flow run graph.flow --agents 4 --json
flow=$(json "$out" 'v["flow"]')
for task in first left right more; do
    expect 0 "${H[@]}" flow logs "$flow.$task"
    [[ $out =~ ^(local|east)$ ]] || fail "task $task wrote: $out"
done

# --- functions add tasks here and there ---
cp "$adders" adders.so
echo "root: adds=output @call ./adders.so grow_at '6 $PWD/adders.so'" > grown.flow
expect 0 "${H[@]}" flow run grown.flow --agents 4 --json
[ "$(json "$out" 'v["done"]')" = 127 ] && [ "$(json "$out" 'v["added"]')" = 126 ] || fail "the tree of functions: $out"
[ "$(wc -l < grown)" = 127 ] && [ "$(grep -c east grown)" -ge 20 ] && [ "$(grep -c local grown)" -ge 5 ] || fail "who ran: $(sort grown | uniq -c)"

# --- the store: a host reaches the flows of those whom it serves ---
for key in f/000003e900000001/h w/000003e900000001/0000000000000001; do expect 0 "$htc" kv --store "unix:$dir/kvd.sock" put $key 'of ada'; done
# reached STATUS HOST OP KEY
reached()
{
    expect 0 "$client" host "tcp://$store" "$2.key" "$2.ring" "$3" "$4"
    [ "$out" = "$1" ] || fail "$2 asks to $3 $4: $out, not $1"
}
own=f/0000000000000001
reached HTC_OK east get $own/h
reached HTC_OK east scan $own/
for key in f/000003e900000001/h w/000003e900000001/0000000000000001 u/root o/ a/ g/agent g/flow p/x; do
    reached HTC_EDENIED east get $key
    reached HTC_EDENIED east put $key
done
for prefix in f/ f/0 f/000003e9 w/ u/ j/; do reached HTC_EDENIED east scan $prefix; done
reached HTC_OK west get f/000003e900000001/h
reached HTC_OK west put w/000003e900000001/0000000000000002
for key in $own/h f/00000000 u/root; do reached HTC_EDENIED west get $key; done
reached HTC_EDENIED nobody get $own/h
[ "$("$htc" kv --store "unix:$dir/kvd.sock" get f/000003e900000001/h)" = 'of ada' ] || fail "a record of ada's was changed"

# --- a host that is away ---
kill -9 $joined
wait $joined 2> /dev/null
soon has_slots 1 || fail "the slots of a host that is gone: $("${H[@]}" agents)"
for i in 0 1 2 3 4 5 6 7; do
    "${H[@]}" logs 1.$i > log.out 2> log.err && continue
    grep -q "stdout of 1.$i: .* away: east (node $(uname -n), outputs in $top/east/data/out)" log.err || fail "logs of a task whose outputs are away: $(cat log.err)"
    away=$i
done
[ -n "${away:-}" ] || fail "all outputs are here"
expect 4 "${H[@]}" fetch "1.$away" --to lost
[[ $err == *"are on node $(uname -n), whose host is away"* ]] || fail "fetch of outputs that are away: $err"
# Its agents have gone on; a new start of it takes their place.
start
soon is_in || fail "it does not join again: $(cat joined.out)"
soon has_slots 4 || fail "slots: $("${H[@]}" agents)"
expect 0 "${H[@]}" logs "1.$away"
[[ $out == east* ]] || fail "task $away wrote: $out"
expect 0 "${H[@]}" rm 1
removed() { [ -z "$(find "$top/east/data/out" -name made)" ]; }
soon removed || fail "outputs that were removed: $(find "$top/east/data/out")"

# --- the gateway is killed: tasks there go on ---
expect 0 "${H[@]}" submit -- sh -c "echo {} >> $PWD/ran; sleep 2" ::: 1 2 3 4
soon test -s ran
daemon_pid htc-gateway
kill -9 "$pid"
job=$(json "$("${H[@]}" status --json 2> /dev/null || soon "${H[@]}" status --json)" 'v["jobs"][0]["id"]' 2> /dev/null || echo last)
ended() { "${H[@]}" wait "$job" > wait.out 2>&1; }
soon ended || fail "the job does not end: $(cat wait.out)"
[ "$(sort ran | uniq -c | awk '{ print $1 }' | sort -u)" = 1 ] || fail "these ran more than once: $(sort ran | uniq -c)"
soon has_slots 4 || fail "slots after a new start of the gateway: $("${H[@]}" agents)"

# --- it leaves: what runs there ends first ---
expect 0 "${H[@]}" submit -- sh -c "echo {} >> $PWD/began; sleep 1; echo {} >> $PWD/left" ::: 1 2 3 4
four() { [ -s began ] && [ "$(wc -l < began)" = 4 ]; }
soon four
kill $joined
wait $joined || fail "it ends with $?: $(cat joined.out)"
joined=''
expect 0 "${H[@]}" wait last
[ "$(wc -l < left)" = 4 ] || fail "these ended: $(cat left)"

# --- a key that is revoked is let in no more, nor is who is connected with it ---
start
soon is_in || fail "it does not join once more: $(cat joined.out)"
expect 0 "$htc" keys revoke east --ring "$dir/ring"
soon gone "$joined" || fail "a host whose key was revoked goes on"
wait $joined
[ $? = 4 ] || fail "it ends: $(cat joined.out)"
joined=''
grep -q 'htc keys enrol' joined.out || fail "it says: $(cat joined.out)"
soon has_slots 1 || fail "slots: $("${H[@]}" agents)"
expect 0 "${H[@]}" down --now
none_left
echo "all holds"
