#!/usr/bin/env python3
# usage: bad_member.py FOLDER-OF-THE-PROGRAMS
# A process that says it is one of three members, and tells another one anything: messages that are none, items of every kind with some bytes
# changed, absurd lengths and counts, keys and buckets and epochs that do not exist, many at a time. What is no message is told so and closed;
# the member lives, its memory stays bounded, and the clients of the other two are served all the time, each count of theirs once. (What is
# right about a store among members that lie nobody promises: none of the items is about the counters, and none offers another map.)
# Prints its seed; HTC_TEST_SEED repeats one. HTC_TEST_FULL=1: twenty times as many.
import os, shutil, struct, subprocess, sys, tempfile

import frames
from frames import ERROR, KV_MEMBERS, WELCOME, Frames, changed, check, frame, framed, hello, rng, run_of, said_why, varint
from redis_client import Redis, Tally

htc, kvd = (os.path.join(os.path.abspath(sys.argv[1]), name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-member-')
seed = int(os.environ.get('HTC_TEST_SEED', '1'))
rng.seed(seed)
EACH = 6000 if os.environ.get('HTC_TEST_FULL') == '1' else 100 if 'HTC_TEST_LIGHT' in os.environ else 300
MEMORY = 64 << 20  # more than before, whatever it is told (of what fills memory: tests/unit/test_kvs_hostile.c)
MEMBER = 4          # the role
# What is given back is kept by a sanitizer's allocator for a while: not for long here, where memory is looked at.
os.environ['ASAN_OPTIONS'] = ':'.join(filter(None, (os.environ.get('ASAN_OPTIONS'), 'quarantine_size_mb=4')))
running = []


def resident(p):
    with open('/proc/%d/statm' % p.pid) as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


# ---------------------------------------------------------------- items (doc/protocol.md, between members)

def u64(n):
    return struct.pack('<Q', n)


def u32(n):
    return struct.pack('<I', n)


def any_number():
    return varint(rng.choice((0, 1, 2, 7, 255, 1 << 20, (1 << 47) - 1, (1 << 62), (1 << 64) - 1)))


def any_key():
    return run_of(rng.choice((b'x', b'xy', b'x' * 400, b'x' * 401, b'', b'e\0x', b'\0x', rng.randbytes(9))))


def cell():
    return rng.randbytes(rng.randrange(40))


ITEMS = {
    1: lambda: bytes([rng.choice((1, 1, 2, 4))]) + any_number() + varint(1) + any_key() + any_number() + any_number() + u64(rng.randrange(4)) + any_number(),
    2: lambda: bytes([rng.randrange(1, 5), rng.randrange(2)]) + any_number() + any_number() + any_key() + cell(),
    3: lambda: u64(rng.randrange(1 << 64)) + bytes([0, rng.randrange(4)]) + any_number() + u64(5) * 3 + any_number() + any_number() + b'\1' + any_key(),
    4: lambda: u64(rng.randrange(1 << 64)) + b'\0' + u64(rng.randrange(3)) + any_number() + cell(),
    5: lambda: u64(7) + bytes([rng.randrange(4)]) + any_number() + run_of(b'') + any_key() + u64(1) + varint(1) + varint(1),
    6: lambda: u64(rng.randrange(1 << 64)) + b'\1' + any_number() + any_number() + any_key() + any_key() + cell(),
    32: lambda: u64(9) + u64(5) + any_number() + cell(), 33: lambda: u64(9) + cell(), 34: lambda: u64(9) + u64(1) + any_key(),
    35: lambda: u64(9) + b'\0' + cell(), 36: lambda: u64(9) + any_key() + cell(), 37: lambda: u64(9), 38: lambda: any_number() + b'\0' + u64(3) * 2,
    39: lambda: any_number() + cell(), 40: lambda: any_number() + any_key(), 41: lambda: u64(9) + any_key() + u64(2), 42: lambda: u64(9) + b'\1' + u64(2),
    64: lambda: any_number(), 65: lambda: any_number(), 68: lambda: any_number() * 2 + any_key() + b'\1' + any_number() + cell(),
    69: lambda: any_number() + any_number() + any_number() + b'\0' + any_number() + cell(), 70: lambda: any_number() * 3,
    71: lambda: varint(1) + any_number() + varint(1) + any_key(), 72: lambda: any_number() * 2 + any_key() + b'\1' + any_number() + cell(),
    74: lambda: u32(rng.randrange(10)), 75: lambda: any_number() + any_key() + any_key() + u64(1), 76: lambda: any_number() + any_key() + any_key() + bytes(2048),
    77: lambda: any_number() + any_key() + any_key() + b'\xff' * 32, 78: lambda: any_number() + any_key() + any_key(), 79: lambda: varint(1) + any_key() + cell(),
    96: lambda: u64(rng.randrange(3)) + any_number() + any_number() + any_number() + any_number() + b'\0' + any_key() + varint(1 << 40) + b'\1' + run_of(b''),
    97: lambda: u64(1) + any_number() + b'\1' + any_number() + any_number() + any_key() + any_number() + u64(3),
}


def item():
    kind = rng.choice(list(ITEMS))
    body = ITEMS[kind]()
    return bytes([kind]) + run_of(changed(body) if body and rng.random() < 0.5 else body)


class Liar:
    """A connection that has greeted as a member."""

    def __init__(self, path, whose, to):
        self.c, self.whose, self.to, self.said = Frames(path), whose, to, 0
        check(self.c.send(hello(MEMBER)) and self.c.next()[0] == WELCOME, 'a member is welcomed')

    def message(self, items):
        self.said += 1
        return frame(KV_MEMBERS, self.said, u64(self.whose) + u64(self.to) + items)

    def say(self, items):
        return self.c.send(self.message(items))


# ---------------------------------------------------------------- members

class Member:
    def __init__(self, n):
        self.dir = os.path.join(top, str(n))
        self.path = os.path.join(self.dir, 'kvd.sock')
        self.id = subprocess.run([kvd, '--dir', self.dir, '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
        self.number = int(self.id, 16)

    def start(self, all_of_them):
        listed = sum((['--member', '%s@unix:%s' % (m.id, m.path)] for m in all_of_them), [])
        self.p = subprocess.Popen([kvd, '--dir', self.dir, '--engine', 'log', '--durability', 'memory', '--resp', '127.0.0.1:0', '--namespace', 'e=eventual',
                                   *listed], stdout=subprocess.PIPE, stderr=open(self.dir + '.log', 'w'), text=True)
        running.append(self.p)

    def ready(self):
        line = self.p.stdout.readline()
        check(line.startswith('ready: '), 'it is ready', line)
        self.client = Redis('127.0.0.1:' + line.split('RESP on ')[1].split(',')[0].rsplit(':', 1)[1])


def main():
    print('# seed', seed)
    members = [Member(n) for n in (1, 2, 3)]
    for m in members:
        m.start(members)
    for m in members:
        m.ready()
    told, others = members[0], members[1:]
    tally, key = Tally(), 'a counter of those who are honest'

    def go_on():
        for m in others:
            n = tally.sure(m.client, key)
            check(tally.fits(n), 'the others count on, each time once', n, tally)
        check(told.p.poll() is None, 'it lives', told.p.returncode)

    go_on()
    check(told.client.sure('SET', 'before', 'it') == 'OK', 'all is well')
    before = most = resident(told.p)
    # What is certainly no message is told to be none.
    liar = lambda: Liar(told.path, others[1].number, told.number)
    for what, data in (('noise', framed(bytes(range(50)))), ('a client\'s request', frames.request(1, 0)), ('an unknown message', frame(999, 1, b'x')),
                       ('no names', frame(KV_MEMBERS, 1, b'123')), ('a torn item', liar().message(b'\1\x7fk')), ('a long frame', b'\xff' * 4),
                       ('an absurd length', liar().message(b'\1' + b'\xff' * 9 + b'\1'))):
        one = liar()
        one.c.send(data)
        said_why(one.c.rest(), what)
        go_on()
    heard = 0
    for i in range(EACH):
        one = liar()
        kind = i % 4
        if kind == 0:
            one.c.send(framed(changed(one.message(item())[4:])))
        elif kind == 1:  # the frame's length may be another one
            one.c.send(changed(one.message(b''.join(item() for _ in range(3)))))
        else:
            for _ in range(20):
                one.say(b''.join(item() for _ in range(rng.randrange(1, 20))))
        got = one.c.rest()
        check(all(g[0] in (ERROR, KV_MEMBERS, WELCOME) for g in got), 'answers are answers', got)
        check(ERROR not in [g[0] for g in got[:-1]], 'an error is the last word', got)
        heard += not got
        most = max(most, resident(told.p))
        go_on()
    grown = most - before
    check(grown < MEMORY, 'memory is bounded', grown)
    for m in others:
        check(tally.fits(int(m.client.sure('GET', key))), 'what was counted is there', tally)
    for m in members:
        m.p.terminate()
    for m in members:
        check(m.p.wait(60) == 0, 'it ends when asked to', m.p.returncode)
    print('ok: %d connections, %d of them heard to the end; %.1f MiB more; meanwhile %s' % (EACH, heard, grown / 1048576, tally))


try:
    main()
finally:
    for p in running:
        if p.poll() is None:
            p.kill()
            p.wait()
    shutil.rmtree(top, ignore_errors=True)
