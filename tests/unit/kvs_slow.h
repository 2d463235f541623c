/* The store model again, slow and obvious: events in a list that is searched for the earliest, finger tables that are written down, paths that are kept, and
 * a set of answers for each operation. Without failures. It draws the same numbers as lib/sim/models/kvs.c, and has to come to the same end. */
#ifndef HTC_TESTS_KVS_SLOW_H
#define HTC_TESTS_KVS_SLOW_H

#include <string.h>

#include "sim/models/kvs.h"

#define SLOW_CLIENTS  64
#define SLOW_SERVERS  24
#define SLOW_MESSAGES 4096

typedef enum slow_stage { SLOW_IDLE, SLOW_TO_SERVER, SLOW_AT_AGGREGATOR, SLOW_LOOKUP, SLOW_BACK, SLOW_OPERATION, SLOW_RETURN, SLOW_TO_CLIENT, SLOW_COPY, SLOW_COPIED } slow_stage;

typedef struct slow_event {
    int        used, pack_first; /* pack_first: the event is the moment at which `from` begins to pack it */
    uint64_t   tick;
    slow_stage stage;
    int        client, from, to, turn, put;
} slow_event;

typedef struct slow_client {
    uint32_t done;
    int      put, contact, doer, turn, waits, needed, got;
    int      path[40], steps; /* of a look-up: the servers that it came through */
    uint64_t begun;
} slow_client;

typedef struct slow {
    const htc_sim_kvs_options *o;
    uint64_t    now, f[SLOW_SERVERS + SLOW_CLIENTS], p[SLOW_SERVERS + SLOW_CLIENTS];
    uint64_t    transmit, latency, pack, unpack, service;
    double      wire;
    slow_event  event[SLOW_CLIENTS + SLOW_MESSAGES]; /* of clients, then of messages */
    int         free_number[SLOW_MESSAGES], n_free, n_used;
    slow_client client[SLOW_CLIENTS];
    int         n, aggregators, copies;
    int         waiting[SLOW_CLIENTS][SLOW_CLIENTS], n_waiting[SLOW_CLIENTS]; /* at each aggregator */
    slow_event  batch[SLOW_CLIENTS];
    uint64_t    requests_sent, consistency_sent, last, response, answered;
    htc_ring   *ring;
} slow;

static inline uint64_t slow_draw(const slow *w, uint64_t stream, uint64_t counter)
{
    return htc__scale_draw(htc__scale_stream(w->o->seed, stream), counter);
}

/* The servers that hold the key of the client's request, the first owner first. */
static inline void slow_owners(const slow *w, int c, int *owner)
{
    uint64_t key = slow_draw(w, KVS_STREAM_KEYS, (uint64_t)c * w->o->requests + w->client[c].done);
    int      first = 0;
    if (w->ring) {
        uint32_t seats[HTC_RING_OWNERS_MAX];
        htc_ring_owners(w->ring, htc_ring_bucket(w->ring, key), seats);
        for (int i = 0; i < w->copies; i++)
            owner[i] = (int)seats[i];
        return;
    }
    if (w->o->model == HTC_SIM_KVS_DFC)
        first = (int)(key % (uint64_t)w->n);
    if (w->o->model == HTC_SIM_KVS_DCHORD)
        while (first + 1 < w->n && (key >> 32) >= (((uint64_t)(first + 1) << 32) + (uint64_t)w->n - 1) / (uint64_t)w->n)
            first++;
    for (int i = 0; i < w->copies; i++)
        owner[i] = (first + i) % w->n;
}

/* Is x after a and before b, on the circle? */
static inline int slow_between(int a, int x, int b)
{
    return a < b ? a < x && x < b : x > a || x < b;
}

/* The closest finger of a that precedes the owner; -1: none, a is the predecessor. */
static inline int slow_finger(const slow *w, int a, int owner)
{
    int best = -1;
    for (int step = 1; step < w->n; step *= 2) {
        int finger = (a + step) % w->n;
        if (slow_between(a, finger, owner))
            best = finger;
    }
    return best;
}

static inline void slow_pack(slow *w, slow_event *e, uint64_t ready)
{
    uint64_t *f = &w->f[e->from], way = w->transmit;
    *f = (*f > ready ? *f : ready) + w->pack;
    e->tick = *f + way + (e->stage == SLOW_TO_CLIENT ? w->unpack : 0);
    e->pack_first = 0;
    e->used = 1;
}

static inline void slow_send(slow *w, slow_event *e, slow_stage stage, int from, int to, uint64_t ready)
{
    e->stage = stage;
    e->from = from;
    e->to = to;
    *(stage >= SLOW_COPY ? &w->consistency_sent : &w->requests_sent) += 1;
    if (w->o->queues == HTC_SIM_KVS_PARALLEL && ready > w->now) {
        e->tick = ready;
        e->pack_first = e->used = 1;
    } else {
        slow_pack(w, e, ready);
    }
}

static inline uint64_t slow_receive(slow *w, int s)
{
    w->f[s] = (w->f[s] > w->now ? w->f[s] : w->now) + w->unpack;
    return w->f[s];
}

