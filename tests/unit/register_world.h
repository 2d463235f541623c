/* A small world for registers: owners with disks that lose what was not synced, some of which propose; clients that repeat;
 * a network that loses, doubles and reorders; everybody dies now and then. One seed, one history, judged key by key. */
#ifndef HTC_TESTS_REGISTER_WORLD_H
#define HTC_TESTS_REGISTER_WORLD_H

#include "expect.h"
#include <stdio.h>

#include "core/fault.h"
#include "kvs/map/bucket_state.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/register/register.h"
#include "register_check.h"

#define OWNERS      5
#define KEYS        2
#define SLOTS       4 /* clients at work at once */
#define FACES       8 /* ids each works under, one request after the other */
#define REQUESTS    96
#define TAG_COLLECT (UINT64_C(1) << 60)

typedef struct stored {
    uint8_t cell[1024];
    size_t  len; /* 0: none */
} stored;

typedef struct disk {
    stored         key[KEYS];
    htc__kv_floors floors;
    uint64_t       counter;
    /* Only where buckets move (test_mover.c): */
    htc__kv_bucket_state   hold;
    stored         image[KEYS];
    htc__kv_floors image_floors;
} disk;

struct world;

typedef struct packet {
    struct packet *next;
    htc_ns         at;
    enum { ASK, REPLY, REQUEST, ANSWER, SYNC, LIFE, COLLECTION, OTHER } kind;
    uint32_t from, to;
    unsigned life; /* of the owner it belongs to; SYNC */
    int      request, sent, tried;
    void (*arrive)(struct world *w, struct packet *p); /* OTHER */
    htc_kv_result   result;
    htc__kv_outcome outcome;
    uint64_t        got;
    size_t          len;
    uint8_t         data[];
} packet;

typedef struct owner {
    disk              now, durable, syncing;
    int               up, sync_on_its_way;
    unsigned          life;
    uint64_t          reserving, reserving_synced;
    packet           *waiting, *syncing_replies; /* replies that rest on the next sync; on the one on its way */
    htc__kv_register *reg;
    struct world     *w;
    uint32_t          at;
    htc__kv_owners    known; /* where buckets move: as this member knows them */
} owner;

typedef struct request {
    event          e;
    int            key, slot, sends, over;
    int            answered;
    htc_kv_request q;
    char           piece[8], seen[256];
    htc__kv_stamp  stamp;
    htc_ns         retry_at;
} request;

typedef struct client {
    int      now; /* request under way; -1: none */
    uint64_t sequence[FACES];
    uint64_t seen[KEYS];       /* newest version */
    char     value[KEYS][256]; /* last seen */
    size_t   value_len[KEYS];
    uint64_t version[KEYS], term[KEYS], ended[KEYS]; /* term: the version that set the ttl; ended: what an end of that names */
    htc_ns   next_at;
} client;

typedef struct setting {
    uint32_t owners, proposers;
    unsigned lose, doubled, kill, collect, wipe, once; /* in 1000; once: requests that nobody may repeat, noted nowhere */
    int      number_of_requests;
    uint64_t block;
} setting;

typedef struct world {
    htc_rng  rng;
    htc_ns   now;
    setting  s;
    owner    o[OWNERS];
    client   c[SLOTS];
    request  r[REQUESTS];
    int      requests, quiet;
    packet  *packets;
    uint64_t pieces;
    unsigned handed_over, unknown, collected, answered;
    htc_buf  b;
    void    *moves; /* of test_mover.c */
    int (*serves)(struct world *w, owner *o, const htc__kv_ask *ask);
    void (*started)(struct world *w, owner *o);
    uint32_t (*whom)(struct world *w);
} world;

static inline int chance(world *w, unsigned of_thousand)
{
    return htc_rng_below(&w->rng, 1000) < of_thousand;
}

static inline htc_bytes key_name(int k)
{
    return (htc_bytes){ k ? "n" : "s", 1 };
}

