#!/bin/bash
# usage: SOURCE=DIR reproduce.sh PROGRAMS
# htc-sim reproduce: claims are judged as they say, a report has them, mistakes are told with their line, and the quick experiments hold.
# Row 22 of the HTCaaS specification's section 7: each table and figure has a report with set-up, seed, published and measured value, and verdict.
set -euo pipefail
sim=$1/htc-sim
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    exit 1
}
# ends STATUS ARGS...: in $dir/out and $dir/err
ends() {
    local want=$1 got=0
    shift
    "$sim" reproduce "$@" > "$dir/out" 2> "$dir/err" < /dev/null || got=$?
    [ "$got" = "$want" ] || { cat "$dir/out" "$dir/err"; fail "htc-sim reproduce $* ends with $got, not $want"; }
}
says() { grep -qF -- "$1" "$dir/err" || { cat "$dir/err"; fail "it does not say: $1"; }; }

# One user with 100 tasks of 10 s: 10 s on 100 cores, 20 s on 50, 100 s on 10.
cat > "$dir/one.ini" << 'INI'
[reproduce]
paper = HTCaaS
name = Figure 0
about = a bag of 100 tasks | of 10 s
quick = yes
cut = ten cores
[sim]
model = fairshare
[user.ada]
[job.bag]
user = ada
tasks = 100
length = 10s
[series.cores]
about = one & all
vary = cluster.cores: 10 50 100
full = 10
plot = makespan_s
published = 50:20 100:11
[series.half]
cluster.cores = 50
job.bag.tasks = 50
seeds = 1..3
[series.here]
command = printf '{"makespan_s": {value}}'; sleep 0.1; echo
vary = x: 7 9
INI
cat > "$dir/claims" << 'INI'
[claim.equal]
value = makespan_s of half
published = 10
must = exactly
[claim.order]
about = fewer cores take longer
value = makespan_s of cores at 50 > makespan_s of cores at 100
[claim.pairs]
about = half of the tasks take less than all less five seconds
value = makespan_s of cores at 100 * 2 > makespan_s of cores at 50 - 5 > makespan_s of half
[claim.ratio]
value = makespan_s of cores at 50 / makespan_s of cores at 100
published = 2
must = within 0
[claim.sum]
about = products come before sums
value = makespan_s of cores at 50 / 20 + makespan_s of cores at 100 / 10 * 2 - 1
published = 2.0
must = exactly
[claim.most]
value = max makespan_s of cores
published = 20
must = at most
[claim.fitted]
about = the model was made from it
basis = fitted
value = makespan_s of half
published = 10
[claim.live]
value = makespan_s of here at 9 - 2
published = 7
INI
cp "$dir/one.ini" "$dir/good.ini"
cat "$dir/claims" >> "$dir/good.ini"
ends 0 "$dir/good.ini" --report "$dir/report.md" --json -j 2
python3 - "$dir/out" << 'PY'
import json, sys
all = json.load(open(sys.argv[1]))
one = all["experiments"][0]
by = {c["about"]: c for c in one["claims"]}
assert one["runs"] == 5 and all["holds"] == 8 and all["fitted_or_ours"] == 1 and all["fails"] == 0 and all["not_run"] == 1, all
assert by["makespan_s of one & all at 50"]["ours"] == 20 and by["makespan_s of one & all at 100"]["verdict"] == "yes", by
assert by["makespan_s of here at 9 - 2"]["verdict"] == "not run", by
PY
grep -qF '| a bag of 100 tasks \| of 10 s |' "$dir/report.md" || fail "the report's table is broken"
grep -qxF 'Set-up: `good.ini`. Seed 1: cores. Seeds 1 to 3: half. Commands, without a seed: here.' "$dir/report.md" || fail "the report lacks its set-up: $(grep Set-up "$dir/report.md")"
grep -qF '](report/good-makespan_s.svg)' "$dir/report.md" || fail "the report lacks a picture"
python3 -S -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/report/good-makespan_s.svg"
[ "$(grep -c '>published: ' "$dir/report/good-makespan_s.svg")" = 2 ] || fail "published values are not drawn"

# What is kept is not run again: the command of a series says how often it ran. Other settings, measures or seeds are other runs.
sed "s|^command = .*|command = echo x >> $dir/ran; printf '{\"makespan_s\": {value}}'|" "$dir/good.ini" > "$dir/kept.ini"
for round in first again; do
    ends 0 "$dir/kept.ini" --live --keep "$dir/kept" --report "$dir/kept.md" --json
    sed -E 's/"seconds":[^,}]*//g; s/one processor.*//' "$dir/out" > "$dir/told.$round"
    [ "$(wc -l < "$dir/ran")" = 2 ] || fail "what is kept was run again"
