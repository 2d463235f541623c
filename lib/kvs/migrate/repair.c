/* Damage: records that this member's engine has, and that are not what was written.
 *
 * What such a record had promised of its key, and to whom, nobody knows. So the member answers nothing of that key, and a copy from another
 * owner would not do either: with it the old promise would be forgotten, and whoever holds it could undo what came after. But what was
 * promised counts in its epoch alone. So the member asks for a new one: the whole bucket moves from its owners to the same owners (kvs/map/map.h,
 * RENEW), which takes of each key what those say that can still read it, and puts that in the place of whatever each of them has.
 *
 *     found ──▶ named ──▶ some time, others too ──▶ RENEW by a compare-and-swap of the map ──▶ sealed, read, installed, activated ──▶ whole
 *               ▲                                        │
 *               └── later, at growing intervals ◀── given up: too few of its owners answer, or can read the same key
 *
 * What a member remembers of a bucket as a whole may be damaged too: migrate/lost_bucket.c. It is found where it is met, and by one look over all keys when the member has started. While a bucket is renewed it waits, so this is
 * begun only where all of its owners are heard. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "kvs/replica/cluster_private.h"

#define LOOK_KEYS 512
#define LOOK_NS   (10 * HTC_MS)
#define SAID_MOST 32 /* lines in a life */
#define GAP_GROWS 10 /* times doubled at most */

typedef struct htc__kv_repairing {
    uint8_t     *damaged; /* by bucket, the map's own behind the last; 1: a record of it is */
    uint32_t     count;   /* of them */
    uint32_t     before;  /* as many when the last renewal was begun */
    uint32_t     next;    /* where the next one looks for buckets */
    uint32_t     said;
    uint32_t     grown;   /* so many times was the gap doubled */
    htc_ns       at, begun_at;
    int          looking;
    htc_ns       look_at;
    htc__kv_name from;
    uint64_t     renewed, given_up;
} repairing;

static uint32_t index_of(const htc__kv_cluster *c, uint32_t bucket)
{
    return bucket == HTC__KV_OWN_BUCKET ? c->buckets : bucket;
}

static htc_ns gap(const htc_kv_server *s)
{
    return (4 * s->cluster->suspect_ns) << s->cluster->repairing->grown;
}

/* ---------------------------------------------------------------- found, and over */

static void say_damaged(const htc_kv_server *s, htc_bytes key, uint32_t bucket)
{
    char   text[64];
    size_t len = key.len < sizeof text ? key.len : sizeof text - 1;
    memcpy(text, key.data, len);
    text[len] = '\0';
    htc__text_clean(text);
    htc__log_with(&s->env, HTC_LOG_ERROR,
                  HTC__FIELDS(HTC__TEXT("key", text), HTC__NUMBER("bucket", bucket), HTC__STATUS(HTC_ECORRUPT)),
                  "this member's record of \"%s\" is damaged -> leave that key to its other owners until bucket %" PRIu32 " is renewed",
                  text, bucket);
}

static int is_damaged(const htc_kv_server *s, uint32_t bucket)
{
    return s->cluster->repairing->damaged[index_of(s->cluster, bucket)];
}

void htc__kv_repair_bucket(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_cluster *c = s->cluster;
    repairing       *r = c->repairing;
    if (is_damaged(s, bucket))
        return;
    r->damaged[index_of(c, bucket)] = 1;
    if (r->count++ == 0 || r->at < s->now + c->suspect_ns)
        r->at = r->at > s->now + c->suspect_ns ? r->at : s->now + c->suspect_ns; /* there may be more of it */
    if (s->now - r->begun_at > 16 * gap(s))
        r->grown = 0;
}

int htc__kv_repair_may_say(htc_kv_server *s)
{
    return s->cluster->repairing->said++ < SAID_MOST;
}

void htc__kv_repair_found(htc_kv_server *s, htc_bytes key)
{
    uint32_t bucket = htc__kv_cluster_bucket(s->cluster, key);
    if (is_damaged(s, bucket))
        return;
    htc__kv_repair_bucket(s, bucket);
    if (htc__kv_repair_may_say(s))
        say_damaged(s, key, bucket);
}

