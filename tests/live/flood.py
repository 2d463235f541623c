#!/usr/bin/env python3
# usage: flood.py FOLDER-OF-THE-PROGRAMS
# Strangers at every port of one of three members: its members and clients are served meanwhile, and its memory stays bounded. And a
# member that has no descriptor left: whoever comes is refused with a clear word, who is connected goes on, and all is well again
# afterwards. HTC_TEST_FULL=1: ten times as many.
import os, random, resource, socket, subprocess, sys, threading, time

import kvd
import ports
from redis_client import Redis, Refused, Tally

place = kvd.Place('flood', sys.argv[1])
top, check = place.top, place.check
FULL = os.environ.get('HTC_TEST_FULL') == '1'
CLIENTS, ADDS = 6, 1000 if FULL else 100
EACH = 10000 if FULL else 300 if 'HTC_TEST_LIGHT' in os.environ else 1000  # of strangers of each kind, at least
# What is given back is kept by a sanitizer's allocator for a while: not for long here, where memory is looked at.
os.environ['ASAN_OPTIONS'] = ':'.join(filter(None, (os.environ.get('ASAN_OPTIONS'), 'quarantine_size_mb=4')))
MEMORY = 64 << 20  # more than before, whatever strangers send


def resident(pid):
    with open('/proc/%d/statm' % pid) as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


class Member(kvd.Member):
    def __init__(self, n):
        super().__init__(place, n, '127.0.0.1:%d' % ports.row(1), '127.0.0.1:0')

    def ready(self):
        self.resp_port = kvd.resp_port(super().ready())


# ---------------------------------------------------------------- strangers

HELLO = bytes([48, 0, 1]) + b'htc' + bytes([1, 1, 2, 0]) + bytes(8)  # a handshake that is never finished


