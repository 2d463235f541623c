/* The scale model of fair sharing: exact where the figures follow from arithmetic, the same run everywhere, and nothing lost. */
#include <math.h>

#include "alloc_fail.h"
#include "property.h"
#include "reel.h"

#include "htcsched/sim_fairshare.h"

#define S HTC_SECOND

static volatile int stop;

/* ---- the worked example (P 2.2): 100 cores, nothing takes time but tasks ---- */

typedef struct course {
    uint64_t cores[400][4], queued[400];
} course;

static void note(void *ctx, const htc_sim_fairshare_sample *s)
{
    course  *c = ctx;
    uint64_t at = s->at / S;
    if (at >= 400)
        return;
    c->queued[at] = s->queued;
    for (size_t u = 0; u < s->n_users; u++)
        c->cores[at][u] = s->cores[u];
}

Test(sim_fairshare, is_the_worked_example)
{
    static const struct {
        unsigned at, a, b, c, queued;
    } expected[] = { { 0, 100, 0, 0, 100 },  { 50, 100, 0, 0, 150 }, { 100, 50, 50, 0, 50 }, { 150, 50, 50, 0, 70 },
                     { 160, 80, 0, 20, 20 }, { 200, 50, 0, 20, 0 },  { 260, 20, 0, 0, 0 },   { 299, 20, 0, 0, 0 } };
    static const htc_sim_fairshare_user users[3] = { { .size = sizeof(htc_sim_fairshare_user), .weight = 1 }, { .size = sizeof(htc_sim_fairshare_user), .weight = 1 }, { .size = sizeof(htc_sim_fairshare_user), .weight = 1 } };
    const htc_sim_fairshare_job         jobs[] = { { .size = sizeof(htc_sim_fairshare_job), .user = 0, .tasks = 200, .length.mean_ns = 100 * (double)S },
                                                   { .size = sizeof(htc_sim_fairshare_job), .user = 2, .tasks = 20, .arrival = 150 * S, .length.mean_ns = 100 * (double)S },
                                                   { .size = sizeof(htc_sim_fairshare_job), .user = 1, .tasks = 50, .arrival = 50 * S, .length.mean_ns = 60 * (double)S } };
    course                    c = { 0 };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 100, .policy = HTC_ALLOT_EQ1, .users = users, .n_users = 3, .jobs = jobs, .n_jobs = 3,
                                    .sample_ns = S, .sample = note, .sample_ctx = &c };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_sim_fairshare_result  u[3];
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, u, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        unsigned at = expected[i].at;
        cr_expect(eq(u64, c.cores[at][0], expected[i].a) && eq(u64, c.cores[at][1], expected[i].b) && eq(u64, c.cores[at][2], expected[i].c), "t = %u", at);
        cr_expect(eq(u64, c.queued[at], expected[i].queued), "t = %u", at);
    }
    cr_expect(eq(u64, u[0].makespan, 300 * S) && eq(u64, u[1].makespan, 110 * S) && eq(u64, u[2].makespan, 110 * S));
    cr_expect(eq(u64, r.scale.makespan, 300 * S));
    /* of A 100 tasks end at 100 s, 50 at 200, 30 at 260 and 20 at 300 */
    cr_expect(eq(dbl, u[0].response_s, 169) && eq(dbl, u[1].response_s, 110) && eq(dbl, u[2].response_s, 110));
    cr_expect(eq(dbl, r.scale.busy_s, 200 * 100 + 50 * 60 + 20 * 100));
    cr_expect(eq(dbl, u[0].core_s, 20000) && eq(dbl, u[0].work_s, 20000));
    cr_expect(eq(dbl, r.idle_s, 0));
}

/* ---- four bags, one every 600 s, tasks of 760 s: rows with equal lengths of the table of makespans ---- */

static void four_bags(uint64_t cores, uint32_t policy, const uint64_t *bags, const double *makespans)
{
    static const htc_sim_fairshare_user users[4] = { { .size = sizeof *users }, { .size = sizeof *users }, { .size = sizeof *users }, { .size = sizeof *users } };
    htc_sim_fairshare_job               jobs[4];
    for (uint32_t i = 0; i < 4; i++)
        jobs[i] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = i, .tasks = bags[i], .arrival = i * 600 * S, .length.mean_ns = 760 * (double)S };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = cores, .policy = policy, .users = users, .n_users = 4, .jobs = jobs, .n_jobs = 4 };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_sim_fairshare_result  u[4];
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, u, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    for (int i = 0; i < 4; i++)
        cr_expect(eq(dbl, (double)u[i].makespan / 1e9, makespans[i]), "%u cores, policy %u, user %d", (unsigned)cores, policy, i);
}

/* E4 at CV 0: row 13 of the specification's section 7; examples/sim/htcaas-fig4*.ini have the rest, with mean response times and curves. */
Test(sim_fairshare, has_the_published_makespans)
{
    static const uint64_t small[] = { 1000, 500, 250, 100 }, large[] = { 2000, 1000, 500, 250 };
    four_bags(360, HTC_ALLOT_STATIC, small, (const double[]){ 9120, 4560, 2280, 1520 });
    four_bags(360, HTC_ALLOT_EQ1, small, (const double[]){ 4560, 3200, 2600, 2000 });
    four_bags(480, HTC_ALLOT_STATIC, large, (const double[]){ 12920, 6840, 3800, 2280 });
    four_bags(480, HTC_ALLOT_EQ1, large, (const double[]){ 6080, 4720, 3360, 2760 });
    four_bags(954, HTC_ALLOT_EQ1, large, (const double[]){ 3040, 2440, 1840, 1240 });
}

/* ---- any run ---- */

