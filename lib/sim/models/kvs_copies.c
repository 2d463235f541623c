/* Copies of a key: who is told of an operation, which answers it waits for, and the clocks of eventual consistency. */
#include <assert.h>
#include <string.h>

#include "sim/models/kvs.h"

/* ---- messages ---- */

static int kind_of(const kvs_message *k)
{
    return (k->kind & ~KVS_SENDING) <= KVS_REFUSAL ? KVS_COPIES : KVS_FAILURES;
}

static uint32_t id_of(const kvs *m, const kvs_message *k)
{
    return m->first_message + (uint32_t)(k - m->message);
}

kvs_message *htc__kvs_take(kvs *m, uint32_t kind, uint32_t from, uint32_t to)
{
    uint32_t k = m->now.free_message;
    if (k != KVS_NONE) {
        m->now.free_message = m->message[k].client;
    } else if (m->now.messages < m->messages_max) {
        k = m->now.messages++;
    } else {
        htc_scale_fail(m->scale, HTC_EFULL);
        return NULL;
    }
    m->now.live++;
    m->message[k] = (kvs_message){ .client = KVS_NONE, .from = from, .to = to, .kind = (uint8_t)kind };
    return &m->message[k];
}

void htc__kvs_free(kvs *m, kvs_message *k)
{
    assert(k->kind != KVS_FREE && m->now.live > 0);
    k->kind = KVS_FREE;
    k->client = m->now.free_message;
    m->now.free_message = (uint32_t)(k - m->message);
    m->now.live--;
}

static void depart(kvs *m, kvs_message *k, uint64_t ready)
{
    uint64_t way = m->transmit;
    if (k->kind == KVS_DATA)
        way = m->latency + (uint64_t)(k->goal * m->bytes_ticks + 0.5);
    htc_scale_at(m->scale, kvs_pack(m, k->from, ready) + way, id_of(m, k));
}

void htc__kvs_send(kvs *m, kvs_message *k, uint64_t ready)
{
    kvs_sent(m, kind_of(k));
    if (kvs_later_on(m, ready)) {
        k->kind |= KVS_SENDING;
        htc_scale_at(m->scale, ready, id_of(m, k));
    } else {
        depart(m, k, ready);
    }
}

/* ---- clocks ---- */

/* A key's clock at its copy on server s; NULL: keys have none, or s is none of the first N. */
static uint32_t *clock_of(const kvs *m, uint32_t c, uint32_t request, uint32_t s, uint32_t *rank)
{
    uint64_t index = 0;
    if (!m->clock)
        return NULL;
    uint32_t place = htc__kvs_place(m, htc__kvs_key(m, c, request, &index));
    for (uint32_t i = 0; i < m->copies; i++)
        if (htc__kvs_at(m, place, i) == s) {
            *rank = i;
            return &m->clock[(index * m->copies + i) * m->copies];
        }
    return NULL;
}

static uint32_t *clock_sent(const kvs *m, const kvs_message *k)
{
    return &m->sent_clock[(size_t)(k - m->message) * m->copies];
}

/* a is b or before it. */
static int precedes(const kvs *m, const uint32_t *a, const uint32_t *b)
{
    for (uint32_t i = 0; i < m->copies; i++)
        if (a[i] > b[i])
            return 0;
    return 1;
}

