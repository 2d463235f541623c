#!/usr/bin/env python3
"""Three members of a store and a program that opens it by the address of one: it learns who has which key, and asks the owners itself, so
that members hand on next to nothing; also while one of them is stopped (silent, its connections open), and when the one that was named is
gone. Nothing depends on how fast anything is."""
import os, re, shutil, signal, subprocess, sys, tempfile, time, urllib.request

from redis_client import Redis

programs = sys.argv[1]
htc, kvd = os.path.join(programs, 'htc'), os.path.join(programs, 'htc-kvd')
top = tempfile.mkdtemp(prefix='htc-owners-')
KEYS = 6000
members = []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    check(done.returncode == 0, '%s: exit %d: %s%s' % (' '.join(words), done.returncode, done.stdout, done.stderr))
    return done.stdout.strip()


class Member:
    def __init__(self, n):
        self.dir = os.path.join(top, str(n))
        self.id = run(kvd, '--dir', self.dir, '--new-member')
        self.socket = 'unix:%s/kvd.sock' % self.dir

    def start(self):
        names = [w for m in members for w in ('--member', '%s@%s' % (m.id, m.socket))]
        self.process = subprocess.Popen([kvd, '--dir', self.dir, '--engine', 'log', '--durability', 'memory', '--resp', '127.0.0.1:0',
                                         '--metrics', '127.0.0.1:0', *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ready(self):
        said = re.search(r'RESP on (\S+), .*metrics on ([^\s,]+)', self.process.stdout.readline())
        check(said, 'a member is ready')
        self.resp, self.page = said[1], said[2]

    def handed_on(self):
        with urllib.request.urlopen('http://%s/metrics' % self.page, timeout=60) as page:
            return int(re.search(r'^htc_kv_requests_forwarded_total (\d+)', page.read().decode(), re.M)[1])


def handed_on(of):
    return sum(m.handed_on() for m in of)


def restore(where):
    return run(htc, 'kv', '--store', where, 'restore', '--replace', os.path.join(top, 'all'))


def go():
    members.extend(Member(n) for n in (1, 2, 3))
    for m in members:
        m.start()
    for m in members:
        m.ready()
    r = Redis(members[0].resp)
    for at in range(0, KEYS, 500):
        check(r.sure('MSET', *[w for i in range(at, at + 500) for w in ('k%05d' % i, 'v%d' % i)]) == 'OK', 'MSET')
    run(htc, 'kv', '--store', members[0].socket, 'backup', os.path.join(top, 'all'))
    few = KEYS
    for _ in range(20):  # to whom the machine did not get round for a moment somebody else is asked, who hands it on: then once more
        before = handed_on(members)
        check(str(KEYS) in restore(members[0].socket), 'all are restored')
        few = min(few, handed_on(members) - before)
        if few < KEYS / 4:
            break
    check(few < KEYS / 4, '%d of %d changes were handed on' % (few, KEYS))
    members[2].process.send_signal(signal.SIGSTOP)
    check(str(KEYS) in restore(members[0].socket), 'all are restored while a member is silent')
    members[2].process.send_signal(signal.SIGCONT)
    members[0].process.kill()
    members[0].process.wait()
    check(str(KEYS) in restore('%s,%s' % (members[0].socket, members[1].socket)), 'all are restored when a member is gone')
    r = Redis(members[1].resp)
    check(r.sure('DBSIZE') == KEYS, 'each is there once')
    print('%d of %d changes were handed on' % (few, KEYS))


try:
    go()
finally:
    for m in members:
        m.process.send_signal(signal.SIGCONT)
        m.process.terminate()
    for m in members:
        m.process.wait()
shutil.rmtree(top)