static inline packet *packet_of(int kind, htc_bytes body)
{
    packet *p = calloc(1, sizeof *p + body.len);
    p->kind = kind;
    p->len = body.len;
    if (body.len)
        memcpy(p->data, body.data, body.len);
    return p;
}

static inline void post(world *w, packet *p, htc_ns delay)
{
    packet **at = &w->packets;
    p->at = w->now + delay;
    while (*at && (*at)->at <= p->at)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static inline htc_ns delay(world *w)
{
    return HTC_MS + htc_rng_below(&w->rng, chance(w, 50) ? 150 * HTC_MS : 5 * HTC_MS);
}

/* On the network: lost, once, or twice. */
static inline void travel(world *w, packet *p, int may_double)
{
    if (!w->quiet && p->from != p->to && chance(w, w->s.lose)) {
        free(p);
        return;
    }
    if (!w->quiet && may_double && chance(w, w->s.doubled)) {
        packet *q = malloc(sizeof *q + p->len);
        memcpy(q, p, sizeof *q + p->len);
        post(w, q, delay(w));
    }
    post(w, p, delay(w));
}

/* ---- a proposer's host ---- */

static inline void host_send(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    owner *o = ctx;
    world *w = o->w;
    htc_buf_clear(&w->b);
    htc__kv_ask_write(&w->b, ask);
    for (uint32_t i = 0; i < owners->n; i++)
        if (mask >> i & 1) {
            packet *p = packet_of(ASK, htc_buf_bytes(&w->b));
            p->from = o->at;
            p->to = (uint32_t)owners->id[i] - 1;
            travel(w, p, 1);
        }
}

static inline uint64_t hash_of(int key, htc_bytes value)
{
    uint64_t h = 0, piece = 0;
    if (key) {
        char text[32] = { 0 };
        if (value.len)
            memcpy(text, value.data, value.len < 31 ? value.len : 31);
        return (uint64_t)strtoll(text, NULL, 10);
    }
    for (size_t i = 0; i + 4 <= value.len; i += 4) {
        piece = 0;
        memcpy(&piece, (const char *)value.data + i, 4);
        h = chained(h, piece);
    }
    return h;
}

static inline void host_done(void *ctx, uint64_t tag, const htc__kv_outcome *out)
{
    owner *o = ctx;
    world *w = o->w;
    if (tag & TAG_COLLECT) {
        w->collected += out->result.status == HTC_OK;
        return;
    }
    packet *p = packet_of(ANSWER, out->result.value);
    p->from = o->at;
    p->to = OWNERS;
    p->request = (int)(tag & 0xffff);
    p->outcome = *out;
    p->outcome.result.value = (htc_bytes){ NULL, 0 };
    travel(w, p, 0);
}

static inline void host_hand_over(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    owner  *o = ctx;
    packet *p = packet_of(REQUEST, (htc_bytes){ NULL, 0 });
    p->from = o->at;
    p->to = (uint32_t)to - 1;
    p->request = (int)(tag & 0xffff);
    p->tried = tried;
    o->w->handed_over++;
    travel(o->w, p, 0);
}

/* ---- owners ---- */

static inline void sync_soon(world *w, owner *o)
{
    if (o->sync_on_its_way || !o->up)
        return;
    packet *p = packet_of(SYNC, (htc_bytes){ NULL, 0 });
    p->to = o->at;
    p->life = o->life;
    o->sync_on_its_way = 1;
    o->syncing = o->now;
    o->reserving_synced = o->reserving;
    o->syncing_replies = o->waiting;
    o->waiting = NULL;
    post(w, p, HTC_MS / 2 + htc_rng_below(&w->rng, 3 * HTC_MS));
}

static inline void host_reserve(void *ctx, uint64_t counter)
{
    owner *o = ctx;
    o->now.counter = counter;
    o->reserving = counter;
    sync_soon(o->w, o);
}

static inline htc__kv_owners owners_now(world *w, uint32_t self)
{
    htc__kv_owners owners = { .epoch = 1, .n = w->s.owners };
    if (w->moves) {
        owners = w->o[self].known;
        for (owners.first = 0; owners.first + 1 < owners.n && !w->o[owners.id[owners.first] - 1].up;)
            owners.first++;
        return owners;
    }
    for (uint32_t i = 0; i < owners.n; i++)
        owners.id[i] = i + 1;
    /* Suspicion may be wrong. */
    owners.first = w->o[0].up && !chance(w, 100) ? 0 : self;
    return owners;
}

/* Numbers above it were never used. Broken: those of the last block may have been. */
static inline uint64_t kept_counter(const world *w, const owner *o)
{
    uint64_t kept = o->durable.counter;
    return HTC__BROKEN(ballot_reused) ? kept - (kept < w->s.block ? kept : w->s.block) : kept;
}

static inline void start_owner(world *w, owner *o)
{
    htc__kv_register_options options = { .self = o->at + 1,
                                         .counter = kept_counter(w, o),
                                         .seed = htc_rng_next(&w->rng),
                                         .retry_ns = 20 * HTC_MS,
                                         .block = w->s.block };
    htc__kv_register_host    host = { host_send, host_done, host_hand_over, host_reserve, o };
    o->up = 1;
    o->life++;
    o->now = o->durable;
    if (o->at < w->s.proposers)
        cr_assert(htc__kv_register_create(NULL, &options, &host, &o->reg) == HTC_OK);
    if (w->started)
        w->started(w, o);
    sync_soon(w, o);
}

static inline void free_list(packet **list)
{
    while (*list) {
        packet *p = *list;
        *list = p->next;
        free(p);
    }
}

static inline void kill_owner(world *w, owner *o)
{
    htc__kv_register_destroy(o->reg);
    o->reg = NULL;
    o->up = o->sync_on_its_way = 0;
    o->reserving = o->reserving_synced = 0;
    free_list(&o->waiting);
    free_list(&o->syncing_replies);
    if (HTC__BROKEN(wiped_same_name) && chance(w, w->s.wipe)) {
        htc__kv_bucket_state hold = o->durable.hold;
        uint64_t     counter = o->durable.counter; /* drawn anew, say: it is what was promised that matters */
        memset(&o->durable, 0, sizeof o->durable);
        o->durable.counter = counter;
        o->durable.hold = hold;
    }
    packet *p = packet_of(LIFE, (htc_bytes){ NULL, 0 });
    p->to = o->at;
    p->tried = 1; /* comes back */
    post(w, p, htc_rng_below(&w->rng, 100 * HTC_MS));
}

static inline void write_cell(stored *s, const htc__kv_cell *cell, htc_buf *b)
{
    htc_buf_clear(b);
    htc__kv_cell_write(b, cell);
    cr_assert(b->len <= sizeof s->cell);
    memcpy(s->cell, b->data, b->len);
    s->len = b->len;
}

static inline void asked_owner(world *w, owner *o, const packet *p)
{
    htc__kv_ask   ask;
    htc__kv_reply reply;
    cr_assert(htc__kv_ask_read((htc_bytes){ p->data, p->len }, p->from == p->to, &ask) == HTC_OK);
    if (w->serves && !w->serves(w, o, &ask))
        return;
    stored      *s = &o->now.key[((const char *)ask.key.data)[0] == 'n'];
    htc__kv_cell cell = htc__kv_cell_absent(&o->now.floors);
    if (s->len)
        cr_assert(htc__kv_cell_read((htc_bytes){ s->cell, s->len }, &o->now.floors, &cell) == HTC_OK);
    unsigned duties = htc__kv_acceptor_step(&cell, &o->now.floors, &ask, &reply);
    if (duties & HTC__KV_REPLY) {
        htc_buf_clear(&w->b);
        htc__kv_reply_write(&w->b, &reply);
        packet *q = packet_of(REPLY, htc_buf_bytes(&w->b));
        q->from = o->at;
        q->to = p->from;
        if (HTC__BROKEN(ack_before_sync)) {
            travel(w, q, 1);
        } else { /* what it shows may not be durable yet either: everything waits */
            packet **at = &o->waiting;
            while (*at)
                at = &(*at)->next;
            *at = q;
        }
    }
    if (duties & HTC__KV_STORE_CELL)
        write_cell(s, &cell, &w->b);
    if (duties & HTC__KV_DROP_CELL)
        s->len = 0;
    else if (!cell.present && s->len && chance(w, 100) && htc__kv_acceptor_fold(&cell, &o->now.floors))
        s->len = 0;
    sync_soon(w, o);
}

static inline void synced(world *w, owner *o, const packet *p)
{
    if (!o->up || p->life != o->life)
        return;
    o->durable = o->syncing;
    o->sync_on_its_way = 0;
    while (o->syncing_replies) {
        packet *q = o->syncing_replies;
        o->syncing_replies = q->next;
        travel(w, q, 1);
    }
    if (o->reg && o->reserving_synced) {
        uint64_t counter = o->reserving_synced;
        if (o->reserving == counter)
            o->reserving = 0;
        htc__kv_register_reserved(o->reg, w->now, counter);
    }
    if (o->waiting || o->reserving)
        sync_soon(w, o);
}

/* ---- clients ---- */

static inline void transmit(world *w, request *r, int i)
{
    packet *p = packet_of(REQUEST, (htc_bytes){ NULL, 0 });
    p->from = OWNERS;
    p->to = w->whom ? w->whom(w) : chance(w, 700) ? 0 : (uint32_t)htc_rng_below(&w->rng, w->s.proposers);
    p->request = i;
    r->sends++;
    r->retry_at = w->now + 120 * HTC_MS + htc_rng_below(&w->rng, 80 * HTC_MS);
    travel(w, p, 0);
}

static inline void submit(world *w, int slot)
{
    static const uint32_t text[] = { HTC_KV_GET,         HTC_KV_GET,       HTC_KV_PUT,    HTC_KV_APPEND,
                                     HTC_KV_CAS_VERSION, HTC_KV_CAS_VALUE, HTC_KV_DELETE, HTC__KV_EXPIRE };
    static const uint32_t number[] = { HTC_KV_GET, HTC_KV_ADD, HTC_KV_ADD, HTC_KV_DELETE };
    client               *c = &w->c[slot];
    int                   i = w->requests++, face = (int)htc_rng_below(&w->rng, FACES);
    request              *r = &w->r[i];
    c->now = i;
    r->slot = slot;
    r->key = chance(w, 300);
    r->e.op = r->key ? number[htc_rng_below(&w->rng, 4)] : text[htc_rng_below(&w->rng, 8)];
    r->e.call = w->now;
    r->e.back = HTC_NEVER;
    uint32_t piece = (uint32_t)++w->pieces;
    memcpy(r->piece, &piece, 4);
    r->e.arg = piece;
    r->q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = r->e.op, .key = key_name(r->key), .value = { r->piece, 4 } };
    if (r->e.op == HTC_KV_PUT) {
        r->e.flags = r->q.flags = chance(w, 300) ? HTC_KV_NX : 0;
        r->e.ttl = chance(w, 400);
        r->q.ttl = r->e.ttl ? HTC_SECOND : 0;
    } else if (r->e.op == HTC_KV_ADD) {
        r->e.arg = 1 + htc_rng_below(&w->rng, 100);
        r->q.delta = (int64_t)r->e.arg;
    } else if (r->e.op == HTC_KV_CAS_VERSION) {
        r->e.version = r->q.version = c->version[r->key];
    } else if (r->e.op == HTC__KV_EXPIRE) {
        r->e.version = c->term[r->key];
        r->q.version = c->ended[r->key];
    } else if (r->e.op == HTC_KV_CAS_VALUE) {
        memcpy(r->seen, c->value[r->key], c->value_len[r->key]);
        r->q.seen = (htc_bytes){ r->seen, c->value_len[r->key] };
        r->e.seen = hash_of(r->key, r->q.seen);
    }
    r->stamp = (htc__kv_stamp){ .client = (uint64_t)(slot * FACES + face + 1), .sequence = ++c->sequence[face] };
    /* Whatever version it has seen, of whatever key. */
    for (int k = 0; k < KEYS; k++)
        if (c->seen[k] > r->stamp.since && (k == r->key || chance(w, 500)))
            r->stamp.since = c->seen[k];
    if (c->seen[r->key] > r->stamp.since)
        r->stamp.since = c->seen[r->key];
    if (chance(w, w->s.once) && r->e.op < HTC__KV_EXPIRE) /* that one may be told that it is done already */
        r->stamp = (htc__kv_stamp){ .fresh = 1 };
    transmit(w, r, i);
}

