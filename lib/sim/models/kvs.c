/* A store of clients and servers: what happens to a request. */
#include "sim/models/kvs.h"

#include <assert.h>

/* ---- a request on its way ---- */

static void depart(kvs *m, uint32_t c, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    uint64_t    now = m->at, away = kvs_pack(m, client->via, ready);
    if (client->stage == KVS_ANSWER)
        htc_scale_start(m->scale, c, 0, away + m->transmit + m->unpack - now);
    else
        htc_scale_at(m->scale, away + m->transmit, c);
}

/* Server s sends it on. */
static void pass(kvs *m, uint32_t c, uint32_t s, uint64_t ready, uint8_t stage, uint32_t to)
{
    kvs_client *client = &m->client[c];
    client->via = s;
    client->target = to;
    client->stage = stage;
    kvs_sent(m, KVS_REQUESTS);
    if (kvs_later_on(m, ready)) {
        client->stage |= KVS_SENDING;
        htc_scale_at(m->scale, ready, c);
    } else {
        depart(m, c, ready);
    }
}

static void bounce(kvs *m, uint32_t c, uint32_t s)
{
    m->client[c].via = s;
    m->client[c].stage = KVS_BOUNCED;
    m->client[c].turn++;
    htc_scale_at(m->scale, m->at + m->transmit, c);
}

static void refuse(kvs *m, uint32_t c)
{
    m->client[c].stage = KVS_REFUSED;
    m->client[c].turn++;
    htc_scale_at(m->scale, m->at + m->transmit, c);
}

void htc__kvs_answer(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    client->turn++;
    if (s == client->contact)
        pass(m, c, s, ready, KVS_ANSWER, 0);
    else
        pass(m, c, s, ready, KVS_RETURN, client->contact);
}

/* ---- who does it ---- */

/* Who is to do the operation, as far as s knows; KVS_NONE: nobody is up. */
static uint32_t choose(const kvs *m, uint32_t c, uint32_t s, uint32_t place)
{
    uint32_t member[HTC_SIM_KVS_COPIES_MAX];
    if (m->options.consistency != HTC_SIM_KVS_EVENTUAL || m->copies == 1)
        return htc__kvs_members(m, s, place, 1, member) ? member[0] : KVS_NONE;
    uint32_t n = htc__kvs_members(m, s, place, m->copies, member);
    for (uint32_t i = 0; i < n; i++)
        if (member[i] == s)
            return s;
    return n ? member[htc__scale_draw(m->coordinators, (uint64_t)c << 32 | m->client[c].turn) % n] : KVS_NONE;
}

void htc__kvs_operate(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    ready = kvs_process(m, s, ready);
    if (client->flags & KVS_PUT && m->options.failure_ns) /* how much there is to copy */
        m->server[htc__kvs_at(m, kvs_place(m, c), 0)].held++;
    if (m->copies == 1 || (m->options.consistency == HTC_SIM_KVS_STRONG && !(client->flags & KVS_PUT)))
        htc__kvs_answer(m, c, s, ready);
    else
        htc__kvs_copy(m, c, s, ready);
}

/* The contact s has the request: it does it, forwards it, or looks up who does. */
static void route(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    uint32_t place = kvs_place(m, c), doer = choose(m, c, s, place), hop = KVS_NONE;
    if (doer == KVS_NONE) {
        m->client[c].flags |= KVS_FAILED;
        htc__kvs_answer(m, c, s, ready);
        return;
    }
    if (doer == s) {
        htc__kvs_operate(m, c, s, ready);
        return;
    }
    if (m->chord)
        hop = htc__kvs_next_hop(m, s, place);
    if (hop != KVS_NONE)
        pass(m, c, s, ready, KVS_LOOKUP, hop);
    else
        pass(m, c, s, ready, KVS_FORWARD, doer);
}

/* A look-up is at s, which is not the contact. */
static void look_up(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    uint32_t place = kvs_place(m, c), hop = htc__kvs_next_hop(m, s, place);
    if (hop != KVS_NONE)
        pass(m, c, s, ready, KVS_LOOKUP, hop);
    else
        pass(m, c, s, ready, KVS_FOUND, htc__kvs_hop_before(m, m->client[c].contact, s, place));
}

