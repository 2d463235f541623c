#!/bin/bash
# usage: SOURCE=DIR study_manytask.sh PROGRAMS
# htc-sim manytask: the example with its pictures and its file of tasks, arithmetic by hand, a run in pieces, the same table from one process and two, and mistakes.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# The example, and the same from options.
example=$SOURCE/examples/sim/manytask.ini
ends 0 run "$example" --per-core 2
grep -qE '^51200 tasks on 256 nodes with 25600 cores, distributed' "$dir/out" || fail "no first line"
grep -qE '^stealing +random: [1-9][0-9]* rounds' "$dir/out" || fail "nothing is told of stealing"
ends 0 run "$example" --per-core 2 --json
hash=$(hash_of)
ends 0 manytask --nodes 256 --cores 100 --per-core 2 --json
[ "$(hash_of)" = "$hash" ] || fail "the example is not what the options are by default"

# Pictures: tiles of 50 nodes are 8 columns; the first frame has one node at work, a later one several.
ends 0 manytask --nodes 50 --cores 4 --per-core 20 --length 1s..9s --policy static --neighbours 2 --tiles on --plot "$dir/plots" --tasks-log "$dir/tasks.csv" --json
python3 - "$dir" << 'PY'
import base64, colorsys, csv, json, re, struct, sys, xml.dom.minidom, zlib
folder = sys.argv[1]
run = json.load(open(folder + "/out"))
rows = list(csv.DictReader(open(folder + "/plots/utilisation.csv")))
assert int(rows[0]["busy"]) == 4 and int(rows[0]["nodes_at_work"]) == 1 and int(rows[-1]["queued"]) == 0 and len(rows) > 300, rows[0]
assert sum(float(r["tasks_per_s"]) > 0 for r in rows) > 100
xml.dom.minidom.parse(folder + "/plots/utilisation.svg")
text = open(folder + "/plots/tiles.svg").read()
xml.dom.minidom.parseString(text)
data, at, chunk = base64.b64decode(re.search('base64,([^"]+)"', text).group(1)), 8, {}
while at + 8 < len(data) and b"IEND" not in chunk:
    n, name = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + n]
    assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(name + body), name
    chunk[name], at = body, at + 12 + n
