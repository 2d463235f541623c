#!/bin/bash
# usage: SOURCE=DIR study_dataflow.sh PROGRAMS
# htc-sim dataflow: the example with its pictures, arithmetic by hand, every system and policy, a flow that is given, the same table from one process and two, the exact
# engine as a model, and mistakes.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# The example, with its pictures.
ends 0 run "$SOURCE/examples/sim/dataflow.ini" --per-core 50 --plot "$dir/plots"
has '^10000 tasks with 9999 dependencies, fanout, on 100 nodes with 200 cores, workers'
has '^data +[0-9.]+ MB were read: [0-9.]+ % where they were made, [0-9.]+ % from a cache'
has '^placing +flds: [1-9][0-9]* tasks went to their data'
has '^stealing +random: [1-9][0-9]* rounds'
python3 - "$dir/plots" << 'PY'
import csv, sys, xml.dom.minidom
rows = list(csv.DictReader(open(sys.argv[1] + "/utilisation.csv")))
assert len(rows) > 100 and all(int(r["busy"]) <= 200 for r in rows)
assert int(rows[0]["waiting"]) == 9999 and int(rows[-1]["ended"]) == 10000
assert all(int(r["busy"]) + int(r["ready"]) + int(r["waiting"]) + int(r["ended"]) == 10000 for r in rows), "tasks are lost on the way"
xml.dom.minidom.parse(sys.argv[1] + "/utilisation.svg")
PY

# By hand: without costs two pipelines of five tasks of 1 s on two cores; a file of 1 MB at 1 MB/s before a task of 1 s on the other node.
free=(--latency 0 --bandwidth 0 --set cost.task=0 --set cost.store=0)
ends 0 dataflow --shape pipeline --degree 5 --nodes 2 --cores 1 --tasks 10 --length 1s --output 0 --layout each "${free[@]}" --json
has '"makespan_s":5.00000,.*'
has '"efficiency":1.000000,'
ends 0 dataflow --nodes 2 --cores 1 --tasks 2 --length 1s --output 0 --layout each --locality mlb "${free[@]}" --bandwidth 1000000 --set data.inputs=one --set data.files=1 \
    --set data.file_bytes=1M --json
has '"makespan_s":2.00[0-9]*,'
has '"moved_bytes":1000000,'
# Three tasks of a flow, one after two.
printf 'a: @sleep 1s\nb: @sleep 2s\nc: after=a,b @sleep 1s\n' > "$dir/three.flow"
ends 0 dataflow --shape flow --flow "$dir/three.flow" --nodes 1 --cores 2 "${free[@]}" --json
has '"tasks":3,"edges":2,.*"makespan_s":3.00000,'
ends 2 resume
says "Try htc-sim resume --help"
ends 2 dataflow --flow "$dir/three.flow"
says "graph.file names a flow, and graph.shape is another one"

# In pieces it is the same run, and so is its course: with data on its way, caches, jobs in containers and a flow that is given.
in_pieces 9000 utilisation.csv -- run "$SOURCE/examples/sim/dataflow.ini" --per-core 50
for options in "--system datadiff --cache 1G" "--system yarn --shape mapreduce --set cost.launch=5s --set cost.container=1s" "--links both --cache 100M --nudge 10ms"; do
    # shellcheck disable=SC2086
    in_pieces 1000 utilisation.csv -- dataflow --shape pipeline --nodes 10 --cores 2 --per-core 20 --output 0..1M --bandwidth 125000000 $options
done
in_pieces 10 utilisation.csv -- dataflow --shape flow --flow "$dir/three.flow" --nodes 3 --cores 2
ends 4 dataflow --nodes 10 --stop-after 1000 --checkpoint "$dir/state"
has_no_makespan
cp "$dir/state" "$dir/good"
ends 2 resume "$dir/state" --set cost.store=7ms
says "the checkpoint is not of this experiment"
printf 'x' | dd of="$dir/state" bs=1 seek=3000 conv=notrunc status=none
ends 2 resume "$dir/state"
says "state: it is damaged: its checksum does not hold"
says "next: run the experiment again"
ends 0 resume "$dir/good"

# Every system and policy.
for options in "--system datadiff --cache 1G" "--system pfs" "--system active" "--locality mdl" "--locality mlb" "--locality rlds --ratio 0.1" "--locality flds --tt 1s --tt-rule move" \
    "--links both --cache 100M" "--policy two --amount one --nudge 10ms" "--shape fanout --degree 4" "--shape fanin --degree 4" "--shape mapreduce --degree 3" \
    "--system yarn --shape mapreduce --set cost.launch=5s --set cost.container=1s" "--layout one --wait 1ms --wait-max 1s"; do
    # shellcheck disable=SC2086
    ends 0 dataflow --shape pipeline --nodes 10 --cores 2 --per-core 20 --output 0..1M --bandwidth 125000000 $options --json
    has '"ended":400,.*"wrong":""'
