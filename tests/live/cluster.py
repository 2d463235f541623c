#!/usr/bin/env python3
"""htc kv cluster: three members by one command, any of them asked by Redis' clients, one killed, the others go on; restarted it
has all that was acknowledged; what rots on its disk is renewed; one that becomes five and two by one command each. Ports are drawn; nothing depends on how fast anything is. HTC_TEST_LIGHT: with one engine."""
import glob, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import ports

from redis_client import Redis, Refused, Tally

programs = sys.argv[1]
htc = os.path.join(programs, 'htc')
top = tempfile.mkdtemp(prefix='htc-cluster-')
where = os.path.join(top, 'c')
watches = []
OPEN = 'no password: every local user can read and change everything at these ports'


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(expect, *words):
    done = subprocess.run([htc, 'kv', 'cluster', '--dir', where, *words], capture_output=True, text=True, timeout=900)
    check(done.returncode == expect, '%s: exit %d instead of %d: %s%s'
          % (' '.join(words), done.returncode, expect, done.stdout, done.stderr))
    return done.stdout + done.stderr


def members(*words):
    """What stands behind the object is for people: standard error."""
    return json.JSONDecoder().raw_decode(run(0, '--json', *words))[0]['members']


def all_keys(r):
    cursor, keys = '0', []
    while True:
        cursor, page = r.sure('SCAN', cursor, 'COUNT', 7)
        keys += page
        if cursor == '0':
            return keys


