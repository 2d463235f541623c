# Four people for tests: owner, ada, ben and cy have a uid and a home each; root is none of them. Source it before live.sh.
# shellcheck shell=bash
if [ "$(id -u)" != 0 ] && [ -z "${HTC_PEOPLE_INSIDE:-}" ]; then
    # Whoever has subordinate uids is root over them in a namespace.
    if ! unshare --user --map-root-user --map-auto true 2> /dev/null; then
        echo "skipped: three uids are needed: neither root nor subordinate uids (/etc/subuid)"
        exit 77
    fi
    HTC_PEOPLE_INSIDE=1 exec unshare --user --map-root-user --map-auto "$0" "$@"
fi

owner=65101 ada=65102 ben=65103 cy=65104

people_begin()
{
    local name
    chmod 711 "$top"
    chmod 755 "$top/work"
    # What everybody can run, wherever the build lies.
    mkdir -p "$top/build/examples"
    cp "$bin"/htc "$bin"/htc-kvd "$bin"/htc-gateway "$bin"/htc-agent "$top/build/examples/" || exit 1
    find "$bin/.." -maxdepth 1 -name "libhtcsched.so*" ! -type d -exec cp -P {} "$top/build/" \;
    chmod -R go+rX "$top/build"
    for name in owner ada ben cy; do
        mkdir -m 700 "$top/home-$name"
        chown "${!name}:${!name}" "$top/home-$name"
    done
    dir=$top/state
    mkdir -m 700 "$dir"
    chown "$owner:$owner" "$dir"
    echo secret > "$top/password"
    chmod 644 "$top/password"
}

# person NAME: into words what makes a command that person's: the uid alone, and the home.
person()
{
    words=(env -C "$top" -u XDG_STATE_HOME -u XDG_RUNTIME_DIR HOME="$top/home-$1" LD_LIBRARY_PATH="$top/build"
        setpriv --reuid "${!1}" --regid "${!1}" --clear-groups)
}

# run_as NAME COMMAND...
run_as()
{
    local words
    person "$1"
    shift
    "${words[@]}" "$@"
}

# as NAME CODE WORDS...: htc --dir $dir WORDS... by that person has to end with this code.
as()
{
    local code=$2 words
    person "$1"
    shift 2
    expect "$code" "${words[@]}" "$top/build/examples/htc" --dir "$dir" "$@"
}
