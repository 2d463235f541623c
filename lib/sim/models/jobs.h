/* Partition controllers and a central controller: what a run has in memory (htcsched/sim_jobs.h).
 *
 * A slot is a job on its way from its submission until it has given back all. Slots are the ids of events: each has one pending event at most, and
 * what a message says stands in the slot of the job that waits for its answer. */
#ifndef HTC_SIM_MODELS_JOBS_H
#define HTC_SIM_MODELS_JOBS_H

#include "core/codec.h"
#include "htcsched/record.h"
#include "htcsched/sim_jobs.h"
#include "sim/models/asked.h"
#include "sim/scale/scale_private.h"

#define JOBS_NONE UINT32_MAX

/* What the pending event of a slot is. */
typedef enum jobs_phase {
    JOBS_FREE,
    JOBS_PARSED,   /* the controller has read the job */
    JOBS_LOOKS,    /* a look-up reaches its member */
    JOBS_LOOKED,   /* its answer is there */
    JOBS_SWAPS,    /* a compare-and-swap reaches its member */
    JOBS_SWAPPED,  /* its answer is there */
    JOBS_INSERTS,  /* an insert reaches its member */
    JOBS_INSERTED, /* its answer is there */
    JOBS_WAITED,   /* a wait is over */
    JOBS_RAN,      /* the job has ended */
    JOBS_COLLECTED /* its controller knows */
} jobs_phase;

typedef struct jobs_slot {
    uint64_t             job, begun; /* begun: tick of the submission */
    uint64_t             asked;      /* messages */
    htc_balance_request *request;    /* NULL: it has its nodes */
    uint32_t             controller, need;
    uint32_t             holding; /* the first of its holdings, or JOBS_NONE; of a free slot the next free one */
    uint32_t             holdings;
    uint8_t              phase, gives, swapped; /* gives: all goes back; swapped: the last swap was done */
    uint32_t             target, want;          /* want: take at most so many; of inserts, how many are left */
    uint32_t             seen, seen_free;       /* what the member has answered: version and free nodes */
    uint32_t             taken;                 /* by the last swap */
} jobs_slot;

/* Nodes of a partition that a job holds. */
typedef struct jobs_holding {
    uint32_t partition, nodes, next;
} jobs_holding;

/* A partition: its controller, its member, its record. */
typedef struct jobs_part {
    htc_balance *balance;
    uint8_t     *record;
    uint32_t     len, room;
    uint32_t     version, free; /* of the record */
    uint32_t     pulls;         /* of this controller: 0: the next pull is due, 1: the request reaches the store, 2: the answer is there */
    htc_rng      rng;
    uint64_t     next;          /* job, of this controller */
    uint64_t     busy, serves;  /* until when: the controller, the member */
} jobs_part;

/* Memory of a transform of a record. */
typedef struct jobs_arena {
    htc_env   env; /* gives it out */
    htc_alloc alloc;
    uint8_t  *data;
    size_t    used, room;
    const htc_env *behind; /* what does not fit */
} jobs_arena;

typedef struct jobs {
    htc_env              env;
    htc_sim_jobs_options options;
    asked_balance        asked_place;
    asked_fit            asked_order;
    char                 answer[ASKED_TEXT]; /* of a policy, that is not allowed; "": there was none */
    htc_scale           *scale;
    uint32_t             parts, slots_max; /* slots_max: ids of slots; then one for each controller's pulls, and one for the monitor or the central controller */
    jobs_part           *part;
    jobs_slot           *slot;
    uint32_t             slots, slots_room, free_slot;
    jobs_holding        *holding;
    uint32_t             holdings, holdings_room, free_holding;
    uint64_t            *held; /* bits of nodes, each partition from a word of its own on: what was taken and not given back */
    size_t               part_words;
    uint64_t            *lengths; /* of a source: of each slot's job, in ticks; NULL: there is none */
    uint64_t             source_at; /* the last arrival, in ticks */
    uint64_t            *after; /* of the list: the next job of the same controller, or the number of jobs */
    htc_record_set      *got;
    jobs_arena           arena;
    htc__scale_drawer    length;
    uint64_t             size_stream, length_stream, place_stream;
    uint64_t             jobs, ended, left; /* left: not ended yet */
    uint64_t             store, hop, launch, tick_ns; /* ticks; hop: a message without contents */
    double               byte_ns;
    uint64_t             usable, taken; /* nodes */
    /* the monitor */
    htc_balance_monitor *monitor;
    htc_buf              census;
    uint64_t             census_serves;
    uint32_t             looks, look_target, look_free; /* looks: the monitor's pending event: 0: a wait is over, 1: a request reaches its member, 2: the answer is there */
    /* the central controller */
    htc_fit             *fit;
    uint32_t             serving; /* a slot, or JOBS_NONE */
    uint64_t             sample; /* ticks; 0: none are taken */
    /* what is told */
    struct jobs_told {
        uint64_t granted, requests, requests_granted, services, swaps, conflicts, steals, rounds, latency, latency_max, node_ticks;
        uint64_t sized[4];
        uint64_t submitted, sampled; /* sampled: when the next one is due */
        uint64_t running, busy;      /* jobs between grant and end, and their nodes */
    } now;
    char                 wrong[160];
} jobs;

