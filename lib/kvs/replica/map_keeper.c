/* The newest map that this member has seen, and how it hears of newer ones.
 *
 * The map is one register of the store (kvs/map/map.h), under a key of its own and with owners of its own. What is final there reaches the
 * others in three ways: whoever has changed it tells all at once; who meets a message of another epoch than its own tells the
 * one that is behind, or asks the one that is ahead; and members say now and then which map they have. An old map does no harm:
 * what it leads to is refused. So a copy in the cells is enough to begin with after a restart, and need not be the newest.
 *
 * Before anything has changed there is no such register: then the map is what all members compute from the list that they
 * were started with, and its version is 0.
 *
 * A newer map is adopted between two messages, never within one. */
#include <string.h>

#include "kvs/eventual/eventual.h"
#include "kvs/replica/cluster_private.h"

#define COPY_FORMAT 1
#define STORE_NS    HTC_SECOND /* a copy that only differs in a bucket is not stored sooner than so long after the last */
#define SAY_NS      (20 * HTC_MS)
/* That were members in this life of it: one that meets more hears of no newer map before it starts anew. */
#define PEERS_MAX   (16 * HTC__KV_MAP_MEMBERS)

htc_bytes htc__kv_map_key(void)
{
    return (htc_bytes){ HTC__KV_OWN_PREFIX "m", sizeof HTC__KV_OWN_PREFIX };
}

/* ---------------------------------------------------------------- who keeps what */

uint32_t htc__kv_cluster_bucket(const htc__kv_cluster *c, htc_bytes key)
{
    if (htc__kv_own_key(key) && htc_bytes_equal(key, htc__kv_map_key()))
        return HTC__KV_OWN_BUCKET;
    return htc_ring_bucket(c->map->before, htc__kv_place(c->seed, key));
}

uint64_t htc__kv_bucket_epoch(const htc__kv_cluster *c, uint32_t bucket)
{
    return bucket == HTC__KV_OWN_BUCKET ? c->map->own_epoch : c->route[bucket].epoch;
}

struct htc__kv_keeping {
    int          to_mend; /* asked in each step */
    htc__kv_map *next;    /* newer, adopted at the end of the step */
    uint64_t     next_version;
    uint64_t     stored; /* the version of the copy in the cells */
    htc_ns       store_at;
};

static int listed(const htc__kv_map_own *own, uint64_t id)
{
    for (uint32_t i = 0; i < own->n; i++)
        if (own->id[i] == id)
            return 1;
    return 0;
}

int htc__kv_route_has(const htc__kv_cluster *c, uint32_t bucket, uint64_t id)
{
    if (bucket == HTC__KV_OWN_BUCKET)
        return listed(&c->map->own, id);
    const htc__kv_route *route = &c->route[bucket];
    for (uint32_t i = 0; i < route->n; i++)
        if (c->peers[route->peer[i]].id == id)
            return 1;
    return 0;
}

static void find_routes(htc__kv_cluster *c, const htc__kv_map *map, uint64_t version)
{
    for (uint32_t b = 0; b < c->buckets; b++) {
        htc__kv_route *route = &c->route[b];
        uint64_t       ids[HTC_RING_OWNERS_MAX];
        if (route->epoch != map->bucket[b].epoch)
            route->since = version;
        route->epoch = map->bucket[b].epoch;
        route->image = map->bucket[b].image;
        uint32_t n = htc__kv_map_owners(map, b, ids), turned = route->n != n;
        route->n = n;
        for (uint32_t i = 0; i < n; i++) {
            uint16_t peer = (uint16_t)(htc__kv_cluster_peer(c, ids[i]) - c->peers);
            turned |= route->peer[i] != peer;
            route->peer[i] = peer;
        }
        if (turned)
            route->turned = version;
    }
}

/* ---------------------------------------------------------------- the first map */

static void describe(const htc_kv_server_options *o, uint32_t i, htc__kv_map_member *m)
{
    const htc_kv_member *from = &o->members[i];
    const char          *address = o->member_addresses ? o->member_addresses[i] : NULL;
    *m = (htc__kv_map_member){ .id = from->id, .process = from->process, .domain = from->domain, .weight = from->weight ? from->weight : 1 };
    for (size_t n = 0; address && address[n] && n + 1 < sizeof m->address; n++)
        m->address[n] = address[n];
}

