#!/bin/sh
# Writes a flow in the form of the fMRI workflow of MATRIX (figure 66): for each volume two chains of tasks, of which the longer has 12 and the shorter 7.
# Each task sleeps.
#
#   fmri.sh VOLUMES [SECONDS] > fmri.flow && htc flow run fmri.flow
set -eu
[ $# -ge 1 ] || { echo "usage: fmri.sh VOLUMES [SECONDS]" >&2; exit 1; }
awk -v volumes="$1" -v seconds="${2:-1}" '
    function chain(name, n,    i) {
        for (i = 1; i <= n; i++)
            printf("%s-%d: kind=step%d %s/bin/sleep %s\n", name, i, i, (i > 1 ? "after=" name "-" (i - 1) " " : ""), seconds)
    }
    BEGIN {
        for (v = 1; v <= volumes; v++) {
            chain("volume" v "-long", 12)
            chain("volume" v "-short", 7)
        }
    }'
