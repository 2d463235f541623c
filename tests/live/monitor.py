#!/usr/bin/env python3
"""usage: monitor.py PROGRAM_FOLDER
The gateway's page for monitors: what doc/metrics.md lists is there, and nothing else; the rules and the dashboard of examples/monitor ask for nothing that
is not there; and it names nobody."""
import json, os, re, shutil, subprocess, sys, tempfile, urllib.request
import ports

htc = os.path.join(os.path.abspath(sys.argv[1]), 'htc')
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
top = tempfile.mkdtemp(prefix='htc-monitor-')
FAMILY = re.compile(r'\bhtc_(?:gateway|agent)(?:_[a-z]+)*')


def check(ok, what):
    if not ok:
        raise SystemExit('FAILED: %s (in %s)' % (what, top))


def run(*words):
    done = subprocess.run([htc, '--dir', os.path.join(top, 'd'), *words], capture_output=True, text=True, timeout=300, cwd=top)
    check(done.returncode == 0, '%s: exit %d: %s%s' % (' '.join(words), done.returncode, done.stdout, done.stderr))
    return done.stdout


def read(*path):
    with open(os.path.join(source, *path)) as f:
        return f.read()


def names_in(text):
    """Of samples and of what asks for them."""
    return set(FAMILY.findall(text))


def main():
    port = ports.row(1)
    with open(os.path.join(top, 'htc.ini'), 'w') as f:
        f.write('[server]\nmetrics = 127.0.0.1:%d\n' % port)
    run('up', '--config', os.path.join(top, 'htc.ini'))
    run('submit', '--wait', '--', 'true', ':::', '1', '2', '3', '4', '5')
    page = urllib.request.urlopen('http://127.0.0.1:%d/metrics' % port, timeout=60).read().decode()
    samples = {line.split('{')[0].split(' ')[0] for line in page.splitlines() if not line.startswith('#')}
    check('htc_gateway_tasks_ended_total{state="done"} 5\n' in page, 'five tasks are done: %s' % page)
    check('htc_gateway_slots{site="local",state="free"}' in page, page)
    user = subprocess.run(['id', '-un'], capture_output=True, text=True).stdout.strip()
    check(not re.search(r'\b%s\b' % re.escape(user), page) , 'it names somebody: %s' % page)
    of_gateway = read('doc', 'metrics.md').split('## Of a gateway')[1]
    listed = {n for line in of_gateway.splitlines() if line.startswith('| `') for n in names_in(line.split('|')[1])}
    dashboard = json.loads(read('examples', 'monitor', 'gateway-dashboard.json'))
    asked = names_in(json.dumps([p['targets'] for p in dashboard['panels']])) | names_in(read('examples', 'monitor', 'gateway-alerts.yml'))
    # Of a histogram the document names the family alone.
    check('htc_agent_attempt_seconds_count{site="local"} 5\n' in page and 'htc_agent_attempts_ended_total{site="local",outcome="done"} 5\n' in page, 'five attempts are done: %s' % page)
    samples = {re.sub('_seconds_(bucket|sum|count)$', '_seconds', name) for name in samples}
    asked = {re.sub('_seconds_(bucket|sum|count)$', '_seconds', name) for name in asked}
    check(listed == samples, 'doc/metrics.md: %s' % sorted(listed ^ samples))
    check(asked and asked <= samples, 'not on the page: %s' % sorted(asked - samples))
    check(len({p['id'] for p in dashboard['panels']}) == len(dashboard['panels']), 'two panels have one id')
    run('down')


try:
    main()
    print('ok')
finally:
    subprocess.run([htc, '--dir', os.path.join(top, 'd'), 'down', '--now'], capture_output=True)
    shutil.rmtree(top, ignore_errors=True)
