/* Members of a world (cluster_world.h) that come and go: what the newest map says, and whom one tells to change it. Included behind
 * `static world w`. */
#ifndef HTC_TESTS_MOVING_WORLD_H
#define HTC_TESTS_MOVING_WORLD_H

#include "kvs/replica/cluster_private.h"

static inline htc__kv_cluster *cluster_of(int n)
{
    return w.node[n].server ? w.node[n].server->cluster : NULL;
}

/* The newest map that any living member has seen. */
static inline const htc__kv_map *newest(uint64_t *version)
{
    const htc__kv_map *map = NULL;
    uint64_t           best = 0;
    for (int n = 0; n < w.nodes; n++) {
        const htc__kv_cluster *c = cluster_of(n);
        if (c && c->map && (!map || c->map_version > best)) {
            map = c->map;
            best = c->map_version;
        }
    }
    if (version)
        *version = best;
    return map;
}

static inline int listed(int n)
{
    const htc__kv_map *map = newest(NULL);
    return map && htc__kv_map_find(map, w.members[n].id) != NULL;
}

static inline int moving(void)
{
    return newest(NULL) && newest(NULL)->after;
}

static inline int under_way(void)
{
    const htc__kv_map *map = newest(NULL);
    return !map || map->after || map->own_next.n || map->own.n < (map->members < 3 ? map->members : 3);
}

/* Somebody that is a member is told; it may die before it has begun, so it is told again. */
static inline void tell(const htc__kv_change_request *wish)
{
    for (int i = 0, n = (int)htc_rng_below(&w.rng, (uint64_t)w.nodes); i < w.nodes; i++, n = (n + 1) % w.nodes)
        if (cluster_of(n) && cluster_of(n)->map && listed(n)) {
            htc__kv_cluster_change_request(w.node[n].server, wish);
            return;
        }
}

/* Nobody that is there is behind. */
static inline int all_know(void)
{
    uint64_t version;
    newest(&version);
    for (int n = 0; n < w.nodes; n++)
        if (cluster_of(n) && listed(n) && (!cluster_of(n)->map || cluster_of(n)->map_version != version))
            return 0;
    return 1;
}

static inline int has_come(const htc__kv_change_request *wish, int comes)
{
    return (comes < 0 || listed(comes)) &&
           (!wish || !newest(NULL) || !htc__kv_map_find(newest(NULL), wish->id) || wish->kind == HTC__KV_JOIN) &&
           !under_way() && all_know();
}

/* Gone for good. */
static inline void stop(int n)
{
    w.node[n].outside = 1;
    if (w.node[n].server)
        crash(&w, n, HTC_NEVER);
    w.node[n].down_until = HTC_NEVER;
}

static inline int members(void)
{
    int count = 0;
    for (int n = 0; n < w.nodes; n++)
        count += listed(n);
    return count;
}

#endif
