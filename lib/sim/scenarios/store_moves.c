/* Members that come, go, are replaced and get another weight while clients ask, one change after the other. Somebody wishes for them as
 * `htc kv` would; who moves the buckets, and who gets them, is killed again and again; disks are lost in the middle, or rot. What is lost or
 * damaged is never more than one member's of those that own a bucket together, and that one is replaced, or let go, before another one's may be.
 *
 * A change that has begun has to end, whoever is killed; it is asked for again only as long as nobody has said that it has begun. */
#include "htcsched/kv_members.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/server/server.h"
#include "sim/scenarios/store_private.h"

#define TURN  (5 * HTC_MS)   /* between two looks */
#define AGAIN (200 * HTC_MS) /* between two tries of a wish */
#define BACKS 3              /* changes are given up so many times, at most */

/* ---- what the seed draws ---- */

void htc__store_moves_draw(store *s)
{
    static const uint32_t first[] = { 3, 3, 3, 3, 5, 5, 2, 1 }, copies[] = { 3, 3, 3, 5, 5, 2 }, least[] = { 3, 3, 2, 1 };
    store_setting        *g = &s->setting;
    htc_rng               rng = htc_sim_rng(s->sim, "setting/moves");
    uint32_t              moves = (uint32_t)maybe(&rng, 3, 1, 6), think = (uint32_t)between(&rng, 1, 10);
    uint32_t              members = first[between(&rng, 0, 7)], owners = copies[between(&rng, 0, 5)];
    g->least = least[between(&rng, 0, 3)];
    g->mover_ppm = maybe(&rng, 4, 1, 1) ? 0 : (uint32_t)between(&rng, 1000, 60000);
    g->lose_ppm = (uint32_t)maybe(&rng, 2, 2000, 60000);
    g->back_ppm = (uint32_t)maybe(&rng, 4, 2000, 30000);
    g->rate_ppm = (uint32_t)maybe(&rng, 4, 5000, 50000);
    if (!moves || !htc__store_eventual_may_move(s))
        return;
    g->moves = moves;
    g->members = s->options.members ? s->options.members : members;
    g->owners = owners;
    g->nodes = g->members + moves < STORE_MEMBERS ? g->members + moves : STORE_MEMBERS;
    g->think = g->think ? g->think : think * HTC_MS;
    g->hidden &= (UINT32_C(1) << g->members) - 1;
    g->mate = g->mate < g->members ? g->mate : 0;
    g->crash_one = g->crash_one < g->members ? g->crash_one : STORE_NONE;
    g->damaged = STORE_NONE; /* what is lost for good is lost here, and what rots is chosen here, one after the other */
    htc__store_eventual_moves(s);
}

/* ---- who is there ---- */

static const store_member *member_by(const store *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        if (s->members[i].id == id)
            return &s->members[i];
    return NULL;
}

/* A member that is lost for good, if there is one. */
static uint64_t lost_one(const store *s)
{
    for (uint32_t i = 0; i < s->map.members; i++)
        if (member_by(s, s->map.id[i])->gone)
            return s->map.id[i];
    return 0;
}

static uint32_t copies(const store *s, uint32_t members)
{
    return members < s->setting.owners ? members : s->setting.owners;
}

/* Nobody says when what was damaged on its disk is whole again, so that lasts until it has left. 0: nobody. */
static uint64_t harmed_one(const store *s)
{
    const store_member *m = s->moves.harmed == STORE_NONE ? NULL : &s->members[s->moves.harmed];
    return m && !m->outside && htc__store_map_listed(s, m->id) ? m->id : 0;
}

static int another_is_harmed(const store *s, uint64_t id)
{
    uint64_t harmed = harmed_one(s);
    return harmed && harmed != id;
}

/* Of three or more owners one may be lost for good, before a change, in it and behind it. */
static int may_be_lost(const store *s, uint64_t id)
{
    const store_map   *map = &s->map;
    const store_moves *v = &s->moves;
    int                comes = map->changing && (map->kind == HTC__KV_JOIN || map->kind == HTC__KV_REPLACE);
    int                goes = (map->changing && (map->kind == HTC__KV_LEAVE || map->kind == HTC__KV_REPLACE)) ||
               (v->kind == HTC_KV_CHANGE_LEAVE && v->id != id);
    uint32_t before = map->members - (uint32_t)comes, after = map->members - (uint32_t)goes;
    return !lost_one(s) && !another_is_harmed(s, id) && copies(s, before) >= 3 && copies(s, after) >= 3 && map->keepers >= 3 &&
           htc__store_map_listed(s, id) && htc__store_map_kept_without(s, id);
}

int htc__store_moves_may_harm(store_member *m)
{
    store *s = m->s;
    if (s->phase != STORE_TROUBLE || !may_be_lost(s, m->id))
        return 0;
    s->moves.harmed = m->at;
    return 1;
}

/* ---- wishes ---- */

