/* A store of clients and servers: what a checkpoint says can be. Of each client and each message that is on its way there is one event, and each number names something. */
#include "sim/models/kvs.h"

typedef struct audit {
    const kvs     *m;
    const uint8_t *events;
    uint8_t       *answers; /* of each client: messages that it waits for; */
    uint8_t       *batched; /* it is in the batch of its aggregator */
    uint32_t       all;     /* servers, and aggregators after them */
} audit;

/* ---- servers ---- */

static int servers_can_be(const audit *a)
{
    const kvs *m = a->m;
    uint32_t   known = m->now.flips < KVS_FLIPS ? m->now.flips : KVS_FLIPS;
    if (m->now.flips && !m->failure)
        return 0;
    for (uint32_t i = 0; i < known; i++)
        if (m->now.flip[i] >= m->servers)
            return 0;
    for (uint32_t s = 0; s < a->all; s++) {
        const kvs_server *v = &m->server[s];
        if (v->up > 1 || v->known > m->now.flips || (!v->up && (s >= m->servers || !m->now.flips)) || v->held > m->options.clients * m->options.requests * 2)
            return 0;
    }
    return 1;
}

/* ---- messages ---- */

static int is_current(const kvs *m, const kvs_message *k)
{
    return m->client[k->client].turn == k->turn && m->client[k->client].stage == KVS_HELD;
}

static int message_can_be(const audit *a, const kvs_message *k)
{
    const kvs *m = a->m;
    uint32_t   kind = k->kind & ~(uint32_t)KVS_SENDING;
    int        monitor = kind == KVS_TOLD || kind == KVS_LIST; /* sends it, at once */
    if (k->to >= a->all || (k->from >= a->all && (!monitor || k->kind & KVS_SENDING)))
        return 0;
    switch (kind) {
    case KVS_COPY:
    case KVS_COPIED:
    case KVS_REFUSAL:
        if (k->client >= m->options.clients || k->from >= m->servers || k->to >= m->servers)
            return 0;
        if (is_current(m, k) && a->answers[k->client] < UINT8_MAX)
            a->answers[k->client]++;
        return 1;
    case KVS_SEEK:
    case KVS_SOUGHT:
        return m->chord && k->client < m->servers && k->goal < m->servers && k->turn <= m->now.flips;
    case KVS_TOLD:
        return k->to < m->servers && k->goal < m->servers && k->turn <= m->now.flips;
    case KVS_LIST:
        return k->to < m->servers && k->turn <= m->now.flips;
    case KVS_NOTICE:
        return k->turn <= m->now.flips;
    case KVS_DATA:
    case KVS_BACK:
    case KVS_DONE:
        return k->from < m->servers && k->to < m->servers;
    default:
        return 0;
    }
}

/* Those that are free are in one list, of the others each has an event. */
static int messages_can_be(const audit *a, checked_lists *l)
{
    const kvs *m = a->m;
    uint64_t   live = 0;
    if (!htc__checked_list(l, m->now.free_message, NULL, NULL))
        return 0;
    for (uint32_t i = 0; i < m->now.messages; i++) {
        const kvs_message *k = &m->message[i];
        int                is_free = k->kind == KVS_FREE;
        if (is_free != htc__checked_was_taken(l, i) || a->events[m->first_message + i] != !is_free || (!is_free && !message_can_be(a, k)))
            return 0;
        live += !is_free;
    }
    for (uint64_t i = m->now.messages; i < m->messages_max; i++)
        if (a->events[m->first_message + i])
            return 0;
    return live == m->now.live;
}

/* ---- aggregators ---- */

static int aggregator_can_be(const audit *a, uint32_t i)
{
    const kvs            *m = a->m;
    const kvs_aggregator *g = &m->aggregator[i];
    uint64_t              first = (i * m->options.clients + m->aggregators - 1) / m->aggregators, next = ((i + UINT64_C(1)) * m->options.clients + m->aggregators - 1) / m->aggregators;
    if (g->first != first || g->clients != next - first || g->waiting > g->clients || (g->on_way && g->on_way != g->waiting) || g->root >= m->servers ||
        a->events[m->first_batch + i] != (g->on_way > 0))
        return 0;
    for (uint32_t k = 0; k < g->waiting; k++) {
        uint32_t c = m->batch[g->first + k];
        if (c < first || c >= next || a->batched[c]++)
            return 0;
    }
    return 1;
}

static int aggregators_can_be(const audit *a)
{
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < a->m->aggregators; i++) {
        if (!aggregator_can_be(a, i))
            return 0;
        waiting += a->m->aggregator[i].waiting;
    }
    return waiting == a->m->now.batch_pending;
}

/* ---- clients ---- */

/* One that has an event is on its way; a held one waits in a batch, or for copies. */
static int way_can_be(const audit *a, uint32_t c)
{
    const kvs        *m = a->m;
    const kvs_client *k = &m->client[c];
    uint32_t          stage = k->stage & ~(uint32_t)KVS_SENDING;
    if (k->place != htc__kvs_place(m, htc__kvs_key(m, c, kvs_request(k), NULL)))
        return 0;
    if (stage == KVS_HELD)
        return !(k->stage & KVS_SENDING) && !a->events[c] && (a->batched[c] ? !a->answers[c] : a->answers[c] && a->answers[c] == k->waiting && k->target < m->servers);
    if (stage > KVS_HELD || a->events[c] != 1 || a->batched[c])
        return 0;
    if (stage == KVS_LOOKUP || stage == KVS_FOUND)
        return m->chord;
    if (stage == KVS_ASK || stage == KVS_RETURN)
        return 1;
    return stage == KVS_FORWARD ? k->target < m->servers : stage != KVS_BOUNCED || k->via == k->contact || m->chord;
}

static int clients_can_be(const audit *a)
{
    const kvs *m = a->m;
    uint64_t   clients = 0;
    for (uint32_t i = 0; i < m->aggregators; i++) {
        uint32_t active = 0;
        for (uint32_t c = m->aggregator[i].first; c < m->aggregator[i].first + m->aggregator[i].clients; c++)
            active += m->client[c].stage == KVS_HELD || a->events[c];
        if (active != m->aggregator[i].active)
            return 0;
    }
    for (uint32_t c = 0; c < m->options.clients; c++) {
        const kvs_client *k = &m->client[c];
        if (k->done > m->options.requests || k->contact >= a->all || k->target >= a->all || k->via >= a->all)
            return 0;
        if (k->stage != KVS_HELD && !a->events[c]) /* it has no more requests */
            continue;
        if (!way_can_be(a, c) || kvs_request(k) >= m->options.requests)
            return 0;
        clients++;
    }
    return clients == m->now.clients;
}

htc_status htc__kvs_check(const kvs *m, const uint8_t *events)
{
    uint64_t      clients = m->options.clients;
    checked_lists free_ones;
    audit         a = { .m = m, .events = events, .all = m->servers + m->aggregators, .answers = htc__alloc(&m->env, clients), .batched = htc__alloc(&m->env, clients) };
    htc_status    status = htc__checked_open(&free_ones, &m->env, m->message ? &m->message->client : NULL, sizeof *m->message, m->now.messages);
    if (!a.answers || !a.batched)
        status = HTC_ENOMEM;
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, (events[m->monitor] <= (m->failure > 0) && servers_can_be(&a)), "servers");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, messages_can_be(&a, &free_ones), "messages");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, aggregators_can_be(&a), "aggregators");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, clients_can_be(&a), "clients");
    htc__checked_close(&free_ones);
    htc__free(&m->env, a.answers, clients);
    htc__free(&m->env, a.batched, clients);
    return status;
}
