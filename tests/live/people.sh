#!/bin/bash
# Several people on one machine: an owner, two users, each with a uid of their own.
if [ "$(id -u)" != 0 ] && [ -z "${HTC_PEOPLE_INSIDE:-}" ]; then
    # Whoever has subordinate uids is root over them in a namespace.
    if ! unshare --user --map-root-user --map-auto true 2> /dev/null; then
        echo "skipped: three uids are needed: neither root nor subordinate uids (/etc/subuid)"
        exit 77
    fi
    HTC_PEOPLE_INSIDE=1 exec unshare --user --map-root-user --map-auto "$0" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
source "$here/live.sh"
source "$here/people_lib.sh"
people_begin

# --- others = on: found by --dir, reached through the socket, with a token of one's own ---

printf '[server]\nothers = on\n' > "$top/shared.ini"
as owner 0 up --slots 2 --config "$top/shared.ini"
[ "$(stat -c %a "$dir")" = 711 ] || fail "the state directory has mode $(stat -c %a "$dir")"
[ "$(stat -c %a "$dir/operator")" = 600 ] || fail "the operator's token can be read by others"
as ada 4 status
[[ $err == *"log in"* ]] || fail "without a token: $err"
as owner 0 user add ada --password-file "$top/password"
as owner 0 user add ben --password-file "$top/password"
as ada 0 login ada --password-file "$top/password"
token=$(find "$top/home-ada" -name ada)
[ "$(stat -c '%a %u' "$token")" = "600 $ada" ] || fail "ada's token: $(ls -l "$token")"
as ben 0 login ben --password-file "$top/password"
as ada 0 status
as ada 0 submit --hold -- true
as ada 0 status --json
job=$(json "$out" 'v["jobs"][0]["id"]')
[ "$(json "$out" 'v["jobs"][0]["user"]')" = ada ] || fail "ada's job: $out"
as ben 4 status "$job"
as ben 4 --user ada status
as ada 4 user set ada --weight 9
# What is not a user's cannot be looked at.
for place in . store data log slots operator kvd.sock; do
    run_as ada ls "$dir/$place/" > "$top/listing" 2> /dev/null && fail "ada lists $place: $(cat "$top/listing")"
done
run_as ada cat "$dir/operator" 2> /dev/null && fail "ada reads the operator's token"
# The owner's uid alone makes no operator: the token does.
as owner 4 --token-file /dev/null user set ada --weight 9
as owner 0 user set ada --weight 2
as owner 0 down --now

# A directory that others cannot enter on the way is named, not served in vain.
mkdir "$top/closed" && chown "$owner" "$top/closed" && chmod 700 "$top/closed"
dir=$top/closed/state as owner 4 up --config "$top/shared.ini"
[[ $err == *"$top/closed "*"o+x"* ]] || fail "a closed way: $err"
none_left