def gone(pid):
    """No thread of it lives: the first one may be a zombie while another waits for the disk, with all files still open."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rsplit(')', 1)[1].split()
            return fields[0] in 'ZX' and int(fields[17]) <= 1
    except OSError:
        return True


def kill(pid):
    """And wait for its end: who is in the middle of a call to a slow disk ends behind it."""
    os.kill(pid, signal.SIGKILL)
    while not gone(pid):
        time.sleep(0.01)


def start_and_look(engine):
    base = ports.row(3)
    asked = ['--members', '3', '--base-port', str(base), '--durability', 'sync', '--engine', engine]
    check(OPEN in run(0, *asked), 'who can come to these ports is said')
    m = members(*asked)
    check([x['resp'] for x in m] == ['127.0.0.1:%d' % (base + i) for i in range(3)], 'ports from the base on')
    check(len({x['id'] for x in m}) == 3 and len({x['pid'] for x in m}) == 3, 'three of them')
    check(members(*asked) == m, 'asked again: the same')
    again = run(0, *asked)
    check('ran already' in again and OPEN not in again, 'asked again: it says so, and no more')
    check('differs' in run(4, '--base-port', str(base + 1)), 'other settings are refused')
    r = [Redis(x['resp']) for x in m]
    for i in range(90):
        check(r[i % 3].sure('SET', 'k%02d' % i, 'v%d' % i) == 'OK', 'SET')
    check(r[1].sure('MGET', *['k%02d' % i for i in range(90)]) == ['v%d' % i for i in range(90)], 'MGET')
    for x in r:
        check(x.sure('DBSIZE') == 90, 'DBSIZE')
        check(sorted(all_keys(x)) == ['k%02d' % i for i in range(90)], 'SCAN shows each once')
    cursor = r[0].sure('SCAN', 0, 'COUNT', 7)[0]
    try:
        check(not r[1].sure('SCAN', cursor, 'COUNT', 7), 'a cursor of another member')
    except Refused as why:
        check('another member' in str(why), 'a cursor of another member: %s' % why)
    check(r[0].ask('ROLE') == ['master', 0, []], 'ROLE')
    check(r[0].delete('k00', 'k01') and r[2].sure('EXISTS', 'k00') == 0 and r[1].sure('DBSIZE') == 88, 'DEL')
    check(r[0].sure('SET', 'brief', 1, 'PX', 600000) == 'OK' and 0 < r[1].sure('PTTL', 'brief') <= 600000, 'a ttl')
    check(r[0].sure('SET', 'brief', 1, 'PX', 300) == 'OK', 'a ttl')
    until = time.monotonic() + 60
    while r[2].sure('EXISTS', 'brief'):
        check(time.monotonic() < until, 'it ends')
        time.sleep(0.02)
    return m


def found_by_its_directory(m):
    """htc kv --dir: with the first member or without, and not once it is stopped."""
    def get():
        done = subprocess.run([htc, 'kv', 'get', 'k02', '--dir', where], capture_output=True, text=True, timeout=900)
        return done.returncode, done.stdout, done.stderr
    check(get() == (0, 'v2', ''), 'a key by the directory: %s' % (get(),))
    kill(m[0]['pid'])
    check(get()[:2] == (0, 'v2'), 'a key by the directory, the first member killed: %s' % (get(),))
    run(0, '--stop')
    code, out, err = get()
    check(code == 3 and not out and 'no member' in err and 'htc kv cluster' in err, 'a cluster that does not run: %s' % (get(),))
    return members()


class Watch:
    """htc kv watch at one member; what it tells, line by line."""

    def __init__(self, member, *words):
        store = 'unix:' + os.path.join(where, str(member + 1), 'kvd.sock')
        self.lines, self.more = [], threading.Condition()
        self.of = subprocess.Popen([htc, 'kv', '--store', store, 'watch', '--json', *words], stdout=subprocess.PIPE, text=True)
        watches.append(self)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.of.stdout:
            with self.more:
                self.lines.append(json.loads(line))
                self.more.notify()

    def until(self, what, said):
        self.until_all(what, lambda lines: any(said(x) for x in lines))

    def until_all(self, what, said):
        with self.more:
            check(self.more.wait_for(lambda: said(self.lines), 60), '%s is not told: %s' % (what, self.lines))

    @staticmethod
    def is_gone(lines, key):
        """Said so, or left out where all that there is was listed anew."""
        last = [i for i, e in enumerate(lines) if e.get('key') == key][-1]
        anew = [i for i, e in enumerate(lines) if e['event'] == 'start_over' and i > last]
        return lines[last]['event'] == 'deleted' or (anew and any(e['event'] == 'current' for e in lines[anew[0]:]))

    def end(self):
        self.of.kill()
        self.of.wait()


def watch_through_a_kill(m, victim):
    """A key and a prefix, watched at one member, changed at another, while a third is killed and comes back."""
    at, other = (victim + 1) % 3, (victim + 2) % 3
    r = Redis(m[other]['resp'])
    check(r.sure('SET', 'w/1', 'first') == 'OK', 'SET')
    key, prefix = Watch(at, 'w/1'), Watch(at, '--prefix', 'w/')
    for x in (key, prefix):
        x.until('what is there', lambda e: e.get('value') == 'first')
        x.until('that this is all', lambda e: e['event'] == 'current')
    check(r.sure('SET', 'w/1', 'second') == 'OK', 'SET')
    for x in (key, prefix):
        x.until('a change at another member', lambda e: e.get('value') == 'second')
    kill(m[victim]['pid'])
    check(r.sure('SET', 'w/1', 'third') == 'OK' and r.sure('SET', 'w/2', 'new') == 'OK', 'SET')
    for x in (key, prefix):
        x.until('a change while a member is away', lambda e: e.get('value') == 'third')
    prefix.until('another key', lambda e: e.get('key') == 'w/2')
    m = members()
    check(Redis(m[victim]['resp']).delete('w/1'), 'DEL')
    for x in (key, prefix):
        x.until_all('a deletion at the one that came back', lambda lines: x.is_gone(lines, 'w/1'))
        x.end()
        versions = [e['version'] for e in x.lines if e.get('key') == 'w/1' and 'version' in e]
        check(x is prefix or versions == sorted(set(versions)), 'versions rise: %s' % versions)
    check(r.delete('w/2'), 'DEL')
    return m


def count_through_a_kill(m, victim, tally):
    """Everybody adds one to one counter while a member is killed: what was acknowledged is there, and not more than asked for."""
    failed, killed = [], threading.Event()

    def add(i):
        try:
            r, after = Redis(m[(victim + 1 + i % 2) % 3]['resp']), 0
            while after < 40:
                tally.add(r, 'n')
                after += killed.is_set()
        except Exception as why:
            failed.append(why)

    threads = [threading.Thread(target=add, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.2)
    kill(m[victim]['pid'])
    killed.set()
    for t in threads:
        t.join()
    check(not failed, 'the others answer: %s' % failed)
    n = int(Redis(m[(victim + 1) % 3]['resp']).sure('GET', 'n'))
    check(tally.fits(n), '%d counted, %s' % (n, tally))
    return n


def kill_and_restart(m):
    tally = Tally()
    for victim in (1, 0):
        n = count_through_a_kill(m, victim, tally)
        again = members()
        check([x['id'] for x in again] == [x['id'] for x in m], 'the same members')
        check(again[victim]['pid'] != m[victim]['pid'], 'the killed one was started anew')
        check(all(again[i] == m[i] for i in range(3) if i != victim), 'and no other')
        m = again
        r = Redis(m[victim]['resp'])
        now = int(r.sure('GET', 'n'))
        check(n <= now and tally.fits(now), 'it has caught up with the counter: %d, then %d, %s' % (n, now, tally))
        check(r.sure('DBSIZE') == 89, 'and with how many there are')
    return m


def said(member):
    with open(os.path.join(where, str(member + 1), 'member.out'), errors='replace') as f:
        return f.readlines()


def stored(member):
    """The files that a member keeps, with what is in them."""
    for name in glob.glob(os.path.join(where, str(member + 1), '*', '*')):
        try:
            with open(name, 'rb') as f:
                yield name, f.read()
        except OSError:
            pass  # it runs, and has no use for that one any more


def on_disk(r, member, wanted):
    """Once all of these keys are in a member's files, with values that are nowhere else: it may be the one of three that a change did not wait for, and
    one that was written while it was passed over comes to it in its own time, or is written again here."""
    until, last = time.monotonic() + 60, time.monotonic()
    while True:
        missing = dict(wanted)
        for _, whole in stored(member):
            missing = {k: v for k, v in missing.items() if v.encode() not in whole}
        if not missing:
            return
        check(time.monotonic() < until, 'member %d has on its disk: %s' % (member, sorted(missing)))
        if time.monotonic() > last + 1:
            for k, v in missing.items():
                check(r.sure('SET', k, v) == 'OK', 'SET')
            last = time.monotonic()
        time.sleep(0.1)


def renewed_after_flips(m):
    """Bytes are flipped in what a member that is down has stored: it names what is damaged, gets it from the others, and is needed then."""
    r, keys = Redis(m[2]['resp']), ['rot%02d' % i for i in range(40)]
    values = ['what stands here at %s will rot' % k for k in keys]
    for k, v in zip(keys, values):
        check(r.sure('SET', k, v) == 'OK', 'SET')
    on_disk(r, 0, dict(zip(keys[:30], values)))
    # What was seen may be of a write that is not complete. The next ones are, and so nothing of it is the end of a log.
    after = {'after%02d' % i: 'what was written behind them, %02d' % i for i in range(20)}
    for k, v in after.items():
        check(r.sure('SET', k, v) == 'OK', 'SET')
    on_disk(r, 0, after)
    kill(m[0]['pid'])
    flipped = set()
    for name, whole in stored(0):
        with open(name, 'r+b') as f:
            for v in values[:30]:
                at = whole.find(v.encode())
                while at >= 0:
                    f.seek(at + 5)
                    f.write(b'S')
                    flipped.add(v)
                    at = whole.find(v.encode(), at + 1)
    check(flipped == set(values[:30]), 'these values are flipped: %s' % sorted(flipped))
    m = members()
    until = time.monotonic() + 60
    while True:
        lines = said(0)  # of this life
        damaged = {n for x in lines for n in re.findall(r'is damaged -> .* until bucket (\d+) is renewed', x)}
        renewed = {n for x in lines for n in re.findall(r'bucket (\d+) is renewed, as', x)}
        if damaged and damaged == renewed:
            break
        check(time.monotonic() < until, 'it is renewed: %s, %s' % (damaged, renewed))
        time.sleep(0.05)
    kill(m[1]['pid'])
    check(Redis(m[2]['resp']).sure('MGET', *keys) == values, 'all of it is there, and the renewed copy takes part')
    m = members()
    check(Redis(m[0]['resp']).delete(*keys, *after), 'DEL')
    return m


def wait_for(line, member=0):
    until = time.monotonic() + 300
    while not any(line in x for x in said(member)):  # of this life
        check(time.monotonic() < until, '%s: %s' % (line, said(member)[-5:]))
        time.sleep(0.05)


def renewed_after_a_lost_segment(m):
    """The last segment of a member's log is gone, cut or zeroed: nothing that was acknowledged vanishes, though another member ends then."""
    for how in ('gone', 'cut', 'zeroed') if not os.environ.get('HTC_TEST_LIGHT') else ('gone',):
        r, keys = Redis(m[2]['resp']), ['tail%02d' % i for i in range(40)]
        values = ['%s: at the end of the log there is %s' % (how, k) for k in keys]
        for k, v in zip(keys, values):
            check(r.sure('SET', k, v) == 'OK', 'SET')
        on_disk(r, 0, dict(zip(keys, values)))
        check('stopped' in run(0, '--stop'), 'it stops')
        name = max(n for n, whole in stored(0) if '/log-' in n and values[39].encode() in whole)
        size = os.path.getsize(name)
        if how == 'gone':
            os.unlink(name)
        else:
            os.truncate(name, 0 if how == 'zeroed' else 4096)
            if how == 'zeroed':
                os.truncate(name, size)
        looked = subprocess.run([htc, 'kv', 'fsck', os.path.join(where, '1')], capture_output=True, text=True)
        check(looked.returncode == 70 and os.path.basename(name) in looked.stdout, 'fsck names it: %s' % looked)
        m = members()
        wait_for("a part of this member's log is lost -> leave all of its keys to their other owners")
        wait_for('all that this member had lost of its log is renewed')
        kill(m[1]['pid'])
        check(Redis(m[2]['resp']).sure('MGET', *keys) == values, 'all of it is there, and the member that had lost it takes part')
        m = members()
        check(Redis(m[0]['resp']).delete(*keys), 'DEL')
    return m