/* One to four clusters with all that may happen there. */
static void draw_clusters(htc_rng *rng, htc_sim_fairshare_options *o)
{
    static htc_sim_fairshare_cluster clusters[4];
    o->clusters = clusters;
    o->n_clusters = 1 + htc_rng_below(rng, 4);
    o->cores = 0;
    for (size_t k = 0; k < o->n_clusters; k++) {
        clusters[k] = (htc_sim_fairshare_cluster){ .size = sizeof *clusters, .cores = 8 + htc_rng_below(rng, 60), .speed = (double)htc_rng_below(rng, 4) / 2,
                                                   .service_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 300 * HTC_MS), .batch = (uint32_t)htc_rng_below(rng, 20),
                                                   .hold = (double)htc_rng_below(rng, 2) / 20, .hold_rate = (double)htc_rng_below(rng, 2) / 500,
                                                   .life_ns = htc_rng_below(rng, 2) * (50 + htc_rng_below(rng, 500)) * S,
                                                   .others_gap = { HTC_SCALE_EXPONENTIAL, 0, (double)(htc_rng_below(rng, 2) * htc_rng_below(rng, 5 * S)), 0 },
                                                   .others_length = { HTC_SCALE_UNIFORM, 0, (double)htc_rng_below(rng, 30 * S), 1 }, .others = htc_rng_below(rng, 9) };
        o->cores += clusters[k].cores;
    }
    o->choice = (uint32_t)htc_rng_below(rng, 2);
    o->direct = htc_rng_below(rng, 4) == 0;
    o->records = (uint32_t)htc_rng_below(rng, 3);
    o->record_ns = htc_rng_below(rng, 30 * HTC_MS);
    o->estimated = (uint32_t)htc_rng_below(rng, 2);
    o->gamma = (double)htc_rng_below(rng, 3) / 2 - 0.5;
    o->held_ns = 40 * S;
    o->lost_ns = (htc_ns)htc_rng_below(rng, 20) * S;
}

static void draw_run(htc_rng *rng, htc_sim_fairshare_user *users, htc_sim_fairshare_job *jobs, htc_sim_fairshare_options *o)
{
    *o = (htc_sim_fairshare_options){ .size = sizeof *o, .seed = htc_rng_next(rng), .cores = 1 + htc_rng_below(rng, 200), .policy = (uint32_t)htc_rng_below(rng, 4),
                                      .min_agents = (uint32_t)htc_rng_below(rng, 3), .users = users, .n_users = 1 + htc_rng_below(rng, 8), .jobs = jobs,
                                      .n_jobs = 1 + htc_rng_below(rng, 30), .sample_ns = 5 * S };
    htc_ns *delays[] = { &o->launch_ns, &o->pull_ns, &o->leave_ns, &o->gap_ns };
    for (int i = 0; i < 4; i++)
        *delays[i] = htc_rng_below(rng, 2) * htc_rng_below(rng, 3 * S);
    if (htc_rng_below(rng, 2))
        draw_clusters(rng, o);
    else if (o->policy == HTC_ALLOT_STATIC && o->cores < o->n_users)
        o->cores = o->n_users;
    for (size_t u = 0; u < o->n_users; u++)
        users[u] = (htc_sim_fairshare_user){ .size = sizeof(htc_sim_fairshare_user), .weight = (double)(1 + htc_rng_below(rng, 5)) };
    for (size_t j = 0; j < o->n_jobs; j++) {
        uint32_t kind = (uint32_t)htc_rng_below(rng, 4);
        jobs[j] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = (uint32_t)htc_rng_below(rng, o->n_users), .tasks = 1 + htc_rng_below(rng, 300),
                                           .arrival = htc_rng_below(rng, 100 * S),
                                           .length = { kind, 0, (double)htc_rng_below(rng, 20 * S), kind % 2 ? 0.5 : 0 } };
    }
}

Test(sim_fairshare, loses_nothing_and_is_the_same_again)
{
    PROPERTY (rng, 200) {
        htc_sim_fairshare_user    users[8];
        htc_sim_fairshare_job     jobs[30];
        htc_sim_fairshare_result  result[8];
        htc_sim_fairshare_options o;
        htc_sim_fairshare_report  r = { .size = sizeof r }, again = r;
        draw_run(&rng, users, jobs, &o);
        HOLDS(htc_sim_fairshare_run(NULL, &o, &r, result, NULL) == HTC_OK);
        HOLDS(htc_sim_fairshare_run(NULL, &o, &again, NULL, NULL) == HTC_OK);
        cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        HOLDS(r.scale.hash == again.scale.hash);
        double   core_s = 0;
        uint64_t tasks = 0;
        HOLDS(o.direct || r.completed == 1);
        for (size_t u = 0; u < o.n_users; u++) {
            HOLDS(result[u].ended + result[u].held == result[u].tasks && (o.direct || !result[u].held) && result[u].core_s >= result[u].work_s - 1e-6);
            core_s += result[u].core_s;
            tasks += result[u].ended;
        }
        HOLDS(tasks == r.scale.ended && core_s <= (double)o.cores * (double)r.scale.span / 1e9 + 1e-6);
        HOLDS(r.efficiency <= 1 + 1e-9 && r.fairness <= 1 + 1e-9);
        /* a policy that divides all leaves no core idle but between two divisions */
        HOLDS(o.policy == HTC_ALLOT_STATIC || o.gap_ns || o.clusters || r.idle_s == 0);
    }
}

/* Twice the weight, twice the cores while both have tasks. */
Test(sim_fairshare, shares_by_weight)
{
    static const htc_sim_fairshare_user users[] = { { .size = sizeof(htc_sim_fairshare_user), .weight = 1 }, { .size = sizeof(htc_sim_fairshare_user), .weight = 2 } };
    const htc_sim_fairshare_job         jobs[] = { { .size = sizeof(htc_sim_fairshare_job), .user = 0, .tasks = 3000, .length.mean_ns = 10 * (double)S }, { .size = sizeof(htc_sim_fairshare_job), .user = 1, .tasks = 3000, .length.mean_ns = 10 * (double)S } };
    course                              c = { 0 };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 300, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 2, .jobs = jobs, .n_jobs = 2,
                                              .sample_ns = S, .sample = note, .sample_ctx = &c };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(u64, c.cores[100][0], 100) && eq(u64, c.cores[100][1], 200));
    cr_expect(r.fairness > 0.999);
}

/* 60 users, 500 cores: the hash that gcc and clang, optimised and sanitised, come to. */
Test(sim_fairshare, is_the_same_run_everywhere)
{
    static htc_sim_fairshare_user users[60];
    static htc_sim_fairshare_job  jobs[120];
    for (uint32_t i = 0; i < 60; i++)
        users[i] = (htc_sim_fairshare_user){ .size = sizeof(htc_sim_fairshare_user), .weight = 1 + i % 3 };
    for (uint32_t i = 0; i < 120; i++)
        jobs[i] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = i % 60, .tasks = 50 + i, .arrival = i * 7 * S, .length = { HTC_SCALE_LOGNORMAL, 0, 300 * (double)S, 0.8 } };
    htc_sim_fairshare_options o = { .size = sizeof o, .seed = 5, .cores = 500, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 60, .jobs = jobs, .n_jobs = 120,
                                    .launch_ns = 5 * S, .pull_ns = 2 * HTC_MS, .gap_ns = 50 * HTC_MS };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, r.scale.hash, UINT64_C(6808714755867986808)));
}