def nothing_much(draw, kind):
    """What a stranger says first: not one of them is ever a member or a client."""
    if kind == 'keys':
        return draw.choice((b'', HELLO[:draw.randrange(1, len(HELLO))], HELLO + draw.randbytes(32), draw.randbytes(100), b'\xff\xff' + draw.randbytes(3000)))
    if kind == 'resp':
        return draw.choice((b'', b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n' + draw.randbytes(5000), b'*1000000\r\n$1\r\nx', draw.randbytes(500), b'GET k'))
    return draw.choice((b'', b'\xff\xff\0\0' + draw.randbytes(4000), draw.randbytes(300), b'\x1e\0\0\0', b'\x11\0\0\0\x01\0' + bytes(8) + b'HTC1'))


class Strangers(threading.Thread):
    """They come from many addresses, as many as there is room for, stay a while, and come again."""

    def __init__(self, member, kind, seed):
        super().__init__(daemon=True)
        self.member, self.kind, self.draw = member, kind, random.Random(seed)
        self.came, self.over = 0, threading.Event()

    def come(self):
        s = socket.socket(socket.AF_UNIX if self.kind == 'native' else socket.AF_INET)
        s.settimeout(5)
        try:
            if self.kind == 'native':
                s.connect(os.path.join(top, self.member.name, 'kvd.sock'))
            else:
                s.bind(('127.0.%d.%d' % (self.draw.randrange(1, 4), self.draw.randrange(2, 250)), 0))
                s.connect(('127.0.0.1', self.member.resp_port if self.kind == 'resp' else int(self.member.at.split(':')[1])))
            said = nothing_much(self.draw, self.kind)
            if said:
                s.sendall(said)
            self.came += 1
            return s
        except OSError:
            s.close()
            return None

    def run(self):
        crowd = []
        while not self.over.is_set():
            one = self.come()
            if one:
                crowd.append(one)
            while len(crowd) > 250:
                crowd.pop(self.draw.randrange(len(crowd))).close()
        for s in crowd:
            s.close()


def besieged():
    members = [Member(n + 1) for n in range(3)]
    for m in members:
        m.start(members)
    for m in members:
        m.ready()
    victim = members[0]
    served = [Redis(members[i % 3].resp_port) for i in range(CLIENTS)]
    well = Tally()
    check(all(well.fits(well.sure(r, 'before')) for r in served), 'all is well')
    over = place.passed_over()
    before = resident(victim.kvd.pid)
    strangers = [Strangers(victim, kind, i) for i, kind in enumerate(('keys', 'keys', 'resp', 'native'))]
    for s in strangers:
        s.start()
    counted, failed = [Tally(), Tally()], []

    def add(i):
        n = 0
        try:
            while n < ADDS or any(s.came < EACH for s in strangers):
                began = time.monotonic()
                # Nobody knows the outcome only where somebody was not heard of for a second.
                if counted[i % 2].add(served[i], 'n%d' % (i % 2)) is None and place.passed_over() == over and time.monotonic() < began + 1:
                    failed.append('client %d of %s was told nothing, without need' % (i, members[i % 3].name))
                n += 1
        except (Refused, OSError) as why:
            failed.append('client %d of %s: %s' % (i, members[i % 3].name, why))

    adders = [threading.Thread(target=add, args=(i,)) for i in range(CLIENTS)]
    for a in adders:
        a.start()
    most = before
    while any(a.is_alive() for a in adders):
        most = max(most, resident(victim.kvd.pid))
        time.sleep(0.02)
    for s in strangers:
        s.over.set()
    for s in strangers:
        s.join()
    check(not failed, 'nobody who was connected is refused or cut off: %s' % failed)
    for m in members:
        r = Redis(m.resp_port)
        for k in range(2):
            n = int(r.sure('GET', 'n%d' % k))
            check(counted[k].fits(n), '%s: what was acknowledged is there, once: %d, %s' % (m.name, n, counted[k]))
    # A member that comes back finds its way to the one that was besieged, and the other way round.
    members[1].kvd.kill()
    members[1].kvd.wait()
    members[1].start(members)
    members[1].ready()
    check(well.fits(well.sure(Redis(members[1].resp_port), 'before')), 'a member comes back')
    check(most - before < MEMORY, 'strangers took %d MiB' % ((most - before) >> 20))
    print('%d strangers, %d requests meanwhile, %.1f MiB more' % (sum(s.came for s in strangers), sum(c.done for c in counted), (most - before) / 1048576))
    for m in members:
        m.kvd.terminate()
    for m in members:
        check(m.kvd.wait(60) == 0, '%s ends when asked to' % m.name)


# ---------------------------------------------------------------- no descriptor left

def alone(engine, *more):
    p = subprocess.Popen([place.kvd, '--dir', 'one-' + engine, '--engine', engine, '--durability', 'memory', '--resp', '127.0.0.1:0', *more], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, cwd=top)
    place.running.append(p)
    line = p.stdout.readline()
    check(line.startswith('ready: '), 'it is ready: %s' % line)
    p.port = kvd.resp_port(line)
    return p


def leave_none(p):
    """No descriptor above those that it has, and connections in the gaps, also those that files leave that it closes: until twenty were
    refused. Those who came in, and what the others were told."""
    highest = max(int(fd) for fd in os.listdir('/proc/%d/fd' % p.pid))
    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (highest + 1, resource.prlimit(p.pid, resource.RLIMIT_NOFILE)[1]))
    inside, told = [], []
    while len(told) < 20:
        r = Redis(p.port)
        try:
            check(r.ask('PING') == 'PONG', 'PING')
            inside.append(r)
        except (Refused, OSError) as why:
            told.append(str(why) if isinstance(why, Refused) else '')
        check(len(inside) <= highest, 'nobody is refused')
    return inside, set(told)


def first_word(port):
    """Of one who comes now: what it is told, or that it is served."""
    try:
        with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
            s.sendall(b'PING\r\n')
            return s.recv(200).decode()
    except ConnectionError:
        return ''


def no_descriptors(engine):
    p = alone(engine)
    inside = [Redis(p.port) for _ in range(5)]
    check(all(r.ask('PING') == 'PONG' for r in inside), 'they are in')
    check(inside[0].ask('SET', 'k', 'v') == 'OK', 'SET')
    usual = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
    more, said = leave_none(p)
    inside += more
    check('ERR max number of clients reached' in said and len(said - {''}) == 1, 'who comes is told why: %s' % said)
    for r in inside:
        check(r.ask('GET', 'k') == 'v', 'reads go on')
    # Files that it needs cannot be opened: changes go on or are refused with a word, and nothing that was acknowledged is lost.
    big, stored, refusals = 'x' * (1 << 20), 0, set()
    for i in range(140):  # a log goes through two segments
        try:
            inside[1].ask('SET', 'big%d' % (i % 40), big)
            stored += 1
        except Refused as why:
            refusals.add(str(why))
            break
        check(inside[2].ask('GET', 'k') == 'v', 'reads go on')
    check(p.poll() is None and inside[3].ask('GET', 'k') == 'v', 'it lives: %s' % refusals)
    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, usual)
    end = time.monotonic() + 60
    while first_word(p.port) != '+PONG\r\n':
        check(time.monotonic() < end, 'who comes afterwards is served')
    while True:
        try:
            check(inside[4].ask('SET', 'k', 'w') == 'OK' and Redis(p.port).ask('GET', 'k') == 'w', 'changes go on')
            break
        except Refused as why:
            check(time.monotonic() < end, 'changes go on: %s' % why)
    p.terminate()
    err = p.communicate(timeout=60)[1]
    check(p.returncode == 0 and 'no descriptor left' in err, 'it ends when asked to, and has said what was amiss: %d %s' % (p.returncode, err))
    print('%s without descriptors: %d changes of 1 MiB, then %s' % (engine, stored, ', '.join(refusals) or 'none refused'))


def few_descriptors():
    """A low limit from the beginning leaves some for the store's own files: it is connections that are refused."""
    limit = 200
    words = ['sh', '-c', 'ulimit -n %d; exec "$@"' % limit, 'sh', place.kvd, '--dir', 'few', '--engine', 'log', '--resp', '127.0.0.1:0']
    p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=top)
    place.running.append(p)
    line = p.stdout.readline()
    check(line.startswith('ready: '), 'it is ready with %d descriptors: %s' % (limit, line))
    p.port = kvd.resp_port(line)
    served, refused = [], 0
    for _ in range(limit + 50):
        r = Redis(p.port)
        try:
            check(r.ask('PING') == 'PONG', 'PING')
            served.append(r)
        except (Refused, ConnectionError) as why:
            check('max number of clients' in str(why) or isinstance(why, ConnectionError), 'a refusal: %s' % why)
            refused += 1
    check(refused and len(served) > limit // 2, '%d served, %d refused' % (len(served), refused))
    for i, r in enumerate(served):
        check(r.ask('SET', 'k%d' % i, i) == 'OK', 'those inside go on')
    for r in served[:50]:
        r.s.close()
        r.f.close()
    end = time.monotonic() + 60
    while first_word(p.port) != '+PONG\r\n':
        check(time.monotonic() < end, 'where some have gone others come in')
    p.terminate()
    check(p.wait(60) == 0, 'it ends when asked to')
    print('%d descriptors: %d served, %d refused' % (limit, len(served), refused))


try:
    besieged()
    few_descriptors()
    for engine in ('log', 'lmdb'):
        no_descriptors(engine)
    print('ok')
finally:
    place.end()
