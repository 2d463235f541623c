/* htc-sim flow: one flow over workers in virtual time (htcsched/sim_flow.h), for some seeds, and how well it went. */
#include "flow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "policies.h"
#include "study/study.h"

#define FILE_MAX (256u << 20)

/* ---- the flow ---- */

static char *read_all(const char *name, size_t *len)
{
    FILE *f = strcmp(name, "-") == 0 ? stdin : fopen(name, "rb");
    char *bytes = NULL;
    *len = 0;
    if (!f)
        return NULL;
    for (size_t cap = 0, got = 1; got && *len < FILE_MAX;) {
        if (*len == cap) {
            char *more = realloc(bytes, cap = cap ? 2 * cap : 65536);
            if (!more)
                break;
            bytes = more;
        }
        *len += got = fread(bytes + *len, 1, cap - *len, f);
    }
    int why = ferror(f) ? errno : 0; /* a folder can be opened, and not read */
    if (f != stdin)
        fclose(f);
    if (why) {
        free(bytes);
        bytes = NULL;
        errno = why;
    }
    return bytes;
}

static htc_flow *the_flow(const flow_options *o)
{
    htc_flow  *flow = NULL;
    htc_error  e = { 0 };
    htc_status status;
    if (o->file) {
        size_t           len;
        char            *bytes = read_all(o->file, &len);
        htc_flow_reading how = { .size = sizeof how, .file = o->file, .directory = "/" }; /* objects are not loaded */
        if (!bytes) {
            fprintf(stderr, "htc-sim: %s cannot be read: %s\n", o->file, strerror(errno));
            fprintf(stderr, "htc-sim: next: give the name of a flow, as htc flow run takes it\n");
            return NULL;
        }
        status = htc_flow_read(NULL, (htc_bytes){ bytes, len }, HTC_FLOW_AUTO, &how, &flow, &e);
        free(bytes);
    } else {
        htc_flow_generator g = { .size = sizeof g, .shape = o->shape, .degree = o->degree, .tasks = o->tasks, .length_min = o->length_min,
                                 .length_max = o->length_max, .seed = o->seed };
        status = htc_flow_generate(NULL, &g, &flow);
    }
    if (status == HTC_OK)
        return flow;
    htc_error shown = e;
    if (o->file)
        snprintf(shown.where, sizeof shown.where, e.line ? "%.140s:%u" : "%.150s", o->file, (unsigned)e.line);
    if (!e.text[0])
        snprintf(shown.text, sizeof shown.text, "%s", htc_strerror(status));
    say_error(&shown);
    return NULL;
}

/* ---- its course ---- */

typedef struct course {
    FILE    *csv;
    uint32_t slots;
} course;

static void sample(void *ctx, const htc_sim_flow_sample *s)
{
    const course *c = ctx;
    fprintf(c->csv, "%.6f,%u,%.4f,%" PRIu64 "\n", (double)s->at / 1e9, s->busy, (double)s->busy / c->slots, s->ended);
}

/* With policies that know nothing of another run. */
static htc_status run_one(const flow_options *o, const htc_flow *flow, htc_sim_flow_options *run, htc_sim_flow_report *report)
{
    htc_steal_options steal = o->steal;
    htc_error         e;
    htc_registry     *policies = policies_open(&e);
    if (!policies)
        return e.status;
    htc_status status = o->policy ? htc_steal_find(policies, o->policy, &steal.policy) : HTC_OK;
    run->steal = &steal;
    if (status == HTC_OK)
        status = htc_sim_flow_run(NULL, flow, run, report);
    run->steal = NULL;
    htc_registry_destroy(policies);
    return status;
}

