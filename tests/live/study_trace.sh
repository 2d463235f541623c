#!/bin/bash
# usage: SOURCE=DIR study_trace.sh PROGRAMS
# htc-sim fairshare --trace: a log's jobs are tasks of its users, with its arrivals and run times; a long log takes no more memory; mistakes have file and line.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# job SUBMIT RUN STATUS USER [PROCESSORS]: the next line of a log.
number=0
job() {
    number=$((number + 1))
    echo "$number $1 0 $2 ${5:-1} -1 -1 -1 -1 -1 $3 $4 1 -1 -1 -1 -1 -1"
}
# Two cores. User 7 has three jobs of 100 s at 0, one of them of four processors, and 12 one of 50 s at 10 s; one job has no length, and one an unknown user.
{
    echo '; Version: 2.2'
    job 0 100 1 7
    job 0 100 1 7 4
    job 0 100 1 7
    job 10 50 1 12
    job 20 -1 5 12
    job 1000 30 0 -1
} > "$dir/small.swf"
ends 0 fairshare --trace "$dir/small.swf" --cores 2 --json
python3 - "$dir/out" << 'END' || { cat "$dir/out"; fail "it is not the log"; }
import json, sys
r = json.load(open(sys.argv[1]))
users = {u["name"]: u for u in r["users"]}
assert r["wrong"] == "" and r["ended"] == 8 and abs(r["busy_core_s"] - 680) < 1e-3 and set(users) == {"u7", "u12", "unknown"}, users
assert users["u7"]["tasks"] == 6 and abs(users["u7"]["work_s"] - 600) < 1e-3
# the cores are free at 100 s: one goes to user 12 until 150 s, and all else is user 7's, whose last task begins at 250 s
assert abs(users["u12"]["response_s"] - 140) < 0.1 and abs(users["u7"]["makespan_s"] - 350) < 0.1, users
assert abs(users["unknown"]["response_s"] - 30) < 1e-3 and abs(r["makespan_s"] - 1030) < 0.1, r
END
ends 0 fairshare --trace "$dir/small.swf" --cores 2
has '^log          5 jobs taken, 1 without a size or a length, 0 broken lines$'
has '^3 users, 5 jobs, 8 tasks on 2 cores'
ends 0 fairshare --trace "$dir/small.swf" --cores 2 --arrivals at_once --json
grep -q '"makespan_s":380.0' "$dir/out" || { cat "$dir/out"; fail "all at once it takes 380 s"; }

# A section [user.NAME] is the weight of a user of the log, whatever else it draws; the log's name is one beside the file.
printf '[sim]\nmodel = fairshare\n[cluster]\ncores = 2\n[workload]\ntrace = small.swf\n[user.u12]\nweight = 3\n' > "$dir/weights.ini"
ends 0 run "$dir/weights.ini" --json
grep -q '{"name":"u12","weight":3,"tasks":1' "$dir/out" || { cat "$dir/out"; fail "the weight of u12"; }
[ "$(grep -o '"name":"u12"' "$dir/out" | wc -l)" = 1 ] || fail "u12 is there twice"

# What is not there or broken is refused with its place; broken lines are passed over where that is wanted.
{
    cat "$dir/small.swf"
    echo '7 1100 0 10 1 rubbish'
} > "$dir/broken.swf"
ends 2 fairshare --trace "$dir/broken.swf" --cores 2
says "$dir/broken.swf:8"
ends 0 fairshare --trace "$dir/broken.swf" --cores 2 --set workload.skip_bad=on
has '1 without a size or a length, 1 broken lines'
ends 2 fairshare --trace "$dir/none.swf"
says "none.swf"
says "No such file"
printf '; nothing\n' > "$dir/empty.swf"
ends 2 fairshare --trace "$dir/empty.swf"
says "there are no jobs in it"
ends 2 fairshare --trace "$dir/small.swf" --engine exact
says "the exact engine takes no log"
ends 2 fairshare --trace "$dir/small.swf" --checkpoint "$dir/state"
says "a run of a source has no checkpoint"
printf '[sim]\nmodel = fairshare\n[workload]\ntrace = small.swf\n[user.a]\n[job.b]\nuser = a\n' > "$dir/both.ini"
ends 2 run "$dir/both.ini"
says "both a log and sections [job.NAME]"
mkfifo "$dir/pipe"
job 0 1 1 1 > "$dir/pipe" &
ends 2 fairshare --trace "$dir/pipe"
says "it is read twice"
wait

# As many jobs at a time in a log of ten times the length: as much memory.
memory_of() { grep -oE '"memory":[0-9]+' "$dir/out" | cut -d: -f2; }
awk 'BEGIN { for (i = 0; i < 10000; i++) printf "%d %d 0 5 1 -1 -1 -1 -1 -1 1 %d 1 -1 -1 -1 -1 -1\n", i + 1, i, i % 5 }' > "$dir/short.swf"
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "%d %d 0 5 1 -1 -1 -1 -1 -1 1 %d 1 -1 -1 -1 -1 -1\n", i + 1, i, i % 5 }' > "$dir/long.swf"
ends 0 fairshare --trace "$dir/short.swf" --cores 8 --json
short=$(memory_of)
ends 0 fairshare --trace "$dir/long.swf" --cores 8 --json
grep -q '"ended":100000' "$dir/out" && [ "$(memory_of)" = "$short" ] || fail "100000 jobs need $(memory_of) bytes, 10000 $short"
echo "study_trace: all is well"
