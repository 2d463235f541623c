/* Who is connected, and what other members say: the items of their messages go to whom they are for.
 *
 * A member's bytes are read as a stranger's are: an item that cannot be read, or that is about something which this member knows nothing of, is as
 * if it had been lost; a connection that says what is no message of items is told so and closed. What an item makes this member keep is
 * bounded where it is kept. */
#include "kvs/peer/eventual_wire.h"
#include "kvs/replica/cluster_private.h"

/* ---------------------------------------------------------------- items */

/* Asked for what this member holds, with an answer that may be long. */
static int is_question(uint8_t kind)
{
    return kind == HTC__KV_ITEM_LIST || kind == HTC__KV_ITEM_COPY || kind == HTC__KV_ITEM_CATCH || kind == HTC__KV_ITEM_KEYS ||
           kind == HTC__KV_ITEM_FETCH || kind == HTC__KV_ITEM_TREE || kind == HTC__KV_ITEM_PULL;
}

static int is_of_map(uint8_t kind)
{
    return kind == HTC__KV_ITEM_HAVE || kind == HTC__KV_ITEM_WANT || kind == HTC__KV_ITEM_MAP;
}

static void hear(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    if (!s->cluster->map && !is_of_map(kind))
        return; /* there is nothing else that it could do */
    if (is_question(kind) && htc__kv_cluster_much_waits(htc__kv_cluster_peer(s->cluster, from))) {
        s->cluster->counts.dropped++; /* as its answer would be */
        return;
    }
    htc__kv_components_hear(s, from, kind, item);
}

static int much_said(const htc__kv_peer *self)
{
    return self->items.len > self->items.max / 16;
}

/* What this member has said to itself, and what it says to itself about that. A short look may be answered with a long value: once
 * there are many such, they are heard before the looks that are left. */
void htc__kv_dispatch_self(htc_kv_server *s)
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
static htc_status hear_stranger(htc_kv_server *s, htc_reader r)
{
    uint8_t   kind;
    htc_bytes item;
    uint64_t  as_of = HTC__KV_UNSAID;
    while (s->broken == HTC_OK && htc__kv_members_next(&r, &kind, &item)) {
        if (kind == HTC__KV_ITEM_MAP)
            htc__kv_cluster_on_map(s, item);
        else if (kind == HTC__KV_ITEM_AS_OF && htc__kv_as_of_read(item, &as_of) != HTC_OK)
            as_of = HTC__KV_UNSAID;
        else if (kind == HTC__KV_ITEM_JOIN)
            htc__kv_cluster_on_join(s, item, as_of);
    }
    return r.status == HTC_OK ? HTC_OK : HTC_EPROTO;
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

static htc_status put_item(htc_kv_server *s, uint8_t kind)
{
    htc_put_u8(&s->scratch, kind);
    htc_put_bytes(&s->scratch, htc_buf_bytes(&s->cluster->scratch));
    return s->cluster->scratch.status;
}

/* On the connection that it has opened itself: nobody keeps one to it. */
static htc_status tell_stranger(htc_kv_server *s, uint32_t number, uint64_t to, uint8_t kind, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    htc_status       status = HTC_OK;
    htc__kv_members_begin(&s->scratch, 1, c->id, to);
    htc_buf_clear(&c->scratch);
    if (kind == HTC__KV_ITEM_MAP) {
        htc_put_varint(&c->scratch, c->map_version);
        htc__kv_map_encode(&c->scratch, c->map);
    } else {
        htc__kv_as_of_write(&c->scratch, c->map->numbers);
        status = put_item(s, HTC__KV_ITEM_AS_OF);
        htc_buf_clear(&c->scratch);
        htc_put_u32(&c->scratch, (uint32_t)htc__kv_cluster_join_waits(s));
    }
    if (status == HTC_OK)
        status = put_item(s, kind);
    return status == HTC_OK ? htc__kv_cluster_post(s, number, out) : status;
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
        else if (kind == HTC__KV_ITEM_AS_OF)
            htc__kv_cluster_on_as_of(s, item);
        else if (kind == HTC__KV_ITEM_REFUSED)
            htc__kv_cluster_on_refused(s, item);
    }
}