/* ---- clusters ---- */

/* Tasks of one user on these clusters. */
static htc_sim_fairshare_report bag_of(htc_sim_fairshare_options o, uint64_t tasks, htc_scale_law length, htc_sim_fairshare_cluster_result *results)
{
    static const htc_sim_fairshare_user user = { .size = sizeof user };
    const htc_sim_fairshare_job         job = { .size = sizeof job, .tasks = tasks, .length = length };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    o.size = sizeof o;
    o.users = &user;
    o.jobs = &job;
    o.n_users = o.n_jobs = 1;
    o.cluster_results = results;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    return r;
}

static htc_sim_fairshare_report bag(htc_sim_fairshare_options o, uint64_t tasks, double length_s, htc_sim_fairshare_cluster_result *results)
{
    return bag_of(o, tasks, (htc_scale_law){ .mean_ns = length_s * (double)S }, results);
}

static double seconds_of(const htc_sim_fairshare_report *r)
{
    return (double)r->scale.makespan / 1e9;
}

/* 4000 equal tasks on 128, 128, 184 and 514 cores: 5 rounds; on the last of these alone, where the batch system puts them, 8. */
Test(sim_fairshare, integrates_clusters)
{
    const htc_sim_fairshare_cluster  all[4] = { { .size = sizeof *all, .cores = 128 }, { .size = sizeof *all, .cores = 128 }, { .size = sizeof *all, .cores = 184 }, { .size = sizeof *all, .cores = 514 } };
    htc_sim_fairshare_cluster_result on[4];
    htc_sim_fairshare_options        o = { .clusters = all, .n_clusters = 4 };
    htc_sim_fairshare_report         r = bag(o, 4000, 10, on);
    cr_expect(eq(u64, r.cores, 954) && eq(dbl, seconds_of(&r), 50));
    for (int k = 0; k < 4; k++)
        cr_expect(on[k].agents == all[k].cores && on[k].tasks >= 4 * all[k].cores, "cluster %d has %llu agents", k, (unsigned long long)on[k].agents);
    o.direct = 1;
    r = bag(o, 4000, 10, on);
    cr_expect(eq(dbl, seconds_of(&r), 80));
    cr_expect(eq(u64, on[3].tasks, 4000) && eq(u64, on[0].tasks, 0) && eq(u64, on[3].jobs, 4000));
}

/* Faster cores first, then where most are free; or in the order of the list. */
Test(sim_fairshare, chooses_the_fastest_cluster)
{
    const htc_sim_fairshare_cluster  all[3] = { { .size = sizeof *all, .cores = 10 }, { .size = sizeof *all, .cores = 20, .speed = 2 }, { .size = sizeof *all, .cores = 30, .speed = 2 } };
    htc_sim_fairshare_cluster_result on[3];
    htc_sim_fairshare_options        o = { .clusters = all, .n_clusters = 3 };
    htc_sim_fairshare_report         r = bag(o, 12, 10, on);
    cr_expect(eq(u64, on[2].agents, 11) && eq(u64, on[1].agents, 1) && eq(dbl, seconds_of(&r), 5)); /* 30 and 20 free: ten there, then by turns */
    o.choice = HTC_SIM_FAIRSHARE_FIRST;
    r = bag(o, 12, 10, on);
    cr_expect(eq(u64, on[0].agents, 10) && eq(u64, on[1].agents, 2) && eq(dbl, seconds_of(&r), 10));
}

/* 4000 tasks of 10 s on 300 cores; a job takes the batch system 0.1 s, a record 29 ms. */
Test(sim_fairshare, has_the_systems_of_the_micro_benchmark)
{
    htc_sim_fairshare_cluster cluster = { .size = sizeof cluster, .cores = 300, .service_ns = 100 * HTC_MS };
    htc_sim_fairshare_options o = { .clusters = &cluster, .n_clusters = 1, .direct = 1 };
    htc_sim_fairshare_report  r = bag(o, 4000, 10, NULL);
    cr_expect(eq(dbl, seconds_of(&r), 410));
    o.direct = 0;
    cluster.batch = 300;
    r = bag(o, 4000, 10, NULL);
    cr_expect(eq(dbl, seconds_of(&r), 140.1));
    o.records = HTC_SIM_FAIRSHARE_GROUPED;
    o.record_ns = 2 * HTC_MS;
    r = bag(o, 4000, 10, NULL);
    cr_expect(seconds_of(&r) > 140.1 && seconds_of(&r) < 1.02 * 140);
    o.records = HTC_SIM_FAIRSHARE_SERIAL;
    o.record_ns = 29 * HTC_MS;
    r = bag(o, 4000, 10, NULL);
    cr_expect(seconds_of(&r) >= 235 && seconds_of(&r) <= 250, "%.1f s", seconds_of(&r));
    /* Outputs on one shared file system: one after the other, whichever task they are of. */
    o.records = HTC_SIM_FAIRSHARE_UNRECORDED;
    o.output_ns = 100 * HTC_MS;
    r = bag(o, 4000, 10, NULL);
    cr_expect(eq(dbl, seconds_of(&r), 10.1 + 400));
    o.output_ns = HTC_MS;
    r = bag(o, 4000, 10, NULL);
    cr_expect(seconds_of(&r) > 140.1 && seconds_of(&r) < 1.04 * 140.1, "%.1f s", seconds_of(&r));
}

/* NT * PTE / NCU, divided by the makespan: 4000 * 10 s / 300 / 143.5 s is 92.9 %, and nobody's task waits for a human. */
Test(sim_fairshare, has_the_efficiency_of_the_formula)
{
    htc_sim_fairshare_cluster cluster = { .size = sizeof cluster, .cores = 300, .service_ns = 3500 * HTC_MS, .batch = 300 };
    htc_sim_fairshare_options o = { .clusters = &cluster, .n_clusters = 1 };
    htc_sim_fairshare_report  r = bag(o, 4000, 10, NULL);
    cr_expect(eq(dbl, seconds_of(&r), 143.5));
    cr_expect(r.efficiency > 0.9291 && r.efficiency < 0.9292, "%.6f", r.efficiency);
    cr_expect(eq(dbl, r.completed, 1));
}

