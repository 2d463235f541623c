#!/bin/bash
# usage: SOURCE=DIR study_micro.sh PROGRAMS
# htc-sim micro and clusters of htc-sim fairshare: the example runs, four systems come to what arithmetic says, clusters share the work, the exact
# engine agrees, an interrupted run goes on, and mistakes are refused.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

ends 0 run "$SOURCE/examples/sim/micro.ini" --plot "$dir/plots"
grep -qE '^4000 tasks of 10 s on 300 cores, system batch, outputs local; a tick is 0.001 s$' "$dir/out" || fail "no first line"
[ "$(wc -l < "$dir/plots/micro.csv")" = 2 ] || fail "micro.csv has not a line"

# 4000 jobs of 0.1 s; 14 rounds after the first of five batches; 8000 records of 29 ms and a round.
ends 0 micro --vary micro.system=batch,db,nodb,baseline --hold-rate 0 --json
python3 - "$dir/out" << 'PY'
import json, sys
batch, db, nodb, baseline = (r["makespan_s"]["mean"] for r in json.load(open(sys.argv[1]))["rows"])
assert baseline == 410 and abs(nodb - 140.2) < 1e-9 and nodb < batch < 1.02 * 140 and 235 <= db <= 250, (batch, db, nodb, baseline)
PY
# The specification's section 7, rows 11, 12 and 30: one command has the table of the three systems, with outputs local and shared; the mean response time of the user, and tasks a
# second; with holds the baseline completes less, the more tasks the less, and ours all.
ends 0 micro --vary micro.system=baseline,db,nodb --vary micro.tasks=250,500,1000,2000,4000 --vary micro.output=local,shared --json
python3 - "$dir/out" << 'PY'
import json, sys
rows = {tuple(str(r[k]) for k in ("micro.system", "micro.tasks", "micro.output")): r for r in json.load(open(sys.argv[1]))["rows"]}
assert len(rows) == 30, len(rows)
at = lambda system, tasks, output, what="makespan_s": rows[system, str(tasks), output][what]["mean"]
for output in ("local", "shared"):
    for n in (1000, 2000, 4000):
        assert at("baseline", n, output) > at("db", n, output) > at("nodb", n, output), (n, output)
    held = [at("baseline", n, output, "held") for n in (250, 1000, 4000)]
    assert held == sorted(held) and held[-1] > 0 and at("baseline", 4000, output, "completed") < 1, held
    for system in ("db", "nodb"):
        assert all(at(system, n, output, "completed") == 1 for n in (250, 4000))
    assert at("nodb", 4000, output, "response_s") < at("db", 4000, output, "response_s") and at("nodb", 4000, output, "tasks_per_s") > 20
for system in ("baseline", "db", "nodb"):
    assert 0.99 * at(system, 4000, "local") <= at(system, 4000, "shared") <= 1.1 * at(system, 4000, "local"), system
assert at("nodb", 250, "shared") > 1.2 * at("nodb", 250, "local") # 250 outputs at once
PY
# Holds: tasks that are jobs stay held, agents do not.
ends 0 micro --hold 0.05 --vary micro.system=batch,baseline --seeds 1..3 --json
python3 - "$dir/out" << 'PY'
import json, sys
batch, baseline = json.load(open(sys.argv[1]))["rows"]
assert batch["completed"]["mean"] == 1 and baseline["completed"]["mean"] < 0.96 and baseline["held"]["mean"] > 160, (batch, baseline)
PY

# Four clusters do 4000 tasks in 5 rounds, the largest alone in 8.
cat > "$dir/four.ini" << 'INI'
[cluster.helix]
cores = 128
[cluster.gene]
cores = 128
[cluster.kobic]
cores = 184
[cluster.glory]
cores = 514
[user.ada]
[job.bag]
user = ada
tasks = 4000
length = 10s
INI
ends 0 fairshare "$dir/four.ini" --vary cluster.direct=off,on --json
python3 - "$dir/out" << 'PY'
import json, sys
ours, jobs = (r["makespan_s"]["mean"] for r in json.load(open(sys.argv[1]))["rows"])
assert (ours, jobs) == (50, 80), (ours, jobs)
PY
ends 0 fairshare "$dir/four.ini" --set cluster.helix.life=30 --set cluster.gene.speed=2 --json
python3 - "$dir/out" << 'PY'
import json, sys
run = json.load(open(sys.argv[1]))
helix, gene = run["clusters"][:2]
assert run["ended"] == 4000 and run["wrong"] == "" and run["died"] == helix["died"] > 0 and gene["tasks"] > helix["tasks"], run
PY
ends 0 fairshare "$dir/four.ini" --set cluster.kobic.others=100 --plot "$dir/plots"
grep -qE '^kobic +184 +1 ' "$dir/out" || fail "no line of a cluster"

# The exact engine has the same tasks, and nearly the same course.
workload=(fairshare --cores 16 --users 3 --tasks 100 --length "lognormal 5s 0.5" --arrival 20s --gap 50ms --json)
ends 0 "${workload[@]}" --launch 505ms --pull 5ms --leave 2ms
cp "$dir/out" "$dir/scale"
ends 0 "${workload[@]}" --engine exact --launch 500ms
python3 - "$dir/scale" "$dir/out" << 'PY'
import json, sys
scale, exact = (json.load(open(f)) for f in sys.argv[1:])
assert exact["ended"] == 300 and exact["wrong"] == "" and abs(exact["work_core_s"] - scale["work_core_s"]) < 1e-3, exact
assert abs(exact["makespan_s"] / scale["makespan_s"] - 1) < 0.05, (exact["makespan_s"], scale["makespan_s"])
PY
ends 2 "${workload[@]}" --engine exact --db on
says "the exact engine has up to four clusters"

# In pieces it is the same run.
in_pieces 60000 -- micro --system db --tasks 100K --cores 10K --update 1ms
ends 4 micro --system db --tasks 100K --cores 10K --update 1ms --stop-after 60000 --checkpoint "$dir/state"
has_no_makespan

ends 2 micro --system nothing
says "micro.system takes batch|db|nodb|baseline"
printf '[cluster.a]\ncores = 5\nothers = 6\n[user.a]\n[job.b]\nuser = a\n' > "$dir/bad.ini"
ends 2 fairshare "$dir/bad.ini"
says "cluster.a.others is more than its cores"
ends 2 fairshare "$dir/four.ini" --set cluster.helix.sped=2
says "there is no key cluster.helix.sped"
ends 2 fairshare "$dir/four.ini" --gamma 2
says "fair.gamma takes a number from -1 to 1"
echo "study_micro: all is well"
