/* A worker by hand, where the worlds do not reach: options, messages of strangers, records that nobody wrote, an end in every phase, a store
 * that answers with every status, and memory that is refused. */
#include "expect.h"

#include <string.h>

#include "property.h"
#include "worker_rig.h"

TestSuite(worker);

static htc_worker_figures look(const rig *r)
{
    htc_worker_figures f = { .size = sizeof f };
    cr_assert(htc_worker_look(r->worker, &f) == HTC_OK);
    return f;
}

/* ---- options ---- */

Test(worker, options_out_of_range_are_refused)
{
    char               long_name[300];
    htc_rng            rng = { 1 };
    htc_env            env = { .size = sizeof env, .rng = &rng }, no_rng = { .size = sizeof env };
    htc_steal_options  steal = HTC_STEAL_OPTIONS_INIT, bad = HTC_STEAL_OPTIONS_INIT;
    htc_worker        *w = NULL;
    htc_worker_options good = rig_options(), o;
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    bad.amount = 99;
#define REFUSED(field, value)                                                                                          \
    o = good;                                                                                                          \
    o.field = value;                                                                                                   \
    cr_expect(htc_worker_create(&env, &o, &w) == HTC_EINVAL && !w, #field)
    REFUSED(size, 0);
    REFUSED(size, offsetof(htc_worker_options, slots) - 1);
    REFUSED(flow, 0);
    REFUSED(id, 0);
    REFUSED(address, NULL);
    REFUSED(address, long_name);
    REFUSED(store_client_id, 0);
    REFUSED(store_peer, 0);
    REFUSED(slots, HTC_WORKER_SLOTS_MAX + 1);
    REFUSED(node, long_name);
    REFUSED(within, 2);
    REFUSED(steal, &bad);
    cr_expect(htc_worker_create(NULL, &good, &w) == HTC_EINVAL);
    cr_expect(htc_worker_create(&no_rng, &good, &w) == HTC_EINVAL);
    cr_expect(htc_worker_create(&env, NULL, &w) == HTC_EINVAL);
    cr_expect(htc_worker_create(&env, &good, NULL) == HTC_EINVAL);
    good.steal = &steal;
    good.slots = HTC_WORKER_SLOTS_MAX;
    good.size = offsetof(htc_worker_options, within); /* of a caller built before that was there */
    cr_expect(htc_worker_create(&env, &good, &w) == HTC_OK && w);
    htc_worker_ops()->destroy(w);
    htc_worker_ops()->destroy(NULL);
}

Test(worker, alone_it_runs_a_bag_and_a_chain)
{
    for (int graph = 0; graph < 2; graph++) {
        rig                r;
        htc_worker_options o = rig_options();
        flow               f;
        rig_open(&r, 3);
        if (graph)
            rig_put_chain(&r, 20);
        else
            rig_put_bag(&r, 20);
        rig_start(&r, &o, NULL);
        rig_pass(&r, 10 * HTC_SECOND);
        cr_assert(r.ended && r.status == HTC_OK);
        cr_expect(rig_get_header(&r, &f) && f.state == FLOW_ENDED && f.counts.done == 20);
        htc_worker_figures seen = look(&r);
        cr_expect(seen.run == 20 && seen.flow_ended && seen.done == 20 && seen.failed == 0 && seen.members == 1);
        cr_expect(seen.ends == (graph ? 20u : 0u) && seen.tells == (graph ? 19u : 0u));
        htc_status status = HTC_EINVAL;
        cr_expect(htc_worker_stopped(r.worker, &status) && status == HTC_OK);
        rig_close(&r);
    }
}

/* ---- messages of strangers ---- */

/* Tasks are given to a ledger that was seen in the store: in the note of one that nobody has they would stay for ever. */
Test(worker, a_thief_that_names_no_ledger_gets_nothing)
{
    rig                r;
    htc_worker_options o = rig_options();
    ledger             l;
    rig_open(&r, 3);
    r.left = 1;
    rig_put_bag(&r, 40);
    rig_start(&r, &o, NULL);
    rig_pass(&r, HTC_SECOND);
    uint32_t peer = rig_other_worker(&r, 2, 99);
    cr_assert(look(&r).ready == 38);
    rig_say(&r, peer, HTC_WIRE_WORKER_STEAL, (worker_message){ .seq = 1, .to = 999 });
    rig_pass(&r, 100 * HTC_MS);
    const rig_said *given = rig_heard(&r, HTC_WIRE_WORKER_GIVEN);
    cr_assert(given && given->m.seq == 1 && given->m.tasks == 0);
    cr_expect(rig_get_ledger(&r, 0, &l) && l.n_out == 0 && look(&r).given == 0);

    htc__ledger_init(&l, (ledger_span){ 0, 0 });
    htc__ledger_take(&l, 2, 99);
    rig_put_ledger(&r, 999, &l); /* now it is there */
    rig_say(&r, peer, HTC_WIRE_WORKER_STEAL, (worker_message){ .seq = 2, .to = 999 });
    rig_pass(&r, 100 * HTC_MS);
    given = rig_heard(&r, HTC_WIRE_WORKER_GIVEN);
    cr_expect(given->m.seq == 2 && given->m.tasks == 19 && given->m.to == 999);
    cr_expect(rig_get_ledger(&r, 0, &l) && l.n_out == 1 && l.out[0].ledger == 999 && htc__ledger_note_tasks(&l.out[0]) == 19);
    rig_close(&r);
}

/* Nor are counts of such a ledger believed. */
Test(worker, counts_of_no_ledger_end_nothing)
{
    rig                r;
    htc_worker_options o = rig_options();
    flow               f;
    rig_open(&r, 3);
    r.left = 1;
    rig_put_bag(&r, 40);
    rig_start(&r, &o, NULL);
    uint32_t peer = rig_other_worker(&r, 2, 99);
    rig_pass(&r, HTC_SECOND);
    rig_say(&r, peer, HTC_WIRE_WORKER_COUNTS, (worker_message){ .from = 12345, .tasks = 40 });
    rig_pass(&r, HTC_SECOND);
    cr_expect(!r.ended && rig_heard(&r, HTC_WIRE_WORKER_COUNTED) == NULL);
    cr_expect(rig_get_header(&r, &f) && f.state == FLOW_RUNNING);
    rig_close(&r);
}

/* ---- an end in every phase ---- */

enum { TASKS = 6, PHASES_MAX = 2000 };

static void put_flow(rig *r, int graph)
{
    if (graph)
        rig_put_chain(r, TASKS);
    else
        rig_put_bag(r, TASKS);
}

static void start_anew(rig *r, uint64_t client_id)
{
    htc_worker_options o = rig_options();
    if (r->worker)
        rig_end(r, &r->worker);
    o.store_client_id = client_id;
    rig_start(r, &o, NULL);
}

/* A worker to which nothing happens makes of the flow what a plain loop would. */
static void finish(rig *r)
{
    flow f;
    start_anew(r, 4713);
    rig_pass(r, 300 * HTC_SECOND);
    cr_assert(r->ended && r->status == HTC_OK);
    cr_assert(rig_get_header(r, &f) && f.state == FLOW_ENDED && f.counts.done == TASKS && f.counts.failed == 0 && f.counts.cancelled == 0);
}

/* 0: it has none yet. */
static int revoke_lease(rig *r)
{
    flow_key      k = htc__flow_key_worker(RIG_FLOW, 1);
    htc_kv_result result = { 0 };
    flow_worker   self;
    if (rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) != HTC_OK ||
        htc__flow_worker_read(result.value, &self) != HTC_OK)
        return 0;
    return rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = self.epoch }, NULL) == HTC_OK;
}

