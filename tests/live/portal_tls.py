#!/usr/bin/env python3
"""usage: portal_tls.py PROGRAM_FOLDER
The portal behind a proxy with TLS: the nginx of doc/portal.md, word by word but for addresses and files, and without nginx a proxy of this test that passes
everything on. What comes by the public origin is the portal's own, its cookie is for that host and TLS alone, and neither origin counts for the other."""
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import ports
from portal_system import Client, System, check

NAME = "htc.example.org"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def nginx_example(s, port):
    """The block of the document, with addresses and files of this test."""
    with open(os.path.join(SOURCE, "doc", "portal.md")) as f:
        block = re.search(r"^    server \{\n(?:    .*\n)+?    \}\n", f.read(), re.M)[0]
    for was, now in (("listen 443 ssl", "listen 127.0.0.1:%d ssl" % port), ("/etc/ssl/htc.pem", s.top + "/tls.pem"), ("/etc/ssl/htc.key", s.top + "/tls.key"),
                     ("127.0.0.1:7071", s.address)):
        check(was in block, "the example has", was)
        block = block.replace(was, now)
    temp = "".join("%s_temp_path %s/%s;" % (n, s.top, n) for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(os.path.join(s.top, "nginx.conf"), "w") as f:
        f.write("daemon off; pid %s/nginx.pid; error_log %s/nginx.log; worker_processes 1; events {}\nhttp { access_log off; %s\n%s}\n" % (s.top, s.top, temp, block))
    return subprocess.Popen(["nginx", "-e", s.top + "/nginx.log", "-c", s.top + "/nginx.conf"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pipe(a, b):
    try:
        while piece := a.recv(65536):
            b.sendall(piece)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def scripted(s, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(s.top + "/tls.pem", s.top + "/tls.key")
    door = socket.create_server(("127.0.0.1", port))

    def serve():
        while True:
            try:
                near = context.wrap_socket(door.accept()[0], server_side=True)
            except OSError:
                continue
            far = socket.create_connection(("127.0.0.1", s.port))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pipe, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


class Secure(Client):
    """A browser that has opened the public origin."""

    def __init__(self, system, port):
        super().__init__(system)
        self.far, self.context = port, ssl.create_default_context(cafile=system.top + "/tls.pem")
        self.host = "%s:%d" % (NAME, port)

    def connection(self):
        c = http.client.HTTPSConnection(NAME, self.far, timeout=60, context=self.context)
        c.sock = self.context.wrap_socket(socket.create_connection(("127.0.0.1", self.far)), server_hostname=NAME)
        return c

    def send(self, method, path, body=None, headers={}):
        return super().send(method, path, body, {"Host": self.host, **({"Origin": "https://" + self.host} if method == "POST" else {}), **headers})


def work(s, port):
    c = Secure(s, port)
    check(c.send("GET", "/").status == 200, "the page is there")
    check(c.login(s.owner)["user"] == s.owner, "somebody is logged in")
    name, flags = c.cookie.split("=")[0], [f.strip() for f in c.set_cookie.split(";")[1:]]
    check((name, flags) == ("__Host-htc_session", ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]), "the cookie's flags", c.set_cookie)
    job = c.ask("submit", jsdl=c.ask("generate", exe="echo", args="hello")["jsdl"])["id"]
    for event, o in c.events("?job=%d" % job):  # unbuffered: it would wait for ever
        if event == "job" and o["jobs"][0]["state"] == "done":
            break
    check(c.send("GET", "/output?job=%d&task=0&name=stdout" % job).read() == b"hello\n", "an output is downloaded")
    for origin in ("http://" + s.address, "http://" + c.host, "https://" + NAME, "https://evil.example", "null"):
        r = c.send("POST", "/api/status", b"{}", {"Origin": origin})
        check(r.status == 403 and json.loads(r.read())["error"] == "HTC_EDENIED", "another origin is refused", origin, r.status)
    check(c.send("POST", "/api/status", b"{}", {"Sec-Fetch-Site": "same-site"}).status == 403, "so is another host of the same site")
    check(c.send("GET", "/", headers={"Host": "evil.example"}).status == (421), "so is another host")
    # By its own address it is as it was, and neither session is one of the other.
    near, token = Client(s), c.cookie.split("=")[1]
    near.login(s.owner)
    near.ask("status")
    check(near.post("/api/status", {}, 403, headers={"Origin": "https://" + c.host})["error"] == "HTC_EDENIED", "its own address has its own origin")
    near.cookie = "__Host-htc_session=" + token
    check(near.ask("status", 401)["error"] == "HTC_EAUTH", "the cookie of the public origin counts there alone")
    c.cookie = "htc_session=" + token
    check(c.ask("status", 401)["error"] == "HTC_EAUTH", "and that of the address")
    c.cookie = "__Host-htc_session=" + token
    r = c.send("POST", "/logout", b"{}")
    check(r.status == 200 and "__Host-htc_session=;" in r.getheader("Set-Cookie") and "Secure" in r.getheader("Set-Cookie"), "the cookie is taken back", r.getheader("Set-Cookie"))


def refused(s):
    for origin in ("http://htc.example.org", "https://", "https://a/", "https://a:b", "https://u@a", "https://a b", "htc.example.org"):
        with open(os.path.join(s.top, "bad.ini"), "w") as f:
            f.write("[server]\nportal = 127.0.0.1:%d\nportal_origin = %s\n" % (ports.row(1), origin))
        s.htc("--dir", os.path.join(s.top, "bad"), "up", "--config", os.path.join(s.top, "bad.ini"), rc=1)


def main():
    if not shutil.which("openssl"):
        print("skipped: no openssl to make a certificate with")
        sys.exit(77)
    port = ports.row(1)
    with System(sys.argv[1], "portal_origin = https://%s:%d\n" % (NAME, port)) as s:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=" + NAME,
                        "-addext", "subjectAltName=DNS:" + NAME, "-keyout", s.top + "/tls.key", "-out", s.top + "/tls.pem"], check=True, capture_output=True, timeout=60)
        proxy = nginx_example(s, port) if shutil.which("nginx") else scripted(s, port)
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    check(time.monotonic() < end and (not proxy or proxy.poll() is None), "the proxy begins")
                    time.sleep(0.05)
            work(s, port)
        finally:
            if proxy:
                proxy.terminate()
                proxy.wait(30)
        refused(s)
    print("portal_tls: ok" + ("" if proxy else " (no nginx: a proxy of the test)"))


main()
