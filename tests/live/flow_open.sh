#!/bin/bash
# An open flow takes tasks while it runs: of several clients at once, for workers that are named, when an agent is killed meanwhile; until it is closed.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
value() { python3 -S -c 'import json, sys; print(eval("d" + sys.argv[2], {"d": json.loads(sys.argv[1])}))' "$1" "$2"; }
has() { [[ $out$err == *"$1"* ]] || fail "'$1' is not in: $out $err"; }
status_of() { value "$("${H[@]}" flow status "$1" --json)" "['$2']"; }
echo 'a: true' > one.flow

# ---- where nothing runs, nobody could add anything ----
expect 3 "${H[@]}" flow run one.flow --open
has "an open flow needs a system"

mkdir "$dir"
printf '[agent]\nslots_max = 1\n' > "$dir/htc.ini"
expect 0 "${H[@]}" up --slots 4

# ---- what is not open takes none ----
expect 0 "${H[@]}" flow run one.flow
expect 6 "${H[@]}" flow add 1 one.flow
echo 'slow: sleep 600' > slow.flow
printf 'b: sleep 600\nc: after=b true\n' > held.flow
expect 0 "${H[@]}" flow run held.flow --detach
expect 2 "${H[@]}" flow add 2 one.flow
has "was not submitted as an open one"
has "htc flow run --open"
expect 0 "${H[@]}" flow cancel 2
expect 4 "${H[@]}" flow add 77 one.flow

# ---- several clients at once ----
for i in $(seq 1500); do echo "t$i: sh -c 'echo $i >> $PWD/ran'"; done > many.flow
printf 'first: echo first\nthen: after=first echo then\n' > chain.flow
expect 0 "${H[@]}" flow run chain.flow --open --agents 4 --detach --json
id=$(value "$out" "['flow']")
both_have_ended() { [ "$(status_of "$id" done)" = 2 ]; }
soon both_have_ended || fail "what was submitted does not end: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow why "$id"
has "waits for tasks that are added"
expect 0 "${H[@]}" flow why "$id.intake"
has "htc flow close $id"
for c in 1 2 3; do
    "${H[@]}" flow add "$id" many.flow --to each > "add.$c" 2>&1 &
    clients[c]=$!
done
"${H[@]}" flow add "$id" chain.flow > add.4 2>&1 || fail "a client is refused: $(cat add.4)"
some_have_run() { [ "$(cat ran 2> /dev/null | wc -l)" -gt 100 ]; }
soon some_have_run || fail "what was added does not run: $("${H[@]}" flow status "$id")"
for p in $(ours); do
    [ "$(cat "/proc/$p/comm" 2> /dev/null)" = htc-agent ] && kill -9 "$p" && break
done
for c in 1 2 3; do
    wait "${clients[c]}" || fail "client $c: $(cat "add.$c")"
    grep -q '1500 tasks added, named intake' "add.$c" || fail "client $c: $(cat "add.$c")"
done
intakes=$(cat add.? | grep -o 'intake[.0-9]*/NAME' | sort -u | wc -l)
[ "$intakes" -ge 4 ] || fail "clients share an intake: $(cat add.?)"
[ "$(status_of "$id" open)" = True ] || fail "it is not open any more: $("${H[@]}" flow status "$id")"
all_have_ended() { [ "$(value "$("${H[@]}" flow status "$id" --json)" "['tasks'] - d['done']")" = 1 ]; } # the intake
soon all_have_ended || fail "what was added does not end: $("${H[@]}" flow status "$id")"
[ "$(sort -n ran | uniq -c | awk '$1 < 3' | wc -l)" = 0 ] || fail "some did not run: $(sort -n ran | uniq -c | awk '$1 < 3' | head)"
[ "$(sort -nu ran | wc -l)" = 1500 ] || fail "there are others than 1500"

# ---- workers that are named ----
four_live() { [ "$("${H[@]}" flow workers "$id" --json | python3 -S -c 'import json, sys; print(len(json.load(sys.stdin)))')" = 4 ]; }
soon four_live || fail "not all workers are back: $("${H[@]}" flow workers "$id")"
expect 0 "${H[@]}" flow add "$id" many.flow --to each # so that each has a ledger
soon all_have_ended || fail "what was added does not end: $("${H[@]}" flow status "$id")"
ran_at() { # NAME: the worker that ran it; nothing as long as none has
    "${H[@]}" flow tasks "$id" --json | python3 -S -c 'import json, sys; print(*[t["worker"] for t in json.load(sys.stdin) if t["name"] == sys.argv[1] and t["state"] == "done"])' "$1"
}
for w in $(value "$("${H[@]}" flow workers "$id" --json)" "" | python3 -S -c 'import sys; print(*[w["worker"] for w in eval(sys.stdin.read())])'); do
    expect 0 "${H[@]}" flow add "$id" one.flow --to "$w" --json
    name=$(value "$out" "['intakes'][0]")/a
    has_run() { [ -n "$(ran_at "$name")" ]; }
    soon has_run || fail "a task for worker $w does not run"
    [ "$(ran_at "$name")" = "$w" ] || fail "task $name was for worker $w, and worker $(ran_at "$name") ran it"
