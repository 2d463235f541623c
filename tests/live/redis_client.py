"""A client of Redis' protocol for these tests, as small as can be: one connection, one command at a time, nothing asked for twice."""
import socket
import threading
import time

# What a command may be answered that was perhaps carried out: a member that its machine leaves alone for a second is passed over, and a change that is then
# asked for elsewhere may have been made before. That is no fault; nor is it to be told that nothing was done, and to ask later.
UNKNOWN = ('no owner has answered in time', 'outcome of a repeated change is not known')


class Refused(Exception):
    def unknown(self):
        """It says that the outcome is not known."""
        return any(words in str(self) for words in UNKNOWN)

    def busy(self):
        """It says that nothing was done, for now."""
        return str(self).startswith('TRYAGAIN ')


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
        """The answer to a command that may be carried out more than once: asked again, a minute at most, while there is no outcome, or none that is known."""
        until = time.monotonic() + 60
        while True:
            try:
                return self.ask(*words)
            except Refused as why:
                if not (why.unknown() or why.busy()) or time.monotonic() > until:
                    raise

    def delete(self, *keys):
        """Ends keys that are all there. How many there were can be told only where the outcome is known at once."""
        try:
            return self.ask('DEL', *keys) == len(keys)
        except Refused as why:
            if not (why.unknown() or why.busy()):
                raise
        return 0 <= self.sure('DEL', *keys) <= len(keys)


class Tally:
    """How often a number was added one to: so often for certain, and perhaps so often more, now or later. For several threads."""

    def __init__(self):
        self.lock, self.done, self.unknown = threading.Lock(), 0, 0

    def add(self, r, key):
        """The number that it is then; None: it is not known whether it was done."""
        try:
            n = r.ask('INCR', key)
        except Refused as why:
            if not (why.unknown() or why.busy()):
                raise
            with self.lock:
                self.unknown += why.unknown()
            return None
        with self.lock:
            self.done += 1
        return n

    def sure(self, r, key):
        """The number when it is known that one was added, after a minute at most."""
        until = time.monotonic() + 60
        while True:
            n = self.add(r, key)
            if n is not None:
                return n
            if time.monotonic() > until:
                raise TimeoutError('nothing is known: %s' % self)

    def fits(self, n):
        return self.done <= n <= self.done + self.unknown

    def __str__(self):
        return '%d acknowledged, %d unknown' % (self.done, self.unknown)
