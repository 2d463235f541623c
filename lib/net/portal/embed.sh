#!/bin/sh
# usage: embed.sh OUT FILE...
# A C source with the bytes of each file: htc__portal_NAME, where NAME is the file's with _ for each dot.
set -eu
out=$1
shift
{
    printf '#include "net/portal/portal_private.h"\n'
    for file in "$@"; do
        name=$(basename "$file" | tr . _)
        printf 'static const unsigned char bytes_%s[] = {\n' "$name"
        od -An -v -tu1 "$file" | sed -e 's/^ *//' -e 's/  */,/g' -e 's/$/,/'
        printf '};\nconst htc_bytes htc__portal_%s = { bytes_%s, sizeof bytes_%s };\n' "$name" "$name" "$name"
    done
} > "$out"
