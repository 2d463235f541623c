/* Figures of a run beside a slow model, and one run worked out by hand. Times are whole seconds, so that sums are exact. */
#include "expect.h"

#include <math.h>
#include <stdlib.h>

#include "../../examples/htc/flow_tasks.h"
#include "property.h"

TestSuite(flow_figures);

enum { TASKS = 14, WORKERS = 3, PARTS = 7 };

typedef struct run {
    flow_graph g;
    flow_task  tasks[TASKS];
    flow_wait  waits[TASKS * TASKS];
    flow_edge  edges[TASKS * TASKS];
    int        after[TASKS][TASKS]; /* [child][parent] */
} run;

static void tie(run *r)
{
    r->g.tasks = r->tasks;
    r->g.waits = r->waits;
    r->g.edges = r->edges;
    r->g.n_waits = r->g.n_edges = 0;
    for (uint32_t t = 0; t < r->g.n; t++) {
        r->tasks[t].waits = r->g.n_waits;
        r->tasks[t].n_waits = 0;
        for (uint32_t p = 0; p < r->g.n; p++)
            if (r->after[t][p]) {
                r->waits[r->g.n_waits++] = (flow_wait){ .parent = p };
                r->tasks[t].n_waits++;
            }
    }
    for (uint32_t t = 0; t < r->g.n; t++) {
        r->tasks[t].edges = r->g.n_edges;
        r->tasks[t].n_edges = 0;
        for (uint32_t c = 0; c < r->g.n; c++)
            if (r->after[c][t]) {
                uint32_t place = 0;
                for (uint32_t p = 0; p < t; p++)
                    place += (uint32_t)r->after[c][p];
                r->edges[r->g.n_edges++] = (flow_edge){ c, place };
                r->tasks[t].n_edges++;
            }
    }
}

/* Parents have smaller numbers; some tasks never ran. */
static void draw(run *r, htc_rng *rng)
{
    *r = (run){ .g.n = 1 + (uint32_t)htc_rng_below(rng, TASKS) };
    for (uint32_t t = 0; t < r->g.n; t++) {
        flow_task *x = &r->tasks[t];
        *x = (flow_task){ .state = htc_rng_below(rng, 4) ? FLOW_TASK_DONE : (uint8_t)(FLOW_TASK_WAITING + htc_rng_below(rng, 5)), .failures = (uint32_t)htc_rng_below(rng, 3),
                          .worker = 10 + 5 * htc_rng_below(rng, WORKERS) };
        if (x->state >= FLOW_TASK_DONE) {
            x->began = (100 + htc_rng_below(rng, 20)) * HTC_SECOND;
            x->ended = x->began + htc_rng_below(rng, 9) * HTC_SECOND;
        }
        for (uint32_t p = 0; p < t; p++)
            r->after[t][p] = htc_rng_below(rng, 4) == 0;
    }
    tie(r);
}

static double length(const run *r, uint32_t t)
{
    return flow_task_ran(&r->tasks[t]) ? (double)((r->tasks[t].ended - r->tasks[t].began) / HTC_SECOND) : 0;
}

/* The longest way that ends with t. */
static double way_to(const run *r, uint32_t t)
{
    double before = 0;
    for (uint32_t p = 0; p < t; p++)
        if (r->after[t][p])
            before = fmax(before, way_to(r, p));
    return before + length(r, t);
}

static int near(double a, double b)
{
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

/* Tasks of this worker that run at a moment; a task that takes no time runs at its beginning, unless another has ended just then. */
static uint32_t at_once(const run *r, uint64_t worker, double moment)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < r->g.n; t++)
        n += flow_task_ran(&r->tasks[t]) && (!worker || r->tasks[t].worker == worker) && (double)r->tasks[t].began / 1e9 <= moment &&
             moment < (double)r->tasks[t].ended / 1e9;
    return n;
}

