/* Graphs of tasks: against a matrix of edges, the shapes of the papers, cycles, edges that come late, and no memory.
 * Lengths and bounds are in test_dag_path.c. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "property.h"

#define MODEL_HOLDS HOLDS
#include "dag_model.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static htc_dag *empty(void)
{
    htc_dag *d = NULL;
    cr_assert(eq(int, htc_dag_create(NULL, NULL, &d), HTC_OK));
    return d;
}

static void add_tasks(htc_dag *d, uint32_t first, uint32_t n)
{
    for (uint32_t t = first; t < first + n; t++)
        cr_assert(eq(int, htc_dag_add_task(d, t), HTC_OK));
}

static void add_edge(htc_dag *d, uint32_t parent, uint32_t child)
{
    cr_assert(eq(int, htc_dag_add_edge(d, parent, child), HTC_OK));
}

static htc_dag_counts count_of(const htc_dag *d)
{
    htc_dag_counts n;
    cr_assert(eq(int, htc_dag_count(d, &n), HTC_OK));
    return n;
}

/* ---- against the model ---- */

Test(dag, agrees_with_a_matrix_of_edges)
{
    PROPERTY(rng, 3000)
    {
        dag_model       m = { .now = 0 };
        htc_dag_options o = { .size = sizeof o, .tasks_max = MODEL_TASKS };
        htc_dag        *d = NULL;
        uint32_t tasks = 2 + (uint32_t)htc_rng_below(&rng, MODEL_TASKS), forward = (uint32_t)htc_rng_below(&rng, 4);
        HOLDS(htc_dag_create(NULL, &o, &d) == HTC_OK);
        for (int step = 0; step < 150; step++) {
            uint32_t a = (uint32_t)htc_rng_below(&rng, tasks), b = (uint32_t)htc_rng_below(&rng, tasks);
            uint32_t what = (uint32_t)htc_rng_below(&rng, 16);
            if (what >= 13 && htc_rng_below(&rng, 6)) /* these are dear, or leave little */
                what = 8;
            if (forward && what >= 3 && what <= 7 && a > b) /* mostly graphs without cycles */
                model_step(&m, d, what, b, a);
            else
                model_step(&m, d, what, a, b);
        }
        model_check_edges(&m, d);
        model_check_cycle(&m, d);
        htc_dag_destroy(d);
    }
}

/* Many tasks, edges in any order, a third of them while others run, some twice: each task runs once, after its parents.
 */
Test(dag, large_graphs_run_each_task_once_after_its_parents)
{
    PROPERTY(rng, 60)
    {
        enum { TASKS = 1500 };
        static uint32_t place[TASKS], parent[TASKS * 8], child[TASKS * 8], edges, at;
        htc_dag        *d = empty();
        uint32_t        t, ran = 0, n;
        memset(place, 0, sizeof place);
        edges = 0;
        for (uint32_t i = 0; i < TASKS * 5; i++) {
            uint32_t a = (uint32_t)htc_rng_below(&rng, TASKS), b = (uint32_t)htc_rng_below(&rng, TASKS);
            if (i > 0 && htc_rng_below(&rng, 10) == 0) {
                at = (uint32_t)htc_rng_below(&rng, edges);
                a = parent[at];
                b = child[at];
            }
            if (a == b)
                b = (a + 1) % TASKS;
            parent[edges] = a < b ? a : b;
            child[edges++] = a < b ? b : a;
        }
        uint32_t early = (uint32_t)htc_rng_below(&rng, edges);
        for (uint32_t i = 0; i < early; i++)
            HOLDS(htc_dag_add_edge(d, parent[i], child[i]) == HTC_OK);
        for (uint32_t i = 0; i < TASKS; i++)
            HOLDS(htc_dag_add_task(d, i) == HTC_OK);
        for (uint32_t late = early; htc_dag_take(d, &t) == HTC_OK;) {
            HOLDS(place[t] == 0);
            place[t] = ++ran;
            for (uint32_t more = 0; more < 8 && late < edges; more++, late++) {
                htc_status status = htc_dag_add_edge(d, parent[late], child[late]);
                HOLDS(status == (place[child[late]] ? HTC_EINVAL : HTC_OK));
                if (status != HTC_OK)
                    child[late] = parent[late] = TASKS; /* too late */
            }
            HOLDS(htc_dag_done(d, t) == HTC_OK);
        }
        HOLDS(ran == TASKS);
        for (uint32_t i = 0; i < edges; i++)
            HOLDS(parent[i] == TASKS || place[parent[i]] < place[child[i]]);
        HOLDS(htc_dag_check(d, 0, NULL, &n) == HTC_OK && n == 0);
        htc_dag_destroy(d);
    }
}

