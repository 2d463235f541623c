#!/bin/bash
# usage: drmaa.sh PROGRAM_FOLDER DRMAA_PROGRAM DRMAA_LIBRARY
# DRMAA against a real system: a program written from the standard's document (drmaa.c), Debian's python3-drmaa where it is installed, the
# example, job categories, another user's session; that no option of htc submit is forgotten; that nothing is printed.
program=$(realpath "$2") library=$(realpath "$3") source=$(realpath "$(dirname "$0")/../..")
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")
bulk=10000
[ -z "${HTC_TEST_LIGHT:-}" ] || bulk=1000

# Where mail goes: a file for each message.
printf '#!/bin/sh\ncat > "%s/mail.$$"\n' "$top" > "$top/mailer"
chmod +x "$top/mailer"
printf '[server]\nmail_command = %s\n' "$top/mailer" > mail.ini
expect 0 "${H[@]}" up --config mail.ini
mkdir wd
expect 0 "$program" "$dir" $bulk
[ "$out" = 'drmaa: all is well' ] && [ -z "$err" ] || fail "it said: $out $err"
expect 0 "${H[@]}" tasks 4 --json # every attribute at once
expect 0 "${H[@]}" status 4 --json
[ "$(json "$out" '[(j["name"], j["priority"]) for j in v["jobs"]]')" = "[('every_attribute', 3)]" ] || fail "attributes: $out"
told() { grep -qs 'nobody@example.org' "$top"/mail.*; }
soon told || fail "nobody was told by mail: $(ls "$top")"
echo "ok: the standard's functions, $bulk jobs by one request"

# --- answers that are lost ---
mkdir lossy
for name in "$dir"/*; do
    [ "$(basename "$name")" = gateway.sock ] || ln -s "$name" lossy/
done
python3 - "$dir/gateway.sock" lossy/gateway.sock > lost 2> proxy_err << 'END' &
import re, socket, sys, threading
kept = {b"hold", b"release"}
def pump(one, two, state, asks):
    try:
        while data := one.recv(65536):
            if asks:
                for op in re.findall(rb'"op": ?"(\w+)"', data):
                    if op in kept:
                        kept.discard(op)
                        state["lose"] = op
            elif op := state.pop("lose", None): # it was done, and nobody is told
                print(op.decode(), flush=True)
                break
            two.sendall(data)
    except OSError:
        pass
    for k in one, two:
        try:
            k.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
at = socket.socket(socket.AF_UNIX)
at.bind(sys.argv[2])
at.listen()
while True:
    asks, _ = at.accept()
    answers = socket.socket(socket.AF_UNIX)
    answers.connect(sys.argv[1])
    state = {}
    for one, two, which in (asks, answers, True), (answers, asks, False):
        threading.Thread(target=pump, args=(one, two, state, which), daemon=True).start()
END
proxy=$!
soon test -S lossy/gateway.sock || fail "no proxy: $(cat proxy_err)"
HTC_DRMAA_CONTACT=dir=$PWD/lossy expect 0 "$program" lost
[ "$out" = 'drmaa: all is well' ] && [ "$(sort lost | tr '\n' ' ')" = 'hold release ' ] || fail "lost answers: $out $err, lost: $(cat lost) $(cat proxy_err)"
kill $proxy
wait $proxy 2> /dev/null || true
echo "ok: what is asked again when its answer was lost"

# --- the options of htc submit: each is taken, or refused with a reason ---
expect 0 "$htc" submit --help
for option in $(grep -oE '^ +(-.,)? +--[a-z-]+' <<< "$out" | grep -oE '[a-z]+[a-z-]*$'); do
    grep -qE "^    \{ \"$option\", " "$source/lib/drmaa/native.c" || fail "lib/drmaa/native.c does not know --$option of htc submit"
done

# --- the example; categories; another user ---
export HTC_DIR=$dir
printf '# what our jobs are like\nquick: --time 1 --name quick\n' > categories
expect 0 "$bin/drmaa-sweep" 5 /bin/sh -c 'exit $((DRMAA_INDEX % 2))'
[ "$(tail -n 1 <<< "$out")" = '5 jobs: 2 ended well, 3 did not' ] || fail "the example: $out"
HTC_DRMAA_CATEGORIES=$top/work/categories DRMAA_SWEEP_CATEGORY=quick expect 0 "$bin/drmaa-sweep" 2 /bin/true
expect 0 "${H[@]}" status last --json
[ "$(json "$out" 'v["jobs"][0]["name"]')" = quick ] || fail "a category: $out"
echo secret > password
if "${H[@]}" user add ada --password-file password $([ "$(id -u)" = 0 ] && echo --uid 65102:65102) > added 2>&1 && ! grep -q refused added; then
    HTC_DRMAA_CONTACT="dir=$dir;user=ada" expect 0 "$bin/drmaa-sweep" 2 /bin/true
    expect 0 "${H[@]}" status last --user ada --json
    [ "$(json "$out" '(v["jobs"][0]["user"], v["jobs"][0]["count"])')" = "('ada', 2)" ] || fail "ada's session: $out"
    echo "ok: a session of another user"
fi

# --- Python ---
# Debian's module is there for Debian's Python, and a sanitizer's library for programs that were built with it.
python= missing="python3-drmaa is not installed"
for one in python3 /usr/bin/python3; do
    "$one" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("drmaa") is None)' 2> /dev/null && python=$one
done
! nm -D "$library" | grep -E '__(asan|tsan)_' > /dev/null || python= missing="the library is a sanitizer's"
if [ -n "$python" ]; then
    DRMAA_LIBRARY_PATH=$library expect 0 "$python" - << 'END'
import drmaa
with drmaa.Session() as s:
    assert s.version.major == 1
    jt = s.createJobTemplate()
    jt.remoteCommand, jt.args, jt.joinFiles = '/bin/sh', ['-c', 'exit $DRMAA_INDEX'], True
    ids = s.runBulkJobs(jt, 1, 5, 2)
    s.synchronize(ids, drmaa.Session.TIMEOUT_WAIT_FOREVER, False)
    assert [s.wait(i).exitStatus for i in ids] == [1, 3, 5]
    assert s.jobStatus(ids[0]) == drmaa.JobState.FAILED
    jt.args = ['-c', 'sleep 600']
    job = s.runJob(jt)
    s.control(job, drmaa.JobControlAction.TERMINATE)
    info = s.wait(job)
    assert info.hasSignal or info.wasAborted, info
    try:
        s.wait(job)
        raise SystemExit('a job was waited for twice')
    except drmaa.InvalidJobException:
        pass
    s.deleteJobTemplate(jt)
END
    echo "ok: Python"
else
    echo "left out: Python: $missing"
fi
unset HTC_DIR
expect 0 "${H[@]}" down
none_left
echo "drmaa: all is well"
