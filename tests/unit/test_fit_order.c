/* A queue in an order of the policy's own: against the model, against the policy that walks over all that wait, and what
 * the policy may not do while it is asked. */
#include "expect.h"
#include <string.h>

#include "fit_hand.h"
#include "fit_twins.h"
#include "property.h"

/* ---- against the model ---- */

static void agree(uint32_t promise)
{
    PROPERTY(rng, 1000)
    {
        twins       t;
        const char *wrong = NULL;
        uint64_t    asked = 0;
        HOLDS(twins_open_shortest(&t, promise, (uint32_t)htc_rng_below(&rng, 12), &asked) == HTC_OK);
        for (int step = 0; step < 100 && !wrong; step++)
            wrong = twins_step(&t, htc_rng_next(&rng));
        cr_assert(wrong == NULL, "%s; HTC_TEST_SEED=%llu replays it", wrong, (unsigned long long)property_seed);
        htc_fit_destroy(t.fit);
    }
}

Test(fit_order, shortest_first_agrees_with_the_slow_model_where_nothing_is_promised)
{
    agree(HTC_FIT_PROMISE_NOTHING);
}

Test(fit_order, shortest_first_agrees_with_the_slow_model_where_nobody_overtakes)
{
    agree(HTC_FIT_PROMISE_ORDER);
}

Test(fit_order, shortest_first_agrees_with_the_slow_model_where_the_head_is_not_delayed)
{
    agree(HTC_FIT_PROMISE_HEAD);
}

Test(fit_order, shortest_first_agrees_with_the_slow_model_where_all_have_reservations)
{
    agree(HTC_FIT_PROMISE_ALL);
}

/* ---- against the walk ---- */

/* Of all that may start, the shortest; of equals the first. */
static htc_status choose_shortest(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    htc_fit_job job, best = { .estimate = 0 };
    htc_status  status = htc_fit_candidate(fit, now, NULL, &job);
    (void)ctx;
    for (; status == HTC_OK; status = htc_fit_candidate(fit, now, &job, &job))
        if (best.estimate == 0 || job.estimate < best.estimate)
            best = job;
    *id = best.id;
    return best.estimate ? HTC_OK : HTC_AGAIN;
}

static htc_fit *fit_under(const htc_fit_policy *policy, uint32_t nodes)
{
    htc_fit        *fit;
    htc_fit_options options = { .size = sizeof options, .policy = policy, .nodes = nodes };
    cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
    return fit;
}

/* Both start the same until nothing starts; the last that did is written to *last. */
static void start_alike(htc_fit *by_key, htc_fit *by_walk, htc_ns now, uint64_t *last)
{
    htc_fit_job a, b;
    htc_status  status;
    do {
        status = htc_fit_next(by_key, now, &a);
        HOLDS(htc_fit_next(by_walk, now, &b) == status);
        if (status == HTC_OK) {
            HOLDS(a.id == b.id);
            *last = a.id;
        }
    } while (status == HTC_OK);
    HOLDS(status == HTC_AGAIN);
}

/* The library's own order is priority, then arrival. A walk that looks for the shortest finds it wherever it stands. */
Test(fit_order, a_key_starts_what_a_walk_over_all_that_wait_would)
{
    PROPERTY(rng, 500)
    {
        uint64_t       asked = 0, asked_by_jobs = 0, last = 0;
        htc_fit_policy key = { .size = sizeof key, .ctx = &asked, .promise = HTC_FIT_PROMISE_NOTHING, .choose = NULL, .key = twins_shortest };
        htc_fit_policy walk = { .size = sizeof walk, .ctx = NULL, .promise = HTC_FIT_PROMISE_NOTHING, .choose = choose_shortest, .key = NULL };
        htc_fit       *a = fit_under(&key, 12), *b = fit_under(&walk, 12);
        for (htc_ns now = 1; now <= 60; now++) {
            htc_fit_job job = job_of(now, 1 + (uint32_t)htc_rng_below(&rng, 12), 1 + htc_rng_below(&rng, 9));
            HOLDS(htc_fit_submit(a, now, &job) == HTC_OK && htc_fit_submit(b, now, &job) == HTC_OK);
            asked_by_jobs++;
            if (last && htc_rng_below(&rng, 2)) {
                HOLDS(htc_fit_end(a, now, last) == HTC_OK && htc_fit_end(b, now, last) == HTC_OK);
                last = 0;
            }
            start_alike(a, b, now, &last);
        }
        HOLDS(asked == asked_by_jobs); /* a decision asks for no key */
        htc_fit_destroy(a);
        htc_fit_destroy(b);
    }
}