/* ---- shapes of the papers ---- */

/* Takes and finishes wave after wave; answers how many waves there were. */
static uint32_t waves(htc_dag *d)
{
    static uint32_t wave[5000];
    uint32_t        n, rounds = 0;
    for (;; rounds++) {
        for (n = 0; htc_dag_take(d, &wave[n]) == HTC_OK;)
            n++;
        if (n == 0)
            return rounds;
        while (n > 0)
            cr_assert(eq(int, htc_dag_done(d, wave[--n]), HTC_OK));
    }
}

/* The generators of MATRIX: children of i are i d + 1 to i d + d (Fan-Out), the mirror of that (Fan-In), chains of p
 * (Pipeline), no edges (bag of tasks), and two phases of MapReduce. A wave is what can run at once. */
Test(dag, shapes_of_the_papers_run_in_as_many_waves_as_they_are_deep)
{
    enum { N = 1365 }; /* 1 + 4 + ... + 4^5 */
    static const struct {
        const char *shape;
        uint32_t    waves, first, edges;
    } rows[] = {
        { "bag", 1, N, 0 },           { "fan-out", 6, 1, N - 1 },          { "fan-in", 6, 1024, N - 1 },
        { "pipeline", 5, 273, 1092 }, { "mapreduce", 2, 1300, 1300 * 65 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_dag *d = empty();
        uint32_t n;
        for (uint32_t t = N; t > 0; t--)
            add_tasks(d, t - 1, 1);
        for (uint32_t t = 0; t < N; t++) {
            if (strcmp(rows[i].shape, "fan-out") == 0)
                for (uint32_t c = 4 * t + 1; c <= 4 * t + 4 && c < N; c++)
                    add_edge(d, t, c);
            else if (strcmp(rows[i].shape, "fan-in") == 0)
                for (uint32_t c = 4 * t + 1; c <= 4 * t + 4 && c < N; c++)
                    add_edge(d, N - 1 - c, N - 1 - t);
            else if (strcmp(rows[i].shape, "pipeline") == 0 && t % 5 < 4)
                add_edge(d, t, t + 1);
            else if (strcmp(rows[i].shape, "mapreduce") == 0 && t < 1300)
                for (uint32_t c = 1300; c < N; c++)
                    add_edge(d, t, c);
        }
        cr_expect(eq(u32, count_of(d).ready, rows[i].first), "%s", rows[i].shape);
        cr_expect(eq(int, htc_dag_edges(d, &n), HTC_OK));
        cr_expect(eq(u32, n, rows[i].edges), "%s", rows[i].shape);
        cr_expect(eq(u32, waves(d), rows[i].waves), "%s", rows[i].shape);
        cr_expect(eq(u32, count_of(d).done, N), "%s", rows[i].shape);
        htc_dag_destroy(d);
    }
}

Test(dag, ready_tasks_come_in_the_order_they_became_ready)
{
    static const uint32_t order[] = { 4, 2, 9, 0, 7, 5 };
    htc_dag              *d = empty();
    uint32_t              t;
    add_tasks(d, 4, 1);
    add_tasks(d, 2, 1);
    add_edge(d, 4, 9);
    add_edge(d, 4, 0);
    add_edge(d, 9, 7);
    add_edge(d, 2, 5);
    add_edge(d, 9, 5);
    add_tasks(d, 0, 1);
    add_tasks(d, 5, 1);
    add_tasks(d, 7, 1);
    add_tasks(d, 9, 1);
    for (size_t i = 0; i < COUNT(order); i++) {
        cr_assert(eq(int, htc_dag_take(d, &t), HTC_OK));
        cr_expect(eq(u32, t, order[i]));
        if (t == 9) { /* lost, and tried again before all others */
            cr_expect(eq(int, htc_dag_put_back(d, 9), HTC_OK));
            cr_assert(eq(int, htc_dag_take(d, &t), HTC_OK));
            cr_expect(eq(u32, t, 9));
        }
        cr_assert(eq(int, htc_dag_done(d, t), HTC_OK));
    }
    cr_expect(eq(int, htc_dag_take(d, &t), HTC_AGAIN));
    htc_dag_destroy(d);
}

/* ---- cycles and missing tasks ---- */

Test(dag, a_cycle_is_reported_with_its_path)
{
    static const struct {
        uint32_t edges[8][2], n_edges, cycle[6], n;
    } rows[] = {
        { { { 0, 1 }, { 1, 0 } }, 2, { 0, 1 }, 2 },
        { { { 3, 1 }, { 1, 2 }, { 2, 3 } }, 3, { 1, 2, 3 }, 3 },
        /* a way in and a way out are not on it */
        { { { 0, 5 }, { 5, 2 }, { 2, 4 }, { 4, 5 }, { 4, 1 }, { 1, 3 } }, 6, { 2, 4, 5 }, 3 },
        { { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 4 }, { 4, 5 }, { 5, 0 } }, 6, { 0, 1, 2, 3, 4, 5 }, 6 },
        { { { 5, 4 }, { 4, 3 }, { 3, 2 }, { 2, 1 }, { 1, 0 }, { 0, 5 } }, 6, { 0, 5, 4, 3, 2, 1 }, 6 },
        { { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 } }, 4, { 0 }, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_dag *d = empty();
        uint32_t out[6] = { 77, 77, 77, 77, 77, 77 }, n = 77;
        add_tasks(d, 0, 6);
        for (uint32_t e = 0; e < rows[i].n_edges; e++)
            add_edge(d, rows[i].edges[e][0], rows[i].edges[e][1]);
        cr_expect(eq(int, htc_dag_check(d, 6, out, &n), rows[i].n ? HTC_ECYCLE : HTC_OK), "row %zu", i);
        cr_expect(eq(u32, n, rows[i].n), "row %zu", i);
        cr_expect(memcmp(out, rows[i].cycle, n * sizeof *out) == 0, "row %zu", i);
        uint32_t first[2] = { 77, 77 }; /* room for one */
        cr_expect(eq(int, htc_dag_check(d, 1, first, &n), rows[i].n ? HTC_ECYCLE : HTC_OK), "row %zu", i);
        cr_expect(first[1] == 77 && n == rows[i].n && (n == 0 || first[0] == rows[i].cycle[0]), "row %zu", i);
        htc_dag_destroy(d);
    }
}