static void wake(store_client *c)
{
    if (htc_sim_up(c->node))
        htc_sim_event(c->node, 0, 0, HTC_OK, (htc_bytes){ NULL, 0 });
}

static void somebody_comes(store *s, uint64_t replaces)
{
    store_moves  *v = &s->moves;
    store_member *m = &s->members[v->comer = v->fresh++];
    m->replaces = replaces;
    htc__store_member_start(m);
    if (htc__store_clients_dial(s, m->at) != HTC_OK)
        htc__store_fail(s, "no memory");
}

static uint64_t some_member(store *s)
{
    return s->map.id[htc_rng_below(&s->moves.rng, s->map.members)];
}

static void choose(store *s)
{
    store_moves *v = &s->moves;
    uint64_t     lot = htc_rng_below(&v->rng, 100), lost = lost_one(s);
    int          may_come = v->fresh < s->setting.nodes;
    v->left--;
    v->begun++;
    v->granted = 0;
    v->id = lost ? lost : some_member(s);
    v->weight = 1 + (uint32_t)htc_rng_below(&v->rng, 4);
    if (may_come && (lost ? lot < 60 : lot >= 50 && lot < 80))
        v->kind = HTC_KV_CHANGE_REPLACE;
    else if (lost ? lot < 85 && s->map.members > 1 : lot >= 25 && lot < 50 && s->map.members > s->setting.least)
        v->kind = HTC_KV_CHANGE_LEAVE;
    else if (may_come && lot < 90 && s->map.members < STORE_BUCKETS) /* there are no more members than buckets */
        v->kind = HTC_KV_CHANGE_JOIN;
    else
        v->kind = HTC_KV_CHANGE_WEIGHT;
    if (v->kind == HTC_KV_CHANGE_LEAVE && harmed_one(s) && copies(s, s->map.members - 1) < 3)
        v->id = harmed_one(s); /* or what is damaged would be one of two */
    if (v->kind == HTC_KV_CHANGE_JOIN || v->kind == HTC_KV_CHANGE_REPLACE)
        somebody_comes(s, v->kind == HTC_KV_CHANGE_REPLACE ? v->id : 0);
    for (uint32_t i = 0; i < s->setting.clients; i++)
        wake(&s->clients[i]);
}

static int has_weight(const store *s)
{
    for (uint32_t i = 0; i < s->map.members; i++)
        if (s->map.id[i] == s->moves.id)
            return s->map.weight[i] == s->moves.weight;
    return 1;
}

/* What was wished for is so. */
static int has_come(const store *s)
{
    const store_moves *v = &s->moves;
    if (s->map.changing || s->map.settling)
        return 0;
    switch (v->kind) {
    case HTC_KV_CHANGE_JOIN:
    case HTC_KV_CHANGE_REPLACE:
        return htc__store_map_listed(s, s->members[v->comer].id) || s->members[v->comer].outside || s->members[v->comer].gone; /* given up */
    case HTC_KV_CHANGE_LEAVE:
        return !htc__store_map_listed(s, v->id);
    default:
        return has_weight(s);
    }
}

/* ---- who asks for them ---- */

uint32_t htc__store_moves_operations(const store *s)
{
    const store_setting *g = &s->setting;
    return g->moves ? g->operations * (s->moves.begun + 1) / (g->moves + 1) : g->operations;
}

int htc__store_moves_want(const store *s)
{
    const store_moves *v = &s->moves;
    int                asks = v->kind == HTC_KV_CHANGE_LEAVE || v->kind == HTC_KV_CHANGE_WEIGHT;
    if (s->phase >= STORE_READ || htc_sim_now(s->sim) < v->again)
        return 0;
    return v->also || (asks && !s->map.changing && !has_come(s) && (!v->granted || v->backs));
}

htc_status htc__store_moves_ask(store_client *c, htc_output *out)
{
    store          *s = c->s;
    store_moves    *v = &s->moves;
    htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_CHANGE, .limit = v->also ? v->also : v->kind };
    if (v->also == HTC_KV_CHANGE_RATE)
        q.delta = htc_rng_below(&v->rng, 3) ? 120 + (int64_t)htc_rng_below(&v->rng, 1200) : 0;
    if (!v->also)
        q.version = v->id;
    if (q.limit == HTC_KV_CHANGE_WEIGHT)
        q.delta = v->weight;
    c->asked[0] = (store_asked){ .what = STORE_OF_ALL, .op = HTC_KV_CHANGE, .limit = q.limit, .at = v->begun };
    v->backs += v->also == HTC_KV_CHANGE_BACK;
    v->also = 0;
    v->again = htc_sim_now(s->sim) + AGAIN;
    return htc__store_submit(c, &q, 1, out);
}

