/* A member catches up: after its start, and when another one that was silent is heard again, it goes over the keys that both own and takes what
 * the other one has accepted and it has not.
 *
 * Keys are compared range by range, in their order, each by a hash tree (digest.h) of the keys in it and of the ballots with which they were
 * accepted. Whoever is asked remembers nothing:
 *
 *     CATCH range, root ──▶ the same ──▶ the next range
 *                        └▶ LEAVES ──▶ KEYS: what there is in the leaves that differ ──▶ RECORDS that are newer, and how far ──▶ ...
 *
 * A record is taken as the accept that it once was, come late: refused below a promise, at or below the floors, in another epoch than the
 * bucket's, and answered by nobody, so that it counts in no round. It is one that a proposer has proposed with that ballot, which is
 * all that an owner has to know to accept it.
 *
 * One range at a time, with a pause of half of compare_ns behind each; nothing that waits for a majority waits for this. Where both are alike it costs a look at
 * each key and a message for some hundreds. */
#include <string.h>

#include "core/fault.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/util/digest.h"
#include "kvs/migrate/bucket_migration.h"

#ifdef HTC_FAULTS
#define RANGE_KEYS 3 /* in simulation ranges are many */
#else
#define RANGE_KEYS 512
#endif
#define RANGE_LOOK    (4 * RANGE_KEYS) /* of all keys, whosever they are */
#define RECORDS_BYTES ((size_t)256 << 10)
#define TRIES         20 /* of one range; then later, when that member is heard again */

typedef struct htc__kv_catchup {
    uint64_t     with; /* the member that is asked now; 0: nobody */
    uint64_t     round;
    htc__kv_name from, to; /* the range that is asked about: behind from, up to to (empty: to the end) */
    uint32_t     tries;
    int          missed; /* a record of it came when there was no room */
    htc_ns       at;     /* it is asked, or asked again */
    htc__kv_catchup_counts counts;
} catching;

/* ---------------------------------------------------------------- a look at a range */

typedef struct entry {
    htc__kv_name   name;
    htc__kv_ballot accepted;
    uint32_t       leaf;
} entry;

/* Keys that this member and another one own and that lie in a range: how far that went, what they are. */
typedef struct range {
    htc_kv_server *s;
    uint64_t       with;
    htc__kv_name   to, last; /* last: that was looked at */
    uint32_t       looked, count;
    int            more; /* it was too much: the range ends at `last` */
    entry         *entry; /* RANGE_KEYS */
} range;

static htc_bytes key_of(const htc__kv_name *name)
{
    return (htc_bytes){ name->data + 1, name->len - 1 };
}

static void set_name(htc__kv_name *name, htc_bytes key)
{
    *name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
}

static int meet(void *visitor, htc_bytes name, htc_bytes value)
{
    range          *r = visitor;
    htc__kv_cluster *c = r->s->cluster;
    htc_bytes        key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_cell     cell;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL) || (r->to.len > 1 && htc_bytes_compare(key, key_of(&r->to)) > 0))
        return 0;
    if (r->looked == RANGE_LOOK || r->count == RANGE_KEYS) {
        r->more = 1;
        return 0;
    }
    r->looked++;
    set_name(&r->last, key);
    uint32_t bucket = htc__kv_cluster_bucket(c, key);
    if (bucket == HTC__KV_OWN_BUCKET || !value.data || !htc__kv_route_has(c, bucket, r->with) ||
        !htc__kv_cluster_serves(r->s, bucket, c->route[bucket].epoch) || htc__kv_cell_head(value, NULL, &cell) != HTC_OK || !cell.present)
        return 1;
    entry *e = &r->entry[r->count++];
    set_name(&e->name, key);
    e->accepted = cell.accepted;
    e->leaf = htc__digest_leaf(htc__kv_place(c->seed, key), 20); /* whichever bits: both take the same */
    return 1;
}

/* Behind `after`, up to `to` (empty: the end) or as far as one look takes it. 0: it could not be looked at. */
static int look_at(htc_kv_server *s, uint64_t with, htc_bytes after, htc_bytes to, range *r)
{
    *r = (range){ .s = s, .with = with };
    set_name(&r->to, to);
    set_name(&r->last, after);
    r->entry = htc__alloc_raw(&s->env, RANGE_KEYS * sizeof *r->entry); /* much, of which little is used */
    if (!r->entry) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return 0;
    }
    htc__kv_name from;
    set_name(&from, after);
    if (after.len)
        from.data[from.len++] = 0; /* behind it */
    s->touched = 0;
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&from), meet, r);
    if (status == HTC_OK)
        return 1;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    htc__free(&s->env, r->entry, RANGE_KEYS * sizeof *r->entry);
    return 0;
}

