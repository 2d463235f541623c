/* Lengths over a graph: the critical path and the earliest finishing times, by hand, against the formulas written down
 * as they stand, and against placements that were tried. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/dag.h"
#include "property.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define N        20

typedef struct graph {
    htc_dag *dag;
    uint32_t n;
    char     edge[N][N]; /* [parent][child] */
    htc_ns   exec[N], wait[N];
    uint64_t bytes[N], between[N][N];
} graph;

/* No cycle: edges lead from smaller to larger places, and numbers are places shuffled. */
static graph random_graph(htc_rng *rng)
{
    graph    g = { .n = 1 + (uint32_t)htc_rng_below(rng, N) };
    uint32_t number[N], dense = 1 + (uint32_t)htc_rng_below(rng, 6);
    HOLDS(htc_dag_create(NULL, NULL, &g.dag) == HTC_OK);
    for (uint32_t i = 0; i < g.n; i++) {
        uint32_t j = (uint32_t)htc_rng_below(rng, i + 1);
        number[i] = number[j];
        number[j] = i;
    }
    for (uint32_t i = 0; i < g.n; i++) {
        HOLDS(htc_dag_add_task(g.dag, i) == HTC_OK);
        g.exec[i] = htc_rng_below(rng, 50);
        g.wait[i] = htc_rng_below(rng, 10);
        g.bytes[i] = htc_rng_below(rng, 1000);
        for (uint32_t j = 0; j < g.n; j++)
            g.between[i][j] = htc_rng_below(rng, 8) * HTC_SECOND / 100; /* some not at all */
        for (uint32_t j = 0; j < i; j++)
            if (htc_rng_below(rng, 8) < dense) {
                g.edge[number[j]][number[i]] = 1;
                HOLDS(htc_dag_add_edge(g.dag, number[j], number[i]) == HTC_OK);
            }
    }
    return g;
}

static uint64_t between(void *ctx, uint32_t u, uint32_t v)
{
    const graph *g = ctx;
    return g->between[u][v];
}

/* ---- the critical path ---- */

Test(dag_path, critical_paths_by_hand)
{
    static const struct {
        uint32_t n, edges[6][2], n_edges;
        htc_ns   length[5], left[5], total;
        uint32_t path[5], n_path;
    } rows[] = {
        { 1, { { 0 } }, 0, { 7 }, { 7 }, 7, { 0 }, 1 },
        { 3, { { 0 } }, 0, { 7, 9, 9 }, { 7, 9, 9 }, 9, { 1 }, 1 },
        { 4, { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 } }, 4, { 1, 5, 8, 2 }, { 11, 7, 10, 2 }, 11, { 0, 2, 3 }, 3 },
        /* equal: through the smallest numbers, and on over tasks that take no time */
        { 5,
          { { 4, 3 }, { 4, 1 }, { 3, 2 }, { 1, 2 }, { 2, 0 } },
          5,
          { 0, 5, 1, 5, 1 },
          { 0, 6, 1, 6, 7 },
          7,
          { 4, 1, 2, 0 },
          4 },
        /* whichever edge came first */
        { 4, { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 } }, 4, { 1, 5, 5, 2 }, { 8, 7, 7, 2 }, 8, { 0, 1, 3 }, 3 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_dag *d;
        htc_ns   left[5] = { 0 }, total;
        uint32_t path[5] = { 0 }, n;
        cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
        for (uint32_t t = 0; t < rows[i].n; t++)
            cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
        for (uint32_t e = 0; e < rows[i].n_edges; e++)
            cr_assert(eq(int, htc_dag_add_edge(d, rows[i].edges[e][0], rows[i].edges[e][1]), HTC_OK));
        cr_expect(eq(int, htc_dag_critical_path(d, 5, rows[i].length, 5, left, path, &n, &total), HTC_OK));
        cr_expect(eq(u64, total, rows[i].total), "row %zu", i);
        cr_expect(eq(u32, n, rows[i].n_path), "row %zu", i);
        cr_expect(memcmp(left, rows[i].left, rows[i].n * sizeof *left) == 0, "row %zu", i);
        cr_expect(memcmp(path, rows[i].path, n * sizeof *path) == 0, "row %zu", i);
        htc_dag_destroy(d);
    }
}

static htc_ns longest_from(const graph *g, uint32_t t)
{
    htc_ns most = 0;
    for (uint32_t c = 0; c < g->n; c++)
        if (g->edge[t][c] && longest_from(g, c) > most)
            most = longest_from(g, c);
    return g->exec[t] + most;
}

