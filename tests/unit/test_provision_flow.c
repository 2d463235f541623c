/* The management policy of the paper over one workflow, Montage with 1000 tasks: section 4.3's rows and the grid of section 4.4. The graph is
 * read at run time from tests/data; without it these are skipped. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../data.h"
#include "htcsched/dag.h"
#include "htcsched/provision.h"

#define TASKS_MAX 1000u
#define EDGES     2485u
#define POOL      1000u /* nodes of the provider: more than the workflow is wide */

typedef struct flow {
    htc_dag *dag;
    uint32_t tasks;
    uint32_t edges;
    htc_ns   length[TASKS_MAX], whole;
} flow;

static void read_line(flow *f, const char *line)
{
    uint32_t task, child;
    double   seconds;
    if (sscanf(line, "task %u %lf", &task, &seconds) == 2 && task < TASKS_MAX) {
        cr_assert(eq(int, htc_dag_add_task(f->dag, task), HTC_OK));
        f->length[task] = (htc_ns)(seconds * 1000 + 0.5) * 1000000u;
        f->whole += f->length[task];
        f->tasks++;
    } else if (sscanf(line, "edge %u %u", &task, &child) == 2) {
        cr_assert(eq(int, htc_dag_add_edge(f->dag, task, child), HTC_OK));
        f->edges++;
    }
}

static void read_montage(flow *f)
{
    char  text[128];
    FILE *file = test_data("montage-1000.txt");
    if (!file)
        cr_skip("no montage-1000.txt in tests/data below or beside the working directory");
    memset(f, 0, sizeof *f);
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &f->dag), HTC_OK));
    while (fgets(text, sizeof text, file))
        read_line(f, text);
    fclose(file);
    cr_assert(eq(int, htc_dag_check(f->dag, 0, NULL, NULL), HTC_OK));
    cr_assert(f->tasks == TASKS_MAX && f->edges == EDGES, "%u tasks, %u edges", f->tasks, f->edges);
    cr_assert(eq(u64, (f->whole + 5000000) / 10000000, 1137869), "11,378.69 s of work");
}

/* What came of a run: how long it took, and what is charged for the one started hour. */
typedef struct outcome {
    htc_ns   took;
    uint64_t node_hours;
} outcome;

typedef struct run {
    flow          *flow;
    htc_provision *book;
    uint64_t       owned, busy;
    uint64_t       leased; /* DRP: nodes that were ever leased */
    htc_ns         ends[TASKS_MAX]; /* of tasks that run; HTC_NEVER: it does not */
} run;

static htc_ns next_end(const run *r)
{
    htc_ns next = HTC_NEVER;
    for (uint32_t t = 0; t < TASKS_MAX; t++)
        next = r->ends[t] < next ? r->ends[t] : next;
    return next;
}

static void complete(run *r, htc_ns now)
{
    for (uint32_t t = 0; t < TASKS_MAX; t++)
        if (r->ends[t] <= now) {
            r->ends[t] = HTC_NEVER;
            r->busy--;
            cr_assert(eq(int, htc_dag_done(r->flow->dag, t), HTC_OK));
        }
}

/* FCFS: in the order in which they became ready. Every task takes one node. */
static void start(run *r, htc_ns now)
{
    uint32_t task;
    while (r->busy < r->owned && htc_dag_take(r->flow->dag, &task) == HTC_OK) {
        r->ends[task] = now + r->flow->length[task];
        r->busy++;
    }
}

static uint32_t waiting(const run *r)
{
    htc_dag_counts c;
    cr_assert(eq(int, htc_dag_count(r->flow->dag, &c), HTC_OK));
    return c.ready;
}

static void scan(run *r, htc_ns now)
{
    uint32_t             n = waiting(r);
    htc_provision_demand d = { .waiting_jobs = n, .waiting_nodes = n, .waiting_largest = n > 0, .running_nodes = r->busy };
    htc_provision_order  order;
    if (htc_provision_scan(r->book, now, &d, &order) != HTC_OK)
        return;
    cr_assert(order.nodes <= POOL - r->owned, "the provider has enough");
    cr_assert(eq(int, htc_provision_granted(r->book, now, order.nodes), HTC_OK));
    r->owned += order.nodes;
}

