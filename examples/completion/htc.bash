# bash completion for htc
_htc()
{
    local cur prev command i
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --dir | --gateway | --user | -u | --token-file | --timeout) ((i++)) ;;
        --) return ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    case $prev in
    --gateway)
        mapfile -t COMPREPLY < <(compgen -A hostname -S : -- "$cur")
        return
        ;;
    --dir | --to)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --key)
        [[ $command == submit || $command == resubmit ]] && return
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --config | --file | --ring | --once | --token-file | --credentials | --password-file | --input | -i | --stdin | --each-line | --out | --tar | --svg)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --state | -s)
        if [[ $command == tasks ]]; then
            mapfile -t COMPREPLY < <(compgen -W "waiting leased running staging_out retry_wait done failed cancelled" -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -W "queued waiting running done done_with_failures cancelled paused open ended" -- "$cur")
        fi
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
    --workdir | -D)
        mapfile -t COMPREPLY < <(compgen -W "here" -- "$cur"; compgen -d -- "$cur")
        return
        ;;
    --signal)
        mapfile -t COMPREPLY < <(compgen -W "USR1@60 TERM@60" -- "$cur")
        return
        ;;
    --since | --until)
        mapfile -t COMPREPLY < <(compgen -W "1h 1d today yesterday" -- "$cur")
        return
        ;;
    --mail-on)
        mapfile -t COMPREPLY < <(compgen -W "end fail none" -- "$cur")
        return
        ;;
    --begin)
        mapfile -t COMPREPLY < <(compgen -W "now+1hour tomorrow midnight noon" -- "$cur")
        return
        ;;
    --compat)
        mapfile -t COMPREPLY < <(compgen -W "slurm sge" -- "$cur")
        return
        ;;
    esac
    local common="--dir --gateway --user --token-file --timeout --json --help"
    case $command in # these are about a directory of this machine
    up | down | flow | kv | keys) common=${common/--gateway /} ;;
    esac
    if [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "up down user login logout submit generate validate status tasks why logs fetch wait \
            cancel hold release retry resubmit rm du users project quota agents sites drain resume report keys kv flow help $common --version" -- "$cur")
        return
    fi
    local options= words= filter="--name --since --until"
    local work="--name --time --mem --cores --node-cores --gpus --res --container --hosts --arch --os --input --target --env --each-line --array --workdir --stdin --retries --project --priority --max-running --begin --signal --on-end --credentials --mail-to --mail-on --after --output --error --compat --wait --hold --dry-run"
    case $command in
    up) options="--config --slots --pause-max --foreground" ;;
    down) options="--now" ;;
    du) options="--jobs --state $filter" words="last all" ;;
    user) options="--weight --uid --password-file" words="add set rm" ;;
    project) options="--shares --users --without" words="add set rm list" ;;
    quota) options="--project --core-hours --bytes --tasks --processes" ;;
    login) options="--password-file" ;;
    logout) options="--all" ;;
    submit) options="$work --key" ;;
    generate) options="$work --key --exe --args --sweep --pairs --unordered --out" ;;
    validate) options="--count --show" ;;
    status) options="--watch --limit --state $filter" words="last all" ;;
    tasks) options="--state --failed --limit $filter" words="last" ;;
    logs) options="--follow --stderr --failed --state $filter" words="last" ;;
    fetch) options="--wait --to --tar --output --error --failed --state $filter" words="last" ;;
    drain) options="--node --reason" ;;
    resume) options="--node" ;;
    wait) options="--timeout" words="last all" ;;
    retry) options="--failed --mem --time --state $filter" words="last all" ;;
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
    cancel) options="--failed --state $filter" words="last all" ;;
    hold | release | rm) options="--state $filter" words="last all" ;;
    resubmit) options="--mem --time --wait --hold --key --state $filter" words="last" ;;
    why | report) words="last all" ;;
    esac
    [[ $command == report ]] && options="--svg --export --by --since --until --project --csv"
    mapfile -t COMPREPLY < <(compgen -W "$options $common $words" -- "$cur")
    if [[ $cur != -* && ($command == submit || $command == validate) ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _htc htc
