/* The members, what they say to each other, and time. */
#include "kvs/cluster.h"

#include <string.h>

#include "core/fault.h"
#include "kvs/cluster_watch.h"
#include "kvs/digest.h"
#include "kvs/eventual.h"

/* One message has at most about this many bytes of items, if it has more than one. */
#define MESSAGE_BYTES ((size_t)1 << 20)
/* What waits for a member beyond this is dropped, as if it had been lost. */
#define WAITING_BYTES ((size_t)48 << 20) /* a quarter of the most that a buffer takes */
/* Sent in one step. */
#define FLUSH_BYTES ((size_t)24 << 20)

/* ---------------------------------------------------------------- members */

htc__kv_peer *htc__kv_cluster_peer(const htc__kv_cluster *c, uint64_t id)
{
    for (uint32_t i = 0; id && i < c->count; i++)
        if (c->peers[i].id == id)
            return &c->peers[i];
    return NULL;
}

htc__kv_peer *htc__kv_cluster_add_peer(htc_kv_server *s, uint64_t id, uint32_t number)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_peer    *more =
        htc__resize(&s->env, c->peers, c->count * sizeof *more, ((size_t)c->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    c->peers = more;
    htc__kv_peer *peer = &c->peers[c->count++];
    *peer = (htc__kv_peer){ .id = id, .number = number, .heard = s->now };
    htc_buf_init(&peer->items, &s->env, 4 * WAITING_BYTES);
    return peer;
}

int htc__kv_cluster_suspected(const htc_kv_server *s, const htc__kv_peer *peer)
{
    return !peer->self && (!peer->connected || s->now - peer->heard > s->cluster->suspect_ns);
}

static void choose_first(const htc_kv_server *s, htc__kv_owners *owners, const htc__kv_peer *peer, uint32_t i)
{
    owners->id[i] = peer->id;
    if (owners->first == owners->n && !htc__kv_cluster_suspected(s, peer))
        owners->first = i;
}

htc__kv_owners htc__kv_cluster_owners(const htc_kv_server *s, htc_bytes key, uint32_t *bucket)
{
    const htc__kv_cluster *c = s->cluster;
    htc__kv_owners         owners = { 0 };
    *bucket = htc__kv_cluster_bucket(c, key);
    owners.epoch = htc__kv_bucket_epoch(c, *bucket);
    if (*bucket == HTC__KV_OWN_BUCKET) {
        owners.n = owners.first = c->map->own.n;
        for (uint32_t i = 0; i < owners.n; i++)
            choose_first(s, &owners, htc__kv_cluster_peer(c, c->map->own.id[i]), i);
    } else {
        const htc__kv_route *route = &c->route[*bucket];
        owners.n = owners.first = route->n;
        for (uint32_t i = 0; i < owners.n; i++)
            choose_first(s, &owners, &c->peers[route->peer[i]], i);
    }
    owners.first = owners.first < owners.n ? owners.first : 0;
    return owners;
}

void htc__kv_cluster_broken(htc_kv_server *s, htc_status why)
{
    if (s->broken == HTC_OK)
        s->broken = why;
}

/* ---------------------------------------------------------------- messages */

static htc_status send(htc_kv_server *s, uint32_t number, htc_output *out);

void htc__kv_cluster_say_to(htc_kv_server *s, htc__kv_peer *peer, uint8_t kind, htc_bytes item)
{
    /* A member's answer to itself is the only one that nobody would ask for again. */
    int again = !peer || !peer->self || kind != HTC__KV_ITEM_ANSWER;
    if (!peer || (!peer->self && !peer->connected) || (again && peer->items.len > peer->items.max / 4)) {
        s->cluster->counts.dropped++;
        return;
    }
    htc_put_u8(&peer->items, kind);
    htc_put_bytes(&peer->items, item);
    if (peer->items.status != HTC_OK)
        htc__kv_cluster_broken(s, HTC_ENOMEM);
}

void htc__kv_cluster_say(htc_kv_server *s, uint64_t to, uint8_t kind, htc_bytes item)
{
    htc__kv_cluster_say_to(s, htc__kv_cluster_peer(s->cluster, to), kind, item);
}

void htc__kv_cluster_say_all(htc_kv_server *s, uint8_t kind, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < c->count; i++)
        if (!c->peers[i].self && c->peers[i].id && c->peers[i].connected)
            htc__kv_cluster_say_to(s, &c->peers[i], kind, item);
}

