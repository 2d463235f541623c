#!/usr/bin/env python3
"""htc-kvd --shards: a store on several threads of one process, killed and started again; three processes of two shards by htc kv
cluster, one of them killed. Ports are drawn; nothing depends on how fast anything is. HTC_TEST_LIGHT: with one engine."""
import os, re, shutil, signal, subprocess, sys, tempfile, threading, time, urllib.request
from ports import row

from redis_client import Redis, Refused

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-shards-')
SHARDS, CLIENTS, KEYS = 4, 24, 60
processes = []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(expect, *words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, cwd=top)
    check(done.returncode == expect, '%s: exit %d instead of %d: %s%s'
          % (' '.join(words), done.returncode, expect, done.stdout, done.stderr))
    return done.stdout + done.stderr


class Process:
    """htc-kvd, ready."""

    def __init__(self, *words, shards=SHARDS):
        self.log = os.path.join(top, 'said')
        with open(self.log, 'w') as log:
            self.p = subprocess.Popen([kvd, '--shards', str(shards), *words], stdout=subprocess.PIPE, stderr=log, text=True, cwd=top)
        processes.append(self.p)
        self.said = self.p.stdout.readline()
        check(self.said.startswith('ready: ') and '%d shards' % shards in self.said, 'it is ready: %r' % self.said)
        self.port = self.number(r'RESP on 127\.0\.0\.1:(\d+)')

    def number(self, pattern):
        found = re.search(pattern, self.said)
        return int(found.group(1)) if found else 0

    def passed_over(self):
        """A shard was not heard of for so long that another one went on without it: the machine was slow for a second."""
        with open(self.log) as log:
            return 'go on without it' in log.read()

    def end(self, how):
        self.p.send_signal(how)
        return self.p.wait(timeout=60)


class Tally:
    """What was acknowledged and what is not known, for each key."""

    def __init__(self):
        self.lock, self.done, self.unknown, self.refused = threading.Lock(), {}, {}, []

    def note(self, key, known):
        with self.lock:
            which = self.done if known else self.unknown
            which[key] = which.get(key, 0) + 1

    def check(self, r, keys):
        for key in keys:
            n, done = int(r.sure('GET', key) or 0), self.done.get(key, 0)
            check(done <= n <= done + self.unknown.get(key, 0),
                  '%s is %d: %d acknowledged, %d unknown' % (key, n, done, self.unknown.get(key, 0)))


def change(r, tally, i):
    """One more, by INCR or by comparing and setting."""
    key = 'k%02d' % (i % KEYS)
    try:
        if i % 3:
            r.ask('INCR', key)
            tally.note(key, True)
            return
        old = r.ask('GET', key)
        now = str(int(old or 0) + 1)
        if r.ask('SET', key, now, *(['IFEQ', old] if old else ['NX'])) == 'OK':
            tally.note(key, True)
    except Refused as e:
        if e.unknown():
            tally.note(key, False)
        elif not e.busy():
            tally.refused.append('%s: %s' % (key, e))
    except (ConnectionError, OSError):
        tally.note(key, False)
        raise


def load(port, tally, rounds, seed, ended):
    """Clients that change all keys, until a round of each is done or the other end is gone."""
    try:
        r = Redis(port)
        for i in range(rounds):
            change(r, tally, seed * 7 + i)
    except (ConnectionError, OSError):
        ended.set()


def loads(port, tally, rounds, meanwhile=None):
    ended = threading.Event()
    threads = [threading.Thread(target=load, args=(port, tally, rounds, n, ended)) for n in range(CLIENTS)]
    for t in threads:
        t.start()
    if meanwhile:
        meanwhile()
    for t in threads:
        t.join()
    check(not tally.refused, 'nothing is refused: %s' % tally.refused[:5])
    return ended.is_set()


def all_keys(r):
    cursor, keys = '0', []
    while True:
        cursor, page = r.sure('SCAN', cursor, 'COUNT', 7)
        keys += page
        if cursor == '0':
            return keys