static void shut_down(rig *r, htc_status how)
{
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN, .status = how });
}

typedef enum fate { KILLED, LEASE_LOST, TOLD_TO_LEAVE, TOLD_TO_STOP, HEADER_GONE, CANCELLED, FATES } fate;

/* n inputs, one after the other. */
static void take_inputs(rig *r, uint32_t n)
{
    for (uint32_t i = 0; i < n && !r->ended; i++)
        if (!rig_one(r)) { /* the next thing that time brings */
            r->now += HTC_MS;
            rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_TIMEOUT });
        }
}

/* What becomes of a worker when it has taken n inputs. 0: it had ended before. */
static int meets(rig *r, int graph, fate f, uint32_t n)
{
    flow_key           header = htc__flow_key_header(RIG_FLOW);
    htc_worker_options o = rig_options();
    rig_open(r, 3);
    put_flow(r, graph);
    r->worker_env = (htc_env){ .size = sizeof r->worker_env, .rng = &r->worker_rng };
    cr_assert(htc_worker_create(&r->worker_env, &o, &r->worker) == HTC_OK);
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_START });
    rig_connect(r, RIG_STORE);
    take_inputs(r, n);
    if (r->ended)
        return 0;
    switch (f) {
    case KILLED: rig_end(r, &r->worker); break;
    case LEASE_LOST: r->left = (uint32_t)revoke_lease(r); break; /* without its host the flow does not end before that is noticed */
    case TOLD_TO_LEAVE: shut_down(r, HTC_OK); break;
    case TOLD_TO_STOP: shut_down(r, HTC_EKILLED); break;
    case HEADER_GONE: rig_delete(r, &header); break;
    case CANCELLED: htc_worker_cancel(r->worker); break;
    case FATES: break;
    }
    rig_pass(r, 60 * HTC_SECOND);
    return 1;
}

