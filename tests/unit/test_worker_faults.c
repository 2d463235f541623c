/* A worker whose surroundings are not as they should be: a store that answers with any status, records that nobody wrote, messages of
 * any kind, memory that is refused. No assertion fails; it ends, or goes on, and what was promised holds. */
#include "expect.h"

#include <string.h>

#include "property.h"
#include "worker_rig.h"

TestSuite(worker_faults);

enum { TASKS = 6 };

static void put_flow(rig *r, int graph)
{
    if (graph >= 4)
        rig_put_adder_of(r, TASKS, graph == 5);
    else if (graph >= 2)
        rig_put_files(r, TASKS, graph == 3);
    else if (graph)
        rig_put_chain(r, TASKS);
    else
        rig_put_bag(r, TASKS);
}

enum { KINDS = 6, ADDED = 3 }; /* a bag, a chain, a chain of files, one of which the first file is lost, tasks of which one adds others, functions likewise */

static void start(rig *r, uint64_t client_id, alloc_fail *f)
{
    htc_worker_options o = rig_options();
    if (r->worker)
        rig_end(r, &r->worker);
    o.store_client_id = client_id;
    rig_start(r, &o, f);
}

static int has_ended_well(rig *r)
{
    flow f;
    return rig_get_header(r, &f) && f.state == FLOW_ENDED && f.counts.done == f.tasks && f.tasks == (f.adds ? TASKS + ADDED : TASKS) && f.counts.failed == 0 && f.counts.cancelled == 0;
}

/* Workers that come back when they have ended, until the flow has. */
static int finish(rig *r, int lives)
{
    for (int i = 0; i < lives; i++) {
        start(r, htc_rng_next(&r->rng) | 1, NULL);
        rig_pass(r, 200 * HTC_SECOND);
        if (has_ended_well(r))
            return 1;
    }
    return 0;
}

/* ---- a store that answers so ---- */

typedef struct one_answer {
    uint32_t   at, seen;
    htc_status status;
} one_answer;

static htc_status this_one(void *ctx, uint32_t i, htc_status status)
{
    one_answer *o = ctx;
    (void)i;
    return o->seen++ == o->at ? o->status : status;
}

/* After these nothing is known of what was asked, and after HTC_AGAIN the client asks again, so that of several answers one comes later than
 * the rest: each single answer in turn, and the flow ends as if there had been none. */
Test(worker_faults, any_one_answer_may_be_none)
{
    static const htc_status all[] = { HTC_EUNKNOWN, HTC_ENOSPC, HTC_EFULL, HTC_ETIMEDOUT, HTC_AGAIN };
    for (size_t s = 0; s < sizeof all / sizeof *all; s++)
        for (int graph = 0; graph < KINDS; graph++) {
            one_answer o = { .status = all[s] };
            for (o.at = o.seen = 0; o.at <= o.seen; o.at++) {
                rig r;
                rig_open(&r, 3);
                put_flow(&r, graph);
                o.seen = 0;
                r.answers = this_one;
                r.ctx = &o;
                start(&r, 4712, NULL);
                rig_pass(&r, 100 * HTC_SECOND);
                cr_assert(r.ended && r.status == HTC_OK && has_ended_well(&r), "answer %u is %s: %d, %s", o.at, htc_status_name(o.status), r.ended,
                          htc_status_name(r.status));
                rig_close(&r);
            }
            cr_expect(o.seen > 8);
        }
}

typedef struct some_answers {
    htc_rng  rng;
    uint32_t one_in;
    int      any;
} some_answers;

static htc_status some(void *ctx, uint32_t i, htc_status status)
{
    static const htc_status all[] = { HTC_EUNKNOWN, HTC_ENOSPC,  HTC_EFULL,   HTC_ETIMEDOUT, HTC_ENOTFOUND,    HTC_MISMATCH, HTC_ENOMEM,
                                      HTC_EINVAL,   HTC_ETOOBIG, HTC_ECORRUPT, HTC_EIO,      HTC_EUNSUPPORTED, HTC_EEXISTS };
    some_answers *s = ctx;
    (void)i;
    if (!s->one_in || htc_rng_below(&s->rng, s->one_in))
        return status;
    return all[htc_rng_below(&s->rng, s->any ? sizeof all / sizeof *all : 4)];
}

