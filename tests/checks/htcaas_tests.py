#!/usr/bin/env python3
"""usage: SOURCE=DIR htcaas_tests.py
doc/testing.md names tests for each row of three tables: those tests exist. In a cell `FILE` is a test, a bench, a check, a fuzzer or an experiment, and `FILE`: `NAME`, ... are
tests in that file (a Criterion test or a function of that name) or whole words in it. A file of tests is in the list of its folder's meson.build. A failure's row
is named in one of its tests, by a comment HTCaaS 6: WHAT HAPPENS."""
import os, re, sys

source = os.environ['SOURCE']
FOLDERS = ['tests/unit', 'tests/live', 'tests/world', 'tests/race', 'tests/checks', 'tests/bench', 'tests/bench/sites', 'fuzz', 'examples/sim']
BUILT = ('tests/unit', 'tests/live', 'tests/world', 'tests/checks', 'fuzz')  # they run only if they are in the list
TABLES = {'HTCaaS: failures': 17, 'HTCaaS: what must hold': 31, 'Traps of published simulators': 10}
wrong, named = [], 0


def read(*path):
    with open(os.path.join(source, *path), errors='replace') as f:
        return f.read()


def find(name):
    """Folder and name of a file; world_NAME is tests/world/test_NAME.c."""
    if name.startswith('world_'):
        name = 'test_%s.c' % name[len('world_'):]
        return ('tests/world', name) if os.path.exists(os.path.join(source, 'tests/world', name)) else None
    for folder in FOLDERS:
        if os.path.isfile(os.path.join(source, folder, name)):
            return folder, name
    return None


def runs(folder, name):
    stem = re.sub(r'^test_', '', os.path.splitext(name)[0])
    return folder not in BUILT or re.search(r"['_]%s['.]" % re.escape(stem.replace('study_', '')), read(folder, 'meson.build'))


def has(folder, name, what):
    text = read(folder, name)
    if name.startswith('test_'):
        return re.search(r'^(Test\(\w+, |static void )%s\b' % re.escape(what), text, re.M)
    return re.search(r'(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])' % re.escape(what), text)


def look(where, cell):
    global named
    found = 0
    for part in cell.split(';'):
        words = re.findall(r'`([^`]+)`', part)
        at = None
        for word in words:
            if re.fullmatch(r'world_\w+|[\w-]+\.(c|sh|py|ini)', word):
                at = find(word)
                found += 1
                if not at:
                    wrong.append('%s: there is no %s' % (where, word))
                elif not runs(*at):
                    wrong.append('%s: %s is in no list of %s/meson.build' % (where, word, at[0]))
            elif at and re.search(r'`%s`: ' % re.escape(at[1]), part):
                named += 1
                if not has(*at, word):
                    wrong.append('%s: %s/%s has no %s' % (where, *at, word))
    if not found:
        wrong.append('%s names no test' % where)


def is_named(row):
    """The comment of a test says which failure it is about."""
    files = {at for word in re.findall(r'`(test_\w+\.c)`', row[-1]) if (at := find(word))}
    return any('/* HTCaaS 6: %s. */\nTest(' % row[0] in read(*at) for at in files)


text = read('doc/testing.md')
for heading, most in TABLES.items():
    section = re.search(r'^## %s$(.*?)(?=^## |\Z)' % re.escape(heading), text, re.M | re.S)
    rows = [[c.strip() for c in l.strip('|').split('|')] for l in (section.group(1) if section else '').splitlines() if l.startswith('|')][2:]
    if len(rows) != most:
        wrong.append('"%s" has %d rows, not %d' % (heading, len(rows), most))
    for n, row in enumerate(rows, 1):
        if len(row) != 3 or (most == 31 and row[0] != str(n)):
            wrong.append('"%s": row %d is malformed: %s' % (heading, n, row[0]))
        look('"%s", row %d' % (heading, n), row[-1])
        if heading == 'HTCaaS: failures' and not is_named(row):
            wrong.append('"%s", row %d: no test says "HTCaaS 6: %s."' % (heading, n, row[0]))
print('%d names of tests in files' % named)
print('\n'.join(wrong))
sys.exit(1 if wrong else 0)
