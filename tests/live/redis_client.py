"""A client of Redis' protocol for these tests, as small as can be: one connection, one command at a time, nothing asked for twice."""
import socket
import time

# What a command may be answered that was perhaps carried out: a member that its machine leaves alone for a second is passed over, and a change that is then
# asked for elsewhere may have been made before. That is no fault.
UNKNOWN = ('may be done all the same', 'outcome of a repeated change is not known')


class Refused(Exception):
    def unknown(self):
        """It says that the outcome is not known."""
        return any(words in str(self) for words in UNKNOWN)


class Redis:
    """One connection that speaks RESP2."""

    def __init__(self, address):
        """HOST:PORT, or a port of this machine."""
        host, _, port = str(address).rpartition(':')
        self.s = socket.create_connection((host or '127.0.0.1', int(port)), timeout=60)
        self.f = self.s.makefile('rb')

    def read(self):
        line = self.f.readline()
        if not line.endswith(b'\r\n'):
            raise ConnectionError('closed')
        kind, rest = line[:1], line[1:-2]
        if kind == b'+':
            return rest.decode()
        if kind == b'-':
            return Refused(rest.decode())
        if kind == b':':
            return int(rest)
        if kind == b'$':
            return None if rest == b'-1' else self.f.read(int(rest) + 2)[:-2].decode()
        return [self.read() for _ in range(int(rest))]

    def ask(self, *words):
        parts = [str(w).encode() for w in words]
        self.s.sendall(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(p), p) for p in parts))
        answer = self.read()
        if isinstance(answer, Refused):
            raise answer
        return answer

    def sure(self, *words):
        """The answer to a command that may be carried out more than once: asked again, a minute at most, while the outcome is not known."""
        until = time.monotonic() + 60
        while True:
            try:
                return self.ask(*words)
            except Refused as why:
                if not why.unknown() or time.monotonic() > until:
                    raise
