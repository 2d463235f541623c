/* What the book costs by the number of leases, what a decision costs by the number of requests, and what the policies
 * are worth: node-hours, waits and changes of hands over two weeks of jobs. The logs are read from examples/sim/data
 * where that is at hand. */
#include "../provision_sim.h"
#include "bench.h"

#define SIZES       6
#define TWO_WEEKS_S UINT64_C(1209600)
#define POOL        480

static uint64_t sink;

/* Leases of one node each, granted a second apart; then each is looked at once an hour: busy, so all are kept. */
static double look_ns(const bench *b, uint32_t leases)
{
    size_t                rounds = (b->quick ? 300000 : 3000000) / leases + 1;
    htc_provision_options o = HTC_PROVISION_OPTIONS_INIT;
    htc_provision_demand  d = { .waiting_jobs = 1 };
    htc_provision_order   order;
    htc_provision        *book;
    htc_ns                now = 0;
    o.initial = 1;
    o.scan_ns = HTC_SECOND;
    o.ratio = 1;
    o.unit_ns = (htc_ns)leases * HTC_SECOND;
    bench_must(htc_provision_create(NULL, &o, 0, &book) == HTC_OK, "a book");
    for (uint32_t i = 0; i < leases; i++) {
        now += HTC_SECOND;
        d.waiting_nodes = d.waiting_largest = i + 2;
        bench_must(htc_provision_scan(book, now, &d, &order) == HTC_OK && htc_provision_granted(book, now, 1) == HTC_OK,
                   "a lease");
    }
    d = (htc_provision_demand){ .running_nodes = leases + 1 };
    double began = bench_cpu_seconds();
    for (size_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < leases; i++)
            sink += htc_provision_check(book, now += HTC_SECOND, &d, &order) == HTC_AGAIN;
    double ns = (bench_cpu_seconds() - began) * 1e9 / (double)(rounds * leases);
    htc_provision_destroy(book);
    return ns;
}

static double grant_ns(const bench *b, uint32_t granting, size_t n, htc_rng *rng)
{
    size_t                 rounds = (b->quick ? 200000 : 2000000) / n + 1;
    htc_provision_request *r = calloc(n, sizeof *r);
    uint64_t              *granted = calloc(n, sizeof *granted);
    bench_must(r && granted, "memory");
    for (size_t i = 0; i < n; i++)
        r[i] = (htc_provision_request){ .id = i,
                                        .nodes = htc_rng_below(rng, 100) + 1,
                                        .weight = htc_rng_below(rng, 9) + 1,
                                        .arrival = htc_rng_below(rng, n),
                                        .priority = (int32_t)htc_rng_below(rng, 3) };
    double began = bench_cpu_seconds();
    for (size_t i = 0; i < rounds; i++) {
        bench_must(htc_provision_grant(NULL, htc_provision_granter_of(granting), 20 * n, r, n, granted) == HTC_OK,
                   "granting");
        sink += granted[0];
    }
    double ns = (bench_cpu_seconds() - began) * 1e9 / (double)(rounds * n);
    free(granted);
    free(r);
    return ns;
}

/* Means over 20 moments of the first scan. The paper's figures are the goals of ours. */
static void worth(const bench *b, const char *name, htc_sim_provision_job *jobs, size_t n, uint64_t initial, uint64_t ratio)
{
    static const struct {
        const char *name;
        uint32_t    policy;
        int         initial;
    } rows[] = { { "paper", HTC_PROVISION_PAPER, 1 },
                 { "perlease, same B", HTC_PROVISION_PERLEASE, 1 },
                 { "perlease, no B", HTC_PROVISION_PERLEASE, 0 } };
    double paper[3] = { 0 };
    char   what[96];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double mean[3] = { 0 };
        for (uint64_t phase = 3; phase <= 60; phase += 3) {
            htc_provision_options o = HTC_PROVISION_OPTIONS_INIT;
            o.policy = htc_provision_policy_of(rows[i].policy);
            o.initial = rows[i].initial ? initial : HTC_PROVISION_NO_NODES;
            o.ratio = ratio;
            o.phase_ns = phase * HTC_SECOND;
            sim_result r = simulate(jobs, n, &o, TWO_WEEKS_S, POOL);
            mean[0] += (double)r.node_hours / 20;
            mean[1] += r.wait_s / 20;
            mean[2] += (double)r.granted / 20;
        }
        static const char *const units[] = { "node-hours", "s mean wait", "nodes granted" };
        for (size_t k = 0; k < 3; k++) {
            paper[k] = i == 0 ? mean[k] : paper[k];
            snprintf(what, sizeof what, "%s: %s", name, rows[i].name);
            bench_row(
                b, &(bench_figure){
                       .what = what, .n = n, .unit = units[k], .value = mean[k], .goal = i && k < 2 ? paper[k] : 0 });
        }
    }
}

static void worth_of_log(const bench *b, const char *name, const char *file, uint64_t per_node, uint64_t initial,
                         uint64_t ratio)
{
    size_t   n;
    htc_sim_provision_job *jobs = sim_read_swf(file, TWO_WEEKS_S, per_node, &n);
    if (jobs)
        worth(b, name, jobs, n, initial, ratio);
    else
        fprintf(stderr, "%s: no %s in examples/sim/data\n", name, file);
    free(jobs);
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[SIZES] = { 10, 100, 1000, 5000, 20000, 65536 };
    static htc_sim_provision_job jobs[8000];
    bench                 b = bench_open("provision", argc, argv);
    double                size[SIZES], cost[SIZES];
    htc_rng               rng = { 1 };
    for (size_t i = 0; i < SIZES; i++) {
        size[i] = sizes[i];
        cost[i] = look_ns(&b, sizes[i]);
        bench_row(&b,
                  &(bench_figure){ .what = "look at one lease of n", .n = sizes[i], .unit = "ns", .value = cost[i] });
    }
    bench_growth(&b, "look", size, cost, SIZES);
    for (uint32_t granting = 0; granting <= HTC_PROVISION_PARTIAL; granting++) {
        const char *what =
            granting == HTC_PROVISION_PARTIAL ? "one of n requests, in parts" : "one of n requests, whole";
        for (size_t i = 0; i < SIZES; i++) {
            cost[i] = grant_ns(&b, granting, sizes[i], &rng);
            bench_row(&b, &(bench_figure){ .what = what, .n = sizes[i], .unit = "ns", .value = cost[i] });
        }
        bench_growth(&b, what, size, cost, SIZES);
    }
    worth(&b, "made-up weeks", jobs, sim_generate(&rng, jobs, sizeof jobs / sizeof *jobs, TWO_WEEKS_S), 40, 1200000);
    worth_of_log(&b, "NASA iPSC", "NASA-iPSC-1993-3.1-cln.first14days.swf", 1, 40, 1200000);
    worth_of_log(&b, "SDSC BLUE", "SDSC-BLUE-2000-4.2-cln.first14days.swf", 8, 80, 1500000);
    bench_must(sink != 42, "keeping what was measured");
    return bench_close(&b);
}
