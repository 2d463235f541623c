#!/bin/sh
# Writes what a task list of MATRIX says as JSON lines for replay.py. A line is "map INPUT OUTPUT LENGTH", in bytes and microseconds, or "reduce INPUT":
# each map reads a block and writes a file, and a reduce reads the files of all maps. Lengths are multiplied by TIME_SCALE, sizes by SIZE_SCALE.
#
#   matrix_dag.sh FILE [TIME_SCALE [SIZE_SCALE]] | replay.py > replay.flow && htc flow run replay.flow
set -eu
[ $# -ge 1 ] || { echo "usage: matrix_dag.sh FILE [TIME_SCALE [SIZE_SCALE]]" >&2; exit 1; }
awk -v time="${2:-1}" -v size="${3:-1}" '
    function file(name, bytes) {
        return sprintf("{\"name\": \"%s\", \"bytes\": %.0f}", name, int(bytes * size + 0.5))
    }
    function task(name, us, waits, input, output) {
        printf "{\"name\": \"%s\", \"kind\": \"%s\", \"run\": \"%.0fus\", \"builtin\": \"noop\", \"after\": [%s], \"in\": [%s], \"out\": [%s]}\n", \
            name, $1, us * time, waits, input, output
    }
    $1 == "map" && NF == 4 {
        name = maps + 0
        task("map-" name, $4, "", file("block-" name, $2), file("mapped-" name, $3))
        waits = waits (maps ? ", " : "") "\"map-" name "\""
        mapped = mapped (maps ? ", " : "") file("mapped-" name, $3)
        maps++
        next
    }
    $1 == "reduce" && NF == 2 {
        name = reduces++ + 0
        task("reduce-" name, 0, waits, mapped, file("reduced-" name, $2))
        next
    }
    { print "matrix_dag.sh: line " NR " is neither a map nor a reduce" > "/dev/stderr"; exit 1 }' "$1"
