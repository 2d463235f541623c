/* Fair sharing of clusters: batch systems, which start agents one job after the other or hold them, other users, and what a record of a task takes. */
#include "sim/models/fairshare.h"

#include <assert.h>

/* What is drawn for cluster i: streams behind those of jobs. */
enum { DRAW_HOLD, DRAW_LIFE, DRAW_GAP, DRAW_OTHERS, DRAWS };

static uint64_t draw(const fair *m, const fair_cluster *k, uint32_t what, uint64_t counter)
{
    return htc_scale_hash(m->scale, (UINT64_C(1) << 32) + (uint64_t)(k - m->cluster) * DRAWS + what, counter);
}

fair_cluster *htc__fair_find_cluster(const fair *m, uint32_t core)
{
    size_t low = 0, high = m->options.n_clusters;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (m->cluster[middle].base <= core)
            low = middle;
        else
            high = middle;
    }
    return &m->cluster[low];
}

/* ---- a batch system ---- */

static fair_cluster *best(const fair *m)
{
    fair_cluster *found = NULL;
    for (size_t i = 0; i < m->options.n_clusters; i++) {
        fair_cluster *k = &m->cluster[i];
        if (k->free && (!found || (m->options.choice == HTC_SIM_FAIRSHARE_BEST && (k->speed > found->speed || (k->speed == found->speed && k->free > found->free)))))
            found = k;
    }
    return found;
}

uint32_t htc__fair_roomiest(const fair *m)
{
    htc__cluster_now now[HTC_SIM_FAIRSHARE_CLUSTERS_MAX];
    for (size_t i = 0; i < m->options.n_clusters; i++)
        now[i] = (htc__cluster_now){ .free = m->cluster[i].free };
    return (uint32_t)htc__cluster_pick(now, m->options.n_clusters, HTC__METRIC_FREE_CORES);
}

static uint32_t take_core(fair *m, fair_cluster *k)
{
    uint32_t c = k->free_core;
    assert(k->free > 0 && m->now.free > 0);
    k->free_core = m->core[c];
    k->free--;
    m->now.free--;
    return c;
}

static uint64_t serve(fair *m, fair_cluster *k)
{
    return htc__first_level_serve(&k->system, htc_scale_now(m->scale));
}

int htc__fair_submit(fair *m, uint32_t user, uint32_t where, uint32_t *core, uint64_t *starts)
{
    fair_cluster *k = where == FAIR_NONE ? best(m) : m->cluster[where].free ? &m->cluster[where] : NULL;
    if (!k)
        return 0;
    *core = take_core(m, k);
    if (k->division != m->now.divisions || k->joined != user || k->taken == k->batch) {
        k->starts = serve(m, k);
        k->division = m->now.divisions;
        k->joined = user;
        k->taken = 0;
    }
    k->taken++;
    k->agents++;
    *starts = k->starts;
    return 1;
}

/* ---- jobs that are held ---- */

void htc__fair_noted(fair *m, fair_cluster *k)
{
    htc__first_level_noted(&k->system, htc_scale_now(m->scale));
}

/* Of a batch all agents start at one tick, and have one fate. */
int htc__fair_held(fair *m, fair_cluster *k)
{
    uint64_t now = htc_scale_now(m->scale);
    if (!htc__first_level_may_hold(&k->system))
        return 0;
    if (k->batch <= 1 || k->verdict_at != now + 1) {
        k->verdict = (uint32_t)htc__first_level_holds(&k->system, now, draw(m, k, DRAW_HOLD, k->system.verdicts));
        k->verdict_at = now + 1;
    }
    k->held += k->verdict;
    return (int)k->verdict;
}

/* ---- other users ---- */

static void hold_core(fair *m, fair_cluster *k, uint64_t starts)
{
    uint32_t c = take_core(m, k);
    uint64_t length = htc__fair_length(k, htc__scale_drawer_ticks(&k->others_length, draw(m, k, DRAW_OTHERS, k->others_begun++)));
    k->others++;
    m->now.others++;
    m->core[c] = FAIR_OTHERS;
    htc_scale_at(m->scale, starts + length, c);
}

static void start_other(fair *m, fair_cluster *k)
{
    htc__fair_noted(m, k);
    hold_core(m, k, serve(m, k));
}

void htc__fair_free_core(fair *m, uint32_t core)
{
    fair_cluster *k = htc__fair_cluster_of(m, core);
    m->core[core] = k->free_core;
    k->free_core = core;
    k->free++;
    m->now.free++;
    if (k->others_waiting) {
        k->others_waiting--;
        start_other(m, k);
    }
    htc__fair_divide_soon(m);
}

void htc__fair_others_end(fair *m, uint32_t core)
{
    fair_cluster *k = htc__fair_cluster_of(m, core);
    k->others--;
    m->now.others--;
    htc__fair_noted(m, k);
    htc__fair_free_core(m, core);
}

/* At least a tick passes between two of them, or virtual time would not. */
static void next_other(fair *m, uint32_t cluster)
{
    fair_cluster *k = &m->cluster[cluster];
    uint64_t      gap = htc__scale_drawer_ticks(&k->others_gap, draw(m, k, DRAW_GAP, k->others_came));
    htc_scale_at(m->scale, htc_scale_now(m->scale) + (gap ? gap : 1), (uint32_t)m->options.cores + FAIR_IDS + cluster);
}

void htc__fair_others_come(fair *m, uint32_t cluster)
{
    fair_cluster *k = &m->cluster[cluster];
    k->others_came++;
    if (k->free)
        start_other(m, k);
    else
        k->others_waiting++;
    if (htc__fair_more(m))
        next_other(m, cluster);
}

void htc__fair_others_begin(fair *m)
{
    for (uint32_t i = 0; i < m->options.n_clusters; i++) {
        fair_cluster *k = &m->cluster[i];
        for (uint64_t n = k->others_first; n; n--)
            hold_core(m, k, 0);
        if (m->have_others && k->others_gap.a > 0)
            next_other(m, i);
    }
}

/* ---- agents and records ---- */

uint64_t htc__fair_life(fair *m, fair_cluster *k)
{
    return k->life.a > 0 ? htc__scale_drawer_ticks(&k->life, draw(m, k, DRAW_LIFE, k->lives++)) : UINT64_MAX;
}

uint64_t htc__fair_recorded(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    if (m->options.records == HTC_SIM_FAIRSHARE_GROUPED)
        return m->sync - now % m->sync + m->record;
    m->now.recorded = (m->now.recorded > now ? m->now.recorded : now) + m->record;
    return m->now.recorded - now;
}

uint64_t htc__fair_written(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    m->now.written = (m->now.written > now ? m->now.written : now) + m->output;
    return m->now.written - now;
}