Test(worker, killed_in_any_phase_another_goes_on)
{
    for (uint32_t graph = 0, n = 0; graph < 2; graph += 1, n = 0)
        for (int goes_on = 1; goes_on && n < PHASES_MAX; n++) {
            rig r;
            goes_on = meets(&r, (int)graph, KILLED, n);
            if (goes_on)
                finish(&r);
            rig_close(&r);
            cr_assert(goes_on || n > 50);
        }
}

Test(worker, without_its_lease_it_ends_in_any_phase)
{
    uint32_t lost = 0;
    for (uint32_t graph = 0, n = 0; graph < 2; graph += 1, n = 0)
        for (int goes_on = 1; goes_on && n < PHASES_MAX; n++) {
            rig r;
            goes_on = meets(&r, (int)graph, LEASE_LOST, n);
            cr_assert(!goes_on || (r.ended && (r.status == HTC_ELOST || look(&r).flow_ended)), "after %u inputs: %d, %s", n, r.ended,
                      htc_status_name(r.status));
            lost += goes_on && r.status == HTC_ELOST;
            r.left = 0;
            if (goes_on)
                finish(&r);
            rig_close(&r);
        }
    cr_expect(lost > 100);
}

Test(worker, told_to_leave_it_ends_in_any_phase)
{
    for (fate how = TOLD_TO_LEAVE; how <= TOLD_TO_STOP; how++)
        for (uint32_t graph = 0, n = 0; graph < 2; graph += 1, n = 0)
            for (int goes_on = 1; goes_on && n < PHASES_MAX; n++) {
                rig    r;
                ledger l;
                goes_on = meets(&r, (int)graph, how, n);
                cr_assert(!goes_on || (r.ended && r.status == HTC_OK), "after %u inputs: %d, %s", n, r.ended, htc_status_name(r.status));
                cr_assert(!goes_on || (rig_get_ledger(&r, 0, &l) && (l.worker == 0 || look(&r).flow_ended)), "after %u inputs it has not handed over", n);
                if (goes_on)
                    finish(&r);
                rig_close(&r);
            }
}

Test(worker, a_flow_that_vanishes_ends_it_in_any_phase)
{
    for (uint32_t graph = 0, n = 0; graph < 2; graph += 1, n = 0)
        for (int goes_on = 1; goes_on && n < PHASES_MAX; n++) {
            rig r;
            goes_on = meets(&r, (int)graph, HEADER_GONE, n);
            /* of a flow that it has never seen it cannot know that there was one */
            cr_assert(!goes_on || (r.ended ? r.status == HTC_OK : look(&r).ledgers == 0), "after %u inputs: %d, %s", n, r.ended, htc_status_name(r.status));
            rig_close(&r);
        }
}

Test(worker, cancelled_in_any_phase_all_of_it_is_counted)
{
    for (uint32_t graph = 0, n = 0; graph < 2; graph += 1, n = 0)
        for (int goes_on = 1; goes_on && n < PHASES_MAX; n++) {
            rig  r;
            flow f;
            goes_on = meets(&r, (int)graph, CANCELLED, n);
            cr_assert(!goes_on || (r.ended && r.status == HTC_OK && rig_get_header(&r, &f) && f.state == FLOW_ENDED &&
                                   f.counts.done + f.counts.cancelled == TASKS && f.counts.failed == 0),
                      "after %u inputs: %d, %s", n, r.ended, htc_status_name(r.status));
            rig_close(&r);
        }
}