void htc__kv_cluster_send(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    htc_kv_server   *s = ctx;
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc__kv_ask_write(&c->scratch, ask);
    if (c->scratch.status != HTC_OK) {
        htc__kv_cluster_broken(s, c->scratch.status);
        return;
    }
    /* The hard place of a change: some may have it, and whoever knows that is gone. */
    if (ask->kind == HTC__KV_ACCEPT && HTC__FAULT(&s->env, accept_sent_to_one))
        mask &= UINT32_C(1) << ask->round % owners->n;
    if (ask->kind == HTC__KV_ACCEPT && HTC__FAULT(&s->env, end_after_accept))
        c->ending = 1;
    if (ask->kind == HTC__KV_PREPARE && HTC__FAULT(&s->env, end_after_prepare))
        c->ending = 1;
    for (uint32_t i = 0; i < owners->n; i++)
        if (mask >> i & 1)
            htc__kv_cluster_say(s, owners->id[i], HTC__KV_ITEM_ASK, htc_buf_bytes(&c->scratch));
}

/* Of the map, and of buckets that move. */
static int hear_of_map(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    switch (kind) {
    case HTC__KV_ITEM_HAVE:
        htc__kv_cluster_on_have(s, from, item);
        return 1;
    case HTC__KV_ITEM_WANT:
        htc__kv_cluster_on_want(s, from, item);
        return 1;
    case HTC__KV_ITEM_MAP:
        htc__kv_cluster_on_map(s, item);
        return 1;
    case HTC__KV_ITEM_JOIN:
        htc__kv_cluster_on_join(s, item);
        return 1;
    default:
        return !s->cluster->map; /* there is nothing else that it could do */
    }
}

static void hear(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    htc__kv_reply reply;
    if (hear_of_map(s, from, kind, item))
        return;
    switch (kind) {
    case HTC__KV_ITEM_ASK:
        htc__kv_cluster_on_ask(s, from, item);
        break;
    case HTC__KV_ITEM_REPLY:
        if (htc__kv_reply_read(item, &reply) == HTC_OK)
            htc__kv_register_reply(s->cluster->reg, s->now, from, &reply);
        break;
    case HTC__KV_ITEM_FORWARD:
        htc__kv_cluster_on_forward(s, from, item);
        break;
    case HTC__KV_ITEM_ANSWER:
        htc__kv_cluster_on_answer(s, from, item);
        break;
    case HTC__KV_ITEM_WATCH:
        htc__kv_cluster_on_watch(s, from, item);
        break;
    case HTC__KV_ITEM_MARKS:
        htc__kv_cluster_on_marks(s, from, item);
        break;
    case HTC__KV_ITEM_LIST:
        htc__kv_cluster_on_list(s, from, item);
        break;
    case HTC__KV_ITEM_LISTED:
        htc__kv_cluster_on_listed(s, from, item);
        break;
    case HTC__KV_ITEM_SEAL:
    case HTC__KV_ITEM_COPY:
        htc__kv_cluster_on_seal(s, from, item, kind == HTC__KV_ITEM_COPY);
        break;
    case HTC__KV_ITEM_SHOWN:
        htc__kv_cluster_on_shown(s, from, item);
        break;
    case HTC__KV_ITEM_INSTALL:
        htc__kv_cluster_on_install(s, from, item);
        break;
    case HTC__KV_ITEM_INSTALLED:
        htc__kv_cluster_on_installed(s, from, item);
        break;
    case HTC__KV_ITEM_COPIED:
        htc__kv_cluster_on_copied(s, from, item);
        break;
    case HTC__KV_ITEM_CATCH:
    case HTC__KV_ITEM_LEAVES:
    case HTC__KV_ITEM_KEYS:
    case HTC__KV_ITEM_CAUGHT:
    case HTC__KV_ITEM_RECORD:
        htc__kv_catch_hear(s, from, kind, item);
        break;
    default:
        htc__kv_eventual_hear(s, from, kind, item);
        break;
    }
}

