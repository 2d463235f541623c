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
