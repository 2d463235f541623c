/* Fair sharing of one cluster: what happens at an event. Who gets and gives cores is htc_allot_plan's decision. */
#include "sim/models/fairshare.h"

#include <assert.h>

static uint32_t id_of(const fair *m, uint32_t what)
{
    return (uint32_t)m->options.cores + what;
}

/* ---- users that have something ---- */

static htc_allot_user *view_of(const fair *m, uint32_t u)
{
    assert(m->user[u].at < m->now.views);
    return &m->view[m->user[u].at];
}

static void enter(fair *m, uint32_t u)
{
    fair_user *user = &m->user[u];
    if (user->at != FAIR_NONE)
        return;
    user->at = (uint32_t)m->now.views++;
    m->view[user->at] = (htc_allot_user){ .weight = user->weight, .last_served = user->last_served, .arrival = m->now.entered++, .id = u, .fixed = user->fixed };
}

/* The last view takes the place of one that is needed no more. */
static void drop_empty_views(fair *m)
{
    for (size_t i = m->now.views; i-- > 0;) {
        const htc_allot_user *v = &m->view[i];
        if (v->queued || v->running || v->agents || v->draining)
            continue;
        m->user[v->id].at = FAIR_NONE;
        m->user[v->id].last_served = v->last_served;
        m->view[i] = m->view[--m->now.views];
        if (i < m->now.views)
            m->user[m->view[i].id].at = (uint32_t)i;
    }
}

/* ---- time that is nobody's ---- */

static void count_idle(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    if (m->now.wanting && m->now.free)
        m->now.idle += (now - m->now.then) * m->now.free;
    m->now.then = now;
}

/* Agents that will take a task when they are there: those that are marked leave first. */
static uint64_t starting_of(const fair *m, uint32_t u)
{
    uint64_t starting = m->user[u].starting, marked = view_of(m, u)->draining;
    return starting > marked ? starting - marked : 0;
}

/* Tasks of the user that no agent is on its way to. */
static uint64_t wanting_of(const fair *m, uint32_t u)
{
    uint64_t queued = view_of(m, u)->queued, starting = starting_of(m, u);
    return queued > starting ? queued - starting : 0;
}

/* ---- division ---- */

/* As soon as it may be; everything that happens until then is divided for at once. */
static void divide_soon(fair *m)
{
    uint64_t now = htc_scale_now(m->scale), at = m->now.divisions && m->now.divided_at + m->gap > now ? m->now.divided_at + m->gap : now;
    if (m->now.will_divide)
        return;
    m->now.will_divide = 1;
    htc_scale_at(m->scale, at, id_of(m, FAIR_DIVIDE));
}

static void launch(fair *m, uint32_t u, uint64_t n)
{
    uint64_t        now = htc_scale_now(m->scale);
    htc_allot_user *v = view_of(m, u);
    for (; n; n--) {
        uint32_t c = m->now.free_core;
        assert(m->now.free > 0);
        m->now.free_core = m->core[c];
        m->now.free--;
        m->core[c] = FAIR_STARTING | u;
        m->user[u].starting++;
        m->user[u].agents_started++;
        m->user[u].cores++;
        m->user[u].held_since += now;
        v->agents++;
        v->last_served = ++m->now.served;
        htc_scale_at(m->scale, now + m->launch, c);
    }
}

static void divide(fair *m)
{
    drop_empty_views(m);
    m->now.will_divide = 0;
    m->now.divided_at = htc_scale_now(m->scale);
    m->now.divisions++;
    m->now.wanting = 0;
    for (size_t i = 0; i < m->now.views; i++)
        m->view[i].starting = starting_of(m, (uint32_t)m->view[i].id);
    htc_status status = htc_allot_plan(&m->env, &m->allot, m->view, m->now.views, m->options.cores, m->now.free, m->change);
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
        return;
    }
    for (size_t i = 0; i < m->now.views; i++) {
        const htc_allot_change *change = &m->change[i];
        htc_allot_user         *v = &m->view[i];
        v->draining -= change->undrain;
        v->agents += change->undrain;
        launch(m, (uint32_t)v->id, change->grant);
        v->agents -= change->drain;
        v->draining += change->drain;
        m->now.wanting += wanting_of(m, (uint32_t)v->id);
        if (change->undrain || change->grant || change->drain) {
            htc_scale_mark(m->scale, v->id << 40 ^ change->undrain << 20 ^ change->grant);
            htc_scale_mark(m->scale, v->id << 40 ^ UINT64_C(1) << 63 ^ change->drain);
        }
    }
}

/* ---- agents ---- */

static void set_free(fair *m, uint32_t c, uint32_t u)
{
    m->user[u].cores--;
    m->user[u].held_since -= htc_scale_now(m->scale);
    m->core[c] = m->now.free_core;
    m->now.free_core = c;
    m->now.free++;
    divide_soon(m);
}

static void leave(fair *m, uint32_t c, uint32_t u)
{
    if (m->leave == 0) {
        set_free(m, c, u);
        return;
    }
    m->core[c] = FAIR_LEAVING | u;
    htc_scale_at(m->scale, htc_scale_now(m->scale) + m->leave, c);
}

