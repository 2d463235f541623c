/* Members: real servers over cells that keep what was durable when they died. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/kv_store.h"
#include "kvs/cell/record.h"
#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

#define AGAIN (20 * HTC_MS) /* until a member that has ended by itself is started again, at most */

static store_member *member_of(void *ctx)
{
    return ctx;
}

/* ---- cells in memory: a batch is there once it is durable, and not before ---- */

typedef struct sync {
    store_member *m;
    uint64_t      incarnation, tag;
} sync;

static void watch_batch(store_member *m)
{
    htc_kv_change change;
    size_t        at = 0;
    while (htc_kv_batch_next(htc_buf_bytes(&m->commit), &at, &change) == 1) {
        htc_bytes payload;
        if (change.drop)
            continue;
        if (htc__kv_unseal(change.value, change.key, &payload) == HTC_OK)
            htc__store_watch(m->s, m, change.key, payload);
        else
            htc__store_fail(m->s, "%s stores a record that it could not read", htc_sim_name(m->node));
    }
}

static void durable(store_member *m)
{
    watch_batch(m);
    m->commit_pending = 0;
    m->begun = 1;
    htc_status status = m->engine.ops->apply(m->engine.ctx, htc_buf_bytes(&m->commit));
    if (status != HTC_OK)
        htc__store_fail(m->s, "%s: a batch is answered %s", htc_sim_name(m->node), htc_status_name(status));
}

static void synced(htc_sim *sim, void *ctx)
{
    const sync   *y = ctx;
    store_member *m = y->m;
    (void)sim;
    if (htc_sim_incarnation(m->node) != y->incarnation || !m->commit_pending || m->commit_tag != y->tag)
        return;
    durable(m);
    htc_sim_stored(m->node, 0, y->tag, HTC_OK);
}

static htc_status commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    store_member *m = member_of(ctx);
    store        *s = m->s;
    sync          y = { m, htc_sim_incarnation(node), effect->tag };
    if (m->commit_pending)
        htc__store_fail(s, "%s: a second batch before the first was stored", htc_sim_name(node));
    m->commit_pending = 1;
    m->commit_tag = effect->tag;
    htc_buf_clear(&m->commit);
    htc_put_raw(&m->commit, effect->body);
    htc_ns span = 20 * HTC_US + htc_rng_below(&s->rng, s->setting.commit + 1);
    return m->commit.status != HTC_OK ? m->commit.status
                                      : htc_sim_at(s->sim, htc_sim_now(s->sim) + span, synced, &y, sizeof y);
}

static void wipe_memory(store_member *m)
{
    m->engine.ops->destroy(m->engine.ctx);
    if (htc_kv_memory_create(&m->s->env, &m->engine) != HTC_OK)
        htc__store_fail(m->s, "no memory");
    m->s->faults[HTC_SIM_STORE_WIPES]++;
    if (m->begun && !HTC__BROKEN(wiped_same_name))
        m->gone = 1;
}

static void end_in_memory(store_member *m, int crashed)
{
    store *s = m->s;
    if (m->commit_pending && htc_rng_below(&s->rng, 2))
        durable(m);
    m->commit_pending = 0;
    uint64_t lot = htc_rng_below(&s->rng, 1000000);
    if (crashed && m->at == s->setting.damaged && s->phase == STORE_TROUBLE && lot < s->setting.wipe_ppm)
        wipe_memory(m);
}

/* ---- memory that is refused ---- */

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    store_member    *m = ctx;
    store           *s = m->s;
    const htc_alloc *from = s->env.alloc;
    if (new_size > old_size && s->setting.refused_ppm && s->trouble && s->phase == STORE_TROUBLE &&
        htc_rng_below(&m->memory, 1000000) < s->setting.refused_ppm) {
        m->refused++;
        s->faults[HTC_SIM_STORE_REFUSED]++;
        return NULL;
    }
    if (from)
        return from->resize(from->ctx, p, old_size, new_size);
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, new_size);
}

/* ---- lives ---- */

const char *htc__store_address(uint32_t member)
{
    static const char *const names[STORE_MEMBERS] = { "sim:0", "sim:1", "sim:2", "sim:3", "sim:4", "sim:5", "sim:6", "sim:7", "sim:8", "sim:9", "sim:10", "sim:11" };
    return names[member];
}

static htc_status dial(store_member *m, uint32_t to)
{
    if (m->dialled >> to & 1)
        return HTC_OK;
    m->dialled |= UINT32_C(1) << to;
    return htc_sim_dial(m->node, to + 1, m->s->members[to].node, NULL);
}