void htc__store_moves_answered(store_client *c, const htc_kv_result *r)
{
    store       *s = c->s;
    store_moves *v = &s->moves;
    c->pending--;
    if (r->status == HTC_OK && c->asked[0].limit == v->kind && c->asked[0].at == v->begun)
        v->granted = 1;
    if (r->status != HTC_OK && r->status != HTC_EBUSY && r->status != HTC_ENOTFOUND && r->status != HTC_ETIMEDOUT &&
        r->status != HTC_EUNKNOWN && !(r->status == HTC_ENOMEM && s->setting.refused_ppm))
        htc__store_fail(s, "a change of the members is answered %s", htc_status_name(r->status));
}

/* ---- what goes wrong meanwhile ---- */

static int chance(store *s, uint32_t ppm)
{
    return htc_rng_below(&s->moves.rng, 1000000) < ppm;
}

static void lose_one(store *s, int wiped)
{
    uint64_t id = wiped ? some_member(s) : s->moves.id;
    store_member *m = (store_member *)member_by(s, id);
    if (may_be_lost(s, id) && htc_sim_up(m->node))
        htc__store_member_lose(m, wiped);
}

static void something_happens(store *s)
{
    const store_setting *g = &s->setting;
    store_moves         *v = &s->moves;
    int                  goes = v->kind == HTC_KV_CHANGE_LEAVE || v->kind == HTC_KV_CHANGE_REPLACE;
    if (chance(s, s->map.changing ? g->lose_ppm : g->lose_ppm / 8))
        lose_one(s, 1);
    if (goes && chance(s, g->lose_ppm / 4))
        lose_one(s, 0);
    if (chance(s, g->rate_ppm))
        v->also = HTC_KV_CHANGE_RATE;
    if (s->map.changing && v->backs < BACKS && chance(s, g->back_ppm))
        v->also = HTC_KV_CHANGE_BACK;
}

static int is_about(const store *s, const store_member *m)
{
    const htc_kv_server *server = htc_sim_machine(m->node);
    if (!s->map.changing || !server || !server->cluster->map)
        return 0;
    return htc__kv_cluster_driver(server) == m->id || (s->moves.kind != HTC_KV_CHANGE_NONE && m->at == s->moves.comer);
}

void htc__store_moves_step(store_member *m)
{
    store *s = m->s;
    htc__store_map_look(s, m);
    if (s->phase == STORE_TROUBLE && s->setting.mover_ppm && is_about(s, m) && chance(s, s->setting.mover_ppm))
        htc__store_member_kill(m);
}

/* ---- one after the other ---- */

static void turn(htc_sim *sim, void *ctx)
{
    store       *s = *(store **)ctx;
    store_moves *v = &s->moves;
    if (s->phase >= STORE_READ)
        return;
    if (v->kind != HTC_KV_CHANGE_NONE && has_come(s)) {
        v->kind = HTC_KV_CHANGE_NONE;
        v->comer = STORE_NONE;
    }
    if (s->phase == STORE_TROUBLE && s->map.known) {
        uint32_t enough = s->setting.operations * v->begun / (s->setting.moves + 1);
        if (v->kind == HTC_KV_CHANGE_NONE && v->left && s->asked >= enough && !s->map.changing && !s->map.settling)
            choose(s);
        something_happens(s);
    }
    if (htc__store_moves_want(s))
        wake(&s->clients[s->setting.clients]);
    htc_sim_at(sim, htc_sim_now(sim) + TURN, turn, &s, sizeof s);
}

htc_status htc__store_moves_begin(store *s)
{
    store_moves *v = &s->moves;
    *v = (store_moves){ .rng = htc_sim_rng(s->sim, "moves"), .left = s->setting.moves, .fresh = s->setting.members };
    v->comer = v->harmed = STORE_NONE;
    return s->setting.moves ? htc_sim_at(s->sim, htc_sim_now(s->sim) + TURN, turn, &s, sizeof s) : HTC_OK;
}

int htc__store_moves_over(const store *s)
{
    return s->moves.left == 0 && s->moves.kind == HTC_KV_CHANGE_NONE;
}

static int is_done(void *ctx)
{
    const store *s = ctx;
    uint32_t     member;
    return s->moves.kind == HTC_KV_CHANGE_NONE && !htc__store_map_unrest(s, &member);
}

/* The kinds as they are numbered: join 1, leave 2, replace 3, weight 4. */
void htc__store_moves_settle(store *s, htc_ns span)
{
    uint32_t member = STORE_NONE;
    if (htc_sim_settle(s->sim, span, "a change of the members does not end", is_done, s) == HTC_OK)
        return;
    const char *what = htc__store_map_unrest(s, &member);
    htc__store_fail(s, "a change of the members (kind %u of %016llx%s) does not end: %s%s%s; map %llu", s->moves.kind,
                    (unsigned long long)s->moves.id, s->moves.granted ? ", begun" : "",
                    member == STORE_NONE ? "" : htc_sim_name(s->members[member].node), member == STORE_NONE ? "" : " ",
                    what ? what : "it is not asked for", (unsigned long long)s->map.version);
}