static void run_task(fair *m, uint32_t c, uint32_t u, uint64_t delay)
{
    htc_allot_user *v = view_of(m, u);
    fair_user      *user = &m->user[u];
    uint32_t        j = user->first;
    fair_job       *job = &m->job[j];
    uint64_t        length = htc__scale_drawer_ticks(&job->length, htc__scale_draw(job->stream, job->begun++));
    if (job->begun == job->tasks)
        user->first = job->next;
    user->work += length;
    m->now.queued--;
    m->now.running++;
    v->running++;
    v->last_served = ++m->now.served;
    if (--v->queued == 0)
        divide_soon(m);
    m->core[c] = j;
    htc_scale_start(m->scale, c, delay, length);
}

/* An agent without a task: it leaves if its user has to give a core or has no tasks that wait. */
static void next_task(fair *m, uint32_t c, uint32_t u, uint64_t delay)
{
    htc_allot_user *v = view_of(m, u);
    if (v->draining) {
        v->draining--;
        leave(m, c, u);
    } else if (v->queued == 0) {
        v->agents--;
        leave(m, c, u);
    } else {
        run_task(m, c, u, delay);
    }
}

static void task_ends(fair *m, uint32_t c, const fair_job *job)
{
    fair_user *user = &m->user[job->user];
    uint64_t   now = htc_scale_now(m->scale);
    htc_scale_end(m->scale);
    m->now.running--;
    m->now.left--;
    view_of(m, job->user)->running--;
    user->ended++;
    user->response += now - job->arrival;
    user->last_end = now;
    next_task(m, c, job->user, m->pull);
}

static void core_event(fair *m, uint32_t c)
{
    uint32_t word = m->core[c], at = word & (FAIR_STARTING | FAIR_LEAVING), u = at ? word & ~at : m->job[word].user;
    if (at == FAIR_LEAVING) { /* the user may have nothing else any more */
        set_free(m, c, u);
        return;
    }
    uint64_t wanted = wanting_of(m, u);
    if (at == FAIR_STARTING) {
        m->user[u].starting--;
        next_task(m, c, u, 0);
    } else {
        task_ends(m, c, &m->job[word]);
    }
    m->now.wanting += wanting_of(m, u) - wanted;
}

/* ---- jobs ---- */

static void arrive(fair *m, uint32_t j)
{
    fair_job  *job = &m->job[j];
    fair_user *user = &m->user[job->user];
    enter(m, job->user);
    uint64_t wanted = wanting_of(m, job->user);
    if (user->first == FAIR_NONE)
        user->first = j;
    else
        m->job[user->last].next = j;
    user->last = j;
    if (user->tasks == 0)
        user->submitted = job->arrival;
    user->tasks += job->tasks;
    m->now.queued += job->tasks;
    view_of(m, job->user)->queued += job->tasks;
    m->now.wanting += wanting_of(m, job->user) - wanted;
    htc_scale_submit(m->scale, job->tasks);
}

static void next_arrival(fair *m)
{
    if (m->now.arrived < m->options.n_jobs)
        htc_scale_at(m->scale, m->job[m->arrivals[m->now.arrived]].arrival, id_of(m, FAIR_ARRIVAL));
}

static void arrivals(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    while (m->now.arrived < m->options.n_jobs && m->job[m->arrivals[m->now.arrived]].arrival == now)
        arrive(m, (uint32_t)m->arrivals[m->now.arrived++]);
    next_arrival(m);
    divide_soon(m);
}

/* ---- samples ---- */

/* Jain's index: 1 if all have the same for their weight, 1/n if one has all. */
static void add_fairness(fair *m)
{
    double   sum = 0, squares = 0;
    uint64_t n = 0;
    for (size_t i = 0; i < m->now.views; i++)
        if (m->view[i].queued) {
            double x = (double)m->user[m->view[i].id].cores / (double)m->view[i].weight;
            sum += x;
            squares += x * x;
            n++;
        }
    if (squares > 0) {
        m->now.fairness += sum * sum / ((double)n * squares);
        m->now.samples++;
    }
}

static void take_sample(fair *m)
{
    add_fairness(m);
    for (size_t u = 0; u < m->options.n_users; u++)
        m->held[u] = m->user[u].cores;
    if (m->options.sample)
        m->options.sample(m->options.sample_ctx,
                          &(htc_sim_fairshare_sample){ .size = sizeof(htc_sim_fairshare_sample), .at = htc_scale_now(m->scale) * m->options.tick_ns, .queued = m->now.queued,
                                                       .running = m->now.running, .ended = m->now.tasks - m->now.left, .cores = m->held, .n_users = m->options.n_users });
    if (m->now.left)
        htc_scale_at(m->scale, htc_scale_now(m->scale) + m->sample, id_of(m, FAIR_SAMPLE));
}

/* ---- all ---- */

void htc__fair_event(htc_scale *scale, void *ctx, uint32_t id)
{
    fair *m = ctx;
    (void)scale;
    count_idle(m);
    if (id < m->options.cores)
        core_event(m, id);
    else if (id == id_of(m, FAIR_ARRIVAL))
        arrivals(m);
    else if (id == id_of(m, FAIR_DIVIDE))
        divide(m);
    else
        take_sample(m);
}

void htc__fair_begin(fair *m)
{
    next_arrival(m);
    if (m->sample)
        htc_scale_at(m->scale, 0, id_of(m, FAIR_SAMPLE));
}