static void found(kvs *m, uint32_t c, uint32_t s, uint64_t ready)
{
    kvs_client *client = &m->client[c];
    uint32_t    place = kvs_place(m, c);
    if (s != client->contact) {
        pass(m, c, s, ready, KVS_FOUND, htc__kvs_hop_before(m, client->contact, s, place));
        return;
    }
    uint32_t doer = choose(m, c, s, place);
    if (doer == KVS_NONE || doer == s)
        route(m, c, s, ready);
    else
        pass(m, c, s, ready, KVS_FORWARD, doer);
}

/* ---- a server that is down ---- */

/* Who waits for the answer learns of it: the client from its contact, the contact from who was to do it. */
void htc__kvs_lost(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    if (m->server[client->contact].up)
        bounce(m, c, client->contact);
    else
        refuse(m, c);
}

static void lost(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    if (client->stage == KVS_LOOKUP && m->copies > 1 && m->server[client->via].up)
        bounce(m, c, client->via); /* it goes by another finger */
    else
        htc__kvs_lost(m, c);
}

static void bounced(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    uint32_t    s = client->via;
    uint64_t    now = m->at;
    if (!m->server[s].up) {
        htc__kvs_lost(m, c);
        return;
    }
    htc__kvs_learn(m, s, m->now.flips);
    if (m->copies == 1) { /* what was lost without copies is not tried again */
        client->flags |= KVS_FAILED;
        htc__kvs_answer(m, c, s, now);
    } else if (s == client->contact) {
        route(m, c, s, now);
    } else {
        look_up(m, c, s, now);
    }
}

/* ---- clients ---- */

static uint32_t dedicated(const kvs *m, uint32_t c)
{
    return c / m->clients_a_server;
}

/* The client sends its request to copy i of those that it may ask. */
static void ask(kvs *m, uint32_t c, uint32_t i, uint64_t delay)
{
    kvs_client *client = &m->client[c];
    if (m->aggregators)
        client->contact = m->servers + (uint32_t)((uint64_t)c * m->aggregators / m->options.clients);
    else if (m->options.select == HTC_SIM_KVS_SELECT_CLIENT)
        client->contact = htc__kvs_at(m, kvs_place(m, c), i);
    else
        client->contact = i ? kvs_modulo(m, (uint64_t)dedicated(m, c) + i) : dedicated(m, c);
    client->target = client->contact;
    client->stage = KVS_ASK;
    kvs_sent(m, KVS_REQUESTS);
    htc_scale_at(m->scale, m->at + delay + m->pack + m->transmit, c);
}

static void begin_request(kvs *m, uint32_t c, uint8_t flags, uint64_t delay)
{
    kvs_client *client = &m->client[c];
    uint64_t    request = (uint64_t)c * m->options.requests + client->done;
    client->flags = flags;
    if (!flags && htc__scale_draw(m->operations, request) >> 1 < m->put_below)
        client->flags = KVS_PUT;
    client->tries = 0;
    client->place = htc__kvs_place(m, htc__kvs_key(m, c, kvs_request(client), NULL));
    m->now.response -= m->at + delay;
    ask(m, c, 0, delay);
}

static uint64_t stall_of(const kvs *m, uint32_t c)
{
    return m->options.synchronised ? 0 : kvs_below(htc__scale_draw(m->stalls, c), m->stall + 1);
}

static void leave(kvs *m, uint32_t c)
{
    double span = (double)(m->at - stall_of(m, c)) * (double)m->options.tick_ns / 1e9;
    double rate = span > 0 ? (double)m->options.requests / span : 0;
    m->now.clients--;
    m->now.rate += rate;
    m->now.rate_squares += rate * rate;
    if (m->aggregators)
        htc__kvs_leave(m, c);
}

