#!/usr/bin/env python3
"""A backup while the members of a store change: a fourth joins and leaves again, as often as it takes, and each backup that was taken meanwhile is whole: restored
into an empty store every key that was there before has its value. Others go on; what the slowest of them waited is printed. HTC_TEST_LIGHT: fewer keys."""
import json, os, shutil, subprocess, sys, tempfile, threading, time
import ports
from redis_client import Redis, Refused

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-backup-')
KEYS = int(os.environ.get('KEYS', 20000 if 'HTC_TEST_LIGHT' in os.environ else 50000))
AT_ONCE, PATIENCE = 1000, 600
started = []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def done(*words, code=0):
    d = subprocess.run([htc, *words], capture_output=True, text=True, timeout=PATIENCE)
    check(d.returncode == code, '%s: %d %s%s' % (' '.join(words), d.returncode, d.stdout, d.stderr))
    return d.stdout


def start(name, *words):
    said = open(os.path.join(top, name + '.err'), 'w')
    p = subprocess.Popen([kvd, '--dir', os.path.join(top, name), '--engine', 'log', '--durability', 'interval', *words], stdout=subprocess.PIPE, stderr=said, text=True)
    started.append(p)
    return p


def key(i):
    return 'key%07d' % i


def value(i):
    return '%x' % (i * 2654435761 % (1 << 64)) * 6


def whole(name):
    """Restored elsewhere, all of it is there."""
    p = start('of-' + name, '--resp', '127.0.0.1:0')
    line = p.stdout.readline()
    check(line.startswith('ready: '), 'another store is ready')
    done('kv', 'restore', '--store', 'unix:%s/of-%s/kvd.sock' % (top, name), os.path.join(top, name))
    c = Redis(line.split('RESP on ')[1].split(',')[0])
    for first in range(0, KEYS, AT_ONCE):
        some = range(first, min(first + AT_ONCE, KEYS))
        check(c.ask('MGET', *map(key, some)) == [value(i) for i in some], '%s: keys from %s on' % (name, key(first)))
    p.terminate()
    check(p.wait(timeout=PATIENCE) == 0, 'the other store ends')


def main():
    base = ports.row(3)
    done('kv', 'cluster', '--dir', top + '/three', '--members', '3', '--base-port', str(base), '--durability', 'interval', '--engine', 'log')
    first = 'unix:%s/three/1/kvd.sock' % top
    at, patient = ['--store', first], ['--timeout', '%ds' % PATIENCE] # a machine that does much else is no fault
    c = Redis(base)
    for n in range(0, KEYS, AT_ONCE):
        c.sure('MSET', *[word for i in range(n, min(n + AT_ONCE, KEYS)) for word in (key(i), value(i))])
    begun = time.monotonic()
    done('kv', 'backup', *at, top + '/quiet')
    quiet = time.monotonic() - begun

    over, slowest, changes = threading.Event(), [0], [0]

    def others():
        c, n = Redis(base + 1), 0
        while not over.is_set():
            n += 1
            begun = time.monotonic()
            try:
                c.ask('SET', 'other%d' % (n % 100), n)
            except Refused as why:
                check(why.unknown() or why.busy(), why)
            slowest[0] = max(slowest[0], time.monotonic() - begun)

    def change():
        while not over.is_set():
            id = subprocess.run([kvd, '--dir', '%s/fourth%d' % (top, changes[0]), '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
            p = start('fourth%d' % changes[0], '--join', first)
            done('kv', 'join', id, *at, *patient)
            done('kv', 'leave', id, *at, *patient)
            check(p.wait(timeout=PATIENCE) == 0, 'who has left ends')
            changes[0] += 2

    at_it = [threading.Thread(target=others), threading.Thread(target=change)]
    for t in at_it:
        t.start()
    took, n = [], 0
    while n < 2 or changes[0] < 2:
        begun = time.monotonic()
        done('kv', 'backup', *at, '%s/changing%d' % (top, n), *patient)
        took.append(time.monotonic() - begun)
        n += 1
    over.set()
    for t in at_it:
        t.join()
    for i in range(min(n, 3)):
        whole('changing%d' % i)
    done('kv', 'cluster', '--dir', top + '/three', '--stop')
    print('backup: %d keys in %.1f s, %.1f to %.1f s while members came and went %d times; the slowest of others %.2f s'
          % (KEYS, quiet, min(took), max(took), changes[0], slowest[0]))


try:
    main()
finally:
    subprocess.run([htc, 'kv', 'cluster', '--dir', top + '/three', '--stop'], capture_output=True)
    for p in started:
        if p.poll() is None:
            p.kill()
shutil.rmtree(top)
