/* The design space of key-value stores: what a run has in memory (htcsched/sim_kvs.h). All of it but the ring is arrays without pointers into each other.
 *
 * Events are of clients, aggregators, the monitor, and messages between copies and about failures. A client's one request is in one place at a time,
 * so that the client is the id of every message on its way: asked, forwarded, looked up, returned, answered. What several messages of one
 * request are at once has numbers of its own: those of a list of free ones. */
#ifndef HTC_SIM_MODELS_KVS_H
#define HTC_SIM_MODELS_KVS_H

#include "htcsched/ring.h"
#include "htcsched/sim_kvs.h"
#include "sim/models/checked.h"

#define KVS_NONE  UINT32_MAX
#define KVS_FLIPS 64u /* the last ones are remembered: who knows less knows the older ones */

/* Where a client's request is. The event is its arrival there, but for those that say otherwise. */
enum {
    KVS_ASK,      /* on its way to the contact */
    KVS_LOOKUP,   /* a look-up, to the next hop */
    KVS_FOUND,    /* its answer, back along the path */
    KVS_FORWARD,  /* the operation, to who does it */
    KVS_RETURN,   /* its answer, to the contact */
    KVS_ANSWER,   /* the answer, to the client, who has unpacked it then */
    KVS_REFUSED,  /* the client learns that it was refused */
    KVS_BOUNCED,  /* the server `via` learns that its message was refused */
    KVS_GIVEN_UP, /* the client has no copy left to ask */
    KVS_HELD,     /* no event: the request waits for an aggregator or for copies */
    KVS_SENDING = 128 /* with one of them: `via` begins to pack it. Queues in parallel alone */
};

/* What a message between copies or about failures is. */
enum {
    KVS_FREE,
    KVS_COPY,     /* an operation, to another copy */
    KVS_COPIED,   /* its answer */
    KVS_REFUSAL,  /* no message: `from` learns that the copy was refused */
    KVS_TOLD,     /* by the monitor, of a server that is down */
    KVS_LIST,     /* by the monitor, to a server that is up again */
    KVS_NOTICE,   /* of a server that is down or up */
    KVS_SEEK,     /* a look-up of who has a server in its fingers, hop by hop to `goal` */
    KVS_SOUGHT,   /* its answer, back along the path */
    KVS_DATA,     /* of `goal` records */
    KVS_BACK,     /* data for a server that is up again: both clocks were booked when it was sent */
    KVS_DONE      /* data has arrived */
};

enum { KVS_PUT = 1, KVS_FAILED = 2, KVS_CONFLICT = 4, KVS_WRITE_BACK = 8, KVS_REFUSES = 16 };

/* Two of them are a line of the cache. */
typedef struct kvs_client {
    uint32_t done;    /* requests that have ended */
    uint32_t place;   /* of its key */
    uint32_t contact; /* the server that it has asked */
    uint32_t target;  /* where its message goes; while it is held: who coordinates */
    uint32_t via;     /* where that came from */
    uint32_t turn;    /* of its attempts: answers of earlier ones are late */
    uint8_t  stage, flags;
    uint8_t  tries;     /* refusals of this request */
    uint8_t  waiting;   /* copies that have not answered */
    uint8_t  successes, copies; /* copies: that were asked */
} kvs_client;

typedef struct kvs_server {
    uint64_t f, p;   /* ticks at which communication and processing are done with all that is booked */
    uint64_t held;   /* records whose first owner it is */
    uint32_t known;  /* flips that it knows of */
    uint32_t up;
} kvs_server;

typedef struct kvs_message {
    uint32_t client, turn; /* client: the next free message. turn: of a notice: flips */
    uint32_t from, to;
    uint32_t goal;        /* of a copy: which request of the client */
    uint8_t  kind, flags; /* kind: with KVS_SENDING as above */
} kvs_message;

/* An aggregator's clients are those from first on. One batch is on its way, since its clients wait for it. */
typedef struct kvs_aggregator {
    uint32_t first, clients, active; /* active: that have requests left */
    uint32_t waiting, on_way;        /* on_way: of these, in the batch */
    uint32_t root, refusals;
    uint32_t stage;                  /* KVS_FORWARD, KVS_BOUNCED, KVS_SENDING */
} kvs_aggregator;

