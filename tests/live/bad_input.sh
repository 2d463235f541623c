#!/bin/bash
# Every bad input: one clear line that names the cause, the documented exit code, and nothing lost.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

refuse 3 'no system runs in|no system runs here' "${H[@]}" status
began=$SECONDS
refuse 3 'no system runs here' "${H[@]}" wait 1
[ $((SECONDS - began)) -lt 30 ] || fail "htc wait waited for a system that does not exist"
# A directory in which none runs, since it did not start or has ended, is no other case.
refuse 2 'cannot read the configuration not-there.ini: No such file or directory: check the name' "${H[@]}" up --config not-there.ini
[ ! -e "$dir" ] || fail "an htc up that cannot be has made $dir"
mkdir -m 700 "$dir"
refuse 1 "there is no command 'nosuch'" "$htc" help nosuch
for words in help 'help --help' 'help submit'; do
    # shellcheck disable=SC2086
    expect 0 "$htc" $words
    [[ $out == usage:* ]] || fail "htc $words: $out"
done
for command in 'wait 1' 'wait last' 'fetch last' 'logs last' 'report'; do
    # shellcheck disable=SC2086
    refuse 3 'no system runs here' timeout 25 "${H[@]}" $command
done
for daemon in htc-kvd htc-gateway; do
    refuse 4 "$top/from-environment" env "HTC_DIR=$top/from-environment" "$bin/$daemon"
    refuse 4 '\./htc-state' env -C "$top" "$bin/$daemon"
done
expect 3 "${H[@]}" status --json
[ "$(json "$out" 'v["error"]')" = HTC_EUNREACHABLE ] || fail "no JSON error: $out"
refuse 1 'no command' "$htc" frobnicate
refuse 1 'unknown option' "$htc" status --frobnicate
# A message cut within a character is JSON all the same: 59 letters, then one of two bytes.
expect 1 "$htc" --json "$(printf 'a%.0s' {1..59})ä"
[ "$(json "$out" 'v["error"]')" = HTC_EUSAGE ] || fail "no JSON error: $out"
refuse 1 'is no option.*--help' "${htc%/*}/htc-kvd" --frobnicate
refuse 4 'cannot write: No such' "$htc" generate --out not-there/x.jsdl -- echo {} ::: 1 2
printf '[fair]\npolicy = best\n' > bad.ini
refuse 1 'bad.ini:2.*policy' "${H[@]}" up --config bad.ini
printf '[fair]\nfrob = 1\n' > bad.ini
refuse 1 'bad.ini:2.*frob' "${H[@]}" up --config bad.ini
printf '[server]\n\nlisten = 0.0.0.0:7000\n' > bad.ini
refuse 1 'bad.ini:3.*server.listen.*loopback' "${H[@]}" up --config bad.ini
expect 0 "${H[@]}" up --slots 2
refuse 6 'runs here already' "${H[@]}" up
refuse 1 'UTF-8' "${H[@]}" status $'\xff'
expect 6 "${H[@]}" up --json
[ "$(json "$out" 'v["error"]')" = HTC_ELOCKED ] || fail "no JSON error: $out"
expect 0 "${H[@]}" submit --name witness --wait -- true

J='xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix" xmlns:s="http://schemas.ogf.org/jsdl/2009/03/sweep" xmlns:f="http://schemas.ogf.org/jsdl/2009/03/sweep/functions"'
doc() # FILE APPLICATION AFTER
{
    printf '<j:JobDefinition %s>\n<j:JobDescription><j:Application><p:POSIXApplication>\n%s\n</p:POSIXApplication></j:Application>%s</j:JobDescription>%s</j:JobDefinition>\n' \
        "$J" "$2" "${3:-}" "${4:-}" > "$1"
}
ARG='<s:Assignment><s:DocumentNode><s:NamespaceBinding ns="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix" prefix="p"/><s:Match>//p:Argument[%d]</s:Match></s:DocumentNode>%s</s:Assignment>'
two='<p:Executable>true</p:Executable><p:Argument>a</p:Argument><p:Argument>b</p:Argument>'
one() { printf "$ARG" "$1" "$2"; }

