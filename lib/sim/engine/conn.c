/* Connections between nodes: dialled again and again, opened at both ends, broken at any moment. */
#include <assert.h>
#include <string.h>

#include "core/codec.h"
#include "core/util.h"
#include "core/wire.h"
#include "sim/engine/sim_private.h"

static int alive(const sim_end *end)
{
    return end->node->up && end->node->incarnation == end->incarnation;
}

/* ---- a node's table of peers ---- */

static uint32_t home(const sim_peers *p, uint32_t peer)
{
    return (peer * UINT32_C(0x9e3779b1)) & (p->cap - 1);
}

static uint32_t place_of(const sim_peers *p, uint32_t peer)
{
    uint32_t i = home(p, peer);
    while (p->slots[i].conn && p->slots[i].peer != peer)
        i = (i + 1) & (p->cap - 1);
    return i;
}

static int peers_grow(htc_sim_node *node)
{
    sim_peers *p = &node->peers, old = *p;
    uint32_t   cap = old.cap ? old.cap * 2 : 8;
    sim_peer  *slots = htc__alloc(&node->sim->env, cap * sizeof *slots);
    if (!slots)
        return 0;
    p->slots = slots;
    p->cap = cap;
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slots[i].conn)
            slots[place_of(p, old.slots[i].peer)] = old.slots[i];
    htc__free(&node->sim->env, old.slots, old.cap * sizeof *old.slots);
    return 1;
}

/* There is room for one more after this. */
static int peers_need(htc_sim_node *node)
{
    return (node->peers.count + 1) * 2 <= node->peers.cap || peers_grow(node);
}

static void peers_add(htc_sim_node *node, uint32_t peer, sim_conn *c, int side)
{
    sim_peer *p = &node->peers.slots[place_of(&node->peers, peer)];
    assert(!p->conn);
    *p = (sim_peer){ c, peer, side };
    node->peers.count++;
    c->refs++;
}

static void peers_remove(htc_sim_node *node, uint32_t peer)
{
    sim_peers *p = &node->peers;
    uint32_t   hole = p->cap ? place_of(p, peer) : 0, mask = p->cap - 1;
    sim_conn  *c = p->cap ? p->slots[hole].conn : NULL;
    if (!c)
        return;
    /* Those behind the hole that it would cut off from their home move up. */
    for (uint32_t i = (hole + 1) & mask; p->slots[i].conn; i = (i + 1) & mask)
        if (((i - home(p, p->slots[i].peer)) & mask) >= ((i - hole) & mask)) {
            p->slots[hole] = p->slots[i];
            hole = i;
        }
    p->slots[hole].conn = NULL;
    p->count--;
    htc__sim_conn_unref(node->sim, c);
}

static sim_peer *peer_of(htc_sim_node *node, uint32_t peer)
{
    sim_peer *p = node->peers.cap ? &node->peers.slots[place_of(&node->peers, peer)] : NULL;
    return p && p->conn ? p : NULL;
}

/* ---- their memory ---- */

void htc__sim_conn_unref(htc_sim *sim, sim_conn *c)
{
    if (--c->refs)
        return;
    for (int i = 0; i < 2; i++)
        htc_buf_free(&c->end[i].pipe.bytes);
    c->next = sim->free_conns;
    sim->free_conns = c;
}

static sim_conn *conn_new(htc_sim *sim)
{
    sim_conn *c = sim->free_conns;
    if (c)
        sim->free_conns = c->next;
    else
        c = htc__alloc(&sim->env, sizeof *c);
    if (!c)
        htc__sim_refused(sim);
    return c;
}

static void dial_free(htc_sim *sim, sim_dial *d)
{
    d->next = sim->free_dials;
    sim->free_dials = d;
}

void htc__sim_dial_unref(htc_sim *sim, sim_dial *d)
{
    if (--d->pending == 0 && d->dead)
        dial_free(sim, d);
}

static int dials(const htc_sim_node *node, uint32_t peer)
{
    const sim_dial *d = node->dials;
    while (d && d->peer != peer)
        d = d->next;
    return d != NULL;
}

