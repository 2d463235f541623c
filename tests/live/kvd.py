"""What tests of members with keys share: a folder of their own, what has to hold in it, and the members of one store, each with a key that the others
know."""
import os, shutil, subprocess, tempfile


class Place:
    """A test's folder, and the programs."""

    def __init__(self, name, programs):
        self.htc, self.kvd = (os.path.join(os.path.abspath(programs), p) for p in ('htc', 'htc-kvd'))
        self.top = tempfile.mkdtemp(prefix='htc-%s-' % name)
        self.running = []

    def check(self, ok, what):
        if not ok:
            raise SystemExit('FAILED: %s (in %s)' % (what, self.top))

    def run(self, *words):
        """What a command says that has to succeed."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, cwd=self.top)
        self.check(done.returncode == 0, '%s: exit %d: %s%s' % (' '.join(words), done.returncode, done.stdout, done.stderr))
        return done.stdout.strip()

    def passed_over(self):
        """How often one of the members has gone on without another one, which its machine did not get round to for a second, or which is cut off or gone."""
        n = 0
        for name in os.listdir(self.top):
            if name.endswith('.log'):
                with open(os.path.join(self.top, name), errors='replace') as f:
                    n += f.read().count('go on without it')
        return n

    def end(self):
        for p in self.running:
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(self.top, ignore_errors=True)


class Member:
    """One htc-kvd of several, at HOST:PORT, with the engine log; RESP is spoken where `resp` says."""

    def __init__(self, place, n, at, resp):
        self.place, self.name, self.at, self.resp = place, 'm%d' % n, at, resp
        key = self.name + '.key'
        place.run(place.htc, 'keys', 'new', key)
        place.run(place.htc, 'keys', 'add', self.name, place.run(place.htc, 'keys', 'show', key), '--ring', 'ring', '--role', 'member')
        self.id = place.run(place.kvd, '--dir', self.name, '--new-member')
        self.kvd = None

    def words(self, *words):
        """As what it runs."""
        return words

    def start(self, everybody):
        listed = sum((['--member', '%s@tcp://%s@%s' % (m.id, m.name, m.at)] for m in everybody), [])
        with open(os.path.join(self.place.top, self.name + '.log'), 'a') as log:
            self.kvd = subprocess.Popen(self.words(self.place.kvd, '--dir', self.name, '--engine', 'log', '--listen', self.at, '--key', self.name + '.key',
                                                   '--ring', 'ring', '--resp', self.resp, *listed),
                                        stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.place.top)
        self.place.running.append(self.kvd)

    def ready(self):
        """What it says when it is."""
        line = self.kvd.stdout.readline()
        self.place.check(line.startswith('ready: '), '%s is ready: %s' % (self.name, line))
        return line


def resp_port(line):
    """Of a member that is ready, and speaks RESP on a port that the kernel has chosen."""
    return int(line.split('RESP on ')[1].split(',')[0].rsplit(':', 1)[1])
