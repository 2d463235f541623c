/* The slow, obvious fit: jobs in an array, time in whole seconds, free nodes counted for each second anew. What it
 * knows of the rules is what htcsched/fit.h says; it has none of the library's shortcuts. For tests and the fuzzer. */
#ifndef HTC_TESTS_FIT_MODEL_H
#define HTC_TESTS_FIT_MODEL_H

#include <string.h>

#include "htcsched/fit.h"

#define MODEL_JOBS 32
/* Beyond all that is planned: a job that does not say how long it runs ends here. */
#define MODEL_NEVER 2048

typedef struct model_job {
    uint64_t id;
    int      nodes, priority, estimate; /* seconds; MODEL_NEVER: it does not say */
    int      arrival;
    int      running, started, planned; /* planned: when the plan counts on its end */
    int      reserved;                  /* MODEL_NEVER: none */
} model_job;

typedef struct model {
    int       promise, nodes, arrivals;
    int       broken, loose;
    int       shortest; /* 1: who is shortest waits in front, 0: who has priority */
    size_t    n;
    model_job job[MODEL_JOBS]; /* in no order */
} model;

static inline htc_ns model_ns(int s)
{
    return s >= MODEL_NEVER ? HTC_NEVER : (htc_ns)s * HTC_SECOND;
}

static inline int model_later(int now, int estimate)
{
    return estimate >= MODEL_NEVER - now ? MODEL_NEVER : now + estimate;
}

static inline model model_of(uint32_t promise, int nodes)
{
    return (model){ .promise = (int)promise, .nodes = nodes };
}

static inline model_job *model_find(model *m, uint64_t id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->job[i].id == id)
            return &m->job[i];
    return NULL;
}

static inline int model_busy(const model *m)
{
    int busy = 0;
    for (size_t i = 0; i < m->n; i++)
        busy += m->job[i].running ? m->job[i].nodes : 0;
    return busy;
}

static inline int model_free(const model *m)
{
    return m->nodes > model_busy(m) ? m->nodes - model_busy(m) : 0;
}

static inline int model_before(const model *m, const model_job *a, const model_job *b)
{
    if (m->shortest)
        return a->estimate != b->estimate ? a->estimate < b->estimate : a->arrival < b->arrival;
    return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

/* The waiting jobs in the order of the queue. */
static inline size_t model_queue(model *m, model_job **out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        size_t at = n;
        if (m->job[i].running)
            continue;
        for (n++; at > 0 && model_before(m, &m->job[i], out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = &m->job[i];
    }
    return n;
}

/* A running job past its estimate counts as ending in a second. */
static inline int model_end(const model_job *j, int now)
{
    int end = model_later(j->started, j->estimate);
    return end < now ? now + 1 : end;
}

/* ---- the plan of HTC_FIT_PROMISE_ALL ---- */

/* Free nodes in each second from now on, by what runs and what is reserved. */
static inline void model_profile(const model *m, int now, int *free_nodes)
{
    for (int t = now; t < MODEL_NEVER; t++)
        free_nodes[t] = m->nodes;
    for (size_t i = 0; i < m->n; i++) {
        const model_job *j = &m->job[i];
        int from = j->running ? now : j->reserved, to = j->running ? j->planned : model_later(j->reserved, j->estimate);
        for (int t = from; t < to; t++)
            free_nodes[t] -= j->nodes;
    }
}

static inline void model_reserve(int *free_nodes, int now, model_job *j)
{
    for (int begin = now, t = now; begin < MODEL_NEVER; begin = ++t) {
        int end = model_later(begin, j->estimate);
        while (t < end && free_nodes[t] >= j->nodes)
            t++;
        if (t < end)
            continue; /* not enough at t: try from behind it */
        for (t = begin; t < end; t++)
            free_nodes[t] -= j->nodes;
        j->reserved = begin;
        return;
    }
    j->reserved = MODEL_NEVER;
}

static inline int model_slipped(const model *m, int now)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->job[i].running ? m->job[i].planned < now : m->job[i].reserved < now)
            return 1;
    return 0;
}

