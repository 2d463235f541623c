#!/bin/bash
# usage: urls.sh PROGRAM_FOLDER
# Inputs by URL: from servers on 127.0.0.1 that break off, are busy, send on, lie or say nothing. What a task reads is all of it, or the task does not run.
source "$(dirname "$0")/live.sh"
command -v openssl > /dev/null || skip "no openssl to make a certificate with"
dir=$top/state
H=("$htc" --dir "$dir")
mkdir server
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
    -keyout server.key -out server.crt 2> /dev/null || fail "no certificate"
mkfifo hold
python3 "$(dirname "$ports")/urls_server.py" server server.crt server.key < hold &
exec 9> hold
soon test -e server/ports || fail "no server"
read -r http ftp https < server/ports
W=http://127.0.0.1:$http F=ftp://127.0.0.1:$ftp S=https://127.0.0.1:$https

begin()
{
    printf '[task]\nretry_backoff_s = 0.1\nmax_attempts = %d\n[data]\nurl_max = 1M\n%b' "$1" "$2" > htc.ini
    http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 expect 0 "${H[@]}" up --slots 16 --config htc.ini
}
# Each is a job: job NAME URL; then good NAME CONTENT-FILE, or bad NAME PATTERN.
declare -A of
job()
{
    expect 0 "${H[@]}" submit -i "in=$2" -- cat in
    [[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
    of[$1]=${BASH_REMATCH[1]}
}
secret() # NAME FILE URL
{
    expect 0 "${H[@]}" submit --credentials "$2" -i "in=$3" -- cat in
    [[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
    of[$1]=${BASH_REMATCH[1]}
}
good()
{
    "${H[@]}" wait "${of[$1]}" > /dev/null || fail "$1: $("${H[@]}" status "${of[$1]}" 0 2>&1; "${H[@]}" why "${of[$1]}" 2>&1)"
    "${H[@]}" logs "${of[$1]}" > got.txt
    cmp -s got.txt "$2" || fail "$1 read something else: $(head -c 200 got.txt)"
}
bad()
{
    "${H[@]}" wait "${of[$1]}" > /dev/null 2>&1 && fail "$1 ended well"
    said=$("${H[@]}" tasks "${of[$1]}" --json)
    [[ $said == *HTC_ESTAGEIN* && $said =~ $2 ]] || fail "$1 does not say '$2': $said"
    [[ ${3:-} != once || $said =~ \"attempt\":\ ?1[,}] ]] || fail "$1 was tried again: $said"
}
asks() { grep -c "^$1" server/asked; }

# --- one after the other is begun, then looked at ---
begin 2 ''
job busy "$W/busy"
job broken "$W/broken"
job other "$W/other"
job liar "$W/liar"
job ftp_broken "$F/pub/broken"
job plain "$W/plain.txt"
job empty "$W/empty"
job chunked "$W/chunked"
job moved "$W/moved"
job ftp "$F/pub/file"
job missing "$W/none?signature=s3cret-word"
job ftp_missing "$F/pub/none"
job to_file "$W/to-file"
job to_ftp "$W/to-ftp"
job loop "$W/loop"
job endless "$W/endless"
job large "$W/large"
job large_chunked "$W/large-chunked"
job private "$W/private"
printf 'machine 127.0.0.1 login ada password s3cret-word\nmachine localhost login ada password s3cret-word\n' > right
printf 'machine 127.0.0.1 login ada password s3cret-guess\n' > wrong
chmod 600 right wrong
secret right right "$W/private"
secret wrong wrong "$W/private"
secret away right "$W/away"
secret ftp_right right "$F/private/file"
job unknown_certificate "$S/plain.txt"

printf 'plain words\n' > plain; printf 'one two\n' > chunked; : > empty; printf 'at last\n' > busy; printf 'new\n' > new
head -c 2000 /dev/zero | tr '\0' b > liar
good plain plain
good empty empty
good chunked chunked
good moved plain
good ftp server/content
bad missing "127.0.0.1:$http/none\?\.\.\.: HTTP 404: it is not there" once
[[ $said != *s3cret-word* ]] || fail "what is behind the question mark is told"
bad ftp_missing "$ftp/pub/none: .*550|$ftp/pub/none: it is not there" once
bad to_file "not looked for" once
bad to_ftp "not looked for" once
bad loop "not looked for" once
[ "$(asks 'GET /loop')" = 6 ] || fail "sent on $(asks 'GET /loop') times"
bad endless "does not say where the content ends" once
bad large "larger than data.url_max" once
bad large_chunked "larger than data.url_max" once
bad private "HTTP 401" once
printf 'for ada\n' > private
good right private
bad wrong "HTTP 401: the server wants another user and password" once
bad away "HTTP 401" once # the other host is in the file too, and yet gets nothing
[ "$(asks 'GET /private range= login=True')" = 2 ] || fail "who got a login: $(grep private server/asked)"
good ftp_right server/content
grep 'RETR file from=0 user=ada' server/asked > /dev/null || fail "the FTP server was told no user: $(grep RETR server/asked)"
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
chmod 644 right
refuse 4 'chmod 600' "${H[@]}" submit --credentials right -i "$W/plain.txt" -- true
refuse 2 'cannot read the credentials' "${H[@]}" submit --credentials none -i "$W/plain.txt" -- true
chmod 600 right
mkdir -p "$HOME/.config/htcsched"
cp right "$HOME/.config/htcsched/credentials"
XDG_CONFIG_HOME="" expect 0 "${H[@]}" submit -i "in=$W/private" -- cat in
[[ $out =~ ^job\ ([0-9]+): ]] || fail "submit said: $out"
of[own]=${BASH_REMATCH[1]}
good own private
rm -r "$HOME/.config"
bad unknown_certificate "certificate is not to be trusted" once
busy_asks=2 # each further one costs twice the time of the one before
[ -z "${HTC_TEST_FULL:-}" ] || busy_asks=3
good busy busy
[ "$(asks 'GET /busy')" = "$busy_asks" ] || fail "it was asked for $(asks 'GET /busy') times"
good broken server/content
grep 'GET /broken range=bytes=150000-' server/asked > /dev/null || fail "it was not gone on with: $(grep broken server/asked)"
good other new
good liar liar
good ftp_broken server/content
grep 'RETR broken from=150000' server/asked > /dev/null || fail "it was not gone on with: $(grep RETR server/asked)"

# --- what is refused when it is submitted ---
refuse 2 '^htc: --input: .* has a user or password in it' "${H[@]}" submit -i 'x=http://ada:s3cret-word@127.0.0.1/x' -- cat x
[[ $err != *s3cret-word* ]] || fail "the password is told: $err"
refuse 1 'no file' "${H[@]}" submit -i "$W/" -- true
for input in s3://bucket/x x=htp://127.0.0.1/x HTTP://127.0.0.1/x; do
    refuse 2 'a URL of this kind is not read: http://, https:// and ftp://' "${H[@]}" submit -i "$input" -- cat x
done

# --- what lasts: each try ends, and so does the task; and what is cancelled while it comes is waited for by nobody ---
expect 0 "${H[@]}" down --now
begin 1 "stage_retry = 1\nurl_stall_s = 1\nurl_ca = $PWD/server.crt\n"
job short "$W/short"
[ -z "${HTC_TEST_FULL:-}" ] || job stall "$W/stall"
job always_busy "$W/always_busy"
job refused "http://127.0.0.1:1/x"
job known_certificate "$S/plain.txt"
job down "$S/down"
good known_certificate plain
bad down "not looked for" once
bad short "ended before all had come"
bad always_busy "HTTP 503"
bad refused "127.0.0.1:1/x: no connection"
[ "$(asks 'GET /always_busy')" = 2 ] || fail "it was asked for $(asks 'GET /always_busy') times"
[ -z "${HTC_TEST_FULL:-}" ] || bad stall "nothing came for too long"
expect 0 "${H[@]}" down --now
begin 1 ''
before=$(asks 'GET /stall')
job stall "$W/stall"
comes() { [ "$(asks 'GET /stall')" -gt "$before" ]; }
soon comes || fail "it is not fetched"
expect 0 "${H[@]}" cancel "${of[stall]}"
"${H[@]}" wait "${of[stall]}" > /dev/null 2>&1 && fail "it was not cancelled"
ours_fetches() { ps -eo pid,args | grep '[h]tc-transfer' | grep -F "$bin" > /dev/null; }
nothing_fetches() { ! ours_fetches; }
soon nothing_fetches || fail "it is fetched on: $(ps -eo pid,ppid,args | grep '[h]tc-transfer')"
expect 0 "${H[@]}" down --now
exec 9>&-
none_left
echo "ok"
