/* Four jobs on ten nodes. The second is wide and has to wait; what may pass it in the meantime is the policy's promise.
 */
#include <stdio.h>

#include "htcsched/fit.h"

static void play(const char *name, const htc_fit_policy *policy)
{
    static const htc_fit_job jobs[] = {
        { .id = 1, .nodes = 6, .estimate = 10 * HTC_SECOND },
        { .id = 2, .nodes = 8, .estimate = 5 * HTC_SECOND },
        { .id = 3, .nodes = 2, .estimate = 60 * HTC_SECOND },
        { .id = 4, .nodes = 1, .estimate = 11 * HTC_SECOND },
    };
    htc_fit_options options = HTC_FIT_OPTIONS_INIT;
    htc_fit_job     job;
    htc_fit_reason  reason;
    htc_fit        *fit;
    htc_ns          start;
    uint32_t        reserved;
    options.nodes = 10;
    options.policy = policy;
    if (htc_fit_create(NULL, &options, &fit) != HTC_OK)
        return;
    for (size_t i = 0; i < 4; i++)
        htc_fit_submit(fit, 0, &jobs[i]);
    printf("%s starts", name);
    while (htc_fit_next(fit, 0, &job) == HTC_OK)
        printf(" %d", (int)job.id);
    printf("\n");
    for (size_t i = 0; htc_fit_at(fit, i, &job) == HTC_OK; i++) {
        if (htc_fit_explain(fit, 0, job.id, &reason) == HTC_OK)
            printf("  %d %s\n", (int)job.id, reason.text);
        if (htc_fit_when(fit, 0, job.id, &start, &reserved) == HTC_OK)
            printf("    start %s: %d s\n", reserved ? "reserved" : "expected", (int)(start / HTC_SECOND));
    }
    htc_fit_destroy(fit);
}

int main(void)
{
    htc_registry         *registry;
    const htc_fit_policy *policy;
    if (htc_registry_create(NULL, &registry) != HTC_OK || htc_registry_add_builtin(registry) != HTC_OK)
        return 1;
    const char *name;
    for (size_t i = 0; (name = htc_registry_name(registry, HTC_REGISTRY_FIT, i)); i++)
        if (htc_fit_find(registry, name, &policy) == HTC_OK)
            play(name, policy);
    htc_registry_destroy(registry);
    return 0;
}
