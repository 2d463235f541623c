# What the programs of this folder share: lines, words and lists of a flow.
say() { printf '%s\n' "$*"; }
quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
# range FORMAT FIRST LAST, all FORMAT N: the names FIRST to LAST, or 0 to N - 1, commas between them; words puts blanks there.
range() { seq -s , -f "$1" "$2" "$3"; }
all() { range "$1" 0 $(($2 - 1)); }
words() { printf %s "$1" | tr , ' '; }
