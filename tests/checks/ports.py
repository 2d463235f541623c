#!/usr/bin/env python3
# usage: ports.py
# Ports that tests draw (tests/live/ports.py): processes that ask at the same moment, all of them for the same ones first, never get the same; those of one
# that has ended come free.
import fcntl, os, subprocess, sys

where = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live')
code = 'import ports, sys; ports.next_one = %d; print([ports.row(3) for _ in range(10)], flush=True); sys.stdin.read()' % (os.getpid() * 16)
asks = [subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=where) for _ in range(4)]
rows = [eval(p.stdout.readline()) for p in asks]
drawn = [port + i for row in rows for port in row for i in range(3)]
for p in asks:
    p.stdin.close()
    p.wait()
if len(set(drawn)) != len(drawn):
    sys.exit('FAILED: the same port twice: %s' % sorted(drawn))
sys.path.insert(0, where)
import ports

ports.row(1)
# Others on this machine draw too, and may have got some of these ports by now.
with open(ports.LEDGER) as f:
    fcntl.flock(f, fcntl.LOCK_SH)
    holders = {int(line.split()[1]) for line in f}
if holders & {p.pid for p in asks}:
    sys.exit('FAILED: ports of processes that have ended are held')
print('ok: %d ports of %d processes' % (len(drawn), len(asks)))