Test(dag_path, the_critical_path_is_the_longest_of_all_ways)
{
    PROPERTY(rng, 300)
    {
        graph    g = random_graph(&rng);
        htc_ns   left[N], total, most = 0, sum = 0;
        uint32_t path[N], n;
        if (g.n > 10) { /* every way is walked: no larger */
            htc_dag_destroy(g.dag);
            continue;
        }
        HOLDS(htc_dag_critical_path(g.dag, N, g.exec, N, left, path, &n, &total) == HTC_OK);
        for (uint32_t t = 0; t < g.n; t++) {
            HOLDS(left[t] == longest_from(&g, t));
            most = left[t] > most ? left[t] : most;
        }
        HOLDS(total == most && n >= 1);
        for (uint32_t i = 0; i < n; i++) {
            sum += g.exec[path[i]];
            HOLDS(i == 0 || g.edge[path[i - 1]][path[i]]);
        }
        HOLDS(sum == total);
        htc_dag_destroy(g.dag);
    }
}

/* ---- earliest finishing times ---- */

#define S HTC_SECOND

/* 0 -> 1, 2 -> 3, ten seconds each; 100, 200 and 50 bytes at 10 bytes a second. Without waits: 0 ends at 10 s; 1 and 2
 * begin where 0 ran, a move later, and end at 21 s; 3 goes to 1, whose 200 bytes would be dearest to move: 50 bytes
 * arrive at 26 s. */
Test(dag_path, earliest_finishing_times_by_hand)
{
    static const htc_ns   exec[] = { 10 * S, 10 * S, 10 * S, 10 * S }, two[] = { 2 * S, 2 * S, 2 * S, 2 * S };
    static const uint64_t bytes[] = { 100, 200, 50, 1 };
    static const struct {
        const uint64_t *bytes;
        const htc_ns   *wait;
        uint64_t        k, bandwidth;
        htc_ns          move, finish[4];
    } rows[] = {
        { NULL, NULL, 0, 0, 0, { 10 * S, 20 * S, 20 * S, 30 * S } },
        { bytes, NULL, 0, 0, 0, { 10 * S, 20 * S, 20 * S, 30 * S } },
        { NULL, NULL, 1, 10, 5 * S, { 10 * S, 20 * S, 20 * S, 30 * S } },
        { bytes, NULL, 1, 10, S, { 10 * S, 21 * S, 21 * S, 37 * S } },
        { bytes, two, 7, 10, S, { 12 * S, 25 * S, 25 * S, 43 * S } },
        { bytes, NULL, 3, 10, S, { 20 * S, 41 * S, 41 * S, 67 * S } },
        { bytes, NULL, 1, 10, 30 * S, { 10 * S, 30 * S, 30 * S, 60 * S } },
    };
    htc_dag *d;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    for (uint32_t t = 0; t < 4; t++)
        cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
    htc_dag_add_edge(d, 0, 1);
    htc_dag_add_edge(d, 0, 2);
    htc_dag_add_edge(d, 1, 3);
    htc_dag_add_edge(d, 2, 3);
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_dag_model m = HTC_DAG_MODEL_INIT;
        htc_ns        finish[4], bound;
        m.tasks = 4;
        m.exec_ns = exec;
        m.bytes = rows[i].bytes;
        m.wait_ns = rows[i].wait;
        m.tasks_per_slot = rows[i].k;
        m.bandwidth = rows[i].bandwidth;
        m.move_ns = rows[i].move;
        cr_expect(eq(int, htc_dag_bound(d, &m, finish, &bound), HTC_OK));
        for (uint32_t t = 0; t < 4; t++)
            cr_expect(eq(u64, finish[t], rows[i].finish[t]), "row %zu, task %u", i, t);
        cr_expect(eq(u64, bound, rows[i].finish[3]), "row %zu", i);
    }
    htc_dag_destroy(d);
}

/* To the nanosecond: the mean of 1 and 2 is 1, and so is (3 - 1) / 2 times that. */
Test(dag_path, mean_waits_are_rounded_down)
{
    static const htc_ns exec[] = { 1, 2 };
    htc_dag_model       m = HTC_DAG_MODEL_INIT;
    htc_dag            *d;
    htc_ns              finish[2], bound;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    for (uint32_t t = 0; t < 2; t++)
        cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
    m.tasks = 2;
    m.exec_ns = exec;
    m.tasks_per_slot = 3;
    cr_expect(eq(int, htc_dag_bound(d, &m, finish, &bound), HTC_OK));
    cr_expect(finish[0] == 2 && finish[1] == 3 && bound == 3);
    htc_dag_destroy(d);
}

