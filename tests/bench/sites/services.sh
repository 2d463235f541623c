# Sourced: batch systems of this machine. want slurm|sge SETTING...: 0: it answers; else why is in $missing. What was started here ends with the script.
services=${HTC_SERVICES:-$(realpath -m "$(dirname "${BASH_SOURCE[0]}")/../../../../shared/services")}
services_started=()
answers()
{
    case $1 in
    slurm) timeout 10 sinfo > /dev/null 2>&1 ;;
    sge) timeout 10 qstat > /dev/null 2>&1 ;;
    esac
}
want()
{
    local name=$1
    shift
    answers "$name" && return 0
    missing="no $name answers here, and there is no services/$name-up.sh"
    [ -x "$services/$name-up.sh" ] || return 1
    missing="batch systems are root's to start"
    [ "$(id -u)" = 0 ] || return 1
    services_started+=("$name")
    missing="$name cannot be started"
    env "$@" timeout 240 "$services/$name-up.sh" > "${TMPDIR:-/tmp}/htc-$name-up.$$" 2>&1 < /dev/null || return 1
    rm -f "${TMPDIR:-/tmp}/htc-$name-up.$$"
    answers "$name"
}
end_services()
{
    local s
    for s in "${services_started[@]}"; do PURGE=1 timeout 120 "$services/$s-down.sh" > /dev/null 2>&1 < /dev/null; done
}
