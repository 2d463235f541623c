#!/usr/bin/env python3
"""usage: portal.py PROGRAM_FOLDER
The portal as its page uses it: who is let in and who is not, that its document is the one of htc generate, a job from its submission to its outputs,
the stream of events, and that nobody who holds on keeps others out."""
import json
import os
import re
import socket
import sys
import threading
import time

from portal_system import Client, System, check

LIMIT = 150 * 1024  # bytes of the first paint


def page(s):
    c, total = Client(s), 0
    for path, kind in (("/", "text/html"), ("/portal.js", "text/javascript"), ("/portal.css", "text/css")):
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
    ]
    for words, o in cases:
        got, want = c.ask("generate", **o), s.htc("generate", *words)
        check(got["jsdl"] == want, "the document is the one of htc generate", words, got["jsdl"], want)
        check(got["count"] == int(json.loads(s.htc("generate", "--json", *words))["count"]), "and so is its number of tasks", words)
        check(c.ask("validate", jsdl=want)["count"] == got["count"], "validate counts the same")
    for o, error in ((dict(exe="", args="x"), "HTC_EUSAGE"), (dict(exe="x", args="'"), "HTC_EUSAGE"), (dict(exe="x", sweeps="y"), "HTC_EINVAL"),
                     (dict(exe="x", args="{y}"), "HTC_EUSAGE"), (dict(exe="x", sweeps=["x=@/etc/passwd"]), "HTC_EINPUT"), (dict(exe="x", env=["=1"]), "HTC_EUSAGE")):
        check(c.ask("generate", 400, **o)["error"] == error, "what cannot be generated is refused", o)
    check(c.ask("validate", 400, jsdl="<x/>")["error"], "what is no document is refused")


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

    # What belongs to somebody else.
    check(other.ask("status")["jobs"] == [], "others see nothing of it")
    for op, o in (("status", {}), ("cancel", {}), ("log", {"id": "%d.0" % n}), ("rm", {}), ("why", {})):
        check(other.ask(op, 403, **{"id": str(n), **o})["error"] == "HTC_EDENIED", "others are refused", op)
    check(other.send("GET", "/output?job=%d&task=1&name=stdout" % n).status == 403, "others download nothing of it")
    check("error" in until(other.events("?job=%d" % n), "job", lambda o: True), "others hear nothing of it")
    for e, o in zip(range(3), other.events()):
        check(o[0] != "agents" or all("task" not in a for a in o[1]["agents"]), "the tasks of others are not named")

    slow = c.ask("submit", jsdl=c.ask("generate", exe="sh", args="-c 'sleep 600' {x}", sweeps=["x=1:3"])["jsdl"])["id"]
    until(c.events(), "jobs", lambda o: any(j["id"] == slow and j["tasks"]["running"] for j in o["jobs"]))
    until(c.events(), "users", lambda o: any(u["name"] == s.owner and u["agents"] for u in o["users"]))
    until(c.events(), "agents", lambda o: o["agents"] and o["sites"])
    check(c.ask("cancel", id=str(slow))["cancelled"] == 3, "a job is cancelled")
    until(c.events(), "jobs", lambda o: any(j["id"] == slow and j["state"] == "cancelled" for j in o["jobs"]))


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
            r = Client(s).send("POST", "/login", json.dumps({"name": name, "password": "wrong"}).encode())
            r.read()
            said.append(r.status)

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
    page(s)
    strangers(s)
    sessions(s)
    owner, ada = Client(s), Client(s)
    owner.login(s.owner)
    ada.login("ada")
    generated(s, owner)
    jobs(s, owner, ada)
    fresh = Client(s)
    fresh.login(s.owner)
    crowds(s, fresh)
    guesses(s)
    beyond(s)
print("portal: ok")