static int much_said(const htc__kv_peer *self)
{
    return self->items.len > self->items.max / 16;
}

/* What this member has said to itself, and what it says to itself about that. A short look may be answered with a long value: once
 * there are many such, they are heard before the looks that are left. */
static void hear_self(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_peer    *self = &c->peers[c->self];
    while (self->items.len && s->broken == HTC_OK) {
        htc_buf swap = c->here;
        c->here = self->items;
        self->items = swap;
        htc_buf_clear(&self->items);
        htc_reader r = htc_reader_of(htc_buf_bytes(&c->here));
        uint8_t    kind;
        htc_bytes  item;
        while (s->broken == HTC_OK && !much_said(self) && htc__kv_members_next(&r, &kind, &item))
            hear(s, c->id, kind, item);
        htc_put_raw(&self->items, (htc_bytes){ r.p, htc_reader_left(&r) });
        if (self->items.status != HTC_OK)
            htc__kv_cluster_broken(s, HTC_ENOMEM);
    }
}

/* From one that is no member yet, or from a member that this one has not heard of. */
static void hear_stranger(htc_kv_server *s, htc_reader r)
{
    uint8_t   kind;
    htc_bytes item;
    while (s->broken == HTC_OK && htc__kv_members_next(&r, &kind, &item))
        if (kind == HTC__KV_ITEM_JOIN || kind == HTC__KV_ITEM_MAP)
            hear_of_map(s, 0, kind, item);
}

/* One that is no member any more, or wants to be one: what is to be said to it. 0: nothing. */
static uint8_t say_to_stranger(htc_kv_server *s, htc_reader r)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         from = htc_get_u64(&r), to = htc_get_u64(&r);
    uint8_t          kind;
    htc_bytes        item;
    if (r.status != HTC_OK || !c->map || from == c->id || (to != 0 && to != c->id))
        return 0;
    int listed = htc__kv_map_find(c->map, from) != NULL;
    if (to != 0)
        return listed || c->map_version == 0 ? 0 : HTC__KV_ITEM_MAP;
    while (htc__kv_members_next(&r, &kind, &item))
        if (kind == HTC__KV_ITEM_JOIN)
            return listed ? HTC__KV_ITEM_MAP : HTC__KV_ITEM_REFUSED;
    return 0;
}

/* On the connection that it has opened itself: nobody keeps one to it. */
static htc_status tell_stranger(htc_kv_server *s, uint32_t number, uint64_t to, uint8_t kind, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    if (kind == HTC__KV_ITEM_MAP) {
        htc_put_varint(&c->scratch, c->map_version);
        htc__kv_map_encode(&c->scratch, c->map);
    } else {
        htc_put_u32(&c->scratch, (uint32_t)htc__kv_cluster_join_waits(s));
    }
    if (c->scratch.status != HTC_OK)
        return c->scratch.status;
    htc__kv_members_begin(&s->scratch, 1, c->id, to);
    htc_put_u8(&s->scratch, kind);
    htc_put_bytes(&s->scratch, htc_buf_bytes(&c->scratch));
    return send(s, number, out);
}

/* From the other end of a connection that this member has opened: a welcome, or a refusal, after which the connection is closed; or what a
 * member says to one that it keeps no connection to. */
static void told_as_stranger(htc_kv_server *s, htc_reader r)
{
    uint64_t  from = htc_get_u64(&r), to = htc_get_u64(&r);
    uint8_t   kind;
    htc_bytes item;
    (void)from;
    if (r.status != HTC_OK || to != s->cluster->id)
        return;
    while (s->broken == HTC_OK && htc__kv_members_next(&r, &kind, &item)) {
        if (kind == HTC__KV_ITEM_MAP)
            htc__kv_cluster_on_map(s, item);
        else if (kind == HTC__KV_ITEM_REFUSED)
            htc__kv_cluster_on_refused(s, item);
    }
}

