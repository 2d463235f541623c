#!/bin/bash
# Tasks that add tasks: what they print is run, read, told, cancelled and resumed like what was submitted; also with files, with more tasks than a
# ledger has room for, below tasks that were inserted, and when an agent is killed. The same of functions: $2 is an object of some.
adders=$(realpath "$2")
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
expect 0 "${H[@]}" up --slots 4
value() { python3 -S -c 'import json, sys; print(eval("d" + sys.argv[2], {"d": json.loads(sys.argv[1])}))' "$1" "$2"; }
has() { [[ $out$err == *"$1"* ]] || fail "'$1' is not in: $out $err"; }
lacks() { [[ $out$err != *"$1"* ]] || fail "'$1' is in: $out $err"; }
status_is() { # FLOW KEY VALUE
    [ "$(value "$("${H[@]}" flow status "$1" --json)" "['$2']")" = "$3" ] || fail "flow $1: $2 is not $3: $("${H[@]}" flow status "$1" --json)"
}

# ---- text, JSON lines, and tasks that are added by such ----
cat > first.flow << 'EOF'
split: adds=stdout sh -c 'for i in 1 2 3; do echo "part$i: echo part $i"; done; echo "join: after=part1,part2,part3 adds=stdout echo more: echo deep"'
lines: adds=stdout printf '{"name": "a", "command": ["echo", "of json"]}\n'
none: adds=stdout true
last: after=split echo last
EOF
expect 0 "${H[@]}" flow run first.flow
has "flow 1: 10 done, 0 failed"
expect 0 "${H[@]}" flow logs 1.split/part2
[ "$out" = "part 2" ] || fail "the log of an added task: $out"
expect 0 "${H[@]}" flow logs 1.lines/a
[ "$out" = "of json" ] || fail "the log of a task that was added as JSON: $out"
expect 0 "${H[@]}" flow why 1.split/join/more
has "is done"
expect 0 "${H[@]}" flow report 1
has "tasks 10  done 10"
status_is 1 added 6
status_is 1 tasks 10

# ---- what is printed is no flow ----
cat > wrong.flow << 'EOF'
bad: adds=stdout sh -c 'echo "a: after=nobody true"'
loud: adds=stdout sh -c 'yes | head -c 200000'
fine: adds=stdout echo b: true
fails: adds=stdout sh -c 'echo c: true; exit 3'
EOF
expect 5 "${H[@]}" flow run wrong.flow
has "adds no tasks"
has "nobody"
has "131072"
status_is 2 done 2
status_is 2 failed 3
status_is 2 added 1
echo 'x: adds=stdout @noop' > refused.flow
expect 2 "${H[@]}" flow run refused.flow
has "only a program or a function of an object adds tasks"

# ---- resumed: what failed to add adds, what was added and is done is not run again ----
cat > later.flow << EOF
good: adds=stdout sh -c 'echo once: sh -c \\"echo run \\>\\> $PWD/once\\"; echo "twice: $PWD/twice"'
late: adds=stdout $PWD/late
behind: after=late echo behind
EOF
printf '#!/bin/sh\n[ -e %s/now ] && exit\nexit 1\n' "$PWD" > twice
printf '#!/bin/sh\n[ -e %s/now ] || exit 1\necho new: true\n' "$PWD" > late
chmod +x twice late
expect 5 "${H[@]}" flow run later.flow --tries 1
status_is 3 failed 2
status_is 3 cancelled 1
touch now
expect 0 "${H[@]}" flow resume 3
has "4 done, 0 failed"
status_is 4 added 2 # one of before, one new
[ "$(cat once)" = run ] || fail "an added task that was done ran again"
expect 0 "${H[@]}" flow tasks 4
has "good/twice"
has "late/new"
lacks "good/once"

