/* Levels, queues and grids: what a hierarchy may look like, and how it changes while it runs. */
#include "htcsched/hierarchy.h"

#include <math.h>
#include <string.h>

#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

#define ENTRIES_DEFAULT ((size_t)1 << 20)
#define ALPHA_DEFAULT 0.06
#define POTENTIALS ((1u << HTC_HIERARCHY_JOB_POTENTIAL) | (1u << HTC_HIERARCHY_QUEUE_POTENTIAL))
#define ALL_POLICIES                                                                                                   \
    ((1u << HTC_HIERARCHY_OVERLOAD) | (1u << HTC_HIERARCHY_MISMATCH) | (1u << HTC_HIERARCHY_OVERDUE) | POTENTIALS)
#define ALL_FLAGS (HTC_HIERARCHY_REJECTS | HTC_HIERARCHY_PREDICT | HTC_HIERARCHY_FREEZE | HTC_HIERARCHY_REMOTE)

double htc_hierarchy_phi(htc_ns time_ns, uint32_t cpus, double kflops, double beta)
{
    return kflops > 0 && beta > 0 && isfinite(kflops * beta) ? htc__hierarchy_phi(time_ns, cpus, kflops * beta) : 0;
}

/* ---- what every file uses ---- */

/* Section 3.9 (c): those that are free, as the samples say, and those we hold. */
double htc__hierarchy_cpus_now(const htc_hierarchy *h, const hier_queue *q)
{
    double cpus = q->running;
    if (!(q->spec.flags & HTC_HIERARCHY_PREDICT))
        return UINT32_MAX;
    for (size_t i = 0; i < q->spec.grid_count; i++)
        cpus += h->grids[q->grid[i]].avail;
    return cpus > 1 ? cpus : 1;
}

double htc__hierarchy_largest_ce(const htc_hierarchy *h)
{
    double largest = 0;
    for (size_t i = 0; i < h->options.queue_count; i++)
        largest = fmax(largest, htc__hierarchy_ce(h, &h->queues[i], h->queues[i].spec.job_cpus));
    return largest;
}

/* N for this job: only CPUs that meet its needs count (section 3.1). */
uint32_t htc__hierarchy_cpus_for(const htc_hierarchy *h, const hier_queue *q, const hier_job *j)
{
    uint64_t cpus = 0;
    size_t   suitable = 0;
    if (j->memory_mb == 0 && j->features == 0)
        return q->spec.job_cpus;
    for (size_t i = 0; i < q->spec.grid_count; i++)
        if (htc__hierarchy_suits(&h->grids[q->grid[i]], j)) {
            cpus += h->grids[q->grid[i]].spec.cpus;
            suitable++;
        }
    return suitable == q->spec.grid_count || cpus > q->spec.job_cpus ? q->spec.job_cpus : (uint32_t)cpus;
}

/* ---- is this a hierarchy? ---- */

static int between(double value, double low, double high)
{
    return value >= low && value <= high;
}

static htc_status check_queue(const htc_hierarchy_options *o, size_t at)
{
    const htc_hierarchy_queue *q = &o->queues[at];
    uint64_t                   seen = 0;
    if (q->level < 1 || q->level > o->queue_count || !q->grids || q->grid_count < 1 || q->grid_count > o->grid_count ||
        q->te_ns < 1 || q->tq_ns < q->te_ns || q->tq_ns > HTC_HIERARCHY_TIME_MAX || q->cpus < 1 || q->job_cpus > q->cpus ||
        !(q->kflops > 0 && q->kflops <= HIER_KFLOPS_MAX) || !between(q->beta, 0, 1) ||
        !(q->kflops * (q->beta > 0 ? q->beta : 1) > 0) || !(q->alpha >= 0 && q->alpha < 1) ||
        (q->policies & ~(ALL_POLICIES | HTC_HIERARCHY_NO_POLICY)) || (q->flags & ~(uint32_t)ALL_FLAGS) ||
        q->period_ns > HTC_HIERARCHY_TIME_MAX || !between(q->te_factor, 0, 1e9))
        return HTC_EINVAL;
    for (size_t i = 0; i < q->grid_count; i++) {
        if (q->grids[i] >= o->grid_count || (seen >> q->grids[i]) & 1)
            return HTC_EINVAL;
        seen |= UINT64_C(1) << q->grids[i];
    }
    return HTC_OK;
}

