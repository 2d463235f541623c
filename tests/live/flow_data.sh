#!/bin/bash
# Flows whose tasks read each other's files, live: eight agents, each with objects of its own, some of which are killed (-9) and lose them. What
# each task makes is what a plain loop makes of it. The run has to have stolen tasks, fetched objects and made lost ones again.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

# --- without a system: inputs are brought, results are fetched, directories are made ---
cat > small.flow << 'END'
upper: kind=change in=text.txt out=upper.txt            sh -c 'tr a-z A-Z < text.txt > upper.txt'
lines: kind=change in=upper.txt out=parts/lines         sh -c 'mkdir parts; rev upper.txt > parts/lines'
words: in=upper.txt out=words               sh -c 'tr " " "\n" < upper.txt > words; [ ! -e parts ]'
both:  in=parts/lines,words out=both,100%   sh -c 'cat parts/lines words > both; echo all > 100%'
END
printf 'one two\nthree\n' > text.txt
expect 0 "${H[@]}" flow run small.flow --scratch --slots 2
grep -q '2 results fetched' <<< "$out" || fail "$out"
[ "$(tr '\n' ' ' < both)" = 'OWT ENO EERHT ONE TWO THREE ' ] || fail "the flow made: $(cat both)"
[ "$(cat 100%)" = all ] || fail "a name with a percent sign is lost"
[ -e upper.txt ] || [ -e words ] || [ -e parts ] && fail "what others read was fetched too"
none_left

# --- what cannot be ---
printf 'a: out=x true\nb: out=x true\n' > twice.flow
expect 2 "${H[@]}" flow run twice.flow --scratch
grep -q 'both make the file' <<< "$err" || fail "$err"
printf 'a: in=b.txt out=a.txt cp b.txt a.txt\nb: in=a.txt out=b.txt cp a.txt b.txt\n' > circle.flow
expect 2 "${H[@]}" flow run circle.flow --scratch
printf 'a: out=../x sh -c "echo > ../x"\nb: after=a true\n' > leaves.flow
expect 2 "${H[@]}" flow run leaves.flow --scratch
[ -e "$dir" ] && fail "a refused flow has made $dir"

# --- with a system: fetched again, by task, all ---
mkdir "$dir"
printf '[agent]\nslots_max = 1\n' > "$dir/htc.ini"
expect 0 "${H[@]}" up --slots 8
expect 0 "${H[@]}" flow run small.flow --scratch --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
state_is() { "${H[@]}" flow status "$id" --json | grep "\"state\": \"$1\"" > /dev/null; }
soon state_is done || fail "it does not end: $("${H[@]}" flow tasks "$id")"
expect 0 "${H[@]}" flow fetch "$id" --out fetched
[ "$(ls fetched)" = "$(printf '100%%\nboth')" ] || fail "fetched: $(ls fetched)"
expect 0 "${H[@]}" flow fetch "$id.lines" --out lines --json
[ -s lines/parts/lines ] || fail "of one task: $(find lines)"
expect 0 "${H[@]}" flow fetch "$id" --all --out everything
[ "$(find everything -type f | wc -l)" = 5 ] || fail "all: $(find everything)"
expect 4 "${H[@]}" flow fetch "$id.nobody"
expect 0 "${H[@]}" flow report "$id" --json
python3 - "$out" << 'END' || fail "$out"
import json, sys
o = json.loads(sys.argv[1])
kinds = {k["kind"]: k for k in o["by_kind"]}
assert o["data_bytes"] == 56 and o["moved_bytes"] <= 56 and sum(k["moved_bytes"] for k in kinds.values()) == o["moved_bytes"] and (kinds[""]["tasks"], kinds["change"]["tasks"]) == (2, 2), o
END
# A program stays one. What is stored and has changed does not come.
echo "tool: out=tool sh -c 'echo \"#!/bin/sh\" > tool; chmod +x tool'" > tool.flow
echo 'note: out=note sh -c "echo note > note"' >> tool.flow
expect 0 "${H[@]}" flow run tool.flow --scratch
[ -x tool ] && [ ! -x note ] || fail "fetched: $(ls -l tool note)"
id=$(grep -o '^flow [0-9]*' <<< "$out" | sed -n 1p | cut -d' ' -f2)
stored=$(find "$dir/data/out" -path '*/files/note')
[ -f "$stored" ] || fail "where is what note has made?"
rm -f note && chmod u+w "$stored" && echo nota > "$stored"
refuse 70 'note.* not what task note has made' "${H[@]}" flow fetch "$id"
[ ! -e note ] || fail "a file that has changed came: $(cat note)"
# A file that is missing is told with its task; what is missing is run again, with what it reads.
printf 'a: out=a.txt sh -c "echo a > a.txt; echo >> %s/ran"\nb: in=a.txt,there out=b.txt sh -c "cat a.txt there > b.txt"\n' "$PWD" > missing.flow
expect 5 "${H[@]}" flow run missing.flow --scratch
grep -q 'there: .*No such file' <<< "$out" || fail "a missing input is told as: $out"
id=$(grep -o '^flow [0-9]*' <<< "$out" | sed -n 1p | cut -d' ' -f2)
echo there > there
expect 0 "${H[@]}" flow resume "$id"
grep -q ' 2 tasks' <<< "$out" || fail "resumed: $out"
[ "$(wc -l < ran)" = 2 ] || fail "what a resumed task reads was not made again"
# A task that does not make what it is to make has failed.
printf 'a: out=a.txt true\nb: in=a.txt cat a.txt\n' > unmade.flow
expect 5 "${H[@]}" flow run unmade.flow --scratch
grep -q 'task 0 (a): .*a.txt' <<< "$out" || fail "what was not made is told as: $out"

