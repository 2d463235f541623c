/* Records of keys that others own: what is left where a bucket was, and what came with an image that was never activated.
 *
 * An old owner keeps its copy until it is merged. Most are: whoever moves a bucket reads as many of its owners as acknowledged changes need,
 * and all that answer. But one may have been away, with a change that nobody else has. So each member goes over its records whenever the
 * map is another one, offers those that it does not own to their owners by their digest, sends what differs, and drops a record when
 * as many owners as a change needs have all of it, durably:
 *
 *     FETCH with its digest ──▶ FETCHED, the same ──▶ confirmed
 *                           └─▶ FETCHED, another ──▶ STORE ──▶ STORED ──▶ confirmed
 *
 * An owner that is sealed answers no FETCH, as it cannot tell this from a read. But a STORE by one that owns none of it it takes (htc__kv_on_store), so
 * what was offered in vain is sent whole. Else who goes and the mover could wait for each other: it for owners that an earlier mover had
 * sealed while it was away, and the mover for it, before it is sealed too.
 *
 * If those that are heard are fewer, the record rests once all of them have it: it is kept, and offered again when another one is heard, or
 * the map has changed (who is lost is replaced). Only a member that is to be none any more goes by those that are there, when the others have
 * been silent for so long that they may never come back.
 *
 * Its numbers are never used again here (htc__kv_forget). When nothing is left, it says so to all, with the version of the map by which it has
 * looked (SETTLED). Others rest on that: no deletion is forgotten that such a record might undo, and a member that goes is not let go.
 * Hints for members that own their key no more are dropped then, too: what those lacked they lack no longer. */
#include "kvs/eventual/orphan_handoff.h"

#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "kvs/eventual/hinted_handoff.h"
#include "kvs/eventual/migration.h"

#define AT_ONCE  64
#define BUCKETS  1024 /* looked at in one step */
#define PATIENCE 8 /* times suspect_ns */
#define PAUSE_NS (20 * HTC_MS) /* between two rounds; twice as long whenever a round has brought nothing on */

/* ---------------------------------------------------------------- whose */

/* It may be this member's again when the image that is arriving counts. */
static int is_left(const htc_kv_server *s, htc_bytes key, uint32_t bucket, int *awaited)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t mine, n = htc__kv_space_owners(s, key, owner, &mine);
    *awaited = mine == n && htc__kv_eventual_awaits(s, s->cluster->hold[bucket].arriving);
    return mine == n && n > 0 && !*awaited;
}

/* All namespaces have all owners of the bucket, of which this is one. */
static int owns_all(const htc_kv_server *s, uint32_t bucket)
{
    const htc__kv_cluster  *c = s->cluster;
    const htc__kv_eventual *e = c->eventual;
    for (uint32_t i = 0; i < e->spaces; i++)
        if (e->space[i].n < c->route[bucket].n)
            return 0;
    return htc__kv_route_has(c, bucket, c->id);
}

/* ---------------------------------------------------------------- one record */

/* NULL: it is held no more. */
static htc__kv_indexed *record_of(const htc_kv_server *s, const htc__kv_seeking *x)
{
    htc__kv_index_name name;
    htc__kv_index_name_of(s, x->key, &name);
    htc__node *node = htc__table_find(&s->cluster->eventual->index, htc__kv_index_bytes(&name));
    return node ? htc__node_value(node) : NULL;
}

static void end(htc_kv_server *s, htc__kv_seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_indexed  *at = record_of(s, x);
    if (at)
        at->going = 0;
    assert(e->leaving > 0);
    e->leaving--;
    htc__kv_seeking_end(s, x);
}

static int room_to_drop(const htc_kv_server *s, htc_bytes key)
{
    return !htc__kv_full(s) && htc__kv_room(s, key.len, 64) == HTC_OK;
}

/* There is room for others to be offered, or nothing is left. */
static void look_soon(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    e->leave_pause = PAUSE_NS;
    if (e->leave_at > s->now + PAUSE_NS)
        e->leave_at = s->now + PAUSE_NS;
}

