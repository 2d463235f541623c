#!/usr/bin/env python3
"""usage: ports.py N [PID]
Prints the first of N free ports that follow each other, on 127.0.0.1, .2 and .3. They lie below those that connections get by themselves, for some are taken
later. Nobody else who asks here gets them, in whatever process, before process PID has ended: whoever calls, if none is named (a shell
names itself, for it may call from one of its own that ends at once)."""
import fcntl
import os
import socket
import sys

LEDGER = '/tmp/htc-ports-%d' % os.getuid()
next_one = os.getpid() * 16


def born(pid):
    """When that process began, as the kernel counts; None: there is none. A number of a process comes again."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rsplit(')', 1)[1].split()
            return None if fields[0] in 'ZX' and int(fields[17]) <= 1 else fields[19]
    except OSError:
        return None


def is_free(base, n, addresses):
    held = []
    try:
        for port in range(base, base + n):
            held += [socket.create_server((a, port)) for a in addresses]
        return True
    except OSError:
        return False
    finally:
        for s in held:
            s.close()


def row(n, addresses=("127.0.0.1",), holder=None):
    """The first of n that follow each other, are free on all addresses, and are nobody's: others each time."""
    global next_one
    holder = holder or os.getpid()
    with open(os.open(LEDGER, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), 'r+') as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        held = [line for line in ledger.read().splitlines() if born(int(line.split()[1])) == line.split()[2]]
        taken = {int(line.split()[0]) for line in held}
        for _ in range(0, 12000, n):
            base = 20000 + next_one % (12000 - n)
            next_one += n
            mine = range(base, base + n)
            if taken.isdisjoint(mine) and is_free(base, n, addresses):
                held += ['%d %d %s' % (port, holder, born(holder)) for port in mine]
                ledger.seek(0)
                ledger.truncate()
                ledger.write(''.join(line + '\n' for line in held))
                return base
    sys.exit("no free ports")


if __name__ == "__main__":
    print(row(int(sys.argv[1]), ["127.0.0.%d" % i for i in (1, 2, 3)],
              holder=int(sys.argv[2]) if len(sys.argv) > 2 else os.getppid()))
