/* Servers that go down and up: the monitor, who learns of it, and the data that moves. */
#include "sim/models/kvs.h"

/* ---- data ---- */

/* Server `from` copies so many records to another one. */
static void copy_data(kvs *m, uint32_t from, uint32_t to, uint64_t records)
{
    if (to == KVS_NONE || to == from)
        return;
    kvs_message *k = htc__kvs_take(m, KVS_DATA, from, to);
    if (!k)
        return;
    k->goal = records < UINT32_MAX ? (uint32_t)records : UINT32_MAX;
    htc__kvs_send(m, k, m->at);
}

/* Server s knows that x is down: there are to be N copies again. Of what x was first for, the first copy gives another; of what s is first for, s does. */
static void mend(kvs *m, uint32_t s, uint32_t x)
{
    uint32_t between = 0; /* servers that are up from s to x */
    if (m->copies == 1 || s >= m->servers || htc__kvs_sees_up(m, s, x))
        return;
    if (htc__kvs_after(m, s, x, 0) == s)
        copy_data(m, s, htc__kvs_after(m, s, x, m->copies - 1), m->server[x].held);
    for (uint32_t y = (s + 1) % m->servers; y != x && between < m->copies; y = (y + 1) % m->servers)
        between += (uint32_t)htc__kvs_sees_up(m, s, y);
    if (between + 1 < m->copies)
        copy_data(m, s, htc__kvs_after(m, s, s, m->copies - 2), m->server[s].held);
}

void htc__kvs_learn(kvs *m, uint32_t s, uint32_t flips)
{
    uint32_t known = m->server[s].known;
    if (known >= flips)
        return;
    if (flips - known > KVS_FLIPS)
        known = flips - KVS_FLIPS;
    m->server[s].known = flips;
    for (; known < flips; known++)
        mend(m, s, m->now.flip[known % KVS_FLIPS]);
}

/* ---- who is told ---- */

static void notice(kvs *m, uint32_t from, uint32_t to, uint32_t flips)
{
    kvs_message *k = htc__kvs_take(m, KVS_NOTICE, from, to);
    if (!k)
        return;
    k->turn = flips;
    htc__kvs_send(m, k, m->at);
}

/* To all that were up before: s, who tells it, not; x, who is down now, too, in vain. */
static void broadcast(kvs *m, uint32_t s, uint32_t x, uint32_t flips)
{
    for (uint32_t y = 0; y < m->servers + m->aggregators; y++)
        if (y != s && (y == x || htc__kvs_sees_up(m, s, y)))
            notice(m, s, y, flips);
}

static void seek(kvs *m, kvs_message *k, uint64_t ready)
{
    uint32_t at = k->to, hop = at == k->goal ? KVS_NONE : htc__kvs_next_hop(m, at, (k->goal + 1) % m->servers);
    if (hop == KVS_NONE) {
        k->kind = KVS_SOUGHT;
        hop = at == k->client ? at : htc__kvs_hop_before(m, k->client, at, (k->goal + 1) % m->servers);
    }
    k->from = at;
    k->to = hop;
    htc__kvs_send(m, k, ready);
}

/* Server s looks up who has x as one of its fingers: the last server that is up at x - 2^i or before it, for each i. */
static void chain(kvs *m, uint32_t s, uint32_t x, uint32_t flips)
{
    uint32_t last = KVS_NONE;
    for (uint32_t step = 1; step < m->servers; step *= 2) {
        uint32_t p = x >= step ? x - step : x + m->servers - step;
        while (p != s && !htc__kvs_sees_up(m, s, p))
            p = p ? p - 1 : m->servers - 1;
        if (p == s || p == x || p == last)
            continue;
        last = p;
        uint32_t hop = htc__kvs_next_hop(m, s, (p + 1) % m->servers);
        if (hop == KVS_NONE) {
            notice(m, s, p, flips);
            continue;
        }
        kvs_message *k = htc__kvs_take(m, KVS_SEEK, s, hop);
        if (!k)
            return;
        k->client = s; /* who asks */
        k->goal = p;
        k->turn = flips;
        htc__kvs_send(m, k, m->at);
    }
}

static void tell_others(kvs *m, uint32_t s, uint32_t x, uint32_t flips)
{
    if (m->lazy)
        return;
    if (m->chord)
        chain(m, s, x, flips);
    else
        broadcast(m, s, x, flips);
}

/* ---- the monitor ---- */

