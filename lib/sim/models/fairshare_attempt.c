/* Fair sharing of clusters: tasks whose agents die, and which begin again before all others of their user. */
#include "sim/models/fairshare.h"

#include "core/util.h"

uint64_t htc__fair_begin_again(fair *m, fair_job *j)
{
    uint32_t a = j->again;
    j->again = m->attempt[a].next;
    m->attempt[a].next = m->now.free_attempt;
    m->now.free_attempt = a;
    return m->attempt[a].number;
}

/* Room for n of them. */
htc_status htc__fair_attempts_room(fair *m, uint64_t n)
{
    size_t        room = m->attempts ? 2 * m->attempts : 64;
    fair_attempt *more = NULL;
    if (n <= m->attempts)
        return HTC_OK;
    room = room < n ? n : room;
    if (n >= FAIR_STARTING || !(more = htc__resize_raw(&m->env, m->attempt, m->attempts * sizeof *more, room * sizeof *more)))
        return HTC_ENOMEM;
    m->attempt = more;
    m->attempts = room;
    return HTC_OK;
}

uint32_t htc__fair_attempt(fair *m, uint32_t job, uint64_t number)
{
    uint32_t a = m->now.free_attempt;
    if (a == FAIR_NONE) {
        if (htc__fair_attempts_room(m, m->now.attempts + 1) != HTC_OK)
            return FAIR_NONE;
        a = (uint32_t)m->now.attempts++;
    } else {
        m->now.free_attempt = m->attempt[a].next;
    }
    m->attempt[a] = (fair_attempt){ .job = job, .next = FAIR_NONE, .number = number, .begun = htc_scale_now(m->scale) };
    return a;
}

/* What the agent has done is lost at once, but its user's number of agents and tasks stays until it is missed. */
void htc__fair_dies(fair *m, uint32_t core, uint32_t attempt)
{
    fair_cluster *k = htc__fair_cluster_of(m, core);
    k->died++;
    k->lost += htc_scale_now(m->scale) - m->attempt[attempt].begun;
    m->core[core] = FAIR_MISSED | attempt;
    if (k->batch <= 1)
        htc__fair_noted(m, k);
    htc_scale_at(m->scale, htc_scale_now(m->scale) + m->lost, core);
}

/* Its job is in front of the user's others, whether it is among them or not. */
static void put_in_front(fair *m, uint32_t j)
{
    fair_job  *job = &m->job[j];
    fair_user *user = &m->user[job->user];
    if (user->first == j)
        return;
    if (htc__fair_waits(job)) { /* it is further behind: taken out there */
        uint32_t before = user->first;
        while (m->job[before].next != j)
            before = m->job[before].next;
        m->job[before].next = job->next;
        if (user->last == j)
            user->last = before;
    }
    job->next = user->first;
    if (user->first == FAIR_NONE)
        user->last = j;
    user->first = j;
}

void htc__fair_missed(fair *m, uint32_t core, uint32_t attempt)
{
    uint32_t        j = m->attempt[attempt].job, u = m->job[j].user;
    htc_allot_user *v = htc__fair_view(m, u);
    put_in_front(m, j);
    m->attempt[attempt].next = m->job[j].again;
    m->job[j].again = attempt;
    m->now.running--;
    m->now.queued++;
    v->running--;
    v->queued++;
    if (v->draining)
        v->draining--;
    else
        v->agents--;
    htc__fair_set_free(m, core, u);
}
