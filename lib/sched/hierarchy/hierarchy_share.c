/* Several queues on one level: samples of free CPUs, expected completion times, pushes (section 3.3). */
#include <assert.h>
#include <math.h>

#include "sched/hierarchy/hierarchy_private.h"

/* ---- samples ---- */

/* Is no grid of this level to be reached? */
static int level_is_down(const htc_hierarchy *h, uint32_t level)
{
    for (size_t i = 0; i < h->options.queue_count; i++) {
        const hier_queue *q = &h->queues[i];
        for (size_t k = 0; q->spec.level == level && k < q->spec.grid_count; k++)
            if (!h->grids[q->grid[k]].unreachable)
                return 0;
    }
    return 1;
}

/* Section 6: while all grids of a level are down, nobody there gets overdue. */
void htc__hierarchy_freeze(htc_hierarchy *h, htc_ns now)
{
    for (size_t i = 0; i < h->options.queue_count; i++) {
        hier_queue *q = &h->queues[i];
        uint32_t    frozen = (q->spec.flags & HTC_HIERARCHY_FREEZE) && level_is_down(h, q->spec.level);
        if (q->frozen && !frozen)
            q->frozen_ns += now - q->frozen_since;
        if (!q->frozen && frozen)
            q->frozen_since = now;
        q->frozen = frozen;
    }
}

htc_status htc_hierarchy_sample(htc_hierarchy *h, uint32_t grid, uint32_t free_cpus, uint32_t cpus, htc_ns now)
{
    if (!h || grid >= h->options.grid_count)
        return HTC_EINVAL;
    hier_grid *g = &h->grids[grid];
    double     lambda = h->options.share_lambda;
    uint32_t   unreachable = free_cpus == HTC_HIERARCHY_UNREACHABLE;
    double     sample = unreachable ? 0 : free_cpus;
    g->avail = g->sampled ? lambda * sample + (1 - lambda) * g->avail : sample;
    if (cpus > 0)
        g->cpus = lambda * cpus + (1 - lambda) * g->cpus;
    g->sampled = 1;
    g->unreachable = unreachable;
    htc__hierarchy_freeze(h, htc__hierarchy_now(h, now));
    return HTC_OK;
}

htc_status htc_hierarchy_peer(htc_hierarchy *h, uint32_t queue, double load_kflop)
{
    if (!h || queue >= h->options.queue_count || !(h->queues[queue].spec.flags & HTC_HIERARCHY_REMOTE) ||
        !(load_kflop >= 0 && load_kflop <= HTC_HIERARCHY_KFLOP_MAX))
        return HTC_EINVAL;
    h->queues[queue].peer_load = load_kflop;
    return HTC_OK;
}

/* ---- expected completion time ---- */

double htc__hierarchy_ect(const htc_hierarchy *h, const hier_queue *q, const hier_job *j, double before, double left)
{
    double cpus = q->running, latency = -1, first = -1;
    for (size_t i = 0; i < q->spec.grid_count; i++) {
        const hier_grid *g = &h->grids[q->grid[i]];
        if (!htc__hierarchy_suits(g, j))
            continue;
        cpus += g->avail;
        if (first < 0)
            first = g->latency_s;
        if (latency < 0 && g->avail >= 1)
            latency = g->latency_s;
    }
    cpus = htc__hierarchy_least(cpus, q->spec.cpus);
    if (j->split)
        cpus = htc__hierarchy_least(cpus, j->tasks);
    return (latency < 0 ? fmax(first, 0) : latency) + (before + left) / (fmax(cpus, 1) * q->unit);
}

double htc__hierarchy_ahead(const htc_hierarchy *h, const hier_job *j, htc_ns now)
{
    const hier_queue *q = &h->queues[j->queue];
    double            ahead = 0;
    for (size_t i = q->first; i < q->end && i < j->at; i++)
        if (q->entries[i].place == HIER_HERE)
            ahead += htc__hierarchy_remaining(h, q, &q->entries[i], now);
    return ahead;
}

/* What a newcomer would find before it. */
static double load_of(const hier_queue *q)
{
    return (q->spec.flags & HTC_HIERARCHY_REMOTE ? q->peer_load : q->load) + q->incoming;
}

/* Seconds to bring the job there (section 3.9 (b)): its bytes to the first grid that suits it. */
static double move_cost(const htc_hierarchy *h, const hier_job *j, const hier_queue *to)
{
    double seconds = (double)h->options.share_cost_ns / 1e9;
    for (size_t i = 0; i < to->spec.grid_count; i++) {
        const hier_grid *g = &h->grids[to->grid[i]];
        if (htc__hierarchy_suits(g, j))
            return seconds + (g->spec.bytes_per_s > 0 ? (double)j->bytes / (double)g->spec.bytes_per_s : 0);
    }
    return seconds;
}

