#!/usr/bin/env python3
"""usage: standby.py PROGRAM_FOLDER [etcd|redis]
Two gateways on a store of three members, on etcd or on Redis (skipped where it is not installed), and two hosts that have joined. While a job runs, the active gateway is killed with all of its system, killed alone,
stopped for longer than its lease, or cut off from the store; a member is killed. So are by turns the agents of a host and what has joined there, which is started
again. The other gateway goes on, and every task has one result, with its own output. Redis or etcd is killed too, and started again with what it has kept. Prints its seed; HTC_TEST_SEED repeats one, HTC_TEST_FULL=1 disturbs for longer, HTC_TEST_LIGHT=1 less."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
HTC, KVD, AGENT = (os.path.join(BIN, name) for name in ("htc", "htc-kvd", "htc-agent"))
STORE = sys.argv[2] if len(sys.argv) > 2 else "members"
SEED = int(os.environ.get("HTC_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = 20 if os.environ.get("HTC_TEST_FULL") == "1" else 2 if "HTC_TEST_LIGHT" in os.environ or STORE != "members" else 5  # 5: each disturbance once
TASKS = (80 if STORE == "members" else 20) * ROUNDS
LEASE = 1.5
HOSTS, MEMBERS = ("east", "west"), ("a", "b", "c") if STORE == "members" else ()
TOP = tempfile.mkdtemp(prefix="htc-standby-")
PORTS = int(subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ports.py"), "5", str(os.getpid())],
                           capture_output=True, text=True, check=True).stdout)
if "HTC_TEST_LIGHT" in os.environ and STORE != "members":
    print("skipped: stores_etcd and stores_redis are the light form")
    raise SystemExit(77)
ETCD = shutil.which("etcd", path=os.environ["PATH"] + ":/usr/sbin:/usr/bin")
REDIS = shutil.which("redis-server") or shutil.which("redis-check-rdb")  # one program, which does as it is called
if STORE == "etcd" and not ETCD or STORE == "redis" and not REDIS:
    print("SKIP: no %s is installed (Debian's %s)" % (STORE, {"etcd": "etcd-server", "redis": "redis-server"}[STORE]))
    raise SystemExit(77)
rng = random.Random(SEED)
others = {}  # members and hosts: name -> process


def at(*names):
    return os.path.join(TOP, *names)


def fail(text):
    print("FAILED (HTC_TEST_SEED=%d): %s" % (SEED, text), file=sys.stderr)
    for folder, _, files in os.walk(TOP):
        for name in files:
            if name.endswith((".log", ".said")) and "/data" not in folder:
                print("---", os.path.join(folder, name), open(os.path.join(folder, name), errors="replace").read()[-1500:], sep="\n", file=sys.stderr)
    raise SystemExit(1)


def run(*words, may_fail=False, timeout=60):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=TOP, timeout=timeout, stdin=subprocess.DEVNULL)
    if done.returncode != 0 and not may_fail:
        fail("%s: exit code %d: %s%s" % (" ".join(map(str, words)), done.returncode, done.stdout, done.stderr))
    return done


def soon(what, fn, seconds=40):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.1)
    return fail("not within %d s: %s" % (seconds, what))


def start(name, words, ready):
    said = open(at(name, "said.said"), "w")
    others[name] = subprocess.Popen(words, cwd=TOP, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    soon("%s says '%s'" % (name, ready), lambda: ready in open(at(name, "said.said")).read())


def public(name):
    return run(HTC, "keys", "show", at(name, "key")).stdout.strip()


def pin(where, names, role):
    for name in names:
        run(HTC, "keys", "add", name, public(name), "--ring", at(where, "ring"), "--role", role)


def start_member(name):
    start(name, [KVD, "--dir", at(name, "data"), "--engine", "log", "--listen", member_address(name), "--key", at(name, "key"), "--ring", at(name, "ring"), *members],
          "ready")


def start_other(always="always"):
    """Redis or etcd: one server, which keeps what it has answered."""
    port = str(PORTS)
    words = {"etcd": ["etcd", "--name", "e", "--data-dir", at("store"), "--listen-client-urls", "http://127.0.0.1:" + port, "--advertise-client-urls",
                      "http://127.0.0.1:" + port, "--listen-peer-urls", "http://127.0.0.2:" + port, "--initial-advertise-peer-urls", "http://127.0.0.2:" + port,
                      "--initial-cluster", "e=http://127.0.0.2:" + port],
             "redis": ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", always, "--dir", at("store")]}[STORE]
    with open(at("store.said"), "a") as said:
        others["store"] = subprocess.Popen(words, executable=ETCD if STORE == "etcd" else REDIS, cwd=TOP, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    soon("the store answers", lambda: run(HTC, "kv", "--store", other_address(), "get", "there", may_fail=True).returncode == 4)


def other_address():
    return "%s://127.0.0.1:%d" % (STORE, PORTS)


def store_addresses():
    return ",".join("tcp://%s@%s" % (m, member_address(m)) for m in MEMBERS) if STORE == "members" else other_address()


def member_address(name):
    return "127.0.0.%d:%d" % (1 + MEMBERS.index(name), PORTS)


def gateway_address(n):
    return "127.0.0.1:%d" % (PORTS + n)


def up(n):
    run(HTC, "--dir", at("head%d" % n), "up", "--config", at("head%d.ini" % n), "--pause-max", "1", timeout=90)


def ask(n, *words):
    done = run(HTC, "--dir", at("head%d" % n), *words, may_fail=True)
    return done if done.returncode == 0 else None


def active():
    return next((n for n in (1, 2) if ask(n, "status", "--json")), None)


def processes(n):
    """supervisor, and (gateway, way to the store): those that name the directory."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open("/proc/%s/cmdline" % pid, "rb").read().decode(errors="replace").split("\0")
            parent = int(open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        name = os.path.basename(words[0])
        if name == "htc-gateway" and at("head%d" % n) in words:
            found["gateway"], found["supervisor"] = int(pid), parent
        elif name == "htc-kvd" and "unix:" + at("head%d" % n, "kvd.sock") in words:
            found["way"] = int(pid)
    return found


def kill_all_of(n):
    found = processes(n)
    for name in ("supervisor", "gateway", "way"):
        if name in found:
            os.kill(found[name], signal.SIGKILL)
    return lambda: up(n)


def kill_alone(n):
    os.kill(processes(n)["gateway"], signal.SIGKILL)


def stop(n, name):
    pid = processes(n)[name]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(LEASE * rng.uniform(1.5, 3))
    os.kill(pid, signal.SIGCONT)


def kill_member(_):
    name = rng.choice(MEMBERS)
    others[name].kill()
    others[name].wait()
    return lambda: start_member(name)


def remote_agents(host):
    """Processes of htc-agent there, but for the one that has joined."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            words = open("/proc/%d/cmdline" % pid, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if pid != others[host].pid and os.path.basename(words[0]) == "htc-agent" and any(w.startswith(at(host)) for w in words):
            found.append(pid)
    return found


def kill_remote(i):
    """The agents of a host, which are launched again, or what has joined: its agents live on, and the next one finds them."""
    host = HOSTS[i // 2 % 2]
    if i % 2 == 0:
        pids = remote_agents(host)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        print("%d agents of %s are killed" % (len(pids), host), flush=True)
    else:
        print("what has joined at %s is killed" % host, flush=True)
        others[host].kill()
        others[host].wait()
        start_host(host)


def kill_other(_):
    others["store"].kill()
    others["store"].wait()
    return start_other


DISTURBANCES = [("its system is killed", kill_all_of), ("it is stopped", lambda n: stop(n, "gateway")), ("it is cut off from the store", lambda n: stop(n, "way")),
                ("it is killed", kill_alone), ("a member is killed", kill_member)]
if STORE != "members":
    DISTURBANCES = [DISTURBANCES[0], ("the store is killed", kill_other), *DISTURBANCES[1:4]]


def begin():
    for name in (*MEMBERS, "head1", "head2", *HOSTS):
        os.mkdir(at(name), 0o700)
        run(HTC, "keys", "new", at(name, "key"))
    for name in MEMBERS:
        pin(name, MEMBERS, "member")
        pin(name, ("head1", "head2"), "user")
        members.extend(("--member", "%s@tcp://%s@%s" % (run(KVD, "--dir", at(name, "data"), "--new-member").stdout.strip(), name, member_address(name))))
    for n in (1, 2):
        pin("head%d" % n, MEMBERS, "member")
        pin("head%d" % n, HOSTS, "host")
        with open(at("head%d.ini" % n), "w") as f:
            f.write("[server]\njoin = %s\nlease_s = %s\n[db]\nstore = %s\n[agent]\nheartbeat_s = 0.5\nlost_after_s = 8\n[task]\nmax_lost = 100000\n" %
                    (gateway_address(n), LEASE, store_addresses()))
            for host in HOSTS:
                f.write("[site.%s]\nadapter = join\n" % host)
    for name in MEMBERS[:2]:
        others[name] = subprocess.Popen([KVD, "--dir", at(name, "data"), "--engine", "log", "--listen", member_address(name), "--key", at(name, "key"), "--ring",
                                         at(name, "ring"), *members], cwd=TOP, stdin=subprocess.DEVNULL, stdout=open(at(name, "said.said"), "w"), stderr=subprocess.STDOUT)
    if STORE == "members":
        start_member(MEMBERS[2])
    else:
        begin_other()
    for n in (1, 2):
        up(n)
    for host in HOSTS:
        pin(host, ("head1", "head2"), "member")
        start_host(host)


def start_host(host):
    start(host, [AGENT, "--join", gateway_address(1) + "," + gateway_address(2), "--key", at(host, "key"), "--ring", at(host, "ring"), "--slots", "2",
                 "--dir", at(host, "state")], "joined")


def begin_other():
    os.mkdir(at("store"), 0o700)
    if STORE == "redis":
        start_other("everysec")
        done = run(KVD, "--proxy", other_address(), "--at", "unix:" + at("way.sock"), may_fail=True)
        if done.returncode == 0 or "appendfsync is not always" not in done.stderr or "CONFIG SET appendfsync always" not in done.stderr:
            fail("a Redis that may lose what it has answered: %s%s" % (done.stdout, done.stderr))
        others["store"].kill()
        others["store"].wait()
    start_other()


def uploads_are_refused(n):
    with open(at("input"), "w") as f:
        f.write("x")
    done = run(HTC, "--dir", at("head%d" % n), "submit", "-i", at("input"), "--", "cat", "input", may_fail=True)
    if done.returncode == 0 or "uploads are refused" not in done.stderr:
        fail("an upload without data.shared: %s%s" % (done.stdout, done.stderr))


def large_job_is_refused(n):
    """etcd takes no value beyond 1 MiB: the submission ends, and not the gateway."""
    with open(at("values"), "w") as f:
        f.writelines("%d%s\n" % (i, "x" * 60) for i in range(20000))
    done = run(HTC, "--dir", at("head%d" % n), "submit", "--", "echo", "{v}", ":::", "v=@" + at("values"), may_fail=True, timeout=20)
    if done.returncode == 0 or "larger than what is allowed" not in done.stderr:
        fail("a job that is larger than the store takes: %s%s" % (done.stdout, done.stderr))


def check(job):
    def status():
        n = active()
        got = ask(n, "status", job, "--json") if n else None
        return json.loads(got.stdout) if got else None

    def done():
        s = status()
        s = s["jobs"][0] if s and "jobs" in s else s
        return s if s and s["state"] not in ("running", "queued", "waiting") else None

    s = soon("the job ends", done, 120)
    if s["tasks"]["done"] != TASKS or s["count"] != TASKS:
        fail("the job has ended with %s" % s["tasks"])

    def fetched():
        shutil.rmtree(at("results"), ignore_errors=True)
        n = active()
        return n and ask(n, "fetch", job, "--to", at("results"))

    soon("the results are fetched", fetched, 60)
    lines = []
    for folder, _, files in os.walk(at("results")):
        lines += [open(os.path.join(folder, f)).read().strip() for f in files if f.startswith("stdout") or f.endswith("stdout")]
    if sorted(lines) != sorted("task %d" % i for i in range(1, TASKS + 1)):
        fail("results: %d, of %d different ones" % (len(lines), len(set(lines))))
    print("%d tasks have one result each; %d attempts, %d lost" % (TASKS, s["attempts"], s["lost"]))


def main():
    begin()
    first = soon("a gateway is active", active)
    waiting = run(HTC, "--dir", at("head%d" % (3 - first)), "status", may_fail=True)
    if waiting.returncode != 3 or "waits" not in waiting.stderr or gateway_address(first) not in waiting.stderr:
        fail("the one that waits says: %s%s" % (waiting.stdout, waiting.stderr))
    uploads_are_refused(first)
    if STORE == "etcd":
        large_job_is_refused(first)
    run(HTC, "--dir", at("head%d" % first), "submit", "--", "sh", "-c", "sleep 0.2; echo task {}", ":::", *range(1, TASKS + 1))
    terms, done = 0, set()
    for i in range(ROUNDS):
        n = soon("a gateway is active", active)
        text, fn = DISTURBANCES[i % len(DISTURBANCES)] if i < len(DISTURBANCES) else rng.choice(DISTURBANCES)
        print("gateway %d: %s" % (n, text), flush=True)
        done.add(text)
        again = fn(n)
        if fn is kill_other:
            again = again()
        now = soon("a gateway is active", active)
        terms += now != n
        kill_remote(i)
        if again:
            again()
        time.sleep(rng.uniform(0, 1))
    if not terms:
        fail("no other gateway has gone on")
    if ROUNDS > 2 and len(done) < len(DISTURBANCES):
        fail("of %d disturbances there were only: %s" % (len(DISTURBANCES), ", ".join(sorted(done))))
    check("2" if STORE == "etcd" else "1")


members = []
try:
    print("seed", SEED, flush=True)
    main()
finally:
    for n in (1, 2):
        for pid in processes(n).values():
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)
    for p in others.values():
        p.send_signal(signal.SIGTERM)
    for p in others.values():
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
    for pid in filter(str.isdigit, os.listdir("/proc")):  # agents, which outlive all of these
        try:
            if TOP in open("/proc/%s/cmdline" % pid, "rb").read().decode(errors="replace"):
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    shutil.rmtree(TOP, ignore_errors=True)