static void done_with(range *r)
{
    htc__free(&r->s->env, r->entry, RANGE_KEYS * sizeof *r->entry);
}

static void sum_up(const range *r, htc__digest *d)
{
    memset(d, 0, sizeof *d);
    for (uint32_t i = 0; i < r->count; i++) {
        uint8_t form[40];
        htc_buf b = { .data = form, .cap = sizeof form };
        htc__kv_ballot_write(&b, &r->entry[i].accepted);
        htc__digest_add(d, r->entry[i].leaf, htc__digest_record(key_of(&r->entry[i].name), htc_buf_bytes(&b)));
    }
}

/* ---------------------------------------------------------------- what is said */

/* All begin so. */
static void begin_item(htc_kv_server *s, uint64_t round, htc_bytes after, htc_bytes to)
{
    htc_buf *b = &s->cluster->scratch;
    htc_buf_clear(b);
    htc_put_varint(b, round);
    htc_put_bytes(b, after);
    htc_put_bytes(b, to);
}

typedef struct head {
    uint64_t  round;
    htc_bytes after, to;
} head;

static htc_bytes get_key(htc_reader *r)
{
    htc_bytes key = htc_get_bytes(r);
    if (key.len > HTC_KV_KEY_MAX)
        htc_reader_fail(r);
    return key;
}

static int read_head(htc_reader *r, head *h)
{
    h->round = htc_get_varint(r);
    h->after = get_key(r);
    h->to = get_key(r);
    return r->status == HTC_OK;
}

static void say(htc_kv_server *s, uint64_t to, uint8_t kind)
{
    if (s->cluster->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, to, kind, htc_buf_bytes(&s->cluster->scratch));
    else
        htc__kv_cluster_broken(s, s->cluster->scratch.status);
}

/* ---------------------------------------------------------------- who catches up asks */

static htc_ns pause(const htc_kv_server *s)
{
    return s->options.compare_ns / 2;
}

static void ask(htc_kv_server *s)
{
    catching   *t = s->cluster->catching;
    range       r;
    htc__digest d;
    t->at = s->now + 8 * s->cluster->suspect_ns / 10;
    t->missed = 0;
    if (t->tries++ == TRIES) {
        t->with = 0; /* it is asked again when it was silent */
        return;
    }
    if (!look_at(s, t->with, key_of(&t->from), (htc_bytes){ NULL, 0 }, &r))
        return;
    sum_up(&r, &d);
    set_name(&t->to, r.more ? key_of(&r.last) : (htc_bytes){ NULL, 0 });
    t->counts.compared += r.count;
    done_with(&r);
    begin_item(s, ++t->round, key_of(&t->from), key_of(&t->to));
    htc_put_u64(&s->cluster->scratch, htc__digest_root(&d));
    say(s, t->with, HTC__KV_ITEM_CATCH);
}

/* That range is done. */
static void go_on(htc_kv_server *s, htc_bytes to)
{
    catching *t = s->cluster->catching;
    t->tries = 0;
    t->at = s->now + pause(s);
    t->round++; /* whatever else is said of it comes too late */
    if (to.len == 0) {
        t->with = 0;
        t->counts.rounds++;
        return;
    }
    set_name(&t->from, to);
}

static int is_answer(const htc_kv_server *s, uint64_t from, const head *h)
{
    const catching *t = s->cluster->catching;
    return t->with == from && h->round == t->round && htc_bytes_equal(h->after, key_of(&t->from));
}

/* 1: the leaf is to be looked into. */
typedef struct leaves {
    uint8_t bit[HTC__DIGEST_LEAVES / 8];
} leaves;

static int in(const leaves *l, uint32_t leaf)
{
    return l->bit[leaf / 8] >> leaf % 8 & 1;
}

/* What there is here in the leaves that differ. */
static void say_keys(htc_kv_server *s, const range *r, const leaves *l, const head *h)
{
    htc_buf *b = &s->cluster->scratch;
    begin_item(s, h->round, h->after, h->to);
    htc_put_raw(b, (htc_bytes){ l->bit, sizeof l->bit });
    for (uint32_t i = 0; i < r->count; i++)
        if (in(l, r->entry[i].leaf)) {
            htc_put_bytes(b, key_of(&r->entry[i].name));
            htc__kv_ballot_write(b, &r->entry[i].accepted);
        }
    say(s, s->cluster->catching->with, HTC__KV_ITEM_KEYS);
}

