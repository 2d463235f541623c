#!/bin/bash
# Flows, live: with and without a system, every form of failure, cancelling, and agents and store that are killed (-9) while
# a graph runs. What each task leaves is compared with what a plain loop leaves.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

# --- a diamond, with a system of its own ---
cat > diamond.flow << 'END'
a: sh -c 'echo a > a'
b: after=a sh -c 'cat a > b; echo b >> b'
c: after=a sh -c 'cat a > c; echo c >> c'
d: after=b,c sh -c 'cat b c > d'
END
mkdir "$top/own" # others run flows with systems of their own at the same time
TMPDIR=$top/own expect 0 "${H[@]}" flow run diamond.flow --slots 2
[ "$(tr '\n' ' ' < d)" = 'a b a c ' ] || fail "the diamond made: $(cat d)"
[ -e "$dir" ] && fail "a run with a system of its own made $dir"
none_left
[ -z "$(ls "$top/own")" ] || fail "a system of a run is left: $(ls -d "$top/own"/*)"

# --- bad input: nothing is started ---
printf 'a: after=c true\nb: after=a true\nc: after=b true\n' > cycle.flow
expect 2 "${H[@]}" flow run cycle.flow
grep -q 'cycle.flow.*"a" waits for "c"' <<< "$err" || fail "a cycle is told as: $err"
printf 'a: after=nobody true\n' > unknown.flow
expect 2 "${H[@]}" flow check unknown.flow
expect 1 "${H[@]}" flow run
expect 1 "${H[@]}" flow run diamond.flow --shape bot --tasks 3
expect 3 "${H[@]}" flow run diamond.flow --detach
expect 3 "${H[@]}" flow status 1

# --- with a system ---
expect 0 "${H[@]}" up --slots 2
expect 0 "${H[@]}" flow run --shape mapreduce --tasks 60 --degree 3
grep -q '60 done, 0 failed, 0 cancelled' <<< "$out" || fail "$out"
printf 'a: true\nb: after=a false\nc: after=b true\nd: after=b:failed true\ne: after=b:any true\n' > fails.flow
expect 5 "${H[@]}" flow run fails.flow --json
python3 - "$out" << 'END' || fail "$out"
import json, sys
o = json.loads(sys.argv[1])
assert (o["state"], o["done"], o["failed"], o["cancelled"]) == ("done_with_failures", 3, 1, 1), o
END
expect 0 "${H[@]}" flow tasks 2 --json
python3 - "$out" << 'END' || fail "$out"
import json, sys
t = {x["name"]: x for x in json.loads(sys.argv[1])}
assert [t[n]["state"] for n in "abcde"] == ["done", "failed", "cancelled", "done", "done"], t
assert t["b"]["exit_code"] == 1 and t["b"]["reason"] and t["c"]["worker"] == 0
END
# The job of a flow that failed has failed too, once and for all.
expect 5 "${H[@]}" wait 2
# A task that fails once is run again.
printf 'a: sh -c "[ -e once ] || { touch once; exit 1; }"\nb: after=a true\n' > once.flow
expect 0 "${H[@]}" flow run once.flow --tries 2
# Beyond so many failures the rest is cancelled.
for i in $(seq 40); do echo "t$i: sh -c 'sleep 0.05; exit 3'"; done > many.flow
expect 5 "${H[@]}" flow run many.flow --max-fails 3
grep -q ' [1-9][0-9]* cancelled' <<< "$out" || fail "nothing was cancelled: $out"

# --- more dependencies than a record has room for: inserted tasks stand between, and nobody sees them ---
python3 - > wide.flow << 'END'
n = 5000
print("first: sh -c '[ -e go ]'")
for i in range(n):
    print(f"m{i}: after=first:{['ok', 'any', 'failed'][i % 3]} @noop")