static void answered(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    uint8_t     flags = client->flags;
    htc__scale_end(m->scale);
    m->now.last = m->at;
    m->now.response += m->now.last;
    *(flags & KVS_FAILED ? &m->now.failed : &m->now.answered) += 1;
    if (!(flags & KVS_WRITE_BACK))
        client->done++;
    if ((flags & (KVS_CONFLICT | KVS_PUT)) == KVS_CONFLICT) {
        m->now.write_backs++;
        htc_scale_submit(m->scale, 1);
        begin_request(m, c, KVS_PUT | KVS_WRITE_BACK, 0);
    } else if (client->done < m->options.requests) {
        begin_request(m, c, 0, 0);
    } else {
        leave(m, c);
    }
}

static void give_up(kvs *m, uint32_t c)
{
    m->client[c].flags |= KVS_FAILED;
    m->client[c].stage = KVS_GIVEN_UP;
    htc_scale_start(m->scale, c, 0, 0);
}

static void refused(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    uint32_t    a_copy = m->options.strategy == HTC_SIM_KVS_MULTI_TRIAL ? m->options.tries : 1, tries = client->tries + 1u;
    m->now.refused++;
    if (m->copies == 1 || tries >= a_copy * m->copies) {
        give_up(m, c);
        return;
    }
    client->tries = (uint8_t)tries;
    ask(m, c, tries / a_copy, m->options.strategy == HTC_SIM_KVS_TIMEOUT ? m->timeout : 0);
}

/* ---- events ---- */

/* In the lazy form who knows more tells it on the way. */
static void told_on_the_way(kvs *m, uint32_t s, uint32_t via, int from_server)
{
    if (m->lazy && from_server && m->server[s].known < m->server[via].known)
        htc__kvs_learn(m, s, m->server[via].known);
}

static void at_server(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    uint32_t    s = client->target;
    if (!kvs_arrived(m, KVS_REQUESTS, s)) {
        lost(m, c);
        return;
    }
    uint64_t ready = kvs_receive(m, s);
    told_on_the_way(m, s, client->via, client->stage != KVS_ASK);
    switch (client->stage) {
    case KVS_ASK:
        if (s >= m->servers)
            htc__kvs_join(m, s - m->servers, c, ready);
        else
            route(m, c, s, ready);
        break;
    case KVS_LOOKUP:
        look_up(m, c, s, ready);
        break;
    case KVS_FOUND:
        found(m, c, s, ready);
        break;
    case KVS_FORWARD:
        htc__kvs_operate(m, c, s, ready);
        break;
    default:
        htc__kvs_answer(m, c, s, ready);
        break;
    }
}

static void at_client(kvs *m, uint32_t c)
{
    kvs_client *client = &m->client[c];
    if (client->stage & KVS_SENDING) {
        client->stage &= (uint8_t)~KVS_SENDING;
        depart(m, c, m->at);
        return;
    }
    switch (client->stage) {
    case KVS_ANSWER:
        m->now.count[KVS_REQUESTS].received++;
        answered(m, c);
        break;
    case KVS_GIVEN_UP:
        answered(m, c);
        break;
    case KVS_REFUSED:
        refused(m, c);
        break;
    case KVS_BOUNCED:
        bounced(m, c);
        break;
    default:
        assert(client->stage != KVS_HELD);
        at_server(m, c);
        break;
    }
}

void htc__kvs_event(htc_scale *scale, void *ctx, uint32_t id)
{
    kvs *m = ctx;
    m->at = htc__scale_time(scale);
    if (id < m->options.clients)
        at_client(m, id);
    else if (id >= m->first_message)
        htc__kvs_message(m, id - m->first_message);
    else if (id >= m->monitor)
        htc__kvs_flip(m);
    else
        htc__kvs_batch(m, id - m->first_batch);
}

void htc__kvs_soon(const void *ctx, uint32_t id)
{
    const kvs *m = ctx;
    if (id < m->options.clients)
        __builtin_prefetch(&m->client[id], 1);
    else if (id >= m->first_message)
        __builtin_prefetch(&m->message[id - m->first_message], 1);
}

void htc__kvs_begin(kvs *m)
{
    htc_scale_submit(m->scale, m->options.clients * m->options.requests);
    for (uint32_t c = 0; c < m->options.clients; c++)
        begin_request(m, c, 0, stall_of(m, c));
    if (m->failure)
        htc_scale_at(m->scale, m->first_failure, m->monitor);
}