static void message(htc_kv_server *s, htc_reader r)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         from = htc_get_u64(&r), to = htc_get_u64(&r);
    htc__kv_peer    *peer = htc__kv_cluster_peer(c, from);
    uint8_t          kind;
    htc_bytes        item;
    if (r.status != HTC_OK || (to != c->id && to != 0) || from == c->id)
        return; /* meant for another one */
    if (!peer || to == 0) {
        hear_stranger(s, r);
        return;
    }
    peer->heard = s->now;
    s->cluster->met |= !peer->met;
    peer->met = 1;
    c->counts.heard++;
    while (s->broken == HTC_OK && htc__kv_members_next(&r, &kind, &item)) {
        hear(s, from, kind, item);
        if (much_said(&c->peers[c->self]))
            hear_self(s);
    }
}

static htc__kv_peer *peer_of(const htc__kv_cluster *c, uint32_t number)
{
    for (uint32_t i = 0; number && i < c->count; i++)
        if (c->peers[i].number == number)
            return &c->peers[i];
    return NULL;
}

static htc_status send(htc_kv_server *s, uint32_t number, htc_output *out)
{
    s->cluster->counts.sent++;
    s->cluster->counts.sent_bytes += s->scratch.len;
    return s->scratch.status != HTC_OK
               ? s->scratch.status
               : htc_output_add(
                     out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = number, .body = htc_buf_bytes(&s->scratch) });
}

static htc_status greet(htc_kv_server *s, htc__kv_peer *peer, htc_output *out)
{
    peer->connected = 1;
    peer->opened = s->now;
    peer->said = peer->messages = 0;
    peer->map_said = 0;
    htc_buf_clear(&peer->items);
    htc_wire_hello(&s->scratch, HTC_WIRE_ROLE_STORE_MEMBER, s->native.speaks);
    htc_status status = send(s, peer->number, out);
    if (status == HTC_OK && s->cluster->map_version && peer->id)
        htc__kv_cluster_say_map(s, peer->id); /* it may have been away for long, or not know this member */
    return status;
}

/* The driver is asked for connections to members that the map names. */
static htc_status dial(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    htc_status       status = HTC_OK;
    for (uint32_t i = 0; status == HTC_OK && c->map && i < c->count; i++) {
        htc__kv_peer             *peer = &c->peers[i];
        const htc__kv_map_member *m = NULL;
        if (peer->self || peer->number || peer->dialling || !peer->id || !(m = htc__kv_map_find(c->map, peer->id)))
            continue;
        peer->dialling = 1;
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL,
                                                    .op = HTC_KV_SERVER_DIAL,
                                                    .tag = peer->id,
                                                    .body = htc_bytes_of(m->address) });
    }
    return status;
}

/* The driver may have had one to that address: that by which this member was let in. */
static void connect(htc_kv_server *s, htc__kv_peer *peer, uint32_t number)
{
    htc__kv_peer *had = peer_of(s->cluster, number);
    peer->number = number;
    if (!had)
        return;
    peer->connected = had->connected;
    peer->opened = had->opened;
    peer->messages = had->messages;
    had->number = had->connected = 0;
}

/* Refused, nothing is tried again before the next start: the address is none for this driver. */
static void dialled(htc_kv_server *s, const htc_input *in)
{
    htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, in->tag);
    htc_reader    r = htc_reader_of(in->body);
    uint32_t      number = htc_get_u32(&r);
    if (peer && peer->dialling && in->status == HTC_OK && htc_reader_done(&r) == HTC_OK)
        connect(s, peer, number);
    else
        htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__ID("member", in->tag), HTC__STATUS(in->status)),
                      "a member's address leads nowhere: %s -> go on without it",
                      htc_strerror(in->status));
}

static htc_status turn_out(htc_kv_server *s, uint32_t number, uint64_t id, htc_output *out)
{
    htc_wire_error(&s->scratch, id, HTC_EDENIED, "this key is not that member's");
    htc_status status = send(s, number, out);
    return status == HTC_OK
               ? htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = number, .status = HTC_EDENIED })
               : status;
}