def stop_and_start(m):
    check('stopped' in run(0, '--stop'), 'it stops')
    check(all(gone(x['pid']) for x in m), 'all of them')
    check('no cluster runs' in run(3, '--stop'), 'there is nothing to stop')
    # A process number that is used again is somebody else's.
    other = subprocess.Popen(['sleep', '1000'])
    with open(os.path.join(where, '1', 'pid'), 'w') as f:
        f.write('%d 1 another boot\n' % other.pid)
    run(3, '--stop')
    check(other.poll() is None, 'a stranger with the number of a member is left alone')
    other.kill()
    other.wait()
    host, port = m[1]['resp'].rsplit(':', 1)
    taken = socket.create_server((host, int(port)))
    check('in use' in run(3), 'a port that is taken is named')
    taken.close()
    again = members()
    check(Redis(again[2]['resp']).sure('DBSIZE') == 89, 'after all were stopped everything is there')
    check('stopped' in run(0, '--stop'), 'it stops again')


def leave(id):
    """htc kv leave, and not by this cluster's command: nobody but the member has written that down."""
    done = subprocess.run([htc, 'kv', 'leave', id, '--dir', where], capture_output=True, text=True)
    check(done.returncode == 0, 'htc kv leave: ' + done.stdout + done.stderr)
    end = time.monotonic() + 60
    while not any('\nleft\n' in open(f).read() for f in glob.glob(os.path.join(where, '[0-9]*', 'member')) if id in open(f).read()):
        check(time.monotonic() < end, 'who has left writes it down')
        time.sleep(0.05)
    for f in glob.glob(os.path.join(where, '[0-9]*', 'member')):
        if id in open(f).read():
            pid = int(open(os.path.join(os.path.dirname(f), 'pid')).read().split()[0])
            while not gone(pid):
                check(time.monotonic() < end, 'and ends')
                time.sleep(0.05)


