#!/bin/bash
# Several people on one machine: an owner, two users, each with a uid of their own.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/people_lib.sh"
source "$here/live.sh"
people_begin

# --- others = on: found by --dir, reached through the socket, with a token of one's own ---

printf '[server]\nothers = on\n' > "$top/shared.ini"
as owner 0 up --slots 2 --config "$top/shared.ini"
first=$out
[ "$(stat -c %a "$dir")" = 711 ] || fail "the state directory has mode $(stat -c %a "$dir")"
[ "$(stat -c %a "$dir/operator")" = 600 ] || fail "the operator's token can be read by others"
as ada 4 status
[[ $err == *"log in"* ]] || fail "without a token: $err"
as owner 0 user add ada --password-file "$top/password"
as owner 0 user add ben --password-file "$top/password"
as ada 0 login ada --password-file "$top/password"
token=$(find "$top/home-ada" -name ada)
[ "$(stat -c '%a %u' "$token")" = "600 $ada" ] || fail "ada's token: $(ls -l "$token")"
as ben 0 login ben --password-file "$top/password"
as ada 0 status
as ben 4 --user ada status
# Their tasks would have the owner's uid: nobody has said that this is wanted.
[[ $first == *"other users' tasks are refused"*others_as_owner* ]] || fail "htc up says: $first"
as ada 4 submit -- true
[[ $err == *others_as_owner* ]] || fail "refused for: $err"
as ada 0 why --user ada
[[ $out == *refused*others_as_owner* ]] || fail "why: $out"
said=$out
as ada 0 why
[ "$out" = "$said" ] || fail "why of who has logged in: $out"
as owner 0 agents
[[ $out == *"tasks are refused"* ]] || fail "agents: $out"
as owner 0 submit --wait -- sh -c 'echo "$HTC_USER" > "$HTC_OUTPUT_DIR/who"'
as ben 4 status 1
as ada 4 user set ada --weight 9
# What is not a user's cannot be looked at.
for place in . store data log slots operator kvd.sock; do
    run_as ada ls "$dir/$place/" > "$top/listing" 2> /dev/null && fail "ada lists $place: $(cat "$top/listing")"
done
run_as ada cat "$dir/operator" 2> /dev/null && fail "ada reads the operator's token"
# The owner's uid alone makes no operator: the token does.
as owner 4 --token-file /dev/null user set ada --weight 9
as owner 0 user set ada --weight 2
as owner 0 down --now

# --- others' tasks with the owner's uid, confined ---

printf '[server]\nothers = on\n[task]\nothers_as_owner = confined\n[agent]\nheartbeat_s = 0.5\nkill_after_s = 1\n' > "$top/confined.ini"
as owner 0 up --slots 2 --config "$top/confined.ini"
if [[ $out == *"tasks run confined"* ]]; then
    run_as owner sh -c 'echo private > "$HOME/secret"'
    daemon_pid htc-gateway
    nice_before=$(ps -o ni= -p "$pid") # ./check may itself run with less than the usual
    cat > "$top/spy.sh" << END
#!/bin/sh
for p in "$dir" "$dir/operator" "$dir/gateway.sock" "$dir/kvd.sock" "$dir/store" "$top/home-owner" "$top/password" \
    /proc/$pid/root/tmp /proc/$pid/cwd/tmp /proc/$pid/fd/0; do
    [ ! -e "\$p" ] || [ "\$p" = "$dir" ] || echo "sees \$p"