/* A connection of another member: nothing but its messages is read from it, and nothing but the welcome is sent. */
static htc_status greeted(htc_kv_server *s, uint32_t number, uint64_t id, uint16_t version, htc_output *out)
{
    htc_bytes  key = { &number, sizeof number };
    htc__table_remove(&s->cluster->greeted, key);
    htc__node *node = htc__table_make(&s->cluster->greeted, key, sizeof(htc__kv_greeting));
    if (!node)
        return HTC_ENOMEM;
    htc__table_link(&s->cluster->greeted, node);
    htc_wire_welcome(&s->scratch, id, version);
    return send(s, number, out);
}

/* Where one that is no member yet says that it answers. */
static int may_join(const htc_kv_server *s, uint32_t number, htc_reader r)
{
    uint8_t            kind;
    htc_bytes          item;
    htc__kv_map_member member;
    uint64_t           instead;
    (void)htc_get_u64(&r); /* to whom */
    while (htc__kv_members_next(&r, &kind, &item))
        if (kind == HTC__KV_ITEM_JOIN && htc__kv_join_read(item, &member, &instead) == HTC_OK &&
            !htc__kv_cluster_key_answers_at(s, number, &member))
            return 0;
    return 1;
}

/* Whoever it says that it is: looked at once for each connection, as a rule. */
static int may_speak(const htc_kv_server *s, uint32_t number, htc__kv_greeting *g, htc_reader r)
{
    uint64_t from = htc_get_u64(&r);
    if (from && from == g->as)
        return 1;
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, from);
    if (!peer)
        return may_join(s, number, r);
    if (!htc__kv_cluster_key_speaks_as(s, number, peer))
        return 0;
    g->as = from;
    return 1;
}

static void hear_member(htc_kv_server *s, uint32_t number, htc__kv_greeting *g, htc_reader r, htc_output *out)
{
    htc_reader copy = r;
    message(s, r);
    uint8_t kind = say_to_stranger(s, copy);
    if (!kind || (g->told && s->now - g->told < s->cluster->suspect_ns / 2) || s->broken != HTC_OK)
        return;
    g->told = s->now;
    htc_status status = tell_stranger(s, number, htc_get_u64(&copy), kind, out);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

static int on_message(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    uint16_t         type;
    uint64_t         id;
    uint8_t          role;
    uint16_t         version;
    htc_reader       r = htc_wire_open(in->body, &type, &id), copy = r;
    if (peer_of(c, in->peer)) {
        if (r.status == HTC_OK && type == HTC_WIRE_KV_MEMBERS)
            told_as_stranger(s, r);
        return 1;
    }
    if (r.status == HTC_OK && type == HTC_WIRE_HELLO && htc_wire_read_hello(&copy, s->native.speaks, &role, &version) == HTC_OK &&
        role == HTC_WIRE_ROLE_STORE_MEMBER) {
        htc_status status = htc__kv_cluster_key_joins(s, in->peer) ? greeted(s, in->peer, id, version, out) : turn_out(s, in->peer, id, out);
        if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
        return 1;
    }
    htc__node *node = htc__table_find(&c->greeted, (htc_bytes){ &in->peer, sizeof in->peer });
    if (!node)
        return 0;
    htc__kv_greeting *g = htc__node_value(node);
    if (r.status != HTC_OK || type != HTC_WIRE_KV_MEMBERS)
        return 1;
    if (id <= g->last) {
        c->counts.repeated++;
    } else if (may_speak(s, in->peer, g, r)) {
        g->last = id;
        hear_member(s, in->peer, g, r, out);
    } else {
        g->last = UINT64_MAX; /* nor is it heard until it is closed */
        htc_status status = turn_out(s, in->peer, id, out);
        if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
    }
    return 1;
}

int htc__kv_cluster_input(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    htc__kv_peer *peer = in->peer ? peer_of(s->cluster, in->peer) : NULL;
    htc_status    status = HTC_OK;
    switch (in->kind) {
    case HTC_IN_OPENED:
        status = peer ? greet(s, peer, out) : htc__kv_cluster_key_shown(s, in->peer, in->body);
        break;
    case HTC_IN_CLOSED:
        if (peer)
            peer->connected = 0;
        if (!peer) {
            htc__table_remove(&s->cluster->greeted, (htc_bytes){ &in->peer, sizeof in->peer });
            htc__kv_cluster_key_gone(s, in->peer);
        }
        break;
    case HTC_IN_MESSAGE:
        return on_message(s, in, out);
    case HTC_IN_RESULT:
        if (in->op == HTC_KV_SERVER_DIAL)
            dialled(s, in);
        break;
    default:
        break;
    }
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    return peer != NULL;
}

/* Items in messages that are not too long; what this step has no room for stays. */
static htc_status flush_peer(htc_kv_server *s, htc__kv_peer *peer, size_t *room, htc_output *out)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&peer->items));
    size_t     sent = 0;
    htc_status status = HTC_OK;
    while (status == HTC_OK && htc_reader_left(&r) && *room) {
        uint8_t   kind;
        htc_bytes item;
        htc__kv_members_begin(&s->scratch, ++peer->messages, s->cluster->id, peer->id);
        for (htc_reader next = r; htc__kv_members_next(&next, &kind, &item); r = next) {
            size_t len = (size_t)(next.p - r.p);
            if (s->scratch.len + len > MESSAGE_BYTES && s->scratch.len > 64)
                break;
            htc_put_raw(&s->scratch, (htc_bytes){ r.p, len });
        }
        status = send(s, peer->number, out);
        *room -= s->scratch.len < *room ? s->scratch.len : *room;
        sent = peer->items.len - htc_reader_left(&r);
        peer->said = s->now;
    }
    htc_buf_consume(&peer->items, sent);
    return status;
}

