/* Fair sharing of clusters: what a checkpoint says can be. Each core is free or somebody's, and what users and views count is what cores and jobs have. */
#include "sim/models/checked.h"
#include "sim/models/fairshare.h"

typedef struct tally {
    uint64_t starting, running, leaving, queued;
} tally;

typedef struct audit {
    const fair    *m;
    const uint8_t *events;
    tally         *tally;   /* of each user */
    checked_lists  cores, jobs, attempts;
    uint64_t       running, others; /* tasks as the state counts them; cores */
} audit;

/* ---- cores ---- */

static uint32_t user_of_attempt(const fair *m, uint32_t a)
{
    return m->job[m->attempt[a].job].user;
}

/* One that is not free. */
static int core_can_be(audit *a, uint64_t *others, uint32_t c)
{
    const fair *m = a->m;
    uint32_t    word = m->core[c], state = word & FAIR_STATE, number = word & ~FAIR_STATE, u = number;
    int         attempt = state == FAIR_DYING || state == FAIR_MISSED, job = state == 0 || state == FAIR_WRITES;
    if (state > FAIR_WRITES || a->events[c] != 1)
        return 0;
    if (state == FAIR_OTHERS) {
        ++*others;
        return number == 0;
    }
    if (attempt && !htc__checked_take(&a->attempts, number))
        return 0;
    if (job && number >= m->options.n_jobs)
        return 0;
    u = attempt ? user_of_attempt(m, number) : job ? m->job[number].user : number;
    if (u >= m->options.n_users)
        return 0;
    a->tally[u].starting += state == FAIR_STARTING || state == FAIR_HELD;
    a->tally[u].leaving += state == FAIR_LEAVING;
    a->tally[u].running += job || attempt || state == FAIR_RECORDS;
    a->running += job || attempt;
    return 1;
}

/* Its free cores are those that it counts, one after the other. */
static int cluster_can_be(audit *a, const fair_cluster *k)
{
    const fair *m = a->m;
    uint64_t    others = 0;
    if (k->free > k->cores || k->taken > k->batch)
        return 0;
    for (uint64_t n = k->free, c = k->free_core; n; n--, c = m->core[c])
        if (c < k->base || c >= k->base + k->cores || !htc__checked_take(&a->cores, (uint32_t)c) || a->events[c])
            return 0;
    for (uint64_t c = k->base; c < k->base + k->cores; c++)
        if (!htc__checked_was_taken(&a->cores, (uint32_t)c) && !core_can_be(a, &others, (uint32_t)c))
            return 0;
    a->others += others;
    return others == k->others;
}

static int cores_can_be(audit *a)
{
    const fair *m = a->m;
    for (size_t i = 0; i < m->options.n_clusters; i++)
        if (!cluster_can_be(a, &m->cluster[i]))
            return 0;
    return a->cores.found == m->now.free && a->others == m->now.others && a->running == m->now.running;
}

/* ---- jobs ---- */

static int attempts_can_be(audit *a)
{
    const fair *m = a->m;
    for (uint64_t i = 0; i < m->now.attempts; i++)
        if (m->attempt[i].job >= m->options.n_jobs)
            return 0;
    return htc__checked_list(&a->attempts, m->now.free_attempt, NULL, NULL);
}

/* Those of a user that wait are in its list. */
static int lists_can_be(audit *a)
{
    const fair *m = a->m;
    for (size_t u = 0; u < m->options.n_users; u++) {
        uint32_t last = FAIR_NONE;
        if (!htc__checked_list(&a->jobs, m->user[u].first, &last, NULL) || (last != FAIR_NONE && last != m->user[u].last))
            return 0;
        for (uint32_t j = m->user[u].first; j != FAIR_NONE; j = m->job[j].next)
            if (m->job[j].user != u)
                return 0;
    }
    return 1;
}

