/* One runtime environment under a management policy, in virtual time: jobs arrive, first fit starts them, the book asks
 * and returns. What it cost and how long jobs waited is all that comes out. */
#ifndef HTC_TESTS_PROVISION_SIM_H
#define HTC_TESTS_PROVISION_SIM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "htcsched/provision.h"

typedef struct sim_job {
    uint64_t arrives_s, runs_s, nodes;
    uint64_t starts_s;
} sim_job;

typedef struct sim_run {
    uint64_t nodes, ends_s;
} sim_run;

typedef struct sim_result {
    uint64_t node_hours, granted, peak, rejected;
    uint64_t completed; /* inside the period */
    double   wait_s;    /* mean over all that arrived; of those that did not start, up to the end */
} sim_result;

typedef struct sim {
    sim_job       *jobs; /* by arrival */
    size_t         n, arrived;
    size_t        *waiting; /* by arrival */
    size_t         waiting_n;
    sim_run       *running;
    size_t         running_n;
    uint64_t       busy, owned, pool; /* pool: all the provider has */
    htc_provision *book;
} sim;

static inline void sim_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static inline htc_provision_demand sim_demand(const sim *s)
{
    htc_provision_demand d = { .waiting_jobs = s->waiting_n, .running_nodes = s->busy };
    for (size_t i = 0; i < s->waiting_n; i++) {
        const sim_job *j = &s->jobs[s->waiting[i]];
        d.waiting_nodes += j->nodes;
        d.waiting_largest = j->nodes > d.waiting_largest ? j->nodes : d.waiting_largest;
    }
    return d;
}

static inline void sim_first_fit(sim *s, uint64_t now_s)
{
    size_t left = 0;
    for (size_t i = 0; i < s->waiting_n; i++) {
        sim_job *j = &s->jobs[s->waiting[i]];
        if (j->nodes > s->owned - s->busy) {
            s->waiting[left++] = s->waiting[i];
            continue;
        }
        j->starts_s = now_s;
        s->busy += j->nodes;
        s->running[s->running_n++] = (sim_run){ j->nodes, now_s + j->runs_s };
    }
    s->waiting_n = left;
}

static inline uint64_t sim_next_end(const sim *s)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < s->running_n; i++)
        next = s->running[i].ends_s < next ? s->running[i].ends_s : next;
    return next;
}

static inline uint64_t sim_complete(sim *s, uint64_t now_s)
{
    uint64_t completed = 0;
    for (size_t i = 0; i < s->running_n;)
        if (s->running[i].ends_s <= now_s) {
            s->busy -= s->running[i].nodes;
            s->running[i] = s->running[--s->running_n];
            completed++;
        } else
            i++;
    return completed;
}

static inline void sim_scan(sim *s, uint64_t now_s)
{
    htc_provision_demand d = sim_demand(s);
    htc_provision_order  order;
    if (htc_provision_scan(s->book, now_s * HTC_SECOND, &d, &order) != HTC_OK)
        return;
    uint64_t granted = order.nodes <= s->pool - s->owned ? order.nodes : 0;
    sim_must(htc_provision_granted(s->book, now_s * HTC_SECOND, granted) >= HTC_OK, "a grant");
    s->owned += granted;
}

static inline void sim_check(sim *s, uint64_t now_s)
{
    htc_provision_demand d = sim_demand(s);
    htc_provision_order  order;
    if (htc_provision_check(s->book, now_s * HTC_SECOND, &d, &order) == HTC_OK)
        s->owned -= order.nodes;
}

static inline void sim_step(sim *s, uint64_t now_s, sim_result *r)
{
    r->completed += sim_complete(s, now_s);
    while (s->arrived < s->n && s->jobs[s->arrived].arrives_s <= now_s)
        s->waiting[s->waiting_n++] = s->arrived++;
    sim_first_fit(s, now_s);
    sim_scan(s, now_s);
    sim_first_fit(s, now_s);
    sim_check(s, now_s);
}

