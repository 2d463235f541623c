#!/usr/bin/env python3
# usage: log.py FOLDER-OF-THE-PROGRAMS PRELOADED-SHIM
# htc-kvd --engine log as a process: killed (-9) while many clients change keys, everything that was acknowledged is there; a disk
# that fails ends it with one clear line (and --engine lmdb as well); a full disk refuses changes and reads go on; what it refuses to begin with.
import json, os, random, re, shutil, signal, socket, subprocess, sys, tempfile, time

# The shim by descriptor: LD_PRELOAD is cut at blanks, which the path may have.
programs, shim = sys.argv[1], os.open(sys.argv[2], os.O_RDONLY)
full = bool(os.environ.get("HTC_TEST_FULL"))
place = tempfile.mkdtemp(prefix="htc-log-")
running, mounted = [], []
seed = int(os.environ.get("HTC_TEST_SEED") or random.randrange(1 << 32))
print("# seed", seed)
rng = random.Random(seed)


def check(ok, what, *more):
    if not ok:
        print("FAILED:", what, *more)
        sys.exit(1)


def start(*options, env=None, engine="log"):
    p = subprocess.Popen([programs + "/htc-kvd", "--engine", engine, "--resp", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=dict(os.environ, **(env or {})), pass_fds=[shim])
    running.append(p)
    line = p.stdout.readline()
    check(line.startswith("ready: RESP on ") and f", engine {engine}," in line, "it is ready", line, p.poll() is not None and p.stderr.read())
    p.port = int(line.split(",")[0].rsplit(":", 1)[1])
    return p


def end(p, code=None, how=signal.SIGTERM):
    if how:
        p.send_signal(how)
    _, err = p.communicate(timeout=120)
    running.remove(p)
    check(code is None or p.returncode == code, "its exit code", p.returncode, err)
    return [l for l in err.splitlines() if "no password" not in l]


class Client:
    """One connection: commands go out in one piece, replies come one by one."""

    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.f = self.s.makefile("rb")

    def send(self, *commands):
        text = b""
        for c in commands:
            words = [w if isinstance(w, bytes) else str(w).encode() for w in c]
            text += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        self.s.sendall(text)

    def reply(self):
        line = self.f.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            data = self.f.read(int(rest) + 2)
            if len(data) != int(rest) + 2:
                raise ConnectionError
            return data[:-2]
        return rest.decode() if kind == b"+" else RuntimeError(rest.decode())

    def ask(self, *words):
        self.send(words)
        return self.reply()


def killed_after(seconds, p):
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os.kill(p.pid, signal.SIGKILL)
        os._exit(0)
    return pid


def kills(rounds, *options):
    """Counters of many connections: what was answered is the least, what was asked the most that may be there."""
    state, count = f"{place}/kills{len(options)}", 16
    low, high = [0] * count, [0] * count
    for i in range(rounds):
        p = start("--dir", state, *options)
        c = Client(p.port)
        for k in range(count):
            n = int(c.ask("GET", f"counter{k}") or 0)
            check(low[k] <= n <= high[k], "what was acknowledged is there", i, k, low[k], n, high[k])
            low[k] = high[k] = n
        clients = [Client(p.port) for _ in range(count)]
        # Drawn here: what a child draws from its copy is the same in every round. The first one dies after its first answers, so that
        # something is there to be lost, the others at any time.
        delay, pid = rng.random() * 0.3, 0
        try:
            if i:
                pid = killed_after(delay, p)
            while True:
                for k, x in enumerate(clients):
                    depth = 1 + k % 4
                    x.send(*[("INCR", f"counter{k}")] * depth, ("SET", f"filler{k}", os.urandom(1000)))
                    high[k] += depth
                for k, x in enumerate(clients):
                    for _ in range(1 + k % 4):
                        n = x.reply()
                        check(isinstance(n, int), "an answer", n)
                        low[k] = n
                    check(x.reply() == "OK", "a value is set")
                pid = pid or killed_after(delay, p)
        except (ConnectionError, OSError):
            pass
        if pid:
            os.waitpid(pid, 0)
        # Answers that were on their way when it died count as well.
        for k, x in enumerate(clients):
            try:
                while True:
                    n = x.reply()
                    low[k] = n if isinstance(n, int) else low[k]
            except (ConnectionError, OSError):
                pass
        end(p, -9, None)
    check(sum(low) > 0, "something was counted")
    print(f"ok - {rounds} kills {' '.join(options)}: {sum(low)} additions")


def bad_disk(word, says, engine="log", where="log-0000000000000001", of_several=False, buffered=False):
    """The disk fails in the middle: one line with file and cause, an exit code, and what was acknowledged is there. A member that has others to be
    alive for has a thread that waits for its disk. buffered: each write has a sync of its own."""
    name = f"{word}-{engine}-{of_several}-{buffered}"
    state, switch = f"{place}/bad-{name}", f"{place}/switch-{name}"
    member = []
    if of_several:
        drawn = subprocess.run([programs + "/htc-kvd", "--dir", state, "--new-member"], capture_output=True, text=True, check=True, timeout=60)
        member = ["--member", f"{drawn.stdout.strip()}@unix:{state}/kvd.sock"]
    p = start("--dir", state, *member, env={"LD_PRELOAD": f"/proc/self/fd/{shim}", "BAD_DISK": switch, "ASAN_OPTIONS": "verify_asan_link_order=0",
                                            **({"BAD_DISK_BUFFERED": "1"} if buffered else {})}, engine=engine)
    c = Client(p.port)
    for i in range(100):
        check(c.ask("SET", f"k{i}", i) == "OK", "set")
    with open(switch, "w") as f:
        f.write(word)
    try:
        c.send(("SET", "k0", "new"))
        got = c.reply()
        check(False, "nobody is told that it is stored", got)
    except (ConnectionError, OSError):
        pass
    err = end(p, None, None)
    check(p.returncode not in (0, -6, -11), "an exit code that says it failed", p.returncode)
    named = [l for l in err if says in l and where in l and "Input/output error" in l]
    check(len(named) == 1, "one line names the file and the cause", err)
    os.unlink(switch)
    p = start("--dir", state, *member, engine=engine)
    c = Client(p.port)
    check([c.ask("GET", f"k{i}") for i in range(1, 100)] == [str(i).encode() for i in range(1, 100)], "what was acknowledged is there")
    check(c.ask("GET", "k0") in (b"0", b"new"), "what was not may be")
    end(p, 0)
    print(f"ok - {engine}, a {word} that fails: {named[0].split(' ', 2)[2]}")


def syncs_later():
    """--sync-ms: what is stored is answered at once, and synced no earlier than that: a disk that fails then is noticed then."""
    for i in range(20):
        state, switch = f"{place}/later{i}", f"{place}/switch-later{i}"
        p = start("--dir", state, "--durability", "interval", "--sync-ms", "3000",
                  env={"LD_PRELOAD": f"/proc/self/fd/{shim}", "BAD_DISK": switch, "ASAN_OPTIONS": "verify_asan_link_order=0"})
        c = Client(p.port)
        began = time.monotonic()
        answer = [c.ask("SET", f"k{k}", "v") for k in range(100 << min(i, 8))] # meanwhile the next segment is made, if all goes well
        with open(switch, "w") as f:
            f.write("sync")
        try:
            c.ask("SET", "k0", "v")  # so that there is something to sync, if what was stored was synced meanwhile
        except ConnectionError:
            pass
        err = end(p, None, None)
        took = time.monotonic() - began
        os.unlink(switch)
        if not any("it cannot be made" in l for l in err): # else it was not, and is synced by itself: once more
            break
    check(set(answer) == {"OK"} and took >= 3, "it is synced after the interval", took, err)
    check(any("it cannot be synced" in l for l in err), "and then it is said", err)
    for how, n in (("interval", "0"), ("interval", "10001"), ("interval", "1s"), ("sync", "100"), ("memory", "100")):
        q = subprocess.run([programs + "/htc-kvd", "--dir", state, "--engine", "log", "--durability", how, "--sync-ms", n],
                           capture_output=True, text=True, timeout=60)
        check(q.returncode == 1 and "--sync-ms" in q.stderr, "refused", how, n, q.returncode, q.stderr)
    print("ok - --sync-ms 3000")


def full_disk():
    small = place + "/small"
    os.mkdir(small)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m,mode=0700", "none", small],
                                           stderr=subprocess.DEVNULL).returncode != 0:
        print("skip - a full disk: mounting a small tmpfs needs root")
        return
    mounted.append(small)
    p = start("--dir", small + "/state")
    c = Client(p.port)
    c.ask("SET", "witness", "here")
    value, kept = os.urandom(200000), 0
    while True:
        got = c.ask("SET", f"big{kept}", value)
        if got != "OK":
            break
        kept += 1
        check(kept < 1500, "the disk is full at some time")
    check("full" in str(got) or "space" in str(got), "a full disk is said to be full", got)
    check(kept > 200, "there was room for some", kept)
    for i in range(20):
        check(c.ask("GET", "witness") == b"here" and c.ask("GET", f"big{i}") == value, "reads go on")
        check(isinstance(c.ask("SET", f"more{i}", value), RuntimeError), "changes are refused")
    check(c.ask("GET", "more3") is None, "a refused change is none")
    check(c.ask("PING") == "PONG" and c.ask("DBSIZE") == kept + 1, "nothing else suffers")
    subprocess.run(["mount", "-o", "remount,size=600m", small], check=True)
    until = time.time() + 60
    while c.ask("SET", "again", value) != "OK":
        check(time.time() < until, "with room again it goes on")
        time.sleep(0.1)
    end(p, 0)
    p = start("--dir", small + "/state")
    c = Client(p.port)
    check(c.ask("DBSIZE") == kept + 2 and c.ask("GET", f"big{kept - 1}") == value and c.ask("GET", "again") == value, "all is kept")
    end(p, 0)
    print(f"ok - a full disk after {kept} values")


