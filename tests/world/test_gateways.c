/* Whole systems with two gateways on one store, of one server and of three members: leases shorter than the longest pauses, gateways, members and
 * proxies killed, stopped and cut off from each other (htcsched/sim_system.h). Every task has one result, and nothing is destroyed that is still of use.
 *
 * HTC_SEED=n runs one seed and prints its trace, with HTC_BROKEN=rule without that rule; HTC_MEMBERS=1 or 3 runs these alone. HTC_TEST_FULL=1 runs more
 * seeds, HTC_TEST_LIGHT=1 fewer. */
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "htcsched/sim_system.h"

/* Seeds of one server, and of three members, which take three times as long. */
static const struct {
    uint32_t members, seeds, full, light;
} worlds[] = { { 1, 200, 20000, 60 }, { 3, 24, 6000, 10 } };
#define SEEDS_BROKEN 20000

static uint32_t members; /* of the store; 1: it is one server */

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static htc_sim_system_report run(uint64_t seed, int trace)
{
    htc_sim_system_options o = { .size = sizeof o, .seed = seed, .gateways = 2, .members = members, .trace = trace ? print_line : NULL };
    htc_sim_system_report  r = { .size = sizeof r };
    htc_status             status = htc_sim_system_run(NULL, &o, &r);
    if (status != HTC_OK) {
        r.failed = 1;
        snprintf(r.text, sizeof r.text, "seed %llu does not run: %s", (unsigned long long)seed, htc_strerror(status));
    }
    return r;
}

/* Rules of who may write, say and destroy. Without one of them, some seed fails: the first that does is looked for from `from` on. */
static const struct {
    const char *name;
    uint64_t    from[2]; /* with one server, with three members */
} rules[] = {
    { "gateway_writes_blind", { 1, 1 } },
    { "gateway_unconfirmed", { 1, 1 } },
    { "gateway_destroys_early", { 1400, 40 } },
    { "gateway_unsealed", { 1, 1 } },
    { "gateway_usage_unsealed", { 1, 30 } },
    { "gateway_forgets_unknown", { 0, 300 } }, /* one server leaves no outcome open */
};

static int is_noticed(const char *rule, uint64_t from)
{
    htc_sim_system_report r = { .failed = 0 };
    uint64_t              seed = from - 1, last = seed + SEEDS_BROKEN;
    htc__broken_set(htc__broken_find(rule), 1);
    while (!r.failed && seed < last)
        r = run(++seed, 0);
    htc__broken_set(htc__broken_find(rule), 0);
    if (!r.failed) {
        printf("%s, members: %u: nobody notices it in %d seeds\n", rule, (unsigned)members, SEEDS_BROKEN);
        return 0;
    }
    printf("%s, members: %u: %s\n", rule, (unsigned)members, r.text);
    return !run(seed, 0).failed;
}

static int is_wanted(uint32_t count)
{
    const char *only = getenv("HTC_MEMBERS");
    return !only || strtoul(only, NULL, 10) == count;
}

static uint32_t run_all(uint64_t seeds)
{
    uint64_t events = 0, tasks = 0, crashes = 0, agents = 0;
    uint32_t failed = 0;
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
            printf("%s   (HTC_MEMBERS=%u HTC_SEED=%llu shows the trace)\n", r.text, (unsigned)members, (unsigned long long)seed);
            failed++;
        }
        events += r.events;
        tasks += r.tasks;
        crashes += r.crashes;
        agents += r.agents;
    }
    printf("%llu seeds, members: %u: %llu tasks, %llu agents, %llu crashes of gateway or store, %llu events; %u failed\n", (unsigned long long)seeds,
           (unsigned)members, (unsigned long long)tasks, (unsigned long long)agents, (unsigned long long)crashes, (unsigned long long)events, (unsigned)failed);
    return failed;
}

int main(void)
{
    const char *one = getenv("HTC_SEED"), *rule = getenv("HTC_BROKEN"), *full = getenv("HTC_TEST_FULL");
    uint32_t    failed = 0;
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        members = worlds[w].members;
        if (!is_wanted(members))
            continue;
        if (one) {
            if (rule)
                htc__broken_set(htc__broken_find(rule), 1);
            htc_sim_system_report r = run(strtoull(one, NULL, 10), 1);
            printf("%s\n", r.failed ? r.text : "ok");
            failed += r.failed;
        } else if (rule) {
            failed += !is_noticed(rule, 1);
        } else {
            failed += run_all(full && *full == '1' ? worlds[w].full : getenv("HTC_TEST_LIGHT") ? worlds[w].light : worlds[w].seeds);
            for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
                failed += rules[i].from[w] && !is_noticed(rules[i].name, rules[i].from[w]);
        }
    }
    return failed != 0;
}
