#!/usr/bin/env python3
"""usage: SOURCE=DIR status_codes.py
The error codes of the specifications: each is in the table of htcsched/status.h, under its long name (E_SCHEMA is HTC_ESCHEMA, E_TOO_BIG is HTC_ETOOBIG), and a test
expects it of what it has provoked. Beside the specifications that lie by the tree (../shared/spec), NAMED lists the codes that they had; so the check
is the same where they are not there. Every other error of the table is looked for in the same way."""
import glob, os, re, sys

source = os.environ['SOURCE']
NAMED = {'ESCHEMA', 'EUNSUPPORTED', 'EXPATH', 'EDENIED', 'ESTORE', 'ESTAGEIN', 'EUNKNOWN', 'ENOSPC', 'EFULL', 'ETOOBIG', 'ENORESOURCES'}
PLACEHOLDERS = {'ECODE'}  # of a form, not a code
OTHERWISE = {'ENORESOURCES': 'ENOFIT'}  # their code has another name in the table

# Expected: an assertion has it, it is compared with what was answered, a row of a table of cases ends with it, or it stands in an answer's text.
EXPECTED = re.compile(r"\b(cr_\w+|\w*expect\w*|\w*refus\w*|\w*assert\w*)\(.*\bHTC_E[A-Z]+|[!=]= *HTC_E[A-Z]+|\{.*\bHTC_E[A-Z]+\b.*\}|[\"']HTC_E[A-Z]+")


def table():
    text = open(os.path.join(source, 'include/htcsched/status.h')).read()
    return set(re.findall(r'X\(HTC_(E[A-Z]+), -\d+', text))


def specified():
    found = set(NAMED)
    for path in glob.glob(os.path.join(source, '../shared/spec/*.md')):
        text = open(path).read()
        found |= set(re.findall(r'\bHTC_(E[A-Z]+)\b', text)) | {'E' + name.replace('_', '') for name in re.findall(r'\bE_([A-Z_]+)\b', text)}
    return {OTHERWISE.get(code, code) for code in found - PLACEHOLDERS}


def expected():
    found = {}
    for top in ('unit', 'world', 'live', 'race'):
        for folder, _, files in os.walk(os.path.join(source, 'tests', top)):
            for name in files:
                if not name.endswith(('.c', '.h', '.py', '.sh')):
                    continue
                for line in open(os.path.join(folder, name), errors='replace'):
                    if 'HTC_E' in line and EXPECTED.search(line):
                        for code in re.findall(r'\bHTC_(E[A-Z]+)\b', line):
                            found.setdefault(code, name)
    return found


codes, tests = table(), expected()
wrong = ['HTC_%s is in the specifications, and not in htcsched/status.h' % c for c in sorted(specified() - codes)]
wrong += ['HTC_%s is expected by no test' % c for c in sorted(codes - set(tests))]
if len(codes) < 40 or len(tests) < 20:
    wrong.append('%d codes, %d of them in tests: this check is broken' % (len(codes), len(tests)))
print('%d codes, %d of the specifications, %d expected by tests' % (len(codes), len(specified()), len(set(tests) & codes)))
print('\n'.join(wrong))
sys.exit(1 if wrong else 0)
