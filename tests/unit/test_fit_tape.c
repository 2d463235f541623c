/* The state of a fit, read back: the same fit; and whatever else is read is refused, or it is a fit. */
#include "expect.h"
#include <string.h>

#include "htcsched/fit.h"
#include "property.h"
#include "reel.h"

static htc_fit *some(htc_rng *rng, const htc_fit_options *o, htc_ns *now, uint64_t *ids)
{
    htc_fit *fit = NULL;
    HOLDS(htc_fit_create(NULL, o, &fit) == HTC_OK);
    for (uint64_t steps = htc_rng_below(rng, 150); steps; steps--) {
        htc_fit_job job = { .id = *ids + 1, .estimate = 1 + htc_rng_below(rng, 1000), .nodes = 1 + (uint32_t)htc_rng_below(rng, 20), .priority = (uint32_t)htc_rng_below(rng, 3) };
        *now += htc_rng_below(rng, 30);
        if (htc_rng_below(rng, 2))
            HOLDS(htc_fit_submit(fit, *now, &job) == HTC_OK && ++*ids);
        else if (*ids)
            (void)htc_fit_end(fit, *now, 1 + htc_rng_below(rng, *ids));
        while (htc_rng_below(rng, 4) && htc_fit_next(fit, *now, &job) == HTC_OK)
            ;
    }
    return fit;
}

/* Its jobs start in this order. */
static uint64_t course(htc_fit *fit, htc_ns now, uint64_t ids)
{
    uint64_t    sum = 0;
    htc_fit_job job;
    for (uint64_t id = 1; id <= ids + 1; id++) {
        while (htc_fit_next(fit, now, &job) == HTC_OK)
            sum = 31 * sum + job.id;
        sum = 31 * sum + (uint64_t)(htc_fit_end(fit, now, id) == HTC_OK);
        htc_fit_counts c;
        htc_fit_count(fit, &c);
        sum = 31 * sum + c.waiting + 7 * (uint64_t)c.running + 49 * (uint64_t)c.busy;
        now += 10;
    }
    return sum;
}

Test(fit_tape, is_the_same_fit_or_refused_whatever_is_read)
{
    uint64_t refused = 0, taken = 0;
    PROPERTY (rng, 4000) {
        const htc_fit_policy policy = { .size = sizeof policy, .promise = 1 + (uint32_t)htc_rng_below(&rng, 3) };
        htc_fit_options      o = HTC_FIT_OPTIONS_INIT;
        htc_fit             *copy = NULL;
        htc_ns               now = 0;
        uint64_t             ids = 0;
        reel                 film = { 0 };
        htc_tape             writes = { .size = sizeof writes, .move = reel_write, .ctx = &film }, reads = { .size = sizeof reads, .reads = 1, .move = reel_read, .ctx = &film };
        o.policy = &policy;
        o.nodes = 40;
        htc_fit *fit = some(&rng, &o, &now, &ids);
        HOLDS(htc_fit_tape(fit, &writes) == HTC_OK && htc_fit_create(NULL, &o, &copy) == HTC_OK);
        uint64_t changes = htc_rng_below(&rng, 4);
        for (uint64_t k = changes; k; k--) {
            size_t   at = htc_rng_below(&rng, (htc_rng_below(&rng, 2) && film.len > 200 ? 200 : film.len) / 4) * 4;
            uint32_t word;
            memcpy(&word, film.data + at, sizeof word);
            word = htc_rng_below(&rng, 2) ? (uint32_t)htc_rng_next(&rng) >> htc_rng_below(&rng, 32) : word + 1 - 2 * (uint32_t)htc_rng_below(&rng, 2);
            memcpy(film.data + at, &word, sizeof word);
        }
        htc_status status = htc_fit_tape(copy, &reads);
        HOLDS(status <= HTC_OK && (changes || status == HTC_OK));
        if (status == HTC_OK) {
            uint64_t is = course(copy, now, ids);
            HOLDS(changes || is == course(fit, now, ids));
        }
        refused += status != HTC_OK;
        taken += status == HTC_OK;
        htc_fit_destroy(copy);
        htc_fit_destroy(fit);
        free(film.data);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (refused > 50 && taken > 50), "%llu refused, %llu taken", (unsigned long long)refused, (unsigned long long)taken);
}