def htc(code, *words):
    p = subprocess.run([programs + "/htc", "kv", *words], capture_output=True, timeout=120)
    check(p.returncode == code, "exit code", words, p.returncode, p.stdout[-500:], p.stderr[-500:])
    return p.stdout, p.stderr.decode()


def dumped(state, code=0):
    out, _ = htc(code, "dump", state, "--json")
    return {r["key"]: r["value"] for r in json.loads(out)}


def looked_at(engine):
    """fsck and dump: a whole store, one that is held, one with a flipped byte at many places; and the way back with restore."""
    state = f"{place}/fsck-{engine}"
    p = start("--dir", state, engine=engine)
    c = Client(p.port)
    keys = {f"key{i}": f"value {i} " * 30 for i in range(100)}
    for k, v in keys.items():
        check(c.ask("SET", k, v) == "OK", "set")
    check(c.ask("SET", "gone", "x") == "OK" and c.ask("DEL", "gone") == 1, "delete")
    _, err = htc(6, "fsck", state)
    check("a member holds this store" in err, "a running member is left alone", err)
    end(p, 0)
    out, _ = htc(0, "fsck", state)
    check(out.decode().startswith(f"{engine}: 100 keys"), "a whole store", out)
    found = json.loads(htc(0, "fsck", state, "--json")[0])
    check(found["keys"] == 100 and found["lost"] == 0 and found["problems"] == [], "as JSON", found)
    check(dumped(state) == keys, "a dump has every key")
    htc(0, "dump", state, f"{place}/{engine}.kv")
    check(os.stat(f"{place}/{engine}.kv").st_mode & 0o777 == 0o600, "a dump is for nobody else to read")
    htc(4, "fsck", place + "/nothing")
    htc(1, "fsck")
    # Back into another store.
    p = start("--dir", f"{state}-back", engine=engine)
    out, _ = htc(0, "restore", f"{place}/{engine}.kv", "--store", f"unix:{state}-back/kvd.sock", "--json")
    check(json.loads(out) == {"kept": 0, "leased": 0, "restored": 100}, "restored", out)
    check(Client(p.port).ask("GET", "key77") == keys["key77"].encode(), "a value came back")
    end(p, 0)
    # A byte is flipped: at most what stood there is lost, it is named, and all else is read. (LMDB has no checksum of pages.)
    name = state + ("/store/log-0000000000000001" if engine == "log" else "/store/data.mdb")
    with open(name, "rb") as f:
        whole = f.read(100000)
    named = 0
    for i in range(60 if full else 12):
        at = whole.index(b"value %d " % i, 512) + 3 if engine == "lmdb" else rng.randrange(512, 100 * 512)
        with open(name, "r+b") as f:
            f.seek(at)
            f.write(bytes([whole[at] ^ (1 << rng.randrange(8))]))
        p = subprocess.run([programs + "/htc", "kv", "fsck", state, "--json"], capture_output=True, timeout=60)
        check(p.returncode in (0, 70), "fsck ends in order", at, p.returncode, p.stderr)
        found = json.loads(p.stdout)
        check(found["keys"] >= 99, "one damage takes one key at most", at, found)
        check(p.returncode == 70 or found["keys"] == 100, "who is lost is told", at, found)
        for q in found["problems"]:
            check(q["cause"] and q["next"] and q["file"], "a problem has a file, a cause, a next step", q)
        named += any(abs(q["offset"] - at) < 1024 for q in found["problems"])
        left = dumped(state, p.returncode)
        check(all(keys[k] == v for k, v in left.items()) and len(left) == found["keys"], "what is dumped is true", at)
        with open(name, "r+b") as f:
            f.seek(at)
            f.write(whole[at : at + 1])
    check(named > 0 or engine == "lmdb", "damage is named by its place", named)
    check(dumped(state) == keys, "nothing was changed by looking")
    print(f"ok - fsck and dump, {engine}")


