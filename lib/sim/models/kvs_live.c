/* The model of this library's own store: what happens to a request. */
#include <assert.h>

#include "sim/models/kvs.h"
#include "sim/models/kvs_live.h"
#include "sim/scale/scale_private.h"

/* ---- items, frames, lists of items ---- */

static uint32_t take_item(live *m, uint32_t kind, uint32_t op, uint32_t turn, uint32_t from)
{
    uint32_t i = m->now.free_item;
    if (i != LIVE_NONE) {
        m->now.free_item = m->item[i].next;
    } else if (m->now.items < m->items_max) {
        i = m->now.items++;
    } else {
        htc_scale_fail(m->scale, HTC_EFULL);
        return LIVE_NONE;
    }
    m->item[i] = (live_item){ LIVE_NONE, op, turn, from, kind };
    return i;
}

static void free_item(live *m, uint32_t i)
{
    m->item[i].next = m->now.free_item;
    m->now.free_item = i;
}

static void append(live *m, live_list *l, uint32_t i)
{
    m->item[i].next = LIVE_NONE;
    if (l->first == LIVE_NONE)
        l->first = i;
    else
        m->item[l->last].next = i;
    l->last = i;
}

static void append_all(live *m, live_list *l, live_list *more)
{
    if (more->first == LIVE_NONE)
        return;
    if (l->first == LIVE_NONE)
        l->first = more->first;
    else
        m->item[l->last].next = more->first;
    l->last = more->last;
    more->first = LIVE_NONE;
}

static uint32_t take_frame(live *m, uint32_t from, uint32_t to, uint32_t link)
{
    uint32_t f = m->now.free_frame;
    if (f != LIVE_NONE) {
        m->now.free_frame = m->frame[f].next;
    } else if (m->now.frames < m->frames_max) {
        f = m->now.frames++;
    } else {
        htc_scale_fail(m->scale, HTC_EFULL);
        return LIVE_NONE;
    }
    live_process *v = &m->process[from];
    m->frame[f] = (live_frame){ { LIVE_NONE, LIVE_NONE }, to, LIVE_NONE, 0, from, link };
    *(v->out == LIVE_NONE ? &v->out : &m->frame[v->out_last].next) = f;
    v->out_last = f;
    m->frame_of[link] = f;
    return f;
}

/* From a process that has its turn: what goes by the same connection goes in one frame. */
static void send(live *m, uint32_t from, uint32_t to, uint32_t kind, uint32_t op, uint32_t turn)
{
    uint32_t link = from < m->members && to < m->members ? to : m->members + op / m->depth, f = m->frame_of[link];
    if (f == LIVE_NONE || m->frame[f].to != to)
        f = take_frame(m, from, to, link);
    uint32_t i = f == LIVE_NONE ? LIVE_NONE : take_item(m, kind, op, turn, from);
    if (i == LIVE_NONE)
        return;
    append(m, &m->frame[f].items, i);
    m->frame[f].n++;
}

/* ---- a register ---- */

/* Its requests wait for each other. Those to a member that is alone do not: it has no rounds, and changes of one key are in one sync. */
static int is_few(const live *m, uint32_t key)
{
    return m->key && key != LIVE_NONE && m->members > 1;
}

/* To the other owners; this one's own part is staged, or is an answer already. */
static void round_to_owners(live *m, uint32_t p, uint32_t o, uint8_t phase)
{
    live_op *op = &m->op[o];
    uint32_t seat[HTC_RING_OWNERS_MAX], n = htc_ring_owners(m->ring, op->bucket, seat);
    op->phase = phase;
    op->answers = phase == LIVE_READ; /* of itself */
    op->turn++;
    for (uint32_t i = 0; i < n && i < m->owners; i++)
        if (seat[i] != p)
            send(m, p, seat[i], phase, o, op->turn);
    if (phase == LIVE_READ)
        return;
    uint32_t i = take_item(m, phase, o, op->turn, p);
    if (i != LIVE_NONE)
        append(m, &m->process[p].staged, i);
}

static void finish(live *m, uint32_t p, uint32_t o);

