#!/bin/bash
# usage: malice.sh PROGRAM_FOLDER
# Root's system with users under uids of their own. ben wants what ada and cy have: to read it, change it, keep them from it, or learn of it. Each line below is an
# attack of the table in doc/design/isolation.md, which says where the others are tried.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/people_lib.sh"
source "$here/live.sh"
people_begin
dir=$top/rooted
H=("$top/build/examples/htc" --dir "$dir")
export LD_LIBRARY_PATH=$top/build
port=$(python3 "$ports" 2 $$)
printf '[server]\nothers = on\nmetrics = 127.0.0.1:%s\nportal = 127.0.0.1:%s\n[agent]\nheartbeat_s = 0.2\n[data]\nuploads_max = 1M\n' "$port" $((port + 1)) > "$top/htc.ini"
expect 0 "${H[@]}" up --slots 6 --config "$top/htc.ini"
for name in ada ben cy; do
    expect 0 "${H[@]}" user add $name --uid "${!name}:${!name}" --password-file "$top/password"
    as $name 0 login $name --password-file "$top/password"
done

# --- what ada has: a task that runs, an upload, results, a token; its words are looked for in all that ben is shown ---
word=xyzzy$$ planted_jobs=()
echo "$word of the upload" > "$top/home-ada/$word.in"
cat > "$top/home-ada/run.sh" << END
#!/bin/sh
echo $word > "\$HTC_OUTPUT_DIR/kept"; echo $word; echo $word > "\$HTC_SCRATCH/$word.tmp"; pwd > "$top/home-ada/where"; echo \$\$ > "$top/home-ada/pid"
while [ ! -e "$top/home-ada/go" ]; do sleep 0.05; done
END
chmod 700 "$top/home-ada/run.sh" && chown "$ada:$ada" "$top/home-ada"/*
as ada 0 submit --wait --name "$word" -i "$top/home-ada/$word.in" -- cat "$word.in"
as ada 0 submit --name "$word" --env "SECRET=$word" -- "$top/home-ada/run.sh" "$word"
running() { [ -s "$top/home-ada/pid" ]; }
soon running || fail "ada's task does not run: $("${H[@]}" status)"
# And what cy has: a job that has ended.
as cy 0 submit --wait --name "$word-of-cy" -- sh -c "echo $word of cy; echo $word of cy > \"\$HTC_OUTPUT_DIR/kept\""
pid=$(cat "$top/home-ada/pid") where=$(cat "$top/home-ada/where")
hash=$(ls "$dir/data/blobs/ada")

# --- the interface: what is ada's is as what is not there, word for word ---
ben_says() # WORDS...: all that htc answers, whatever that is
{
    local words
    person ben
    said=$("${words[@]}" "$top/build/examples/htc" --dir "$dir" "$@" 2>&1 < /dev/null)
    [[ $said != *$word* ]] || fail "ben is told of it: htc $*: $said"
}
there=2 of_cy=3 not=77
for hers in $there $of_cy; do
for what in 'status' 'tasks' 'logs' 'why' 'cancel' 'hold' 'release' 'retry --failed' 'resubmit' 'rm' 'du' 'wait' 'report' 'fetch --to x'; do
    for task in '' .0; do
        # shellcheck disable=SC2086
        ben_says ${what%% *} $hers$task ${what#"${what%% *}"}
        of_hers=${said//$hers/N}
        # shellcheck disable=SC2086
        ben_says ${what%% *} $not$task ${what#"${what%% *}"}
        [ "$of_hers" = "${said//$not/N}" ] || fail "htc $what of job $hers of another, and of none: '$of_hers', '$said'"
    done
done
done
for what in 'status' 'status all' 'cancel all' 'rm all' 'users' 'agents' 'sites' 'project list' 'quota' 'report --by user,project,day' 'history' 'du' 'why' '--json users' '--json agents'; do
    # shellcheck disable=SC2086
    ben_says $what
done
for hers in $there $of_cy; do
    ben_says submit --after $hers -- true
    [[ $said == *"never was yours"* ]] || fail "ben waits for job $hers of another: $said"
done
for what in 'status' 'cancel all' 'submit -- true' 'quota' 'user set ada --weight 1'; do
    # shellcheck disable=SC2086
    as ben 4 --user ada $what
done
for what in 'user set ben --weight 99' 'user rm ada' 'quota ben --tasks none' 'project add p' 'drain local' 'down'; do
    # shellcheck disable=SC2086
    as ben 4 $what
done

# --- the machine: files, links, processes ---
refuses() # COMMAND...: ben may not
{
    local got
    got=$(run_as ben "$@" 2> /dev/null) && [ -n "$got" ] && fail "ben may: $*: $got"
    [[ $got != *$word* ]] || fail "ben reads: $*: $got"
}
token=$(find "$top/home-ada" -name ada -type f | head -n 1)
[ -s "$token" ] || fail "ada has no token"
live=$(find "${where%/*}" -name stdout | head -n 1) kept=$(find "$dir/data/out/1" -name stdout | head -n 1) kept_of_cy=$(find "$dir/data/out/$of_cy" -name kept | head -n 1)
for file in "$token" "$dir/operator" "$dir/data/blobs/ada/$hash" "$where/$word.tmp" "$live" "$kept" "$kept_of_cy" "/proc/$pid/environ" "/proc/$pid/mem" "/proc/$pid/maps"; do
    [ -e "$file" ] || fail "there is no $file to be refused"
    refuses cat "$file"
done
for place in "$dir/data/blobs" "$dir/data/blobs/ada" "$dir/data/out" "$dir/data/out/1" "$dir/data/out/$of_cy" "$dir/slots" "$where" "$dir/log" "$dir/store" "/proc/$pid/fd" "/proc/$pid/cwd/"; do
    [ -d "$place" ] || fail "there is no $place to be refused"
    refuses ls "$place"
done
for place in "$dir" "$dir/data" "$dir/data/blobs" "$dir/data/blobs/ada" "$dir/data/out" "$dir/data/out/2" "$dir/data/out/$of_cy" "$dir/slots" "$where" "$dir/log"; do
    run_as ben sh -c ": > '$place/planted' || ln -s /etc/passwd '$place/planted' || mkdir '$place/planted'" 2> /dev/null && fail "ben plants something in $place"
done
for what in "kill -0 $pid" "kill -STOP $pid" "kill -9 $pid" "renice -n 19 -p $pid" "prlimit --pid $pid --nofile=3:3" "taskset -p 1 $pid"; do
    # shellcheck disable=SC2086
    run_as ben $what > /dev/null 2>&1 && fail "ben may $what"
done
# python: as ben, wherever it is installed.
python() { python3 -S -c "import ctypes, encodings.idna, os, socket, sys, time, urllib.request; os.setgroups([]); os.setresgid($ben, $ben, $ben); os.setresuid($ben, $ben, $ben)"$'\n'"$1" "${@:2}"; }
[ "$(python 'print(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None), os.getuid())' "$pid")" = "-1 $ben" ] || fail "ben traces ada's task"
# In his own directories he puts links to what he cannot read: no program follows them with more rights than his.
printf '<j:JobDefinition xmlns:j="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:p="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"><j:JobDescription><j:Application><p:POSIXApplication><p:Executable>/bin/cat</p:Executable><p:Argument>in</p:Argument></p:POSIXApplication></j:Application><j:DataStaging><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>htc:%s</j:URI></j:Source></j:DataStaging></j:JobDescription></j:JobDefinition>' "$hash" > "$top/named.jsdl"
echo his > "$top/home-ben/own"
as ben 0 submit --wait -i "$top/home-ben/own" -- cat own
for how in 'ln -s' ln 'echo other >'; do
    [ "$how" != ln ] || [ "$(cat /proc/sys/fs/protected_hardlinks)" = 1 ] || continue
    planted=$dir/data/blobs/ben/$hash
    # shellcheck disable=SC2086
    run_as ben sh -c "rm -f '$planted'; $how '$dir/data/blobs/ada/$hash' '$planted' || :" 2> /dev/null
    [[ $how != echo* ]] || run_as ben sh -c "echo other > '$planted'" || fail "ben cannot plant in his own uploads"
    ben_says submit --retries 0 "$top/named.jsdl"
    [[ $said =~ ^job\ ([0-9]+): ]] || fail "ben submits what he planted: $said"
    planted_jobs+=("${BASH_REMATCH[1]}")
done
as ben 5 submit --wait --retries 0 -- sh -c "ln -s '$token' \"\$HTC_OUTPUT_DIR/kept\"; ln -s '$dir/operator' \"\$HTC_OUTPUT_DIR/op\"; exit 1"
as ben 0 submit --wait -- sh -c "ln -s '$token' \"\$HTC_OUTPUT_DIR/kept\"; ln -s '$dir/operator' \"\$HTC_OUTPUT_DIR/op\"; ln -s '$dir/operator' x; cp x \"\$HTC_OUTPUT_DIR/y\" || true"
run_as ben mkdir "$top/home-ben/results"
ben_says fetch last --to "$top/home-ben/results"
run_as ben grep -rqF -e "$word" -e "$(cat "$dir/operator")" -e "$(cat "$token")" "$top/home-ben/results" && fail "ben has fetched what is not his: $(find "$top/home-ben/results")"
run_as ben sh -c "rm -rf '$top/home-ben/results'; mkdir '$top/home-ben/results'"
# A task of his, with all that a task has.
cat > "$top/home-ben/spy.sh" << END
#!/bin/sh
cat "$token" "$dir/operator" "$dir"/data/blobs/ada/* "$where"/* "$where"/../*/* "$dir"/data/out/*/*/*/* /proc/*/environ 2> /dev/null | grep -aF "$word"
kill -9 $pid 2> /dev/null
true
END
chmod 755 "$top/home-ben/spy.sh"
ben_says submit --wait --retries 0 -- "$top/home-ben/spy.sh"
ben_says logs last

