/* A gateway beside others: what it waits for when it is asked to end, and what it makes of writes whose outcome is not known. */
#include "gateway_hand.h"

static void with_another(htc_gateway_options *o)
{
    o->lease_ns = 2 * HTC_SECOND;
    o->name = "head1";
    o->address = "10.0.0.1:7420";
}

Test(gateway_handing, ends_though_what_was_used_is_not_written_yet, .init = begin, .fini = end)
{
    htc_attempt at, other;
    rig_kill(&r);
    r.change = with_another;
    rig_start(&r);
    uint64_t id = submit(operator_peer(), "olga", SWEEP(2));
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 2));
    hand one = hello(r.launched[0].agent), two = hello(r.launched[1].agent);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(welcome_of(&one) == HTC_OK && welcome_of(&two) == HTC_OK);
    cr_assert(pull(&one, &at) == HTC_GRANT_TASKS && pull(&two, &other) == HTC_GRANT_TASKS);
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(eq(int, report_after(&one, &at, HTC_OK, HTC_SECOND, ""), HTC_OK));
    cr_assert(eq(str, (char *)(uintptr_t)refusal(operator_peer(), "{\"op\":\"shutdown\"}"), ""));
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(r.has_stopped && r.stopped == HTC_OK, "it waits");
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, HTC_SECOND);
    json_t *answer = rig_ask(&r, operator_peer(), "{\"op\":\"report\"}"), *row = json_array_get(json_object_get(answer, "rows"), 0);
    cr_expect(eq(long, (long)json_integer_value(json_object_get(row, "done")), 1));
    cr_expect(gt(dbl, json_number_value(json_object_get(row, "core_s")), 0.9));
    json_decref(answer);
    cr_expect(eq(long, (long)count_of(operator_peer(), id, "done"), 1));
}

/* As of a store whose answers were lost: it was made, or may yet be. */
Test(gateway_handing, goes_on_when_the_outcome_of_a_write_is_not_known, .init = begin, .fini = end)
{
    htc_attempt at;
    rig_kill(&r);
    r.change = with_another;
    rig_start(&r);
    uint64_t id = submit(operator_peer(), "olga", SWEEP(1));
    rig_pass(&r, HTC_SECOND);
    hand one = hello(r.launched[0].agent);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(pull(&one, &at) == HTC_GRANT_TASKS);
    rig_pass(&r, 5 * HTC_SECOND);
    r.unknown = 3;
    (void)report_after(&one, &at, HTC_OK, HTC_SECOND, "");
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(r.unknown == 0 && !r.has_stopped, "%u, %s", r.unknown, htc_status_name(r.stopped));
    cr_expect(eq(long, (long)count_of(operator_peer(), id, "done"), 1));
}
