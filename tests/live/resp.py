#!/usr/bin/env python3
# usage: resp.py FOLDER-OF-THE-PROGRAMS
# htc-kvd --resp, and three members, under clients that nobody changed for it: redis-cli, redis-benchmark, Python's redis; half-closed, cut,
# broken and idle connections; what survives its end; what it refuses to begin with. 77: something of these is not installed.
import fcntl, json, os, pty, resource, select, shutil, signal, socket, struct, subprocess, sys, tempfile, termios, threading, time

import ports
from redis_client import UNKNOWN

programs = sys.argv[1]
missing = [w for w in ("redis-cli", "redis-benchmark") if not shutil.which(w)]
try:
    try:
        import redis
    except ImportError:
        sys.path.append("/usr/lib/python3/dist-packages")
        import redis
except ImportError:
    missing.append("python3-redis")
if missing:
    print("SKIP not installed:", " ".join(missing))
    sys.exit(77)

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
place = tempfile.mkdtemp(prefix="htc-resp-")
running = []


def check(ok, what, *more):
    if not ok:
        print("FAILED:", what, *more)
        sys.exit(1)


def start(*options, address="127.0.0.1:0"):
    p = subprocess.Popen([programs + "/htc-kvd", "--resp", address, *options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    running.append(p)
    line = p.stdout.readline()
    check(line.startswith("ready: RESP on "), "it is ready", line, p.poll() is not None and p.stderr.read())
    p.port = None if address.startswith("unix:") else int(line.split(",")[0].rsplit(":", 1)[1])
    return p


def stop(p, code=0):
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=60)
    running.remove(p)
    check(p.returncode == code, "it ends when asked to", p.returncode, err)
    return err


def refuse(code, words, *options):
    p = subprocess.run([programs + "/htc-kvd", *options], capture_output=True, text=True, timeout=60)
    check(p.returncode == code, "exit code", options, p.returncode, p.stderr)
    check(p.stdout == "" and len(p.stderr.splitlines()) == 1 and words in p.stderr, "one line that says what to do", options, p.stderr)


def run(*words, text=None):
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=900)


def raw(port, data, half_close=True):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(data)
    if half_close:
        s.shutdown(socket.SHUT_WR)
    got = b""
    while piece := s.recv(65536):
        got += piece
    s.close()
    return got


class Unknown(Exception):
    """A member of several was left alone by the machine for a second: the outcome of a change is not known, as it says."""


def look(text):
    if any(words in text for words in UNKNOWN):
        raise Unknown(text)


def known(fn, *args):
    """A part of this test that can be done twice, until all of its outcomes are known."""
    end = time.monotonic() + 600
    while True:
        try:
            return fn(*args)
        except Unknown as why:
            check(time.monotonic() < end, "the outcome is known at last", why)
        except redis.RedisError as why:
            check(any(words in str(why) for words in UNKNOWN) and time.monotonic() < end, "a refusal", why)


def cli(p, *words):
    r = run("redis-cli", "-p", str(p.port), *words)
    look(r.stdout + r.stderr)
    check(r.returncode == 0, "redis-cli", words, r.stderr)
    return r.stdout.strip()


def under_redis_cli(p, many=5000):
    check(cli(p, "ping") == "PONG", "ping")
    check(cli(p, "set", "k", "a b") == "OK" and cli(p, "get", "k") == "a b", "set and get")
    check(cli(p, "-3", "hello") .find("proto") >= 0, "hello")
    check(cli(p, "del", "k", "none") == "1", "del")
    check("unknown command" in cli(p, "lpush", "k", "v"), "a command that there is not")
    said = run("redis-cli", "-p", str(p.port), text="set a 1\nincr a\nget a\nbroken 'x\nquit\n").stdout
    look(said)
    lines = said.split("\n")
    check(lines[:3] == ["OK", "2", "2"], "a session", lines)
    r = run("redis-cli", "-p", str(p.port), "--pipe", text="".join(f"SET key{i} value{i}\r\n" for i in range(many)))
    look(r.stdout + r.stderr)
    check(f"errors: 0, replies: {many}" in r.stdout, "--pipe", r.stdout, r.stderr)
    found = set(cli(p, "--scan", "--pattern", "key*").split())
    check(found == {f"key{i}" for i in range(many)}, "--scan", len(found))