Test(dag, tasks_that_nobody_added_are_named)
{
    htc_dag *d = empty();
    uint32_t out[4] = { 0 }, n = 77, t;
    add_edge(d, 7, 3);
    add_edge(d, 3, 5);
    add_tasks(d, 3, 1);
    cr_expect(eq(int, htc_dag_take(d, &t), HTC_AGAIN), "3 waits for 7, which is only named");
    cr_expect(eq(int, htc_dag_check(d, 4, out, &n), HTC_ENOTFOUND));
    cr_expect(n == 2 && out[0] == 5 && out[1] == 7);
    cr_expect(eq(u32, htc_dag_size(d), 8));
    add_tasks(d, 7, 1);
    add_tasks(d, 5, 1);
    cr_expect(eq(int, htc_dag_check(d, 4, out, &n), HTC_OK));
    cr_expect(eq(u32, waves(d), 3));
    htc_dag_destroy(d);
}

/* No recursion anywhere: a chain as long as the graph is large is no deeper than another. */
Test(dag, long_chains_are_no_danger)
{
    enum { N = 300000 };
    htc_dag *d = empty();
    uint32_t n, *out = malloc(N * sizeof *out);
    cr_assert(out != NULL);
    add_tasks(d, 0, N);
    for (uint32_t t = 0; t + 1 < N; t++)
        add_edge(d, t, t + 1);
    cr_expect(eq(int, htc_dag_check(d, N, out, &n), HTC_OK));
    add_edge(d, N - 1, 0);
    cr_expect(eq(int, htc_dag_check(d, N, out, &n), HTC_ECYCLE));
    cr_expect(eq(u32, n, N));
    cr_expect(out[0] == 0 && out[N - 1] == N - 1);
    cr_expect(eq(int, htc_dag_cancel(d, 5, NULL, NULL), HTC_OK));
    cr_expect(eq(u32, count_of(d).cancelled, N));
    free(out);
    htc_dag_destroy(d);
}