/* No level is empty, and from every queue there is a way down to the lowest level. */
static htc_status check_levels(const htc_hierarchy_options *o)
{
    uint32_t lowest = 0;
    size_t   in[HTC_HIERARCHY_QUEUES_MAX + 1] = { 0 };
    for (size_t i = 0; i < o->queue_count; i++) {
        lowest = o->queues[i].level > lowest ? o->queues[i].level : lowest;
        in[o->queues[i].level]++;
    }
    for (uint32_t level = 1; level <= lowest; level++)
        if (in[level] == 0)
            return HTC_EINVAL;
    for (size_t i = 0; i < o->queue_count; i++) {
        const htc_hierarchy_queue *q = &o->queues[i];
        if (q->level == lowest ? q->next != HTC_HIERARCHY_NOWHERE :
                                 q->next >= o->queue_count || o->queues[q->next].level <= q->level)
            return HTC_EINVAL;
    }
    return HTC_OK;
}

static htc_status check(const htc_hierarchy_options *in, htc_hierarchy_options *out)
{
    *out = (htc_hierarchy_options){ .size = sizeof *out };
    htc_status status = in ? htc__options_copy(out, sizeof *out, in, in->size, sizeof in->size) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (!out->grids || out->grid_count < 1 || out->grid_count > HTC_HIERARCHY_GRIDS_MAX || !out->queues ||
        out->queue_count < 1 || out->queue_count > HTC_HIERARCHY_QUEUES_MAX || out->jobs_max > HTC_HIERARCHY_ENTRIES_MAX ||
        out->tasks_max > HTC_HIERARCHY_ENTRIES_MAX || out->mode > HTC_HIERARCHY_SIMPLE ||
        out->migrate > HTC_HIERARCHY_DIRECT || out->sharing > HTC_HIERARCHY_EXTERNAL || out->sole > HTC_HIERARCHY_SOLE_NONE ||
        out->adapt > 1 || !between(out->share_lambda, 0, 1) || !between(out->share_margin, 0, 1000) ||
        !between(out->adapt_ratio, 0, 1000) || out->share_period_ns > HTC_HIERARCHY_TIME_MAX ||
        out->share_gain_ns > HTC_HIERARCHY_TIME_MAX || out->share_hold_ns > HTC_HIERARCHY_TIME_MAX ||
        out->share_cost_ns > HTC_HIERARCHY_TIME_MAX || out->adapt_after_ns > HTC_HIERARCHY_TIME_MAX)
        return HTC_EINVAL;
    for (size_t i = 0; i < out->grid_count; i++)
        if (out->grids[i].cpus < 1 || out->grids[i].latency_ns > HTC_HIERARCHY_TIME_MAX || out->grids[i].reserved)
            return HTC_EINVAL;
    for (size_t i = 0; status == HTC_OK && i < out->queue_count; i++)
        status = check_queue(out, i);
    return status == HTC_OK ? check_levels(out) : status;
}

/* ---- defaults ---- */

static void fill_options(htc_hierarchy_options *o)
{
    o->jobs_max = o->jobs_max ? o->jobs_max : ENTRIES_DEFAULT;
    o->tasks_max = o->tasks_max ? o->tasks_max : ENTRIES_DEFAULT;
    o->share_period_ns = o->share_period_ns ? o->share_period_ns : 60 * HTC_SECOND;
    o->share_lambda = o->share_lambda > 0 ? o->share_lambda : 0.3;
    o->share_margin = o->share_margin > 0 ? o->share_margin : 0.2;
    o->share_gain_ns = o->share_gain_ns ? o->share_gain_ns : 30 * HTC_SECOND;
    o->share_hold_ns = o->share_hold_ns ? o->share_hold_ns : 300 * HTC_SECOND;
    o->share_moves_max = o->share_moves_max ? o->share_moves_max : 2;
    o->adapt_ratio = o->adapt_ratio > 0 ? o->adapt_ratio : 0.25;
    o->adapt_after_ns = o->adapt_after_ns ? o->adapt_after_ns : 86400 * HTC_SECOND;
}

