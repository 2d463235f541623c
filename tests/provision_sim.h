/* One runtime environment under a management policy: the scale model of provisioning (htcsched/sim_provision.h) over a log or made-up weeks. */
#ifndef HTC_TESTS_PROVISION_SIM_H
#define HTC_TESTS_PROVISION_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "htcsched/sim_provision.h"
#include "htcsched/swf.h"

typedef struct sim_result {
    uint64_t node_hours, granted, peak, rejected;
    uint64_t completed; /* inside the period */
    double   wait_s;    /* mean over all that arrived; of those that did not start, up to the end */
} sim_result;

static inline void sim_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

/* Jobs by arrival; scans at phase_s + k scan_s; the period ends after period_s, and every lease with it. */
static inline sim_result simulate(const htc_sim_provision_job *jobs, size_t n, const htc_provision_options *options, uint64_t period_s, uint64_t pool)
{
    htc_sim_provision_environment e = { .size = sizeof e, .book = options, .period_ns = period_s * HTC_SECOND, .jobs = jobs, .n_jobs = n };
    htc_sim_provision_options     o = { .size = sizeof o, .environments = &e, .n_environments = 1, .capacity = pool, .tick_ns = HTC_SECOND };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_sim_provision_result      one;
    htc_error                     error = { 0 };
    sim_must(htc_sim_provision_run(NULL, &o, &r, &one, &error) == HTC_OK, error.text);
    sim_must(r.scale.wrong[0] == 0, r.scale.wrong);
    return (sim_result){ one.node_units, one.granted, one.peak, one.rejected, one.completed, one.wait_s };
}

static inline htc_status sim_read_file(void *ctx, void *data, size_t room, size_t *n)
{
    *n = fread(data, 1, room, ctx);
    return ferror((FILE *)ctx) ? HTC_EIO : HTC_OK;
}

/* Records of a log in the Standard Workload Format that arrive within the period, processors / per_node rounded up as
 * nodes. NULL if there is no such file. */
static inline htc_sim_provision_job *sim_read_swf(const char *name, uint64_t period_s, uint64_t per_node, size_t *n)
{
    size_t          cap = 4096;
    FILE           *f = test_data(name);
    htc_swf_options o = { .size = sizeof o, .name = name, .read = sim_read_file, .ctx = f };
    htc_swf        *log = NULL;
    htc_swf_job     j;
    htc_error       e = { 0 };
    htc_status      status;
    if (!f)
        return NULL;
    htc_sim_provision_job *jobs = malloc(cap * sizeof *jobs);
    *n = 0;
    sim_must(jobs && htc_swf_open(NULL, &o, &log) == HTC_OK, "memory");
    while ((status = htc_swf_next(log, &j, &e)) == HTC_OK) {
        uint64_t nodes = htc_swf_nodes(&j, per_node);
        if (j.submit_s >= (double)period_s || j.run_s < 0 || nodes == 0)
            continue;
        if (*n == cap)
            sim_must((jobs = realloc(jobs, (cap *= 2) * sizeof *jobs)) != NULL, "memory");
        jobs[(*n)++] = (htc_sim_provision_job){ .arrival = (htc_ns)(j.submit_s * 1e9), .length = (htc_ns)(j.run_s * 1e9), .nodes = (uint32_t)nodes };
    }
    sim_must(status == HTC_AGAIN, e.text);
    htc_swf_close(log);
    fclose(f);
    return jobs;
}

/* A made-up centre: more jobs by day than by night and few at weekends; sizes are powers of two up to 64, lengths
 * spread from seconds to hours, most of them short. */
static inline size_t sim_generate(htc_rng *rng, htc_sim_provision_job *jobs, size_t n_max, uint64_t period_s)
{
    size_t n = 0;
    for (uint64_t t = 0; t < period_s && n < n_max;) {
        uint64_t hour = t / 3600 % 24, day = t / 86400 % 7;
        uint64_t gap = hour >= 8 && hour < 19 && day < 5 ? 240 : 1500;
        t += htc_rng_below(rng, 2 * gap) + 1;
        uint64_t runs = htc_rng_below(rng, UINT64_C(8) << htc_rng_below(rng, 12));
        jobs[n++] = (htc_sim_provision_job){ .arrival = t * HTC_SECOND, .length = runs * HTC_SECOND, .nodes = UINT32_C(1) << htc_rng_below(rng, 7) };
    }
    while (n && jobs[n - 1].arrival >= period_s * HTC_SECOND)
        n--;
    return n;
}

#endif
