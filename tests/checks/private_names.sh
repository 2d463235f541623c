#!/bin/bash
# usage: private_names.sh STATIC_LIBRARY...
# What a layer defines for others is called htc_…, or htc__… where no header promises it: an archive is linked into other people's programs.
set -euo pipefail
nm --defined-only "$@" 2> /dev/null | awk '$2 ~ /^[TDBRVW]$/ { print $3 }' | sort -u > "${TMPDIR:-/tmp}/names.$$"
trap 'rm -f "${TMPDIR:-/tmp}/names.$$"' EXIT
[ -s "${TMPDIR:-/tmp}/names.$$" ] || { echo "no names: this check is broken"; exit 1; }
other=$(grep -vE '^(htc_|__|_ZT|DW\.|asan|ubsan|llvm)' "${TMPDIR:-/tmp}/names.$$" || true)
[ -z "$other" ] || { echo "names without the prefix:"; sed 's/^/    /' <<< "$other"; exit 1; }
