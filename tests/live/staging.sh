#!/bin/bash
# usage: staging.sh PROGRAM_FOLDER
# What tasks at a site beyond this machine read: brought there once, whatever the number of tasks and agents; kept within its bound; brought anew when it
# has gone; gone on with after its host was killed; of its owner's alone.
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
gateway=127.0.0.1:$port store=127.0.0.1:$((port + 1))
joined=''
trap 'code=$?; [ -z "$joined" ] || kill -9 $joined 2> /dev/null; (exit $code); clean_up' EXIT

cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[agent]
slots_max = 1
heartbeat_s = 1
lost_after_s = 4
[site.local]
cores = 1
[site.east]
adapter = join
END
expect 0 "${H[@]}" up --config head.ini
expect 0 "$htc" keys enrol east --role host --once "$dir/once"
printf '%s\n' "$out" > east.once
let_in() { "$htc" keys join "tcp://$store" --server head --role host --key east.key --ring east.ring --once east.once > enrolled.out 2>&1; }
soon let_in || fail "east is not enrolled: $(cat enrolled.out)"
printf '[data]\ncache_max = 12M\n[agent]\norphan_after_s = 5\n' > east.ini
start()
{
    "$bin/htc-agent" --join "$gateway" --dir "$top/east" --key east.key --ring east.ring --slots 4 --config "$PWD/east.ini" > joined.out 2>&1 &
    joined=$!
    soon grep -sq "^joined $gateway with 4 slots" joined.out || fail "it does not join: $(cat joined.out)"
}
start
expect 0 "${H[@]}" drain local # all that follows runs at the other site
me=$(json "$("${H[@]}" users --json)" 'v["users"][0]["name"]')
cache=$top/east/data/cache/$(id -u) given=$top/east/data/given/$me
objects() { find "$cache" -type f | wc -l; }

# --- once for eight tasks of four agents ---
head -c 6000000 /dev/urandom > one
head -c 7000000 /dev/urandom > two
expect 0 "${H[@]}" submit --wait -i one -- sh -c "cksum < one; sleep 0.2" ::: 1 2 3 4 5 6 7 8
sum=$(cksum < one)
for i in 0 1 2 3 4 5 6 7; do
    expect 0 "${H[@]}" logs 1.$i
    [ "$out" = "$sum" ] || fail "task $i read: $out"
done
[ "$(objects)" = 1 ] || fail "objects at the site: $(ls -l "$cache")"
name=$(ls "$cache") hash=$(ls "$given") # the one is this user's, the other the content's
[ "$(stat -c %i "$cache/$name")" = "$(stat -c %i "$given/$hash")" ] || fail "it is there twice: $(ls -li "$cache" "$given")"
inode=$(stat -c %i "$cache/$name")

# --- kept for what comes after, also by another life of the host ---
kill -9 "$joined"
{ wait "$joined"; } 2> /dev/null
start
expect 0 "${H[@]}" submit --wait -i one -- cksum one
expect 0 "${H[@]}" logs 2
[[ $out == "$sum one" || $out == "${sum% *}"*one ]] || fail "read: $out"
[ "$(stat -c %i "$cache/$name")" = "$inode" ] || fail "it was brought a second time"

# --- what is spoilt there is not given to a task: it is brought anew ---
chmod u+w "$cache/$name"
printf spoilt | dd of="$cache/$name" conv=notrunc status=none
expect 0 "${H[@]}" submit --wait -i one -- sh -c 'cksum < one'
expect 0 "${H[@]}" logs 3
[ "$out" = "$sum" ] || fail "read what was spoilt: $out"

# --- the bound: what was used longest ago goes ---
expect 0 "${H[@]}" submit --wait -i two -- sh -c 'cksum < two'
[ "$(objects)" = 1 ] && [ ! -e "$given/$hash" ] || fail "more than its bound: $(ls -l "$cache" "$given")"
expect 0 "${H[@]}" submit --wait -i one -- sh -c 'cksum < one'
expect 0 "${H[@]}" logs 5
[ "$out" = "$sum" ] || fail "read after it had gone: $out"
expect 5 "${H[@]}" submit --wait -i one -i two -- cksum one two
expect 0 "${H[@]}" why 6
[[ $out == *data.cache_max* ]] || fail "why a task of too much input failed: $out"

# --- section 7, row 29: inputs of 100 KB, 1 MB and 10 MB on every task, here and there ---
head -c 100000 /dev/urandom > small
head -c 1000000 /dev/urandom > middle
head -c 10000000 /dev/urandom > large
expect 0 "${H[@]}" resume local
expect 0 "${H[@]}" submit --wait -i small -i middle -i large -- sh -c 'cat small middle large | cksum; sleep 0.2' ::: $(seq 12)
sum=$(cat small middle large | cksum)
for i in $(seq 0 11); do
    expect 0 "${H[@]}" logs 7.$i
    [ "$out" = "$sum" ] || fail "task $i read: $out"
done
[ "$(objects)" = 3 ] || fail "what was brought: $(ls -l "$cache")"

# --- each task has an input of its own ---
for i in 1 2 3; do echo "content $i" > "in$i.txt"; done
expect 0 "${H[@]}" submit --wait -i 'in{n}.txt' -- cat 'in{n}.txt' ::: n=3:1:-1
for i in 0 1 2; do
    expect 0 "${H[@]}" logs 8.$i
    [ "$out" = "content $((3 - i))" ] || fail "task $i read: $out"
done
refuse 2 'in4.txt' "${H[@]}" submit -i 'in{n}.txt' -- cat 'in{n}.txt' ::: n=1:4

# --- one that is missing ---
printf '<j:JobDefinition xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>/bin/true</p:Executable></p:POSIXApplication></j:Application><j:DataStaging><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>htc:%064d</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>' 7 > missing.jsdl
expect 5 "${H[@]}" submit --wait missing.jsdl
expect 0 "${H[@]}" why 9
[[ $out == *'upload it again'* ]] || fail "why a task without its input failed: $out"

# --- uploads of a version that kept them for everybody: each goes to the owner of the jobs that name it, the rest goes ---
kill "$joined"
{ wait "$joined"; } 2> /dev/null
joined=''
expect 0 "${H[@]}" down --now
blobs=$dir/data/blobs
mv "$blobs/$me"/* "$blobs/"
echo nobody > "$blobs/$(printf %064d 5)"
expect 0 "${H[@]}" up --config head.ini
adopted() { [ -z "$(find "$blobs" -maxdepth 1 -type f)" ]; }
soon adopted || fail "uploads are everybody's: $(ls -lR "$blobs")"
[ -e "$blobs/$me/$hash" ] && [ "$(find "$blobs" -type f | wc -l)" = 8 ] || fail "uploads of jobs: $(ls -lR "$blobs")"
expect 0 "${H[@]}" retry 6 --failed
expect 0 "${H[@]}" wait 6
expect 0 "${H[@]}" down --now