done
expect 0 "${H[@]}" flow add "$id" one.flow --to "$(uname -n)"
expect 4 "${H[@]}" flow add "$id" one.flow --to nowhere
has "no worker of the flow is"

expect 0 "${H[@]}" flow add "$id" one.flow --to "$w,$(uname -n),$w" # some are named twice
expect 4 "${H[@]}" flow add "$id" one.flow --to "-$w"

# ---- bytes that are two in JSON ----
python3 -S -c "import json; [print(json.dumps({'name': 'q%d' % i, 'command': ['true', '\"' * 2000]})) for i in range(60)]" > quotes.flow
expect 0 "${H[@]}" flow add "$id" quotes.flow
has "60 tasks added"

# ---- what is wrong is refused as a whole, and told with its line ----
printf 'x: true\ny: after=nobody true\n' > wrong.flow
expect 2 "${H[@]}" flow add "$id" wrong.flow
has "line 2"
printf 'x: true\nr: @read 10\n' > wrong.flow
expect 2 "${H[@]}" flow add "$id" wrong.flow
(echo first: true && sed 's/^/after=first /; s/^after=first \(t[0-9]*:\)/\1 after=first/' many.flow) > wrong.flow
expect 2 "${H[@]}" flow add "$id" wrong.flow
has "1501 tasks are added at once: at most 1023 are: tasks that do not wait"
expect 0 "${H[@]}" flow tasks "$id"
[[ $out != *"/x "* ]] || fail "half of what is wrong was added"

# ---- closed: it ends, and takes no more ----
expect 0 "${H[@]}" flow add "$id" chain.flow --close
has "is closed"
is_done() { [ "$(status_of "$id" state)" = done ]; }
soon is_done || fail "it does not end: $("${H[@]}" flow status "$id")"
expect 6 "${H[@]}" flow add "$id" one.flow
expect 6 "${H[@]}" flow close "$id"
expect 0 "${H[@]}" flow report "$id"

# ---- nothing but an intake; a client that waits; files ----
mkdir work
seq 1000 > work/in.txt
(cd work && exec "${H[@]}" flow run --open --scratch --agents 2) > waiting 2>&1 &
client=$!
is_there() { grep -q 'htc flow add' waiting; }
soon is_there || fail "it is not told how tasks are added: $(cat waiting)"
id=$(sed -n 's/^flow \([0-9]*\):.*/\1/p' waiting | sed -n 1p)
printf 'c: in=in.txt out=count sh -c "wc -l < in.txt > count"\nd: in=count out=twice sh -c "echo \\$((2 * \\$(cat count))) > twice"\n' > files.flow
expect 0 "${H[@]}" flow add "$id" files.flow
expect 0 "${H[@]}" flow close "$id"
wait "$client" || fail "who waits for it: $(cat waiting)"
[ "$(cat work/twice)" = 2000 ] || fail "the result of what was added was not fetched: $(cat waiting)"

# ---- no slot: the next addition waits, as long as is wanted ----
expect 0 "${H[@]}" flow run --open --agents 4 --detach --json
first=$(value "$out" "['flow']")
has_four() { [ "$(status_of "$first" slots)" = 4 ]; }
soon has_four || fail "it has not all slots: $("${H[@]}" flow status "$first")"
expect 0 "${H[@]}" flow run --open --detach --json # all slots are the other's
id=$(value "$out" "['flow']")
expect 0 "${H[@]}" flow add "$id" one.flow
expect 6 "${H[@]}" flow close "$id" --timeout 1
has "no worker has taken up"
expect 0 "${H[@]}" flow close "$first"
expect 0 "${H[@]}" flow close "$id"

# ---- cancelled: it takes no more, and goes on as a closed one ----
expect 0 "${H[@]}" flow run --open --detach --json
id=$(value "$out" "['flow']")
echo 'quick: true' > quick.flow
expect 0 "${H[@]}" flow add "$id" slow.flow
expect 0 "${H[@]}" flow cancel "$id"
expect 6 "${H[@]}" flow add "$id" quick.flow
is_over() { [ "$(status_of "$id" state)" = cancelled ]; }
soon is_over || fail "it is not over: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow resume "$id" --detach --json
id=$(value "$out" "['flow']")
[ "$(status_of "$id" tasks)" = 1 ] && [ "$(status_of "$id" open)" = False ] || fail "what goes on: $("${H[@]}" flow status "$id")"
expect 0 "${H[@]}" flow cancel "$id"
expect 0 "${H[@]}" down
