/* The wheel against a plain list: who is due, when, and when it says that it wants to be asked. */
#include "expect.h"
#include <stdlib.h>

#include "kvs/util/wheel.h"
#include "property.h"

#define ENTRIES 200

typedef struct timer {
    htc__wheel_entry entry;
    htc_ns           at; /* HTC_NEVER: in no wheel */
} timer;

static htc_ns some_time(htc_rng *rng)
{
    static const htc_ns spans[] = {
        HTC_MS / 3, 64 * HTC_MS, 5 * HTC_SECOND, 3600 * HTC_SECOND, 400 * 86400 * HTC_SECOND, UINT64_C(1) << 62
    };
    return htc_rng_below(rng, spans[htc_rng_below(rng, 6)]);
}

static htc_ns rounded(htc_ns at)
{
    return at % HTC_MS ? at - at % HTC_MS + HTC_MS : at;
}

/* Everything is taken once, never before its moment, and at its moment if somebody comes when the wheel says. */
Test(wheel, says_who_is_due)
{
    timer *timers = calloc(ENTRIES, sizeof *timers);
    PROPERTY(rng, 300)
    {
        htc_ns     now = some_time(&rng);
        htc__wheel w;
        size_t     in = 0;
        htc__wheel_init(&w, now, HTC_MS);
        for (int i = 0; i < ENTRIES; i++)
            timers[i] = (timer){ .at = HTC_NEVER };
        for (int step = 0; step < 600; step++) {
            timer *t = &timers[htc_rng_below(&rng, ENTRIES)];
            if (t->at != HTC_NEVER || htc_rng_below(&rng, 4) == 0) {
                htc__wheel_remove(&w, &t->entry);
                in -= t->at != HTC_NEVER;
                t->at = HTC_NEVER;
            } else {
                t->at = now + some_time(&rng);
                in++;
                htc__wheel_add(&w, &t->entry, t->at);
            }
            HOLDS(w.count == in);
            htc_ns next = HTC_NEVER, said = htc__wheel_next(&w);
            for (int i = 0; i < ENTRIES; i++)
                if (timers[i].at != HTC_NEVER && rounded(timers[i].at) < next)
                    next = rounded(timers[i].at);
            HOLDS(said <= next);
            if (said == HTC_NEVER)
                continue;
            htc_ns wait = htc_rng_below(&rng, 3) ? 0 : some_time(&rng) % (3600 * HTC_SECOND);
            if (htc_rng_below(&rng, 2) && said > now)
                wait = said - now;
            now += wait;
            for (int calls = 0; htc__wheel_next(&w) <= now; calls++) {
                htc__wheel_entry *entry = htc__wheel_take(&w, now);
                HOLDS(calls < 20 * ENTRIES);
                if (!entry)
                    continue;
                t = (timer *)entry;
                HOLDS(t->at <= now);
                t->at = HTC_NEVER;
                in--;
            }
            for (int i = 0; i < ENTRIES; i++)
                HOLDS(timers[i].at == HTC_NEVER || rounded(timers[i].at) > now);
        }
    }
    free(timers);
}

/* What is far away costs nothing on the way there: a handful of calls, not one a tick. */
Test(wheel, sleeps_through_empty_years)
{
    htc__wheel       w;
    htc__wheel_entry entry = { 0 };
    int              calls = 0;
    htc__wheel_init(&w, 0, HTC_MS);
    htc__wheel_add(&w, &entry, 3 * 365 * 86400 * HTC_SECOND + 1);
    while (!htc__wheel_take(&w, htc__wheel_next(&w)))
        cr_assert(lt(int, calls++, 2 * HTC__WHEEL_LEVELS));
    cr_expect(eq(u64, w.tick, 3 * 365 * 86400 * UINT64_C(1000) + 1));
    cr_expect(eq(u64, htc__wheel_next(&w), HTC_NEVER));
}
