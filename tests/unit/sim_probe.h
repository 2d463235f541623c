/* A machine for the simulator's own tests: it sends numbered messages (or bytes) on a beat, and writes down what it is told. */
#ifndef HTC_TESTS_SIM_PROBE_H
#define HTC_TESTS_SIM_PROBE_H

#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "htcsched/sim.h"
#include "property.h"

#define GOT_MAX 4096

typedef struct probe {
    htc_sim_node *node;
    htc_ns        beat; /* 0: sends nothing by itself */
    uint32_t      peer; /* to whom */
    uint64_t      stop; /* after so many; 0: never */
    uint64_t      sent; /* numbers 1 .. sent */
    uint64_t      got[GOT_MAX];
    htc_ns        at[GOT_MAX];
    size_t        n_got, opened, closed, ended, events;
    htc_ns        next, last_now, last_wall;
    htc_status    step_status; /* what the next step answers */
    size_t        boots;
    uint32_t      version;
    htc_buf       stream; /* bytes received */
    size_t        pieces, eof, said;
    int           backwards; /* `now` ran backwards */
} probe;

static inline htc_status probe_step(void *self, const htc_input *in, htc_output *out)
{
    probe *p = self;
    p->backwards |= in->now < p->last_now;
    p->last_now = in->now;
    p->last_wall = in->wall;
    p->opened += in->kind == HTC_IN_OPENED;
    p->closed += in->kind == HTC_IN_CLOSED;
    p->events += in->kind == HTC_IN_EVENT;
    p->said += in->kind == HTC_IN_SENT;
    if (in->kind == HTC_IN_MESSAGE && p->n_got < GOT_MAX) {
        p->at[p->n_got] = in->now;
        memcpy(&p->got[p->n_got++], in->body.data, sizeof(uint64_t));
    }
    if (in->kind == HTC_IN_BYTES) {
        p->pieces++;
        p->eof += in->body.len == 0;
        htc_put_raw(&p->stream, in->body);
    }
    if (in->kind == HTC_IN_OPENED)
        p->next = p->beat ? in->now + p->beat : HTC_NEVER;
    if (in->kind == HTC_IN_TIMEOUT && in->now >= p->next && (!p->stop || p->sent < p->stop)) {
        uint64_t number = ++p->sent;
        p->next = in->now + p->beat;
        return htc_output_add(
            out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = p->peer, .body = { &number, sizeof number } });
    }
    if (p->stop && p->sent >= p->stop)
        p->next = HTC_NEVER;
    return p->step_status;
}

static inline htc_ns probe_deadline(const void *self)
{
    return ((const probe *)self)->next;
}

static inline htc_status probe_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, probe_step, probe_deadline, NULL, 0 };
    probe                       *p = ctx;
    p->boots++;
    p->next = HTC_NEVER;
    p->version = htc_sim_version(node);
    return htc_sim_install(node, &ops, p);
}

static inline void probe_ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    (void)node;
    (void)status;
    (void)crashed;
    ((probe *)ctx)->ended++;
}

static const htc_sim_host probe_host = { .size = sizeof probe_host, .boot = probe_boot, .ended = probe_ended };

static inline htc_sim *probe_sim(uint64_t seed, const htc_sim_net *net)
{
    htc_sim *sim = NULL;
    cr_assert(htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = seed, .net = net },
                             &sim) == HTC_OK);
    return sim;
}

static inline void probe_add(htc_sim *sim, const char *name, probe *p)
{
    htc_buf_init(&p->stream, NULL, 0);
    cr_assert(htc_sim_add(sim,
                          &(htc_sim_node_options){
                              .size = sizeof(htc_sim_node_options), .name = name, .host = &probe_host, .ctx = p },
                          &p->node) == HTC_OK);
    cr_assert(htc_sim_boot(p->node) == HTC_OK);
}

/* Two nodes: a sends a number every millisecond, b takes them. */
typedef struct pair {
    htc_sim *sim;
    probe   *a, *b;
} pair;

static inline pair pair_open(uint64_t seed, const htc_sim_net *net)
{
    pair p = { probe_sim(seed, net), calloc(1, sizeof(probe)), calloc(1, sizeof(probe)) };
    cr_assert(p.a && p.b);
    p.a->beat = HTC_MS;
    p.a->peer = 1;
    probe_add(p.sim, "a", p.a);
    probe_add(p.sim, "b", p.b);
    cr_assert(htc_sim_dial(p.a->node, 1, p.b->node, NULL) == HTC_OK);
    return p;
}

static inline void pair_close(pair *p)
{
    htc_sim_destroy(p->sim);
    htc_buf_free(&p->a->stream);
    htc_buf_free(&p->b->stream);
    free(p->a);
    free(p->b);
}

/* How many of 1..sent arrived once, arrived again, never; and how many came behind a later one. */
typedef struct tally {
    size_t once, again, never, late;
} tally;

static inline tally tally_of(const pair *p)
{
    tally    t = { 0 };
    uint64_t top = 0;
    char    *seen = calloc(p->a->sent + 2, 1);
    for (size_t i = 0; i < p->b->n_got; i++) {
        uint64_t n = p->b->got[i];
        cr_assert(n >= 1 && n <= p->a->sent, "a number that was never sent");
        t.late += n < top && !seen[n];
        top = n > top ? n : top;
        t.once += !seen[n];
        t.again += seen[n] != 0;
        seen[n] = 1;
    }
    t.never = p->a->sent - t.once;
    free(seen);
    return t;
}

#endif
