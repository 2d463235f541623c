#!/usr/bin/env python3
"""usage: several_hosts.py PROGRAM_FOLDER
Runs every command of doc/several-hosts.md, word by word, each on the host that stands before it, and compares what it prints, numbers and keys
aside. The hosts are network namespaces with a bridge between them, with names and directories of their own; scp is a copy between these."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "several-hosts.md")
HOSTS = {"head": "10.0.0.1", "east": "10.0.0.2", "west": "10.0.0.3"}
# What depends on the moment: who runs which of a job's tasks.
MOMENTARY = ("for i in 0 1 2",)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


if os.geteuid() != 0:
    skip("network namespaces, and names of hosts, are root's to make")
if "HTC_TEST_HOSTS" not in os.environ:
    # In namespaces of this test's own: nothing of the machine's network is touched, and all of it is gone with the last process.
    again = ["unshare", "--mount", "--net"]
    if not shutil.which("unshare") or not shutil.which("ip"):
        skip("neither unshare nor ip is here")
    tried = subprocess.run([*again, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        skip("namespaces are not permitted: " + tried.stderr.strip())
    os.execvpe("unshare", [*again, sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]], dict(os.environ, HTC_TEST_HOSTS="1"))


def sh(*words, may_fail=False):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0 and not may_fail:
        skip("%s: %s" % (" ".join(words), done.stderr.strip()))
    return done


TOP = tempfile.mkdtemp(prefix="htc-hosts-")
os.chmod(TOP, 0o711)
ENV = dict(os.environ, PATH="%s/bin:%s:%s" % (TOP, BIN, os.environ["PATH"]), HOME=TOP)
ENV.pop("HTC_DIR", None)


def make_hosts():
    sh("mount", "-t", "tmpfs", "none", "/run")
    sh("ip", "link", "add", "bridge", "type", "bridge")
    sh("ip", "link", "set", "bridge", "up")
    for host, address in HOSTS.items():
        sh("ip", "netns", "add", host)
        sh("ip", "link", "add", "to-" + host, "type", "veth", "peer", "name", "eth0", "netns", host)
        sh("ip", "link", "set", "to-" + host, "master", "bridge", "up")
        for words in (("addr", "add", address + "/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            sh("ip", "-n", host, *words)
        os.mkdir(os.path.join(TOP, host))
    os.mkdir(os.path.join(TOP, "bin"))
    with open(os.path.join(TOP, "bin", "scp"), "w") as f:
        f.write("#!/bin/sh\nexec cp \"%s/${1%%%%:*}/${1#*:}\" \"$2\"\n" % TOP)
    os.chmod(os.path.join(TOP, "bin", "scp"), 0o755)


def commands():
    """(host, command with its here-document, expected output) in order."""
    found, in_document = [], False
    for line in open(TEXT).read().splitlines():
        if not line.startswith("    "):
            continue
        line = line[4:]
        begins = re.match(r"(%s)\$ (.*)" % "|".join(HOSTS), line)
        if in_document:
            found[-1][1] += "\n" + line
            in_document = line != "END"
        elif begins:
            found.append([begins.group(1), begins.group(2), []])
            in_document = "<< 'END'" in line
        else:
            found[-1][2].append(line)
    return found


def plain(line):
    line = re.sub(r"^(.*)other users' tasks .*", r"\1other users' tasks", line)
    line = re.sub(r"(pub|once)(-[0-9a-z]{8})+", r"\1-KEY", line)
    line = re.sub(r" in [0-9.hms]+$", " in #", line)
    return " ".join(re.sub(r"/\S*htc-state", "STATE", re.sub(r"[0-9]+(\.[0-9]+)*( [KMGT]iB| B)?", "#", line)).split())


def run(host, command, expected):
    """What is wrong with it; None if nothing is."""
    on = ["ip", "netns", "exec", host, "unshare", "--uts", "bash", "-c", 'hostname "$0"; eval "$1"', host, command]
    with tempfile.TemporaryFile("w+") as out:  # what goes on in the background holds no pipe
        done = subprocess.run(on, cwd=os.path.join(TOP, host), env=ENV, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=300)
        out.seek(0)
        said = out.read()
    same = [plain(x) for x in said.splitlines()] == [plain(x) for x in expected]
    if done.returncode == 0 and (same or command.startswith(MOMENTARY)):
        return None
    return "FAILED: %s$ %s\nexit code %d, printed:\n%sexpected:\n%s" % (host, command, done.returncode, said, "\n".join(expected))


def ours():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and os.readlink("/proc/%s/cwd" % pid).startswith(TOP):
                found.append(int(pid))
        except OSError:
            pass
    return found


def outputs(host):
    folder = os.path.join(TOP, host, "htc-state" if host == "head" else "htc-" + host, "data", "out", "2")
    return sum(len(files) for _, _, files in os.walk(folder))


def main():
    n = 0
    for host, command, expected in commands():
        # What was said a moment before is heard a moment later: a secret, a signal, who has joined.
        end = time.monotonic() + 60
        wrong = run(host, command, expected)
        while wrong and command.startswith(("htc keys join", "cat joined", "htc agents")) and time.monotonic() < end:
            time.sleep(0.2)
            wrong = run(host, command, expected)
        if wrong:
            print(wrong)
            for folder, _, files in os.walk(TOP):
                for name in files if folder.endswith("/log") else ():
                    print("---", os.path.join(folder, name), open(os.path.join(folder, name)).read()[-1500:], sep="\n")
            return 1
        if "three.flow --agents" in command:
            left = {h: outputs(h) for h in HOSTS}
            print("a flow left files on", left)
            if not all(left.values()):
                print("FAILED: one of the hosts has run nothing")
                return 1
        n += 1
    end = time.monotonic() + 60
    while ours() and time.monotonic() < end:
        time.sleep(0.1)
    if ours():
        print("FAILED: processes are left:", *(open("/proc/%d/cmdline" % p).read().replace("\0", " ") for p in ours()), sep="\n")
        return 1
    print("several-hosts.md: %d commands did what it says" % n)
    return 0 if n > 20 else 1


code = 1
try:
    make_hosts()
    code = main()
finally:
    for p in ours():
        try:
            os.kill(p, signal.SIGKILL)
        except OSError:
            pass
    shutil.rmtree(TOP, ignore_errors=True)
sys.exit(code)