def page_of(process):
    with urllib.request.urlopen('http://127.0.0.1:%d/metrics' % process.number(r'metrics on 127\.0\.0\.1:(\d+)'), timeout=60) as f:
        return f.read().decode()


def sums(text, family, of=''):
    """The values of a family, added up for each shard."""
    found = {}
    for shard, value in re.findall(r'^%s\{shard="(\d+)"[^}]*%s[^}]*\} (\d+)$' % (family, of), text, re.M):
        found[int(shard)] = found.get(int(shard), 0) + int(value)
    return found


def wait_for(process, tally, n):
    """Until so many changes were acknowledged."""
    def wait():
        while sum(tally.done.values()) < n:
            time.sleep(0.005)
        process.end(signal.SIGKILL)
    return wait


def alone(engine):
    words = ['--dir', engine, '--engine', engine, '--resp', '127.0.0.1:0', '--metrics', '127.0.0.1:0']
    p, tally = Process(*words), Tally()
    keys = ['k%02d' % i for i in range(KEYS)]
    held = [Redis(p.port) for _ in range(2 * SHARDS)]
    for r in held:
        check(r.ask('PING') == 'PONG', 'PING')
    text = page_of(p)
    check(text.count('# TYPE htc_kv_serving ') == 1 and text.endswith('# EOF\n'), 'one family, one text')
    check(sums(text, 'htc_kv_serving') == {n + 1: 1 for n in range(SHARDS)}, 'each shard serves')
    check(sums(text, 'htc_kv_connections', 'protocol="resp"') == {n + 1: 2 for n in range(SHARDS)},
          'connections are dealt in turn')
    check(not loads(p.port, tally, 2 * KEYS), 'nobody is cut off')
    check(not tally.unknown or p.passed_over(), 'nothing is unknown: %s' % tally.unknown)
    kept = sums(page_of(p), 'htc_kv_keys')
    check(not kept or all(kept.values()), 'each shard has a part of them: %s' % kept)
    for r in held:
        check(r.sure('DBSIZE') == KEYS and sorted(all_keys(r)) == keys, 'each shown once, whoever is asked')
    tally.check(held[0], keys)
    # Killed at work, started again: what was acknowledged is there.
    check(loads(p.port, tally, 100 * KEYS, wait_for(p, tally, sum(tally.done.values()) + 300)), 'cut off')
    p = Process(*words)
    tally.check(Redis(p.port), keys)
    # Asked to end at work: it ends, and what was acknowledged is there.
    ended = []
    loads(p.port, tally, 2 * KEYS, lambda: ended.append(p.end(signal.SIGTERM)))
    check(ended == [0], 'it ends: %s' % ended)
    said = [run(4, kvd, *words, *more) for more in ([], ['--shards', '3'])]
    check(all('--shards %d' % SHARDS in s for s in said), 'another number is refused with what to do: %s' % said)
    run(1, kvd, *words[:1], engine + '/shard-2', *words[2:])
    p = Process(*words)
    tally.check(Redis(p.port), keys)
    check('100' in run(0, htc, 'kv', 'add', 'native', '100', '--dir', engine), 'the native protocol at the directory')
    check('100' in run(0, htc, 'kv', 'get', 'native', '--dir', engine + '/shard-3'), 'and at each shard')
    check(p.end(signal.SIGINT) == 0, 'it ends')


