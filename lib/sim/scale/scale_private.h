/* A run of a scale model: one part or several, each with its own queue and ledger (htcsched/sim_scale.h). What a model is given is a part. */
#ifndef HTC_SIM_SCALE_PRIVATE_H
#define HTC_SIM_SCALE_PRIVATE_H

#include "core/util.h"
#include "sim/scale/draw.h"
#include "sim/scale/ladder.h"

/* What is counted, so that nothing is lost or made. Sums of ticks are modulo 2^64, which their differences do not notice. */
typedef struct ledger {
    uint64_t submitted, started, ended;
    uint64_t sent, received, lost;
    uint64_t begins, ends;          /* sums of the ticks at which tasks begin and end */
    uint64_t work, longest;         /* of those that were started */
    uint64_t first_submit, last_end;
    uint64_t overflow;              /* work is beyond 2^64 ticks */
} ledger;

/* Events that this part has asked for in another one, until the window is over. */
typedef struct outbox {
    uint64_t *key;
    size_t    n, room;
} outbox;

typedef struct run run;

struct htc_scale {
    run       *run;
    ladder    *queue;
    outbox    *out;      /* one for each part */
    uint64_t   first_id, ids; /* its own */
    uint64_t   tick_max, window_end, seed_state;
    uint32_t   id_bits, running; /* running: a window is gone through, and other parts are not to be touched */
    htc_status status;
    /* From here on, and in the queue, is what a checkpoint has. */
    uint64_t now, events, hash;
    ledger   ledger;
    uint64_t apart[16]; /* parts share no cache line */
};

struct run {
    htc_env           env;
    htc_scale_options options;
    htc_scale_host    host;
    htc_scale        *part;
    uint32_t          parts, shared;       /* shared: each part may have any id */
    uint64_t          window;              /* ticks */
    int (*turn)(run *r, uint64_t events);  /* the model's own loop of a run with shared ids */
    htc_ns            begun, told, looked; /* by the host's clock */
    uint64_t          look_every, look_events, done_before; /* done_before: tasks that had ended when htc_scale_run began */
    uint64_t          events_before, stop_at;               /* events: when it began, and at which it stops */
    const char       *cannot_be;                            /* what of a checkpoint that was read; NULL: nothing */
};

/* A span in ticks. */
static inline uint64_t htc__scale_rounded(htc_ns span, htc_ns tick)
{
    return span / tick + (span % tick >= tick - tick / 2);
}

/* htc_scale_now, htc_scale_messages and htc_scale_end without a call, for the models. */
static inline uint64_t htc__scale_time(const htc_scale *scale)
{
    return scale->now;
}
static inline void htc__scale_messages(htc_scale *scale, uint64_t sent, uint64_t received, uint64_t lost)
{
    scale->ledger.sent += sent;
    scale->ledger.received += received;
    scale->ledger.lost += lost;
}
static inline void htc__scale_end(htc_scale *scale)
{
    scale->ledger.ended++;
    scale->ledger.ends += scale->now;
    scale->ledger.last_end = scale->now;
}

/* A task of no length begins now, without an event of its own: htc_scale_end follows at once. */
void htc__scale_began(htc_scale *scale);

/* All parts together. */
ledger     htc__scale_ledger(const run *r);
uint64_t   htc__scale_events(const run *r);
uint64_t   htc__scale_now(const run *r);
htc_status htc__scale_status(const run *r);
int        htc__scale_pending(const run *r);
uint64_t   htc__scale_memory(const htc_scale_options *o, uint32_t parts);

/* As htc_scale_create and htc_scale_memory, with so many parts that may have any id each: whose it is, the model knows, and asks that part for its events.
 * turn lets about so many events happen and leaves the state that a checkpoint has; it answers 0 if nothing is pending. */
htc_status htc__scale_create_shared(const htc_env *env, const htc_scale_options *options, uint32_t parts, int (*turn)(run *r, uint64_t events), htc_scale **out, htc_error *error);
htc_status htc__scale_memory_shared(const htc_scale_options *options, uint32_t parts, uint64_t *bytes);

/* Call it once for each part, at the same time if the host has threads. */
void htc__scale_each_part(run *r, void (*work)(void *arg, uint32_t i));

/* This key was taken from the queue, and is no earlier than the one before; and its event happens. */
static inline void htc__scale_take(htc_scale *s, uint64_t key)
{
    s->now = key >> s->id_bits;
    s->hash += htc__scale_mix(key ^ s->seed_state);
    s->events++;
}

static inline void htc__scale_happen(htc_scale *s, uint64_t key, uint64_t id_mask)
{
    htc__scale_take(s, key);
    s->run->options.event(s, s->run->options.ctx, (uint32_t)(key & id_mask));
}

#endif
