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
    uint32_t          parts;
    uint64_t          window;              /* ticks */
    htc_ns            begun, told, looked; /* by the host's clock */
    uint64_t          look_every, look_events, done_before; /* done_before: tasks that had ended when htc_scale_run began */
};

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
uint64_t   htc__scale_memory(const htc_scale_options *o);

#endif
