#!/usr/bin/env python3
# usage: metrics.py FOLDER-OF-THE-PROGRAMS
# htc-kvd --metrics: what it shows is OpenMetrics (by a strict reader of its own here), and what was done is what was counted; strangers
# of every kind at its port are answered or closed, and neither keep a monitor out nor the store from answering.
import http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time

import ports

programs = sys.argv[1]
place = tempfile.mkdtemp(prefix="htc-metrics-")
running = []


def check(ok, what, *more):
    if not ok:
        print("FAILED:", what, *more)
        for p in running:
            p.kill()
        sys.exit(1)


def start(*options, metrics="127.0.0.1:0"):
    p = subprocess.Popen([programs + "/htc-kvd", "--resp", "127.0.0.1:0", "--metrics", metrics, *options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    running.append(p)
    line = p.stdout.readline()
    said = re.fullmatch(r"ready: RESP on 127\.0\.0\.1:(\d+), engine (\w+), pid \d+, metrics on (.+)\n", line)
    check(said, "it is ready", line, p.poll() is not None and p.stderr.read())
    p.port = int(said[1])
    p.metrics = said[3] if said[3].startswith("unix:") else int(said[3].rsplit(":", 1)[1])
    return p


def stop(p):
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    running.remove(p)
    check(p.returncode == 0, "it ends when asked to", p.returncode)


# ---------------------------------------------------------------- RESP, as little as is needed

def ask(s, *words):
    s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
    f = s.makefile("rb")
    line = f.readline()
    if line[:1] == b"$" and line != b"$-1\r\n":
        return f.read(int(line[1:]) + 2)[:-2]
    return line.strip()


# ---------------------------------------------------------------- a strict reader

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
SAMPLE = re.compile(r'(%s)(?:\{((?:%s="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\d+(?:\.\d+)?)' % (NAME, NAME))
LABEL = re.compile(r'(%s)="((?:[^"\\\n]|\\["\\n])*)"(,|$)' % NAME)
ENDS = {"counter": ("_total",), "gauge": ("",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}


def read(text):
    check(text.endswith("# EOF\n") and text.count("# EOF") == 1, "it ends")
    values, kinds, family, buckets = {}, {}, None, []
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            if name != family:
                check(word == "TYPE" and name not in kinds and rest in ENDS, "a family begins with its type, once", line)
                family, kinds[name], said = name, rest, []
            check(word in ("TYPE", "UNIT", "HELP") and word not in said, "metadata", line)
            check(word != "UNIT" or name.endswith("_" + rest), "the name ends in its unit", line)
            said.append(word)
            continue
        m = SAMPLE.fullmatch(line)
        check(m and family, "a value", line)
        labels, rest = {}, m[2] or ""
        while rest:
            label = LABEL.match(rest)
            check(label and label[1] not in labels, "labels", line)
            labels[label[1]] = label[2]
            check(label[3] != "," or label.end() < len(rest), "labels", line)
            rest = rest[label.end():]
        check(m[1] in [family + end for end in ENDS[kinds[family]]], "of its family", line)
        key = (m[1], tuple(sorted(labels.items())))
        check(key not in values, "once", line)
        values[key] = float(m[3]) if "." in m[3] else int(m[3])
        if "le" in labels:
            le = float(labels["le"].replace("+Inf", "inf"))
            check(not buckets or buckets[-1][0] == float("inf") or (le > buckets[-1][0] and values[key] >= buckets[-1][1]), "buckets add up", line)
            buckets.append((le, values[key]))
    return values


def get(p, path="/metrics", method="GET"):
    if isinstance(p.metrics, str):
        c = http.client.HTTPConnection("localhost", timeout=120)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(p.metrics[5:])
    else:
        c = http.client.HTTPConnection("127.0.0.1", p.metrics, timeout=120)
    c.request(method, path)
    r = c.getresponse()
    body = r.read()
    c.close()
    return r, body


def scrape(p):
    r, body = get(p)
    check(r.status == 200, "the page", r.status)
    check(r.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8", "its type", r.headers["Content-Type"])
    check(len(body) < 65536, "64 KiB are enough", len(body))
    return read(body.decode())


def operations(values, operation, outcome):
    return values[("htc_kv_operations_total", (("operation", operation), ("outcome", outcome)))]


def plain(values, name):
    return values[(name, ())]


def counts_what_is_done(engine, *options):
    p = start("--engine", engine, *options, "--dir", place + "/" + engine)
    before = scrape(p)
    s = socket.create_connection(("127.0.0.1", p.port))
    for i in range(10):
        ask(s, b"set", b"k%d" % i, b"v")
    for i in range(7):
        check(ask(s, b"get", b"k%d" % i) == b"v", "get")
    check(ask(s, b"get", b"none") == b"$-1", "nothing")
    check(ask(s, b"incrby", b"n", b"5") == b":5", "add")
    check(ask(s, b"set", b"k0", b"w", b"nx") == b"$-1", "nx")
    check(ask(s, b"dbsize") == b":11", "count")
    after = scrape(p)
    grown = [operations(after, *what) - operations(before, *what)
             for what in (("get", "ok"), ("get", "not_found"), ("put", "ok"), ("put", "mismatch"), ("add", "ok"), ("count", "ok"))]
    check(grown == [7, 1, 10, 1, 1, 1], engine, "what was done is what was counted", grown)
    # RESP looks once whether there is an order of places: a scan of its own.
    total = sum(v for (name, labels), v in after.items() if name == "htc_kv_operations_total" and ("operation", "scan") not in labels)
    check(total == 21, engine, "and nothing else was", total)
    check(plain(after, "htc_kv_keys") == 11 and plain(after, "htc_kv_serving") == 1, engine, "gauges")
    check(after[("htc_kv_connections", (("protocol", "resp"),))] == 1, engine, "connections")
    check(plain(after, "htc_kv_resp_commands_total") == 21, engine, "commands")
    check(plain(after, "htc_kv_received_bytes_total") > 21 * 10 and plain(after, "htc_kv_sent_bytes_total") > 21 * 3, engine, "bytes")
    batches = plain(after, "htc_kv_batches_total")
    check(batches == (0 if engine == "memory" else 11), engine, "each change waited for, so each is a batch", batches)
    check(plain(after, "htc_kv_commit_seconds_count") == batches, engine, "each batch took its time")
    check((plain(after, "htc_kv_batches_bytes_total") > 0) == (batches > 0), engine, "bytes of batches")
    check((plain(after, "htc_kv_commit_seconds_sum") > 0) == (batches > 0), engine, "the sum")
    s.close()
    stop(p)


def refused_for_memory():
    p = start("--engine", "memory", "--memory", "1000000")
    s = socket.create_connection(("127.0.0.1", p.port))
    answers = [ask(s, b"set", b"big%d" % i, b"x" * 100000) for i in range(20)]
    refused = sum(a != b"+OK" for a in answers)
    values = scrape(p)
    check(refused > 0 and operations(values, "put", "memory_full") == refused and operations(values, "put", "ok") == 20 - refused,
          "what did not fit is counted", refused)
    check(plain(values, "htc_kv_memory_limit_bytes") == 1000000, "the bound is shown")
    # Full is not broken: what is there is read, and who makes room may use it.
    check(ask(s, b"set", b"one more", b"x" * 100000) != b"+OK", "it is full")
    kept = [i for i in range(20) if answers[i] == b"+OK"]
    check(all(ask(s, b"get", b"big%d" % i) == b"x" * 100000 for i in kept), "what was acknowledged is read while it is full")
    check(ask(s, b"get", b"one more") == b"$-1", "what was refused is not there")
    for i in kept:
        check(ask(s, b"del", b"big%d" % i) == b":1", "deleted while it is full", i)
        check(ask(s, b"set", b"big%d" % i, b"y" * 100000) == b"+OK", "what was deleted made room", i)
        check(ask(s, b"get", b"big%d" % i) == b"y" * 100000, "and was replaced", i)
    check(plain(scrape(p), "htc_kv_keys") == len(kept), "and nothing else is there")
    s.close()
    stop(p)


# ---------------------------------------------------------------- strangers

def raw(p, data, half_close=False):
    s = socket.create_connection(("127.0.0.1", p.metrics), timeout=120)
    got = b""
    try:
        s.sendall(data)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        while piece := s.recv(65536):
            got += piece
    except (ConnectionResetError, BrokenPipeError):
        pass
    s.close()
    return got


def strangers():
    p = start("--engine", "memory")
    client = socket.create_connection(("127.0.0.1", p.port))
    check(get(p, "/")[0].status == 404 and get(p, "/metrics/x")[0].status == 404, "other paths")
    check(get(p, "/metrics?a=b")[0].status == 200, "a query")
    r, body = get(p, "/metrics", "POST")
    check(r.status == 405 and r.headers["Allow"] == "GET", "other methods", r.status)
    r, body = get(p, "/metrics", "HEAD")
    check(r.status == 405 and body == b"", "HEAD has no body", r.status, body)
    first = [(b"GET /metrics HTTP/1.0\n\n", b"200"), (b"GET  /metrics HTTP/1.1\r\n\r\n", b"400"), (b"\r\n\r\n", b"400"),
             (b"GET /metrics HTTP/2.0\r\n\r\n", b"505"), (b"GET /metrics HTTP/1.1\r\nbad field\r\n\r\n", b"400"),
             (b"GET http://x/metrics HTTP/1.1\r\n\r\n", b"400"), (b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03\n", b"400"),
             (b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 9000 + b"\r\n\r\n", b"431"), (b"z" * 9000, b"431")]
    for data, status in first:
        got = raw(p, data)
        check(got.startswith(b"HTTP/1.1 " + status), "refused with", status, data[:40], got[:40])
    check(raw(p, b"GET /metrics HTTP/1.1\r\n\r\n", True).endswith(b"# EOF\n"), "one that has said all is answered")
    check(raw(p, b"GET /metr", True) == b"", "half a request is none")
    seed = int(os.environ.get("HTC_SEED", "7"))
    for i in range(200):  # a generator of its own: the same bytes everywhere
        data = bytearray(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        for _ in range(1 + i % 5):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            data[(seed >> 33) % len(data)] = (seed >> 21) & 255
        got = raw(p, bytes(data), True)
        check(got == b"" or re.match(rb"HTTP/1\.1 (200|400|404|405|505) ", got), "any bytes", bytes(data), got[:40])
    # Those who hold on, byte by byte or not at all: others come through, and the store answers.
    idle = [socket.create_connection(("127.0.0.1", p.metrics)) for _ in range(40)]
    for s in idle:
        try:
            s.sendall(b"G")
        except OSError:
            pass
    check(plain(scrape(p), "htc_kv_serving") == 1 and ask(client, b"ping") == b"+PONG", "nobody keeps a monitor out")
    for s in idle:
        s.settimeout(120)
        try:
            said = s.recv(100)
            check(said == b"" or said.startswith(b"HTTP/1.1 408 "), "who holds on is told so, or closed", said)
        except ConnectionResetError:
            pass
        except TimeoutError:
            check(False, "who holds on is closed")
        s.close()
    client.close()
    stop(p)


def a_unix_socket():
    path = place + "/metrics.sock"
    p = start("--engine", "memory", metrics="unix:" + path)
    check(os.stat(path).st_mode & 0o777 == 0o600, "its owner's alone")
    check(plain(scrape(p), "htc_kv_serving") == 1, "by a Unix socket")
    stop(p)
    check(not os.path.exists(path), "the socket is gone")


class System:
    pass


def htc(*words):
    done = subprocess.run([programs + "/htc", "--dir", place + "/system", *words], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "htc", words, done.stderr)


def the_store_of_a_system():
    p = System()
    p.metrics = ports.row(1)
    with open(place + "/htc.ini", "w") as f:
        f.write("[db]\nmetrics = 127.0.0.1:%d\n" % p.metrics)
    htc("up", "--config", place + "/htc.ini")
    try:
        before = scrape(p)
        info = [dict(labels) for name, labels in before if name == "htc_kv_member_info"]
        check(plain(before, "htc_kv_serving") == 1 and len(info) == 1 and info[0]["engine"] == "lmdb", "it says what it is", info)
        for i in range(20):
            htc("kv", "put", "k%d" % i, "1")
        grown = operations(scrape(p), "put", "ok") - operations(before, "put", "ok")
        check(grown >= 20, "what is put is counted, beside what the gateway puts", grown)
    finally:
        htc("down", "--now")


def refused_addresses():
    for address, code, words in (("0.0.0.0:0", 4, "beyond loopback"), ("here", 1, "none of"), ("127.0.0.1:99999", 1, "none of")):
        p = subprocess.run([programs + "/htc-kvd", "--engine", "memory", "--resp", "127.0.0.1:0", "--metrics", address],
                           capture_output=True, text=True, timeout=60)
        check(p.returncode == code and p.stdout == "" and words in p.stderr, "refused", address, p.returncode, p.stderr)


def a_log_of_json():
    p = start("--engine", "memory", "--log-format", "json")
    p.send_signal(signal.SIGTERM)
    said = p.communicate(timeout=60)[1].splitlines()
    running.remove(p)
    lines = [json.loads(line) for line in said]
    check(all({"time", "level", "source", "message"} <= set(line) for line in lines), "one object a line", said)
    check(lines[0]["level"] == "warn" and lines[0]["source"] == "htc-kvd" and "no password" in lines[0]["message"], "what it says", said)
    p = subprocess.run([programs + "/htc-kvd", "--engine", "memory", "--resp", "0.0.0.0:0", "--log-format", "json"],
                       capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in p.stderr.splitlines()]
    check(p.returncode == 4 and len(lines) == 1 and lines[0]["level"] == "error" and "beyond loopback" in lines[0]["message"], "why it ends", p.stderr)


a_log_of_json()
for engine in ("memory", "log", "lmdb"):
    counts_what_is_done(engine)
refused_for_memory()
strangers()
a_unix_socket()
the_store_of_a_system()
refused_addresses()
shutil.rmtree(place)
print("ok")