/* One that wants to be let in knows where the members are, and not who. */
static void knows_of(const store_member *m, htc_kv_server_options *o, htc_kv_member *joins, const char **addresses)
{
    store *s = m->s;
    o->member_count = 1;
    joins[0] = (htc_kv_member){ .id = m->id };
    addresses[0] = htc__store_address(m->at);
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        if (i != m->at && htc__store_map_listed(s, s->members[i].id)) {
            addresses[o->member_count] = NULL;
            joins[o->member_count++] = (htc_kv_member){ .peer = i + 1 };
        }
    o->members = joins;
    o->join = 1;
    o->replaces = m->replaces;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    htc_kv_member         joins[STORE_MEMBERS];
    const char           *addresses[STORE_MEMBERS];
    store_member         *m = member_of(ctx);
    store                *s = m->s;
    htc_kv_server        *server = NULL;
    htc_kv_server_options o = { .size = sizeof o,
                                .engine = m->engine,
                                .self = m->id,
                                .members = s->listed,
                                .member_count = s->setting.members,
                                .owners = s->setting.owners,
                                .bits = STORE_BITS,
                                .suspect_ns = s->setting.suspect,
                                .request_ns = s->setting.request,
                                .member_retry_ns = s->setting.retry,
                                .tombstones_max = s->setting.tombstones,
                                .compare_ns = s->setting.uncompared ? HTC_NEVER / 4 : 0,
                                .resp_port = STORE_RESP };
    htc__store_eventual_options(s, &o);
    for (uint32_t i = 0; i < STORE_MEMBERS; i++)
        addresses[i] = htc__store_address(i);
    o.member_addresses = addresses;
    if (m->at >= s->setting.members)
        knows_of(m, &o, joins, addresses);
    if (m->disk && m->begun && htc__store_log_empty(m) && !HTC__BROKEN(wiped_same_name))
        m->gone = 1;
    char start[48];
    snprintf(start, sizeof start, "start %llu of this machine", (unsigned long long)m->boots);
    m->refused = 0;
    if (m->disk) {
        htc__store_rot_boots(m);
        o.log_durability = s->setting.interval ? HTC_KV_INTERVAL : HTC_KV_SYNC;
        o.log_interval_ns = s->setting.interval;
        o.log_boot = htc_bytes_of(start);
        o.log_segment_bytes = s->setting.segment;
        o.engine.ops = NULL;
    }
    if (m->gone || m->outside)
        return HTC_EFORMAT; /* another one would come in its place, which is no member */
    htc_status status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    if (status == HTC_OK) {
        htc__store_speak(m, server);
        status = htc_sim_install(node, htc_kv_server_ops(), server);
    }
    m->dialled = UINT32_C(1) << m->at;
    for (uint32_t i = 0; i < o.member_count && status == HTC_OK; i++)
        if (o.members[i].peer)
            status = dial(m, o.members[i].peer - 1);
    return status;
}

static void start_again(htc_sim *sim, void *ctx)
{
    store_member *m = *(store_member **)ctx;
    htc_status    status = m->gone || m->outside ? HTC_OK : htc_sim_boot(m->node);
    if (status == HTC_ENOMEM && m->refused)
        htc_sim_at(sim, htc_sim_now(sim) + HTC_MS, start_again, &m, sizeof m);
    else if (status != HTC_OK && htc_sim_status(sim) == HTC_OK)
        htc__store_fail(m->s, "%s does not start: %s", htc_sim_name(m->node), htc_status_name(status));
}

static void later(store_member *m, htc_ns span)
{
    /* Mostly before anybody has noticed, and now and then long enough for the others to go on without it. */
    if (htc_rng_below(&m->s->rng, 6) == 0)
        span += m->s->setting.suspect + htc_rng_below(&m->s->rng, 4 * m->s->setting.suspect);
    htc_sim_at(m->s->sim, htc_sim_now(m->s->sim) + 1 + span, start_again, &m, sizeof m);
}

static int may_be_damaged(const store_member *m)
{
    const store *s = m->s;
    if (!s->setting.moves)
        return m->at == s->setting.damaged;
    return m->at == s->moves.harmed || /* or it was away, and let go, or its joining given up, meanwhile */
           ((m->rotten || (s->setting.interval && m->unpowered)) && !htc__store_map_listed(s, m->id));
}

