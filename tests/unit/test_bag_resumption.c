/* What is left of a bag: every task that is not done is live in one ledger, once, and the others are counted. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/flows.h"
#include "htcsched/work.h"
#include "property.h"
#include "roles/worker/bag_resumption.h"
#include "roles/worker/graph_task.h"

TestSuite(bag_resumption);

static bag_outcome entry(uint64_t from, uint64_t to, graph_state how)
{
    return (bag_outcome){ .from = from, .to = to, .worker = 1, .attempt = 1, .how = (uint8_t)how };
}

static htc_status add(bag_resumption *r, uint64_t from, uint64_t to, graph_state how)
{
    bag_outcome o = entry(from, to, how);
    return htc__bag_resumption_add(r, &o);
}

static flow ended(uint64_t tasks, uint64_t missing)
{
    return (flow){ .state = FLOW_ENDED, .kind = FLOW_BAG, .tasks = tasks, .job = 4, .tries = 3, .max_fails = 7, .user = "kim", .counts = { tasks - missing, missing, 0 } };
}

/* ---- shared out ---- */

enum { TASKS = 20000 };

/* Of a bag that ran: entries of one task or several, which the workers wrote in any order. */
static uint32_t draw(htc_rng *rng, uint32_t tasks, bag_outcome *log, uint8_t *missing)
{
    static const graph_state how[] = { GRAPH_DONE, GRAPH_FAILED, GRAPH_CANCELLED };
    uint32_t                 n = 0, longest = 1 + (uint32_t)htc_rng_below(rng, 20);
    for (uint32_t at = 0; at < tasks;) {
        uint32_t to = at + 1 + (uint32_t)htc_rng_below(rng, longest);
        to = to < tasks ? to : tasks;
        log[n++] = entry(at, to, how[htc_rng_below(rng, 3)]);
        for (; at < to; at++)
            missing[at] = log[n - 1].how != GRAPH_DONE;
    }
    for (uint32_t i = 0; i < n && htc_rng_below(rng, 4); i++) {
        uint32_t    with = i + (uint32_t)htc_rng_below(rng, n - i);
        bag_outcome kept = log[i];
        log[i] = log[with];
        log[with] = kept;
    }
    return n;
}

/* Takes the tasks of a ledger out of those that are missing. *live: how many they were. */
static ledger_counts take(const ledger *l, uint8_t *missing, uint64_t *live)
{
    *live = htc__ids_count(&l->live);
    for (uint32_t i = 0; i < l->live.n; i++)
        for (uint64_t id = l->live.at[i].from; id < l->live.at[i].to; id++)
            HOLDS(id < TASKS && missing[id]-- == 1);
    return l->counts;
}

Test(bag_resumption, what_is_not_done_is_live_once)
{
    static bag_outcome log[TASKS];
    static uint8_t     missing[TASKS];
    size_t             many = 0;
    PROPERTY_ALL (rng, 400) {
        uint32_t       tasks = 1 + (uint32_t)htc_rng_below(&rng, TASKS), n = draw(&rng, tasks, log, missing), workers = (uint32_t)htc_rng_below(&rng, 9);
        uint64_t       left = 0, number, next = 0, all = 0;
        bag_resumption r;
        ledger         l;
        htc_buf        b;
        htc__bag_resumption_init(&r, NULL);
        htc_buf_init(&b, NULL, 0);
        for (uint32_t i = 0; i < n; i++) {
            HOLDS(htc__bag_resumption_add(&r, &log[i]) == HTC_OK);
            left += log[i].how == GRAPH_DONE ? 0 : log[i].to - log[i].from;
        }
        flow f = ended(tasks, left);
        HOLDS(htc__bag_resumption_settle(&r, &f, workers) == (left ? HTC_OK : HTC_EEXISTS));
        uint64_t shared = left ? (left - 1) / (workers ? workers : 1) + 1 : 0;
        for (; htc__bag_resumption_ledger(&r, &number, &b) == HTC_OK; next++) {
            uint64_t live;
            HOLDS(number == next && b.len < LEDGER_BYTES_GIVE && htc__ledger_read(htc_buf_bytes(&b), &l) == HTC_OK);
            ledger_counts c = take(&l, missing, &live);
            HOLDS(l.worker == 0 && live > 0 && live <= shared && l.live.n <= BAG_RESUMPTION_LIVE && l.log.len == 0 && !l.n_out && !l.n_in);
            HOLDS(c.done == (number ? 0 : tasks - left) && c.failed == 0 && c.cancelled == 0);
            all += live;
        }
        HOLDS(all == left && (!left || (next == r.n_ledgers && r.missing == left)));
        HOLDS(!memchr(missing, 1, tasks));
        many += next > (workers ? workers : 1);
        htc__bag_resumption_free(&r);
        htc_buf_free(&b);
    }
    cr_expect(many > 4, "%zu times there were more spans than workers' ledgers have room for", many);
}

