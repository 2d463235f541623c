/* A store with eventual namespaces in a world of whole members (cluster_world.h): clients put, delete and get by any of them, with the context of
 * their last get, an older one or none. In the end what the owners hold is noted, and judged with all that was acknowledged. */
#ifndef HTC_TESTS_EVENTUAL_WORLD_H
#define HTC_TESTS_EVENTUAL_WORLD_H

#include "cluster_world.h"
#include "kvs/eventual/hinted_handoff.h"
#include "kvs/cell/record.h"
#include "openmetrics.h"

static world w;

static const faults calm = { 0 };

#define SPACE "e"

static const char *const names[KEYS] = { "one", "two", "three" }; /* as in the history */

/* What each user knows of each key: the context of its last get. */
typedef struct knows {
    uint8_t bytes[HTC_KV_CONTEXT_MAX];
    size_t  len;
} knows;

static knows         seen[CLIENTS][KEYS];
static int           asks_for[CLIENTS];
static htc__siblings set;

/* Where R + W > N: what was acknowledged before a get was asked for, its answer knows. */
static struct acknowledged {
    uint64_t member, counter;
} acknowledged[KEYS][1000];
static size_t acknowledged_n[KEYS], before_get[CLIENTS];
static int    reads_judged, stale_reads;
static int    corrupt_at_times; /* some member may have damaged records, and says so */

static inline htc_kv_request request(uint32_t op, const char *key, const char *value)
{
    return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .space = htc_bytes_of(SPACE), .key = htc_bytes_of(key), .value = htc_bytes_of(value)
    };
}

/* Comparing and forgetting is for those tests that wait for it. */
static inline void open_space_growing(uint64_t seed, int nodes, int first, faults f, htc_ns compare_ns, htc_ns deleted_ns, uint32_t answers)
{
    open_growing(&w, seed, nodes, first, 1, f);
    memset(seen, 0, sizeof seen);
    memset(acknowledged_n, 0, sizeof acknowledged_n);
    reads_judged = stale_reads = 0;
    w.spaces[0] = (htc_kv_namespace){ .size = sizeof(htc_kv_namespace), .name = htc_bytes_of("other"), .r = 1, .w = 1 };
    w.spaces[1] = (htc_kv_namespace){ .size = sizeof(htc_kv_namespace), .name = htc_bytes_of(SPACE), .r = answers, .w = answers };
    w.space_count = 2;
    w.compare_ns = compare_ns;
    w.deleted_ns = deleted_ns;
    for (int n = 0; n < first; n++) {
        crash(&w, n, HTC_NEVER);
        start(&w, n);
    }
    for (int u = 0; u < CLIENTS; u++)
        w.user[u].by_hand = 1;
}

static inline void open_space_of(uint64_t seed, int nodes, faults f, htc_ns compare_ns, htc_ns deleted_ns, uint32_t answers)
{
    open_space_growing(seed, nodes, nodes, f, compare_ns, deleted_ns, answers);
}

static inline void open_space(uint64_t seed, int nodes, faults f, htc_ns compare_ns, htc_ns deleted_ns)
{
    open_space_of(seed, nodes, f, compare_ns, deleted_ns, 0);
}

/* ---------------------------------------------------------------- what members hold */

/* 1: member n holds a record of the key; it is in set, which borrows it. */
static inline int held(int n, const char *key)
{
    char         full[64];
    htc_bytes    bytes;
    size_t       len = (size_t)snprintf(full, sizeof full, "%s%c%s", SPACE, 0, key);
    htc__kv_name name = htc__kv_name_of('n', NULL, (htc_bytes){ full, len });
    if (w.node[n].engine.ops->get(w.node[n].engine.ctx, htc__kv_name_bytes(&name), &bytes) != HTC_OK)
        return 0;
    HOLDS(htc__kv_unseal(bytes, htc__kv_name_bytes(&name), &bytes) == HTC_OK);
    HOLDS(bytes.len > 1 && ((const uint8_t *)bytes.data)[0] == HTC__KV_EVENTUAL_FORMAT);
    HOLDS(htc__siblings_read((htc_bytes){ (const uint8_t *)bytes.data + 1, bytes.len - 1 }, &set) == HTC_OK);
    return 1;
}

static inline int owns(int n, const char *key)
{
    char     full[64];
    size_t   len = (size_t)snprintf(full, sizeof full, "%s%c%s", SPACE, 0, key);
    uint64_t owner[HTC_RING_OWNERS_MAX];
    if (!w.node[n].server || w.node[n].outside)
        return 0;
    uint32_t mine, owners = htc__kv_space_owners(w.node[n].server, (htc_bytes){ full, len }, owner, &mine);
    return mine < owners;
}

