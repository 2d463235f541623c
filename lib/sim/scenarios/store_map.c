/* The map of the members, version after version as members take it up: what may change from one to the next, and whether all is at rest.
 *
 * Whoever changes the map has taken up the version before it, so none is missed but the last ones of a member that was killed. */
#include <string.h>

#include "kvs/replica/cluster_private.h"
#include "kvs/server/server.h"
#include "sim/scenarios/store_private.h"

static htc__kv_cluster *cluster_of(const store_member *m)
{
    htc_kv_server *server = htc_sim_machine(m->node);
    return server ? server->cluster : NULL;
}

static uint64_t set_of(const uint64_t *ids, uint32_t n)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < n; i++)
        set += htc_hash64((htc_bytes){ &ids[i], sizeof ids[i] }, 0);
    return set;
}

static uint64_t owners_of(const htc_ring *ring, uint32_t bucket)
{
    uint32_t seats[HTC_RING_OWNERS_MAX], n = htc_ring_owners(ring, bucket, seats);
    uint64_t ids[HTC_RING_OWNERS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        htc_ring_member m = { .id = 0 };
        htc_ring_member_at(ring, seats[i], &m);
        ids[i] = m.id;
    }
    return set_of(ids, n);
}

static void read_buckets(const htc__kv_map *map, store_map *to)
{
    for (uint32_t b = 0; b < STORE_BUCKETS; b++) {
        uint64_t ids[HTC_RING_OWNERS_MAX];
        uint32_t n = htc__kv_map_owners(map, b, ids);
        to->owners[b] = set_of(ids, n);
        to->epoch[b] = map->bucket[b].epoch;
        to->moves[b] = map->after && owners_of(map->before, b) != owners_of(map->after, b);
    }
}

static store_map read_map(const htc__kv_map *map, uint64_t version)
{
    store_map to = { .known = 1,
                     .version = version,
                     .members = map->members,
                     .changing = map->after != NULL,
                     .back = map->back,
                     .kind = map->kind,
                     .keepers = map->own.n,
                     .settling = map->own_next.n != 0,
                     .own_epoch = map->own_epoch,
                     .keeper_n = map->own.n };
    memcpy(to.keeper, map->own.id, sizeof to.keeper);
    for (uint32_t i = 0; i < map->members && i < STORE_MEMBERS; i++) {
        to.id[i] = map->member[i].id;
        to.weight[i] = map->member[i].weight;
    }
    if (to.settling && map->own_next.n < to.keepers)
        to.keepers = map->own_next.n;
    read_buckets(map, &to);
    return to;
}

static int lists(const store_map *map, uint64_t id)
{
    for (uint32_t i = 0; i < map->members; i++)
        if (map->id[i] == id)
            return 1;
    return 0;
}

/* Only what is to move moves, and whoever owns a bucket anew owns it in an epoch of its own. */
static void compare(store *s, const store_map *before, const store_map *now)
{
    for (uint32_t b = 0; b < STORE_BUCKETS; b++) {
        int moved = before->owners[b] != now->owners[b], anew = before->epoch[b] != now->epoch[b];
        if (moved && !anew)
            htc__store_fail(s, "map %llu: bucket %u has other owners in the same epoch", (unsigned long long)now->version, b);
        if (anew && !(before->changing && (before->moves[b] || before->kind > HTC__KV_REWEIGHT)))
            htc__store_fail(s, "map %llu: bucket %u was moved in vain", (unsigned long long)now->version, b);
        s->moved += (uint64_t)moved;
    }
    s->changes += before->changing && !now->changing && !before->back;
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        if (s->members[i].left && lists(now, s->members[i].id) && !lists(before, s->members[i].id))
            htc__store_fail(s, "map %llu: %s has left, and is a member again", (unsigned long long)now->version, htc_sim_name(s->members[i].node));
}

/* What is not stored yet goes with its next crash. */
static void look_at_hold(store_member *m)
{
    const htc_kv_server *server = htc_sim_machine(m->node);
    const htc__kv_bucket_state  *hold = server && server->cluster ? &server->cluster->own_hold : NULL;
    uint64_t             epoch = hold && hold->held ? hold->epoch : 0;
    if (epoch != m->keeping)
        m->keeping_batch = epoch ? htc__kv_open(server) : 0;
    m->keeping = epoch;
    if (epoch > m->keeps && htc__kv_stored(server) >= m->keeping_batch)
        m->keeps = epoch;
}

void htc__store_map_look(store *s, store_member *m)
{
    const htc__kv_cluster *c = cluster_of(m);
    look_at_hold(m);
    if (!c || !c->map || (s->map.known && c->map_version <= s->map.version))
        return;
    store_map now = read_map(c->map, c->map_version);
    if (s->map.known)
        compare(s, &s->map, &now);
    s->map = now;
}

int htc__store_map_listed(const store *s, uint64_t id)
{
    return lists(&s->map, id);
}

static int keeps(const store_map *map, const store_member *m)
{
    for (uint32_t i = 0; i < map->keeper_n; i++)
        if (map->keeper[i] == m->id) /* the store begins with the first epoch: nobody stores that */
            return !m->gone && (map->own_epoch == 1 || m->keeps >= map->own_epoch);
    return 0;
}

/* Of those that the map goes to, whoever has it first takes it up at once, and may be alone with it: until a majority has, no more may be lost than
 * before. */
int htc__store_map_kept_without(const store *s, uint64_t id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        n += s->members[i].id != id && keeps(&s->map, &s->members[i]);
    return n > s->map.keeper_n / 2;
}

/* As many keep the map as can. */
static int is_kept(const htc__kv_cluster *c)
{
    htc__kv_map_own wanted;
    htc__kv_map_wanted(c->map, 0, &wanted);
    return memcmp(&wanted, &c->map->own, sizeof wanted) == 0;
}

/* It knows the newest map, and has what that says. */
static const char *lacks(const store *s, const store_member *m)
{
    htc__kv_cluster *c = cluster_of(m);
    if (!c || !c->map)
        return "is not there";
    if (!htc__store_map_listed(s, m->id))
        return "has left and does not know it";
    if (c->map_version != s->map.version)
        return "does not know the newest map";
    if (!is_kept(c))
        return "does not see to it that enough members keep the map";
    for (uint32_t b = 0; b < c->buckets; b++)
        if (htc__kv_route_has(c, b, c->id) && !htc__kv_cluster_serves(htc_sim_machine(m->node), b, c->route[b].epoch))
            return "does not serve a bucket that it owns";
    return NULL;
}

const char *htc__store_map_unrest(const store *s, uint32_t *member)
{
    *member = STORE_NONE;
    if (s->map.changing)
        return "buckets are on their way";
    if (s->map.settling)
        return "the map is on its way to other keepers";
    for (uint32_t i = 0; i < s->setting.nodes; i++) {
        const store_member *m = &s->members[i];
        const char         *what = m->gone || m->outside ? NULL : lacks(s, m);
        *member = i;
        if (what)
            return what;
    }
    return NULL;
}