/* A worker of another machine says no HTC_OUT_STOP. */
Test(worker, within_another_machine_it_ends_by_itself)
{
    rig                r;
    htc_worker_options o = rig_options();
    htc_status         status = HTC_EINVAL;
    rig_open(&r, 3);
    rig_put_bag(&r, TASKS);
    o.within = 1;
    rig_start(&r, &o, NULL);
    cr_expect(!htc_worker_stopped(r.worker, NULL));
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(!r.ended && htc_worker_stopped(r.worker, &status) && status == HTC_OK && look(&r).flow_ended);
    cr_expect(htc_worker_ops()->deadline(r.worker) == HTC_NEVER);
    rig_close(&r);
}

Test(worker, with_no_slots_it_runs_nothing)
{
    rig                r;
    htc_worker_options o = rig_options();
    rig_open(&r, 3);
    r.left = 1;
    rig_put_bag(&r, TASKS);
    rig_start(&r, &o, NULL);
    rig_pass(&r, HTC_SECOND);
    cr_assert(look(&r).running == 2 && look(&r).ready == TASKS - 2);
    htc_worker_slots(r.worker, 0);
    for (uint32_t i = 0; i < 2; i++)
        rig_answer(&r, &r.calls[i], HTC_EINPUT, htc_bytes_of("none")); /* staging in has failed: to be tried again */
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(look(&r).running == 0 && r.asked[HTC_CALL_STAGE_IN] == 2);
    htc_worker_slots(r.worker, 1000);
    rig_pass(&r, HTC_SECOND);
    htc_worker_figures f = look(&r);
    cr_expect(f.ready == 0 && f.running == TASKS);
    rig_close(&r);
}

/* All calls of this kind from the first-th on are answered: they end well. Returns how many there are. */
static uint32_t answer_all(rig *r, uint32_t first, uint32_t op)
{
    uint32_t   n = r->n_calls, answered = 0;
    htc_stored stored = { 0 };
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    htc_stored_write(&b, &stored);
    for (uint32_t i = first; i < n; i++) {
        if (r->calls[i].op != op)
            continue;
        answered++;
        if (op == HTC_CALL_RUN)
            rig_ends(r, &r->calls[i], HTC_OK);
        else
            rig_answer(r, &r->calls[i], HTC_OK, op == HTC_CALL_STAGE_OUT ? htc_buf_bytes(&b) : htc_bytes_of(NULL));
    }
    htc_buf_free(&b);
    rig_pass(r, HTC_MS);
    return answered;
}

/* A host that begins at once what it is asked for gets no more than there are slots; one that keeps it gets short commands ahead, and gives
 * back what it has not begun. */
Test(worker, gives_ahead_where_the_host_keeps_what_has_no_slot)
{
    rig                r;
    htc_worker_options o = rig_options();
    rig_open(&r, 3);
    r.left = 1;
    rig_put_bag(&r, 60);
    rig_start(&r, &o, NULL);
    rig_pass(&r, HTC_SECOND);
    cr_assert(answer_all(&r, 0, HTC_CALL_STAGE_IN) == 2 && answer_all(&r, 0, HTC_CALL_RUN) == 2 && answer_all(&r, 0, HTC_CALL_STAGE_OUT) == 2);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(look(&r).run == 2 && look(&r).running == 2, "they were short, and yet %u run", look(&r).running);

    uint32_t first = r.n_calls;
    htc_worker_ahead(r.worker, 1);
    for (int i = 0; i < 1000 && look(&r).running == 2; i++)
        rig_pass(&r, 10 * HTC_MS);
    cr_assert(look(&r).running == 18);
    cr_assert(answer_all(&r, first, HTC_CALL_STAGE_IN) == 16);
    cr_expect(r.asked[HTC_CALL_RUN] == 2 + 16 && r.asked[HTC_CALL_TAKE_BACK] == 0);
    htc_worker_ahead(r.worker, 0);
    cr_expect(htc_worker_ops()->deadline(r.worker) <= r.now, "it is due");
    rig_pass(&r, HTC_MS);
    cr_expect(r.asked[HTC_CALL_TAKE_BACK] == 16, "%u come back", r.asked[HTC_CALL_TAKE_BACK]);
    rig_close(&r);
}

/* What is being staged in when the host may have more slots than there are here is given back when that is over: the host would begin it in one that
 * is not this flow's. */
