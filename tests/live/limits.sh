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
expect 0 "$htc" --dir "$first" down
expect 0 "$htc" --dir "$second" status
expect 0 "$htc" --dir "$second" down
rm -rf "$long" "${HOME:?}"/a*
none_left
echo "limits: all is well"