/* What a member may end for by itself; anything else is wrong. */
static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    store_member      *m = member_of(ctx);
    store             *s = m->s;
    htc_sim_disk_stats d = { 0 };
    if (!m->disk)
        end_in_memory(m, crashed);
    if (crashed) {
        m->left = m->left && m->outside; /* one that had stored nothing as a member has not heard of it, and may ask anew */
        return;
    }
    m->outside = status == HTC_OK && m->left;
    if (m->outside)
        return;
    s->faults[HTC_SIM_STORE_ENDED]++;
    if (m->disk) {
        htc_sim_disk_stats_get(m->disk, &d);
        htc_sim_disk_crash(m->disk, 0);
    }
    if ((status == HTC_ECORRUPT || status == HTC_EFORMAT) && may_be_damaged(m) &&
        (m->rotten || (m->nameless && s->faults[HTC_SIM_STORE_SUPERS]) || (s->setting.interval && m->boots)))
        m->gone = 1; /* refused, and named: the others have it all */
    else if (status == HTC_EIO && d.eio && s->setting.interval && may_be_damaged(m))
        m->gone = 1; /* a sync that failed may have taken what nobody knows */
    else if (status == HTC_EKILLED || (status == HTC_ENOMEM && m->refused) || (status == HTC_EIO && d.eio + d.enospc) || (status == HTC_ENOSPC && d.enospc))
        later(m, htc_rng_below(&s->rng, s->setting.crash_span)); /* a fault point; a disk that failed */
    else
        htc__store_fail(s, "%s has ended: %s", htc_sim_name(node), htc_status_name(status));
}

/* Killed by the world itself, and started again. The power fails for a whole machine. */
static void kill_member(store_member *m, int power, htc_ns span)
{
    store *s = m->s;
    if (s->setting.interval && !(s->setting.moves ? power && htc__store_moves_may_harm(m) : m->at == s->setting.damaged))
        power = 0;
    if (power && !HTC__BROKEN(wiped_same_name))
        m->boots++;
    m->unpowered |= power && m->begun;
    htc_sim_crash(m->node);
    s->faults[HTC_SIM_STORE_CRASHES]++;
    s->faults[HTC_SIM_STORE_POWER] += (uint64_t)power;
    if (m->disk)
        htc_sim_disk_crash(m->disk, power);
    later(m, htc_rng_below(&s->rng, span));
}

void htc__store_member_restart(store_member *m)
{
    kill_member(m, 0, m->s->setting.crash_span);
}

static void kill_machine(store_member *m, int power, htc_ns span)
{
    store        *s = m->s;
    uint32_t      mate = s->setting.mate;
    store_member *other = mate && m->at == mate ? m - 1 : mate && m->at + 1 == mate ? m + 1 : NULL;
    kill_member(m, power, span);
    if (power && other && htc_sim_up(other->node))
        kill_member(other, 1, span);
}

void htc__store_member_start(store_member *m)
{
    m->outside = 0;
    htc_sim_at(m->s->sim, htc_sim_now(m->s->sim), start_again, &m, sizeof m);
}

void htc__store_member_kill(store_member *m)
{
    kill_machine(m, htc_rng_below(&m->s->rng, 2) == 0, m->s->setting.crash_span);
}

/* With its disk, or another one is to be in its place and it is not started again. */
void htc__store_member_lose(store_member *m, int wiped)
{
    store *s = m->s;
    htc_sim_crash(m->node);
    s->faults[HTC_SIM_STORE_CRASHES]++;
    m->gone = !wiped || (m->begun && !HTC__BROKEN(wiped_same_name));
    if (wiped && m->disk) {
        htc_sim_disk_crash(m->disk, 1);
        htc_sim_disk_wipe(m->disk);
        s->faults[HTC_SIM_STORE_WIPES]++;
    } else if (wiped) {
        wipe_memory(m);
    }
    if (!m->gone)
        later(m, htc_rng_below(&s->rng, s->setting.crash_span));
}

/* Right behind a step: what it has sent is on its way, what it has asked the disk for is not done. */
static void checked(void *ctx, htc_sim_node *node)
{
    store_member *m = member_of(ctx);
    store        *s = m->s;
    int           may = s->setting.crash_one == STORE_NONE || s->setting.crash_one == m->at;
    if (s->setting.moves)
        htc__store_moves_step(m);
    if (may && s->setting.crash_ppm && s->phase == STORE_TROUBLE && htc_sim_up(node) &&
        htc_rng_below(&s->rng, 1000000) < s->setting.crash_ppm)
        kill_machine(m, htc_rng_below(&s->rng, 2) == 0, s->setting.crash_span);
}

/* ---- the power fails for all of them ---- */