static void begin_round(live *m, uint32_t p, uint32_t o)
{
    live_op *op = &m->op[o];
    int      known = m->owners == 1 || !is_few(m, op->key) || m->key[op->key].known;
    round_to_owners(m, p, o, !op->put ? LIVE_READ : known ? LIVE_ACCEPT : LIVE_PREPARE);
    if (op->answers >= m->majority)
        finish(m, p, o);
}

/* Requests of a key are taken one after the other; reads that wait together are one. */
static void begin_next(live *m, uint32_t p, live_key *k)
{
    uint32_t o = k->first;
    k->busy = o;
    k->joined = 0;
    if (o == LIVE_NONE)
        return;
    k->first = m->op[o].waits;
    for (uint32_t next = k->first; !m->op[o].put && next != LIVE_NONE && !m->op[next].put; next = m->op[next].waits)
        k->joined++;
    begin_round(m, p, o);
}

static void asked(live *m, uint32_t p, uint32_t o)
{
    live_op *op = &m->op[o];
    if (!is_few(m, op->key)) {
        begin_round(m, p, o);
        return;
    }
    live_key *k = &m->key[op->key];
    if (op->listed) { /* it cannot be twice: a checkpoint has had it in two places */
        htc_scale_fail(m->scale, HTC_ECORRUPT);
        return;
    }
    op->listed = 1;
    op->waits = LIVE_NONE;
    if (k->first == LIVE_NONE)
        k->first = o;
    else
        m->op[k->last].waits = o;
    k->last = o;
    if (k->busy == LIVE_NONE)
        begin_next(m, p, k);
}

static uint32_t program_of(const live *m, uint32_t o)
{
    return m->members + (uint32_t)((uint64_t)(o / m->depth) * m->programs / m->options.clients);
}

static void answer(live *m, uint32_t p, uint32_t o)
{
    m->op[o].turn++;
    m->op[o].listed = 0;
    send(m, p, program_of(m, o), LIVE_ANSWER, o, 0);
}

static void finish(live *m, uint32_t p, uint32_t o)
{
    live_op *op = &m->op[o];
    if (is_few(m, op->key) && m->key[op->key].busy != o) { /* as a checkpoint has it */
        htc_scale_fail(m->scale, HTC_ECORRUPT);
        return;
    }
    answer(m, p, o);
    if (!is_few(m, op->key))
        return;
    live_key *k = &m->key[op->key];
    if (op->put)
        k->known = 1;
    for (; k->joined; k->joined--) {
        uint32_t with = k->first;
        k->first = m->op[with].waits;
        answer(m, p, with);
    }
    begin_next(m, p, k);
}

/* An owner has answered, this one or another. */
static void replied(live *m, uint32_t p, uint32_t o, uint32_t turn)
{
    live_op *op = &m->op[o];
    if (op->turn != turn || ++op->answers < m->majority)
        return;
    if (op->phase == LIVE_PREPARE)
        round_to_owners(m, p, o, LIVE_ACCEPT);
    else
        finish(m, p, o);
}

/* These are durable here, which has its cost: owners answer, with the round that they were asked in, whatever the request is at now. */
static void release(live *m, uint32_t p, live_list *l)
{
    while (l->first != LIVE_NONE) {
        live_item item = m->item[l->first];
        m->spent += m->write;
        free_item(m, l->first);
        l->first = item.next;
        if (item.from == p)
            replied(m, p, item.op, item.turn);
        else
            send(m, p, item.from, LIVE_REPLY, item.op, item.turn);
    }
}

/* ---- a client ---- */

static void ask(live *m, uint32_t p, uint32_t o)
{
    live_op     *op = &m->op[o];
    live_client *client = &m->client[o / m->depth];
    uint64_t     request = (uint64_t)(o / m->depth) * m->options.requests + client->begun, bits = htc__scale_draw(m->keys, request), key = LIVE_NONE;
    uint32_t     seat[HTC_RING_OWNERS_MAX];
    client->begun++;
    if (m->options.keys) {
        key = m->sum ? htc__kvs_weighted(m->sum, m->options.keys, bits) : kvs_below(bits, m->options.keys);
        bits = htc__scale_mix(m->keys ^ (key + 1) * UINT64_C(0x9e3779b97f4a7c15));
    }
    op->key = (uint32_t)key;
    op->put = htc__scale_draw(m->operations, request) >> 1 < m->put_below;
    op->bucket = htc_ring_bucket(m->ring, bits);
    (void)htc_ring_owners(m->ring, op->bucket, seat);
    op->at = seat[0];
    op->begun = htc_scale_now(m->scale);
    send(m, p, op->at, LIVE_ASK, o, 0);
}