/* The job itself is among what is on its way there; it is not before itself. */
int htc__hierarchy_pays(const htc_hierarchy *h, const hier_job *j, const hier_work *work, const hier_queue *home, double ahead,
                        const hier_queue *to)
{
    double before = load_of(to) - j->pledged;
    return htc__hierarchy_ect(h, to, j, before > 0 ? before : 0, work->whole) < htc__hierarchy_ect(h, home, j, ahead, work->left);
}

htc_status htc_hierarchy_expected(const htc_hierarchy *h, uint64_t id, uint32_t queue, htc_ns now, double *seconds)
{
    if (!h || !seconds || queue >= h->options.queue_count)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    const hier_job   *j = &h->jobs[job];
    const hier_queue *q = &h->queues[queue], *home = &h->queues[j->queue];
    const hier_entry *e = htc__hierarchy_entry_of(h, j);
    if (htc__hierarchy_cpus_for(h, q, j) == 0)
        return HTC_ENOFIT;
    now = now > h->now ? now : h->now;
    double left = !e ? j->left : queue == j->queue ? htc__hierarchy_remaining(h, home, e, now) : e->left;
    double before = load_of(q) - (queue == j->to ? j->pledged : 0);
    *seconds = htc__hierarchy_ect(h, q, j, queue == j->queue ? htc__hierarchy_ahead(h, j, now) : before > 0 ? before : 0, left);
    return HTC_OK;
}

/* ---- pushes ---- */

/* Few pending tasks: it is nearly done, moving it would cost more than it saves. */
static int nearly_done(const hier_job *j, const hier_entry *e)
{
    double least = fmax(4, 0.1 * j->tasks_first);
    return j->split && (double)(j->tasks - e->running) < least;
}

/* The queue where the job would be done first, if the move pays. Each further move has to pay by the margin once more: averages of a
 * square wave still swing by 1 / (1 - lambda) = 1.43, more than one margin of 1.2 and less than two. */
static uint32_t better_place(const htc_hierarchy *h, uint32_t home, const hier_job *j, double ahead, const hier_work *work)
{
    const hier_queue *here = &h->queues[home];
    double            best = INFINITY, at_home = htc__hierarchy_ect(h, here, j, ahead, work->left);
    uint32_t          to = HTC_HIERARCHY_NOWHERE;
    for (uint32_t i = 0; i < h->options.queue_count; i++) {
        const hier_queue *q = &h->queues[i];
        if (i == home || q->spec.level != here->spec.level)
            continue;
        uint32_t cpus = htc__hierarchy_cpus_for(h, q, j);
        if (cpus == 0 || work->whole > htc__hierarchy_ce(h, q, cpus))
            continue;
        double there = htc__hierarchy_ect(h, q, j, load_of(q), work->whole) + move_cost(h, j, q);
        if (there < best) {
            best = there;
            to = i;
        }
    }
    return at_home > pow(1 + h->options.share_margin, j->moves + 1) * best && at_home - best >= (double)h->options.share_gain_ns / 1e9 ?
               to :
               HTC_HIERARCHY_NOWHERE;
}

void htc__hierarchy_unpledge(htc_hierarchy *h, hier_job *j)
{
    if (j->state != HTC_HIERARCHY_LEAVING || j->reason != HTC_HIERARCHY_SHARE)
        return;
    hier_queue *to = &h->queues[j->to];
    assert(to->incoming_n > 0);
    to->incoming -= j->pledged;
    /* Sums of doubles do not come back to zero by themselves; less than what is taken away may be left by rounding. */
    if (--to->incoming_n == 0 || to->incoming < 0)
        to->incoming = 0;
    j->pledged = 0;
}

htc_status htc_hierarchy_share(htc_hierarchy *h, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out, size_t *n)
{
    hier_queue *q = h ? htc__hierarchy_queue(h, queue) : NULL;
    if (!q || !out || !n)
        return HTC_EINVAL;
    now = htc__hierarchy_now(h, now);
    size_t told = 0;
    double ahead = 0;
    int    pushes = h->options.sharing == HTC_HIERARCHY_PUSH && q->peers > 0;
    for (size_t i = q->first; pushes && i < q->end; i++) {
        hier_entry *e = &q->entries[i];
        if (e->place != HIER_HERE)
            continue;
        hier_job *j = &h->jobs[e->job];
        hier_work work = { htc__hierarchy_remaining(h, q, e, now), e->left };
        uint32_t  to = HTC_HIERARCHY_NOWHERE;
        if (work.left > 0 && j->moves < h->options.share_moves_max && now >= j->hold_until && !nearly_done(j, e))
            to = better_place(h, queue, j, ahead, &work);
        if (to == HTC_HIERARCHY_NOWHERE) {
            ahead += work.left;
            continue;
        }
        htc__hierarchy_leave(h, e->job, HTC_HIERARCHY_SHARE, to, &h->decisions[told++]);
        j->pledged = work.whole;
        h->queues[to].incoming += work.whole;
        h->queues[to].incoming_n++;
    }
    q->share_at = pushes && q->live + q->waiting > 0 ? htc__hierarchy_after(now, h->options.share_period_ns) : HTC_NEVER;
    *out = h->decisions;
    *n = told;
    return HTC_OK;
}
