#!/bin/bash
# usage: container.sh PROGRAM_FOLDER
# Tasks in containers, by bubblewrap: what is inside and what is not, inputs and outputs, limits, signals, and sites that run none.
source "$(dirname "$0")/live.sh"
command -v bwrap > /dev/null || skip "no bwrap: the package bubblewrap has it"
bwrap --ro-bind / / true 2> /dev/null || skip "bwrap may make no namespaces here"
dir=$top/sys
H=("$htc" --dir "$dir")

# --- an image: a shell and what it needs ---
image=$top/image
mkdir -p "$image"/{bin,etc,var/lib/data} "$top/bare"
for program in sh cat ls mkdir sleep touch env sort; do
    cp "$(command -v $program)" "$image/bin/"
    ldd "$(command -v $program)" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$image$(dirname "$library")"
        cp -n "$library" "$image$library"
    done
done
echo 'the image' > "$image/etc/whose"
chmod 755 "$image" "$top"/image/*

printf '[site.none]\ncontainer = docker\n' > bad.ini
refuse 1 'container = docker is not allowed' "${H[@]}" up --config bad.ini
printf '[agent]\nheartbeat_s = 1\nkill_after_s = 20\n[site.local]\ncores = 2\ncontainer = bwrap\n' > sys.ini
expect 0 "${H[@]}" up --config sys.ini

# --- what is inside ---
echo 'an input' > data.txt
# shellcheck disable=SC2016
expect 0 "${H[@]}" submit --wait --container "$image" -i data.txt -- sh -c \
    'cat /etc/whose data.txt; ls / | sort; echo made > "$HTC_OUTPUT_DIR/made"; echo "$HTC_CONTAINER"; touch /etc/new 2>&1 || echo "read only"; echo a > /tmp/a && cat /tmp/a'
expect 0 "${H[@]}" logs 1
[[ $out == "the image"$'\n'"an input"$'\n'* ]] || fail "the task wrote: $out"
[[ $out == *$'\n'"$image"$'\n'* && $out == *"read only"*$'\n'a ]] || fail "the task wrote: $out"
for name in home root boot srv; do [[ $out != *$'\n'"$name"$'\n'* ]] || fail "/$name of the machine is inside: $out"; done
expect 0 "${H[@]}" fetch 1 --to got
[ "$(cat got/*/made)" = made ] || fail "fetched: $(find got)"
# Nothing of the system is inside but the task's own directory: no socket, no token, no other task.
# shellcheck disable=SC2016
expect 0 "${H[@]}" submit --wait --container "$image" -- sh -c "ls $dir 2> /dev/null; ls $dir/slots/*/scratch; env | sort"
expect 0 "${H[@]}" logs last
[ "$(head -n 1 <<< "$out")" = slots ] || fail "of the state directory there is inside: $out"
[[ $out != *TOKEN* && $out != *operator* && $out == *"2.0.1"* && $out != *"1.0.1"* ]] || fail "inside: $out"

# --- a program that is staged in, and one that is not there ---
printf '#!/bin/sh\ncat /etc/whose\necho "$@"\n' > prog.sh
chmod +x prog.sh
expect 0 "${H[@]}" submit --wait --container "$image" -- ./prog.sh one two
expect 0 "${H[@]}" logs last
[ "$out" = "the image"$'\n'"one two" ] || fail "the staged program wrote: $out"
expect 5 "${H[@]}" submit --wait --retries 0 --container "$image" -- no-such-program
expect 5 "${H[@]}" submit --wait --retries 0 --container "$image" -- sh -c 'exit 7'
expect 0 "${H[@]}" tasks last --json
[[ $out == *'"exit_code": 7'* || $out == *'"exit_code":7'* ]] || fail "the exit code of the task: $out"

# --- what is refused, and why ---
# fails PATTERN IMAGE: a task in that image fails, and why says the pattern.
fails()
{
    expect 5 "${H[@]}" submit --wait --retries 2 --container "$2" -- true
    expect 0 "${H[@]}" why last
    [[ $out =~ $1 ]] || fail "why: $out does not say '$1'"
}
fails 'wants an image that is a directory' docker://busybox
refuse 2 'is not the name of an image' "${H[@]}" submit --container '--privileged' -- true

# --- signals and limits reach into it ---
# shellcheck disable=SC2016
expect 0 "${H[@]}" submit --container "$image" -- sh -c "trap 'echo asked > \$HTC_OUTPUT_DIR/asked; exit 3' TERM; touch $top/work/x 2> /dev/null; echo up; while :; do sleep 0.05; done"
up() { "${H[@]}" logs last > up.out 2>&1 && grep -q up up.out; }
soon up || fail "it does not begin: $(cat up.out)"
expect 0 "${H[@]}" cancel last
expect 5 "${H[@]}" wait last
expect 0 "${H[@]}" fetch last --to cancelled
[ "$(cat cancelled/*/asked cancelled/asked 2> /dev/null)" = asked ] || fail "SIGTERM does not reach it: $(find cancelled)"
[ ! -e "$top/work/x" ] || fail "a file of the machine was written from inside"
expect 0 "${H[@]}" down

printf '[agent]\nkill_after_s = 0.5\n[site.local]\ncores = 2\ncontainer = bwrap\n' > short.ini
expect 0 "${H[@]}" up --config short.ini
expect 5 "${H[@]}" submit --wait --retries 0 -t 1s --container "$image" -- sh -c 'trap "" TERM; sleep 100 & sleep 100'
expect 0 "${H[@]}" why last
[[ $out == *'wall-time limit of 1 s reached'* ]] || fail "why: $out"
expect 0 "${H[@]}" down

# --- sites that run none ---
printf '[site.local]\ncores = 2\ncontainer = off\n' > off.ini
expect 0 "${H[@]}" up --config off.ini
fails 'this site runs none' "$image"
expect 0 "${H[@]}" down
printf '[site.local]\ncores = 2\ncontainer = podman\n' > podman.ini
if ! command -v podman > /dev/null; then
    expect 0 "${H[@]}" up --config podman.ini
    fails 'of site local has no podman' "$image"
    expect 0 "${H[@]}" down
fi
none_left
echo "all holds"
