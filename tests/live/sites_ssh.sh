#!/bin/bash
# usage: sites_ssh.sh PROGRAM_FOLDER
# htc-agent --join --batch ssh: agents on the hosts of a list, by ssh. The hosts are Debian's sshd on three loopback addresses, one of which nobody answers
# at; keys and configuration are the test's own. Skipped where there is no sshd, or it does not start.
source "$(dirname "$0")/live.sh"
dir=$top/head
H=("$htc" --dir "$dir")
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip "no sshd is installed (Debian's openssh-server)"
command -v ssh > /dev/null || skip "no ssh is installed (Debian's openssh-client)"
port=$(python3 "$ports" 3 $$)
gateway=127.0.0.1:$port store=127.0.0.1:$((port + 1))
broker='' served=''
trap 'code=$?; kill -9 $broker $served 2> /dev/null; (exit $code); clean_up' EXIT

# --- hosts: 127.0.0.1 and 127.0.0.2 ---
mkdir -m 700 "$top/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/user" || skip "ssh-keygen makes no keys"
cp "$top/ssh/user.pub" "$top/ssh/authorized"
cat > "$top/ssh/sshd.conf" << END
ListenAddress 127.0.0.1:$((port + 2))
ListenAddress 127.0.0.2:$((port + 2))
HostKey $top/ssh/host
AuthorizedKeysFile $top/ssh/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
END
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
"$sshd" -D -e -f "$top/ssh/sshd.conf" > "$top/ssh/sshd.out" 2>&1 &
served=$!
for a in 127.0.0.1 127.0.0.2 127.0.0.3; do printf '[%s]:%s %s\n' $a $((port + 2)) "$(cut -d' ' -f1,2 "$top/ssh/host.pub")"; done > "$top/ssh/known"
words="-F none -p $((port + 2)) -i $top/ssh/user -o UserKnownHostsFile=$top/ssh/known"
# shellcheck disable=SC2086
works() { ssh -o BatchMode=yes $words 127.0.0.2 true 2> "$top/ssh/tried"; }
tries=0
until works; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || skip "sshd does not let this user in: $(tail -n 1 "$top/ssh/tried") $(tail -n 1 "$top/ssh/sshd.out")"
    sleep 0.1
done

cat > head.ini << END
[server]
join = $gateway
[db]
join = $store
[agent]
heartbeat_s = 1
lost_after_s = 6
relaunch_backoff_s = 0.5
[site.local]
cores = 1
[site.lab]
adapter = join
END
expect 0 "${H[@]}" up --config head.ini
expect 0 "$htc" keys enrol lab --role host --once "$dir/once"
printf '%s\n' "$out" > lab.once
let_in() { "$htc" keys join "tcp://$store" --server head --role host --key lab.key --ring lab.ring --once lab.once > enrolled.out 2>&1; }
soon let_in || fail "lab is not enrolled: $(cat enrolled.out)"

# --- a list that is none ---
J=("$bin/htc-agent" --join "$gateway" --dir "$top/lab" --key lab.key --ring lab.ring)
printf '[batch]\nsystem = ssh\n' > lab.ini
refuse 1 'need a list of hosts' "${J[@]}" --config lab.ini
# As whom agents are started stands in a file that nobody else can read, and in no word of a command.
options="-p $((port + 2)) -o UserKnownHostsFile=$top/ssh/known"
printf '[batch]\nsystem = ssh\nhosts = %s/list\ncores = 2\noptions = %s\ncredentials = %s/lab.secret\n' "$PWD" "$options" "$PWD" > lab.ini
refuse 1 'cannot read the list of hosts' "${J[@]}" --config lab.ini
printf '# the lab\n4/127.0.0.1\n-oProxyCommand=true\n' > list
refuse 1 "line 3.*no name of a host" "${J[@]}" --config lab.ini
printf '4/127.0.0.1\n127.0.0.2\n' > list
refuse 1 "line 2.*fewer slots than an agent has cores" "${J[@]}" --config lab.ini

