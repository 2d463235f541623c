/* What an operator is told of the other members and of the map: a line when somebody falls silent or is heard again, when a change of
 * membership begins, and when it is over. What is said of damaged records: migrate/repair.c. */
#include <inttypes.h>
#include <string.h>

#include "kvs/replica/cluster_private.h"

static uint32_t buckets_without_majority(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    uint32_t               n = 0;
    for (uint32_t b = 0; b < c->buckets; b++) {
        uint32_t there = 0;
        for (uint32_t i = 0; i < c->route[b].n; i++) {
            const htc__kv_peer *peer = &c->peers[c->route[b].peer[i]];
            there += peer->self || (peer->met && !htc__kv_cluster_suspected(s, peer));
        }
        n += there < c->route[b].n / 2 + 1;
    }
    return n;
}

int htc__kv_cluster_hears_enough(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    return c->map && c->peers[c->self].listed && buckets_without_majority(s) == 0;
}

static void say_silent(const htc_kv_server *s, const htc__kv_peer *peer)
{
    uint32_t waiting = buckets_without_majority(s);
    htc__log_with(&s->env, HTC_LOG_WARN,
                  HTC__FIELDS(HTC__ID("member", peer->id), HTC__NUMBER("silent_ms", (s->now - peer->heard) / HTC_MS),
                              HTC__NUMBER("buckets_waiting", waiting), HTC__NUMBER("buckets", s->cluster->buckets)),
                  "member %016" PRIx64 " has not been heard of for %" PRIu64 " ms -> go on without it%s", peer->id,
                  (s->now - peer->heard) / HTC_MS, waiting ? "; keys of which too few owners are here wait" : "");
}

static void say_back(const htc_kv_server *s, const htc__kv_peer *peer)
{
    int         was_away = peer->noticed == HTC__KV_NOTICED_SILENT;
    uint64_t    away_ms = was_away ? (s->now - peer->noticed_at) / HTC_MS : 0;
    const char *again = was_away ? " again" : "";
    htc__log_with(&s->env, HTC_LOG_INFO, HTC__FIELDS(HTC__ID("member", peer->id), HTC__NUMBER("away_ms", away_ms)),
                  "member %016" PRIx64 " is here%s -> it takes part%s", peer->id, again, again);
}

static void notice(htc_kv_server *s, htc__kv_peer *peer)
{
    int silent = htc__kv_cluster_suspected(s, peer);
    /* At the start all are silent: nobody is missed sooner than somebody who falls silent without a word. */
    int early = !peer->noticed && s->now - peer->heard <= s->cluster->suspect_ns;
    if (silent ? early || peer->noticed == HTC__KV_NOTICED_SILENT : !peer->met || peer->noticed == HTC__KV_NOTICED_HERE)
        return;
    if (silent)
        say_silent(s, peer);
    else
        say_back(s, peer);
    peer->noticed = silent ? HTC__KV_NOTICED_SILENT : HTC__KV_NOTICED_HERE;
    peer->noticed_at = s->now;
}

static void say_change(const htc_kv_server *s, const htc__kv_map *map)
{
    static const char *const kinds[] = { "", "join", "leave", "replace", "reweight" };
    uint64_t                 id = map->kind == HTC__KV_JOIN ? map->comer.id : map->leaver;
    htc__log_with(&s->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__TEXT("change", kinds[map->kind]), HTC__ID("member", id), HTC__NUMBER("back", map->back),
                              HTC__NUMBER("map", s->cluster->map_version)),
                  "a change of members, %s of %016" PRIx64 ", %s -> buckets move one after the other", kinds[map->kind], id,
                  map->back ? "is rolled back" : "is under way");
}

static void say_settled(const htc_kv_server *s, const htc__kv_map *map)
{
    htc__log_with(&s->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("members", map->members), HTC__NUMBER("map", s->cluster->map_version)),
                  "the change of members is over -> %" PRIu32 " keep the store", map->members);
}

static void say_renewal(const htc_kv_server *s, const htc__kv_map *map)
{
    htc__log_with(&s->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__TEXT("change", "renew"), HTC__ID("member", map->leaver), HTC__NUMBER("buckets", map->renewed),
                              HTC__NUMBER("map", s->cluster->map_version)),
                  "member %016" PRIx64 " has damaged records -> renew %" PRIu32 " bucket%s among %s owners", map->leaver, map->renewed,
                  map->renewed == 1 ? "" : "s", map->renewed == 1 ? "its" : "their");
}

struct htc__kv_member_log {
    uint8_t kind, back; /* of the change that was spoken of last */
};

static void notice_change(htc_kv_server *s)
{
    htc__kv_cluster   *c = s->cluster;
    const htc__kv_map *map = c->map;
    if (!map || (c->member_log->kind == map->kind && c->member_log->back == map->back))
        return;
    if (map->kind == HTC__KV_RENEW)
        say_renewal(s, map);
    else if (map->kind != HTC__KV_STAY)
        say_change(s, map);
    else if (c->member_log->kind != HTC__KV_RENEW)
        say_settled(s, map);
    c->member_log->kind = map->kind;
    c->member_log->back = map->back;
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; c->map && i < c->count; i++)
        if (c->peers[i].listed && !c->peers[i].self)
            notice(s, &c->peers[i]);
    notice_change(s);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_member_log *x = s->cluster->member_log = htc__alloc(&s->env, sizeof *x);
    return x ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_member_log *x = s->cluster->member_log;
    htc__free(&s->env, x, sizeof *x);
    s->cluster->member_log = NULL;
}

const htc__kv_component htc__kv_component_member_log = { .make = make, .free = unmake, .tick = tick };