done
ls "$dir" | grep -vx slots && echo "lists the state directory"
ls "$dir/slots"/*/scratch | grep -v "^[0-9.]*\$" | grep -v scratch: | grep . && echo "lists another run"
cat /proc/$pid/environ > /dev/null 2>&1 && echo "reads the gateway's environment"
(echo 500 > /proc/$pid/oom_score_adj) 2> /dev/null && echo "has the gateway killed where memory is short"
prlimit --pid $pid --nofile=8:8 > /dev/null 2>&1 && echo "limits the gateway"
renice -n 9 -p $pid > /dev/null 2>&1 && echo "slows the gateway"
renice -n 9 -u $owner > /dev/null 2>&1 # itself, and nobody else: see below
taskset -p 1 $pid > /dev/null 2>&1 && echo "pins the gateway"
kill -0 $pid 2> /dev/null && echo "may signal the gateway"
for p in /x /etc/x /usr/x /dev/x; do
    (: > "\$p") 2> /dev/null && echo "writes \$p"
done
(: > "$dir/x") 2> /dev/null # where the directory is below /tmp, this is the task's own /tmp
umount "$dir" 2> /dev/null && echo "unmounts"
cd .. && cd .. && cd .. && cd .. && [ ! -e gateway.sock ] || echo "climbs out"
[ "\$(cat "\$OLDPWD/../../../../../operator" 2> /dev/null)" = "" ] || echo "reads the token"
(: > "\$TMPDIR/mine") && (: > /tmp/mine) && echo "\$HTC_USER is here" > "\$HTC_OUTPUT_DIR/who" && cat "\$HTC_SCRATCH/in.txt"
END
    chmod 755 "$top/spy.sh"
    echo molecules > "$top/in.txt"
    chmod 644 "$top/in.txt"
    as ada 0 submit --wait -i in.txt -- spy.sh
    as ada 0 logs last
    [ "$out" = molecules ] || fail "a confined task: $out"
    [ "$(ps -o ni= -p "$pid")" = "$nice_before" ] || fail "a confined task slows the gateway"
    [ ! -e "$dir/x" ] || fail "a confined task writes into the state directory"
    as ada 0 fetch last --to "$top/home-ada/results"
    [ "$(run_as ada cat "$top/home-ada/results/0/who" "$top/home-ada/results/who" 2> /dev/null)" = "ada is here" ] || fail "results: $(find "$top/home-ada/results")"
    as ben 4 fetch last --to "$top/home-ben/results"
    # How it ends is seen as that of any other task, and nothing of it goes on.
    as ada 5 submit --wait --retries 0 -- sh -c 'setsid sleep 1001.7 & kill -TERM $$'
    as ada 0 why last.0
    [[ $out == *SIGTERM* ]] || fail "a confined task that a signal ended: $out"
    as ada 5 submit --wait --retries 0 -t 1s -- sh -c 'trap "" TERM; sleep 1001.7'
    as ada 0 why last.0
    [[ $out == *limit* ]] || fail "a confined task that took too long: $out"
    pgrep -f '^sleep 1001.7' > /dev/null && fail "something of a confined task goes on"
    # What a document names on this machine would be opened with the owner's rights.
    as ada 0 generate --name reads --input "in.txt=$top/in.txt" --out "$top/home-ada/reads.jsdl" -- cat in.txt
    as ada 5 submit --wait --retries 0 -- sh -c 'cat "$0"' "$top/home-owner/secret"
    as ada 0 submit --hold -- true
    as ada 0 why last
    as owner 0 submit --wait -- sh -c 'cat "$HOME/secret" > "$HTC_OUTPUT_DIR/own"'
    as owner 0 agents
    [[ $out == *confined* ]] || fail "agents: $out"
else
    echo "no confinement here: $out"
    as ada 4 submit -- true
fi
as owner 0 down --now

# --- root: each user's tasks with that user's uid ---

rooted=$top/rooted
R=("$top/build/examples/htc" --dir "$rooted")
export LD_LIBRARY_PATH=$top/build
expect 0 "${R[@]}" up --slots 2 --config "$top/shared.ini"
[[ $out == *"with their own uids"* ]] || fail "root's system: $out"
refuse 1 'no user is root' "${R[@]}" user add mal --uid 0:0 --password-file "$top/password"
expect 0 "${R[@]}" user add ada --uid "$ada:$ada" --password-file "$top/password"
[ -z "$err" ] || fail "a user with a uid: $err"
expect 0 "${R[@]}" user add ben --password-file "$top/password"
[ "$err" = 'htc: warning: tasks of ben are refused: ben has no uid here: htc user set ben --uid UID gives one' ] || fail "a user without a uid: $err"
refuse 4 'ben has no uid' "${R[@]}" --user ben submit -- true
expect 0 "${R[@]}" user set ben --uid "$ben:$ben"
[ -z "$err" ] || fail "a user who got a uid: $err"
dir=$rooted
as ada 0 login ada --password-file "$top/password"
as ben 0 login ben --password-file "$top/password"
as ada 0 submit --wait -i in.txt -- sh -c 'id -u; id -g; id -G; ls -ldn . | cut -d" " -f3; cat in.txt; echo of ada > "$HTC_OUTPUT_DIR/who"; for p in operator kvd.sock store; do cat "'"$rooted"'/$p" 2> /dev/null; done; ls "'"$rooted"'" "'"$rooted"'/data/out" 2> /dev/null; true'
as ada 0 logs last
[ "$out" = "$ada"$'\n'"$ada"$'\n'"$ada"$'\n'"$ada"$'\n'molecules ] || fail "ada's task: $out"
[ -z "$(find "$rooted/data/out/1" ! -uid "$ada")" ] || fail "outputs of others: $(ls -lR "$rooted/data/out")"
as ada 0 fetch last --to "$top/home-ada/rooted"
grep -rqx "of ada" "$top/home-ada/rooted" || fail "results: $(find "$top/home-ada/rooted")"
[ "$(stat -c %u "$rooted"/log/agent-*.log.1 | sort -u)" = 0 ] || fail "ada's agent keeps no second log: $(ls -l "$rooted/log")"
# Whoever knows a hash has nothing by it, neither of the gateway nor of the disk; the same content of one's own is one's own.
hash=$(ls "$rooted/data/blobs/ada")
named='<j:JobDefinition xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>/bin/cat</p:Executable><p:Argument>in</p:Argument></p:POSIXApplication></j:Application><j:DataStaging><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>htc:'$hash'</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>'
printf '%s' "$named" > "$top/named.jsdl"
as ben 5 submit --wait "$top/named.jsdl"
as ben 0 logs last
[[ $out != *molecules* ]] || fail "ben has read ada's upload by its hash"
! run_as ben cat "$rooted/data/blobs/ada/$hash" 2> /dev/null || fail "ben has read ada's upload on the disk"
as ada 0 submit --wait "$top/named.jsdl"
as ada 0 logs last
[ "$out" = molecules ] || fail "ada cannot read her own upload: $out"
echo molecules > "$top/home-ben/in.txt"
as ben 0 submit --wait -i "$top/home-ben/in.txt" -- cat in.txt
as ben 0 submit --wait "$top/named.jsdl"
as ben 0 logs last
[ "$out" = molecules ] || fail "ben cannot read his own upload: $out"
[ "$(stat -c %u "$rooted/data/blobs/ada")$(stat -c %a "$rooted/data/blobs/ada")" = "${ada}700" ] || fail "whose uploads are: $(ls -l "$rooted/data/blobs")"
# The slot goes to the next user, and nothing in it with it.
as ben 0 submit --wait -- sh -c 'id -u; cat "'"$rooted"'"/data/out/1/*/*/* "'"$rooted"'"/slots/*/scratch/1.*/out/* 2> /dev/null; true' ::: 1 2 3 4
as ben 0 logs last.0
[ "$out" = "$ben" ] || fail "ben's task: $out"
# A flow of ada's: its tasks have her uid, and nobody but she and root reaches its records.
printf 'a: sh -c "id -u > made"\nb: after=a sh -c "id -u"\nc: after=a sh -c "id -u"\n' > "$top/home-ada/f.flow"
flow=$((ada * 4294967296 + 1)) record=$(printf 'f/%08x00000001' "$ada")
run_as ada sh -c "cd $top/home-ada && $top/build/examples/htc --dir $rooted flow run f.flow --agents 2" > "$top/flow.out" 2>&1 || fail "ada's flow: $(cat "$top/flow.out")"
grep -q "^flow $flow: 3 done, 0 failed" "$top/flow.out" || fail "ada's flow: $(cat "$top/flow.out")"
[ "$(cat "$top/home-ada/made")" = "$ada" ] || fail "a task of ada's flow: $(ls -l "$top/home-ada")"
as ada 0 flow logs "$flow.b"
[ "$out" = "$ada" ] || fail "a task of ada's flow wrote: $out"
as ada 0 flow status "$flow"
expect 0 "${R[@]}" flow status "$flow"
as ada 0 kv --store "unix:$rooted/kvd.sock" --json get "$record/h"
for key in "$record/h" u/ben g/agent f/0000000000000001/h; do as ben 4 kv --store "unix:$rooted/kvd.sock" get $key; done
for key in "$record/h" "$record/l/0000000000000000" u/ben f/0000000000000001/h; do as ben 4 kv --store "unix:$rooted/kvd.sock" put $key x; done
for prefix in f/ "$record" u/ ''; do as ben 4 kv --store "unix:$rooted/kvd.sock" scan $prefix; done
as ben 4 flow status "$flow"
as ben 4 flow cancel "$flow"
printf 'x: true\n' > "$top/root.flow"
expect 0 "${R[@]}" flow run "$top/root.flow"
as ada 4 flow status 1
expect 0 "${R[@]}" submit --wait -- id -u
expect 0 "${R[@]}" logs last
[ "$out" = "$(id -u)" ] || fail "the owner's own task: $out"
expect 0 "${R[@]}" agents
expect 0 "${R[@]}" down --now
unset LD_LIBRARY_PATH

# A directory that others cannot enter on the way is named, not served in vain.
mkdir "$top/closed" && chown "$owner" "$top/closed" && chmod 700 "$top/closed"
dir=$top/closed/state
as owner 4 up --config "$top/shared.ini"
[[ $err == *"$top/closed "*"o+x"* ]] || fail "a closed way: $err"
none_left
