/* What the files of the history and its checkers share. */
#ifndef HTC_SIM_HISTORY_PRIVATE_H
#define HTC_SIM_HISTORY_PRIVATE_H

#include "htcsched/history.h"

typedef struct history_run {
    size_t   at; /* in the arena */
    uint32_t n;  /* bytes of a key, ticks of a clock */
} history_run;

struct htc_history {
    htc_env             env;
    htc_history_options options;
    htc_history_op     *ops;
    size_t              count, ops_cap;
    history_run        *keys, *clocks; /* clock i is clocks[i - 1] */
    uint32_t            keys_count, clocks_count;
    size_t              keys_cap, clocks_cap;
    uint32_t           *table; /* open addressing: key + 1; a power of two, at most half full */
    size_t              table_cap;
    uint8_t            *arena; /* bytes of keys; ticks of clocks are copied in and out */
    size_t              arena_len, arena_cap;
    size_t              clock_ticks; /* all of them */
};

/* Make room for one more of `size` bytes in an array of *cap; 0: refused, and it is as it was. */
int htc__history_room(const htc_env *env, void *array, size_t *cap, size_t needed, size_t size);

/* The clock's tick of a member; 0: none. */
uint64_t htc__history_tick(const htc_history *h, uint32_t clock, uint64_t member);
/* Copies tick i of a clock; 0: there is none. */
int htc__history_tick_at(const htc_history *h, uint32_t clock, uint32_t i, htc_history_tick *out);

/* What is before a tail: shrink is that of its length, which is not above the whole's. */
uint64_t          htc__history_shrink(uint64_t length);
htc_history_value htc__history_cut(htc_history_value whole, htc_history_value tail, uint64_t shrink);

int htc__history_absent(htc_history_value v);
int htc__history_same(htc_history_value a, htc_history_value b);

/* A change of a key in a strong namespace. */
int htc__history_is_change(const htc_history_op *op);
/* One that was acknowledged. */
int htc__history_is_made(const htc_history_op *op);
int htc__history_finds_nothing(const htc_history_op *op);
/* What the answer says stands under its version; UNSAID if it says nothing of that. */
htc_history_value htc__history_told(const htc_history_op *op);
/* What htc_history_linear looks at. */
int htc__history_is_record(const htc_history_op *op);

/* ---- operations by key ---- */

typedef struct history_groups {
    const htc_env *env;
    uint32_t      *ops;   /* the history's indexes, key by key, in their order in the history */
    size_t        *first; /* of each key, and the end */
    size_t         n, keys;
} history_groups;

htc_status htc__history_group(const htc_history *h, history_groups *g);
void       htc__history_ungroup(history_groups *g);

typedef struct history_rank {
    uint64_t major, minor;
    uint32_t op;
} history_rank;

/* By major, then minor, equal ones in their order; scratch holds n too. O(n log n). */
void htc__history_sort(history_rank *ranks, history_rank *scratch, size_t n);

/* ---- one copy of a key ---- */

/* version is that of the value if exact, else one it is not below: whoever changed it last was not told. */
typedef struct history_state {
    htc_history_value value;
    uint64_t          version;
    uint32_t          exact;
} history_state;

history_state htc__history_initial(void);
/* What the operation does to the copy. 1: it could be so; 0: not, and the state is of no use. An operation of unknown outcome
 * is asked whether it changes anything. */
int htc__history_apply(history_state *s, const htc_history_op *op);
/* It applies to no state of a higher version. */
uint64_t htc__history_limit(const htc_history_op *op);

/* ---- how values begin that were seen ---- */

#define HTC__HISTORY_ENDS 64

/* What value number `of` begins with, `length` bytes of it. */
typedef struct history_prefix {
    uint64_t length, hash;
    uint32_t of;
} history_prefix;

/* n is 0 where nothing is known, or there is nothing to know. */
typedef struct history_prefixes {
    const htc_env  *env;
    history_prefix *known; /* shortest first */
    size_t          n, cap;
    uint64_t        ends[HTC__HISTORY_ENDS]; /* how long these values are, longest first */
    size_t          ends_n, open; /* open: of so many it is not known what they are made of */
    uint64_t        work;
} history_prefixes;

/* For a key with appends of unknown outcome; far: at much more cost, for more of them. */
htc_status htc__history_find_prefixes(const htc_env *env, const htc_history_op *ops, size_t n, int far, uint64_t work_max,
                                      history_prefixes *p);