/* Its connection has ended, and it was for once. */
static void dial_over(sim_conn *c)
{
    sim_dial  *d = c->dial;
    sim_dial **at = &d->node->dials;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    c->dial = NULL;
    d->dead = 1;
    if (!d->pending)
        dial_free(d->node->sim, d);
}

void htc__sim_conns_free(htc_sim *sim)
{
    for (sim_conn *c = sim->free_conns, *next; c; c = next) {
        next = c->next;
        htc__free(&sim->env, c, sizeof *c);
    }
    for (sim_dial *d = sim->free_dials, *next; d; d = next) {
        next = d->next;
        htc__free(&sim->env, d, sizeof *d);
    }
}

/* ---- what travels on them ---- */

/* Nothing arrives before what was sent before it. */
static htc_ns in_order(sim_end *to, htc_ns at)
{
    if (at < to->last_arrival)
        at = to->last_arrival;
    to->last_arrival = at;
    return at;
}

sim_event *htc__sim_event_to(sim_conn *c, int to, const htc_input *in)
{
    sim_end   *end = &c->end[to];
    sim_event *e = htc__sim_event(end->node->sim, end->node, in);
    if (!e)
        return NULL;
    e->in.peer = end->peer;
    e->incarnation = end->incarnation;
    e->conn = c;
    e->to = (uint32_t)to;
    c->refs++;
    return e;
}

/* OPENED or CLOSED. by_link: the news has to travel, and waits where nothing gets through. */
static void tell(sim_conn *c, int to, htc_input_kind kind, htc_status status, int by_link)
{
    sim_end *end = &c->end[to];
    htc_sim *sim = end->node->sim;
    uint8_t  room[64]; /* no allocation: a buffer that is bounded by what it is given */
    htc_buf  b = { .data = room, .cap = sizeof room, .max = sizeof room };
    if (kind == HTC_IN_OPENED) {
        htc_peer_info info = c->end[!to].node->options.info;
        info.port = end->port;
        htc_peer_info_write(&b, &info);
    }
    sim_event *e = htc__sim_event_to(c, to, &(htc_input){ .size = sizeof(htc_input), .kind = kind, .status = status, .body = htc_buf_bytes(&b) });
    if (!e)
        return;
    e->by_link = (uint32_t)by_link;
    htc__sim_push(sim, e, in_order(end, htc__sim_after(sim, by_link ? htc__sim_link_latency(sim, end->link) : 0)));
}

/* The connection is over. cause: the end that ended it, whose news has to travel to the other; -1: the network, and both see
 * it by themselves. */
void htc__sim_sever(sim_conn *c, htc_status status, int cause)
{
    if (c->broken)
        return;
    c->broken = 1;
    for (int i = 0; i < 2; i++)
        if (alive(&c->end[i]))
            tell(c, i, HTC_IN_CLOSED, status, cause == !i);
}

/* The network ends it: what is under way is lost. */
static void snap(sim_conn *c)
{
    c->cut = 1;
    htc__sim_sever(c, HTC_ECLOSED, -1);
}

htc_status htc_sim_break(htc_sim_node *a, htc_sim_node *b)
{
    if (!a || !b || a->sim != b->sim)
        return HTC_EINVAL;
    for (uint32_t i = 0; i < a->peers.cap; i++) {
        sim_peer *p = &a->peers.slots[i];
        if (p->conn && p->conn->end[!p->side].node == b)
            snap(p->conn);
    }
    return a->sim->status;
}

/* When the last byte of something that is sent now arrives. */
htc_ns htc__sim_arrival(htc_sim *sim, sim_link *link, size_t len)
{
    const htc_sim_net *net = htc__sim_link_net(sim, link);
    htc_ns             begin = sim->now;
    if (net->bytes_per_s) {
        begin = link->wire_free > begin ? link->wire_free : begin;
        begin = htc__sim_sum(begin, len / net->bytes_per_s * HTC_SECOND + len % net->bytes_per_s * HTC_SECOND / net->bytes_per_s);
        link->wire_free = begin;
    }
    return htc__sim_sum(begin, htc__sim_link_latency(sim, link));
}

