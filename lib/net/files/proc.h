/* What /proc says of the processes of this machine, and which of them belong to whom. */
#ifndef HTC_NET_PROC_H
#define HTC_NET_PROC_H

#include <sys/types.h>

#include "htcsched/bytes.h"

typedef struct htc__proc {
    pid_t    pid, parent, group, session;
    char     state; /* of the thread that began it; see ended */
    int      ended; /* no thread of it lives. One whose first thread has ended is 'Z' too, and goes on. */
    uint64_t start;  /* ticks since boot: with the pid it names one process for ever (of this boot) */
    uint64_t memory; /* resident, bytes */
    uint64_t ticks;  /* of CPU time, with that of the children that it has waited for */
    int      owner;  /* place in the caller's list of roots, or -1 */
} htc__proc;

/* One process; 0, or -1 if there is none. */
int htc__proc_read(pid_t pid, htc__proc *out);
/* This process, with the numbers of the /proc that is seen. */
int htc__proc_self(htc__proc *out);

typedef struct htc__procs {
    htc__proc *list; /* by growing pid */
    size_t     count, cap;
    pid_t     *foreign; /* pids that were nobody's at the last full look, by growing number */
    size_t     foreign_count, foreign_cap;
    htc_ns     full_at;
} htc__procs;

/* Look at all processes, or (full 0) at those that are not known as foreign. A look at everything is made at least every
 * 2 s, for pids are used again. 0, or -1. Free with htc__procs_free. */
int  htc__procs_look(htc__procs *procs, int full, htc_ns now);
void htc__procs_free(htc__procs *procs);
/* Set the owner of every process below the marked ones (owner >= 0), and remember who is nobody's. */
void htc__procs_spread(htc__procs *procs);
htc__proc *htc__procs_find(const htc__procs *procs, pid_t pid);

/* The real uid of a process, which only root can change; 0, or -1 if there is none. */
int htc__proc_uid(pid_t pid, uid_t *uid);

/* 1 if the environment that pid was started with has the entry "NAME=value"; prefix 1: one that begins so. */
int htc__proc_has_env(pid_t pid, const char *entry, int prefix);

/* Send a signal to exactly the process that was seen: nothing if its number has been used again. */
void htc__proc_signal(const htc__proc *p, int signal);

/* The file in which the kernel counts what it has killed for want of memory in this process's cgroup (version 2 or 1).
 * 0, or -1 if there is none. */
int htc__oom_events_path(char *path, size_t size);
/* That count; 0 if it cannot be read. */
uint64_t htc__oom_kills(const char *path);
/* The lowest figure in the files of this name, of a group of the memory controller and those above it up to base, a part of the
 * group's path; UINT64_MAX: none sets one. */
uint64_t htc__memory_limit(const char *base, const char *group, const char *file);
/* What processes of this machine may use, as far as this one is concerned: all there is, or less by its cgroups. 0: not known. */
uint64_t htc__machine_memory(void);

#endif
