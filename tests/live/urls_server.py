#!/usr/bin/env python3
"""usage: urls_server.py FOLDER [CERTIFICATE KEY]
Servers on 127.0.0.1 for tests of files by their URLs: HTTP, FTP and, with a certificate, HTTPS. Their ports are in FOLDER/ports (http ftp https), what
was asked is in FOLDER/asked, a line each, and what it was sent in FOLDER/put. Each path behaves in its own way, as it says below. It ends with its standard input."""
import base64
import http.server
import os
import select
import socket
import socketserver
import ssl
import sys
import threading
import time

folder = sys.argv[1]
CONTENT = b"".join(b"line %d\n" % i for i in range(40000))  # 400 KB
LOGIN = "Basic " + base64.b64encode(b"ada:s3cret-word").decode()
lock = threading.Lock()
counts = {}
ports = {}


def times(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1
        return counts[what]


def keep(name, body):
    os.makedirs(folder + "/put", exist_ok=True)
    with open(folder + "/put/" + name + ".new", "wb") as f:
        f.write(body)
    os.rename(folder + "/put/" + name + ".new", folder + "/put/" + name)


def asked(line):
    with lock, open(folder + "/asked", "a") as f:
        f.write(line + "\n")


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, code, body=b"", headers=(), length=None):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None and length != len(body):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def send_on(self, to, code=302):
        self.answer(code, b"elsewhere", [("Location", to)])

    def do_GET(self):
        path, _, self.query = self.path.partition("?")
        asked("GET %s range=%s login=%s" % (path, self.headers.get("Range", ""), "Authorization" in self.headers))
        name = path.strip("/").split("/")[0]
        getattr(self, "do_" + name.replace(".", "_").replace("-", "_"), lambda: self.answer(404, b"no such thing"))()

    def do_plain_txt(self):
        self.answer(200, b"plain words\n")

    def do_empty(self):
        self.answer(200)

    def do_chunked(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (b"one ", b"two\n"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def do_busy(self):  # once or twice, then not
        self.answer(503) if times("busy") <= (2 if "HTC_TEST_FULL" in os.environ and os.environ["HTC_TEST_FULL"] else 1) else self.answer(200, b"at last\n")

    def do_always_busy(self):
        self.answer(503)

    def do_broken(self):  # the first time half of it; then what is asked for
        if times("broken") == 1:
            return self.answer(200, CONTENT[:150000], [("ETag", '"v1"')], length=len(CONTENT))
        begin = self.headers.get("Range", "")
        if begin.startswith("bytes=") and self.headers.get("If-Range") == '"v1"':
            at = int(begin[6:].rstrip("-"))
            return self.answer(206, CONTENT[at:], [("ETag", '"v1"'), ("Content-Range", "bytes %d-%d/%d" % (at, len(CONTENT) - 1, len(CONTENT)))])
        return self.answer(200, CONTENT, [("ETag", '"v1"')])

    def do_other(self):  # the first time half of it; then it is another content
        if times("other") == 1:
            return self.answer(200, b"old " * 1000, [("ETag", '"old"')], length=8000)
        if self.headers.get("If-Range") == '"new"':
            return self.answer(500)
        return self.answer(200, b"new\n", [("ETag", '"new"')])

    def do_liar(self):  # goes on with something else, whatever is asked for
        if times("liar") == 1:
            return self.answer(200, b"a" * 1000, [("ETag", '"a"')], length=2000)
        if "Range" in self.headers:
            return self.answer(206, b"b" * 1000, [("ETag", '"b"'), ("Content-Range", "bytes 1000-1999/2000")])
        return self.answer(200, b"b" * 2000, [("ETag", '"b"')])

    def do_short(self):
        self.answer(200, b"half", length=8)

    def do_endless(self):  # where it ends is where the connection does
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nperhaps half of it")
        self.close_connection = True

    def do_stall(self):
        self.send_response(200)
        self.send_header("Content-Length", "8")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        time.sleep(600)

    def do_large(self):
        self.answer(200, b"x" * 2000000)

    def do_large_chunked(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(2000):
                self.wfile.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        except OSError:
            pass
        self.close_connection = True

    def do_moved(self):
        self.send_on("/plain.txt")

    def do_to_file(self):
        self.send_on("file:///etc/hostname")

    def do_to_ftp(self):
        self.send_on("ftp://127.0.0.1:%d/pub/file" % ports["ftp"])

    def do_loop(self):
        self.send_on("/loop")

    def do_private(self):
        if self.headers.get("Authorization") == LOGIN:
            self.answer(200, b"for ada\n")
        else:
            self.answer(401, b"who are you?", [("WWW-Authenticate", 'Basic realm="x"')])

    def do_away(self):  # the same server under another name: what is meant for this one is not sent there
        self.send_on("http://localhost:%d/private" % ports["http"])

    def do_down(self):  # from https
        self.send_on("http://127.0.0.1:%d/plain.txt" % ports["http"])


    # --- what is put there: put_NAME of a name that behaves in its own way; all others are taken ---
    def do_PUT(self):
        path, _, self.query = self.path.partition("?")
        asked("PUT %s login=%s" % (path, "Authorization" in self.headers))
        name = path.strip("/")
        getattr(self, "put_" + name.replace("-", "_"), lambda: self.take(name))()

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def take(self, name, code=201):
        body, there = self.body(), os.path.exists(folder + "/put/" + name)
        if there and self.headers.get("If-None-Match") == "*":
            return self.answer(412, b"it is there")
        keep(name, body)
        return self.answer(204 if there else code)

    def refuse(self, code, headers=()):
        self.body()
        self.answer(code, b"no", headers)

    def put_busy(self):  # the first time
        self.refuse(503) if times("put busy") == 1 else self.take("busy")

    def put_always_busy(self):
        self.refuse(503)

    def put_cut(self):  # the first time it goes away in the middle
        if times("put cut") > 1:
            return self.take("cut")
        self.rfile.read(100000)
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def put_forbidden(self):
        self.refuse(403)

    def put_taken_early(self):  # the first time it says that it has all of it, and has not
        if times("put taken early") > 1:
            return self.take("taken_early")
        self.rfile.read(1000)
        self.answer(200, b"fine", [("Connection", "close")])
        gone = select.poll()
        gone.register(self.connection, select.POLLRDHUP)
        gone.poll(60000)
        self.close_connection = True

    def put_refused_early(self):  # nothing of it is read
        self.answer(413, b"no")
        self.close_connection = True

    def put_moved(self):
        self.refuse(307, [("Location", "/moved-here")])

    def put_to_file(self):
        self.refuse(307, [("Location", "file:///tmp/x")])

    def put_private(self):
        if self.headers.get("Authorization") == LOGIN:
            self.take("private")
        else:
            self.refuse(401, [("WWW-Authenticate", 'Basic realm="x"')])

    def put_away(self):  # the same server under another name: what is meant for this one is not sent there
        self.refuse(307, [("Location", "http://localhost:%d/private" % ports["http"])])

    def put_stall(self):  # all is read, and nothing answered
        self.body()
        time.sleep(600)


class Ftp(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        user, start, data, below = "", 0, None, ""
        self.say("220 here")
        for line in self.rfile:
            word, _, rest = line.decode().strip().partition(" ")
            word = word.upper()
            if word == "USER":
                user = rest
                self.say("331 password")
            elif word == "PASS":
                fine = user == "anonymous" or (user == "ada" and rest == "s3cret-word")
                self.say("230 in" if fine else "530 no")
            elif word == "PWD":
                self.say('257 "/"')
            elif word == "CWD":
                below = rest
                self.say("250 there" if rest in ("/", "pub", "private", "in") else "550 no such folder")
            elif word in ("TYPE", "MODE", "STRU"):
                self.say("200 as you say")
            elif word == "EPSV":
                data = socket.create_server(("127.0.0.1", 0))
                self.say("229 there (|||%d|)" % data.getsockname()[1])
            elif word == "SIZE":
                self.say("213 %d" % len(CONTENT) if rest in ("file", "broken") else "550 no such file")
            elif word == "MDTM":
                self.say("213 20200102030405" if rest in ("file", "broken") else "550 no such file")
            elif word == "REST":
                start = int(rest)
                self.say("350 go on")
            elif word == "RETR":
                asked("RETR %s from=%d user=%s" % (rest, start, user))
                if rest not in ("file", "broken"):
                    self.say("550 no such file")
                    continue
                cut = rest == "broken" and times("ftp") == 1
                self.say("150 here it comes")
                with data.accept()[0] as c:
                    c.sendall(CONTENT[start:150000] if cut else CONTENT[start:])
                self.say("426 broken off" if cut else "226 done")
                start = 0
            elif word == "STOR":
                asked("STOR %s user=%s" % (rest, user))
                self.say("150 let it come")
                with data.accept()[0] as c:
                    if rest == "cut" and times("stor cut") == 1:
                        c.recv(1000)
                        body = None
                    else:
                        body = b"".join(iter(lambda: c.recv(65536), b""))
                if body is not None and rest != "full":
                    keep(below + "-" + rest, body)
                self.say("426 broken off" if body is None else "552 the disk is full" if rest == "full" else "226 done")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("502 no")


class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class WebThreads(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args):
        pass


def run(name, server):
    ports[name] = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()


web = WebThreads(("127.0.0.1", 0), Web)
run("http", web)
run("ftp", Threads(("127.0.0.1", 0), Ftp))
if len(sys.argv) > 2:
    secure = WebThreads(("127.0.0.1", 0), Web)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    run("https", secure)
with open(folder + "/content", "wb") as f:
    f.write(CONTENT)
with open(folder + "/ports.new", "w") as f:
    f.write("%d %d %d\n" % (ports["http"], ports["ftp"], ports.get("https", 0)))
os.rename(folder + "/ports.new", folder + "/ports")
sys.stdin.read()
