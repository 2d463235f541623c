/* Which job may hand out a task at which site: jobs that fail fast are slowed there (health.h). */
#include "roles/gateway/gateway.h"

/* ---- jobs that fail fast ---- */

uint32_t job_allows(const job *j, size_t at)
{
    return j->health ? health_allows(&j->health[at]) : UINT32_MAX;
}

htc_ns job_slowed_until(const job *j)
{
    htc_ns first = HTC_NEVER;
    for (size_t i = 0; i < j->n_health; i++) {
        if (health_allows(&j->health[i]))
            return 0;
        if (j->health[i].until < first)
            first = j->health[i].until;
    }
    return j->n_health ? first : 0;
}

/* Its pause has begun there, or is over. */
static void changed(htc_gateway *gw, job *j, const health *h)
{
    if (health_allows(h) == 0)
        gw_due_add(gw, h->until, j->id, DUE_RESTED);
    gw_job_touch(gw, j);
    gw_reallocate_soon(gw);
}

void gw_job_handed(htc_gateway *gw, job *j, size_t at)
{
    if (!j->health)
        return;
    if (health_handed(&j->health[at], gw->now))
        changed(gw, j, &j->health[at]);
    else if (j->health[at].pause)
        gw_job_touch(gw, j);
}

void gw_job_ended(htc_gateway *gw, job *j, size_t at, const htc_outcome *o)
{
    health_verdict verdict = health_of(o->status, o->ended > o->started ? o->ended - o->started : 0);
    if (!j->health && verdict != HEALTH_FAILS_FAST)
        return;
    if (!j->health) {
        j->health = htc__alloc(&gw->env, gw->n_sites * sizeof *j->health);
        if (!j->health) {
            gw_break(gw, HTC_ENOMEM, "noting a failure");
            return;
        }
        j->n_health = gw->n_sites;
    }
    health *h = &j->health[at];
    if (!health_ended(h, verdict, gw->now))
        return;
    if (verdict == HEALTH_FAILS_FAST)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name), HTC__TEXT("site", gw->sites[at].name)),
                      "job %llu of %s failed %u tasks fast in a row at site %s -> its tasks are started slowly there",
                      (unsigned long long)j->id, j->user->name, h->in_a_row, gw->sites[at].name);
    changed(gw, j, h);
}

void gw_job_rested(htc_gateway *gw, job *j)
{
    for (size_t i = 0; i < j->n_health; i++)
        if (health_rested(&j->health[i], gw->now, gw->sites[i].cores))
            changed(gw, j, &j->health[i]);
}

/* ---- whose turn it is ---- */

job *gw_job_for(const agent *a)
{
    job *j = a->user->ready;
    while (j && job_allows(j, a->site) == 0)
        j = j->ready_next;
    return j;
}

uint64_t gw_startable(const htc_gateway *gw, const user *u, size_t at)
{
    uint64_t n = 0, cores = gw->sites[at].cores;
    for (const job *j = u->ready; j && n < cores; j = j->ready_next) {
        uint64_t ready = job_ready(j), allows = job_allows(j, at);
        n += ready < allows ? ready : allows;
    }
    return n < cores ? n : cores;
}