def pages_of_lmdb():
    """512 bytes of any page become zeros: all keys are there, or it is said that some are not, whatever LMDB makes of it."""
    state = f"{place}/pages"
    p = start("--dir", state, engine="lmdb")
    c = Client(p.port)
    keys = {f"key{i:05}": f"value {i} " * 8 for i in range(1337)}
    c.send(*[("SET", k, v) for k, v in keys.items()])
    check({c.reply() for _ in keys} == {"OK"}, "set")
    check(all(c.ask("DEL", f"key{i:05}") == 1 and c.ask("SET", f"key{i:05}", keys[f"key{i:05}"]) == "OK" for i in range(0, 1337, 50)), "set anew")
    end(p, 0)
    name, died, sound = state + "/store/data.mdb", 0, 0
    with open(name, "rb") as f:
        whole = f.read()
    places = [at + k for at in range(2 * 4096, len(whole), 4096) for k in (0, 512, 3584)]
    if not full:
        places = places[:6] + rng.sample(places, 40)
    for at in places:
        with open(name, "r+b") as f:
            f.write(whole)
            f.seek(at)
            f.write(bytes(512))
        p = subprocess.run([programs + "/htc", "kv", "fsck", state, "--json"], capture_output=True, timeout=60)
        check(p.returncode in (0, 70), "fsck ends in order", at, p.returncode, p.stderr)
        found = json.loads(p.stdout)
        check((p.returncode == 0) == (found["problems"] == []), "a problem is told", at, found)
        sound += p.returncode == 0
        died += any("reading it ended with" in q["cause"] for q in found["problems"])
        q = subprocess.run([programs + "/htc", "kv", "dump", state, "--json"], capture_output=True, timeout=60)
        left = {r["key"]: r["value"] for r in json.loads(q.stdout)} if q.stdout else {}
        check(all(keys.get(k) == v for k, v in left.items()) and len(left) == found["keys"], "what is dumped is true", at, len(left), found["keys"])
        check(p.returncode or left == keys, "where nothing is said all is there", at, len(left))
    with open(name, "wb") as f:
        f.write(whole)
    check(dumped(state) == keys, "nothing else was changed")
    print(f"ok - pages of lmdb: {len(places)} damaged, {sound} where it is no matter, {died} that end who reads them")


