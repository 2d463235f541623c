#!/bin/bash
# usage: SOURCE=DIR study.sh PROGRAMS
# htc-sim run and htc-sim fairshare: the example runs, the worked example comes out, many runs are one table whatever the number of
# processes, mistakes are refused with file, line and next step, and an interrupted run says what it had.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# The example, with its files.
example=$SOURCE/examples/sim/fairshare.ini
ends 0 run "$example" --plot "$dir/plots"
grep -qE '^makespan +[0-9.]+ s, no less than [0-9.]+ s' "$dir/out" || fail "no makespan"
grep -q '^cores by user:' "$dir/out" || fail "no picture"
for user in ada bob cy dora; do
    grep -qE "^$user " "$dir/out" || fail "no line of $user"
    grep -q ">$user</text>" "$dir/plots/cores.svg" || fail "$user is not in the picture"
done
head -1 "$dir/plots/cores.csv" | grep -x 'seconds,queued,ada,bob,cy,dora' > /dev/null || fail "the head of cores.csv"
[ "$(wc -l < "$dir/plots/users.csv")" = 5 ] || fail "users.csv has not four users"
python3 -S -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$dir/plots/cores.svg"

# Many users: each name has a place and a colour of its own in the picture. A number of many digits does not move its line.
ends 0 fairshare --cores 1M --users 12 --tasks 1000 --plot "$dir/many"
[ "$(awk '/\|/ { print index($0, "|") } /\+-/ { print index($0, "+") }' "$dir/out" | sort -u | wc -l)" = 1 ] || { cat "$dir/out"; fail "the lines of the picture begin at different columns"; }
python3 - "$dir/many/cores.svg" << 'PY'
import sys, xml.dom.minidom
boxes = [b for b in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("rect") if b.getAttribute("x")]
assert len({(b.getAttribute("x"), b.getAttribute("y")) for b in boxes}) == 12 == len({b.getAttribute("fill") for b in boxes}), [b.toxml() for b in boxes]
PY

# A table wider than the terminal is cut into several; what is no terminal gets it whole.
python3 - "$sim" << 'PY'
import fcntl, os, pty, re, struct, subprocess, sys, termios
command = [sys.argv[1], "fairshare", "--cores", "8", "--tasks", "20", "--vary", "fair.policy=static,maxmin", "--seeds", "1..2"]
whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
ours, its = pty.openpty()
fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
run = subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL)
os.close(its)
text = b""
while True:
    try:
        piece = os.read(ours, 4096)
    except OSError:
        break
    if not piece:
        break
    text += piece
assert run.wait() == 0
parts = text.decode().replace("\r", "").split("\n")
assert len(whole) == 4 and len(whole[0]) > 80, whole
assert len(parts) > 8 and max(map(len, parts)) <= 80, parts
heads = [p for p in parts if p.startswith("fair.policy")]
cells = lambda line: re.split(" {2,}", line.strip())
assert whole[0].split()[2:] == [word for head in heads for word in head.split()[2:]], heads
assert cells(whole[2])[2:] == [c for p in parts if p.startswith("maxmin") for c in cells(p)[2:]], parts
PY

# The worked example: 100 cores, 200, 50 and 20 tasks.
cat > "$dir/worked.ini" << 'END'
[cluster]
cores = 100
[fair]
policy = eq1
[user.a]
[user.b]
[user.c]
[job.a]
user = a
tasks = 200
length = 100s
[job.b]
user = b
tasks = 50
length = 1min
arrival = 50
[job.c]
user = c
tasks = 20
length = 100000ms
arrival = 150
END
ends 0 fairshare "$dir/worked.ini" --gap 0 --json
python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert [u["makespan_s"] for u in run["users"]] == [300, 110, 110], run
assert run["ended"] == 270 and run["wrong"] == "" and run["idle_core_s"] == 0 and not run["interrupted"], run
PY
"$sim" fairshare - --gap 0 --json < "$dir/worked.ini" > "$dir/again"
[ "$(grep -oE '"hash":"[0-9a-f]+"' "$dir/again")" = "$(grep -oE '"hash":"[0-9a-f]+"' "$dir/out")" ] || fail "the same experiment is another run"