static void send_copy(sim_conn *c, int to, htc_bytes body, int first)
{
    sim_end           *end = &c->end[to];
    htc_sim           *sim = end->node->sim;
    const htc_sim_net *net = htc__sim_link_net(sim, end->link);
    sim_event         *e = htc__sim_event_to(c, to, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .body = body });
    if (!e)
        return;
    e->by_link = 1;
    htc_ns at = htc__sim_arrival(sim, end->link, body.len);
    if (htc__sim_link_chance(sim, end->link, net->delay_ppm)) {
        at = htc__sim_sum(at, htc__sim_up_to(&end->link->rng, net->delay_ns));
        sim->met[SIM_MET_DELAYED]++;
    }
    if (!first && !c->faithful && htc__sim_link_chance(sim, end->link, net->reorder_ppm)) {
        at = htc__sim_sum(at, htc__sim_up_to(&end->link->rng, net->reorder_ns));
        sim->met[SIM_MET_REORDERED]++;
    } else {
        at = in_order(end, at);
    }
    htc__sim_push(sim, e, at);
}

sim_conn *htc__sim_conn_of(htc_sim_node *node, uint32_t peer, int *side)
{
    sim_peer *p = peer_of(node, peer);
    if (!p || p->conn->broken || p->conn->end[p->side].open != 1)
        return NULL;
    *side = p->side;
    return p->conn;
}

void htc__sim_send(htc_sim_node *node, const htc_effect *effect)
{
    int       side;
    sim_conn *c = htc__sim_conn_of(node, effect->peer, &side);
    if (!c || c->stream)
        return;
    htc_sim           *sim = node->sim;
    sim_end           *end = &c->end[!side];
    const htc_sim_net *net = htc__sim_link_net(sim, end->link);
    int                to = !side, first = !end->greeted;
    end->greeted = 1;
    if (!c->faithful && htc__sim_link_chance(sim, end->link, net->break_ppm)) {
        sim->met[SIM_MET_BROKEN]++;
        snap(c);
        return;
    }
    if (!c->faithful && (htc__sim_link_cut(end->link) || htc__sim_link_chance(sim, end->link, net->loss_ppm))) {
        sim->met[SIM_MET_LOST]++;
        if (first)
            snap(c);
        return;
    }
    send_copy(c, to, effect->body, first);
    if (!first && !c->faithful && htc__sim_link_chance(sim, end->link, net->duplicate_ppm)) {
        sim->met[SIM_MET_DOUBLED]++;
        send_copy(c, to, effect->body, first);
    }
}

void htc__sim_close_peer(htc_sim_node *node, uint32_t peer, htc_status status)
{
    sim_peer *p = peer_of(node, peer);
    if (p && p->conn->stream)
        htc__sim_stream_close(p->conn, status, p->side);
    else if (p)
        htc__sim_sever(p->conn, status, p->side);
}

/* ---- dialling ---- */

static void try_later(htc_sim *sim, sim_dial *d, htc_ns delay)
{
    sim_event *e = htc__sim_event(sim, NULL, NULL);
    if (!e)
        return;
    e->dial = d;
    d->pending++;
    htc__sim_push_as(sim, e, htc__sim_after(sim, delay), d->seq);
}

static void redial(htc_sim *sim, sim_dial *d, htc_ns delay)
{
    d->seq = sim->queue.seq++;
    try_later(sim, d, delay);
}

static int reachable(const htc_sim_node *from, const htc_sim_node *to)
{
    return to->up && !htc_sim_paused(to) && htc_sim_passes(from, to) && htc_sim_passes(to, from);
}