void htc__kv_repair_whole(htc_kv_server *s, uint32_t bucket, int renewed)
{
    htc__kv_cluster *c = s->cluster;
    repairing       *r = c->repairing;
    if (!r->damaged[index_of(c, bucket)])
        return;
    r->damaged[index_of(c, bucket)] = 0;
    assert(r->count > 0);
    r->count--;
    if (!renewed)
        return;
    r->renewed++;
    if (r->count && r->at > s->now + c->suspect_ns / 4) /* it goes well: a member that lost a part of its log has all of them to go through */
        r->at = s->now + c->suspect_ns / 4;
    if (r->count == 0 && htc__kv_lost_is_all(s))
        htc__log(&s->env, HTC_LOG_INFO, "all that this member had lost of its log is renewed -> serve all keys");
    if (r->renewed > SAID_MOST)
        return;
    htc__log_with(&s->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("bucket", bucket), HTC__NUMBER("buckets_damaged", r->count)),
                  "bucket %" PRIu32 " is renewed, as its other owners have it -> serve all of its keys", bucket);
}

const char *htc__kv_repair_why(htc_status why)
{
    switch (why) {
    case HTC_EFULL:
        return "it is larger than what a member moves at once";
    case HTC_ECORRUPT:
        return "too many of its owners have lost the same key, or what they remember of it";
    default:
        return "too few of its owners answer";
    }
}

void htc__kv_repair_given_up(htc_kv_server *s, htc_status why)
{
    s->cluster->repairing->given_up++;
    htc__log_with(&s->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("map", s->cluster->map_version), HTC__STATUS(why)),
                  "a bucket with damaged records is not renewed now: %s -> its owners go on as they were; whoever has the damage tries again",
                  htc__kv_repair_why(why));
}

/* ---------------------------------------------------------------- what is to be renewed */

static int all_heard(const htc_kv_server *s, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, ids[i]);
        if (!peer || htc__kv_cluster_suspected(s, peer) || !(peer->self || peer->met))
            return 0;
    }
    return 1;
}

/* One that has no other owner nobody can renew. */
static int may_be_renewed(htc_kv_server *s, uint32_t bucket)
{
    uint64_t ids[HTC_RING_OWNERS_MAX];
    uint32_t n = htc__kv_map_owners(s->cluster->map, bucket, ids);
    return n > 1 && all_heard(s, ids, n) &&
           (htc__kv_cluster_serves(s, bucket, s->cluster->route[bucket].epoch) || htc__kv_lost_may_be_renewed(s, bucket));
}

/* The map itself moves to whom it is: two others have to do without this member. */
static int is_map(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const htc__kv_map_own *own = &c->map->own;
    return c->repairing->damaged[c->buckets] && own->n > 2 && all_heard(s, own->id, own->n);
}

static int ascending(const uint32_t *list, uint32_t n)
{
    return n < 2 || list[n - 1] > list[n - 2];
}

/* Where the last one came to nothing, one alone: another one's loss must not keep it from being whole. */
static uint32_t find_buckets(htc_kv_server *s, uint32_t *list)
{
    htc__kv_cluster *c = s->cluster;
    repairing       *r = c->repairing;
    uint32_t         most = r->count < r->before || r->grown == 0 ? HTC__KV_MAP_RENEWED : 1, n = 0;
    for (uint32_t i = 0; i < c->buckets && n < most; i++) {
        uint32_t b = (r->next + i) % c->buckets;
        if (!r->damaged[b] || !may_be_renewed(s, b))
            continue;
        list[n++] = b;
        if (!ascending(list, n)) { /* round the end: the next time */
            n--;
            break;
        }
    }
    if (n)
        r->next = (list[n - 1] + 1) % c->buckets;
    return n;
}

static void begun(htc_kv_server *s)
{
    repairing *r = s->cluster->repairing;
    int        again = r->begun_at && r->count >= r->before && s->now - r->begun_at <= 16 * gap(s);
    if (again && r->grown < GAP_GROWS)
        r->grown++;
    r->before = r->count;
    r->begun_at = s->now;
    r->at = s->now + gap(s);
}

