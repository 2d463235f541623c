/* A loop of one's own: machines in one process, in virtual time. What happens waits in a row by its moment; whoever is due is stepped, and what
 * it asks for is carried out in order. That is all a driver owes its machines (htcsched/machine.h); sockets, processes and clocks would come
 * in where lines are put into the row here. */
#ifndef EMBED_LOOP_H
#define EMBED_LOOP_H

#include <stdlib.h>
#include <string.h>

#include <htcsched/codec.h>
#include <htcsched/machine.h>

enum { PARTIES_MAX = 8, LINKS_MAX = 32, HOP = 100 * 1000 /* ns that a message takes */ };

typedef struct party {
    const char            *name;
    const htc_machine_ops *ops;
    void                  *self;
    htc_rng                rng;
    htc_env                env;
    htc_output            *out;
    void (*call)(struct party *p, const htc_effect *call); /* what its host does */
    int                    ended;
    htc_status             status;
} party;

/* A connection: the number that each end has for it. */
typedef struct link {
    party   *end[2];
    uint32_t number[2];
} link_of;

typedef struct happening {
    htc_ns            at;
    party            *to;
    htc_input         in; /* its body is a copy */
    struct happening *next;
} happening;

static party      parties[PARTIES_MAX];
static link_of    links[LINKS_MAX];
static uint32_t   n_parties, n_links;
static happening *row;
static htc_ns     now = HTC_SECOND;

/* In after a while; of several at one moment the first comes first. */
static void happens(htc_ns after, party *to, htc_input in)
{
    happening *h = malloc(sizeof *h + in.body.len), **place = &row;
    if (!h)
        abort();
    in.size = sizeof in;
    if (in.body.len)
        memcpy(h + 1, in.body.data, in.body.len);
    in.body.data = h + 1;
    while (*place && (*place)->at <= now + after)
        place = &(*place)->next;
    *h = (happening){ now + after, to, in, *place };
    *place = h;
}

static void answer(htc_ns after, party *to, const htc_effect *call, htc_status status, htc_bytes body)
{
    happens(after, to, (htc_input){ .kind = HTC_IN_RESULT, .op = call->op, .tag = call->tag, .status = status, .body = body });
}

static party *party_new(const char *name)
{
    party *p = &parties[n_parties++];
    p->name = name;
    p->rng = (htc_rng){ n_parties };
    p->env = (htc_env){ .size = sizeof p->env, .rng = &p->rng };
    if (htc_output_create(&p->env, 0, &p->out) != HTC_OK)
        abort();
    return p;
}

static void party_start(party *p, const htc_machine_ops *ops, void *self)
{
    p->ops = ops;
    p->self = self;
    happens(0, p, (htc_input){ .kind = HTC_IN_START });
}

/* from calls it number, to knows it by one that nobody else has there. */
static void connect_to(party *from, uint32_t number, party *to)
{
    htc_buf info;
    links[n_links] = (link_of){ { from, to }, { number, 1000 + n_links } };
    htc_buf_init(&info, NULL, 0);
    htc_put_u32(&info, HTC_TRANSPORT_SIM);
    for (int i = 0; i < 3; i++)
        htc_put_u32(&info, 0); /* no user, no process, no port */
    for (int i = 0; i < 2; i++)
        happens(HOP, links[n_links].end[i], (htc_input){ .kind = HTC_IN_OPENED, .peer = links[n_links].number[i], .body = htc_buf_bytes(&info) });
    n_links++;
    htc_buf_free(&info);
}

static void carry_out(party *p, const htc_effect *e)
{
    if (e->kind == HTC_OUT_CALL && p->call)
        p->call(p, e);
    if (e->kind == HTC_OUT_COMMIT) /* nothing is kept: it is as durable as this process */
        happens(HOP, p, (htc_input){ .kind = HTC_IN_STORED, .tag = e->tag });
    if (e->kind == HTC_OUT_STOP) {
        p->ended = 1;
        p->status = e->status;
    }
    for (uint32_t i = 0; i < n_links && e->kind == HTC_OUT_MESSAGE; i++)
        for (int k = 0; k < 2; k++)
            if (links[i].end[k] == p && links[i].number[k] == e->peer)
                happens(HOP, links[i].end[!k], (htc_input){ .kind = HTC_IN_MESSAGE, .peer = links[i].number[!k], .body = e->body });
}

static void step(party *p, htc_input in)
{
    htc_effect e;
    in.size = sizeof in;
    in.now = in.wall = now;
    htc_output_clear(p->out);
    htc_status status = p->ended ? HTC_OK : p->ops->step(p->self, &in, p->out);
    for (size_t i = 0; !p->ended && htc_output_get(p->out, i, &e) == HTC_OK; i++)
        carry_out(p, &e);
    if (status != HTC_OK) {
        p->ended = 1;
        p->status = status;
    }
}

/* The next thing that happens. 0: nothing does before end. */
static int loop_once(htc_ns end)
{
    party *due = NULL;
    htc_ns at = row ? row->at : HTC_NEVER;
    for (party *p = parties; p < parties + n_parties; p++)
        if (!p->ended && p->ops && p->ops->deadline(p->self) < at) {
            at = p->ops->deadline(p->self);
            due = p;
        }
    if (at >= end)
        return 0;
    now = at > now ? at : now;
    if (due) {
        step(due, (htc_input){ .kind = HTC_IN_TIMEOUT });
        return 1;
    }
    happening *h = row;
    row = h->next;
    step(h->to, h->in);
    free(h);
    return 1;
}

static void loop_end(void)
{
    for (party *p = parties; p < parties + n_parties; p++) {
        if (p->ops && p->ops->destroy)
            p->ops->destroy(p->self);
        htc_output_destroy(p->out);
    }
    while (row) {
        happening *h = row;
        row = h->next;
        free(h);
    }
}

#endif