/* ---- the same edge again, late edges, work that is done already ---- */

/* Counted once wherever the copies come: before anything is in order, after, and after the parent is done. */
Test(dag, the_same_edge_again_changes_nothing)
{
    htc_dag        *d = empty();
    const uint32_t *children;
    uint32_t        n, t;
    add_tasks(d, 0, 3);
    for (int i = 0; i < 5; i++) {
        add_edge(d, 0, 2);
        add_edge(d, 1, 2);
    }
    cr_expect(eq(int, htc_dag_waits(d, 2, &n), HTC_OK));
    cr_expect(eq(u32, n, 2));
    add_edge(d, 0, 2);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 0 && htc_dag_done(d, 0) == HTC_OK);
    add_edge(d, 0, 2);
    cr_expect(eq(int, htc_dag_waits(d, 2, &n), HTC_OK));
    cr_expect(eq(u32, n, 1));
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 1 && htc_dag_done(d, 1) == HTC_OK);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 2);
    cr_expect(eq(int, htc_dag_edges(d, &n), HTC_OK));
    cr_expect(eq(u32, n, 2));
    cr_expect(eq(int, htc_dag_children(d, 0, &children, &n), HTC_OK));
    cr_expect(n == 1 && children[0] == 2);
    htc_dag_destroy(d);
}

Test(dag, children_come_in_the_order_their_edges_were_added)
{
    static const uint32_t order[] = { 9, 2, 7, 1, 8 };
    htc_dag              *d = empty();
    const uint32_t       *children;
    uint32_t              n;
    for (size_t i = 0; i < COUNT(order); i++) {
        add_edge(d, 5, order[i]);
        add_edge(d, 3, order[COUNT(order) - 1 - i]);
        add_edge(d, 5, order[0]);
        if (i == 2)
            cr_expect(eq(int, htc_dag_edges(d, &n), HTC_OK));
    }
    cr_expect(eq(int, htc_dag_children(d, 5, &children, &n), HTC_OK));
    cr_expect(n == COUNT(order) && memcmp(children, order, sizeof order) == 0);
    cr_expect(eq(int, htc_dag_children(d, 9, &children, &n), HTC_OK));
    cr_expect(n == 0);
    cr_expect(eq(int, htc_dag_children(d, 4000000, &children, &n), HTC_OK));
    cr_expect(n == 0);
    htc_dag_destroy(d);
}

Test(dag, a_ready_task_waits_again_when_a_parent_is_added)
{
    htc_dag *d = empty();
    uint32_t t;
    add_tasks(d, 0, 3);
    add_edge(d, 2, 1);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 0);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 2);
    cr_expect(eq(int, htc_dag_take(d, &t), HTC_AGAIN));
    add_edge(d, 0, 1);
    cr_expect(eq(int, htc_dag_done(d, 2), HTC_OK));
    cr_expect(eq(u32, htc_dag_state_of(d, 1), HTC_DAG_WAITING));
    cr_expect(eq(int, htc_dag_done(d, 0), HTC_OK));
    cr_expect(eq(u32, htc_dag_state_of(d, 1), HTC_DAG_READY));
    add_edge(d, 0, 1);
    cr_expect(eq(u32, htc_dag_state_of(d, 1), HTC_DAG_READY), "a parent that is done holds nothing back");
    htc_dag_destroy(d);
}