/* jobs.c */
void     htc__jobs_event(htc_scale *scale, void *ctx, uint32_t id);
void     htc__jobs_soon(const void *ctx, uint32_t id);
void     htc__jobs_begin(jobs *m); /* the first events */
void     htc__jobs_launch(jobs *m, uint32_t s);
void     htc__jobs_next(jobs *m, uint32_t c); /* the controller's, if it has one */
void     htc__jobs_granted(jobs *m, uint32_t s);
void     htc__jobs_over(jobs *m, uint32_t s);
uint64_t htc__jobs_message(const jobs *m, uint64_t bytes); /* ticks */
uint64_t htc__jobs_levels(const jobs *m, uint64_t nodes);  /* of the tree */
uint64_t htc__jobs_length(const jobs *m, uint32_t s);      /* ticks */
uint32_t htc__jobs_need(const jobs *m, uint64_t job);

uint64_t htc__jobs_length_of(const jobs *m, uint64_t job); /* drawn or listed, ticks */
htc_sim_jobs_job htc__jobs_listed(const jobs *m, uint64_t job);
uint32_t htc__jobs_place(const jobs *m, uint64_t job, uint32_t record); /* the member that has one of a job's records */
void     htc__jobs_count_granted(jobs *m, uint32_t need, uint64_t latency, uint64_t asked);

/* jobs_run.c: what the exact twin shares. Options with their defaults: HTC_EINVAL; HTC_EABI. Of each partition the nodes, and those out of use. */
htc_status htc__jobs_known(const htc_sim_jobs_options *in, htc_sim_jobs_options *o);
uint32_t   htc__jobs_nodes_of(const htc_sim_jobs_options *o, uint32_t p);
uint32_t   htc__jobs_down_of(const htc_sim_jobs_options *o, uint32_t p);
void       htc__jobs_fill(jobs *m); /* what its options say */
htc_status htc__jobs_check_list(const jobs *m, htc_error *error);
htc_status htc__jobs_order_list(jobs *m); /* each controller's next job; its partitions are there */
void       htc__jobs_figures(jobs *m, double latency_s, htc_sim_jobs_report *r); /* of m->now, whose latency is in this unit; and what is wrong in the end */

/* jobs_record.c: each answers a status, and what is taken or given back is in the ledger of nodes. */
htc_status htc__jobs_record_open(jobs *m, uint32_t p, uint32_t nodes, uint32_t down);
htc_status htc__jobs_record_take(jobs *m, uint32_t s, uint32_t p, uint32_t most, uint32_t *taken);
htc_status htc__jobs_record_give(jobs *m, uint32_t s, uint32_t p);
void       htc__jobs_move_nodes(jobs *m, const htc_record_set *set, uint32_t p, int takes, uint32_t *moved); /* the ledger: wrong if one is taken or given back twice */
void       htc__jobs_arena_open(jobs *m);
void       htc__jobs_arena_close(jobs *m);

/* jobs_monitor.c: the census, and who reads it. */
void htc__jobs_monitor_event(jobs *m);
void htc__jobs_pull_event(jobs *m, uint32_t c);

/* jobs_tape.c */
int        htc__jobs_has_tape(const htc_sim_jobs_options *o); /* its policy can be written down */
htc_status htc__jobs_tape(jobs *m, const htc_scale_tape *tape);

/* jobs_check.c: what was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__jobs_check(const jobs *m, const uint8_t *events);

/* jobs_central.c */
void htc__jobs_central_submit(jobs *m, uint32_t s);
void htc__jobs_central_event(jobs *m); /* it has dealt with a job */
void htc__jobs_central_ended(jobs *m, uint32_t s);

static inline uint64_t htc__jobs_now(const jobs *m)
{
    return htc__scale_time(m->scale);
}

static inline htc_ns htc__jobs_now_ns(const jobs *m)
{
    return htc__scale_time(m->scale) * m->tick_ns;
}

/* The tick at which a moment has come. */
static inline uint64_t htc__jobs_tick(const jobs *m, htc_ns at)
{
    return at / m->tick_ns + (at % m->tick_ns != 0);
}

/* A member serves one request after the other: when the next one is answered. */
static inline uint64_t htc__jobs_served(const jobs *m, uint64_t *serves)
{
    uint64_t now = htc__jobs_now(m);
    *serves = (*serves > now ? *serves : now) + m->store;
    return *serves;
}

#endif