printf '<j:JobDefinition %s><open>' "$J" > malformed.jsdl
doc invalid.jsdl '<p:Frobnicate/>'
printf '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<j:JobDefinition %s><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>&a;</p:Executable></p:POSIXApplication></j:Application></j:JobDescription></j:JobDefinition>' "$J" > external.jsdl
{
    echo '<!DOCTYPE x [<!ENTITY a0 "ha">'
    for i in 1 2 3 4 5 6 7 8 9; do
        printf '<!ENTITY a%d "%s">\n' $i "$(printf "&a$((i - 1));%.0s" 1 2 3 4 5 6 7 8 9 10)"
    done
    printf ']>\n<j:JobDefinition %s><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>&a9;</p:Executable></p:POSIXApplication></j:Application></j:JobDescription></j:JobDefinition>' "$J"
} > exploding.jsdl
doc contradiction.jsdl "$two" '' "<s:Sweep>$(one 1 '<f:Values><f:Value>1</f:Value><f:Value>2</f:Value></f:Values>')$(one 2 '<f:LoopInteger start="1" end="3"/>')</s:Sweep>"
doc unsupported.jsdl '<p:Executable>true</p:Executable><p:UserName>root</p:UserName>'
doc leaving.jsdl '<p:Executable>true</p:Executable>' '<j:DataStaging><j:FileName>../../evil</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>file:/etc/hostname</j:URI></j:Source></j:DataStaging>'
doc missing-input.jsdl '<p:Executable>true</p:Executable>' '<j:DataStaging><j:FileName>x</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>file:not-there</j:URI></j:Source></j:DataStaging>'
doc missing-program.jsdl '<p:Executable>not-there.sh</p:Executable>'
for f in malformed invalid external exploding contradiction unsupported leaving; do
    refuse 2 "$f.jsdl" "${H[@]}" validate $f.jsdl
    refuse 2 "$f.jsdl" "${H[@]}" submit $f.jsdl
