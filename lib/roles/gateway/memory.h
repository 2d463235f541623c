/* The memory of a site: what tasks have reserved of it, and the room that is kept for one that has waited for long. Tasks are
 * packed: whatever fits starts, past a larger task that waits. Once that one has waited for long enough, room is kept for it:
 * the others get what is left beside it, so every task that ends brings it nearer. Memory alone: no clock, no allocation. */
#ifndef HTC_ROLES_GATEWAY_MEMORY_H
#define HTC_ROLES_GATEWAY_MEMORY_H

#include "htcsched/machine.h"

typedef struct memory {
    uint64_t total;    /* bytes; 0: not known, and everything fits */
    uint64_t reserved; /* by tasks that agents hold */
    uint64_t kept_for; /* the job whose next task room is kept for; 0: none */
    uint64_t kept;     /* bytes, at most total */
} memory;

/* What nobody has reserved. */
uint64_t htc__memory_free(const memory *m);
/* May a task of this job reserve so many bytes more? */
int htc__memory_fits(const memory *m, uint64_t job, uint64_t more);
/* An agent's reservation goes from one size to another. */
void htc__memory_change(memory *m, uint64_t before, uint64_t after);
/* Keep room for a job's next task, need <= total; job 0: for none. */
void htc__memory_keep(memory *m, uint64_t job, uint64_t need);

/* A job whose next task waits for memory. */
typedef struct memory_wait {
    uint64_t job; /* 0: none */
    uint64_t need;
    htc_ns   since;
} memory_wait;

/* Whose turn it is to have room kept: who has waited longer, then the smaller number. b may be none. */
int htc__memory_longer(const memory_wait *a, const memory_wait *b);

#endif