# Many runs: the same table from one process and from three.
many=(run "$example" --vary fair.policy=static,eq1 --vary cluster.cores=100..400:x2 --seeds 1..4)
ends 0 "${many[@]}" --json -j 1
cp "$dir/out" "$dir/one"
ends 0 "${many[@]}" --json --jobs 3 --plot "$dir/plots"
cmp "$dir/one" "$dir/out" || fail "three processes come to another table than one"
[ -s "$dir/plots/cores-6.svg" ] || fail "the sixth combination has no picture"
python3 - "$dir/out" << 'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [(r["fair.policy"], r["cluster.cores"]) for r in rows] == [(p, c) for p in ("static", "eq1") for c in ("100", "200", "400")], rows
assert all(r["runs"] == 4 and r["makespan_s"]["half"] > 0 for r in rows), rows
for a, b in zip(rows[:3], rows[3:]):  # what is shared anew ends sooner
    assert b["makespan_s"]["mean"] < a["makespan_s"]["mean"], (a, b)
PY
ends 0 "${many[@]}" -j 2
[ "$(grep -c ' ± ' "$dir/out")" = 7 ] || fail "the table has not six rows and a foot"
# The columns that are asked for, and no others.
ends 0 "${many[@]}" --measures makespan_s,fairness
[ "$(head -1 "$dir/out" | tr -s ' ')" = "fair.policy cluster.cores runs makespan_s fairness" ] || fail "the table has other columns: $(head -1 "$dir/out")"
ends 0 "${many[@]}" --measures fairness --json
python3 -S -c 'import json, sys; assert all(list(row)[2:] == ["runs", "fairness"] for row in json.load(open(sys.argv[1]))["rows"])' "$dir/out"
ends 2 "${many[@]}" --measures fairness,speed
says '"speed" is none of'
# As comma-separated values it is the same table, also of one run.
ends 0 "${many[@]}" --json
cp "$dir/out" "$dir/table"
ends 0 "${many[@]}" --csv
python3 - "$dir/table" "$dir/out" << 'PY'
import csv, json, sys
rows, lines = json.load(open(sys.argv[1]))["rows"], list(csv.DictReader(open(sys.argv[2], newline="")))
assert len(rows) == len(lines) == 6
for row, line in zip(rows, lines):
    assert None not in line and line.pop("runs") == str(row.pop("runs")), line
    for name, value in row.items():
        if isinstance(value, str):
            assert line.pop(name) == value, (name, value)
        else:
            assert (float(line.pop(name)), float(line.pop(name + "_half"))) == (value["mean"], value["half"]), name
    assert not line, line
PY
ends 0 fairshare --tasks 10 --cores 4 --csv --measures makespan_s,fairness
[ "$(wc -l < "$dir/out")" = 2 ] && [ "$(head -1 "$dir/out")" = "runs,makespan_s,makespan_s_half,fairness,fairness_half" ] || fail "one run is no table of one line"
ends 2 fairshare --tasks 10 --csv --json
says "--csv writes the table of whole runs"
# One value is the mean of one run, with no interval.
ends 0 fairshare --tasks 10 --cores 4 --vary cluster.cores=1..10:+4 --json
[ "$(grep -oE '"cluster.cores":"[0-9]+"' "$dir/out" | tr -d '\n')" = '"cluster.cores":"1""cluster.cores":"5""cluster.cores":"9""cluster.cores":"10"' ] ||
    fail "1, 5, 9 and 10 are A..B:+4"
# An option's name is its key.
ends 0 fairshare --tasks 10 --vary cores=2,4 --set launch=1s --seeds 1..2 --json
cp "$dir/out" "$dir/names"
ends 0 fairshare --tasks 10 --vary cluster.cores=2,4 --set cluster.launch=1s --seeds 1..2 --json
python3 - "$dir/names" "$dir/out" << 'PY' || fail "an option's name is another key"
import json, sys
a, b = ([[v for k, v in row.items() if k != "seconds"] for row in json.load(open(f))["rows"]] for f in sys.argv[1:])
assert a == b and len(a) == 2, (a, b)
PY
ends 2 fairshare --vary seed=1,2
says "seeds vary by --seeds A..B"