static inline int model_holds(const model *m, int now)
{
    return !m->broken && !m->loose && !model_slipped(m, now);
}

/* In the order of former starts where nodes were set free, else in the order of the queue. */
static inline void model_plan(model *m, int now)
{
    model_job *queue[MODEL_JOBS];
    int        free_nodes[MODEL_NEVER];
    if (model_holds(m, now))
        return;
    size_t n = model_queue(m, queue);
    if (!m->broken && !model_slipped(m, now))
        for (size_t i = 1; i < n; i++)
            for (size_t k = i; k > 0 && queue[k]->reserved < queue[k - 1]->reserved; k--) {
                model_job *swap = queue[k];
                queue[k] = queue[k - 1];
                queue[k - 1] = swap;
            }
    m->broken = m->loose = 0;
    for (size_t i = 0; i < m->n; i++) {
        m->job[i].reserved = MODEL_NEVER;
        if (m->job[i].running)
            m->job[i].planned = model_end(&m->job[i], now);
    }
    model_profile(m, now, free_nodes);
    for (size_t i = 0; i < n; i++)
        model_reserve(free_nodes, now, queue[i]);
}

static inline void model_moved(model *m, int planned, int to)
{
    m->broken |= to > planned;
    m->loose |= to < planned;
}

/* ---- what happens ---- */

static inline void model_wait(model *m, int now, model_job *j)
{
    int free_nodes[MODEL_NEVER];
    int holds = m->promise == HTC_FIT_PROMISE_ALL;
    j->running = 0;
    j->reserved = MODEL_NEVER;
    if (!holds || !model_holds(m, now))
        return;
    model_profile(m, now, free_nodes);
    model_reserve(free_nodes, now, j);
}

static inline void model_submit(model *m, int now, uint64_t id, int nodes, int estimate, int priority)
{
    model_job *j = &m->job[m->n];
    *j = (model_job){ .id = id,
                      .nodes = nodes,
                      .estimate = estimate,
                      .priority = priority,
                      .arrival = m->arrivals++,
                      .reserved = MODEL_NEVER };
    m->n++;
    model_wait(m, now, j);
}

static inline void model_run(model *m, int now, model_job *j)
{
    m->broken |= j->reserved != now;
    j->running = 1;
    j->started = now;
    j->planned = model_later(now, j->estimate);
    j->reserved = MODEL_NEVER;
}

static inline void model_gone(model *m, int now, model_job *j)
{
    if (j->running)
        model_moved(m, j->planned, now);
    else
        m->loose |= j->reserved < MODEL_NEVER;
}

static inline void model_over(model *m, int now, model_job *j)
{
    model_gone(m, now, j);
    *j = m->job[--m->n];
}

static inline void model_requeue(model *m, int now, model_job *j)
{
    model_gone(m, now, j);
    j->running = 0;
    j->reserved = MODEL_NEVER;
    model_wait(m, now, j);
}

static inline void model_change(model *m, int now, model_job *j, int nodes, int estimate, int priority)
{
    int more = nodes > j->nodes || estimate > j->estimate, other = nodes != j->nodes || estimate != j->estimate;
    j->nodes = nodes;
    j->estimate = estimate;
    j->priority = priority;
    if (j->running) {
        int end = model_later(j->started, estimate);
        model_moved(m, j->planned, end);
        m->broken |= end < now;
        j->planned = end;
    } else if (other) {
        m->loose = 1;
        j->reserved = more ? MODEL_NEVER : j->reserved;
    }
}

/* ---- who starts ---- */

/* What is free at a moment if nothing else starts; MODEL_NEVER: when all has ended that ever will. */
static inline int model_free_at(const model *m, int now, int t)
{
    int free_nodes = m->nodes;
    for (size_t i = 0; i < m->n; i++)
        if (m->job[i].running && t < MODEL_NEVER && model_end(&m->job[i], now) > t)
            free_nodes -= m->job[i].nodes;
    return free_nodes;
}

