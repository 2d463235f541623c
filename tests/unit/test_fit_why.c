/* Why a job waits, and until when: as data, and as a sentence. */
#include "expect.h"
#include <stdio.h>

#include "fit_hand.h"

static void expect_reason(const htc_fit *fit, htc_ns now, uint64_t id, uint32_t why, int64_t blocker, const char *text)
{
    htc_fit_reason r;
    cr_assert(eq(int, htc_fit_explain(fit, now, id, &r), HTC_OK));
    cr_expect(eq(u32, r.why, why), "job %llu: %s", (unsigned long long)id, r.text);
    cr_expect(eq(int, r.has_blocker, blocker >= 0));
    if (blocker >= 0)
        cr_expect(eq(u64, r.blocker, (uint64_t)blocker));
    cr_expect(eq(str, r.text, (char *)text));
}

Test(fit_why, says_why_a_job_waits)
{
    const htc_fit_job jobs[] = { job_of(1, 3, 10 * S), job_of(2, 4, 3600 * S), job_of(3, 1, 11 * S),
                                 job_of(4, 9, S),      job_of(5, 1, 5 * S),    job_of(6, 2, 5 * S) };
    htc_fit          *fit[5] = { 0 };
    for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++) {
        fit[p] = fit_of(p, 4);
        for (size_t i = 0; i < 6; i++)
            cr_assert(eq(int, htc_fit_submit(fit[p], 0, &jobs[i]), HTC_OK));
        cr_assert(eq(int, htc_fit_next(fit[p], 0, NULL), HTC_OK));
        expect_reason(fit[p], 0, 4, HTC_FIT_WHY_TOO_WIDE, -1, "asks for 9 nodes, only 4 are up: waits for more");
        cr_expect(eq(int, htc_fit_explain(fit[p], 0, 1, &(htc_fit_reason){ 0 }), HTC_EINVAL), "it runs");
    }
    const char *plain = "asks for 4 nodes, 1 is free: enough when job 1 ends, expected in 00:00:10";
    const char *promised = "asks for 4 nodes, 1 is free: enough when job 1 ends, expected in 00:00:10; "
                           "starts in 00:00:10 at the latest";
    expect_reason(fit[HTC_FIT_PROMISE_NOTHING], 0, 2, HTC_FIT_WHY_NODES, 1, plain);
    expect_reason(fit[HTC_FIT_PROMISE_ORDER], 0, 2, HTC_FIT_WHY_NODES, 1, plain);
    expect_reason(fit[HTC_FIT_PROMISE_HEAD], 0, 2, HTC_FIT_WHY_NODES, 1, promised);
    expect_reason(fit[HTC_FIT_PROMISE_ALL], 0, 2, HTC_FIT_WHY_NODES, 1, promised);
    expect_reason(fit[HTC_FIT_PROMISE_NOTHING], 0, 3, HTC_FIT_WHY_NOTHING, -1,
                  "asks for 1 node, 1 is free: can start now");
    expect_reason(fit[HTC_FIT_PROMISE_ORDER], 0, 3, HTC_FIT_WHY_TURN, 2,
                  "asks for 1 node, 1 is free: but job 2 goes first");
    expect_reason(fit[HTC_FIT_PROMISE_HEAD], 0, 3, HTC_FIT_WHY_DELAY, 2,
                  "asks for 1 node, 1 is free: but it would delay job 2, which is to start in 00:00:10");
    expect_reason(fit[HTC_FIT_PROMISE_ALL], 0, 3, HTC_FIT_WHY_DELAY, 5,
                  "asks for 1 node, 1 is free: but it would delay job 5, which is to start now; "
                  "starts in 01:00:10 at the latest");
    expect_reason(fit[HTC_FIT_PROMISE_HEAD], 0, 5, HTC_FIT_WHY_NOTHING, -1,
                  "asks for 1 node, 1 is free: can start now");
    expect_reason(fit[HTC_FIT_PROMISE_HEAD], 0, 6, HTC_FIT_WHY_NODES, 1,
                  "asks for 2 nodes, 1 is free: enough when job 1 ends, expected in 00:00:10");
    for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++)
        htc_fit_destroy(fit[p]);
}

/* Of several reservations the one that would lack nodes is named, not one that comes first: 2 starts at 10 s and leaves two nodes, 3 at 15 s
 * needs all four. */
Test(fit_why, names_the_reservation_that_would_lack_nodes)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_ALL, 4);
    const htc_fit_job jobs[] = { job_of(1, 3, 10 * S), job_of(2, 2, 5 * S), job_of(3, 4, 5 * S),
                                 job_of(4, 1, 100 * S) };
    for (size_t i = 0; i < 4; i++)
        cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[i]), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 0, NULL), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 0, NULL), HTC_AGAIN));
    expect_reason(fit, 0, 4, HTC_FIT_WHY_DELAY, 3,
                  "asks for 1 node, 1 is free: but it would delay job 3, which is to start in 00:00:15; "
                  "starts in 00:00:20 at the latest");
    htc_fit_destroy(fit);
}

