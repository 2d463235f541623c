/* One runtime environment under a management policy: the scale model of provisioning (htcsched/sim_provision.h) over a log or made-up weeks. */
#ifndef HTC_TESTS_PROVISION_SIM_H
#define HTC_TESTS_PROVISION_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "htcsched/sim_provision.h"

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

/* Records of a log in the Standard Workload Format that arrive within the period, processors / per_node rounded up as
 * nodes. NULL if there is no such file. */
static inline htc_sim_provision_job *sim_read_swf(const char *name, uint64_t period_s, uint64_t per_node, size_t *n)
{
    char   line[512];
    size_t cap = 4096;
    FILE  *f = test_data(name);
    if (!f)
        return NULL;
    htc_sim_provision_job *jobs = malloc(cap * sizeof *jobs);
    *n = 0;
    while (jobs && fgets(line, sizeof line, f)) {
        double    field[11];
        long long arrives, runs, processors;
        if (line[0] == ';' ||
            sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", field, field + 1, field + 2, field + 3,
                   field + 4, field + 5, field + 6, field + 7, field + 8, field + 9, field + 10) != 11)
            continue;
        arrives = (long long)field[1];
        runs = (long long)field[3];
        processors = (long long)(field[4] > 0 ? field[4] : field[7]);
        if (arrives < 0 || (uint64_t)arrives >= period_s || runs < 0 || processors <= 0)
            continue;
        if (*n == cap) {
            htc_sim_provision_job *grown = realloc(jobs, (cap *= 2) * sizeof *jobs);
            if (!grown) {
                free(jobs);
                jobs = NULL;
                break;
            }
            jobs = grown;
        }
        jobs[(*n)++] = (htc_sim_provision_job){ .arrival = (uint64_t)arrives * HTC_SECOND, .length = (uint64_t)runs * HTC_SECOND,
                                                .nodes = (uint32_t)(((uint64_t)processors + per_node - 1) / per_node) };
    }
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
