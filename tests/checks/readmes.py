#!/usr/bin/env python3
"""usage: SOURCE=DIR readmes.py
Each folder of lib/ and examples/ that has sources opens with a README.md of one paragraph, and every file or folder that it names is there."""
import glob, os, re, sys

source = os.environ['SOURCE']
os.chdir(source)
wrong = []
for top in ('lib', 'examples'):
    for folder, _, files in os.walk(top):
        path = os.path.join(folder, 'README.md')
        if not os.path.exists(path):
            if any(f.endswith('.c') for f in files):
                wrong.append('%s has no README.md' % folder)
            continue
        text = open(path).read()
        if not text.strip() or '\n\n' in text.strip() or text.count('\n') > 10:
            wrong.append('%s is not one paragraph' % path)
        for name in re.findall(r'`([^`]+)`', text):
            known = any(glob.glob(os.path.join(base, name)) for base in (folder, '', 'include'))
            if not known and re.search(r'[./]', name):
                wrong.append('%s names %s, which is not there' % (path, name))
print('\n'.join(wrong))
sys.exit(1 if wrong else 0)
