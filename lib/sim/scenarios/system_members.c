/* A store of three members, and for each gateway a proxy on its host, as htc-kvd is for a gateway with `db.store`. Members keep what was durable when
 * they died. What a majority of them holds durably under one ballot is chosen: it is told to the checks as what a single store has stored, and the
 * disk of the run (sys.disk) has the chosen records alone. */
#include <string.h>

#include "htcsched/kv_proxy.h"
#include "kvs/cell/cell.h"
#include "kvs/storage/batch.h"
#include "sim/scenarios/system_private.h"

#define BITS     3 /* of a key's place that name its bucket */
#define MAJORITY (SYS_MEMBERS / 2 + 1)

struct sys_member {
    sys          *s;
    uint32_t      at;
    htc_sim_node *node;
    htc_kv_engine engine;
    sys_commit    commit;
};

struct sys_proxy {
    sys          *s;
    uint32_t      at;
    htc_sim_node *node;
};

/* A ballot of a key that some members hold durably. */
typedef struct vote {
    htc__kv_ballot ballot;
    uint32_t       members; /* a bit for each */
    struct vote   *next;
} vote;

struct sys_register {
    htc__kv_ballot chosen; /* the highest; none */
    vote          *votes;  /* for higher ones */
    UT_hash_handle hh;
    size_t         len;
    char           key[];
};

/* ---- what is chosen ---- */

static sys_register *register_of(sys *s, htc_bytes key)
{
    sys_register *r;
    HASH_FIND(hh, s->registers, key.data, (unsigned)key.len, r);
    if (r)
        return r;
    r = htc__sys_alloc(s, sizeof *r + key.len);
    if (!r)
        return NULL;
    r->len = key.len;
    memcpy(r->key, key.data, key.len);
    HASH_ADD_KEYPTR(hh, s->registers, r->key, (unsigned)r->len, r);
    if (!r->hh.tbl) {
        htc__free(&s->env, r, sizeof *r + key.len);
        htc__sys_no_memory(s);
        return NULL;
    }
    return r;
}

static void votes_drop(sys *s, sys_register *r, const htc__kv_ballot *up_to)
{
    for (vote **at = &r->votes; *at;) {
        vote *v = *at;
        if (up_to && htc__kv_ballot_compare(&v->ballot, up_to) > 0) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        htc__free(&s->env, v, sizeof *v);
    }
}

/* A member holds this ballot of the key. 1: it is chosen by that. */
static int is_chosen(sys *s, const sys_member *m, htc_bytes key, const htc__kv_ballot *ballot)
{
    sys_register *r = register_of(s, key);
    vote         *v = r ? r->votes : NULL;
    if (!r || htc__kv_ballot_compare(ballot, &r->chosen) <= 0)
        return 0;
    while (v && htc__kv_ballot_compare(&v->ballot, ballot) != 0)
        v = v->next;
    if (!v) {
        v = htc__sys_alloc(s, sizeof *v);
        if (!v)
            return 0;
        *v = (vote){ .ballot = *ballot, .next = r->votes };
        r->votes = v;
    }
    v->members |= UINT32_C(1) << m->at;
    if (__builtin_popcount(v->members) < MAJORITY)
        return 0;
    r->chosen = *ballot;
    votes_drop(s, r, ballot);
    return 1;
}

