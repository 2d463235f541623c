#!/usr/bin/env python3
"""usage: portal_hostile.py PROGRAM_FOLDER
The portal and those who mean harm, with an account or without: sessions that are planted, requests hidden in requests, names that leave their directory,
other people's jobs, bodies and uploads without end, streams that are not read. Scripts in names and requests of other sites: portal_browser.py."""
import hashlib
import json
import os
import socket
import sys

from portal_system import Client, System, check


def job_of(c, command, **more):
    return c.ask("submit", jsdl=c.ask("generate", exe="sh", args="-c '%s'" % command)["jsdl"], **more)["id"]


def wait_for(c, job, state):
    for event, o in c.events("?job=%d" % job):
        if event == "job" and o["jobs"][0]["state"] == state:
            return
        check(event != "job" or not o["jobs"][0]["state"].startswith("done"), "a job ends as it should", o, c.ask("tasks", id=str(job)))
    check(False, "the stream ended")


def planted_sessions(s):
    """A session that somebody else has put into the browser is not the one that a login gives, and counts no more for it."""
    mallory, victim = Client(s), Client(s)
    mallory.login("ada")
    victim.cookie = mallory.cookie
    victim.login(s.owner)
    check(victim.cookie != mallory.cookie, "a login has a session of its own")
    victim.ask("status")
    made_up = Client(s)
    made_up.cookie = "htc_session=" + "a" * 64
    made_up.login("ada")
    check(made_up.cookie != "htc_session=" + "a" * 64, "nobody's session is taken over")
    both = Client(s)  # two of them, as from two paths: neither is believed
    both.cookie = mallory.cookie + "; " + victim.cookie
    check(both.ask("status", 401)["error"] == "HTC_EAUTH", "two sessions are none")
    for cookie in ("htc_session=" + victim.cookie.split("=")[1].upper(), "HTC_SESSION=" + victim.cookie.split("=")[1], victim.cookie + "x", "x" + victim.cookie,
                   'htc_session="%s"' % victim.cookie.split("=")[1], victim.cookie.replace("=", "= ")):
        both.cookie = cookie
        check(both.ask("status", 401)["error"] == "HTC_EAUTH", "what is nearly a session is none", cookie[:20])


def raw(s, data):
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as k:
        k.sendall(data)
        got = b""
        try:
            while piece := k.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
        return got