static int run_all(const flow_options *o, const htc_flow *flow, htc_sim_flow_report *report)
{
    course               c = { .slots = o->sim.workers * o->sim.slots };
    htc_sim_flow_options run = o->sim;
    for (uint32_t i = 0; i < o->runs; i++) {
        report[i].size = sizeof report[i];
        run.seed = o->seed + i;
        run.sample = NULL;
        if (i == 0 && o->timeline) {
            c.csv = fopen(o->timeline, "w");
            if (!c.csv) {
                fprintf(stderr, "htc-sim: %s cannot be written: %s\n", o->timeline, strerror(errno));
                return EXIT_BROKEN;
            }
            fputs("seconds,busy,utilisation,ended\n", c.csv);
            run.sample = sample;
            run.sample_ctx = &c;
        }
        htc_status status = run_one(o, flow, &run, &report[i]);
        int lost = c.csv && ferror(c.csv);
        if (c.csv && (fclose(c.csv) != 0 || lost)) {
            fprintf(stderr, "htc-sim: %s cannot be written: %s\n", o->timeline, lost ? "a part of it is lost" : strerror(errno));
            fprintf(stderr, "htc-sim: next: name a file in a folder with room for --timeline\n");
            return EXIT_BROKEN;
        }
        c.csv = NULL;
        if (status != HTC_OK || report[i].failed) {
            fprintf(stderr, "htc-sim: seed %" PRIu64 ": %s\n", run.seed, status != HTC_OK ? htc_strerror(status) : report[i].text);
            return status != HTC_OK ? EXIT_BROKEN : EXIT_FAILED;
        }
    }
    return EXIT_FINE;
}

/* ---- told ---- */

static int by_efficiency(const void *a, const void *b)
{
    const htc_sim_flow_report *x = a, *y = b;
    return (x->efficiency > y->efficiency) - (x->efficiency < y->efficiency);
}

static double mean_cv(const htc_sim_flow_report *r, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += r[i].cv;
    return sum / n;
}

static void say(const flow_options *o, const htc_sim_flow_report *all)
{
    const htc_sim_flow_report *r = &all[o->runs / 2], *worst = all, *best = &all[o->runs - 1];
    if (o->json) {
        printf("{\"workers\":%u,\"slots\":%u,\"tasks\":%" PRIu64 ",\"runs\":%u,\"seconds\":%.6f,\"work_s\":%.6f,\"longest_s\":%.6f,\"idle_s\":%.6f"
               ",\"efficiency\":%.5f,\"efficiency_min\":%.5f,\"efficiency_max\":%.5f,\"utilisation\":%.5f,\"tasks_per_s\":%.2f,\"cv\":%.5f"
               ",\"stolen\":%" PRIu64 ",\"commits\":%" PRIu64 ",\"events\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\"}\n",
               o->sim.workers, r->slots, r->tasks, o->runs, (double)r->span / 1e9, (double)r->work / 1e9, (double)r->longest / 1e9,
               (double)r->idle / 1e9, r->efficiency, worst->efficiency, best->efficiency, r->utilisation, r->throughput, mean_cv(all, o->runs),
               r->stolen, r->commits, r->events, r->hash);
        return;
    }
    printf("%" PRIu64 " task%s on %u worker%s with %u slot%s in all, %.3f s of work, the longest path %.3f s\n", r->tasks, plural(r->tasks), o->sim.workers, plural(o->sim.workers), r->slots, plural(r->slots),
           (double)r->work / 1e9, (double)r->longest / 1e9);
    if (o->runs > 1)
        printf("median of %u seeds by efficiency, which was %.4f to %.4f; cv is their mean\n", o->runs, worst->efficiency, best->efficiency);
    printf("took         %.3f s\n"
           "efficiency   %.4f of what %u slot%s can do at best\n"
           "utilisation  %.4f; idle %.3f s of all slots\n"
           "throughput   %.1f tasks a second\n"
           "cv           %.4f of the tasks of each worker\n"
           "stolen       %" PRIu64 " task%s\n"
           "store        %" PRIu64 " commit%s\n",
           (double)r->span / 1e9, r->efficiency, r->slots, plural(r->slots), r->utilisation, (double)r->idle / 1e9, r->throughput, mean_cv(all, o->runs), r->stolen,
           plural(r->stolen), r->commits, plural(r->commits));
}

int flow_command(int argc, char **argv)
{
    flow_options o;
    int          done, ends = flow_options_read(argc, argv, &o, &done);
    if (done)
        return ends;
    htc_flow            *flow = the_flow(&o);
    htc_sim_flow_report *report = calloc(o.runs, sizeof *report);
    ends = !flow ? EXIT_USAGE : !report ? EXIT_BROKEN : run_all(&o, flow, report);
    if (ends == EXIT_FINE) {
        qsort(report, o.runs, sizeof *report, by_efficiency);
        say(&o, report);
    }
    free(report);
    htc_flow_destroy(flow);
    return ends;
}
