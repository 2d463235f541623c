/* What kv_load asks and how it takes answers: KV_REQUEST and KV_ANSWER of kvs/wire/kv_wire.h, written and read without a client machine
 * between, so that the generator costs less than what it measures. Nothing is repeated: a connection that breaks ends the run. */
#include <stdlib.h>

#include "kv/load.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/wire/owners_wire.h"
#include "kvs/util/place.h"

#define NO_KEY UINT64_MAX

static size_t frame_begin(htc_buf *b, uint16_t type, uint64_t id)
{
    size_t at = b->len;
    htc_put_u32(b, 0);
    htc_put_u16(b, type);
    htc_put_u64(b, id);
    return at;
}

static void frame_end(htc_buf *b, size_t at)
{
    if (b->status != HTC_OK)
        load_fatal("memory", "requests without end");
    htc_patch_u32(b, at, (uint32_t)(b->len - at - 4));
}

/* ---- greeting ---- */

/* The next whole frame; it is consumed with the next call. */
static htc_bytes frame_wait(load_link *l, size_t *used)
{
    htc_buf_consume(&l->in, *used);
    for (;;) {
        htc_reader r = htc_reader_of(htc_buf_bytes(&l->in));
        uint32_t   len = htc_reader_left(&r) >= 4 ? htc_get_u32(&r) : UINT32_MAX;
        if (len <= htc_reader_left(&r)) {
            *used = 4 + (size_t)len;
            return htc_get_raw(&r, len);
        }
        load_link_wait(l);
        (void)load_link_read(l);
    }
}

void load_conn_greet(load_conn *c)
{
    htc_buf *out = &c->link.out;
    uint16_t type;
    uint64_t id;
    size_t   used = 0, at = frame_begin(out, HTC_WIRE_HELLO, 0);
    htc_put_u32(out, HTC_WIRE_MAGIC);
    htc_put_u16(out, HTC_WIRE_VERSION);
    htc_put_u8(out, HTC_WIRE_ROLE_STORE_CLIENT);
    frame_end(out, at);
    load_link_write(&c->link);
    htc_reader r = htc_wire_open(frame_wait(&c->link, &used), &type, &id);
    uint64_t have;
    if (r.status != HTC_OK || type != HTC_WIRE_WELCOME)
        load_fatal("a connection", "not welcome");
    htc__kv_welcome_read(r, HTC_WIRE_VERSION, &have, &c->member);
    at = frame_begin(out, HTC_WIRE_KV_REQUEST, ++c->serial);
    htc__kv_head_write(out, &(htc__kv_head){ .client = c->client });
    frame_end(out, at);
    load_link_write(&c->link);
    htc__kv_answer_head head = { 0 };
    r = htc_wire_open(frame_wait(&c->link, &used), &type, &id);
    htc__kv_answer_read(&r, &head);
    if (r.status != HTC_OK || type != HTC_WIRE_KV_ANSWER || head.session == 0)
        load_fatal("a connection", "no session");
    htc_buf_consume(&c->link.in, used);
    c->session = head.session;
}

void load_learn_owners(load_asker *a, load_conn *c)
{
    htc_buf              *out = &c->link.out;
    size_t                used = 0, at = frame_begin(out, HTC_WIRE_KV_OWNERS_ASK, 1);
    uint16_t              type;
    uint64_t              id;
    uint8_t               link_of[HTC__KV_MAP_MEMBERS] = { 0 };
    htc__kv_owners_head   head;
    htc__kv_owners_at     from;
    htc__kv_owners_bucket bucket;
    htc_put_varint(out, 0);
    frame_end(out, at);
    load_link_write(&c->link);
    htc_reader r = htc_wire_open(frame_wait(&c->link, &used), &type, &id);
    if (type != HTC_WIRE_KV_OWNERS || htc__kv_owners_check(r) != HTC_OK)
        load_fatal("owners", "these are not members of one store");
    htc__kv_owners_read(r, &head, &from);
    for (size_t i = 0; i < head.members; i++) {
        htc__kv_owners_member m;
        htc__kv_owners_member_read(&from, &m);
        for (unsigned k = 0; k < a->links; k++)
            link_of[i] = c[k].member == m.id ? (uint8_t)k : link_of[i];
    }
    a->seed = head.seed;
    a->bits = head.bits;
    a->owner = calloc((size_t)1 << head.bits, sizeof *a->owner);
    if (!a->owner)
        load_fatal("owners", "no memory");
    while (htc__kv_owners_bucket_read(&from, &bucket))
        a->owner[bucket.number] = bucket.n ? link_of[bucket.member[0]] : 0;
    htc_buf_consume(&c->link.in, used);
}