Test(flow_figures, are_those_of_a_slow_model)
{
    uint64_t several = 0;
    PROPERTY(rng, 3000)
    {
        run          r;
        flow_figures f;
        double       first = 1e18, last = 0, sum = 0, path = 0, turnaround = 0, ends = 0, ran = 0, off = 0, busy[PARTS];
        uint64_t     repeated = 0;
        uint32_t     of_worker[WORKERS] = { 0 }, workers = 0, slots = 0, zero = 0;
        draw(&r, &rng);
        for (uint32_t t = 0; t < r.g.n; t++) {
            const flow_task *x = &r.tasks[t];
            path = fmax(path, way_to(&r, t));
            repeated += x->state == FLOW_TASK_FAILED && x->failures ? x->failures - 1 : x->failures;
            if (!flow_task_ran(x))
                continue;
            ran++;
            zero += x->began == x->ended;
            sum += length(&r, t);
            first = fmin(first, (double)x->began / 1e9);
            last = fmax(last, (double)x->ended / 1e9);
            ends += way_to(&r, t);
            of_worker[(x->worker - 10) / 5]++;
        }
        HOLDS(flow_figures_of(&r.g, &f) == HTC_OK);
        HOLDS(f.ran == (uint64_t)ran && f.repeated == repeated && near(f.run_s, sum) && near(f.path_s, path));
        for (uint32_t w = 0; w < WORKERS; w++) {
            uint32_t most = 0;
            if (of_worker[w] == 0)
                continue;
            for (int s = 100; s < 130; s++)
                most = at_once(&r, 10 + 5 * w, s + 0.5) > most ? at_once(&r, 10 + 5 * w, s + 0.5) : most;
            HOLDS(f.workers[workers].worker == 10 + 5 * w && f.workers[workers].tasks == of_worker[w]);
            HOLDS(f.workers[workers].slots >= most && (zero || f.workers[workers].slots == most) && f.workers[workers].first_slot == slots);
            slots += f.workers[workers++].slots;
        }
        HOLDS(f.n_workers == workers && f.slots == slots);
        several += workers > 1;
        double along = 0; /* the path is one, of that length */
        for (uint32_t i = 0; i < f.n_path; i++) {
            along += length(&r, f.path[i]);
            HOLDS(i == 0 || r.after[f.path[i]][f.path[i - 1]]);
        }
        HOLDS(near(along, path));
        for (uint32_t t = 0; t < r.g.n; t++) /* nobody shares a slot */
            for (uint32_t u = 0; u < t; u++)
                HOLDS(!flow_task_ran(&r.tasks[t]) || !flow_task_ran(&r.tasks[u]) || r.tasks[t].lane != r.tasks[u].lane ||
                      (r.tasks[t].worker == r.tasks[u].worker && (r.tasks[t].ended <= r.tasks[u].began || r.tasks[u].ended <= r.tasks[t].began)));
        if (ran > 0) {
            double span = last - first, k = fmax(ran / slots, 1), mean = ran / workers;
            for (uint32_t t = 0; t < r.g.n; t++)
                turnaround += flow_task_ran(&r.tasks[t]) ? (double)r.tasks[t].ended / 1e9 - first : 0;
            for (uint32_t w = 0; w < WORKERS; w++)
                off += of_worker[w] ? (of_worker[w] - mean) * (of_worker[w] - mean) : 0;
            HOLDS(near(f.makespan_s, span) && near(f.area_s, sum / slots) && near(f.bound_s, fmax(path, sum / slots)));
            HOLDS(near(f.efficiency, span > 0 ? fmax(path, sum / slots) / span : 1) && near(f.tasks_cv, sqrt(off / workers) / mean));
            HOLDS(near(f.turnaround_s, turnaround / ran) && near(f.ideal_turnaround_s, fmax(ends / ran, (k + 1) * sum / ran / 2)));
            flow_busy(&r.g, &f, FLOW_NOBODY, PARTS, busy);
            double all = 0, of_one[PARTS], of_all[PARTS] = { 0 };
            for (uint32_t w = 0; w < workers; w++) {
                flow_busy(&r.g, &f, w, PARTS, of_one);
                for (int i = 0; i < PARTS; i++)
                    of_all[i] += of_one[i];
            }
            for (int i = 0; i < PARTS; i++) {
                all += busy[i] * span / PARTS;
                HOLDS(span == 0 || near(busy[i], of_all[i]));
            }
            HOLDS(span == 0 || near(all, sum)); /* nothing is lost between the parts */
        }
        flow_figures_free(&f);
    }
    cr_expect(several > 100, "%lu runs with several workers", several);
}

/* Two slots, four tasks: a 2 s; then b 3 s beside c 1 s and d 1 s. Critical path a b: 5 s; area 7 / 2; so 5 of 5 s. */
Test(flow_figures, a_diamond_by_hand)
{
    run          r = { .g.n = 4 };
    flow_figures f;
    double       busy[5];
    const int    times[4][2] = { { 0, 2 }, { 2, 5 }, { 2, 3 }, { 3, 4 } };
    for (uint32_t t = 0; t < 4; t++)
        r.tasks[t] = (flow_task){ .state = FLOW_TASK_DONE, .worker = 1, .began = (1 + (htc_ns)times[t][0]) * HTC_SECOND, .ended = (1 + (htc_ns)times[t][1]) * HTC_SECOND };
    r.after[1][0] = r.after[2][0] = r.after[3][2] = 1;
    tie(&r);
    cr_assert(eq(int, flow_figures_of(&r.g, &f), HTC_OK));
    cr_expect(f.slots == 2 && near(f.makespan_s, 5) && near(f.path_s, 5) && near(f.area_s, 3.5) && near(f.efficiency, 1) && near(f.utilisation, 0.7));
    cr_expect(near(f.turnaround_s, (2 + 5 + 3 + 4) / 4.0) && near(f.ideal_turnaround_s, 3.5) && near(f.delay_ratio, 0));
    cr_expect(f.n_path == 2 && f.path[0] == 0 && f.path[1] == 1);
    flow_busy(&r.g, &f, FLOW_NOBODY, 5, busy);
    cr_expect(near(busy[0], 1) && near(busy[1], 1) && near(busy[2], 2) && near(busy[3], 2) && near(busy[4], 1));
    flow_figures_free(&f);
}

/* Depths are those of the longest way; tasks that wait for each other have none. */
Test(flow_figures, depths_and_circles)
{
    run          r;
    uint32_t     depth[TASKS], largest;
    flow_figures f;
    PROPERTY(rng, 500)
    {
        uint32_t want[TASKS] = { 0 }, most = 0;
        draw(&r, &rng);
        HOLDS(flow_depths(&r.g, depth, &largest) == HTC_OK);
        for (uint32_t t = 0; t < r.g.n; t++) {
            for (uint32_t p = 0; p < t; p++)
                want[t] = r.after[t][p] && want[p] + 1 > want[t] ? want[p] + 1 : want[t];
            most = want[t] > most ? want[t] : most;
            HOLDS(depth[t] == want[t]);
        }
        HOLDS(largest == most);
    }
    r = (run){ .g.n = 2 };
    r.after[0][1] = r.after[1][0] = 1;
    tie(&r);
    cr_expect(eq(int, flow_depths(&r.g, depth, &largest), HTC_ECYCLE));
    cr_expect(eq(int, flow_figures_of(&r.g, &f), HTC_ECYCLE));
    r = (run){ .g.n = 0 };
    tie(&r);
    cr_expect(eq(int, flow_figures_of(&r.g, &f), HTC_OK));
    cr_expect(f.ran == 0 && f.n_path == 0);
    flow_figures_free(&f);
}
