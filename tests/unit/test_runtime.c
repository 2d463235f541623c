/* A role's runtime against a slow model: what is asked goes on once, with the right answer; a crash loses what was under way and
 * nothing else; numbers are given once. The role of these tests does at random what roles do, beside a store of its own. */
#include "expect.h"

#include <string.h>

#include "htcsched/kv_server.h"
#include "htcsched/runtime.h"
#include "htcsched/sim.h"
#include "property.h"

TestSuite(runtime);

enum { TO_STORE = 1, KEYS = 6, VALUES = 512, IDS = 2048, ORDER_MAX = 64, STEPS = 120, ECHO = 7, PAGE = 2 };

/* ---------------------------------------------------------------- the model: it outlives the role */

typedef struct model {
    htc_sim      *sim;
    htc_sim_node *store, *node;
    htc_rng       rng;
    uint64_t      asked[KEYS], acked[KEYS]; /* additions of one */
    uint8_t       told[KEYS][VALUES];       /* these sums were answered */
    uint8_t       given[IDS];
    uint32_t      life;
    uint32_t      under_way, calls; /* continuations of this life that are to come */
    uint32_t      waiting, waited[ORDER_MAX], scans_done, ids_given;
    /* of the role, by its life */
    htc_runtime        *runtime;
    htc_runtime_ids    *ids;
    htc_runtime_waiter *waiters;
    uint32_t            woken;
    uint64_t            watched[KEYS], events; /* as the watch of this life told them last */
} model;

typedef struct adding {
    uint32_t life, n, at, key[3];
} adding;

typedef struct walking {
    uint32_t life, seen;
    uint64_t at_least[KEYS];
    uint8_t  there[KEYS];
    char     last[8];
} walking;

typedef struct calling {
    uint32_t life;
    uint64_t number;
} calling;

static void added(void *role, void *context, const htc_kv_result *r)
{
    model   *m = role;
    adding  *a = context;
    uint32_t key = a->key[a->at];
    HOLDS(a->life == m->life && a->at < a->n && r->status == HTC_OK);
    HOLDS(r->number > 0 && (uint64_t)r->number <= m->asked[key] && !m->told[key][r->number]);
    m->told[key][r->number] = 1;
    m->acked[key]++;
    a->at++;
    HOLDS(r->last == (a->at == a->n));
    if (r->last) {
        m->under_way--;
        htc_runtime_context_free(m->runtime, a);
    }
}

static htc_bytes name_of(uint32_t key, char name[8])
{
    memcpy(name, "c/0", 4);
    name[2] = (char)('0' + key);
    return (htc_bytes){ name, 3 };
}

static void add(model *m)
{
    adding        *a = htc_runtime_context(m->runtime, sizeof *a);
    htc_kv_request q[3];
    char           names[3][8];
    HOLDS(a && a->n == 0 && a->life == 0);
    a->life = m->life;
    a->n = 1 + (uint32_t)htc_rng_below(&m->rng, 3);
    for (uint32_t i = 0; i < a->n; i++) {
        a->key[i] = (uint32_t)htc_rng_below(&m->rng, KEYS);
        q[i] = (htc_kv_request){ .size = sizeof q[i], .op = HTC_KV_ADD, .key = name_of(a->key[i], names[i]), .delta = 1 };
        m->asked[a->key[i]]++;
        HOLDS(m->asked[a->key[i]] < VALUES);
    }
    m->under_way++;
    htc_runtime_ask(m->runtime, q, a->n, added, a);
}

