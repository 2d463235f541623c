#!/usr/bin/env python3
"""Clients of a store that is asked through two proxies, while both and the store's member are killed (-9) at random moments and started again.

Fourteen clients (kvs_load.c) add and swap on a few keys, two hold leases; what they were told is judged as a history: each change was made once, whoever was
killed between it and its answer. Some of them reach the member as well, and repeat there what they have sent through a proxy. Then by hand: what a proxy
refuses is refused in words, a value of 16 MiB comes through whole, eight at once too; a proxy without a store says so at once, and one whose store comes back goes on;
the next of several stores takes over; over TCP with keys, and nobody without one; and requests of many clients leave together.
HTC_TEST_FULL: ten minutes; HTC_TEST_LIGHT: six seconds. HTC_TEST_SEED repeats a run."""
import hashlib, os, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

programs, loader = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
LIGHT, FULL = 'HTC_TEST_LIGHT' in os.environ, 'HTC_TEST_FULL' in os.environ
SECONDS, SEED = 600 if FULL else 6 if LIGHT else 30, int(os.environ.get('HTC_TEST_SEED', random.SystemRandom().randrange(1 << 32)))
top = tempfile.mkdtemp(prefix='htc-proxy-')
running = {}


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s, seed %d)' % (what, top, SEED))


def begin(name, *words):
    with open(os.path.join(top, name + '.log'), 'a') as log:
        running[name] = subprocess.Popen([kvd, *words], stdout=subprocess.PIPE, stderr=log, text=True, cwd=top)


def ready(name):
    line = running[name].stdout.readline()
    check(line.startswith('ready: '), '%s is ready: %r' % (name, line))
    return line


def start(name, *words):
    """Starts a program that says when it is ready."""
    begin(name, *words)
    return ready(name)


def kill(name):
    p = running.pop(name)
    p.kill()
    p.wait()


def store(name='store'):
    return start(name, '--engine', 'log', '--dir', name)


def proxy(name, to='unix:%s/store/kvd.sock', *more):
    to = to % top if '%' in to else to
    return start(name, '--proxy', to, '--at', 'unix:%s/%s.sock' % (top, name), '--metrics', 'unix:%s/%s.metrics' % (top, name), *more)


def kv(where, *words, value=None, ok=True, timeout='30s'):
    """What a command at this store says; where ok is false all that it says, and that it has failed."""
    done = subprocess.run([htc, 'kv', '--store', where if ':' in where else 'unix:%s/%s.sock' % (top, where), '--timeout', timeout, *words], input=value,
                          capture_output=True, timeout=120, cwd=top)
    check((done.returncode == 0) == ok, '%s at %s: exit %d: %s' % (' '.join(words), where, done.returncode, done.stderr.decode()))
    return done.stdout if ok else (done.stdout + done.stderr).decode()