/* Who draws. */
enum { KVS_STREAM_KEYS = 1, KVS_STREAM_OPERATIONS, KVS_STREAM_COORDINATORS, KVS_STREAM_STALLS, KVS_STREAM_FLIPS };

enum { KVS_REQUESTS, KVS_COPIES, KVS_FAILURES, KVS_KINDS };

typedef struct kvs {
    htc_env             env;
    htc_sim_kvs_options options;
    htc_scale          *scale;
    htc_ring           *ring;
    uint32_t            servers, aggregators, copies, reads, writes, seats; /* seats: candidates for a key, up ones and others */
    uint32_t            clients_a_server, parallel, chord, lazy;
    uint64_t            transmit, latency, pack, unpack, service, stall, timeout, failure, first_failure; /* ticks */
    double              bytes_ticks; /* of one message */
    uint64_t            keys, operations, coordinators, stalls, flips; /* streams */
    uint64_t            put_below; /* a draw is a put */
    uint64_t            part;      /* 2^64 / servers, rounded down */
    uint64_t            messages_max;
    uint64_t            at;           /* the present tick */
    uint32_t            first_batch, monitor, first_message; /* ids */
    double             *sum;                                 /* of weights up to each key */
    uint32_t           *sent_clock;                          /* of messages, N each */
    void               *client_room;
    /* What follows, and the engine, is what a checkpoint has. */
    kvs_client     *client; /* in client_room, at a multiple of 32 */
    kvs_server     *server; /* and, after them, aggregators */
    kvs_message    *message;
    kvs_aggregator *aggregator;
    uint32_t       *batch; /* clients that wait, by aggregator, in the order of arrival */
    uint32_t       *clock; /* of each key at each of its N copies, N counters each */
    struct kvs_state {
        uint32_t free_message, messages;            /* messages: that were ever used */
        uint32_t live, flips;                       /* live: messages that are no client's */
        uint32_t flip[KVS_FLIPS];                   /* who */
        uint64_t clients;                           /* that are not done */
        uint64_t answered, failed, write_backs, conflicts, refused;
        uint64_t received, served, packed;          /* by servers */
        uint64_t batch_pending;                     /* clients in batches */
        uint64_t response, last;                    /* response: ends less begins, in ticks. last: the last end */
        double   rate, rate_squares;
        htc_sim_kvs_count count[KVS_KINDS];
    } now;
} kvs;

/* ---- kvs_route.c: who owns a key, who is up, and the way there ---- */

/* The hash of the key of a client's request, and, if keys are few, its number. */
uint64_t htc__kvs_key(const kvs *m, uint32_t c, uint32_t request, uint64_t *index);
/* One of the keys, by these sums of weights. */
uint64_t htc__kvs_weighted(const double *sum, uint64_t keys, uint64_t bits);
/* Where a key is: its first owner, or its bucket. */
uint32_t htc__kvs_place(const kvs *m, uint64_t key);
uint32_t htc__kvs_at(const kvs *m, uint32_t place, uint32_t i);          /* candidate i, below m->seats */
int      htc__kvs_sees_up(const kvs *m, uint32_t s, uint32_t x);         /* as far as s knows */
uint32_t htc__kvs_members(const kvs *m, uint32_t s, uint32_t place, uint32_t most, uint32_t *out); /* the first that are up, as far as s knows */
uint32_t htc__kvs_after(const kvs *m, uint32_t s, uint32_t x, uint32_t i); /* the i-th up after x, from 0, x not counted; KVS_NONE */
uint32_t htc__kvs_next_hop(const kvs *m, uint32_t a, uint32_t goal);     /* towards who precedes goal; KVS_NONE: it is a */
uint32_t htc__kvs_hop_before(const kvs *m, uint32_t from, uint32_t a, uint32_t goal);

/* ---- kvs.c: requests ---- */

void htc__kvs_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__kvs_soon(const void *ctx, uint32_t id);
void htc__kvs_begin(kvs *m);
void htc__kvs_answer(kvs *m, uint32_t c, uint32_t s, uint64_t ready);        /* s has the answer */
void htc__kvs_lost(kvs *m, uint32_t c);                                      /* the request's coordinator is down */
void htc__kvs_operate(kvs *m, uint32_t c, uint32_t s, uint64_t ready);

/* ---- kvs_ctree.c ---- */

