#!/bin/bash
# What people of batch systems ask for: arrays, scripts with lines of sbatch and qsub, times, signals, directories, variables of their own.
source "$(dirname "$0")/live.sh"
d=$top/state
# Mail is what a script of ours takes for it.
cat > "$top/mailer" << 'END'
#!/bin/sh
[ "$*" = "-i -t" ] || exit 64
[ -e "${0%/*}/broken" ] && { echo no mail today >&2; exit 75; }
cat > "${0%/*}/mail.$$" && mv "${0%/*}/mail.$$" "${0%/*}/mail"
END
chmod +x "$top/mailer"
printf '[server]\nmail_command = %s -i -t\n[site.local]\nres.wheel = 2\n' "$top/mailer" > "$top/htc.ini"
expect 0 "$htc" --dir "$d" up --slots 4 --config "$top/htc.ini"
export HTC_DIR=$d

# ---- an array: its numbers, and how many run at once ----
mkdir "$top/here"
expect 0 "$htc" submit --array 1-11:2,20%2 --workdir here --env HERE="$top/here" --wait -o 'n-%3a' -- sh -c \
    '> "$HERE/$$"; n=$(ls "$HERE" | wc -l); sleep 0.1; rm "$HERE/$$"; echo "$HTC_ARRAY_INDEX {array} $PWD"; [ "$n" -le 2 ]'
