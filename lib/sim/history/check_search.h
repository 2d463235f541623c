/* What a search for an order has before it, and what it has taken of that. */
#ifndef HTC_SIM_CHECK_SEARCH_H
#define HTC_SIM_CHECK_SEARCH_H

#include "sim/history/history_private.h"

#define NONE UINT32_MAX

/* Node 2i is the question of known[i], 2i + 1 its answer; `known * 2` is the head and end. */
typedef struct search_node {
    uint32_t before, after;
} search_node;

typedef struct search_step {
    uint32_t      taken;  /* a node, or with ASIDE an unknown one */
    uint32_t      target; /* the node that it is taken for; itself if it is known */
    uint32_t      row;    /* how many unknown ones stand in a row with it: it counts, if it is one */
    uint32_t      pass;   /* in which it was */
    history_state state; /* before it */
} search_step;

#define ASIDE UINT32_C(0x80000000)

/* First known ones as they are, then each with unknown ones before it; of both, first what leaves a value that was seen, or begins one. */
enum { KNOWN, KNOWN_REST, ROWS, ROWS_REST, PASSES };

/* What to try next: the target itself, or for its sake the unknown ones from `next` on. */
typedef struct search_cursor {
    uint32_t pass, target, next;
} search_cursor;

#define ITSELF NONE

/* Operations are called by their place in `op`, copies of those of the key that matter. */
typedef struct search {
    const htc_history *h;
    htc_history_op    *op;
    uint32_t          *told; /* where they are in the history */
    size_t             ops, cap;
    uint32_t          *known;
    uint32_t          *unknown; /* in the order they were asked */
    uint32_t          *twin;    /* of an unknown one: the last before it that would do the same, or NONE */
    uint8_t           *used;
    size_t             n, unknowns, left;
    search_node       *nodes;
    history_rank      *ranks, *scratch;
    search_step       *steps;
    size_t             depth;
    history_rank      *limits; /* of the known ones, lowest first: the highest version that each may find */
    size_t             lowest; /* the first there that is not taken; minor: is taken */
    uint32_t          *limit;  /* of known[i], its place there */
    history_bounds     bounds;
    history_prefixes   prefixes;
    history_places     places;
    uint64_t           a, b; /* of the operations taken */
    uint64_t           work, work_max;
    size_t             aside, few; /* how many unknown ones are taken, and may be */
    int                more;       /* more would have been */
    /* For the explanation: how far it got, and what could not be there. */
    size_t   deepest;
    uint32_t stuck, last;
} search;

static inline const htc_history_op *known_at(const search *s, uint32_t i)
{
    return &s->op[s->known[i / 2]];
}

static inline const htc_history_op *unknown_at(const search *s, uint32_t u)
{
    return &s->op[s->unknown[u & ~ASIDE]];
}

static inline uint32_t end_of(const search *s)
{
    return (uint32_t)(2 * s->n);
}

static inline int is_question(const search *s, uint32_t i)
{
    return i != end_of(s) && !(i & 1);
}

/* The last one taken, if it is an unknown one: a row is begun. */
static inline const search_step *row_of(const search *s)
{
    const search_step *t = s->depth ? &s->steps[s->depth - 1] : NULL;
    return t && t->taken & ASIDE ? t : NULL;
}

htc_status htc__search_open(search *s, const htc_history *h, size_t n, const htc_history_rules *rules);
void       htc__search_close(search *s);
/* The operations of the key. */
htc_status htc__search_fill(search *s, const uint32_t *ops, size_t n);

/* The next in the order: a node, or an unknown one with ASIDE; what was before it. */
void        htc__search_take(search *s, uint32_t what, search_cursor at, const history_state *before);
search_step htc__search_take_back(search *s);
/* Versions only rise: one that is still to come, and was told a lower one, never fits. */
int htc__search_is_too_high(const search *s, const history_state *state);
/* What was taken, and the state behind it. */
history_fingerprint htc__search_place(const search *s, const history_state *state);

#endif