# --- a random graph, while agents are killed and lose what they have ---
python3 - > graph.flow << 'END'
import random
random.seed(7)
n = 220
for i in range(n):
    parents = sorted({random.randrange(max(0, i - 50), i) for _ in range(random.randrange(1, 5))}) if i > 8 else []
    files = ["f%d" % p for p in parents]
    reads = "in=" + ",".join(files) + " " if files else ""
    size = random.choice([0, 10, 1000, 100000, 700000])
    print("t%d: %sout=f%d sh -c '(cat %s /dev/null | cksum; echo %d; head -c %d /dev/zero) > f%d; sleep 0.05'"
          % (i, reads, i, " ".join(files), i, size, i))
print("all: in=%s out=all sh -c 'cat %s | cksum > all'" % (",".join("f%d" % i for i in range(n)), " ".join("f%d" % i for i in range(n))))
END
expect 0 "${H[@]}" flow run graph.flow --scratch --agents 8 --detach --json
id=$(python3 -S -c 'import json, sys; print(json.loads(sys.argv[1])["flow"])' "$out")
ended() { "${H[@]}" flow status "$id" --json 2> /dev/null | grep -E '"state": "(done|cancelled|done_with_failures)"' > /dev/null; }
kills=0
for round in $(seq 5); do
    sleep 0.5
    ended && break
    victim= # the one that has most: what it made is needed
    for slot in $(cd "$dir/slots" && ls -d local.*.objects 2> /dev/null | cut -d. -f1,2); do
        n=$(find "$dir/slots/$slot.objects" -type f 2> /dev/null | wc -l)
        [ "$n" -gt "${most:-0}" ] && most=$n victim=$slot
    done
    most=0
    [ "$victim" ] || continue
    for p in $(ours); do
        [ "$(basename "$(readlink "/proc/$p/exe")")" = htc-agent ] || continue
        tr '\0' ' ' < "/proc/$p/cmdline" | grep -- "--slot ${victim#local.} " > /dev/null || continue
        kill -9 "$p" && kills=$((kills + 1))
    done
    find "$dir/slots/$victim.objects" -type f -delete 2> /dev/null # the next agent may be there already