/* From a checkpoint: what is done is done, whatever its parents are. */
Test(dag, a_result_may_be_there_before_its_turn)
{
    htc_dag *d = empty();
    uint32_t t;
    add_tasks(d, 0, 4);
    for (uint32_t i = 0; i < 3; i++)
        add_edge(d, i, i + 1);
    cr_expect(eq(int, htc_dag_done(d, 2), HTC_OK));
    cr_expect(eq(int, htc_dag_done(d, 0), HTC_OK), "ready, never taken");
    cr_expect(eq(u32, count_of(d).ready, 2));
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 3);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 1 && htc_dag_done(d, 1) == HTC_OK);
    cr_expect(eq(u32, htc_dag_state_of(d, 2), HTC_DAG_DONE));
    htc_dag_destroy(d);
}

/* ---- cancelling ---- */

typedef struct told {
    uint32_t task[8], was[8], n;
} told;

static void tell(void *ctx, uint32_t task, uint32_t was)
{
    told *all = ctx;
    all->task[all->n] = task;
    all->was[all->n++] = was;
}

/* 0 -> 1 -> 3 -> 5, 2 -> 3, 2 -> 4: cancelling 1 takes 3 and 5 with it, and says that 1 has to be killed. */
Test(dag, cancelling_takes_along_what_can_no_longer_run)
{
    static const uint32_t task[] = { 1, 3, 5 }, was[] = { HTC_DAG_RUNNING, HTC_DAG_WAITING, HTC_DAG_NAMED };
    htc_dag              *d = empty();
    told                  all = { .n = 0 };
    uint32_t              t;
    add_tasks(d, 0, 5);
    add_edge(d, 0, 1);
    add_edge(d, 1, 3);
    add_edge(d, 3, 5);
    add_edge(d, 2, 3);
    add_edge(d, 2, 4);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 0 && htc_dag_done(d, 0) == HTC_OK);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 2);
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 1);
    cr_expect(eq(int, htc_dag_cancel(d, 1, tell, &all), HTC_OK));
    cr_expect(eq(u32, all.n, 3));
    cr_expect(memcmp(all.task, task, sizeof task) == 0 && memcmp(all.was, was, sizeof was) == 0);
    cr_expect(eq(int, htc_dag_done(d, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_put_back(d, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_cancel(d, 1, tell, &all), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_add_task(d, 5), HTC_ECANCELLED));
    cr_expect(eq(int, htc_dag_add_task(d, 1), HTC_ECANCELLED));
    cr_expect(eq(int, htc_dag_add_edge(d, 5, 6), HTC_ECANCELLED));
    cr_expect(eq(int, htc_dag_add_edge(d, 2, 5), HTC_ECANCELLED));
    cr_expect(eq(u32, htc_dag_size(d), 6), "6 is still nobody");
    cr_expect(eq(int, htc_dag_done(d, 2), HTC_OK));
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 4 && htc_dag_done(d, 4) == HTC_OK);
    cr_expect(eq(int, htc_dag_take(d, &t), HTC_AGAIN));
    cr_expect(eq(int, htc_dag_check(d, 0, NULL, NULL), HTC_OK), "what is cancelled does not count");
    htc_dag_destroy(d);
}

/* ---- wrong use ---- */

Test(dag, takes_the_largest_options)
{
    htc_dag_options o = { .size = sizeof o, .tasks_max = HTC_DAG_TASKS_MAX, .edges_max = HTC_DAG_EDGES_MAX };
    htc_dag        *d = NULL;
    cr_assert(eq(int, htc_dag_create(NULL, &o, &d), HTC_OK));
    cr_expect(eq(int, htc_dag_add_edge(d, 1, 0), HTC_OK));
    htc_dag_destroy(d);
}

