/* How the eventual keys of a bucket move with it.
 *
 * They are sealed with their bucket, shown behind its other keys, and installed behind them under the same number. What an owner holds of
 * such a key is what it has merged, and merging more into it is never wrong, so nothing waits in an area of its own: pages are merged into
 * what is held as they come, and an image that is never activated leaves copies that nobody needs (eventual/orphan_handoff.c). What
 * counts is when: an owner answers in an epoch only once it has the whole image of it, or a copy of another one's that answers, and
 * so knows all that was acknowledged before. */
#include "kvs/eventual/migration.h"

#include <string.h>

#include "kvs/migrate/buckets.h"
#include "kvs/eventual/eventual.h"

/* ---------------------------------------------------------------- an old owner shows */

/* In the order of the index, which whoever asks need not know: it says behind which key to go on. */
static htc__node *first_behind(const htc_kv_server *s, uint32_t bucket, htc_bytes after)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_index_name      name;
    if (after.len == 0)
        return htc__kv_index_seek(s, bucket);
    htc__kv_index_name_of(s, after, &name);
    htc__node *node = htc__table_seek(&e->index, htc__kv_index_bytes(&name));
    return node && htc_bytes_equal(htc__node_key(node), htc__kv_index_bytes(&name)) ? node->next[0] : node;
}

/* 1: there may be more. */
static int add_entries(htc_kv_server *s, const htc__kv_seal_ask *ask, size_t page_bytes, htc_buf *entries, htc_status *status)
{
    htc__node *node = first_behind(s, ask->bucket, ask->after);
    for (; node && htc__kv_index_bucket(node) == ask->bucket && *status == HTC_OK; node = node->next[0]) {
        htc_bytes  key = htc__kv_index_key(node), state;
        htc_status held = htc__kv_backlog_state(s, key, &state);
        if (entries->len && entries->len + key.len + state.len > page_bytes)
            return 1;
        if (held == HTC_ENOMEM || held == HTC_EIO)
            *status = held;
        htc_put_bytes(entries, key);
        htc_put_bytes(entries, held == HTC_OK ? state : (htc_bytes){ NULL, 0 }); /* none: it is damaged */
        if (entries->status != HTC_OK)
            *status = entries->status;
    }
    return 0;
}

void htc__kv_eventual_show(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask, uint8_t kind, size_t page_bytes)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_page     page = { .number = ask->number, .bucket = ask->bucket, .last = 1, .eventual = 1, .after = ask->after };
    htc_status       status = HTC_OK;
    htc_buf          entries;
    if (ask->bucket >= c->buckets || (ask->after.len && !htc__kv_space_key_fits(ask->after)))
        return;
    htc_buf_init(&entries, &s->env, 0);
    htc__kv_buckets_touch(s, ask->bucket);
    if (c->eventual)
        page.last = !add_entries(s, ask, page_bytes, &entries, &status);
    page.entries = htc_buf_bytes(&entries);
    htc_buf_clear(&c->scratch);
    htc__kv_shown_write(&c->scratch, &page);
    if (status == HTC_OK)
        htc__kv_cluster_reply(s, to, kind);
    else
        htc__kv_cluster_broken(s, status);
    htc_buf_free(&entries);
}

/* ---------------------------------------------------------------- a new owner takes */

int htc__kv_eventual_may_take(const htc_kv_server *s, uint32_t bucket, htc_bytes entries)
{
    htc_reader r = htc_reader_of(entries);
    htc_bytes  key, state;
    if (!s->cluster->eventual || bucket >= s->cluster->buckets)
        return 0;
    while (htc__kv_eventual_entry_read(&r, &key, &state))
        if (htc__kv_cluster_bucket(s->cluster, key) != bucket)
            return 0;
    return r.status == HTC_OK;
}

int htc__kv_eventual_awaits(const htc_kv_server *s, uint64_t number)
{
    const htc__kv_map *map = s->cluster->map;
    return number && (number > map->numbers || (map->after && map->mover && number >= map->mover));
}

static void say_unknown(htc_kv_server *s)
{
    if (!s->cluster->spaces_unknown)
        htc__log(&s->env, HTC_LOG_ERROR,
                 "buckets that move to this member have keys of eventual namespaces, of which it has none -> start it with the same namespaces as the others");
    s->cluster->spaces_unknown = 1;
}

/* What an image has that was overtaken may since have been deleted, and the deletion forgotten. */
int htc__kv_eventual_may_install(htc_kv_server *s, const htc__kv_page *page)
{
    if (!s->cluster->eventual)
        say_unknown(s);
    return htc__kv_eventual_may_take(s, page->bucket, page->entries) &&
           htc__kv_eventual_awaits(s, page->number);
}