done
[ "$kills" -ge 3 ] || fail "only $kills kills"
soon ended || fail "it does not end after $kills kills: $("${H[@]}" flow status "$id"; "${H[@]}" flow tasks "$id" | grep -v done)"
state_is done || fail "it ended otherwise than well: $("${H[@]}" flow tasks "$id" --failed)"
expect 0 "${H[@]}" flow report "$id" --json
python3 -S -c 'import json, sys; o = json.loads(sys.argv[1]); assert 5000000 < o["moved_bytes"] < o["data_bytes"], (o["moved_bytes"], o["data_bytes"])' "$out" ||
    fail "eight agents have moved other bytes"
expect 0 "${H[@]}" flow fetch "$id" --all --out graph
mkdir serial
python3 - << 'END' || fail "the results are not those of a plain loop"
import re, subprocess, os
os.chdir("serial")
for line in open("../graph.flow"):
    script = re.search(r"sh -c '(.*)'$", line.rstrip("\n")).group(1).replace("; sleep 0.05", "")
    subprocess.run(["sh", "-c", script], check=True)
names = sorted(os.listdir("."))
assert names == sorted(os.listdir("../graph")), set(names) ^ set(os.listdir("../graph"))
for n in names:
    assert open(n, "rb").read() == open("../graph/" + n, "rb").read(), n
END
expect 0 "${H[@]}" down
none_left
python3 - "$dir" "$id" "$kills" << 'END' || fail "the run has not done what it was to do"
import glob, re, sys
sums = dict.fromkeys(("run", "stolen", "made", "fetched_bytes", "remade"), 0)
for log in glob.glob(sys.argv[1] + "/log/agent-*.log*"):
    for line in open(log):
        if "works no more at flow %s" % sys.argv[2] in line:
            for k in sums:
                m = re.search(r"\b%s=(\d+)" % k, line)
                sums[k] += int(m.group(1)) if m else 0
print("%s kills; those who lived: %s" % (sys.argv[3], sums))
assert sums["stolen"] * 10 >= sums["run"] and sums["fetched_bytes"] > 5000000 and sums["remade"] > 0, sums
END

# --- agents with little room for what tasks read: a task that reads more than that fails, and files are brought again ---
# Each of two agents of one slot makes a file of 1.5 MB, and each a smaller one: a task waits for the one that runs beside it.
there=$PWD
cat > wide.flow << END
a1: out=a1 sh -c 'touch $there/a1; until [ -e $there/a2 ]; do sleep 0.01; done; head -c 1500000 /dev/urandom > a1'
a2: out=a2 sh -c 'touch $there/a2; until [ -e $there/a1 ]; do sleep 0.01; done; head -c 1500000 /dev/urandom > a2'
b1: after=a1,a2 out=b1 sh -c 'touch $there/b1; until [ -e $there/b2 ]; do sleep 0.01; done; head -c 700000 /dev/urandom > b1'
b2: after=a1,a2 out=b2 sh -c 'touch $there/b2; until [ -e $there/b1 ]; do sleep 0.01; done; head -c 700000 /dev/urandom > b2'
large: in=a1,a2 out=large sh -c 'cat a1 a2 > large'
small: after=large:any in=b1,b2 out=small sh -c 'cat b1 b2 > small'
END
for room in 1M 2M; do
    dir=$top/room-$room
    H=("$htc" --dir "$dir")
    mkdir "$dir" && printf '[agent]\nslots_max = 1\n[data]\ncache_max = %s\n' $room > "$dir/htc.ini"
    expect 0 "${H[@]}" up --slots 2
    rm -f a1 a2 b1 b2 small large
    if [ $room = 1M ]; then
        expect 5 "${H[@]}" flow run wide.flow --scratch --agents 2
        grep -q 'large): what it reads cannot be brought to .*: it is more than may be kept there, or the disk is full' <<< "$out" || fail "a task that reads too much: $out"
        grep -q ' 5 done, 1 failed, 0 cancelled' <<< "$out" || fail "$out"
    else
        expect 0 "${H[@]}" flow run wide.flow --scratch --agents 2
        [ "$(wc -c < large)" = 3000000 ] || fail "large has $(wc -c < large) bytes"
    fi
    [ "$(wc -c < small)" = 1400000 ] || fail "small has $(wc -c < small) bytes"
    expect 0 "${H[@]}" down
    none_left
done