/* ---- asking ---- */

static void key_of(const load_asker *a, uint64_t number, char *key)
{
    for (int i = LOAD_KEY - 1; i > 0; i--, number /= 10)
        key[i] = (char)('0' + number % 10);
    key[0] = a->op == LOAD_ADD ? 'n' : 'k';
}

/* A compare-and-swap has its own keys, one after the other, so that it is never lost; a hot one has the same as all others. */
static uint64_t next_key(load_asker *a, const load_conn *c, const load_slot *s, unsigned i)
{
    uint64_t all = (uint64_t)a->connections * a->depth * a->batch;
    switch (a->op) {
    case LOAD_CAS:
        if (s->keys[i] != NO_KEY && s->keys[i] + all < a->keys)
            return s->keys[i] + all;
        return ((uint64_t)c->number * a->depth + (uint64_t)(s - c->slots)) * a->batch + i;
    case LOAD_NEW:
        return a->fresh++;
    case LOAD_HOT:
    case LOAD_ECHO:
        return 0;
    case LOAD_GET:
    case LOAD_PUT:
    case LOAD_ADD:
        break;
    }
    return htc_rng_below(&a->rng, a->keys);
}

static void put_op(const load_asker *a, htc_buf *b, uint64_t number, uint64_t stamp)
{
    static char    value[LOAD_VALUE] = { 'v' };
    char           key[LOAD_KEY];
    htc_kv_request q = { .size = sizeof q, .key = { key, LOAD_KEY }, .delta = 1 };
    key_of(a, number, key);
    memcpy(value, &stamp, sizeof stamp);
    switch (a->op) {
    case LOAD_GET:
        q.op = HTC_KV_GET;
        break;
    case LOAD_ADD:
        q.op = HTC_KV_ADD;
        break;
    case LOAD_CAS:
    case LOAD_HOT:
        q.op = HTC_KV_CAS_VERSION;
        q.version = a->versions[number];
        q.value = (htc_bytes){ value, LOAD_VALUE };
        break;
    case LOAD_PUT:
    case LOAD_NEW:
    case LOAD_ECHO:
        q.op = HTC_KV_PUT;
        q.value = (htc_bytes){ value, LOAD_VALUE };
        break;
    }
    htc__kv_op_write(b, &q);
}

/* A serial says whose slot it is, and only grows. */
static uint64_t serial_of(load_conn *c, const load_slot *s)
{
    return ++c->serial * LOAD_DEPTH_MAX + (uint64_t)(s - c->slots);
}

/* What is left of it. */
static load_conn *transmit(const load_asker *a, load_conn *c, load_slot *s)
{
    load_conn *client = c->first;
    if (a->owner) {
        char key[LOAD_KEY];
        key_of(a, s->keys[a->batch - s->left], key);
        c = client + a->owner[htc__kv_bucket(htc__kv_place(a->seed, (htc_bytes){ key, LOAD_KEY }), a->bits)];
    }
    htc_buf *out = &c->link.out;
    s->serial = serial_of(c, s);
    size_t at = frame_begin(out, HTC_WIRE_KV_REQUEST, s->serial);
    htc__kv_head_write(out, &(htc__kv_head){ .session = c->session,
                                             .client = c->client,
                                             .since = client->clock,
                                             .sequence = client->sequence + 1,
                                             .count = s->left });
    for (unsigned i = a->batch - s->left; i < a->batch; i++)
        put_op(a, out, s->keys[i], client->sequence);
    frame_end(out, at);
    client->sequence += s->left;
    return c;
}

load_conn *load_ask(load_asker *a, load_conn *c, load_slot *s, uint64_t now)
{
    for (unsigned i = 0; i < a->batch; i++)
        s->keys[i] = next_key(a, c, s, i);
    s->left = a->batch;
    s->anew = 0;
    s->begun = now;
    c->first->active++;
    return transmit(a, c, s);
}

