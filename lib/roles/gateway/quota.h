/* How much a user or a project may use: limits, and what is left of them. Pure. */
#ifndef HTC_ROLES_GATEWAY_QUOTA_H
#define HTC_ROLES_GATEWAY_QUOTA_H

#include <stddef.h>
#include <stdint.h>

typedef enum quota_kind {
    QUOTA_CORE = 0,  /* run time of attempts times their cores, ever: nanoseconds */
    QUOTA_BYTES,     /* outputs that are kept, and a user's uploads */
    QUOTA_TASKS,     /* unfinished ones */
    QUOTA_PROCESSES, /* tasks that agents hold */
    QUOTA_KINDS
} quota_kind;

#define QUOTA_NONE UINT64_MAX /* no limit */

/* Each limit plus 1; 0: none is said. A limit of 0 is none, as in htc.ini. */
typedef struct quota_limits {
    uint64_t at[QUOTA_KINDS];
} quota_limits;

/* Of two, and at most QUOTA_NONE - 1: 64 bits of nanoseconds are 5.1 million core hours, and whoever has used more has used at least that. */
static inline uint64_t htc__quota_sum(uint64_t a, uint64_t b)
{
    uint64_t most = QUOTA_NONE - 1;
    return a >= most || b >= most - a ? most : a + b;
}

/* Who has limits, and what follows from them. */
typedef struct quota_holder {
    quota_limits limits;
    uint64_t     room;    /* tasks that may still be handed out; QUOTA_NONE: any number */
    uint64_t     running; /* core_ns of attempts that run, as they were last counted */
    uint64_t     version; /* of its record, where it has one of its own */
} quota_holder;

/* The limit that counts: the holder's own, else of those of the site (NULL: there are none). QUOTA_NONE: none does. */
uint64_t    htc__quota_limit(const quota_limits *own, const quota_limits *site, quota_kind kind);
uint64_t    htc__quota_left(uint64_t limit, uint64_t used); /* QUOTA_NONE without a limit */
/* Tasks that may still be handed out: none when the core time is spent, else as many as processes are left. */
uint64_t    htc__quota_room(const quota_holder *h, const quota_limits *site, uint64_t core_ns, uint64_t held);
const char *htc__quota_name(quota_kind kind);               /* as in a request: "core_hours" */
double      htc__quota_shown(quota_kind kind, uint64_t v);  /* in the unit that people use: hours, bytes, a number */
/* For people: "core hours of ann (12.5 of 10 used)"; who: with the word for what it is. */
void        htc__quota_text(quota_kind kind, const char *who, uint64_t used, uint64_t limit, char *text, size_t cap);

#endif
