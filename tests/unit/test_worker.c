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