/* Of jobs of their own more are held the more often jobs start and end, for good; agents are started anew. */
Test(sim_fairshare, holds_jobs)
{
    htc_sim_fairshare_cluster cluster = { .size = sizeof cluster, .cores = 300, .service_ns = 100 * HTC_MS, .hold_rate = 0.0005 };
    htc_sim_fairshare_options o = { .clusters = &cluster, .n_clusters = 1, .direct = 1, .seed = 1 };
    htc_sim_fairshare_report  shorter = bag(o, 4000, 10, NULL), longer = bag_of(o, 4000, (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, 100e9, 0 }, NULL);
    cr_expect(shorter.held > 20 && shorter.held < 60, "%llu, where 1 %% of 4000 are expected", (unsigned long long)shorter.held);
    cr_expect(longer.held > 2 && longer.held < 30, "%llu, where 0.3 %% of 4000 are expected", (unsigned long long)longer.held);
    cr_expect(eq(u64, shorter.scale.ended + shorter.held, 4000) && shorter.completed < 1);
    o.direct = 0;
    cluster.hold = 0.05;
    shorter = bag(o, 4000, 10, NULL);
    cr_expect(shorter.held >= 5 && eq(u64, shorter.scale.ended, 4000) && eq(dbl, shorter.completed, 1));
}

/* An agent dies every 1000 s of its time: each such task is done again. Other users take half of the cores. */
Test(sim_fairshare, goes_on_when_agents_die_and_others_come)
{
    htc_sim_fairshare_cluster        cluster = { .size = sizeof cluster, .cores = 100, .life_ns = 1000 * S };
    htc_sim_fairshare_cluster_result on;
    htc_sim_fairshare_options        o = { .clusters = &cluster, .n_clusters = 1, .seed = 3 };
    htc_sim_fairshare_report         r = bag(o, 10000, 10, &on);
    cr_expect(r.died > 50 && r.died < 150 && eq(u64, r.scale.ended, 10000));
    cr_expect(eq(u64, on.died, r.died) && eq(u64, on.tasks, 10000) && r.lost_s > 0 && r.lost_s < 10 * (double)r.died);
    cr_expect(seconds_of(&r) > 1000 && seconds_of(&r) < 1100);
    cluster.life_ns = 0;
    cluster.others_gap = (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 };
    cluster.others_length = (htc_scale_law){ .mean_ns = 500e9 };
    cluster.others = 50; /* those that come wait, and take the cores of these */
    r = bag(o, 10000, 10, &on);
    cr_expect(on.others > 1000 && eq(dbl, seconds_of(&r), 2000));
}

/* With gamma below 0 the bag with less work left has more cores. */
Test(sim_fairshare, weighs_by_what_is_left)
{
    static const htc_sim_fairshare_user users[2] = { { .size = sizeof *users }, { .size = sizeof *users } };
    const htc_sim_fairshare_job         jobs[] = { { .size = sizeof *jobs, .user = 0, .tasks = 8000, .length.mean_ns = 10e9 }, { .size = sizeof *jobs, .user = 1, .tasks = 2000, .length.mean_ns = 10e9 } };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 100, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 2, .jobs = jobs, .n_jobs = 2 };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    htc_sim_fairshare_result            plain[2], weighed[2];
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, plain, NULL), HTC_OK));
    o.gamma = -0.5;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, weighed, NULL), HTC_OK) && eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, plain[1].makespan, 400 * S) && weighed[1].makespan <= 320 * S && weighed[0].makespan <= plain[0].makespan + 20 * S, "%.0f s and %.0f s",
              (double)weighed[0].makespan / 1e9, (double)weighed[1].makespan / 1e9);
    o.estimated = 1;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, weighed, NULL), HTC_OK));
    cr_expect(weighed[1].makespan <= 320 * S);
}

static double of_tasks(void *ctx, const htc_allot_facts *user, double amount, double typical, const htc_allot_weighing *how)
{
    htc_allot_facts *last = ctx;
    (void)amount;
    (void)typical;
    cr_expect(how->gamma == 0.25 && how->now >= user->usage.at);
    if (user->priority == 3)
        *last = *user;
    return user->tasks > 3000 ? 3 : 1;
}

/* One's own maker of weights is told what it has to know, and the library's are those of htc_allot_weigh. */
Test(sim_fairshare, asks_a_maker_of_weights)
{
    static const htc_sim_fairshare_user users[2] = { { .size = sizeof *users, .weight = 3 }, { .size = sizeof *users, .weight = 1 } };
    const htc_sim_fairshare_job         jobs[] = { { .size = sizeof *jobs, .user = 0, .tasks = 3000, .length.mean_ns = 10e9 }, { .size = sizeof *jobs, .user = 1, .tasks = 6000, .length.mean_ns = 10e9 } };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 100, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 2, .jobs = jobs, .n_jobs = 2 };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    htc_sim_fairshare_result            fixed[2], weighed[2];
    htc_allot_facts                     last = { 0 };
    htc_allot_weigher                   mine = { .size = sizeof mine, .name = "mine", .ctx = &last, .weight = of_tasks };
    htc_registry                       *registry = NULL;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, fixed, NULL), HTC_OK));
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    cr_assert(eq(int, htc_allot_find(registry, "priority", &o.weigher), HTC_OK));
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, weighed, NULL), HTC_OK) && eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, weighed[0].makespan, fixed[0].makespan) && eq(u64, weighed[1].makespan, fixed[1].makespan));
    cr_expect(eq(u64, fixed[0].makespan, 400 * S));
    o.weigher = &mine;
    o.gamma = 0.25;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, weighed, NULL), HTC_OK) && eq(str, r.scale.wrong, ""));
    cr_expect(weighed[0].makespan > 500 * S, "%.0f s", (double)weighed[0].makespan / 1e9); /* a quarter of the cores for half an hour, then half of them */
    cr_expect(last.profile.count > 2900 && last.profile.mean_s == 10 && last.usage.slot_s > 29000 && last.usage.slot_s < 31000, "%.0f", last.usage.slot_s);
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, weighed, NULL), HTC_EUNSUPPORTED));
    htc_registry_destroy(registry);
}

Test(sim_fairshare, refuses_clusters_that_are_none)
{
    static const htc_sim_fairshare_user user = { .size = sizeof user };
    const htc_sim_fairshare_job         job = { .size = sizeof job, .tasks = 1 };
    htc_sim_fairshare_cluster           k[2] = { { .size = sizeof *k, .cores = 5 }, { .size = sizeof *k, .cores = 6 } };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    const htc_sim_fairshare_options     good = { .size = sizeof good, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .clusters = k, .n_clusters = 2 };
    htc_sim_fairshare_options           o = good;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK) && eq(u64, r.cores, 11));