ENDING = """
import ctypes, os, socket, sys, threading
def hold():
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(sys.argv[1])
        s.listen()
        print('held', flush=True)
        sys.stdin.read()
        os.unlink(sys.argv[1])
    os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def one_that_still_ends(m):
    """A member whose first thread has ended, while another one holds its socket, is waited for. A process of ours plays it."""
    kill(m[0]['pid'])
    place = os.path.join(where, '1')
    with open(os.path.join(place, 'pid')) as f:
        boot = f.read().split()[2]
    os.unlink(os.path.join(place, 'kvd.sock'))
    with subprocess.Popen([sys.executable, '-c', ENDING, os.path.join(place, 'kvd.sock')], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        check(p.stdout.readline() == b'held\n', 'it holds the socket')
        fields = ['']
        while fields[0] != 'Z':
            with open('/proc/%d/stat' % p.pid) as f:
                fields = f.read().rsplit(')', 1)[1].split()
        check(not gone(p.pid), 'it goes on without its first thread')
        with open(os.path.join(place, 'pid'), 'w') as f:
            f.write('%d %s %s\n' % (p.pid, fields[19], boot))
        threading.Timer(0.5, p.stdin.close).start()
        again = members()
    check(again[1:] == m[1:] and again[0]['id'] == m[0]['id'] and again[0]['pid'] not in (m[0]['pid'], p.pid), 'then it starts')
    return again


def grow_and_shrink():
    """One member becomes two and five and two again by one command each, while somebody counts; stopped and started they are the same."""
    base = ports.row(5)
    m = members('--members', '1', '--base-port', str(base))
    r = Redis(m[0]['resp'])
    for i in range(100):
        check(r.sure('SET', 'k%d' % i, 'v%d' % i) == 'OK', 'SET')
    tally, over, failed = Tally(), threading.Event(), []

    def add():
        try:
            mine = Redis(m[0]['resp'])
            while not over.is_set():
                tally.add(mine, 'n')
        except Exception as why:
            failed.append(why)

    adder = threading.Thread(target=add)
    adder.start()
    for n in (2, 5, 2, 3):
        before, m = m, members('--members', str(n))
        same = min(len(before), n)
        check(len(m) == n and m[:same] == before[:same], '%d members, of which %d are the same: %s' % (n, same, m))
        check([x['resp'] for x in m] == ['127.0.0.1:%d' % (base + i) for i in range(n)], 'ports from the base on')
        check(Redis(m[-1]['resp']).sure('MGET', *['k%d' % i for i in range(100)]) == ['v%d' % i for i in range(100)], 'the newest has all')
    over.set()
    adder.join()
    check(not failed, 'somebody counts all the time: %s' % failed)
    check(' is in' in run(0, '--members', '4'), 'it says who came')
    check('has left' in run(0, '--members', '3'), 'and who went')
    check(len([d for d in os.listdir(where) if d.startswith('left-')]) == 4, 'who has left is set aside')
    check('1 to 16 members' in run(1, '--members', '17') and '1 to 16' in run(1, '--members', '0'), 'too many, too few')
    check('stopped' in run(0, '--stop'), 'it stops')
    again = members('--members', '3')
    check([x['id'] for x in again] == [x['id'] for x in m], 'the same members')
    for x in again:
        n = int(Redis(x['resp']).sure('GET', 'n'))
        check(tally.done and tally.fits(n), '%d counted, %s' % (n, tally))
    leave(again[1]['id'])
    stay = [again[0]['id'], again[2]['id']]
    check([x['id'] for x in members()] == stay, 'one has left by itself')
    check('stopped' in run(0, '--stop'), 'they stop without it')
    check([x['id'] for x in members()] == stay, 'and start')
    grown = members('--members', '3')
    check([grown[0]['id'], grown[2]['id']] == stay and len(grown) == 3, 'its place is taken again')
    leave(stay[0])
    grown = members('--members', '3')
    check(grown[2]['id'] == stay[1] and len(grown) == 3 and grown[0]['id'] != stay[0], 'so is the first one')
    told = subprocess.run([htc, 'kv', 'members', '--dir', where], capture_output=True, text=True)
    check(told.returncode == 0 and all(x['id'] in told.stdout for x in grown), 'and who is asked knows it: ' + told.stdout + told.stderr)
    leave(stay[1])
    check('stopped' in run(0, '--stop'), 'they stop without the last')
    check([x['id'] for x in members()] == [x['id'] for x in grown[:2]], 'and start')
    check(tally.fits(int(Redis(grown[1]['resp']).sure('GET', 'n'))), 'the newest has all')
    leave(grown[0]['id'])
    check('stopped' in run(0, '--stop'), 'the only one left, which had joined, stops')
    check([x['id'] for x in members()] == [grown[1]['id']], 'and starts, with nobody to join')
    with open(os.path.join(where, '2', 'member.out')) as f:
        check('no other one is named' not in f.read(), 'nor does it say that it misses one')
    check(tally.fits(int(Redis(grown[1]['resp']).sure('GET', 'n'))), 'and has all')
    check('stopped' in run(0, '--stop'), 'it stops for good')
    shutil.rmtree(where)


def refused_to_grow():
    base = ports.row(3)
    for words, why in ((['--namespace', 's=strong'], 'with a strong namespace'),):
        members('--members', '2', '--base-port', str(base), *words)
        check(why in run(1, '--members', '3'), 'what does not grow: ' + why)
        run(0, '--stop')
        shutil.rmtree(where)


def fail_before_it_runs():
    """A member of durability memory whose start failed has promised nothing; one that ran does not come back."""
    dir = os.path.join(top, 'one')
    kvd = os.path.join(programs, 'htc-kvd')
    id = subprocess.run([kvd, '--dir', dir, '--new-member'], capture_output=True, text=True, check=True).stdout.strip()
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        words = [kvd, '--dir', dir, '--durability', 'memory', '--member', '%s@unix:%s/there' % (id, dir), '--resp', '127.0.0.1:%d' % port]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        check(done.returncode and 'in use' in done.stderr, 'a taken port: %d, %s' % (done.returncode, done.stderr))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        ready = ran.stdout.readline()
        ran.terminate()
        check(ready.startswith('ready: '), 'a start that failed is no run: %s' % ran.communicate()[1])
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    check(done.returncode and 'ended with its process' in done.stderr, 'one that ran: %d, %s' % (done.returncode, done.stderr))


def main():
    fail_before_it_runs()
    for engine in ('log', 'lmdb')[:1 if os.environ.get('HTC_TEST_LIGHT') else 2]:
        m = found_by_its_directory(start_and_look(engine))
        m = watch_through_a_kill(m, 0)
        m = kill_and_restart(m)
        m = one_that_still_ends(m)
        m = renewed_after_flips(m)
        m = renewed_after_a_lost_segment(m) if engine == 'log' else m
        stop_and_start(m)
        shutil.rmtree(where)
    grow_and_shrink()
    refused_to_grow()
    check('no port' in run(1, '--base-port', '0') and 'missing' in run(1), 'a port is asked for')
    check('cannot be engine memory' in run(1, '--base-port', '7000', '--engine', 'memory'), 'engine memory is refused')


try:
    main()
    print('ok')
finally:
    for x in watches:
        x.end()
    subprocess.run([htc, 'kv', 'cluster', '--dir', where, '--stop'], capture_output=True)
    shutil.rmtree(top, ignore_errors=True)