static void answered(live *m, uint32_t p, uint32_t o)
{
    uint32_t     c = o / m->depth;
    live_client *client = &m->client[c];
    uint64_t     now = htc_scale_now(m->scale);
    htc__scale_began(m->scale); /* what it took is in the response */
    htc_scale_end(m->scale);
    client->done++;
    m->now.answered++;
    m->now.response += now - m->op[o].begun;
    m->now.last = now;
    if (client->begun < m->options.requests) {
        ask(m, p, o);
    } else if (client->done == m->options.requests) {
        double span = (double)now * (double)m->options.tick_ns / 1e9, rate = span > 0 ? (double)m->options.requests / span : 0;
        m->now.clients--;
        m->now.rate += rate;
        m->now.rate_squares += rate * rate;
    }
}

/* ---- turns ---- */

/* It waits for a core, or has one: its turn begins when all else of this tick has come. A core that had nothing to do begins later. */
static void wake(live *m, uint32_t p)
{
    live_process *v = &m->process[p];
    if (v->state != LIVE_IDLE)
        return;
    if (!m->options.cores || m->now.running < m->options.cores) {
        v->state = LIVE_BEGINS;
        m->now.running++;
        htc_scale_at(m->scale, htc_scale_now(m->scale) + (v->awake ? 0 : m->idle), m->first_process + p);
        return;
    }
    v->state = LIVE_READY;
    v->next = LIVE_NONE;
    if (m->now.ready.first == LIVE_NONE)
        m->now.ready.first = p;
    else
        m->process[m->now.ready.last].next = p;
    m->now.ready.last = p;
}

static void take(live *m, uint32_t p, const live_item *item)
{
    live_process *v = &m->process[p];
    uint32_t      i;
    switch (item->kind) {
    case LIVE_BEGIN:
        m->spent += m->client_cost;
        if (m->client[item->op / m->depth].begun < m->options.requests)
            ask(m, p, item->op);
        break;
    case LIVE_ASK:
        m->now.served += m->service;
        m->spent += m->service + (m->owners > 1 ? m->accept : 0);
        asked(m, p, item->op);
        break;
    case LIVE_READ:
        m->spent += m->accept;
        send(m, p, item->from, LIVE_REPLY, item->op, item->turn);
        break;
    case LIVE_PREPARE:
    case LIVE_ACCEPT:
        m->spent += m->accept;
        if ((i = take_item(m, item->kind, item->op, item->turn, item->from)) != LIVE_NONE)
            append(m, &v->staged, i);
        break;
    case LIVE_REPLY:
        m->spent += m->accept;
        replied(m, p, item->op, item->turn);
        break;
    default:
        m->spent += m->client_cost;
        answered(m, p, item->op);
        break;
    }
}

static void take_inbox(live *m, uint32_t p)
{
    live_process *v = &m->process[p];
    uint32_t      i = v->inbox.first;
    m->spent += v->frames * m->unpack;
    v->inbox.first = LIVE_NONE;
    v->frames = 0;
    while (i != LIVE_NONE) {
        live_item item = m->item[i];
        free_item(m, i);
        take(m, p, &item);
        i = item.next;
    }
}

