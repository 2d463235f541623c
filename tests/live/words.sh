#!/bin/bash
# What the programs know, the manual and the completion know too: every command, option, configuration key and status.
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
source "$(dirname "$0")/live.sh"
cd "$source_dir" || exit 1
bad=0
wrong()
{
    echo "WRONG: $*"
    bad=1
}
plain() { sed -e 's/\\fR//g; s/\\fP//g; s/\\fI//g; s/\\fB//g; s/\\-/-/g; s/\\&//g' "$1"; }

source examples/completion/htc.bash
complete_words() # WORDS...: what is offered for the last one
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _htc
    printf '%s\n' "${COMPREPLY[@]}"
}

manual=$(plain doc/man/htc.1)
mapfile -t commands < <("$htc" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')
[ ${#commands[@]} -ge 19 ] || fail "htc --help lists ${#commands[@]} commands"
offered=$(complete_words htc '')
for command in "${commands[@]}"; do
    grep -qx -- "$command" <<< "$offered" || wrong "the completion does not know $command"
    grep -qE "^\.B.*htc $command( |\"|$)" <<< "$manual" || grep -qE "\"htc $command\"" <<< "$manual" || wrong "htc.1 has no entry for $command"
    options=$("$htc" "$command" --help | grep -oE '^  (-[A-Za-z],|   ) --[a-z-]+' | grep -oE -- '--[a-z-]+')
    [ -n "$options" ] || wrong "htc $command --help lists no options"
    offered_here=$(complete_words htc "$command" --)
    for option in $options; do
        grep -qF -- "$option" <<< "$manual" || wrong "htc.1 does not know $option of htc $command"
        grep -qx -- "$option" <<< "$offered_here" || wrong "the completion does not know $option of htc $command"
    done
    for option in $offered_here; do
        grep -qx -- "$option" <<< "$options" || wrong "the completion offers $option, which htc $command does not know"
    done
done

# Keys of htc.ini, with their defaults.
ini=$(plain doc/man/htc.ini.5)
fixed=" data.output " # it allows one value so far
keys=$(grep -oE '^    \{ "[a-z]+\.[a-z_]+", [A-Z_]+, "[^"]*"' lib/net/config/config.c | sed -E 's/.*\{ "([^"]+)", [A-Z_]+, "([^"]*)"/\1 \2/')
[ "$(wc -l <<< "$keys")" -ge 30 ] || fail "the keys of lib/net/config/config.c were not found"
while read -r key default; do
    entry=$(awk -v key=".B $key" '$0 == key { inside = 1; next } /^\.(TP|S[HS])/ { inside = 0 } inside' <<< "$ini" | tr '\n' ' ')
    [ -n "$entry" ] || { wrong "htc.ini.5 does not know $key"; continue; }
    [[ $entry == *"Default: ${default:-empty}."* ]] || wrong "htc.ini.5 gives another default for $key: $entry"
    [ "$(grep -rF "\"$key\"" lib examples --include='*.c' | wc -l)" -ge 2 ] || [[ $fixed == *" $key "* ]] || wrong "nothing reads $key"
done <<< "$keys"
for key in $(sed '1,/^\.SH KEYS/d' <<< "$ini" | grep -oE '^\.B [a-z]+\.[a-z_]+$' | cut -d' ' -f2); do
    grep -q "^$key " <<< "$keys" || wrong "htc.ini.5 has $key, which is not a key"
done

# The table of statuses is in one place; the manual repeats its names under their exit codes.
listed=$(sed -n '/^\.SH EXIT STATUS/,/^\.SH EXAMPLE/p' <<< "$manual" | awk '/^\.B [0-9]+$/ { code = $2 } { print code ": " $0 }')
while read -r name code; do
    grep -qE "^$code: .*\b$name\b" <<< "$listed" || wrong "htc.1 does not list $name under exit code $code"
done < <(sed -nE 's/^ +X\((HTC_E[A-Z]+), -[0-9]+, ([0-9]+),.*/\1 \2/p' include/htcsched/status.h)
[ $bad = 0 ] || fail "manual, completion and programs differ"
echo "words: all is well"
