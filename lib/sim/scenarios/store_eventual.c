/* An eventual namespace beside the strong keys: clients put and delete with the context of their last get, an older one or none, and in the end
 * the copies of all owners have to agree, with every acknowledged value among them or covered by whoever had seen it.
 *
 * How they come to agree is drawn: by comparing, by reads that meet each key once more, or by hints alone. The last is for runs in which no
 * member ends, for what one was about to note when it was killed nobody else knows; the others find it. */
#include <stdio.h>
#include <string.h>

#include "kvs/eventual/eventual.h"
#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

#define SPACE "e"
#define NEVER (HTC_NEVER / 4)
#define COPY  2000 /* of a member, in the history: this and its number */

enum { BY_COMPARING, BY_READS, BY_HINTS, WAYS };

/* ---- what the seed draws ---- */

/* Nothing is lost with a disk: then one owner's word may be enough. */
static void spare_disks(store_setting *g)
{
    g->wipe_ppm = g->rot_ppm = g->super_ppm = 0;
    g->interval = 0;
    g->spared = 1;
}

static void nobody_ends(store_setting *g)
{
    g->cells = HTC_SIM_STORE_MEMORY;
    g->crash_ppm = g->refused_ppm = g->points_ppm = 0;
    g->blackout_gap = g->turn_gap = g->interval = 0;
    g->lasting = 1;
}

void htc__store_eventual_draw(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting/eventual");
    int            is = htc_rng_below(&rng, 4) == 0, spared = htc_rng_below(&rng, 2) == 0;
    uint32_t       ppm = 100000 + (uint32_t)htc_rng_below(&rng, 500000), keys = 1 + (uint32_t)htc_rng_below(&rng, 3);
    uint32_t       n = 1 + (uint32_t)htc_rng_below(&rng, g->owners), way = (uint32_t)htc_rng_below(&rng, 4) % WAYS;
    uint32_t       least = spared ? 1 : 2;
    htc_ns         compare = (5 + htc_rng_below(&rng, 60)) * HTC_MS;
    n = n < least ? least : n;
    htc_ns   apart = (50 + htc_rng_below(&rng, 300)) * HTC_MS;
    uint32_t loss = 50000 + (uint32_t)htc_rng_below(&rng, 300000);
    uint32_t r = 1 + (uint32_t)htc_rng_below(&rng, n), w = least + (uint32_t)htc_rng_below(&rng, n - least + 1);
    if (!is)
        return;
    g->eventual_ppm = ppm;
    g->eventual_keys = keys;
    g->way = way;
    g->compare = way == BY_COMPARING ? compare : NEVER;
    g->space = (htc_kv_namespace){ .size = sizeof(htc_kv_namespace), .name = htc_bytes_of(SPACE), .n = n, .r = r, .w = w };
    if (spared)
        spare_disks(g);
    if (way == BY_HINTS) {
        nobody_ends(g);
        g->apart = apart;
        g->loss_ppm = loss;
        g->turnover = g->turnover < 12 ? g->turnover : 12;
    }
}

/* Hints are for members that stay. */
int htc__store_eventual_may_move(const store *s)
{
    return !s->setting.eventual_ppm || s->setting.way != BY_HINTS;
}

/* An acknowledged change has to be at one of those that are read when its bucket moves, a majority of the owners, also if the disk of one more is
 * lost; and at somebody else when one goes that is not heard. */
void htc__store_eventual_moves(store *s)
{
    store_setting *g = &s->setting;
    uint32_t       least = g->owners - g->owners / 2;
    if (!g->eventual_ppm)
        return;
    least = least < 2 ? 2 : least;
    g->interval = 0;
    g->space.n = g->space.n < least ? least : g->space.n > g->owners ? g->owners : g->space.n;
    g->space.r = g->space.r < g->space.n ? g->space.r : g->space.n;
    g->space.w = g->space.w < least ? least : g->space.w < g->space.n ? g->space.w : g->space.n;
}

/* Where hints alone are to help there have to be some: members that do not hear each other for longer than puts wait. */
void htc__store_eventual_faults(const store *s, htc_sim_faults *f)
{
    if (!s->setting.apart)
        return;
    f->partition_gap_ns = 2 * s->setting.apart;
    f->partition_span_ns = 2 * s->setting.apart;
}

