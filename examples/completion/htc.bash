# bash completion for htc
_htc()
{
    local cur prev command i
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --dir | --user | -u | --token-file | --timeout) ((i++)) ;;
        --) return ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    case $prev in
    --dir | --to)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --key)
        [[ $command == submit ]] && return
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --config | --file | --ring | --once | --token-file | --password-file | --input | -i | --each-line | --out | --tar | --svg)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --state | -s)
        mapfile -t COMPREPLY < <(compgen -W "waiting leased running staging_out retry_wait done failed cancelled" -- "$cur")
        return
        ;;
    --role)
        mapfile -t COMPREPLY < <(compgen -W "member host user" -- "$cur")
        return
        ;;
    --after)
        mapfile -t COMPREPLY < <(compgen -W "last" -- "$cur")
        return
        ;;
    --shape)
        mapfile -t COMPREPLY < <(compgen -W "bot fanout fanin pipeline mapreduce" -- "$cur")
        return
        ;;
    --compat)
        mapfile -t COMPREPLY < <(compgen -W "slurm sge" -- "$cur")
        return
        ;;
    esac
    local common="--dir --user --token-file --timeout --json --help"
    if [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "up down user login logout submit generate validate status tasks why logs fetch wait \
            cancel release retry rm du users agents sites drain resume report keys kv flow help $common --version" -- "$cur")
        return
    fi
    local options= words=
    local work="--name --time --mem --cores --input --env --each-line --retries --priority --max-running --after --output --error --compat --wait --hold --dry-run"
    case $command in
    up) options="--config --slots --pause-max --foreground" ;;
    down) options="--now" ;;
    du) options="--jobs" words="last all" ;;
    user) options="--weight --uid --password-file" words="add set rm" ;;
    login) options="--password-file" ;;
    logout) options="--all" ;;
    submit) options="$work --key" ;;
    generate) options="$work --key --exe --args --sweep --pairs --unordered --out" ;;
    validate) options="--count --show" ;;
    status) options="--watch --limit" words="last all" ;;
    tasks) options="--state --failed --limit" words="last" ;;
    logs) options="--follow --stderr" words="last" ;;
    fetch) options="--to --tar --output --error" words="last" ;;
    drain) options="--reason" ;;
    wait) options="--timeout" words="last all" ;;
    retry) options="--failed" words="last all" ;;
    keys)
        options="--ring --key --server --once --role --for --next --use --finish"
        words="new show add list revoke rotate enrol join"
        ;;
    flow)
        options="--agents --tries --max-fails --detach --watch --scratch --slots --keep --format --time-scale --size-scale --program --shape --tasks --degree --length --data --seed --to --out --failed --limit --svg --tiles --stderr --all --policy --steal --layout --tt --open --close"
        words="run add close check write status workers tasks why logs fetch report render set cancel resume rm"
        ;;
    kv) options="--store --key --ring --server --password-file --timeout --file --version --seen --values --namespace --context --reconcile --limit --replace --members --base-port --shards --engine --durability --patience --stop --buckets --no-wait --weight --prefix --count --from --leased --without-namespaces --ttl"
        words="get put delete append add cas scan watch backup restore fsck dump members join leave replace rebalance undo cluster" ;;
    why | cancel | release | rm | report) words="last all" ;;
    esac
    [[ $command == report ]] && options="--svg --export"
    mapfile -t COMPREPLY < <(compgen -W "$options $common $words" -- "$cur")
    if [[ $cur != -* && ($command == submit || $command == validate) ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _htc htc