void htc__kvs_join(kvs *m, uint32_t a, uint32_t c, uint64_t ready); /* a request has arrived */
void htc__kvs_leave(kvs *m, uint32_t c);                            /* a client has no more requests */
void htc__kvs_batch(kvs *m, uint32_t a);                            /* event */

/* ---- kvs_copies.c ---- */

void htc__kvs_copy(kvs *m, uint32_t c, uint32_t s, uint64_t ready); /* s has done the operation: now the others */
void htc__kvs_message(kvs *m, uint32_t k);                          /* event */
/* A message from one server to another, with the next free number; NULL: there is none, and the run fails. */
kvs_message *htc__kvs_take(kvs *m, uint32_t kind, uint32_t from, uint32_t to);
void         htc__kvs_send(kvs *m, kvs_message *message, uint64_t ready);
void         htc__kvs_free(kvs *m, kvs_message *message);

/* ---- kvs_failures.c ---- */

void htc__kvs_flip(kvs *m);                              /* event of the monitor */
void htc__kvs_learn(kvs *m, uint32_t s, uint32_t flips); /* s knows them from now on, and does what it has to */
void htc__kvs_failure_message(kvs *m, kvs_message *k);   /* it has arrived, and its server is up */

/* ---- kvs_check.c ---- */

/* What was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__kvs_check(const kvs *m, const uint8_t *events);

/* ---- kvs_run.c: what the model of our own store shares ---- */

/* kvs_run.c: the options with their defaults. HTC_EINVAL; HTC_EABI. */
htc_status htc__kvs_known(const htc_sim_kvs_options *in, htc_sim_kvs_options *o);
htc_status htc__kvs_open_ring(const htc_env *env, uint32_t servers, uint32_t owners, htc_ring **out);
/* Sums of the weights up to each key. HTC_EINVAL: they are no numbers of which one is above 0. */
htc_status htc__kvs_sum_weights(const htc_sim_kvs_options *o, double *sum);
double     htc__kvs_root(double x);

/* ---- draws ---- */

__extension__ typedef unsigned __int128 kvs_wide;

/* An even draw below n. */
static inline uint64_t kvs_below(uint64_t bits, uint64_t n)
{
    return (uint64_t)((kvs_wide)bits * n >> 64);
}

/* ---- the request that a client is at ---- */

static inline uint32_t kvs_request(const kvs_client *client)
{
    return client->done - !!(client->flags & KVS_WRITE_BACK);
}

static inline uint32_t kvs_place(const kvs *m, uint32_t c)
{
    return m->client[c].place;
}

/* x modulo the number of servers: the quotient that this begins with is too small by one or two at most. */
static inline uint32_t kvs_modulo(const kvs *m, uint64_t x)
{
    uint64_t rest = x - (uint64_t)((kvs_wide)x * m->part >> 64) * m->servers;
    while (rest >= m->servers)
        rest -= m->servers;
    return (uint32_t)rest;
}

/* ---- clocks of a server ---- */

static inline uint64_t kvs_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* When it has unpacked what arrives now. */
static inline uint64_t kvs_receive(kvs *m, uint32_t s)
{
    kvs_server *v = &m->server[s];
    m->now.received++;
    return v->f = kvs_later(v->f, m->at) + m->unpack;
}

/* When it has served what it has unpacked. */
static inline uint64_t kvs_process(kvs *m, uint32_t s, uint64_t ready)
{
    kvs_server *v = &m->server[s];
    m->now.served++;
    return v->p = kvs_later(v->p, m->parallel ? ready : kvs_later(v->f, ready)) + m->service;
}

/* When it has packed what it sends. Queues in parallel are booked when it is ready: at this very moment. */
static inline uint64_t kvs_pack(kvs *m, uint32_t s, uint64_t ready)
{
    kvs_server *v = &m->server[s];
    m->now.packed++;
    return v->f = kvs_later(v->f, ready) + m->pack;
}

/* Whether packing has to be an event of its own. */
static inline int kvs_later_on(const kvs *m, uint64_t ready)
{
    return m->parallel && ready > m->at;
}

static inline void kvs_sent(kvs *m, int kind)
{
    m->now.count[kind].sent++;
}

static inline int kvs_arrived(kvs *m, int kind, uint32_t s)
{
    htc_sim_kvs_count *n = &m->now.count[kind];
    if (m->server[s].up) {
        n->received++;
        return 1;
    }
    n->lost++;
    return 0;
}

#endif
