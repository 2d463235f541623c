/* The slow and obvious form of the scale model of provisioning: seconds one after the other, jobs in lists, policies as the paper has them in words. It
 * shares nothing with the library but the structs of the workload. Small runs alone. */
#ifndef HTC_TESTS_SIM_PROVISION_SLOW_H
#define HTC_TESTS_SIM_PROVISION_SLOW_H

#include <string.h>

#include "htcsched/sim_provision.h"

#define SLOW_JOBS   40
#define SLOW_LEASES 400
#define SLOW_NEVER  UINT64_MAX

typedef struct slow_job {
    uint64_t arrives, runs, nodes;
    int      parents; /* that have not ended; of a workflow */
    uint64_t ready, starts, ends; /* SLOW_NEVER: not yet */
    int      ended;
    uint64_t node; /* DRP, of a workflow: the lease that it runs on */
} slow_job;

typedef struct slow_lease {
    uint64_t nodes, since, look;
    uint64_t number;
    int      occupied; /* a node of a workflow's user */
} slow_lease;

typedef struct slow_environment {
    /* what it is */
    int      workflow, perlease, waiting_only;
    uint64_t initial, ratio, scan, phase, unit, period, own;
    int32_t  priority;
    slow_job job[SLOW_JOBS];
    size_t   jobs;
    htc_sim_provision_edge edge[3 * SLOW_JOBS];
    size_t   edges;
    /* how it is */
    size_t     queue[SLOW_JOBS], queued;
    slow_lease lease[SLOW_LEASES];
    size_t     leases;
    uint64_t   numbers;
    uint64_t   owned, busy, asks, over_at;
    int        over;
    /* what came out */
    uint64_t units, granted, returned, completed, refused, rejected, requests, wait, held_s, busy_s, peak;
} slow_environment;

typedef struct slow {
    uint32_t         system;
    uint64_t         capacity, peak;
    slow_environment e[3];
    size_t           n;
} slow;

static inline uint64_t slow_units(uint64_t held, uint64_t unit, int started)
{
    uint64_t units = started ? held / unit + 1 : (held + unit - 1) / unit;
    return units ? units : 1;
}

static inline uint64_t slow_held(const slow *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->e[i].owned;
    return sum;
}

static inline void slow_peaks(slow *s, slow_environment *e)
{
    uint64_t held = slow_held(s);
    e->peak = e->owned > e->peak ? e->owned : e->peak;
    s->peak = held > s->peak ? held : s->peak;
}

static inline void slow_grant(slow *s, slow_environment *e, uint64_t nodes, uint64_t now)
{
    e->lease[e->leases++] = (slow_lease){ .nodes = nodes, .since = now, .look = now + e->unit, .number = e->numbers++ };
    e->owned += nodes;
    e->granted += nodes;
    slow_peaks(s, e);
}

static inline void slow_give_back(slow_environment *e, slow_lease *l, uint64_t nodes, uint64_t units)
{
    e->units += nodes * units;
    e->owned -= nodes;
    e->returned += nodes;
    l->nodes -= nodes;
}

static inline void slow_forget_leases(slow_environment *e)
{
    size_t left = 0;
    for (size_t i = 0; i < e->leases; i++)
        if (e->lease[i].nodes)
            e->lease[left++] = e->lease[i];
    e->leases = left;
}

/* DRP: the spare node that is paid longest, or a new one. */
static inline uint64_t slow_take_node(slow *s, slow_environment *e, uint64_t now, uint64_t until)
{
    slow_lease *best = NULL;
    for (size_t i = 0; i < e->leases; i++)
        if (!e->lease[i].occupied && (!best || e->lease[i].look > best->look))
            best = &e->lease[i];
    if (!best) {
        slow_grant(s, e, 1, now);
        best = &e->lease[e->leases - 1];
    }
    best->occupied = 1;
    best->look = best->since + e->unit * slow_units(until - best->since, e->unit, 1);
    return best->number;
}

static inline void slow_run(slow *s, slow_environment *e, slow_job *j, uint64_t now)
{
    j->starts = now;
    j->ends = now + j->runs;
    e->busy += j->nodes;
    e->wait += now - j->ready;
    if (s->system != HTC_SIM_PROVISION_DRP)
        return;
    if (e->workflow) {
        j->node = slow_take_node(s, e, now, j->ends);
    } else {
        slow_grant(s, e, j->nodes, now);
        e->lease[e->leases - 1].look = now + e->unit * slow_units(j->runs, e->unit, 1);
    }
}

