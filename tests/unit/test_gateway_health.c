/* When a job is handed out slowly: the table of health.h, and that no order of events leaves a job behind for ever. */
#include "expect.h"

#include "roles/gateway/health.h"

TestSuite(gateway_health);

/* What each end says. Two seconds is the border; lost and cancelled tasks say nothing about the job. */
Test(gateway_health, says_what_an_end_means)
{
    static const struct {
        htc_status     status;
        htc_ns         ran;
        health_verdict verdict;
    } rows[] = {
        { HTC_OK, 0, HEALTH_WORKS },
        { HTC_OK, 10 * HTC_SECOND, HEALTH_WORKS },
        { HTC_EEXIT, 0, HEALTH_FAILS_FAST },
        { HTC_EEXIT, 2 * HTC_SECOND, HEALTH_FAILS_FAST },
        { HTC_EEXIT, 2 * HTC_SECOND + 1, HEALTH_WORKS },
        { HTC_ENOEXEC, 0, HEALTH_FAILS_FAST },
        { HTC_EWALLTIME, HTC_SECOND, HEALTH_FAILS_FAST },
        { HTC_ECANCELLED, 0, HEALTH_NO_SIGN },
        { HTC_EINPUT, 0, HEALTH_NO_SIGN },
        { HTC_ELOST, 0, HEALTH_NO_SIGN },
        { HTC_ESTOPPED, 0, HEALTH_NO_SIGN },
        { HTC_ESTOPPED, 10 * HTC_SECOND, HEALTH_NO_SIGN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(htc__health_of(rows[i].status, rows[i].ran) == rows[i].verdict, "row %zu", i);
    cr_expect(eq(int, htc__health_status(HTC_ESTAGEIN, 1), HTC_EINPUT), "an input is missing, wherever the task runs");
    cr_expect(eq(int, htc__health_status(HTC_ESTAGEIN, 0), HTC_ESTAGEIN) && eq(int, htc__health_status(HTC_EEXIT, 1), HTC_EEXIT));
}

/* One line an event: what happens when, what it answers, and what may be handed out then. */
enum { FAIL, WORK, NOTHING, HAND, REST };
#define ANY UINT32_MAX

static const struct row {
    int      event;
    uint32_t at_ms;
    int      answer;
    uint32_t allows;
} story[] = {
    { FAIL, 0, 0, ANY },   { FAIL, 1, 0, ANY },     { FAIL, 2, 0, ANY },     { NOTHING, 2, 0, ANY }, { FAIL, 3, 0, ANY },
    { HAND, 3, 0, ANY },   { FAIL, 4, 1, 0 },       { FAIL, 5, 0, 0 },       /* one that was out already */
    { REST, 103, 0, 0 },   { REST, 104, 1, 2 },     { REST, 105, 0, 2 },     { HAND, 105, 0, 1 },
    { HAND, 106, 1, 0 },   { FAIL, 107, 0, 0 },     { REST, 305, 0, 0 },     { REST, 306, 1, 2 },
    { HAND, 306, 0, 1 },   { FAIL, 307, 0, 1 },     { HAND, 307, 1, 0 },     { REST, 706, 0, 0 },
    { REST, 707, 1, 2 },   { HAND, 707, 0, 1 },     { WORK, 708, 1, ANY },   { REST, 708, 0, ANY },
    { FAIL, 709, 0, ANY }, { FAIL, 709, 0, ANY },   { FAIL, 709, 0, ANY },   { FAIL, 709, 0, ANY },
    { WORK, 710, 0, ANY }, { FAIL, 711, 0, ANY },   { FAIL, 711, 0, ANY },   { FAIL, 711, 0, ANY },
    { FAIL, 711, 0, ANY }, { FAIL, 711, 1, 0 },     { WORK, 712, 1, ANY },
};

static int happen(health *h, int event, htc_ns now)
{
    switch (event) {
    case FAIL: return htc__health_ended(h, HEALTH_FAILS_FAST, now);
    case WORK: return htc__health_ended(h, HEALTH_WORKS, now);
    case NOTHING: return htc__health_ended(h, HEALTH_NO_SIGN, now);
    case HAND: return htc__health_handed(h, now);
    default: return htc__health_rested(h, now, 2);
    }
}

Test(gateway_health, slows_from_the_fifth_fast_failure_in_a_row_and_only_then)
{
    health h = { 0 };
    for (size_t i = 0; i < sizeof story / sizeof story[0]; i++) {
        int answer = happen(&h, story[i].event, 1000 * HTC_SECOND + story[i].at_ms * HTC_MS);
        cr_expect(answer == story[i].answer, "row %zu answers %d", i, answer);
        cr_expect(htc__health_allows(&h) == story[i].allows, "row %zu allows %u", i, (unsigned)htc__health_allows(&h));
    }
}

/* Whatever happens, a pause ends within five seconds, and a round goes out after it. */
Test(gateway_health, never_pauses_for_longer_than_five_seconds)
{
    htc_rng rng = { 3 };
    health  h = { 0 };
    htc_ns  now = HTC_SECOND;
    for (int i = 0; i < 100000; i++) {
        now += htc_rng_below(&rng, 50 * HTC_MS);
        happen(&h, htc_rng_below(&rng, 40) ? (htc_rng_below(&rng, 2) ? FAIL : HAND) : (int)htc_rng_below(&rng, 5), now);
        health after = h;
        htc__health_rested(&after, now + HEALTH_PAUSE_MAX, 1);
        cr_assert(htc__health_allows(&after) > 0, "event %d leaves it for ever", i);
    }
}