static void drop(htc_kv_server *s, htc_bytes key, int damaged)
{
    if (!room_to_drop(s, key))
        return;
    look_soon(s);
    htc_status status = damaged ? htc__kv_lose(s, key) : htc__kv_forget(s, key);
    s->cluster->eventual->counts.left += status == HTC_OK;
    if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

/* What was confirmed is what is held, and by those who own it. */
static void confirmed(htc_kv_server *s, htc__kv_seeking *x)
{
    htc_bytes state;
    int       awaited, left = !htc__kv_seeking_late(s, x) && is_left(s, x->key, x->bucket, &awaited);
    if (left && htc__kv_backlog_state(s, x->key, &state) == HTC_OK && htc__kv_state_digest(state) == x->counter)
        drop(s, x->key, 0);
    end(s, x);
}

static void count(htc_kv_server *s, htc__kv_seeking *x, uint32_t place)
{
    x->said |= UINT32_C(1) << place;
    x->has++;
    if (x->has == x->n)
        confirmed(s, x);
}

void htc__kv_orphans_fetched(htc_kv_server *s, htc__kv_seeking *x, uint32_t place, int same)
{
    if (same)
        count(s, x, place);
    else
        htc__kv_say_state(s, x->owner[place], x->tag, x->key);
}

void htc__kv_orphans_stored(htc_kv_server *s, htc__kv_seeking *x, uint32_t place)
{
    count(s, x, place);
}

static int is_silent(const htc_kv_server *s, const htc__kv_seeking *x, uint32_t place)
{
    return !(x->said >> place & 1) && htc__kv_cluster_suspected(s, htc__kv_cluster_peer(s->cluster, x->owner[place]));
}

/* But for those that have been silent for so long. */
static int all_have_it(const htc_kv_server *s, const htc__kv_seeking *x, htc_ns since)
{
    uint32_t silent = 0;
    for (uint32_t i = 0; i < x->n; i++)
        silent += is_silent(s, x, i) && s->now - htc__kv_cluster_peer(s->cluster, x->owner[i])->heard >= since;
    return x->has + silent == x->n;
}

/* Until one of those is heard that are not. */
static void rest(htc_kv_server *s, const htc__kv_seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_indexed  *at = record_of(s, x);
    if (!at || at->digest != x->counter || htc__kv_seeking_late(s, x))
        return;
    at->rests = e->hearings;
    for (uint32_t i = 0; i < x->n; i++)
        if (is_silent(s, x, i))
            htc__kv_cluster_peer(s->cluster, x->owner[i])->missed = 1;
    look_soon(s);
}

static void note_silence(const htc_kv_server *s, const htc__kv_seeking *x)
{
    htc__kv_indexed *at = record_of(s, x);
    for (uint32_t i = 0; at && i < x->n; i++)
        at->in_vain |= !(x->said >> i & 1) && !is_silent(s, x, i);
}

/* Not all have answered. */
void htc__kv_orphans_late(htc_kv_server *s, htc__kv_seeking *x)
{
    note_silence(s, x);
    int    goes = htc__kv_eventual_goes(s) == s->cluster->id;
    htc_ns since = HTC__BROKEN(left_to_few) ? 0 : PATIENCE * s->cluster->suspect_ns;
    if (x->has >= x->need || (x->has && (goes || HTC__BROKEN(left_to_few)) && all_have_it(s, x, since))) {
        confirmed(s, x);
        return;
    }
    if (!goes && all_have_it(s, x, 0))
        rest(s, x);
    end(s, x);
}

static void offer(htc_kv_server *s, htc__node *node)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_indexed  *at = htc__node_value(node);
    htc__kv_seeking  *x = htc__kv_seeking_make(s, NULL, htc__kv_index_key(node));
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    const uint8_t *end_of_name = memchr(x->key.data, 0, x->key.len);
    htc_bytes      space = { x->key.data, (size_t)(end_of_name - (const uint8_t *)x->key.data) };
    x->leaves = 1;
    x->counter = at->digest;
    x->need = htc__kv_space_quorum(htc__kv_space_of(s, space), s->cluster->route[x->bucket].n).w;
    at->going = 1;
    e->leaving++;
    for (uint32_t i = 0; i < x->n; i++)
        if (at->in_vain && !is_silent(s, x, i))
            htc__kv_say_state(s, x->owner[i], x->tag, x->key);
        else
            htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_FETCH, &(htc__kv_copy){ .tag = x->tag, .digest = x->counter, .key = x->key }, 0);
    htc__wheel_add(&e->wheel, &x->entry, s->now + s->cluster->suspect_ns / 2);
}

/* ---------------------------------------------------------------- all of them */

/* Its owners are sealed, and answer nothing: all that this member, which goes, holds of it is in what it shows to the mover. */
static int goes_with_bucket(const htc_kv_server *s, uint32_t bucket)
{
    const htc__kv_cluster *c = s->cluster;
    return htc__kv_eventual_goes(s) == c->id && htc__kv_route_has(c, bucket, c->id) && c->hold[bucket].sealed >= c->route[bucket].epoch;
}