# ---- files: of the task that adds, of each other, and from outside ----
mkdir -p work
seq 1 20000 > work/in.txt
cat > work/files.flow << 'EOF'
split: in=in.txt out=x00,x01,x02,x03 adds=stdout sh -c 'split -d -n l/4 in.txt; for i in 00 01 02 03; do echo "w$i: in=x$i out=c$i sh -c \"wc -l < x$i > c$i\""; done; echo "sum: in=c00,c01,c02,c03,in.txt out=total sh -c \"cat c00 c01 c02 c03 in.txt > total\""'
EOF
(cd work && "${H[@]}" flow run --scratch files.flow) > files.out 2>&1 || fail "a flow with files: $(cat files.out)"
[ "$(head -n 4 work/total | paste -sd+ | bc)" = 20000 ] || fail "the counts are not those of the file: $(head -n 4 work/total)"
tail -n +5 work/total | cmp -s - work/in.txt || fail "what was read from outside is another file"
cat work/x00 work/x01 work/x02 work/x03 | cmp -s - work/in.txt || fail "what the first task made was not fetched"

# ---- files of one name, made by tasks that different ones have added: none is lost silently, and each is to be had ----
cat > work/twice.flow << 'EOF'
a: out=mine adds=stdout sh -c 'echo "x: out=result sh -c \"echo from a > result\""; echo a > mine'
b: adds=stdout sh -c 'echo "x: out=result sh -c \"echo from b > result\""'
EOF
(cd work && "${H[@]}" flow run --scratch twice.flow) > twice.out 2>&1 && fail "two tasks have made one file, and nobody says so: $(cat twice.out)"
out=$(cat twice.out) err=
has "have both made it"
has "4 done, 0 failed"
id=$(sed -n 's/^flow \([0-9]*\): 2 tasks.*/\1/p' twice.out)
[ "$(cat work/mine)" = a ] && [ ! -e work/result ] || fail "what was fetched: $(ls work)"
expect 0 "${H[@]}" flow fetch "$id.b/x" --out one
[ "$(cat one/result)" = "from b" ] || fail "the file of one of the tasks: $(cat one/result)"

# ---- resumed with files: the results come too ----
printf 'a: out=a1 sh -c "echo a > a1"\nb: in=a1 out=b1 sh -c "[ -e %s/ok ] && cp a1 b1"\n' "$PWD" > work/again.flow
(cd work && "${H[@]}" flow run --scratch again.flow) > again.out 2>&1 && fail "a task that was to fail has not: $(cat again.out)"
id=$(sed -n 's/^flow \([0-9]*\): 2 tasks.*/\1/p' again.out)
touch ok
(cd work && "${H[@]}" flow resume "$id") > again.out 2>&1 || fail "it does not go on: $(cat again.out)"
[ "$(cat work/b1)" = a ] || fail "the result of a resumed flow was not fetched: $(cat again.out)"

# ---- no such flow ----
expect 4 "${H[@]}" flow rm 99999
expect 4 "${H[@]}" flow tasks 99999

# ---- one task is cancelled, by name; one that has ended is not ----
printf 'first: true\nheld: after=first sleep 60\nlast: after=held true\n' > held.flow
expect 0 "${H[@]}" flow run held.flow --detach --json
id=$(value "$out" "['flow']")
first_is_done() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['done']")" = 1 ]; }
soon first_is_done || fail "the first task does not end: $("${H[@]}" flow status "$id")"
expect 6 "${H[@]}" flow cancel "$id.first"
has "has ended: it is done"
expect 4 "${H[@]}" flow cancel "$id.nobody"
expect 0 "${H[@]}" flow cancel "$id.held"
has "task held is cancelled"
held_is_over() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['cancelled']")" = 2 ]; }
soon held_is_over || fail "the cancelled task goes on: $("${H[@]}" flow tasks "$id")"

# ---- many, below tasks that were inserted; an agent is killed meanwhile ----
python3 - << 'EOF'
with open("wide.flow", "w") as f:
    for i in range(1100):
        f.write(f"a{i}: adds=stdout printf 'x: true\\ny: after=x @noop\\n'\n")
    f.write("final: after=" + ",".join(f"a{i}" for i in range(1100)) + " echo all\n")
EOF
expect 0 "${H[@]}" flow run wide.flow --agents 4 --detach --json
id=$(value "$out" "['flow']")
some_have_ended() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['done']")" -gt 200 ]; }
soon some_have_ended || fail "the wide flow does not begin: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow tasks "$id" # while some are being added
expect 0 "${H[@]}" flow report "$id"
for p in $(ours); do
    [ "$(cat "/proc/$p/comm" 2> /dev/null)" = htc-agent ] && kill -9 "$p" && break