def without_superblocks():
    """Both superblocks of a log are gone, by bytes or as files: its segments are whole, and so is what fsck and dump find in them."""
    state, keys = f"{place}/superless", {}
    p = start("--dir", state, "--durability", "memory")
    c = Client(p.port)
    for i in range(130):  # HTC_TEST_FULL: more than one segment has room for
        keys[f"key{i % 100}"] = f"{i}:" + "x" * (700000 if full else 300)
        check(c.ask("SET", f"key{i % 100}", keys[f"key{i % 100}"]) == "OK", "set")
    check(c.ask("DEL", "key99") == 1, "delete")
    del keys["key99"]
    end(p, 0)
    store = state + "/store"
    supers = {name: open(f"{store}/{name}", "rb").read() for name in ("super.0", "super.1")}
    segments = sorted(n for n in os.listdir(store) if n.startswith("log-"))
    check(json.loads(htc(0, "fsck", state, "--json")[0])["keys"] == 99 and len(segments) > full, "a whole store", segments)

    def found(how, least):
        said = json.loads(htc(70, "fsck", state, "--json")[0])
        check({"super.0", "super.1"} <= {q["file"] for q in said["problems"]}, "both are named", how, said)
        check(all(q["cause"] and "htc kv dump" in q["next"] for q in said["problems"] if q["file"] in supers), "with a next step", how, said)
        left = dumped(state, 70)
        check(said["keys"] == len(left) >= least and all(k in keys for k in left), "all that the segments hold is found", how, len(left), said)
        return left

    def spoiled(name, data):
        os.unlink(f"{store}/{name}") if data is None else open(f"{store}/{name}", "wb").write(data)

    for how, data in ("zeroed", bytes(512)), ("emptied", b""), ("other bytes", os.urandom(512)), ("removed", None):
        for name in supers:
            spoiled(name, data)
        check(found(how, 99) == keys, "every value is the newest", how)
        p = subprocess.run([programs + "/htc-kvd", "--engine", "log", "--dir", state], capture_output=True, text=True, timeout=60)
        check(p.returncode == 70 and "no superblock can be read" in p.stderr and "htc kv fsck" in p.stderr, "no new store is begun there", how, p)
        p = subprocess.run([programs + "/htc-kvd", "--engine", "lmdb", "--dir", state], capture_output=True, text=True, timeout=60)
        check(p.returncode != 0 and "engine log, not lmdb" in p.stderr, "nor another engine", how, p)
    htc(70, "dump", state, f"{place}/superless.kv")
    p = start("--dir", f"{state}-back")
    out, _ = htc(0, "restore", f"{place}/superless.kv", "--store", f"unix:{state}-back/kvd.sock", "--json")
    check(json.loads(out)["restored"] == len(keys), "restored", out)
    end(p, 0)
    print("ok - without superblocks")