htc_status htc__kv_cluster_map_first(htc_kv_server *s)
{
    htc__kv_cluster             *c = s->cluster;
    const htc_kv_server_options *o = &s->options;
    size_t                       bytes = o->member_count * sizeof(htc__kv_map_member);
    if (o->join)
        return HTC_OK;
    htc__kv_map_member *members = htc__alloc(&s->env, bytes);
    if (!members)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < o->member_count; i++)
        describe(o, i, &members[i]);
    htc_status status =
        htc__kv_map_create(&s->env, o->place_seed, o->bits, htc__kv_cluster_copies(o), members, o->member_count, &c->map);
    htc__free(&s->env, members, bytes);
    return status;
}

/* ---------------------------------------------------------------- a newer one */

void htc__kv_cluster_name_key(htc__kv_peer *peer, const char *address)
{
    const char *from = strstr(address, "://"), *to = from ? strchr(from, '@') : NULL;
    size_t      len = to ? (size_t)(to - from - 3) : 0;
    if (len == 0 || len >= sizeof peer->name)
        return;
    memcpy(peer->name, from + 3, len);
    peer->name[len] = '\0';
}

static htc_status know_members(htc_kv_server *s, const htc__kv_map *map)
{
    htc__kv_cluster *c = s->cluster;
    if (c->count + map->members > PEERS_MAX)
        return HTC_EFULL;
    for (uint32_t i = 0; i < map->members; i++) {
        if (htc__kv_cluster_peer(c, map->member[i].id))
            continue;
        htc__kv_peer *peer = htc__kv_cluster_add_peer(s, map->member[i].id, 0);
        if (!peer)
            return HTC_ENOMEM;
        htc__kv_cluster_name_key(peer, map->member[i].address);
    }
    for (uint32_t i = 0; i < c->count; i++)
        c->peers[i].listed = c->peers[i].id && htc__kv_map_find(map, c->peers[i].id) != NULL;
    return HTC_OK;
}

static htc_status make_room(htc_kv_server *s, const htc__kv_map *map)
{
    htc__kv_cluster *c = s->cluster;
    uint32_t         n = htc_ring_buckets(map->before);
    if (c->route)
        return HTC_OK;
    c->route = htc__alloc(&s->env, n * sizeof *c->route);
    if (!c->route)
        return HTC_ENOMEM;
    c->buckets = n;
    c->seed = map->seed;
    return htc__kv_buckets_make(s);
}

static void owners_of(void *ctx, htc_bytes key, htc__kv_owners *owners)
{
    uint32_t bucket;
    *owners = htc__kv_cluster_owners(ctx, key, &bucket);
}

static int to_mend(const htc__kv_map *map)
{
    htc__kv_map_own wanted;
    htc__kv_map_wanted(map, 0, &wanted);
    return memcmp(&wanted, &map->own, sizeof wanted) != 0;
}

/* Its place among the members, and what it means for each bucket. */
static htc_status take_up(htc_kv_server *s, htc__kv_map *map, uint64_t version)
{
    htc__kv_cluster *c = s->cluster;
    htc_status       status = make_room(s, map);
    if (status == HTC_OK)
        status = know_members(s, map);
    if (status != HTC_OK)
        return status;
    c->map = map;
    c->map_version = version;
    c->keeping->to_mend = to_mend(map);
    find_routes(c, map, version);
    return HTC_OK;
}

/* It is of this store, and there is room for whom it names. */
static int fits(const htc__kv_cluster *c, const htc__kv_map *map)
{
    if (c->count + map->members > PEERS_MAX)
        return 0;
    return !c->route || (htc_ring_buckets(map->before) == c->buckets && map->seed == c->seed);
}

void htc__kv_cluster_map_offer(htc_kv_server *s, htc__kv_map *map, uint64_t version)
{
    htc__kv_cluster *c = s->cluster;
    /* Who waits to be let in has nothing from a map that does not name it. */
    int early = !c->map && s->options.join && !htc__kv_map_find(map, c->id);
    if (early || !fits(c, map) || (c->map && version <= c->map_version) || (c->keeping->next && version <= c->keeping->next_version)) {
        htc__kv_map_destroy(map);
        return;
    }
    htc__kv_map_destroy(c->keeping->next);
    c->keeping->next = map;
    c->keeping->next_version = version;
}