/* Page by page: each key once, in order, with what was answered before the walk at least. */
static void walked(void *role, void *context, const htc_kv_result *r)
{
    model       *m = role;
    walking     *w = context;
    htc_kv_item  item = { 0 };
    HOLDS(w->life == m->life && r->status == HTC_OK && r->last && r->items <= PAGE);
    size_t at = 0;
    while (htc_kv_result_item(r, &at, &item) == HTC_OK) {
        HOLDS(item.key.len == 3 && memcmp(item.key.data, w->last, 3) > 0);
        memcpy(w->last, item.key.data, 3);
        uint32_t key = (uint32_t)(w->last[2] - '0');
        HOLDS(key < KEYS);
        uint64_t value = 0;
        for (size_t i = 0; i < item.value.len; i++)
            value = value * 10 + (uint64_t)(((const char *)item.value.data)[i] - '0');
        HOLDS(value >= w->at_least[key] && value <= m->asked[key]);
        w->there[key] = 1;
    }
    htc_runtime_cursor next = htc_runtime_next_page(m->runtime, r);
    if (next.len) {
        htc_runtime_scan(m->runtime, htc_bytes_of("c/"), &next, PAGE, walked, w);
        return;
    }
    for (uint32_t key = 0; key < KEYS; key++)
        HOLDS(w->there[key] || w->at_least[key] == 0);
    m->under_way--;
    m->scans_done++;
    htc_runtime_context_free(m->runtime, w);
}

static void walk(model *m)
{
    walking *w = htc_runtime_context(m->runtime, sizeof *w);
    HOLDS(w != NULL);
    w->life = m->life;
    memcpy(w->at_least, m->acked, sizeof w->at_least);
    m->under_way++;
    htc_runtime_scan(m->runtime, htc_bytes_of("c/"), NULL, PAGE, walked, w);
}

static void echoed(void *role, void *context, htc_status status, htc_bytes body)
{
    model     *m = role;
    calling   *c = context;
    htc_reader r = htc_reader_of(body);
    HOLDS(c->life == m->life && status == HTC_OK && htc_get_u64(&r) == c->number && htc_reader_done(&r) == HTC_OK);
    m->under_way--;
    htc_runtime_context_free(m->runtime, c);
}

static void call(model *m)
{
    calling *c = htc_runtime_context(m->runtime, sizeof *c);
    htc_buf  b;
    HOLDS(c != NULL);
    htc_buf_init(&b, NULL, 0);
    *c = (calling){ m->life, m->calls++ };
    htc_put_u64(&b, c->number);
    m->under_way++;
    htc_runtime_call(m->runtime, ECHO, htc_buf_bytes(&b), echoed, c);
    htc_buf_free(&b);
}

/* Whatever is added arrives, and no sum that is older than one told. */
static void told(void *role, void *context, const htc_kv_event *e)
{
    model   *m = role;
    uint64_t value = 0;
    HOLDS(context == m && e->kind != HTC_KV_EVENT_ENDED && e->kind != HTC_KV_EVENT_DELETED);
    m->events++;
    if (e->kind != HTC_KV_EVENT_VALUE)
        return;
    uint32_t key = (uint32_t)(((const char *)e->key.data)[2] - '0');
    HOLDS(e->key.len == 3 && key < KEYS);
    for (size_t i = 0; i < e->value.len; i++)
        value = value * 10 + (uint64_t)(((const char *)e->value.data)[i] - '0');
    HOLDS(value >= m->watched[key] && value <= m->asked[key]);
    m->watched[key] = value;
}

static int all_is_told(void *ctx)
{
    const model *m = ctx;
    for (uint32_t key = 0; key < KEYS; key++)
        if (m->watched[key] < m->acked[key])
            return 0;
    return m->under_way == 0;
}

static void draw(model *m)
{
    uint64_t id = htc_runtime_id(m->ids);
    HOLDS(id < IDS && (id == 0 || !m->given[id]));
    m->given[id] = id != 0;
    m->ids_given += id != 0;
}

static void woken(void *role, void *context, htc_status status)
{
    model    *m = role;
    uint32_t *number = context;
    HOLDS(status == HTC_OK && m->woken < m->waiting && m->waited[m->woken] == *number);
    m->woken++;
    htc_runtime_context_free(m->runtime, number);
}

static void wait(model *m)
{
    uint32_t *number = m->waiting < ORDER_MAX ? htc_runtime_context(m->runtime, sizeof *number) : NULL;
    if (!number)
        return;
    *number = m->waited[m->waiting++] = (uint32_t)htc_rng_next(&m->rng);
    htc_runtime_wait(&m->waiters, htc_runtime_waiter_new(m->runtime, woken, number));
}

