/* The order and the limits that measurements call for: section 8 of the paper, its future work. */
#include <math.h>

#include "sched/hierarchy/hierarchy_private.h"

#define MINUTE (60 * HTC_SECOND)

htc_status htc_hierarchy_get_grid(const htc_hierarchy *h, uint32_t grid, htc_hierarchy_grid_info *out)
{
    if (!h || !out || grid >= h->options.grid_count)
        return HTC_EINVAL;
    const hier_grid *g = &h->grids[grid];
    *out = (htc_hierarchy_grid_info){ .latency_s = g->latency_s,
                                      .cpus = g->cpus,
                                      .free_cpus = g->avail,
                                      .kflops = g->kflops,
                                      .lost_per_h = g->busy_ns > 0 ? (double)g->lost / ((double)g->busy_ns / 3.6e12) : 0,
                                      .unreachable = g->unreachable };
    return HTC_OK;
}

/* A queue as measured: latency and speed are means over the CPUs of its grids of which they are known; a latency of 0 is not. */
typedef struct measured {
    double latency_s, cpus, kflops;
} measured;

static measured measure(const htc_hierarchy *h, const hier_queue *q)
{
    measured m = { 0 };
    double   latency = 0, speed = 0, timed = 0, known = 0;
    for (size_t i = 0; i < q->spec.grid_count; i++) {
        const hier_grid *g = &h->grids[q->grid[i]];
        m.cpus += g->spec.tasks_max > 0 ? fmin(g->cpus, g->spec.tasks_max) : g->cpus;
        if (g->latency_s > 0) {
            timed += g->cpus;
            latency += g->latency_s * g->cpus;
        }
        if (g->kflops > 0) {
            known += g->cpus;
            speed += g->kflops * g->cpus;
        }
    }
    m.latency_s = timed > 0 ? latency / timed : 0;
    m.kflops = known > 0 ? speed / known : q->spec.kflops;
    return m;
}

/* Small and responsive first; what is about the same keeps its order, and so does what cannot be compared. */
static int goes_before(const measured *a, const measured *b, double ratio)
{
    if ((a->latency_s > 0) != (b->latency_s > 0))
        return 0;
    if (a->latency_s * (1 + ratio) < b->latency_s)
        return 1;
    if (b->latency_s * (1 + ratio) < a->latency_s)
        return 0;
    return a->cpus * (1 + ratio) < b->cpus;
}

/* By the levels in force first, then as measured. "About the same" is not transitive, so this is a stable insertion sort: its
 * outcome depends on nothing but the numbers. */
static void sort_queues(const htc_hierarchy *h, const measured *m, uint32_t *order)
{
    size_t n = h->options.queue_count;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && h->queues[order[at - 1]].spec.level > h->queues[i].spec.level; at--)
            order[at] = order[at - 1];
        order[at] = (uint32_t)i;
    }
    for (size_t i = 1; i < n; i++) {
        uint32_t q = order[i];
        size_t   at = i;
        for (; at > 0 && goes_before(&m[q], &m[order[at - 1]], h->options.adapt_ratio); at--)
            order[at] = order[at - 1];
        order[at] = q;
    }
}

/* The levels there are, in order: as many queues on each as now. A queue keeps its next if that is still as far below it. */
static void place(const htc_hierarchy *h, const uint32_t *order, htc_hierarchy_proposal *out)
{
    size_t   n = h->options.queue_count;
    uint32_t at = 0, lowest = 0;
    for (uint32_t level = 1; at < n; level++)
        for (size_t i = 0; i < n; i++)
            if (h->queues[i].spec.level == level) {
                out[order[at++]].level = level;
                lowest = level;
            }
    for (size_t i = 0; i < n; i++) {
        uint32_t next = h->queues[i].spec.next;
        if (out[i].level == lowest)
            next = HTC_HIERARCHY_NOWHERE;
        else if (next == HTC_HIERARCHY_NOWHERE ||
                 out[next].level != out[i].level + h->queues[next].spec.level - h->queues[i].spec.level)
            for (size_t k = n; k > 0; k--)
                if (out[order[k - 1]].level == out[i].level + 1)
                    next = order[k - 1];
        out[i].next = next;
    }
}

/* The nearest minute from two minutes on, else the nearest second: 200 s become the paper's 3 min. */
static htc_ns round_limit(double ns)
{
    if (!(ns < (double)HTC_HIERARCHY_TIME_MAX))
        return HTC_HIERARCHY_TIME_MAX;
    htc_ns unit = ns >= 2.0 * MINUTE ? MINUTE : HTC_SECOND, t = ((htc_ns)ns + unit / 2) / unit * unit;
    return t == 0 ? unit : t < HTC_HIERARCHY_TIME_MAX ? t : HTC_HIERARCHY_TIME_MAX;
}