/* Numbers that are far apart take more bytes: fewer of them are in a ledger, of which thieves can take some all the same. */
Test(bag_resumption, a_ledger_is_short_enough_to_be_stolen_from)
{
    enum { SPANS = 2000 };
    bag_resumption r;
    htc_buf        b;
    uint64_t       number, apart = HTC_FLOW_TOTAL_MAX / SPANS, n = 0;
    ledger         l;
    htc__bag_resumption_init(&r, NULL);
    htc_buf_init(&b, NULL, 0);
    for (uint64_t i = 0; i < SPANS; i++)
        cr_assert(eq(int, add(&r, i * apart, i * apart + apart / 2, GRAPH_FAILED), HTC_OK));
    flow f = ended(HTC_FLOW_TOTAL_MAX, SPANS * (apart / 2));
    cr_assert(eq(int, htc__bag_resumption_settle(&r, &f, 1), HTC_OK));
    cr_expect(r.n_ledgers > SPANS / BAG_RESUMPTION_LIVE + 1);
    for (; htc__bag_resumption_ledger(&r, &number, &b) == HTC_OK; n += l.live.n) {
        cr_assert(b.len < LEDGER_BYTES_GIVE && htc__ledger_read(htc_buf_bytes(&b), &l) == HTC_OK);
        cr_assert(htc__ids_count(&l.live) == l.live.n * (apart / 2));
    }
    cr_expect(eq(u64, n, SPANS));
    htc__bag_resumption_free(&r);
    htc_buf_free(&b);
}

/* ---- bounds ---- */

static htc_status scattered(uint64_t spans, uint32_t workers)
{
    bag_resumption r;
    htc__bag_resumption_init(&r, NULL);
    htc_status status = HTC_OK;
    for (uint64_t i = 0; i < spans && status == HTC_OK; i++)
        status = add(&r, 2 * i, 2 * i + 1, GRAPH_FAILED);
    flow f = ended(2 * spans, spans);
    if (status == HTC_OK)
        status = htc__bag_resumption_settle(&r, &f, workers);
    htc__bag_resumption_free(&r);
    return status;
}

Test(bag_resumption, too_many_pieces_are_refused_in_bounded_memory)
{
    uint64_t most = (uint64_t)BAG_RESUMPTION_LEDGERS * BAG_RESUMPTION_LIVE;
    cr_expect(eq(int, scattered(most, 2), HTC_OK));
    cr_expect(eq(int, scattered(most + 3 * BAG_RESUMPTION_LIVE, 2), HTC_EFULL));
    cr_expect(eq(int, scattered(BAG_RESUMPTION_SPANS + 1, 2), HTC_EFULL)); /* there is no room to sort them */
}

