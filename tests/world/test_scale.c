/* The scale model of fair sharing beside its exact twin, the system of real gateway, store and agents, on 16, 64 and 256 slots: the
 * same workload with the same lengths in both. And a model whose policy is broken on purpose, which must fare otherwise: it is the policy that decides. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/sim_fairshare.h"

#define SLOTS    16 /* of the workload below: more slots have as many times its tasks */
#define USERS    4
#define JOBS     7
#define SAMPLES  4000 /* a second each */
#define WITHIN   0.05

static int failed;

static void expect(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(int good, const char *format, ...)
{
    va_list args;
    if (good)
        return;
    failed++;
    va_start(args, format);
    printf("  WRONG: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* ---- one workload ---- */

static const double weights[USERS] = { 1, 2, 1, 3 };
static const struct {
    uint32_t user;
    uint64_t tasks;
    uint32_t arrival_s;
} jobs[JOBS] = { { 0, 300, 0 }, { 1, 200, 20 }, { 2, 60, 50 }, { 3, 200, 90 }, { 0, 40, 100 }, { 2, 150, 170 }, { 1, 80, 260 } };

/* The costs of the exact world, and what they come to in the model: an agent is launched, registers, and its first grant is committed; a result
 * is committed, and the next grant; an agent says that it has left. */
#define COMMIT_NS (2 * HTC_MS)
#define LAUNCH_NS (500 * HTC_MS)
#define STAGE_NS  HTC_MS
static const htc_ns model_launch = LAUNCH_NS + 2 * COMMIT_NS + STAGE_NS, model_pull = COMMIT_NS + 2 * STAGE_NS + HTC_MS, model_leave = COMMIT_NS;

typedef struct trial {
    const char   *policy;
    uint32_t      prefetch; /* of the gateway; 0: as many tasks as it likes */
    htc_scale_law law;
    uint64_t      seed;
    uint32_t      slots;
} trial;

/* What is compared. */
typedef struct course {
    uint32_t n;
    double   cores[SAMPLES][USERS];
    double   makespan;
    uint64_t ended;
} course;

/* ---- the same experiment in both ---- */

static void sample(void *ctx, const htc_sim_fairshare_sample *x)
{
    course *c = ctx;
    if (c->n == SAMPLES)
        return;
    for (int u = 0; u < USERS; u++)
        c->cores[c->n][u] = (double)x->cores[u];
    c->n++;
}

static void run(const trial *t, int exactly, course *c)
{
    static const htc_sim_fairshare_exact_options costs = { .size = sizeof costs, .commit_ns = COMMIT_NS, .stage_ns = STAGE_NS };
    htc_sim_fairshare_exact_options              paid = costs;
    htc_sim_fairshare_user                       users[USERS];
    htc_sim_fairshare_job                        all[JOBS];
    htc_sim_fairshare_options o = { .size = sizeof o, .seed = t->seed, .cores = t->slots, .users = users, .n_users = USERS, .jobs = all, .n_jobs = JOBS,
                                    .launch_ns = exactly ? LAUNCH_NS : model_launch, .pull_ns = model_pull, .leave_ns = model_leave, .gap_ns = 50 * HTC_MS,
                                    .sample_ns = HTC_SECOND, .sample = sample, .sample_ctx = c };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_error                 e = { 0 };
    for (int u = 0; u < USERS; u++)
        users[u] = (htc_sim_fairshare_user){ .size = sizeof(htc_sim_fairshare_user), .weight = weights[u] };
    for (int j = 0; j < JOBS; j++)
        all[j] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = jobs[j].user, .tasks = jobs[j].tasks * t->slots / SLOTS,
                                          .arrival = jobs[j].arrival_s * HTC_SECOND, .length = t->law };
    *c = (course){ 0 };
    paid.prefetch = t->prefetch;
    htc_status status = htc_allot_policy_from_name(t->policy, &o.policy);
    if (status == HTC_OK)
        status = exactly ? htc_sim_fairshare_exact(NULL, &o, &paid, &r, NULL, &e) : htc_sim_fairshare_run(NULL, &o, &r, NULL, &e);
    expect(status == HTC_OK && !r.scale.wrong[0], "%s: %s %s %s", exactly ? "exact" : "scale", htc_strerror(status), e.text, r.scale.wrong);
    c->ended = r.scale.ended;
    c->makespan = (double)r.scale.makespan / 1e9;
}

/* ---- beside each other ---- */

static double area(const course *c, int u)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++)
        sum += c->cores[i][u];
    return sum;
}