/* Frames leave one after the other when all else is done: a loop writes what its machine has said when the turn is over. */
static void take_turn(live *m, uint32_t p)
{
    live_process *v = &m->process[p];
    uint64_t      now = htc_scale_now(m->scale);
    m->spent = m->turn + (v->awake ? 0 : m->wake);
    v->awake = 0;
    v->state = LIVE_RUNS;
    m->now.turns++;
    if (v->stored) {
        v->stored = v->in_sync = 0; /* the next sync is no earlier: the member has to learn of this one */
        m->spent += m->commit;
        release(m, p, &v->syncing);
    }
    take_inbox(m, p);
    while (!m->sync && v->staged.first != LIVE_NONE) { /* durable at once: what that leads to may stage more */
        live_list staged = v->staged;
        v->staged.first = LIVE_NONE;
        release(m, p, &staged);
    }
    for (uint32_t f = v->out, next; f != LIVE_NONE; f = next) {
        live_frame *frame = &m->frame[f];
        next = frame->next;
        m->frame_of[frame->link] = LIVE_NONE;
        (p < m->members && frame->to < m->members ? &m->now.between : &m->now.requests)->sent++;
        m->spent += m->pack;
        htc_scale_at(m->scale, now + m->spent + m->latency + (uint64_t)(frame->n * m->byte_ticks + 0.5), f);
    }
    v->out = LIVE_NONE;
    v->busy += m->spent;
    htc_scale_at(m->scale, now + m->spent, m->first_process + p);
}

static void next_on_core(live *m)
{
    uint32_t p = m->now.ready.first;
    if (p == LIVE_NONE || (m->options.cores && m->now.running >= m->options.cores))
        return;
    m->now.ready.first = m->process[p].next;
    m->now.running++;
    take_turn(m, p);
}

static void turn_ends(live *m, uint32_t p)
{
    live_process *v = &m->process[p];
    uint64_t      now = htc_scale_now(m->scale);
    v->state = LIVE_IDLE;
    if (v->staged.first != LIVE_NONE && !v->in_sync) {
        append_all(m, &v->syncing, &v->staged);
        v->in_sync = 1;
        v->state = m->members == 1 ? LIVE_SYNCS : LIVE_IDLE;
        m->now.syncs++;
        htc_scale_at(m->scale, now + m->sync, m->first_sync + p);
    }
    m->now.running--;
    v->awake = v->state == LIVE_IDLE && (v->inbox.first != LIVE_NONE || v->stored);
    if (v->awake)
        wake(m, p);
    next_on_core(m);
}

/* ---- events ---- */

static void arrives(live *m, uint32_t f)
{
    live_frame   *frame = &m->frame[f];
    uint32_t      to = frame->to;
    live_process *v = &m->process[to];
    (frame->from < m->members && to < m->members ? &m->now.between : &m->now.requests)->received++;
    append_all(m, &v->inbox, &frame->items);
    v->frames++;
    frame->next = m->now.free_frame;
    m->now.free_frame = f;
    wake(m, to);
}

static void synced(live *m, uint32_t p)
{
    live_process *v = &m->process[p];
    v->stored = 1;
    if (v->state == LIVE_SYNCS) {
        v->state = LIVE_IDLE;
        v->awake = 1;
    }
    wake(m, p);
}

void htc__live_event(htc_scale *scale, void *ctx, uint32_t id)
{
    live         *m = ctx;
    live_process *v = id >= m->first_process ? &m->process[id - m->first_process] : NULL;
    (void)scale;
    if (id < m->first_sync)
        arrives(m, id);
    else if (!v)
        synced(m, id - m->first_sync);
    else if (v->state == LIVE_BEGINS)
        take_turn(m, id - m->first_process);
    else if (v->state == LIVE_RUNS)
        turn_ends(m, id - m->first_process);
    else
        wake(m, id - m->first_process);
}

void htc__live_begin(live *m)
{
    uint64_t requests = m->options.clients * m->options.requests;
    htc_scale_submit(m->scale, requests);
    for (uint32_t o = 0; o < m->options.clients * m->depth; o++) {
        uint32_t i = take_item(m, LIVE_BEGIN, o, 0, LIVE_NONE);
        if (i != LIVE_NONE)
            append(m, &m->process[program_of(m, o)].inbox, i);
    }
    for (uint32_t p = m->members; p < m->members + m->programs; p++)
        htc_scale_at(m->scale, m->options.synchronised ? 0 : kvs_below(htc__scale_draw(m->stalls, p), m->stall + 1), m->first_process + p);
}