static void blackout(htc_sim *sim, void *ctx)
{
    store *s = *(store **)ctx;
    if (s->phase != STORE_TROUBLE)
        return;
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        if (htc_sim_up(s->members[i].node))
            kill_member(&s->members[i], 1, s->setting.blackout_span);
    htc_sim_at(sim, htc_sim_now(sim) + 1 + htc_rng_below(&s->rng, 2 * s->setting.blackout_gap), blackout, &s, sizeof s);
}

void htc__store_blackouts(store *s)
{
    if (s->setting.blackout_gap)
        htc_sim_at(s->sim, htc_sim_now(s->sim) + 1 + htc_rng_below(&s->rng, 2 * s->setting.blackout_gap), blackout, &s,
                   sizeof s);
}

/* A member that has come since this one was started. */
static htc_status call_member(store_member *m, const htc_effect *effect)
{
    const store *s = m->s;
    uint32_t     to = 0;
    while (to < s->setting.nodes && !htc_bytes_equal(effect->body, htc_bytes_of(htc__store_address(to))))
        to++;
    uint8_t    number[4] = { (uint8_t)(to + 1) };
    htc_status status = to < s->setting.nodes ? dial(m, to) : HTC_ENOTFOUND;
    return status == HTC_OK ? htc_sim_result(m->node, 0, effect, HTC_OK, (htc_bytes){ number, sizeof number }) : status;
}

static htc_status leave(store_member *m)
{
    htc__store_map_look(m->s, m);
    if (htc__store_map_listed(m->s, m->id))
        htc__store_fail(m->s, "%s says that it has left, and is a member", htc_sim_name(m->node));
    m->left = 1;
    return htc_sim_event(m->node, 0, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ NULL, 0 });
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    store_member *m = member_of(ctx);
    if (effect->op == HTC_KV_SERVER_DIAL)
        return call_member(m, effect);
    if (effect->op == HTC_KV_SERVER_LEFT)
        return leave(m);
    if (effect->op == HTC_KV_SERVER_REFUSED)
        htc__store_fail(m->s, "%s cannot become a member", htc_sim_name(node));
    return m->disk ? htc__store_log_call(m, node, effect) : HTC_EUNSUPPORTED;
}

static htc_status cells(store_member *m, const char *name)
{
    htc_sim_disk_options o = { .size = sizeof o, .name = name, .latency_ns = 20 * HTC_US, .jitter_ns = 50 * HTC_US };
    o.sync_ns = m->s->setting.commit;
    return m->s->setting.cells == HTC_SIM_STORE_LOG ? htc_sim_disk_create(m->s->sim, &o, &m->disk)
                                                    : htc_kv_memory_create(&m->s->env, &m->engine);
}

/* ---- all of them ---- */

htc_status htc__store_members_add(store *s)
{
    static const htc_sim_host host = {
        .size = sizeof host, .boot = boot, .call = call, .commit = commit, .ended = ended, .checked = checked
    };
    htc_rng    rng = htc_sim_rng(s->sim, "members");
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < s->setting.nodes && status == HTC_OK; i++) {
        store_member        *m = &s->members[i];
        char                 name[8];
        htc_sim_node_options o = { .size = sizeof o, .name = name, .host = &host, .ctx = m, .survive = 1 };
        snprintf(name, sizeof name, "m%u", i);
        o.now_offset_ns = htc_rng_below(&rng, HTC_SECOND);
        o.wall_offset_ns = (int64_t)htc_rng_below(&rng, 10 * HTC_SECOND);
        *m = (store_member){ .s = s, .at = i, .id = htc_rng_next(&rng) | 1, .alloc = { resize, m } };
        m->outside = i >= s->setting.members;
        m->memory = htc_rng_fork(&rng, name);
        o.alloc = &m->alloc;
        s->listed[i] = (htc_kv_member){ .id = m->id, .peer = i + 1 };
        if (s->setting.mate)
            s->listed[i].domain = i == s->setting.mate ? i : i + 1;
        htc_buf_init(&m->commit, &s->env, 0);
        status = cells(m, name);
        o.version = htc__store_version_at_first(s->setting.older_members, i);
        if (status == HTC_OK)
            status = htc_sim_add(s->sim, &o, &m->node);
    }
    for (uint32_t i = 0; i < s->setting.members && status == HTC_OK; i++)
        status = htc_sim_boot(s->members[i].node);
    return status;
}

void htc__store_members_free(store *s)
{
    for (uint32_t i = 0; i < s->setting.nodes; i++) {
        store_member *m = &s->members[i];
        htc_buf_free(&m->commit);
        if (m->engine.ops)
            m->engine.ops->destroy(m->engine.ctx);
        htc_sim_disk_destroy(m->disk);
    }
}
