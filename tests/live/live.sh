# What the live tests share. Usage: source it with the folder of the programs as $1.
# Everything a test makes is under $top; it must leave no process and nothing else.
set -uo pipefail
bin=$(cd "$1" && pwd)
ports=$(realpath "$(dirname "$0")/ports.py")
htc=$bin/htc
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-live.XXXXXX")
chmod 711 "$top" # root's system lets other uids pass
# Not where the way to it is root's alone, as in a clone below /root.
if [ "$(id -u)" = 0 ] && ! setpriv --reuid 65101 --regid 65101 --clear-groups test -x "$top"; then
    rmdir "$top"
    top=$(mktemp -d /tmp/htc-live.XXXXXX)
    chmod 711 "$top"
fi
unset HTC_DIR HTC_GATEWAY XDG_CONFIG_HOME XDG_STATE_HOME
export HOME=$top/home PATH=$bin:$PATH
mkdir -p "$HOME" "$top/work"
cd "$top/work" || exit 1

fail()
{
    echo "FAILED: $*" >&2
    for f in "$top"/*/log/*.log "$top"/*/log/*.out; do
        [ -s "$f" ] && { echo "--- ${f#"$top"/}"; tail -n 15 "$f"; } >&2
    done
    exit 1
}

skip()
{
    echo "skipped: $*"
    exit 77
}

# Processes whose command line or working directory is under $top.
ours()
{
    local p words in_slots
    in_slots=" $(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$top/*/slots/*" 2> /dev/null | tr '\n' ' ')"
    for p in /proc/[0-9]*; do
        [ "${p#/proc/}" = $$ ] && continue
        words=()
        { mapfile -d '' -t words < "$p/cmdline"; } 2> /dev/null # no process is begun for each that is looked at
        [[ "${words[*]}" == *"--dir $top/"* || $in_slots == *" $p/cwd "* ]] && echo "${p#/proc/}"
    done
}

# daemon_pid NAME: into pid. An agent's keepers are of the same program, and are no daemons.
daemon_pid()
{
    local p
    for p in $(ours); do
        [ "$(basename "$(readlink "/proc/$p/exe")")" = "$1" ] && [ "$(cat "/proc/$p/comm")" != htc-keeper ] && pid=$p && return
    done
    fail "no $1"
}

clean_up()
{
    local code=$? p
    for p in "$top"/*/lock; do
        [ -e "$p" ] && timeout 60 "$htc" --dir "${p%/lock}" down --now > /dev/null 2>&1
    done
    # shellcheck disable=SC2046
    [ -z "$(ours)" ] || kill -9 $(ours) 2> /dev/null
    rm -rf "$top"
    exit $code
}
trap clean_up EXIT

# soon COMMAND...: until it succeeds, whatever the machine has to do beside; 1: not within two minutes.
soon()
{
    local end=$((SECONDS + 120)) pause=0.05 asked=0
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        [ $((asked += 1)) -lt 10 ] || pause=0.2 # to ask takes as much of a processor as what is waited for
        sleep $pause
    done
}

# gone PID: no thread of it lives; one that waits for a disk does so a while after all were killed, with the files of all.
gone()
{
    local stat
    { stat=$(< "/proc/$1/stat"); } 2> /dev/null || return 0
    read -r -a stat <<< "${stat##*) }"
    [[ ${stat[0]} == [ZX] ]] && [ "${stat[17]}" -le 1 ]
}

nobody() { left=$(ours); [ -z "$left" ]; }

none_left()
{
    local left
    soon nobody || fail "processes are left: $(for p in $left; do tr '\0' ' ' < "/proc/$p/cmdline"; done)"
    # What a daemon says beside its log is the last word of a crash or a sanitizer.
    for left in "$top"/*/log/*.out; do
        [ ! -s "$left" ] || fail "a daemon said: $(head -c 2000 "$left")"
    done
    [ -z "$(find "$HOME" -mindepth 1)" ] || fail "files in the home directory: $(find "$HOME" -mindepth 1)"
}

# expect CODE COMMAND...: runs it, keeps standard output in $out and standard error in $err.
expect()
{
    local code=$1 got
    shift
    out=$(timeout 900 "$@" 2> "$top/err")
    got=$?
    err=$(cat "$top/err")
    [ $got = "$code" ] || fail "exit code $got instead of $code of: $*"$'\n'"$out"$'\n'"$err"
}

# refuse CODE PATTERN COMMAND...: one line on standard error that matches, and this exit code; with --json one JSON
# object with error and message.
refuse()
{
    local code=$1 pattern=$2
    shift 2
    expect "$code" "$@"
    [ "$(printf '%s\n' "$err" | wc -l)" = 1 ] || fail "not one line: $err"
    [[ $err =~ $pattern ]] || fail "'$err' does not say '$pattern': $*"
    echo "ok: $code $err"
}

# member FILE-OR-TEXT EXPRESSION: python expression over the JSON value v.
json()
{
    printf '%s' "$1" | python3 -S -c "import json,sys; v=json.load(sys.stdin); print($2)"
}

# A system in $top/head that hosts may join: H asks it, $gateway and $store are for its configuration, and who is in joined ends with the test.
lets_hosts_join()
{
    dir=$top/head
    H=("$htc" --dir "$dir")
    port=$(python3 "$ports" 2 $$)
    gateway=127.0.0.1:$port store=127.0.0.1:$((port + 1))
    joined=()
    trap 'code=$?; [ ${#joined[@]} = 0 ] || kill -9 "${joined[@]}" 2> /dev/null; (exit $code); clean_up' EXIT
}