static inline void end_request(world *w, request *r)
{
    client *c = &w->c[r->slot];
    r->over = 1;
    c->now = -1;
    c->next_at = w->now + htc_rng_below(&w->rng, 20 * HTC_MS);
}

static inline void answered_client(world *w, const packet *p)
{
    request               *r = &w->r[p->request];
    client                *c = &w->c[r->slot];
    const htc__kv_outcome *out = &p->outcome;
    if (c->now != p->request || r->over || out->result.status == HTC_ETIMEDOUT)
        return;
    if (out->result.version > c->seen[r->key])
        c->seen[r->key] = out->result.version;
    if (out->result.status == HTC_EUNKNOWN && r->sends == 1 && !out->tried && r->stamp.client) {
        /* It was sent once, and nobody can have applied it: anew. */
        w->unknown++;
        r->stamp.since = out->result.version;
        transmit(w, r, p->request);
        r->sends = 1;
        return;
    }
    int failed = out->result.status != HTC_OK && r->e.op != HTC_KV_GET;
    if (out->result.status == HTC_EUNKNOWN || (failed && r->sends > 1)) {
        w->unknown++;
        end_request(w, r);
        return;
    }
    htc_bytes value = { p->data, p->len };
    r->e.back = w->now;
    r->e.status = out->result.status;
    r->e.got_version = out->result.version;
    r->e.observed = out->observed;
    r->e.number = out->result.number;
    r->e.got = hash_of(r->key, value);
    w->answered++;
    c->version[r->key] = out->result.version;
    if (r->e.op == HTC_KV_GET && value.len <= 255) {
        memcpy(c->value[r->key], p->data, value.len);
        c->value_len[r->key] = value.len;
    }
    if (r->e.op == HTC_KV_PUT && r->e.ttl && r->e.status == HTC_OK) {
        c->term[r->key] = out->result.version;
        c->ended[r->key] = htc__kv_term(out->result.version, &r->stamp);
    }
    end_request(w, r);
}

