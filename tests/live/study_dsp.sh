#!/bin/bash
# usage: SOURCE=DIR study_dsp.sh PROGRAMS
# htc-sim dsp: the two logs and the workflow of the DawningCloud evaluation have their published figures; a log of its own is replayed; broken lines are
# told; files are found beside the experiment. htc-sim tco has the published case.
# shellcheck source=tests/live/study_lib.sh
source "$(dirname "$0")/study_lib.sh"

# From another folder: the files are beside the experiment, not here.
cd "$dir"
for system in dcs ssp drp dsp; do
    ends 0 run "$SOURCE/examples/sim/dsp.ini" --system $system --json
    cp out $system
done
python3 - << 'PY'
import json
runs = {s: json.load(open(s)) for s in ("dcs", "ssp", "drp", "dsp")}
units = {s: {e["name"]: e["node_units"] for e in r["environments"]} for s, r in runs.items()}
done = {s: {e["name"]: e["completed"] for e in r["environments"]} for s, r in runs.items()}
for s in "dcs", "ssp":
    assert units[s] == {"nasa": 43008, "blue": 48384, "montage": 166} and runs[s]["peak"] == 438 and runs[s]["peak_of_hour"] == 438, (s, units)
assert units["drp"]["nasa"] == 54118 and units["drp"]["montage"] == 662
assert all(d["nasa"] == 2603 and d["montage"] == 1000 for d in done.values()), done
assert runs["ssp"]["granted"] + runs["ssp"]["returned"] == 876 and runs["dcs"]["granted"] == 0
assert runs["drp"]["setup_s"] == round(2 * runs["drp"]["granted"] * 15.743, 3)
assert abs(units["dsp"]["nasa"] / 29014 - 1) < 0.03 and units["dsp"]["montage"] == 166, units
assert all(r["dcs_node_units"] == 91558 and r["wrong"] == "" for r in runs.values())
assert abs(runs["dsp"]["saved"] - (1 - runs["dsp"]["node_units"] / 91558)) < 1e-6
PY

ends 0 run "$SOURCE/examples/sim/dsp.ini" --system dcs
grep -qx 'nasa: the jobs that ran are 37.3 % of 128 nodes'"'"' time; submitted in its weeks: 1070 1534' out || fail "nothing of the log: $(cat out)"
grep -q '^blue: .*submitted in its weeks: 429 2357$' out || fail "nothing of the log: $(cat out)"

# Lending saves more, and has no figures of one environment.
ends 0 run "$SOURCE/examples/sim/dsp.ini" --shared on --grant partial --nodes 464 --plot plots
[ "$(head -1 plots/nodes.csv)" = "seconds,node_units,cost,busy,waiting,nasa,blue,montage" ] || fail "nodes.csv: $(head -1 plots/nodes.csv)"
[ "$(wc -l < plots/environments.csv)" = 4 ] && grep -q '<svg' plots/nodes.svg && grep -q '<svg' plots/cost.svg || fail "the plots are not there"
python3 - << 'PY'
import csv
rows = list(csv.DictReader(open("plots/nodes.csv")))
held = [sum(float(r[n]) for n in ("nasa", "blue", "montage")) for r in rows]
assert max(held) <= 464 and len(rows) > 300, max(held)
assert all(float(b["node_units"]) >= float(a["node_units"]) for a, b in zip(rows, rows[1:])) and 37000 < float(rows[-1]["node_units"]) < 54935
PY

# Message by message: the same jobs, and node-hours within 1 %. What it does not have is refused with the key and the next step.
ends 0 run "$SOURCE/examples/sim/dsp.ini" --engine exact --json
cp out exact
python3 - << 'PY'
import json
scale, exact = (json.load(open(f)) for f in ("dsp", "exact"))
assert exact["wrong"] == "" and exact["completed"] == scale["completed"] and exact["tick_s"] == 1e-9, exact
for e, s in zip(exact["environments"], scale["environments"]):
    assert e["completed"] == s["completed"] and abs(e["node_units"] / s["node_units"] - 1) < 0.01, (e, s)
PY
ends 0 run "$SOURCE/examples/sim/dsp.ini" --engine exact --setup-delay on --plot exact-plots
has 'a message takes 0.001 s'
[ "$(head -1 exact-plots/nodes.csv)" = "seconds,node_units,cost,busy,waiting,nasa,blue,montage" ] || fail "nodes.csv: $(head -1 exact-plots/nodes.csv)"
ends 2 dsp --engine exact --system drp
says "next: set provider.system to dsp, or leave out sim.engine"
ends 2 dsp --engine exact --shared on
says "next: set provider.shared to off, or leave out sim.engine"
ends 2 dsp --engine exact --checkpoint state
says "next: leave out --checkpoint, or sim.engine"
ends 2 dsp --engine exact --latency 30s
says "tre.htc.scan: an answer of the provider takes as long"
says "next: raise it, or lower exact.latency"
ends 2 dsp --engine exact --nodes 10
says "next: raise provider.nodes"