def under_a_terminal(p):
    """Only on a terminal redis-cli asks COMMAND DOCS, from which it helps who types."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, 200, 0, 0))  # or it asks the terminal, and nobody answers
        os.execvpe("redis-cli", ["redis-cli", "-p", str(p.port)], os.environ | {"TERM": "xterm", "HOME": place})
    said = b""

    def until(words):
        nonlocal said
        while words not in said:
            check(select.select([fd], [], [], 120)[0], "redis-cli on a terminal says", words, said)
            try:
                piece = os.read(fd, 65536)
            except OSError:  # it has ended
                piece = b""
            check(piece, "redis-cli on a terminal lives until it says", words, said)
            said += piece
        said = said[said.index(words) + len(words):]

    until(b"> ")
    for typed, answer in (b"set typed 1", b"\r\nOK\r\n"), (b"incr typed", b"(integer) 2\r\n"), (b"help echo", b"What was said."):
        os.write(fd, typed + b"\r")
        until(answer)
        until(b"> ")
    os.write(fd, b"quit\r")
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    os.close(fd)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "redis-cli on a terminal ends")


def under_redis_benchmark(p, n="4000"):
    for depth in "1", "16":
        r = run("redis-benchmark", "-p", str(p.port), "-t", "ping,set,get,incr,mset", "-n", n, "-c", "20", "-P", depth, "-r", "500", "--csv")
        look(r.stdout + r.stderr)
        check(r.returncode == 0 and r.stdout.count("\n") >= 6, "redis-benchmark", r.stdout, r.stderr)
        check("WARNING" not in r.stdout + r.stderr, "CONFIG as it asks for it", r.stderr)


def under_python(p, **more):
    c = redis.Redis(host="127.0.0.1", port=p.port, **more)
    c.delete("n")
    check(c.ping() and c.set("p", b"\x00\xff\r\n") and c.get("p") == b"\x00\xff\r\n", "bytes are bytes")
    check(c.set("n", 1, nx=True) and c.set("n", 2, nx=True) is None and c.set("n", 3, xx=True), "nx, xx")
    check(c.set("n", 4, get=True) == b"3" and c.getdel("n") == b"4" and c.get("n") is None, "get, getdel")
    check(c.incrby("n", 5) == 5 and c.decr("n") == 4 and c.append("n", "0") == 2 and c.strlen("n") == 2, "numbers")
    check(c.mset({"a": 1, "b": 2}) and c.mget("a", "none", "b") == [b"1", None, b"2"], "mset, mget")
    check(c.exists("a", "b", "none") == 2 and c.delete("a", "b", "none") == 2 and c.type("n") == b"string", "exists, delete, type")
    began = time.monotonic()
    check(c.set("t", "x", ex=100), "ex")
    left = c.ttl("t"), c.pttl("t")
    least = 99.9 - (time.monotonic() - began)
    check(int(least) <= left[0] <= 100 and 1000 * least <= left[1] <= 100000, "ttl", left, least)
    check(c.persist("t") and c.ttl("t") == -1 and c.expire("t", 50) and c.ttl("t") > 0 and c.ttl("none") == -2, "persist, expire")
    check(c.set("short", "x", px=30), "px")
    end = time.time() + 60
    while c.get("short") is not None:
        check(time.time() < end, "a key with an end ends")
    pipe = c.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"pipe{i}", i).get(f"pipe{i}")
    check(pipe.execute() == [x for i in range(1000) for x in (True, str(i).encode())], "a pipeline answers in order")
    check(sum(1 for _ in c.scan_iter("pipe*", count=77)) == 1000, "scan_iter")
    shown, cursor, page = [], 0, 0
    while cursor or not page:  # others come and go meanwhile
        cursor, keys = c.execute_command("SCAN", str(cursor), "COUNT", "31")
        cursor, page = int(cursor), page + 1
        check(cursor < 1 << 53, "a cursor that signed numbers and doubles hold", cursor)
        shown += [k for k in keys if k.startswith(b"pipe")]
        c.set(f"other{page}", 1)
        c.delete(f"other{page - 7}")
    check(sorted(shown) == sorted(f"pipe{i}".encode() for i in range(1000)), "each key that is there all the time is shown once", len(shown))
    check(c.dbsize() >= 1000 and c.info()["redis_mode"] == "standalone" and c.client_id() > 0, "dbsize, info")
    big = os.urandom(8 << 20)
    check(c.set("big", big) and c.get("big") == big, "8 MiB")
    check(c.execute_command("SET", "n", "x", "IFEQ", "40", "GET", get=True) == b"40", "IFEQ that holds")
    check(c.execute_command("SET", "n", "y", "IFEQ", "40", "GET", get=True) == b"x" and c.get("n") == b"x", "a lost IFEQ shows what is there")
    commands(c)
    try:
        c.incr("n")
        check(False, "no number")
    except redis.ResponseError as e:
        check("not an integer" in str(e), "the words of Redis", e)
    c.close()


def commands(c):
    """As a library has them."""
    c.delete("x", "f")
    check(c.setex("x", 50, "abc") and c.getset("x", "abcdef") == b"abc" and c.getex("x", ex=70) == b"abcdef" and 0 < c.ttl("x") <= 70, "setex, getset, getex")
    check(c.getrange("x", 1, -2) == b"bcde" and c.setrange("x", 3, "XYZW") == 7 and c.get("x") == b"abcXYZW", "getrange, setrange")
    check(c.incrbyfloat("f", 0.5) == 0.5 and c.incrbyfloat("f", "0.25") == 0.75, "incrbyfloat")
    at = int(time.time()) + 1000
    check(c.expireat("x", at) and abs(c.execute_command("EXPIRETIME", "x") - at) <= 1, "expireat, expiretime")
    check(not c.expire("x", 5000, nx=True) and c.expire("x", 5000, gt=True) and not c.expire("x", 6000, lt=True), "expire nx, gt, lt")
    check(c.getex("x", persist=True) == b"abcXYZW" and c.ttl("x") == -1, "getex persist")
    check(c.msetnx({"x": 1}) is False and sorted(c.keys("pipe99*")) == sorted([b"pipe99"] + [b"pipe99%d" % i for i in range(10)]), "msetnx, keys")
    check(c.randomkey() is not None and c.touch("x", "f", "none") == 2 and abs(c.time()[0] - time.time()) < 60, "randomkey, touch, time")
    check(c.set("life", 1, ex=10 ** 10) and c.ttl("life") > 9 * 10 ** 9, "longer than the store counts")
    me = c.client_id()
    check(any(int(k["id"]) == me for k in c.client_list()), "client list")
    info = c.info()
    for field in "used_cpu_user", "used_cpu_sys", "used_memory", "used_memory_peak", "used_memory_rss", "expired_keys", "maxmemory", "keyspace_hits", "keyspace_misses", "total_net_input_bytes", "instantaneous_ops_per_sec":
        check(field in info, "INFO has what exporters read", field)
    check(info["used_memory_peak"] >= info["used_memory"] > 0 and info["used_memory_rss"] > 100000, "memory in INFO", info)
    for bad, words in (("k" * 401, 1), "1 to 400 bytes"), (("big", b"x" * ((16 << 20) + 1)), "16777216 bytes"):
        try:
            c.set(*bad)
            check(False, "beyond a limit", words)
        except redis.ResponseError as why:
            check(words in str(why), "a limit is told with its number", why)
    c.delete("x", "f", "life")


def transactions(p, several=False, **more):
    """The default of redis-py's pipeline() is a transaction."""
    c = redis.Redis(host="127.0.0.1", port=p.port, **more)
    if not several: # else another member may be the one that ends it, and counts it
        before = c.info("stats")["expired_keys"]
        c.set("short", 1, px=1)
        for _ in range(600):
            if c.info("stats")["expired_keys"] > before:
                break
            time.sleep(0.1)
        check(c.info("stats")["expired_keys"] == before + 1 and not c.exists("short"), "expired_keys counts an end once", c.info("stats"))
    c.delete("count", "stock", "sold")
    pipe = c.pipeline()
    pipe.incr("count").expire("count", 100).get("count")
    check(pipe.execute() == [1, True, b"1"] and 0 < c.ttl("count") <= 100, "a transaction of one key")
    pipe = c.pipeline()
    pipe.incr("count").incr("stock")
    try:
        done = pipe.execute()
        check(not several and done == [2, 1], "a transaction of two keys", done)
    except redis.exceptions.ExecAbortError as why:
        check(several and "one key" in str(why), "several members say why", why)
        check(c.get("count") == b"1" and c.get("stock") is None, "and nothing of it is executed")
    check(c.transaction(lambda t: (t.get("count"), t.multi(), t.set("count", 41), t.incr("count")), "count") == [True, 42], "WATCH, MULTI, EXEC")
    with c.pipeline() as t:
        t.watch("count")
        c.set("count", 5)
        t.multi()
        t.set("count", 6)
        try:
            t.execute()
            check(False, "a watched key has changed")
        except redis.WatchError:
            check(c.get("count") == b"5", "nothing of it is executed")
    pipe = c.pipeline()
    pipe.get("count").delete("count")
    check(pipe.execute() == [b"5", 1] and c.get("count") is None, "taken out")
    # Who adds at the same time as others, by transactions, counts each once.
    lost = []

    def add():
        mine = redis.Redis(host="127.0.0.1", port=p.port, **more)
        for _ in range(25):
            pipe = mine.pipeline()
            pipe.incr("sold").persist("sold")
            try:
                pipe.execute()
            except redis.RedisError as why:
                lost.append(str(why))
        mine.close()
    threads = [threading.Thread(target=add) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sold = int(c.get("sold"))
    check(100 - len(lost) <= sold <= 100, "each is counted once", sold, lost[:3])
    for why in lost:
        check(several and (any(words in why for words in UNKNOWN) or "TRYAGAIN" in why), "what may not be counted is said", why)
    c.close()


def told_truly(p, appendonly, fsync, keys):
    """What tools show to people: whether it is kept, and how many keys there are."""
    c = redis.Redis(host="127.0.0.1", port=p.port)
    check(c.config_get("appendonly") == {"appendonly": appendonly} and c.config_get("save") == {"save": ""}, "CONFIG GET", c.config_get("*"))
    check(c.config_get("appendfsync") == {"appendfsync": fsync}, "CONFIG GET appendfsync", c.config_get("*"))
    info = c.info()
    check(info["aof_enabled"] == (appendonly == "yes"), "INFO persistence", info)
    check(info.get("db0", {}).get("keys", 0) == keys == c.dbsize(), "INFO keyspace", keys, c.dbsize(), info.get("db0"))
    check(c.info("keyspace").get("db0", {}).get("keys", 0) == keys and "db0" not in c.info("server"), "a section")
    c.close()


class Any:
    """A member of a cluster, for those who want its port alone."""
    def __init__(self, member):
        self.port = int(member["resp"].rsplit(":", 1)[1])


def a_cluster():
    """Every client above at three members: whoever is asked serves every key, whoever has set it."""
    where = place + "/cluster"
    htc = [programs + "/htc", "kv", "cluster", "--dir", where]
    for _ in range(5):  # the ports may be somebody's by then
        base = ports.row(3)
        p = run(*htc, "--members", "3", "--base-port", str(base), "--durability", "sync", "--engine", "log", "--json")
        if p.returncode == 0:
            break
        shutil.rmtree(where, ignore_errors=True)
    check(p.returncode == 0, "a cluster", p.stdout, p.stderr)
    try:
        members = [Any(m) for m in json.loads(p.stdout)["members"]]
        for m in members:
            known(told_truly, m, "yes", "always", 0)
        known(under_redis_cli, members[0], 1000)
        for _ in range(5):
            began = time.monotonic()
            try:
                under_redis_benchmark(members[1], "1000")
                break
            except Unknown as why:  # it ends then: with a disk so slow that hundreds of changes take seconds, every time
                check(time.monotonic() > began + 1, "nobody was slow, and an outcome is not known", why)
                print("# redis-benchmark:", str(why).splitlines()[-1])
        known(under_python, members[2])
        known(transactions, members[1], True)
        known(rough, members[0])
        for i in range(60):
            check(known(cli, members[i % 3], "set", f"any{i}", str(i)) == "OK", "set")
        clients = [redis.Redis(host="127.0.0.1", port=m.port) for m in members]
        for c in clients:
            check(known(c.mget, [f"any{i}" for i in range(60)]) == [str(i).encode() for i in range(60)], "any member serves any key")
            check(known(lambda: set(c.scan_iter("any*"))) == {f"any{i}".encode() for i in range(60)}, "and shows it")
        keys = known(clients[0].dbsize)
        for m in members:
            known(told_truly, m, "yes", "always", keys)
            check(known(cli, m, "info", "keyspace").endswith(f"db0:keys={keys},avg_ttl=0"), "INFO keyspace", cli(m, "info", "keyspace"))
        for i in range(60):
            gone = []  # tries; only the first one is known to find it
            def end():
                gone.append(0)
                return clients[i % 3].delete(f"any{i}")
            check(known(end) in ((1,) if len(gone) == 1 else (0, 1)) and known(clients[(i + 1) % 3].exists, f"any{i}") == 0, "del")
    finally:
        run(*htc, "--stop")


def rough(p):
    got = raw(p.port, b"SET half 1\r\nGET half\r\n")
    look(got.decode())
    check(got == b"+OK\r\n$1\r\n1\r\n", "a client that closes its half is answered")
    check(raw(p.port, b"*1\r\n$-1\r\n", False).startswith(b"-ERR Protocol error"), "nonsense is said to be nonsense")
    got = raw(p.port, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET half evil\r\n", False)
    check(got.startswith(b"-ERR this is no HTTP server"), "HTTP ends the connection", got)
    check(raw(p.port, b"GET half\r\n") == b"$1\r\n1\r\n", "and nothing of it is executed")
    s = socket.create_connection(("127.0.0.1", p.port))
    for c in b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n":
        s.sendall(bytes([c]))
    check(s.recv(100) == b"$5\r\nhello\r\n", "one byte at a time")
    s.close()


def resident(p):
    with open(f"/proc/{p.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def idle(p):
    n = min(10000, hard - 200)
    before = resident(p)
    crowd = []
    for i in range(n):
        crowd.append(socket.create_connection(("127.0.0.1", p.port)))
    crowd[0].sendall(b"PING\r\n")
    crowd[-1].sendall(b"PING\r\n")
    check(crowd[0].recv(10) == b"+PONG\r\n" and crowd[-1].recv(10) == b"+PONG\r\n", "the first and the last are served")
    grown = resident(p) - before
    print(f"# {n} idle connections take {grown / 1048576:.1f} MiB")
    check(grown < 200 << 20, "idle connections cost little", grown)
    for s in crowd:
        s.close()
    check(cli(p, "ping") == "PONG", "served after the crowd has left")


try:
    p = start("--engine", "memory")
    idle(p)
    stop(p)
    a_cluster()
    p = start("--engine", "memory", "--resp-allow-flush")
    told_truly(p, "no", "no", 0)
    under_redis_cli(p)
    under_a_terminal(p)
    under_redis_benchmark(p)
    under_python(p)
    transactions(p)
    rough(p)
    check(cli(p, "flushall") == "OK" and cli(p, "dbsize") == "0", "flushall")
    check("every local user" in stop(p), "no password: it says so")

    secret = place + "/secret"
    with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write("open sesame\n")
    p = start("--engine", "memory", "--resp-password-file", secret)
    check("NOAUTH" in cli(p, "get", "k"), "a password is wanted")
    check(raw(p.port, b"AUTH wrong\r\n").startswith(b"-WRONGPASS"), "a wrong one is refused")
    under_python(p, password="open sesame")
    check("not allowed" in cli(p, "-a", "open sesame", "--no-auth-warning", "flushall"), "flushall is not for everybody")
    check("every local user" not in stop(p), "with a password there is nothing to say")

    # What was answered is there after a kill, with LMDB and a sync for each batch.
    state = place + "/state"
    p = start("--dir", state, address=f"unix:{place}/resp.sock")
    c = redis.Redis(unix_socket_path=place + "/resp.sock")
    for i in range(200):
        c.set(f"kept{i}", i)
    p.kill()
    p.communicate()
    running.remove(p)
    p = start("--dir", state, "--durability", "interval", address=f"unix:{place}/resp.sock")
    check([c.get(f"kept{i}") for i in range(200)] == [str(i).encode() for i in range(200)], "what was answered is kept")
    check(c.dbsize() == 200 and c.info()["db0"]["keys"] == 200, "and nothing else")
    check(c.info()["engine"] == "lmdb" and c.config_get("append*") == {"appendonly": "yes", "appendfsync": "everysec"}, "and it says so")
    refuse(6, "another", "--dir", place + "/other", "--resp", f"unix:{place}/resp.sock")
    stop(p)

    # The same commands over the log; what they left is there for the next process.
    log = place + "/log"
    p = start("--engine", "log", "--dir", log, "--resp-allow-flush")
    told_truly(p, "yes", "always", 0)
    under_redis_cli(p)
    under_redis_benchmark(p)
    under_python(p)
    transactions(p)
    rough(p)
    cli(p, "set", "last", "word")
    size = cli(p, "dbsize")
    stop(p)
    p = start("--engine", "log", "--dir", log, "--durability", "interval", "--resp-allow-flush")
    check(cli(p, "get", "last") == "word" and cli(p, "dbsize") == size, "the log is kept", size)
    told_truly(p, "yes", "everysec", int(size))
    check(cli(p, "flushall") == "OK" and cli(p, "dbsize") == "0", "flushall")
    stop(p)

    refuse(1, "127.0.0.1:PORT", "--resp", "6379")
    refuse(4, "beyond loopback", "--engine", "memory", "--resp", "0.0.0.0:6379")
    refuse(1, "--engine log or lmdb", "--engine", "memory", "--durability", "sync")
    refuse(1, "take memory, log or lmdb", "--engine", "rocks")
    refuse(1, "--help lists", "--resp")
    refuse(2, "mode 0600", "--engine", "memory", "--resp", "127.0.0.1:0", "--resp-password-file", place + "/none")
    os.chmod(secret, 0o644)
    refuse(4, "chmod", "--engine", "memory", "--resp", "127.0.0.1:0", "--resp-password-file", secret)
    print("ok")
finally:
    for p in running:
        p.kill()
        p.wait()
    shutil.rmtree(place, ignore_errors=True)