# Mistakes.
refused() { # WHAT-IT-SAYS NEXT-STEP < FILE
    cat > "$dir/bad.ini"
    ends 2 "$command" "$dir/bad.ini"
    says "$1"
    says "next: $2"
}
command=fairshare
printf '[cluster]\ncores = 5\ncore = 6\n' | refused "bad.ini:3: there is no key cluster.core" "did you mean cluster.cores?"
printf '\n[clutser]\n' | refused "bad.ini:2: there is no section [clutser]" "sections are [sim]"
printf '[cluster]\ncores = 0\n' | refused 'bad.ini:2: cluster.cores cannot be "0"' "cluster.cores takes a number from 1"
printf '[cluster]\ncores\n' | refused "bad.ini:2: the line is neither" "comments begin with ;"
printf '[cluster]\ncores\ncore = 6\n' | refused "bad.ini:2: the line is neither" "comments begin with ;"
printf '[user.a]\n[job.b]\nuser = c\n' | refused "bad.ini:3: job.b.user: there is no user c" "write job.NAME.user"
printf '[user.a]\n[job.b]\ntasks = 3\n' | refused "bad.ini:3: job.b has no user" "write job.NAME.user"
printf '[cluster]\ncores = 5\n' | refused "bad.ini: there are no users with jobs" "set workload.users"
printf '[workload]\nlength = lognormal 5s\nusers = 3\n' | refused 'workload.length cannot be' "workload.length takes SPAN"
command=run
printf '[sim]\nmodel = nosuch\n' | refused 'sim.model cannot be "nosuch"' "models are fairshare"
printf '[sim]\nseed = 2\n' | refused "bad.ini: it does not name a model" "write model = NAME below [sim]; models are fairshare"
printf '[sim]\nmodel = jobs\n[mach\033ine]\n' | refused "bad.ini:3: there is no section [mach?ine]" "sections are [sim], [exact], [machine], [control], [cost], [workload]"
command=fairshare
head -c 300 /dev/zero | tr '\0' x | refused "bad.ini:1: the line is too long" "give its values"
printf '[workload]\nusers = 3\n[fair]\npolicy = static\n[cluster]\ncores = 2\n' | refused "bad.ini: 2 cores cannot be split among 3 users" "change its settings"
# Keys that contradict each other: where the one stands that is named, also if many runs are made of it, or a comparison; on the command line it stands nowhere.
printf '[workload]\nusers = 2\nlength = 1s\n[sim]\ntick = 10s\n' | refused "bad.ini:3: workload.length is 1s, and a tick 10s" "set sim.tick"
ends 2 fairshare "$dir/bad.ini" --seeds 1..2
says "bad.ini:3: workload.length is 1s"
command=run
printf '[sim]\nmodel = manytask\n[workload]\nroot = 7\n[machine]\nnodes = 4\n' | refused "bad.ini:4: workload.root is no node" "nodes are numbered from 0"
printf '[sim]\nmodel = manytask\n[machine]\nnodes = 268435455\ncores = 100\n' | refused "bad.ini:4: there are more than 2^28 nodes or 2^31 cores" "lower machine.nodes"
printf '[sim]\nmodel = dataflow\n[steal]\nwait_max = 1ms\n' | refused "bad.ini:4: steal.wait is 0, or longer than steal.wait_max" "set both"
printf '[sim]\nmodel = grids\n[grid.g]\n[queue.q]\nlevel = 1\n' | refused "bad.ini:5: queue.q has no grids" "write queue.NAME.grids"
command=fairshare
ends 2 manytask --nodes 4 --set workload.root=7
grep -q '^htc-sim: workload.root is no node' "$dir/err" || fail "what the command line says stands in a file: $(cat "$dir/err")"
ends 2 run "$dir/none.ini"
says "none.ini: it cannot be read: No such file"
ends 2 run
ends 0 fairshare --cores 40M --users 1 --tasks 10
says "the run needs up to 0.5 GiB of memory"
memory_of() { grep -oE '"memory":[0-9]+' "$dir/out" | cut -d: -f2; }
ends 0 fairshare --cores 40M --users 1 --tasks 10 --json
[ ! -s "$dir/err" ] || fail "with --json it says: $(cat "$dir/err")"
[ "$(memory_of)" -gt $((400 << 20)) ] || fail "memory: $(memory_of)"
for model in fairshare jobs grids manytask dataflow micro kvs dsp; do
    ends 0 $model --json
    [ "$(memory_of)" -gt 100000 ] || fail "$model needs $(memory_of) bytes"
    ends 0 $model --set sim.tick=100us --json
    has '"tick_s":0\.000100000,'
    ends 0 $model --set sim.tick=100us
    has '; a tick is 0\.0001 s$'