/* HTC_EPROTO: it is not made of items; those before the one that is torn were heard. */
static htc_status message(htc_kv_server *s, htc_reader r)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         from = htc_get_u64(&r), to = htc_get_u64(&r);
    htc__kv_peer    *peer = htc__kv_cluster_peer(c, from);
    uint8_t          kind;
    htc_bytes        item;
    if (r.status != HTC_OK)
        return HTC_EPROTO;
    if ((to != c->id && to != 0) || from == c->id)
        return HTC_OK; /* meant for another one */
    if (!peer || to == 0)
        return hear_stranger(s, r);
    peer->heard = s->now;
    peer->met = 1;
    c->counts.heard++;
    while (s->broken == HTC_OK && htc__kv_members_next(&r, &kind, &item)) {
        hear(s, from, kind, item);
        if (much_said(&c->peers[c->self]))
            htc__kv_dispatch_self(s);
    }
    return r.status == HTC_OK ? HTC_OK : HTC_EPROTO;
}

static htc__kv_peer *peer_of(const htc__kv_cluster *c, uint32_t number)
{
    for (uint32_t i = 0; number && i < c->count; i++)
        if (c->peers[i].number == number)
            return &c->peers[i];
    return NULL;
}

static htc_status greet(htc_kv_server *s, htc__kv_peer *peer, htc_output *out)
{
    peer->connected = 1;
    peer->opened = s->now;
    peer->said = peer->messages = 0;
    peer->map_said = 0;
    htc_buf_clear(&peer->items);
    htc_wire_hello(&s->scratch, HTC_WIRE_ROLE_STORE_MEMBER, s->native.speaks);
    htc_status status = htc__kv_cluster_post(s, peer->number, out);
    if (status == HTC_OK && s->cluster->map_version && peer->id)
        htc__kv_cluster_say_map(s, peer->id); /* it may have been away for long, or not know this member */
    return status;
}

/* The driver is asked for connections to members that the map names. */
htc_status htc__kv_cluster_dial(htc_kv_server *s, htc_output *out)
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

static void turn_out(htc_kv_server *s, uint32_t number, uint64_t id, htc_status why, htc_output *out)
{
    htc_wire_error(&s->scratch, id, why, why == HTC_EDENIED ? "this key is not that member's" : "no message of a member");
    htc_status status = htc__kv_cluster_post(s, number, out);
    if (status == HTC_OK)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = number, .status = why });
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
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
    return htc__kv_cluster_post(s, number, out);
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
    htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, from);
    if (!peer)
        return may_join(s, number, r);
    if (!htc__kv_cluster_key_speaks_as(s, number, peer))
        return 0;
    g->as = from;
    peer->hailed = s->now;
    return 1;
}

/* Nor is it heard until it is closed. */
static void refuse(htc_kv_server *s, uint32_t number, htc__kv_greeting *g, uint64_t id, htc_status why, htc_output *out)
{
    g->last = UINT64_MAX;
    turn_out(s, number, id, why, out);
}

static void hear_member(htc_kv_server *s, uint32_t number, htc__kv_greeting *g, uint64_t id, htc_reader r, htc_output *out)
{
    htc_reader copy = r;
    if (message(s, r) != HTC_OK) {
        refuse(s, number, g, id, HTC_EPROTO, out);
        return;
    }
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
        htc_status status = HTC_OK;
        if (htc__kv_cluster_key_joins(s, in->peer))
            status = greeted(s, in->peer, id, version, out);
        else
            turn_out(s, in->peer, id, HTC_EDENIED, out);
        if (status != HTC_OK)
            htc__kv_cluster_broken(s, status);
        return 1;
    }
    htc__node *node = htc__table_find(&c->greeted, (htc_bytes){ &in->peer, sizeof in->peer });
    if (!node)
        return 0;
    htc__kv_greeting *g = htc__node_value(node);
    if (g->last == UINT64_MAX)
        return 1; /* it was turned out */
    if (r.status != HTC_OK || type != HTC_WIRE_KV_MEMBERS) {
        refuse(s, in->peer, g, id, HTC_EPROTO, out);
    } else if (id <= g->last) {
        c->counts.repeated++;
    } else if (may_speak(s, in->peer, g, r)) {
        g->last = id;
        hear_member(s, in->peer, g, id, r, out);
    } else {
        refuse(s, in->peer, g, id, HTC_EDENIED, out);
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
    case HTC_IN_FRAMES: /* they come back one by one, those of members too */
        return 0;
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