static void wake(model *m)
{
    htc_runtime_wake(m->runtime, &m->waiters, HTC_OK);
    HOLDS(m->woken == m->waiting && !m->waiters);
    m->woken = m->waiting = 0;
}

/* ---------------------------------------------------------------- the role and its world */

static htc_status role_step(void *self, const htc_input *in, htc_output *out)
{
    model *m = self;
    char   name[8];
    HOLDS(htc_runtime_begin(m->runtime, in, out) == HTC_OK);
    if (in->kind == HTC_IN_START) {
        htc_runtime_ids_reserve(m->ids);
        htc_runtime_watch(m->runtime, htc_bytes_of("c/"), 1, told, m);
    }
    if (in->kind == HTC_IN_EVENT)
        switch (htc_rng_below(&m->rng, 8)) {
        case 0:
        case 1: add(m); break;
        case 2: walk(m); break;
        case 3: call(m); break;
        case 4: draw(m); break;
        case 5: wait(m); break;
        case 6: wake(m); break;
        case 7:
            htc_runtime_put(m->runtime, htc_bytes_of("note"), htc_bytes_of("x"));
            htc_runtime_delete(m->runtime, name_of(KEYS + 1, name));
            break;
        }
    return htc_runtime_end(m->runtime, in);
}

static htc_ns role_deadline(const void *self)
{
    return htc_runtime_deadline(((const model *)self)->runtime);
}

static void dropped(void *role, void *context, htc_status status)
{
    (void)role, (void)context;
    HOLDS(status == HTC_ECLOSED);
}

static void role_destroy(void *self)
{
    model *m = self;
    for (htc_runtime_waiter *none = htc_runtime_waiter_new(m->runtime, dropped, NULL); none;)
        htc_runtime_wake(m->runtime, &none, HTC_ECLOSED);
    while (m->waiters) {
        m->woken = 0;
        htc_runtime_wake(m->runtime, &m->waiters, HTC_OK);
    }
    htc_runtime_destroy(m->runtime);
    m->runtime = NULL;
}

static htc_status role_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, role_step, role_deadline, role_destroy, 0 };
    model                *m = ctx;
    htc_kv_client_options store = { .size = sizeof store, .client_id = 1000 + htc_sim_incarnation(node), .peer = TO_STORE };
    htc_runtime_options   o = { .size = sizeof o, .role = m, .store = &store, .name = "tester" };
    m->life++;
    m->under_way = m->waiting = m->woken = 0;
    memset(m->watched, 0, sizeof m->watched);
    HOLDS(htc_runtime_create(htc_sim_env(node), &o, &m->runtime) == HTC_OK);
    HOLDS(htc_runtime_ids_create(m->runtime, htc_bytes_of("ids"), 5, NULL, NULL, &m->ids) == HTC_OK);
    HOLDS(htc_sim_install(node, &ops, m) == HTC_OK);
    return htc_sim_dial(node, TO_STORE, m->store, NULL);
}

static htc_status role_call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    model *m = ctx;
    HOLDS(effect->op == ECHO);
    return htc_sim_result(node, htc_rng_below(&m->rng, 3 * HTC_SECOND), effect, HTC_OK, effect->body);
}

static htc_status store_boot(void *ctx, htc_sim_node *node)
{
    htc_kv_server_options o = { .size = sizeof o };
    htc_kv_server        *server = NULL;
    (void)ctx;
    HOLDS(htc_kv_server_create(htc_sim_env(node), &o, &server) == HTC_OK);
    return htc_sim_install(node, htc_kv_server_ops(), server);
}