done
printf '[sim]\nmodel = dataflow\n[machine]\nsystem = yarn\nnodes = 4\ncores = 2\n[graph]\nshape = phases\n[phase.map]\nper_core = 2\n[phase.reduce]\ntasks = 1\n[phase.again]\ntasks = 8\n[cost]\nlaunch = 10s\nlatency = 0\nbandwidth = 0\ntask = 0\ndispatch = 0\n' > "$dir/jobs.ini"
ends 0 run "$dir/jobs.ini" --json
has '"tasks":25,.*"makespan_s":24.00000,' # two launches, two rounds, one, and one

# The same experiment from one process and two, but for the time that it took.
many=(dataflow --nodes 10 --per-core 20 --vary graph.shape=bag,fanout,phases --vary locality.policy=flds,mlb --seeds 1..2 --json)
many=("${many[@]/phases/mapreduce}")
ends 0 "${many[@]}" -j 1
sed -E 's/"(seconds|task_ns)":\{[^}]*\}//g' "$dir/out" > "$dir/one"
ends 0 "${many[@]}" -j 2
sed -E 's/"(seconds|task_ns)":\{[^}]*\}//g' "$dir/out" | cmp "$dir/one" - || fail "two processes come to another table than one"

# The exact engine as a model.
printf '[sim]\nmodel = flow\n[machine]\nnodes = 4\n[graph]\nshape = fanin\ndegree = 3\nper_core = 10\nlength = 100ms\n' > "$dir/exact.ini"
ends 0 run "$dir/exact.ini" --plot "$dir/exact" --json
has '"workers":4,"slots":4,"tasks":40,'
head -n 1 "$dir/exact/utilisation.csv" | grep -x 'seconds,cores,busy,ended' > /dev/null || fail "no course of the exact engine"
exact=$(grep -oE '"hash":"[0-9a-f]+"' "$dir/out")
ends 0 flow --shape fanin --degree 3 --tasks 40 --length 100ms --workers 4 --json
[ "$(grep -oE '"hash":"[0-9a-f]+"' "$dir/out")" = "$exact" ] || fail "htc-sim flow runs another flow"

# Mistakes.
ends 2 dataflow --shape round
says "graph.shape takes bag|fanout|fanin|pipeline|mapreduce|phases|flow"
ends 2 dataflow --locality nobody
says "locality.policy takes flds, mdl, mlb or rlds"
ends 2 dataflow --policy nobody
says "steal.policy takes log2, mesh-2d, mesh-3d, near, one, random, sqrt, static or two"
ends 2 dataflow --shape phases
says "write a section [phase.NAME] for each"
ends 2 dataflow --shape flow
says "set graph.file"
ends 2 dataflow --shape flow --flow "$dir/none"
says "cannot be read"
ends 2 dataflow --shape flow --flow "$dir"
says "$dir cannot be read: Is a directory"
ends 2 flow "$dir"
says "$dir cannot be read: Is a directory"
printf '<adag>\n<job id="a" name="a" runtime="1"/>\n<child ref="a"><parent ref="a"/></child></adag>\n' > "$dir/self.dax"
ends 2 flow "$dir/self.dax"
says "self.dax:3: task \"a\" waits for itself"
says "next: take it out of its own parents"
ends 2 dataflow --set data.inputs=pairs --set data.files=3
says "set data.files to an even number"
ends 2 dataflow --system yarn --shape fanout
says "yarn runs the shapes bag, mapreduce and phases"
ends 2 dataflow --wait 2min
says "longer than steal.wait_max"
ends 2 dataflow --nodes 10000 --per-core 100 --memory 10M
says "10 MiB are allowed"
ends 2 dataflow --tick 0
says "sim.tick takes a span from 1 ns"
printf '<adag name="x">\n<job id="a" name="a" runtime="1"/><job id="b" name="b" runtime="1"/>\n<child ref="b"><parent ref="a"/></child>\n<child ref="a"><parent ref="b"/></child>\n</adag>\n' > "$dir/cycle.dax"
ends 2 dataflow --shape flow --flow "$dir/cycle.dax"
says 'cycle.dax:2: "a" waits for "b", "b" for "a"'
printf '[sim]\nmodel = flow\n[graph]\nshape = flow\nfile = cycle.dax\n' > "$dir/cycle.ini"
ends 2 run "$dir/cycle.ini"
says 'cycle.dax:2: "a" waits for "b", "b" for "a"'
printf '[sim]\nmodel = flow\n[graph]\nshape = flow\nfile = none.dax\n' > "$dir/cycle.ini"
ends 2 run "$dir/cycle.ini"
says 'cycle.ini:5: '
says 'none.dax cannot be read: No such file'
ends 2 run "$dir/exact.ini" --set graph.length="exponential 1s"
says "between two bounds"
echo "study_dataflow: all is well"
