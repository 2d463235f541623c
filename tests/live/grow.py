#!/usr/bin/env python3
"""Members come and go while clients count: one store grows from one to three to five members, its first three are replaced one by one, and it
shrinks to one. Every addition that was acknowledged is there once, only buckets that have to move do, and who has left does not come back.
Other clients (kvs_load.c) write down all that they ask and are told, and it is judged in the end as a history.
HTC_TEST_FULL=1: with as many buckets as a store has by itself, and with both engines; and at each change a member that is not concerned is killed
and started again, three times over."""
import json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time

programs, load_program = sys.argv[1:3]
htc, kvd = os.path.join(programs, 'htc'), os.path.join(programs, 'htc-kvd')
full = os.environ.get('HTC_TEST_FULL') == '1'
top = tempfile.mkdtemp(prefix='htc-grow-')
PATIENCE = 600
started = []
COPIES = 3


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


class Refused(Exception):
    pass


def wait_until(what, holds, *who):
    until = time.monotonic() + PATIENCE
    while not holds():
        for m in who:
            check(m.process.poll() is None, '%s: member %s has ended: %s' % (what, m.name, m.said()))
        check(time.monotonic() < until, what)
        time.sleep(0.02)


class Member:
    """One htc-kvd, in a directory of its own."""

    def __init__(self, name, engine):
        self.name, self.engine = name, engine
        self.dir = os.path.join(top, name)
        self.address = 'unix:%s/kvd.sock' % self.dir
        self.redis = os.path.join(self.dir, 'redis')
        self.process = None
        done = subprocess.run([kvd, '--dir', self.dir, '--new-member'], capture_output=True, text=True)
        check(done.returncode == 0, 'an id: ' + done.stderr)
        self.id = done.stdout.strip()

    def start(self, *words):
        self.words = words
        with open(self.dir + '.out', 'w') as out:
            self.process = subprocess.Popen([kvd, '--dir', self.dir, '--engine', self.engine, '--resp', 'unix:' + self.redis, *words],
                                            stdout=out, stderr=out)
        started.append(self.process)

    def kill(self):
        """And again, with the words that it was started with."""
        self.process.kill()
        self.process.wait()
        self.start(*self.words)

    def said(self):
        with open(self.dir + '.out') as f:
            return f.read()

    def ready(self):
        wait_until('%s is ready' % self.name, lambda: 'ready: ' in self.said(), self)

    def ended(self):
        wait_until('%s ends by itself' % self.name, lambda: self.process.poll() is not None)
        check(self.process.returncode == 0 and 'has left the store' in self.said(), 'how %s ended: %s' % (self.name, self.said()))


def htc_kv(*words):
    return subprocess.run([htc, 'kv', *words], capture_output=True, text=True, timeout=PATIENCE)


def done(*words):
    d = htc_kv(*words)
    check(d.returncode == 0, '%s: %d %s%s' % (' '.join(words), d.returncode, d.stdout, d.stderr))
    return d.stdout


def refused_changes(here, stranger):
    """Each says why, and how it can be told from others."""
    at = ['--store', here[0].address]
    for words, code, why in ((['leave', stranger], 4, 'no such member'), (['leave', 'me'], 1, 'no id of a member'),
                             (['rebalance', here[0].id], 1, 'a weight is'), (['rebalance', stranger, '--weight', '2'], 4, 'no such member'),
                             (['undo'], 4, 'nothing is under way'), (['join', stranger, '--no-wait'], 6, 'is not in yet'),
                             (['replace', here[0].id, here[1].id], 4, 'is a member already')):
        d = htc_kv(*words, *at)
        check(d.returncode == code and why in d.stderr, '%s: %d %s' % (words, d.returncode, d.stderr))
    check('--join ADDRESS' in done('join', *at), 'how a member is added')
    check(done('join', here[1].id, *at).startswith(here[1].id + ' is in'), 'a member is in')


