/* What a graph of a million tasks and five million edges costs: to build, to run in dependency order, and to keep.
 * Edges come in the worst order there is, parents and children anywhere; beside it the floor: the same counts kept by
 * hand over arrays that are sorted already. */
#include "htcsched/dag.h"
#include "bench.h"

#define SIZES 6
#define EDGES 5 /* a task */

typedef struct edge {
    uint32_t parent, child;
} edge;

/* Counts what is held. */
typedef struct memory {
    size_t now, most;
} memory;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    memory *m = ctx;
    if (new_size == 0) {
        m->now -= old_size;
        free(p);
        return NULL;
    }
    m->now += new_size - old_size;
    m->most = m->now > m->most ? m->now : m->most;
    return realloc(p, new_size);
}

/* Edges of a random graph without cycles, in random order: numbers say nothing about who comes first. */
static edge *make_edges(uint32_t tasks, uint32_t edges, const char *shape)
{
    htc_rng   rng = { tasks };
    edge     *e = malloc(edges * sizeof *e);
    uint32_t *number = malloc(tasks * sizeof *number);
    bench_must(e && number, "malloc");
    for (uint32_t i = 0; i < tasks; i++)
        number[i] = i;
    if (strcmp(shape, "random") == 0)
        for (uint32_t i = tasks; i > 1; i--) {
            uint32_t j = (uint32_t)htc_rng_below(&rng, i), swap = number[j];
            number[j] = number[i - 1];
            number[i - 1] = swap;
        }
    for (uint32_t i = 0; i < edges; i++) {
        uint32_t a = (uint32_t)htc_rng_below(&rng, tasks), b = (uint32_t)htc_rng_below(&rng, tasks - 1);
        if (strcmp(shape, "grouped") == 0) { /* parent by parent, children near by, as a file lists them */
            a = i / EDGES;
            b = a + 1 + (uint32_t)htc_rng_below(&rng, 1000);
            a = a < tasks - 1 ? a : tasks - 2;
            b = b < tasks ? b : tasks - 1;
        }
        b += b >= a && strcmp(shape, "random") == 0;
        e[i] = a < b ? (edge){ number[a], number[b] } : (edge){ number[b], number[a] };
    }
    free(number);
    return e;
}

static htc_dag *build(const htc_env *env, uint32_t tasks, const edge *e, uint32_t edges)
{
    htc_dag *d;
    bench_must(htc_dag_create(env, NULL, &d) == HTC_OK, "create");
    for (uint32_t t = 0; t < tasks; t++)
        bench_must(htc_dag_add_task(d, t) == HTC_OK, "task");
    for (uint32_t i = 0; i < edges; i++)
        bench_must(htc_dag_add_edge(d, e[i].parent, e[i].child) == HTC_OK, "edge");
    return d;
}

static void run(htc_dag *d, uint32_t tasks)
{
    uint32_t t, n = 0;
    while (htc_dag_take(d, &t) == HTC_OK) {
        bench_must(htc_dag_done(d, t) == HTC_OK, "done");
        n++;
    }
    bench_must(n == tasks, "running all tasks");
}

/* The floor: children sorted by parent beforehand, one array of counts, one queue. */
static double floor_seconds(uint32_t tasks, const edge *e, uint32_t edges)
{
    uint32_t *begin = calloc(tasks + 2, sizeof *begin), *child = malloc(edges * sizeof *child);
    uint32_t *waits = calloc(tasks, sizeof *waits), *queue = malloc(tasks * sizeof *queue), n = 0;
    bench_must(begin && child && waits && queue, "malloc");
    for (uint32_t i = 0; i < edges; i++) {
        begin[e[i].parent + 2]++;
        waits[e[i].child]++;
    }
    for (uint32_t t = 0; t < tasks; t++)
        begin[t + 2] += begin[t + 1];
    for (uint32_t i = 0; i < edges; i++)
        child[begin[e[i].parent + 1]++] = e[i].child;
    double t0 = bench_cpu_seconds();
    for (uint32_t t = 0; t < tasks; t++)
        if (waits[t] == 0)
            queue[n++] = t;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = begin[queue[i]]; c < begin[queue[i] + 1]; c++)
            if (--waits[child[c]] == 0)
                queue[n++] = child[c];
    t0 = bench_cpu_seconds() - t0;
    bench_must(n == tasks, "the floor");
    free(begin);
    free(child);
    free(waits);
    free(queue);
    return t0;
}

