/* What the host is told of a run in exact mode (lib/sim/scenarios/progress.h): when, how long it took, at which rate and what is left. */
#include "expect.h"

#include "sim/scenarios/progress.h"

typedef struct clocked {
    htc_ns             now;
    int                told;
    htc_scale_progress last;
} clocked;

static htc_ns clock_of(void *ctx)
{
    return ((clocked *)ctx)->now;
}

static void note(void *ctx, const htc_scale_progress *p)
{
    clocked *c = ctx;
    c->told++;
    c->last = *p;
}

Test(sim_progress, has_a_rate_and_what_is_left)
{
    clocked        c = { .now = 70 * HTC_SECOND };
    htc_scale_host host = { .size = sizeof host, .clock = clock_of, .progress = note, .ctx = &c };
    progress       p = { 0 };
    htc__progress_begin(&p, &host);
    htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 1, .total = 100 });
    cr_expect(eq(int, c.told, 0), "no time has passed");
    c.now += 4 * HTC_SECOND;
    htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 20, .total = 100, .events = 7, .at = 9 });
    cr_expect(eq(int, c.told, 1) && eq(u64, c.last.spent, 4 * HTC_SECOND) && eq(dbl, c.last.rate, 5) && eq(u64, c.last.left, 16 * HTC_SECOND));
    cr_expect(eq(u64, c.last.done, 20) && eq(u64, c.last.total, 100) && eq(u64, c.last.events, 7) && eq(u64, c.last.at, 9) && eq(sz, c.last.size, sizeof c.last));
    c.now += 199 * HTC_MS;
    htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 21, .total = 100 });
    cr_expect(eq(int, c.told, 1), "it was told just now");
    host.progress_ns = 100 * HTC_MS;
    htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 21 });
    cr_expect(eq(int, c.told, 2) && eq(u64, c.last.left, 0), "nobody knows how many there are");
}

/* Nothing is known of its time then, and it may stop the run by how much is done. */
Test(sim_progress, tells_one_without_a_clock_each_time)
{
    clocked        c = { 0 };
    htc_scale_host host = { .size = sizeof host, .progress = note, .ctx = &c };
    progress       p = { 0 };
    htc__progress_begin(&p, &host);
    for (int i = 0; i < 3; i++)
        htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 1, .total = 2 });
    cr_expect(eq(int, c.told, 3) && eq(u64, c.last.spent, 0) && eq(dbl, c.last.rate, 0) && eq(u64, c.last.left, 0));
    host.progress = NULL;
    htc__progress_tell(&p, &host, (htc_scale_progress){ .done = 1, .total = 2 });
    cr_expect(eq(int, c.told, 3));
}
