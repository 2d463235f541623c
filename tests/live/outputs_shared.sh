#!/bin/bash
# usage: outputs_shared.sh PROGRAM_FOLDER
# data.output = shared: a host that sees the gateway's directory stores outputs there, and they are fetched when the host is away. One that sees a copy
# of that directory, or another one, is told from it: its outputs stay there, and htc sites says why.
source "$(dirname "$0")/live.sh"
lets_hosts_join

cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[data]
output = shared
[agent]
slots_max = 1
heartbeat_s = 1
[site.local]
cores = 1
[site.east]
adapter = join
[site.west]
adapter = join
END
expect 0 "${H[@]}" up --config head.ini
for site in east west; do
    expect 0 "$htc" keys enrol $site --role host --once "$dir/once"
    printf '%s\n' "$out" > $site.once
done
let_in() { "$htc" keys join "tcp://$store" --server head --role host --key "$1.key" --ring "$1.ring" --once "$1.once" > enrolled.out 2>&1; }
start()
{
    soon let_in "$1" || fail "$1 is not enrolled: $(cat enrolled.out)"
    "$bin/htc-agent" --join "$gateway" --dir "$top/$1" --key "$1.key" --ring "$1.ring" --slots 2 --config "$PWD/$1.ini" > "$1.out" 2>&1 &
    joined+=($!)
    soon grep -sq "^joined $gateway" "$1.out" || fail "$1 does not join: $(cat "$1.out")"
}
files() { find "$1" -type f -name "$2" 2> /dev/null | wc -l; }

# --- one that sees it ---
printf '[data]\noutput = shared\n[agent]\norphan_after_s = 5\n' > east.ini
start east
expect 0 "${H[@]}" drain local
expect 0 "${H[@]}" submit --wait -- sh -c 'echo "$HTC_TASK_INDEX at $HTC_SITE" > "$HTC_OUTPUT_DIR/said"' ::: 1 2 3 4
[ "$(files "$dir/data/out/1" said)" = 4 ] || fail "outputs in the gateway's directory: $(ls -R "$dir/data/out")"
[ "$(files $top/east/data/out said)" = 0 ] || fail "outputs are at the host too: $(ls -R $top/east/data/out)"
expect 0 "${H[@]}" sites
[[ $out != *'outputs of site'* ]] || fail "sites: $out"
kill -9 "${joined[0]}"
{ wait "${joined[0]}"; } 2> /dev/null
expect 0 "${H[@]}" fetch 1 --to east.fetched
[ "$(cat east.fetched/2/said)" = '2 at east' ] || fail "fetched: $(ls -R east.fetched)"

# --- one that sees a copy of it ---
cp -r "$dir/data" copy
id=$(ls copy/ids)
sed -i 's/........$/00000000/' "copy/ids/$id" # of a start before this one
printf '[data]\noutput = shared\noutput_dir = %s/copy\n[agent]\norphan_after_s = 5\n' "$PWD" > west.ini
start west
mkdir -p tool && printf 'echo "$HTC_TASK_INDEX at $HTC_SITE"\n' > tool/say # which is brought there as one content
expect 0 "${H[@]}" submit --wait -i tool/ -- sh -c 'sh tool/say > "$HTC_OUTPUT_DIR/said"' ::: 1 2
[ "$(files $top/west/data/out/2 said)" = 2 ] && [ ! -e copy/out/2 ] || fail "outputs of one that sees a copy: $(ls -R $top/west/data/out copy/out)"
expect 0 "${H[@]}" fetch 2 --to west.fetched
[ "$(cat west.fetched/1/said)" = '1 at west' ] || fail "fetched: $(ls -R west.fetched)"
grep -q 'copy here is another directory' "$dir/log/gateway.log" || fail "the gateway does not say so"

# --- what is removed is removed ---
expect 0 "${H[@]}" rm 1
gone() { [ ! -e "$dir/data/out/1" ]; }
soon gone || fail "outputs of a removed job: $(ls -R "$dir/data/out")"
expect 0 "${H[@]}" down --now
