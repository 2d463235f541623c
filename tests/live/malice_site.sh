#!/bin/bash
# usage: malice_site.sh PROGRAM_FOLDER
# Two users at one site beyond the gateway's machine, whose tasks run confined there: what both have uploaded is brought and kept for each of them, and
# something else under the hash of another's upload is nobody else's trouble. doc/design/isolation.md has the list that this is of.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/people_lib.sh"
source "$here/live.sh"
people_begin
port=$(python3 "$ports" 2 $$)
gateway=127.0.0.1:$port store=127.0.0.1:$((port + 1))
joined=''
trap 'code=$?; [ -z "$joined" ] || kill -9 $joined 2> /dev/null; (exit $code); clean_up' EXIT
cat > "$top/head.ini" << END
[server]
others = on
join = $gateway
[db]
join = $store
[task]
others_as_owner = confined
[agent]
heartbeat_s = 0.5
[site.local]
cores = 1
[site.east]
adapter = join
users = ada, ben
END
printf '[task]\nothers_as_owner = confined\n' > "$top/east.ini"
as owner 0 up --config "$top/head.ini"
[[ $out == *"tasks run confined"* ]] || { as owner 0 down --now; skip "no confinement here: $out"; }
for name in ada ben; do
    as owner 0 user add $name --password-file "$top/password"
    as $name 0 login $name --password-file "$top/password"
done
cd "$top/home-owner" || exit 1
as owner 0 keys enrol east --role host --once "$dir/once"
printf '%s\n' "$out" > east.once
let_in() { run_as owner sh -c "cd $top/home-owner && $top/build/examples/htc keys join tcp://$store --server head --role host --key east.key --ring east.ring --once east.once" > enrolled.out 2>&1; }
soon let_in || fail "east is not enrolled: $(cat enrolled.out)"
person owner
"${words[@]}" "$top/build/examples/htc-agent" --join "$gateway" --dir "$top/home-owner/east" --key "$PWD/east.key" --ring "$PWD/east.ring" --slots 2 --config "$top/east.ini" > joined.out 2>&1 &
joined=$!
soon grep -sq "^joined $gateway with 2 slots" joined.out || fail "it does not join: $(cat joined.out)"
as owner 0 drain local
cache=$top/home-owner/east/data/cache/$owner given=$top/home-owner/east/data/given

# --- the same content: two copies, each with the links of its own user alone ---
head -c 300000 /dev/urandom > "$top/home-ada/in"
cp "$top/home-ada/in" "$top/home-ben/in"
chown "$ada:$ada" "$top/home-ada/in" && chown "$ben:$ben" "$top/home-ben/in"
sum=$(cksum < "$top/home-ada/in")
for name in ada ben; do
    as $name 0 submit --wait -i "$top/home-$name/in" -- sh -c 'cksum < in'
    as $name 0 logs last
    [ "$out" = "$sum" ] || fail "$name read: $out"
done
hash=$(ls "$given/ada")
[ "$(ls "$given/ben")" = "$hash" ] || fail "ben was given something else: $(ls -lR "$given")"
[ "$(stat -c %h "$given"/*/"$hash" | tr '\n' ' ')" = "2 2 " ] && [ "$(stat -c %i "$given"/*/"$hash" "$cache"/* | sort -u | wc -l)" = 2 ] ||
    fail "what two users have is there once: $(ls -li "$given"/* "$cache")"

# --- something else under a hash that ada uses too (where users have uids, the directory is theirs): his task does not get it, hers gets her own ---
echo hers > "$top/home-ada/in"
as ada 0 submit --hold -i "$top/home-ada/in" -- cat in
newest=$(ls -t "$dir/data/blobs/ada" | head -n 1)
echo evil > "$dir/data/blobs/ben/$newest"
chown "$owner:$owner" "$dir/data/blobs/ben/$newest"
printf '<j:JobDefinition xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>/bin/cat</p:Executable><p:Argument>in</p:Argument></p:POSIXApplication></j:Application><j:DataStaging><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>htc:%s</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>' "$newest" > "$top/named.jsdl"
as ben 0 submit "$top/named.jsdl"
said() { grep -sq "upload $newest did not come" "$top/home-owner/east/log/joined.log"; }
soon said || fail "what ben has put there is not noticed: $(cat "$top/home-owner/east/log/joined.log")"
as ada 0 release last
as ada 0 wait last
as ada 0 logs last
[ "$out" = hers ] || fail "ada read: $out"
as ben 0 status --json
[ "$(json "$out" '[j["tasks"]["done"] for j in v["jobs"] if j["id"] == 4]')" = "[0]" ] || fail "ben's task has read it: $out"
as owner 0 down --now