# --- two hosts work, nobody answers at the third ---
printf '4/127.0.0.1   # a machine\n\n3/127.0.0.2\n2/127.0.0.3\n' > list
refuse 1 'cannot read the credentials' "${J[@]}" --config lab.ini
(umask 022; printf 'user = %s\nidentity = %s\n' "$(id -un)" "$top/ssh/user" > lab.secret)
refuse 4 'the credentials .* can be read or written by others' "${J[@]}" --config lab.ini
chmod 600 lab.secret
chmod 640 "$top/ssh/user"
refuse 4 'the identity that is named by .*lab.secret can be read or written by others' "${J[@]}" --config lab.ini
chmod 600 "$top/ssh/user"
"${J[@]}" --config lab.ini > joined.out 2>&1 &
broker=$!
is_in() { grep -sq "^joined $gateway with 8 slots; agents go to the hosts of $PWD/list" joined.out; }
soon is_in || fail "it does not join: $(cat joined.out)"
expect 0 "${H[@]}" submit --json --wait -- sh -c 'sleep 0.3; echo "$HTC_SITE $SSH_CONNECTION"' ::: $(seq 60)
soon_all() { [ "$(json "$("${H[@]}" agents --json)" 'len(v["agents"])')" = 0 ]; }
soon soon_all || fail "agents are left: $("${H[@]}" agents)"
there=0
for i in $(seq 0 59); do
    expect 0 "${H[@]}" logs "1.$i"
    [[ $out =~ ^(lab|local) ]] || fail "task $i wrote: $out"
    [[ $out == lab* ]] && there=$((there + 1))
done
[ $there -ge 10 ] || fail "$there tasks of 60 ran at the hosts"
grep -q 'host 127.0.0.3 cannot be used' "$dir/log/gateway.log" || fail "the host that does not answer is not named: $(tail -n 20 "$dir/log/gateway.log")"
expect 0 "${H[@]}" fetch 1 --to got
[ "$(find got -name stdout | wc -l)" = 60 ] || fail "fetched: $(find got | head)"

# --- a connection breaks: the agent's tasks run again, and it does not go on behind our back ---
expect 0 "${H[@]}" submit --json -- sh -c 'while [ ! -e "$0" ]; do sleep 0.1; done; echo done' "$PWD/go" ::: $(seq 9)
lab_works() { [ "$(json "$("${H[@]}" agents --json)" 'sum(a["site"] == "lab" and a["state"] == "busy" for a in v["agents"])')" -ge 2 ]; }
soon lab_works || fail "agents: $("${H[@]}" agents)"
of_ours=$(pgrep -P $broker -x ssh | sed -n 1p)
[ -n "$of_ours" ] || fail "no ssh is there"
tr '\0' ' ' < "/proc/$of_ours/cmdline" > ssh.words
grep -F "$top/ssh/user" ssh.words > /dev/null && fail "all can list the key: $(cat ssh.words)"
[ "$(stat -c %a "$top/lab/ssh_config")" = 600 ] || fail "others can read $(ls -l "$top/lab/ssh_config")"
grep -rF "$top/ssh/user" "$dir/log" "$top/lab/log" joined.out && fail "a log has the key"
kill -9 "$of_ours"
touch go
expect 0 "${H[@]}" wait 2
expect 0 "${H[@]}" status 2 --json
[ "$(json "$out" 'v["jobs"][0]["tasks"]["done"]')" = 9 ] || fail "not all ran: $out"

kill $broker
gone_now() { ! kill -0 $broker 2> /dev/null; }
soon gone_now || fail "it does not end: $(cat joined.out)"
wait $broker || fail "it ended with $?"
expect 0 "${H[@]}" down

# --- the same by htc up alone: it makes the broker's keys, and starts and ends it ---
cat > alone.ini << END
[server]
join = $gateway
[db]
join = $store
[site.local]
cores = 1
[site.lab]
adapter = ssh
hosts = $PWD/list
options = $options
credentials = $PWD/lab.secret
agent_cores = 2
END
expect 0 "${H[@]}" up --config alone.ini
lab_is_there() { [ "$(json "$("${H[@]}" agents --json)" 'v["slots"]')" = 9 ]; }
soon lab_is_there || fail "the list's slots are not there: $("${H[@]}" sites)"
expect 0 "${H[@]}" submit --json --wait -- sh -c 'sleep 0.2; echo "$HTC_SITE"' ::: $(seq 30)
"${H[@]}" sites --json | grep -F "$PWD/lab.secret" > /dev/null && fail "sites tell the file"
expect 0 "${H[@]}" fetch 3 --to alone
[ "$(grep -rl '^lab$' alone | wc -l)" -ge 5 ] || fail "not enough ran at the hosts: $(grep -rh . alone | sort | uniq -c)"
expect 0 "${H[@]}" down
soon nobody || fail "processes are left: $(for p in $(ours); do tr '\0' ' ' < "/proc/$p/cmdline"; done)"
echo ok