static void on_leaves(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader  r = htc_reader_of(item);
    head        h;
    htc__digest mine, theirs;
    leaves      l = { { 0 } };
    range       x;
    int         differs = 0;
    if (!read_head(&r, &h) || !is_answer(s, from, &h))
        return;
    if (htc_reader_left(&r) == 0) { /* the same */
        go_on(s, h.to);
        return;
    }
    for (uint32_t i = 0; i < HTC__DIGEST_LEAVES; i++)
        theirs.leaf[i] = htc_get_u64(&r);
    if (htc_reader_done(&r) != HTC_OK || !look_at(s, from, h.after, h.to, &x))
        return;
    sum_up(&x, &mine);
    for (uint32_t i = 0; i < HTC__DIGEST_LEAVES; i++)
        if (mine.leaf[i] != theirs.leaf[i]) {
            l.bit[i / 8] |= (uint8_t)(1u << i % 8);
            differs = 1;
        }
    if (x.more) /* there have become more since: no further than this */
        h.to = key_of(&x.last);
    if (differs)
        say_keys(s, &x, &l, &h);
    else
        go_on(s, h.to);
    done_with(&x);
}

/* ---------------------------------------------------------------- who is asked answers */

static void on_catch(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader  r = htc_reader_of(item);
    head        h;
    range       x;
    htc__digest d;
    int         ok = read_head(&r, &h);
    uint64_t    root = htc_get_u64(&r);
    if (!ok || htc_reader_done(&r) != HTC_OK || !look_at(s, from, h.after, h.to, &x))
        return;
    sum_up(&x, &d);
    begin_item(s, h.round, h.after, x.more ? key_of(&x.last) : h.to);
    if (x.more || htc__digest_root(&d) != root)
        for (uint32_t i = 0; i < HTC__DIGEST_LEAVES; i++)
            htc_put_u64(&s->cluster->scratch, d.leaf[i]);
    done_with(&x);
    say(s, from, HTC__KV_ITEM_LEAVES);
}

/* What is durable here alone may be given away: another one would keep what this one could lose. */
static int give(htc_kv_server *s, uint64_t to, const entry *e, size_t *sent)
{
    htc__kv_cluster *c = s->cluster;
    uint32_t         bucket = htc__kv_cluster_bucket(c, key_of(&e->name));
    htc_bytes        bytes;
    s->touched = 0;
    if (htc__kv_read(s, htc__kv_name_bytes(&e->name), &bytes) != HTC_OK)
        return 1;
    *sent += bytes.len + e->name.len;
    htc_buf_clear(&c->scratch);
    htc_put_varint(&c->scratch, c->route[bucket].epoch);
    htc_put_bytes(&c->scratch, key_of(&e->name));
    htc_put_raw(&c->scratch, bytes);
    c->catching->counts.given++;
    htc__kv_cluster_reply(s, to, HTC__KV_ITEM_RECORD);
    return *sent < RECORDS_BYTES;
}

static void on_keys(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader r = htc_reader_of(item);
    head       h;
    leaves     l;
    range      x;
    size_t     sent = 0;
    uint32_t   i = 0;
    int        ok = read_head(&r, &h);
    htc_bytes  bits = htc_get_raw(&r, sizeof l.bit), theirs = { NULL, 0 };
    if (!ok || r.status != HTC_OK || !look_at(s, from, h.after, h.to, &x))
        return;
    memcpy(l.bit, bits.data, sizeof l.bit);
    htc__kv_ballot ballot = { 0 };
    int            more = 1, there = 0;
    for (; i < x.count && more; i++) {
        const entry *e = &x.entry[i];
        if (!in(&l, e->leaf))
            continue;
        while (r.status == HTC_OK && (!there || htc_bytes_compare(theirs, key_of(&e->name)) < 0) && htc_reader_left(&r)) {
            theirs = get_key(&r);
            ballot = htc__kv_ballot_read(&r);
            there = r.status == HTC_OK;
        }
        int has = there && htc_bytes_equal(theirs, key_of(&e->name));
        if (!has || htc__kv_ballot_compare(&ballot, &e->accepted) < 0)
            more = give(s, from, e, &sent);
    }
    htc_bytes upto = i < x.count ? key_of(&x.entry[i - 1].name) : x.more ? key_of(&x.last) : h.to;
    begin_item(s, h.round, h.after, upto);
    done_with(&x);
    say(s, from, HTC__KV_ITEM_CAUGHT);
}