def refusals():
    check('is no number of shards' in run(1, kvd, '--shards', '65', '--resp', '127.0.0.1:0'), 'too many')
    check('is no number of shards' in run(1, kvd, '--shards', 'two', '--resp', '127.0.0.1:0'), 'no number')
    plain = subprocess.Popen([kvd, '--dir', 'plain', '--resp', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             cwd=top)
    processes.append(plain)
    check(plain.stdout.readline().startswith('ready: '), 'one shard')
    plain.terminate()
    check(plain.wait(timeout=60) == 0, 'it ends')
    check('made without --shards' in run(4, kvd, '--dir', 'plain', '--shards', '2', '--resp', '127.0.0.1:0'), 'a plain directory stays one')
    ids = run(0, kvd, '--dir', 'some', '--new-member', '--shards', '3').strip()
    check(len(ids.split(',')) == 3 and ids == run(0, kvd, '--dir', 'some', '--new-member', '--shards', '3').strip(), 'drawn once')
    check('--shards 3' in run(4, kvd, '--dir', 'some', '--new-member'), 'and for good')
    check('give --member' in run(1, kvd, '--dir', 'some', '--shards', '3', '--resp', '127.0.0.1:0'), 'not a whole store')
    first = ids.split(',')[0]
    check('together' in run(1, kvd, '--dir', 'some', '--shards', '3', '--resp', '127.0.0.1:0',
                            *sum((['--member', '%s@unix:%s/some/x%d' % (x, top, i)] for i, x in enumerate(ids.split(','))), [])),
          'all shards in one word: %s' % first)
    p = Process('--dir', 'memory', '--engine', 'memory', '--huge-pages', '--resp', '127.0.0.1:0', shards=2)
    r = Redis(p.port)
    check(r.sure('SET', 'a', 'b') == 'OK' and Redis(p.port).sure('GET', 'a') == 'b', 'in memory')
    for i in range(30):
        check(r.sure('MSET', *sum((['big%d-%d' % (i, k), 'v%d ' % k * 300] for k in range(1000)), [])) == 'OK', 'thousands of records')
    check(r.sure('GET', 'big29-999') == 'v999 ' * 300 and r.sure('DBSIZE') == 30001, 'all of them')
    advised = [line for line in open('/proc/%d/smaps' % p.p.pid) if line.startswith('VmFlags:') and ' hg' in line]
    check(advised or not os.path.exists('/sys/kernel/mm/transparent_hugepage'), 'in large pages')
    check(p.end(signal.SIGTERM) == 0, 'it ends')
    p = Process('--dir', 'memory', '--engine', 'memory', '--resp', '127.0.0.1:0', shards=3)
    check(Redis(p.port).ask('DBSIZE') == 0, 'nothing is kept')
    check(p.end(signal.SIGTERM) == 0, 'it ends')


def with_keys():
    """Each shard has a port for those whose key is known, and all learn who is not any more."""
    for who in ('store', 'ann'):
        run(0, htc, 'keys', 'new', who + '.key')
        public = run(0, htc, 'keys', 'show', who + '.key').strip()
        run(0, htc, 'keys', 'add', who, public, '--ring', 'ring', *(['--role', 'member'] if who == 'store' else []))
    shutil.copy(os.path.join(top, 'ring'), os.path.join(top, 'anns'))
    base = row(2)
    p = Process('--dir', 'secure', '--engine', 'log', '--listen', '127.0.0.1:%d' % base, '--key', 'store.key', '--ring', 'ring',
                shards=2)
    ann = ['--key', 'ann.key', '--ring', 'anns']
    for n in range(2):
        run(0, htc, 'kv', 'add', 'n', '--store', 'tcp://127.0.0.1:%d' % (base + n), *ann)
    check('2' in run(0, htc, 'kv', 'get', 'n', '--store', 'tcp://127.0.0.1:%d' % base, *ann), 'at each port the same store')
    run(0, htc, 'keys', 'revoke', 'ann', '--ring', 'ring')
    p.p.send_signal(signal.SIGHUP)
    for n in range(2):
        while True:  # read in the shard's own time
            done = subprocess.run([htc, 'kv', 'get', 'n', '--store', 'tcp://127.0.0.1:%d' % (base + n), *ann], capture_output=True,
                                  text=True, timeout=60, cwd=top)
            if done.returncode:
                check('does not know our key' in done.stderr, 'revoked: %s' % done.stderr)
                break
    check(p.end(signal.SIGTERM) == 0, 'it ends')


def three_with_keys():
    """As on three hosts: each process is named with all its shards, which are reached from the one port on."""
    names, listed, base = ('a', 'b', 'c'), [], [row(2) for _ in range(3)]
    for name, port in zip(names, base):
        run(0, htc, 'keys', 'new', name + '.key')
        run(0, htc, 'keys', 'add', name, run(0, htc, 'keys', 'show', name + '.key').strip(), '--ring', 'abc', '--role', 'member')
        ids = run(0, kvd, '--dir', name, '--new-member', '--shards', '2').strip()
        listed += ['--member', '%s@tcp://%s@127.0.0.1:%d' % (ids, name, port)]
    words = [[kvd, '--shards', '2', '--dir', name, '--engine', 'log', '--resp', '127.0.0.1:0', '--listen', '127.0.0.1:%d' % port,
              '--key', name + '.key', '--ring', 'abc', *listed] for name, port in zip(names, base)]
    began = [subprocess.Popen(w, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=top) for w in words]
    processes.extend(began)
    ports = []
    for p in began:
        said = p.stdout.readline()
        check(said.startswith('ready: ') and 'of 6' in said, 'one of six: %r' % said)
        ports.append(int(re.search(r'RESP on 127\.0\.0\.1:(\d+)', said).group(1)))
    for i in range(3 * KEYS):
        check(Redis(ports[i % 3]).ask('INCR', 'k%d' % (i // 3)) == i % 3 + 1, 'each of them counts')
    began[0].kill()
    r = Redis(ports[1])
    for i in range(KEYS):
        check(r.ask('GET', 'k%d' % i) == '3', 'with one process gone every key is there')
    for p in began[1:]:
        p.terminate()
        check(p.wait(timeout=60) == 0, 'it ends')


def three_of_two():
    """Three processes of two shards: one killed, nothing lost, and both its shards come back."""
    base, tally = row(3), Tally()
    keys = ['k%02d' % i for i in range(KEYS)]
    cluster = [htc, 'kv', 'cluster', '--dir', 'three']
    try:
        said = run(0, *cluster, '--members', '3', '--shards', '2', '--base-port', str(base))
        check(said.count('2 shards') == 3, said)
        pids = [int(n) for n in re.findall(r'process (\d+)', said)]
        check(not loads(base, tally, KEYS), 'nobody is cut off')
        # A process that was slow for a second is passed over, and then a change may have an outcome that nobody knows.
        tally.check(Redis(base + 1), keys)
        check(sum(tally.done.values()) > sum(tally.unknown.values()), 'most are known: %s' % tally.unknown)
        os.kill(pids[2], signal.SIGKILL)
        check(not loads(base + 1, tally, KEYS), 'the others go on')
        r = [Redis(base + n) for n in range(2)]
        for x in r:
            check(x.sure('DBSIZE') == KEYS and sorted(all_keys(x)) == keys, 'each shown once')
        tally.check(r[0], keys)
        check('--shards differs' in run(4, *cluster, '--shards', '3'), 'another number is refused')
        run(0, *cluster)
        r = Redis(base + 2)
        tally.check(r, keys)
        check(r.sure('DBSIZE') == KEYS, 'the one that was killed has caught up')
        check('stopped' in run(0, *cluster, '--stop'), 'it stops')
        run(0, *cluster)
        tally.check(Redis(base + 1), keys)
    finally:
        subprocess.run([*cluster, '--stop'], capture_output=True, cwd=top)


try:
    refusals()
    for name in ('log', 'lmdb')[:1 if os.environ.get('HTC_TEST_LIGHT') else 2]:
        alone(name)
    with_keys()
    three_with_keys()
    three_of_two()
    print('ok')
finally:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    shutil.rmtree(top, ignore_errors=True)
