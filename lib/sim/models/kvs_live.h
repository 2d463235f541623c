/* The model of this library's own store: what a run has in memory. All of it but the ring is arrays without pointers into each other.
 *
 * Members and clients' programs are processes. A process takes all that has come in one turn. What it sends goes in a frame for each connection, of which a
 * client has one to each member; frames leave one after the other when all else of the turn is done. What is to be durable is staged, and one sync at a time makes all
 * that was staged before it durable; answers that depend on it leave in a turn after that, and the next sync begins when that turn is over. A member that is alone
 * syncs in its own thread, as ours does, and takes nothing meanwhile.
 *
 * Events are of frames, of members' syncs, and of processes (a turn begins or ends), in this order: what comes in one tick comes before the turn that takes it. */
#ifndef HTC_SIM_MODELS_KVS_LIVE_H
#define HTC_SIM_MODELS_KVS_LIVE_H

#include "htcsched/ring.h"
#include "htcsched/sim_kvs.h"
#include "sim/scale/draw.h"

#define LIVE_NONE UINT32_MAX

/* What an item in a frame or a queue is. */
enum {
    LIVE_BEGIN,   /* to a client: its first request */
    LIVE_ASK,     /* a request, to the owner that proposes */
    LIVE_READ,    /* to an owner */
    LIVE_PREPARE, /* the same, durable before it is answered */
    LIVE_ACCEPT,  /* the same */
    LIVE_REPLY,   /* an owner's answer */
    LIVE_ANSWER   /* to the client */
};

/* A request on its way: client * depth + slot. */
typedef struct live_op {
    uint64_t begun;
    uint32_t turn;        /* what is of an earlier one is late */
    uint32_t key;         /* LIVE_NONE: its own */
    uint32_t bucket, at;  /* at: the member that proposes */
    uint32_t waits;       /* the next one for the same key */
    uint8_t  put, phase;  /* LIVE_READ, LIVE_PREPARE or LIVE_ACCEPT */
    uint8_t  answers, listed; /* listed: it waits for its key, or is what is under way for it */
} live_op;

typedef struct live_item {
    uint32_t next, op, turn, from;
    uint32_t kind;
} live_item;

typedef struct live_list {
    uint32_t first, last;
} live_list;

typedef struct live_frame {
    live_list items;
    uint32_t  to, next;
    uint32_t  n, from;
    uint32_t  link; /* between members that of the receiver; else the client's, behind those */
} live_frame;

enum { LIVE_IDLE, LIVE_READY, LIVE_BEGINS, LIVE_RUNS, LIVE_SYNCS }; /* SYNCS: it stands still until it has synced */

typedef struct live_process {
    live_list inbox, staged, syncing;
    uint32_t  frames;          /* in which what is in the inbox came */
    uint32_t  out, out_last;   /* frames that leave at the end of the turn */
    uint32_t  next;            /* that is ready, too */
    uint8_t   state, in_sync, stored, awake; /* in_sync: one is under way, or it is over (stored) and not yet seen; awake: it goes on with what has come in its last turn */
    uint64_t  busy;            /* ticks */
} live_process;

typedef struct live_key {
    uint32_t first, last; /* requests that wait, or LIVE_NONE */
    uint32_t busy;        /* the request that is under way, or LIVE_NONE */
    uint32_t joined : 31, known : 1; /* joined: reads that wait and have its answer. known: the proposer has (ballot, value) */
} live_key;

typedef struct live_client {
    uint32_t begun, done;
} live_client;

typedef struct live {
    htc_env             env;
    htc_sim_kvs_options options;
    htc_scale          *scale;
    htc_ring           *ring;
    uint32_t            members, programs, owners, majority, depth;
    uint32_t            first_sync, first_process; /* ids; those of frames begin at 0 */
    uint32_t            items_max, frames_max;
    uint64_t            latency, pack, unpack, service, accept, client_cost, turn, wake, idle, commit, write, sync, stall;
    double              byte_ticks; /* of a message */
    uint64_t            keys, operations, stalls;
    uint64_t            put_below;
    double             *sum;
    uint32_t           *frame_of; /* of this turn, by link; LIVE_NONE */
    uint64_t            spent;    /* ticks of this turn so far */
    /* What follows, and the engine, is what a checkpoint has. */
    live_op      *op;
    live_client  *client;
    live_process *process;
    live_item    *item;
    live_frame   *frame;
    live_key     *key;
    struct live_state {
        uint32_t  free_item, free_frame, items, frames; /* items, frames: that were ever used */
        live_list ready;                                /* processes that wait for a core */
        uint32_t  running; /* that have a core */
        uint64_t  answered, clients;
        uint64_t  response, last, syncs, turns;
        uint64_t  served; /* ticks of service */
        double    rate, rate_squares;
        htc_sim_kvs_count requests, between;
    } now;
} live;

/* kvs_live.c */
void htc__live_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__live_begin(live *m);

/* kvs_live_check.c: what was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__live_check(const live *m, const uint8_t *events);

/* kvs_live_run.c. The options are known and have their defaults. */
uint64_t   htc__live_memory(const htc_sim_kvs_options *o);
htc_status htc__live_run(const htc_env *env, const htc_sim_kvs_options *o, htc_sim_kvs_report *r, htc_error *error);
/* The defaults of this model. */
void       htc__live_defaults(htc_sim_kvs_options *o);

#endif