static void fill_queue(hier_queue *q, const htc_hierarchy_queue *spec)
{
    q->spec = *spec;
    q->spec.grids = NULL;
    q->grids = 0;
    for (size_t i = 0; i < spec->grid_count; i++) {
        q->grid[i] = (uint8_t)spec->grids[i];
        q->grids |= UINT64_C(1) << spec->grids[i];
    }
    q->spec.job_cpus = spec->job_cpus ? spec->job_cpus : spec->cpus;
    q->spec.beta = spec->beta > 0 ? spec->beta : 1;
    q->spec.alpha = spec->alpha > 0 ? spec->alpha : ALPHA_DEFAULT;
}

static htc_ns period_of(const hier_queue *q)
{
    htc_ns period = q->spec.te_ns / 60;
    return q->spec.period_ns ? q->spec.period_ns : period < HTC_SECOND ? HTC_SECOND : period > 300 * HTC_SECOND ? 300 * HTC_SECOND : period;
}

/* How many times the latency one level down is T_e? As the configuration has it, where it says. */
static double factor_of(const htc_hierarchy *h, const hier_queue *q)
{
    double latency = 0;
    if (q->spec.te_factor > 0)
        return q->spec.te_factor;
    if (q->spec.next != HTC_HIERARCHY_NOWHERE)
        latency = (double)h->grids[h->queues[q->spec.next].grid[0]].spec.latency_ns;
    return latency > 0 ? (double)q->spec.te_ns / latency : 10;
}

void htc__hierarchy_refresh(htc_hierarchy *h)
{
    uint32_t lowest = 0;
    for (size_t i = 0; i < h->options.queue_count; i++)
        lowest = h->queues[i].spec.level > lowest ? h->queues[i].spec.level : lowest;
    for (size_t i = 0; i < h->options.queue_count; i++) {
        hier_queue *q = &h->queues[i];
        q->unit = q->spec.kflops * q->spec.beta;
        q->te_s = (double)q->spec.te_ns / 1e9;
        q->tq_s = (double)q->spec.tq_ns / 1e9;
        q->period_ns = period_of(q);
        q->policies = q->spec.policies         ? q->spec.policies & ALL_POLICIES :
                      q->spec.level == lowest ? ALL_POLICIES & ~POTENTIALS :
                                                ALL_POLICIES;
        if (h->options.mode == HTC_HIERARCHY_SIMPLE)
            q->policies &= 1u << HTC_HIERARCHY_OVERDUE;
        q->peers = 0;
        for (size_t k = 0; k < h->options.queue_count; k++)
            q->peers += k != i && h->queues[k].spec.level == q->spec.level;
        if (q->peers == 0 || h->options.sharing != HTC_HIERARCHY_PUSH)
            q->share_at = HTC_NEVER;
    }
    htc__hierarchy_freeze(h, h->now);
    for (size_t i = 0; i < h->jobs_cap; i++) {
        hier_job *j = &h->jobs[i];
        if (j->state == 0)
            continue;
        hier_entry *e = htc__hierarchy_entry_of(h, j);
        j->cpus = htc__hierarchy_cpus_for(h, &h->queues[j->queue], j);
        if (e)
            e->cpus = j->cpus;
    }
}