/* A tenth of the answers to half of them, for a while; and then none. */
Test(worker_faults, many_answers_may_be_none)
{
    PROPERTY (rng, 150) {
        rig          r;
        some_answers s = { .rng = htc_rng_fork(&rng, "answers"), .one_in = 2 + (uint32_t)htc_rng_below(&rng, 9) };
        rig_open(&r, htc_rng_next(&rng));
        put_flow(&r, (int)htc_rng_below(&rng, KINDS));
        r.answers = some;
        r.ctx = &s;
        start(&r, 4712, NULL);
        rig_pass(&r, htc_rng_below(&rng, 20 * HTC_SECOND));
        s.one_in = 0;
        rig_pass(&r, 200 * HTC_SECOND);
        HOLDS(r.ended && r.status == HTC_OK && has_ended_well(&r));
        rig_close(&r);
    }
}

/* A store that says what is not so may stop a flow; it does not make it count what has not ended, and a worker does not fall over it. */
Test(worker_faults, no_answer_is_too_wrong)
{
    PROPERTY (rng, 300) {
        rig          r;
        flow         f;
        some_answers s = { .rng = htc_rng_fork(&rng, "answers"), .one_in = 2 + (uint32_t)htc_rng_below(&rng, 20), .any = 1 };
        rig_open(&r, htc_rng_next(&rng));
        put_flow(&r, (int)htc_rng_below(&rng, KINDS));
        r.answers = some;
        r.ctx = &s;
        for (uint64_t life = 1; life < 4; life++) {
            start(&r, life, NULL);
            rig_pass(&r, 20 * HTC_SECOND);
        }
        HOLDS(rig_get_header(&r, &f) && f.counts.done + f.counts.failed + f.counts.cancelled <= f.tasks);
        rig_close(&r);
    }
}

static htc_status but_the_first(void *ctx, uint32_t i, htc_status status)
{
    uint32_t *seen = ctx;
    (void)i;
    return (*seen)++ == 0 ? status : HTC_ENOSPC;
}

/* It has a lease, and the store refuses its key. */
Test(worker_faults, one_that_cannot_enrol_can_leave)
{
    rig      r;
    uint32_t seen = 0;
    rig_open(&r, 3);
    put_flow(&r, 0);
    r.answers = but_the_first;
    r.ctx = &seen;
    start(&r, 4712, NULL);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_assert(!r.ended && seen > 3 && r.asked[HTC_CALL_RUN] == 0);
    rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN });
    rig_pass(&r, HTC_SECOND);
    cr_expect(r.ended && r.status == HTC_OK);
    rig_close(&r);
}

/* ---- memory ---- */

static void without_memory(alloc_fail *f, int graph)
{
    rig r;
    rig_open(&r, 3);
    put_flow(&r, graph);
    start(&r, 4712, f);
    rig_pass(&r, 20 * HTC_SECOND);
    cr_assert(f->refused == 0 || !r.ended || r.status == HTC_ENOMEM || r.status == HTC_OK, "allocation %zu refused: %s", f->fail_at,
              htc_status_name(r.status));
    cr_assert(f->refused || has_ended_well(&r));
    if (r.worker)
        rig_end(&r, &r.worker);
    cr_assert(f->live == 0 && f->wrong_sizes == 0, "allocation %zu refused: %zu pieces left", f->fail_at, f->live);
    cr_assert(has_ended_well(&r) || finish(&r, 1), "allocation %zu refused: the next worker does not end the flow", f->fail_at);
    rig_close(&r);
}

Test(worker_faults, memory_may_be_refused_at_any_step)
{
    for (int graph = 0; graph < KINDS; graph++) {
        ALLOC_FAIL_EVERY (f, 5000)
            without_memory(&f, graph);
        ALLOC_FAIL_ONCE (f, 5000)
            without_memory(&f, graph);
    }
}

/* ---- records that nobody wrote ---- */

typedef enum record { HEADER, LEDGER, TASK, MEMBER, COLLECTOR, RECORDS } record;

static flow_key key_of(record what)
{
    switch (what) {
    case HEADER: return htc__flow_key_header(RIG_FLOW);
    case LEDGER: return htc__flow_key_ledger(RIG_FLOW, 0);
    case TASK: return htc__flow_key_task(RIG_FLOW, 2);
    case MEMBER: return htc__flow_key_worker(RIG_FLOW, 2);
    default: return htc__flow_key_collector(RIG_FLOW);
    }
}

static int errors;

static void count_errors(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)text;
    errors += level <= HTC_LOG_WARN;
}

