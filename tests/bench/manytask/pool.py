# usage: pool.py TASKS PROCESSES CHUNK
# Empty tasks through multiprocessing.Pool, CHUNK in one message. Prints "WALL CPU" in seconds, without the start of the processes; CPU is that
# of the group that the file $CPUACCT counts, 0 without one.
import multiprocessing, os, sys, time


def task(number):
    pass


def cpu():
    try:
        with open(os.environ["CPUACCT"]) as f:
            return int(f.read()) / 1e9
    except (KeyError, OSError):
        return 0


tasks, processes, chunk = map(int, sys.argv[1:])
with multiprocessing.Pool(processes) as pool:
    pool.map(time.sleep, [0.05] * processes, chunksize=1)  # each has begun
    wall, before = time.monotonic(), cpu()
    for _ in pool.imap_unordered(task, range(tasks), chunksize=chunk):
        pass
    print("%.6f %.6f" % (time.monotonic() - wall, cpu() - before))
