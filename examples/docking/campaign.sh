#!/bin/bash
# Four users arrive one after another with 40, 20, 10 and 4 real dockings; once with dynamic fair shares, once with static
# equal ones. The figures of the report come from the records of the gateway (htc report), not from this script.
#
#   campaign.sh FOLDER      HTC: the program htc; SCALE: divide the bags by it (for a quick look)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
# Root's system runs each user's tasks with a uid of its own, which passes through the folder.
[ "$(id -u)" != 0 ] || chmod go+x "$folder"
htc=${HTC:-htc}
report=${REPORT:-$(dirname "$(command -v "$htc")")/docking-report}
scale=${SCALE:-1}
users=(ada ben cleo dan)
bags=($((40 / scale)) $((20 / scale)) $((10 / scale)) $((4 / scale > 0 ? 4 / scale : 1)))
cores=$(nproc)
slots=$((cores > 4 ? cores : 4))
state=

stop()
{
    [ -z "$state" ] || "$htc" --dir "$state" down --now > /dev/null 2>&1 || true
}
trap stop EXIT
trap 'echo; echo "Interrupted: stopping what was started."; exit 130' INT TERM

echo "Preparing the molecules (receptor maps and ligand of 1PGP from autodock-test) ..."
bash "$here"/prepare.sh "$folder"/molecules
read -r evaluations length < "$folder"/molecules/length
echo "One docking: $evaluations energy evaluations, $length CPU seconds."
if [ "$cores" -lt 4 ]; then
    echo "This machine has $cores core(s): $slots slots share them, so a docking lasts longer while others run."
fi

# The first bag alone takes bag * length / (cores that work); the last user arrives at 0.85 of that, evenly spaced.
step=$(awk -v n="${bags[0]}" -v l="$length" -v s="$slots" -v c="$cores" \
    'BEGIN { printf "%.2f", 0.85 * n * l / (s < c ? s : c) / 3 }')

# One document for each user: a sweep over seeds. autodock wants seeds greater than 1.
for i in 0 1 2 3; do
    first=$((1000 * (i + 1)))
    inputs=()
    for f in "$folder"/molecules/1pgp* "$folder"/molecules/docking.dpf; do
        inputs+=(--input "$f")
    done
    (cd "$folder"/molecules && "$htc" generate --name "docking" "${inputs[@]}" --out "$folder/bag-${users[$i]}.jsdl" \
        -- dock.sh '{seed}' "$evaluations" ::: "seed=$first:$((first + bags[i] - 1))")
done

# CPU seconds that all programs of this machine have used since it started.
busy_cpu_s()
{
    awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { print ($2 + $3 + $4 + $7 + $8) / hz }' /proc/stat
}

# Percent of the CPU time used during a run that was not the dockings': a busy machine's figures are not a quiet one's.
others()
{
    awk -v tasks="$(sed -n 's/.*"cpu_s": \([0-9.]*\).*/\1/p' "$folder/$1.json" | awk '$1 > most { most = $1 } END { print most }')" '
        { at[NR] = $1 }
        END { used = at[2] - at[1]; printf "%.0f", (tasks < used ? 100 * (1 - tasks / used) : 0) }' "$folder/$1.busy"
}

# One line about all jobs: `user done/total +running`.
line()
{
    "$htc" --dir "$state" status | awk -v t="$SECONDS" -v s="$slots" '
        NR > 1 && $1 ~ /^[0-9]+$/ { row[++n] = sprintf("%-4s %2d/%-2d +%d", $2, $8, $5, $7); running += $7 }
        END { printf "%4ds", t; for (i = n; i > 0; i--) printf "  |  %s", row[i]; printf "  |  %d of %d slots busy\n", running, s }'
}

show()
{
    if [ -t 1 ]; then
        printf '\033[H\033[J%s\n\n' "$1"
        "$htc" --dir "$state" status
        echo
        "$htc" --dir "$state" users
    else
        line
    fi
}