static void with_record(record what, int graph, htc_bytes value, rig *r)
{
    static const htc_log log = { .write = count_errors, .level = HTC_LOG_WARN };
    htc_worker_options   o = rig_options();
    flow_key             k = key_of(what);
    rig_open(r, 3);
    put_flow(r, graph);
    rig_put(r, &k, value);
    errors = 0;
    r->worker_env = (htc_env){ .size = sizeof r->worker_env, .rng = &r->worker_rng, .log = &log };
    cr_assert(htc_worker_create(&r->worker_env, &o, &r->worker) == HTC_OK);
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_START });
    rig_connect(r, RIG_STORE);
    rig_pass(r, 40 * HTC_SECOND);
}

/* It is told: by the status, or by a line. A member that cannot be read is none. */
Test(worker_faults, a_corrupt_record_is_told)
{
    for (int graph = 0; graph < 2; graph++)
        for (record what = HEADER; what < RECORDS; what++) {
            rig r;
            if (what == TASK && !graph)
                continue;
            with_record(what, graph, htc_bytes_of("no such record"), &r);
            if (what == MEMBER)
                cr_expect(r.ended && r.status == HTC_OK && has_ended_well(&r));
            else if (what == LEDGER)
                cr_expect(!r.ended && errors > 0 && errors < 5);
            else
                cr_expect(r.ended && r.status == HTC_ECORRUPT, "record %d: %s", (int)what, htc_status_name(r.status));
            rig_close(&r);
        }
}

/* Records that can be read, of things that cannot be. */
Test(worker_faults, a_ledger_of_tasks_that_the_flow_has_not_is_corrupt)
{
    static const ledger_span beyond[] = { { 0, TASKS + 1 }, { 0, UINT64_MAX }, { UINT64_MAX - 1, UINT64_MAX }, { TASKS, TASKS + 2 } };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond * 2; i++) {
        rig     r;
        ledger  l;
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc__ledger_init(&l, beyond[i / 2]);
        htc__ledger_write(&b, &l);
        with_record(LEDGER, i % 2, htc_buf_bytes(&b), &r);
        cr_expect(!r.ended && errors > 0 && r.asked[HTC_CALL_RUN] == 0);
        htc_buf_free(&b);
        rig_close(&r);
    }
}

Test(worker_faults, a_flow_that_has_become_another_one_is_corrupt)
{
    for (int other = 0; other < 3; other++) {
        rig r;
        rig_open(&r, 3);
        r.left = 1;
        put_flow(&r, 0);
        start(&r, 4712, NULL);
        rig_pass(&r, HTC_SECOND);
        rig_put_header(&r, FLOW_RUNNING, other == 1 ? FLOW_GRAPH : FLOW_BAG, other == 2 ? TASKS + 1 : TASKS);
        rig_pass(&r, HTC_SECOND);
        cr_expect(other ? r.ended && r.status == HTC_ECORRUPT : !r.ended);
        rig_close(&r);
    }
}

static htc_bytes stored(rig *r, record what, uint8_t *copy, size_t room)
{
    flow_key      k = key_of(what);
    htc_kv_result result = { 0 };
    if (rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) != HTC_OK ||
        result.value.len > room)
        return (htc_bytes){ copy, 0 };
    memcpy(copy, result.value.data, result.value.len);
    return (htc_bytes){ copy, result.value.len };
}

/* Good ones with a byte changed, cut off, or behind them: mostly they are refused, and what can be read is lived with. */
Test(worker_faults, no_record_is_too_wrong)
{
    PROPERTY (rng, 300) {
        rig       r;
        uint8_t   bytes[4096];
        int       graph = (int)htc_rng_below(&rng, 2);
        record    what = (record)htc_rng_below(&rng, MEMBER);
        flow_key  k = key_of(what);
        rig_open(&r, htc_rng_next(&rng));
        put_flow(&r, graph);
        htc_bytes good = stored(&r, what, bytes, sizeof bytes - 1);
        size_t    len = good.len;
        if (htc_rng_below(&rng, 3) == 0)
            len = htc_rng_below(&rng, good.len + 2);
        for (uint64_t i = htc_rng_below(&rng, 3); len && i > 0; i--)
            bytes[htc_rng_below(&rng, len)] ^= (uint8_t)(1 + htc_rng_below(&rng, 255));
        if (htc_rng_below(&rng, 2)) { /* under a worker that runs */
            r.left = 1;
            start(&r, 4712, NULL);
            rig_pass(&r, HTC_SECOND);
            rig_put(&r, &k, (htc_bytes){ bytes, len });
            r.left = 0;
        } else {
            rig_put(&r, &k, (htc_bytes){ bytes, len });
            start(&r, 4712, NULL);
        }
        rig_pass(&r, 70 * HTC_SECOND);
        HOLDS(!r.ended || r.status == HTC_OK || r.status == HTC_ECORRUPT);
        rig_close(&r);
    }
}

