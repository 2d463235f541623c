# bash completion of htc-agent, htc-gateway and htc-kvd: the program itself says which options there are.
_htc_daemon()
{
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
    COMPREPLY=()
    case $before in
    --batch) mapfile -t COMPREPLY < <(compgen -W "slurm sge ssh emu none" -- "$cur") ;;
    --dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --config | --key | --ring | --once) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    --join | --gateway) mapfile -t COMPREPLY < <(compgen -A hostname -S : -- "$cur") ;;
    *)
        words=$("${COMP_WORDS[0]}" --help 2> /dev/null | grep -oE '^  --[a-z-]+(, --[a-z-]+)*' | tr -d ',')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        ;;
    esac
}
complete -F _htc_daemon htc-agent htc-gateway htc-kvd
