#!/usr/bin/env python3
"""Stores and backups that were written by earlier builds are read by this one: LMDB's records with each format of cells, and each format of the backup. What is here was
written once and stays; another format gets a line of its own. (The log's and the map's are in tests/unit.)"""
import base64, json, os, shutil, subprocess, sys, tempfile, zlib

programs = os.path.abspath(sys.argv[1])
htc, kvd = (os.path.join(programs, name) for name in ('htc', 'htc-kvd'))
top = tempfile.mkdtemp(prefix='htc-golden-')

# Cells of format 2: greeting put twice, binary, counter added to twice, gone deleted, soon with a ttl of a day, list appended to twice.
LMDB_2 = (
    'eNrt3G9IE2EcB/DnefZ/k52SURSBmAiS+mJYZEL1LhElEMs/EbnNazu27mS7lDDIIUmtIDBBMhQh7E29EOpNIaGv/EcpghAR5atBCRoIWfTC7rbb2JZaLhGK'
    '7+fF3e7h9+y5215973cbIXHm6PbD2MorStKoA9lqBU0ZSsa0vemXiRvXWzeZZyUAAAAAAAAAsNPoDud//Tbzvy4t/9vwlQAAAAAAAADsOJb0qoC02efsEc7L'
    'lXF6rodrsw/a57iIHZ8SAAAAAAAAZOZAdGsgPr8QlFnIQk2Vs5U3w8NHKTFKIj/eN1O9arwwoyRSrS4oSSIbN5POztHw1PweM32zbyW88On8cUoIL7YEy3s7'
    '5Gbf7Qqti20gvDqj7uPUg0jNyUKSFR21EFlb3+RRVpl16FrbskOXSH58FXWUdZnYt7WJ147S2tOUksachy3CjaGvyjpLxvCjM4uMamdlJj63dFWU+QALGZjw'
    'Y6BqZPlYLqW1a0vPONfdgUVK6soczyfGqk81HH5/MLYu8bkE0Rm4xkI6WvT4xOdb/oIvyls7iWv9nFD/Lqc1YirRztXnCfC8LIgeFmKssb7bNt3aVKWcUf8T'
    'y+ikfOi6Ms3L+/1SntPjFMTh74V9WUO9d2JXSskVZiGGwNPJF9Le7i61eR8dveyV3UG3l28pCcpSgM9zJPrvsfzvTcn/XuR/AAAAAAAA2Kai1MRvZYnET40X'
    'm1YnO4rPRiixKwG8WG6X7pWv909P3a9B/s88/1uJoVJ86TpS1L6wRf7XJ+X/XDLCveVGOPUI/X8AAAAAAAD4e+j/Z5r/92tr2xKpXbuitON4Xfr/7Bm1vSFt'
    'r1bkk8GU/j/SPwAAAAAAAOwO5P/M+/9mom9Yrqsona+q2KL/b0zK/8n9/x4O2R8AAAAAAAD+Nf9f/9+SSO0x8ef447/nj9eZ0+pMmxxv9Pw/+v8AAAAAAACw'
    'O9D/3yz//+65/j+9T/ATUYZuMw==')
# The same, by a build that writes cells in format 3.
LMDB_3 = (
    'eNrt3F1IU2EYB/Dn3dn3ZMc+XJJ9iFhqpoFIFxnRRVCYYZSUV9U2T9uaniPbKQkKtiSJkgi9UboJ8aZUECroi6iLLCnIrEEkKkLsotAg6EKCrLOdI9tSU2YX'
    'xf93cc7el+flnHe7+u85G5HGHDuOPfnymFEKZSJTqWBJU4l06tn028K5663zrLMSAAAAAAAAACw3tsz5X7/E/M+l5H8bPhIAAAAAAACAZadLeJVPjfYhe5T3'
    '8uW8nm/jG+0d9iE+ase7BAAAAAAAAEuVEzsayF/vC8pc2GKjDW/Pd02HjkUYSaKw9ZTOsC2n9OLDYq0uKEki99RModCjy4PDq57f+tDZc/VVho2iQnv7TP43'
    'KyNBrAuurbpTNfl9pcWsrhOUdTXjg53RA7s2U0Zs1kKyehcmz69rvS7jGs9kho9TnnYtZZZrNjnoWv6ee52BE9OM2JGvb7IKIgVVjCaObu/evf+dkpMVZvK7'
    'pdOiLAS4sMFBn7qs7mrjoVZWw65kblr/TL9uJztYXvZ5b/eK6nOhvvi+TeR3+URn4CwX5mx0o27ksC5obGXkJNfMxsKeuwVDpR9L1Hv1ewKCIPtEDxfWOahy'
    'YnLQEekbV+7ogtQ2cNM7wsgr1NdLuU6P0ye2THVf6t1ReDu+U0YNOgsZAr0v7ktZLc1K8z42e9Iru4Nur1BXEpSlgJBbNtt/j+d/V1L+dyH/AwAAAAAAwKIV'
    'JSd+q4NGx6431Gbza5idJYd/uUka1b/c8mMgpx/5P938byXDPvGBq7ioKbJA/tcn5P/V1M+/5/t5ZYT+PwAAAAAAAKQD/f/08n+2em3bbGpXd5Qy1upS/2fP'
    'qJ4NKWelIo86kvr/SP8AAAAAAADwtyH/p9v/N5O+dqqmonS4smKB/r8xIf8n9v/beGR/AAAAAAAA+Nf8f/1/y2xqj9Oe49d+z6/VmVPqTPOM53r+H/1/AAAA'
    'AAAA+NvQ/184///puf7Ffk/wE8JQd7U=')
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


def lmdb(golden, name):
    run(kvd, '--dir', name, '--new-member')  # makes the directory
    shutil.rmtree(os.path.join(top, name, 'store'), ignore_errors=True)
    os.remove(os.path.join(top, name, 'member'))
    unpack(golden, name + '/store/data.mdb')
    s = Store(name, 'lmdb')
    s.holds(HELD)
    check(json.loads(s.kv('--json', 'get', 'greeting'))['version'] == 2, 'versions too')
    check(s.kv('--json', 'put', 'gone', 'back') and json.loads(s.kv('--json', 'get', 'gone'))['version'] == 11, 'and the clock')
    s.kv('append', 'list', ',three')  # read, and written anew
    s.end()
    check(b'lmdb: 6 keys' in run(htc, 'kv', 'fsck', name), 'fsck')
    s = Store(name, 'lmdb')
    s.holds(dict(HELD, gone='back', list='one,two,three'))
    s.end()


def main():
    for golden, name in ((LMDB_2, 'lmdb2'), (LMDB_3, 'lmdb3')):
        lmdb(golden, name)
    for golden, name, expected in ((BACKUP_2, 'two', HELD), (BACKUP_1, 'one', {'greeting': 'hello'})):
        unpack(golden, name + '.kv')
        s = Store(name, 'log')
        s.kv('restore', os.path.join(top, name + '.kv'))
        s.holds(expected)
        s.end()
    print('golden: all is well')


main()
shutil.rmtree(top)
