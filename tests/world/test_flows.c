/* Flows in whole systems under everything that can go wrong (htcsched/sim_system.h): agents are workers of flows among ordinary jobs, while
 * slots grow and shrink, agents are lost, store and gateway are killed and clocks go wrong. Some seeds run twice, for the same seed is the
 * same run. tests/world/test_worker.c has workers and a store alone, with larger flows.
 *
 * Then each of the rules that keep it so is left out (lib/core/fault.h), and some seed has to notice.
 *
 * HTC_SEED=n runs one seed and prints its trace, with HTC_BROKEN=rule without that rule; HTC_TEST_FULL=1 runs ten times as many, HTC_TEST_LIGHT=1 a tenth. */
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "htcsched/sim_system.h"

#define SEEDS       400
#define SEEDS_FULL  10000
#define SEEDS_LIGHT 40

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static htc_sim_system_report run(uint64_t seed, int trace)
{
    htc_sim_system_options o = { .size = sizeof o, .seed = seed, .flows = 1, .trace = trace ? print_line : NULL };
    htc_sim_system_report  r = { .size = sizeof r };
    htc_status             status = htc_sim_system_run(NULL, &o, &r);
    if (status != HTC_OK) {
        r.failed = 1;
        snprintf(r.text, sizeof r.text, "seed %llu does not run: %s", (unsigned long long)seed, htc_strerror(status));
    }
    return r;
}

static const char *const rules[] = { "worker_connection_kept", "worker_runs_left", "counted_before_created" };

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
    const char *one = getenv("HTC_SEED"), *rule = getenv("HTC_BROKEN");
    uint64_t    seeds = getenv("HTC_TEST_FULL") ? SEEDS_FULL : getenv("HTC_TEST_LIGHT") ? SEEDS_LIGHT : SEEDS, events = 0, tasks = 0, crashes = 0, agents = 0;
    uint32_t    failed = 0;
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
        htc_sim_system_report r = run(seed, 0), again = seed % 100 == 1 ? run(seed, 0) : r;
        if (r.hash != again.hash || r.events != again.events) {
            printf("seed %llu: two runs differ\n", (unsigned long long)seed);
            failed++;
        }
        if (r.failed) {
            printf("%s   (HTC_SEED=%llu shows the trace)\n", r.text, (unsigned long long)seed);
            failed++;
        }
        events += r.events;
        tasks += r.tasks;
        crashes += r.crashes;
        agents += r.agents;
    }
    printf("%llu seeds: %llu tasks, %llu agents, %llu crashes of gateway or store, %llu events; %u failed\n", (unsigned long long)seeds,
           (unsigned long long)tasks, (unsigned long long)agents, (unsigned long long)crashes, (unsigned long long)events, (unsigned)failed);
    for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