static inline uint32_t clock_of(const htc__siblings *s)
{
    htc_history_tick ticks[HTC__SIBLINGS_LINES];
    uint32_t         clock;
    for (uint32_t i = 0; i < s->lines; i++)
        ticks[i] = (htc_history_tick){ s->line[i].member, s->line[i].counter };
    HOLDS(htc_history_clock(w.history, ticks, s->lines, &clock) == HTC_OK);
    return clock;
}

static inline htc_history_value value_of(htc_bytes value, int deleted)
{
    return deleted ? (htc_history_value){ 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER } : htc_history_value_of(value);
}

/* The final state of a key at each of its owners. */
static inline void note_finals(int k)
{
    for (int n = 0; n < w.nodes; n++) {
        htc_history_op op = HTC_HISTORY_OP_INIT;
        const char    *name = names[k];
        if (!owns(n, name))
            continue;
        op.kind = HTC_HISTORY_SIBLING;
        op.flags = HTC_HISTORY_FINAL;
        op.key = w.key[k];
        op.process = 100 + (uint64_t)n;
        op.invoked = op.returned = w.now;
        op.outcome = HTC_HISTORY_MISSED;
        if (!held(n, name)) {
            HOLDS(htc_history_add(w.history, &op, NULL) == HTC_OK);
            continue;
        }
        op.outcome = HTC_HISTORY_DONE;
        op.clock = clock_of(&set);
        for (uint32_t l = 0; l < set.lines; l++)
            for (uint32_t i = 0; i < set.line[l].count; i++) {
                const htc__sibling *v = &set.value[set.line[l].first + i];
                op.expected = set.line[l].member;
                op.version = set.line[l].counter - i;
                op.observed = value_of(v->value, v->deleted);
                HOLDS(htc_history_add(w.history, &op, NULL) == HTC_OK);
            }
    }
}

/* What all members show to monitors of this, together. */
static inline uint64_t counted(const char *name)
{
    uint64_t sum = 0;
    for (int n = 0; n < w.nodes; n++) {
        htc_metrics *m;
        htc_bytes    text;
        om           t;
        if (!w.node[n].server)
            continue;
        HOLDS(htc_metrics_create(NULL, 64 << 10, &m) == HTC_OK);
        htc_kv_server_metrics(w.node[n].server, m);
        HOLDS(htc_metrics_end(m, &text) == HTC_OK);
        cr_assert(om_read(&t, text), "line %zu: %s", t.line, t.wrong);
        sum += om_number(&t, name);
        om_free(&t);
        htc_metrics_destroy(m);
    }
    return sum;
}

/* ---------------------------------------------------------------- users */

static inline void note_acknowledged(int k, const htc_kv_result *r)
{
    if (acknowledged_n[k] < sizeof acknowledged[k] / sizeof *acknowledged[k])
        acknowledged[k][acknowledged_n[k]++] = (struct acknowledged){ r->member, r->version };
}

static inline void judge_read(int k, size_t n, htc_bytes context)
{
    HOLDS(htc__siblings_read(context, &set) == HTC_OK);
    for (size_t i = 0; i < n; i++) {
        int knows_it = 0;
        for (uint32_t l = 0; l < set.lines; l++)
            knows_it |= set.line[l].member == acknowledged[k][i].member && set.line[l].counter >= acknowledged[k][i].counter;
        if (!knows_it)
            stale_reads++;
    }
}

static inline void ask_something(int u)
{
    char           text[24];
    int            k = asks_for[u] = (int)htc_rng_below(&w.rng, KEYS);
    unsigned       kind = (unsigned)htc_rng_below(&w.rng, 10);
    htc_history_op op = HTC_HISTORY_OP_INIT;
    snprintf(text, sizeof text, "v%d", ++w.asked);
    htc_kv_request q = request(kind < 4   ? HTC_KV_GET
                               : kind < 9 ? HTC_KV_PUT
                                          : HTC_KV_DELETE,
                               names[k], kind < 9 && kind >= 4 ? text : "");
    if (kind >= 4) {
        if (chance(&w, 5, 6))
            q.context = (htc_bytes){ seen[u][k].bytes, seen[u][k].len };
        op.kind = HTC_HISTORY_WRITE;
        op.key = w.key[k];
        op.process = (uint64_t)u;
        op.invoked = w.now;
        op.argument = value_of(q.value, q.op == HTC_KV_DELETE);
        HOLDS(htc__siblings_read(q.context, &set) == HTC_OK);
        op.clock = clock_of(&set);
        HOLDS(htc_history_add(w.history, &op, &w.user[u].asked) == HTC_OK);
    }
    before_get[u] = acknowledged_n[k];
    w.user[u].pending = 1;
    HOLDS(htc_kv_client_submit(w.user[u].client, w.now, &q, 1, 7, w.out) == HTC_OK);
    carry_out(&w, NODES + u);
}