done
has_ended() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['state']")" = done ]; }
soon has_ended || fail "the wide flow does not end: $("${H[@]}" flow status "$id")"
status_is "$id" done 3301
status_is "$id" added 2200
expect 0 "${H[@]}" flow logs "$id.final"
[ "$out" = all ] || fail "the log of the last task: $out"
expect 0 "${H[@]}" flow tasks "$id"
[ "$(grep -c '/x ' <<< "$out")" = 1100 ] && [ "$(grep -c '/y ' <<< "$out")" = 1100 ] || fail "not each task has added two"

# ---- a tree, each of whose leaves but the last are added ----
cat > grow << EOF
#!/bin/sh
[ "\$1" = 0 ] && exit
echo "a: adds=stdout $PWD/grow \$((\$1 - 1))"
echo "b: adds=stdout $PWD/grow \$((\$1 - 1))"
EOF
chmod +x grow
echo 'root: adds=stdout ./grow 8' > tree.flow
expect 0 "${H[@]}" flow run tree.flow
has "511 done"

# ---- cancelled: nothing goes on being added ----
cat > endless << EOF
#!/bin/sh
echo "next: adds=stdout $PWD/endless"
EOF
chmod +x endless
echo 'root: adds=stdout ./endless' > endless.flow
expect 0 "${H[@]}" flow run endless.flow --detach --json
id=$(value "$out" "['flow']")
goes_on() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['added']")" -gt 20 ]; }
soon goes_on || fail "the endless flow does not go on: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow cancel "$id"
is_over() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['state']")" = cancelled ]; }
soon is_over || fail "the endless flow goes on: $("${H[@]}" flow status "$id")"
# ---- functions: what they leave is run where the flow's commands are, and calls functions by the same path, or of an upload ----
cp "$adders" adders.so
expect 0 "${H[@]}" submit --input adders.so -- true # it is uploaded
hash=htc:$(python3 -S -c 'import hashlib; print(hashlib.blake2b(open("adders.so", "rb").read(), digest_size=32).hexdigest())')
cat > called.flow << EOF
split: adds=output @call ./adders.so say 'part: pwd
join: after=part adds=output @call ./adders.so say "more: adds=stdout echo deep: echo of a command"'
lines: adds=output @call adders.so say '{"name": "a", "adds": "output", "object": "$hash", "function": "say", "argument": "b: echo of an upload"}'
none: adds=output @call ./adders.so say
many: adds=output @call ./adders.so many '1024 128'
after: after=split echo after
EOF
expect 0 "${H[@]}" flow run called.flow --json
id=$(value "$out" "['flow']")
status_is "$id" done 1035
status_is "$id" added 1030
expect 0 "${H[@]}" flow logs "$id.split/part"
[ "$out" = "$PWD" ] || fail "what a function adds runs in $out"
expect 0 "${H[@]}" flow logs "$id.split/join/more/deep"
[ "$out" = "of a command" ] || fail "a function, a function, a command: $out"
expect 0 "${H[@]}" flow logs "$id.lines/a/b"
[ "$out" = "of an upload" ] || fail "an added function of an upload: $out"

# ---- what they leave is no flow, or they fail, crash, go on for ever or leave too much: that is theirs alone ----
cat > mistaken.flow << 'EOF'
bad: adds=output @call ./adders.so say 'a: true
b: after=nobody true'
lost: adds=output @call ./adders.so say 'a: @call ./nowhere.so f'
loud: adds=output @call ./adders.so many '1025 128'
crowd: adds=output @call ./adders.so many '1025 30'
fails: adds=output @call ./adders.so say_and_fail 'a: true'
crashes: adds=output @call ./adders.so say_and_crash 'a: true'
loops: time=1 adds=output @call ./adders.so say_and_loop 'a: true'
fine: adds=output @call ./adders.so say 'a: true'
EOF
expect 5 "${H[@]}" flow run mistaken.flow --tries 1 --json
id=$(value "$out" "['flow']")
status_is "$id" done 3 # fine, its a, and lost, whose a has no object
status_is "$id" failed 7
status_is "$id" added 2
why() # NAME WORDS
{
    expect 0 "${H[@]}" flow why "$id.$1"
    has "$2"
}
why bad "its output adds no tasks: line 2: output"
why bad "nobody"
why lost/a "nowhere.so"
why loud "longer than 131072"
why crowd "1024"
why fails "it said so"
why crashes "SIGSEGV"
why loops "limit"
echo 'x: adds=stdout @call ./adders.so say' > refused.flow
expect 2 "${H[@]}" flow run refused.flow
has "write adds=output"
echo 'x: adds=output true' > refused.flow
expect 2 "${H[@]}" flow run refused.flow
has "write adds=stdout"