Test(dag_path, a_bound_that_there_is_no_memory_for_is_refused)
{
    static const htc_ns exec[] = { 1, 2 };
    alloc_fail          f = { .once = 1 };
    htc_env             env = alloc_fail_env(&f);
    htc_dag_model       m = HTC_DAG_MODEL_INIT;
    htc_dag            *d;
    cr_assert(eq(int, htc_dag_create(&env, NULL, &d), HTC_OK));
    for (uint32_t t = 0; t < 2; t++)
        cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
    cr_assert(eq(int, htc_dag_add_edge(d, 0, 1), HTC_OK));
    m.tasks = 2;
    m.exec_ns = exec;
    for (size_t nth = 1, refused = 0; nth < 20; nth++, refused = f.refused) {
        htc_ns finish[2] = { 77, 77 }, bound = 77;
        f.fail_at = f.calls + nth;
        htc_status status = htc_dag_bound(d, &m, finish, &bound);
        cr_expect(eq(int, status, f.refused > refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", nth);
        cr_expect(bound == (status == HTC_OK ? 3 : 77) && finish[1] == bound);
    }
    cr_expect(f.refused >= 3);
    htc_dag_destroy(d);
    cr_expect(f.live == 0 && f.wrong_sizes == 0);
}

static htc_ns plus(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

static htc_ns moved(uint64_t bytes, uint64_t bandwidth)
{
    return bytes == 0 ? 0 : bandwidth == 0 ? HTC_NEVER : bytes * HTC_SECOND / bandwidth; /* no overflow: bytes < 1000 */
}

static uint64_t model_bandwidth(const graph *g, const htc_dag_model *m, uint32_t u, uint32_t v)
{
    return m->between ? g->between[u][v] : m->bandwidth;
}

/* t_ef as the paper has it, from the task backwards; finish is -1 where it is not known yet. */
static htc_ns t_ef(const graph *g, const htc_dag_model *m, uint32_t v, htc_ns *finish)
{
    htc_ns t1 = 0, t2 = HTC_NEVER;
    if (finish[v] != HTC_NEVER - 1)
        return finish[v];
    for (uint32_t u = 0; u < g->n; u++) {
        htc_ns there = 0;
        if (!g->edge[u][v])
            continue;
        htc_ns alone = plus(t_ef(g, m, u, finish), moved(g->bytes[u], model_bandwidth(g, m, u, v)));
        t1 = alone > t1 ? alone : t1;
        for (uint32_t w = 0; w < g->n; w++) {
            if (!g->edge[w][v])
                continue;
            htc_ns when = t_ef(g, m, w, finish);
            if (w != u)
                when = plus(when, moved(g->bytes[w], model_bandwidth(g, m, w, u)));
            there = when > there ? when : there;
        }
        t2 = there < t2 ? there : t2;
    }
    t2 = plus(t2, m->move_ns);
    return finish[v] = plus(plus(t1 < t2 ? t1 : t2, m->wait_ns[v]), m->exec_ns[v]);
}

static htc_dag_model model_of(graph *g, htc_rng *rng, int pairs)
{
    htc_dag_model m = HTC_DAG_MODEL_INIT;
    m.tasks = N;
    m.exec_ns = g->exec;
    m.wait_ns = g->wait;
    m.bytes = g->bytes;
    m.bandwidth = (1 + htc_rng_below(rng, 20)) * HTC_SECOND;
    m.move_ns = htc_rng_below(rng, 40);
    m.between = pairs ? between : NULL;
    m.ctx = g;
    return m;
}

Test(dag_path, earliest_finishing_times_agree_with_the_formula)
{
    PROPERTY(rng, 2000)
    {
        graph         g = random_graph(&rng);
        htc_dag_model m = model_of(&g, &rng, (int)htc_rng_below(&rng, 2));
        htc_ns        finish[N], model[N], bound, last = 0;
        for (uint32_t t = 0; t < N; t++)
            model[t] = HTC_NEVER - 1;
        HOLDS(htc_dag_bound(g.dag, &m, finish, &bound) == HTC_OK);
        for (uint32_t t = 0; t < g.n; t++) {
            HOLDS(finish[t] == t_ef(&g, &m, t, model));
            last = finish[t] > last ? finish[t] : last;
        }
        HOLDS(bound == last);
        htc_dag_destroy(g.dag);
    }
}

/* Any placement of the kind the bound is about, each task on a node of its own or where one of its parents ran, ends no
 * sooner; nor does anything end sooner than the critical path. */
Test(dag_path, no_placement_ends_before_the_bound)
{
    PROPERTY(rng, 1000)
    {
        graph         g = random_graph(&rng);
        htc_dag_model m = model_of(&g, &rng, 0);
        htc_ns        finish[N] = { 0 }, ended[N] = { 0 }, bound, total, last = 0;
        uint32_t      t;
        HOLDS(htc_dag_bound(g.dag, &m, finish, &bound) == HTC_OK);
        HOLDS(htc_dag_critical_path(g.dag, N, g.exec, 0, NULL, NULL, NULL, &total) == HTC_OK);
        while (htc_dag_take(g.dag, &t) == HTC_OK) {
            uint32_t near = (uint32_t)htc_rng_below(&rng, g.n); /* where this one ran, if it is a parent */
            htc_ns   start = 0;
            for (uint32_t u = 0; u < g.n; u++)
                if (g.edge[u][t]) {
                    htc_ns when = ended[u] + (u == near ? 0 : moved(g.bytes[u], m.bandwidth));
                    start = when > start ? when : start;
                }
            ended[t] = start + (g.edge[near][t] ? m.move_ns : 0) + g.wait[t] + g.exec[t];
            HOLDS(ended[t] >= finish[t]);
            last = ended[t] > last ? ended[t] : last;
            HOLDS(htc_dag_done(g.dag, t) == HTC_OK);
        }
        HOLDS(last >= bound && bound >= total);
        htc_dag_destroy(g.dag);
    }
}

/* ---- wrong use ---- */

Test(dag_path, refuses_wrong_use)
{
    htc_dag      *d;
    htc_ns        exec[3] = { 1, 2, 3 }, left[3] = { 77, 77, 77 }, total = 77;
    uint32_t      path[3] = { 77 }, n = 77;
    htc_dag_model m = HTC_DAG_MODEL_INIT, bad;
    struct {
        htc_dag_model known;
        uint64_t      more;
    } newer = { .known = HTC_DAG_MODEL_INIT, .more = 1 };
    m.tasks = 3;
    m.exec_ns = exec;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    cr_expect(eq(int, htc_dag_critical_path(d, 0, exec, 3, left, path, &n, &total), HTC_OK), "no task");
    cr_expect(n == 0 && total == 0);
    cr_expect(eq(int, htc_dag_bound(d, &m, left, &total), HTC_OK));
    cr_expect(total == 0 && left[0] == 77);
    n = 77;
    total = 77;
    for (uint32_t t = 0; t < 3; t++)
        cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
    cr_expect(eq(int, htc_dag_critical_path(NULL, 3, exec, 3, left, path, &n, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_critical_path(d, 2, exec, 3, left, path, &n, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_critical_path(d, 3, NULL, 3, left, path, &n, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_critical_path(d, 3, exec, 3, left, NULL, &n, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_critical_path(d, 3, exec, 3, left, path, &n, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_bound(NULL, &m, left, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_bound(d, NULL, left, &total), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_bound(d, &m, left, NULL), HTC_EINVAL));
    bad = m;
    bad.tasks = 2;
    cr_expect(eq(int, htc_dag_bound(d, &bad, left, &total), HTC_EINVAL));
    bad = m;
    bad.exec_ns = NULL;
    cr_expect(eq(int, htc_dag_bound(d, &bad, left, &total), HTC_EINVAL));
    bad = m;
    bad.size = 0;
    cr_expect(eq(int, htc_dag_bound(d, &bad, left, &total), HTC_EINVAL));
    newer.known.size = sizeof newer;
    cr_expect(eq(int, htc_dag_bound(d, &newer.known, left, &total), HTC_EABI));
    htc_dag_add_edge(d, 0, 1);
    htc_dag_add_edge(d, 1, 3);
    htc_ns four[4] = { 1, 2, 3, 4 };
    m.tasks = 4;
    m.exec_ns = four;
    cr_expect(eq(int, htc_dag_critical_path(d, 4, four, 3, left, path, &n, &total), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_dag_bound(d, &m, left, &total), HTC_ENOTFOUND));
    htc_dag_add_edge(d, 1, 0);
    cr_expect(eq(int, htc_dag_critical_path(d, 4, four, 3, left, path, &n, &total), HTC_ECYCLE));
    cr_expect(eq(int, htc_dag_bound(d, &m, left, &total), HTC_ECYCLE));
    cr_expect(left[0] == 77 && path[0] == 77 && n == 77 && total == 77, "untouched on failure");
    htc_dag_model_init(NULL);
    htc_dag_model_init(&bad);
    cr_expect(bad.size == sizeof bad && !bad.exec_ns && bad.move_ns == 0);
    htc_dag_destroy(d);
}

Test(dag_path, sums_that_do_not_fit_are_told)
{
    static const htc_ns   exec[] = { HTC_NEVER - 5, 6 };
    static const uint64_t bytes[] = { UINT64_MAX, 0 };
    htc_dag              *d;
    htc_ns                total = 77, bound;
    htc_dag_model         m = HTC_DAG_MODEL_INIT;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    htc_dag_add_task(d, 0);
    htc_dag_add_task(d, 1);
    cr_expect(eq(int, htc_dag_critical_path(d, 2, exec, 0, NULL, NULL, NULL, &total), HTC_OK));
    cr_expect(eq(u64, total, HTC_NEVER - 5));
    htc_dag_add_edge(d, 0, 1);
    cr_expect(eq(int, htc_dag_critical_path(d, 2, exec, 0, NULL, NULL, NULL, &total), HTC_ETOOBIG));
    cr_expect(eq(u64, total, HTC_NEVER - 5));
    m.tasks = 2;
    m.exec_ns = exec;
    m.bytes = bytes;
    m.bandwidth = 1;
    m.move_ns = HTC_NEVER;
    m.tasks_per_slot = UINT64_MAX;
    cr_expect(eq(int, htc_dag_bound(d, &m, NULL, &bound), HTC_OK));
    cr_expect(eq(u64, bound, HTC_NEVER));
    htc_dag_destroy(d);
}

/* Those that were cancelled take no time and are on no path, even if a result of one that waited for them is there. */
Test(dag_path, cancelled_tasks_do_not_count)
{
    static const htc_ns length[] = { 100, 5, 7 };
    htc_dag            *d;
    htc_ns              total, left[3], finish[3], bound;
    uint32_t            path[3], n;
    htc_dag_model       m = HTC_DAG_MODEL_INIT;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    for (uint32_t t = 0; t < 3; t++)
        htc_dag_add_task(d, t);
    htc_dag_add_edge(d, 0, 1);
    cr_expect(eq(int, htc_dag_done(d, 1), HTC_OK));
    cr_expect(eq(int, htc_dag_cancel(d, 0, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_dag_critical_path(d, 3, length, 3, left, path, &n, &total), HTC_OK));
    cr_expect(total == 7 && n == 1 && path[0] == 2 && left[0] == 0 && left[1] == 5);
    m.tasks = 3;
    m.exec_ns = length;
    cr_expect(eq(int, htc_dag_bound(d, &m, finish, &bound), HTC_OK));
    cr_expect(bound == 7 && finish[0] == 0 && finish[1] == 5);
    htc_dag_destroy(d);
}

/* 0 -> 1, 2 -> 3, and 4 alone; 1 and 2 are cancelled and 3 is done. What stood between two that count is no bridge. */
Test(dag_path, nothing_leads_through_cancelled_tasks)
{
    static const htc_ns length[] = { 50, 0, 0, 5, 7 };
    htc_dag            *d;
    htc_ns              total, left[5], finish[5], bound;
    uint32_t            path[5], n;
    htc_dag_model       m = HTC_DAG_MODEL_INIT;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    for (uint32_t t = 0; t < 5; t++)
        htc_dag_add_task(d, t);
    htc_dag_add_edge(d, 0, 1);
    htc_dag_add_edge(d, 2, 3);
    cr_expect(eq(int, htc_dag_done(d, 3), HTC_OK));
    cr_expect(eq(int, htc_dag_cancel(d, 1, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_dag_cancel(d, 2, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_dag_critical_path(d, 5, length, 5, left, path, &n, &total), HTC_OK));
    cr_expect(total == 50 && n == 1 && path[0] == 0, "not on to 1, though that would take no time");
    m.tasks = 5;
    m.exec_ns = length;
    cr_expect(eq(int, htc_dag_bound(d, &m, finish, &bound), HTC_OK));
    cr_expect(bound == 50 && finish[3] == 5 && finish[4] == 7, "4 waits for nobody");
    htc_dag_destroy(d);
}