/* ---- when a key is asked for ---- */

/* Whoever has used least; ctx: what the user of each job has used. */
static uint64_t least_used(void *ctx, const htc_fit_info *job)
{
    return ((const uint64_t *)ctx)[job->job.id];
}

static uint64_t id_at(const htc_fit *fit, size_t i)
{
    htc_fit_job job = { .id = 0 };
    cr_assert(eq(int, htc_fit_at(fit, i, &job), HTC_OK));
    return job.id;
}

Test(fit_order, a_key_is_made_again_when_a_job_is_changed_or_waits_again)
{
    uint64_t       used[4] = { 0, 5, 3, 4 };
    htc_fit_policy policy = { .size = sizeof policy, .ctx = used, .promise = HTC_FIT_PROMISE_NOTHING, .choose = NULL, .key = least_used };
    htc_fit       *fit = fit_under(&policy, 1);
    htc_fit_job    job[4], started;
    for (uint64_t id = 1; id < 4; id++) {
        job[id] = job_of(id, 1, S);
        cr_assert(eq(int, htc_fit_submit(fit, 0, &job[id]), HTC_OK));
    }
    cr_expect(id_at(fit, 0) == 2 && id_at(fit, 1) == 3 && id_at(fit, 2) == 1);
    used[1] = 1;
    cr_expect(eq(u64, id_at(fit, 0), 2), "nobody has said so");
    cr_assert(eq(int, htc_fit_change(fit, 0, &job[1]), HTC_OK));
    cr_expect(eq(u64, id_at(fit, 0), 1));
    cr_assert(eq(int, htc_fit_next(fit, 0, &started), HTC_OK));
    cr_expect(eq(u64, started.id, 1));
    used[1] = 9;
    cr_assert(eq(int, htc_fit_requeue(fit, 0, 1), HTC_OK));
    cr_expect(id_at(fit, 0) == 2 && id_at(fit, 2) == 1);
    htc_fit_destroy(fit);
}

static uint64_t whatever_else(void *ctx, const htc_fit_info *job)
{
    cr_expect(job->state == HTC_FIT_WAITING && job->started == HTC_NEVER && job->ends == HTC_NEVER);
    *(htc_ns *)ctx = job->submitted;
    return 0;
}

/* Equal keys: first come first served, whatever their priority. */
Test(fit_order, equal_keys_are_in_order_of_arrival)
{
    htc_ns         submitted = 0;
    htc_fit_policy policy = { .size = sizeof policy, .ctx = &submitted, .promise = HTC_FIT_PROMISE_ORDER, .choose = NULL, .key = whatever_else };
    htc_fit       *fit = fit_under(&policy, 0);
    for (uint64_t id = 1; id < 9; id++) {
        htc_fit_job job = { .id = id, .nodes = 1, .estimate = S, .priority = (uint32_t)id };
        cr_assert(eq(int, htc_fit_submit(fit, id * S, &job), HTC_OK));
        cr_expect(eq(u64, submitted, id * S));
        cr_expect(eq(u64, id_at(fit, (size_t)id - 1), id));
    }
    htc_fit_destroy(fit);
}

/* ---- what a policy may not do ---- */

typedef struct meddler {
    htc_fit *fit;
    int      asked, changed, blind; /* calls that were not refused; that could not read */
} meddler;

static void meddle(meddler *m, htc_ns now)
{
    htc_fit_job    job = job_of(99, 1, S), one = job_of(1, 1, 2 * S);
    htc_fit_info   info;
    htc_fit_reason why;
    htc_ns         start;
    uint32_t       reserved;
    m->asked++;
    m->changed += htc_fit_submit(m->fit, now, &job) != HTC_EINVAL;
    m->changed += htc_fit_next(m->fit, now, &job) != HTC_EINVAL;
    m->changed += htc_fit_start(m->fit, now, 1) != HTC_EINVAL;
    m->changed += htc_fit_requeue(m->fit, now, 1) != HTC_EINVAL;
    m->changed += htc_fit_change(m->fit, now, &one) != HTC_EINVAL;
    m->changed += htc_fit_end(m->fit, now, 1) != HTC_EINVAL;
    m->changed += htc_fit_add_nodes(m->fit, now, 1) != HTC_EINVAL;
    m->changed += htc_fit_remove_nodes(m->fit, now, 1) != HTC_EINVAL;
    htc_fit_destroy(m->fit);
    m->blind += htc_fit_get(m->fit, 1, &info) != HTC_OK && htc_fit_get(m->fit, 1, &info) != HTC_ENOTFOUND;
    if (htc_fit_get(m->fit, 1, &info) == HTC_OK && info.state == HTC_FIT_WAITING) {
        m->blind += htc_fit_explain(m->fit, now, 1, &why) != HTC_OK;
        htc_fit_when(m->fit, now, 1, &start, &reserved);
    }
}