#define REFUSED(change)                                                                \
    o = good;                                                                          \
    change;                                                                            \
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL), #change)
    REFUSED(o.cores = 12);
    REFUSED(o.n_clusters = 0);
    REFUSED(o.n_clusters = HTC_SIM_FAIRSHARE_CLUSTERS_MAX + 1);
    REFUSED(o.clusters = NULL);
    REFUSED(o.choice = 2);
    REFUSED(o.direct = 2);
    REFUSED(o.records = 3);
    REFUSED(o.gamma = 1.5);
    k[1].speed = 0.0001;
    REFUSED(o.seed = 1);
    k[1].speed = 1;
    k[1].hold = 1.5;
    REFUSED(o.seed = 1);
    k[1].hold = 0;
    k[1].cores = 0;
    REFUSED(o.seed = 1);
}

/* Three clusters with all that may happen there: the hash that gcc and clang, optimised and sanitised, come to. */
Test(sim_fairshare, is_the_same_run_of_clusters_everywhere)
{
    static const htc_sim_fairshare_cluster all[3] = { { .size = sizeof *all, .cores = 100, .service_ns = 100 * HTC_MS, .hold_rate = 0.0005, .life_ns = 20000 * S },
                                                      { .size = sizeof *all, .cores = 150, .speed = 1.25, .service_ns = 50 * HTC_MS, .batch = 16, .hold = 0.01 },
                                                      { .size = sizeof *all, .cores = 250, .speed = 0.9, .others_gap = { HTC_SCALE_EXPONENTIAL, 0, 9e9, 0 },
                                                        .others_length = { HTC_SCALE_LOGNORMAL, 0, 900e9, 1 }, .others = 70 } };
    static htc_sim_fairshare_user          users[20];
    static htc_sim_fairshare_job           jobs[40];
    for (uint32_t i = 0; i < 20; i++)
        users[i] = (htc_sim_fairshare_user){ .size = sizeof *users, .weight = 1 + i % 3 };
    for (uint32_t i = 0; i < 40; i++)
        jobs[i] = (htc_sim_fairshare_job){ .size = sizeof *jobs, .user = i % 20, .tasks = 50 + i, .arrival = i * 7 * S, .length = { HTC_SCALE_LOGNORMAL, 0, 300 * (double)S, 0.8 } };
    htc_sim_fairshare_options o = { .size = sizeof o, .seed = 5, .clusters = all, .n_clusters = 3, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 20, .jobs = jobs,
                                    .n_jobs = 40, .launch_ns = 5 * S, .pull_ns = 2 * HTC_MS, .gap_ns = 50 * HTC_MS, .records = HTC_SIM_FAIRSHARE_GROUPED, .record_ns = 2 * HTC_MS };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, "") && r.held > 0 && r.died > 0);
    cr_expect(eq(u64, r.scale.hash, UINT64_C(4621645474811225089)));
}

/* ---- the exact twin ---- */

/* The real gateway, store and agents: each task has the length that it has in the model, and both take nearly as long. */
Test(sim_fairshare, has_an_exact_twin)
{
    const htc_sim_fairshare_user    users[2] = { { .size = sizeof *users, .weight = 1 }, { .size = sizeof *users, .weight = 2 } };
    const htc_sim_fairshare_job     jobs[2] = { { .size = sizeof *jobs, .user = 0, .tasks = 300, .length = { HTC_SCALE_LOGNORMAL, 0, 4e9, 0.5 } },
                                                { .size = sizeof *jobs, .user = 1, .tasks = 200, .arrival = 5 * S, .length = { HTC_SCALE_LOGNORMAL, 0, 4e9, 0.5 } } };
    const htc_sim_fairshare_cluster sites[2] = { { .size = sizeof *sites, .cores = 4 }, { .size = sizeof *sites, .cores = 4 } };
    htc_sim_fairshare_options       o = { .size = sizeof o, .seed = 3, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 2, .jobs = jobs, .n_jobs = 2, .clusters = sites,
                                          .n_clusters = 2, .gap_ns = 50 * HTC_MS, .launch_ns = 505 * HTC_MS, .pull_ns = 5 * HTC_MS, .leave_ns = 2 * HTC_MS, .sample_ns = S };
    const htc_sim_fairshare_exact_options one_by_one = { .size = sizeof one_by_one, .prefetch = 1 };
    htc_sim_fairshare_report        scale = { .size = sizeof scale }, exact = scale, again = scale;
    htc_sim_fairshare_result        a[2], b[2];
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &scale, a, NULL), HTC_OK));
    o.launch_ns = 500 * HTC_MS;
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, &one_by_one, &exact, b, NULL), HTC_OK));
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, &one_by_one, &again, NULL, NULL), HTC_OK));
    cr_expect(eq(str, exact.scale.wrong, "") && eq(u64, exact.scale.ended, 500) && eq(dbl, exact.completed, 1) && eq(u64, exact.cores, 8));
    cr_expect(eq(u64, exact.scale.hash, again.scale.hash));
    cr_expect(fabs(exact.scale.work_s - scale.scale.work_s) < 1e-6 && eq(u64, exact.scale.longest, scale.scale.longest), "lengths differ");
    cr_expect(fabs(exact.throughput / scale.throughput - 1) < 0.05, "%f and %f", exact.throughput, scale.throughput);
    for (int u = 0; u < 2; u++) {
        cr_expect(eq(u64, a[u].tasks, b[u].tasks) && eq(u64, b[u].ended, b[u].tasks) && eq(u64, a[u].submitted, b[u].submitted));
        cr_expect(fabs(a[u].response_s / b[u].response_s - 1) < 0.05, "%f and %f", a[u].response_s, b[u].response_s);
        cr_expect(b[u].core_s > 0.9 * b[u].work_s && b[u].core_s < 1.3 * b[u].work_s, "%f and %f", b[u].core_s, b[u].work_s);
    }
    cr_expect(fabs(exact.fairness - scale.fairness) < 0.05);
    const htc_sim_fairshare_exact_options wide = { .size = sizeof wide, .slots = 4 };
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, &wide, &again, NULL, NULL), HTC_OK));
    cr_expect(eq(str, again.scale.wrong, "") && eq(u64, again.scale.ended, 500) && again.agents < exact.agents, "%u and %u agents", (unsigned)again.agents, (unsigned)exact.agents);
}

