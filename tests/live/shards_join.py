#!/usr/bin/env python3
"""Processes of two shards that join a store and leave it, by htc kv cluster: every shard is a member, no two copies of a key are in one process,
and nothing is lost on the way. HTC_TEST_LIGHT: fewer keys."""
import json, os, shutil, subprocess, sys, tempfile

import ports
from redis_client import Redis

programs = os.path.abspath(sys.argv[1])
htc = os.path.join(programs, 'htc')
top = tempfile.mkdtemp(prefix='htc-shards-join-')
KEYS = 100 if os.environ.get('HTC_TEST_LIGHT') else 1000


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(expect, *words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, cwd=top)
    check(done.returncode == expect, '%s: exit %d instead of %d: %s%s' % (' '.join(words), done.returncode, expect, done.stdout, done.stderr))
    return done.stdout


def cluster(*words):
    return run(0, htc, 'kv', 'cluster', '--dir', 'c', *words)


def members(n):
    return json.loads(run(0, htc, 'kv', '--store', 'unix:c/%d/kvd.sock' % n, '--json', 'members', '--buckets'))


def settled(n, count, port):
    """So many members, keys in two processes each, all of them read by Redis' clients at each process."""
    said = members(1)
    check(len(said['members']) == count, '%d members: %s' % (count, said['members']))
    process = {m['id']: m.get('process') or m['id'] for m in said['members']}
    check(len(set(process.values())) == n, '%d processes: %s' % (n, process))
    for _, owners in said['table']:
        of = {process[o] for o in owners}
        check(len(of) == len(owners) == 2, 'two processes: %s' % owners)
    for i in range(n):
        r = Redis(port + i)
        check(all(r.sure('GET', 'k%d' % k) == 'v%d' % k for k in range(KEYS)), 'all is there at %d' % i)


def main():
    port = ports.row(4)
    cluster('--members', '2', '--shards', '2', '--base-port', str(port), '--durability', 'interval')
    r = Redis(port)
    for k in range(KEYS):
        check(r.sure('SET', 'k%d' % k, 'v%d' % k) == 'OK', 'SET')
    settled(2, 4, port)
    cluster('--members', '3')
    settled(3, 6, port)
    # Ended and started again they are the same, and then the newest leaves.
    cluster('--stop')
    cluster()
    settled(3, 6, port)
    cluster('--members', '2')
    settled(2, 4, port)
    cluster('--stop')
    print('shards_join: all is well')


try:
    main()
except SystemExit:
    subprocess.run([htc, 'kv', 'cluster', '--dir', 'c', '--stop'], cwd=top, capture_output=True)
    raise
shutil.rmtree(top)
