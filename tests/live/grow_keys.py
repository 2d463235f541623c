#!/usr/bin/env python3
"""Members that join over encrypted connections, each with a key of its own, on 127.0.0.1, .2, .3 and .4: one becomes three, one of them is
replaced. Whose key is in no ring is not let in, nor one that is a user's; who says that it answers under another one's name is not
believed. Users look on, and change nothing of who keeps the store."""
import json, os, shutil, signal, subprocess, sys, tempfile, time
import ports

programs = sys.argv[1]
htc, kvd = os.path.join(programs, 'htc'), os.path.join(programs, 'htc-kvd')
top = tempfile.mkdtemp(prefix='htc-grow-keys-')
PATIENCE = 900
started = []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def wait_until(what, holds):
    until = time.monotonic() + PATIENCE
    while not holds():
        check(time.monotonic() < until, '%s: %s' % (what, ''.join(m.said() for m in (a, b, c, d) if m.process)))
        time.sleep(0.02)


def run(*words, code=0):
    d = subprocess.run([htc, *words], capture_output=True, text=True, timeout=PATIENCE)
    check(d.returncode == code, '%s: %d %s%s' % (' '.join(words), d.returncode, d.stdout, d.stderr))
    return (d.stdout + d.stderr).strip()


class Member:
    """A directory, an id and a key; `at` is where it listens."""

    def __init__(self, name, host):
        self.name, self.dir = name, os.path.join(top, name)
        os.mkdir(self.dir)
        self.key, self.ring = os.path.join(self.dir, 'own.key'), os.path.join(self.dir, 'ring')
        self.public = run('keys', 'new', self.key)
        self.host, self.at = host, '%s:%d' % (host, port)
        self.out = os.path.join(self.dir, 'out')
        self.data = os.path.join(self.dir, 'data')
        self.id = subprocess.run([kvd, '--dir', self.data, '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
        self.process = None

    def start(self, *words, key=None):
        with open(self.out, 'w') as out:
            self.process = subprocess.Popen([kvd, '--dir', self.data, '--engine', 'log', '--listen', self.at, '--key', key or self.key,
                                             '--ring', self.ring, *words], stdout=out, stderr=out)
        self.words = words
        started.append(self.process)

    def join(self, to, *words, name=None, key=None):
        self.start('--join', ','.join('tcp://%s@%s' % (m.name, m.at) for m in to), '--at', 'tcp://%s@%s' % (name or self.name, self.at), *words, key=key)

    def said(self):
        with open(self.out) as f:
            return f.read()

    def ready(self):
        def is_ready():
            check(self.process.poll() is None, '%s has ended: %s' % (self.name, self.said()))
            return 'ready: ' in self.said()
        wait_until('%s is ready: %s' % (self.name, self.said()), is_ready)

    def end(self):
        self.process.terminate()
        self.process.wait(60)


def kv(*words, code=0, who=None, at=None):
    who = who or ann
    return run('kv', *words, '--store', 'tcp://' + (at or a).at, '--key', who.key, '--ring', a.ring, code=code)


def hand_round(*members):
    """The ring of a for all, who read it."""
    for m in members:
        if m is not a:
            shutil.copy(a.ring, m.ring)
        if m.process and m.process.poll() is None:
            m.process.send_signal(signal.SIGHUP)


def pin(name, public, *role):
    run('keys', 'add', name, public, '--ring', a.ring, *role)


def members():
    return {x['id']: x for x in json.loads(kv('members', '--json', at=b))['members']}


port = ports.row(1, ['127.0.0.%d' % i for i in (1, 2, 3, 4)])
a, b, c, d = [Member(n, '127.0.0.%d' % (i + 1)) for i, n in enumerate('abcd')]
ann, stranger = Member('ann', '127.0.0.4'), Member('stranger', '127.0.0.4')


def in_and_out():
    for m in (a, b):
        pin(m.name, m.public, '--role', 'member')
    pin('ann', ann.public)
    hand_round(b)
    a.start('--member', '%s@tcp://a@%s' % (a.id, a.at))
    a.ready()
    for i in range(50):
        kv('put', 'k%d' % i, 'v%d' % i)
    b.join([a])
    b.ready()
    check('%s is in' % b.id in kv('join', b.id), 'the second is in')

    # Whose key is in no ring of theirs: not even heard. When it is, the same process is let in.
    hand_round(c)
    c.join([a, b])
    time.sleep(1)
    check(c.process.poll() is None and 'ready' not in c.said() and c.id not in members(), 'who is not in the ring: ' + c.said())
    pin('c', c.public, '--role', 'member')
    hand_round(a, b, c)
    c.ready()
    check('%s is in' % c.id in kv('join', c.id), 'the third is in')
    wait_until('three who hear each other', lambda: all(x['heard'] for x in members().values()))
    shown = members()
    check(sorted(shown) == sorted(m.id for m in (a, b, c)), 'three: %s' % shown)
    check(shown[c.id]['address'] == 'tcp://c@' + c.at, 'whose key answers where: %s' % shown[c.id])
    for i in range(50):
        check(kv('get', 'k%d' % i, at=c) == 'v%d' % i, 'what was there')

    # A user's key lets nobody be a member, and changes nothing of who is.
    shutil.copy(a.ring, ann.ring)
    ann.join([a, b, c])
    time.sleep(1)
    check('ready' not in ann.said() and ann.id not in members(), 'a user is no member: ' + ann.said())
    ann.process.kill()
    for words in (['leave', c.id], ['rebalance', c.id, '--weight', '2'], ['undo']):
        check('member' in kv(*words, code=4), 'a user changes no member')


def whose_key():
    """c's address names c's key: nobody else's speaks as c, and d's is not let in as one that answers there under another name."""
    c.end()
    pin('d', d.public, '--role', 'member')
    hand_round(a, b, c, d)
    c.start(*c.words, key=d.key)
    wait_until('it is named', lambda: "d's key speaks as member %s, whose key is c's" % c.id in a.said() + b.said())
    wait_until('c is not heard', lambda: not members()[c.id]['heard'])
    check('ready' not in c.said(), "another's key speaks as c: " + c.said())
    c.process.kill()
    c.process.wait()
    c.start(*c.words)
    c.ready()
    d.join([a, b, c], name='b')
    wait_until('it is named', lambda: "d's key speaks as member %s, whose key is b's" % d.id in a.said() + b.said() + c.said())
    check('ready' not in d.said() and d.id not in members(), "d under b's name: " + d.said())
    d.process.kill()
    d.process.wait()
    d.join([a, b, c], '--replaces', a.id)
    d.ready()
    check('has taken its place' in kv('replace', a.id, d.id, at=b), 'd in the place of a')
    wait_until('a ends', lambda: a.process.poll() is not None)
    check(sorted(members()) == sorted(m.id for m in (b, c, d)), 'b, c and d')
    for i in range(50):
        check(kv('get', 'k%d' % i, at=d) == 'v%d' % i, 'what was there')


def main():
    in_and_out()
    whose_key()
    for m in (b, c, d):
        m.end()


try:
    main()
    print('ok')
finally:
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()
    shutil.rmtree(top, ignore_errors=True)
