#!/usr/bin/env python3
"""A member that cannot be let in is told why, and ends: there are as many members as buckets, of which one is enough to say so. What passes by
itself ends nobody: another one that waits to be let in, in the place of a member that there is not, goes on asking."""
import os, shutil, signal, subprocess, sys, tempfile, time

programs = os.path.abspath(sys.argv[1])
kvd = os.path.join(programs, 'htc-kvd')
top = tempfile.mkdtemp(prefix='htc-join-refused-')
started = []
PATIENCE = 900


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def new(name):
    d = os.path.join(top, name)
    done = subprocess.run([kvd, '--dir', d, '--new-member'], capture_output=True, text=True)
    check(done.returncode == 0, 'an id: ' + done.stderr)
    return d, done.stdout.strip()


def start(d, *words):
    out = open(d + '.out', 'w')
    p = subprocess.Popen([kvd, '--dir', d, '--engine', 'log', *words], stdout=out, stderr=out)
    started.append(p)
    return p


def said(d):
    with open(d + '.out') as f:
        return f.read()


def main():
    d, own = new('one')
    others = [w for i in range(1, 64) for w in ('--member', '%016x@unix:%s/m%d' % (i, top, i))]
    one = start(d, '--buckets', '64', '--member', '%s@unix:%s/kvd.sock' % (own, d), *others)
    at = 'unix:%s/kvd.sock' % d
    full, waits = new('full')[0], new('waits')[0]
    first, second = start(full, '--join', at), start(waits, '--join', at, '--replaces', 'aaaaaaaaaaaaaaaa')
    try:
        first.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        check(False, 'it is told and ends: ' + said(full))
    check(first.returncode == 6 and 'as many members as it has buckets' in said(full) and '--replaces' in said(full),
          'it is told why: %d %s' % (first.returncode, said(full)))
    until = time.monotonic() + PATIENCE
    while 'no member to be replaced' not in said(waits):
        check(time.monotonic() < until, 'why it waits: ' + said(waits))
        time.sleep(0.02)
    check(second.poll() is None and one.poll() is None, 'the others go on: ' + said(waits) + said(d))


try:
    main()
finally:
    for p in started:
        if p.poll() is None:
            p.send_signal(signal.SIGKILL)
            p.wait()
shutil.rmtree(top)
