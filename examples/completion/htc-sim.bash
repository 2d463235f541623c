# bash completion of htc-sim: the program itself says which commands, options and keys there are.
_htc_sim()
{
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]} help words
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words=$("$program" --help 2> /dev/null | sed -nE 's/^  ((--)?[a-z]+) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    help=$("$program" "${COMP_WORDS[1]}" --help 2> /dev/null)
    if [[ $before == --set || $before == --vary ]]; then # keys that are not of each section with a name
        words=$(sed -nE 's/.*\[([A-Za-z_.]+)\]$/\1/p; s/^  ([a-z_]+\.[A-Za-z_.]+) .*/\1/p' <<< "$help" | sort -u)
        mapfile -t COMPREPLY < <(compgen -S = -W "$words" -- "$cur")
        compopt -o nospace 2> /dev/null
    elif [[ $cur == -* ]]; then
        words=$(sed -nE 's/^  (--[a-z-]+).*/\1/p' <<< "$help")
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _htc_sim htc-sim
