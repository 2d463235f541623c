#!/bin/bash
# usage: SOURCE=DIR mutants.sh PROGRAMS MUTANTS ARCHIVE [WORDS]
# Scale models decide nothing themselves: each line of tests/data/sim_mutants.txt is a run of htc-sim in which one function of lib/sched is mistaken
# (MUTANTS is preloaded), and it has to be another run. ARCHIVE has the objects of the models: each decision they import has a line, and none has a
# function of that name itself. WORDS: only lines with them.
set -euo pipefail
sim=$1/htc-sim mutants=$2 archive=$3 list=$SOURCE/tests/data/sim_mutants.txt
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "mutants: $1"
    exit 1
}
exec 9< "$mutants" # LD_PRELOAD is cut at blanks, which a path may have

# run_with MUTANT ARGS...: in $dir/out and $dir/err
run_with() {
    local mutant=$1
    shift
    MUTANT=$mutant LD_PRELOAD=/proc/self/fd/9 ASAN_OPTIONS=verify_asan_link_order=0 "$sim" "$@" -j 1 --json > "$dir/out" 2> "$dir/err" < /dev/null
}
value_of() { grep -oE "\"$1\":[^,}]+" "$dir/out" | head -1 || :; }

# Who imports what, by model.
nm -A "$archive" | sed -nE 's/.*[/:]models_([a-z]+)[a-z_]*\.c\.o: *(0*[0-9a-f]*) ([A-Za-z]) (.*)/\1 \3 \4/p' > "$dir/symbols"
[ "$(cut -d' ' -f1 "$dir/symbols" | sort -u | wc -l)" -ge 8 ] || fail "$archive has not the objects of the models"
public=$(grep -ohE 'htc_(allot|balance|dag|fit|hierarchy|locality|provision|record|registry|ring|steal)_[a-z0-9_]+\(' "$SOURCE"/include/htcsched/{allot,balance,dag,fit,hierarchy,locality,provision,record,registry,ring,steal}.h | tr -d '(' | sort -u)
plain=() missing=0
while read -r mark words; do
    [ "$mark" = - ] || continue
    for word in $words; do
        [[ $word != htc_* && $word != '*_'* ]] || plain+=("$word")
    done
done < "$list"
while read -r model kind name; do
    grep -qxF "$name" <<< "$public" || [[ $name == htc_flow_* ]] || continue
    [ "$kind" = U ] || fail "model $model has a $name of its own"
    for word in "${plain[@]}"; do
        # shellcheck disable=SC2053 # it is a pattern
        [[ $name != $word ]] || continue 2
    done
    grep -qE "^$model $name " "$list" || { echo "mutants: model $model calls $name: a line in tests/data/sim_mutants.txt, and a mistake in tests/live/mutants.c"; missing=1; }
done < <(sort -u "$dir/symbols")
[ $missing = 0 ] || exit 1

declare -A as_it_is
lines=0 failed=0
while read -r model name key arguments; do
    case $model in
    '#'* | '' | -) continue ;;
    esac
    [[ "$model $name" == *${4:-}* ]] || continue
    grep -qE "^$model U $name\$" "$dir/symbols" || fail "$model does not call $name: the line in tests/data/sim_mutants.txt says it does"
    eval "words=($arguments)"
    lines=$((lines + 1))
    if [ -z "${as_it_is[$arguments]:-}" ]; then
        run_with nothing "${words[@]}" || { cat "$dir/err"; fail "htc-sim $arguments fails"; }
        as_it_is[$arguments]=$(cat "$dir/out")
    fi
    if ! run_with "$name" "${words[@]}"; then
        [ "$key" = refused ] || { cat "$dir/err"; echo "mutants: $model: with a mistaken $name htc-sim $arguments fails"; failed=$((failed + 1)); }
        continue
    fi
    mistaken=$(value_of "$key") right=$(grep -oE "\"$key\":[^,}]+" <<< "${as_it_is[$arguments]}" | head -1)
    [ -n "$right" ] || [ "$key" = refused ] || fail "htc-sim $arguments has no $key"
    [ "$mistaken" != "$right" ] || { echo "mutants: $model: a mistaken $name changes nothing in htc-sim $arguments"; failed=$((failed + 1)); }
done < "$list"
[ $lines -gt 0 ] || fail "no line has ${4:-}"
[ $failed = 0 ] || exit 1
echo "mutants: $lines mistaken decisions are noticed"