def rebalance(here):
    """Three times its share and back, given up on the way; how far it is shows on a terminal."""
    m, at = here[0], ['--store', here[1].address]
    check('has another share' in done('rebalance', m.id, '--weight', '3', *at), 'another weight')
    heavy = at_rest(here[1], [x.id for x in here])
    share = {x['id']: (x['owned'], x['weight']) for x in heavy['members']}
    check(share[m.id][1] == 3 and share[m.id][0] > max(v[0] for k, v in share.items() if k != m.id), 'its share: %s' % share)
    out = json.loads(done('rebalance', m.id, '--weight', '1', '--no-wait', '--json', *at))
    check(out['begun'] == 'weight' and out['to_move'] > 0, 'it has begun: %s' % out)
    back = htc_kv('undo', '--json', *at)
    check(back.returncode == 0 or 'nothing is under way' in back.stderr, 'given up: %s' % back.stderr)
    now = at_rest(here[1], [x.id for x in here])
    check(back.returncode or [sorted(o) for e, o in now['table']] == [sorted(o) for e, o in heavy['table']], 'as it was')
    show_how_far(here, m, now['keepers'])
    on_a_terminal('waiting [.]{3}', 'join', '0123456789abcdef', *at)


def show_how_far(here, m, keepers):
    """Two that do not keep the map do not answer: buckets that both have stay where they are until they do."""
    asked = next(x for x in here if x.id in keepers)
    away = [x for x in here if x.id not in keepers]
    check(len(here) == 5 and len(away) == 2, 'two that do not keep the map: %s' % keepers)
    for x in away:
        x.process.send_signal(signal.SIGSTOP)
    on_a_terminal('gets the weight 2 ... [0-9]+ of [0-9]+ buckets', 'rebalance', m.id, '--weight', '2', '--store', asked.address)
    for x in away:
        x.process.send_signal(signal.SIGCONT)
    at_rest(asked, [x.id for x in here])
    check('has another share' in done('rebalance', m.id, '--weight', '1', '--store', asked.address), 'the weight of all others')
    at_rest(asked, [x.id for x in here])


def on_a_terminal(word, *words):
    """What it says until it says that, where standard error is a terminal."""
    ours, theirs = os.openpty()
    p = subprocess.Popen([htc, 'kv', *words], stdout=theirs, stderr=theirs)
    started.append(p)
    os.close(theirs)
    said = ''
    try:
        while not re.search(word, said):
            said += os.read(ours, 4096).decode()
    except OSError:  # the other end is closed
        check(False, 'it never said %r: %r' % (word, said))
    finally:
        p.kill()
        p.wait()
        os.close(ours)
    return said


def look(member):
    """The map with the owners of each bucket."""
    seen = []

    def told():
        d = htc_kv('members', '--json', '--buckets', '--store', member.address)
        check(d.returncode == 0 or 'timed out' in d.stderr, 'members: ' + d.stderr)
        seen[:] = [d.stdout]
        return d.returncode == 0

    wait_until('who the members are', told)
    return json.loads(seen[0])


def at_rest(asked, want):
    """The map when the change is over and as many as should keep it; want: the members' ids."""
    seen = []

    def over():
        seen[:] = [look(asked)]
        m = seen[0]
        return (m['change'] is None and sorted(x['id'] for x in m['members']) == sorted(want) and
                sorted(m['keepers']) == sorted(set(m['keepers']) & set(want)) and len(m['keepers']) == min(COPIES, len(want)) and all(x['heard'] for x in m['members']))

    wait_until('the members are %s' % ' '.join(sorted(want)), over)
    return seen[0]


def compare(before, after, came, went):
    """Only buckets that must have moved, and each of them once."""
    moved = 0
    for (e1, o1), (e2, o2) in zip(before['table'], after['table']):
        new, old = set(o2) - set(o1), set(o1) - set(o2)
        check((set(o1) != set(o2)) == (e1 != e2), 'a bucket was moved in vain: %s %s' % ((e1, o1), (e2, o2)))
        moved += e1 != e2
        if came and went:
            check((new, old) == (set(came), set(went)) if went[0] in o1 else not new | old, 'a replacement takes the place of the old one')
        elif came:
            check(new <= set(came) and len(old) <= 1, 'a join brings the new one alone')
        else:
            check(old <= set(went) and len(new) <= 1 and (not new or old), 'a leave changes the buckets of who goes')
    members = len(after['members'])
    copies = min(COPIES, members)
    for m in after['members']:
        share = after['buckets'] * copies / members
        check(abs(m['owned'] - share) <= 0.25 * share + 2, 'even shares: %s of %g' % (m, share))
        check(m['owned'] == m['planned'] and m['state'] == 'in', 'at rest: %s' % m)
    return moved