done
cmp "$dir/told.first" "$dir/told.again" || fail "what is kept reads otherwise"
[ "$(find "$dir/kept" -name '*.json' | wc -l)" = 7 ] || fail "kept: $(ls "$dir/kept")"
for one in "$dir"/kept/kept.cores.*.json; do echo '{"values": {"makespan_s": "many"}}' > "$one"; done
ends 0 "$dir/kept.ini" --live --keep "$dir/kept" --json
sed -E 's/"seconds":[^,}]*//g' "$dir/out" | cmp - "$dir/told.first" || fail "a damaged file counts"
sed -i 's/^job.bag.tasks = 50/job.bag.tasks = 100/' "$dir/kept.ini"
ends 1 "$dir/kept.ini" --live --keep "$dir/kept"
[ "$(wc -l < "$dir/ran")" = 2 ] || fail "another series was run again"
ends 3 "$dir/kept.ini" --keep "$dir/kept.ini/none"

# What several experiments have in common runs once, and each has the measures that it asks for: settings in another order, or with the value that they have anyhow,
# are no others. Another seed, or another value, is another run.
sed -n '/^\[sim\]/,/^length/p' "$dir/one.ini" > "$dir/common"
{
    printf '[reproduce]\npaper = HTCaaS\nname = Figure 0\nabout = one\n' && cat "$dir/common"
    printf '[series.all]\nvary = cluster.cores: 50 100\n[claim.a]\nvalue = makespan_s of all at 50\npublished = 20\nmust = exactly\n'
} > "$dir/same1.ini"
{
    printf '[reproduce]\npaper = HTCaaS\nname = Figure 0\nabout = other\n' && cat "$dir/common"
    printf '[series.same]\nfair.policy = maxmin\ncluster.cores = 50\n[series.more]\nseeds = 1..2\ncluster.cores = 50\n[series.static]\nfair.policy = static\ncluster.cores = 50\n'
    printf '[claim.b]\nvalue = efficiency of same\npublished = 1\nmust = exactly\n[claim.c]\nvalue = makespan_s of same\npublished = 20\nmust = exactly\n'
} > "$dir/same2.ini"
ends 0 "$dir/same1.ini" "$dir/same2.ini" --keep "$dir/same"
(cd "$dir/same" && printf '%s ' *) | sed -E 's/\.[0-9a-f]{16}\.json//g' > "$dir/out"
[ "$(cat "$dir/out")" = 'same1.all same1.all same2.more same2.static ' ] || fail "runs that are the same, or are not: $(cat "$dir/out")"

# What one asks for in vain is no fault of the other.
sed -i 's/^value = efficiency of same/value = nonsense of same/' "$dir/same2.ini"
ends 1 "$dir/same1.ini" "$dir/same2.ini"
says 'same2.ini, series same: there is no measure nonsense'
! grep -q same1 "$dir/err" || { cat "$dir/err"; fail "an experiment fails for another one's measure"; }

# What cannot be written is known before anything runs.
ends 3 "$dir/good.ini" --report "$dir/none/report.md"
says "none/report.md cannot be written: No such file or directory"
[ ! -s "$dir/out" ] || fail "it has run all the same"
ends 3 "$dir/good.ini" --plot "$dir/good.ini/plots"
says "nothing can be drawn there"

# Percentages differ by points.
sed 's/^published = 20$/published = 20.5\nunit = %\nmust = within 0.6/' "$dir/claims" | sed '/^must = at most/d' | cat "$dir/one.ini" - > "$dir/points.ini"
ends 0 "$dir/points.ini"
grep -qF 'published 2050 %, ours 2000 %, -50.00 points (within 60 points)' "$dir/out" || { cat "$dir/out"; fail "no points"; }
grep -qE '^  yes      fewer cores take longer +in order$' "$dir/out" || { cat "$dir/out"; fail "an order is not told"; }
grep -qF '1 experiment: ' "$dir/out" || fail "one experiment is many"

