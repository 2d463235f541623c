#!/usr/bin/env python3
"""Three members of a store on three hosts, as far as they can tell: network namespaces of this test's own, joined by a bridge, and cut
off from each other by nft rules in them, without a word to either end. Nothing outside these namespaces is touched. A member that
hears nobody answers nothing and shows nothing old; all others go on; whatever was acknowledged is there, once. Then sixteen clients
(kvs_load.c) add and swap on a few keys and hold leases while walls are drawn, seen from both sides or from one, and what they were told is
judged as a history; some members are killed or stopped behind their walls, most of those that are stopped for so long that their leases are taken
over and end meanwhile. 77: this machine has no such namespaces, or lacks ip or nft; the reason is printed. HTC_TEST_FULL=1: cut off for longer
than a request waits, and ten minutes of walls instead of one (HTC_TEST_LIGHT: six seconds), drawn anew each time. HTC_TEST_SEED=N: other
walls. The seed is printed."""
import os, random, shutil, signal, socket, subprocess, sys, threading, time

import kvd
from redis_client import Refused

SKIP = 77
TOOLS = ('unshare', 'nsenter', 'ip', 'nft')
INSIDE = 'HTC_TEST_INSIDE'
MEMBERS = 3
FULL = os.environ.get('HTC_TEST_FULL') == '1'
LIGHT = 'HTC_TEST_LIGHT' in os.environ
LOAD_S = 600 if FULL else 6 if LIGHT else 60
CLIENTS = 16
SEED = int(os.environ.get('HTC_TEST_SEED') or (random.SystemRandom().getrandbits(63) if FULL else 1))
# A lease of a member that is stopped goes on until the others suspect it (a second), perhaps wait for the first owner twice as long, and
# then for its whole ttl (kvs_load.h) anew.
ALL_LEASES_END_S = 3 * 1 + 0.6


def skip(why):
    print('skipped: ' + why)
    sys.exit(SKIP)


def enter():
    """Begin again in a user and network namespace of our own, where we may do as we like."""
    missing = [t for t in TOOLS if not shutil.which(t)]
    if missing:
        skip('no %s here' % ', '.join(missing))
    outer = ['unshare', '--user', '--map-root-user', '--net']
    trial = 'ip link add try1 type veth peer name try2 && ip link add try3 type bridge && nft add table inet t && unshare --net true'
    tried = subprocess.run([*outer, 'sh', '-c', trial], capture_output=True, text=True)
    if tried.returncode:
        skip('no network namespaces with veth, bridge and nft for this user: ' + (tried.stderr.strip() or 'exit %d' % tried.returncode))
    os.environ[INSIDE] = '1'
    os.execvp('unshare', [*outer, sys.executable, *sys.argv])