class Client(threading.Thread):
    """Adds one to the counters and swaps a word by compare-and-swap, at whatever member answers; says again what it did not hear of."""

    def __init__(self, where, n):
        super().__init__(daemon=True)
        self.where, self.n, self.done, self.unsure, self.swaps, self.why = where, n, 0, 0, 0, None
        self.over = threading.Event()
        self.sock = None

    def connect(self):
        while not self.over.is_set():
            for m in list(self.where):
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.settimeout(60)
                try:
                    s.connect(m.redis)
                except OSError:
                    s.close()
                    continue
                self.sock, self.file = s, s.makefile('rb')
                return
            time.sleep(0.01)

    def ask(self, *words):
        if not self.sock:
            self.connect()
        parts = [str(w).encode() for w in words]
        try:
            self.sock.sendall(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(p), p) for p in parts))
            line = self.file.readline()
            if not line.endswith(b'\r\n'):
                raise ConnectionError('closed')
            if line[:1] == b'$':
                return None if line[1:-2] == b'-1' else self.file.read(int(line[1:-2]) + 2)[:-2].decode()
        except OSError as why:
            self.sock.close()
            self.sock = None
            raise Refused(str(why)) from None
        if line[:1] == b'-':
            raise Refused(line[1:-2].decode())
        return int(line[1:-2]) if line[:1] == b':' else line[1:-2].decode()

    def run(self):
        turn = 0
        try:
            while not self.over.is_set():
                turn += 1
                try:
                    self.ask('INCR', 'c%d' % (turn % 7))
                    self.done += 1
                except Refused:
                    self.unsure += 1
                if turn % 5 == 0:
                    self.swap(turn)
        except BaseException as why:
            self.why = repr(why)
            raise

    def swap(self, turn):
        """One key of its own: the word is what it was, or what it was to become."""
        key, new = 'word%d' % self.n, 'w%d' % turn
        while not self.over.is_set():
            try:
                old = self.ask('GET', key)
                if old == new:
                    return
                if old is None:
                    self.ask('SET', key, new, 'NX')
                elif self.ask('SET', key, new, 'IFEQ', old, 'GET') == old:
                    self.swaps += 1
                    return
            except Refused:
                continue


class Load:
    """The clients whose history is judged. They ask those of `here` that were told of last."""

    def __init__(self, engine, seconds):
        self.dir = os.path.join(top, engine + '-load')
        os.mkdir(self.dir)
        self.words = [load_program, self.dir, str(seconds), '1']
        self.process = None

    def tell(self, here):
        new = os.path.join(self.dir, 'where.new')
        with open(new, 'w') as f:
            f.write(''.join(m.address + '\n' for m in here))
        os.rename(new, os.path.join(self.dir, 'where'))
        if not self.process:
            self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            started.append(self.process)

    def verdict(self):
        said = self.process.communicate(b'.', timeout=PATIENCE)[0].decode().strip()
        check(self.process.returncode == 0, 'the history: ' + said)
        return said


def grow_and_shrink(engine):
    all = {n: Member('%s-%s' % (engine, n), engine) for n in 'abcdefgh'}
    here = []
    moves, kills = [], []
    load = Load(engine, 1000 if full else 60)

    def enter(m, *words):
        m.start(*words)
        m.ready()
        here.append(m)
        load.tell(here)

    def disturb(*but):
        """One that the change is not about, three times; where three others are, so that two of them go on."""
        others = [x for x in here if x not in but]
        for m in others[-3:] if full and len(others) > 2 else []:
            m.kill()
            time.sleep(0.3)
            m.ready()
            kills.append(m)

    def change(name, m, words, came=(), gone=()):
        before = look(here[0])
        if words:
            enter(m, *words)
        disturb(*came, *gone)
        want = [x.id for x in here if x not in gone]
        asked = next(x for x in here if x not in gone)
        after = at_rest(asked, want)
        moved = compare(before, after, [x.id for x in came], [x.id for x in gone])
        moves.append('%s %d' % (name, moved))
        for x in gone:
            here.remove(x)
            load.tell(here)
            x.ended()

    def join(n):
        m = all[n]
        change('join', m, ['--join', ','.join(x.address for x in here)], came=[m])

    def replace(old, new):
        m, o = all[new], all[old]
        change('replace', m, ['--join', ','.join(x.address for x in here), '--replaces', o.id], came=[m], gone=[o])
        check('has taken its place' in done('replace', o.id, m.id, '--store', here[0].address), 'it has taken its place')

    def leave(n, asked):
        """asked: who is, the one who goes too."""
        m = all[n]
        before = look(here[0])
        said = done('leave', m.id, '--store', all[asked].address)
        here.remove(m)
        load.tell(here)
        after = at_rest(here[0], [x.id for x in here])
        moved = compare(before, after, [], [m.id])
        check('%s has left: %d bucket' % (m.id, moved) in said, 'what it says: %s, %d moved' % (said, moved))
        moves.append('leave %d' % moved)
        m.ended()

    buckets = [] if full else ['--buckets', '64']
    enter(all['a'], '--member', '%s@%s' % (all['a'].id, all['a'].address), *buckets)
    clients = [Client(here, n) for n in range(4)]
    for c in clients:
        c.start()
    try:
        for n in 'bcde':
            join(n)
        for old, new in ('af', 'bg', 'ch'):
            replace(old, new)
        refused_changes(here, all['a'].id)
        rebalance(here)
        for n, asked in ('dd', 'ef', 'hg', 'gf'):
            leave(n, asked)
        for c in clients:
            check(c.why is None, 'a client: %s' % c.why)
    finally:
        for c in clients:
            c.over.set()
        for c in clients:
            c.join(120)
    count_exactly(here, clients)
    judged = load.verdict()
    back_again(all['a'], here)
    for m in here:
        m.process.terminate()
    for m in here:
        check(m.process.wait(60) == 0, '%s ends when asked to' % m.name)
    return moves, clients, judged, len(kills)