/* A batch is on the disk of a member. */
static void durable(sys_member *m)
{
    sys          *s = m->s;
    htc_kv_change change;
    size_t        at = 0;
    htc_buf       chosen;
    htc_bytes     batch = htc_buf_bytes(&m->commit.batch);
    m->commit.pending = 0;
    htc_status status = m->engine.ops->apply(m->engine.ctx, batch);
    if (status != HTC_OK)
        htc__sys_refused(s, status, "the disk of a member does not take a batch");
    htc_buf_init(&chosen, &s->env, 0);
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_cell cell;
        htc_bytes    payload;
        if (change.drop || change.key.len < 2 || *(const char *)change.key.data != 'k')
            continue;
        if (htc__kv_unseal(change.value, change.key, &payload) != HTC_OK || htc__kv_cell_read(payload, NULL, &cell) != HTC_OK)
            htc__sys_fail(s, "%s writes a record that it could not read", htc_sim_name(m->node));
        else if (cell.present && !htc__kv_ballot_none(&cell.accepted) && is_chosen(s, m, change.key, &cell.accepted))
            htc__kv_batch_put(&chosen, change.key, change.value);
    }
    if (chosen.status != HTC_OK)
        htc__sys_no_memory(s);
    else if (htc_buf_bytes(&chosen).len)
        htc__sys_store_durable(s, htc_buf_bytes(&chosen));
    htc_buf_free(&chosen);
}

/* ---- members ---- */

typedef struct sync {
    sys_member *m;
    uint64_t    incarnation, tag;
} sync;

static void synced(htc_sim *w, void *ctx)
{
    const sync *y = ctx;
    sys_member *m = y->m;
    if (htc_sim_incarnation(m->node) != y->incarnation || !m->commit.pending || m->commit.tag != y->tag)
        return;
    int full = htc_sim_now(w) < m->s->disk_full_until;
    if (full)
        m->commit.pending = 0;
    else
        durable(m);
    htc_sim_stored(m->node, 0, y->tag, full ? HTC_ENOSPC : HTC_OK);
}

static htc_status commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    sys_member *m = ctx;
    sys        *s = m->s;
    sync        y = { m, htc_sim_incarnation(node), effect->tag };
    htc_ns      span = s->options.commit_ns + htc_rng_below(&s->rng_disk, s->options.commit_jitter_ns + 1);
    if (m->commit.pending)
        htc__sys_fail(s, "%s: a second commit before the first was stored", htc_sim_name(node));
    m->commit.pending = 1;
    m->commit.tag = effect->tag;
    htc_buf_clear(&m->commit.batch);
    htc_put_raw(&m->commit.batch, effect->body);
    if (m->commit.batch.status != HTC_OK)
        htc__sys_no_memory(s);
    return htc_sim_at(s->w, htc_sim_now(s->w) + span, synced, &y, sizeof y);
}

static void member_ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    sys_member *m = ctx;
    sys        *s = m->s;
    if (!crashed)
        htc__sys_refused(s, status, htc_sim_name(node));
    s->crashes++;
    if (m->commit.pending && htc_rng_below(&s->rng_disk, 2))
        durable(m);
    m->commit.pending = 0;
}

static htc_status member_boot(void *ctx, htc_sim_node *node)
{
    sys_member   *m = ctx;
    sys          *s = m->s;
    htc_kv_member members[SYS_MEMBERS];
    htc_kv_server *server;
    for (uint32_t i = 0; i < SYS_MEMBERS; i++)
        members[i] = (htc_kv_member){ .id = i + 1, .peer = i + 1 };
    htc_kv_server_options o = { .size = sizeof o,
                                .engine = m->engine,
                                .self = m->at + 1,
                                .members = members,
                                .member_count = SYS_MEMBERS,
                                .owners = SYS_MEMBERS,
                                .bits = BITS,
                                .suspect_ns = s->options.suspect_ns,
                                .request_ns = s->options.request_ns,
                                .member_retry_ns = s->options.suspect_ns / 10 };
    htc_status            status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc_kv_server_ops(), server);
    for (uint32_t i = 0; i < SYS_MEMBERS && status == HTC_OK; i++)
        if (i != m->at)
            status = htc_sim_dial(node, i + 1, s->members[i].node, NULL);
    return status;
}

/* ---- proxies ---- */

static void proxy_ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    const sys_proxy *p = ctx;
    if (!crashed)
        htc__sys_refused(p->s, status, htc_sim_name(node));
}