/* The runtime environment lives as long as its workflow; the first scan is at its start. */
static outcome dawning(uint64_t initial, uint64_t ratio)
{
    static flow           f;
    run                   r = { .flow = &f };
    htc_provision_usage   u;
    htc_provision_options o = { .size = sizeof o,
                                .kind = HTC_PROVISION_MTC,
                                .initial = initial,
                                .ratio = ratio * HTC_PROVISION_ONE,
                                .phase_ns = 1 };
    htc_ns                now = 0;
    read_montage(&f);
    cr_assert(eq(int, htc_provision_create(NULL, &o, 0, &r.book), HTC_OK));
    r.owned = initial;
    memset(r.ends, 0xff, sizeof r.ends);
    for (start(&r, 0); r.busy > 0 || waiting(&r) > 0;) {
        htc_ns end = next_end(&r), look = htc_provision_deadline(r.book);
        now = end < look ? end : look;
        complete(&r, now);
        start(&r, now);
        scan(&r, now);
        start(&r, now);
    }
    cr_assert(now < 3600 * HTC_SECOND, "no lease is looked at before the end");
    cr_assert(eq(int, htc_provision_end(r.book, now, NULL), HTC_OK));
    cr_assert(eq(int, htc_provision_usage_at(r.book, now, &u), HTC_OK));
    htc_provision_destroy(r.book);
    htc_dag_destroy(f.dag);
    return (outcome){ now, u.node_units };
}

/* A fixed set of nodes (DCS, SSP), or as many as are wanted, each leased when none is idle (DRP: nodes = POOL). */
static outcome fixed(uint64_t nodes)
{
    static flow f;
    run         r = { .flow = &f, .owned = nodes };
    htc_ns      now = 0;
    read_montage(&f);
    memset(r.ends, 0xff, sizeof r.ends);
    for (start(&r, 0); r.busy > 0; start(&r, now)) {
        r.leased = r.busy > r.leased ? r.busy : r.leased;
        now = next_end(&r);
        complete(&r, now);
    }
    htc_dag_destroy(f.dag);
    return (outcome){ now, r.leased * htc_provision_units(now, 3600 * HTC_SECOND, HTC_PROVISION_STARTED) };
}

static double tasks_a_second(const outcome *o)
{
    return TASKS_MAX / ((double)o->took / 1e9);
}

static void expect(const outcome *o, uint64_t node_hours, double rate, const char *what)
{
    double got = tasks_a_second(o);
    cr_expect(o->node_hours == node_hours, "%s: %llu node-hours, not %llu", what, (unsigned long long)o->node_hours,
              (unsigned long long)node_hours);
    cr_expect(got > rate - 0.00501 && got < rate + 0.00501, "%s: %.3f tasks a second, not %.2f", what, got, rate);
}

/* Table 4: 166 nodes by themselves, and a node for whoever wants one. */
Test(provision_flow, montage_on_fixed_nodes_and_on_leased_ones)
{
    outcome dcs = fixed(166), drp = fixed(POOL);
    expect(&dcs, 166, 2.50, "DCS and SSP");
    cr_expect(eq(u64, dcs.took / 10000000, 40019), "400.19 s");
    expect(&drp, 662, 2.71, "DRP");
    cr_expect(eq(u64, drp.took / 10000000, 36846), "368.46 s, the critical path");
}

/* Figure 11's grid of B and R: the specification's reference figures, exact. */
Test(provision_flow, the_grid_of_parameters_over_montage_is_that_of_the_specification)
{
    static const uint64_t initial[] = { 10, 20, 40, 80 }, ratio[] = { 2, 4, 8, 16 };
    static const uint64_t node_hours[4][4] = { { 662, 166, 166, 166 },
                                               { 662, 166, 166, 381 },
                                               { 662, 166, 381, 40 },
                                               { 662, 336, 80, 80 } };
    static const double   rate[4][4] = { { 2.71, 2.50, 2.50, 2.50 },
                                         { 2.71, 2.50, 2.50, 2.21 },
                                         { 2.71, 2.50, 2.44, 1.61 },
                                         { 2.71, 2.54, 2.06, 2.06 } };
    for (int b = 0; b < 4; b++)
        for (int r = 0; r < 4; r++) {
            char    what[32];
            outcome o = dawning(initial[b], ratio[r]);
            snprintf(what, sizeof what, "B %u, R %u", (unsigned)initial[b], (unsigned)ratio[r]);
            expect(&o, node_hours[b][r], rate[b][r], what);
        }
}
