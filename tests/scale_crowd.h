/* A scale model in parts, and a host with two threads. */
#ifndef HTC_TESTS_SCALE_CROWD_H
#define HTC_TESTS_SCALE_CROWD_H

#include <pthread.h>

#include "htcsched/sim_scale.h"

/* Nodes that work for each other: a node that gets a message runs a task, and at its end sends one to another node. */
#define NODES  210u
#define WINDOW (5 * HTC_MS)

typedef struct crowd {
    struct {
        uint64_t value, draws;
    } node[NODES];
    uint64_t hops, hasty; /* hasty: a node sends a message that arrives too early */
} crowd;

/* Of a node the even id is a message that arrives, the odd one a task that ends. */
static inline void crowd_event(htc_scale *s, void *ctx, uint32_t id)
{
    crowd   *c = ctx;
    uint32_t n = id / 2;
    uint64_t drawn = htc_scale_hash(s, n, c->node[n].draws++);
    c->node[n].value = (c->node[n].value + htc_scale_now(s)) * 31 + id % 2;
    if (id % 2 == 0) {
        htc_scale_messages(s, 0, 1, 0);
        htc_scale_start(s, id + 1, 0, drawn % 40);
        return;
    }
    htc_scale_end(s);
    if (c->node[n].draws / 2 >= c->hops)
        return;
    htc_scale_submit(s, 1);
    htc_scale_messages(s, 1, 0, 0);
    htc_scale_at(s, htc_scale_now(s) + (n == c->hasty ? 4 : 5) + drawn / 64 % 3, (uint32_t)(drawn % NODES) * 2);
}

static inline htc_scale *crowd_open(crowd *c, uint64_t part_ids, const htc_scale_host *host)
{
    htc_scale_options o = { .size = sizeof o, .seed = 3, .ids = 2 * NODES, .events_max = 2000, .cores = 4 * NODES, .event = crowd_event, .ctx = c, .host = host, .part_ids = part_ids,
                            .window_ns = WINDOW };
    htc_scale        *s = NULL;
    if (htc_scale_create(NULL, &o, &s, NULL) != HTC_OK)
        return NULL;
    htc_scale_submit(s, 3 * NODES);
    htc_scale_messages(s, 3 * NODES, 0, 0);
    for (uint32_t i = 0; i < 3 * NODES; i++)
        htc_scale_at(s, i / 7, i % NODES * 2);
    return s;
}

static inline uint64_t crowd_sum(const crowd *c)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < NODES; n++)
        sum = sum * 1000003 + c->node[n].value;
    return sum;
}

/* What a host with two threads does. */
typedef struct pair {
    pthread_barrier_t barrier;
    void (*work)(void *arg, uint32_t i);
    void     *arg;
    uint32_t  n;
    int       over;
    uint64_t  calls;
    pthread_t helper;
} pair;

static inline void *help(void *ctx)
{
    pair *p = ctx;
    for (;;) {
        pthread_barrier_wait(&p->barrier);
        if (p->over)
            return NULL;
        for (uint32_t i = 1; i < p->n; i += 2)
            p->work(p->arg, i);
        pthread_barrier_wait(&p->barrier);
    }
}

static inline int pair_open(pair *p)
{
    *p = (pair){ .calls = 0 };
    return pthread_barrier_init(&p->barrier, NULL, 2) != 0 || pthread_create(&p->helper, NULL, help, p) != 0;
}

/* How often both have worked. */
static inline uint64_t pair_close(pair *p)
{
    p->over = 1;
    pthread_barrier_wait(&p->barrier);
    pthread_join(p->helper, NULL);
    pthread_barrier_destroy(&p->barrier);
    return p->calls;
}

static inline void in_pair(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg)
{
    pair *p = ctx;
    p->work = work;
    p->arg = arg;
    p->n = n;
    p->calls++;
    pthread_barrier_wait(&p->barrier);
    for (uint32_t i = 0; i < n; i += 2)
        work(arg, i);
    pthread_barrier_wait(&p->barrier);
}

#endif