# Means of runs with other seeds are in order only if they are further apart than their intervals.
cat > "$dir/close.ini" << 'INI'
[reproduce]
paper = HTCaaS
name = Figure 0
about = a bag of 100 tasks of 10 s on average
[sim]
model = fairshare
[cluster]
cores = 50
[user.ada]
[job.bag]
user = ada
tasks = 100
length = exponential 10s
[series.one]
seeds = 1..5
[series.other]
sim.seed = 6
seeds = 6..10
[series.twice]
job.bag.tasks = 500
seeds = 1..5
[claim.more]
value = makespan_s of one > makespan_s of other
why = chance
[claim.less]
value = makespan_s of one < makespan_s of other
why = chance
[claim.both]
value = makespan_s of twice > makespan_s of one
[claim.ratio]
value = makespan_s of one / makespan_s of other
published = 1
must = within factor 3
INI
ends 0 "$dir/close.ini" --json --report "$dir/close.md"
grep -qxF 'Set-up: `close.ini`. Seeds 1 to 5: one, twice. Seeds 6 to 10: other.' "$dir/close.md" || fail "the report lacks its seeds: $(grep Set-up "$dir/close.md")"
python3 - "$dir/out" << 'PY'
import json, sys
more, less, both, ratio = (c for c in json.load(open(sys.argv[1]))["experiments"][0]["claims"])
assert more["verdict"] == less["verdict"] == "no" and both["verdict"] == "yes", (more, less, both)
assert 0 < ratio["half"] < 2, ratio
PY
ends 0 "$dir/close.ini"
[ "$(grep -c 'too close$' "$dir/out")" = 1 ] && [ "$(grep -c 'not in order$' "$dir/out")" = 1 ] || { cat "$dir/out"; fail "which of two is larger is not known"; }