done
ends 2 fairshare --cores 100M --memory 64M
says "64 MiB are allowed"
ends 2 fairshare --vary cluster.nodes=1,2
says "did you mean cluster.cores?"
ends 2 fairshare --vary sim.seed=1,2
ends 2 fairshare --vary cluster.cores=4..1:x2
ends 2 fairshare --vary cluster.cores=1,,2
ends 2 fairshare --seeds 5
ends 2 fairshare --jobs 0
ends 2 fairshare --nothing
ends 3 fairshare --tasks 1 --plot /proc/nothing
ends 3 fairshare --tasks 1 --checkpoint "$dir"
says "$dir: it is no ordinary file"

# What cannot be written does not end with 0.
if [ -w /dev/full ]; then
    for words in "tco" "tco --json" "micro --seeds 1..2" "micro --help" "flow --tasks 10 --shape bot" "--version"; do
        got=0
        # shellcheck disable=SC2086
        "$sim" $words > /dev/full 2> "$dir/err" || got=$?
        [ $got = 3 ] || fail "htc-sim $words whose output is lost ends with $got"
        says "standard output cannot be written"
    done
fi

# What cannot be written does not end with 0.
if [ -w /dev/full ]; then
    for words in "tco" "tco --json" "micro --seeds 1..2" "micro --help" "flow --tasks 10 --shape bot" "--version"; do
        got=0
        # shellcheck disable=SC2086
        "$sim" $words > /dev/full 2> "$dir/err" || got=$?
        [ $got = 3 ] || fail "htc-sim $words whose output is lost ends with $got"
        says "standard output cannot be written"
    done
fi

# Ctrl-C: what it had is told. It runs for minutes; the signal comes when it has begun to say how far it is.
"$sim" fairshare --cores 1000 --users 4 --tasks 100M --length 1s --checkpoint "$dir/long" > "$dir/stopped" 2> "$dir/progress" &
pid=$!
for _ in $(seq 600); do
    [ -s "$dir/progress" ] && break
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
grep -qE '^[0-9]+ of 400000000 tasks, .* a second, .* left$' "$dir/progress" || { cat "$dir/progress"; fail "no progress"; }
kill -INT $pid
got=0
wait $pid || got=$?
[ $got = 4 ] || fail "an interrupted run ends with $got"
grep -q '^interrupted at .* what there was until then:$' "$dir/stopped" || fail "it does not say that it was interrupted"
grep -qE '^u3 +1 +[1-9][0-9]+ ' "$dir/stopped" || fail "it does not say what it had"

# So it is in exact mode: this one takes a sample each nanosecond.
printf '[sim]\nmodel = flow\nsample = 1ns\n[graph]\ntasks = 100\n' > "$dir/flow.ini"
rm "$dir/progress"
"$sim" run "$dir/flow.ini" > "$dir/stopped" 2> "$dir/progress" &
pid=$!
for _ in $(seq 600); do
    [ -s "$dir/progress" ] && break
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
grep -qE '^[0-9]+ of 100 tasks' "$dir/progress" || { kill -KILL $pid; cat "$dir/progress"; fail "no progress in exact mode"; }
kill -INT $pid
got=0
wait $pid || got=$?
[ $got = 4 ] || fail "an interrupted run in exact mode ends with $got"
grep -q '^interrupted at .* what there was until then:$' "$dir/stopped" || fail "it does not say that it was interrupted in exact mode"

# A signal that only the first process of several gets stops them all.
rm "$dir/progress" # that of the run before: a signal must not come before this one is there
"$sim" fairshare --cores 1000 --users 4 --tasks 100M --length 1s --seeds 1..4 --jobs 2 > "$dir/stopped" 2> "$dir/progress" &
pid=$!
for _ in $(seq 600); do
    [ -s "$dir/progress" ] && break
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 4 ] || fail "several runs that are interrupted end with $got"
grep -q 'interrupted: what follows is of the runs that had ended' "$dir/progress" || fail "several runs do not say that they were interrupted"

# If the first process is killed, no other goes on: none has its output open any longer.
mkfifo "$dir/pipe"
rm "$dir/progress"
"$sim" fairshare --cores 1000 --users 4 --tasks 100M --length 1s --seeds 1..4 --jobs 2 > "$dir/pipe" 2> "$dir/progress" &
pid=$!
exec 5< "$dir/pipe"
for _ in $(seq 600); do
    [ -s "$dir/progress" ] && break
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
kill -KILL $pid
wait $pid 2> /dev/null || true
timeout 20 cat <&5 > /dev/null || fail "processes go on whose first one was killed"
exec 5<&-