# ---- resumed: as of commands ----
cat > called_later.flow << EOF
good: adds=output @call ./adders.so say 'once: sh -c "echo run >> $PWD/called_once"'
late: adds=output @call ./adders.so say_if '$PWD/called_now new: @call ./adders.so say'
behind: after=late echo behind
EOF
expect 5 "${H[@]}" flow run called_later.flow --tries 1 --json
id=$(value "$out" "['flow']")
status_is "$id" failed 1
touch called_now
expect 0 "${H[@]}" flow resume "$id" --json
id=$(value "$out" "['flow']")
status_is "$id" added 1
status_is "$id" done 3
[ "$(cat called_once)" = run ] || fail "a task that a function had added and that was done ran again"

# ---- in directories of their own: added commands read files of the flow's directory and of each other ----
cp adders.so work/
cat > work/called.flow << 'EOF'
call: adds=output @call ./adders.so say 'a: in=in.txt out=n sh -c "wc -l < in.txt > n"
b: in=n out=m cp n m
c: after=b @call ./adders.so say'
EOF
(cd work && "${H[@]}" flow run --scratch called.flow) > called.out 2>&1 || fail "a function in a flow with files: $(cat called.out)"
[ "$(cat work/m)" = 20000 ] || fail "what an added command read or made: $(cat called.out)"

# ---- in a flow to which they are added from outside ----
expect 0 "${H[@]}" flow run called_later.flow --open --detach --json
id=$(value "$out" "['flow']")
echo "out: adds=output @call ./adders.so say 'in: @call ./adders.so say'" > called_out.flow
expect 0 "${H[@]}" flow add "$id" called_out.flow
expect 0 "${H[@]}" flow close "$id"
soon has_ended || fail "an open flow with functions does not end: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow why "$id.intake/out/in"
has "is done"

# ---- a tree, while agents are killed ----
echo "root: adds=output @call ./adders.so grow '11 ./adders.so'" > called_tree.flow
expect 0 "${H[@]}" flow run called_tree.flow --agents 4 --detach --json
id=$(value "$out" "['flow']")
for more in 10 300; do
    has_grown() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['added']")" -gt $more ]; }
    soon has_grown || fail "the tree of functions does not grow: $("${H[@]}" flow status "$id")"
    for p in $(ours); do
        [ "$(cat "/proc/$p/comm" 2> /dev/null)" = htc-agent ] && kill -9 "$p" && break
    done
done
soon has_ended || fail "the tree of functions does not end: $("${H[@]}" flow status "$id")"
status_is "$id" done 4095
status_is "$id" added 4094

# ---- the example: an integral, whose intervals are halved until each is known well enough ----
cp "$bin/halves.so" .
mkdir areas
echo "all: adds=output @call ./halves.so area '0.01 1 $PWD/areas'" > area.flow
expect 0 "${H[@]}" flow run area.flow --json
area=$(find areas -type f | xargs awk '{ all += $1 } END { printf "%.6f", all }')
[ "$area" = 0.503982 ] || fail "another integral: $area"
[ "$(value "$out" "['added']")" -gt 100 ] || fail "so few intervals: $out"

# ---- cancelled: nothing goes on being added ----
echo 'root: adds=output @call ./adders.so again ./adders.so' > called_endless.flow
expect 0 "${H[@]}" flow run called_endless.flow --detach --json
id=$(value "$out" "['flow']")
soon goes_on || fail "the endless flow of functions does not go on: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow cancel "$id"
soon is_over || fail "the endless flow of functions goes on: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" down