void htc__store_eventual_options(const store *s, htc_kv_server_options *o)
{
    if (!s->setting.eventual_ppm)
        return;
    o->namespaces = &s->setting.space;
    o->namespace_count = 1;
    o->compare_ns = s->setting.compare;
}

/* ---- what is asked ---- */

static htc_history_value value_of(htc_bytes value, int deleted)
{
    return deleted ? (htc_history_value){ 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER } : htc_history_value_of(value);
}

static uint32_t clock_of(store *s, const htc__siblings *set)
{
    htc_history_tick ticks[HTC__SIBLINGS_LINES];
    uint32_t         clock = 0;
    for (uint32_t i = 0; i < set->lines; i++)
        ticks[i] = (htc_history_tick){ set->line[i].member, set->line[i].counter };
    if (htc_history_clock(s->history, ticks, set->lines, &clock) != HTC_OK)
        htc__store_fail(s, "no room in the history");
    return clock;
}

static store_copies *some_copies(store_client *c, uint32_t *at)
{
    store   *s = c->s;
    uint32_t generation = s->asked / s->setting.turnover;
    *at = (generation * s->setting.eventual_keys + (uint32_t)htc_rng_below(&c->rng, s->setting.eventual_keys)) % STORE_COPIES;
    store_copies *k = &s->copies[*at];
    if (!k->used) {
        char name[STORE_NAME + 2];
        snprintf(k->name, sizeof k->name, "e%u", *at);
        snprintf(name, sizeof name, SPACE "/%s", k->name);
        k->used = htc_history_key(s->history, htc_bytes_of(name), &k->number) == HTC_OK;
    }
    return k;
}

static void ask_get(store_asked *a, const store_copies *k, htc_kv_request *q)
{
    a->what = STORE_OF_SPACE;
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .space = htc_bytes_of(SPACE), .key = htc_bytes_of(k->name) };
}

int htc__store_eventual_ask(store_client *c, uint64_t lot, store_asked *a, char text[STORE_VALUE], htc_kv_request *q)
{
    store *s = c->s;
    if (lot < 1000000 - s->setting.eventual_ppm)
        return 0;
    store_copies  *k = some_copies(c, &a->at);
    uint64_t       kind = htc_rng_below(&c->rng, 10);
    htc_history_op op = HTC_HISTORY_OP_INIT;
    store_context *seen = &c->contexts[a->at];
    s->asked++;
    ask_get(a, k, q);
    if (kind < 4)
        return 1;
    q->op = kind < 9 ? HTC_KV_PUT : HTC_KV_DELETE;
    if (q->op == HTC_KV_PUT) {
        snprintf(text, STORE_VALUE, "v%u", s->asked);
        q->value = htc_bytes_of(text);
    }
    if (htc_rng_below(&c->rng, 6))
        q->context = (htc_bytes){ seen->bytes, seen->len };
    if (htc__siblings_read(q->context, &s->set) != HTC_OK)
        htc__store_fail(s, "client %u was given a context that is none", c->at);
    op.kind = HTC_HISTORY_WRITE;
    op.key = k->number;
    op.process = c->at;
    op.invoked = a->invoked;
    op.argument = value_of(q->value, q->op == HTC_KV_DELETE);
    op.clock = clock_of(s, &s->set);
    if (htc_history_add(s->history, &op, &a->history) != HTC_OK)
        htc__store_fail(s, "no room in the history");
    return 1;
}

/* ---- what is answered ---- */

static void know(store_client *c, uint32_t at, htc_bytes context)
{
    store_context *seen = &c->contexts[at];
    if (context.len > sizeof seen->bytes) {
        htc__store_fail(c->s, "client %u is given a context of %zu bytes", c->at, context.len);
        return;
    }
    if (context.len)
        memcpy(seen->bytes, context.data, context.len);
    seen->len = context.len;
}

void htc__store_eventual_forget(store_client *c)
{
    for (uint32_t i = 0; i < STORE_COPIES; i++)
        c->contexts[i].len = 0;
}