void       htc__history_prefixes_free(history_prefixes *p);
/* A value that was seen begins like this. */
int htc__history_leads_on(const history_prefixes *p, htc_history_value v);
/* Not known to begin otherwise. */
int htc__history_may_become(const history_prefixes *p, htc_history_value v, htc_history_value whole);
/* htc__history_apply; values which nothing that was seen begins with are all one, but for their length. */
int htc__history_step(const history_prefixes *p, history_state *s, const htc_history_op *op);

/* ---- changes of unknown outcome, in a search ---- */

/* Whatever can follow s can follow t. */
int htc__history_covers(const history_state *t, const history_state *s);
/* x, of unknown outcome, was made at `before`, and then y, which left `end`. 0: it is as good without x, or with x behind y. */
int htc__history_needed(const history_prefixes *p, const history_state *before, const htc_history_op *x,
                        const htc_history_op *y, const history_state *end);
/* Of two of unknown outcome x2 was asked first; x1, then x2 left `end`. 0: it is as good the other way round. */
int htc__history_in_turn(const history_prefixes *p, const history_state *before, const htc_history_op *x1,
                         const htc_history_op *x2, const history_state *end);
/* y, a known one, follows s, and none of unknown outcome is needed between. */
int htc__history_is_enough(const history_prefixes *p, const history_state *s, const htc_history_op *y);
int htc__history_does_the_same(const htc_history_op *a, const htc_history_op *b);

/* Whether a row of them may make a value shorter, a number smaller; else how much longer and larger those that are left can make it, and in
 * multiples of what. */
typedef struct history_bounds {
    int                     lengths_fall, numbers_fall;
    uint64_t                lengths_left, numbers_left, lengths_step, numbers_step;
    const history_prefixes *prefixes;
} history_bounds;

/* One more operation of the key. */
void htc__history_bound(history_bounds *b, const htc_history_op *op);
/* One of unknown outcome is taken, or is left again. */
void htc__history_bound_take(history_bounds *b, const htc_history_op *op);
void htc__history_bound_leave(history_bounds *b, const htc_history_op *op);
/* A row that has come to s may come to what the target needs, if there is more of it. */
int htc__history_may_reach(const history_bounds *b, const history_state *s, const htc_history_op *target);

/* Writes one value for all that no operation asks for. named and scratch hold 2 n. */
void htc__history_unspoken(htc_history_op *ops, size_t n, history_rank *named, history_rank *scratch);

/* ---- places that a search has visited ---- */

typedef struct history_fingerprint {
    uint64_t a, b;
} history_fingerprint;

typedef struct history_places {
    const htc_env       *env;
    history_fingerprint *seen; /* open addressing */
    size_t               cap, n, bytes_max;
} history_places;

/* 1: there is room for one more; 0: that would be more than bytes_max; -1: no memory. */
int htc__history_places_room(history_places *p);
/* 1: it is new; 0: it was visited. There is room. */
int htc__history_places_visit(history_places *p, history_fingerprint f);
/* There are none then. */
void htc__history_places_free(history_places *p);

/* ---- what is said ---- */

void htc__history_holds(htc_history_verdict *v);
/* The first line, printf; operations follow with htc__history_tell. */
void htc__history_say(const htc_history *h, htc_history_verdict *v, uint32_t answer, uint32_t key, const char *format,
                      ...) __attribute__((format(printf, 5, 6)));
void htc__history_tell(const htc_history *h, htc_history_verdict *v, size_t op);

htc_status htc__history_rules(const htc_history_rules *in, htc_history_rules *out);

/* ---- checkers ---- */

/* Judge key by key until one breaks the rule; what one leaves undecided is told if none does. */
typedef struct history_key {
    const htc_history       *h;
    const htc_history_rules *rules;
    htc_history_verdict     *v;
    const uint32_t          *ops;
    size_t                   n;
    htc_ns                   end; /* the last moment of the history */
    uint32_t                 key;
} history_key;

htc_status htc__history_each_key(const htc_history *h, const htc_history_rules *rules, htc_history_verdict *v,
                                 htc_status (*judge)(const history_key *k));

htc_status htc__history_search_key(const htc_history *h, const uint32_t *ops, size_t n, uint32_t key,
                                   const htc_history_rules *rules, htc_history_verdict *verdict);

#endif
