#!/usr/bin/env python3
"""usage: SOURCE=DIR metrics_doc.py
doc/metrics.md lists every series that a page for monitors can have, and no other: the families that the sources name, with the suffix of their kind."""
import os
import re
import sys

source = os.environ["SOURCE"]
NAME = r"htc_(?:kv|gateway|agent|channel)(?:_[a-z]+)*"
KINDS = {"COUNTER": "_total", "INFO": "_info", "GAUGE": "", "HISTOGRAM": ""}
named, kinds = set(), {}
for folder in ("lib", "examples"):
    for path, _, files in os.walk(os.path.join(source, folder)):
        for file in files:
            if file.endswith(".c"):
                with open(os.path.join(path, file), errors="replace") as f:
                    text = f.read()
                named |= set(re.findall(r'"(%s)"' % NAME, text))
                for kind, name in re.findall(r'htc_metrics_family\([^,]+,\s*HTC_METRIC_(\w+),\s*"(%s)"' % NAME, text):
                    kinds[name] = kind
with open(os.path.join(source, "doc", "metrics.md")) as f:
    rows = [line.split("|")[1] for line in f if line.startswith("| `")]
listed = {name for row in rows for name in re.findall(r"`(%s)" % NAME, row)}
bare = lambda name: name if name in named else re.sub(r"_(total|info)$", "", name)
bad = ["doc/metrics.md does not list %s" % n for n in sorted(named - {bare(n) for n in listed})]
bad += ["doc/metrics.md lists %s, which nothing shows" % n for n in sorted(listed) if bare(n) not in named]
bad += ["doc/metrics.md lists %s without %s" % (n, KINDS[k]) for n, k in sorted(kinds.items()) if n + KINDS[k] not in listed and n in {bare(x) for x in listed}]
if bad or not named:
    sys.exit("\n".join(bad or ["no source names a series"]))