def counted(key, member):
    """'': it is not there."""
    found = []

    def answered():
        d = htc_kv('get', key, '--store', member.address)
        check(d.returncode in (0, 4) or 'timed out' in d.stderr, 'get: ' + d.stderr)
        found[:] = [d.stdout.strip()]
        return d.returncode in (0, 4)

    wait_until('a count', answered)
    return found[0]


def count_exactly(here, clients):
    done, unsure = sum(c.done for c in clients), sum(c.unsure for c in clients)
    for m in here:
        sums = [counted('c%d' % i, m) for i in range(7)]
        n = sum(int(x or 0) for x in sums)
        check(done <= n <= done + unsure, '%s: %d counted, %d acknowledged, %d unsure' % (m.name, n, done, unsure))
    check(done > 100 and all(c.swaps for c in clients), 'the clients were at work: %d' % done)


def back_again(gone, here):
    """Who has left does not come back under its old name, however it tries."""
    done = subprocess.run([kvd, '--dir', gone.dir, '--engine', gone.engine, *gone.words], capture_output=True, text=True, timeout=60)
    check(done.returncode != 0 and 'does not come back' in done.stderr, 'who has left: %s' % done.stderr)
    done = subprocess.run([kvd, '--dir', gone.dir, '--new-member'], capture_output=True, text=True, timeout=60)
    check(done.returncode != 0 and 'does not come back' in done.stderr, 'nor is its id given: %s' % done.stderr)
    # A copy of the directory does not know yet: it is told by the others.
    name = os.path.join(gone.dir, 'member')
    with open(name) as f:
        text = f.read()
    with open(name, 'w') as f:
        f.write(text.replace('left\n', ''))
    gone.start('--join', here[0].address)
    gone.ended()
    with open(name) as f:
        check('left\n' in f.read(), 'and writes it down')


def refused():
    m = Member('refused', 'log')
    for words, why in ((['--join', 'nowhere'], 'is none of unix:PATH'), (['--join', 'unix:/x', '--member', m.id + '@unix:/y'], '--member is for'),
                       (['--join', 'unix:/x', '--shards', '2', '--replaces', 'aaaaaaaaaaaaaaaa'], 'nobody'), (['--replaces', m.id], 'give --join'),
                       (['--join', 'unix:/x', '--replaces', 'me'], 'no id'), (['--join', 'tcp://127.0.0.1:1'], 'with keys alone'),
                       (['--join', 'unix:/x', '--buckets', '64'], "the store's"), (['--join', 'unix:/x', '--weight', '0'], 'no weight')):
        done = subprocess.run([kvd, '--dir', m.dir, '--engine', 'log', *words], capture_output=True, text=True, timeout=60)
        check(done.returncode == 1 and why in done.stderr, '%s: %d %s' % (words, done.returncode, done.stderr))


def main():
    refused()
    for engine in ('log', 'lmdb') if full else ('log',):
        began = time.monotonic()
        moves, clients, judged, kills = grow_and_shrink(engine)
        print('%s: %s; %d additions, %d unsure, %d swaps; a history of %s; %d killed; %.1f s' %
              (engine, ', '.join(moves), sum(c.done for c in clients), sum(c.unsure for c in clients), sum(c.swaps for c in clients), judged, kills,
               time.monotonic() - began))


try:
    main()
    print('ok')
finally:
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()
    shutil.rmtree(top, ignore_errors=True)
