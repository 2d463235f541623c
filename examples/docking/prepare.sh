#!/bin/bash
# Puts receptor maps, ligand and docking parameters of Debian's package autodock-test into a work folder, and finds how
# many energy evaluations make one docking last about SECONDS of CPU time on this machine: prepare.sh FOLDER [SECONDS]
# Leaves FOLDER/length: "EVALUATIONS CPU_SECONDS".
set -euo pipefail
folder=$1
wanted=${2:-1.5}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for program in autodock4; do
    command -v "$program" > /dev/null || { echo "prepare.sh: $program is missing: apt-get install autodock" >&2; exit 1; }
done
tests=/usr/share/autodock/Tests
[ -r $tests/1pgp_rec.maps.fld ] || { echo "prepare.sh: $tests is missing: apt-get install autodock-test" >&2; exit 1; }

mkdir -p "$folder"
cp $tests/1pgp_rec.{C,HD,OA,P,d,e}.map $tests/1pgp_rec.maps.{fld,xyz} $tests/1pgp_lig.pdbqt "$folder"/
cp $tests/1pgp_seed01.dpf "$folder"/docking.dpf
cp "$here"/dock.sh "$folder"/
chmod 755 "$folder"/dock.sh
[ -s "$folder"/length ] && exit 0

# User CPU seconds of one docking, wherever else the machine is busy.
measure()
{
    local scratch
    scratch=$(mktemp -d "$folder"/calibrate.XXXXXX)
    cp "$folder"/1pgp* "$folder"/docking.dpf "$scratch"/
    ( cd "$scratch" && TIMEFORMAT=%U && { time HTC_OUTPUT_DIR=. sh ../dock.sh 11 "$1" > /dev/null; } 2>&1 )
    rm -rf "$scratch"
}
first=$(measure 100000)
evaluations=$(awk -v t="$first" -v w="$wanted" 'BEGIN {
    n = 100000 * w / (t > 0.05 ? t : 0.05)
    printf "%d", (n < 20000 ? 20000 : (n > 5000000 ? 5000000 : n)) }')
echo "$evaluations $(measure "$evaluations")" > "$folder"/length