/* Take over checked options: queues has room for all of them, and holds what is in use. */
static void adopt(htc_hierarchy *h, const htc_hierarchy_options *o, hier_queue *queues, size_t known_grids, size_t known_queues)
{
    h->queues = queues;
    h->options = *o;
    h->options.grids = NULL;
    h->options.queues = NULL;
    fill_options(&h->options);
    for (size_t i = 0; i < o->grid_count; i++) {
        hier_grid *g = &h->grids[i];
        g->spec = o->grids[i];
        if (i >= known_grids) {
            g->latency_s = (double)g->spec.latency_ns / 1e9;
            g->avail = g->cpus = g->spec.cpus;
        }
    }
    for (size_t i = 0; i < o->queue_count; i++) {
        hier_queue *q = &h->queues[i];
        fill_queue(q, &o->queues[i]);
        if (i >= known_queues)
            q->enforce_at = q->share_at = HTC_NEVER;
        q->differs_since = HTC_NEVER;
    }
    for (size_t i = 0; i < o->queue_count; i++)
        h->queues[i].factor = factor_of(h, &h->queues[i]);
    htc__hierarchy_refresh(h);
}

/* ---- life ---- */

void htc_hierarchy_options_init(htc_hierarchy_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_hierarchy_create(const htc_env *env, const htc_hierarchy_options *options, htc_hierarchy **out)
{
    htc_hierarchy_options o;
    htc_status            status = out ? check(options, &o) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_hierarchy *h = htc__alloc(env, sizeof *h);
    hier_queue    *queues = htc__alloc(env, o.queue_count * sizeof *queues);
    htc_hierarchy_proposal *proposals = htc__alloc(env, o.queue_count * sizeof *proposals);
    if (!h || !queues || !proposals) {
        htc__free(env, h, sizeof *h);
        htc__free(env, queues, o.queue_count * sizeof *queues);
        htc__free(env, proposals, o.queue_count * sizeof *proposals);
        return HTC_ENOMEM;
    }
    h->env = env;
    h->free_job = h->free_task = HIER_NONE;
    h->proposals = proposals;
    adopt(h, &o, queues, 0, 0);
    *out = h;
    return HTC_OK;
}

void htc_hierarchy_destroy(htc_hierarchy *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->options.queue_count; i++)
        htc__free(h->env, h->queues[i].entries, h->queues[i].cap * sizeof *h->queues[i].entries);
    htc__free(h->env, h->queues, h->options.queue_count * sizeof *h->queues);
    htc__free(h->env, h->proposals, h->options.queue_count * sizeof *h->proposals);
    htc__free(h->env, h->jobs, h->jobs_cap * sizeof *h->jobs);
    htc__free(h->env, h->tasks, h->tasks_cap * sizeof *h->tasks);
    htc__free(h->env, h->decisions, h->decisions_cap * sizeof *h->decisions);
    htc__hierarchy_index_free(h->env, &h->by_id);
    htc__hierarchy_index_free(h->env, &h->by_task);
    htc__free(h->env, h, sizeof *h);
}

/* A queue that becomes remote must be empty here, and what is in use must stay within the new ceilings. */
static int can_become(const htc_hierarchy *h, const htc_hierarchy_options *o)
{
    if (o->queue_count < h->options.queue_count || o->grid_count < h->options.grid_count ||
        (o->jobs_max ? o->jobs_max : ENTRIES_DEFAULT) < h->jobs_n || (o->tasks_max ? o->tasks_max : ENTRIES_DEFAULT) < h->tasks_n)
        return 0;
    for (size_t i = 0; i < h->options.queue_count; i++)
        if ((o->queues[i].flags & HTC_HIERARCHY_REMOTE) && h->queues[i].live + h->queues[i].waiting > 0)
            return 0;
    return 1;
}

