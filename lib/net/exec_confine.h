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

/* In a child of one thread, no_new_privs set: 0, or -1 with errno and step. Only system calls, no allocation. */
int htc__confine_enter(htc__confine *k);

/* Does it work here? A child tries it below dir. 0; else -1 and why in text. */
int htc__confine_probe(const char *dir, char *text, size_t room);

#endif