static void stop_soon(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    stop = p->done >= 10;
}

/* Of an exact run that is stopped when it has been sampled often enough. */
static void count_sample(void *ctx, const htc_sim_fairshare_sample *s)
{
    (void)s;
    stop = ++*(int *)ctx >= 20000;
}

Test(sim_fairshare, the_exact_twin_goes_on_from_sample_to_sample)
{
    htc_sim_fairshare_user    user = { .size = sizeof user };
    htc_sim_fairshare_job     job = { .size = sizeof job, .tasks = 4 };
    htc_scale_host            host = { .size = sizeof host, .stop = &stop };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    int                       samples = 0;
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 2, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .sample_ns = 1, .sample = count_sample, .sample_ctx = &samples, .host = &host };
    stop = 0;
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK));
    cr_expect(!r.interrupted && eq(u64, r.scale.ended, 4) && samples > 10 && eq(str, r.scale.wrong, ""), "%d samples, %s", samples, r.scale.wrong);
    host.stop_after = r.scale.events / 2;
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK));
    cr_expect(r.interrupted && r.scale.events >= host.stop_after && r.scale.events < 2 * host.stop_after);
}

/* An agent that takes longer than the gateway waits for one by default comes all the same. */
Test(sim_fairshare, the_exact_twin_waits_for_slow_agents)
{
    htc_sim_fairshare_user    user = { .size = sizeof user };
    htc_sim_fairshare_job     job = { .size = sizeof job, .tasks = 2, .length.mean_ns = 1e9 };
    htc_scale_host            host = { .size = sizeof host, .stop_after = 200000 };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 1, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .launch_ns = 1200 * HTC_SECOND, .host = &host };
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK));
    cr_expect(!r.interrupted && eq(u64, r.scale.ended, 2) && eq(u64, r.agents, 1) && eq(str, r.scale.wrong, ""), "%s", r.scale.wrong);
}

/* Where nothing is stored before it is given up, the run ends and says so. */
Test(sim_fairshare, the_exact_twin_ends_though_no_task_does)
{
    htc_sim_fairshare_user          user = { .size = sizeof user };
    htc_sim_fairshare_job           job = { .size = sizeof job, .tasks = 1 };
    htc_scale_host                  host = { .size = sizeof host, .stop_after = 400000 };
    htc_sim_fairshare_report        r = { .size = sizeof r };
    htc_sim_fairshare_exact_options slow = { .size = sizeof slow, .commit_ns = 60 * HTC_SECOND };
    htc_sim_fairshare_options       o = { .size = sizeof o, .cores = 1, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .host = &host };
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, &slow, &r, NULL, NULL), HTC_OK));
    cr_expect(!r.interrupted && eq(u64, r.scale.ended, 0) && strstr(r.scale.wrong, "none in the last"), "%s", r.scale.wrong);
    slow.commit_ns = 3601 * HTC_SECOND;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, &slow, &r, NULL, NULL), HTC_EINVAL));
}

/* What may not have the memory that it needs ends with that as its reason, at whatever allocation. */
Test(sim_fairshare, the_exact_twin_has_the_memory_that_it_may_have)
{
    htc_sim_fairshare_user    user = { .size = sizeof user };
    htc_sim_fairshare_job     job = { .size = sizeof job, .tasks = 2000 };
    htc_scale_host            host = { .size = sizeof host };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 4, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .host = &host };
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK));
    uint64_t most = r.memory;
    cr_expect(most > 1 << 20 && eq(u64, r.scale.memory, most) && eq(u64, r.scale.ended_here, 2000), "%llu bytes", (unsigned long long)most);
    host.memory_max = most;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK) && eq(str, r.scale.wrong, ""));
    for (int i = 0; i < 16; i++) {
        htc_error why = { 0 };
        host.memory_max = 1 + most / 16 * (uint64_t)i;
        cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, &why), HTC_ETOOBIG) && strstr(why.text, "MiB of memory"), "%d/16: %s", i, why.text);
    }
}

Test(sim_fairshare, the_exact_twin_refuses_what_takes_years)
{
    htc_sim_fairshare_user    user = { .size = sizeof user };
    htc_sim_fairshare_job     job = { .size = sizeof job, .tasks = 100, .length.mean_ns = 3600e12 };
    htc_scale_host            host = { .size = sizeof host, .stop_after = 1 };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 4, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .host = &host };
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_ETOOBIG), "25000 hours");
    job.tasks = 38;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK), "9500 hours");
    job = (htc_sim_fairshare_job){ .size = sizeof job, .tasks = 1, .length.mean_ns = 1e18 };
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_ETOOBIG), "one task");
    job = (htc_sim_fairshare_job){ .size = sizeof job, .tasks = 1, .arrival = HTC_NEVER - 1 };
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_ETOOBIG), "it never comes");
}

Test(sim_fairshare, the_exact_twin_stops_and_says_what_it_has_not)
{
    htc_sim_fairshare_user    user = { .size = sizeof user };
    htc_sim_fairshare_job     job = { .size = sizeof job, .tasks = 100, .length.mean_ns = 1e9 };
    htc_sim_fairshare_cluster site = { .size = sizeof site, .cores = 4 };
    htc_scale_host            host = { .size = sizeof host, .stop = &stop, .progress = stop_soon };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_error                 e = { 0 };
    htc_sim_fairshare_options o = { .size = sizeof o, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .clusters = &site, .n_clusters = 1, .host = &host };
    stop = 0;
    cr_assert(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_OK));
    cr_expect(r.interrupted && r.scale.ended >= 10 && r.scale.ended < 100 && eq(str, r.scale.wrong, ""));
    o.direct = 1;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, &e), HTC_EUNSUPPORTED) && e.text[0]);
    o.direct = 0;
    site.hold = 0.5;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_EUNSUPPORTED));
    site.hold = 0;
    user.weight = 1.5;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_EUNSUPPORTED));
    user.weight = 1;
    site.cores = HTC_SIM_FAIRSHARE_EXACT_CORES_MAX + 1;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_ETOOBIG));
    o.n_users = 0;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_EINVAL));
}

/* ---- the host ---- */

static void stop_at_once(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    cr_expect(eq(u64, p->total, 100000), "all tasks are expected, arrived or not");
    stop = 1;
}