# Series of two models that vary the same thing are one picture, though the key has another section there.
sed -n '/^\[series.cores/,$!p' "$dir/one.ini" > "$dir/two.ini"
cat >> "$dir/two.ini" << 'INI'
[series.one]
vary = job.bag.tasks: 100 200
plot = makespan_s
[series.other]
model = micro
vary = micro.tasks: 100 200
plot = makespan_s
[claim.one]
value = makespan_s of one at 100 > 0
INI
ends 0 "$dir/two.ini" --plot "$dir/two"
[ "$(ls "$dir/two")" = two-makespan_s.svg ] && [ "$(grep -c 'stroke-width="2" d="M' "$dir/two/two-makespan_s.svg")" = 2 ] || fail "one series is drawn over the other"

# With all sizes, and what is measured here; the largest takes 100 s, more than the 20 that are claimed at most.
ends 1 "$dir/good.ini" --full --live
grep -qE '^  no       max makespan_s of cores .*ours 100, ' "$dir/out" || fail "the largest size is not there"
grep -qE '^  yes      makespan_s of here at 9 - 2 .*ours 7' "$dir/out" || fail "a command's number is not there"

# A claim that does not hold ends with 1, unless its file says why.
sed 's/ - 5 > / - 15 > /' "$dir/good.ini" > "$dir/bad.ini"
ends 1 "$dir/bad.ini"
grep -qE '^  no       half of the tasks .*not in order' "$dir/out" || { cat "$dir/out"; fail "an order of pairs is not refused"; }
sed -i 's/^published = 2$/published = 3/' "$dir/good.ini"
ends 1 "$dir/good.ini"
grep -qE '^  no       makespan_s of cores at 50 / .*published 3, ours 2, -1 ' "$dir/out" || fail "the claim is not refused"
sed -i 's/^must = within 0$/must = within 0\nwhy = halving is two/' "$dir/good.ini"
ends 0 "$dir/good.ini"
grep -qF 'halving is two' "$dir/out" || fail "the reason is not told"
sed -i 's/100:11/100:12/' "$dir/good.ini"
ends 1 "$dir/good.ini"

# A published value is judged by its series' must and why, and numbers that were calculated beforehand are counted apart.
sed 's/^published = 50:20 100:12$/published = 50:15 100:8\nmust = at least\nbasis = pilot/' "$dir/good.ini" > "$dir/sense.ini"
ends 0 "$dir/sense.ini" --json
python3 - "$dir/out" << 'PY'
import json, sys
all = json.load(open(sys.argv[1]))
by = {c["about"]: c for c in all["experiments"][0]["claims"]}
assert by["makespan_s of one & all at 50"]["must"] == "at least" and by["makespan_s of one & all at 100"]["verdict"] == "pilot", by
assert all["fitted_or_ours"] == 3, all
PY
sed -i 's/50:15/50:21/;s/^basis = pilot$/basis = published/' "$dir/sense.ini"
ends 1 "$dir/sense.ini"
sed -i 's/^basis = published$/why = two rounds of 10 s/' "$dir/sense.ini"
ends 0 "$dir/sense.ini"
grep -qF 'two rounds of 10 s' "$dir/out" || fail "the reason of a published value is not told"

# A claim that does not hold for a reason, and one that does, end with 1 when ours is not what it was.
sed 's/^why = halving is two$/why = halving is two\nours = 2.1/;s/^published = 20$/published = 20\nours = 19/;s/100:12/100:11/' "$dir/good.ini" > "$dir/known.ini"
ends 0 "$dir/known.ini"
for known in 'ours = 2.1/ours = 2.3' 'ours = 19/ours = 17'; do
    sed "s/^$known/" "$dir/known.ini" > "$dir/moved.ini"
    ends 1 "$dir/moved.ini"
    grep -qE '^ +ours was (2.300|17) when the file was written, and has moved' "$dir/out" || { cat "$dir/out"; fail "it is not told that a value has moved"; }
done
grep -qF '; values of ours have moved' "$dir/out" || fail "the last line does not tell it"

# A value that is no number is not at least 1.
sed 's/^value = max makespan_s of cores$/value = 1e308 * 1e308/;s/^must = at most$/must = at least/' "$dir/good.ini" > "$dir/bad.ini"
ends 1 "$dir/bad.ini"
grep -qE '^  no       1e308 . 1e308 .*ours none' "$dir/out" || fail "what is no number holds"

# A run that fails is no silent gap.
sed 's/^command = .*/command = exit 3/' "$dir/good.ini" > "$dir/bad.ini"
ends 1 "$dir/bad.ini" --live
says "a command of a series has failed"
sed 's/max makespan_s/max nothing/' "$dir/good.ini" > "$dir/bad.ini"
ends 1 "$dir/bad.ini"
says "there is no measure nothing"

# Mistakes have their line, and nothing runs.
mistake() { # SED-EXPRESSION WHAT-IT-SAYS
    cat "$dir/one.ini" "$dir/claims" | sed "$1" > "$dir/bad.ini"
    ends 2 "$dir/bad.ini"
    says "$2"
    says "next: "
}
mistake 's/^quick = yes/quick = maybe/' "bad.ini:5: [reproduce] has no such key"
mistake 's/^plot = .*/plots = makespan_s/' "bad.ini:18: [series.NAME] has no such key"
mistake 's/^cluster.cores = 50/cluster.core = 50/' "there is no key cluster.core"
mistake 's/^published = 2$/published = nan/' "published: nan"
mistake 's/^published = 20$/published = inf/' "published: inf"
mistake 's/^must = within 0$/must = within inf/' "must: within inf"
mistake 's/^vary = cluster.cores: 10/vary = cluster.cores: none/' 'cluster.cores cannot be "none"'
mistake 's/^full = 10/full = 11/' "full: vary has no such value: 11"
mistake 's/50:20/51:20/' "published: vary has no such value"
mistake 's/ of half$/ of halve/' "there is no series: halve"
mistake 's/ of half$/ of cores/' "at which value"
mistake 's/of cores at 50 >/of cores at 51 >/' "there is no such value of what varies: 51"
mistake 's/^must = exactly/must = about/' "must: about"
mistake "s/ - 5 > /$(printf ' - %s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14) > /" "up to 16 terms"
mistake 's/ - 5 > / - 5 < /' "of such sums several with > or < between them, all the same"
mistake 's/^published = 10$/publish = 10/' "[claim.NAME] has no such key"
mistake 's/^basis = fitted/basis = guessed/' "basis: guessed"
mistake 's/^about = fewer cores.*/ours = 3/' "an order has no number of ours"
mistake 's/^must = within 0$/ours = two/' "ours: two"
mistake 's/^full = 10/must = about/' "must: about"
mistake 's/^value = max.*//' "a claim has no value"
mistake 's/^name = .*//' "[reproduce] lacks paper, name or about"
mistake 's/^model = fairshare/model = nothing/' "there is no such model: nothing"
mistake 's/^\[series.half\]/[series.cores]/' "this series is there already: cores"
ends 2 nothing --from "$SOURCE/examples/sim"
says "there is no experiment nothing in $SOURCE/examples/sim: htc-sim reproduce --list names them, --from DIR says where they are"
ends 2 "$dir/nothing.ini"
says "$dir/nothing.ini is no experiment"
for name in '' nothing; do
    ends 2 $name --from "$dir/nowhere"
    says "the experiments are looked for in the folder $dir/nowhere, which cannot be read (No such file or directory): --from DIR names another"
done
mkdir "$dir/empty"
ends 2 --list --from "$dir/empty"
says "the folder $dir/empty has no experiments: --from DIR names another"

# What is shipped: the quick ones hold, or say why not.
if grep -qsl '^\[reproduce\]' "$SOURCE"/examples/sim/*.ini; then
    ends 0 --quick --from "$SOURCE/examples/sim"
    tail -1 "$dir/out"
fi