static void connect(htc_sim *sim, sim_dial *d)
{
    sim_link *there = htc__sim_link(d->node, d->target), *back = htc__sim_link(d->target, d->node);
    if (!there || !back)
        return;
    if (!peers_need(d->node) || !peers_need(d->target) || (d->node == d->target && !peers_grow(d->node))) {
        htc__sim_refused(sim);
        return;
    }
    sim_conn *c = conn_new(sim);
    if (!c)
        return;
    *c = (sim_conn){ .dial = d,
                     .stream = d->stream != 0,
                     .faithful = d->stream || d->node->options.faithful || d->target->options.faithful };
    c->end[0] = (sim_end){
        .node = d->node, .incarnation = d->node->incarnation, .peer = d->peer, .port = d->port, .link = back
    };
    c->end[1] = (sim_end){ .node = d->target,
                           .incarnation = d->target->incarnation,
                           .peer = d->target->next_peer++,
                           .port = d->listener,
                           .link = there };
    for (int i = 0; i < 2; i++)
        htc_buf_init(&c->end[i].pipe.bytes, &sim->env, 0);
    for (int i = 0; i < 2; i++)
        peers_add(c->end[i].node, c->end[i].peer, c, i);
    tell(c, 1, HTC_IN_OPENED, HTC_OK, 0);
    tell(c, 0, HTC_IN_OPENED, HTC_OK, 1);
}

static void take_turn(sim_dial *d)
{
    htc_sim_node *next = d->other;
    if (!next)
        return;
    d->other = d->target;
    d->target = next;
}

/* It is tried every redial_ns; those times at which it would fail are no events: it waits at its target. */
static void wait_for_target(sim_dial *d)
{
    htc_sim_node *target = d->target;
    d->tried = d->node->sim->now;
    d->pending++;
    d->next_waiting = NULL;
    if (target->callers)
        *target->last_caller = d;
    else
        target->callers = d;
    target->last_caller = &d->next_waiting;
}

/* From now on it waits until the target is up. */
static void tell_refused(htc_sim *sim, const sim_dial *d)
{
    uint8_t number[4];
    if (!d->refused || d->target->up || !htc_sim_passes(d->node, d->target))
        return;
    htc__le32_put(number, d->peer);
    if (htc_sim_event(d->node, 0, d->refused, HTC_OK, (htc_bytes){ number, sizeof number }) != HTC_OK)
        htc__sim_refused(sim);
}

void htc__sim_dial_try(htc_sim *sim, sim_dial *d)
{
    if (d->dead)
        return;
    if (reachable(d->node, d->target)) {
        connect(sim, d);
        return;
    }
    tell_refused(sim, d);
    if (d->other) {
        take_turn(d);
        redial(sim, d, sim->options.redial_ns);
        return;
    }
    wait_for_target(d);
}

/* Until it is tried next: so many times after it was tried last. */
static htc_ns until_next(const htc_sim *sim, const sim_dial *d)
{
    htc_ns gap = sim->options.redial_ns, passed = sim->now - d->tried;
    return passed == 0 ? gap : (gap - passed % gap) % gap;
}

void htc__sim_callers(htc_sim_node *target)
{
    htc_sim   *sim = target->sim;
    sim_dial **at = &target->callers;
    while (*at) {
        sim_dial *d = *at;
        if (!d->dead && !reachable(d->node, target)) {
            at = &d->next_waiting;
            continue;
        }
        *at = d->next_waiting;
        if (!d->dead)
            try_later(sim, d, until_next(sim, d));
        htc__sim_dial_unref(sim, d);
    }
    target->last_caller = at;
}

void htc__sim_callers_forget(htc_sim_node *target)
{
    for (sim_dial *d = target->callers, *next; d; d = next) {
        next = d->next_waiting;
        htc__sim_dial_unref(target->sim, d);
    }
    target->callers = NULL;
}