/* ---- messages ---- */

static uint64_t any_number(htc_rng *rng)
{
    switch (htc_rng_below(rng, 4)) {
    case 0: return htc_rng_below(rng, 4);
    case 1: return htc_rng_below(rng, TASKS * 4);
    case 2: return UINT64_MAX - htc_rng_below(rng, 3);
    default: return htc_rng_next(rng) >> htc_rng_below(rng, 64);
    }
}

static const uint16_t believed[] = { HTC_WIRE_WORKER_ACCEPTED, HTC_WIRE_WORKER_CLEARED, HTC_WIRE_WORKER_COUNTS };

static int is_believed(uint16_t type)
{
    for (size_t i = 0; i < sizeof believed / sizeof *believed; i++)
        if (believed[i] == type)
            return 1;
    return 0;
}

/* Of any kind, with any numbers, of a member or of nobody, of this flow or another one. Without those in which members are believed the flow
 * ends as if nothing had been said. */
Test(worker_faults, no_message_is_too_wrong)
{
    PROPERTY (rng, 300) {
        rig      r;
        ledger   l;
        flow_key other = htc__flow_key_worker(RIG_FLOW, 2);
        int      lies = (int)htc_rng_below(&rng, 2), graph = (int)htc_rng_below(&rng, 2);
        rig_open(&r, htc_rng_next(&rng));
        r.left = 1;
        put_flow(&r, graph);
        htc__ledger_init(&l, (ledger_span){ 0, 0 });
        htc__ledger_take(&l, 2, 99);
        rig_put_ledger(&r, 1, &l); /* the other worker's */
        start(&r, 4712, NULL);
        uint32_t peer = rig_other_worker(&r, 2, 99);
        rig_pass(&r, HTC_SECOND);
        for (int i = 0; i < 60; i++) {
            uint16_t type = (uint16_t)(HTC_WIRE_WORKER_LOAD_ASK + htc_rng_below(&rng, HTC_WIRE_WORKER_COUNTED - HTC_WIRE_WORKER_LOAD_ASK + 2));
            if (is_believed(type) && !lies)
                continue;
            rig_say(&r, htc_rng_below(&rng, 4) ? peer : 77, type,
                    (worker_message){ .flow = htc_rng_below(&rng, 6) ? RIG_FLOW : any_number(&rng), .seq = any_number(&rng), .tasks = any_number(&rng),
                                      .from = any_number(&rng), .note = any_number(&rng), .to = any_number(&rng) });
            rig_pass(&r, htc_rng_below(&rng, 300 * HTC_MS));
        }
        r.left = 0;
        rig_delete(&r, &other); /* gone: what it was given is taken over */
        HOLDS(lies || finish(&r, 1));
        rig_close(&r);
    }
}

/* Bytes that are no message of a worker are passed over. */
Test(worker_faults, bytes_that_are_no_message_are_passed_over)
{
    PROPERTY (rng, 200) {
        rig     r;
        uint8_t bytes[64];
        rig_open(&r, htc_rng_next(&rng));
        r.left = 1;
        put_flow(&r, 0);
        start(&r, 4712, NULL);
        uint32_t peer = rig_other_worker(&r, 2, 99);
        for (int i = 0; i < 20; i++) {
            size_t len = htc_rng_below(&rng, sizeof bytes);
            for (size_t k = 0; k < len; k++)
                bytes[k] = (uint8_t)htc_rng_next(&rng);
            if (len > 1 && htc_rng_below(&rng, 2))
                bytes[0] = (uint8_t)(HTC_WIRE_WORKER_LOAD_ASK + htc_rng_below(&rng, 12)), bytes[1] = 0;
            rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = htc_rng_below(&rng, 2) ? peer : 78, .body = { bytes, len } });
            rig_pass(&r, 10 * HTC_MS);
        }
        HOLDS(!r.ended);
        rig_close(&r);
    }
}