# In pieces it is the same run.
in_pieces 40000 cores.csv -- fairshare --cores 20K --users 20 --tasks 50K --length "exponential 100s" --arrival 20s
ends 2 fairshare --tasks 10 --stop-after 5 --seeds 1..2
says "--stop-after is of one run"
ends 2 tco --stop-after 5
says "runs of the model tco have no checkpoints"
ends 2 fairshare --tasks 10 --stop-after 0
says "--stop-after takes a number of events from 1"
# What takes time is what happened here: of a run that had 400 events to come, not a part of a nanosecond for each of 80000 tasks.
ends 0 fairshare --cores 100 --tasks 20K --json
events=$(grep -oE '"events":[0-9]+' "$dir/out" | cut -d: -f2)
ends 4 fairshare --cores 100 --tasks 20K --checkpoint "$dir/last" --stop-after $((events - 400))
ends 0 resume "$dir/last"
[ "$(sed -nE 's/.*\(([0-9]+) ns a task\).*/\1/p' "$dir/out")" -gt 5 ] || { cat "$dir/out"; fail "the time of 400 events is divided among all tasks"; }
# It takes one run, as it is.
ends 0 resume --help
for option in --seed --seeds --vary --set --costs --policy-from --measures; do
    grep -q -- "^  $option" "$dir/out" && fail "resume --help has $option"
done
ends 2 resume "$dir/state" --seeds 1..3
says "htc-sim resume takes neither --vary nor --seeds"
# What another could have written is no state to go on with: it is taken as it is.
ends 4 fairshare --cores 100 --tasks 20K --checkpoint "$dir/ours" --stop-after 1000 --json
[ "$(stat -c %a "$dir/ours")" = 600 ] || fail "a checkpoint has the mode $(stat -c %a "$dir/ours")"
for mode in 620 602; do
    cp "$dir/ours" "$dir/theirs"
    chmod $mode "$dir/theirs"
    ends 2 resume "$dir/theirs"
    says "theirs: it is no file that you or root alone can have written"
done
if chown 12345 "$dir/theirs" 2> "$dir/err"; then
    chmod 600 "$dir/theirs"
    ends 2 resume "$dir/theirs"
    says "you or root alone can have written"
fi
cp "$dir/ours" "$dir/copied"
chmod 644 "$dir/copied"
ends 0 resume "$dir/copied" --json
printf '%20000s' '' >> "$dir/long"
ends 2 resume "$dir/long"
says "it is damaged"
ends 2 resume "$example"
says "it is no checkpoint"
ends 2 resume
ends 2 fairshare --checkpoint "$dir/state" --seeds 1..2
ends 3 fairshare --tasks 1 --checkpoint /proc/nothing
echo "study: all is well"

# Words that were probably meant, and what cannot come to a good end is said before the run.
ends 2 fairshar
says "there is no command fairshar; did you mean fairshare?"
ends 2 jobs --nods 4
says "htc-sim jobs has no option --nods; did you mean --nodes?"
ends 2 jobs --nodes
says "--nodes takes a value"
ends 2 jobs --tick 0
says "sim.tick takes a span from 1 ns"
ends 2 fairshare --users 2 --length 10s --tick 100s
says "workload.length is 10s, and a tick 100s: nothing would take any time"
ends 2 fairshare --users 2 --length 10s --vary sim.tick=1s,100s
says "with sim.tick = 100s"
ends 3 jobs --plot "$example/plots"
says "$example/plots: nothing can be drawn there"
says "next: give --plot a folder"
ends 0 flow --shape bot --tasks 4 --length 0..1s
# Each command that is listed has its own help, with its keys and what they take.
mapfile -t commands < <("$sim" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')
[ ${#commands[@]} -ge 8 ] || fail "htc-sim --help lists ${commands[*]}"
for command in "${commands[@]}"; do
    "$sim" "$command" --help > "$dir/out" || fail "htc-sim $command --help fails"
    grep -q "^usage: htc-sim $command" "$dir/out" || fail "htc-sim $command --help is not about it"
    [ "$(wc -L < "$dir/out")" -le 100 ] || fail "htc-sim $command --help is wider than 100 columns"
done
ends 0 jobs --help
grep -qE '^  cost.latency = 100us +a span$' "$dir/out" || fail "a key without an option is not told"
grep -q 'control.policy\]' "$dir/out" || fail "the key of an option is not told"
ends 0 tco --help
! grep -q -- --checkpoint "$dir/out" || fail "there are no checkpoints of tco"