/* A job without an estimate is not waited for as if it had one. */
Test(fit_why, knows_what_it_does_not_know)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_HEAD, 4);
    htc_ns            start = 0;
    uint32_t          reserved = 7, spare;
    const htc_fit_job jobs[] = { job_of(1, 2, HTC_NEVER), job_of(2, 3, 10 * S), job_of(3, 2, HTC_NEVER),
                                 job_of(4, 1, HTC_NEVER), job_of(5, 1, 86400 * S) };
    for (size_t i = 0; i < 5; i++)
        cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[i]), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 0, NULL), HTC_OK));
    cr_expect(eq(int, htc_fit_shadow(fit, 0, 3, &start, &spare), HTC_OK));
    cr_expect(start == HTC_NEVER && spare == 1);
    cr_expect(eq(int, htc_fit_when(fit, 0, 2, &start, &reserved), HTC_OK));
    cr_expect(start == HTC_NEVER && reserved == 0);
    expect_reason(fit, 0, 2, HTC_FIT_WHY_NODES, 1,
                  "asks for 3 nodes, 2 are free: enough when job 1 ends, expected at no known time");
    /* 3 would hold the head up for ever; 4 takes the one node the head will not need; 5 ends some day. */
    htc_fit_job job;
    cr_expect(htc_fit_next(fit, 0, &job) == HTC_OK && job.id == 4);
    cr_expect(htc_fit_next(fit, 0, &job) == HTC_OK && job.id == 5);
    cr_expect(htc_fit_next(fit, 0, &job) == HTC_AGAIN);
    htc_fit_destroy(fit);
}

/* Whole seconds, rounded up: nothing is to come sooner than said. Days from the first on. */
Test(fit_why, says_how_long_in_whole_seconds_rounded_up)
{
    static const struct {
        htc_ns      ends, now;
        const char *text;
    } rows[] = {
        { 5 * S, 0, "in 00:00:05" },
        { 5 * S, 1, "in 00:00:05" },
        { 5 * S, S, "in 00:00:04" },
        { 5 * S, 5 * S - 1, "in 00:00:01" },
        { 5 * S, 5 * S, "now" },
        { 5 * S, 5 * S + 1, "in 00:00:01" }, /* overdue: a second from now */
        { 5 * S, 500 * S, "in 00:00:01" },
        { 86399 * S, 0, "in 23:59:59" },
        { 86400 * S, 0, "in 1 d 00:00:00" },
        { 86400 * S - 1, 0, "in 1 d 00:00:00" },
        { 200000 * S, 0, "in 2 d 07:33:20" },
        { HTC_NEVER, 0, "at no known time" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_fit          *fit = fit_of(HTC_FIT_PROMISE_NOTHING, 2);
        const htc_fit_job runs = job_of(1, 1, rows[i].ends), waits = job_of(2, 2, S);
        char              text[128];
        cr_assert(htc_fit_submit(fit, 0, &runs) == HTC_OK && htc_fit_next(fit, 0, NULL) == HTC_OK);
        cr_assert(eq(int, htc_fit_submit(fit, 0, &waits), HTC_OK));
        snprintf(text, sizeof text, "asks for 2 nodes, 1 is free: enough when job 1 ends, expected %s", rows[i].text);
        expect_reason(fit, rows[i].now, 2, HTC_FIT_WHY_NODES, 1, text);
        htc_fit_destroy(fit);
    }
}

/* In a forecast, too, a job past its estimate ends in a second, once: what waits for it starts then, under every promise. */
Test(fit_why, foretells_an_overdue_job_to_end_in_a_second)
{
    for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++) {
        htc_fit          *fit = fit_of(p, 2);
        const htc_fit_job late = job_of(1, 1, 5 * S), wide = job_of(2, 2, 7 * S), last = job_of(3, 2, S);
        htc_ns            starts[2], start;
        uint32_t          reserved;
        cr_assert(htc_fit_submit(fit, 0, &late) == HTC_OK && htc_fit_next(fit, 0, NULL) == HTC_OK);
        cr_assert(htc_fit_submit(fit, 9 * S, &wide) == HTC_OK && htc_fit_submit(fit, 9 * S, &last) == HTC_OK);
        cr_assert(eq(int, htc_fit_forecast(fit, 9 * S, starts, 2), HTC_OK));
        cr_expect(starts[0] == 10 * S && starts[1] == 17 * S, "promise %u", p);
        cr_assert(eq(int, htc_fit_when(fit, 9 * S, 3, &start, &reserved), HTC_OK));
        cr_expect(start == 17 * S && reserved == (p == HTC_FIT_PROMISE_ALL), "promise %u", p);
        htc_fit_destroy(fit);
    }
}