Test(worker, what_is_staged_in_ahead_is_not_begun_when_that_is_over)
{
    rig                r;
    htc_worker_options o = rig_options();
    rig_open(&r, 3);
    r.left = 1;
    rig_put_bag(&r, 60);
    rig_start(&r, &o, NULL);
    rig_pass(&r, HTC_SECOND);
    cr_assert(answer_all(&r, 0, HTC_CALL_STAGE_IN) == 2 && answer_all(&r, 0, HTC_CALL_RUN) == 2 && answer_all(&r, 0, HTC_CALL_STAGE_OUT) == 2);
    rig_pass(&r, 10 * HTC_SECOND);
    htc_worker_ahead(r.worker, 1);
    uint32_t first = r.n_calls;
    for (int i = 0; i < 1000 && look(&r).running == 2; i++)
        rig_pass(&r, 10 * HTC_MS);
    cr_assert(look(&r).running == 18 && r.asked[HTC_CALL_RUN] == 2);
    htc_worker_ahead(r.worker, 0);
    rig_pass(&r, HTC_MS);
    cr_assert(answer_all(&r, first, HTC_CALL_STAGE_IN) == 16);
    rig_pass(&r, HTC_MS);
    cr_expect(r.asked[HTC_CALL_RUN] == 2, "%u runs are asked for", r.asked[HTC_CALL_RUN] - 2);
    cr_expect(look(&r).running == 2 && r.asked[HTC_CALL_TAKE_BACK] == 0);
    rig_close(&r);
}

/* ---- what comes at the wrong moment ---- */

/* Another worker, with a ledger of its own, in which a note to ledger 0 stands. */
static uint32_t put_giver(rig *r, uint64_t note_to)
{
    ledger   l;
    uint64_t note;
    htc__ledger_init(&l, (ledger_span){ 20, 30 });
    htc__ledger_take(&l, 2, 99);
    if (htc__ledger_give(&l, &(ledger_span){ 24, 30 }, 1, note_to, &note) != HTC_OK || note != 1)
        abort();
    rig_put_ledger(r, 1, &l);
    return rig_other_worker(r, 2, 99);
}

/* A change of the ledger is under way whenever tasks end. What is given meanwhile is accepted after it, not when it is said again. */
Test(worker, a_note_is_accepted_whatever_is_under_way)
{
    for (uint32_t n = 0; n < 60; n++) {
        rig                r;
        htc_worker_options o = rig_options();
        ledger             l;
        rig_open(&r, 3);
        r.left = 1;
        htc__ledger_init(&l, (ledger_span){ 0, 20 });
        rig_put_ledger(&r, 0, &l);
        rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 30);
        rig_start(&r, &o, NULL);
        uint32_t peer = put_giver(&r, 0);
        rig_pass(&r, 500 * HTC_MS);
        cr_assert(look(&r).ledgers == 1 && look(&r).running == 2);
        r.left = 0;
        for (uint32_t i = 0; i < 2; i++)
            rig_answer(&r, &r.calls[i + 1], HTC_OK, htc_bytes_of(NULL)); /* behind DIAL: staged in */
        take_inputs(&r, n);
        r.left = 1; /* what runs, runs on */
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc__worker_write(&b, HTC_WIRE_WORKER_NOTE, &(worker_message){ .flow = RIG_FLOW, .from = 1, .note = 1, .to = 0 });
        rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(&b) });
        htc_buf_free(&b);
        rig_pass(&r, 100 * HTC_MS);
        cr_expect(rig_get_ledger(&r, 0, &l) && htc__ledger_accepted(&l, 1, 1), "after %u inputs", n);
        rig_close(&r);
    }
}

/* Workers that begin together want the same number for their first ledger: who comes second takes another one, at once. */
Test(worker, another_is_faster_with_its_first_ledger)
{
    for (uint32_t n = 0; n < 60; n++) {
        rig                r;
        htc_worker_options o = rig_options();
        rig_open(&r, 3);
        r.left = 1;
        rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 30);
        (void)rig_other_worker(&r, 2, 99);
        rig_put_collector(&r, 2, 99); /* else this one would become it, and look again for that */
        r.worker_env = (htc_env){ .size = sizeof r.worker_env, .rng = &r.worker_rng };
        cr_assert(htc_worker_create(&r.worker_env, &o, &r.worker) == HTC_OK);
        rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_START });
        rig_connect(&r, RIG_STORE);
        take_inputs(&r, n);
        ledger l;
        htc__ledger_init(&l, (ledger_span){ 0, 0 });
        htc__ledger_take(&l, 2, 99);
        rig_put_ledger(&r, 0, &l);
        rig_pass(&r, HTC_SECOND);
        cr_expect(look(&r).ledgers == 1, "after %u inputs", n);
        rig_close(&r);
    }
}