# A lease unit that twelve does not divide, and one of less than twelve nanoseconds.
ends 0 dsp --count 20 --set provider.unit=10s --json
ends 2 dsp --count 20 --set provider.unit=7ns

# Two processes come to the same table.
ends 0 run "$SOURCE/examples/sim/dsp.ini" --vary tre.nasa.B=10,40 --seeds 1..3 --json -j 1
cp out one
ends 0 run "$SOURCE/examples/sim/dsp.ini" --vary tre.nasa.B=10,40 --seeds 1..3 --json -j 2
cmp one out || fail "two processes come to another table than one"

# Drawn jobs; a log; a broken one.
ends 0 dsp --count 500 --daily 0.9 --burst 5 --peak 12h --seed 3 --json
cp out daily
ends 0 dsp --count 500 --burst 5 --seed 3 --json
cmp -s daily out && fail "a daily cycle changes nothing"
ends 2 dsp --peak 25h
says "tre.htc.peak is more than a day"
ends 0 dsp --count 500 --window 3d --policy perlease --B 0
grep -qE '^1 environment, system dsp' out || fail "no first line"
printf '; MaxProcs: 4\n1 0 0 3600 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1\n2 60 0 x 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1\n3 90 0 10 -1 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n' > log.swf
ends 2 dsp --trace log.swf --system drp
says "log.swf:3"
says "field 4, the run time, is \"x\": not a number"
ends 0 dsp --trace log.swf --system drp --set tre.htc.skip_bad=on --json
python3 - << 'PY'
import json
r = json.load(open("out"))
e = r["environments"][0]
assert r["completed"] == 2 and r["node_units"] == 2 * 2 + 4 and e["bad_lines"] == 1, r  # an hour to the second is two
PY
printf '; a comment\n' > empty.swf
ends 2 dsp --trace empty.swf
says "empty.swf: there are no jobs in it"
says "next: give a log with jobs"
ends 2 dsp --trace nowhere.swf
says "nowhere.swf"
ends 2 dsp --set tre.htc.type=mtc
says "an environment of type mtc needs a flow"
printf 'a: after=b run=1 @noop\nb: after=a run=1 @noop\n' > cycle.txt
ends 2 dsp --set tre.htc.type=mtc --set tre.htc.flow=cycle.txt
says "cycle.txt"
printf 'a: ./program\n' > unknown.txt
ends 2 dsp --set tre.htc.type=mtc --set tre.htc.flow=unknown.txt
says "nobody says how long the task a takes"
ends 2 dsp --sample 7s
ends 2 dsp --set sim.sample=7s
says "sim.sample does not divide provider.unit"
ends 2 dsp --nodes 10
says "raise provider.nodes"

# In pieces it is the same run, and so is its course: with a log, a workflow and drawn jobs.
for options in "--system dsp" "--system dcs" "--system ssp" "--system drp" "--shared on --grant partial --nodes 464"; do
    # shellcheck disable=SC2086
    in_pieces 3000 nodes.csv environments.csv -- run "$SOURCE/examples/sim/dsp.ini" $options
done
in_pieces 1500 nodes.csv environments.csv -- dsp --setup-delay on

# Nothing goes on with another log, other settings, or a file that is damaged.
for i in $(seq 40); do
    echo "$i $((i * 60)) 0 600 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1"
done > log.swf
ends 4 dsp --trace log.swf --stop-after 30 --checkpoint state
cp state good
cp log.swf same.swf
sed -i 's/ 600 / 601 /' log.swf
ends 2 resume state
says "log.swf: the log is not the one that the checkpoint was made with"
says "next: put that one back, or run the experiment again"
mv same.swf log.swf
ends 2 resume state --nodes 481
says "the checkpoint is not of this experiment"
printf 'x' | dd of=state bs=1 seek=2000 conv=notrunc status=none
ends 2 resume state
says "state: it is damaged: its checksum does not hold"
says "next: run the experiment again"
head -c 5000 good > state
ends 2 resume state
says "state: it is damaged"
ends 0 resume good

# The published case: a cluster of its own, and leased instances.
ends 0 tco --json
python3 - << 'PY'
import json
r = json.load(open("out"))
assert r["dcs"] == 3162.5 and r["ssp"] == 2260 and round(100 * r["ssp_of_dcs"], 1) == 71.5, r
PY
ends 0 tco --instances 0 --inbound 10 --gigabyte 0.085 --capex 1000.01 --years 1 --maintenance 0 --energy-space 0 --json
python3 - << 'PY'
import json
r = json.load(open("out"))
assert r["ssp"] == 0.85 and abs(r["dcs"] - 1000.01 / 12) < 1e-5, r
PY
ends 2 tco --years 0
says "dcs.years takes a number from 1 to 1000"