static int jobs_can_be(audit *a)
{
    const fair *m = a->m;
    uint64_t    queued = 0, later = 0;
    if (!lists_can_be(a))
        return 0;
    for (size_t i = 0; i < m->options.n_jobs; i++) {
        uint32_t        number = (uint32_t)m->arrivals[i];
        const fair_job *j = &m->job[number];
        uint64_t        again = 0, waiting;
        int             came = i < m->now.arrived;
        if (j->begun > j->tasks || j->cluster >= m->options.n_clusters || !htc__checked_list(&a->attempts, j->again, NULL, &again))
            return 0;
        waiting = j->tasks - j->begun + again;
        if ((came ? waiting > 0 : 0) != htc__checked_was_taken(&a->jobs, number) || (!came && (j->begun || again)))
            return 0;
        queued += came ? waiting : 0;
        later += came ? 0 : j->tasks;
        a->tally[j->user].queued += came ? waiting : 0;
    }
    return queued == m->now.queued && m->now.left == queued + later + m->now.running;
}

/* ---- users ---- */

static int users_can_be(const audit *a)
{
    const fair *m = a->m;
    for (size_t i = 0; i < m->now.views; i++)
        if (m->view[i].id >= m->options.n_users || m->user[m->view[i].id].at != i)
            return 0;
    for (size_t u = 0; u < m->options.n_users; u++) {
        const fair_user      *user = &m->user[u];
        const tally          *t = &a->tally[u];
        uint64_t              agents = t->starting + t->running;
        const htc_allot_user *v = user->at < m->now.views ? &m->view[user->at] : NULL;
        if ((user->at != FAIR_NONE && (!v || v->id != u)) || (!v && (agents || t->queued)) || user->starting != t->starting || user->cores != agents + t->leaving)
            return 0;
        if (v && (v->queued != t->queued || v->running != t->running || v->draining > agents || v->agents != agents - v->draining ||
                  (m->options.direct && (v->draining || t->queued < t->starting))))
            return 0;
    }
    return 1;
}

/* ---- all ---- */

static int events_can_be(const audit *a)
{
    const fair    *m = a->m;
    const uint8_t *of = a->events + m->options.cores;
    if (of[FAIR_ARRIVAL] != (m->now.arrived < m->options.n_jobs) || of[FAIR_DIVIDE] != (m->now.will_divide == 1) || m->now.will_divide > 1 || of[FAIR_SAMPLE] > (m->sample > 0))
        return 0;
    for (size_t i = 0; m->have_others && i < m->options.n_clusters; i++)
        if (of[FAIR_IDS + i] > (m->cluster[i].others_gap.a > 0))
            return 0;
    return !m->weighed || a->events[m->weigh_id] <= 1;
}

htc_status htc__fair_read_can_be(const fair *m, const uint8_t *events)
{
    size_t     users = m->options.n_users;
    audit      a = { .m = m, .events = events, .tally = htc__alloc(&m->env, users * sizeof *a.tally) };
    htc_status status = htc__checked_open(&a.cores, &m->env, m->core, sizeof *m->core, m->options.cores);
    if (status == HTC_OK)
        status = htc__checked_open(&a.jobs, &m->env, m->job ? &m->job->next : NULL, sizeof *m->job, m->options.n_jobs);
    if (status == HTC_OK)
        status = htc__checked_open(&a.attempts, &m->env, m->attempt ? &m->attempt->next : NULL, sizeof *m->attempt, m->now.attempts);
    if (!a.tally)
        status = HTC_ENOMEM;
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, attempts_can_be(&a), "lost tasks");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, cores_can_be(&a), "cores");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, jobs_can_be(&a), "jobs");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, users_can_be(&a), "users");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, events_can_be(&a), "events");
    htc__free(&m->env, a.tally, users * sizeof *a.tally);
    htc__checked_close(&a.cores);
    htc__checked_close(&a.jobs);
    htc__checked_close(&a.attempts);
    return status;
}
