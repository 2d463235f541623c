#!/usr/bin/env python3
"""usage: count.py testlog.json

Counts what Meson ran: each TAP line is a test, and so is each program that does not speak TAP. Prints the reason of each
skip, what a test reports (its lines that begin with "report: "), the output of what failed, and as its last line three
numbers: passed, failed, skipped. Before these, the seconds of each suite and the programs that took longest."""

import json
import re
import sys

TAIL_LINES = 60
REPORT = 'report: '
TAP = re.compile(r'^(not )?ok\b\s*\d*\s*-?\s*([^#]*?)\s*(?:#\s*(SKIP)\b\s*(.*))?$', re.IGNORECASE)


def count(test):
    """(passed, failed, [(what, why skipped)]) of one program."""
    out = test.get('stdout') or ''
    passed, failed, skips = 0, 0, []
    if re.search(r'^(TAP version|1\.\.)\s*\d+', out, re.MULTILINE):
        for line in out.splitlines():
            m = TAP.match(line)
            if not m:
                continue
            if m.group(3):
                skips.append((f"{test['name']} {m.group(2)}", m.group(4)))
            elif m.group(1):
                failed += 1
            else:
                passed += 1
        if test['result'] not in ('OK', 'SKIP') and failed == 0:
            failed = 1
        if passed or failed or skips:
            return passed, failed, skips
    if test['result'] == 'OK':
        return 1, 0, []
    if test['result'] == 'SKIP':
        lines = [line for line in out.splitlines() if line.strip()]
        reasons = [line for line in lines if 'skip' in line.lower()] or lines[-1:] or ['no reason given']
        return 0, 0, [(test['name'], re.sub(r'^(1\.\.0\s*#\s*)?skip(ped)?:?\s*', '', reasons[-1], flags=re.IGNORECASE))]
    return 0, 1, []


SLOWEST = 5


def show_time(tests):
    """Of programs that run side by side: more seconds than have passed."""
    suites = {}
    for test in tests:
        suite = test['name'].split(' / ')[0].split(':')[-1]
        suites[suite] = suites.get(suite, 0) + test['duration']
    print('    seconds: ' + ', '.join(f'{s} {t:.0f}' for s, t in sorted(suites.items(), key=lambda i: -i[1])))
    slowest = sorted(tests, key=lambda t: -t['duration'])[:SLOWEST]
    print('    longest: ' + ', '.join(f"{t['name'].split(' / ')[-1]} {t['duration']:.0f}" for t in slowest))


def main():
    totals = [0, 0, 0]
    with open(sys.argv[1], encoding='utf-8', errors='replace') as log:
        tests = [json.loads(line) for line in log if line.strip()]
    for test in tests:
        passed, failed, skips = count(test)
        totals = [totals[0] + passed, totals[1] + failed, totals[2] + len(skips)]
        for what, why in skips:
            print(f'    skipped: {what}: {why or "no reason given"}')
        for line in (test.get('stdout') or '').splitlines():
            if line.startswith(REPORT):
                print(f"    {test['name']}: {line.removeprefix(REPORT)}")
        if failed:
            print(f"    FAILED: {test['name']} ({test['result']}, {test['duration']:.1f} s)")
            for stream in ('stdout', 'stderr'):
                for line in (test.get(stream) or '').splitlines()[-TAIL_LINES:]:
                    print('      | ' + line)
    show_time(tests)
    print(*totals)


if __name__ == '__main__':
    main()