def wait_for(where):
    """Until a store answers there."""
    for _ in range(600):
        if subprocess.run([htc, 'kv', '--store', where if ':' in where else 'unix:%s/%s.sock' % (top, where), 'scan', 'nothing'], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    check(0, '%s answers' % where)


def metrics(name):
    page = subprocess.run(['curl', '-s', '--unix-socket', os.path.join(top, name + '.metrics'), 'http://localhost/metrics'], capture_output=True, text=True).stdout
    return {m[0]: int(m[1]) for m in re.findall(r'^(htc_kv_\w+) (\d+)$', page, re.M)}


def kills():
    """The history of many clients, while somebody is killed every moment."""
    draw, counts = random.Random(SEED), {'p1': 0, 'p2': 0, 'store': 0}
    store()
    proxy('p1')
    proxy('p2')
    for name in ('p1', 'p2'):
        wait_for(name)
    with open(os.path.join(top, 'where'), 'w') as f:
        f.write(''.join('unix:%s/%s\n' % (top, at) for at in ('p1.sock', 'p2.sock', 'p1.sock', 'store/kvd.sock')))
    load = subprocess.Popen([loader, top, str(SECONDS + 60), str(SEED), '14'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    over, passed, round = time.monotonic() + SECONDS, 0, []
    while (time.monotonic() < over or min(counts.values()) == 0) and load.poll() is None:
        time.sleep(draw.uniform(0.05, 0.5))
        if not round: # each of them in every round, however slow this machine is
            round = draw.sample(['p1', 'p2', 'p1', 'p2', 'store'], 5)
        name = round.pop()
        if name != 'store':
            passed += metrics(name).get('htc_kv_proxy_requests_total', 0)
        kill(name)
        counts[name] += 1
        time.sleep(draw.choice([0, 0, draw.uniform(0, 0.3)]))
        store() if name == 'store' else proxy(name)
    said, _ = load.communicate('.')
    check(load.returncode == 0, 'the history of the clients: ' + said)
    check(passed > 0 and min(counts.values()) > 0, 'somebody asks through proxies, and each is killed: %d, %s' % (passed, counts))
    print(said.strip().replace('\n', '; '))
    print('killed: %s; at least %d requests through proxies' % (counts, passed))


def by_hand():
    value = random.Random(SEED).randbytes(16 << 20)
    kv('p1', 'put', 'large', '--file', '-', value=value)
    check(hashlib.sha256(kv('p2', 'get', 'large')).digest() == hashlib.sha256(value).digest(), 'a value of 16 MiB comes back as it was')
    wrong = []
    together = [threading.Thread(target=lambda i=i: (kv('p1', 'put', 'large-%d' % i, '--file', '-', value=value, timeout='100s'),
                                                     kv('p1', 'get', 'large-%d' % (i - i % 2), timeout='100s') == value or wrong.append(i))) for i in range(8)]
    for t in together[::2] + together[1::2]:
        t.start()
    for t in together:
        t.join()
    check(not [i for i in wrong if i % 2 == 0], 'eight clients with values of 16 MiB at once: %s' % wrong)
    check(b'large\n' in kv('p1', 'scan', 'large'), 'a scan')
    check('has no watches' in kv('p1', 'watch', 'large', ok=False), 'a watch is refused in words')
    kv('p1', 'put', 'n', '1')
    version = kv('p1', 'put', 'n', '2').split()[1].decode()
    kv('p1', 'cas', 'n', '3', '--version', version)
    check('2' not in kv('p1', 'cas', 'n', '4', '--version', version, ok=False).split(), 'a mismatch')
    kill('store')
    check('nobody answers' in kv('p1', 'get', 'n', ok=False), 'a proxy without a store says so')
    store()
    wait_for('p1')
    check(kv('p1', 'get', 'n').strip() == b'3', 'what was stored is there when the store is back')


def next_store():
    """The second of two members of one store takes over when the first is gone."""
    ids = [subprocess.run([kvd, '--dir', 'm%d' % n, '--new-member'], capture_output=True, text=True, cwd=top).stdout.strip() for n in range(3)]
    words = sum((['--member', '%s@unix:%s/m%d/kvd.sock' % (ids[n], top, n)] for n in range(3)), [])
    for n in range(3):
        begin('m%d' % n, '--engine', 'log', '--dir', 'm%d' % n, *words)
    for n in range(3):
        ready('m%d' % n)
    proxy('p3', 'unix:%s/m0/kvd.sock,unix:%s/m1/kvd.sock' % (top, top))
    wait_for('p3')
    for n in range(20):
        kv('p3', 'put', 'k%d' % n, str(n))
    kill('m0')
    wait_for('p3')
    for n in range(20):
        check(kv('p3', 'get', 'k%d' % n).strip() == str(n).encode(), 'k%d through the other member' % n)
    for name in ('p3', 'm1', 'm2'):
        kill(name)


def keys():
    """Over TCP: a proxy with a user's key at a member, and users with keys at the proxy."""
    def run(*words):
        done = subprocess.run(words, capture_output=True, text=True, cwd=top)
        check(done.returncode == 0, '%s: %s' % (' '.join(words), done.stderr))
        return done.stdout.strip()
    for name in ('member', 'proxy', 'user', 'stranger'):
        run(htc, 'keys', 'new', name + '.key')
    show = {name: run(htc, 'keys', 'show', name + '.key') for name in ('member', 'proxy', 'user')}
    run(htc, 'keys', 'add', 'proxy', show['proxy'], '--ring', 'member.ring', '--role', 'user')
    run(htc, 'keys', 'add', 'member', show['member'], '--ring', 'proxy.ring', '--role', 'member')
    run(htc, 'keys', 'add', 'user', show['user'], '--ring', 'proxy.ring', '--role', 'user')
    run(htc, 'keys', 'add', 'proxy', show['proxy'], '--ring', 'user.ring', '--role', 'member')
    port = start('far', '--engine', 'memory', '--listen', '127.0.0.1:0', '--key', 'member.key', '--ring', 'member.ring').strip().rsplit(':', 1)[1]
    at = start('p4', '--proxy', 'tcp://member@127.0.0.1:' + port, '--listen', '127.0.0.1:0', '--key', 'proxy.key', '--ring', 'proxy.ring').strip().rsplit(':', 1)[1]
    def far(key, *words):
        return subprocess.run([htc, 'kv', '--store', 'tcp://127.0.0.1:' + at, '--key', key, '--ring', 'user.ring', *words], capture_output=True, text=True, cwd=top)
    for _ in range(100):
        done = far('user.key', 'put', 'k', 'v')
        if done.returncode == 0:
            break
        time.sleep(0.1)
    check(done.returncode == 0 and far('user.key', 'get', 'k').stdout.strip() == 'v', 'over TCP with keys: ' + done.stderr)
    done = far('stranger.key', 'get', 'k')
    check(done.returncode != 0, 'nobody without a key: %d %s' % (done.returncode, done.stdout))
    kill('p4')
    kill('far')


def packs():
    """Many clients at once: fewer messages than requests."""
    before = metrics('p1')
    done = [subprocess.Popen([htc, 'kv', '--store', 'unix:%s/p1.sock' % top, 'add', 'counter', '1'], stdout=subprocess.DEVNULL) for _ in range(100)]
    sure = [p.wait() for p in done].count(0) # a slow machine leaves outcomes unknown: such a client says so, and may have added
    counter = int(kv('p1', 'get', 'counter', timeout='100s'))
    check(0 < sure <= counter <= 100, 'of a hundred clients %d are sure that they have added one, and the counter is %d' % (sure, counter))
    after = metrics('p1')
    asked, sent = (after['htc_kv_proxy_%s_total' % what] - before['htc_kv_proxy_%s_total' % what] for what in ('requests', 'messages'))
    check(after['htc_kv_proxy_store'] == 1 and sent <= asked, 'metrics: %d, %d' % (asked, sent))
    print('%d requests in %d messages' % (asked, sent))
    p = running.pop('p1')
    p.send_signal(signal.SIGTERM)
    check(p.wait() == 0 and not os.path.exists(os.path.join(top, 'p1.sock')), 'a proxy ends when it is told')


try:
    print('seed %d' % SEED)
    kills()
    by_hand()
    packs()
    next_store()
    keys()
    shutil.rmtree(top, ignore_errors=True)
finally:
    for p in running.values():
        p.kill()
        p.wait()
