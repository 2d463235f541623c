#!/usr/bin/env python3
# usage: bad_bytes.py FOLDER-OF-THE-PROGRAMS
# Bytes that make no sense, and valid messages with some of them changed, at the ports of htc-kvd (the store's own protocol, Redis', the
# secure channel; those of its page of metrics are in metrics.py): whoever sends them is told why and closed, or served if they happen to be
# right; nothing ends, memory stays bounded, and others are served all the time. Prints its seed; HTC_TEST_SEED repeats one.
# HTC_TEST_FULL=1: twenty times as many.
import os, shutil, socket, struct, subprocess, sys, tempfile

import ports
from frames import ERROR, KV_ANSWER, KV_EVENTS, OPS, WELCOME, Frames, changed, check, frame, framed, hello, request, rng, run_of, said_why, varint

htc, kvd = (os.path.join(os.path.abspath(sys.argv[1]), name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-bytes-')
seed = int(os.environ.get('HTC_TEST_SEED', '1'))
rng.seed(seed)
EACH = 8000 if os.environ.get('HTC_TEST_FULL') == '1' else 150 if 'HTC_TEST_LIGHT' in os.environ else 400
MEMORY = 64 << 20


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=top)
    check(done.returncode == 0, words, done.stdout, done.stderr)
    return done.stdout.strip()


def resident(p):
    with open('/proc/%d/statm' % p.pid) as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def own_protocol(path):
    # What is certainly wrong is told to be so.
    for what, data in (('no greeting', request(1, 0)), ('noise in a frame', framed(bytes(range(50)))), ('a role that is none', hello(9)),
                       ('a version that is none', frame(1, 0, struct.pack('<IHB', 0x31435448, 0, 1))),
                       ('a frame of no length', bytes(4)), ('a short frame', b'\1\0\0\0x'), ('a long frame', b'\xff' * 4)):
        c = Frames(path)
        c.send(data)
        said_why(c.rest(), what)
    for what, data in (('an unknown message', frame(999, 5, b'x')), ('a request that is cut', frame(100, 2, b'\1\2\3')),
                       ('a key of no bytes', None), ('bytes behind the end', None), ('a long frame', b'\xff' * 4)):
        c = Frames(path)
        session = c.begin()
        data = data or request(2, session, b'\1\0' if 'no bytes' in what else OPS[0] + b'behind')
        c.send(data)
        said_why(c.rest(), what)
    served = 0
    for i in range(EACH):
        c = Frames(path)
        kind = i % 4
        if kind == 0:  # noise from the beginning
            c.send(rng.randbytes(rng.randrange(1, 3000)))
        elif kind == 1:  # a greeting with something changed, and what would follow it
            c.send(changed(hello()) + request(1, 0))
        else:  # requests with something changed; the frame's length fits, or is changed as well
            session = c.begin()
            whole = request(2, session, *rng.sample(OPS, rng.randrange(1, 6)))
            c.send(framed(changed(whole[4:])) if kind == 2 else changed(whole) + request(3, session, OPS[0]))
        got = c.rest()
        check(all(one[0] in (WELCOME, ERROR, KV_ANSWER, KV_EVENTS, 106) for one in got), 'answers are answers', got)
        check(ERROR not in [one[0] for one in got[:-1]], 'an error is the last word', got)
        served += any(one[0] == KV_ANSWER for one in got)
    return served


# ---------------------------------------------------------------- Redis' protocol

COMMANDS = [b'PING\r\n', b'*1\r\n$4\r\nPING\r\n', b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n', b'*2\r\n$3\r\nGET\r\n$1\r\nk\r\n',
            b'*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nPX\r\n$5\r\n10000\r\n', b'*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n', b'MGET a b c\r\n',
            b'*4\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$5\r\nCOUNT\r\n$2\r\n10\r\n', b'*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n', b'CONFIG GET *\r\n', b'INFO server\r\n',
            b'*2\r\n$7\r\nCOMMAND\r\n$5\r\nCOUNT\r\n']


def read_reply(f):
    """One reply of either version. None: the end."""
    line = f.readline()
    if line == b'':
        return None
    check(line.endswith(b'\r\n'), 'a reply has lines', line)
    kind, rest = line[:1], line[1:-2]
    if kind in (b'+', b'-', b':', b'_', b'#', b',', b'('):
        return kind
    check(kind in b'$*%~>=' and rest.lstrip(b'-').isdigit(), 'a reply', line)
    n = int(rest)
    if kind in (b'$', b'='):
        data = f.read(n + 2) if n >= 0 else b'\r\n'
        check(data.endswith(b'\r\n'), 'a text is whole', line)
    else:
        for _ in range(n * (2 if kind == b'%' else 1) if n > 0 else 0):
            check(read_reply(f) is not None, 'an array is whole', line)
    return kind


def redis_protocol(port):
    for data in (b'*x\r\n', b'*1\r\n$-7\r\n', b'*1\r\n+PING\r\n', b'*1\r\n$99999999999\r\n', b'*99999999\r\n', b'SET "unbalanced\r\n'):
        with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
            s.sendall(data)
            f = s.makefile('rb')
            line = f.readline()
            check(line.startswith(b'-ERR Protocol error') and f.read() == b'', 'it is told why, and closed', data, line)
    for i in range(EACH):
        with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
            whole = b''.join(rng.sample(COMMANDS, rng.randrange(1, 6)))
            try:
                s.sendall(rng.randbytes(rng.randrange(1, 3000)) if i % 3 == 0 else changed(whole))
                s.shutdown(socket.SHUT_WR)
                f = s.makefile('rb')
                while read_reply(f) is not None:
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass


# ---------------------------------------------------------------- the secure channel

def secure_channel(port):
    start = bytes([48, 0, 1]) + b'htc' + bytes([1, 1, 3, 0]) + bytes(8) + bytes(range(32))
    with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
        s.sendall(b'GET / HTTP/1.0\r\n\r\n')
        check(s.recv(100)[2:3] == b'\x06', 'what is no handshake is refused')
    for i in range(EACH // 4):
        with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
            try:
                s.sendall(rng.randbytes(rng.randrange(1, 3000)) if i % 3 == 0 else changed(start))
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass


def start(*words):
    p = subprocess.Popen([kvd, '--dir', 'one', '--engine', 'log', '--resp', '127.0.0.1:0', *words], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE if '-q' in words else open(os.path.join(top, 'log'), 'w'), text=True, cwd=top)
    line = p.stdout.readline()
    check(line.startswith('ready: '), 'it is ready', line)
    p.resp = int(line.split('RESP on ')[1].split(',')[0].rsplit(':', 1)[1])
    return p


def main():
    global p
    print('# seed', seed)
    run(htc, 'keys', 'new', 'one.key')
    open(os.path.join(top, 'ring'), 'w').close()
    port = ports.row(1)
    p = start('--listen', '127.0.0.1:%d' % port, '--key', 'one.key', '--ring', 'ring')
    path = os.path.join(top, 'one', 'kvd.sock')
    other = Frames(path)  # connected all the time
    session = other.begin()
    before = resident(p)
    served = own_protocol(path)
    redis_protocol(p.resp)
    secure_channel(port)
    check(p.poll() is None, 'it lives', p.returncode)
    grown = resident(p) - before
    check(grown < MEMORY, 'memory is bounded', grown)
    other.send(request(2, session, b'\2' + run_of(b'last') + varint(0) + run_of(b'word')))
    check(other.next()[0] == KV_ANSWER, 'who was connected is served')
    other.s.close()
    p.terminate()
    check(p.wait(60) == 0, 'it ends when asked to', p.returncode)
    print('ok: %d connections a port, %d of them served for all that; %.1f MiB more' % (EACH, served, grown / 1048576))


p = None
try:
    main()
finally:
    if p and p.poll() is None:
        p.kill()
        p.wait()
    shutil.rmtree(top, ignore_errors=True)