/* ---- answers ---- */

/* 1: it is to be asked again: nobody has tried it; or a hot key's try was lost, and is tried with what it was shown, its clock
 * running on. */
static int take_result(load_asker *a, uint64_t number, const htc_kv_result *r)
{
    if (r->status == HTC_OK)
        a->done++;
    else if (r->status == HTC_MISMATCH)
        a->lost++;
    else if (r->status == HTC_AGAIN)
        a->again++;
    else
        a->failed++, a->why = r->status;
    if (a->versions && number < a->keys && r->version)
        a->versions[number] = r->version;
    return r->status == HTC_AGAIN || (a->op == LOAD_HOT && r->status == HTC_MISMATCH);
}

static load_slot *done(load_conn *c, load_slot *s)
{
    c->first->active--;
    s->serial = 0;
    return s;
}

load_slot *load_answer(load_asker *a, load_conn *c, htc_bytes frame)
{
    uint16_t            type;
    uint64_t            id;
    htc__kv_answer_head head = { 0 };
    htc_reader          r = htc_wire_open(frame, &type, &id);
    load_slot          *s = &c->slots[id % LOAD_DEPTH_MAX];
    if (a->op == LOAD_ECHO) {
        a->done++;
        return done(c, s);
    }
    if (type == HTC_WIRE_KV_ANSWER)
        htc__kv_answer_read(&r, &head);
    if (r.status != HTC_OK || type != HTC_WIRE_KV_ANSWER || id % LOAD_DEPTH_MAX >= a->depth || s->serial != id ||
        head.count > s->left)
        load_fatal("an answer", "it is to nothing that was asked");
    c->first->clock = head.clock > c->first->clock ? head.clock : c->first->clock;
    for (uint32_t i = 0; i < head.count; i++, s->left--) {
        htc_kv_result result = { .size = sizeof result };
        uint64_t      number = s->keys[a->batch - s->left];
        htc__kv_result_read(&r, &result);
        if (take_result(a, number, &result))
            s->keys[s->anew++] = number;
    }
    if (r.status != HTC_OK)
        load_fatal("an answer", "broken");
    if (head.more & HTC__KV_MORE)
        return NULL;
    a->again += s->left > 0; /* pushed back */
    s->left += s->anew;
    memmove(&s->keys[a->batch - s->left], s->keys, s->anew * sizeof *s->keys);
    s->anew = 0;
    if (s->left == 0)
        return done(c, s);
    load_conn *to = transmit(a, c, s);
    if (to != c) /* the caller sends what is in c alone */
        load_link_write(&to->link);
    return NULL;
}

/* ---- before it is measured ---- */

/* One connection, LOAD_BATCH_MAX keys at a time. */
static void all_keys(load_asker *a, load_conn *c, load_op op)
{
    load_asker filler = *a;
    load_slot *s = &c->slots[0];
    filler.op = a->op == LOAD_ADD ? LOAD_ADD : op;
    filler.owner = NULL; /* all of them by one connection */
    filler.done = filler.failed = filler.lost = filler.again = 0;
    for (uint64_t at = 0; at < a->keys;) {
        uint64_t left = a->keys - at;
        size_t   used = 0;
        filler.batch = s->left = left < LOAD_BATCH_MAX ? (unsigned)left : LOAD_BATCH_MAX;
        s->anew = 0;
        for (unsigned i = 0; i < s->left; i++)
            s->keys[i] = at++;
        c->active = 1;
        transmit(&filler, c, s);
        while (c->active > 0) {
            load_link_write(&c->link);
            (void)load_answer(&filler, c, frame_wait(&c->link, &used));
        }
        htc_buf_consume(&c->link.in, used);
    }
    if (filler.done != a->keys)
        load_fatal("filling", htc_strerror(filler.why));
    for (unsigned i = 0; i < a->depth; i++)
        memset(c->slots[i].keys, 0xff, sizeof c->slots[i].keys); /* NO_KEY */
}

void load_fill(load_asker *a, load_conn *c)
{
    all_keys(a, c, LOAD_PUT);
}

void load_learn(load_asker *a, load_conn *c)
{
    all_keys(a, c, LOAD_GET);
}
