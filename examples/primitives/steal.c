/* Eight workers, 64 tasks, all of them at worker 0: the idle steal from the loaded until everybody has work. */
#include <stdio.h>

#include "htcsched/steal.h"

#define WORKERS 8

int main(void)
{
    uint64_t                waiting[WORKERS] = { 64 };
    htc_steal_thief         thief[WORKERS];
    htc_rng                 rng = { 2016 };
    htc_registry           *registry;
    htc_steal_options       options = HTC_STEAL_OPTIONS_INIT;
    const htc_steal_policy *policy;
    if (htc_registry_create(NULL, &registry) != HTC_OK || htc_registry_add_builtin(registry) != HTC_OK)
        return 1;
    if (htc_steal_find(registry, "two", &policy) != HTC_OK)
        return 1;
    options.policy = policy;
    for (uint32_t w = 0; w < WORKERS; w++)
        htc_steal_start(WORKERS, w, 0, &thief[w]);
    for (htc_ns now = 0; now < 10 * HTC_MS; now += HTC_MS)
        for (uint32_t w = 0; w < WORKERS; w++) {
            uint32_t whom[WORKERS], n, at, victim = HTC_STEAL_NOBODY;
            uint64_t load[WORKERS], got = 0;
            /* Only an idle worker looks for work, and only when its last failure is long enough ago. */
            if (waiting[w] > 0 || htc_steal_ask(&thief[w], &options, now, &rng, WORKERS, whom, &n) != HTC_OK)
                continue;
            for (uint32_t i = 0; i < n; i++)
                load[i] = waiting[whom[i]]; /* a message to each, all at once */
            if (htc_steal_victim(load, n, &at) == HTC_OK) {
                victim = whom[at];
                htc_steal_give(&options, load[at], 0, &got); /* the victim decides how many */
                waiting[victim] -= got;
                waiting[w] += got;
                printf("%llu ms: %u asks %u and takes %llu from %u\n", (unsigned long long)(now / HTC_MS), w, n,
                       (unsigned long long)got, victim);
            } else
                printf("%llu ms: %u asks %u, nobody has any\n", (unsigned long long)(now / HTC_MS), w, n);
            htc_steal_settle(&thief[w], &options, now, victim, got);
        }
    htc_registry_destroy(registry);
    return 0;
}