void htc__kv_cluster_map_offer_bytes(htc_kv_server *s, htc_bytes bytes, uint64_t version)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_map     *map = NULL;
    if ((c->map && version <= c->map_version) || (c->keeping->next && version <= c->keeping->next_version))
        return;
    htc_status status = htc__kv_map_decode(&s->env, bytes, &map);
    if (status == HTC_OK)
        htc__kv_cluster_map_offer(s, map, version);
    else if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
}

htc_status htc__kv_cluster_map_keep(htc_kv_server *s, htc_bytes bytes, uint64_t version)
{
    htc__kv_cluster *c = s->cluster;
    htc_status       status = c->keeping->stored == 0 ? htc__kv_cluster_stage_first(s) : HTC_OK;
    if (status != HTC_OK)
        return status;
    c->keeping->stored = version;
    c->keeping->store_at = s->now + STORE_NS;
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, COPY_FORMAT);
    htc_put_varint(&s->scratch, version);
    htc_put_raw(&s->scratch, bytes);
    return s->scratch.status == HTC_OK ? htc__kv_stage(s, htc__schema_name(HTC__SCHEMA_MAP), htc_buf_bytes(&s->scratch))
                                       : s->scratch.status;
}

static void store_copy(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf          bytes;
    if (c->keeping->stored == c->map_version || s->now < c->keeping->store_at)
        return;
    htc_buf_init(&bytes, &s->env, 0);
    htc__kv_map_encode(&bytes, c->map);
    htc_status status = bytes.status;
    if (status == HTC_OK && (htc__kv_full(s) || htc__kv_room(s, c->buckets / 8, bytes.len) != HTC_OK))
        c->keeping->store_at = s->now + HTC__KV_ROOM_AGAIN;
    else if (status == HTC_OK)
        status = htc__kv_cluster_map_keep(s, htc_buf_bytes(&bytes), c->map_version);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    htc_buf_free(&bytes);
}

static void adopt(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_map     *map = c->keeping->next, *before = c->map;
    c->keeping->next = NULL;
    int        members = !before || map->members != before->members || map->kind != before->kind;
    htc_status status = take_up(s, map, c->keeping->next_version);
    if (status != HTC_OK) {
        c->map = before;
        htc__kv_map_destroy(map);
        htc__kv_cluster_broken(s, status);
        return;
    }
    for (uint32_t b = 0; before && b < c->buckets && s->broken == HTC_OK; b++)
        htc__kv_cluster_learn(s, b);
    if (!before && ((status = htc__kv_buckets_load(s)) != HTC_OK || (status = htc__kv_eventual_map_known(s)) != HTC_OK))
        htc__kv_cluster_broken(s, status);
    htc__kv_map_destroy(before);
    if (members)
        c->keeping->store_at = s->now;
    htc__kv_register_moved(c->reg, s->now, owners_of, s);
    htc__kv_cluster_moving_adopted(s);
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (c->keeping->next)
        adopt(s);
    if (c->map && s->broken == HTC_OK)
        store_copy(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    if (c->keeping->next)
        return 0;
    return c->map && c->keeping->stored != c->map_version ? c->keeping->store_at : HTC_NEVER;
}

/* ---------------------------------------------------------------- who has which */

static uint64_t have(const htc__kv_cluster *c)
{
    return c->map ? c->map_version + 1 : 0;
}

static void say_number(htc_kv_server *s, uint64_t to, uint8_t kind)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc__kv_have_write(&c->scratch, have(c));
    htc__kv_cluster_say(s, to, kind, htc_buf_bytes(&c->scratch));
}

void htc__kv_cluster_say_have(htc_kv_server *s, uint64_t to)
{
    say_number(s, to, HTC__KV_ITEM_HAVE);
}

void htc__kv_cluster_say_want(htc_kv_server *s, uint64_t to)
{
    say_number(s, to, HTC__KV_ITEM_WANT);
}

/* Whoever is behind shows it with each of its messages, of which there may be many before it hears of it. */
static void say_once(htc_kv_server *s, uint64_t to)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_peer    *peer = htc__kv_cluster_peer(c, to);
    if (!peer || (peer->map_said == have(c) && s->now - peer->map_said_at < SAY_NS))
        return;
    peer->map_said = have(c);
    peer->map_said_at = s->now;
    htc__kv_cluster_say(s, to, HTC__KV_ITEM_MAP, htc_buf_bytes(&c->scratch));
}

