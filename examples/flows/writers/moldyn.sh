#!/bin/sh
# Writes a flow in the form of the MolDyn workflow of MATRIX (figure 66): 8 stages, each of which fans out or in. Stage 1 is one task for all; behind it
# each molecule has 84 tasks: stages of 1, 3, 1, 68, 1, 9 and 1. Each task sleeps.
#
#   moldyn.sh MOLECULES [SECONDS] > moldyn.flow && htc flow run moldyn.flow
set -eu
[ $# -ge 1 ] || { echo "usage: moldyn.sh MOLECULES [SECONDS]" >&2; exit 1; }
awk -v molecules="$1" -v seconds="${2:-1}" '
    function name(m, stage, i) {
        return stage == 1 ? "all" : "m" m "-" stage "-" i
    }
    BEGIN {
        split("1 1 3 1 68 1 9 1", tasks, " ")
        printf "all: kind=stage1 /bin/sleep %s\n", seconds
        for (m = 1; m <= molecules; m++)
            for (stage = 2; stage <= 8; stage++)
                for (i = 1; i <= tasks[stage]; i++) {
                    waits = ""
                    for (k = 1; k <= tasks[stage - 1]; k++)
                        waits = waits (k > 1 ? "," : "") name(m, stage - 1, k)
                    printf "%s: kind=stage%d after=%s /bin/sleep %s\n", name(m, stage, i), stage, waits, seconds
                }
    }'