/* Its messages cost it nothing. */
static kvs_message *monitor_sends(kvs *m, uint32_t kind, uint32_t to, uint64_t at)
{
    kvs_message *k = htc__kvs_take(m, kind, KVS_NONE, to);
    if (!k)
        return NULL;
    k->turn = m->now.flips;
    kvs_sent(m, KVS_FAILURES);
    htc_scale_at(m->scale, at, m->first_message + (uint32_t)(k - m->message));
    return k;
}

/* What it held, and copies for those before it. */
static uint64_t records_of(const kvs *m, uint32_t x)
{
    uint64_t records = m->server[x].held;
    uint32_t n = 1;
    for (uint32_t d = 1; d < m->servers && n < m->copies; d++) {
        uint32_t y = x >= d ? x - d : x + m->servers - d;
        if (m->server[y].up) {
            records += m->server[y].held;
            n++;
        }
    }
    return records;
}

/* The first copy is told to send everything back. Both are booked at once, so that what arrives meanwhile waits for the data. */
static void recover(kvs *m, uint32_t x)
{
    uint64_t    now = m->at;
    uint32_t    first = htc__kvs_after(m, x, x, 0);
    kvs_server *v = &m->server[x];
    monitor_sends(m, KVS_LIST, x, now + m->transmit);
    v->f = kvs_later(v->f, now);
    v->p = kvs_later(v->p, now);
    if (m->copies == 1 || first == KVS_NONE)
        return;
    m->now.count[KVS_FAILURES].sent++; /* by the monitor, to the first copy */
    m->now.count[KVS_FAILURES].received++;
    m->now.received++;
    m->now.packed++;
    kvs_server *w = &m->server[first];
    w->f = kvs_later(w->f, now + m->transmit) + m->unpack + m->pack;
    uint64_t back = w->f + m->latency + (uint64_t)((double)records_of(m, x) * m->bytes_ticks + 0.5);
    kvs_message *k = monitor_sends(m, KVS_BACK, x, back);
    if (!k)
        return;
    k->from = first;
    m->now.received++;
    v->f = kvs_later(v->f, back) + m->unpack;
    v->p = kvs_later(v->p, v->f);
}

static void fail(kvs *m, uint32_t x)
{
    uint32_t first = KVS_NONE;
    m->now.count[KVS_FAILURES].sent++; /* the monitor asks whether it lives */
    m->now.count[KVS_FAILURES].lost++;
    for (uint32_t d = 1; d < m->servers && first == KVS_NONE; d++)
        if (m->server[(x + d) % m->servers].up)
            first = (x + d) % m->servers;
    if (first == KVS_NONE)
        return;
    kvs_message *k = monitor_sends(m, KVS_TOLD, first, m->at + m->transmit);
    if (k)
        k->goal = x;
}

void htc__kvs_flip(kvs *m)
{
    if (m->now.clients == 0)
        return;
    uint32_t x = (uint32_t)(htc__scale_draw(m->flips, m->now.flips) % m->servers);
    m->server[x].up ^= 1;
    m->now.flip[m->now.flips++ % KVS_FLIPS] = x;
    htc_scale_mark(m->scale, x);
    if (m->server[x].up) {
        m->server[x].known = m->now.flips;
        recover(m, x);
    } else {
        fail(m, x);
    }
    htc_scale_at(m->scale, m->at + m->failure, m->monitor);
}

/* ---- messages ---- */

void htc__kvs_failure_message(kvs *m, kvs_message *k)
{
    uint32_t s = k->to, from = k->from, flips = k->turn, x = k->goal;
    uint64_t now = m->at, ready = k->kind == KVS_BACK ? kvs_later(m->server[s].f, now) : kvs_receive(m, s);
    switch (k->kind) {
    case KVS_SEEK:
        seek(m, k, ready);
        return;
    case KVS_SOUGHT:
        if (s != k->client) {
            k->from = s;
            k->to = htc__kvs_hop_before(m, k->client, s, (k->goal + 1) % m->servers);
            htc__kvs_send(m, k, ready);
            return;
        }
        k->kind = KVS_NOTICE;
        k->from = s;
        k->to = k->goal;
        htc__kvs_send(m, k, ready);
        return;
    case KVS_DATA:
    case KVS_BACK:
        k->kind = KVS_DONE;
        k->from = s;
        k->to = from;
        htc__kvs_send(m, k, ready);
        return;
    default:
        break;
    }
    uint32_t kind = k->kind;
    htc__kvs_free(m, k);
    if (kind == KVS_TOLD || kind == KVS_NOTICE)
        htc__kvs_learn(m, s, flips);
    if (kind == KVS_TOLD)
        tell_others(m, s, x, flips);
    if (kind == KVS_LIST)
        tell_others(m, s, s, flips);
}