/* Whether a message that the client had repeated was carried out as well, by another member, is not known. */
static void note_write(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    store         *s = c->s;
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.outcome = r->status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_REFUSED;
    op.expected = r->member;
    op.version = r->version;
    htc__store_note(c, a, &op);
    op = *htc_history_at(s->history, a->history);
    op.outcome = HTC_HISTORY_UNKNOWN;
    op.returned = HTC_NEVER;
    op.expected = op.version = 0;
    if (htc_history_add(s->history, &op, NULL) != HTC_OK)
        htc__store_fail(s, "no room in the history");
}

/* 1: what was asked was done, or certainly not. */
static int says(store_client *c, const htc_kv_result *r)
{
    const store *s = c->s;
    switch (r->status) {
    case HTC_OK:
        return 1;
    case HTC_ENOTFOUND:
        return r->op == HTC_KV_GET;
    case HTC_ECONFLICT:
        return r->op != HTC_KV_GET;
    case HTC_EUNKNOWN:
    case HTC_ETIMEDOUT:
    case HTC_ENOSPC:
    case HTC_EBUSY:
        return 0;
    case HTC_ENOMEM:
        if (s->setting.refused_ppm)
            return 0;
        break;
    case HTC_ECORRUPT:
        if (s->faults[HTC_SIM_STORE_ROT])
            return 0;
        break;
    default:
        break;
    }
    htc__store_fail(c->s, "client %u is answered %s of an eventual key", c->at, htc_status_name(r->status));
    return 0;
}

int htc__store_eventual_answered(store_client *c, const store_asked *a, const htc_kv_result *r)
{
    htc_sim_store_report *report = c->s->report;
    if (c->s->phase == STORE_AGREE)
        c->reading++;
    if (!says(c, r))
        return 0;
    if (r->op == HTC_KV_GET) {
        report->eventual_reads++;
        report->siblings += r->items > 1;
        if (htc_rng_below(&c->rng, 4))
            know(c, a->at, r->context);
        return 1;
    }
    report->eventual_writes += r->status == HTC_OK;
    report->conflicts += r->status == HTC_ECONFLICT;
    if (r->context.len && htc_rng_below(&c->rng, 2))
        know(c, a->at, r->context);
    note_write(c, a, r);
    return 1;
}

/* ---- the end: each key is read once more, perhaps ---- */

static uint32_t to_read(const store *s, uint32_t at)
{
    while (at < STORE_COPIES && !s->copies[at].used)
        at++;
    return at;
}

int htc__store_eventual_read(const store *s)
{
    return to_read(s, s->clients[0].reading) == STORE_COPIES;
}

void htc__store_eventual_read_next(store_client *c, store_asked *a, htc_kv_request *q)
{
    c->reading = to_read(c->s, c->reading);
    a->at = c->reading;
    ask_get(a, &c->s->copies[c->reading], q);
}

/* ---- what members hold ---- */

enum { WAITS = -1, NOTHING, OWNS, KEEPS };

/* An owner that does not come back may be the one that others keep copies for. */
static int one_is_lost(const store *s, const htc_kv_server *server)
{
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        if (s->members[i].gone && htc__kv_map_find(server->cluster->map, s->members[i].id))
            return 1;
    return 0;
}

/* OWNS: this member owns the key and is there; *state: what it holds of it, lent. KEEPS: it owns it no more, and holds that still. WAITS: it is to
 * come back, or cannot be asked yet. */
static int held(store_member *m, const store_copies *k, htc_bytes *state)
{
    char           name[STORE_NAME + 2];
    uint64_t       owner[HTC_RING_OWNERS_MAX];
    uint32_t       mine;
    size_t         len = (size_t)snprintf(name, sizeof name, SPACE "%c%s", 0, k->name);
    htc_bytes      key = { name, len };
    htc_kv_server *server = htc_sim_up(m->node) ? htc_sim_machine(m->node) : NULL;
    if (m->gone || m->outside)
        return NOTHING;
    if (!server || !server->serving || !server->cluster->map)
        return WAITS;
    int unsettled = server->cluster->map_version && server->cluster->eventual->settled <= server->cluster->map_version;
    if (unsettled && !one_is_lost(m->s, server))
        return WAITS; /* it may hold something that only others own */
    uint32_t   n = htc__kv_space_owners(server, key, owner, &mine);
    htc_status status = htc__kv_backlog_state(server, key, state);
    if (mine == n && status == HTC_OK && !unsettled)
        htc__store_fail(m->s, "%s holds %s still, which only others own, and has said that it holds no such key", htc_sim_name(m->node), k->name);
    if (mine == n)
        return status == HTC_OK ? KEEPS : NOTHING;
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        return OWNS;
    return n > 1 ? WAITS : NOTHING; /* a damaged one is taken from the other owners, if there are any */
}

