#!/bin/bash
# usage: grids.sh [OPTION...]
# The experiment grid-live.ini with processes of this machine in place of the model; options go to htc-sim run. Prints one JSON object: completed, moves,
# makespan_s, work_core_s, moved_core_s, right (1: each job's result is that of its whole sum), class.NAME.response. htc-sim reproduce --live runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"${HTC_SIM_BIN:+$HTC_SIM_BIN/}htc-sim" run "$here/../grid-live.ini" --set sim.live=on --json "$@" | python3 -c '
import json, sys
run = json.load(sys.stdin)
out = {k: run[k] for k in ("completed", "moves", "makespan_s", "work_core_s", "moved_core_s")}
out["right"] = int(run["wrong"] == "")
out.update({"class.%s.response" % c["name"]: c["response_s"] for c in run["classes"]})
print(json.dumps(out))
'