htc_status htc_sim_dial(htc_sim_node *node, uint32_t peer, htc_sim_node *target, const htc_sim_dial_options *options)
{
    htc_sim_dial_options o = { 0 };
    if (options && options->size > offsetof(htc_sim_dial_options, other) && options->other && node && options->other->sim != node->sim)
        return HTC_EINVAL;
    if (!node || !target || node->sim != target->sim || peer == 0 || peer >= HTC_SIM_PEER_FIRST ||
        !(node->up || node->booting) || dials(node, peer))
        return HTC_EINVAL;
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    htc_sim  *sim = node->sim;
    sim_link *link = htc__sim_link(node, target);
    sim_dial *d = sim->free_dials;
    if (d)
        sim->free_dials = d->next;
    else
        d = htc__alloc(&sim->env, sizeof *d);
    if (!d || !link) {
        if (d)
            dial_free(sim, d);
        return htc__sim_refused(sim);
    }
    *d = (sim_dial){ .node = node,
                     .target = target,
                     .other = o.other,
                     .peer = peer,
                     .port = o.port,
                     .listener = o.listener,
                     .once = o.once,
                     .stream = o.stream,
                     .refused = o.refused,
                     .next = node->dials };
    node->dials = d;
    redial(sim, d, htc__sim_link_latency(sim, link));
    return sim->status;
}

htc_status htc_sim_hang_up(htc_sim_node *node, uint32_t peer)
{
    if (!node)
        return HTC_EINVAL;
    sim_dial **at = &node->dials;
    while (*at && (*at)->peer != peer)
        at = &(*at)->next;
    sim_dial *d = *at;
    if (!d)
        return HTC_ENOTFOUND;
    d->once = 1;
    if (peer_of(node, peer)) { /* when its end is told, the dial is over */
        htc__sim_close_peer(node, peer, HTC_OK);
        return node->sim->status;
    }
    *at = d->next;
    d->dead = 1;
    if (!d->pending)
        dial_free(node->sim, d);
    return node->sim->status;
}

void htc__sim_conns_forget(htc_sim_node *node)
{
    for (uint32_t i = 0; i < node->peers.cap; i++)
        if (node->peers.slots[i].conn)
            htc__sim_conn_unref(node->sim, node->peers.slots[i].conn);
    htc__free(&node->sim->env, node->peers.slots, node->peers.cap * sizeof *node->peers.slots);
    node->peers = (sim_peers){ 0 };
    for (sim_dial *d = node->dials, *next; d; d = next) {
        next = d->next;
        d->dead = 1;
        if (!d->pending)
            dial_free(node->sim, d);
    }
    node->dials = NULL;
}

void htc__sim_conns_gone(htc_sim_node *node)
{
    for (uint32_t i = 0; i < node->peers.cap; i++)
        if (node->peers.slots[i].conn)
            htc__sim_sever(node->peers.slots[i].conn, HTC_ECLOSED, node->peers.slots[i].side);
    htc__sim_conns_forget(node);
}

/* ---- what arrives ---- */

int htc__sim_conn_stopped(htc_sim *sim, sim_event *e)
{
    sim_conn *c = e->conn;
    sim_link *link = c->end[e->to].link;
    int       cut = htc__sim_link_cut(link), first = e->released;
    if (!e->by_link)
        return 0;
    assert(link->releasing >= (uint32_t)first);
    link->releasing -= (uint32_t)first;
    e->released = 0;
    if (cut && e->in.kind == HTC_IN_MESSAGE && !c->faithful) {
        sim->met[SIM_MET_LOST]++;
        htc__sim_event_free(sim, e);
    } else if (cut || htc__sim_link_clogged(sim, link) || (!first && link->held.first))
        htc__sim_link_hold(sim, link, e);
    else if (!first && link->releasing)
        htc__sim_push(sim, e, sim->now); /* behind those that waited longer */
    else
        return 0;
    return 1;
}

int htc__sim_conn_event(htc_sim *sim, sim_event *e)
{
    sim_conn *c = e->conn;
    sim_end  *end = &c->end[e->to];
    int       told = end->open == 1;
    if (!alive(end))
        return 0;
    if (e->in.kind == HTC_IN_MESSAGE || e->in.kind == HTC_IN_BYTES || e->in.kind == HTC_IN_SENT)
        return told && !c->cut;
    if (e->in.kind == HTC_IN_OPENED) {
        end->open = !c->broken;
        return !c->broken;
    }
    end->open = -1;
    peers_remove(end->node, end->peer);
    if (e->to == 0 && c->dial->once)
        dial_over(c);
    else if (e->to == 0) {
        take_turn(c->dial);
        redial(sim, c->dial, sim->options.redial_ns);
    }
    return told;
}