/* All that is kept the owners have. */
static int is_known(store *s, store_member *owner, store_member *keeper, const store_copies *k)
{
    htc_bytes all = { NULL, 0 }, state = { NULL, 0 };
    if (!owner || held(owner, k, &all) != OWNS || htc__siblings_read(all, &s->set) != HTC_OK || held(keeper, k, &state) != KEEPS ||
        htc__siblings_read(state, &s->kept) != HTC_OK)
        return 0;
    htc__causal order = htc__siblings_compare(&s->kept, &s->set);
    return order == HTC__CAUSAL_SAME || order == HTC__CAUSAL_BEFORE;
}

static int agrees_on(store *s, const store_copies *k)
{
    store_member *owner = NULL, *keeper[STORE_MEMBERS];
    uint32_t      keepers = 0;
    uint64_t      digest = 0;
    for (uint32_t n = 0; n < s->setting.nodes; n++) {
        htc_bytes state = { NULL, 0 };
        int       is = held(&s->members[n], k, &state);
        if (is == WAITS || (is == OWNS && owner && htc__kv_state_digest(state) != digest))
            return 0;
        if (is == KEEPS)
            keeper[keepers++] = &s->members[n];
        if (is == OWNS) {
            owner = &s->members[n];
            digest = htc__kv_state_digest(state);
        }
    }
    while (keepers && is_known(s, owner, keeper[keepers - 1], k))
        keepers--;
    return keepers == 0;
}

int htc__store_eventual_agrees(void *ctx)
{
    store *s = ctx;
    for (uint32_t i = 0; i < STORE_COPIES; i++)
        if (s->copies[i].used && !agrees_on(s, &s->copies[i]))
            return 0;
    return 1;
}

static void note_copy(store *s, const store_member *m, const store_copies *k, htc_bytes state)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = HTC_HISTORY_SIBLING;
    op.flags = HTC_HISTORY_FINAL;
    op.key = k->number;
    op.process = COPY + m->at;
    op.invoked = op.returned = htc_sim_now(s->sim);
    op.outcome = state.len ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    if (htc__siblings_read(state, &s->set) != HTC_OK) {
        htc__store_fail(s, "%s holds siblings that it could not read", htc_sim_name(m->node));
        return;
    }
    op.clock = state.len ? clock_of(s, &s->set) : 0;
    htc_status status = state.len ? HTC_OK : htc_history_add(s->history, &op, NULL);
    for (uint32_t l = 0; l < s->set.lines; l++)
        for (uint32_t i = 0; i < s->set.line[l].count && status == HTC_OK; i++) {
            const htc__sibling *v = &s->set.value[s->set.line[l].first + i];
            op.expected = s->set.line[l].member;
            op.version = s->set.line[l].counter - i;
            op.observed = value_of(v->value, v->deleted);
            status = htc_history_add(s->history, &op, NULL);
        }
    if (status != HTC_OK)
        htc__store_fail(s, "no room in the history");
}

static void note_copies(store *s)
{
    for (uint32_t i = 0; i < STORE_COPIES; i++)
        for (uint32_t n = 0; n < s->setting.nodes && s->copies[i].used; n++) {
            htc_bytes state = { NULL, 0 };
            if (held(&s->members[n], &s->copies[i], &state) == OWNS)
                note_copy(s, &s->members[n], &s->copies[i], state);
        }
}

int htc__store_eventual_reads(const store *s)
{
    return s->setting.way == BY_READS;
}

/* Everything is as it will be: what the rules look at is noted. */
htc_status htc__store_eventual_judge(store *s, htc_history_verdict *v)
{
    note_copies(s);
    return htc_history_converged(s->history, NULL, v);
}
