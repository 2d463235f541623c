#!/bin/bash
# Few descriptors, a home directory with a space in its name, a long path, and two systems side by side.
source "$(dirname "$0")/live.sh"
ulimit -n 256 || fail "ulimit"
export HOME="$top/home of ada"
mkdir -p "$HOME"
long=$HOME/$(printf 'a%.0s' $(seq 100))/$(printf 'b%.0s' $(seq 100))
mkdir -p "$long"
first="$long/first state" second=$top/second
for d in "$first" "$second"; do
    expect 0 "$htc" --dir "$d" up --slots 8
done
for d in "$first" "$second"; do
    expect 0 "$htc" --dir "$d" submit --name "$(basename "$d")" -- sh -c 'echo {n} > "$HTC_OUTPUT_DIR/n"' ::: n=1:300
done
for d in "$first" "$second"; do
    expect 0 "$htc" --dir "$d" wait 1
    expect 0 "$htc" --dir "$d" fetch 1 --to "results of $(basename "$d")"
    n=$(cat "results of $(basename "$d")"/*/n | sort -n | uniq | wc -l)
    [ "$n" = 300 ] || fail "$n results of 300 in $d"
    expect 0 "$htc" --dir "$d" status --json
    [ "$(json "$out" '[j["name"] for j in v["jobs"]]')" = "['$(basename "$d")']" ] || fail "mixed up: $out"
done
# No TCP port.
for p in $(ours); do
    if ls -l "/proc/$p/fd" 2> /dev/null | grep -o 'socket:\[[0-9]*\]' | tr -dc '0-9\n' |
        grep -qFwf - <(awk '$4 == "0A" { print $10 }' /proc/net/tcp /proc/net/tcp6 2> /dev/null); then
        fail "process $p listens on TCP"
    fi
done
# Without root, where somebody else can reach the programs. (Else whoever runs this is not root, and all of it was that.)
if [ "$(id -u)" = 0 ]; then
    chmod 711 "$top" "$top/work"
    install -d -o 65534 -g 65534 -m 700 "$top/nobody"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$top/nobody")
    if "${as[@]}" test -x "$htc" -a -w "$top/nobody" 2> /dev/null; then
        state=$top/nobody/state
        expect 0 "${as[@]}" "$htc" --dir "$state" up --slots 2
        expect 0 "${as[@]}" "$htc" --dir "$state" submit --wait -- sh -c 'id -u > "$HTC_OUTPUT_DIR/uid"'
        expect 0 "${as[@]}" "$htc" --dir "$state" fetch 1 --to "$top/nobody/results"
        [ "$(cat "$top/nobody/results/0/uid")" = 65534 ] || fail "not run by the one who started it"
        expect 0 "${as[@]}" "$htc" --dir "$state" down
        echo "ok: without root"
    else
        echo "not tried without root: the programs are where only root can reach them"
    fi
fi

expect 0 "$htc" --dir "$first" down
expect 0 "$htc" --dir "$second" status
expect 0 "$htc" --dir "$second" down
rm -rf "$long" "${HOME:?}"/a*
none_left
echo "limits: all is well"
