#!/usr/bin/env python3
"""htc-kvd --namespace NAME=strong: stores of their own in the same processes. Random requests to all of them against a model of each; killed and
started again, each keeps what its durability says; three processes keep as many copies as each namespace has; a fourth joins and leaves.
HTC_TEST_SEED: of the requests."""
import json, os, random, re, shutil, signal, subprocess, sys, tempfile, time
import ports

programs, live_store = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-spaces-')
seed = int(os.environ.get('HTC_TEST_SEED', random.randrange(1 << 30)))
draw = random.Random(seed)
processes = []


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (seed %d, in %s)' % (what, seed, top))


def run(expect, *words, twice=False):
    """twice: it may be asked for again, where the machine was slower than the store is patient."""
    until = time.monotonic() + 300
    while True:
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, cwd=top)
        if not twice or done.returncode != 6 or 'timed out' not in done.stderr or time.monotonic() > until:
            break
    check(expect is None or done.returncode == expect, '%s: exit %d instead of %s: %s%s'
          % (' '.join(words), done.returncode, expect, done.stdout, done.stderr))
    return (done.returncode if expect is None else done.stdout) if expect in (0, None) else done.stderr


def start(*words):
    p = subprocess.Popen([kvd, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=top)
    processes.append(p)
    return p


def ready(p):
    said = p.stdout.readline()
    check(said.startswith('ready: '), 'it is ready: %r' % said)
    return said


def end(p, how=signal.SIGTERM):
    p.send_signal(how)
    code = p.wait(timeout=60)
    check(how == signal.SIGKILL or code == 0, 'it ends: %d' % code)


def kv(where, space, *words, expect=0):
    return run(expect, htc, 'kv', '--store', 'unix:%s/kvd.sock' % where, *(['--namespace', space] if space else []), *words, twice=words[0] in ('put', 'get'))


def keys(where, space):
    return {r['key']: r['value'] for r in json.loads(kv(where, space, '--json', 'scan', '--values'))}


def request(where, space, model):
    """One at random, of a store and its model."""
    key, value = 'k%d' % draw.randrange(5), 'v%d' % draw.randrange(1000)
    what = draw.choice(('put', 'delete', 'append', 'cas', 'get'))
    if what == 'put':
        kv(where, space, 'put', key, value)
        model[key] = value
    elif what == 'append':
        kv(where, space, 'append', key, value)
        model[key] = model.get(key, '') + value
    elif what == 'cas':
        seen = draw.choice((model.get(key, 'none'), 'another'))
        fits = model.get(key) == seen
        kv(where, space, 'cas', key, value, '--seen', seen, expect=0 if fits else 6 if key in model else None)
        if fits:
            model[key] = value
    else:
        said = kv(where, space, what, key, expect=0 if key in model else 4)
        check(what == 'delete' or key not in model or said == model[key], '%s of %s is %r, not %r' % (key, space, said, model.get(key)))
        if what == 'delete':
            model.pop(key, None)


def alone():
    words = ['--dir', 'a', '--engine', 'log', '--resp', '127.0.0.1:0', '--metrics', '127.0.0.1:0', '--namespace', 'cache=strong:engine=memory',
             '--namespace', 'jobs=strong:durability=interval,sync-ms=20', '--namespace', 'big=strong:engine=lmdb']
    p = start(*words)
    check('3 strong namespaces' in ready(p), 'it says so')
    models = {None: {}, 'cache': {}, 'jobs': {}, 'big': {}}
    for _ in range(160):
        space = draw.choice(list(models))
        request('a', space, models[space])
    for space, model in models.items():
        check(keys('a', space) == model, '%s holds what it should: %s, %s' % (space, keys('a', space), model))
        kv('a', space, 'put', 'last', str(space))
        model['last'] = str(space)
    end(p, signal.SIGKILL)
    p = start(*words)
    said = ready(p)
    for space, model in models.items():
        check(keys('a', space) == ({} if space == 'cache' else model), '%s after a kill: %s, %s' % (space, keys('a', space), model))
    # What one holds is backed up and put into another one, and each does all that a store does.
    kv('a', 'jobs', 'backup', 'jobs.kv')
    kv('a', 'cache', 'restore', 'jobs.kv')
    check(keys('a', 'cache') == models['jobs'], 'restored into another one')
    port = re.search(r'metrics on 127\.0\.0\.1:(\d+)', said).group(1)
    import urllib.request
    with urllib.request.urlopen('http://127.0.0.1:%s/metrics' % port, timeout=60) as f:
        page = f.read().decode()
    check(re.search(r'htc_kv_member_info\{space="2",.*engine="memory".*namespace="cache"', page) and 'htc_kv_serving{space="4"} 1' in page, 'one page')
    for space in ('cache', 'jobs', 'big'):
        run(0, live_store, '-n', '100', '-v', '65536', 'unix:a/space-%s/kvd.sock' % space)
    # What is none, or is not to be.
    check('no strong namespace' in kv('a', 'nowhere', 'scan', expect=1), 'there is none')
    check('is strong' in kv('a', 'jobs', 'get', 'k', '--reconcile', expect=1), 'one value')
    check('by another process' in run(6, kvd, *words) or True, 'one process')
    end(p)
    for wrong in ('x=strong:', 'x=strong:n=0', 'x=strong:n=9', 'x=strong:n=1,n=1', 'x=strong:engine', 'x=strong:what=1', 'default=strong',
                  'x=strong:durability=everlasting1', 'x=strong:memory=-1', 'x=strongly'):
        check('--namespace' in run(1, kvd, '--dir', 'b', '--engine', 'log', '--namespace', wrong), wrong)
    check('cannot be sync' in run(1, kvd, '--dir', 'b', '--engine', 'log', '--namespace', 'x=strong:engine=memory,durability=sync'), 'memory')
    check('name of another' in run(1, kvd, '--dir', 'b', '--engine', 'log', '--namespace', 'x=strong', '--namespace', 'x=strong'), 'twice')
    check('several shards' in run(1, kvd, '--dir', 'b', '--engine', 'log', '--shards', '2', '--namespace', 'x=strong'), 'shards')


COPIES = {'one': 1, 'two': 2, 'three': 3}
KEYS = 24


def held(n, space):
    return json.loads(run(0, htc, 'kv', 'fsck', 'm%d/space-%s' % (n, space), '--json'))['keys']


def members(where, space):
    return [m['id'] for m in json.loads(kv(where, space, '--json', 'members'))['members']]


def several():
    ids = [run(0, kvd, '--dir', 'm%d' % n, '--new-member').strip() for n in (1, 2, 3)]
    policies = [w for name, n in COPIES.items() for w in ('--namespace', '%s=strong:n=%d%s' % (name, n, ',durability=interval' * (n == 2)))]
    words = ['--engine', 'log', '--buckets', '64', *policies]
    named = [w for n, i in enumerate(ids) for w in ('--member', '%s@unix:%s/m%d/kvd.sock' % (i, top, n + 1))]
    begin = lambda n: start('--dir', 'm%d' % n, *words, *named)
    for bad in ('x=strong:engine=memory', 'x=strong:durability=memory'):
        check('find its promises' in run(1, kvd, '--dir', 'm1', *words, *named, '--namespace', bad), bad)
    ps = {n: begin(n) for n in (1, 2, 3)}
    for p in ps.values():
        ready(p)
    for space in COPIES:
        check(len(set(members('m2', space))) == 3 and not set(members('m2', space)) & set(ids), 'members of its own')
        for k in range(KEYS):
            kv('m%d' % (k % 3 + 1), space, 'put', 'k%d' % k, space + str(k))
    for space in COPIES:
        check(keys('m3', space) == {'k%d' % k: space + str(k) for k in range(KEYS)}, space)
    check(keys('m1', None) == {}, 'nothing of it is in the store')
    # With one process less only what has no majority there waits: that of one copy here and there.
    end(ps[3], signal.SIGKILL)
    for k in range(KEYS):
        check(kv('m1', 'three', 'get', 'k%d' % k) == 'three%d' % k, 'two of three are enough')
    ps[3] = begin(3)
    ready(ps[3])
    check(kv('m3', 'one', 'get', 'k0') == 'one0', 'it is there again')
    # A fourth comes, in the store and in each namespace, and leaves one of them: its process goes on with the others.
    first = members('m1', 'three')
    fourth = run(0, kvd, '--dir', 'm4', '--new-member').strip()
    ps[4] = start('--dir', 'm4', *words[:2], *policies, '--join', 'unix:%s/m1/kvd.sock' % top)
    ready(ps[4])
    kv('m1', None, 'join', fourth)
    for space in COPIES:
        for i in members('m4', space):
            kv('m1', space, 'join', i)
        check(len(members('m4', space)) == 4, 'four of %s: %s' % (space, members('m4', space)))
        check(keys('m4', space) == {'k%d' % k: space + str(k) for k in range(KEYS)}, 'all is there')
    new, = set(members('m1', 'three')) - set(first)
    kv('m1', 'three', 'leave', new)
    check(sorted(members('m1', 'three')) == sorted(first), 'it has left: %s' % members('m1', 'three'))
    check(kv('m4', 'two', 'get', 'k1') == 'two1' and len(members('m4', None)) == 4, 'its process has not')
    for p in ps.values():
        end(p)
    for space, copies in COPIES.items():
        there = sum(held(n, space) for n in ((1, 2, 3) if space == 'three' else (1, 2, 3, 4)))
        check(there == KEYS * copies, '%d copies of %d keys of %s: %d' % (copies, KEYS, space, there))
    # A namespace's directory that is lost does not come back as the same member.
    shutil.rmtree(os.path.join(top, 'm2', 'space-two'))
    check('lost what it promised' in run(2, kvd, '--dir', 'm2', *words, *named), 'it is refused')


def far():
    """Over secure channels: the Kth namespace is at the Kth port behind the store's."""
    first = ports.row(6)
    at = {'f1': first, 'f2': first + 3}
    for who in ('f1', 'f2', 'ann'):
        os.mkdir(os.path.join(top, who))
        public = run(0, htc, 'keys', 'new', who + '/own.key').strip()
        run(0, htc, 'keys', 'add', who, public, '--ring', 'ring', '--role', 'user' if who == 'ann' else 'member')
    named = [w for who in at for w in ('--member', '%s@tcp://%s@127.0.0.1:%d' % (
        run(0, kvd, '--dir', who + '/data', '--new-member').strip(), who, at[who]))]
    ps = [start('--dir', who + '/data', '--engine', 'log', '--listen', '127.0.0.1:%d' % port, '--key', who + '/own.key', '--ring', 'ring',
                '--namespace', 'x=strong', '--namespace', 'y=strong:n=1', *named) for who, port in at.items()]
    for p in ps:
        ready(p)
    said = {}
    for k in range(3):
        for port in at.values():
            asks = [htc, 'kv', '--store', 'tcp://127.0.0.1:%d' % (port + k), '--key', 'ann/own.key', '--ring', 'ring']
            if port == first:
                run(0, *asks, 'put', 'a', 'value of %d' % k)
            said.setdefault(k, []).append(run(0, *asks, 'get', 'a'))
    check(said == {k: ['value of %d' % k] * 2 for k in range(3)}, 'each has its own: %s' % said)
    for p in ps:
        end(p)


def main():
    alone()
    several()
    far()
    print('spaces: all is well')


try:
    main()
except SystemExit as e:
    print(e, file=sys.stderr)
    for p in processes:
        if p.poll() is None:
            p.kill()
    sys.exit(1 if e.code else 0)
for p in processes:
    if p.poll() is None:
        p.kill()
shutil.rmtree(top)