static inline void slow_ready(slow *s, slow_environment *e, size_t j, uint64_t now)
{
    e->job[j].ready = now;
    if (s->system == HTC_SIM_PROVISION_DRP)
        slow_run(s, e, &e->job[j], now);
    else
        e->queue[e->queued++] = j;
}

static inline void slow_start(slow *s, slow_environment *e, uint64_t now)
{
    size_t left = 0, stop = 0;
    for (size_t i = 0; i < e->queued; i++) {
        slow_job *j = &e->job[e->queue[i]];
        if (!stop && j->nodes <= e->owned - e->busy)
            slow_run(s, e, j, now);
        else {
            stop |= (size_t)e->workflow;
            e->queue[left++] = e->queue[i];
        }
    }
    e->queued = left;
}

static inline void slow_children(slow *s, slow_environment *e, size_t j, uint64_t now)
{
    for (size_t k = 0; k < e->edges; k++)
        if (e->edge[k].parent == j && --e->job[e->edge[k].child].parents == 0)
            slow_ready(s, e, e->edge[k].child, now);
}

/* Ends at this moment; 1 if there were any. What a workflow's tasks have freed waits until all that has ended is known. */
static inline int slow_complete(slow *s, uint64_t now, int ended[3][SLOW_JOBS])
{
    int any = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->e[i].jobs; j++) {
            slow_environment *e = &s->e[i];
            ended[i][j] = !e->job[j].ended && e->job[j].ends <= now && (!e->over || s->system == HTC_SIM_PROVISION_DRP);
            if (!ended[i][j])
                continue;
            e->job[j].ended = any = 1;
            e->busy -= e->job[j].nodes;
            e->completed += !e->over;
            for (size_t l = 0; e->workflow && l < e->leases; l++)
                if (e->lease[l].number == e->job[j].node)
                    e->lease[l].occupied = 0;
        }
    return any;
}

static inline void slow_end(slow *s, slow_environment *e, uint64_t now)
{
    e->over = 1;
    e->over_at = now;
    for (size_t i = 0; i < e->queued; i++)
        e->wait += now - e->job[e->queue[i]].ready;
    e->queued = 0;
    if (s->system == HTC_SIM_PROVISION_DRP)
        return;
    for (size_t i = 0; i < e->leases; i++)
        slow_give_back(e, &e->lease[i], e->lease[i].nodes, slow_units(now - e->lease[i].since, e->unit, 0));
    uint64_t rest = e->owned;
    slow_give_back(e, &(slow_lease){ .nodes = rest }, rest, slow_units(now, e->unit, 0));
}

static inline void slow_ask(slow_environment *e, uint64_t now)
{
    uint64_t waiting = 0, big = 0;
    e->asks = 0;
    if (now < e->phase || (now - e->phase) % e->scan != 0)
        return;
    for (size_t i = 0; i < e->queued; i++) {
        uint64_t nodes = e->job[e->queue[i]].nodes;
        waiting += nodes;
        big = nodes > big ? nodes : big;
    }
    uint64_t d = waiting + (e->waiting_only ? 0 : e->busy), idle = e->owned - e->busy;
    if (e->perlease)
        e->asks = waiting > idle ? waiting - idle : 0;
    else if (e->queued && d > e->owned && d * 1000000 > e->ratio * e->owned)
        e->asks = d - e->owned;
    else if (e->queued && big > e->owned)
        e->asks = big - e->owned;
}

/* Whose turn: by priority, then by number. */
static inline void slow_provide(slow *s, uint64_t now)
{
    for (;;) {
        slow_environment *turn = NULL;
        for (size_t i = 0; i < s->n; i++)
            if (s->e[i].asks && (!turn || s->e[i].priority > turn->priority))
                turn = &s->e[i];
        if (!turn)
            return;
        turn->requests++;
        if (turn->asks <= s->capacity - slow_held(s))
            slow_grant(s, turn, turn->asks, now);
        else
            turn->rejected++;
        turn->asks = 0;
    }
}