/* ---------------------------------------------------------------- what comes of it */

static void on_caught(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader r = htc_reader_of(item);
    head       h;
    if (!read_head(&r, &h) || htc_reader_done(&r) != HTC_OK || !is_answer(s, from, &h))
        return;
    catching *t = s->cluster->catching;
    if (t->missed) { /* what was taken is not sent again */
        t->tries = 0;
        t->at = s->now + HTC__KV_ROOM_AGAIN;
        return;
    }
    go_on(s, h.to);
}

static void on_record(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader  r = htc_reader_of(item);
    htc__kv_ask ask = { .kind = HTC__KV_ACCEPT, .epoch = htc_get_varint(&r), .key = get_key(&r) };
    htc_bytes   bytes = htc_get_raw(&r, htc_reader_left(&r));
    if (r.status != HTC_OK || ask.key.len == 0 || htc__kv_cell_read(bytes, NULL, &ask.cell) != HTC_OK || !ask.cell.present ||
        htc__kv_ballot_none(&ask.cell.accepted))
        return;
    ask.ballot = ask.cell.accepted;
    if (htc__kv_full(s) || htc__kv_room(s, ask.key.len, ask.cell.value.len) == HTC_EBUSY) {
        s->cluster->catching->missed = 1;
        return;
    }
    s->cluster->catching->counts.taken += (uint64_t)htc__kv_cluster_accept_late(s, from, &ask);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    if (!s->cluster->catching || !s->cluster->map)
        return;
    switch (kind) {
    case HTC__KV_ITEM_CATCH:
        on_catch(s, from, item);
        break;
    case HTC__KV_ITEM_LEAVES:
        on_leaves(s, from, item);
        break;
    case HTC__KV_ITEM_KEYS:
        on_keys(s, from, item);
        break;
    case HTC__KV_ITEM_CAUGHT:
        on_caught(s, from, item);
        break;
    default:
        on_record(s, from, item);
        break;
    }
}

/* ---------------------------------------------------------------- whom, and when */

static void look_who_is_back(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < c->count; i++) {
        htc__kv_peer *peer = &c->peers[i];
        if (htc__kv_cluster_suspected(s, peer)) {
            peer->caught_up = 0;
            if (c->catching->with == peer->id)
                c->catching->with = 0;
        }
    }
}

static void begin_with_next(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    catching        *t = c->catching;
    for (uint32_t i = 0; i < c->count; i++) {
        htc__kv_peer *peer = &c->peers[i];
        if (peer->self || peer->caught_up || !peer->listed || !peer->met || htc__kv_cluster_suspected(s, peer))
            continue;
        peer->caught_up = 1;
        t->with = peer->id;
        t->tries = 0;
        set_name(&t->from, (htc_bytes){ NULL, 0 });
        return;
    }
}

static void tick(htc_kv_server *s)
{
    catching *t = s->cluster->catching;
    if (!s->cluster->map || s->now < t->at)
        return;
    int begins = t->at == 0;
    t->at = s->now + pause(s);
    if (begins)
        return;
    look_who_is_back(s);
    if (!t->with)
        begin_with_next(s);
    if (t->with)
        ask(s);
    else if (t->at < s->now + s->cluster->suspect_ns / 2) /* nobody is silent for less than that */
        t->at = s->now + s->cluster->suspect_ns / 2;
}

static htc_ns deadline(const htc_kv_server *s)
{
    return s->cluster->map && s->cluster->count > 1 ? s->cluster->catching->at : HTC_NEVER;
}

/* ---------------------------------------------------------------- life */

void htc__kv_catchup_counted(const htc_kv_server *s, htc__kv_catchup_counts *counts)
{
    const htc__kv_cluster *c = s->cluster;
    *counts = c->catching->counts;
    counts->left = c->catching->with != 0;
    for (uint32_t i = 0; i < c->count; i++)
        counts->left += !c->peers[i].self && c->peers[i].listed && !c->peers[i].caught_up;
}

static htc_status make(htc_kv_server *s)
{
    s->cluster->catching = htc__alloc(&s->env, sizeof *s->cluster->catching);
    return s->cluster->catching ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    htc__free(&s->env, s->cluster->catching, sizeof *s->cluster->catching);
}

const htc__kv_component htc__kv_component_catching = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                             .items = { HTC__KV_ITEM_CATCH, HTC__KV_ITEM_LEAVES, HTC__KV_ITEM_KEYS, HTC__KV_ITEM_CAUGHT,
                                                        HTC__KV_ITEM_RECORD } };
