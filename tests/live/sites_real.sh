#!/bin/bash
# usage: sites_real.sh PROGRAM_FOLDER
# sites.sh and sites_faults.sh against a real Slurm and a real Grid Engine: those that run on this machine, or else those that ../shared/services, next to this tree, can
# install and start for the test. Skipped where there are none, and in the light form.
here=$(dirname "$0")
services=$(realpath -m "$here/../../../shared/services")
started=()

skip()
{
    echo "skipped: $*"
    exit 77
}

[ -z "${HTC_TEST_LIGHT:-}" ] || skip "real batch systems are not in the light form"
[ "$(id -u)" = 0 ] || skip "batch systems are root's to start"
answers()
{
    case $1 in
    slurm) timeout 10 sinfo > /dev/null 2>&1 ;;
    sge) timeout 10 qstat > /dev/null 2>&1 ;;
    esac
}
end_started() { for s in "${started[@]}"; do PURGE=1 timeout 120 "$services/$s-down.sh" > /dev/null 2>&1; done; }
trap end_started EXIT
for s in slurm sge; do
    answers $s && continue
    [ -x "$services/$s-up.sh" ] || skip "no $s answers here, and there is no $services/$s-up.sh"
    started+=("$s")
    timeout 240 "$services/$s-up.sh" > "${TMPDIR:-/tmp}/htc-$s-up.out" 2>&1 < /dev/null ||
        skip "$s cannot be started: $(tail -n 1 "${TMPDIR:-/tmp}/htc-$s-up.out")"
    rm -f "${TMPDIR:-/tmp}/htc-$s-up.out"
done
"$here/sites.sh" "$1" real && "$here/sites_faults.sh" "$1" real
