#!/usr/bin/env python3
"""A bound for values, and the largest ones over a store of three members: several clients write values of 16 MiB at once, at every member, and read each other's; no
member ends, and each value is the one that was written. Then ten clients of Redis' protocol write and read such values beside one with short ones: all have room, and
nobody is told to come again. HTC_TEST_LIGHT: half as many."""
import hashlib, os, random, shutil, socket, subprocess, sys, tempfile, threading
from redis_client import Redis, Refused

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-large-')
CLIENTS, EACH, LARGEST = 2, 1 if 'HTC_TEST_LIGHT' in os.environ else 2, 16 << 20
processes, wrong = [], []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def kv(n, *words, value=None):
    late = False
    while True: # a machine that is busy with something else may take longer than the store is patient: both can be asked for again, beside what is under way still
        done = subprocess.run([htc, 'kv', '--store', 'unix:%s/%d/kvd.sock' % (top, n), *words, '--timeout', '100s'], input=value, capture_output=True, timeout=300)
        late |= b'timed out' in done.stderr
        if done.returncode != 6 or not (late and (b'timed out' in done.stderr or b'memory ceiling' in done.stderr)):
            break
    if done.returncode:
        wrong.append('%s at %d: exit %d: %s' % (words[0], n, done.returncode, done.stderr.decode()))
    return done.stdout


def key_of(client, k):
    return ('%03d-%d-' % (client, k)).ljust(400, 'k')


def value_of(client, k):
    return random.Random(client * 100 + k).randbytes(LARGEST)


def write(client):
    for k in range(EACH):
        kv(1 + (client + k) % 3, 'put', key_of(client, k), '--file', '-', value=value_of(client, k))


def read(client):
    for k in range(EACH):
        got = kv(1 + (client + k + 1) % 3, 'get', key_of(client, k))
        if hashlib.sha256(got).digest() != hashlib.sha256(value_of(client, k)).digest():
            wrong.append('%d of %d is not what was written: %d bytes' % (k, client, len(got)))


def all_clients(what):
    threads = [threading.Thread(target=what, args=(c,)) for c in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, '; '.join(wrong))


def bounded(name, words):
    """A store whose values have another bound, at most which each of its changes makes."""
    p = subprocess.Popen([kvd, '--dir', '%s/%s' % (top, name), '--engine', 'log', '--value-max', '1000', *words], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    processes.append(p)
    check(p.stdout.readline().startswith('ready: '), 'it is ready')

    def refused(*asked, value=None):
        done = subprocess.run([htc, 'kv', '--store', 'unix:%s/%s/kvd.sock' % (top, name), *asked], input=value, capture_output=True, timeout=300)
        return done.returncode != 0
    check(not refused('put', 'k', '--file', '-', value=b'v' * 1000) and refused('put', 'k', '--file', '-', value=b'v' * 1001), 'a put')
    check(not refused('put', 'l', '--file', '-', value=b'v' * 999) and not refused('append', 'l', 'v') and refused('append', 'l', 'v'), 'an append')
    check(refused('cas', 'k', '--seen', 'v' * 1000, '--file', '-', value=b'v' * 1001) and not refused('put', 'k', 'short'), 'a cas')
    p.terminate()
    check(p.wait(timeout=60) == 0, 'it ends')
    processes.remove(p)


def beside(ports):
    """What is refused is counted; a member that its machine leaves alone may say that an outcome is not known, now and then."""
    done, refused, asked = threading.Event(), [], [0]

    def ask(c, *words):
        asked[0] += 1
        try:
            return c.ask(*words)
        except Refused as why:
            refused.append(why)
            return None

    def long_ones(client):
        c, value = Redis(ports[client % 3]), chr(65 + client) * LARGEST
        for _ in range(EACH):
            wrote, got = ask(c, 'SET', 'long%d' % client, value), ask(c, 'GET', 'long%d' % client)
            if wrote and got is not None and got != value:
                wrong.append('another value of %d bytes' % len(got))

    def short_ones():
        c, n = Redis(ports[0]), 0
        while not done.is_set():
            n += 1
            if ask(c, 'SET', 'short%d' % (n % 50), n) == 'OK' and ask(c, 'GET', 'short%d' % (n % 50)) not in (None, str(n)):
                wrong.append('another short value')

    threads = [threading.Thread(target=long_ones, args=(c,)) for c in range(10)]
    short = threading.Thread(target=short_ones)
    for t in [short] + threads:
        t.start()
    for t in threads:
        t.join()
    done.set()
    short.join()
    known = [str(why) for why in refused if not why.unknown()]
    check(not wrong and not known, '; '.join(wrong + known))
    print('%d requests beside long ones, %d without a known outcome' % (asked[0], len(refused)))


def main():
    bounded('alone', [])
    one = subprocess.run([kvd, '--dir', top + '/one', '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
    bounded('one', ['--buckets', '4096', '--member', '%s@unix:%s/one/kvd.sock' % (one, top)])
    ids = [subprocess.run([kvd, '--dir', '%s/%d' % (top, n), '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
           for n in (1, 2, 3)]
    named = [w for n, i in enumerate(ids) for w in ('--member', '%s@unix:%s/%d/kvd.sock' % (i, top, n + 1))]
    for n in (1, 2, 3):
        with open('%s/%d.err' % (top, n), 'w') as said:
            processes.append(subprocess.Popen([kvd, '--dir', '%s/%d' % (top, n), '--engine', 'log', '--durability', 'interval', '--resp', '127.0.0.1:0', *named],
                                              stdout=subprocess.PIPE, stderr=said, text=True))
    ready = [p.stdout.readline() for p in processes]
    check(all(line.startswith('ready: ') for line in ready), 'all are ready')
    all_clients(write)
    all_clients(read)
    beside([line.split('RESP on ')[1].split(',')[0].rsplit(':', 1)[1] for line in ready])
    check(all(p.poll() is None for p in processes), 'all run')
    for p in processes:
        p.terminate()
        check(p.wait(timeout=60) == 0, 'it ends')
    print('large: all is well')


try:
    main()
finally:
    for p in processes:
        if p.poll() is None:
            p.kill()
shutil.rmtree(top)