class Member(kvd.Member):
    """One htc-kvd in a namespace of its own. Redis' clients come by a Unix socket, which no network cuts off."""

    def __init__(self, n):
        self.address, self.kvd = '10.77.0.%d' % n, None
        # It holds the namespace, and ends with this test.
        self.holder = subprocess.Popen(['unshare', '--net', 'sh', '-c', 'echo there; exec cat'], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        check(self.holder.stdout.readline() == 'there\n', 'a namespace')
        run('ip', 'link', 'add', 'h%d' % n, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(self.holder.pid))
        run('ip', 'link', 'set', 'h%d' % n, 'master', 'hub', 'up')
        self.inside('ip', 'link', 'set', 'lo', 'up')
        self.inside('ip', 'address', 'add', self.address + '/24', 'dev', 'eth0')
        self.inside('ip', 'link', 'set', 'eth0', 'up')
        self.heal()
        super().__init__(place, n, self.address + ':7421', 'unix:m%d.redis' % n)

    def words(self, *words):
        return ['nsenter', '--target', str(self.holder.pid), '--net', *words]

    def inside(self, *words):
        return run(*self.words(*words))

    def heal(self):
        self.inside('nft', 'flush', 'ruleset')
        self.inside('nft', 'add table inet cut; add chain inet cut in { type filter hook input priority 0; }; '
                    'add chain inet cut out { type filter hook output priority 0; }')

    def deafen(self, other):
        self.inside('nft', 'add rule inet cut in ip saddr %s drop' % other.address)

    def cut(self, other):
        self.deafen(other)
        self.inside('nft', 'add rule inet cut out ip daddr %s drop' % other.address)

    def ask(self, *words):
        """A connection each, so that one that waits keeps nobody."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(os.path.join(top, self.name + '.redis'))
            s.sendall(' '.join(words).encode() + b'\r\n')
            f = s.makefile('rb')
            line = f.readline().decode()
            check(line.endswith('\r\n'), '%s says %r' % (self.name, line))
            if line[0] == '-':
                raise Refused(line)
            return (f.readline() if line[0] == '$' and line[1] != '-' else line[1:].encode()).decode().strip()

    def end(self):
        if self.kvd:
            self.kvd.kill()
            self.kvd.wait()
        self.holder.stdin.close()
        self.holder.wait()


class Counter:
    """One number, counted by one client: whoever answers shows nothing older than what was acknowledged before it was asked."""

    def __init__(self, key):
        self.key, self.done, self.unknown, self.last = key, 0, 0, ''

    def add(self, member):
        """1: it was acknowledged."""
        try:
            n = int(member.ask('INCR', self.key))
        except Refused as why:
            self.unknown += 1
            self.last = str(why)
            return 0
        self.done += 1
        self.fits(n, member)
        return 1

    def fits(self, n, member):
        check(self.done <= n <= self.done + self.unknown, '%s at %s is %d: %d acknowledged, %d unknown'
              % (self.key, member.name, n, self.done, self.unknown))

    def look(self, member):
        try:
            self.fits(max(0, int(member.ask('GET', self.key))), member)  # -1: it is not there
        except Refused as why:
            self.last = str(why)
            return 0
        return 1


def until(what, fn):
    end = time.monotonic() + 60
    while not fn():
        check(time.monotonic() < end, what)
        time.sleep(0.02)


def go_on(counter, members):
    """Each of them answers, at last without an error, and then for a while."""
    for m in members:
        until('%s goes on' % m.name, lambda: counter.add(m))
    for m in members * 20:
        over, began = place.passed_over(), time.monotonic()
        if counter.add(m) and counter.look(m):
            continue
        # Without an answer only where somebody was not heard of for a second.
        check(place.passed_over() > over or time.monotonic() > began + 1, '%s answers %s: %s' % (m.name, counter.key, counter.last))
        until('%s goes on' % m.name, lambda: counter.add(m) and counter.look(m))


def heal(members, counter):
    for m in members:
        m.heal()
    go_on(counter, members)


def one_alone(members, alone):
    """Who hears nobody answers nothing, for as long as that is so; what it was asked meanwhile is done once or not at all."""
    others = [m for m in members if m != alone]
    kept, asked, counter = Counter('kept'), Counter('asked'), Counter('others')
    until('all is well', lambda: kept.add(alone))
    for m in others:
        alone.cut(m)
    said = []
    waits = [threading.Thread(target=lambda f=f: said.append(f(alone))) for f in (asked.add, kept.look)]
    for t in waits:
        t.start()
    go_on(counter, others)
    if FULL:
        for t in waits:
            t.join()
    check(not any(said), 'the one that hears nobody answers nothing: %s' % said)
    heal(members, counter)
    for t in waits:
        t.join()
    for m in members:
        until('what was acknowledged is there', lambda: kept.look(m) and counter.look(m))
        until('what was asked is done once or not at all', lambda: asked.look(m))


def two_apart(members, one_way):
    """Two that do not hear each other (or one of them not the other) both go on through the third."""
    a, b = members[0], members[1]
    counter = Counter('one_way' if one_way else 'apart')
    until('all is well', lambda: counter.add(a))
    a.deafen(b) if one_way else a.cut(b)
    go_on(counter, members)
    heal(members, counter)


def killed_while_alone(members):
    """Killed behind its wall and started again there, a member comes back when the wall is gone."""
    m, others = members[2], members[:2]
    counter = Counter('killed')
    until('all is well', lambda: counter.add(m))
    for o in others:
        m.cut(o)
    m.kvd.send_signal(signal.SIGKILL)
    m.kvd.wait()
    go_on(counter, others)
    m.start(members)
    m.heal()
    m.ready()
    go_on(counter, members)


def some_wall(draw, members, what):
    """Between two of them or around one, both ways or one way, for longer or shorter than they suspect each other; who is behind it may
    be killed and started again there, or stopped, for long or not."""
    a, b, c = draw.sample(members, 3)
    one_way = draw.random() < 0.5
    a.deafen(b) if one_way else a.cut(b)
    if draw.random() < 0.4:
        a.deafen(c) if one_way else a.cut(c)
    if what == 'killed':
        a.kvd.kill()
        a.kvd.wait()
        a.start(members)
    elif what in ('stopped', 'stopped long'):
        a.kvd.send_signal(signal.SIGSTOP)
    time.sleep(draw.uniform(0.1, 1.5) + (ALL_LEASES_END_S if what == 'stopped long' else 0))
    a.kvd.send_signal(signal.SIGCONT)
    a.heal()
    if what == 'killed':
        a.ready()
    time.sleep(draw.uniform(0.1, 0.8))
    return what


def load_among_walls(members):
    """The clients come by Unix sockets, so it is the members alone that do not hear each other."""
    with open(os.path.join(top, 'where'), 'w') as f:
        f.write(''.join('unix:%s/%s/kvd.sock\n' % (top, m.name) for m in members))
    load = subprocess.Popen([loader, top, str(LOAD_S + 20), str(SEED), str(CLIENTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    walls, draw, over = [], random.Random(SEED), time.monotonic() + LOAD_S
    deeds = ('cut', 'killed', 'cut', 'stopped') if LIGHT else ('stopped long', 'cut', 'killed', 'stopped long', 'cut', 'killed', 'stopped')
    try:
        while time.monotonic() < over and load.poll() is None:
            walls.append(some_wall(draw, members, deeds[len(walls) % len(deeds)]))
        said = load.communicate('.', timeout=600)[0].strip()
    finally:
        load.kill()
        load.wait()
    check(load.returncode == 0, 'the history: %s' % said)
    killed, long, short = (walls.count(w) for w in ('killed', 'stopped long', 'stopped'))
    print('%s; %d walls, %d killed and %d stopped behind them, %d of these for longer than any lease lasts, seed %d'
          % (said, len(walls), killed, long + short, long, SEED))


def main():
    print('seed %d' % SEED, flush=True)
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'link', 'add', 'hub', 'type', 'bridge')
    run('ip', 'link', 'set', 'hub', 'up')
    for n in range(MEMBERS):
        members.append(Member(n + 1))
    for m in members:
        m.start(members)
    for m in members:
        m.ready()
    go_on(Counter('begin'), members)
    two_apart(members, one_way=0)
    two_apart(members, one_way=1)
    one_alone(members, members[1])
    killed_while_alone(members)
    load_among_walls(members)
    for m in members:
        m.kvd.terminate()
        check(m.kvd.wait(timeout=60) == 0, 'it ends when asked to')
        m.kvd = None


if INSIDE not in os.environ:
    enter()
loader = os.path.abspath(sys.argv[2])
place, members = kvd.Place('partition', sys.argv[1]), []
top, check, run = place.top, place.check, place.run
try:
    main()
    print('ok')
finally:
    for one in members:
        one.end()
    place.end()
