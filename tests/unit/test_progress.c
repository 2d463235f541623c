/* When a task is idle: nothing of it has changed for monitor.stall_s. */
#include "expect.h"

#include "roles/attempt/progress.h"

#define S HTC_SECOND

Test(progress, is_idle_after_the_limit_without_a_change)
{
    task_progress p = { 0 };
    cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, 100 * S, 7), 0), "the first look");
    cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, 105 * S - 1, 7), 0));
    cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, 105 * S, 7), 1));
    cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, 109 * S, 7), 0), "it counts anew");
    cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, 110 * S, 7), 1));
}

Test(progress, any_change_begins_it_anew)
{
    task_progress p = { 0 };
    for (uint64_t i = 0; i < 100; i++) /* a little every 4.9 s */
        cr_expect(eq(int, htc__progress_is_idle(&p, 5 * S, S + i * 49 * S / 10, i % 2), 0), "look %d", (int)i);
}

Test(progress, nobody_is_idle_without_a_limit)
{
    task_progress p = { 0 };
    cr_expect(eq(int, htc__progress_is_idle(&p, 0, S, 7), 0));
    cr_expect(eq(int, htc__progress_is_idle(&p, 0, 1000000 * S, 7), 0));
}

Test(progress, the_number_has_all_that_was_seen_and_its_order)
{
    cr_expect(ne(u64, htc__progress_mix(htc__progress_mix(0, 1), 2), htc__progress_mix(htc__progress_mix(0, 2), 1)));
    cr_expect(ne(u64, htc__progress_mix(0, 0), htc__progress_mix(htc__progress_mix(0, 0), 0)), "one more thing of nothing");
    cr_expect(ne(u64, htc__progress_mix(0, 3), htc__progress_mix(0, 4)));
}