/* ---- time ---- */

static inline void arrived(world *w, packet *p)
{
    owner *o = p->to < OWNERS ? &w->o[p->to] : NULL;
    switch (p->kind) {
    case ASK:
        if (o->up)
            asked_owner(w, o, p);
        break;
    case REPLY: {
        htc__kv_reply reply;
        cr_assert(htc__kv_reply_read((htc_bytes){ p->data, p->len }, &reply) == HTC_OK);
        if (o->up && o->reg)
            htc__kv_register_reply(o->reg, w->now, p->from + 1, &reply);
        break;
    }
    case REQUEST: {
        request       *r = &w->r[p->request];
        htc__kv_owners owners = owners_now(w, p->to);
        if (o->up && o->reg) {
            htc_status status = htc__kv_register_ask(o->reg, w->now, &owners, &r->q, &r->stamp, p->tried,
                                                     w->now + 400 * HTC_MS, (uint64_t)p->request);
            cr_assert(status == HTC_OK || (w->moves && status == HTC_EINVAL)); /* not an owner (any more) */
        }
        break;
    }
    case ANSWER:
        answered_client(w, p);
        break;
    case SYNC:
        synced(w, o, p);
        break;
    case LIFE:
        if (p->tried && !o->up)
            start_owner(w, o);
        else if (!p->tried && o->up && !w->quiet)
            kill_owner(w, o);
        break;
    case COLLECTION: {
        htc__kv_owners owners = owners_now(w, p->to);
        if (o->up && o->reg)
            htc__kv_register_collect(o->reg, w->now, &owners, key_name(p->request), TAG_COLLECT);
        break;
    }
    case OTHER:
        p->arrive(w, p);
        break;
    }
    free(p);
}

