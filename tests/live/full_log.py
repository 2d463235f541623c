#!/usr/bin/env python3
# usage: full_log.py FOLDER-OF-THE-PROGRAMS
# A disk of its own for a store with the engine log. One that is too small is named at the start. One that becomes full of live data refuses what may grow, says so
# on standard error, and takes deletions, also after another start; when they have given room back it takes everything again.
import os, subprocess, sys, time

import kvd
from redis_client import Redis, Refused

place = kvd.Place('full-log', sys.argv[1])
disk = os.path.join(place.top, 'disk')
os.mkdir(disk)


def mount(mib):
    if os.geteuid() != 0 or subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=%dm,mode=0700' % mib, 'none', disk], stderr=subprocess.DEVNULL).returncode:
        print('skipped: mounting a small tmpfs needs root')
        place.end()
        sys.exit(77)


def start():
    p = subprocess.Popen([place.kvd, '--dir', disk + '/store', '--engine', 'log', '--durability', 'memory', '--resp', '127.0.0.1:0'], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, cwd=place.top)
    place.running.append(p)
    return p, p.stdout.readline()


def end(p):
    p.terminate()
    err = p.communicate(timeout=60)[1]
    place.check(p.returncode == 0, 'it ends when asked to: %d %s' % (p.returncode, err))
    return err


def fill(r):
    """Values of 1 MiB until one is refused: so many."""
    for n in range(1000):
        try:
            r.ask('SET', 'k%d' % n, 'x' * (1 << 20))
        except Refused as why:
            place.check('OOM' in str(why) or 'MISCONF' in str(why) or 'disk' in str(why), 'what is told: %s' % why)
            return n


try:
    mount(64)
    p, line = start()
    place.check(line == '', 'it does not say that it is ready: %s' % line)
    err = p.communicate(timeout=60)[1]
    place.check(p.returncode != 0 and 'the disk is too small' in err and '65536 KiB' in err, 'the smallest disk is named: %s' % err)
    subprocess.run(['umount', disk], check=True)

    mount(512)
    p, line = start()
    r = Redis(kvd.resp_port(line))
    n = fill(r)
    place.check(n > 50, 'so many have room: %d' % n)
    r.ask('MULTI')
    r.ask('DEL', 'k3')
    r.ask('SET', 'new', 'x' * (1 << 20))
    try:
        place.check(False, 'a transaction that may grow is refused: %s' % r.ask('EXEC'))
    except Refused as why:
        place.check('the disk is full' in str(why) and r.ask('EXISTS', 'k3') == 1, 'nothing of it is done: %s' % why)
    place.check(r.ask('GET', 'k0') == 'x' * (1 << 20), 'reads go on')
    place.check(r.ask('DEL', 'k0') == 1, 'a deletion is taken')
    place.check([r.ask('MULTI'), r.ask('DEL', 'k1'), r.ask('DEL', 'k2'), r.ask('EXEC')] == ['OK', 'QUEUED', 'QUEUED', [1, 1]], 'and several at once')
    err = end(p)
    place.check('no room for another segment' in err, 'it says that the disk is full: %s' % err)

    p, line = start()
    r = Redis(kvd.resp_port(line))
    for i in range(3, n):
        place.check(r.ask('DEL', 'k%d' % i) == 1, 'deletions are taken')
    until = time.monotonic() + 60
    while True:
        try:
            place.check(r.ask('SET', 'new', 'y' * (1 << 20)) == 'OK', 'there is room again')
            break
        except Refused as why:
            place.check(time.monotonic() < until, 'there is room again: %s' % why)
            time.sleep(0.2)
    end(p)
    print('full_log: %d values of 1 MiB, all is well' % n)
finally:
    subprocess.run(['umount', '-l', disk], stderr=subprocess.DEVNULL)
    place.end()
