#!/bin/bash
# usage: urls_put.sh PROGRAM_FOLDER
# Outputs that go to URLs: to servers on 127.0.0.1 that take them, are busy, break off, refuse, send on or say nothing. What a server does costs the user no output:
# all of them can be fetched.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
mkdir -p server/put/dir
mkfifo hold
python3 "$(dirname "$ports")/urls_server.py" server < hold &
exec 9> hold
soon test -e server/ports || fail "no server"
read -r http ftp _ < server/ports
W=http://127.0.0.1:$http F=ftp://127.0.0.1:$ftp

begin()
{
    printf '[task]\nretry_backoff_s = 0.1\nmax_attempts = %d\n[data]\n%b' "$1" "$2" > htc.ini
    http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 expect 0 "${H[@]}" up --slots 16 --config htc.ini
}
# document SCRIPT URL [CREATION [SWEEP]]: of tasks that leave out.bin
document()
{
    cat << XML
<?xml version="1.0"?>
<jsdl:JobDefinition xmlns:jsdl="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:posix="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
  xmlns:sweep="http://schemas.ogf.org/jsdl/2009/03/sweep" xmlns:sweepfunc="http://schemas.ogf.org/jsdl/2009/03/sweep/functions">
 <jsdl:JobDescription>
  <jsdl:Application><posix:POSIXApplication><posix:Executable>/bin/sh</posix:Executable><posix:Argument>-c</posix:Argument><posix:Argument>$1</posix:Argument>
  </posix:POSIXApplication></jsdl:Application>
  <jsdl:DataStaging><jsdl:FileName>out.bin</jsdl:FileName><jsdl:CreationFlag>${3:-overwrite}</jsdl:CreationFlag><jsdl:Target><jsdl:URI>$2</jsdl:URI></jsdl:Target></jsdl:DataStaging>
 </jsdl:JobDescription>
 ${4:-}
</jsdl:JobDefinition>
XML
}
declare -A of
job() # NAME URL [CREATION [OPTION...]]
{
    document "printf 'made by $1' > out.bin; head -c 300000 /dev/zero >> out.bin" "$2" "${3:-overwrite}" > "$1.jsdl"
    expect 0 "${H[@]}" submit "$1.jsdl" "${@:4}"
    [[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
    of[$1]=${BASH_REMATCH[1]}
}
made() { printf 'made by %s' "$1" && head -c 300000 /dev/zero; }
fetched() # NAME: the output of the last attempt is what the task made
{
    rm -rf results
    "${H[@]}" fetch "${of[$1]}" --to results > /dev/null || fail "$1 cannot be fetched"
    cmp -s <(made "$1") "$(find results -name out.bin)" || fail "$1: $(find results)"
}
good() # NAME [FILE at the server]
{
    "${H[@]}" wait "${of[$1]}" > /dev/null || fail "$1: $("${H[@]}" status "${of[$1]}" 0 2>&1)"
    [ -z "${2:-}" ] || cmp -s <(made "$1") "server/put/$2" || fail "$1 is not at the server: $(ls -l server/put; cat server/asked)"
    fetched "$1"
}
bad() # NAME PATTERN [once]
{
    "${H[@]}" wait "${of[$1]}" > /dev/null 2>&1 && fail "$1 ended well"
    said=$("${H[@]}" tasks "${of[$1]}" --json)
    [[ $said == *HTC_ESTAGEOUT* && $said =~ $2 ]] || fail "$1 does not say '$2': $said"
    [[ ${3:-} != once || $said =~ \"attempt\":\ ?1[,}] ]] || fail "$1 was tried again: $said"
}
asks() { grep -c "^$1" server/asked; }

# --- one after the other is begun, then looked at ---
begin 1 ''
printf 'machine 127.0.0.1 login ada password s3cret-word\nmachine localhost login ada password s3cret-word\n' > right
printf 'machine 127.0.0.1 login ada password s3cret-guess\n' > wrong
chmod 600 right wrong
job busy "$W/busy"
job cut "$W/cut"
job plain "$W/plain?signature=s3cret-word"
printf 'old' > server/put/there
job there "$W/there" dontOverwrite
job new "$W/new" dontOverwrite
printf 'old' > server/put/replaced
job replaced "$W/replaced"
job moved "$W/moved"
job forbidden "$W/forbidden?signature=s3cret-word"
job to_file "$W/to-file"
job refused_early "$W/refused-early"
job private "$W/private"
job right "$W/private" overwrite --credentials right
job wrong "$W/private" overwrite --credentials wrong
job away "$W/away" overwrite --credentials right
job ftp "$F/in/ftp"
job ftp_right "$F/private/file" overwrite --credentials right
job ftp_full "$F/in/full"
job ftp_missing "$F/none/file"
job ftp_cut "$F/in/cut"
document 'printf %s "$0" > out.bin' "$W/sweep-N" overwrite '<sweep:Sweep><sweep:Assignment><sweep:DocumentNode><sweep:NamespaceBinding ns="http://schemas.ggf.org/jsdl/2005/11/jsdl" prefix="j"/><sweep:Match>substring(//j:Target/j:URI,'$((${#W} + 8))',1)</sweep:Match></sweep:DocumentNode>
<sweepfunc:LoopInteger start="1" end="3"/></sweep:Assignment></sweep:Sweep>' > sweep.jsdl
expect 0 "${H[@]}" submit sweep.jsdl
[[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
of[sweep]=${BASH_REMATCH[1]}
expect 0 "${H[@]}" submit --target "out{n}.bin=$W/option-{n}" --target "b=$W/option-b" -- sh -c 'printf %s "$0" > "out$0.bin"; : > b' '{n}' ::: n=1:2
[[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
of[option]=${BASH_REMATCH[1]}
document 'head -c 30000000 /dev/zero > out.bin' "$W/taken-early" > taken_early.jsdl # more than the sockets hold
expect 0 "${H[@]}" submit taken_early.jsdl
[[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
of[taken_early]=${BASH_REMATCH[1]}
document 'printf half > out.bin; exit 3' "$W/failed" > failed.jsdl
expect 0 "${H[@]}" submit failed.jsdl
[[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
of[failed]=${BASH_REMATCH[1]}

"${H[@]}" wait "${of[taken_early]}" > /dev/null || fail "taken_early: $("${H[@]}" status "${of[taken_early]}" 0 2>&1)"
[ "$(stat -c %s server/put/taken_early)" = 30000000 ] || fail "a part of an output counted as all of it: $(ls -l server/put)"
good plain plain
good replaced replaced
good moved moved-here
good new new
good there
[ "$(cat server/put/there)" = old ] || fail "what was there was replaced"
bad forbidden "127.0.0.1:$http/forbidden\?\.\.\.: HTTP 403: the server does not let us write there" once
[[ $said != *s3cret* ]] || fail "what is behind the question mark is told: $said"
[ "$(asks 'PUT /forbidden')" = 1 ] || fail "it was sent $(asks 'PUT /forbidden') times"
fetched forbidden
bad to_file "sends on to where nothing is sent" once
bad refused_early "HTTP 413: it is too large for the server|connection ended"
bad private "HTTP 401: the server wants another user and password" once
good right private
bad wrong "HTTP 401: the server wants another user and password" once
bad away "HTTP 401" once # the other host is in the file too, and yet gets nothing
[ "$(asks 'PUT /private login=True')" = 2 ] || fail "who got a login: $(grep private server/asked)"
good ftp in-ftp
good ftp_right private-file
grep 'STOR file user=ada' server/asked > /dev/null || fail "the FTP server was told no user: $(grep STOR server/asked)"
bad ftp_full "FTP 552: the server has no room for it" once
bad ftp_missing "none/file: .*its directory is not there" once
"${H[@]}" wait "${of[sweep]}" > /dev/null || fail "the sweep: $("${H[@]}" tasks "${of[sweep]}")"
for n in 1 2 3; do [ -e "server/put/sweep-$n" ] || fail "no sweep-$n: $(ls server/put)"; done
"${H[@]}" wait "${of[option]}" > /dev/null || fail "--target: $("${H[@]}" tasks "${of[option]}")"
[ "$(cat server/put/option-1)$(cat server/put/option-2)" = 12 ] && [ -e server/put/option-b ] || fail "--target: $(ls server/put)"
"${H[@]}" wait "${of[failed]}" > /dev/null 2>&1 && fail "exit 3 ended well"
[ ! -e server/put/failed ] || fail "what a failed task left was sent"
good busy busy
[ "$(asks 'PUT /busy')" = 2 ] || fail "it was sent $(asks 'PUT /busy') times"
good cut cut
[ "$(asks 'PUT /cut')" = 2 ] || fail "it was sent $(asks 'PUT /cut') times"
good ftp_cut in-cut

# --- a password is where it has to be, and nowhere else ---
for words in status "status ${of[right]}" "tasks ${of[right]} --json" "why ${of[right]}" "status ${of[wrong]} 0"; do
    # shellcheck disable=SC2086 # words
    said=$("${H[@]}" $words 2>&1) || true
    [[ $said != *s3cret* ]] || fail "htc $words tells the password: $said"
done
found=$(grep -rls 's3cret-' "$dir" || true)
while read -r file; do
    [ -z "$file" ] || [ "$(stat -c %a "$file")" = 600 ] || fail "the password is in $file, which others may read"
    [[ $file != *.log && $file != */out/* && $file != */slots/* ]] || fail "the password is in $file"
done <<< "$found"

# --- what is refused when it is submitted ---
document true "http://ada:s3cret-word@127.0.0.1/x" > x.jsdl
refuse 2 'user or password' "${H[@]}" submit x.jsdl
[[ $err != *s3cret-word* ]] || fail "the password is told: $err"
refuse 2 'user or password' "${H[@]}" submit --target 'x=http://ada:s3cret-word@127.0.0.1/x' -- true
[[ $err != *s3cret-word* ]] || fail "the password is told: $err"
for bad in 'http://ada:s3cret-word@127.0.0.1/x' 'x=gopher://127.0.0.1/s3cret-word' "=$W/x" x; do
    refuse 1 'NAME=URL' "${H[@]}" submit --target "$bad" -- true
    [[ $err != *s3cret-word* ]] || fail "the password is told: $err"
done
refuse 2 'leaves the task' "${H[@]}" submit --target "../x=$W/x" -- true
refuse 1 'goes with a command' "${H[@]}" submit --target "x=$W/x" x.jsdl
document true "$W/x" append > x.jsdl
refuse 2 'nothing can be appended' "${H[@]}" submit x.jsdl
document true "$F/x" dontOverwrite > x.jsdl
refuse 2 'cannot be told dontOverwrite' "${H[@]}" submit x.jsdl

# --- each try ends, and so does the task ---
expect 0 "${H[@]}" down --now
begin 1 "stage_retry = 1\nurl_stall_s = 1\n"
job always_busy "$W/always_busy"
job refused "http://127.0.0.1:1/x"
[ -z "${HTC_TEST_FULL:-}" ] || job stall "$W/stall"
bad always_busy "HTTP 503"
[ "$(asks 'PUT /always_busy')" = 2 ] || fail "it was sent $(asks 'PUT /always_busy') times"
fetched always_busy
bad refused "127.0.0.1:1/x: no connection"
[ -z "${HTC_TEST_FULL:-}" ] || bad stall "for too long"
expect 0 "${H[@]}" down --now

# --- what is cancelled while it is sent is waited for by nobody ---
begin 1 ''
before=$(asks 'PUT /stall')
job stall "$W/stall"
goes() { [ "$(asks 'PUT /stall')" -gt "$before" ]; }
soon goes || fail "it is not sent"
expect 0 "${H[@]}" cancel "${of[stall]}"
"${H[@]}" wait "${of[stall]}" > /dev/null 2>&1 && fail "it was not cancelled"
said=$("${H[@]}" tasks "${of[stall]}" --json)
[[ $said == *HTC_ECANCELLED* ]] || fail "it is not cancelled: $said"
ours_sends() { ps -eo pid,args | grep '[h]tc-transfer' | grep -F "$bin" > /dev/null; }
nothing_goes() { ! ours_sends; }
soon nothing_goes || fail "it is sent on: $(ps -eo pid,ppid,args | grep '[h]tc-transfer')"
expect 0 "${H[@]}" down --now
exec 9>&-
none_left
echo "ok"