def large_values_come_back():
    """More bytes than a client has on their way at once, which has to be no matter to who restores them."""
    state = f"{place}/large"
    p = start("--dir", state, "--durability", "memory")
    c = Client(p.port)
    for i in range(6):
        check(c.ask("SET", f"key{i}", bytes([65 + i]) * (12 << 20)) == "OK", "set")
    at = ["--store", f"unix:{state}/kvd.sock"]
    htc(0, "backup", f"{place}/large.kv", *at)
    htc(0, "restore", "--replace", f"{place}/large.kv", *at)
    check(c.ask("GET", "key5") == b"F" * (12 << 20), "a value came back")
    end(p, 0)
    print("ok - large values come back")


def spoil(state, words):
    """A bit of the values that are there, each once in the one segment of a log."""
    name = state + "/store/log-0000000000000001"
    with open(name, "rb") as f:
        whole = f.read()
    for w in words:
        check(whole.count(w) == 1, "a value stands there once", w, whole.count(w))
        with open(name, "r+b") as f:
            f.seek(whole.index(w) + 3)
            f.write(bytes([w[3] ^ 1]))


def advice():
    """What is said of damage can be done, by the state that is said: lost, superseded, of one process, of a member."""
    state = place + "/advice"
    p = start("--dir", state)
    c = Client(p.port)
    for k, v in ("other", "x" * 300000), ("old", "older " * 30), ("lost", "precious " * 30), ("old", "newer " * 30), ("end", "x"):
        check(c.ask("SET", k, v) == "OK", "set")
    end(p, 0)
    out, _ = htc(0, "fsck", state)
    check(out.decode().endswith(": no damage\n"), "a whole store", out)
    old, lost = b"older " * 30, b"precious " * 30
    spoil(state, [old])
    out, err = htc(70, "fsck", "--dir", state)
    lines = out.decode().splitlines()
    check(len(lines) == 2 and 'an older value of "old" is damaged; a newer one is whole -> nothing is lost; look after the disk' in lines[0]
          and re.match("log-0000000000000001, byte [1-9][0-9]*: ", lines[0]), "superseded", lines)
    check("1 problem, and no key is known to be lost" in err, "superseded", err)
    check(dumped(state, 70).keys() == {"other", "old", "lost", "end"}, "nothing is lost")
    spoil(state, [lost])
    out, err = htc(70, "fsck", state)
    lines = [l for l in out.decode().splitlines() if '"lost"' in l]
    check(len(lines) == 1 and re.match('log-0000000000000001, byte [1-9][0-9]*: the value of "lost" is damaged, and nothing newer was written -> '
                                       "htc kv dump DIR FILE saves all other keys: restore FILE into an empty --dir", lines[0]), "lost", lines)
    check("2 problems, and 1 key is lost: htc kv dump DIR FILE saves what can be read" in err, "lost", err)
    _, err = htc(70, "dump", state, place + "/advice.kv")
    check(err.splitlines()[-1].endswith(f"what can be read is in {place}/advice.kv"), "dumped", err)
    for form in "", "--json":
        head = subprocess.run(["bash", "-c", f"'{programs}/htc' kv dump '{state}' {form} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"],
                              capture_output=True, text=True, timeout=60)
        check(head.stdout.strip() == "0" and "htc:" not in head.stderr, "who has enough of a dump is told nothing", form, head)
    # A damaged one behind a damaged one: the key is told once as lost.
    twice = place + "/twice"
    p = start("--dir", twice)
    c = Client(p.port)
    for k, v in ("twice", "first " * 30), ("twice", "second " * 30), ("end", "x"):
        check(c.ask("SET", k, v) == "OK", "set")
    end(p, 0)
    spoil(twice, [b"first " * 30, b"second " * 30])
    found = json.loads(htc(70, "fsck", twice, "--json")[0])
    said = [(q["cause"], q["next"].split(":")[0], q["offset"] > 0) for q in found["problems"]]
    check(found["lost"] == 1 and said == [('an older value of "twice" is damaged', "the newer one counts; look after the disk", True),
                                          ('the value of "twice" is damaged, and nothing newer was written', "htc kv dump DIR FILE saves all other keys", True)],
          "damaged twice", found)
    # It is refused to everybody, with the way around it, and that way leads to a store.
    p = start("--dir", state)
    at = ["--store", f"unix:{state}/kvd.sock"]
    for words in ["get", "lost"], ["put", "lost", "new"], ["scan"], ["backup", place + "/not.kv"]:
        _, err = htc(70, *words, *at)
        check("htc kv dump DIR FILE saves the others" in err, "a next step", words, err)
    htc(0, "restore", place + "/advice.kv", *at)
    end(p, 0)
    p = start("--dir", state + "-new")
    at = ["--store", f"unix:{state}-new/kvd.sock"]
    htc(0, "restore", place + "/advice.kv", *at)
    htc(0, "put", "lost", "precious", *at)
    htc(0, "backup", place + "/whole.kv", *at)
    end(p, 0)
    p = start("--dir", state)
    _, err = htc(70, "restore", "--replace", place + "/whole.kv", "--store", f"unix:{state}/kvd.sock")
    check("try again" not in err and "htc kv fsck DIR says what to do" in err, "trying again does not help", err)
    end(p, 0)
    # A member takes it from the others.
    state += "-member"
    drawn = subprocess.run([programs + "/htc-kvd", "--dir", state, "--new-member"], capture_output=True, text=True, check=True, timeout=60)
    p = start("--dir", state, "--member", f"{drawn.stdout.strip()}@unix:{state}/kvd.sock")
    c = Client(p.port)
    for k, v in ("lost", "precious " * 30), ("end", "x"):
        check(c.ask("SET", k, v) == "OK", "set")
    end(p, 0)
    spoil(state, [lost])
    out, _ = htc(70, "fsck", state)
    check('"lost" is damaged' in out.decode() and "a member takes this from the other owners by itself" in out.decode(), "of a member", out)
    print("ok - advice")