/* Of a bucket some keys may be only others' (a namespace wants fewer owners). */
static int is_others(const htc_kv_server *s, htc_bytes key)
{
    uint64_t owner[HTC_RING_OWNERS_MAX];
    uint32_t mine, n = htc__kv_space_owners(s, key, owner, &mine);
    return mine == n && n > 0;
}

/* What cannot be merged (it would be too much, or is no state) is as if it had been lost; so is what meets a damaged record. */
htc_status htc__kv_eventual_take(htc_kv_server *s, htc_bytes entries, int copied)
{
    htc_reader r = htc_reader_of(entries);
    htc_bytes  key, state;
    while (htc__kv_eventual_entry_read(&r, &key, &state)) {
        if (state.len == 0 || (copied && is_others(s, key)))
            continue;
        htc_status status = htc__kv_take_in(s, key, state);
        if (status == HTC_EBUSY || status == HTC_ENOMEM || status == HTC_EIO)
            return status;
        if (status == HTC_ENOSPC)
            return HTC_EBUSY;
    }
    return HTC_OK;
}

/* ---------------------------------------------------------------- a mover */

static void say_seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    htc_kv_server *s = ctx;
    htc__kv_say_seal(s, to, &(htc__kv_seal_ask){ s->cluster->map->mover, epoch, bucket, after, 1 });
}

static void say_install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                        const htc__kv_floors *floors, htc_bytes entries)
{
    htc__kv_page p = { .number = number, .bucket = bucket, .page = page, .last = last != 0, .eventual = 1, .floors = *floors };
    p.entries = entries;
    htc__kv_say_install(ctx, to, &p);
}

static int is_heard(const htc_kv_server *s, uint64_t id)
{
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, id);
    return peer && (peer->self || (peer->met && !htc__kv_cluster_suspected(s, peer)));
}

/* Of a namespace: who has not shown can acknowledge no change among itself any more, nor answer a read. */
static int enough_of(const htc_kv_server *s, const htc__kv_space *space, const htc__kv_map_move *move, uint32_t shown)
{
    uint64_t          owner[HTC_RING_OWNERS_MAX];
    htc__kv_quorum    q = htc__kv_space_quorum(space, move->from_n);
    uint32_t          have = 0, heard = 0;
    htc__kv_space_pick(q.n, move->bucket, move->from, move->from_n, owner);
    for (uint32_t i = 0; i < q.n; i++)
        for (uint32_t j = 0; j < move->from_n; j++)
            if (move->from[j] == owner[i]) {
                have += shown >> j & 1;
                heard += !(shown >> j & 1) && is_heard(s, owner[i]);
            }
    return have > q.n - (q.r < q.w ? q.r : q.w) || !heard;
}

uint64_t htc__kv_eventual_goes(const htc_kv_server *s)
{
    const htc__kv_map *map = s->cluster->map;
    if (!map->after || map->kind == HTC__KV_RENEW || map->kind == HTC__KV_REWEIGHT)
        return 0;
    return map->back ? map->comer.id : map->leaver;
}

/* Whoever goes should have shown all that it has: nobody can ask it later. */
static int goes_unread(const htc_kv_server *s, const htc__kv_map_move *move, uint32_t shown)
{
    uint64_t goes = htc__kv_eventual_goes(s);
    if (!goes || !is_heard(s, goes))
        return 0;
    for (uint32_t i = 0; i < move->from_n; i++)
        if (move->from[i] == goes && !(shown >> i & 1))
            return 1;
    return 0;
}

static int enough(void *ctx, const htc__kv_map_move *move, uint32_t shown)
{
    const htc_kv_server    *s = ctx;
    const htc__kv_eventual *e = s->cluster->eventual;
    for (uint32_t i = 0; i < e->spaces; i++)
        if (!enough_of(s, &e->space[i], move, shown))
            return 0;
    return !goes_unread(s, move, shown);
}

const htc__kv_migration_eventual *htc__kv_eventual_migration(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return NULL;
    e->mover = (htc__kv_migration_eventual){ .seal = say_seal, .install = say_install, .enough = enough, .ctx = s };
    e->mover.patience_ns = s->cluster->suspect_ns;
    return &e->mover;
}

int htc__kv_eventual_holds_back(const htc_kv_server *s, const htc__kv_map *next)
{
    const htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; c->eventual && i < c->map->members; i++) {
        uint64_t            id = c->map->member[i].id;
        const htc__kv_peer *peer = htc__kv_cluster_peer(c, id);
        uint64_t            settled = peer && peer->self ? c->eventual->settled : peer ? peer->settled : 0;
        if (!htc__kv_map_find(next, id) && is_heard(s, id) && settled <= c->map_version)
            return 1;
    }
    return 0;
}
