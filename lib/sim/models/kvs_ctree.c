/* Aggregators: each sends the requests of all its clients, once all wait, to the one server in one message. */
#include "sim/models/kvs.h"

static uint32_t id_of(const kvs *m, uint32_t a)
{
    return m->first_batch + a;
}

static void depart(kvs *m, uint32_t a, uint64_t ready)
{
    kvs_aggregator *g = &m->aggregator[a];
    uint64_t        on_wire = (uint64_t)(g->on_way * m->bytes_ticks + 0.5);
    g->stage = KVS_FORWARD;
    htc_scale_at(m->scale, kvs_pack(m, m->servers + a, ready) + on_wire + m->latency, id_of(m, a));
}

static void pass(kvs *m, uint32_t a, uint64_t ready)
{
    kvs_aggregator *g = &m->aggregator[a];
    kvs_sent(m, KVS_REQUESTS);
    if (kvs_later_on(m, ready)) {
        g->stage = KVS_SENDING;
        htc_scale_at(m->scale, ready, id_of(m, a));
    } else {
        depart(m, a, ready);
    }
}

/* The server, or the first stand-by that the aggregator believes to be up; none: its clients learn it. */
static void send_batch(kvs *m, uint32_t a, uint64_t ready)
{
    kvs_aggregator *g = &m->aggregator[a];
    if (htc__kvs_members(m, m->servers + a, 0, 1, &g->root)) {
        pass(m, a, ready);
        return;
    }
    uint32_t n = g->on_way;
    m->now.batch_pending -= n;
    g->on_way = g->waiting = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = m->batch[g->first + i];
        m->client[c].flags |= KVS_FAILED;
        htc__kvs_answer(m, c, m->servers + a, ready);
    }
}

static void send_if_all(kvs *m, uint32_t a, uint64_t ready)
{
    kvs_aggregator *g = &m->aggregator[a];
    if (g->on_way || g->waiting < g->active || g->active == 0)
        return;
    g->on_way = g->waiting;
    send_batch(m, a, ready);
}

void htc__kvs_join(kvs *m, uint32_t a, uint32_t c, uint64_t ready)
{
    kvs_aggregator *g = &m->aggregator[a];
    m->client[c].stage = KVS_HELD;
    m->batch[g->first + g->waiting++] = c;
    m->now.batch_pending++;
    send_if_all(m, a, ready);
}

void htc__kvs_leave(kvs *m, uint32_t c)
{
    uint32_t a = (uint32_t)((uint64_t)c * m->aggregators / m->options.clients);
    m->aggregator[a].active--;
    send_if_all(m, a, m->at);
}

void htc__kvs_batch(kvs *m, uint32_t a)
{
    kvs_aggregator *g = &m->aggregator[a];
    uint64_t        now = m->at;
    if (g->stage == KVS_SENDING) {
        depart(m, a, now);
        return;
    }
    if (g->stage == KVS_BOUNCED) {
        htc__kvs_learn(m, m->servers + a, m->now.flips);
        send_batch(m, a, now);
        return;
    }
    if (!kvs_arrived(m, KVS_REQUESTS, g->root)) {
        g->stage = KVS_BOUNCED;
        htc_scale_at(m->scale, now + m->transmit, id_of(m, a));
        return;
    }
    uint32_t n = g->on_way, root = g->root;
    uint64_t ready = kvs_receive(m, root);
    m->now.batch_pending -= n;
    g->on_way = g->waiting = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = m->batch[g->first + i];
        m->client[c].contact = m->client[c].target = root; /* it answers the client itself */
        htc__kvs_operate(m, c, root, ready);
    }
}