/* Each prefers another member. */
static htc_status proxy_boot(void *ctx, htc_sim_node *node)
{
    const sys_proxy     *p = ctx;
    uint32_t             stores[SYS_MEMBERS];
    htc_kv_proxy_options o = { .size = sizeof o, .stores = stores, .store_count = SYS_MEMBERS };
    htc_kv_proxy        *machine;
    for (uint32_t i = 0; i < SYS_MEMBERS; i++)
        stores[i] = 1 + (i + p->at) % SYS_MEMBERS;
    htc_status status = htc_kv_proxy_create(htc_sim_env(node), &o, &machine);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc_kv_proxy_ops(), machine);
    for (uint32_t i = 0; i < SYS_MEMBERS && status == HTC_OK; i++)
        status = htc_sim_dial(node, i + 1, p->s->members[i].node, NULL);
    return status;
}

htc_sim_node *htc__sys_door(const sys *s, const htc_sim_node *gateway)
{
    return s->members ? s->proxies[gateway == s->standby].node : s->store;
}

htc_sim_node *htc__sys_member(const sys *s, uint32_t i)
{
    return s->members[i].node;
}

void htc__sys_members_boot(sys *s)
{
    for (uint32_t i = 0; i < SYS_MEMBERS; i++)
        if (htc_sim_boot(s->members[i].node) == HTC_ENOMEM)
            htc__sys_no_memory(s);
    for (uint32_t i = 0; i < SYS_PROXIES; i++)
        if (htc_sim_boot(s->proxies[i].node) == HTC_ENOMEM)
            htc__sys_no_memory(s);
}

htc_sim_node *htc__sys_members_add(sys *s)
{
    static const htc_sim_host member = { .size = sizeof member, .boot = member_boot, .commit = commit, .ended = member_ended };
    static const htc_sim_host proxy = { .size = sizeof proxy, .boot = proxy_boot, .ended = proxy_ended };
    static const char *const  names[] = { "member 1", "member 2", "member 3" }, *const doors[] = { "proxy of gateway", "proxy of standby" };
    s->members = htc__sys_alloc(s, SYS_MEMBERS * sizeof *s->members);
    s->proxies = htc__sys_alloc(s, SYS_PROXIES * sizeof *s->proxies);
    if (!s->members || !s->proxies || htc_kv_memory_create(&s->env, &s->disk) != HTC_OK) {
        htc__sys_no_memory(s);
        return NULL;
    }
    for (uint32_t i = 0; i < SYS_MEMBERS; i++) {
        sys_member *m = &s->members[i];
        *m = (sys_member){ .s = s, .at = i };
        htc_buf_init(&m->commit.batch, &s->env, 0);
        if (htc_kv_memory_create(&s->env, &m->engine) != HTC_OK)
            htc__sys_no_memory(s);
        m->node = htc__sys_node(s, names[i], &member, m, 0);
    }
    for (uint32_t i = 0; i < SYS_PROXIES; i++) {
        s->proxies[i] = (sys_proxy){ .s = s, .at = i };
        s->proxies[i].node = htc__sys_node(s, doors[i], &proxy, &s->proxies[i], 0);
    }
    return s->members[0].node;
}

void htc__sys_members_close(sys *s)
{
    sys_register *r, *next;
    HASH_ITER(hh, s->registers, r, next)
    {
        HASH_DEL(s->registers, r);
        votes_drop(s, r, NULL);
        htc__free(&s->env, r, sizeof *r + r->len);
    }
    for (uint32_t i = 0; s->members && i < SYS_MEMBERS; i++) {
        htc_buf_free(&s->members[i].commit.batch);
        if (s->members[i].engine.ops)
            s->members[i].engine.ops->destroy(s->members[i].engine.ctx);
    }
    if (s->members)
        htc__free(&s->env, s->members, SYS_MEMBERS * sizeof *s->members);
    if (s->proxies)
        htc__free(&s->env, s->proxies, SYS_PROXIES * sizeof *s->proxies);
}