Test(dag, refuses_wrong_use)
{
    htc_dag        *d = empty(), *none = NULL;
    htc_dag_counts  n;
    const uint32_t *children;
    uint32_t        out[2] = { 77, 77 }, t = 77;
    htc_dag_options bad[] = { { .size = sizeof bad[0], .tasks_max = HTC_DAG_TASKS_MAX + 1 },
                              { .size = sizeof bad[0], .edges_max = HTC_DAG_EDGES_MAX + 1 },
                              { .size = 0 } };
    for (size_t i = 0; i < COUNT(bad); i++)
        cr_expect(eq(int, htc_dag_create(NULL, &bad[i], &none), HTC_EINVAL), "options %zu", i);
    cr_expect(eq(int, htc_dag_create(NULL, NULL, NULL), HTC_EINVAL));
    htc_dag_destroy(NULL);
    htc_dag_options_init(NULL, 8);
    htc_dag_options_init(&bad[0], sizeof bad[0]);
    cr_expect(bad[0].size == sizeof bad[0] && bad[0].tasks_max == 0);
    cr_expect(eq(int, htc_dag_add_task(NULL, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_add_task(d, UINT32_MAX), HTC_EFULL));
    cr_expect(eq(int, htc_dag_add_edge(NULL, 0, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_add_edge(d, 1, 1), HTC_ECYCLE));
    cr_expect(eq(int, htc_dag_add_edge(d, UINT32_MAX, 1), HTC_EFULL));
    cr_expect(eq(int, htc_dag_add_edge(d, 1, UINT32_MAX), HTC_EFULL));
    cr_expect(eq(int, htc_dag_take(NULL, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_take(d, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_take(d, &t), HTC_AGAIN));
    cr_expect(eq(int, htc_dag_put_back(NULL, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_done(NULL, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_cancel(NULL, 0, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_check(NULL, 0, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_check(d, 1, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_check(d, 2, out, NULL), HTC_OK), "nothing at all can be run to its end");
    cr_expect(eq(int, htc_dag_count(NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_count(d, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_edges(d, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_edges(NULL, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_waits(d, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_waits(NULL, 0, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_children(d, 0, NULL, &t), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_children(d, 0, &children, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_dag_children(NULL, 0, &children, &t), HTC_EINVAL));
    cr_expect(eq(u32, htc_dag_state_of(NULL, 0), HTC_DAG_NONE));
    cr_expect(eq(u32, htc_dag_state_of(d, UINT32_MAX), HTC_DAG_NONE));
    cr_expect(eq(u32, htc_dag_size(NULL), 0));
    /* none, named, waiting, ready, running, done: what each refuses */
    add_edge(d, 0, 1);
    cr_expect(eq(int, htc_dag_done(d, 0), HTC_EINVAL), "only named");
    cr_expect(eq(int, htc_dag_done(d, 2), HTC_EINVAL), "nobody");
    cr_expect(eq(int, htc_dag_cancel(d, 2, NULL, NULL), HTC_EINVAL));
    add_tasks(d, 0, 2);
    cr_expect(eq(int, htc_dag_add_task(d, 0), HTC_EEXISTS));
    cr_expect(eq(int, htc_dag_put_back(d, 0), HTC_EINVAL), "ready");
    cr_expect(eq(int, htc_dag_put_back(d, 1), HTC_EINVAL), "waiting");
    cr_expect(htc_dag_take(d, &t) == HTC_OK && t == 0);
    cr_expect(eq(int, htc_dag_add_edge(d, 2, 0), HTC_EINVAL), "running");
    cr_expect(eq(int, htc_dag_done(d, 0), HTC_OK));
    cr_expect(eq(int, htc_dag_done(d, 0), HTC_EINVAL), "done");
    cr_expect(eq(int, htc_dag_add_edge(d, 2, 0), HTC_EINVAL), "done");
    cr_expect(eq(int, htc_dag_cancel(d, 0, NULL, NULL), HTC_EINVAL), "done");
    cr_expect(out[0] == 77 && none == NULL, "untouched on failure");
    htc_dag_destroy(d);
}

Test(dag, keeps_to_its_limits)
{
    htc_dag_options o = { .size = sizeof o, .tasks_max = 3, .edges_max = 2 };
    htc_dag        *d;
    uint32_t        n;
    cr_assert(eq(int, htc_dag_create(NULL, &o, &d), HTC_OK));
    cr_expect(eq(int, htc_dag_add_task(d, 3), HTC_EFULL));
    cr_expect(eq(int, htc_dag_add_edge(d, 0, 3), HTC_EFULL));
    add_edge(d, 0, 1);
    add_edge(d, 0, 1);
    cr_expect(eq(int, htc_dag_add_edge(d, 0, 2), HTC_EFULL));
    cr_expect(htc_dag_edges(d, &n) == HTC_OK && n == 1);
    add_edge(d, 0, 2);
    cr_expect(eq(int, htc_dag_add_edge(d, 1, 2), HTC_EFULL));
    htc_dag_destroy(d);
}

/* ---- memory ---- */

typedef struct scenario {
    uint32_t added, edges, done;
    int      refused;
} scenario;

/* 400 tasks, 17 000 edges of which 100 come while it runs: every array and the table of pieces grow. A call that gets
 * no memory is noted, changes nothing that can be seen, and is made again. */
static int got_memory(htc_dag *d, htc_status status, htc_dag_counts before, scenario *s)
{
    htc_dag_counts now = count_of(d);
    cr_assert(status == HTC_OK || status == HTC_ENOMEM);
    if (status == HTC_OK)
        return 1;
    s->refused = 1;
    cr_expect(memcmp(&now, &before, sizeof now) == 0, "as it was");
    return 0;
}

#define TWICE(call, counter)                                                                                           \
    do {                                                                                                               \
        htc_dag_counts was = count_of(d);                                                                              \
        if (got_memory(d, call, was, &s) || got_memory(d, call, was, &s))                                              \
            s.counter++;                                                                                               \
    } while (0)

static scenario run_scenario(const htc_env *env)
{
    enum { TASKS = 400, EDGES = 17000, LATE = 100 };
    scenario s = { .added = 0 };
    htc_dag *d = NULL;
    uint32_t t, n;
    htc_rng  rng = { 1 };
    if (htc_dag_create(env, NULL, &d) != HTC_OK) {
        s.refused = 1;
        return s;
    }
    for (uint32_t i = 0; i < TASKS; i++)
        TWICE(htc_dag_add_task(d, i), added);
    for (uint32_t i = 0; i < EDGES; i++) {
        uint32_t a = (uint32_t)htc_rng_below(&rng, TASKS / 2), b = a + 1 + (uint32_t)htc_rng_below(&rng, TASKS / 2);
        TWICE(htc_dag_add_edge(d, a, b), edges);
        if (i == EDGES / 2)
            (void)htc_dag_edges(d, &n);
    }
    htc_ns         length[TASKS] = { 0 }, total;
    htc_dag_model  m = HTC_DAG_MODEL_INIT;
    htc_dag_counts before = count_of(d);
    m.tasks = TASKS;
    m.exec_ns = length;
    got_memory(d, htc_dag_bound(d, &m, NULL, &total), before, &s);
    got_memory(d, htc_dag_critical_path(d, TASKS, length, 0, NULL, NULL, NULL, &total), before, &s);
    while (htc_dag_take(d, &t) == HTC_OK) {
        cr_assert(eq(int, htc_dag_done(d, t), HTC_OK), "needs no memory");
        s.done++;
        if (t < LATE)
            TWICE(htc_dag_add_edge(d, t, TASKS + t), edges);
    }
    cr_expect(eq(u32, s.done, s.added));
    htc_dag_destroy(d);
    return s;
}

static void check_scenario(alloc_fail *f, int once)
{
    htc_env  env = alloc_fail_env(f);
    scenario s = run_scenario(&env);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
    cr_expect(s.refused || s.added == 400);
    if (once && s.added > 0) { /* the second try has succeeded */
        cr_expect(eq(u32, s.added, 400));
        cr_expect(eq(u32, s.edges, 17100));
    }
}

Test(dag, stays_as_it_was_when_an_allocation_is_refused)
{
    ALLOC_FAIL_ONCE(f, 1000)
    check_scenario(&f, 1);
}

Test(dag, stays_as_it_was_when_memory_runs_out)
{
    ALLOC_FAIL_EVERY(f, 1000)
    check_scenario(&f, 0);
}

/* An edge that there is no memory for has named nobody, and a question that there is none for is answered later. */
Test(dag, what_is_refused_leaves_no_trace)
{
    alloc_fail      f = alloc_fail_at(0);
    htc_env         env = alloc_fail_env(&f);
    htc_dag        *d;
    const uint32_t *children = NULL;
    uint32_t        out[4] = { 77, 77, 77, 77 }, n = 77;
    htc_ns          length[64] = { 0 }, left[64] = { 77 }, total = 77;
    cr_assert(eq(int, htc_dag_create(&env, NULL, &d), HTC_OK));
    add_tasks(d, 0, 32);
    for (uint32_t i = 0; i < 1024; i++) /* a piece of the log, to its end */
        add_edge(d, i % 16, 16 + i % 7);
    f.fail_at = f.calls + 1;
    cr_expect(eq(int, htc_dag_add_edge(d, 40, 3), HTC_ENOMEM));
    cr_expect(eq(int, htc_dag_add_edge(d, 3, 41), HTC_ENOMEM));
    cr_expect(eq(int, htc_dag_add_task(d, 100), HTC_ENOMEM));
    cr_expect(htc_dag_size(d) == 32 && htc_dag_state_of(d, 40) == HTC_DAG_NONE && count_of(d).named == 0);
    cr_expect(eq(int, htc_dag_edges(d, &n), HTC_ENOMEM));
    cr_expect(eq(int, htc_dag_waits(d, 16, &n), HTC_ENOMEM));
    cr_expect(eq(int, htc_dag_children(d, 0, &children, &n), HTC_ENOMEM));
    cr_expect(n == 77 && children == NULL);
    f.once = 1;
    for (size_t nth = 1, refused = 0; nth < 10; nth++, refused = f.refused) {
        f.fail_at = f.calls + nth;
        htc_status status = htc_dag_check(d, 4, out, &n);
        cr_expect(eq(int, status, f.refused > refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", nth);
        cr_expect(n == (status == HTC_OK ? 0 : 77) && out[0] == 77);
        n = 77;
    }
    cr_expect(f.refused >= 7 && htc_dag_edges(d, &n) == HTC_OK && n == 16 * 7);
    n = 77;
    for (size_t nth = 1, refused = f.refused; nth < 10; nth++, refused = f.refused) {
        f.fail_at = f.calls + nth;
        htc_status status = htc_dag_critical_path(d, 64, length, 4, left, out, &n, &total);
        cr_expect(eq(int, status, f.refused > refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", nth);
        cr_expect(status == HTC_OK ? total == 0 && n == 2 && left[0] == 0
                                   : total == 77 && n == 77 && left[0] == 77 && out[0] == 77);
        total = n = out[0] = 77;
        left[0] = 77;
    }
    htc_dag_destroy(d);
    cr_expect(f.live == 0 && f.wrong_sizes == 0);
}

/* Once built, a graph runs to its end, or is cancelled, without another byte. */
Test(dag, runs_without_another_byte)
{
    for (int cancel = 0; cancel < 2; cancel++) {
        alloc_fail f = alloc_fail_at(0);
        htc_env    env = alloc_fail_env(&f);
        htc_dag   *d;
        uint32_t   n;
        cr_assert(eq(int, htc_dag_create(&env, NULL, &d), HTC_OK));
        add_tasks(d, 0, 100);
        for (uint32_t i = 0; i < 98; i++) {
            add_edge(d, i, i + 1);
            add_edge(d, i, i + 2);
        }
        f.fail_at = f.calls + 1;
        cr_expect(eq(int, htc_dag_edges(d, &n), HTC_ENOMEM));
        if (cancel)
            cr_expect(eq(int, htc_dag_cancel(d, 0, NULL, NULL), HTC_OK));
        else
            cr_expect(eq(u32, waves(d), 99));
        cr_expect(count_of(d).done + count_of(d).cancelled == 100);
        htc_dag_destroy(d);
        cr_expect(eq(sz, f.live, 0));
    }
}