htc_status htc__kv_repair_begin(htc_kv_server *s, htc__kv_map *map)
{
    uint32_t list[HTC__KV_MAP_RENEWED];
    int      own = is_map(s);
    uint32_t count = own ? 0 : find_buckets(s, list);
    if (!own && count == 0) {
        s->cluster->repairing->at = s->now + gap(s);
        return HTC_ENOTFOUND;
    }
    begun(s);
    return own ? htc__kv_map_name_next(map, &map->own) : htc__kv_map_begin_renew(map, s->cluster->id, list, count);
}

htc_ns htc__kv_repair_at(const htc_kv_server *s)
{
    const repairing *r = s->cluster->repairing;
    return r->count ? r->at : HTC_NEVER;
}

/* ---------------------------------------------------------------- one look over all keys */

typedef struct look {
    htc_kv_server *s;
    uint32_t       looked;
    int            more;
    htc__kv_name   lost[8]; /* so many at a time */
    uint32_t       count;
} look;

static int meet(void *visitor, htc_bytes name, htc_bytes value)
{
    look      *l = visitor;
    repairing *r = l->s->cluster->repairing;
    if (!htc__schema_is(name, HTC__SCHEMA_CELL))
        return 0;
    if (l->looked++ == LOOK_KEYS || l->count == sizeof l->lost / sizeof *l->lost) {
        l->more = 1;
        r->from.len = name.len;
        memcpy(r->from.data, name.data, name.len);
        return 0;
    }
    if (!value.data) {
        htc__kv_name *lost = &l->lost[l->count++];
        lost->len = name.len;
        memcpy(lost->data, name.data, name.len);
    }
    return 1;
}

static void look_on(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    repairing       *r = c->repairing;
    look             l = { .s = s };
    htc_status       status = htc__kv_scan(s, htc__kv_name_bytes(&r->from), meet, &l);
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
    r->looking = status == HTC_OK && l.more;
    r->look_at = s->now + LOOK_NS;
    for (uint32_t i = 0; i < l.count; i++) {
        htc_bytes key = { l.lost[i].data + 1, l.lost[i].len - 1 };
        if (htc__kv_route_has(c, htc__kv_cluster_bucket(c, key), c->id))
            htc__kv_repair_found(s, key);
    }
}

/* In each step, and hardly ever anything to do: the room for names is made behind these questions. */
static void tick(htc_kv_server *s)
{
    const repairing *r = s->cluster->repairing;
    if (s->cluster->map && r->looking && s->now >= r->look_at)
        look_on(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    const repairing *r = s->cluster->repairing;
    return s->cluster->map && r->looking ? r->look_at : HTC_NEVER;
}

/* ---------------------------------------------------------------- life */

void htc__kv_repair_counted(const htc_kv_server *s, htc__kv_repair_counts *counts)
{
    const repairing *r = s->cluster->repairing;
    *counts = (htc__kv_repair_counts){ 0 };
    if (r)
        *counts = (htc__kv_repair_counts){ .damaged = r->count, .renewed = r->renewed, .given_up = r->given_up };
}

htc_status htc__kv_repair_make(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    repairing       *r = c->repairing = htc__alloc(&s->env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    r->damaged = htc__alloc(&s->env, (size_t)c->buckets + 1);
    r->looking = 1;
    r->look_at = s->now + LOOK_NS;
    r->from = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, (htc_bytes){ NULL, 0 });
    return r->damaged ? HTC_OK : HTC_ENOMEM;
}

void htc__kv_repair_free(htc_kv_server *s)
{
    repairing *r = s->cluster->repairing;
    if (!r)
        return;
    htc__free(&s->env, r->damaged, (size_t)s->cluster->buckets + 1);
    htc__free(&s->env, r, sizeof *r);
}

const htc__kv_component htc__kv_component_repairing = { .tick = tick, .deadline = deadline }; /* made and freed with the buckets */
