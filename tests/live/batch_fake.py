#!/usr/bin/env python3
"""A batch system for tests: sbatch, squeue and scancel, or qsub, qstat and qdel, and the queue behind them.

usage: batch_fake.py serve slurm|sge DIR CORES     runs the queue in the foreground: one file DIR/jobs/JOB.INDEX for each element of an array job
       batch_fake.py install slurm|sge DIR BIN     makes the commands in the folder BIN

Files in DIR change how it behaves, as long as they are there: away (commands fail), nonsense (they print something else), forgets (nothing is listed),
closed (nothing begins), hold (what is submitted is held), full (nothing is accepted any more), down (the node is: what runs has ended, and nothing begins), prolog (what
begins ends at once, without our script), short (Slurm does not list what has ended). DIR/calls has a line for each command that was run, DIR/jobcomp one for each job
of Slurm that has ended."""
import fcntl, getpass, json, os, signal, subprocess, sys, time


def user():
    """A uid of a test has no name: batch systems then say the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def jobs_of(where):
    found = []
    for name in os.listdir(os.path.join(where, 'jobs')):
        if not name.endswith('.new'):
            try:
                with open(os.path.join(where, 'jobs', name)) as f:
                    found.append(json.load(f))
            except (OSError, ValueError):
                pass
    return sorted(found, key=lambda j: (j['job'], j['index']))


def write(where, job):
    path = os.path.join(where, 'jobs', '%d.%d' % (job['job'], job['index']))
    with open(path + '.new', 'w') as f:
        json.dump(job, f)
    os.rename(path + '.new', path)


def ended(system, where, job, state, how):
    job['state'] = state
    job['how'] = how[2:]
    write(where, job)
    if system == 'slurm':
        with open(os.path.join(where, 'jobcomp'), 'a') as f:
            f.write('JobId=%d UserId=%s(%d) GroupId=g(0) Name=%s JobState=%s Partition=all WorkDir=/ Cluster=fake ArrayJobId=%d ArrayTaskId=%d DerivedExitCode=0:0 ExitCode=%s \n'
                    % (job['job'] * 1000 + job['index'], user(), os.getuid(), job['name'], how[0], job['job'], job['index'], how[1]))


class Locked:
    def __init__(self, where):
        self.f = open(os.path.join(where, 'lock'), 'w')

    def __enter__(self):
        fcntl.flock(self.f, fcntl.LOCK_EX)

    def __exit__(self, *why):
        self.f.close()


def has(where, name):
    return os.path.exists(os.path.join(where, name))


def serve(system, where, cores):
    running = {}
    os.makedirs(os.path.join(where, 'jobs'), exist_ok=True)
    open(os.path.join(where, 'up'), 'w').close()
    while True:
        with Locked(where):
            for job in jobs_of(where):
                key = (job['job'], job['index'])
                if job['state'] == 'runs' and key in running and running[key].poll() is not None:
                    ended(system, where, job, 'ended', ('COMPLETED', '0:0', '0', '0'))
                    del running[key]
                elif job['state'] == 'cancelled' and key in running:
                    if running[key].poll() is None:
                        os.killpg(running[key].pid, signal.SIGKILL)
                    running[key].wait()
                    del running[key]
                    ended(system, where, job, 'ended', ('CANCELLED', '0:15', '100 : assumedly after job', '137                  (Killed)'))
                elif job['state'] == 'cancelled':
                    ended(system, where, job, 'ended', ('CANCELLED', '0:0', '0', '0'))
                elif job['state'] == 'runs' and key in running and has(where, 'down'):
                    os.killpg(running[key].pid, signal.SIGKILL)
                    running[key].wait()
                    del running[key]
                    ended(system, where, job, 'failed', ('NODE_FAIL', '0:0', '19  : before writing exit_status', '0'))
                elif job['state'] == 'waits' and has(where, 'prolog'):
                    ended(system, where, job, 'failed', ('FAILED', '7:0', '8   : in prolog', '7'))
                elif job['state'] == 'waits' and len(running) < cores and not has(where, 'closed') and not has(where, 'down'):
                    out = open(job['out'], 'wb')
                    variable = 'SLURM_ARRAY_TASK_ID' if system == 'slurm' else 'SGE_TASK_ID'
                    env = dict(os.environ, **{variable: str(job['index'])})
                    running[key] = subprocess.Popen(['/bin/sh', job['script']], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                    start_new_session=True, cwd='/')
                    out.close()
                    job['state'] = 'runs'
                    write(where, job)
        time.sleep(0.05)


def argument(words, name):
    for i, w in enumerate(words):
        if w == name:
            return words[i + 1]
        if w.startswith(name + '='):
            return w[len(name) + 1:]
    raise SystemExit('%s is missing: %s' % (name, words))


def submit(system, where, words):
    slurm = system == 'slurm'
    name = argument(words, '--job-name' if slurm else '-N')
    first, last = argument(words, '--array' if slurm else '-t').split('-')
    out = argument(words, '--output' if slurm else '-o')
    with Locked(where):
        job = 1 + max([j['job'] for j in jobs_of(where)], default=0)
        script = os.path.join(where, 'script.%d' % job)
        with open(script, 'w') as f:
            f.write(sys.stdin.read())
        for index in range(int(first), int(last) + 1):
            path = out.replace('%x', name).replace('%a', str(index)).replace('$JOB_NAME', name).replace('$TASK_ID', str(index))
            write(where, {'job': job, 'index': index, 'name': name, 'script': script, 'out': path, 'state': 'held' if has(where, 'hold') else 'waits'})
    print('%d' % job if slurm else '%d.%s-%s:1' % (job, first, last))


def listing(system, where):
    shown = {'waits': ('PENDING', 'Resources', 'qw'), 'held': ('PENDING', 'JobHeldAdmin', 'hqw'), 'runs': ('RUNNING', 'None', 'r'),
             'cancelled': ('COMPLETING', 'None', 'dr'), 'ended': ('COMPLETED', 'None', None), 'failed': ('NODE_FAIL', 'None', None)}
    jobs = [] if has(where, 'forgets') else jobs_of(where)
    if system == 'slurm':
        for j in jobs:
            if has(where, 'short') and j['state'] in ('ended', 'failed'):
                continue
            print('%d_%d|%s|%s|UNLIMITED|%s' % (j['job'], j['index'], shown[j['state']][0], j['name'], shown[j['state']][1]))
        return
    print("<?xml version='1.0'?>\n<job_info>\n<queue_info>")
    for j in jobs:
        if j['state'] not in ('ended', 'failed'):
            print('<job_list state="x"><JB_job_number>%d</JB_job_number><JB_name>%s</JB_name><state>%s</state><tasks>%d</tasks></job_list>'
                  % (j['job'], j['name'], shown[j['state']][2], j['index']))
    print('</queue_info>\n<job_info>\n</job_info>\n</job_info>')


def cancel(where, words):
    with Locked(where):
        for j in jobs_of(where):
            if any(w in ('%d_%d' % (j['job'], j['index']), '%d.%d' % (j['job'], j['index'])) for w in words) and j['state'] not in ('ended', 'failed'):
                j['state'] = 'cancelled'
                write(where, j)


def accounting(where, words):
    job, (first, last) = argument(words, '-j'), argument(words, '-t').split('-')
    found = [j for j in jobs_of(where) if j['job'] == int(job) and int(first) <= j['index'] <= int(last) and 'how' in j]
    if not found:
        raise SystemExit('error: job id %s not found' % job)
    for j in found:
        print('=' * 62)
        for name, value in ('qname', 'all.q'), ('owner', user()), ('jobname', j['name']), ('jobnumber', j['job']), ('taskid', j['index']), \
                           ('failed', j['how'][0]), ('exit_status', j['how'][1]), ('ru_wallclock', '0s'):
            print('%-12s %-20s' % (name, value))


def main():
    words = sys.argv[1:]
    if words[0] == 'serve':
        serve(words[1], words[2], int(words[3]))
    if words[0] == 'install':
        for name in ('sbatch', 'squeue', 'scancel') if words[1] == 'slurm' else ('qsub', 'qstat', 'qacct', 'qdel'):
            path = os.path.join(words[3], name)
            with open(path, 'w') as f:
                f.write('#!/bin/sh\nexec %s -S %s %s %s %s "$@"\n' % (sys.executable, os.path.abspath(__file__), name, words[1], words[2]))
            os.chmod(path, 0o755)
        return
    command, system, where = words[0], words[1], words[2]
    with open(os.path.join(where, 'calls'), 'a') as f:
        f.write('%s\n' % ' '.join([command] + words[3:]))
    if has(where, 'away'):
        raise SystemExit('%s: error: Unable to contact the controller' % command)
    if has(where, 'full') and command in ('sbatch', 'qsub'):
        raise SystemExit({'sbatch': 'sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy',
                          'qsub': 'Unable to run job: job rejected: Only 20 jobs are allowed per user (current job count: 20)'}[command])
    if has(where, 'nonsense'):
        print('<html>502 Bad Gateway</html>')
    elif command in ('sbatch', 'qsub'):
        submit(system, where, words[3:])
    elif command in ('squeue', 'qstat'):
        listing(system, where)
    elif command == 'qacct':
        accounting(where, words[3:])
    else:
        cancel(where, words[3:])


main()
