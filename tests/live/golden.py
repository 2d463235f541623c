#!/usr/bin/env python3
"""Stores and backups that were written by earlier builds are read by this one: LMDB's records, and each format of the backup. What is here was
written once and stays; another format gets a line of its own. (The log's and the map's are in tests/unit.)"""
import base64, json, os, shutil, subprocess, sys, tempfile, zlib

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-golden-')

# greeting put twice, binary, counter added to twice, gone deleted, soon with a ttl of a day, list appended to twice.
LMDB = (
    'eNrt3G9IE2EcB/DnefZ/k52SURSBmAiS+mJYZEL1LhElEMs/EbnNazu27mS7lDDIIUmtIDBBMhQh7E29EOpNIaGv/EcpghAR5atBCRoIWfTC7rbb2JZaLhGK'
    '7+fF3e7h9+y5215973cbIXHm6PbD2MorStKoA9lqBU0ZSsa0vemXiRvXWzeZZyUAAAAAAAAAsNPoDud//Tbzvy4t/9vwlQAAAAAAAADsOJb0qoC02efsEc7L'
    'lXF6rodrsw/a57iIHZ8SAAAAAAAAZOZAdGsgPr8QlFnIQk2Vs5U3w8NHKTFKIj/eN1O9arwwoyRSrS4oSSIbN5POztHw1PweM32zbyW88On8cUoIL7YEy3s7'
    '5Gbf7Qqti20gvDqj7uPUg0jNyUKSFR21EFlb3+RRVpl16FrbskOXSH58FXWUdZnYt7WJ147S2tOUksachy3CjaGvyjpLxvCjM4uMamdlJj63dFWU+QALGZjw'
    'Y6BqZPlYLqW1a0vPONfdgUVK6soczyfGqk81HH5/MLYu8bkE0Rm4xkI6WvT4xOdb/oIvyls7iWv9nFD/Lqc1YirRztXnCfC8LIgeFmKssb7bNt3aVKWcUf8T'
    'y+ikfOi6Ms3L+/1SntPjFMTh74V9WUO9d2JXSskVZiGGwNPJF9Le7i61eR8dveyV3UG3l28pCcpSgM9zJPrvsfzvTcn/XuR/AAAAAAAA2Kai1MRvZYnET40X'
    'm1YnO4rPRiixKwG8WG6X7pWv909P3a9B/s88/1uJoVJ86TpS1L6wRf7XJ+X/XDLCveVGOPUI/X8AAAAAAAD4e+j/Z5r/92tr2xKpXbuitON4Xfr/7Bm1vSFt'
    'r1bkk8GU/j/SPwAAAAAAAOwO5P/M+/9mom9Yrqsona+q2KL/b0zK/8n9/x4O2R8AAAAAAAD+Nf9f/9+SSO0x8ef447/nj9eZ0+pMmxxv9Pw/+v8AAAAAAACw'
    'O9D/3yz//+65/j+9T/ATUYZuMw==')
BACKUP_2 = (
    'eNrzCHH2DnMyMGJjYGBgAWJmBjSQlJmXWFSZyJD0X1Awg30r+6l8dqAoExCzoitNzi/NK0ktMjH6ef/6Ynl2YV4OoCA3VDUKSC9KTS3JzEvPSM3JyVdITE/M'
    'zPtxabtBwt+kFpAjQDZwoevJySwuyc9L1Skpz69cLrBTepL0JhaoozmgSmxWzuqb4gdkFOcDVealFCdEOZtaJm+DewrDyaoWZSv3ZX2YDQDVhTG8')
# Without ttl and kind: greeting alone.
BACKUP_1 = (
    'eNrzCHH2DnMyMORgYGBgBWJ2BghIL0pNLcnMS89IzcnJ//g1ZYMEx+p9UDkGRij99ECP1/J1v3kA/wMQ/A==')
HELD = {'greeting': 'hello again', 'counter': '42', 'soon': 'ends', 'list': 'one,two'}
BINARY = b'a\0b\xff'


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(*words):
    done = subprocess.run(words, capture_output=True, timeout=120, cwd=top)
    check(done.returncode == 0, '%s: exit %d: %s' % (' '.join(words), done.returncode, done.stderr.decode()))
    return done.stdout


def unpack(golden, path):
    os.makedirs(os.path.dirname(os.path.join(top, path)) or top, exist_ok=True)
    with open(os.path.join(top, path), 'wb') as f:
        f.write(zlib.decompress(base64.b64decode(golden)))


class Store:
    def __init__(self, name, engine):
        self.p = subprocess.Popen([kvd, '--dir', name, '--engine', engine], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=top)
        self.name = name
        check(self.p.stdout.readline().startswith('ready: '), '%s is opened' % name)

    def kv(self, *words):
        return run(htc, 'kv', '--store', 'unix:%s/kvd.sock' % self.name, *words)

    def holds(self, expected):
        keys = {r['key'] for r in json.loads(self.kv('--json', 'scan'))}
        check(keys == set(expected) | ({'binary'} if len(expected) > 1 else set()), 'the keys are %s' % keys)
        for key, value in expected.items():
            check(self.kv('get', key).decode() == value, '%s is %r' % (key, value))
        check(len(expected) == 1 or self.kv('get', 'binary') == BINARY, 'binary')

    def end(self):
        self.p.terminate()
        check(self.p.wait(timeout=60) == 0, '%s ends' % self.name)


def main():
    run(kvd, '--dir', 'lmdb', '--new-member')  # makes the directory
    shutil.rmtree(os.path.join(top, 'lmdb', 'store'), ignore_errors=True)
    os.remove(os.path.join(top, 'lmdb', 'member'))
    unpack(LMDB, 'lmdb/store/data.mdb')
    s = Store('lmdb', 'lmdb')
    s.holds(HELD)
    check(json.loads(s.kv('--json', 'get', 'greeting'))['version'] == 2, 'versions too')
    check(s.kv('--json', 'put', 'gone', 'back') and json.loads(s.kv('--json', 'get', 'gone'))['version'] == 11, 'and the clock')
    s.end()
    check(b'lmdb: 6 keys' in run(htc, 'kv', 'fsck', 'lmdb'), 'fsck')
    for golden, name, expected in ((BACKUP_2, 'two', HELD), (BACKUP_1, 'one', {'greeting': 'hello'})):
        unpack(golden, name + '.kv')
        s = Store(name, 'log')
        s.kv('restore', os.path.join(top, name + '.kv'))
        s.holds(expected)
        s.end()
    print('golden: all is well')


main()
shutil.rmtree(top)