void htc__kv_cluster_say_map(htc_kv_server *s, uint64_t to)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc_put_varint(&c->scratch, c->map_version);
    htc__kv_map_encode(&c->scratch, c->map);
    if (c->scratch.status != HTC_OK)
        htc__kv_cluster_broken(s, c->scratch.status);
    else if (to)
        say_once(s, to);
    else
        htc__kv_cluster_say_all(s, HTC__KV_ITEM_MAP, htc_buf_bytes(&c->scratch));
}

static void on_have(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    uint64_t theirs;
    if (htc__kv_have_read(item, &theirs) != HTC_OK)
        return;
    if (theirs > have(s->cluster))
        htc__kv_cluster_say_want(s, from);
    else if (theirs < have(s->cluster))
        htc__kv_cluster_say_map(s, from);
}

static void on_want(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    uint64_t theirs;
    if (htc__kv_have_read(item, &theirs) == HTC_OK && theirs < have(s->cluster))
        htc__kv_cluster_say_map(s, from);
}

void htc__kv_cluster_on_map(htc_kv_server *s, htc_bytes item)
{
    htc_reader r = htc_reader_of(item);
    uint64_t   version = htc_get_varint(&r);
    if (r.status == HTC_OK && version <= HTC__KV_SINCE_MAX)
        htc__kv_cluster_map_offer_bytes(s, htc_get_raw(&r, htc_reader_left(&r)), version);
}

int htc__kv_cluster_has_left(const htc__kv_cluster *c)
{
    return c->map && c->map_version && !c->peers[c->self].listed;
}

int htc__kv_cluster_epoch_is(htc_kv_server *s, uint64_t from, uint32_t bucket, uint64_t epoch)
{
    uint64_t own = htc__kv_bucket_epoch(s->cluster, bucket);
    if (epoch < own)
        htc__kv_cluster_say_map(s, from);
    else if (epoch > own)
        htc__kv_cluster_say_want(s, from);
    return epoch == own;
}

/* ---------------------------------------------------------------- life */

/* The copy, if there is one: it may have changed since the members were named. */
static htc_status read_copy(htc_kv_server *s, htc__kv_map **map, uint64_t *version)
{
    htc_bytes  bytes;
    htc_status status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_MAP), &bytes);
    if (status != HTC_OK)
        return status;
    htc_reader r = htc_reader_of(bytes);
    uint8_t    format = htc_get_u8(&r);
    *version = htc_get_varint(&r);
    if (r.status != HTC_OK || format != COPY_FORMAT)
        return HTC_EFORMAT;
    status = htc__kv_map_decode(&s->env, htc_get_raw(&r, htc_reader_left(&r)), map);
    return status == HTC_EPROTO ? HTC_ECORRUPT : status;
}

htc_status htc__kv_cluster_map_load(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_map     *map = NULL, *first = c->map;
    uint64_t         version = 0;
    htc_status       status = read_copy(s, &map, &version);
    if (status != HTC_OK && status != HTC_ENOTFOUND)
        return status;
    if (!map && !first)
        return HTC_OK; /* it waits to be let in */
    c->map = NULL;
    status = take_up(s, map ? map : first, version);
    if (status != HTC_OK)
        c->map = first;
    if (status != HTC_OK || !map) {
        htc__kv_map_destroy(map);
        return status;
    }
    htc__kv_map_destroy(first);
    c->keeping->stored = version;
    return HTC_OK;
}

/* ---------------------------------------------------------------- the component */

int htc__kv_keeping_is_offered(const htc_kv_server *s)
{
    return s->cluster->keeping->next != NULL;
}

int htc__kv_keeping_to_mend(const htc_kv_server *s)
{
    return s->cluster->keeping->to_mend;
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    if (kind == HTC__KV_ITEM_HAVE)
        on_have(s, from, item);
    else if (kind == HTC__KV_ITEM_WANT)
        on_want(s, from, item);
    else
        htc__kv_cluster_on_map(s, item);
}

static htc_status make(htc_kv_server *s)
{
    s->cluster->keeping = htc__alloc(&s->env, sizeof *s->cluster->keeping);
    return s->cluster->keeping ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_map_destroy(c->map);
    if (c->keeping)
        htc__kv_map_destroy(c->keeping->next);
    htc__free(&s->env, c->keeping, sizeof *c->keeping);
    htc__free(&s->env, c->route, c->buckets * sizeof *c->route);
    c->keeping = NULL;
}

const htc__kv_component htc__kv_component_keeping = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                            .items = { HTC__KV_ITEM_HAVE, HTC__KV_ITEM_WANT, HTC__KV_ITEM_MAP } };
