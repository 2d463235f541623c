/* Fair sharing of clusters: jobs of a source, one after the other. A job has a place from its arrival until its last task has ended. */
#include "sim/models/fairshare.h"

#include "core/util.h"

htc_status htc__fair_source_next(fair *m)
{
    struct fair_source              *s = &m->source;
    const htc_sim_fairshare_options *o = &m->options;
    htc_ns                           before = s->next.arrival;
    s->next = (htc_sim_fairshare_job){ .size = sizeof s->next };
    htc_status status = o->next_job(o->next_ctx, &s->next);
    s->waits = status == HTC_OK;
    if (status == HTC_AGAIN)
        return HTC_OK;
    if (status == HTC_OK && (s->next.user >= o->n_users || s->next.tasks == 0 || s->next.arrival < before || htc_scale_law_check(&s->next.length) != HTC_OK ||
                             s->next.tasks > UINT64_MAX / 2 - m->now.tasks))
        status = HTC_EINVAL;
    if (status == HTC_OK && o->policy == HTC_ALLOT_STATIC && !m->user[s->next.user].fixed)
        status = HTC_EINVAL;
    s->waits = status == HTC_OK;
    return status;
}

uint64_t htc__fair_source_arrival(const fair *m)
{
    return htc_scale_ticks(m->scale, m->source.next.arrival);
}

static int make_room(fair *m)
{
    size_t    room = m->jobs ? 2 * m->jobs : 64;
    fair_job *more = m->jobs < HTC_SIM_FAIRSHARE_JOBS_MAX ? htc__resize_raw(&m->env, m->job, m->jobs * sizeof *more, room * sizeof *more) : NULL;
    if (!more)
        return 0;
    m->job = more;
    m->jobs = room;
    return 1;
}

uint32_t htc__fair_source_take(fair *m)
{
    struct fair_source          *s = &m->source;
    const htc_sim_fairshare_job *j = &s->next;
    uint32_t                     place = s->free_job;
    if (place == FAIR_NONE && s->used == m->jobs && !make_room(m))
        return FAIR_NONE;
    if (place == FAIR_NONE)
        place = s->used++;
    else
        s->free_job = m->job[place].next;
    m->job[place] = (fair_job){ .user = j->user, .next = FAIR_NONE, .again = FAIR_NONE, .mean_s = j->length.mean_ns / 1e9, .tasks = j->tasks, .left = j->tasks,
                                .arrival = htc_scale_ticks(m->scale, j->arrival), .stream = htc__scale_stream(m->options.seed, s->given++),
                                .length = htc__scale_drawer_of(&j->length, m->options.tick_ns) };
    m->now.tasks += j->tasks;
    m->now.left += j->tasks;
    return place;
}

void htc__fair_job_ended(fair *m, fair_job *j)
{
    if (!m->options.next_job || --j->left)
        return;
    j->next = m->source.free_job;
    m->source.free_job = (uint32_t)(j - m->job);
}