static void join(const kvs *m, uint32_t *a, const uint32_t *b)
{
    for (uint32_t i = 0; i < m->copies; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
}

/* ---- the coordinator ---- */

/* What an operation waits for besides the coordinator itself. */
static uint32_t needed(const kvs *m, const kvs_client *client)
{
    switch (m->options.consistency) {
    case HTC_SIM_KVS_EVENTUAL:
        return (client->flags & KVS_PUT ? m->writes : m->reads) - 1;
    case HTC_SIM_KVS_MAJORITY:
        return m->copies / 2;
    default:
        return client->copies;
    }
}

/* Enough copies have answered, or all. A strong put waits for those that are up, so that all are enough. In the eventual mode a get succeeds
 * then, and a put if fewer than N servers are up. */
static void answer_if_enough(kvs *m, uint32_t c, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    int         enough = client->successes >= needed(m, client);
    if (!enough && client->waiting)
        return;
    int all_up = client->copies + 1u >= m->copies && !(client->flags & KVS_REFUSES);
    if (!enough && (m->options.consistency == HTC_SIM_KVS_MAJORITY || (all_up && client->flags & KVS_PUT)))
        client->flags |= KVS_FAILED;
    htc__kvs_answer(m, c, client->target, ready);
}

void htc__kvs_copy(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    uint32_t    member[HTC_SIM_KVS_COPIES_MAX + 1], rank = 0;
    uint32_t    n = htc__kvs_members(m, s, kvs_place(m, c), m->copies, member), sent = 0;
    uint32_t   *clock = clock_of(m, c, kvs_request(client), s, &rank);
    if (clock && client->flags & KVS_PUT)
        clock[rank]++;
    client->turn++;
    client->target = s;
    client->stage = KVS_HELD;
    client->successes = 0;
    for (uint32_t i = 0; i < n && sent + 1 < m->copies; i++) {
        if (member[i] == s)
            continue;
        kvs_message *k = htc__kvs_take(m, KVS_COPY, s, member[i]);
        if (!k)
            return;
        k->client = c;
        k->turn = client->turn;
        k->goal = kvs_request(client);
        k->flags = client->flags & KVS_PUT;
        if (m->clock)
            memset(clock_sent(m, k), 0, m->copies * sizeof *clock);
        if (clock)
            memcpy(clock_sent(m, k), clock, m->copies * sizeof *clock);
        htc__kvs_send(m, k, ready);
        sent++;
    }
    client->waiting = client->copies = (uint8_t)sent;
    answer_if_enough(m, c, ready);
}

/* ---- a copy ---- */

static void at_copy(kvs *m, kvs_message *k)
{
    if (!kvs_arrived(m, KVS_COPIES, k->to)) {
        k->kind = KVS_REFUSAL;
        htc_scale_at(m->scale, m->at + m->transmit, id_of(m, k));
        return;
    }
    uint64_t ready = kvs_receive(m, k->to);
    uint32_t rank = 0, *clock = clock_of(m, k->client, k->goal, k->to, &rank);
    if (m->lazy && m->server[k->to].known < m->server[k->from].known)
        htc__kvs_learn(m, k->to, m->server[k->from].known);
    ready = kvs_process(m, k->to, ready);
    if (clock && !precedes(m, clock, clock_sent(m, k))) {
        k->flags |= KVS_CONFLICT;
        m->now.conflicts++;
        memcpy(clock_sent(m, k), clock, m->copies * sizeof *clock);
    } else if (clock && k->flags & KVS_PUT) {
        memcpy(clock, clock_sent(m, k), m->copies * sizeof *clock);
    }
    uint32_t back = k->from;
    k->from = k->to;
    k->to = back;
    k->kind = KVS_COPIED;
    htc__kvs_send(m, k, ready);
}

/* Whether the request still waits for this. */
static int current(const kvs *m, const kvs_message *k)
{
    return m->client[k->client].turn == k->turn && m->client[k->client].stage == KVS_HELD;
}

static void at_coordinator(kvs *m, kvs_message *k)
{
    uint32_t    c = k->client;
    kvs_client *client = &m->client[c];
    if (!kvs_arrived(m, KVS_COPIES, k->to)) {
        if (current(m, k))
            htc__kvs_lost(m, c);
        htc__kvs_free(m, k);
        return;
    }
    uint64_t ready = kvs_receive(m, k->to);
    int      waits = current(m, k);
    uint32_t rank = 0, *clock = k->flags & KVS_CONFLICT && !(k->flags & KVS_PUT) ? clock_of(m, c, k->goal, k->to, &rank) : NULL;
    if (clock && waits) /* it reads the other version: what the client writes back comes after both */
        join(m, clock, clock_sent(m, k));
    uint8_t flags = k->flags;
    htc__kvs_free(m, k);
    if (!waits)
        return;
    client->waiting--;
    if (!(flags & KVS_CONFLICT))
        client->successes++;
    if (!(client->flags & KVS_PUT))
        client->flags |= flags & KVS_CONFLICT;
    answer_if_enough(m, c, ready);
}

static void refusal(kvs *m, kvs_message *k)
{
    uint32_t c = k->client, s = k->from;
    int      waits = current(m, k);
    htc__kvs_free(m, k);
    if (m->server[s].up)
        htc__kvs_learn(m, s, m->now.flips);
    if (!waits)
        return;
    if (!m->server[s].up) {
        htc__kvs_lost(m, c);
        return;
    }
    m->client[c].waiting--;
    m->client[c].flags |= KVS_REFUSES; /* fewer than all are up */
    if (m->options.consistency == HTC_SIM_KVS_STRONG)
        m->client[c].successes++;
    answer_if_enough(m, c, m->at);
}

/* ---- an event ---- */

void htc__kvs_message(kvs *m, uint32_t at)
{
    kvs_message *k = &m->message[at];
    if (k->kind & KVS_SENDING) {
        k->kind &= (uint8_t)~KVS_SENDING;
        depart(m, k, m->at);
    } else if (k->kind == KVS_COPY) {
        at_copy(m, k);
    } else if (k->kind == KVS_COPIED) {
        at_coordinator(m, k);
    } else if (k->kind == KVS_REFUSAL) {
        refusal(m, k);
    } else if (!kvs_arrived(m, KVS_FAILURES, k->to)) {
        htc__kvs_free(m, k);
    } else {
        htc__kvs_failure_message(m, k);
    }
}