static htc_status choose_meddling(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    htc_fit_job job;
    htc_status  status = htc_fit_candidate(fit, now, NULL, &job);
    meddle(ctx, now);
    *id = job.id;
    return status;
}

static uint64_t key_meddling(void *ctx, const htc_fit_info *job)
{
    meddle(ctx, job->submitted);
    return job->job.id;
}

Test(fit_order, a_policy_changes_nothing_while_it_is_asked)
{
    for (uint32_t promise = HTC_FIT_PROMISE_NOTHING; promise <= HTC_FIT_PROMISE_ALL; promise++) {
        meddler        m = { .asked = 0 };
        htc_fit_policy policy = { .size = sizeof policy, .ctx = &m, .promise = promise, .choose = choose_meddling, .key = key_meddling };
        htc_fit       *fit = m.fit = fit_under(&policy, 1);
        htc_fit_job    job[2] = { job_of(1, 1, S), job_of(2, 1, S) }, started;
        cr_assert(eq(int, htc_fit_submit(fit, 0, &job[0]), HTC_OK));
        cr_assert(eq(int, htc_fit_submit(fit, 0, &job[1]), HTC_OK));
        cr_assert(eq(int, htc_fit_next(fit, 0, &started), HTC_OK));
        cr_expect(eq(u64, started.id, 1));
        cr_assert(eq(int, htc_fit_requeue(fit, 0, 1), HTC_OK));
        cr_assert(eq(int, htc_fit_change(fit, 0, &job[0]), HTC_OK));
        cr_expect(m.asked >= 5 && m.changed == 0 && m.blind == 0, "promise %u: %d asked, %d changed, %d blind", promise,
                  m.asked, m.changed, m.blind);
        htc_fit_destroy(fit);
    }
}

static htc_status choose_curious(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    meddler    *m = ctx;
    htc_fit_job job;
    htc_ns      start, starts[2];
    htc_status  status = htc_fit_candidate(fit, now, NULL, &job);
    meddle(m, now);
    m->changed += htc_fit_when(m->fit, now, 3, &start, NULL) != HTC_EINVAL;
    m->changed += htc_fit_forecast(m->fit, now, starts, 2) != HTC_EINVAL;
    *id = job.id;
    return status;
}

/* Nor while it is asked in imagination, of which it is shown a copy: asking what is imagined then would have no end. */
Test(fit_order, a_policy_changes_nothing_while_somebody_looks_ahead)
{
    for (uint32_t promise = HTC_FIT_PROMISE_NOTHING; promise < HTC_FIT_PROMISE_ALL; promise++) {
        meddler        m = { .asked = 0 };
        htc_fit_policy policy = { .size = sizeof policy, .ctx = &m, .promise = promise, .choose = choose_curious };
        htc_fit       *fit = m.fit = fit_under(&policy, 1);
        htc_fit_job    job;
        htc_ns         start, starts[2];
        for (uint64_t id = 1; id <= 3; id++) {
            job = job_of(id, 1, S);
            cr_assert(eq(int, htc_fit_submit(fit, 0, &job), HTC_OK));
        }
        cr_assert(eq(int, htc_fit_start(fit, 0, 1), HTC_OK));
        cr_assert(eq(int, htc_fit_when(fit, 0, 3, &start, NULL), HTC_OK));
        cr_expect(eq(u64, start, 2 * S));
        cr_assert(eq(int, htc_fit_forecast(fit, 0, starts, 2), HTC_OK));
        cr_expect(starts[0] == S && starts[1] == 2 * S);
        cr_expect(m.asked >= 4 && m.changed == 0 && m.blind == 0, "promise %u: %d asked, %d changed, %d blind", promise,
                  m.asked, m.changed, m.blind);
        cr_expect(eq(int, htc_fit_end(fit, S, 1), HTC_OK), "and then it may again");
        htc_fit_destroy(fit);
    }
}
