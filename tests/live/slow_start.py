#!/usr/bin/env python3
"""htc kv cluster starts members that take long: who reads or computes is waited for, who does nothing is given up, and who ends ends the
command. The members are programs in the place of htc-kvd; those that work end when the test says so, much later than one would be given up
that does nothing."""
import os, shutil, subprocess, sys, tempfile, time

programs = sys.argv[1]
top = tempfile.mkdtemp(prefix='htc-slow-start-')
PATIENCE = 5

MEMBER = '''#!%s
import os, sys, time
how = %r
if '--new-member' in sys.argv:
    os.makedirs(sys.argv[sys.argv.index('--dir') + 1])
    print(os.urandom(8).hex())
    sys.exit()
print('begins', flush=True)
if how == 'ends':
    sys.exit('a reason')
zeros = open('/dev/zero', 'rb', buffering=0)
while not os.path.exists(%r):
    if how == 'reads':
        zeros.read(1 << 20)
        time.sleep(0.01)
    elif how == 'idles':
        time.sleep(0.05)
print('ready: it is', flush=True)
time.sleep(3600)
'''


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s' % what)


class Start:
    """htc kv cluster of two members that do this."""

    def __init__(self, how):
        self.how, self.dir = how, os.path.join(top, how)
        self.go = os.path.join(self.dir, 'go')
        os.mkdir(self.dir)
        self.htc = os.path.join(self.dir, 'htc')
        shutil.copy(os.path.join(programs, 'htc'), self.htc)
        kvd = os.path.join(self.dir, 'htc-kvd')
        with open(kvd, 'w') as f:
            f.write(MEMBER % (sys.executable, how, self.go))
        os.chmod(kvd, 0o755)
        self.env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(programs))
        self.begun = time.monotonic()
        self.p = subprocess.Popen([self.htc, 'kv', 'cluster', '--dir', os.path.join(self.dir, 'c'), '--members', '2', '--base-port', '20000',
                                   '--patience', '%ds' % PATIENCE], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ends(self, code, *said):
        text = self.p.communicate(timeout=600)[0]
        check(self.p.returncode == code, '%s: exit %d instead of %d: %s' % (self.how, self.p.returncode, code, text))
        for word in said:
            check(word in text, '%s: says %r, not %r' % (self.how, text, word))

    def stop(self):
        open(self.go, 'w').close()
        subprocess.run([self.htc, 'kv', 'cluster', '--dir', os.path.join(self.dir, 'c'), '--stop'], env=self.env, capture_output=True)


starts = []
try:
    starts = [Start(how) for how in ('reads', 'computes', 'idles', 'ends')]
    reads, computes, idles, ends = starts
    ends.ends(3, 'a member did not start: a reason')
    idles.ends(6, '2 of 2 members are not ready, and have done nothing for %d seconds' % PATIENCE)
    check(time.monotonic() - idles.begun >= PATIENCE, 'it was waited for')
    for worked in (reads, computes):
        while time.monotonic() - worked.begun < 3 * PATIENCE:
            time.sleep(0.1)
        check(worked.p.poll() is None, '%s: is waited for' % worked.how)
        open(worked.go, 'w').close()
        worked.ends(0, 'the cluster runs')
    print('ok')
finally:
    for x in starts:
        x.stop()
    shutil.rmtree(top, ignore_errors=True)
