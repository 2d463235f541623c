/* The policies that the library brings, as its modules list them. */
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

#endif