htc_status htc_hierarchy_reorder(htc_hierarchy *h, const htc_hierarchy_options *options, htc_ns now)
{
    htc_hierarchy_options o;
    htc_status            status = h ? check(options, &o) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (!can_become(h, &o))
        return HTC_EINVAL;
    size_t                  old = h->options.queue_count;
    hier_queue             *queues = htc__alloc(h->env, o.queue_count * sizeof *queues);
    htc_hierarchy_proposal *proposals = htc__alloc(h->env, o.queue_count * sizeof *proposals);
    if (!queues || !proposals) {
        htc__free(h->env, queues, o.queue_count * sizeof *queues);
        htc__free(h->env, proposals, o.queue_count * sizeof *proposals);
        return HTC_ENOMEM;
    }
    memcpy(queues, h->queues, old * sizeof *queues);
    htc__free(h->env, h->queues, old * sizeof *queues);
    htc__free(h->env, h->proposals, old * sizeof *proposals);
    h->proposals = proposals;
    htc__hierarchy_now(h, now);
    adopt(h, &o, queues, h->options.grid_count, old);
    htc__hierarchy_look_anew(h);
    return HTC_OK;
}

/* ---- what users see ---- */

htc_status htc_hierarchy_entry(const htc_hierarchy *h, const htc_hierarchy_job *job, uint32_t *queue)
{
    htc_hierarchy_job in;
    uint32_t          at = 0;
    htc_status        status = h && queue ? htc__hierarchy_check_job(job, &in) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    hier_job j = { .memory_mb = in.memory_mb, .features = in.features };
    while (h->queues[at].spec.level != 1)
        at++;
    while (at != HTC_HIERARCHY_NOWHERE && htc__hierarchy_cpus_for(h, &h->queues[at], &j) == 0)
        at = h->queues[at].spec.next;
    if (at == HTC_HIERARCHY_NOWHERE)
        return HTC_ENOFIT;
    *queue = at;
    return HTC_OK;
}

htc_status htc_hierarchy_get_queue(const htc_hierarchy *h, uint32_t queue, htc_hierarchy_queue_info *out)
{
    if (!h || !out || queue >= h->options.queue_count)
        return HTC_EINVAL;
    const hier_queue *q = &h->queues[queue];
    *out = (htc_hierarchy_queue_info){ .ce_kflop = htc__hierarchy_ce(h, q, q->spec.job_cpus),
                                       .cq_kflop = htc__hierarchy_cq(h, q),
                                       .load_kflop = q->spec.flags & HTC_HIERARCHY_REMOTE ? q->peer_load : q->load,
                                       .jobs = q->live,
                                       .estimating = q->waiting,
                                       .running = q->running,
                                       .enforce_at = q->enforce_at,
                                       .share_at = q->share_at,
                                       .shared_in = q->shared_in,
                                       .busy_ns = q->busy_ns,
                                       .lost_ns = q->lost_ns,
                                       .bad_bounds = q->bad_bounds,
                                       .level = q->spec.level,
                                       .next = q->spec.next,
                                       .te_ns = q->spec.te_ns,
                                       .tq_ns = q->spec.tq_ns,
                                       .cpus = q->spec.cpus,
                                       .policies = q->policies,
                                       .kflops = q->spec.kflops };
    memcpy(out->out, q->out, sizeof out->out);
    return HTC_OK;
}

htc_status htc_hierarchy_policy(htc_hierarchy *h, uint32_t queue, uint32_t reason, uint32_t on)
{
    if (!h || queue >= h->options.queue_count || reason < HTC_HIERARCHY_OVERLOAD || reason > HTC_HIERARCHY_QUEUE_POTENTIAL ||
        on > 1)
        return HTC_EINVAL;
    hier_queue *q = &h->queues[queue];
    uint32_t    bit = UINT32_C(1) << reason;
    if (h->options.mode == HTC_HIERARCHY_SIMPLE && reason != HTC_HIERARCHY_OVERDUE)
        return HTC_EINVAL;
    q->policies = on ? q->policies | bit : q->policies & ~bit;
    q->spec.policies = q->policies | HTC_HIERARCHY_NO_POLICY;
    return HTC_OK;
}

htc_ns htc_hierarchy_deadline(const htc_hierarchy *h)
{
    htc_ns next = HTC_NEVER;
    for (size_t i = 0; h && i < h->options.queue_count; i++) {
        next = h->queues[i].enforce_at < next ? h->queues[i].enforce_at : next;
        next = h->queues[i].share_at < next ? h->queues[i].share_at : next;
    }
    return next;
}