/* How far apart the cores of a user are over time, as a part of the cluster: of ten seconds each the means, and of these distances the mean. */
static double apart(const course *a, const course *b, int u, uint32_t slots)
{
    uint32_t n = a->n < b->n ? a->n : b->n;
    double   sum = 0;
    for (uint32_t i = 0; i + 10 <= n; i += 10) {
        double difference = 0;
        for (uint32_t k = i; k < i + 10; k++)
            difference += a->cores[k][u] - b->cores[k][u];
        sum += fabs(difference) / 10 / slots;
    }
    return sum / (n / 10);
}

static course exact, scale;

static void beside(trial t)
{
    run(&t, 1, &exact);
    run(&t, 0, &scale);
    double throughput = ((double)scale.ended / scale.makespan) / ((double)exact.ended / exact.makespan), all = 0, share = 0, over_time = 0;
    for (int u = 0; u < USERS; u++)
        all += area(&exact, u);
    for (int u = 0; u < USERS; u++) {
        share = fmax(share, fabs(area(&exact, u) - area(&scale, u)) / all);
        over_time = fmax(over_time, apart(&exact, &scale, u, t.slots));
    }
    printf("  %3u slots, %-7s seed %llu: makespan %7.1f s exact, %7.1f s scale; throughput %+.2f %%, shares within %.2f %%, cores over time within %.2f %%\n", (unsigned)t.slots,
           t.policy, (unsigned long long)t.seed, exact.makespan, scale.makespan, 100 * (throughput - 1), 100 * share, 100 * over_time);
    expect(exact.ended == scale.ended, "%llu tasks have ended, and %llu in the model", (unsigned long long)exact.ended, (unsigned long long)scale.ended);
    expect(fabs(throughput - 1) <= WITHIN, "throughput");
    expect(share <= WITHIN, "shares");
    expect(over_time <= WITHIN, "cores over time");
}

static void beside_all(void)
{
    static const char *const policies[] = { "maxmin", "eq1", "static", "fcfs" };
    const htc_scale_law      lognormal = { HTC_SCALE_LOGNORMAL, 0, 4e9, 0.8 }, constant = { HTC_SCALE_CONSTANT, 0, 4e9, 0 };
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (uint64_t seed = 1; seed <= (getenv("HTC_TEST_LIGHT") ? 1u : 3u); seed++)
            beside((trial){ policies[i], 1, lognormal, seed, SLOTS });
    beside((trial){ "maxmin", 1, constant, 1, SLOTS });
    beside((trial){ "maxmin", 0, lognormal, 1, SLOTS });
    for (uint32_t slots = 64; slots <= (getenv("HTC_TEST_LIGHT") ? 64u : getenv("HTC_TEST_FULL") ? 1024u : 256u); slots *= 4)
        beside((trial){ "maxmin", 1, lognormal, 1, slots });
}

/* ---- with another policy ---- */

/* Two users with endless work, of weights 1 and 3: what the second has of the cores while both have tasks. */
static double second_has(htc__broken broken)
{
    const htc_sim_fairshare_user users[] = { { .size = sizeof(htc_sim_fairshare_user), .weight = 1 }, { .size = sizeof(htc_sim_fairshare_user), .weight = 3 } };
    const htc_sim_fairshare_job  both[] = { { .size = sizeof(htc_sim_fairshare_job), .user = 0, .tasks = 4000, .length.mean_ns = 1e9 }, { .size = sizeof(htc_sim_fairshare_job), .user = 1, .tasks = 4000, .length.mean_ns = 1e9 } };
    htc_sim_fairshare_options    o = { .size = sizeof o, .cores = SLOTS, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 2, .jobs = both, .n_jobs = 2 };
    htc_sim_fairshare_report     r = { .size = sizeof r };
    htc_sim_fairshare_result     u[2];
    htc__broken_set(broken, 1);
    htc_status status = htc_sim_fairshare_run(NULL, &o, &r, u, NULL);
    htc__broken_set(broken, 0);
    expect(status == HTC_OK && !r.scale.wrong[0], "%s", r.scale.wrong);
    return u[1].core_s / ((double)u[1].makespan / 1e9) / SLOTS;
}

int main(void)
{
    printf("the model beside the real gateway, store and agents:\n");
    beside_all();
    double as_it_is = second_has(HTC__BROKEN_NOTHING), broken = second_has(HTC__BROKEN_weights_ignored);
    printf("a user of weight 3 beside one of weight 1 has %.2f of the cores, and %.2f if the policy ignores weights\n", as_it_is, broken);
    expect(fabs(as_it_is - 0.75) < 0.01, "the share is not that of the weight");
    expect(fabs(broken - 0.5) < 0.01, "a broken policy changes nothing: the model does not ask it");
    printf("%s\n", failed ? "FAILED" : "ok");
    return failed != 0;
}