/* Each task an entry of its own, in an order in which none touches the one before: they are put together on the way. */
Test(bag_resumption, many_entries_of_few_pieces_fit)
{
    bag_resumption r;
    uint64_t       tasks = BAG_RESUMPTION_SPANS + 5000, middle = tasks / 2;
    htc__bag_resumption_init(&r, NULL);
    for (uint64_t i = 0; i < tasks; i++) {
        uint64_t id = i % 2 ? middle + i / 2 : middle - 1 - i / 2;
        cr_assert(eq(int, add(&r, id, id + 1, GRAPH_CANCELLED), HTC_OK));
    }
    flow f = ended(tasks, tasks);
    cr_expect(eq(int, htc__bag_resumption_settle(&r, &f, 3), HTC_OK));
    cr_expect(eq(u64, r.missing, tasks));
    cr_expect(eq(u64, r.n_ledgers, 3));
    cr_expect(r.cap <= BAG_RESUMPTION_SPANS);
    htc__bag_resumption_free(&r);
}

/* ---- what cannot be ---- */

Test(bag_resumption, logs_that_are_not_what_was_counted_are_refused)
{
    static const struct {
        ledger_span at[2];
        uint64_t    tasks, missing;
    } bad[] = {
        { { { 3, 6 }, { 5, 7 } }, 10, 5 }, /* 5 has ended twice */
        { { { 3, 6 }, { 3, 6 } }, 10, 6 },
        { { { 3, 6 }, { 9, 12 } }, 10, 6 }, /* there is no task 10 */
        { { { 3, 6 }, { 8, 9 } }, 10, 5 },  /* of one it is not known which it is */
        { { { 3, 6 }, { 8, 9 } }, 10, 3 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bag_resumption r;
        flow           f = ended(bad[i].tasks, bad[i].missing);
        htc__bag_resumption_init(&r, NULL);
        cr_assert(add(&r, bad[i].at[0].from, bad[i].at[0].to, GRAPH_FAILED) == HTC_OK && add(&r, bad[i].at[1].from, bad[i].at[1].to, GRAPH_CANCELLED) == HTC_OK);
        cr_expect(eq(int, htc__bag_resumption_settle(&r, &f, 1), HTC_ECORRUPT), "%zu", i);
        htc__bag_resumption_free(&r);
    }
}

Test(bag_resumption, runs_out_of_memory_anywhere)
{
    uint64_t refusals = 0;
    ALLOC_FAIL_EVERY(f, 100)
    {
        htc_env        env = alloc_fail_env(&f);
        bag_resumption r;
        htc_status     status = HTC_OK;
        flow           old = ended(2000, 1000);
        htc__bag_resumption_init(&r, &env);
        for (uint64_t i = 0; i < 1000 && status == HTC_OK; i++)
            status = add(&r, 2 * i, 2 * i + 1, GRAPH_FAILED);
        if (status == HTC_OK)
            status = htc__bag_resumption_settle(&r, &old, 2);
        refusals += f.refused > 0;
        cr_assert(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        htc__bag_resumption_free(&r);
        cr_assert(f.live == 0 && f.wrong_sizes == 0);
    }
    cr_expect(refusals >= 4, "%lu refusals", refusals);
}

/* ---- in a store ---- */

static htc_kv_result ask(htc_store *store, uint32_t op, flow_key k, const htc_buf *value)
{
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_request q = { .size = sizeof q, .op = op, .key = htc__flow_key_bytes(&k) };
    if (value)
        q.value = htc_buf_bytes(value);
    cr_assert(htc_store_ask(store, &q, &r, NULL) == HTC_OK && r.status == HTC_OK);
    return r;
}

static flow header_of(htc_store *store, uint64_t id, htc_buf *bytes)
{
    flow f;
    htc_buf_clear(bytes);
    htc_put_raw(bytes, ask(store, HTC_KV_GET, htc__flow_key_header(id), NULL).value);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(bytes), &f), HTC_OK));
    return f;
}

/* As one worker would leave it that owned everything: each task that is live in a ledger ends, those of bad otherwise than well. Every other
 * ledger's entries are in a block. */
