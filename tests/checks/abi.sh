#!/bin/bash
# usage: SOURCE=DIR abi.sh LIBRARY [--save]
# Programs that were built against the saved description of the library still work with this one: nothing they may use is gone or
# has another shape. New functions are fine. --save: this library is the description from now on (before 1.0, where a change is
# meant; after, with a new soname only).
set -euo pipefail
library=$1
saved=$SOURCE/tests/checks/htcsched.abi
for tool in abidw abidiff; do
    command -v $tool > /dev/null || { echo "SKIP no $tool: the package abigail-tools has it"; exit 77; }
done
if ! readelf -S "$library" | grep -F .debug_info > /dev/null; then
    echo "SKIP $library has no debug information: build it with -Ddebug=true"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Only what a public header defines counts: what a handle points to is ours to change.
cat > "$dir/public" <<'EOF'
[suppress_type]
  source_location_not_regexp = include/htcsched/
  drop = yes
EOF
abidw --suppressions "$dir/public" --no-corpus-path --no-comp-dir-path --exported-interfaces-only --no-show-locs "$library" > "$dir/now.abi"
grep -qF "<class-decl name='htc_env'" "$dir/now.abi" || { echo "the description of $library has no htc_env: this check is broken"; exit 1; }
if [ "${2-}" = --save ]; then
    cp "$dir/now.abi" "$saved"
    exit 0
fi
abidiff --no-added-syms "$saved" "$dir/now.abi" || {
    echo "what a program was built against has changed; if it is meant: SOURCE=$SOURCE $0 $library --save"
    exit 1
}
