/* What reading a log in the Standard Workload Format costs, and what running its jobs with EASY on the machine of the log adds to that: SDSC BLUE, 144 nodes of
 * eight processors. HTC_BENCH_SWF=FILE is the log; else the first two weeks, which are in examples/sim/data, again and again, which are less busy. */
#include "../../data.h"
#include "bench.h"
#include "htcsched/sim_provision.h"
#include "htcsched/swf.h"

#define JOBS     243306u /* of the whole log */
#define PERIOD_S 1209600.0
#define TRIES    5

typedef struct text {
    char  *at;
    size_t n, room, given;
} text;

static void append(text *t, const void *data, size_t n)
{
    if (t->n + n > t->room)
        bench_must((t->at = realloc(t->at, t->room = 2 * (t->room + n))) != NULL, "memory");
    memcpy(t->at + t->n, data, n);
    t->n += n;
}

static htc_status give(void *ctx, void *data, size_t room, size_t *n)
{
    text *t = ctx;
    *n = t->n - t->given < room ? t->n - t->given : room;
    memcpy(data, t->at + t->given, *n);
    t->given += *n;
    return HTC_OK;
}

static htc_swf *open_log(text *t)
{
    htc_swf_options o = { .size = sizeof o, .name = "log", .read = give, .ctx = t };
    htc_swf        *log = NULL;
    t->given = 0;
    bench_must(htc_swf_open(NULL, &o, &log) == HTC_OK, "a reader");
    return log;
}

/* Two weeks after two weeks. */
static void repeat(text *out, text *weeks)
{
    char     line[HTC_SWF_LINE_ROOM];
    uint64_t n = 0;
    for (uint64_t round = 0; n < JOBS; round++) {
        htc_swf    *log = open_log(weeks);
        htc_swf_job j;
        while (n < JOBS && htc_swf_next(log, &j, NULL) == HTC_OK) {
            j.number = (int64_t)++n;
            j.submit_s += (double)round * PERIOD_S;
            append(out, line, htc_swf_line(&j, line));
        }
        htc_swf_close(log);
    }
}

static int load(text *t)
{
    const char *name = getenv("HTC_BENCH_SWF");
    FILE       *f = name ? fopen(name, "rb") : test_data("SDSC-BLUE-2000-4.2-cln.first14days.swf");
    text        weeks = { 0 }, *in = name ? t : &weeks;
    char        piece[65536];
    size_t      n;
    if (!f)
        return 0;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        append(in, piece, n);
    fclose(f);
    if (!name)
        repeat(t, &weeks);
    free(weeks.at);
    return 1;
}

/* The first n jobs of the log alone. */
static double read_seconds(text *t, uint64_t n)
{
    double least = 1e9;
    for (int i = 0; i < TRIES; i++) {
        htc_swf_job j;
        uint64_t    k = 0;
        double      begun = bench_cpu_seconds();
        htc_swf    *log = open_log(t);
        while (k < n && htc_swf_next(log, &j, NULL) == HTC_OK)
            k++;
        htc_swf_close(log);
        double s = bench_cpu_seconds() - begun;
        least = s < least ? s : least;
    }
    return least;
}

typedef struct source {
    htc_swf *log;
    uint64_t left;
} source;

static htc_status next_job(void *ctx, htc_sim_provision_job *job)
{
    source     *s = ctx;
    htc_swf_job j;
    do {
        if (s->left-- == 0)
            return HTC_AGAIN;
        htc_status status = htc_swf_next(s->log, &j, NULL);
        if (status != HTC_OK)
            return status;
    } while (j.run_s < 0 || htc_swf_nodes(&j, 8) == 0);
    *job = (htc_sim_provision_job){ .arrival = (htc_ns)(j.submit_s * 1e9), .length = (htc_ns)(j.run_s * 1e9), .nodes = (uint32_t)htc_swf_nodes(&j, 8),
                                    .estimate = j.run_asked_s > 0 ? (htc_ns)(j.run_asked_s * 1e9) : 0 };
    return HTC_OK;
}

static double run_seconds(text *t, uint64_t n, const htc_fit_policy *easy, uint64_t *memory)
{
    double least = 1e9;
    for (int i = 0; i < TRIES; i++) {
        source                        s = { .left = n };
        htc_sim_provision_environment e = { .size = sizeof e, .nodes = 144, .fit = easy, .next_job = next_job, .ctx = &s };
        htc_sim_provision_options     o = { .size = sizeof o, .system = HTC_SIM_PROVISION_DCS, .environments = &e, .n_environments = 1, .active_max = 65536, .tick_ns = HTC_SECOND };
        htc_sim_provision_report      r = { .size = sizeof r };
        double                        begun = bench_cpu_seconds();
        s.log = open_log(t);
        bench_must(htc_sim_provision_run(NULL, &o, &r, NULL, NULL) == HTC_OK && !r.scale.wrong[0] && r.completed == r.submitted, "a run");
        htc_swf_close(s.log);
        double took = bench_cpu_seconds() - begun;
        least = took < least ? took : least;
        *memory = r.memory;
    }
    return least;
}

int main(int argc, char **argv)
{
    bench                 b = bench_open("sim_swf", argc, argv);
    text                  t = { 0 };
    double                size[5], cost[5];
    size_t                k = 0;
    htc_registry         *registry = NULL;
    const htc_fit_policy *easy = NULL;
    if (!load(&t)) {
        fprintf(stderr, "there is no log: neither HTC_BENCH_SWF nor examples/sim/data\n");
        return bench_close(&b);
    }
    bench_must(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK && htc_fit_find(registry, "easy", &easy) == HTC_OK, "EASY");
    for (uint64_t n = JOBS / 16; k < 5; n = k == 4 ? JOBS : n * 2) {
        uint64_t memory = 0;
        double   reading = read_seconds(&t, n), all = run_seconds(&t, n, easy, &memory);
        bench_row(&b, &(bench_figure){ .what = "reading, a job", .n = n, .unit = "ns", .value = 1e9 * reading / (double)n });
        bench_row(&b, &(bench_figure){ .what = "reading and EASY, a job", .n = n, .unit = "ns", .value = 1e9 * all / (double)n });
        bench_row(&b, &(bench_figure){ .what = "reading and EASY, of reading", .n = n, .unit = "times", .value = all / reading, .goal = 2 });
        bench_row(&b, &(bench_figure){ .what = "memory", .n = n, .unit = "KiB", .value = (double)memory / 1024 });
        size[k] = (double)n;
        cost[k++] = 1e9 * all / (double)n;
    }
    bench_growth(&b, "reading and EASY, a job", size, cost, k);
    htc_registry_destroy(registry);
    free(t.at);
    return bench_close(&b);
}
