#!/bin/bash
# htc kv and htc-kvd used wrongly, or where something is in the way: the exit code, and what is said of it.
source "$(dirname "$0")/live.sh"
kvd=$bin/htc-kvd
dir=$top/state

# keeper DIR OPTIONS...: a store of one process in the background, until it is ready; its process into pid.
keeper()
{
    local dir=$1
    shift
    : > "$top/ready"
    "$kvd" --dir "$dir" "$@" > "$top/ready" 2> "$top/said" &
    pid=$!
    soon grep -q '^ready: ' "$top/ready" || fail "htc-kvd $* did not start: $(< "$top/said")"
}

end()
{
    kill "$pid" && wait "$pid" || fail "htc-kvd ended with $?: $(< "$top/said")"
}

# A directory of one engine is none of another: that is the command line's fault.
for engines in 'log lmdb' 'lmdb log'; do
    read -r made other <<< "$engines"
    keeper "$dir-$made" --engine "$made"
    end
    refuse 1 "was made with engine $made, not $other: take engine $made, or another directory" "$kvd" --dir "$dir-$made" --engine "$other"
done

none_left