Test(runtime, agrees_with_the_model)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot };
    static const htc_sim_host roles = { .size = sizeof roles, .boot = role_boot, .call = role_call };
    uint64_t scans = 0, ids = 0, lives = 0, events = 0;
    PROPERTY(rng, 1600)
    {
        model                m = { .rng = htc_rng_fork(&rng, "role") };
        htc_sim_options      o = { .size = sizeof o, .seed = htc_rng_next(&rng) };
        htc_sim_node_options s = { .size = sizeof s, .name = "store", .host = &stores }, r = { .size = sizeof r, .name = "role", .host = &roles, .ctx = &m };
        HOLDS(htc_sim_create(NULL, &o, &m.sim) == HTC_OK);
        HOLDS(htc_sim_add(m.sim, &s, &m.store) == HTC_OK && htc_sim_boot(m.store) == HTC_OK);
        HOLDS(htc_sim_add(m.sim, &r, &m.node) == HTC_OK && htc_sim_boot(m.node) == HTC_OK);
        for (int i = 0; i < STEPS; i++) {
            HOLDS(htc_sim_event(m.node, htc_rng_below(&rng, HTC_SECOND), 1, HTC_OK, htc_bytes_of("")) == HTC_OK);
            if (htc_rng_below(&rng, 20) == 0)
                htc_sim_break(m.node, m.store);
            if (htc_rng_below(&rng, 40) == 0) {
                HOLDS(htc_sim_crash(m.node) == HTC_OK && htc_sim_boot(m.node) == HTC_OK);
            }
            HOLDS(htc_sim_run(m.sim, htc_rng_below(&rng, HTC_SECOND)) == HTC_OK);
        }
        HOLDS(htc_sim_run(m.sim, HTC_SECOND) == HTC_OK);
        HOLDS(htc_sim_settle(m.sim, 600 * HTC_SECOND, "all is answered, and told", all_is_told, &m) == HTC_OK);
        scans += m.scans_done;
        ids += m.ids_given;
        lives += m.life;
        events += m.events;
        htc_sim_destroy(m.sim);
    }
    cr_expect(scans > 100 && ids > 100 && lives > 200 && events > 1000, "%lu scans, %lu ids, %lu lives, %lu events", scans, ids, lives, events);
}

/* ---------------------------------------------------------------- what breaks it */

static void never(void *role, void *context, htc_status status, htc_bytes body)
{
    (void)context, (void)status, (void)body;
    ++*(int *)role;
}

/* The first failure stays, and nothing goes on after it. */
Test(runtime, nothing_goes_on_when_it_is_broken)
{
    int                 went_on = 0;
    htc_runtime_options o = { .size = sizeof o, .role = &went_on };
    htc_runtime        *r = NULL;
    htc_output         *out = NULL;
    htc_input           in = { .size = sizeof in, .kind = HTC_IN_EVENT };
    htc_buf             small;
    htc_effect          effect;
    cr_assert(htc_runtime_create(NULL, &o, &r) == HTC_OK && htc_output_create(NULL, 0, &out) == HTC_OK);
    cr_expect(htc_runtime_deadline(r) == HTC_NEVER && htc_runtime_pending(r) == 0 && !htc_runtime_connected(r));
    cr_expect(htc_runtime_begin(r, &in, out) == HTC_OK);
    htc_runtime_call(r, 1, htc_bytes_of("a"), never, NULL);
    htc_buf_init(&small, NULL, 2);
    htc_put_u64(&small, 1);
    htc_runtime_send(r, 0, &small);
    cr_expect(htc_runtime_status(r) == HTC_OK, "to nobody");
    htc_runtime_send(r, 3, &small);
    htc_runtime_break(r, HTC_EPROTO, "more");
    cr_expect(htc_runtime_end(r, &in) == HTC_EFULL && htc_runtime_status(r) == HTC_EFULL && htc_output_count(out) == 1);
    cr_assert(htc_output_get(out, 0, &effect) == HTC_OK && effect.kind == HTC_OUT_CALL);
    in.kind = HTC_IN_RESULT;
    in.op = effect.op;
    in.tag = effect.tag;
    cr_expect(htc_runtime_begin(r, &in, out) == HTC_EFULL && htc_runtime_end(r, &in) == HTC_EFULL && went_on == 0);
    htc_buf_free(&small);
    htc_output_destroy(out);
    htc_runtime_destroy(r);
    htc_runtime_destroy(NULL);
}

