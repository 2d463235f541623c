"""The store's own protocol (doc/protocol.md), as tests of bytes that make no sense speak it: frames, requests, a connection that reads frames, and
bytes that are changed here and there. Draws come from `rng`, which its user seeds."""
import random, socket, struct, sys

ERROR, WELCOME, KV_ANSWER, KV_MEMBERS, KV_EVENTS = 3, 2, 101, 102, 104
rng = random.Random(1)


def check(ok, what, *more):
    if not ok:
        print('FAILED:', what, *more)
        sys.exit(1)


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def run_of(data):
    return varint(len(data)) + data


def frame(kind, id, payload):
    return struct.pack('<IHQ', len(payload) + 10, kind, id) + payload


def hello(role=1):
    return frame(1, 0, struct.pack('<IHB', 0x31435448, 1, role))


def request(serial, session, *ops):
    return frame(100, serial, struct.pack('<QQ', session, 77) + varint(0) + b'\0' + varint(serial * 100) + varint(len(ops)) + b''.join(ops))


OPS = [b'\1' + run_of(b'key'), b'\2' + run_of(b'key') + varint(0) + run_of(b'value'), b'\3' + run_of(b'key'), b'\4' + run_of(b'a') + run_of(b'b'),
       b'\5' + run_of(b'key') + varint(3) + run_of(b'v'), b'\6' + run_of(b'key') + run_of(b'seen') + run_of(b'new'),
       b'\7' + run_of(b'n') + struct.pack('<q', -5), b'\x08' + run_of(b'k') + run_of(b'') + varint(10), b'\x09' + varint(10**9), b'\x0a' + varint(5),
       b'\x0c', b'\x0d', b'\x82' + varint(5) + varint(10**9) + run_of(b'ttl') + varint(0) + run_of(b'v')]


class Frames:
    """A connection that reads frames."""

    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(path)
        self.f = self.s.makefile('rb')

    def send(self, data):
        try:
            self.s.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def next(self):
        """(type, id, payload), or None at the end."""
        try:
            head = self.f.read(4)
            if len(head) < 4:
                check(head == b'', 'a frame is whole', head)
                return None
            body = self.f.read(struct.unpack('<I', head)[0])
        except ConnectionResetError:
            return None
        return struct.unpack('<HQ', body[:10]) + (body[10:],)

    def rest(self):
        """All that comes until the end, which has to come, for we have said all."""
        try:
            self.s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        got = []
        while (one := self.next()) is not None:
            got.append(one)
        self.s.close()
        return got

    def begin(self):
        check(self.send(hello()) and self.next()[0] == WELCOME, 'a greeting is welcomed')
        self.send(request(1, 0))
        kind, id, payload = self.next()
        check(kind == KV_ANSWER, 'a session', kind)
        return struct.unpack('<QQ', payload[:16])[1]


def said_why(got, what):
    """The last word of a connection that was closed for what it said."""
    check(got and got[-1][0] == ERROR and len(got[-1][2]) > 5, 'it is told why: ' + what, got)
    return got[-1][2][4:]


def changed(data):
    """Some bytes other than they were, or missing, or more."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data))
        how = rng.randrange(4)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif how == 2:
            data[at:at + rng.randrange(1, 9)] = b''
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        data = data or bytearray(b'\0')
    return bytes(data)


def framed(payload):
    return struct.pack('<I', len(payload)) + payload
