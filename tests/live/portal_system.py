"""A system with a portal, for portal.py and portal_browser.py."""
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile

import ports


def fail(text):
    print("FAILED:", text, file=sys.stderr)
    raise SystemExit(1)


def check(ok, what, *more):
    if not ok:
        fail(" ".join([what, *map(str, more)]))


class System:
    def __init__(self, programs, server=""):
        self.htc_path = os.path.join(os.path.abspath(programs), "htc")
        self.top = tempfile.mkdtemp(prefix="htc-portal-")
        self.state = os.path.join(self.top, "state")
        self.port = ports.row(1)
        self.address = "127.0.0.1:%d" % self.port
        with open(os.path.join(self.top, "htc.ini"), "w") as f:
            f.write("[server]\nportal = %s\n%sothers = on\n[task]\nmax_attempts = 1\nothers_as_owner = confined\n" % (self.address, server))
        with open(os.path.join(self.top, "password"), "w") as f:
            f.write("open sesame\n")
        os.chmod(self.top, 0o711)

    def __enter__(self):
        try:
            self.htc("up", "--config", os.path.join(self.top, "htc.ini"), "--slots", "2")
            self.owner = json.loads(self.htc("users", "--json"))["users"][0]["name"]
            self.htc("user", "set", self.owner, "--password-file", os.path.join(self.top, "password"))
            self.htc("user", "add", "ada", "--password-file", os.path.join(self.top, "password"))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([self.htc_path, "--dir", self.state, "down", "--now"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        shutil.rmtree(self.top, ignore_errors=True)

    def gateway(self):
        """Its process."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"htc-gateway") and self.state.encode() in words:
                return int(pid)
        fail("there is no gateway")

    def htc(self, *args, rc=0):
        done = subprocess.run([self.htc_path, "--dir", self.state, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              cwd=self.top)
        if done.returncode != rc:
            fail("htc %s: exit code %d, not %d: %s%s" % (" ".join(args), done.returncode, rc, done.stdout, done.stderr))
        return done.stdout


class Client:
    """As the page asks. headers: of this request instead; a value of None leaves one out."""

    def __init__(self, system):
        self.system, self.cookie = system, None

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.system.port, timeout=60)

    def send(self, method, path, body=None, headers={}):
        all_of = {"Host": self.system.address, "Cookie": self.cookie}
        if method == "POST":
            all_of.update({"Origin": "http://" + self.system.address, "Content-Type": "application/json", "X-HTC-Portal": "1"})
        all_of.update(headers)
        c = self.connection()
        c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if body is not None and "Content-Length" not in all_of and "Transfer-Encoding" not in all_of:
            all_of["Content-Length"] = str(len(body))
        for name, value in all_of.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    c.putheader(name, one)
        c.endheaders()
        try:
            if body:
                c.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return c.getresponse()

    def post(self, path, o, status=200, **more):
        r = self.send("POST", path, json.dumps(o).encode(), **more)
        text = r.read()
        check(r.status == status, "POST %s is answered %d, not" % (path, r.status), status, text[:300])
        return json.loads(text)

    def ask(self, op, status=200, **o):
        return self.post("/api/" + op, o, status)

    def login(self, name, password="open sesame", status=200):
        r = self.send("POST", "/login", json.dumps({"name": name, "password": password}).encode())
        text = r.read()
        check(r.status == status, "a login is answered %d, not" % r.status, status, text)
        if status == 200:
            self.set_cookie = r.getheader("Set-Cookie")
            self.cookie = self.set_cookie.split(";")[0]
        return json.loads(text)

    def events(self, query=""):
        """What the stream says: (event, object), one after the other."""
        r = self.send("GET", "/events" + query)
        check(r.status == 200 and r.getheader("Content-Type") == "text/event-stream", "events are answered", r.status)
        event, silent = None, 0
        while True:
            line = r.readline()
            if not line:
                return
            silent += 1 if line.startswith(b":") else -silent if line.strip() else 0
            check(silent < 2, "nothing comes on the stream")
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield event, json.loads(line[6:])