/* 1: nothing of that bucket is only others'. */
static int look_at_bucket(htc_kv_server *s, uint32_t bucket)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__node        *next;
    int               settled = 1;
    if (goes_with_bucket(s, bucket))
        return 1;
    for (htc__node *node = htc__kv_index_seek(s, bucket); node && htc__kv_index_bucket(node) == bucket && s->broken == HTC_OK;
         node = next) {
        htc_bytes key = htc__kv_index_key(node), state;
        int       awaited, left = is_left(s, key, bucket, &awaited);
        next = node->next[0];
        if (!left) {
            settled &= !awaited;
            continue;
        }
        settled = 0;
        e->others_seen++;
        const htc__kv_indexed *at = htc__node_value(node);
        if (at->going || at->rests == e->hearings || e->leaving >= AT_ONCE)
            continue;
        htc_status held = htc__kv_backlog_state(s, key, &state);
        if (held == HTC_ECORRUPT || HTC__BROKEN(unmerged_dropped)) { /* nobody can have anything of it */
            htc__kv_name copy = htc__kv_name_of(HTC__SCHEMA_SIBLINGS, NULL, key);
            drop(s, (htc_bytes){ copy.data + 1, copy.len - 1 }, held == HTC_ECORRUPT);
        } else if (held == HTC_OK) {
            offer(s, node);
        }
    }
    return settled;
}

static void say_settled(htc_kv_server *s)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_eventual *e = c->eventual;
    e->settled_said_at = s->now;
    htc_buf_clear(&c->scratch);
    htc__kv_have_write(&c->scratch, e->settled);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say_all(s, HTC__KV_ITEM_SETTLED, htc_buf_bytes(&c->scratch));
}

void htc__kv_orphans_settled(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, from);
    uint64_t      settled;
    if (peer && htc__kv_have_read(item, &settled) == HTC_OK && settled > peer->settled)
        peer->settled = settled;
}

int htc__kv_orphans_over(const htc_kv_server *s, uint32_t bucket)
{
    const htc__kv_cluster *c = s->cluster;
    uint64_t               since = c->route[bucket].since;
    if (since == 0) /* it has never moved */
        return 1;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->peers[i].listed && (c->peers[i].self ? c->eventual->settled : c->peers[i].settled) <= since)
            return 0;
    return 1;
}

/* What rests is offered again. */
static void hear(htc_kv_server *s)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_eventual *e = c->eventual;
    int               again = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->peers[i].missed && !htc__kv_cluster_suspected(s, &c->peers[i])) {
            c->peers[i].missed = 0;
            again = 1;
        }
    e->hearings += (uint32_t)again;
    e->leave_pause = again ? PAUSE_NS : e->leave_pause;
}

static void pause_longer(const htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc_ns            most = 2 * s->cluster->suspect_ns;
    e->leave_at = s->now + e->leave_pause;
    if (e->unsettled)
        e->leave_pause = 2 * e->leave_pause < most ? 2 * e->leave_pause : most;
}

/* Round all buckets, until a whole round finds nothing. */
static void look(htc_kv_server *s)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_eventual *e = c->eventual;
    if (e->leaving_at == 0)
        hear(s);
    for (uint32_t i = 0; i < BUCKETS && e->leaving_at < c->buckets && e->index.count; i++, e->leaving_at++)
        e->unsettled |= !owns_all(s, e->leaving_at) && !look_at_bucket(s, e->leaving_at);
    if (e->leaving_at < c->buckets && e->index.count) {
        e->leave_at = s->now;
        return;
    }
    int settled = !e->unsettled && htc__kv_hints_tidy(s);
    pause_longer(s);
    e->others = e->others_seen;
    e->others_seen = 0;
    e->leaving_at = 0;
    e->unsettled = 0;
    if (!settled)
        return;
    e->leave_at = HTC_NEVER;
    e->settled = e->leaving_map;
    say_settled(s);
}

void htc__kv_orphans_tick(htc_kv_server *s)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_eventual *e = c->eventual;
    if (!c->map || !c->map_version || !c->peers[c->self].listed)
        return;
    if (e->leaving_map != c->map_version + 1) {
        e->leaving_map = c->map_version + 1;
        e->leaving_at = 0;
        e->unsettled = 0;
        e->others_seen = 0;
        e->leave_at = s->now;
        e->leave_pause = PAUSE_NS;
        e->hearings++; /* other owners, perhaps */
        e->hurried = c->map->after ? e->hurried : c->buckets;
    }
    if (s->now >= e->leave_at)
        look(s);
    if (e->settled && s->now - e->settled_said_at >= 2 * c->suspect_ns)
        say_settled(s); /* somebody may have missed it */
}

htc_ns htc__kv_orphans_deadline(const htc_kv_server *s)
{
    const htc__kv_cluster  *c = s->cluster;
    const htc__kv_eventual *e = c->eventual;
    if (!c->map || !c->map_version || !c->peers[c->self].listed)
        return HTC_NEVER;
    if (e->leaving_map != c->map_version + 1)
        return 0;
    htc_ns again = e->settled ? e->settled_said_at + 2 * c->suspect_ns : HTC_NEVER;
    return e->leave_at < again ? e->leave_at : again;
}
