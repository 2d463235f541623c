/* The policies that the library brings, as its modules list them; and a registry that is tried out before it counts. */
#ifndef HTC_SCHED_REGISTRY_PRIVATE_H
#define HTC_SCHED_REGISTRY_PRIVATE_H

#include "htcsched/registry.h"

typedef struct htc__builtin {
    uint32_t    kind;
    const char *name; /* NULL: the end of a list */
    const void *entry;
} htc__builtin;

/* NULL behind the last list; lib/sched/builtin/registry_builtin.c. */
extern const htc__builtin *const htc__builtin_lists[];

/* An equal one, with the same allocator. HTC_OK; HTC_ENOMEM. */
htc_status htc__registry_copy(const htc_registry *from, htc_registry **out);
/* Takes what is in from, a copy of it to which something may have been added, and frees that; returns how many more there are. */
size_t htc__registry_take(htc_registry *to, htc_registry *from);
/* The name that was taken, and its kind, when htc_registry_add answered HTC_EEXISTS last; "": never. Lent. */
const char *htc__registry_refused(const htc_registry *r, uint32_t *kind);

#endif
