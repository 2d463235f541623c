# Hosts of a test: network namespaces with a bridge between them, in namespaces of the test's own. Nothing of the machine's network is touched. Usage: declare -A
# address=([NAME]=ADDRESS...) and source it, first of all. Each has a folder $top/NAME with a key. 77: no such namespaces here.
if [ -z "${HTC_TEST_HOSTS:-}" ]; then
    [ "$(id -u)" = 0 ] && command -v ip > /dev/null && unshare --mount --net true 2> /dev/null || { echo "skipped: no network namespaces here"; exit 77; }
    HTC_TEST_HOSTS=1 exec unshare --mount --net bash "$0" "$@"
fi
# shellcheck source=tests/live/live.sh
source "$(dirname "$0")/live.sh"
mount -t tmpfs none /run && ip link add hub type bridge && ip link set hub up || skip "no bridge here"
for host in "${!address[@]}"; do
    ip netns add "$host" && ip link add "to-$host" type veth peer name eth0 netns "$host" || skip "no namespaces here"
    ip link set "to-$host" master hub up
    ip -n "$host" address add "${address[$host]}/24" dev eth0
    ip -n "$host" link set eth0 up
    ip -n "$host" link set lo up
    mkdir -m 700 "$top/$host"
    expect 0 "$htc" keys new "$top/$host/key"
done
on() { ip netns exec "$@"; } # HOST COMMAND... In the background its process is a shell above it
pin() { expect 0 "$htc" keys add "$1" "$("$htc" keys show "$top/$1/key")" --role "$2" --ring "$top/$3/ring"; } # WHO ROLE WHERE
cut() { ip link set "to-$1" down; } # without a word to anybody
mend() { ip link set "to-$1" up; }

# desk_knows HEAD...: the user's host, desk, has their keys where htc looks for them.
desk_knows()
{
    local head
    mkdir -p "$top/desk/.config/htcsched"
    cp "$top/desk/key" "$top/desk/.config/htcsched/key"
    for head in "$@"; do expect 0 "$htc" keys add "$head" "$("$htc" keys show "$top/$head/key")" --role member --ring "$top/desk/.config/htcsched/ring"; done
}
