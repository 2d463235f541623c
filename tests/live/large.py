#!/usr/bin/env python3
"""A bound for values, and the largest ones over a store of three members: several clients write values of 16 MiB at once, at every member, and read each other's; no
member ends, and each value is the one that was written. HTC_TEST_LIGHT: half as many."""
import hashlib, os, random, shutil, socket, subprocess, sys, tempfile, threading

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-large-')
CLIENTS, EACH, LARGEST = 2, 1 if 'HTC_TEST_LIGHT' in os.environ else 2, 16 << 20
processes, wrong = [], []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def kv(n, *words, value=None):
    while True: # a machine that is busy with something else may take longer than the store is patient: both can be asked for again
        done = subprocess.run([htc, 'kv', '--store', 'unix:%s/%d/kvd.sock' % (top, n), *words, '--timeout', '100s'], input=value, capture_output=True, timeout=300)
        if done.returncode != 6 or b'timed out' not in done.stderr:
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


def main():
    bounded('alone', [])
    one = subprocess.run([kvd, '--dir', top + '/one', '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
    bounded('one', ['--buckets', '4096', '--member', '%s@unix:%s/one/kvd.sock' % (one, top)])
    ids = [subprocess.run([kvd, '--dir', '%s/%d' % (top, n), '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
           for n in (1, 2, 3)]
    named = [w for n, i in enumerate(ids) for w in ('--member', '%s@unix:%s/%d/kvd.sock' % (i, top, n + 1))]
    for n in (1, 2, 3):
        with open('%s/%d.err' % (top, n), 'w') as said:
            processes.append(subprocess.Popen([kvd, '--dir', '%s/%d' % (top, n), '--engine', 'log', '--durability', 'interval', *named],
                                              stdout=subprocess.PIPE, stderr=said, text=True))
    for p in processes:
        check(p.stdout.readline().startswith('ready: '), 'it is ready')
    all_clients(write)
    all_clients(read)
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