static inline void know(int u, int k, htc_bytes context)
{
    HOLDS(context.len <= sizeof seen[u][k].bytes);
    if (context.len)
        memcpy(seen[u][k].bytes, context.data, context.len);
    seen[u][k].len = context.len;
}

static inline void note_answer(int u)
{
    htc_kv_result  r = { .size = sizeof r };
    htc_history_op op = HTC_HISTORY_OP_INIT;
    if (!htc_kv_client_next(w.user[u].client, &r))
        return;
    HOLDS(w.user[u].pending);
    w.user[u].pending = 0;
    w.answered++;
    if (r.status == HTC_ETIMEDOUT || (r.status == HTC_ECORRUPT && corrupt_at_times))
        return; /* it may have been done, or may still be */
    if (r.status == HTC_EBUSY && w.narrow)
        return;
    w.done++;
    cr_assert(r.status == HTC_OK || (r.op == HTC_KV_GET && r.status == HTC_ENOTFOUND) ||
                  (r.op != HTC_KV_GET && r.status == HTC_ECONFLICT),
              "seed %llu: %s", (unsigned long long)property_seed, htc_status_name(r.status));
    if (r.op == HTC_KV_GET) {
        if (reads_judged)
            judge_read(asks_for[u], before_get[u], r.context);
        know(u, asks_for[u], r.context);
        return;
    }
    if (r.status == HTC_OK)
        note_acknowledged(asks_for[u], &r);
    if (r.context.len && chance(&w, 1, 2))
        know(u, asks_for[u], r.context);
    op.outcome = r.status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_REFUSED;
    op.returned = w.now;
    op.expected = r.member;
    op.version = r.version;
    HOLDS(htc_history_answer(w.history, w.user[u].asked, &op) == HTC_OK);
    /* Its client may have repeated it, to another member: whether that was done as well is not known. */
    op = *htc_history_at(w.history, w.user[u].asked);
    op.outcome = HTC_HISTORY_UNKNOWN;
    op.returned = HTC_NEVER;
    op.expected = op.version = 0;
    HOLDS(htc_history_add(w.history, &op, NULL) == HTC_OK);
}

/* Everybody asks until `asked` were, or for so long. */
static inline void live(int asked, htc_ns until)
{
    while (w.now < until) {
        int busy = 0;
        for (int u = 0; u < CLIENTS; u++) {
            if (!w.user[u].pending && w.asked < asked && chance(&w, 1, 4))
                ask_something(u);
            busy += w.user[u].pending;
        }
        if (!busy && w.asked >= asked)
            return;
        turn(&w);
        for (int u = 0; u < CLIENTS; u++)
            note_answer(u);
    }
}

static inline void heal(htc_ns settle)
{
    w.no_faults = 1;
    w.f = calm;
    memset(w.apart, 0, sizeof w.apart);
    w.heal_at = HTC_NEVER;
    run_until(&w, w.now + HTC_SECOND);
    live(w.asked, w.now + 10 * HTC_SECOND);
    HOLDS(w.asked == w.answered);
    run_until(&w, w.now + settle);
}

static inline htc_kv_result ask_now(int u, htc_kv_request q)
{
    htc_kv_result r = ask_one(&w, u, &q);
    w.user[u].by_hand = 1;
    return r;
}

static inline htc_history_verdict judged(void)
{
    htc_history_verdict v;
    for (int n = 0; n < w.nodes; n++) {
        const htc__kv_eventual *e = w.node[n].server ? w.node[n].server->cluster->eventual : NULL;
        HOLDS(e == NULL || e->seeking.count || e->held_bytes == 0);
    }
    for (int k = 0; k < KEYS; k++)
        note_finals(k);
    HOLDS(htc_history_converged(w.history, NULL, &v) == HTC_OK);
    if (v.answer != HTC_HISTORY_HOLDS && getenv("HTC_TEST_TRACE")) {
        static char line[HTC_HISTORY_LINE_MAX];
        for (size_t i = 0; i < htc_history_count(w.history); i++)
            if (htc_history_at(w.history, i)->key == v.key) {
                htc_history_line(w.history, i, line, sizeof line);
                fprintf(stderr, "#%zu %s", i, line);
            }
    }
    return v;
}

#endif
