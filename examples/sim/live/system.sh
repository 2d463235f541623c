# Sourced by the scripts beside it: a system of this machine in a folder of its own, which ends with the script. HTC names the program htc; default:
# the one beside htc-sim (HTC_SIM_BIN), else that of PATH.
htc=${HTC:-${HTC_SIM_BIN:+$HTC_SIM_BIN/}htc}
top=$(mktemp -d "${TMPDIR:-/tmp}/htc-live.XXXXXX")
chmod 711 "$top"
state=$top/state
mkdir -m 711 "$state"
leave() {
    cd /
    timeout 60 "$htc" --dir "$state" down --now > /dev/null 2>&1 || true
    rm -rf "$top"
}
trap leave EXIT
trap 'exit 130' INT TERM
up() { "$htc" --dir "$state" up "$@" > "$top/up.log" 2>&1 || { cat "$top/up.log" >&2; exit 1; }; }