static inline void slow_look(slow_environment *e, uint64_t now)
{
    for (size_t i = 0; i < e->leases; i++) {
        slow_lease *l = &e->lease[i];
        uint64_t    idle = e->owned - e->busy, waiting = 0, back = idle >= l->nodes ? l->nodes : 0;
        if (l->look != now)
            continue;
        for (size_t k = 0; k < e->queued; k++)
            waiting += e->job[e->queue[k]].nodes;
        if (e->perlease)
            back = idle <= waiting ? 0 : idle - waiting < l->nodes ? idle - waiting : l->nodes;
        slow_give_back(e, l, back, slow_units(now - l->since, e->unit, 0));
        l->look += e->unit;
    }
    slow_forget_leases(e);
}

/* DRP: leases whose paid time is over and on which nothing runs. */
static inline void slow_leases_end(slow_environment *e, uint64_t now)
{
    for (size_t i = 0; i < e->leases; i++)
        if (e->lease[i].look == now && (e->workflow ? !e->lease[i].occupied : 1))
            slow_give_back(e, &e->lease[i], e->lease[i].nodes, (now - e->lease[i].since) / e->unit);
    slow_forget_leases(e);
}

static inline void slow_maybe_over(slow *s, uint64_t now)
{
    for (size_t i = 0; i < s->n; i++) {
        slow_environment *e = &s->e[i];
        if (!e->over && (e->period ? e->period == now : e->completed + e->refused == e->jobs))
            slow_end(s, e, now);
    }
}

static inline void slow_moment(slow *s, uint64_t now)
{
    int first = 1, ended[3][SLOW_JOBS];
    for (size_t i = 0; i < s->n; i++)
        if (s->system == HTC_SIM_PROVISION_DRP)
            slow_leases_end(&s->e[i], now);
    for (;; first = 0) {
        int any = slow_complete(s, now, ended);
        if (!any && !first)
            return;
        slow_maybe_over(s, now);
        for (size_t i = 0; i < s->n; i++)
            for (size_t j = 0; first && j < s->e[i].jobs; j++) {
                slow_environment *e = &s->e[i];
                if (e->over || e->job[j].arrives != now || e->job[j].parents)
                    continue;
                if (s->system != HTC_SIM_PROVISION_DRP && e->job[j].nodes > (s->system == HTC_SIM_PROVISION_DSP ? s->capacity : e->own))
                    e->refused++;
                else
                    slow_ready(s, e, j, now);
            }
        slow_maybe_over(s, now);
        for (size_t i = 0; i < s->n; i++)
            for (size_t j = 0; j < s->e[i].jobs; j++)
                if (ended[i][j] && !s->e[i].over)
                    slow_children(s, &s->e[i], j, now);
        for (size_t i = 0; i < s->n; i++)
            slow_start(s, &s->e[i], now);
        for (size_t i = 0; first && s->system == HTC_SIM_PROVISION_DSP && i < s->n; i++)
            if (!s->e[i].over)
                slow_ask(&s->e[i], now);
        slow_provide(s, now);
        for (size_t i = 0; i < s->n; i++)
            slow_start(s, &s->e[i], now);
        for (size_t i = 0; first && s->system == HTC_SIM_PROVISION_DSP && i < s->n; i++)
            if (!s->e[i].over)
                slow_look(&s->e[i], now);
    }
}

static inline int slow_over(const slow *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->e[i].over || s->e[i].owned)
            return 0;
    return 1;
}

/* 0: it has not ended by then. */
static inline int slow_all(slow *s, uint64_t until)
{
    int fixed = s->system == HTC_SIM_PROVISION_DCS || s->system == HTC_SIM_PROVISION_SSP;
    for (size_t i = 0; i < s->n; i++) {
        slow_environment *e = &s->e[i];
        e->owned = e->granted = fixed ? e->own : s->system == HTC_SIM_PROVISION_DSP ? e->initial : 0;
        slow_peaks(s, e);
        for (size_t j = 0; j < e->jobs; j++)
            e->job[j].ready = e->job[j].starts = e->job[j].ends = SLOW_NEVER;
        for (size_t k = 0; k < e->edges; k++)
            e->job[e->edge[k].child].parents++;
    }
    for (uint64_t now = 0; now <= until; now++) {
        slow_moment(s, now);
        for (size_t i = 0; i < s->n; i++) {
            s->e[i].held_s += s->e[i].owned;
            s->e[i].busy_s += s->system != HTC_SIM_PROVISION_DRP && s->e[i].over ? 0 : s->e[i].busy;
        }
        if (slow_over(s))
            return 1;
    }
    return 0;
}

#endif
