#!/usr/bin/env python3
"""usage: portal.py PROGRAM_FOLDER
The portal as its page uses it: who is let in and who is not, that its document is the one of htc generate, a job from its submission to its outputs,
the stream of events, and that nobody who holds on keeps others out."""
import hashlib
import http.client
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time

from portal_system import Client, System, check

LIMIT = 150 * 1024  # bytes of the first paint


def page(s):
    c, total = Client(s), 0
    scripts = re.findall(r'src="([a-z0-9_]+\.js)"', c.send("GET", "/").read().decode())
    check(len(scripts) == 5, "the page has its scripts", scripts)
    for path, kind in (("/", "text/html"), ("/portal.css", "text/css"), *(("/" + name, "text/javascript") for name in scripts)):
        r = c.send("GET", path)
        text = r.read().decode()
        total += len(text.encode())
        check(r.status == 200 and r.getheader("Content-Type").startswith(kind), path + " is there")
        for name, value in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"), ("X-Frame-Options", "DENY")):
            check(r.getheader(name) == value, "%s of %s is %s" % (name, path, value))
        rules = r.getheader("Content-Security-Policy")
        check("default-src 'none'" in rules and "unsafe" not in rules and "form-action 'none'" in rules, "no script of elsewhere runs", rules)
        check(not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), path + " names nothing of elsewhere")
        check(not re.search(r"<script>|<style|\sstyle=|\son\w+=|javascript:", text), path + " has nothing inline")
        check(len(c.send("HEAD", path).read()) == 0, "HEAD has no body")
    check(total <= LIMIT, "the page is small", total)


