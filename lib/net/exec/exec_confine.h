/* A task of another user that has our uid sees the system's directories and its own run, nothing else of ours. */
#ifndef HTC_NET_EXEC_CONFINE_H
#define HTC_NET_EXEC_CONFINE_H

#include <limits.h>
#include <sys/types.h>

#include "htcsched/status.h"

/* Filled before the fork, read in the child, which cannot allocate. */
typedef struct htc__confine {
    const char        *run;   /* the run's directory, absolute: all that can be written; the same path inside */
    const char *const *paths; /* further ones, read-only; NULL at the end, or NULL */
    char               root[PATH_MAX], tmp[PATH_MAX]; /* run/root, run/tmp: exist after htc__confine_prepare */
    uid_t              uid;
    gid_t              gid;
    const char        *step; /* of the child: what it was doing when it failed */
} htc__confine;

/* Make the directories that are needed below run. 0, or -1 and errno. */
int htc__confine_prepare(htc__confine *k, const char *run, const char *const *paths);

/* Three steps of a child of one thread, no_new_privs set: 0 (or a process), or -1 with errno and step. Only system calls, no
 * allocation. First the child enters namespaces and the root. Its next child is process 1 of a PID namespace: parent_flag is
 * CLONE_PARENT where that is to be our parent's child, else 0. The one after it, the task, finishes inside of that. */
int   htc__confine_enter(htc__confine *k);
pid_t htc__confine_first(htc__confine *k, int parent_flag);
int   htc__confine_finish(htc__confine *k);
/* SIGTERM from outside asks process 1 to end all others and itself; SIGKILL does it at once. It takes no other signal. */

/* Does it work here? A child tries it below dir. 0; else -1 and why in text. */
int htc__confine_probe(const char *dir, char *text, size_t room);

#endif