# --- what programs show to all: command lines, figures, pages ---
shown=$(run_as ben ps -eo user,args 2> /dev/null | grep -F "$dir" | grep -F "$word")
[ -z "$shown" ] || fail "command lines of daemons name it: $shown"
get() { python 'try: print(urllib.request.urlopen(sys.argv[1], timeout=20).read(200000).decode(errors="replace"))
except urllib.error.HTTPError as e: print(e.code)' "$1"; }
for page in "$port/metrics" $((port + 1))/ "$((port + 1))/output?job=2&task=0&name=stdout" "$((port + 1))/archive?job=1" "$((port + 1))/events?job=2"; do
    got=$(get "http://127.0.0.1:$page")
    [ -n "$got" ] && [[ $got != *"$word"* ]] && ! grep -E '\b(ada|ben|cy|65102|65104)\b' <<< "$got" > /dev/null || fail "$page: $got"
done

# --- keeping them from it: what ben piles up is bounded, and they go on ---
expect 0 "${H[@]}" quota ben --tasks 2000
ben_says submit --hold -- true ::: {1..3000}
[[ $said == *"more than the quota of unfinished tasks"* ]] || fail "ben's quota: $said"
for _ in 1 2 3; do ben_says submit -- sleep 0.3 ::: {1..300}; done
head -c 2000000 /dev/zero > "$top/home-ben/large"
ben_says submit -i "$top/home-ben/large" -- true
[[ $said == *uploads_max* ]] || fail "ben's upload: $said"
slow_clients='held = []
try:
    while len(held) < 400: # some say nothing, some half of a hello, some a length that nothing follows
        s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect(sys.argv[1]); held.append(s)
        s.send((b"", b"\x11", b"\xff\xff\xff\x0f", b"\x11\0\0\0\1\0")[len(held) % 4] or b"\0")
except OSError: pass
print(os.getpid(), flush=True)
time.sleep(60)'
python "$slow_clients" "$dir/gateway.sock" > "$top/held" &
slow=$!
soon [ -s "$top/held" ] || fail "ben cannot connect"
# Of six slots ada's task has one, and a half of the others is cy's: she comes last, and two of her tasks run while hundreds of ben's wait.
as cy 0 submit --name share -- sh -c 'until [ -e "$1" ]; do sleep 0.05; done; echo "$2 of cy" > "$HTC_OUTPUT_DIR/kept"' sh "$top/home-cy/go" '{}' ::: 1 2 3 4
count_for() { json "$("${H[@]}" --user "$1" status all --json)" "sum(j['tasks']['$2'] for j in v['jobs'])"; }
has_her_share() { [ "$(count_for cy running)" -ge 2 ] && [ "$(count_for ben waiting)" -gt 0 ]; }
soon has_her_share || fail "ben keeps cy from her share: $("${H[@]}" status)"
run_as cy touch "$top/home-cy/go"
as cy 0 wait last
as cy 0 fetch last --to "$top/home-cy/results"
[ "$(find "$top/home-cy/results" -name kept -exec cat {} + | sort | tr '\n' ' ')" = '1 of cy 2 of cy 3 of cy 4 of cy ' ] || fail "what cy has is not as she made it: $(find "$top/home-cy/results")"
as cy 0 logs $of_cy
[ "$out" = "$word of cy" ] || fail "cy's first job: $out"
as ada 0 submit --wait -- true
touch "$top/home-ada/go"
as ada 0 wait $there
as ada 0 fetch $there --to "$top/home-ada/results"
grep -rqx "$word" "$top/home-ada/results" || fail "what ada has is not as she made it: $(find "$top/home-ada/results")"
as ada 0 logs 1
[ "$out" = "$word of the upload" ] || fail "ada's first job: $out"
for id in "${planted_jobs[@]}"; do # what lies under that hash is not what was uploaded, or not his to read
    ben_says logs "$id"
    ben_says --json status "$id"
    [ "$(json "$said" 'v["jobs"][0]["tasks"]["done"]')" = 0 ] || fail "ben's task has read what he planted: $said"
done
kill "$(cat "$top/held")" && wait $slow 2> /dev/null
as ben 0 cancel all
expect 0 "${H[@]}" down --now
none_left
echo "ada's and cy's things are theirs"
