/* Fair sharing of one cluster: what happens at an event. Who gets and gives cores is htc_allot_plan's decision. */
#include "sim/models/fairshare.h"

#include <assert.h>

static uint32_t id_of(const fair *m, uint32_t what)
{
    return (uint32_t)m->options.cores + what;
}

/* ---- time that is nobody's ---- */

static void count_idle(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    if (m->wanting && m->free)
        m->idle += (now - m->then) * m->free;
    m->then = now;
}

/* Agents that will take a task when they are there: those that are marked leave first. */
static uint64_t starting_of(const fair *m, uint32_t u)
{
    uint64_t starting = m->user[u].starting, marked = m->view[u].draining;
    return starting > marked ? starting - marked : 0;
}

/* Tasks of the user that no agent is on its way to. */
static uint64_t wanting_of(const fair *m, uint32_t u)
{
    uint64_t queued = m->view[u].queued, starting = starting_of(m, u);
    return queued > starting ? queued - starting : 0;
}

/* ---- division ---- */

/* As soon as it may be; everything that happens until then is divided for at once. */
static void divide_soon(fair *m)
{
    uint64_t now = htc_scale_now(m->scale), at = m->divisions && m->divided_at + m->gap > now ? m->divided_at + m->gap : now;
    if (m->will_divide)
        return;
    m->will_divide = 1;
    htc_scale_at(m->scale, at, id_of(m, FAIR_DIVIDE));
}

static void launch(fair *m, uint32_t u, uint64_t n)
{
    uint64_t now = htc_scale_now(m->scale);
    for (; n; n--) {
        uint32_t c = m->free_core;
        assert(m->free > 0);
        m->free_core = m->core[c];
        m->free--;
        m->core[c] = FAIR_STARTING | u;
        m->user[u].starting++;
        m->user[u].agents_started++;
        m->user[u].held_since += now;
        m->view[u].agents++;
        m->view[u].last_served = ++m->served;
        htc_scale_at(m->scale, now + m->launch, c);
    }
}

static void divide(fair *m)
{
    size_t n = m->options.n_users;
    m->will_divide = 0;
    m->divided_at = htc_scale_now(m->scale);
    m->divisions++;
    for (size_t u = 0; u < n; u++)
        m->view[u].starting = starting_of(m, (uint32_t)u);
    htc_status status = htc_allot_plan(&m->env, &m->allot, m->view, n, m->options.cores, m->free, m->change);
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
        return;
    }
    m->wanting = 0;
    for (size_t u = 0; u < n; u++) {
        const htc_allot_change *change = &m->change[u];
        htc_allot_user         *v = &m->view[u];
        v->draining -= change->undrain;
        v->agents += change->undrain;
        launch(m, (uint32_t)u, change->grant);
        v->agents -= change->drain;
        v->draining += change->drain;
        m->wanting += wanting_of(m, (uint32_t)u);
        if (change->undrain || change->grant || change->drain) {
            htc_scale_mark(m->scale, (uint64_t)u << 40 ^ change->undrain << 20 ^ change->grant);
            htc_scale_mark(m->scale, (uint64_t)u << 40 ^ UINT64_C(1) << 63 ^ change->drain);
        }
    }
}

/* ---- agents ---- */

static void set_free(fair *m, uint32_t c, uint32_t u)
{
    m->user[u].held_since -= htc_scale_now(m->scale);
    m->core[c] = m->free_core;
    m->free_core = c;
    m->free++;
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
    fair_user *user = &m->user[u];
    uint32_t   j = user->first;
    fair_job  *job = &m->job[j];
    uint64_t   length = htc__scale_drawer_ticks(&job->length, htc__scale_draw(job->stream, job->begun++));
    if (job->begun == job->tasks)
        user->first = job->next;
    user->work += length;
    m->queued--;
    m->running++;
    m->view[u].running++;
    m->view[u].last_served = ++m->served;
    if (--m->view[u].queued == 0)
        divide_soon(m);
    m->core[c] = j;
    htc_scale_start(m->scale, c, delay, length);
}

/* An agent without a task: it leaves if its user has to give a core or has no tasks that wait. */
static void next_task(fair *m, uint32_t c, uint32_t u, uint64_t delay)
{
    htc_allot_user *v = &m->view[u];
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
    m->running--;
    m->left--;
    m->view[job->user].running--;
    user->ended++;
    user->response += now - job->arrival;
    user->last_end = now;
    next_task(m, c, job->user, m->pull);
}

static void core_event(fair *m, uint32_t c)
{
    uint32_t word = m->core[c], at = word & (FAIR_STARTING | FAIR_LEAVING), u = at ? word & ~at : m->job[word].user;
    uint64_t wanted = wanting_of(m, u);
    if (at == FAIR_STARTING) {
        m->user[u].starting--;
        next_task(m, c, u, 0);
    } else if (at == FAIR_LEAVING) {
        set_free(m, c, u);
    } else {
        task_ends(m, c, &m->job[word]);
    }
    m->wanting += wanting_of(m, u) - wanted;
}

/* ---- jobs ---- */

static void arrive(fair *m, uint32_t j)
{
    fair_job  *job = &m->job[j];
    fair_user *user = &m->user[job->user];
    uint64_t   wanted = wanting_of(m, job->user);
    if (user->first == FAIR_NONE)
        user->first = j;
    else
        m->job[user->last].next = j;
    user->last = j;
    if (user->tasks == 0)
        user->submitted = job->arrival;
    user->tasks += job->tasks;
    m->queued += job->tasks;
    m->view[job->user].queued += job->tasks;
    m->wanting += wanting_of(m, job->user) - wanted;
    htc_scale_submit(m->scale, job->tasks);
}

static void next_arrival(fair *m)
{
    if (m->arrived < m->options.n_jobs)
        htc_scale_at(m->scale, m->job[m->arrivals[m->arrived]].arrival, id_of(m, FAIR_ARRIVAL));
}

static void arrivals(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    while (m->arrived < m->options.n_jobs && m->job[m->arrivals[m->arrived]].arrival == now)
        arrive(m, (uint32_t)m->arrivals[m->arrived++]);
    next_arrival(m);
    divide_soon(m);
}

/* ---- samples ---- */

/* Jain's index: 1 if all have the same for their weight, 1/n if one has all. */
static void add_fairness(fair *m)
{
    double   sum = 0, squares = 0;
    uint64_t n = 0;
    for (size_t u = 0; u < m->options.n_users; u++)
        if (m->view[u].queued) {
            double x = (double)m->held[u] / (double)m->view[u].weight;
            sum += x;
            squares += x * x;
            n++;
        }
    if (squares > 0) {
        m->fairness += sum * sum / ((double)n * squares);
        m->samples++;
    }
}

static void take_sample(fair *m)
{
    for (size_t u = 0; u < m->options.n_users; u++)
        m->held[u] = m->view[u].agents + m->view[u].draining;
    add_fairness(m);
    if (m->options.sample)
        m->options.sample(m->options.sample_ctx,
                          &(htc_sim_fairshare_sample){ .size = sizeof(htc_sim_fairshare_sample), .at = htc_scale_now(m->scale) * m->options.tick_ns, .queued = m->queued,
                                                       .running = m->running, .ended = m->tasks - m->left, .cores = m->held, .n_users = m->options.n_users });
    if (m->left)
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