print("last: after=" + ",".join(f"m{i}:any" for i in range(n)) + " @noop")
END
expect 5 "${H[@]}" flow run wide.flow --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
python3 - "$out" << 'END' || fail "$out"
import json, sys
o = json.loads(sys.argv[1])
assert (o["tasks"], o["done"], o["failed"], o["cancelled"]) == (5002, 3334, 1, 1667), o
assert o["inserted"] > 0, o
END
"${H[@]}" flow tasks "$id" --json > tasks.json || fail "its tasks are not listed"
python3 - tasks.json << 'END' || fail "its tasks have ended otherwise"
import json, sys
t = json.load(open(sys.argv[1]))
assert [x["name"] for x in t] == ["first"] + [f"m{i}" for i in range(5000)] + ["last"], [x["name"] for x in t][-3:]
assert t[0]["state"] == "failed" and t[-1]["state"] == "done"
assert all(x["state"] == ("cancelled" if i % 3 == 0 else "done") for i, x in enumerate(t[1:-1]))
END
expect 0 "${H[@]}" flow why "$id.m3"
grep -q 'm3 of flow .* was cancelled: it needs first, and that has failed' <<< "$out" || fail "$out"
expect 0 "${H[@]}" flow report "$id" --json
python3 - "$out" << 'END' || fail "$out"
import json, sys
o = json.loads(sys.argv[1])
assert o["ran"] == 3335 and o["critical_path"][0] == "first" and o["critical_path"][-1] == "last" and len(o["critical_path"]) == 3, o
END
expect 0 "${H[@]}" flow render "$id"
[ "$(grep -c -- '->' <<< "$out")" = 10000 ] || fail "not every dependency is drawn"
touch go
expect 0 "${H[@]}" flow resume "$id" # the first, and what was to run if it succeeds; what was to run if it fails is done
grep -q '1668 done, 0 failed, 0 cancelled' <<< "$out" || fail "$out"

# --- cancelled while it runs ---
expect 0 "${H[@]}" flow run --shape bot --tasks 200 --length 0.2 --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
state_is() { "${H[@]}" flow status "$id" --json | grep "\"state\": \"$1\"" > /dev/null; }
soon state_is running || fail "it does not run"
expect 0 "${H[@]}" flow cancel "$id"
soon state_is cancelled || fail "it is not cancelled"
expect 0 "${H[@]}" flow rm "$id"
expect 4 "${H[@]}" flow status "$id"
# By its job: the same.
expect 0 "${H[@]}" flow run --shape pipeline --tasks 200 --degree 50 --length 0.2 --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
soon state_is running || fail "it does not run"
expect 0 "${H[@]}" cancel "$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["job"])' "$out")"
soon state_is cancelled || fail "it is not cancelled with its job"

# --- killed, again and again ---
python3 - > killed.flow << 'END'
import random
random.seed(5)
n = 300
for i in range(n):
    parents = sorted({random.randrange(max(0, i - 40), i) for _ in range(random.randrange(0, 4))}) if i else []
    after = "after=" + ",".join("t%d" % p for p in parents) + " " if parents else ""
    inputs = " ".join("o/t%d" % p for p in parents)
    print("t%d: %ssh -c 'cat %s /dev/null | cksum > o/.$$.t%d; echo %d >> o/.$$.t%d; sleep 0.01; mv o/.$$.t%d o/t%d; echo %d >> ran'" % (i, after, inputs, i, i, i, i, i, i))
END
mkdir -p o serial/o
expect 0 "${H[@]}" flow run killed.flow --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
ended() { "${H[@]}" flow status "$id" --json 2> /dev/null | grep -E '"state": "(done|cancelled|done_with_failures)"' > /dev/null; }
kills=0
for round in $(seq 6); do
    sleep 0.4
    ended && break
    if [ $((round % 3)) = 0 ]; then
        daemon_pid htc-kvd
    else
        daemon_pid htc-agent || continue
    fi
    kill -9 "$pid" && kills=$((kills + 1))
done
[ "$kills" -ge 3 ] || fail "only $kills kills"
soon ended || fail "it does not end after $kills kills: $("${H[@]}" flow status "$id")"
state_is done || fail "it ended otherwise than well: $("${H[@]}" flow status "$id"; "${H[@]}" flow tasks "$id" --failed)"
# What a plain loop leaves, in the order of the file.
python3 - << 'END' || fail "the results are not those of a plain loop"
import re, subprocess, os
os.chdir("serial")
for line in open("../killed.flow"):
    script = re.search(r"sh -c '(.*)'$", line.rstrip("\n")).group(1).replace("sleep 0.01;", "")
    subprocess.run(["sh", "-c", script], check=True)
names = sorted(n for n in os.listdir("o") if not n.startswith("."))
assert len(names) == 300
for n in names:
    assert open("o/" + n).read() == open("../o/" + n).read(), n
END
runs=$(wc -l < ran)
echo "$kills kills; 300 tasks ran $runs times"

# --- the slots are free for jobs again ---
expect 0 "${H[@]}" submit -w -- true ::: $(seq 10)
# --- a task knows whose it is ---
echo "who: sh -c 'echo \$HTC_USER > $PWD/who'" > who.flow
expect 0 "${H[@]}" flow run who.flow
[ "$(cat who)" = "$(id -un)" ] || fail "a task is told that its user is '$(cat who)'"

expect 0 "${H[@]}" down
none_left