static htc_ns silence_max(const htc__kv_cluster *c)
{
    return c->suspect_ns / 4;
}

/* Once the first map has changed. */
static void put_have(const htc__kv_cluster *c, htc_buf *b)
{
    uint8_t form[10];
    htc_buf have = { .data = form, .cap = sizeof form };
    if (c->map_version == 0)
        return;
    htc__kv_have_write(&have, c->map_version + 1);
    htc_put_u8(b, HTC__KV_ITEM_HAVE);
    htc_put_bytes(b, htc_buf_bytes(&have));
}

static htc_status flush(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    size_t           room = FLUSH_BYTES;
    htc_status       status = HTC_OK;
    for (uint32_t i = 0; status == HTC_OK && i < c->count; i++) {
        htc__kv_peer *peer = &c->peers[i];
        if (i == c->self || !peer->connected)
            continue;
        status = flush_peer(s, peer, &room, out);
        /* That this member is there is news as well. */
        if (status == HTC_OK && (peer->said == 0 || s->now - peer->said >= silence_max(c))) {
            htc__kv_members_begin(&s->scratch, ++peer->messages, c->id, peer->id);
            put_have(c, &s->scratch);
            status = send(s, peer->number, out);
            peer->said = s->now ? s->now : 1;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- steps */

static int can_serve(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    for (uint32_t b = 0; b < c->buckets; b++) {
        const htc__kv_route *route = &c->route[b];
        uint32_t             there = 0;
        for (uint32_t i = 0; i < route->n; i++)
            there += c->peers[route->peer[i]].self || c->peers[route->peer[i]].met;
        if (there < route->n / 2 + 1)
            return 0;
    }
    return c->map && c->peers[c->self].listed;
}

static htc_status tell_serving(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    if (!s->options.tell_serving || c->told || !c->reserved || (!c->met && c->count > 1))
        return HTC_OK;
    c->met = 0;
    if (!can_serve(s))
        return HTC_OK;
    c->told = 1;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_KV_SERVER_SERVING });
}

/* Behind what it has to say: the others may not know yet what it has brought to its end. */
static htc_status tell_left(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    if (c->left || !htc__kv_cluster_has_left(c))
        return HTC_OK;
    c->left = 1;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_KV_SERVER_LEFT });
}