static inline void step_clients(world *w)
{
    for (int i = 0; i < SLOTS; i++) {
        client *c = &w->c[i];
        if (c->now < 0 && c->next_at <= w->now && w->requests < w->s.number_of_requests) {
            submit(w, i);
        } else if (c->now >= 0 && w->r[c->now].retry_at <= w->now) {
            if ((w->r[c->now].sends >= 5 && !w->quiet) || w->r[c->now].stamp.client == 0)
                end_request(w, &w->r[c->now]);
            else
                transmit(w, &w->r[c->now], c->now);
        }
    }
}

static inline htc_ns next_moment(const world *w)
{
    htc_ns at = w->packets ? w->packets->at : HTC_NEVER;
    for (uint32_t i = 0; i < OWNERS; i++)
        if (w->o[i].reg && htc__kv_register_deadline(w->o[i].reg) < at)
            at = htc__kv_register_deadline(w->o[i].reg);
    for (int i = 0; i < SLOTS; i++) {
        const client *c = &w->c[i];
        htc_ns t = c->now >= 0 ? w->r[c->now].retry_at : w->requests < w->s.number_of_requests ? c->next_at : HTC_NEVER;
        if (t < at)
            at = t;
    }
    return at > w->now ? at : w->now;
}

static inline void run(world *w, htc_ns until)
{
    for (;;) {
        htc_ns at = next_moment(w);
        int    idle = w->requests >= w->s.number_of_requests;
        for (int i = 0; i < SLOTS; i++)
            idle = idle && w->c[i].now < 0;
        if (at > until || idle)
            return;
        w->now = at;
        while (w->packets && w->packets->at <= w->now) {
            packet *p = w->packets;
            w->packets = p->next;
            arrived(w, p);
        }
        for (uint32_t i = 0; i < OWNERS; i++)
            if (w->o[i].reg)
                htc__kv_register_timeout(w->o[i].reg, w->now);
        step_clients(w);
    }
}