static void row(const bench *b, const char *what, uint64_t n, const char *unit, double value, double goal)
{
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = unit, .value = value, .goal = goal });
}

/* Seconds of each part, bytes an edge. */
typedef struct cost {
    double build, run, most, kept, floor, path, bound, check;
} cost;

static cost measure(uint32_t tasks, const char *shape)
{
    uint32_t  edges = EDGES * tasks;
    edge     *e = make_edges(tasks, edges, shape);
    memory    m = { 0, 0 };
    htc_alloc alloc = { resize, &m };
    htc_env   env = { .size = sizeof env, .alloc = &alloc };
    htc_ns   *length = malloc(tasks * sizeof *length), total;
    cost      c = { 0 };
    uint32_t  n;
    bench_must(length != NULL, "malloc");
    for (uint32_t t = 0; t < tasks; t++)
        length[t] = HTC_MS + t % 1000;
    double   t0 = bench_cpu_seconds();
    htc_dag *d = build(&env, tasks, e, edges);
    double   t1 = bench_cpu_seconds();
    run(d, tasks);
    double t2 = bench_cpu_seconds();
    c.build = t1 - t0;
    c.run = t2 - t1;
    bench_must(htc_dag_edges(d, &n) == HTC_OK, "edges");
    c.most = (double)m.most / n;
    c.kept = (double)m.now / n;
    t0 = bench_cpu_seconds();
    bench_must(htc_dag_check(d, 0, NULL, NULL) == HTC_OK, "check");
    t1 = bench_cpu_seconds();
    bench_must(htc_dag_critical_path(d, tasks, length, 0, NULL, NULL, NULL, &total) == HTC_OK, "critical path");
    t2 = bench_cpu_seconds();
    htc_dag_model model = HTC_DAG_MODEL_INIT;
    model.tasks = tasks;
    model.exec_ns = length;
    bench_must(htc_dag_bound(d, &model, NULL, &total) == HTC_OK, "bound");
    c.check = t1 - t0;
    c.path = t2 - t1;
    c.bound = bench_cpu_seconds() - t2;
    htc_dag_destroy(d);
    bench_must(m.now == 0, "giving all memory back");
    c.floor = floor_seconds(tasks, e, edges);
    free(length);
    free(e);
    return c;
}

static void shape(const bench *b, const char *which, double goal)
{
    double sizes[SIZES], builds[SIZES], runs[SIZES];
    char   what[6][64];
    snprintf(what[0], sizeof what[0], "build, %s", which);
    snprintf(what[1], sizeof what[1], "topological run, %s", which);
    snprintf(what[2], sizeof what[2], "build and run, %s", which);
    snprintf(what[3], sizeof what[3], "floor of the run, %s", which);
    snprintf(what[4], sizeof what[4], "memory at most, %s", which);
    snprintf(what[5], sizeof what[5], "memory kept, %s", which);
    for (uint32_t i = 0, tasks = 1000; i < SIZES; i++, tasks *= 4) {
        int last = i == SIZES - 1; /* 1,024,000 */
        if (last)
            tasks = 1000000;
        cost best = measure(tasks, which);
        for (int again = b->quick ? 2 : 4; again > 0; again--) {
            cost c = measure(tasks, which);
            best.build = c.build < best.build ? c.build : best.build;
            best.run = c.run < best.run ? c.run : best.run;
            best.floor = c.floor < best.floor ? c.floor : best.floor;
        }
        sizes[i] = tasks;
        builds[i] = best.build;
        runs[i] = best.run;
        row(b, what[0], tasks, "s", best.build, 0);
        row(b, what[1], tasks, "s", best.run, 0);
        row(b, what[2], tasks, "s", best.build + best.run, last ? goal : 0);
        row(b, what[3], tasks, "s", best.floor, 0);
        row(b, what[4], tasks, "B/edge", best.most, last ? 40 : 0);
        row(b, what[5], tasks, "B/edge", best.kept, 0);
        if (last) {
            row(b, "check for cycles", tasks, "s", best.check, 0);
            row(b, "critical path", tasks, "s", best.path, 0);
            row(b, "earliest finishing times", tasks, "s", best.bound, 0);
        }
    }
    bench_growth(b, what[0], sizes, builds, SIZES);
    bench_growth(b, what[1], sizes, runs, SIZES);
}

int main(int argc, char **argv)
{
    bench b = bench_open("dag", argc, argv);
    shape(&b, "random", 1);
    shape(&b, "grouped", 1);
    return bench_close(&b);
}