run()
{
    local name=$1 title=$2
    state=$folder/state-$name
    rm -rf "$state"
    mkdir -m 700 "$state"
    {
        echo "[fair]"
        echo "policy = $3"
        [ -z "$4" ] || echo "users = $4"
        echo "[task]"
        echo "others_as_owner = confined"
    } > "$folder/$name.ini"
    "$htc" --dir "$state" up --slots "$slots" --config "$folder/$name.ini"
    local uid=65200 own=()
    for u in "${users[@]}"; do
        uid=$((uid + 1))
        [ "$(id -u)" != 0 ] || own=(--uid "$uid:$uid")
        (umask 077 && head -c 18 /dev/urandom | base64 > "$folder/password")
        "$htc" --dir "$state" user add "$u" "${own[@]}" --password-file "$folder/password" > /dev/null
    done
    rm -f "$folder/password"
    echo "$title: ${bags[*]} dockings, a user every $step s, $slots slots."
    SECONDS=0
    local next=0 begun submitted=0
    begun=$(date +%s.%N)
    busy_cpu_s > "$folder/$name.busy"
    while :; do
        while [ $submitted -lt 4 ] && awk -v b="$begun" -v n="$next" -v now="$(date +%s.%N)" 'BEGIN { exit !(now - b >= n) }'; do
            "$htc" --dir "$state" submit --user "${users[$submitted]}" "$folder/bag-${users[$submitted]}.jsdl" > /dev/null
            submitted=$((submitted + 1))
            next=$(awk -v n="$submitted" -v s="$step" 'BEGIN { print n * s }')
        done
        show "$title, $SECONDS s"
        if [ $submitted -eq 4 ] && "$htc" --dir "$state" wait all --timeout 1s > /dev/null 2>&1; then
            break
        elif [ $submitted -lt 4 ]; then
            # Until the next second or the next arrival, whichever is first.
            sleep "$(awk -v b="$begun" -v n="$next" -v now="$(date +%s.%N)" 'BEGIN { w = b + n - now; printf "%.3f", (w < 0 ? 0 : (w > 1 ? 1 : w)) }')"
        fi
        if [ "$SECONDS" -gt 600 ]; then
            echo "campaign.sh: no end after ten minutes; $("$htc" --dir "$state" why last || true)" >&2
            exit 1
        fi
    done
    busy_cpu_s >> "$folder/$name.busy"
    show "$title, $SECONDS s"
    "$htc" --dir "$state" report all --json > "$folder/$name.json"
    rm -rf "$folder/results-$name"
    for i in 1 2 3 4; do
        "$htc" --dir "$state" fetch "$i" --to "$folder/results-$name/${users[$((i - 1))]}" > /dev/null
    done
    "$htc" --dir "$state" down > /dev/null
    state=
}

# The paper's own rule, which is not the default of fair.policy: its figures are what the report compares with.
run dynamic "Dynamic fair shares (fair.policy = eq1)" eq1 ""
run static "Static equal shares (fair.policy = static)" static "$(IFS=,; echo "${users[*]}")"

echo
verdict=0
"$report" --svg "$folder/cores.svg" "$folder/dynamic.json" "$folder/static.json" || verdict=$?
echo
busy=$(others dynamic) busy_static=$(others static)
if [ "$busy" -gt 25 ] || [ "$busy_static" -gt 25 ]; then
    echo "This machine was busy: other programs had $busy% of the CPU time that was used during the dynamic run, and"
    echo "$busy_static% during the static one. Makespans are longer than on a quiet machine, efficiency is lower, ratios vary."
    echo
fi
echo "Binding energies (kcal/mol), best of each user:"
for u in "${users[@]}"; do
    cat "$folder"/results-dynamic/"$u"/*/result.txt | sort -g -k 4 |
        awk -v u="$u" 'NR == 1 { best = $4; seed = $2 } END { printf "  %-5s %3d poses, best %s (seed %s)\n", u, NR, best, seed }'
done
same=yes
for f in "$folder"/results-dynamic/*/*/result.txt; do
    cmp -s "$f" "$folder/results-static/${f#"$folder"/results-dynamic/}" || same=no
done
echo "  the same in both runs: $same"
[ $same = yes ]
echo "Chart: $folder/cores.svg; poses: $folder/results-dynamic/"
exit $verdict
