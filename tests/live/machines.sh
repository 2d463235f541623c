#!/bin/bash
# Where a job is to run: hosts, architecture and operating system, with real agents at two sites of this machine and one that nobody has joined.
source "$(dirname "$0")/live.sh"
export HTC_DIR=$top/state
port=$(python3 "$ports" 2 $$) || fail "no ports"
printf '[server]\njoin = 127.0.0.1:%s\n[db]\njoin = 127.0.0.1:%s\n[site.east]\ncores = 2\n[site.west]\ncores = 2\n[site.far]\nadapter = join\n' "$port" $((port + 1)) > "$top/three.ini"
"$htc" up --config "$top/three.ini" > /dev/null || fail "up"
value() { python3 -S -c 'import json,sys; v = json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v[int(k)] if k.isdigit() else v[k]
print(v)' "$1"; }

# JSDL's names of this machine.
case $(uname -m) in x86_64) arch=x86_64 ;; aarch64) arch=arm ;; ppc64le) arch=powerpc ;; *) arch= ;; esac
"$htc" submit --wait --hosts nowhere,west ${arch:+--arch "$arch"} --os linux -- sleep 0.01 ::: {1..4} > /dev/null || fail "four tasks for west"
"$htc" report --by site --csv > "$top/report.csv" || fail "report"
[ "$(cut -d, -f1,3 "$top/report.csv" | tail -n +2)" = west,4 ] || fail "they ran at $(cat "$top/report.csv")"
"$htc" submit --wait --hosts "$(hostname)" -- true > /dev/null || fail "a task for this host"

# A document says the same, in and out.
"$htc" generate --hosts west,nowhere ${arch:+--arch "$arch"} --os Linux -- true > "$top/west.jsdl" || fail "generate"
for element in '<jsdl:HostName>west</jsdl:HostName><jsdl:HostName>nowhere</jsdl:HostName>' '<jsdl:OperatingSystemName>LINUX<' ${arch:+"<jsdl:CPUArchitectureName>$arch<"}; do
    grep -F "$element" "$top/west.jsdl" > /dev/null || fail "no $element in $(cat "$top/west.jsdl")"
done
"$htc" validate "$top/west.jsdl" > /dev/null || fail "validate"
"$htc" submit --wait "$top/west.jsdl" > /dev/null || fail "the document"
"$htc" generate --arch z80 -- true > /dev/null 2> "$top/said" && fail "an architecture that JSDL does not have"
grep '"z80" is not the name of an architecture' "$top/said" > /dev/null || fail "$(cat "$top/said")"

# What only the site that nobody has joined could be waits, and why is said; it goes on when it may be elsewhere.
id=$("$htc" --json submit --arch sparc -- true | value id) || fail "submit"
[ "$("$htc" --json why "$id" | value code)" = Machine ] || fail "$("$htc" why "$id")"
[[ $("$htc" why "$id") == *"asks for architecture sparc, and no agent offers that: site east is Linux $(uname -m)"*"site far has not said what it is"* ]] || fail "$("$htc" why "$id")"
"$htc" cancel "$id" > /dev/null || fail "cancel"
[ "$("$htc" --json sites | value sites.0.machines.0.machine)" = "$(uname -m)" ] || fail "$("$htc" --json sites)"