expect 0 "$htc" fetch last --to array
[ "$(cat array/n-001 array/n-003 array/n-020)" = "1 1 $PWD
3 3 $PWD
20 20 $PWD" ] || fail "the array wrote $(head array/n-*)"
[ "$(echo array/n-*)" = "array/n-001 array/n-003 array/n-005 array/n-007 array/n-009 array/n-011 array/n-020" ] || fail "names: $(ls array)"
expect 0 "$htc" status last --json
[ "$(json "$out" 'v["jobs"][0]["array"], v["jobs"][0]["max_running"]')" = '1-11:2,20%2 2' ] || fail "the array is not kept: $out"
expect 1 "$htc" submit --array 1-3,2 -- true
[[ $err == *'has 2 twice'* ]] || fail "$err"

# ---- what many tasks are given in one directory of the user's own: nobody reads half of it, and what is right already is left as it is ----
results_in() { find "$top/$1" -name 'stdout*' -exec cat {} +; }
mkdir "$top/shared" && cd "$top/shared" || exit
{ echo '#!/bin/sh'; for i in $(seq 2000); do echo "# $i: a script that is not read at once"; done; echo 'echo "ran $1"'; } > prog.sh
head -c 200000 /dev/urandom > data.bin
chmod +x prog.sh
is=$(stat -c '%i %Y' prog.sh data.bin) sum=$(cksum < data.bin)
mkdir "$top/elsewhere" && cp prog.sh data.bin "$top/elsewhere"
expect 0 "$htc" submit --wait --workdir here -i prog.sh -i data.bin -- sh -c './prog.sh "$0" && cksum < data.bin' {} ::: $(seq 40)
[ "$(stat -c '%i %Y' prog.sh data.bin)" = "$is" ] || fail "files that were right were written again"
expect 0 "$htc" fetch last --to "$top/shared-out"
[ "$(results_in shared-out | grep -c '^ran ')" = 40 ] || fail "not all ran: $(results_in shared-out)"
[ "$(results_in shared-out | grep -cFx "$sum")" = 40 ] || fail "some read a part of their input"
# Another content takes the name at once: who runs the old one goes on with it.
rm data.bin
sed -i 's/echo "ran/sleep 0.2; echo "was/' prog.sh
(cd "$top/elsewhere" && expect 0 "$htc" submit --wait --workdir "$top/shared" -i prog.sh -i data.bin -- sh -c './prog.sh "$0" && cksum < data.bin' {} ::: $(seq 40)) || exit
expect 0 "$htc" fetch last --to "$top/elsewhere-out"
[ "$(results_in elsewhere-out | grep -c '^ran ')" = 40 ] || fail "not all ran what was submitted: $(results_in elsewhere-out)"
[ "$(results_in elsewhere-out | grep -cFx "$sum")" = 40 ] || fail "some read a part of their input"
[ "$(ls)" = "$(printf 'data.bin\nprog.sh')" ] || fail "left behind: $(ls)"
cd "$OLDPWD" || exit

# ---- scripts ----
cat > slurm.sh << 'END'
#!/bin/bash
#SBATCH --job-name=other --array=1 --job-name=dock --array=4-6 # three; the later ones hold
#SBATCH -n 1 -p long
#SBATCH --time=5 --mem=64 --export=COLOUR,SIZE=9
#SBATCH --output=dock-%A_%a.out
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_JOB_NAME: $1 $COLOUR $SIZE $SLURM_CPUS_PER_TASK ${SECRET-none} $SLURM_SUBMIT_DIR"
#SBATCH --array=1-1000
END
export COLOUR='gr{e}en' SECRET=x
expect 0 "$htc" submit --wait slurm.sh argument
[[ $err == *'slurm.sh:3: -p: sites are chosen'* ]] || fail "nothing is said of -p: $err"
expect 0 "$htc" fetch last --to slurm
expect 0 "$htc" status last --json
job=$(json "$out" 'v["jobs"][0]["id"]')
[ "$(cat slurm/dock-"$job"_5.out)" = "5 of 3 in dock: argument gr{e}en 9 1 none $PWD" ] || fail "the script wrote $(head slurm/*)"
[ "$(json "$out" 'v["jobs"][0]["name"], v["jobs"][0]["count"]')" = 'dock 3' ] || fail "options of the script: $out"
cat > sge.sh << 'END'
#!/bin/sh
#$ -N late -t 2-6:2 -cwd
#$ -l h_rt=0:5:0,h_vmem=64M -v SIZE=3
echo "$SGE_TASK_ID $SGE_TASK_FIRST $SGE_TASK_LAST $SGE_TASK_STEPSIZE $JOB_NAME $SIZE $NSLOTS $PWD"
END
expect 0 "$htc" submit --wait -J early --array 8-9 -o 'o%a' sge.sh # the command line counts more
expect 0 "$htc" fetch last --to sge
[ "$(cat sge/o8 sge/o9)" = "8 8 9 1 early 3 1 $PWD
9 8 9 1 early 3 1 $PWD" ] || fail "the script wrote $(head sge/*)"
sed 's/-cwd/-cwd -l exclusive/' sge.sh > alone.sh
expect 2 "$htc" submit alone.sh
[[ $err == *'alone.sh'*2* ]] || fail "the line is not said: $err"
sed 's/-cwd/-cwd -l gpu=1/' sge.sh > gpu.sh
expect 5 "$htc" submit gpu.sh
[[ $err == *'of gpu'* ]] || fail "GPUs that no site has: $err"
sed 's/-cwd/-cwd -l wheel=3/' sge.sh > wheel.sh
expect 0 "$htc" submit --res wheel=2 --wait --json wheel.sh # the command line counts more
printf '#!/bin/sh\n#SBATCH --gpus=1 --time=0:1 --nice=7 --array=1-2%%1\nsleep 2\n' > zeros.sh
expect 5 "$htc" submit zeros.sh
[[ $err == *'of gpu'* ]] || fail "GPUs that no site has: $err"
expect 0 "$htc" submit --gpus 0 --time 0 --priority 0 --max-running 0 --wait zeros.sh # so does a 0 of it: no GPU, and no limit of a second
expect 0 "$htc" status last --json
[ "$(json "$out" 'v["jobs"][0]["priority"], v["jobs"][0]["max_running"]')" = '0 0' ] || fail "a 0 is not heard: $out"
expect 1 "$htc" submit --env NO_SUCH_VARIABLE -- true
printf 'in the file\n' > words
expect 0 "$htc" submit --wait --stdin words -- cat
expect 0 "$htc" fetch last --to stdin
[ "$(cat stdin/0/stdout)" = 'in the file' ] || [ "$(cat stdin/stdout)" = 'in the file' ] || fail "standard input: $(ls -R stdin)"

# ---- a time to begin ----
expect 0 "$htc" submit --begin now+1hour -- true
expect 0 "$htc" why last
[[ $out == *'is not to begin for'* ]] || fail "why: $out"
expect 0 "$htc" cancel last
expect 0 "$htc" submit --begin now+2 --wait --json -- true
expect 0 "$htc" status last --json
[ "$(json "$out" 'v["jobs"][0]["started"] >= v["jobs"][0]["begin"] > v["jobs"][0]["submitted"]')" = True ] || fail "it began before its time: $out"
expect 1 "$htc" submit --begin 25:00 -- true
expect 0 "$htc" submit --begin yesterday --wait -- true
[ "$err" = 'htc: warning: --begin: yesterday has passed: the job may begin at once' ] || fail "a time that has passed: $err"
for at in now now+1 tomorrow; do
    expect 0 "$htc" submit --dry-run --begin $at -- true
    [ -z "$err" ] || fail "--begin $at has not passed: $err"
done

# ---- a signal ahead of the limit ----
expect 0 "$htc" submit --wait --time 60s --signal USR2@59 -- sh -c 'trap "echo warned; exit 0" USR2; while :; do sleep 0.1; done'
expect 0 "$htc" logs last
[[ $out == *warned* ]] || fail "no signal came: $out"

# ---- failures: looked at, given up, tried again with more ----
expect 5 "$htc" submit -J memory --wait --retries 0 --mem 40M -- sh -c '[ {n} = 2 ] && exit 3; echo fine {n}; [ {n} -lt 2 ] || python3 -S -c "import time; x = bytearray(80 << 20); time.sleep(2)"' ::: n=1:4
expect 0 "$htc" logs last --failed --stderr
expect 0 "$htc" fetch last --failed --to failed
[ "$(ls failed)" = '2
3
manifest.json' ] || fail "outputs of failed tasks: $(ls failed)"
memory=$("$htc" status last --json | python3 -S -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["id"])')
expect 0 "$htc" retry "$memory".2-3 --mem 256M --time 5
expect 5 "$htc" wait "$memory"
expect 0 "$htc" tasks "$memory" --json
[ "$(json "$out" '[(t["state"], t.get("memory"), t.get("time_limit")) for t in v["tasks"]]')" = \
    "[('done', None, None), ('failed', None, None), ('done', 268435456, 300.0), ('done', 268435456, 300.0)]" ] || fail "tried again with more: $out"
expect 0 "$htc" status "$memory"
[[ $out == *'tried again with 256.0 MiB of memory and a limit of 5m00s'* ]] || fail "$out"
expect 0 "$htc" submit --retries 50 -- sh -c '[ {n} = 1 ] || exit 1; sleep 600' ::: n=1:3
giving_up() { "$htc" cancel last --failed > said && grep -q '^cancelled [12] ' said; }
given_up() { giving_up; [ "$("$htc" status last --json | python3 -S -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["tasks"]["cancelled"])')" = 2 ]; }
soon given_up || fail "tasks that fail were not given up: $(cat said)"
expect 0 "$htc" cancel last

# ---- a job anew, of the same inputs ----
echo one > data
expect 0 "$htc" submit -J anew --array 3-4 -i data --wait -- sh -c 'cat data; echo $HTC_ARRAY_INDEX'
rm data
expect 0 "$htc" resubmit last --wait
expect 0 "$htc" fetch last --to anew
[ "$(cat anew/1/stdout)" = 'one
4' ] || fail "the copy wrote $(cat anew/*/stdout)"
expect 0 "$htc" status --name 'ane?' --state ended --since 1d --json
[ "$(json "$out" 'len(v["jobs"]), v["jobs"][0]["array"]')" = '2 3-4' ] || fail "jobs by name: $out"
expect 0 "$htc" status --name 'none*'
[ "$out" = 'no such jobs' ] || fail "$out"
expect 0 "$htc" fetch last --name mem* --to named
[ -s named/manifest.json ] || fail "not fetched by name"
expect 0 "$htc" rm all --name anew --since 1h
expect 0 "$htc" status --name anew
[ "$out" = 'no such jobs' ] || fail "they are not removed: $out"
expect 1 "$htc" cancel 1 --name x

# ---- at a job's end: a command, and a mail ----
cat > report.sh << 'END'
#!/bin/sh
echo "$HTC_JOB_NAME: $HTC_JOB_STATE, $HTC_JOB_DONE of $HTC_JOB_TASKS, said $1"
END
chmod +x report.sh
expect 0 "$htc" submit -J campaign --retries 0 --on-end "./report.sh 'that it is over'" --mail-to ada@example.org --json -- test {n} -lt 3 ::: n=1:3
job=$(json "$out" 'v["id"]')
expect 0 "$htc" wait $((job + 1))
expect 0 "$htc" logs $((job + 1))
[ "$out" = 'campaign: done_with_failures, 2 of 3, said that it is over' ] || fail "at its end: $out"
soon [ -e "$top/mail" ] || fail "no mail came"
grep -q '^To: ada@example.org$' "$top/mail" && grep -q "^Subject: htc: job $job has ended: done_with_failures (2 done, 1 failed, 0 cancelled)$" "$top/mail" || fail "mail: $(cat "$top/mail")"
expect 1 "$htc" submit --mail-to 'ada
Bcc: ben' -- true

unset HTC_DIR
expect 0 "$htc" --dir "$d" down
none_left
echo "wishes: all is well"