static void set_limits(const htc_hierarchy *h, const measured *m, htc_hierarchy_proposal *p)
{
    const hier_queue *q = &h->queues[p->queue];
    double            cpus = floor(m[p->queue].cpus + 0.5), tq;
    p->cpus = cpus < 1 ? 1 : cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
    p->kflops = m[p->queue].kflops;
    p->te_ns = q->spec.te_ns;
    if (p->next == HTC_HIERARCHY_NOWHERE) {
        for (size_t i = 0; q->spec.next != HTC_HIERARCHY_NOWHERE && i < h->options.queue_count; i++)
            if (h->queues[i].spec.next == HTC_HIERARCHY_NOWHERE && h->queues[i].spec.te_ns > p->te_ns)
                p->te_ns = h->queues[i].spec.te_ns;
    } else if (m[p->next].latency_s > 0) {
        p->te_ns = round_limit(q->factor * m[p->next].latency_s * 1e9);
    }
    tq = (double)p->te_ns * ((double)q->spec.tq_ns / (double)q->spec.te_ns);
    p->tq_ns = p->te_ns == q->spec.te_ns ? q->spec.tq_ns :
               tq >= (double)HTC_HIERARCHY_TIME_MAX ? HTC_HIERARCHY_TIME_MAX :
               tq < (double)p->te_ns                ? p->te_ns :
                                                      (htc_ns)tq;
}

static double change_of(const hier_queue *q, const htc_hierarchy_proposal *p)
{
    double change = p->level != q->spec.level || p->next != q->spec.next;
    change = fmax(change, fabs((double)p->te_ns / (double)q->spec.te_ns - 1));
    change = fmax(change, fabs((double)p->tq_ns / (double)q->spec.tq_ns - 1));
    change = fmax(change, fabs((double)p->cpus / q->spec.cpus - 1));
    return fmax(change, fabs(p->kflops / q->spec.kflops - 1));
}

static void plan(const htc_hierarchy *h, htc_hierarchy_proposal *out)
{
    measured m[HTC_HIERARCHY_QUEUES_MAX];
    uint32_t order[HTC_HIERARCHY_QUEUES_MAX];
    size_t   n = h->options.queue_count;
    for (size_t i = 0; i < n; i++) {
        m[i] = measure(h, &h->queues[i]);
        out[i] = (htc_hierarchy_proposal){ .queue = (uint32_t)i };
    }
    sort_queues(h, m, order);
    place(h, order, out);
    for (size_t i = 0; i < n; i++) {
        set_limits(h, m, &out[i]);
        out[i].change = change_of(&h->queues[i], &out[i]);
    }
}

htc_status htc_hierarchy_plan(const htc_hierarchy *h, htc_hierarchy_proposal *out, size_t max)
{
    if (!h || !out || max < h->options.queue_count)
        return HTC_EINVAL;
    plan(h, out);
    return HTC_OK;
}

static void apply(htc_hierarchy *h)
{
    for (size_t i = 0; i < h->options.queue_count; i++) {
        hier_queue                   *q = &h->queues[i];
        const htc_hierarchy_proposal *p = &h->proposals[i];
        if (q->spec.job_cpus == q->spec.cpus || q->spec.job_cpus > p->cpus)
            q->spec.job_cpus = p->cpus;
        q->spec.level = p->level;
        q->spec.next = p->next;
        q->spec.te_ns = p->te_ns;
        q->spec.tq_ns = p->tq_ns;
        q->spec.cpus = p->cpus;
        q->spec.kflops = p->kflops;
        q->differs_since = HTC_NEVER;
    }
    htc__hierarchy_refresh(h);
    htc__hierarchy_look_anew(h);
}

htc_status htc_hierarchy_adapt(htc_hierarchy *h, htc_ns now, const htc_hierarchy_proposal **out, size_t *n)
{
    int due = 0;
    if (!h || !out || !n)
        return HTC_EINVAL;
    now = htc__hierarchy_now(h, now);
    plan(h, h->proposals);
    for (size_t i = 0; i < h->options.queue_count; i++) {
        hier_queue *q = &h->queues[i];
        if (h->proposals[i].change <= h->options.adapt_ratio)
            q->differs_since = HTC_NEVER;
        else if (q->differs_since == HTC_NEVER)
            q->differs_since = now;
        due |= q->differs_since != HTC_NEVER && now - q->differs_since >= h->options.adapt_after_ns;
    }
    if (due && h->options.adapt)
        apply(h);
    *out = h->proposals;
    *n = due ? h->options.queue_count : 0;
    return HTC_OK;
}
