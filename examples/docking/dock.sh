#!/bin/sh
# One docking of the ligand into the receptor: dock.sh SEED EVALUATIONS
# Runs in a directory with the maps, ligand.pdbqt and docking.dpf; leaves result.txt and pose.pdbqt in $HTC_OUTPUT_DIR.
set -eu
seed=$1
evaluations=$2
out=${HTC_OUTPUT_DIR:-.}

sed -e "s/^seed .*/seed $seed 2718281/" \
    -e "s/^ga_num_evals .*/ga_num_evals $evaluations/" \
    -e 's/^ga_num_generations .*/ga_num_generations 27000/' \
    -e 's/^sw_max_its .*/sw_max_its 300/' \
    -e 's/^sw_max_succ .*/sw_max_succ 4/' \
    -e 's/^sw_max_fail .*/sw_max_fail 4/' docking.dpf > run.dpf
autodock4 -p run.dpf -l run.dlg
grep -q 'Successful Completion' run.dlg

energy=$(sed -n 's/.*Estimated Free Energy of Binding *= *\([-+0-9.][0-9.]*\).*/\1/p' run.dlg | sed -n 1p)
[ -n "$energy" ] || { echo "no binding energy in run.dlg" >&2; exit 1; }
sed -n 's/^DOCKED: //p' run.dlg > "$out/pose.pdbqt"
echo "seed $seed energy $energy kcal/mol" > "$out/result.txt"
cat "$out/result.txt"
