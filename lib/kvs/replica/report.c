/* What this member says of the members when a client asks (HTC_KV_MEMBERS): the newest map that it has seen, and what it knows besides. */
#include <string.h>

#include "kvs/replica/cluster_private.h"
#include "kvs/wire/kv_members.h"

struct htc__kv_report {
    uint64_t     kept;  /* an epoch of the map in which a majority of those that keep it has answered; 0: none known */
    int          asked; /* they are being asked */
    htc__kv_face face;
};

static void map_was_read(void *ctx, uint64_t epoch, uint64_t slot, const htc_kv_result *result)
{
    htc__kv_cluster *c = ((htc_kv_server *)ctx)->cluster;
    (void)slot;
    c->report->asked = 0;
    if (result->status == HTC_OK && epoch > c->report->kept)
        c->report->kept = epoch;
}

/* Whoever gets the map as one of its next keepers takes it up at once, and may be the first of them: until a majority has it the store needs
 * those that have kept it before. That a majority has it shows when it is read in that epoch, which is done when somebody asks; until then it is not
 * said. The first epoch is everybody's from the beginning. */
static int is_kept(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc_kv_request   q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__kv_map_key() };
    uint64_t         epoch = c->map->own_epoch;
    if (c->map->own_next.n)
        return 0;
    if (epoch == 1 || c->report->kept >= epoch)
        return 1;
    if (c->report->asked)
        return 0;
    c->report->face = (htc__kv_face){ .answer = map_was_read, .ctx = s };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &c->report->face, epoch, 0, s->now + c->request_ns);
    c->report->asked = r != NULL;
    if (r)
        htc__kv_pending_route(s, r);
    return 0;
}

static void head(htc_kv_server *s, htc_kv_members *m)
{
    htc__kv_cluster   *c = s->cluster;
    const htc__kv_map *map = c->map;
    uint32_t               seats[HTC_RING_OWNERS_MAX];
    *m = (htc_kv_members){ .size = sizeof *m, .version = c->map_version, .epoch = map->numbers, .asked = c->id };
    m->buckets = c->buckets;
    m->copies = htc_ring_owners(map->before, 0, seats);
    m->count = map->members;
    m->keepers = map->own.n;
    memcpy(m->keeper, map->own.id, sizeof m->keeper);
    m->settles = !is_kept(s);
    if (!map->after)
        return;
    m->change = map->kind;
    m->back = map->back;
    m->rate = map->rate;
    m->goer = map->leaver;
    m->comer = map->comer.id;
    m->weight = map->kind == HTC__KV_REWEIGHT ? map->comer.weight : 0;
    m->driver = htc__kv_cluster_driver(s);
    htc__kv_map_progress(map, &m->moved, &m->to_move);
}

/* Going back, who came goes and who went stays. */
static uint32_t state_of(const htc__kv_map *map, uint64_t id)
{
    if (!map->after || map->kind == HTC__KV_REWEIGHT || map->kind == HTC__KV_RENEW)
        return HTC_KV_MEMBER_IN;
    if (id == map->comer.id)
        return map->back ? HTC_KV_MEMBER_GOING : HTC_KV_MEMBER_COMING;
    return id == map->leaver ? map->back ? HTC_KV_MEMBER_COMING : HTC_KV_MEMBER_GOING : HTC_KV_MEMBER_IN;
}

static uint32_t planned(const htc__kv_map *map, uint64_t id)
{
    const htc_ring *ring = map->after && !map->back ? map->after : map->before;
    htc_ring_share  share = { 0 };
    (void)htc_ring_share_at(ring, htc_ring_seat(ring, id), &share);
    return share.total;
}

static void describe(const htc_kv_server *s, const htc__kv_map_member *m, htc_kv_member_shown *shown)
{
    htc__kv_cluster    *c = s->cluster;
    const htc__kv_peer *peer = htc__kv_cluster_peer(c, m->id);
    *shown = (htc_kv_member_shown){
        .size = sizeof *shown, .id = m->id, .process = m->process, .domain = m->domain, .weight = m->weight
    };
    shown->state = state_of(c->map, m->id);
    shown->heard = peer && !htc__kv_cluster_suspected(s, peer) && (peer->self || peer->met);
    shown->planned = planned(c->map, m->id);
    shown->address = htc_bytes_of(m->address);
    for (uint32_t b = 0; peer && b < c->buckets; b++)
        for (uint32_t i = 0; i < c->route[b].n; i++)
            if (&c->peers[c->route[b].peer[i]] == peer) {
                shown->owned++;
                shown->first += i == 0;
            }
}

static void put_members(const htc_kv_server *s, htc_buf *b)
{
    const htc__kv_map  *map = s->cluster->map;
    htc_kv_member_shown shown;
    uint64_t            last = 0;
    for (uint32_t n = 0; n < map->members; n++) { /* by id: one that came stands behind the others */
        const htc__kv_map_member *next = NULL;
        for (uint32_t i = 0; i < map->members; i++)
            if (map->member[i].id > last && (!next || map->member[i].id < next->id))
                next = &map->member[i];
        if (!next)
            return;
        last = next->id;
        describe(s, next, &shown);
        htc__kv_members_member(b, &shown);
    }
}

static void put_buckets(const htc__kv_cluster *c, htc_buf *b)
{
    for (uint32_t n = 0; n < c->buckets; n++) {
        const htc__kv_route *route = &c->route[n];
        htc_kv_bucket_shown  shown = { .size = sizeof shown, .epoch = route->epoch, .owners = route->n };
        for (uint32_t i = 0; i < route->n; i++)
            shown.owner[i] = c->peers[route->peer[i]].id;
        htc__kv_members_bucket(b, &shown);
    }
}

htc_status htc__kv_cluster_report(htc_kv_server *s, int buckets, htc_bytes *value)
{
    htc__kv_cluster *c = s->cluster;
    htc_kv_members   m;
    htc_buf          members, table;
    htc_buf_init(&members, &s->env, 0);
    htc_buf_init(&table, &s->env, 0);
    head(s, &m);
    put_members(s, &members);
    if (buckets)
        put_buckets(c, &table);
    m.members_bytes = htc_buf_bytes(&members);
    m.buckets_bytes = htc_buf_bytes(&table);
    htc_buf_clear(&c->scratch);
    htc__kv_members_write(&c->scratch, &m);
    htc_status status = members.status != HTC_OK ? members.status : table.status != HTC_OK ? table.status : c->scratch.status;
    htc_buf_free(&members);
    htc_buf_free(&table);
    *value = htc_buf_bytes(&c->scratch);
    return status;
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_report *x = s->cluster->report = htc__alloc(&s->env, sizeof *x);
    return x ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_report *x = s->cluster->report;
    htc__free(&s->env, x, sizeof *x);
    s->cluster->report = NULL;
}

const htc__kv_component htc__kv_component_report = { .make = make, .free = unmake };