static inline uint64_t slow_serve(slow *w, int s, uint64_t ready)
{
    if (w->o->queues == HTC_SIM_KVS_COUPLED)
        ready = w->f[s];
    w->p[s] = (w->p[s] > ready ? w->p[s] : ready) + w->service;
    return w->p[s];
}

static inline void slow_ask(slow *w, int c, uint64_t delay)
{
    slow_client *k = &w->client[c];
    uint64_t     number = (uint64_t)c * w->o->requests + k->done;
    int          owner[HTC_SIM_KVS_COPIES_MAX], a_server = (int)((w->o->clients + (uint64_t)w->n - 1) / (uint64_t)w->n);
    k->put = !w->o->no_puts && slow_draw(w, KVS_STREAM_OPERATIONS, number) >> 1 < (uint64_t)(w->o->puts * 0x1p63);
    k->begun = w->now + delay;
    slow_owners(w, c, owner);
    if (w->aggregators)
        k->contact = w->n + c * w->aggregators / (int)w->o->clients;
    else if (w->o->select == HTC_SIM_KVS_SELECT_CLIENT)
        k->contact = owner[0];
    else
        k->contact = w->o->model < HTC_SIM_KVS_DFC ? 0 : c / a_server;
    k->steps = 0;
    w->requests_sent++;
    w->event[c] = (slow_event){ .used = 1, .tick = w->now + delay + w->pack + w->transmit, .stage = w->aggregators ? SLOW_AT_AGGREGATOR : SLOW_TO_SERVER, .client = c, .to = k->contact };
}

static inline void slow_answer(slow *w, int c, int s, uint64_t ready)
{
    w->client[c].turn++;
    w->client[c].waits = 0;
    if (s == w->client[c].contact)
        slow_send(w, &w->event[c], SLOW_TO_CLIENT, s, -1, ready);
    else
        slow_send(w, &w->event[c], SLOW_RETURN, s, w->client[c].contact, ready);
}

static inline void slow_operate(slow *w, int c, int s, uint64_t ready)
{
    slow_client *k = &w->client[c];
    int          owner[HTC_SIM_KVS_COPIES_MAX], others = w->copies - 1;
    slow_owners(w, c, owner);
    ready = slow_serve(w, s, ready);
    w->event[c].used = 0;
    if (others == 0 || (w->o->consistency == HTC_SIM_KVS_STRONG && !k->put)) {
        slow_answer(w, c, s, ready);
        return;
    }
    k->turn++;
    k->doer = s;
    k->got = 0;
    k->waits = 1;
    k->needed = w->o->consistency == HTC_SIM_KVS_STRONG ? others : w->o->consistency == HTC_SIM_KVS_MAJORITY ? w->copies / 2 : (int)(k->put ? w->o->writes : w->o->reads) - 1;
    for (int i = 0; i < w->copies; i++) {
        if (owner[i] == s)
            continue;
        int number = w->n_free ? w->free_number[--w->n_free] : w->n_used++;
        w->event[SLOW_CLIENTS + number] = (slow_event){ .client = c, .turn = k->turn };
        slow_send(w, &w->event[SLOW_CLIENTS + number], SLOW_COPY, s, owner[i], ready);
    }
    if (k->needed == 0)
        slow_answer(w, c, s, ready);
}

/* The contact has it. */
static inline void slow_route(slow *w, int c, int s, uint64_t ready)
{
    slow_client *k = &w->client[c];
    int          owner[HTC_SIM_KVS_COPIES_MAX], doer, finger = -1;
    slow_owners(w, c, owner);
    doer = owner[0];
    if (w->o->consistency == HTC_SIM_KVS_EVENTUAL && w->copies > 1) {
        doer = owner[slow_draw(w, KVS_STREAM_COORDINATORS, (uint64_t)c << 32 | (uint32_t)k->turn) % (uint64_t)w->copies];
        for (int i = 0; i < w->copies; i++)
            doer = owner[i] == s ? s : doer;
    }
    if (doer == s) {
        slow_operate(w, c, s, ready);
        return;
    }
    k->doer = doer;
    if (w->o->model == HTC_SIM_KVS_DCHORD)
        finger = slow_finger(w, s, owner[0]);
    if (finger < 0) {
        slow_send(w, &w->event[c], SLOW_OPERATION, s, doer, ready);
        return;
    }
    k->path[k->steps++] = s;
    slow_send(w, &w->event[c], SLOW_LOOKUP, s, finger, ready);
}

static inline void slow_send_batch(slow *w, int a, uint64_t ready)
{
    int s = w->n + a;
    w->requests_sent++;
    if (w->o->queues == HTC_SIM_KVS_PARALLEL && ready > w->now) {
        w->batch[a] = (slow_event){ .used = 1, .pack_first = 1, .tick = ready };
        return;
    }
    w->f[s] = (w->f[s] > ready ? w->f[s] : ready) + w->pack;
    w->batch[a] = (slow_event){ .used = 1, .tick = w->f[s] + w->latency + (uint64_t)(w->n_waiting[a] * w->wire + 0.5) };
}

