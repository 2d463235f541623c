#!/bin/bash
# usage: long.sh FOLDER-OF-THE-PROGRAMS
# What a task costs gateway and store when ten million have ended, of what it costs when none has; and what an ended one leaves behind. Flows of
# 100,000 builtin noops in one bag, and jobs of 2,000 /bin/true, are run before and after a bag of TASKS=10000000; the least of
# RUNS=5, for whoever waits looks more often on a busy machine. Instructions are counted by perf where the processor's counters may be read, else by callgrind, under which gateway and store run for that; without
# either the CPU time is told. Memory is that of the two processes (RSS), before and after the large bag, of a system of its own.
set -euo pipefail
programs=$(realpath "$1")
dir=$(mktemp -d)
cleanup() { "$programs/htc" --dir "$dir/s" down --now > /dev/null 2>&1 || true; rm -rf "$dir"; }
trap cleanup EXIT
exec 9>> "${BENCH_LOCK:-/tmp/bench.lock}"
flock 9
TASKS=${TASKS:-10000000} RUNS=${RUNS:-5} python3 - "$programs" "$dir" 9>&- << 'END_OF_PYTHON'
import glob, os, re, shutil, signal, subprocess, sys, time
programs, top = sys.argv[1:]
tasks, runs = int(os.environ["TASKS"]), int(os.environ["RUNS"])
state, few, jobs = os.path.join(top, "s"), 100000, 2000

def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout

def perf_works():
    try:
        said = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return False
    return said.returncode == 0 and said.stderr.split(",")[0].isdigit()

def wrapped_programs():
    """The same programs, but that gateway and store run under callgrind."""
    folder = os.path.join(top, "bin")
    os.mkdir(folder)
    library = re.search(r"libhtcsched\S* => (\S+)/", call("ldd", os.path.join(programs, "htc")))
    if library:  # where it is found may be said relative to the program
        os.environ["LD_LIBRARY_PATH"] = library[1]
    shutil.copy(os.path.join(programs, "htc"), folder)
    for name in ("htc-agent", "htc-fn"):
        os.symlink(os.path.join(programs, name), os.path.join(folder, name))
    for name in ("htc-kvd", "htc-gateway"):
        with open(os.path.join(folder, name), "w") as f:
            f.write(f'#!/bin/sh\nexec valgrind -q --tool=callgrind --callgrind-out-file={top}/callgrind.%p {programs}/{name} "$@"\n')
        os.chmod(f.name, 0o755)
    return folder

def daemons():
    """Gateway and store: their process ids."""
    found = []
    for p in glob.glob("/proc/[0-9]*"):
        try:
            words = open(p + "/cmdline").read().split("\0")
        except OSError:
            continue
        if state in words and any(os.path.basename(w) in ("htc-kvd", "htc-gateway") for w in words[:8]) and "-c" not in words[:2]:
            found.append(int(p[6:]))
    return sorted(found)

def cpu_ns(pids):
    return sum(int(open(t).read().split()[0]) for p in pids for t in glob.glob(f"/proc/{p}/task/*/schedstat"))

def rss_bytes(pids):
    return sum(int(re.search(r"VmRSS:\s+(\d+) kB", open(f"/proc/{p}/status").read())[1]) * 1024 for p in pids)

class Perf:
    name, unit = "perf", "instructions"
    def begin(self, pids):
        self.p = subprocess.Popen(["perf", "stat", "-x,", "-e", "instructions", "-p", ",".join(map(str, pids))], stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)  # until it counts
    def end(self):
        self.p.send_signal(signal.SIGINT)
        return int(self.p.communicate()[1].split(",")[0])

class Callgrind:
    name, unit = "callgrind", "instructions"
    def dump(self):
        total = 0
        for p in self.pids:
            before = set(glob.glob(f"{top}/callgrind.{p}.*"))
            call("callgrind_control", "-d", str(p))
            for name in set(glob.glob(f"{top}/callgrind.{p}.*")) - before:
                total += int(re.search(r"^(?:summary|totals): (\d+)", open(name).read(), re.M)[1])
                os.remove(name)
        return total
    def begin(self, pids):
        self.pids = pids
        self.dump()
    def end(self):
        return self.dump()

class Cpu:
    name, unit = "/proc", "ns of CPU time"
    def begin(self, pids):
        self.pids, self.from_ = pids, cpu_ns(pids)
    def end(self):
        return cpu_ns(self.pids) - self.from_

def system(folder, how):
    """What a task cost before, in the large bag, and after it: as a flow; before and after as a job. Bytes that the large bag left."""
    call(os.path.join(folder, "htc"), "--dir", state, "up", "--slots", "2")
    htc = [os.path.join(folder, "htc"), "--dir", state]
    def flow(n):
        name = os.path.join(top, "flow")
        with open(name, "w") as f:
            f.write(f"t: count={n} @noop\n")
        call(*htc, "flow", "run", name, "--agents", "2")
    def job(n):
        call(*htc, "submit", "--env", "N={n}", "--wait", "--", "/bin/true", ":::", f"n=1:{n}")
    def cost(what, n):
        how.begin(pids)
        what(n)
        return how.end() / n
    pids = daemons()
    if len(pids) != 2:
        sys.exit(f"not gateway and store: {pids}")
    for _ in range(2):  # all that is done once is done
        flow(few)
        job(200)
    before = [min(cost(flow, few) for _ in range(runs)), min(cost(job, jobs) for _ in range(runs))]
    held = rss_bytes(pids)
    large = cost(flow, tasks)
    left = rss_bytes(pids) - held
    after = [min(cost(flow, few) for _ in range(runs)), min(cost(job, jobs) for _ in range(runs))]
    call(*htc, "down", "--now")
    shutil.rmtree(state)
    return before, large, after, left

perf = perf_works()
how = Perf() if perf else Callgrind() if shutil.which("callgrind_control") else Cpu()
plain = system(programs, how if perf else Cpu())
before, large, after, left = plain if perf or how.name == "/proc" else (*system(wrapped_programs(), how)[:3], plain[3])
print(f"{how.unit} of gateway and store, by {how.name}")
b, a = before[1], after[1]
print(f"jobs of 2,000: a task {b:.0f}, after {tasks} tasks {a:.0f}: {a / b:.3f} of it, goal 1.05: {'met' if a / b <= 1.05 else 'missed'}")
print(f"flows of 100,000: a flow {before[0] * few:.0f}, after {tasks} tasks {after[0] * few:.0f}: with an agent that is launched for it, or without")
print(f"the bag of {tasks}: a task {large:.1f}")
print(f"memory that an ended task of it leaves: {left / tasks:.3f} bytes, goal 1: {'met' if left / tasks <= 1 else 'missed'}")
END_OF_PYTHON
