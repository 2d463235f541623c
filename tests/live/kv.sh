#!/bin/bash
# htc kv: the store from the command line, and a backup that is damaged at every byte.
mortal_program=$(realpath "$2")
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir" kv)

expect 3 "${H[@]}" get a
expect 0 "$htc" --dir "$dir" up --slots 1
expect 4 "${H[@]}" get a
expect 0 "${H[@]}" put a 'one two'
version=${out#version }
expect 0 "${H[@]}" get a
[ "$out" = 'one two' ] || fail "get said: $out"
expect 6 "${H[@]}" cas a x --version $((version + 1))
expect 6 "${H[@]}" cas a x --seen nothing
expect 0 "${H[@]}" cas a three --version "$version"
expect 0 "${H[@]}" cas a four --seen three
expect 6 "${H[@]}" cas a five --version 0
expect 0 "${H[@]}" cas new first --version 0
expect 0 "${H[@]}" append a '+'
expect 0 "${H[@]}" get a
[ "$out" = 'four+' ] || fail "get said: $out"
expect 0 "${H[@]}" add counter 40
expect 0 "${H[@]}" add counter 2
[ "$out" = 42 ] || fail "add said: $out"
expect 2 "${H[@]}" add a
expect 1 "${H[@]}" add counter 1x
expect 1 "${H[@]}" put a
expect 1 "${H[@]}" put a b --file c
expect 1 "${H[@]}" cas a b
expect 1 "${H[@]}" nonsense
expect 1 "${H[@]}"
expect 0 "${H[@]}" --help
expect 1 "${H[@]}" get "$(printf 'k%.0s' {1..401})"

# An option of another command is refused, and says whose it is; nothing is changed. --help shows a command's own.
expect 0 "${H[@]}" get a
for words in 'put a b --version 1' 'put a b --seen x' 'append a b --version 1' 'append a b --seen x' 'delete a --version 1' \
    'get a --file x' 'scan --prefix a' 'add counter --namespace n' 'put a b --reconcile' 'get a --context 00' 'backup x.kv --replace' \
    'fsck --store unix:x' 'join --weight 2' 'get a --stop'; do
    expect 1 "${H[@]}" $words
done
"${H[@]}" put a b --version 3 2> refusal && fail "put took --version"
grep -q 'kv put: --version is no option of it, but of cas' refusal || fail "put --version said: $(< refusal)"
"${H[@]}" get a --file x 2> refusal && fail "get took --file"
grep -q 'but of put, append and cas' refusal || fail "get --file said: $(< refusal)"
"${H[@]}" add a --namespace x 2> refusal && fail "add took --namespace"
grep -q 'an eventual namespace has get, put and delete' refusal || fail "add --namespace said: $(< refusal)"
expect 0 "${H[@]}" get a
[ "$out" = 'four+' ] || fail "an option that was refused left: $out"
for words in 'put:file namespace context store' 'append:file store' 'cas:file version seen' 'scan:values limit' 'restore:replace' 'fsck:' \
    'leave:no-wait' 'watch:prefix count from'; do
    expect 0 "${H[@]}" "${words%%:*}" --help
    for option in file version seen values limit context prefix count from replace no-wait weight stop reconcile; do
        shown=$(grep -cE -- "^ +--$option( |\$)" <<< "$out")
        wanted=$(grep -cw -- "$option" <<< "${words#*:}")
        [ "$shown" = "$wanted" ] || fail "kv ${words%%:*} --help shows --$option $shown times: $out"
    done
done
expect 0 "${H[@]}" --help
grep -q -- '--version N *cas: the version seen' <<< "$out" || fail "kv --help said: $out"

# What goes wrong says where, why, and what to do next.
refuse 3 'redis://127.0.0.1:1: Connection refused: look whether Redis.* redis-cli -h 127.0.0.1 -p 1 ping' "${H[@]}" get a --store redis://127.0.0.1:1
refuse 3 "redis\\+unix:$top/none: .*redis-cli -s $top/none ping" "${H[@]}" get a --store "redis+unix:$top/none"
refuse 4 'work: there is no store: neither here nor in store/.*: name a member' "$htc" kv fsck "$top/work"
refuse 4 'work: there is no store: neither here nor in store/.*: name a member' "$htc" kv fsck --dir "$top/work"
refuse 1 'one word too many' "$htc" kv fsck --dir "$top/work" "$top/work"
refuse 1 'whose files are to be looked at' "$htc" kv fsck
expect 0 "$htc" kv dump --help
[ "$(grep -c -- '--dir DIR' <<< "$out")" = 1 ] || fail "kv dump --help says two things of --dir: $out"
refuse 2 'a: its value is no number in decimal.*: htc kv get' "${H[@]}" add a

# Any bytes, also through a pipe.
printf '\0\377\n' > bytes
"${H[@]}" put bytes --file - < bytes > /dev/null || fail "put from standard input"
"${H[@]}" get bytes > bytes.back || fail "get"
cmp bytes bytes.back || fail "other bytes came back"
expect 0 "${H[@]}" get bytes --json
[ "$(json "$out" 'v["value_hex"]')" = 00ff0a ] || fail "get --json said: $out"

for i in {100..125}; do
    "${H[@]}" put "many/$i" "value $i" > /dev/null || fail "put many/$i"
done
expect 0 "${H[@]}" scan many/ --values --limit 2
[ "$out" = $'many/100\tvalue 100\nmany/101\tvalue 101' ] || fail "scan said: $out"
expect 0 "${H[@]}" scan many/ --json
[ "$(json "$out" '"%d %s" % (len(v), v[25]["key"])')" = '26 many/125' ] || fail "scan --json said: $out"

# A watch: how things are, and what becomes of them.
expect 0 "${H[@]}" put watched one
first=${out#version }
expect 0 "${H[@]}" watch watched --count 1
[ "$out" = $'value\twatched\t'"$first"$'\tone' ] || fail "watch said: $out"
: > watched.json
"${H[@]}" watch watched --from "$first" --count 2 --json > watched.json &
watcher=$!
soon grep -q '"current"' watched.json
"${H[@]}" put watched two > /dev/null || fail "put watched"
soon grep -q '"two"' watched.json
"${H[@]}" delete watched > /dev/null || fail "delete watched"
wait "$watcher" || fail "watch ended with $?"
python3 - "$first" watched.json << 'EOF' || fail "watch --json said: $(cat watched.json)"
import json, sys
told = [json.loads(line) for line in open(sys.argv[2])]
assert [t['event'] for t in told] == ['current', 'value', 'deleted'], told
assert told[1]['key'] == 'watched' and told[1]['value'] == 'two', told
assert int(sys.argv[1]) < told[1]['version'] < told[2]['version'], told
EOF
expect 0 "${H[@]}" watch --prefix many/ --count 26
[ "$(tail -1 <<< "$out" | cut -f 1,2,4)" = $'value\tmany/125\tvalue 125' ] || fail "watch --prefix said: $out"
expect 1 "${H[@]}" watch
expect 1 "${H[@]}" watch a --prefix b
expect 1 "${H[@]}" watch --prefix a --from 3

# One that waits longer is answered by a store that was stopped; one that does not gives up first.
daemon_pid htc-kvd
kill -STOP "$pid"
"${H[@]}" get a --timeout 1h > patient 2>&1 &
patient=$!
expect 6 "${H[@]}" get a --timeout 1s
kill -CONT "$pid"
wait "$patient" || fail "get --timeout 1h: $(< patient)"
# A watch says that nobody answers, and that somebody does again.
"${H[@]}" watch a --timeout 0.2s --count 2 > watched.away 2> away &
watcher=$!
soon grep -q value watched.away
kill -STOP "$pid"
soon grep -q 'no answer: the watch goes on when the store is back' away || fail "watch of a stopped store said: $(< away)"
kill -CONT "$pid"
soon grep -q 'the store answers again' away || fail "watch of a store that is back said: $(< away)"
"${H[@]}" append a '' > /dev/null || fail "append a"
wait "$watcher" || fail "watch ended with $?: $(< away)"
[ "$(< patient)" = 'four+' ] || fail "get --timeout 1h said: $(< patient)"
for time in 0s 367-00:00:00 soon; do
    expect 1 "${H[@]}" get a --timeout "$time"
done

# A backup: whole, into an empty store and over a changed one.
expect 0 "${H[@]}" backup all.kv
expect 0 "${H[@]}" backup all.kv
ln -s all.kv link.kv
mkfifo pipe.kv
for no_file in link.kv pipe.kv . /dev/null; do
    expect 1 "${H[@]}" backup "$no_file"
done
[ -L link.kv ] && [ -p pipe.kv ] && [ -c /dev/null ] || fail "a backup took the place of what is no file"
"${H[@]}" rate 5 2> refusal && fail "a store without members took a rate"
grep -q 'htc: .' refusal || fail "rate at a store without members said: $(< refusal)"
"${H[@]}" rebalance 0000000000000001 --weight 2 2> refusal && fail "a store without members took a weight"
grep -q 'htc: .' refusal || fail "rebalance at a store without members said: $(< refusal)"
[ "$(stat -c %a all.kv)" = 600 ] || fail "the backup has mode $(stat -c %a all.kv)"
expect 0 "${H[@]}" put many/100 changed
expect 0 "${H[@]}" delete many/101
expect 4 "${H[@]}" delete many/101
expect 0 "${H[@]}" restore all.kv --json
[ "$(json "$out" 'v["restored"]')" = 1 ] || fail "restore said: $out"
expect 0 "${H[@]}" get many/100
[ "$out" = changed ] || fail "restore replaced what exists"
expect 0 "${H[@]}" restore all.kv --replace
expect 0 "${H[@]}" get many/100
[ "$out" = 'value 100' ] || fail "restore --replace left: $out"

# A ttl from the command line: told by a GET, gone without it, and a put without one takes it away.
mortal=("$mortal_program" "unix:$dir/kvd.sock")
expect 0 "${H[@]}" put short x --ttl 1h
expect 0 "${mortal[@]}" short '' - 0
[ "${out#* }" = free ] && [ "${out% *}" -gt 1800 ] && [ "${out% *}" -le 3600 ] || fail "put --ttl left: $out"
expect 0 "${H[@]}" put short x
expect 0 "${mortal[@]}" short '' - 0
[ "$out" = '0 free' ] || fail "put without --ttl left: $out"
expect 0 "${H[@]}" put short x --ttl 0.2s
ended() { ! "${H[@]}" get short > /dev/null 2>&1; }
soon ended
expect 4 "${H[@]}" get short
expect 0 "${H[@]}" put short x --ttl 60
expect 0 "${mortal[@]}" short '' - 0
[ "${out#* }" = free ] && [ "${out% *}" -le 60 ] || fail "a number alone is seconds: $out"
# Beyond the longest there is, which is 292 years, it is that.
for time in 110000d 9300000000 9300000000s 999999999999999999; do
    expect 0 "${H[@]}" put short x --ttl $time
    expect 0 "${mortal[@]}" short '' - 0
    [ "${out#* }" = free ] && [ "${out% *}" -ge 9223372000 ] || fail "put --ttl $time left: $out"
done
expect 0 "${H[@]}" delete short
expect 1 "${H[@]}" put short x --ttl 0
expect 1 "${H[@]}" put short x --ttl soon
expect 1 "${H[@]}" append short x --ttl 1h
expect 1 "${H[@]}" put short x --ttl 1h --namespace e
expect 0 "${H[@]}" join --json
[ "$(json "$out" '"--join" in v["how"]')" = True ] || fail "join --json said: $out"

# What has an end of its own comes back with what is left of it; what was bound to a lease does not, unless it is asked for.
expect 0 "${mortal[@]}" brief soon ttl 3600
expect 0 "${mortal[@]}" bound gone lease 3600
expect 0 "${mortal[@]}" bound '' - 0
[ "$out" = '0 leased' ] || fail "a GET of a bound key said: $out"
expect 0 "${H[@]}" backup mortal.kv
grep -qE '^[0-9]+ keys, 1 with a ttl, 1 bound to a lease$' <<< "$out" || fail "backup said: $out"
expect 0 "${H[@]}" delete brief
expect 0 "${H[@]}" delete bound
expect 0 "${H[@]}" restore mortal.kv
grep -q ' 1 were bound to a lease and are left out' <<< "$out" || fail "restore said: $out"
expect 4 "${H[@]}" get bound
expect 0 "${mortal[@]}" brief '' - 0
[ "${out#* }" = free ] && [ "${out% *}" -gt 1800 ] && [ "${out% *}" -le 3600 ] || fail "what was restored: $out"
expect 0 "${H[@]}" restore mortal.kv --leased --json
[ "$(json "$out" '"%d %d" % (v["restored"], v["leased"])')" = '1 0' ] || fail "restore --leased said: $out"
expect 0 "${mortal[@]}" bound '' - 0
[ "$out" = '0 free' ] || fail "what was restored: $out"

# A backup of the version before, which knows neither.
base64 -d > old.kv <<< SFRDS1ZCMDEFAAAAAwAAAAcAAAAAAAAAb2xkL2FvbmV+ehG2O21GmgUAAAADAAAACQAAAAAAAABvbGQvYnR3b76sVq0D2RjmAAAAAAAAAAACAAAAAAAAAMJQwxHHIepZ
expect 0 "${H[@]}" restore old.kv
[ "$out" = '2 keys restored' ] || fail "restore of version 1 said: $out"
expect 0 "${H[@]}" get old/b
[ "$out" = 'two' ] || fail "restore of version 1 left: $out"

# Cut short or changed anywhere: refused, with the place, before anything is put back.
expect 0 "${H[@]}" delete many/125
size=$(stat -c %s all.kv)
for ((i = 0; i < size; i += 97)); do
    head -c "$i" all.kv > bad.kv
    code=$((i < 8 ? 2 : 70)) # what does not begin as one is no backup
    expect "$code" "${H[@]}" restore bad.kv
    cp all.kv bad.kv
    printf '\x5a' | dd of=bad.kv bs=1 seek="$i" conv=notrunc 2> /dev/null
    cmp -s all.kv bad.kv || expect "$code" "${H[@]}" restore bad.kv
done
echo more >> bad.kv
expect 70 "${H[@]}" restore bad.kv
expect 4 "${H[@]}" get many/125
expect 2 "${H[@]}" restore none.kv
echo none > no.kv
refuse 2 'no.kv: this is no backup' "${H[@]}" restore no.kv
expect 0 "$htc" --dir "$dir" down
