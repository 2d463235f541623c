#!/usr/bin/env python3
"""usage: several_hosts.py PROGRAM_FOLDER [PAGE]
Runs every command of doc/PAGE (several-hosts.md, tutorial-cluster.md, two-gateways.md), word by word, each on the host that stands before it, and compares what it
prints, numbers and keys aside. The hosts are network namespaces with a bridge between them, with names and directories of their own; scp is a copy
between these. The cluster of tutorial-cluster.md has the batch system of batch_fake.py, and its people are no root."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
PAGE = sys.argv[2] if len(sys.argv) > 2 else "several-hosts.md"
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.join(HERE, "..", "..", "doc", PAGE)
CLUSTER = PAGE == "tutorial-cluster.md"
NAMES = {"tutorial-cluster.md": ("head", "login", "lab"), "two-gateways.md": ("head1", "head2", "east")}
HOSTS = dict(zip(NAMES.get(PAGE, ("head", "east", "west")), ("10.0.0.1", "10.0.0.2", "10.0.0.3")))
# What depends on the moment: who runs which of a job's tasks.
MOMENTARY = ("for i in 0 1 2", "for i in $(seq 0 39)", "htc users", "htc report") if CLUSTER else ("for i in 0 1 2",)
PERSON = 65101  # whose the processes of the cluster's page are


def skip(why):
    print("skipped:", why)
    sys.exit(77)


if "HTC_TEST_LIGHT" in os.environ:
    skip("the light form does not repeat documents: their commands are in other tests")
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


def copy_programs():
    """What everybody can run, wherever the build lies."""
    global BIN
    there = os.path.join(TOP, "build", "examples")
    os.makedirs(there)
    for name in ("htc", "htc-kvd", "htc-gateway", "htc-agent", "htc-fn", "htc-transfer"):
        shutil.copy(os.path.join(BIN, name), there)
    for name in os.listdir(os.path.join(BIN, "..")):
        if name.startswith("libhtcsched.so") and os.path.isfile(os.path.join(BIN, "..", name)):
            shutil.copy(os.path.join(BIN, "..", name), os.path.join(TOP, "build"), follow_symlinks=False)
    sh("chmod", "-R", "go+rX", os.path.join(TOP, "build"))
    ENV["PATH"] = ENV["PATH"].replace(BIN, there)
    BIN = there


def as_person(*words):
    return ["setpriv", "--reuid", str(PERSON), "--regid", str(PERSON), "--clear-groups", *words] if CLUSTER else list(words)


def make_cluster():
    """A batch system at the login node: its commands, and the queue behind them."""
    where, fake = os.path.join(TOP, "batch"), os.path.join(TOP, "batch_fake.py")
    shutil.copy(os.path.join(HERE, "batch_fake.py"), fake)
    os.mkdir(os.path.join(TOP, "slurm"))
    os.mkdir(where)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    sh(python, fake, "install", "slurm", where, os.path.join(TOP, "slurm"))
    for folder in (TOP, where, *(os.path.join(TOP, host) for host in HOSTS)):
        os.chown(folder, PERSON, PERSON)
    served = subprocess.Popen(["ip", "netns", "exec", "login", *as_person(python, fake, "serve", "slurm", where, "4")], cwd="/", env=ENV,
                              stdin=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not os.path.exists(os.path.join(where, "up")) and time.monotonic() < end:
        time.sleep(0.05)
    return served


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
    line = re.sub(r"/\S*/\.config/", "~/.config/", line)
    return " ".join(re.sub(r"/\S*htc-state", "STATE", re.sub(r"[0-9]+(\.[0-9]+)*( [KMGT]iB| B)?", "#", line)).split())


def run(host, command, expected):
    """What is wrong with it; None if nothing is."""
    env = dict(ENV, HOME=os.path.join(TOP, host))
    if CLUSTER and host == "login":
        env["PATH"] = os.path.join(TOP, "slurm") + ":" + env["PATH"]
    on = ["ip", "netns", "exec", host, "unshare", "--uts", "bash", "-c", 'hostname "$0"; exec "$@"', host, *as_person("bash", "-c", command)]
    with tempfile.TemporaryFile("w+") as out:  # what goes on in the background holds no pipe
        done = subprocess.run(on, cwd=os.path.join(TOP, host), env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=300)
        out.seek(0)
        said = out.read()
    same = [plain(x) for x in said.splitlines()] == [plain(x) for x in expected]
    if done.returncode == 0 and (same or command.startswith(MOMENTARY)):
        return None
    return "FAILED: %s$ %s\nexit code %d, printed:\n%sexpected:\n%s" % (host, command, done.returncode, said, "\n".join(expected))


def ours():
    """Daemons leave the directory in which they began; each has its host's HOME."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as env:
                here = os.readlink("/proc/%s/cwd" % pid).startswith(TOP) or b"HOME=%s/" % TOP.encode() in env.read()
            if int(pid) != os.getpid() and here:
                found.append(int(pid))
        except OSError:
            pass
    return found


def outputs(host):
    folder = os.path.join(TOP, host, "htc-state" if host == "head" else "htc-" + host, "data", "out", "2")
    return sum(len(files) for _, _, files in os.walk(folder))


def look_where(command):
    """Each site has run a part of the campaign."""
    said = subprocess.run(["ip", "netns", "exec", "head", *as_person("bash", "-c", command)], cwd=os.path.join(TOP, "head"), env=ENV, capture_output=True,
                          text=True).stdout
    print(said, end="")
    if all(site in said for site in ("local", "cluster", "lab")) and sum(int(line.split()[0]) for line in said.splitlines()) == 40:
        return True
    print("FAILED: not every site has run a part of it")
    return False


def main():
    n = 0
    for host, command, expected in commands():
        # What was said a moment before is heard a moment later: a secret, a signal, who has joined.
        end = time.monotonic() + 60
        wrong = run(host, command, expected)
        while wrong and command.startswith(("htc keys join", "cat joined", "htc agents", "htc sites")) and time.monotonic() < end:
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
        if CLUSTER and command.startswith("for i in $(seq 0 39)") and not look_where(command):
            return 1
        n += 1
    end = time.monotonic() + 60
    while ours() and time.monotonic() < end:
        time.sleep(0.1)
    if ours():
        print("FAILED: processes are left:", *(open("/proc/%d/cmdline" % p).read().replace("\0", " ") for p in ours()), sep="\n")
        return 1
    print("%s: %d commands did what it says" % (PAGE, n))
    return 0 if n > 20 else 1


code, cluster = 1, None
try:
    make_hosts()
    if CLUSTER:
        copy_programs()
        cluster = make_cluster()
    code = main()
finally:
    if cluster:
        cluster.kill()
        cluster.wait()
    for p in ours():
        try:
            os.kill(p, signal.SIGKILL)
        except OSError:
            pass
    shutil.rmtree(TOP, ignore_errors=True)
sys.exit(code)
