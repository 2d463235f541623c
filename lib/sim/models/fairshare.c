/* Fair sharing of clusters: what happens at an event. Who gets and gives cores is htc_allot_plan's decision. */
#include "sim/models/fairshare.h"

#include <assert.h>

static uint32_t id_of(const fair *m, uint32_t what)
{
    return (uint32_t)m->options.cores + what;
}

/* ---- users that have something ---- */

htc_allot_user *htc__fair_view(const fair *m, uint32_t u)
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
    uint64_t starting = m->user[u].starting, marked = htc__fair_view(m, u)->draining;
    return starting > marked ? starting - marked : 0;
}

/* Tasks of the user that no agent is on its way to. */
static uint64_t wanting_of(const fair *m, uint32_t u)
{
    uint64_t queued = htc__fair_view(m, u)->queued, starting = starting_of(m, u);
    return queued > starting ? queued - starting : 0;
}

/* ---- division ---- */

/* As soon as it may be; everything that happens until then is divided for at once. */
void htc__fair_divide_soon(fair *m)
{
    uint64_t now = htc_scale_now(m->scale), at = m->now.divisions && m->now.divided_at + m->gap > now ? m->now.divided_at + m->gap : now;
    if (m->now.will_divide)
        return;
    m->now.will_divide = 1;
    htc_scale_at(m->scale, at, id_of(m, FAIR_DIVIDE));
}

static void launch(fair *m, uint32_t u, uint64_t n)
{
    uint64_t        now = htc_scale_now(m->scale), starts;
    uint32_t        c, where = n && m->options.direct ? m->job[m->user[u].first].cluster : FAIR_NONE;
    htc_allot_user *v = htc__fair_view(m, u);
    for (; n && htc__fair_submit(m, u, where, &c, &starts); n--) {
        m->core[c] = FAIR_STARTING | u;
        m->user[u].starting++;
        m->user[u].agents_started++;
        m->user[u].cores++;
        m->user[u].held_since += now;
        v->agents++;
        v->last_served = ++m->now.served;
        htc_scale_at(m->scale, starts + m->launch, c);
    }
}

/* By what the unfinished tasks will take, as the gateway does it: their number times the mean run time of the user's tasks so far, or of all users'. */
static htc_status weigh(fair *m)
{
    double sum = 0, known = 0;
    for (size_t i = 0; i < m->now.views; i++) {
        const htc_allot_profile *runs = &m->user[m->view[i].id].runs;
        known += runs->count > 0;
        sum += runs->mean_s;
    }
    for (size_t i = 0; i < m->now.views; i++) {
        const htc_allot_user *v = &m->view[i];
        const fair_user      *user = &m->user[v->id];
        m->priority[i] = user->weight;
        m->amount[i] = (double)(v->queued + v->running) * (user->runs.count ? user->runs.mean_s : known > 0 ? sum / known : 0);
    }
    htc_status status = htc_allot_profiled(&m->env, m->priority, m->amount, m->now.views, m->options.gamma, m->weighed);
    for (size_t i = 0; status == HTC_OK && i < m->now.views; i++)
        m->view[i].weight = m->weighed[i];
    return status;
}

/* What a weigher is told of a user. Cores count as used when they are divided. */
static htc_allot_facts facts_of(const fair *m, const htc_allot_user *v, htc_ns now)
{
    fair_user *user = &m->user[v->id];
    uint64_t   held = user->cores * htc_scale_now(m->scale) - user->held_since, weight = (user->weight + HTC_ALLOT_WEIGHT_ONE / 2) / HTC_ALLOT_WEIGHT_ONE;
    (void)htc_allot_usage_add(&user->usage, (double)(held - user->counted) * (double)m->options.tick_ns / 1e9, now, m->options.half_life_ns);
    user->counted = held;
    return (htc_allot_facts){ .priority = weight ? weight : 1, .tasks = v->queued + v->running, .profile = user->runs, .usage = user->usage };
}