htc_status htc__kv_cluster_finish(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_cluster_late_stored(s);
    htc__kv_cluster_reserve_again(s);
    htc__kv_cluster_map_tick(s);
    htc__kv_cluster_requests_due(s);
    htc__kv_cluster_leases_tick(s);
    htc__kv_cluster_ends_tick(s);
    htc__kv_cluster_collect_tick(s);
    htc_status swept = htc__kv_cluster_sweep_tick(s);
    if (swept != HTC_OK)
        htc__kv_cluster_broken(s, swept);
    htc__kv_eventual_tick(s);
    if (htc__kv_register_deadline(c->reg) <= s->now)
        htc__kv_register_timeout(c->reg, s->now);
    htc__kv_repair_tick(s);
    htc__kv_catch_tick(s);
    htc__kv_cluster_moving_tick(s);
    htc__kv_cluster_holds_tick(s);
    hear_self(s);
    htc__kv_cluster_watch_tick(s);
    htc__kv_cluster_scans_go_on(s);
    hear_self(s);
    htc__kv_cluster_marks_tick(s);
    htc__kv_cluster_log_tick(s);
    if (s->broken != HTC_OK)
        return s->broken;
    htc_status status = tell_serving(s, out);
    if (status == HTC_OK)
        status = dial(s, out);
    if (status == HTC_OK)
        status = flush(s, out);
    if (status == HTC_OK)
        status = tell_left(s, out);
    if (status == HTC_OK && c->ending)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_EKILLED });
    return status;
}

htc_ns htc__kv_cluster_deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    htc_ns                 at = htc__kv_register_deadline(c->reg), due = htc__wheel_next(&c->wheel);
    at = due < at ? due : at;
    if (!htc__kv_full(s)) {
        htc_ns lease = htc__wheel_next(&c->lease_wheel), end = htc__wheel_next(&c->end_wheel);
        at = lease < at ? lease : at;
        at = end < at ? end : at;
    }
    due = htc__kv_cluster_collect_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_sweep_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_watch_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_marks_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_scans_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_eventual_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_map_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_holds_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_cluster_moving_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_repair_deadline(s);
    at = due < at ? due : at;
    due = htc__kv_catch_deadline(s);
    at = due < at ? due : at;
    if (c->reserving && c->reserve_batch == UINT64_MAX && c->reserve_at < at)
        at = c->reserve_at;
    for (uint32_t i = 0; i < c->count; i++) {
        const htc__kv_peer *peer = &c->peers[i];
        if (i == c->self || !peer->connected)
            continue;
        if (peer->items.len)
            return 0;
        htc_ns say = peer->said + silence_max(c);
        at = say < at ? say : at;
    }
    return at;
}

void htc__kv_cluster_stats(const htc_kv_server *s, htc_kv_server_stats *stats)
{
    stats->clock = s->cluster->clock;
    stats->leases = s->cluster->leases.count;
    stats->tombstones = s->cluster->graves.count;
}

uint64_t htc__kv_cluster_clock(const htc_kv_server *s)
{
    return s->cluster->clock;
}

/* ---------------------------------------------------------------- life */

static uint64_t fingerprint_of(const htc_kv_server_options *o)
{
    uint64_t sum = 0, words[4];
    for (uint32_t i = 0; i < o->member_count; i++) {
        const htc_kv_member *m = &o->members[i];
        words[0] = m->id;
        words[1] = m->domain;
        words[2] = m->weight;
        words[3] = m->process;
        sum += htc__digest_words(words, 4, 0); /* in whatever order they are named */
    }
    words[0] = sum;
    words[1] = o->owners;
    words[2] = o->bits;
    words[3] = o->place_seed;
    return htc__digest_words(words, 4, 1);
}

static uint32_t processes_of(const htc_kv_server_options *o)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->member_count; i++) {
        uint32_t j = 0;
        while (j < i && !(o->members[i].process && o->members[j].process == o->members[i].process))
            j++;
        count += j == i;
    }
    return count;
}

int htc__kv_cluster_alone(const htc_kv_server_options *o)
{
    return o->member_count && o->members[0].process && processes_of(o) == 1;
}

/* How many keep a key: a second copy in one process is lost with the first. Members that are processes of their own become more, and then
 * the copies do. */
uint32_t htc__kv_cluster_copies(const htc_kv_server_options *o)
{
    uint32_t processes = processes_of(o);
    return processes == o->member_count || o->owners < processes ? o->owners : processes;
}