/* Jobs by arrival; scans at phase_s + k scan_s; the period ends after period_s, and every lease with it. */
static inline sim_result simulate(sim_job *jobs, size_t n, const htc_provision_options *options, uint64_t period_s,
                                  uint64_t pool)
{
    sim                 s = { .jobs = jobs,
                              .n = n,
                              .waiting = calloc(n, sizeof *s.waiting),
                              .running = calloc(n, sizeof *s.running),
                              .pool = pool };
    sim_result          r = { 0 };
    htc_provision_usage u;
    uint64_t            now_s = 0, next;
    sim_must(s.waiting && s.running && htc_provision_create(NULL, options, 0, &s.book) == HTC_OK, "a book");
    sim_must(htc_provision_usage_at(s.book, 0, &u) == HTC_OK, "its usage");
    s.owned = u.owned;
    for (size_t i = 0; i < n; i++)
        jobs[i].starts_s = UINT64_MAX;
    while (now_s < period_s) {
        sim_step(&s, now_s, &r);
        next = htc_provision_deadline(s.book) / HTC_SECOND;
        uint64_t end = sim_next_end(&s), arrival = s.arrived < n ? jobs[s.arrived].arrives_s : UINT64_MAX;
        next = next < end ? next : end;
        next = next < arrival ? next : arrival;
        now_s = next < period_s ? next : period_s;
    }
    r.completed += sim_complete(&s, period_s);
    sim_must(htc_provision_end(s.book, period_s * HTC_SECOND, NULL) == HTC_OK &&
                 htc_provision_usage_at(s.book, period_s * HTC_SECOND, &u) == HTC_OK,
             "closing");
    r.node_hours = u.node_units;
    r.granted = u.granted;
    r.peak = u.peak;
    r.rejected = u.rejected;
    for (size_t i = 0; i < s.arrived; i++)
        r.wait_s += (double)((jobs[i].starts_s == UINT64_MAX ? period_s : jobs[i].starts_s) - jobs[i].arrives_s) /
                    (double)s.arrived;
    htc_provision_destroy(s.book);
    free(s.waiting);
    free(s.running);
    return r;
}

/* Records of a log in the Standard Workload Format that arrive within the period, processors / per_node rounded up as
 * nodes. NULL if there is no such file. */
static inline sim_job *sim_read_swf(const char *name, uint64_t period_s, uint64_t per_node, size_t *n)
{
    char   line[512];
    size_t cap = 4096;
    FILE  *f = test_data(name);
    if (!f)
        return NULL;
    sim_job *jobs = malloc(cap * sizeof *jobs);
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
            sim_job *grown = realloc(jobs, (cap *= 2) * sizeof *jobs);
            if (!grown) {
                free(jobs);
                jobs = NULL;
                break;
            }
            jobs = grown;
        }
        jobs[(*n)++] =
            (sim_job){ (uint64_t)arrives, (uint64_t)runs, ((uint64_t)processors + per_node - 1) / per_node, 0 };
    }
    fclose(f);
    return jobs;
}

/* A made-up centre: more jobs by day than by night and few at weekends; sizes are powers of two up to 64, lengths
 * spread from seconds to hours, most of them short. */
static inline size_t sim_generate(htc_rng *rng, sim_job *jobs, size_t n_max, uint64_t period_s)
{
    size_t n = 0;
    for (uint64_t t = 0; t < period_s && n < n_max;) {
        uint64_t hour = t / 3600 % 24, day = t / 86400 % 7;
        uint64_t gap = hour >= 8 && hour < 19 && day < 5 ? 240 : 1500;
        t += htc_rng_below(rng, 2 * gap) + 1;
        uint64_t runs = htc_rng_below(rng, UINT64_C(8) << htc_rng_below(rng, 12));
        jobs[n++] = (sim_job){ t, runs, UINT64_C(1) << htc_rng_below(rng, 7), 0 };
    }
    while (n && jobs[n - 1].arrives_s >= period_s)
        n--;
    return n;
}

#endif