static htc_status ask_weigher(fair *m)
{
    htc_ns             now = (htc_ns)htc_scale_now(m->scale) * m->options.tick_ns;
    htc_allot_weighing how = { .size = sizeof how, .now = now, .half_life_ns = m->options.half_life_ns, .gamma = m->options.gamma };
    for (size_t i = 0; i < m->now.views; i++)
        m->facts[i] = facts_of(m, &m->view[i], now);
    htc_status status = htc_allot_weigh(&m->env, m->options.weigher, &how, m->facts, m->now.views, m->weighed, NULL);
    for (size_t i = 0; status == HTC_OK && i < m->now.views; i++)
        m->view[i].weight = m->weighed[i];
    return status;
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
    htc_status status = m->facts ? ask_weigher(m) : m->weighed ? weigh(m) : HTC_OK;
    if (status == HTC_OK)
        status = htc_allot_plan(&m->env, &m->allot, m->view, m->now.views, m->options.cores - m->now.others, m->now.free, m->change);
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

void htc__fair_set_free(fair *m, uint32_t c, uint32_t u)
{
    m->user[u].cores--;
    m->user[u].held_since -= htc_scale_now(m->scale);
    htc__fair_free_core(m, c);
}

static void leave(fair *m, uint32_t c, uint32_t u)
{
    fair_cluster *k = htc__fair_cluster_of(m, c);
    if (k->batch <= 1)
        htc__fair_noted(m, k);
    if (m->leave == 0) {
        htc__fair_set_free(m, c, u);
        return;
    }
    m->core[c] = FAIR_LEAVING | u;
    htc_scale_at(m->scale, htc_scale_now(m->scale) + m->leave, c);
}

static void begin_task(fair *m, uint32_t c, uint32_t j, uint64_t number, uint64_t delay)
{
    fair_job     *job = &m->job[j];
    fair_cluster *k = htc__fair_cluster_of(m, c);
    uint64_t      length = htc__fair_length(k, htc__scale_drawer_ticks(&job->length, htc__scale_draw(job->stream, number)));
    uint64_t      life = m->may_die ? htc__fair_life(m, k) : UINT64_MAX;
    if (life < delay + length) {
        uint32_t attempt = htc__fair_attempt(m, j, number);
        if (attempt == FAIR_NONE) {
            htc_scale_fail(m->scale, HTC_ENOMEM);
            return;
        }
        m->core[c] = FAIR_DYING | attempt;
        htc_scale_at(m->scale, htc_scale_now(m->scale) + life, c);
        return;
    }
    if (m->options.direct)
        htc_scale_submit(m->scale, 1);
    m->user[job->user].work += length;
    k->ended++;
    k->work += length;
    m->core[c] = j;
    if (m->begun)
        m->begun[c] = htc_scale_now(m->scale) + delay;
    htc_scale_start(m->scale, c, delay, length);
}

/* The first task of the user that waits is taken. */
static uint64_t take_task(fair *m, uint32_t u, uint32_t *j)
{
    htc_allot_user *v = htc__fair_view(m, u);
    fair_user      *user = &m->user[u];
    fair_job       *job = &m->job[*j = user->first];
    uint64_t        number = job->again == FAIR_NONE ? job->begun++ : htc__fair_begin_again(m, job);
    if (!htc__fair_waits(job))
        user->first = job->next;
    m->now.queued--;
    if (--v->queued == 0)
        htc__fair_divide_soon(m);
    return number;
}

static void run_task(fair *m, uint32_t c, uint32_t u, uint64_t delay)
{
    htc_allot_user *v = htc__fair_view(m, u);
    uint32_t        j;
    uint64_t        number = take_task(m, u, &j);
    m->now.running++;
    v->running++;
    v->last_served = ++m->now.served;
    begin_task(m, c, j, number, m->options.records ? delay + htc__fair_recorded(m) : delay);
}

/* An agent without a task: it leaves if its user has to give a core or has no tasks that wait. */
static void next_task(fair *m, uint32_t c, uint32_t u, uint64_t delay)
{
    htc_allot_user *v = htc__fair_view(m, u);
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

/* The agent may go on. */
static void after_task(fair *m, uint32_t c, uint32_t u)
{
    htc_allot_user *v = htc__fair_view(m, u);
    v->running--;
    if (m->options.direct) { /* a task was a job */
        v->agents--;
        leave(m, c, u);
    } else {
        next_task(m, c, u, m->pull);
    }
}

static void task_ends(fair *m, uint32_t c, fair_job *job)
{
    fair_user *user = &m->user[job->user];
    uint64_t   now = htc_scale_now(m->scale);
    m->now.running--;
    m->now.left--;
    user->ended++;
    user->response += now - job->arrival;
    user->last_end = now;
    if (m->begun)
        (void)htc_allot_profile_add(&user->runs, (double)(now - m->begun[c]) * (double)m->options.tick_ns / 1e9);
    uint32_t u = job->user;
    htc__fair_job_ended(m, job);
    if (m->options.records) {
        m->core[c] = FAIR_RECORDS | u;
        htc_scale_at(m->scale, now + htc__fair_recorded(m), c);
    } else {
        after_task(m, c, u);
    }
}

/* The batch system starts the agent, or holds it: then it is cancelled later. A task that is held stays so. */
static void agent_starts(fair *m, uint32_t c, uint32_t u)
{
    fair_cluster *k = htc__fair_cluster_of(m, c);
    uint32_t      j;
    if (!htc__fair_held(m, k)) {
        m->user[u].starting--;
        next_task(m, c, u, 0);
    } else if (m->options.direct) {
        m->user[u].starting--;
        htc__fair_view(m, u)->agents--;
        (void)take_task(m, u, &j);
        m->user[u].held++;
        m->now.held++;
        m->now.left--;
        htc__fair_job_ended(m, &m->job[j]);
        htc__fair_set_free(m, c, u);
    } else {
        m->core[c] = FAIR_HELD | u;
        htc_scale_at(m->scale, htc_scale_now(m->scale) + m->held, c);
    }
}

static void agent_cancelled(fair *m, uint32_t c, uint32_t u)
{
    htc_allot_user *v = htc__fair_view(m, u);
    m->user[u].starting--;
    if (v->draining)
        v->draining--;
    else
        v->agents--;
    htc__fair_set_free(m, c, u);
}

static void core_event(fair *m, uint32_t c)
{
    uint32_t word = m->core[c], state = word & FAIR_STATE, number = word & ~FAIR_STATE;
    if (state == FAIR_WRITES) { /* its task has ended at last */
        word = number;
        state = 0;
    } else if (!state) {
        htc_scale_end(m->scale);
    }
    if (!(m->core[c] & FAIR_STATE) && m->output) {
        m->core[c] = FAIR_WRITES | word;
        htc_scale_at(m->scale, htc_scale_now(m->scale) + htc__fair_written(m), c);
        return;
    }
    int attempt = state == FAIR_DYING || state == FAIR_MISSED;
    if (state == FAIR_OTHERS) {
        htc__fair_others_end(m, c);
        return;
    }
    uint32_t u = state && !attempt ? number : m->job[attempt ? m->attempt[number].job : number].user;
    if (state == FAIR_LEAVING) { /* the user may have nothing else any more */
        htc__fair_set_free(m, c, u);
        return;
    }
    uint64_t wanted = wanting_of(m, u);
    if (state == FAIR_STARTING)
        agent_starts(m, c, u);
    else if (state == FAIR_HELD)
        agent_cancelled(m, c, u);
    else if (state == FAIR_RECORDS)
        after_task(m, c, u);
    else if (state == FAIR_DYING)
        htc__fair_dies(m, c, number);
    else if (state == FAIR_MISSED)
        htc__fair_missed(m, c, number);
    else
        task_ends(m, c, &m->job[word]);
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
    if (m->options.estimated && user->runs.count == 0)
        (void)htc_allot_profile_add(&user->runs, job->mean_s);
    if (user->tasks == 0)
        user->submitted = job->arrival;
    user->tasks += job->tasks;
    m->now.queued += job->tasks;
    htc__fair_view(m, job->user)->queued += job->tasks;
    m->now.wanting += wanting_of(m, job->user) - wanted;
    if (m->options.direct)
        job->cluster = htc__fair_roomiest(m);
    else
        htc_scale_submit(m->scale, job->tasks);
}

static void next_arrival(fair *m)
{
    if (m->options.next_job && m->source.waits)
        htc_scale_at(m->scale, htc__fair_source_arrival(m), id_of(m, FAIR_ARRIVAL));
    else if (!m->options.next_job && m->now.arrived < m->options.n_jobs)
        htc_scale_at(m->scale, m->job[m->arrivals[m->now.arrived]].arrival, id_of(m, FAIR_ARRIVAL));
}

/* All that come now; what the source refuses ends the run. */
static void arrivals_of_source(fair *m)
{
    htc_status status = HTC_OK;
    while (status == HTC_OK && m->source.waits && htc__fair_source_arrival(m) == htc_scale_now(m->scale)) {
        uint32_t j = htc__fair_source_take(m);
        status = j == FAIR_NONE ? HTC_ENOMEM : HTC_OK;
        if (status == HTC_OK) {
            arrive(m, j);
            status = htc__fair_source_next(m);
        }
    }
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
}

static void arrivals(fair *m)
{
    uint64_t now = htc_scale_now(m->scale);
    if (m->options.next_job)
        arrivals_of_source(m);
    while (m->now.arrived < m->options.n_jobs && m->job[m->arrivals[m->now.arrived]].arrival == now)
        arrive(m, (uint32_t)m->arrivals[m->now.arrived++]);
    next_arrival(m);
    htc__fair_divide_soon(m);
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
        m->samples[u] = m->user[u].cores;
    if (m->options.sample)
        m->options.sample(m->options.sample_ctx,
                          &(htc_sim_fairshare_sample){ .size = sizeof(htc_sim_fairshare_sample), .at = htc_scale_now(m->scale) * m->options.tick_ns, .queued = m->now.queued,
                                                       .running = m->now.running, .ended = m->now.tasks - m->now.left, .cores = m->samples, .n_users = m->options.n_users });
    if (htc__fair_more(m))
        htc_scale_at(m->scale, htc_scale_now(m->scale) + m->sample, id_of(m, FAIR_SAMPLE));
}

/* ---- all ---- */

static void weigh_again(fair *m)
{
    htc__fair_divide_soon(m);
    if (htc__fair_more(m))
        htc_scale_at(m->scale, htc_scale_now(m->scale) + m->weigh, m->weigh_id);
}

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
    else if (id == id_of(m, FAIR_SAMPLE))
        take_sample(m);
    else if (m->weighed && id == m->weigh_id)
        weigh_again(m);
    else
        htc__fair_others_come(m, id - id_of(m, FAIR_IDS));
}

void htc__fair_begin(fair *m)
{
    next_arrival(m);
    if (m->sample)
        htc_scale_at(m->scale, 0, id_of(m, FAIR_SAMPLE));
    htc__fair_others_begin(m);
    if (m->weighed)
        htc_scale_at(m->scale, m->weigh, m->weigh_id);
}