def hidden_requests(s, c):
    """One connection is one request: what stands behind it, or between two ways to read its length, is never another one."""
    job = job_of(c, "sleep 600", paused=True)
    body = json.dumps({"id": str(job)}).encode()
    head = "Host: %s\r\nOrigin: http://%s\r\nCookie: %s\r\nX-HTC-Portal: 1\r\nContent-Type: application/json\r\n" % (s.address, s.address, c.cookie)
    hidden = ("POST /api/cancel HTTP/1.1\r\n" + head + "Content-Length: %d\r\n\r\n" % len(body)).encode() + body
    first = lambda fields, text: ("POST /api/ping HTTP/1.1\r\n" + head + fields + "\r\n").encode() + text
    cases = [
        (first("Content-Length: 2\r\n", b"{}") + hidden, 200),
        (("GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % s.address).encode() + hidden, 200),
        (("GET / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n" % (s.address, len(hidden))).encode() + hidden, 200),
        (("GET / HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % s.address).encode() + hidden, 200),
        (("GET / HTTP/1.0\r\nHost: %s\r\nConnection: keep-alive\r\n\r\n" % s.address).encode() + hidden, 200),
        (first("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n") + hidden, 411),
        (first("Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n") + hidden, 411),
        (first("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", b"{}") + hidden, 411),
        (first("Content-Length: 2\r\nContent-Length: %d\r\n" % (len(hidden) + 2), b"{}") + hidden, 411),
        (first("Content-Length: 2, 2\r\n", b"{}") + hidden, 411),
        (first("Content-Length: +2\r\n", b"{}") + hidden, 411),
        (first("Content-Length: 0x2\r\n", b"{}") + hidden, 411),
        (first("Content-Length: 99999999999999999999\r\n", b"{}") + hidden, 411),
        (first("Content-Length : 2\r\n", b"{}") + hidden, 400),
        (first("Transfer-Encoding : chunked\r\nContent-Length: 2\r\n", b"{}") + hidden, 400),
        (first("Content-Length: 2\r\n Transfer-Encoding: chunked\r\n", b"{}") + hidden, 400),
        (first("X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n", b"{}") + hidden, 400),
        (first("X: \0\r\nContent-Length: 2\r\n", b"{}") + hidden, 400),
        (first("Host: evil.example\r\nContent-Length: 2\r\n", b"{}") + hidden, 421),
        (("GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (s.address, s.address)).encode() + hidden, 400),
        (("GET /\t/x HTTP/1.1\r\nHost: %s\r\n\r\n" % s.address).encode() + hidden, 400),
    ]
    for data, status in cases:
        got = raw(s, data)
        check(got.startswith(b"HTTP/1.1 %d " % status), "it is answered", status, got[:60], data[:300])
        check(got.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in got, "once, and then the connection ends", data[:300])
    check(c.ask("status", id=str(job))["jobs"][0]["state"] == "paused", "nothing that was hidden is done")
    # A name that would become a field of the answer does not.
    r = c.send("GET", "/output?job=%d&task=0&name=a%%0d%%0aSet-Cookie:%%20x=y" % job)
    check(r.getheader("Set-Cookie") is None, "no field is smuggled into an answer")
    check(c.ask("cancel", id=str(job))["cancelled"] == 1, "it was there all the time")
    for path in ("/api/cancel", "/api/rm", "/logout", "/upload", "/login"):
        check(c.send("GET", path + "?id=%d" % job).status == 404, "nothing changes by a link", path)


def names_that_leave(s, c):
    job = job_of(c, "cd $HTC_OUTPUT_DIR; ln -s /etc/passwd far; ln -s . here; echo kept > kept; mkdir d; echo in > d/e; touch \\<b\\>.html")
    wait_for(c, job, "done")
    get = lambda name: c.send("GET", "/output?job=%d&task=0&name=%s" % (job, name))
    check(get("kept").read() == b"kept\n" and get("d/e").read() == b"in\n" and get("d%2Fe").read() == b"in\n", "outputs are read")
    for name in ("../kept", "..%2Fkept", "%2e%2e%2fkept", "d/../../kept", "d%2F..%2F..%2Fkept", "/etc/passwd", "%2Fetc%2Fpasswd", "far", "here/kept", "here/far", "far/x", ".", "..", "d", "d/",
                 "kept%00", "kept/", "./kept", "d//e", "%252e%252e%252fkept", "kept%", "%zz", ""):
        r = get(name)
        text = r.read()
        check(r.status in (400, 403, 404) and b"root:" not in text, "no file of elsewhere is read", name, r.status, text[:100])
    r = get("%3Cb%3E.html")
    check(r.status == 200 and r.getheader("Content-Disposition") == 'attachment; filename="%d.0-_b_.html"' % job and r.getheader("Content-Type") == "application/octet-stream" and
          r.getheader("X-Content-Type-Options") == "nosniff", "an output is never shown as a page", r.getheaders())
    for query in ("job=%d&job=1&task=0&name=kept" % job, "job=%d&task=0&name=kept&name=far" % job, "job=-1&task=0&name=kept", "job=%d&task=1e0&name=kept" % job,
                  "job=99999999999999999999&task=0&name=kept"):
        check(c.send("GET", "/output?" + query).status == 400, "what is said twice, or is no number, is refused", query)
    for page in ("/..", "/%2e%2e/etc/passwd", "//etc/passwd", "/portal.js/", "/portal.js%00", "/index.html", "/README.md"):
        check(c.send("GET", page).status == 404, "no other file is served", page)
    bad = [{"name": n, "hash": "0" * 64} for n in ("../x", "/x", "a/../../x", "")]
    for one in bad:
        check(c.ask("generate", 400, exe="true", inputs=[one])["error"] in ("HTC_EPATH", "HTC_EINVAL"), "an input stays in its task", one)


def other_people(s, c, other):
    job = job_of(c, "echo secret; sleep 600", name="secret name")
    wait_for(c, job, "running")
    one = "%d.0" % job
    asked = [("status", {"id": str(job)}), ("tasks", {"id": str(job)}), ("results", {"id": str(job)}), ("why", {"id": str(job)}), ("why", {"id": one}), ("log", {"id": one}),
             ("du", {"id": str(job)}), ("cancel", {"id": str(job)}), ("cancel", {"id": one}), ("hold", {"id": str(job)}), ("release", {"id": str(job)}),
             ("retry", {"id": one}), ("rm", {"id": str(job)})]
    for op, o in asked:
        got, none = other.ask(op, 404, **o), other.ask(op, 404, **{"id": o["id"].replace(str(job), "77777")})
        check(got["error"] == "HTC_ENOTFOUND" and json.dumps(got).replace(str(job), "77777") == json.dumps(none), "it is as one that is not there", op, got)
        got = other.ask(op, 403, user=s.owner, **o)
        check(got["error"] == "HTC_EDENIED", "also who claims to be somebody else", op, got)
    for path in ("/output?job=%d&task=0&name=stdout", "/archive?job=%d", "/archive?job=%d&task=0"):
        check(other.send("GET", path % job).status == 404, "others download nothing", path)
    code, error = (403, "HTC_EDENIED") if os.geteuid() == 0 else (404, "HTC_ENOTFOUND") # who has no uid submits nothing to root
    check(other.ask("submit", code, jsdl=other.ask("generate", exe="true")["jsdl"], after=[{"id": job}])["error"] == error, "nor wait for it")
    for event, o in zip(range(5), other.events("?job=%d" % job)):
        check("secret" not in json.dumps(o), "nor hear of it", o)
    check(c.ask("status", id=str(job))["jobs"][0]["tasks"]["running"] == 1, "and it runs on")
    c.ask("cancel", id=str(job))


def without_end(s, c, other):
    """Bodies that are announced and do not come: they hold no place of others, nor memory."""
    head = lambda who, path, kind, n: ("POST %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nX-HTC-Portal: 1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n{" %
                                       (path, s.address, who.cookie, kind, n)).encode()
    held = []
    for _ in range(6):
        k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        k.sendall(head(c, "/api/submit", "application/json", 16 << 20))
        held.append(k)
    refused = held[-1].recv(4096)  # of one user no more than a part
    check(refused.startswith(b"HTTP/1.1 503 "), "large bodies of one session are bounded", refused[:60])
    again = Client(s)
    again.login(s.owner)
    invented = []
    for _ in range(6):
        invented.append(Client(s))
        invented[-1].cookie = "htc_session=" + os.urandom(32).hex()
    for who, status in [(again, b"503")] + [(one, b"401") for one in invented]:
        k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        k.sendall(head(who, "/api/submit", "application/json", 16 << 20))
        refused = k.recv(4096)
        check(refused.startswith(b"HTTP/1.1 %s " % status), "another login gives no more room, and a cookie that was made up none", status, refused[:60])
        held.append(k)
    c.ask("status")
    other.ask("status")
    check(other.ask("generate", exe="echo", args="{x}", sweeps=["x=@A"], files={"A": ("y" * 9999 + "\n") * 20})["count"] == 20, "others send large ones meanwhile")
    for k in held:
        k.close()
    # Uploads: what is announced counts, and is bounded for all together: who has half has no more, and leaves others some.
    mib = {"Content-Type": "application/octet-stream"}
    begun = [hashlib.sha256(b"%d" % i).hexdigest() for i in range(4)]
    said = [other.send("POST", "/upload?hash=%s&size=%d&offset=0" % (h, 32 << 30), b"a", mib).status for h in begun]
    check(said[0] == 200 and said[-1] == 503, "unfinished uploads are bounded together", said)
    said = c.send("POST", "/upload?hash=%s&size=%d&offset=0" % (begun[0], 15 << 30), b"a", mib).status
    check(said == 200, "who holds much leaves room for others", said)
    r = c.send("POST", "/upload?hash=%s&size=1&offset=0" % ("0" * 64), b"a", mib)
    check(json.loads(r.read())["error"] == "HTC_EINPUT", "content that is not what its name says is not kept")
    check(c.ask("blob", 404, hash="0" * 64)["error"] == "HTC_ENOTFOUND", "nor found")


def not_read(s, c, other):
    """Downloads and streams that nobody reads hold nobody up."""
    job = job_of(c, "head -c 30000000 /dev/zero")
    wait_for(c, job, "done")
    slow = []
    for path in 2 * ("/archive?job=%d" % job,) + 5 * ("/output?job=%d&task=0&name=stdout" % job,):
        k = socket.socket()
        k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        k.connect(("127.0.0.1", s.port))
        k.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n" % (path, s.address, c.cookie)).encode())
        check(k.recv(12) == b"HTTP/1.1 200", "it begins", path)
        slow.append(k)
    r = c.send("GET", "/archive?job=%d" % job)
    check(r.status == 503 and json.loads(r.read())["error"] == "HTC_EBUSY", "of one session so many archives", r.status)
    again = Client(s)
    again.login(s.owner)
    check(again.send("GET", "/archive?job=%d" % job).status == 503, "and of all sessions of a user")
    again.cookie = "htc_session=" + "ab" * 32
    check(again.send("GET", "/archive?job=%d" % job).status == 401, "of no session none")
    c.ask("status")
    other.ask("status")
    for k in slow:
        k.close()
    # Streams: of a session, and of all.
    clients = []
    for i in range(4):
        one = Client(s)
        one.login(("ada", s.owner)[i % 2])
        clients.append(one)
    streams = [one.send("GET", "/events") for one in clients for _ in range(8)]
    check(all(r.status == 200 for r in streams), "there are so many streams")
    r = other.send("GET", "/events")
    check(r.status == 503 and json.loads(r.read())["error"] == "HTC_EBUSY", "and no more", r.status)
    other.ask("status")
    for r in streams:
        r.close()
    while other.send("GET", "/events").status != 200:
        pass
    rss = [int(l.split()[1]) for l in open("/proc/%d/status" % s.gateway()) if l.startswith("VmHWM")]
    check(rss[0] < 300000, "none of it has taken memory without bound, KiB", rss)


with System(sys.argv[1]) as s:
    owner, ada = Client(s), Client(s)
    owner.login(s.owner)
    ada.login("ada")
    planted_sessions(s)
    hidden_requests(s, owner)
    names_that_leave(s, owner)
    other_people(s, owner, ada)
    without_end(s, owner, ada)
    not_read(s, owner, ada)
print("portal_hostile: ok")