def strangers(s):
    c = Client(s)

    def refused(method, path, status, error, body=None, **headers):
        r = c.send(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        o = json.loads(r.read())
        check((r.status, o["error"]) == (status, error), "%s %s %s" % (method, path, headers), "is answered", r.status, o)

    ask, wrong = b"{}", "htc_session=" + "0" * 64
    refused("GET", "/", 421, "HTC_EDENIED", Host="evil.example:%d" % s.port)
    refused("GET", "/", 421, "HTC_EDENIED", Host=None)
    refused("GET", "/", 421, "HTC_EDENIED", Host=[s.address, s.address])
    refused("GET", "/", 421, "HTC_EDENIED", Host="127.0.0.1")
    check(c.send("GET", "/", headers={"Host": "localhost:%d" % s.port}).status == 200, "localhost is a name of it")
    refused("GET", "/etc/passwd", 404, "HTC_ENOTFOUND")
    refused("GET", "/../portal.js", 404, "HTC_ENOTFOUND")
    refused("PUT", "/", 405, "HTC_EINVAL")
    refused("OPTIONS", "/api/status", 405, "HTC_EINVAL")
    refused("GET", "/events", 401, "HTC_EAUTH")
    refused("GET", "/output?job=1&task=0&name=stdout", 401, "HTC_EAUTH")
    refused("GET", "/output?job=1&task=0&name=stdout", 403, "HTC_EDENIED", Cookie=wrong, Sec_Fetch_Site="cross-site")
    refused("POST", "/api/status", 401, "HTC_EAUTH", ask)
    refused("POST", "/api/status", 401, "HTC_EAUTH", ask, Cookie=wrong)
    refused("POST", "/api/status", 401, "HTC_EAUTH", ask, Cookie=wrong + "; " + wrong)
    refused("POST", "/api/status", 401, "HTC_EAUTH", ask, Cookie="htc_session=" + "0" * 63)
    refused("POST", "/api/status", 403, "HTC_EDENIED", ask, Cookie=wrong, X_HTC_Portal=None)
    refused("POST", "/api/status", 403, "HTC_EDENIED", ask, Cookie=wrong, Origin="http://evil.example")
    refused("POST", "/api/status", 403, "HTC_EDENIED", ask, Cookie=wrong, Origin="null")
    refused("POST", "/api/status", 403, "HTC_EDENIED", ask, Cookie=wrong, Origin="https://" + s.address)
    refused("POST", "/api/status", 415, "HTC_EINVAL", ask, Cookie=wrong, Content_Type="text/plain")
    refused("POST", "/api/status", 411, "HTC_EINVAL", ask, Cookie=wrong, Transfer_Encoding="chunked")
    refused("POST", "/api/status", 411, "HTC_EINVAL", ask, Cookie=wrong, Content_Length=["2", "2"])
    refused("POST", "/api/status", 411, "HTC_EINVAL", ask, Cookie=wrong, Content_Length="-1")
    refused("POST", "/api/status", 413, "HTC_ETOOBIG", b"", Cookie=wrong, Content_Length=str(1 << 30))
    refused("POST", "/login", 413, "HTC_ETOOBIG", b"", Content_Length="100000")
    refused("POST", "/login", 403, "HTC_EDENIED", ask, Origin="http://evil.example")
    for body in (b"", b"[]", b'"x"', b"\0"):
        refused("POST", "/login", 400, "HTC_EJSON", body, Content_Length=str(len(body)))
    refused("POST", "/login", 400, "HTC_EJSON", b'{"op":"ping","name":"a","password":"b"}')
    for op in ("login", "logout", "shutdown", "user.add", "wait", "", "status/"):
        refused("POST", "/api/" + op, 404, "HTC_ENOTFOUND", ask, Cookie=wrong)
    refused("GET", "/" + "x" * 9000, 431, "HTC_EPROTO")
    for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n bad\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\n"):
        with socket.create_connection(("127.0.0.1", s.port), timeout=60) as k:
            k.sendall(raw)
            check(k.recv(1000).startswith(b"HTTP/1.1 400 "), "nonsense is answered 400", raw)


def sessions(s):
    c = Client(s)
    o = c.login(s.owner, "wrong", status=401)
    check(o["error"] == "HTC_EAUTH" and c.cookie is None, "a wrong password is refused", o)
    o = c.login(s.owner)
    check(o["user"] == s.owner and "token" not in o, "a login does not tell the page its token", o)
    flags = [f.strip() for f in c.set_cookie.split(";")[1:]]
    check(flags == ["Path=/", "HttpOnly", "SameSite=Strict"], "the cookie's flags", flags)
    token = c.cookie.split("=")[1]
    for o in ({"token": token}, {"op": "shutdown"}, {"token": "x"}):
        check(c.post("/api/status", o, 400)["error"] == "HTC_EJSON", "a request says neither token nor operation", o)
    c.ask("status")
    stream = c.events()
    check(next(stream)[0] == "jobs", "the stream begins with the jobs")
    r = c.send("POST", "/logout", b"{}")
    check(r.status == 200 and "Max-Age=0" in r.getheader("Set-Cookie"), "the cookie is taken back")
    check(c.ask("status", 401)["error"] == "HTC_EAUTH", "after a logout the token is nothing")
    check([e for e, _ in stream][-1] == "over", "an open stream ends with the session")


def generated(s, c):
    with open(os.path.join(s.top, "A"), "w") as f:
        f.write("one\ntwo\nthree & four\n")
    with open(os.path.join(s.top, "B"), "w") as f:
        f.write("x\ny\n")
    files = {n: open(os.path.join(s.top, n)).read() for n in "AB"}
    cases = [
        (["--exe", "echo", "--args", "hello"], dict(exe="echo", args="hello")),
        (["--exe", "/bin/echo", "--args", "-n 'a b' {x} --y={y} \"<&>\"", "--sweep", "x=1:100:5", "--sweep", "y=a,b,c"],
         dict(exe="/bin/echo", args="-n 'a b' {x} --y={y} \"<&>\"", sweeps=["x=1:100:5", "y=a,b,c"])),
        (["--exe", "printf", "--args", "{x}", "--sweep", "x=@A", "-J", "näme", "-t", "90s", "-m", "512M", "-c", "2", "--env", "K={x}"],
         dict(exe="printf", args="{x}", sweeps=["x=@A"], name="näme", time_limit=90, memory=512 << 20, cores=2, env=["K={x}"], files=files)),
        (["--exe", "cmp", "--args", "{1} {2}", "--pairs", "A", "B"], dict(exe="cmp", args="{1} {2}", pairs={"a": "A", "b": "B"}, files=files)),
        (["--exe", "cmp", "--args", "{1} {2}", "--pairs", "A", "A", "--unordered"],
         dict(exe="cmp", args="{1} {2}", pairs={"a": "A", "b": "A", "unordered": True}, files=files)),
        (["--exe", "echo", "--args", "{x}", "--sweep", "x=1:3", "--gpus", "2", "--container", "docker://a/b:1", "--project", "do & ck"],
         dict(exe="echo", args="{x}", sweeps=["x=1:3"], gpus=2, container="docker://a/b:1", project="do & ck")),
        (["--exe", "echo", "--args", "{array} {x}", "--sweep", "x=1:3", "--array", "1-100:2%5", "--hosts", "a,b.example.org", "--arch", "X86_64", "--os", "linux"],
         dict(exe="echo", args="{array} {x}", sweeps=["x=1:3"], array="1-100:2%5", hosts="a,b.example.org", arch="X86_64", os="linux")),
        (["--exe", "echo", "--array", "1,7-9", "--env", "K=1", "-c", "64", "--node-cores", "16", "--workdir", "/scratch/a b"],
         dict(exe="echo", array="1,7-9", env=["K=1"], cores=64, node_cores=16, workdir="/scratch/a b")),
        (["--exe", "echo", "--array", "5", "--res", "matlab=2", "--res", "disk=1", "--gpus", "1"], dict(exe="echo", array="5", res=["matlab=2", "disk=1"], gpus=1)),
    ]
    for words, o in cases:
        got, want = c.ask("generate", **o), s.htc("generate", *words)
        check(got["jsdl"] == want, "the document is the one of htc generate", words, got["jsdl"], want)
        check(got["count"] == int(json.loads(s.htc("generate", "--json", *words))["count"]), "and so is its number of tasks", words)
        check(c.ask("validate", jsdl=want)["count"] == got["count"], "validate counts the same")
    for o, error in ((dict(exe="", args="x"), "HTC_EUSAGE"), (dict(exe="x", args="'"), "HTC_EUSAGE"), (dict(exe="x", sweeps="y"), "HTC_EINVAL"),
                     (dict(exe="x", array="7-1"), "HTC_EUSAGE"), (dict(exe="x", res=["gpu"]), "HTC_EUSAGE"), (dict(exe="x", workdir="here"), "HTC_EPATH"),
                     (dict(exe="x", arch="z80"), "HTC_EUSAGE"), (dict(exe="x", hosts="a,,b"), "HTC_EUSAGE"), (dict(exe="x", args="{y}"), "HTC_EUSAGE"), (dict(exe="x", sweeps=["x=@/etc/passwd"]), "HTC_EINPUT"), (dict(exe="x", env=["=1"]), "HTC_EUSAGE")):
        check(c.ask("generate", 400, **o)["error"] == error, "what cannot be generated is refused", o)
    check(c.ask("validate", 400, jsdl="<x/>")["error"], "what is no document is refused")


def timed(what, *args):
    began = time.monotonic()
    what(*args)
    if os.environ.get("HTC_TEST_TIMES"):
        print("%5.1f s %s" % (time.monotonic() - began, what.__name__))


def until(stream, event, good):
    """The first of these events that is good; a stream that says no more fails by its time-out."""
    for e, o in stream:
        if e == event and good(o):
            return o
    check(False, "the stream ended")


def jobs(s, c, other):
    doc = c.ask("generate", exe="sh", args="-c 'echo out {x}; echo err {x} >&2; echo kept {x} > $HTC_OUTPUT_DIR/a\\ b.txt; exit $(( {x} == 3 ))'", sweeps=["x=1:4"])
    key = os.urandom(16).hex()
    job = c.ask("submit", jsdl=doc["jsdl"], key=key)
    check(c.ask("submit", jsdl=doc["jsdl"], key=key)["id"] == job["id"], "pressed twice it is one job")
    n = job["id"]
    stream, second = c.events("?job=%d" % n), c.events("?job=%d" % n)
    o = until(stream, "job", lambda o: o["jobs"][0]["state"] == "done_with_failures")["jobs"][0]
    check((o["tasks"]["done"], o["tasks"]["failed"]) == (3, 1), "one task fails", o)
    until(second, "job", lambda o: o["jobs"][0]["state"] == "done_with_failures")
    check("why" in until(c.events("?job=%d" % n), "why", lambda o: True), "why comes too")
    failed = c.ask("tasks", id=str(n), failed=True)["tasks"]
    check([t["index"] for t in failed] == [2], "the failed task is found", failed)
    check(c.ask("log", id="%d.0" % n)["text"] == "out 1\n" and c.ask("log", id="%d.2" % n, stream="stderr")["text"] == "err 3\n", "logs are read")
    names = sorted(o["name"] for o in c.ask("results", id="%d.1" % n)["results"][0]["outputs"])
    check(names == ["a b.txt", "stderr", "stdout"], "outputs are listed", names)
    r = c.send("GET", "/output?job=%d&task=1&name=a%%20b.txt" % n)
    check((r.status, r.read()) == (200, b"kept 2\n"), "an output is downloaded")
    check(r.getheader("Content-Disposition") == 'attachment; filename="%d.1-a_b.txt"' % n and r.getheader("Content-Type") == "application/octet-stream",
          "as a file, whatever it says", r.getheader("Content-Disposition"))
    for query, status in (("job=%d&task=1&name=nothing" % n, 404), ("job=%d&task=1&name=../../x" % n, 400), ("job=%d&task=1&name=a%%00" % n, 400), ("job=x&task=1&name=a", 400),
                          ("job=%d&task=1" % n, 400), ("job=99999&task=0&name=stdout", 404)):
        check(c.send("GET", "/output?" + query).status == status, "/output?%s is %d" % (query, status))
    check(c.ask("retry", id=str(n), failed=True)["retried"] == 1, "a failed task is tried again")
    until(c.events("?job=%d" % n), "job", lambda o: o["jobs"][0]["attempts"] == 5 and o["jobs"][0]["state"] == "done_with_failures")

    # A file of several pieces.
    size = (3 << 20) + 17
    big = c.ask("submit", jsdl=c.ask("generate", exe="head", args="-c %d /dev/zero" % size)["jsdl"])["id"]
    until(c.events(), "jobs", lambda o: any(j["id"] == big and j["state"] == "done" for j in o["jobs"]))
    r = c.send("GET", "/output?job=%d&task=0&name=stdout" % big)
    check(r.read() == bytes(size) and r.getheader("Content-Length") == str(size), "a large output comes whole")

    # All outputs as an archive: of a job, of a task, with long names, folders and links; one that would lead out of it is named as missing.
    long = "d/" * 40 + "x" * 120
    made = c.ask("submit", jsdl=c.ask("generate", exe="sh", args="-c 'cd $HTC_OUTPUT_DIR; mkdir -p %s; echo {x} > %s; ln -s %s near; ln -s /etc/passwd far; "
                                      "printf \"%%2000000d\" {x} > big; : > none; mkdir empty; chmod +x big; echo out {x}'" % (os.path.dirname(long), long, long), sweeps=["x=1:3"])["jsdl"])["id"]
    until(c.events("?job=%d" % made), "job", lambda o: o["jobs"][0]["state"] == "done")
    for query, tasks in (("job=%d" % made, (0, 1, 2)), ("job=%d&task=1" % made, (1,))):
        r = c.send("GET", "/archive?" + query)
        check(r.status == 200 and r.getheader("Content-Disposition") == 'attachment; filename="job-%d%s.tar"' % (made, ".1" if len(tasks) == 1 else ""), "an archive is there", r.status)
        tar = tarfile.open(fileobj=io.BytesIO(r.read()))
        for t in tasks:
            read = lambda name: tar.extractfile("%d/%s" % (t, name)).read()
            check(read("stdout") == b"out %d\n" % (t + 1) and read(long) == b"%d\n" % (t + 1) and read("big") == b"%2000000d" % (t + 1) and read("none") == b"", "with every file")
            link, big = tar.getmember("%d/near" % t), tar.getmember("%d/big" % t)
            check(link.issym() and link.linkname == long and big.mode == 0o755 and tar.getmember("%d/empty" % t).isdir(), "link, mode and folder", link.linkname)
        names = tar.getnames()
        check({n.split("/")[0] for n in names} == {str(t) for t in tasks} | {"missing.txt"}, "and nothing else", sorted(names)[:20])
        check(not any(n.endswith("/far") for n in names) and b"far: a link that leaves" in tar.extractfile("missing.txt").read(), "what is not in it is named")
    for query, status in (("job=99999", 404), ("job=x", 400), ("job=%d&task=99" % made, 404), ("", 400)):
        check(c.send("GET", "/archive?" + query).status == status, "/archive?%s is %d" % (query, status))
    check(other.send("GET", "/archive?job=%d" % made).status == 404, "others get no archive of it")
    want = tarfile.open(fileobj=io.BytesIO(subprocess.run([s.htc_path, "--dir", s.state, "fetch", str(made), "--tar", "-"], capture_output=True, timeout=120).stdout))
    same = lambda tar: {(m.name, m.type, m.mode, m.size, m.linkname) for m in tar.getmembers() if m.name not in ("manifest.json", "missing.txt")}
    check(same(want) == same(tarfile.open(fileobj=io.BytesIO(c.send("GET", "/archive?job=%d" % made).read()))), "it is the archive of htc fetch --tar", same(want))

    # An output that is not what was stored: the archive breaks off, and is not taken for a whole one.
    damaged = [p for p in pathlib.Path(s.state, "data").rglob("big") if p.stat().st_size == 2000000][0]
    text = bytearray(damaged.read_bytes())
    text[1000000] ^= 1
    damaged.chmod(0o600)
    damaged.write_bytes(text)
    try:
        c.send("GET", "/archive?job=%d" % made).read()
        check(False, "an archive with a damaged output is whole")
    except http.client.IncompleteRead:
        pass

    # What belongs to somebody else.
    check(other.ask("status")["jobs"] == [], "others see nothing of it")
    for op, o in (("status", {}), ("cancel", {}), ("log", {"id": "%d.0" % n}), ("rm", {}), ("why", {})):
        check(other.ask(op, 404, **{"id": str(n), **o})["error"] == "HTC_ENOTFOUND", "to others it is not there", op)
    check(other.send("GET", "/output?job=%d&task=1&name=stdout" % n).status == 404, "others download nothing of it")
    check("error" in until(other.events("?job=%d" % n), "job", lambda o: True), "others hear nothing of it")
    for e, o in zip(range(3), other.events()):
        check(o[0] != "agents" or all("task" not in a for a in o[1]["agents"]), "the tasks of others are not named")

    slow = c.ask("submit", jsdl=c.ask("generate", exe="sh", args="-c 'sleep 600' {x}", sweeps=["x=1:3"])["jsdl"])["id"]
    until(c.events(), "jobs", lambda o: any(j["id"] == slow and j["tasks"]["running"] for j in o["jobs"]))
    until(c.events(), "users", lambda o: any(u["name"] == s.owner and u["agents"] for u in o["users"]))
    until(c.events(), "agents", lambda o: o["agents"] and o["sites"])
    check(c.ask("cancel", id=str(slow))["cancelled"] == 3, "a job is cancelled")
    until(c.events(), "jobs", lambda o: any(j["id"] == slow and j["state"] == "cancelled" for j in o["jobs"]))


def upload(c, content, piece=1 << 20, status=200, size=None, hash=None):
    hash, at, size = hash or hashlib.blake2b(content, digest_size=32).hexdigest(), 0, len(content) if size is None else size
    while True:
        r = c.send("POST", "/upload?hash=%s&size=%d&offset=%d" % (hash, size, at), content[at:at + piece], {"Content-Type": "application/octet-stream"})
        text, at = r.read(), at + piece
        if r.status != 200 or at >= len(content):
            check(r.status == status, "an upload is answered %d, not %d" % (r.status, status), text)
            return hash


def uploads(s, c, other):
    content, script = os.urandom((2 << 20) + 5), b"#!/bin/sh\nwc -c < data/in.bin\n"
    hashes = upload(c, content), upload(c, script)
    check(c.ask("blob", hash=hashes[0]) == {"size": len(content)}, "it is there")
    inputs = [{"name": "data/in.bin", "hash": hashes[0]}, {"name": "run.sh", "hash": hashes[1], "executable": True}]
    doc = c.ask("generate", exe="./run.sh", args="{x}", sweeps=["x=1:2"], inputs=inputs)["jsdl"]
    # Spec 7.27: the form and htc generate write the same document, byte for byte, but that one names the content and the other its file.
    os.mkdir(os.path.join(s.top, "data"))
    for name, bytes_, mode in (("data/in.bin", content, 0o644), ("run.sh", script, 0o755)):
        with open(os.path.join(s.top, name), "wb") as f:
            f.write(bytes_)
        os.chmod(os.path.join(s.top, name), mode)
    want = s.htc("generate", "--exe", "./run.sh", "--args", "{x}", "--sweep", "x=1:2", "-i", "data/in.bin=data/in.bin")
    for path, hash in zip(("data/in.bin", "run.sh"), hashes):
        want = want.replace("file:" + os.path.join(s.top, path), "htc:" + hash)
    check(doc == want, "inputs stand in the document as htc generate writes them", doc, want)
    job = c.ask("submit", jsdl=doc)["id"]
    until(c.events("?job=%d" % job), "job", lambda o: o["jobs"][0]["state"] == "done")
    check(c.ask("log", id="%d.1" % job)["text"].strip() == str(len(content)), "tasks have what was uploaded")
    # Not what it says, too large, nonsense, nobody's.
    upload(c, b"abc", hash="0" * 64, status=400)
    upload(c, b"abc", size=2, status=400)
    upload(c, b"a", size=1 << 45, status=413)
    for query in ("", "hash=xx&size=1&offset=0", "hash=%s&size=1" % ("0" * 64), "hash=%s&size=1&offset=-1" % ("0" * 64), "hash=%s&hash=%s&size=1&offset=0" % ("0" * 64, "0" * 64)):
        check(c.send("POST", "/upload?" + query, b"a", {"Content-Type": "application/octet-stream"}).status == 400, "nonsense is refused", query)
    big = {"Content-Type": "application/octet-stream"}
    check(c.send("POST", "/upload?x", b"", {**big, "Content-Length": str((1 << 20) + 1)}).status == 413, "a piece has at most 1 MiB")
    check(c.send("POST", "/upload?x", b"{}").status == 415, "and is no JSON")
    check(c.send("POST", "/upload?x", b"a", {**big, "X-HTC-Portal": None}).status == 403, "and comes from the page")
    check(Client(s).send("POST", "/upload?x", b"a", big).status == 401, "of somebody who is logged in")


def over_time(s, c):
    job = c.ask("submit", jsdl=c.ask("generate", exe="sleep", args="600")["jsdl"])["id"]
    has_cores = lambda o: any(u["name"] == s.owner and any(u["cores"]) for u in o["users"])
    while not has_cores(c.ask("history")):
        time.sleep(0.1)  # a point a second
    check(c.ask("hold", id=str(job))["held"] == 1 and c.ask("status", id=str(job))["jobs"][0]["state"] == "paused", "a job is held")
    check(c.ask("release", id=str(job))["released"] == 1 and c.ask("cancel", id=str(job))["cancelled"] == 1, "and released")


def crowds(s, c):
    # Silent connections: more than there is room for.
    held = [socket.create_connection(("127.0.0.1", s.port), timeout=60) for _ in range(200)]
    for k in held[150:]:
        k.sendall(b"POST /login HTTP/1.1\r\nHost: ")
    c.ask("status")
    # A body that does not come holds no more than its place.
    for k in held:
        k.close()
    streams = [c.events() for _ in range(8)]
    for x in streams:
        next(x)
    r = c.send("GET", "/events")
    check(r.status == 503 and json.loads(r.read())["error"] == "HTC_EBUSY", "a session has so many streams", r.status)
    c.ask("status")


def guesses(s):
    """Wrong passwords of many connections keep nobody else out."""
    over = threading.Event()

    def guess(name):
        while not over.is_set():
            try:
                r = Client(s).send("POST", "/login", json.dumps({"name": name, "password": "wrong"}).encode())
                r.read()
                said.append(r.status)
            except OSError:
                pass  # the system has ended, or had to make room

    said = []
    threads = [threading.Thread(target=guess, args=(("ada", "nobody")[i % 2],), daemon=True) for i in range(8)]
    for t in threads:
        t.start()
    for _ in range(8):
        Client(s).login(s.owner)
    while not said:
        time.sleep(0.01)
    over.set()
    check(set(said) <= {401, 503}, "a wrong password is refused", said)


def beyond(s):
    for address in ("0.0.0.0:7071", "7071", "localhost:7071"):
        with open(os.path.join(s.top, "bad.ini"), "w") as f:
            f.write("[server]\nportal = %s\n" % address)
        s.htc("--dir", os.path.join(s.top, "bad"), "up", "--config", os.path.join(s.top, "bad.ini"), rc=1)


programs = sys.argv[1]
with System(programs) as s:
    timed(page, s)
    timed(strangers, s)
    timed(sessions, s)
    owner, ada = Client(s), Client(s)
    owner.login(s.owner)
    ada.login("ada")
    timed(generated, s, owner)
    timed(jobs, s, owner, ada)
    timed(uploads, s, owner, ada)
    timed(over_time, s, owner)
    fresh = Client(s)
    fresh.login(s.owner)
    timed(crowds, s, fresh)
    timed(guesses, s)
    timed(beyond, s)
print("portal: ok")
