#!/bin/bash
# Other uids than the owner's: one takes all the places that it may have, floods logins, and gives its jobs names that would command a terminal.
# It keeps nobody else out, the log names it, and what is printed of it is text.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/people_lib.sh"
source "$here/live.sh"
people_begin
log=$dir/log/gateway.log
printf '[server]\nothers = on\nuid_connections_max = 8\n[task]\nothers_as_owner = confined\n' > "$top/crowd.ini"
as owner 0 up --slots 1 --config "$top/crowd.ini"
for name in ada ben; do
    as owner 0 user add $name --password-file "$top/password"
    as $name 0 login $name --password-file "$top/password"
done

# says PATTERN: a line of the gateway's log.
says() { grep -q "$1" "$log"; }

# --- what is refused is logged with the uid ---

echo wrong > "$top/wrong"
chmod 644 "$top/wrong"
as ben 4 login ada --password-file "$top/wrong"
soon says "a login as ada by uid $ben: wrong user name or password" || fail "a bad login is not logged: $(tail -n 5 "$log")"
as ben 4 login nobody --password-file "$top/password"
soon says "a login as nobody by uid $ben: wrong user name or password" || fail "an unknown user is not logged"
printf '%064d' 7 > "$top/unknown"
chown "$ben" "$top/unknown"
chmod 600 "$top/unknown"
as ben 4 --token-file "$top/unknown" status
soon says "uid $ben sends a token that is not known" || fail "an unknown token is not logged: $(tail -n 5 "$log")"

# --- a name that commands a terminal ---

# XML has no ESC, so that no job has one in its name; U+009B does the same, and what turns the direction of a text is no control character.
plain() # TEXT: nothing in it is a command for a terminal
{
    python3 -S -c 'import sys, unicodedata; sys.exit(any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in sys.stdin.read()))' <<< "$1"
}
as ben 1 submit --name $'a\033[2Jb' -- true
plain "$err" || fail "a refused name is printed: $(cat -v <<< "$err")"
name=$'a\u009b31mb\u202ed\u2066e'
as ben 0 submit --wait --retries 0 --name "$name" -- true
for words in "status" "status last" "why last" "tasks last" "why last.0" "report" "report last"; do
    # shellcheck disable=SC2086
    as ben 0 $words
    plain "$out$err" || fail "htc $words prints: $(cat -v <<< "$out$err")"
    [[ $words == report* || $words == tasks* || $words == why* || $out == *"a?31mb?d?e"* ]] || fail "htc $words does not show the name: $out"
done
as ben 0 status --json
plain "$out" || fail "status --json prints: $(cat -v <<< "$out")"
as owner 0 status
plain "$out" || fail "the owner's status prints: $(cat -v <<< "$out")"
plain "$(< "$log")" || fail "the log has them: $(grep -nP '[^\x20-\x7e]' "$log" | cat -v | head -n 3)"

# --- connections of one uid ---

cat > "$top/hold.py" << 'E2'
# Opens 200 connections of that uid that say nothing; says how many stay, and keeps them until its input ends.
import os, socket, sys, time
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
held = []
for i in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    while True:  # a queue that is full is no refusal
        try:
            s.connect(sys.argv[1])
            break
        except BlockingIOError:
            time.sleep(0.01)
    held.append(s)
def is_open(s):
    s.setblocking(False)
    try:
        while True:
            if not s.recv(4096):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False
held[-1].settimeout(60)
try:
    while held[-1].recv(4096):  # what it is told, and the end: the last of 200 is beyond any limit here
        pass
except OSError:
    pass
print(sum(map(is_open, held)), flush=True)
sys.stdin.read()
E2
coproc holder { python3 -S "$top/hold.py" "$dir/gateway.sock" "$ben"; }
holder_in=${holder[1]}
read -r -t 60 held <&"${holder[0]}" || fail "the flood says nothing"
[ "$held" = 8 ] || fail "one uid holds $held places of 8"
soon says "uid $ben comes with 8 connections of its own" || fail "the log does not name the uid: $(tail -n 5 "$log")"
as ben 6 --timeout 5s status
as ada 0 status
as ada 0 submit --wait -- true # by an agent that comes in now
as owner 0 status
eval "exec $holder_in>&-"
wait "$holder_PID" 2> /dev/null
free_again() { run_as ben "$top/build/examples/htc" --dir "$dir" status > /dev/null 2>&1; }
soon free_again || fail "places are not given back"

# --- logins of one uid ---

cat > "$top/logins.sh" << E2
for i in 1 2 3 4 5 6 7 8; do
    while [ ! -e "$top/enough" ]; do
        "$top/build/examples/htc" --dir "$dir" --timeout 2s login ada --password-file "$top/wrong" > /dev/null 2>> "$top/home-ben/said"
    done &
done
wait
E2
run_as ben bash "$top/logins.sh" &
flood=$!
soon test -s "$top/home-ben/said" || fail "no login is refused"
for _ in 1 2 3; do
    as ada 0 login ada --password-file "$top/password"
done
: > "$top/enough"
wait $flood
as owner 0 down --now
none_left