done
refuse 2 'not-there' "${H[@]}" submit missing-input.jsdl
sed -i 's,file:not-there,file:/not-there/at-all,' missing-input.jsdl
refuse 2 'not-there/at-all' "${H[@]}" submit missing-input.jsdl
refuse 2 'not-there.sh.*no such program' "${H[@]}" submit missing-program.jsdl
refuse 2 'no such program' "${H[@]}" submit -- not-there.sh
echo text > plain.txt
refuse 2 'not executable' "${H[@]}" submit -- ./plain.txt
refuse 2 'cannot read' "${H[@]}" submit --input not-there -- true
# A script is no document, and what it cannot be run by is said before it is a task.
printf '#!/bin/sh\necho new %s\n' "$RANDOM$RANDOM" > script.sh
printf '#!/bin/sh\r\ntrue\r\n' > crlf.sh
printf '#!/not/there/sh\ntrue\n' > interpreter.sh
printf '#!/usr/bin/env not-there\ntrue\n' > env.sh
chmod +x ./*.sh
refuse 2 'script.sh: this is a script.*htc submit -- ./script.sh' "${H[@]}" validate script.sh
refuse 2 'crlf.sh: its lines end with CR LF' "${H[@]}" submit -- ./crlf.sh
refuse 2 'interpreter.sh: its interpreter /not/there/sh is not there' "${H[@]}" submit -- ./interpreter.sh
refuse 2 'env.sh: its interpreter not-there is not there' "${H[@]}" submit -- ./env.sh
# What stands in options is named by them, and not by lines of the document that is made of them, whoever finds it.
for where in '' --dry-run; do
    refuse 2 '^htc: --input: "http:///x" names no host' "${H[@]}" submit $where -i x=http:///x -- true
    refuse 2 '^htc: --target: "http:///x" names no host' "${H[@]}" submit $where --target x=http:///x -- true
    refuse 2 '^htc: --container: "a,b c" is not the name' "${H[@]}" submit $where --container 'a,b c' -- true
    refuse 2 '^htc: --cores: "5" is no multiple of --node-cores: every node of a task has as many cores$' "${H[@]}" submit $where -c 5 --node-cores 2 -- true
done
# No cores and no memory are no task's; 4294967297 is no other 1. No GPUs, and no limit of time, can be meant.
for option in '--cores 0' '--cores -1' '--cores 4294967297' '--node-cores 0' '--mem 0' '--mem 0G' '--gpus -1' '--gpus 4294967296' '--res x=0'; do
    # shellcheck disable=SC2086
    refuse 1 "^htc: ${option%% *}: .*(number from 1 to 4294967295|above 0|not a count|no number of)" "${H[@]}" submit --dry-run $option -- true
done
refuse 1 '^htc: --mem: .0. is not a size above 0' "${H[@]}" retry last --mem 0
expect 0 "${H[@]}" submit --wait --gpus 0 --time 0 -- true
# A mistake beside a file that is uploaded for the first time is told as that mistake.
refuse 1 'no place uses the source "x"' "${H[@]}" submit -- ./script.sh ::: x=1:2
expect 2 "${H[@]}" validate unsupported.jsdl --json
[ "$(json "$out" '(v["where"]["file"], v["where"]["element"], v["where"]["line"], v["where"]["column"])')" = \
    "('unsupported.jsdl', '/JobDefinition/JobDescription/Application/POSIXApplication/UserName', 3, 34)" ] || fail "no line, column and path: $out"
head -c 15728641 /dev/zero | tr '\0' 'a' > long.txt
refuse 2 'long.txt: longer than 15728640 bytes' "${H[@]}" submit -- echo '{}' :::: long.txt
rm long.txt
refuse 2 'leaves' "${H[@]}" submit --input ../x=plain.txt -- true
refuse 2 'leaves' "${H[@]}" submit --output '../%j' -- true
refuse 1 'not a time' "${H[@]}" submit --time soon -- true
refuse 2 '.' "${H[@]}" submit -- echo '{x}' '{y}' ::: x=1:3 :::+ y=1:4
mkfifo pipe.in
refuse 2 'not a plain file' "${H[@]}" submit --input pipe.in -- true
refuse 4 'no job|not found|no such' "${H[@]}" status 4711
refuse 4 'no job|not found|no such' "${H[@]}" cancel 4711
refuse 4 'no job|not found|no such' "${H[@]}" fetch 4711
expect 4 "${H[@]}" tasks 4711 --json
[ "$(json "$out" 'v["error"]')" = HTC_ENOTFOUND ] || fail "no JSON error: $out"

# Passwords, tokens, and another user's work.
echo secret > password
echo wrong > wrong
expect 0 "${H[@]}" user add ada --uid 65102:65102 --password-file password
expect 0 "${H[@]}" user add ben --uid 65103:65103 --password-file password
refuse 4 'password' "${H[@]}" login ada --password-file wrong
refuse 4 'password' "${H[@]}" login nobody-here --password-file password
expect 0 "${H[@]}" login ada --password-file password
expect 0 "${H[@]}" login ben --password-file password
if [ "$(id -u)" = 0 ]; then
    expect 0 "${H[@]}" --user ada submit --wait --json -- true
else # whose tasks would share the owner's uid; the owner's job is another's for ben as well
    refuse 4 'others_as_owner' "${H[@]}" --user ada submit -- true
    expect 0 "${H[@]}" submit --wait --json -- true
fi
ada=$(json "$out" 'v["jobs"][0]["id"]')
for command in "status $ada" "tasks $ada" "cancel $ada" "rm $ada" "fetch $ada" "logs $ada.0" "why $ada" "retry $ada --failed"; do
    # shellcheck disable=SC2086
    refuse 4 '.' "${H[@]}" --user ben $command
done
refuse 4 '.' "${H[@]}" --user ada --token-file "$dir/tokens/ben" status
echo 0000000000000000000000000000000000000000000000000000000000000000 > forged
refuse 4 '.' "${H[@]}" --user ada --token-file forged status
[ "$(id -u)" != 0 ] || expect 0 "${H[@]}" --user ada status "$ada"

# Garbage on every socket: the connection ends, the daemons do not.
python3 - "$dir" << 'END' || fail "garbage was answered in a strange way"
import os, random, socket, struct, sys
random.seed(7)
os.chdir(sys.argv[1])
for name in ("gateway.sock", "kvd.sock"):
    for i in range(60):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        s.connect(name)
        kind = i % 6
        if kind == 0:
            data = os.urandom(random.randrange(1, 3000))
        elif kind == 1:
            data = struct.pack("<I", 0xFFFFFFFF) + b"x" * 100
        elif kind == 2:
            data = struct.pack("<I", 0)
        elif kind == 3:
            data = struct.pack("<IHQ", 17, 1, 1) + b"\0" * 7
        elif kind == 4:
            data = struct.pack("<IHQIHB", 17, 1, 1, 0x31435448, 1, random.randrange(1, 4)) + struct.pack("<IHQ", 30, random.choice([100, 200, 202, 203, 300, 302, 307]), 5) + os.urandom(20)
        else:
            data = struct.pack("<IHQIHB", 17, 1, 1, 0x31435448, 1, 2) + struct.pack("<IHQ", 10 + 5, 200, 5) + b"{\"op\""
        try:
            s.sendall(data)
            if kind != 5:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            else:
                assert s.recv(65536)
        except (ConnectionError, BrokenPipeError):
            pass
        s.close()
END
for i in gateway kvd; do
    grep -qE 'ended by signal|exit code' "$dir/log/supervisor.log" && fail "garbage ended a daemon"
done
expect 0 "${H[@]}" status --json
[ "$(json "$out" '[j["state"] for j in v["jobs"] if j["name"] == "witness"]')" = "['done']" ] || fail "work was lost: $out"
expect 0 "${H[@]}" submit --wait -- true
expect 0 "${H[@]}" down
none_left

# A token that has expired, and a state directory of another format.
printf '[server]\ntoken_life_s = 1\n' > short.ini
expect 0 "${H[@]}" up --slots 2 --config short.ini
expect 0 "${H[@]}" login ada --password-file password
out_of_date() { ! timeout 60 "${H[@]}" --user ada status > /dev/null 2>&1; }
soon out_of_date
refuse 4 'expired' "${H[@]}" --user ada status
expect 0 "${H[@]}" down
cp "$dir/format" format
echo 'htcsched 999' > "$dir/format"
refuse 70 'format|version' "${H[@]}" up
cp format "$dir/format"

# Its supervisor killed: the daemons end with it, a new one finds everything. A damaged store: said, and nothing is left.
expect 0 "${H[@]}" up --slots 2
kill -9 "$(cat "$dir/lock")"
none_left
expect 0 "${H[@]}" up --slots 2
expect 0 "${H[@]}" status --json
[ "$(json "$out" '[j["state"] for j in v["jobs"] if j["name"] == "witness"]')" = "['done']" ] || fail "work was lost: $out"
expect 0 "${H[@]}" down
# A store whose process dies by a signal of its own is looked at first, and is not started again if it is damaged.
store_process() { pgrep -P "$(cat "$dir/lock")" htc-kvd; }
looked_at() { grep -q 'no damage is found in the store' "$dir/log/supervisor.log"; }
not_begun_again() { grep -q 'the store is damaged' "$dir/log/supervisor.log"; }
no_lock() { ! kill -0 "$supervisor" 2> /dev/null; }
expect 0 "${H[@]}" up --slots 2
supervisor=$(cat "$dir/lock")
kill -ABRT "$(store_process)"
soon looked_at
expect 0 "${H[@]}" status --json
head -c 200000 /dev/urandom | dd of="$dir/store/data.mdb" bs=4096 seek=2 conv=notrunc status=none
kill -ABRT "$(store_process)" 2> /dev/null # it may have died of that already
soon not_begun_again
soon no_lock
rm -f "$dir"/log/*.out # what htc kv fsck said
none_left
head -c 20000 /dev/urandom | dd of="$dir/store/data.mdb" conv=notrunc status=none
refuse 3 'did not start.*store' "${H[@]}" up
refuse 3 'no system runs' "${H[@]}" down
rm -f "$dir"/log/*.out
none_left
echo "bad_input: all is well"