/* The first moment that leaves so many free: now, or when some job ends. */
static inline int model_shadow(const model *m, int now, int nodes, int *spare)
{
    int shadow = MODEL_NEVER;
    /* What ends at this very moment and has not said so does not count if there is enough without it. */
    if (m->nodes - model_busy(m) >= nodes) {
        *spare = m->nodes - model_busy(m) - nodes;
        return now;
    }
    for (size_t i = 0; i < m->n; i++) {
        int end = m->job[i].running ? model_end(&m->job[i], now) : MODEL_NEVER;
        if (end < shadow && model_free_at(m, now, end) >= nodes)
            shadow = end;
    }
    *spare = model_free_at(m, now, shadow) - nodes;
    return shadow;
}

static inline model_job *model_easy(model *m, int now, model_job **queue, size_t n)
{
    size_t head = 0;
    int    spare;
    while (head < n && queue[head]->nodes > m->nodes)
        head++;
    if (head == n || queue[head]->nodes <= model_free(m))
        return head == n ? NULL : queue[head];
    int shadow = model_shadow(m, now, queue[head]->nodes, &spare);
    for (size_t i = head + 1; i < n; i++) {
        int end = model_later(now, queue[i]->estimate);
        int in_time = end < MODEL_NEVER && end <= shadow;
        if (queue[i]->nodes <= model_free(m) && (in_time || queue[i]->nodes <= spare))
            return queue[i];
    }
    return NULL;
}

/* The job that starts now, NULL: none. */
static inline model_job *model_next(model *m, int now)
{
    model_job *queue[MODEL_JOBS];
    if (m->promise == HTC_FIT_PROMISE_ALL)
        model_plan(m, now);
    size_t n = model_queue(m, queue);
    if (m->promise == HTC_FIT_PROMISE_HEAD)
        return model_easy(m, now, queue, n);
    if (m->promise == HTC_FIT_PROMISE_ORDER)
        return n > 0 && queue[0]->nodes <= model_free(m) ? queue[0] : NULL;
    for (size_t i = 0; i < n; i++)
        if (queue[i]->nodes <= model_free(m) && (m->promise == HTC_FIT_PROMISE_NOTHING || queue[i]->reserved <= now))
            return queue[i];
    return NULL;
}

/* When each waiting job will start if all go on as they say; at[i] belongs to the i-th of the queue. */
static inline void model_forecast(const model *m, int now, int *at)
{
    model      copy = *m;
    model_job *queue[MODEL_JOBS], *j;
    uint64_t   ids[MODEL_JOBS];
    size_t     n = model_queue(&copy, queue);
    if (m->promise == HTC_FIT_PROMISE_ALL)
        model_plan(&copy, now);
    for (size_t i = 0; i < n; i++) {
        ids[i] = queue[i]->id;
        at[i] = m->promise == HTC_FIT_PROMISE_ALL ? queue[i]->reserved : MODEL_NEVER;
    }
    if (m->promise == HTC_FIT_PROMISE_ALL)
        return;
    int ends[MODEL_JOBS];
    for (size_t i = 0; i < copy.n; i++)
        ends[i] = copy.job[i].running ? model_end(&copy.job[i], now) : MODEL_NEVER;
    /* First who starts now as things stand: what ends at this very moment has not said so. */
    for (int events = 1; now < MODEL_NEVER; now += events == 0) {
        /* Estimates of what was overdue are not looked at again: it ends when `ends` says. */
        for (size_t i = 0; i < copy.n; i++)
            if (copy.job[i].running && ends[i] < MODEL_NEVER)
                copy.job[i].estimate = ends[i] - copy.job[i].started;
        while (events > 0 && (j = model_next(&copy, now))) {
            model_run(&copy, now, j);
            ends[j - copy.job] = j->planned;
            for (size_t i = 0; i < n; i++)
                at[i] = ids[i] == j->id ? now : at[i];
        }
        events = 0;
        for (size_t i = copy.n; i > 0; i--)
            if (copy.job[i - 1].running && ends[i - 1] == now) {
                ends[i - 1] = ends[copy.n - 1];
                model_over(&copy, now, &copy.job[i - 1]);
                events++;
            }
    }
}

#endif