width, height = struct.unpack(">II", chunk[b"IHDR"][:8])
frames, pixels = height // 7, zlib.decompress(chunk[b"IDAT"])
assert width == 8 and height % 7 == 0 and 100 <= frames <= 200 and len(pixels) == 9 * height, (width, height, len(pixels))
assert text.count(";-") == 2 * (frames - 1) and 'dur="%.2fs"' % (frames / 20) in text
tiles = [[pixels[(f * 7 + i // 8) * 9 + 1 + i % 8] for i in range(56)] for f in range(frames)]
assert tiles[0][0] == 255 and not any(tiles[0][1:]) and all(not any(t[50:]) for t in tiles)
assert max(sum(1 for x in t if x) for t in tiles) > 5
# white, from green (hue 0.36) to red
palette = chunk[b"PLTE"]
assert palette[:3] == b"\xff\xff\xff"
for i in range(1, 256):
    rate = i / 255
    colour = colorsys.hsv_to_rgb((1 - rate) * 0.36, 1 - 0.4 * (1 - rate), 1)
    assert all(abs(255 * c - had) < 1 for c, had in zip(colour, palette[3 * i:3 * i + 3])), (i, colour, palette[3 * i:3 * i + 3])
# every task once, and none before it was submitted
tasks = list(csv.DictReader(open(folder + "/tasks.csv")))
assert sorted(int(t["task"]) for t in tasks) == list(range(4000)) and run["ended"] == 4000
assert abs(sum(float(t["length_s"]) for t in tasks) - run["work_core_s"]) < 0.01
assert all(abs(float(t["begin_s"]) - float(t["submitted_s"]) - float(t["wait_s"])) < 1e-5 and float(t["wait_s"]) >= 0 for t in tasks)
assert abs(max(float(t["end_s"]) for t in tasks) - run["makespan_s"]) < 1e-5
PY
# More nodes than tiles: several share one.
ends 0 manytask --nodes 70000 --cores 1 --per-core 1 --length 1s --layout each --sample 100ms --tiles on --plot "$dir/large"
grep -q '>busy cores of each 2 nodes of 70000, ' "$dir/large/tiles.svg" || fail "the tiles of many nodes do not say how many share one"

# By hand: 2 cores, 4 tasks of 1 s, nothing costs anything; then 1 ms for each of them at a dispatcher.
ends 0 manytask --nodes 2 --cores 1 --architecture central --per-core 2 --length 1s --latency 0 --set cost.bandwidth=0 --dispatch 0 --json
grep -q '"makespan_s":2.000000,.*"efficiency":1.000000,' "$dir/out" || fail "a perfect machine is none"
ends 0 manytask --nodes 1 --cores 4 --architecture central --per-core 1 --length 1s --latency 0 --set cost.bandwidth=0 --dispatch 1ms --json
grep -q '"makespan_s":1.004000,' "$dir/out" || fail "the fourth task does not begin after 4 ms"
printf '[sim]\nmodel = manytask\n[machine]\narchitecture = central\n[group.slow]\nnodes = 3\ncores = 2\n[group.fast]\nspeed = 2\n[workload]\ntasks = 7\nlength = 1s\n[cost]\nlatency = 0\nbandwidth = 0\ndispatch = 0\n' > "$dir/groups.ini"
ends 0 run "$dir/groups.ini" --json
grep -q '"nodes":4,"cores":7,.*"makespan_s":1.000000,.*"work_core_s":6.500000' "$dir/out" || fail "groups of nodes are other than they are written"

# Batches, and when each was submitted.
ends 0 manytask --nodes 1 --cores 1 --architecture central --tasks 4 --batch 2 --below 1 --length 1s --latency 0 --set cost.bandwidth=0 --dispatch 0 --tasks-log "$dir/tasks.csv"
[ "$(cut -d, -f1,3,5 "$dir/tasks.csv" | tail -n 4 | tr '\n' ' ')" = "0,0.000000,0.000000 1,0.000000,1.000000 2,1.000000,2.000000 3,1.000000,3.000000 " ] || { cat "$dir/tasks.csv"; fail "batches"; }

# Steal as one is told to.
for option in "--policy two" "--policy near" "--policy static --part 0.2" "--mesh 2 --policy mesh-2d --hops 2" "--mesh 3 --policy mesh-3d --set mesh.torus=on" "--ask in_turn" "--nudge 10ms --at-ceiling stop" \
    "--amount one" "--degree log2" "--wait 1ms --wait-max 1s" "--layout random" "--tick 1ms" "--set workload.root=0.5" "--architecture hierarchical --fanout 4" "--architecture falkon" \
    "--architecture falkon_tree --fanout 20 --set cost.hand=200us" "--architecture sparrow --set sparrow.schedulers=3 --set sparrow.probes=3 --set sparrow.placed=5" \
    "--architecture cloudkon --set cloudkon.servers=7 --set cost.store=2ms"; do
    # shellcheck disable=SC2086
    ends 0 manytask --nodes 60 --cores 2 --per-core 5 --length 1s $option --json
    grep -q '"ended":600,.*"wrong":""' "$dir/out" || fail "$option: not all tasks have ended"
done

# The same experiment from one process and two, but for the time that it took.
many=(manytask --nodes 64 --cores 8 --vary machine.architecture=central,distributed --vary steal.policy=random,static --seeds 1..2 --json)
ends 0 "${many[@]}" -j 1
sed -E 's/"(seconds|task_ns)":\{[^}]*\}//g' "$dir/out" > "$dir/one"
ends 0 "${many[@]}" -j 2
sed -E 's/"(seconds|task_ns)":\{[^}]*\}//g' "$dir/out" | cmp "$dir/one" - || fail "two processes come to another table than one"

# Sorted tasks: the first node has the shortest.
ends 0 manytask --nodes 4 --cores 1 --per-core 100 --length 0..100s --set workload.sorted=on --layout each --policy static --neighbours 1 --tasks-log "$dir/tasks.csv"
python3 - "$dir/tasks.csv" << 'PY'
import csv, sys
lengths = [float(t["length_s"]) for t in sorted(csv.DictReader(open(sys.argv[1])), key=lambda t: int(t["task"]))]
assert lengths == sorted(lengths) and lengths[99] < 40 and lengths[300] > 60, lengths
PY

# Lengths of a file: task after task, again and again; and what is none is refused with its line.
printf '# seconds\n1s\n\n2500ms  # two and a half\n4s' > "$dir/lengths"
ends 0 manytask --nodes 2 --cores 1 --tasks 5 --lengths "$dir/lengths" --tasks-log "$dir/tasks.csv"
python3 - "$dir/tasks.csv" << 'PY'
import csv, sys
lengths = [float(t["length_s"]) for t in sorted(csv.DictReader(open(sys.argv[1])), key=lambda t: int(t["task"]))]
assert lengths == [1, 2.5, 4, 1, 2.5], lengths
PY
ends 0 manytask --nodes 2 --cores 1 --lengths "$dir/lengths" --json
grep -q '"tasks":3,"ended":3,.*"work_core_s":7.500000' "$dir/out" || fail "a file of three lengths is not three tasks"
printf '1s\nmany\n' > "$dir/lengths"
ends 2 manytask --nodes 2 --cores 1 --lengths "$dir/lengths"
grep -q 'lengths:2: this is no length of a task' "$dir/err" || fail "a line that is no length is not named"
: > "$dir/lengths"
ends 2 manytask --nodes 2 --cores 1 --lengths "$dir/lengths"
grep -q 'it has no length of a task' "$dir/err" || fail "an empty file of lengths is accepted"
ends 2 manytask --nodes 2 --cores 1 --lengths "$dir/lengths" --set workload.sorted=on

# Grids side by side: the same on one thread and on two, and in pieces.
ends 0 manytask --grids 5 --nodes 40 --cores 20 --per-core 20 --length 1s -j 1 --json --plot "$dir/one_thread"
hash=$(hash_of)
grep -q '"grids":5,"nodes":200,"cores":4000,.*"tasks":80000,"ended":80000,' "$dir/out" || fail "five grids are not five times as large"
ends 0 manytask --grids 5 --nodes 40 --cores 20 --per-core 20 --length 1s -j 2 --json --plot "$dir/two_threads"
[ "$(hash_of)" = "$hash" ] || fail "two threads come to another run than one"
cmp "$dir/one_thread/utilisation.csv" "$dir/two_threads/utilisation.csv" || fail "two threads come to another course than one"
python3 - "$dir/one_thread/utilisation.csv" << 'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert max(int(r["busy"]) for r in rows) > 3900 and int(rows[-1]["ended"]) == 80000 and all(int(r["busy"]) <= 4000 for r in rows)
PY
in_pieces 10000 utilisation.csv -- manytask --grids 3 --nodes 20 --cores 10 --per-core 50 --length 1s
ends 2 manytask --grids 2 --tiles on
says "tiles and the log of tasks are those of one grid"

# In pieces it is the same run, with the same course, tiles and file of tasks.
pieces=(manytask --nodes 200 --cores 100 --per-core 150 --length "exponential 100s" --tiles on --tasks-log)
ends 0 "${pieces[@]}" "$dir/whole.csv" --json --plot "$dir/whole"
hash=$(hash_of)
ends 4 "${pieces[@]}" "$dir/parts.csv" --checkpoint "$dir/state" --stop-after 400000 --json --plot "$dir/parts"
echo 'a line that the checkpoint does not know' >> "$dir/parts.csv"
ends 4 resume "$dir/state" --stop-after 1M --json
ends 0 resume "$dir/state" --json --plot "$dir/parts"
[ "$(hash_of)" = "$hash" ] || fail "in pieces it is another run"
for file in utilisation.csv tiles.svg; do
    cmp "$dir/whole/$file" "$dir/parts/$file" || fail "in pieces $file is another"
done
cmp "$dir/whole.csv" "$dir/parts.csv" || fail "in pieces the tasks are others"
# One machine in parts stops where what is settled together ends, and goes on in as many parts.
in_pieces 30000 -- manytask --nodes 256 --cores 16 --per-core 20 --length 0..100s --tick 1ms --parts 2 -j 2

# Mistakes.
ends 2 manytask --architecture flat
says "machine.architecture takes central|distributed|hierarchical|falkon|falkon_tree|sparrow|cloudkon"
ends 2 manytask --policy nobody
says "steal.policy cannot be \"nobody\""
says "steal.policy takes log2, mesh-2d, mesh-3d, near, one, random, sqrt, static or two"
ends 2 manytask --policy mesh-2d
says "set mesh.dimensions"
ends 2 manytask --mesh 1
says "the mesh has one side"
ends 2 manytask --nodes 10 --set mesh.x=3 --set mesh.y=3
says "the mesh has fewer points than there are nodes"
ends 2 manytask --wait 2min
says "longer than steal.wait_max"
ends 2 manytask --nodes 4 --set workload.root=4
says "workload.root is no node"
ends 2 manytask --nodes 1M --cores 10K
says "there are more than 2^28 nodes or 2^31 cores"
ends 2 manytask --nodes 1M --memory 100M
says "100 MiB are allowed"
ends 2 manytask --mesh 2 --architecture sparrow
says "sparrow and cloudkon have no mesh"
ends 2 manytask --tick 0
ends 3 manytask --nodes 2 --cores 1 --tasks-log /proc/nothing/tasks
says "cannot be written"
echo "study_manytask: all is well"
