/* Whole systems under everything that can go wrong, over many seeds (htcsched/sim_system.h); some of them twice, for the same seed is
 * the same run.
 *
 * HTC_SEED=n runs one seed and prints its trace, with HTC_BROKEN=rule without that rule; HTC_TEST_FULL=1 runs ten times as many,
 * HTC_TEST_LIGHT=1 a tenth. */
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "htcsched/sim_system.h"

#define SEEDS       2000
#define SEEDS_FULL  20000
#define SEEDS_LIGHT 200

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static htc_sim_system_report run(uint64_t seed, int trace)
{
    htc_sim_system_options o = { .size = sizeof o, .seed = seed, .trace = trace ? print_line : NULL };
    htc_sim_system_report  r = { .size = sizeof r };
    htc_status             status = htc_sim_system_run(NULL, &o, &r);
    if (status != HTC_OK) {
        r.failed = 1;
        snprintf(r.text, sizeof r.text, "seed %llu does not run: %s", (unsigned long long)seed, htc_strerror(status));
    }
    return r;
}

/* Rules of jobs that wait for others. Without one of them, some seed fails. */
static const char *const rules[] = { "after_granted", "after_linked_late", "after_not_looked" };

static int is_noticed(const char *rule)
{
    htc_sim_system_report r = { .failed = 0 };
    uint64_t              seed = 0;
    htc__broken_set(htc__broken_find(rule), 1);
    while (!r.failed && seed < SEEDS_FULL)
        r = run(++seed, 0);
    htc__broken_set(htc__broken_find(rule), 0);
    if (!r.failed) {
        printf("%s: nobody notices it in %d seeds\n", rule, SEEDS_FULL);
        return 0;
    }
    printf("%s: %s\n", rule, r.text);
    return !run(seed, 0).failed;
}

int main(void)
{
    const char *one = getenv("HTC_SEED"), *rule = getenv("HTC_BROKEN"), *full = getenv("HTC_TEST_FULL");
    uint64_t    seeds = full && *full == '1' ? SEEDS_FULL : getenv("HTC_TEST_LIGHT") ? SEEDS_LIGHT : SEEDS, events = 0, tasks = 0, crashes = 0, agents = 0;
    uint32_t    failed = 0;
    htc_ns      idle = 0;
    if (rule && one)
        htc__broken_set(htc__broken_find(rule), 1);
    else if (rule)
        return !is_noticed(rule);
    if (one) {
        htc_sim_system_report r = run(strtoull(one, NULL, 10), 1);
        printf("%s\n", r.failed ? r.text : "ok");
        return r.failed != 0;
    }
    for (uint64_t seed = 1; seed <= seeds && failed < 20; seed++) {
        htc_sim_system_report r = run(seed, 0);
        if (seed % 100 == 1) {
            htc_sim_system_report again = run(seed, 0);
            if (r.hash != again.hash || r.events != again.events) {
                printf("seed %llu: two runs differ\n", (unsigned long long)seed);
                failed++;
            }
        }
        if (r.failed) {
            printf("%s   (HTC_SEED=%llu shows the trace)\n", r.text, (unsigned long long)seed);
            failed++;
        }
        events += r.events;
        tasks += r.tasks;
        crashes += r.crashes;
        agents += r.agents;
        idle = r.idle_longest > idle ? r.idle_longest : idle;
    }
    printf("%llu seeds: %llu tasks, %llu agents, %llu crashes of gateway or store, %llu events; a slot was free for at most %.1f ms; %u failed\n",
           (unsigned long long)seeds, (unsigned long long)tasks, (unsigned long long)agents, (unsigned long long)crashes,
           (unsigned long long)events, (double)idle / 1e6, (unsigned)failed);
    for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
