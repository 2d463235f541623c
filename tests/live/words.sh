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
# What htc.1 says of a command: its own paragraphs, and those on the options of every command.
entries()
{
    sed -n '/^\.SH OPTIONS/,/^\.SH COMMANDS/p' <<< "$manual"
    awk -v command="$1" '
        /^\.S[HS]/ { inside = 0; next }
        /^\.TP/ { head = 1; next }
        head { inside = $0 ~ "htc " command "($|[ \"])" || (command == "generate" && $0 ~ /htc submit/); head = 0 }
        inside' <<< "$manual"
}
mapfile -t commands < <("$htc" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')
[ ${#commands[@]} -ge 19 ] || fail "htc --help lists ${#commands[@]} commands"
offered=$(complete_words htc '')
for command in "${commands[@]}"; do
    grep -qx -- "$command" <<< "$offered" || wrong "the completion does not know $command"
    grep -qE "^\.B.*htc $command( |\"|$)" <<< "$manual" || grep -qE "\"htc $command\"" <<< "$manual" || wrong "htc.1 has no entry for $command"
    help=$("$htc" "$command" --help)
    said=$(entries "$command")
    for letter in $(sed -nE 's/^  -([A-Za-z]), --.*/\1/p' <<< "$help"); do
        grep -qE -- "(^|[^A-Za-z-])-$letter($|[^A-Za-z-])" <<< "$said" || wrong "htc.1 does not know -$letter of htc $command where it tells of it"
    done
    options=$(grep -oE '^  (-[A-Za-z],|   ) --[a-z-]+' <<< "$help" | grep -oE -- '--[a-z-]+')
    [ -n "$options" ] || wrong "htc $command --help lists no options"
    offered_here=$(complete_words htc "$command" --)
    for option in $options; do
        grep -qE -- "$option($|[^a-z-])" <<< "$said" || wrong "htc.1 does not know $option of htc $command where it tells of it"
        grep -qx -- "$option" <<< "$offered_here" || wrong "the completion does not know $option of htc $command"
    done
    for option in $offered_here; do
        grep -qx -- "$option" <<< "$options" || wrong "the completion offers $option, which htc $command does not know"
    done
done

# No option in htc.1 that no program has, and no subcommand that it does not tell of.
known=$(for command in "${commands[@]}"; do "$htc" "$command" --help; done; "$bin/htc-kvd" --help; "$htc" --help)
for option in $(grep -oE -- '--[a-z][a-z-]*' <<< "$manual" | sort -u); do
    grep -qE -- "(^|[^a-z-])$option($|[^a-z-])" <<< "$known" || wrong "htc.1 has $option, which no program knows"
done
for command in kv keys; do
    mapfile -t under < <("$htc" "$command" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
    [ ${#under[@]} -ge 8 ] || fail "htc $command --help lists ${#under[@]} commands"
    for word in "${under[@]}"; do
        grep -qE "^\.B.*htc $command $word( |\"|$)" <<< "$manual" || wrong "htc.1 has no entry for htc $command $word"
    done
    said=$(entries "$command [a-z]+")
    for option in $("$htc" "$command" --help | grep -oE '^  (-[A-Za-z],|   ) --[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        grep -qE -- "$option($|[^a-z-])" <<< "$said" || wrong "htc.1 does not know $option of htc $command where it tells of it"
    done
done

# --help of a command under another one: its own options, which its line names, and none of its neighbours'.
options_of() { "$htc" "$@" --help | grep -oE '^  (-[A-Za-z],|   ) --[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u; }
common=$(options_of users)
for command in user keys kv; do
    all=$(options_of "$command")
    under=(add set rm)
    [ "$command" = user ] || mapfile -t under < <("$htc" "$command" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
    for word in "${under[@]}"; do
        shown=$(options_of "$command" "$word")
        for option in $("$htc" "$command" "$word" --help | sed -n 1p | grep -oE -- '--[a-z-]+'); do
            grep -qx -- "$option" <<< "$shown" || wrong "htc $command $word --help does not list $option"
        done
        for option in $(comm -23 <(echo "$all") <(echo "$shown")); do
            said=$("$htc" "$command" "$word" "$option" 1 1 2>&1) && wrong "htc $command $word takes $option"
            [[ $said == *"$option is no option of it, but of "* ]] || wrong "htc $command $word $option: $said"
        done
        [ "$(comm -12 <(echo "$all") <(echo "$shown"))" != "$all" ] || [ "$command" = user ] || wrong "htc $command $word --help lists all options"
    done
done
[ "$(options_of user rm)" = "$common" ] || wrong "htc user rm --help lists $(options_of user rm)"
[ "$(options_of keys new)" = "$(grep -vxF -- --gateway <<< "$common")" ] || # it works at files of this machine
    wrong "htc keys new --help lists $(options_of keys new)"

# A page of a daemon has a paragraph for each option that the daemon has, and for no other.
for page in htc-kvd.8 htc-gateway.8 htc-agent.8 htc-fn.8 htc-transfer.8 htc-gang.1 htc-sim.1; do
    program=${page%.*}
    helps=("--help")
    if [ $program = htc-sim ]; then # each command has its own
        mapfile -t helps < <("$bin/htc-sim" --help | sed -n 's/^  \([a-z]\+\) .*/\1 --help/p')
        [ ${#helps[@]} -ge 8 ] || fail "htc-sim --help lists ${#helps[@]} commands"
        helps+=("--help")
        for command in "${helps[@]% --help}"; do
            grep -qE "^\.B.*htc-sim $command( |\"|$)" <(plain doc/man/htc-sim.1) || [ "$command" = --help ] || wrong "htc-sim.1 does not know htc-sim $command"
        done
    fi
    # shellcheck disable=SC2086 # words
    had=$(for words in "${helps[@]}"; do "$bin/$program" $words; done | grep -oE '^  --[a-z-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z-]+' | sort -u)
    told=$(plain "doc/man/$page" | awk 'head && /^\.B/; { head = /^\.TP/ }' | grep -oE -- '--[a-z][a-z-]*' | sort -u)
    [ -n "$had" ] || wrong "$program --help lists no options"
    for option in $(comm -23 <(echo "$had") <(echo "$told")); do wrong "$page has no paragraph for $option"; done
    for option in $(comm -13 <(echo "$had") <(echo "$told")); do wrong "$page has a paragraph for $option, which $program does not know"; done
    grep -qE '^\.SH EXIT STATUS' "doc/man/$page" || wrong "$page does not say with what $program ends"
done

# The completion of htc-sim asks the program.
source examples/completion/htc-sim.bash
complete_sim() # WORDS...: what is offered for the last one
{
    COMP_WORDS=("$bin/htc-sim" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _htc_sim
    printf '%s\n' "${COMPREPLY[@]}"
}
[ "$(complete_sim fl)" = flow ] || wrong "the completion of htc-sim does not know flow: $(complete_sim fl)"
for command in $(complete_sim '' | grep -v '^--'); do
    [ "$(complete_sim "$command" -- | sort)" = "$("$bin/htc-sim" "$command" --help | grep -oE '^  --[a-z-]+' | tr -d ' ' | sort)" ] ||
        wrong "the completion offers other options of htc-sim $command than it has"
done
[ "$(complete_sim jobs --set cost.lat)" = cost.latency= ] || wrong "the completion does not know a key without an option"
[ "$(complete_sim jobs --vary machine.par)" = machine.partition= ] || wrong "the completion does not know a key with an option"

# The completion of daemons asks them. Both agents' ways to a gateway take several addresses, and say so wherever they are told of.
source examples/completion/htc-agent.bash
complete_daemon() # PROGRAM WORDS...: what is offered for the last one
{
    COMP_WORDS=("$bin/$1" "${@:2}")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _htc_daemon
    printf '%s\n' "${COMPREPLY[@]}"
}
for program in htc-agent htc-gateway htc-kvd; do
    [ "$(complete_daemon $program -- | sort)" = "$("$bin/$program" --help | grep -oE -- '(^  |, )--[a-z-]+' | tr -d ' ,' | sort)" ] ||
        wrong "the completion offers other options of $program than it has: $(complete_daemon $program --)"
done
[ "$(complete_daemon htc-agent --batch sl)" = slurm ] || wrong "the completion does not know slurm"
for option in --join --gateway; do
    "$bin/htc-agent" --help | grep -E -- "^  $option .*HOST:PORT,\.\.\." > /dev/null || wrong "htc-agent --help does not say that $option takes several addresses"
    plain doc/man/htc-agent.8 | grep -F -- "$option \" HOST:PORT[,HOST:PORT]" > /dev/null ||
        wrong "htc-agent.8 does not say that $option takes several addresses"
done

# A variable that a program reads has a paragraph below ENVIRONMENT.
environment() { plain "doc/man/$1" | sed -n '/^\.SH ENVIRONMENT$/,/^\.SH [^E]/p'; }
while read -r page folders; do
    for variable in $(grep -rhoE 'getenv\("[A-Z_]+"\)' $folders --include='*.c' | grep -oE '[A-Z_]{2,}' | sort -u); do
        environment "$page" | grep -w "$variable" > /dev/null || wrong "$page does not know the variable $variable"
    done
done << 'END'
htc.1 examples/htc
htc-kvd.8 examples/htc-kvd examples/common
htc-gateway.8 examples/htc-gateway examples/common
htc-agent.8 examples/htc-agent examples/common
END

# Keys of htc.ini, with their defaults and what they allow.
ini=$(plain doc/man/htc.ini.5)
config=lib/net/config/config.c
keys=$(sed -n '/ keys\[\] = {$/,/^};/s/^ *{ \("[a-z_.]*"\), [A-Z_]*, \("[^"]*"\), \("[^"]*"\),.*/\1 \2 \3/p' $config
    sed -n '/ site_keys\[\] = {$/,/^};/s/^ *{ "\([a-z_.]*\)", [A-Z_]*, \("[^"]*"\), \("[^"]*"\),.*/"site.NAME.\1" \2 \3/p' lib/net/config/config_sites.c)
[ "$(wc -l <<< "$keys")" -ge 40 ] || fail "the keys of $config were not found"
while IFS='"' read -r _ key _ default _ allowed _; do
    entry=$(awk -v key=".B $key" '$0 == key { inside = 1; next } /^\.(TP|S[HS]|PP)/ { inside = 0 } inside' <<< "$ini" | tr '\n' ' ')
    [ -n "$entry" ] || { wrong "htc.ini.5 does not know $key"; continue; }
    [[ $entry == *"Default: ${default:-empty}."* ]] || wrong "htc.ini.5 gives another default for $key: $entry"
    # Words to choose from are listed with commas.
    [[ $entry == *"Allowed: ${allowed//|/, }."* ]] || wrong "htc.ini.5 allows something else for $key: $entry"
    [[ $key == site.* ]] || [ "$(grep -rF "\"$key\"" lib examples --include='*.c' | wc -l)" -ge 2 ] || wrong "nothing reads $key"
done <<< "$keys"
for key in $(sed '1,/^\.SH KEYS/d' <<< "$ini" | grep -oE '^\.B [a-z]+\.(NAME\.)?[a-z_]+$' | cut -d' ' -f2); do
    grep -qF "\"$key\"" <<< "$keys" || wrong "htc.ini.5 has $key, which is not a key"
done

# The table of statuses is in one place; the manual repeats its names under their exit codes.
listed=$(sed -n '/^\.SH EXIT STATUS/,/^\.SH EXAMPLE/p' <<< "$manual" | awk '/^\.B [0-9]+$/ { code = $2 } { print code ": " $0 }')
while read -r name code; do
    grep -qE "^$code: .*\b$name\b" <<< "$listed" || wrong "htc.1 does not list $name under exit code $code"
done < <(sed -nE 's/^ +X\((HTC_E[A-Z]+), -[0-9]+, ([0-9]+),.*/\1 \2/p' include/htcsched/status.h)
[ $bad = 0 ] || fail "manual, completion and programs differ"
echo "words: all is well"
