/* The members, what is said to them, and time. */
#include "kvs/replica/cluster_private.h"

#include <string.h>

#include "core/fault.h"
#include "kvs/util/digest.h"

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

int htc__kv_cluster_much_waits(const htc__kv_peer *peer)
{
    return peer->items.len > peer->items.max / 4;
}

void htc__kv_cluster_say_to(htc_kv_server *s, htc__kv_peer *peer, uint8_t kind, htc_bytes item)
{
    /* A member's answer to itself is the only one that nobody would ask for again. */
    int again = !peer || !peer->self || kind != HTC__KV_ITEM_ANSWER;
    if (!peer || (!peer->self && !peer->connected) || (again && htc__kv_cluster_much_waits(peer))) {
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

htc_status htc__kv_cluster_post(htc_kv_server *s, uint32_t number, htc_output *out)
{
    s->cluster->counts.sent++;
    s->cluster->counts.sent_bytes += s->scratch.len;
    return s->scratch.status != HTC_OK
               ? s->scratch.status
               : htc_output_add(
                     out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = number, .body = htc_buf_bytes(&s->scratch) });
}

/* Items in messages that are not too long; what this step has no room for stays. */
static htc_status flush_peer(htc_kv_server *s, htc__kv_peer *peer, size_t *room, htc_output *out)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&peer->items));
    size_t     sent = 0;
    htc_status status = peer->items.status; /* there was no memory for the last one: it is torn */
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
        status = htc__kv_cluster_post(s, peer->number, out);
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
        /* Or who has missed a map would not hear of it as long as there is other news, which need not show that it has. */
        if (peer->items.len && c->map_version && s->now - peer->have_said >= silence_max(c)) {
            htc__kv_cluster_say_have(s, peer->id);
            peer->have_said = s->now;
        }
        status = flush_peer(s, peer, &room, out);
        /* That this member is there is news as well. */
        if (status == HTC_OK && (peer->said == 0 || s->now - peer->said >= silence_max(c))) {
            htc__kv_members_begin(&s->scratch, ++peer->messages, c->id, peer->id);
            put_have(c, &s->scratch);
            status = htc__kv_cluster_post(s, peer->number, out);
            peer->said = peer->have_said = s->now ? s->now : 1;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- steps */

static int can_serve(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    if (!c->map || !c->peers[c->self].listed)
        return 0;
    for (uint32_t b = 0; b < c->buckets; b++) {
        const htc__kv_route *route = &c->route[b];
        uint32_t             there = 0;
        for (uint32_t i = 0; i < route->n; i++)
            there += c->peers[route->peer[i]].self || c->peers[route->peer[i]].met;
        if (there < route->n / 2 + 1)
            return 0;
    }
    return 1;
}

static htc_status tell_serving(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    if (!s->options.tell_serving || c->told || !htc__kv_acceptors_reserved(s) || !can_serve(s))
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

static void tick(htc_kv_server *s)
{
    if (htc__kv_register_deadline(s->cluster->reg) <= s->now)
        htc__kv_register_timeout(s->cluster->reg, s->now);
}

static htc_ns deadline(const htc_kv_server *s)
{
    return htc__kv_register_deadline(s->cluster->reg);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    htc__kv_reply reply;
    (void)kind;
    if (htc__kv_reply_read(item, &reply) == HTC_OK)
        htc__kv_register_reply(s->cluster->reg, s->now, from, &reply);
}

static void unmake(htc_kv_server *s)
{
    htc__kv_register_destroy(s->cluster->reg);
    s->cluster->reg = NULL;
}

/* Made when all is loaded: it is told which numbers it may use. */
const htc__kv_component htc__kv_component_registers = { .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item, .items = { HTC__KV_ITEM_REPLY } };

/* What is to be said to the others, at once; and to each that is connected something now and then. */
static htc_ns peers_deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    htc_ns                 at = HTC_NEVER;
    for (uint32_t i = 0; i < c->count; i++) {
        const htc__kv_peer *peer = &c->peers[i];
        if (peer->items.len && (i == c->self || peer->connected))
            return 0; /* also what was asked for at the end of a step */
        if (i == c->self || !peer->connected)
            continue;
        htc_ns say = peer->said + silence_max(c);
        at = say < at ? say : at;
    }
    return at;
}

htc_status htc__kv_cluster_finish(htc_kv_server *s, htc_output *out)
{
    const htc__kv_cluster *c = s->cluster;
    htc__kv_components_tick(s);
    if (s->broken != HTC_OK)
        return s->broken;
    htc_status status = tell_serving(s, out);
    if (status == HTC_OK)
        status = htc__kv_cluster_dial(s, out);
    if (status == HTC_OK)
        status = flush(s, out);
    if (status == HTC_OK)
        status = tell_left(s, out);
    if (status == HTC_OK)
        status = htc__kv_join_tell(s, out);
    if (status == HTC_OK && c->ending)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_EKILLED });
    return status;
}

htc_ns htc__kv_cluster_deadline(const htc_kv_server *s)
{
    htc_ns at = htc__kv_components_deadline(s), say = at > 0 ? peers_deadline(s) : 0;
    return say < at ? say : at;
}

void htc__kv_cluster_stats(const htc_kv_server *s, htc_kv_server_stats *stats)
{
    stats->clock = s->cluster->clock;
    stats->leases = htc__kv_leases_count(s);
    stats->tombstones = htc__kv_tombstones_count(s);
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

/* Two of one id would be one member in the map, and of one connection each would be told what is the other's. */
static int is_named_before(const htc_kv_server_options *o, uint32_t i)
{
    const htc_kv_member *m = &o->members[i];
    for (uint32_t j = 0; j < i; j++) {
        const htc_kv_member *before = &o->members[j];
        if ((m->id && m->id == before->id) || (m->id != o->self && before->id != o->self && m->peer == before->peer))
            return 1;
    }
    return 0;
}

static htc_status name_members(htc_kv_server *s, htc__kv_cluster *c)
{
    const htc_kv_server_options *o = &s->options;
    c->self = o->member_count;
    for (uint32_t i = 0; i < o->member_count; i++) {
        const htc_kv_member *m = &o->members[i];
        int                  self = m->id == o->self;
        if ((!self && (m->peer == 0 || (m->id == 0 && !o->join))) || is_named_before(o, i))
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
    htc__table_init(&c->greeted, &s->env);
    htc_buf_init(&c->scratch, &s->env, 0);
    htc_buf_init(&c->here, &s->env, 4 * WAITING_BYTES);
    htc_status status = htc__kv_components_make(s);
    if (status == HTC_OK)
        status = name_members(s, c);
    return status == HTC_OK ? htc__kv_cluster_map_first(s) : status;
}

void htc__kv_cluster_free(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!c)
        return;
    htc__kv_components_free(s);
    for (uint32_t i = 0; c->peers && i < c->count; i++)
        htc_buf_free(&c->peers[i].items);
    htc__free(&s->env, c->peers, c->count * sizeof *c->peers);
    htc__table_free(&c->greeted);
    htc_buf_free(&c->scratch);
    htc_buf_free(&c->here);
    htc__free(&s->env, c, sizeof *c);
    s->cluster = NULL;
}