static inline void plan_faults(world *w, htc_ns until)
{
    for (htc_ns t = 5 * HTC_MS; t < until; t += 10 * HTC_MS) {
        if (chance(w, w->s.kill)) {
            packet *p = packet_of(LIFE, (htc_bytes){ NULL, 0 });
            p->to = (uint32_t)htc_rng_below(&w->rng, w->s.owners);
            post(w, p, t);
        }
        if (chance(w, w->s.collect)) {
            packet *p = packet_of(COLLECTION, (htc_bytes){ NULL, 0 });
            p->to = (uint32_t)htc_rng_below(&w->rng, w->s.proposers);
            p->request = (int)htc_rng_below(&w->rng, KEYS);
            post(w, p, t);
        }
    }
}

static inline void final_reads(world *w)
{
    w->quiet = 1;
    for (uint32_t i = 0; i < w->s.owners; i++)
        if (!w->o[i].up)
            start_owner(w, &w->o[i]);
    run(w, w->now + 5 * HTC_SECOND);
    for (int k = 0; k < KEYS; k++) {
        int      i = w->requests++;
        request *r = &w->r[i];
        w->s.number_of_requests = w->requests;
        *r = (request){ .key = k, .slot = k, .q = { .op = HTC_KV_GET, .key = key_name(k) } };
        r->e = (event){ .op = HTC_KV_GET, .call = w->now, .back = HTC_NEVER };
        r->stamp = (htc__kv_stamp){ .client = 1000, .sequence = (uint64_t)k + 1 };
        w->c[k].now = i;
        transmit(w, r, i);
    }
    run(w, w->now + 5 * HTC_SECOND);
}

