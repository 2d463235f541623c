#!/bin/bash
# usage: campaign.sh PROGRAM_FOLDER
# The docking campaign of ./quickstart, with short dockings: it runs to its end, also as root and in a folder that was its owner's
# alone. How long anything takes is not judged.
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
source "$(dirname "$0")/live.sh"
command -v autodock4 > /dev/null && [ -r /usr/share/autodock/Tests/1pgp_rec.maps.fld ] || skip "no autodock and autodock-test"
[ -x "$bin/docking-report" ] || skip "no docking-report"
folder=$top/campaign
mkdir -m 700 "$folder" "$folder/molecules"
echo "20000 0.2" > "$folder/molecules/length" # not measured: EVALUATIONS CPU_SECONDS
HTC=$htc REPORT=$bin/docking-report SCALE=10 bash "$source_dir/examples/docking/campaign.sh" "$folder" > said 2>&1
grep -qx "  the same in both runs: yes" said || fail "the campaign did not end: $(cat said)"
for run in dynamic static; do
    found=$(cat "$folder/results-$run"/*/*/result.txt | wc -l)
    [ "$found" = 8 ] || fail "$run: $found results of 4 + 2 + 1 + 1"
done
[ -s "$folder/cores.svg" ] || fail "there is no chart"
[ ! -e "$folder/password" ] || fail "a password was left"
echo "campaign: all is well"