Test(sim_fairshare, says_what_it_had_when_it_is_stopped)
{
    static const htc_sim_fairshare_user user = { .size = sizeof(htc_sim_fairshare_user), .weight = 1 };
    const htc_sim_fairshare_job         jobs[] = { { .size = sizeof(htc_sim_fairshare_job), .tasks = 60000, .length.mean_ns = 1e9 }, { .size = sizeof(htc_sim_fairshare_job), .tasks = 40000, .arrival = 4000 * S, .length.mean_ns = 1e9 } };
    htc_scale_host                      host = { .size = sizeof host, .stop = &stop, .progress = stop_at_once };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 10, .users = &user, .n_users = 1, .jobs = jobs, .n_jobs = 2, .host = &host };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    htc_sim_fairshare_result            u;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, &u, NULL), HTC_OK));
    cr_expect(eq(u32, r.interrupted, 1) && eq(str, r.scale.wrong, ""));
    cr_expect(u.ended > 500 && u.ended < 60000 && u.ended == r.scale.ended);
    cr_expect(fabs(u.core_s - (double)u.ended) <= 10);
}

Test(sim_fairshare, refuses_what_cannot_be_run)
{
    htc_sim_fairshare_user    users[2] = { { .size = sizeof(htc_sim_fairshare_user), .weight = 1, .fixed = 1 }, { .size = sizeof(htc_sim_fairshare_user), .weight = 1 } };
    htc_sim_fairshare_job     job = { .size = sizeof(htc_sim_fairshare_job), .user = 1, .tasks = 1 };
    htc_scale_host            host = { .size = sizeof host, .memory_max = 1 << 20 };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 1000000, .users = users, .n_users = 2, .jobs = &job, .n_jobs = 1, .host = &host };
    htc_sim_fairshare_report  r = { .size = sizeof r };
    htc_error                 e;
    uint64_t                  bytes = 0;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "1 MiB are allowed") != NULL, "%s", e.text);
    cr_assert(eq(int, htc_sim_fairshare_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes > 12000000 && bytes < 30000000);
    o.cores = 1;
    host.memory_max = 0;
    o.policy = HTC_ALLOT_STATIC;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    cr_expect(strstr(e.text, "would never run") != NULL, "%s", e.text);
    o.policy = HTC_ALLOT_EQ1;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_OK));
    job.user = 2;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    job.user = 0;
    users[0].weight = NAN;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    users[0].weight = 1;
    job.length.mean_ns = 1e18;
    job.tasks = 1u << 30;
    o.tick_ns = 1;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "make them longer") != NULL, "%s", e.text);
    o.cores = 0;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL));
}

Test(sim_fairshare, ends_without_memory)
{
    htc_sim_fairshare_user    user = { .size = sizeof(htc_sim_fairshare_user), .weight = 1 };
    htc_sim_fairshare_job     job = { .size = sizeof(htc_sim_fairshare_job), .tasks = 5, .length.mean_ns = 1e9 };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 2, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1 };
    htc_status                status = HTC_ENOMEM;
    for (size_t n = 1; status != HTC_OK; n++) {
        alloc_fail               f = alloc_fail_at(n);
        htc_env                  env = alloc_fail_env(&f);
        htc_sim_fairshare_report r = { .size = sizeof r };
        status = htc_sim_fairshare_run(&env, &o, &r, NULL, NULL);
        cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
    }
}

Test(sim_fairshare, the_exact_twin_ends_without_memory)
{
    htc_sim_fairshare_user    user = { .size = sizeof(htc_sim_fairshare_user), .weight = 1 };
    htc_sim_fairshare_job     job = { .size = sizeof(htc_sim_fairshare_job), .tasks = 5, .length.mean_ns = 1e9 };
    htc_sim_fairshare_options o = { .size = sizeof o, .cores = 2, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1 };
    htc_status                status = HTC_ENOMEM;
    for (size_t n = 1; status != HTC_OK; n += 1 + n / 8) {
        alloc_fail               f = alloc_fail_at(n);
        htc_env                  env = alloc_fail_env(&f);
        htc_sim_fairshare_report r = { .size = sizeof r };
        status = htc_sim_fairshare_exact(&env, &o, NULL, &r, NULL, NULL);
        cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
    }
}

/* ---- checkpoints ---- */

/* However often a run is interrupted, written down and gone on with, it comes to the same end. */
Test(sim_fairshare, goes_on_from_a_checkpoint_to_the_same_end)
{
    int           stops = 0;
    htc_registry *registry = NULL;
    cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    PROPERTY (rng, 60) {
        htc_sim_fairshare_user    users[8];
        htc_sim_fairshare_job     jobs[30];
        htc_sim_fairshare_result  whole_users[8], part_users[8];
        htc_sim_fairshare_options o;
        htc_sim_fairshare_report  whole = { .size = sizeof whole }, part = whole;
        draw_run(&rng, users, jobs, &o);
        if (htc_rng_below(&rng, 2))
            cr_assert(eq(int, htc_allot_find(registry, htc_rng_below(&rng, 2) ? "usage" : "run-time", &o.weigher), HTC_OK));
        HOLDS(htc_sim_fairshare_run(NULL, &o, &whole, whole_users, NULL) == HTC_OK);
        stopper        halt = { .rng = { htc_rng_next(&rng) }, .one_in = 1 + htc_rng_below(&rng, 2000) };
        htc_scale_host host = { .size = sizeof host, .stop = &halt.stop, .clock = stopper_clock, .ctx = &halt };
        reel           from = { 0 }, to = { 0 };
        htc_scale_tape resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        o.host = &host;
        o.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; stops += (int)part.interrupted) {
            halt.stop = 0;
            to.len = from.at = 0;
            HOLDS(htc_sim_fairshare_run(NULL, &o, &part, part_users, NULL) == HTC_OK);
            cr_assert(eq(str, part.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
            reel other = from;
            from = to;
            to = other;
            o.resume = &resume;
        }
        HOLDS(part.scale.hash == whole.scale.hash && part.scale.makespan == whole.scale.makespan && part.divisions == whole.divisions);
        HOLDS(part.fairness == whole.fairness && part.idle_s == whole.idle_s);
        for (size_t u = 0; u < o.n_users; u++)
            HOLDS(memcmp(&part_users[u], &whole_users[u], sizeof part_users[u]) == 0);
        free(from.data);
        free(to.data);
    }
    cr_expect(stops > (int)property_times(20), "%d stops", stops);
    htc_registry_destroy(registry);
}

Test(sim_fairshare, refuses_what_is_no_checkpoint_of_the_experiment)
{
    static const htc_sim_fairshare_user user = { .size = sizeof(htc_sim_fairshare_user), .weight = 1 };
    htc_sim_fairshare_job               job = { .size = sizeof(htc_sim_fairshare_job), .tasks = 60000, .length = { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 } };
    htc_scale_host                      host = { .size = sizeof host, .stop = &stop };
    reel                                film = { 0 };
    htc_scale_tape                      resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &film }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 1000, .users = &user, .n_users = 1, .jobs = &job, .n_jobs = 1, .host = &host, .checkpoint = &checkpoint };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    stop = 1;
    film.ends = 5000;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_ENOSPC));
    film.ends = film.len = 0;
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK) && r.interrupted && film.len > 5000);
    o.checkpoint = NULL;
    o.resume = &resume;
    stop = 0;
    size_t whole = film.len;
    for (film.len = 0; film.len < whole; film.len += 1 + film.len / 7) { /* cut short anywhere */
        film.at = 0;
        cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EIO), "%zu bytes", film.len);
    }
    film.len = whole;
    film.at = 0;
    job.tasks++;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EFORMAT));
    job.tasks--;
    film.at = 0;
    o.seed = 1;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EFORMAT));
    o.seed = 0;
    film.at = 0;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK) && eq(u64, r.scale.ended, 60000));
    free(film.data);
}