static void describe_self(htc_kv_server *s, uint32_t i)
{
    const htc_kv_member *m = &s->options.members[i];
    const char          *address = s->options.member_addresses ? s->options.member_addresses[i] : NULL;
    htc__kv_map_member  *d = &s->cluster->description;
    *d = (htc__kv_map_member){ .id = m->id, .process = m->process, .domain = m->domain, .weight = m->weight ? m->weight : 1 };
    for (size_t n = 0; address && address[n] && n + 1 < sizeof d->address; n++)
        d->address[n] = address[n];
}

static htc_status name_members(htc_kv_server *s, htc__kv_cluster *c)
{
    const htc_kv_server_options *o = &s->options;
    c->self = o->member_count;
    for (uint32_t i = 0; i < o->member_count; i++) {
        const htc_kv_member *m = &o->members[i];
        int                  self = m->id == o->self;
        if (!self && (m->peer == 0 || (m->id == 0 && !o->join)))
            return HTC_EINVAL;
        htc__kv_peer *peer = htc__kv_cluster_add_peer(s, m->id, self ? 0 : m->peer);
        if (!peer)
            return HTC_ENOMEM;
        const char *name = m->name ? m->name : "";
        if (strlen(name) >= sizeof peer->name)
            return HTC_EINVAL;
        memcpy(peer->name, name, strlen(name));
        if (!self)
            continue;
        peer->self = 1;
        c->self = i;
        describe_self(s, i);
    }
    return c->self < c->count ? HTC_OK : HTC_EINVAL;
}

htc_status htc__kv_cluster_create(htc_kv_server *s)
{
    htc__kv_cluster *c = htc__alloc(&s->env, sizeof *c);
    if (!c)
        return HTC_ENOMEM;
    s->cluster = c;
    c->id = s->options.self;
    c->seed = s->options.place_seed;
    c->suspect_ns = s->options.suspect_ns;
    c->request_ns = s->options.request_ns;
    c->fingerprint = s->options.join ? 0 : fingerprint_of(&s->options);
    c->late_last = &c->late;
    c->scans_last = &c->scans;
    htc__table_init(&c->requests, &s->env);
    htc__table_init(&c->greeted, &s->env);
    htc__table_init(&c->shown, &s->env);
    htc__table_init(&c->leases, &s->env);
    htc__table_init(&c->ends, &s->env);
    htc__table_init(&c->graves, &s->env);
    htc_buf_init(&c->scratch, &s->env, 0);
    htc_buf_init(&c->here, &s->env, 4 * WAITING_BYTES);
    htc_status status = htc__kv_cluster_moving_make(s);
    if (status == HTC_OK)
        status = name_members(s, c);
    if (status == HTC_OK)
        status = htc__kv_cluster_map_first(s);
    if (status == HTC_OK)
        status = htc__kv_cluster_watch_make(s);
    if (status == HTC_OK)
        status = htc__kv_catch_make(s);
    return status == HTC_OK ? htc__kv_eventual_create(s) : status;
}

void htc__kv_cluster_free(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c)
        return;
    htc__kv_register_destroy(c->reg);
    htc__kv_cluster_moving_free(s);
    htc__kv_catch_free(s);
    htc__kv_cluster_scans_free(s);
    htc__kv_cluster_requests_free(s);
    htc__kv_cluster_watch_free(s);
    htc__kv_eventual_free(s);
    htc__kv_cluster_late_free(s);
    for (uint32_t i = 0; c->peers && i < c->count; i++)
        htc_buf_free(&c->peers[i].items);
    htc__free(&s->env, c->peers, c->count * sizeof *c->peers);
    htc__kv_cluster_holds_free(s);
    htc__kv_cluster_map_free(s);
    htc__table_free(&c->requests);
    htc__table_free(&c->greeted);
    htc__table_free(&c->shown);
    htc__table_free(&c->leases);
    htc__table_free(&c->ends);
    htc__table_free(&c->graves);
    htc_buf_free(&c->scratch);
    htc_buf_free(&c->here);
    htc__free(&s->env, c, sizeof *c);
    s->cluster = NULL;
}
