/* What is due when: moments in a heap, each of a number that has at most one. At one moment, in the order in which they were set. */
#ifndef HTC_SIM_SCENARIOS_DUE_H
#define HTC_SIM_SCENARIOS_DUE_H

#include "htcsched/env.h"

typedef struct due_item {
    htc_ns   at;
    uint64_t order;
    uint32_t id;
} due_item;

typedef struct due {
    const htc_env *env; /* borrowed */
    due_item      *heap;
    uint32_t      *place; /* of each number in the heap, and one more; 0: it has no moment */
    size_t         n, cap, ids;
    uint64_t       sets;
} due;

/* Another moment than it had, if it had one. HTC_ENOMEM: all is as it was. */
htc_status htc__due_set(due *d, uint32_t id, htc_ns at);
void       htc__due_clear(due *d, uint32_t id);
/* The earliest, and whose it is; id may be NULL. HTC_NEVER: there is none. */
htc_ns     htc__due_first(const due *d, uint32_t *id);
void       htc__due_free(due *d);

#endif
