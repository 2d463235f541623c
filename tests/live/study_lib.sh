# What tests of htc-sim share: a folder that goes away, a command with its end, and a run in pieces. Source it with the folder of programs as first argument.
# shellcheck shell=bash
set -euo pipefail
sim=$1/htc-sim
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    exit 1
}
# ends STATUS ARGS...: in $dir/out and $dir/err
ends() {
    local want=$1 got=0
    shift
    "$sim" "$@" > "$dir/out" 2> "$dir/err" < /dev/null || got=$?
    [ "$got" = "$want" ] || { cat "$dir/out" "$dir/err"; fail "htc-sim $* ends with $got, not $want"; }
}
says() { grep -qF -- "$1" "$dir/err" || { cat "$dir/err"; fail "it does not say: $1"; }; }
has() { grep -qE -- "$1" "$dir/out" || { cat "$dir/out"; fail "it does not have: $1"; }; }
hash_of() { grep -oE '"hash":"[0-9a-f]+"' "$dir/out"; }
# Of a run that was interrupted: when the last end was until then.
has_no_makespan() {
    has '^last end +[0-9.]+ s'
    ! grep makespan "$dir/out" || fail "a run that has not ended has a makespan"
}

# in_pieces EVENTS FILE... -- ARGS...: whole, and in pieces of so many events it is the same run, and so are these files of --plot. The last one's output is
# in $dir/out; $dir/state is the last checkpoint.
in_pieces() {
    local events=$1 files=() got=4 pieces=1 hash file
    shift
    while [ "$1" != -- ]; do
        files+=("$1")
        shift
    done
    shift
    ends 0 "$@" --plot "$dir/whole" --json
    hash=$(hash_of)
    ends 4 "$@" --stop-after "$events" --checkpoint "$dir/state" --plot "$dir/parts" --json
    while [ $got = 4 ]; do
        got=0
        "$sim" resume "$dir/state" --stop-after "$events" --plot "$dir/parts" --json > "$dir/out" 2> "$dir/err" < /dev/null || got=$?
        pieces=$((pieces + 1))
    done
    [ $got = 0 ] || { cat "$dir/out" "$dir/err"; fail "piece $pieces of htc-sim $* ends with $got"; }
    [ $pieces -gt 2 ] || fail "htc-sim $* has only $pieces pieces of $events events"
    [ "$(hash_of)" = "$hash" ] || fail "in pieces it is another run: htc-sim $*"
    for file in "${files[@]}"; do
        cmp "$dir/whole/$file" "$dir/parts/$file" || fail "in pieces $file is another: htc-sim $*"
    done
}