def refuse(code, words, *options):
    p = subprocess.run([programs + "/htc-kvd", "--engine", "log", *options], capture_output=True, text=True, timeout=60)
    check(p.returncode == code and p.stdout == "", "exit code", options, p.returncode, p.stderr)
    check(len(p.stderr.splitlines()) == 1 and words in p.stderr, "one line that says what to do", options, p.stderr)


try:
    kills(60 if full else 8)
    kills(30 if full else 3, "--durability", "interval")
    kills(30 if full else 3, "--durability", "memory", "--memory", "100000000")
    bad_disk("sync", "sync")
    bad_disk("sync", "(sync log-", buffered=True)
    bad_disk("sync", "sync", of_several=True)
    bad_disk("sync", "(sync log-", of_several=True, buffered=True)
    syncs_later()
    bad_disk("write", "write")
    bad_disk("write", "(write log-", buffered=True)
    bad_disk("write", "write", of_several=True)
    bad_disk("sync", "a batch cannot be written", "lmdb", "store/data.mdb")
    bad_disk("write", "a batch cannot be written", "lmdb", "store/data.mdb")
    full_disk()
    looked_at("log")
    looked_at("lmdb")
    pages_of_lmdb()
    advice()
    without_superblocks()
    if "HTC_TEST_LIGHT" not in os.environ:
        large_values_come_back()
    state = place + "/taken"
    p = start("--dir", state)
    refuse(6, "another process", "--dir", state)
    end(p, 0)
    q = subprocess.run([programs + "/htc-kvd", "--engine", "lmdb", "--dir", state], capture_output=True, text=True, timeout=60)
    check(q.returncode != 0 and "engine log, not lmdb" in q.stderr, "another engine is not begun beside it", q.returncode, q.stderr)
    print("ok")
finally:
    for p in running:
        p.kill()
        p.wait()
    for m in mounted:
        subprocess.run(["umount", m])
    shutil.rmtree(place, ignore_errors=True)