static inline int slow_active(const slow *w, int a)
{
    int active = 0;
    for (int c = 0; c < (int)w->o->clients; c++)
        active += c * w->aggregators / (int)w->o->clients == a && w->client[c].done < w->o->requests;
    return active;
}

static inline void slow_batch_if_all(slow *w, int a, uint64_t ready)
{
    if (w->n_waiting[a] && w->n_waiting[a] == slow_active(w, a) && !w->batch[a].used)
        slow_send_batch(w, a, ready);
}

static inline void slow_ends(slow *w, int c)
{
    slow_client *k = &w->client[c];
    w->last = w->now;
    w->response += w->now - k->begun;
    w->answered++;
    k->done++;
    w->event[c].used = 0;
    if (k->done < w->o->requests)
        slow_ask(w, c, 0);
    else if (w->aggregators)
        slow_batch_if_all(w, c * w->aggregators / (int)w->o->clients, w->now);
}

static inline void slow_happens(slow *w, slow_event *e, int id)
{
    int          c = e->client, s = e->to;
    slow_client *k = &w->client[c];
    int          owner[HTC_SIM_KVS_COPIES_MAX];
    if (e->pack_first) {
        slow_pack(w, e, w->now);
        return;
    }
    if (e->stage == SLOW_TO_CLIENT) {
        slow_ends(w, c);
        return;
    }
    uint64_t ready = slow_receive(w, s);
    slow_owners(w, c, owner);
    switch (e->stage) {
    case SLOW_TO_SERVER:
        slow_route(w, c, s, ready);
        break;
    case SLOW_AT_AGGREGATOR: {
        int a = s - w->n;
        e->used = 0;
        w->waiting[a][w->n_waiting[a]++] = c;
        slow_batch_if_all(w, a, ready);
        break;
    }
    case SLOW_LOOKUP: {
        int finger = slow_finger(w, s, owner[0]);
        if (finger >= 0) {
            k->path[k->steps++] = s;
            slow_send(w, e, SLOW_LOOKUP, s, finger, ready);
        } else {
            slow_send(w, e, SLOW_BACK, s, k->path[--k->steps], ready);
        }
        break;
    }
    case SLOW_BACK:
        if (k->steps)
            slow_send(w, e, SLOW_BACK, s, k->path[--k->steps], ready);
        else if (w->o->consistency == HTC_SIM_KVS_EVENTUAL && w->copies > 1)
            slow_send(w, e, SLOW_OPERATION, s, owner[slow_draw(w, KVS_STREAM_COORDINATORS, (uint64_t)c << 32 | (uint32_t)k->turn) % (uint64_t)w->copies], ready);
        else
            slow_send(w, e, SLOW_OPERATION, s, owner[0], ready);
        break;
    case SLOW_OPERATION:
        slow_operate(w, c, s, ready);
        break;
    case SLOW_RETURN:
        slow_answer(w, c, s, ready);
        break;
    case SLOW_COPY:
        slow_send(w, e, SLOW_COPIED, s, e->from, slow_serve(w, s, ready));
        break;
    case SLOW_COPIED:
        e->used = 0;
        w->free_number[w->n_free++] = id;
        if (k->waits && k->turn == e->turn && ++k->got == k->needed)
            slow_answer(w, c, s, ready);
        break;
    default:
        break;
    }
}

static inline void slow_batch_arrives(slow *w, int a)
{
    if (w->batch[a].pack_first) {
        w->requests_sent--;
        slow_send_batch(w, a, w->now);
        return;
    }
    int n = w->n_waiting[a];
    w->batch[a].used = 0;
    w->n_waiting[a] = 0;
    uint64_t ready = slow_receive(w, 0);
    for (int i = 0; i < n; i++) {
        w->client[w->waiting[a][i]].contact = 0;
        slow_operate(w, w->waiting[a][i], 0, ready);
    }
}

/* Events of one tick happen in this order: of clients, of aggregators, of messages. */
static inline void slow_run(slow *w)
{
    for (;;) {
        uint64_t tick = UINT64_MAX;
        int      kind = 0, at = 0, clients = (int)w->o->clients;
        for (int i = 0; i < clients; i++)
            if (w->event[i].used && w->event[i].tick < tick)
                tick = w->event[at = i].tick;
        for (int i = 0; i < w->aggregators; i++)
            if (w->batch[i].used && w->batch[i].tick < tick) {
                tick = w->batch[at = i].tick;
                kind = 1;
            }
        for (int i = 0; i < w->n_used; i++)
            if (w->event[SLOW_CLIENTS + i].used && w->event[SLOW_CLIENTS + i].tick < tick) {
                tick = w->event[SLOW_CLIENTS + i].tick;
                at = i;
                kind = 2;
            }
        if (tick == UINT64_MAX)
            return;
        w->now = tick;
        if (kind == 1)
            slow_batch_arrives(w, at);
        else
            slow_happens(w, &w->event[kind ? SLOW_CLIENTS + at : at], at);
    }
}

#endif