/* What happened to a key, for who looks for the reason. */
static inline void tell(const world *w, int key)
{
    for (int i = 0; i < w->requests; i++) {
        const request *r = &w->r[i];
        const event   *e = &r->e;
        if (r->key != key)
            continue;
        fprintf(stderr, "%2d client %llu: %6.1f to %6.1f op %3u arg %llu expects %llu seen %016llx: ", i,
                (unsigned long long)r->stamp.client, (double)e->call / 1e6,
                e->back == HTC_NEVER ? -1.0 : (double)e->back / 1e6, e->op, (unsigned long long)e->arg,
                (unsigned long long)e->version, (unsigned long long)e->seen);
        fprintf(stderr, "status %d version %llu observed %llu value %016llx number %lld, sent %d\n", (int)e->status,
                (unsigned long long)e->got_version, (unsigned long long)e->observed, (unsigned long long)e->got,
                (long long)e->number, r->sends);
    }
}

/* 0: all is well; else what is not. */
static inline const char *verdict(const world *w)
{
    for (int k = 0; k < KEYS; k++) {
        event  e[EVENTS_MAX];
        size_t n = 0;
        for (int i = 0; i < w->requests; i++)
            if (w->r[i].key == k && (w->r[i].e.back != HTC_NEVER || w->r[i].e.op != HTC_KV_GET) && n < EVENTS_MAX)
                e[n++] = w->r[i].e;
        if (linearizable(e, n))
            continue;
        if (getenv("HTC_TEST_TRACE"))
            tell(w, k);
        return k ? "the number is not linearizable" : "the text is not linearizable";
    }
    for (int i = w->requests - KEYS; i < w->requests; i++)
        if (w->r[i].e.back == HTC_NEVER)
            return "nobody answers after all has healed";
    return NULL;
}

static inline world *world_new(uint64_t seed, const setting *s)
{
    world *w = calloc(1, sizeof *w);
    w->rng = (htc_rng){ seed };
    w->s = *s;
    htc_buf_init(&w->b, NULL, 0);
    return w;
}

static inline void world_live(world *w)
{
    for (uint32_t i = 0; i < OWNERS; i++) {
        w->o[i].w = w;
        w->o[i].at = i;
        if (i < w->s.owners)
            start_owner(w, &w->o[i]);
    }
    for (int i = 0; i < SLOTS; i++) {
        w->c[i].now = -1;
        w->c[i].next_at = 20 * HTC_MS + htc_rng_below(&w->rng, 50 * HTC_MS);
    }
    plan_faults(w, 2 * HTC_SECOND);
    run(w, 10 * HTC_SECOND);
    final_reads(w);
}

static inline world *world_run(uint64_t seed, const setting *s)
{
    world *w = world_new(seed, s);
    world_live(w);
    return w;
}

static inline void world_free(world *w)
{
    for (uint32_t i = 0; i < OWNERS; i++) {
        htc__kv_register_destroy(w->o[i].reg);
        free_list(&w->o[i].waiting);
        free_list(&w->o[i].syncing_replies);
    }
    free_list(&w->packets);
    htc_buf_free(&w->b);
    free(w);
}

#endif
