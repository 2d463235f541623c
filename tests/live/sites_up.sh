#!/bin/bash
# usage: sites_up.sh PROGRAM_FOLDER
# One configuration file with sites of three batch systems, and no command but htc up: the system makes keys for their brokers, starts them, starts them again when
# they are killed, and ends them. Slurm and Grid Engine are batch_fake.py's; the third one is emulated: it holds jobs, lets agents fail as they start, and has two
# clusters. All tasks are done, each once, and nobody acts.
fake=$(realpath "$(dirname "$0")/batch_fake.py")
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
port=$(python3 "$ports" 2 $$)
gateway=127.0.0.1:$port
queue=()
trap 'code=$?; kill -9 "${queue[@]}" 2> /dev/null; (exit $code); clean_up' EXIT
mkdir -p "$top/commands"
for site in slurm sge; do
    mkdir -p "$top/$site.batch"
    python3 "$fake" install $site "$top/$site.batch" "$top/commands"
    python3 "$fake" serve $site "$top/$site.batch" 4 > "$top/$site.served" 2>&1 &
    queue+=($!)
    disown $!
done
PATH=$top/commands:$PATH

# --- what a file may not say ---
printf '[site.a]\nadapter = pbs\n' > bad.ini
refuse 1 'bad.ini:2: .*emu stands for it' "${H[@]}" up --config bad.ini
printf '[site.a]\nadapter = slurm\n' > bad.ini
refuse 1 'needs server.join and db.join' "${H[@]}" up --config bad.ini
printf '[site.a]\nadapter = slurm\nqueue = long\n' > bad.ini
refuse 1 'bad.ini:3: unknown key site.a.queue' "${H[@]}" up --config bad.ini

cat > head.ini << END
[server]
join = $gateway
[db]
join = 127.0.0.1:$((port + 1))
[agent]
heartbeat_s = 1
lost_after_s = 6
relaunch_backoff_s = 0.5
[site.local]
cores = 1
[site.slurm]
adapter = slurm
cores = 4
period_s = 0.3
org = north
os = linux
[site.sge]
adapter = sge
cores = 4
period_s = 0.3
queued_max = 2
[site.emu]
adapter = emu
cores = 6
period_s = 0.3
batch_steps = 3
[emu]
clusters = one:3, two:3
service_s = 0.05
hold = 0.2
fail = 0.1
END
expect 0 "${H[@]}" up --config head.ini
site_of() { json "$("${H[@]}" sites --json)" "[s for s in v['sites'] if s['name'] == '$1'][0]['$2']"; }
slots_are() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = "$1" ]; }
soon slots_are 15 || fail "not all sites are there: $("${H[@]}" sites)"
[ "$(site_of slurm org)/$(site_of slurm os)/$(site_of emu org)" = north/linux/ ] || fail "labels: $("${H[@]}" sites --json)"

# --- one sweep on all of them at the same time (row 14 of the specification's section 7) ---
all_work() { [ "$(json "$("${H[@]}" agents --json)" "len({a['site'] for a in v['agents'] if a['state'] == 'busy'})")" = 4 ]; }
attempts() { json "$("${H[@]}" status "$1" --json)" '(v["jobs"][0]["tasks"]["done"], v["jobs"][0]["attempts"])'; }
wait_for='while [ ! -e "$0" ]; do sleep 0.1; done; echo $HTC_SITE'
expect 0 "${H[@]}" submit --json -- sh -c "$wait_for" "$PWD/go" ::: $(seq 60)
soon all_work || fail "agents: $("${H[@]}" agents)"
touch go
expect 0 "${H[@]}" wait 1
[ "$(attempts 1)" = '(60, 60)' ] || fail "not each ran once: $("${H[@]}" status 1 --json)"
expect 0 "${H[@]}" fetch 1 --to got
for s in local slurm sge emu; do grep -rq "^$s\$" got || fail "no task ran at $s: $("${H[@]}" tasks 1)"; done
nothing_runs() { [ "$(json "$("${H[@]}" agents --json)" 'len(v["agents"])')" = 0 ]; }
soon nothing_runs || fail "agents are left: $("${H[@]}" agents)"

# --- a broker is killed: it is started again, and goes on with its jobs, which are processes here ---
rm go
expect 0 "${H[@]}" submit --json -- sh -c "$wait_for" "$PWD/go" ::: $(seq 15)
soon all_work || fail "agents: $("${H[@]}" agents)"
of_emu() { json "$("${H[@]}" agents --json)" "sorted(a['id'] for a in v['agents'] if a['site'] == 'emu' and a['state'] == 'busy')"; }
before=$(of_emu)
broker=$(pgrep -f "htc-agent --join $gateway --site emu ")
kill -9 "$broker"
back() { [ "$(grep -c 'it is site emu' "$dir/log/gateway.log")" -ge 2 ]; }
soon back || fail "it is not started again: $(cat "$dir/log/supervisor.log")"
after=$(of_emu)
for id in $(tr -d '[],' <<< "$before"); do [[ " $(tr -d '[],' <<< "$after") " == *" $id "* ]] || fail "agent $id was lost: $before, then $("${H[@]}" agents)"; done
touch go
expect 0 "${H[@]}" wait 2
[ "$(attempts 2)" = '(15, 15)' ] || fail "not each ran once: $("${H[@]}" status 2 --json)"

# --- a node out of service: here all agents are on one, so that the own site is drained with it ---
node=$(uname -n)
refuse 4 'no site and no node nowhere' "${H[@]}" drain nowhere
expect 0 "${H[@]}" drain --node nowhere
expect 0 "${H[@]}" drain "$node" --reason 'a fan'
[[ $out == "node $node is out of service; "*' of it '*' in use until '*' end'* ]] || fail "drain: $out"
expect 0 "${H[@]}" sites
[[ $out == *"node $node is out of service: a fan"* && $out == *'node nowhere is out of service'* ]] || fail "sites: $out"
[ "$(site_of local state)" = drained ] || fail "states: $out"
expect 0 "${H[@]}" resume "$node"
expect 0 "${H[@]}" resume --node nowhere
[ "$(site_of local state)" = open ] || fail "it is not in service again: $("${H[@]}" sites)"

# --- all end, also what runs in batch systems ---
rm go
expect 0 "${H[@]}" submit --json -- sh -c "$wait_for" "$PWD/go" ::: $(seq 15)
soon all_work || fail "agents: $("${H[@]}" agents)"
expect 0 "${H[@]}" down --now
ended() { ! grep -l '"state": "\(waits\|held\|runs\)"' "$top"/*.batch/jobs/* > /dev/null 2>&1; }
soon ended || fail "jobs are left: $(cat "$top"/*.batch/jobs/*)"
[ ! -s "$dir/sites/emu/emu/running" ] || [ "$(wc -l < "$dir/sites/emu/emu/running")" = 1 ] || fail "steps are left: $(cat "$dir/sites/emu/emu/running")"

# --- and again: the same keys, what waited runs ---
expect 0 "${H[@]}" up --config head.ini
touch go
expect 0 "${H[@]}" wait 3
expect 0 "${H[@]}" down
[ "$(grep -c 'host' "$dir/ring")" = 3 ] || fail "keys: $(cat "$dir/ring")"
kill -9 "${queue[@]}"
none_left
echo ok