/* A call without a continuation has tag 0; an answer that nobody waits for, or comes twice, is nobody's. */
Test(runtime, an_answer_goes_on_once)
{
    int                 went_on = 0;
    htc_runtime_options o = { .size = sizeof o, .role = &went_on };
    htc_runtime        *r = NULL;
    htc_output         *out = NULL;
    htc_input           in = { .size = sizeof in, .kind = HTC_IN_EVENT };
    htc_effect          first, second;
    cr_assert(htc_runtime_create(NULL, &o, &r) == HTC_OK && htc_output_create(NULL, 0, &out) == HTC_OK);
    htc_runtime_begin(r, &in, out);
    htc_runtime_call(r, 1, htc_bytes_of("a"), NULL, NULL);
    htc_runtime_call(r, 2, htc_bytes_of("b"), never, NULL);
    htc_runtime_close(r, 5, HTC_EPROTO);
    htc_runtime_stop(r, HTC_OK);
    cr_assert(htc_runtime_end(r, &in) == HTC_OK && htc_output_count(out) == 4);
    cr_assert(htc_output_get(out, 0, &first) == HTC_OK && htc_output_get(out, 1, &second) == HTC_OK);
    cr_expect(first.tag == 0 && second.tag != 0);
    in.kind = HTC_IN_RESULT;
    for (uint64_t i = 0; i < 3; i++) {
        in.tag = i == 0 ? second.tag + 1 : second.tag;
        htc_runtime_begin(r, &in, out);
        cr_expect(htc_runtime_end(r, &in) == HTC_OK && went_on == (i > 0), "answer %lu", i);
    }
    htc_output_destroy(out);
    htc_runtime_destroy(r);
}

Test(runtime, refuses_what_it_cannot_use)
{
    htc_runtime          *r = NULL;
    htc_runtime_ids      *ids = NULL;
    htc_runtime_options   o = { .size = sizeof o };
    htc_kv_client_options store = { .size = sizeof store, .peer = 1 };
    cr_expect(htc_runtime_create(NULL, NULL, &r) == HTC_EINVAL && htc_runtime_create(NULL, &o, NULL) == HTC_EINVAL);
    o.size = sizeof o.size;
    cr_expect(htc_runtime_create(NULL, &o, &r) == HTC_EINVAL, "too short");
    o.size = sizeof o;
    o.store = &store;
    cr_expect(htc_runtime_create(NULL, &o, &r) == HTC_EINVAL, "a client without an id");
    o.store = NULL;
    cr_assert(htc_runtime_create(NULL, &o, &r) == HTC_OK);
    cr_expect(htc_runtime_ids_create(r, htc_bytes_of("k"), 5, NULL, NULL, &ids) == HTC_EINVAL, "without a store");
    htc_runtime_destroy(r);
}

/* ---------------------------------------------------------------- records */

Test(runtime, a_record_begins_with_its_format)
{
    htc_buf    b;
    htc_reader r;
    htc_buf_init(&b, NULL, 0);
    htc_put_str(&b, "what was there before");
    htc_runtime_record_begin(&b, 3);
    htc_put_u32(&b, 77);
    for (uint8_t oldest = 1; oldest <= 5; oldest++)
        for (uint8_t newest = oldest; newest <= 5; newest++) {
            uint8_t format = htc_runtime_record_open(htc_buf_bytes(&b), oldest, newest, &r);
            cr_expect(format == (oldest <= 3 && newest >= 3 ? 3 : 0), "%d to %d", oldest, newest);
            cr_expect(htc_get_u32(&r) == (format ? 77 : 0) && htc_runtime_record_end(&r) == (format ? HTC_OK : HTC_ECORRUPT));
        }
    htc_runtime_record_open(htc_buf_bytes(&b), 3, 3, &r);
    cr_expect(htc_runtime_record_end(&r) == HTC_ECORRUPT, "something is left");
    cr_expect(htc_runtime_record_open((htc_bytes){ NULL, 0 }, 1, 9, &r) == 0 && htc_runtime_record_end(&r) == HTC_ECORRUPT);
    cr_expect(htc_runtime_record_open((htc_bytes){ "", 1 }, 0, 9, &r) == 0, "format 0 is none");
    htc_buf_free(&b);
}