static void play(htc_store *store, uint64_t id, const ledger_span *bad)
{
    htc_buf       head, b;
    ledger_counts total = { 0, 0, 0 };
    htc_buf_init(&head, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    flow f = header_of(store, id, &head);
    for (uint64_t number = 0, ended_tasks = 0; ended_tasks < f.tasks; number++) {
        ledger l;
        cr_assert(eq(int, htc__ledger_read(ask(store, HTC_KV_GET, htc__flow_key_ledger(id, number), NULL).value, &l), HTC_OK));
        ledger_ids live = l.live;
        for (uint32_t i = 0; i < live.n; i++)
            for (uint64_t t = live.at[i].from; t < live.at[i].to; t++) {
                int           failed = t >= bad->from && t < bad->to;
                ledger_span   one = { t, t + 1 };
                ledger_counts c = { !failed, failed, 0 };
                bag_outcome   o = entry(t, t + 1, failed ? GRAPH_FAILED : GRAPH_DONE);
                o.attempt = (uint32_t)id;
                cr_assert(htc__ledger_commit(&l, &one, 1, &c) == HTC_OK && htc__outcome_log_add(&l.log, &o) == HTC_OK);
            }
        if (number % 2 && l.log.len) {
            htc__outcome_block_write(&b, &l.log);
            (void)ask(store, HTC_KV_PUT, htc__flow_key_block(id, number, 5), &b);
            htc__outcome_log_cut(&l.log, 5);
        }
        total.done += l.counts.done;
        total.failed += l.counts.failed;
        ended_tasks = total.done + total.failed;
        htc__ledger_write(&b, &l);
        (void)ask(store, HTC_KV_PUT, htc__flow_key_ledger(id, number), &b);
    }
    f.state = FLOW_ENDED;
    f.counts = total;
    htc__flow_write(&b, &f);
    (void)ask(store, HTC_KV_PUT, htc__flow_key_header(id), &b);
    htc_buf_free(&head);
    htc_buf_free(&b);
}

static htc_flows_view look(htc_store *store, uint64_t id)
{
    htc_flows_view v = { .size = sizeof v };
    cr_assert(eq(int, htc_flows_look(store, id, &v, NULL), HTC_OK));
    return v;
}

typedef struct seen {
    uint64_t n, sum, failed;
} seen;

static int see(void *ctx, const htc_flows_task *t)
{
    seen *s = ctx;
    s->n++;
    s->sum += t->number;
    s->failed += strcmp(t->state, "failed") == 0;
    return 1;
}

Test(bag_resumption, a_bag_goes_on_and_goes_on_again)
{
    htc_store_options memory = { .size = sizeof memory, .address = "memory:" };
    htc_flows_options options;
    htc_store        *store = NULL;
    htc_flow         *f = NULL;
    htc_error         e = { 0 };
    uint64_t          first = 0, second = 0, third = 0, none = 0, tasks = 0;
    htc_flows_options_init(&options, sizeof options);
    options.workers = 2;
    options.tries = 4;
    cr_assert(htc_store_open(NULL, &memory, &store, NULL) == HTC_OK);
    cr_assert(htc_flow_read(NULL, htc_bytes_of("b: count=100 true\n"), HTC_FLOW_AUTO, NULL, &f, NULL) == HTC_OK);
    cr_assert(htc_flows_submit(store, f, &options, &first, NULL) == HTC_OK && htc_flows_start(store, first, 9, NULL) == HTC_OK);
    cr_expect(eq(int, htc_flows_resume(store, first, NULL, &none, &tasks, &e), HTC_EBUSY));
    play(store, first, &(ledger_span){ 48, 53 });
    cr_assert(eq(int, htc_flows_resume(store, first, NULL, &second, &tasks, &e), HTC_OK), "%s", e.text);
    cr_expect(eq(u64, tasks, 5));
    htc_flows_view v = look(store, second);
    cr_expect(v.state == HTC_FLOWS_BUILDING && v.tasks == 100 && v.done == 95 && v.failed == 0 && v.from == first && v.tries == 4 && !v.graph);
    cr_assert(eq(int, htc_flows_start(store, second, 10, NULL), HTC_OK));
    cr_expect(eq(int, htc_flows_resume(store, second, NULL, &none, NULL, NULL), HTC_EBUSY));
    play(store, second, &(ledger_span){ 51, 52 });
    v = look(store, second);
    cr_expect(v.done == 99 && v.failed == 1 && v.tasks == 100);
    cr_assert(eq(int, htc_flows_remove(store, first, NULL), HTC_OK)); /* a flow that goes on needs nothing of the one before */
    options.tries = 0;
    cr_assert(eq(int, htc_flows_resume(store, second, &options, &third, &tasks, NULL), HTC_OK));
    cr_expect(tasks == 1 && look(store, third).tries == 4 && look(store, third).done == 99);
    cr_assert(eq(int, htc_flows_start(store, third, 11, NULL), HTC_OK));
    play(store, third, &(ledger_span){ 0, 0 });
    seen s = { 0, 0, 0 };
    cr_assert(eq(int, htc_flows_tasks(store, third, see, &s, NULL), HTC_OK));
    cr_expect(s.n == 1 && s.sum == 51 && s.failed == 0);
    v = look(store, third);
    cr_expect(v.done == 100 && v.failed == 0 && v.from == second);
    cr_expect(eq(int, htc_flows_resume(store, third, NULL, &none, NULL, NULL), HTC_EEXISTS));
    cr_expect(eq(u64, none, 0));
    htc_flow_destroy(f);
    htc_store_close(store);
}

/* What is lost of a log is no reason to guess which tasks failed. */
Test(bag_resumption, a_log_with_a_gap_is_refused)
{
    htc_store_options memory = { .size = sizeof memory, .address = "memory:" };
    htc_flows_options options;
    htc_store        *store = NULL;
    htc_flow         *f = NULL;
    htc_error         e = { 0 };
    uint64_t          id = 0, none = 0;
    htc_flows_options_init(&options, sizeof options);
    options.workers = 2;
    cr_assert(htc_store_open(NULL, &memory, &store, NULL) == HTC_OK);
    cr_assert(htc_flow_read(NULL, htc_bytes_of("b: count=100 true\n"), HTC_FLOW_AUTO, NULL, &f, NULL) == HTC_OK);
    cr_assert(htc_flows_submit(store, f, &options, &id, NULL) == HTC_OK && htc_flows_start(store, id, 0, NULL) == HTC_OK);
    play(store, id, &(ledger_span){ 40, 60 });
    (void)ask(store, HTC_KV_DELETE, htc__flow_key_block(id, 1, 5), NULL);
    cr_expect(eq(int, htc_flows_resume(store, id, NULL, &none, NULL, &e), HTC_ECORRUPT));
    cr_expect(none == 0 && strstr(e.text, "run it anew"), "%s", e.text);
    htc_flow_destroy(f);
    htc_store_close(store);
}

Test(bag_resumption, the_header_is_that_of_the_old_flow)
{
    htc_buf b;
    flow    old = ended(9, 4), got;
    htc_buf_init(&b, NULL, 0);
    old.task = htc_bytes_of("what is executed");
    htc__flow_mark(&old, (ledger_span){ 0, 9 });
    htc__bag_resumption_header(&old, 8, 0, 0, &b);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(&b), &got), HTC_OK));
    cr_expect(got.state == FLOW_BUILDING && got.kind == FLOW_BAG && got.tasks == 9 && got.job == 0 && got.tries == 3 && got.max_fails == 7 && got.from == 8);
    cr_expect(got.n_marks == 0 && got.counts.done + got.counts.failed + got.counts.cancelled == 0 && htc_bytes_equal(got.task, old.task));
    cr_expect(eq(str, got.user, "kim"));
    htc__bag_resumption_header(&old, 8, 5, UINT64_MAX, &b);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(&b), &got), HTC_OK));
    cr_expect(got.tries == 5 && got.max_fails == UINT64_MAX);
    htc_buf_free(&b);
}