/* ---- a source ---- */

typedef struct source {
    const htc_sim_fairshare_job *jobs;
    size_t                       n, given;
    htc_status                   end; /* in place of HTC_AGAIN */
} source;

static htc_status give(void *ctx, htc_sim_fairshare_job *job)
{
    source *s = ctx;
    if (s->given == s->n)
        return s->end;
    *job = s->jobs[s->given++];
    return HTC_OK;
}

static int by_arrival(const void *a, const void *b)
{
    const htc_sim_fairshare_job *x = a, *y = b;
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

/* The jobs of a list in the order of arrival, and of a source: one run. */
Test(sim_fairshare, jobs_of_a_source_are_the_same_run)
{
    PROPERTY (rng, 200) {
        htc_sim_fairshare_user    users[8];
        htc_sim_fairshare_job     jobs[30];
        htc_sim_fairshare_result  listed[8], given[8];
        htc_sim_fairshare_options o;
        htc_sim_fairshare_report  r = { .size = sizeof r }, again = r;
        draw_run(&rng, users, jobs, &o);
        qsort(jobs, o.n_jobs, sizeof *jobs, by_arrival);
        for (size_t j = 1; j < o.n_jobs; j++) /* no two at one moment: these have no order of their own */
            jobs[j].arrival = jobs[j].arrival > jobs[j - 1].arrival ? jobs[j].arrival : jobs[j - 1].arrival + HTC_MS;
        HOLDS(htc_sim_fairshare_run(NULL, &o, &r, listed, NULL) == HTC_OK);
        source s = { jobs, o.n_jobs, 0, HTC_AGAIN };
        o.jobs = NULL;
        o.n_jobs = 0;
        o.next_job = give;
        o.next_ctx = &s;
        HOLDS(htc_sim_fairshare_run(NULL, &o, &again, given, NULL) == HTC_OK);
        HOLDS(again.scale.wrong[0] == 0 && again.scale.hash == r.scale.hash && again.scale.ended == r.scale.ended && again.held == r.held);
        HOLDS(memcmp(listed, given, o.n_users * sizeof *listed) == 0);
    }
}

static htc_status one_more(void *ctx, htc_sim_fairshare_job *job)
{
    uint64_t *n = ctx;
    if (*n == 200000)
        return HTC_AGAIN;
    *job = (htc_sim_fairshare_job){ .size = sizeof *job, .user = *n % 3, .tasks = 1, .arrival = *n * HTC_SECOND / 10, .length.mean_ns = 1e9 };
    ++*n;
    return HTC_OK;
}

/* Ten at a time of 200,000: as much memory as for ten. */
Test(sim_fairshare, a_source_takes_the_memory_of_the_jobs_that_are_there)
{
    static const htc_sim_fairshare_user users[3] = { { .size = sizeof *users }, { .size = sizeof *users }, { .size = sizeof *users } };
    uint64_t                            n = 0;
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 16, .policy = HTC_ALLOT_MAXMIN, .users = users, .n_users = 3, .next_job = one_more, .next_ctx = &n };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, "") && eq(u64, r.scale.ended, 200000) && r.response_s < 1.2);
    uint64_t without = 0;
    cr_assert(eq(int, htc_sim_fairshare_memory(&o, &without), HTC_OK));
    cr_expect(r.memory < without + 16384, "%llu bytes, %llu without jobs", (unsigned long long)r.memory, (unsigned long long)without);
}

Test(sim_fairshare, a_source_is_judged_as_a_list)
{
    static const htc_sim_fairshare_user users[2] = { { .size = sizeof *users }, { .size = sizeof *users } };
    htc_sim_fairshare_job               jobs[2] = { { .size = sizeof *jobs, .user = 0, .tasks = 3, .arrival = 5 * S }, { .size = sizeof *jobs, .user = 1, .tasks = 3, .arrival = 7 * S } };
    source                              s = { jobs, 2, 0, HTC_AGAIN };
    htc_scale_tape                      tape = { .size = sizeof tape };
    htc_sim_fairshare_options           o = { .size = sizeof o, .cores = 4, .users = users, .n_users = 2, .next_job = give, .next_ctx = &s };
    htc_sim_fairshare_report            r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK));
    cr_expect(eq(u64, r.scale.ended, 6));
    s = (source){ jobs, 2, 0, HTC_EIO };
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EIO), "what the source answers is the answer");
    s = (source){ jobs, 0, 0, HTC_AGAIN };
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_OK) && eq(u64, r.scale.ended, 0));
    jobs[1].arrival = 4 * S;
    s = (source){ jobs, 2, 0, HTC_AGAIN };
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL), "it came before the one before it");
    jobs[1] = jobs[0];
    jobs[1].user = 2;
    s.given = 0;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL), "there is no such user");
    jobs[1].user = 1;
    jobs[1].tasks = 0;
    s.given = 0;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL), "it has no tasks");
    o.checkpoint = &tape;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EUNSUPPORTED));
    o.checkpoint = NULL;
    cr_expect(eq(int, htc_sim_fairshare_exact(NULL, &o, NULL, &r, NULL, NULL), HTC_EUNSUPPORTED));
    o.jobs = jobs;
    o.n_jobs = 1;
    cr_expect(eq(int, htc_sim_fairshare_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL), "a list or a source");
}
