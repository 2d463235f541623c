/* Dynamic service provision, message by message: a runtime environment. When nodes are asked for and returned is decided by htc_provision_scan and htc_provision_check,
 * which job starts by htc_fit_next; what it asks for and gives back it tells the provider. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "core/order.h"
#include "core/util.h"
#include "sim/models/provision.h"
#include "sim/scenarios/provision_exact.h"

#define PEER     1 /* the provider */
#define YIELD    1 /* a call: answered when all that comes at this moment is there */
#define JOBS_MIN 256u

static int good(const exact_tre *e)
{
    return htc__twin_is_good(&e->x->t);
}

static htc_ns later(htc_ns at, htc_ns span)
{
    return span > HTC_NEVER - at ? HTC_NEVER : at + span;
}

/* ---- what is held ---- */

void htc__exact_tre_account(exact_tre *e)
{
    htc_ns now = htc__twin_now(&e->x->t), passed = now - e->then;
    e->held_ns += (exact_sum)e->held * passed;
    e->busy_ns += (exact_sum)e->busy * passed;
    e->then = e->x->changed = now;
}

/* How long it takes until one of them can be used. */
static htc_ns set_up(exact_tre *e, uint32_t assign, uint64_t nodes)
{
    htc_provision_change change = { 0 };
    htc_status           status = htc_provision_set_up(e->x->options.setup, assign, nodes, &change);
    if (status != HTC_OK)
        htc__twin_fail(&e->x->t, status, "the setup policy cannot be used");
    e->setup_ns = later(e->setup_ns, change.total_ns);
    *(assign ? &e->granted : &e->returned) += nodes;
    return e->x->options.setup_delay ? change.node_ns : 0;
}

static htc_ns hold(exact_tre *e, uint64_t nodes)
{
    exact *x = e->x;
    htc__exact_tre_account(e);
    e->held += nodes;
    e->peak = e->held > e->peak ? e->held : e->peak;
    x->held += nodes;
    x->peak = x->held > x->peak ? x->held : x->peak;
    return set_up(e, 1, nodes);
}

static htc_status release(exact_tre *e, htc_output *out, uint64_t nodes)
{
    htc__exact_tre_account(e);
    assert(nodes <= e->held);
    e->held -= nodes;
    e->x->held -= nodes;
    (void)set_up(e, 0, nodes);
    if (HTC__BROKEN(release_untold))
        return HTC_OK;
    htc__exact_transit(e->x, nodes, 0);
    return htc__exact_say(e->x, out, PEER, EXACT_RELEASE, e, nodes);
}

/* Granted: usable now, or when they are set up. */
static htc_status take_over(exact_tre *e, uint64_t nodes, htc_ns delay)
{
    htc_ns now = htc__twin_now(&e->x->t);
    if (!delay)
        return htc_fit_add_nodes(e->fit, now, (uint32_t)nodes);
    if (e->settings == e->settings_cap) {
        size_t         cap = e->settings_cap ? 2 * e->settings_cap : 16;
        exact_setting *grown = htc__resize_raw(&e->x->t.memory.env, e->setting, e->settings_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return HTC_ENOMEM;
        e->setting = grown;
        e->settings_cap = cap;
    }
    e->setting[e->settings++] = (exact_setting){ nodes, later(now, delay) };
    e->settling += nodes;
    return HTC_OK;
}

static void first_are_set_up(exact_tre *e)
{
    uint64_t nodes = e->setting[0].nodes, gone = nodes < e->cancelled ? nodes : e->cancelled;
    memmove(e->setting, e->setting + 1, --e->settings * sizeof *e->setting);
    e->settling -= nodes;
    e->cancelled -= gone;
    htc_status status = nodes > gone ? htc_fit_add_nodes(e->fit, htc__twin_now(&e->x->t), (uint32_t)(nodes - gone)) : HTC_OK;
    e->x->changed = htc__twin_now(&e->x->t);
    if (status != HTC_OK)
        htc__twin_fail(&e->x->t, status, "%llu nodes could not be added", (unsigned long long)(nodes - gone));
}

/* Idle nodes go back, and if these are too few, such as are being set up. */
static htc_status give_back(exact_tre *e, uint64_t nodes)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    uint64_t   idle = nodes < c.free ? nodes : c.free;
    htc_status status = idle ? htc_fit_remove_nodes(e->fit, htc__twin_now(&e->x->t), (uint32_t)idle) : HTC_OK;
    if (status == HTC_OK && nodes - idle > e->settling - e->cancelled)
        status = HTC_EINTERNAL;
    e->cancelled += nodes - idle;
    return status;
}

/* ---- jobs that wait and run ---- */

static int ends_before(const void *ctx, size_t a, size_t b)
{
    const exact_job *job = ctx;
    return job[a].ends != job[b].ends ? job[a].ends < job[b].ends : a < b;
}

static int more_jobs(exact_tre *e)
{
    size_t     cap = e->jobs_cap ? 2 * e->jobs_cap : JOBS_MIN;
    exact_job *job = e->jobs < e->x->options.active_max ? htc__resize_raw(&e->x->t.memory.env, e->job, e->jobs_cap * sizeof *job, cap * sizeof *job) : NULL;
    if (!job) {
        int full = e->jobs >= e->x->options.active_max;
        htc__twin_fail(&e->x->t, full ? HTC_EFULL : HTC_ENOMEM, full ? "more than %zu jobs wait and run at one time" : "no memory for %zu jobs", full ? e->x->options.active_max : cap);
        return 0;
    }
    e->job = job;
    e->jobs_cap = cap;
    return 1;
}

static size_t place(exact_tre *e)
{
    size_t j = e->free_job;
    if (j != SIZE_MAX)
        e->free_job = e->job[j].next;
    else if (e->jobs < e->jobs_cap || more_jobs(e))
        j = e->jobs++;
    return j;
}

static void forget(exact_tre *e, size_t j)
{
    e->job[j] = (exact_job){ .state = EXACT_FREE, .next = e->free_job };
    e->free_job = j;
}

static void start(exact_tre *e, size_t j)
{
    exact     *x = e->x;
    exact_job *job = &e->job[j];
    htc_ns     now = htc__twin_now(&x->t);
    if (e->running == e->ends_cap) {
        size_t *ends = htc__resize_raw(&x->t.memory.env, e->ends, e->ends_cap * sizeof *ends, e->jobs_cap * sizeof *ends);
        if (!ends) {
            htc__twin_fail(&x->t, HTC_ENOMEM, "no memory for %zu jobs", e->jobs_cap);
            return;
        }
        e->ends = ends;
        e->ends_cap = e->jobs_cap;
    }
    htc__exact_tre_account(e);
    e->wait_ns += now - job->at;
    e->started_ns += (exact_sum)job->nodes * job->length;
    job->at = now;
    job->ends = later(now, job->length);
    job->state = EXACT_RUNNING;
    e->busy += job->nodes;
    e->busy_peak = e->busy > e->busy_peak ? e->busy : e->busy_peak;
    x->busy += job->nodes;
    x->busy_peak = x->busy > x->busy_peak ? x->busy : x->busy_peak;
    e->waiting--;
    e->started++;
    x->started++;
    x->running++;
    x->worked = now;
    x->work_s += (double)job->length / 1e9;
    x->longest = job->length > x->longest ? job->length : x->longest;
    x->first_start = now < x->first_start ? now : x->first_start;
    size_t at = e->running++;
    for (; at > 0 && ends_before(e->job, j, e->ends[(at - 1) / 2]); at = (at - 1) / 2)
        e->ends[at] = e->ends[(at - 1) / 2];
    e->ends[at] = j;
}

static void end_first(exact_tre *e)
{
    exact     *x = e->x;
    size_t     j = e->ends[0];
    htc_status status = htc_fit_end(e->fit, htc__twin_now(&x->t), j);
    if (status != HTC_OK)
        htc__twin_fail(&x->t, status, "a job could not be ended: %s", htc_strerror(status));
    htc__exact_tre_account(e);
    e->busy -= e->job[j].nodes;
    x->busy -= e->job[j].nodes;
    e->completed++;
    x->completed++;
    x->running--;
    e->last = x->last_end = x->worked = e->then;
    e->ends[0] = e->ends[--e->running];
    htc__order_sink(e->ends, e->running, 0, ends_before, e->job);
    if (e->job[j].flow != EXACT_NONE)
        htc__exact_flow_done(e, e->job[j].flow, e->job[j].task);
    forget(e, j);
}

static void start_jobs(exact_tre *e)
{
    htc_fit_job job;
    htc_status  status = HTC_OK;
    while (good(e) && (status = htc_fit_next(e->fit, htc__twin_now(&e->x->t), &job)) == HTC_OK)
        start(e, (size_t)job.id);
    if (status == HTC_OK || status == HTC_AGAIN)
        return;
    htc__asked_fit_refused(&e->asked_order);
    htc__twin_fail(&e->x->t, status, "the scheduler answers: %s", htc_strerror(status));
}

/* ---- arrivals ---- */

static int next_job(exact_tre *e)
{
    htc_status status = e->taken < e->o.n_jobs ? HTC_OK : HTC_AGAIN;
    if (e->o.next_job) {
        e->next = (htc_sim_provision_job){ 0 };
        status = e->o.next_job(e->o.ctx, &e->next);
    } else if (status == HTC_OK) {
        e->next = e->o.jobs[e->taken];
    }
    if (status == HTC_OK && (e->next.nodes == 0 || e->next.arrival < e->before))
        status = HTC_EINVAL;
    if (status != HTC_OK && status != HTC_AGAIN)
        htc__twin_fail(&e->x->t, status, "job %zu of environment %u: %s", e->taken, e->number,
                        status != HTC_EINVAL ? htc_strerror(status) : e->next.nodes ? "it arrives before the one that came before it" : "it has no nodes");
    return status == HTC_OK;
}

static void take_next(exact_tre *e)
{
    int more = e->has_flows ? htc__exact_flow_next(e) : next_job(e);
    e->before = more ? e->has_flows ? e->next_flow.arrival : e->next.arrival : 0;
    e->to_come = more && (!e->o.period_ns || e->before < e->o.period_ns);
    e->taken += e->to_come;
    e->x->to_come += e->to_come;
}

void htc__exact_tre_queue(exact_tre *e, const htc_sim_provision_job *in, uint32_t flow, uint32_t task)
{
    htc_ns now = htc__twin_now(&e->x->t);
    size_t j = place(e);
    if (j == SIZE_MAX)
        return;
    e->job[j] = (exact_job){ .at = now, .length = in->length, .nodes = in->nodes, .state = EXACT_WAITING, .flow = flow, .task = task };
    e->waiting++;
    htc_status status = htc_fit_submit(e->fit, now, &(htc_fit_job){ .id = j, .estimate = in->estimate ? in->estimate : HTC_NEVER, .nodes = in->nodes, .priority = in->priority });
    if (status != HTC_OK)
        htc__twin_fail(&e->x->t, status, "a job could not be submitted: %s", htc_strerror(status));
}

static void arrive(exact_tre *e)
{
    htc_ns now = htc__twin_now(&e->x->t);
    e->first = e->first < now ? e->first : now;
    e->x->to_come--;
    e->x->worked = now;
    if (e->has_flows) {
        e->submitted += htc__exact_flow_arrives(e);
    } else {
        e->submitted++;
        if (e->next.nodes > e->x->options.capacity)
            e->refused++;
        else
            htc__exact_tre_queue(e, &e->next, EXACT_NONE, 0);
    }
    if (good(e))
        take_next(e);
}

/* ---- leases ---- */

static htc_provision_demand demand_of(const exact_tre *e)
{
    htc_fit_counts c;
    htc_fit_count(e->fit, &c);
    uint64_t nodes = c.waiting_nodes < HTC_PROVISION_NODES_MAX ? c.waiting_nodes : HTC_PROVISION_NODES_MAX; /* a book counts no more */
    return (htc_provision_demand){ .waiting_jobs = c.waiting, .waiting_nodes = nodes, .waiting_largest = c.widest, .running_nodes = c.busy };
}

static htc_status ask(exact_tre *e, htc_output *out, uint32_t type, uint64_t nodes)
{
    e->asking = 1;
    e->x->asking++;
    return htc__exact_say(e->x, out, PEER, type, e, nodes);
}

static htc_status look_at_leases(exact_tre *e, htc_output *out)
{
    htc_provision_demand d = demand_of(e);
    htc_provision_order  order;
    htc_ns               now = htc__twin_now(&e->x->t);
    htc_status           status = htc_provision_check(e->book, now, &d, &order);
    if (status == HTC_OK)
        status = give_back(e, order.nodes);
    if (status == HTC_OK)
        return release(e, out, order.nodes);
    if (status != HTC_AGAIN)
        htc__twin_fail(&e->x->t, status, "a look at the leases answers: %s", htc_strerror(status));
    return HTC_OK;
}

/* The look at leases comes after the answer, if that comes at the same moment. */
static htc_status look_at_queue(exact_tre *e, htc_output *out)
{
    htc_provision_demand d = demand_of(e);
    htc_provision_order  order;
    htc_status           status;
    if (e->asking && HTC__BROKEN(answer_unawaited))
        return look_at_leases(e, out);
    if (e->asking) {
        e->yielding = 1;
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = YIELD });
    }
    status = htc_provision_scan(e->book, htc__twin_now(&e->x->t), &d, &order);
    e->x->scans++;
    if (status == HTC_OK)
        return ask(e, out, EXACT_REQUEST, order.nodes);
    if (status != HTC_AGAIN)
        htc__twin_fail(&e->x->t, status, "a scan answers: %s", htc_strerror(status));
    return good(e) ? look_at_leases(e, out) : HTC_OK;
}

/* ---- its end ---- */

static void leave_jobs(exact_tre *e)
{
    htc_ns now = htc__twin_now(&e->x->t);
    for (size_t j = 0; j < e->jobs; j++) {
        const exact_job *job = &e->job[j];
        if (job->state == EXACT_RUNNING)
            e->cut_ns += (exact_sum)job->nodes * (job->ends - now);
        else if (job->state == EXACT_WAITING)
            e->wait_ns += now - job->at;
    }
    e->left_waiting = e->waiting;
    e->left_running = e->running;
    e->left_blocked = htc__exact_flow_blocked(e);
}

static void close_book(exact_tre *e)
{
    htc_provision_usage u = { 0 };
    htc_ns              now = htc__twin_now(&e->x->t);
    uint64_t            nodes = 0, held_s = (uint64_t)(e->held_ns / HTC_SECOND);
    htc_status          status = htc_provision_end(e->book, now, &nodes);
    if (status == HTC_OK)
        status = htc_provision_usage_at(e->book, now, &u);
    if (status != HTC_OK || nodes != e->held || u.node_seconds != held_s || u.granted != u.returned || u.granted != e->granted)
        htc__twin_fail(&e->x->t, status != HTC_OK ? status : HTC_EINTERNAL, "the book of environment %u does not agree: %llu nodes, %llu held; %llu node seconds, %llu counted", e->number,
                        (unsigned long long)nodes, (unsigned long long)e->held, (unsigned long long)u.node_seconds, (unsigned long long)held_s);
    e->units = u.node_units;
    e->requests = u.requests;
    e->rejected = u.rejected;
    htc_provision_destroy(e->book);
    e->book = NULL;
}

static htc_status end(exact_tre *e, htc_output *out)
{
    exact *x = e->x;
    htc__exact_tre_account(e);
    leave_jobs(e);
    close_book(e);
    e->ended = 1;
    x->live--;
    x->to_come -= e->to_come;
    x->bounded -= e->o.period_ns > 0;
    x->running -= e->running;
    x->busy -= e->busy;
    e->to_come = 0;
    e->busy = e->waiting = e->running = 0;
    e->settings = 0;
    htc_fit_destroy(e->fit);
    e->fit = NULL;
    return e->held ? release(e, out, e->held) : HTC_OK;
}

/* Nothing runs, nothing comes, no other will end by its period, and for two units nothing but scans has happened, or for many that nodes came and went: its jobs
 * would wait for ever. */
static int is_hopeless(const exact_tre *e)
{
    const exact *x = e->x;
    int          in_vain = htc__prov_in_vain(htc__twin_now(&x->t), x->changed, x->worked, e->unit, e->book_options.scan_ns);
    return !e->o.period_ns && !x->running && !x->to_come && !x->bounded && in_vain;
}

static int is_over(const exact_tre *e)
{
    return !e->o.period_ns && !e->to_come && e->completed + e->refused == e->submitted;
}

/* ---- the machine ---- */

static void begin(exact_tre *e)
{
    htc_status status = htc_provision_create(&e->x->t.memory.env, &e->book_options, 0, &e->book);
    if (status != HTC_OK)
        htc__twin_fail(&e->x->t, status, "the book of environment %u: %s", e->number, htc_strerror(status));
    e->begun = 1;
    take_next(e);
}

/* All that is due, in the order of the model: ends of jobs, the end of the environment, arrivals, the scheduler, the queue, the leases. look: the queue has been looked
 * at before, and its request is answered, or this moment has passed without an answer. */
static htc_status go_on(exact_tre *e, htc_output *out, int look)
{
    htc_ns now = htc__twin_now(&e->x->t);
    if (!e->begun)
        begin(e);
    while (good(e) && e->running && e->job[e->ends[0]].ends <= now)
        end_first(e);
    while (good(e) && e->settings && e->setting[0].at <= now)
        first_are_set_up(e);
    if (good(e) && e->o.period_ns && now >= e->o.period_ns)
        return end(e, out);
    while (good(e) && e->to_come && e->before <= now)
        arrive(e);
    if (good(e))
        htc__exact_flow_tell(e);
    if (good(e) && is_over(e))
        return end(e, out);
    if (good(e))
        start_jobs(e);
    if (!good(e))
        return HTC_OK;
    if (look)
        return look_at_leases(e, out);
    if (e->yielding || htc_provision_deadline(e->book) > now)
        return HTC_OK;
    htc_status status = look_at_queue(e, out);
    return status == HTC_OK && good(e) && is_hopeless(e) ? end(e, out) : status;
}

/* *look is set if nodes were granted or refused. */
static htc_status answered(exact_tre *e, htc_output *out, htc_bytes body, int *look)
{
    htc_provision_request q;
    uint32_t              type;
    exact                *x = e->x;
    htc_ns                delay = 0;
    if (!htc__exact_hear(x, body, &type, &q))
        return HTC_OK;
    if (type != EXACT_ANSWER || q.id != e->number || !e->asking) {
        htc__twin_fail(&x->t, HTC_EINTERNAL, "environment %u is told what it has not asked", e->number);
        return HTC_OK;
    }
    e->asking = 0;
    x->asking--;
    htc__exact_transit(x, 0, q.nodes);
    if (q.nodes)
        delay = hold(e, q.nodes);
    if (x->t.begin == HTC_NEVER)
        x->ready++;
    if (e->ended && q.nodes && !HTC__BROKEN(late_nodes_kept)) /* too late */
        return release(e, out, q.nodes);
    if (!e->begun || e->ended)
        return HTC_OK;
    htc_status status = htc_provision_granted(e->book, htc__twin_now(&x->t), q.nodes);
    e->starved |= status == HTC_AGAIN;
    if (status >= HTC_OK && q.nodes)
        status = take_over(e, q.nodes, delay);
    if (status < HTC_OK)
        htc__twin_fail(&x->t, status, "a grant answers: %s", htc_strerror(status));
    *look = 1;
    return HTC_OK;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    exact_tre *e = self;
    exact     *x = e->x;
    htc_status status = HTC_OK;
    int        look = 0;
    if (!good(e))
        return HTC_OK;
    if (in->kind == HTC_IN_OPENED)
        return ask(e, out, EXACT_APPLY, e->initial);
    if (in->kind == HTC_IN_MESSAGE) {
        status = answered(e, out, in->body, &look);
    } else if (in->kind == HTC_IN_RESULT) {
        e->yielding = 0;
        look = e->asking > 0;
    }
    if (status != HTC_OK || e->ended || x->t.begin == HTC_NEVER || in->now < x->t.begin)
        return status;
    return go_on(e, out, look);
}

static htc_ns deadline(const void *self)
{
    const exact_tre *e = self;
    const exact     *x = e->x;
    htc_ns           at = HTC_NEVER;
    if (e->ended || x->t.begin == HTC_NEVER || !good(e))
        return HTC_NEVER;
    if (!e->begun)
        return x->t.begin;
    if (!e->yielding)
        at = htc_provision_deadline(e->book);
    if (e->running && e->job[e->ends[0]].ends < at)
        at = e->job[e->ends[0]].ends;
    if (e->settings && e->setting[0].at < at)
        at = e->setting[0].at;
    if (e->to_come && e->before < at)
        at = e->before;
    if (e->o.period_ns && e->o.period_ns < at)
        at = e->o.period_ns;
    return later(x->t.begin, at);
}

const htc_machine_ops htc__exact_tre_ops = { .size = sizeof(htc_machine_ops), .step = step, .deadline = deadline };

/* ---- what must hold ---- */

void htc__exact_tre_verify(exact_tre *e)
{
    htc_fit_counts      c = { 0 };
    htc_provision_usage u = { 0 };
    exact              *x = e->x;
    if (!e->begun || e->ended || !good(e))
        return;
    htc_fit_count(e->fit, &c);
    if (htc_provision_usage_at(e->book, htc__twin_now(&x->t), &u) != HTC_OK || u.owned != e->held || c.nodes + e->settling - e->cancelled != e->held || c.busy != e->busy || e->busy > e->held)
        htc__twin_fail(&x->t, HTC_EINTERNAL, "nodes are not conserved: %llu are held, %llu in the book, %u in the scheduler, %u busy, and jobs run on %llu", (unsigned long long)e->held,
                        (unsigned long long)u.owned, c.nodes, c.busy, (unsigned long long)e->busy);
    if (c.waiting != e->waiting || c.running != e->running || e->submitted != e->completed + e->refused + e->waiting + e->running + htc__exact_flow_blocked(e))
        htc__twin_fail(&x->t, HTC_EINTERNAL, "jobs are not conserved: %llu were submitted, %llu have ended, %llu wait and %zu run", (unsigned long long)e->submitted,
                        (unsigned long long)e->completed, (unsigned long long)e->waiting, e->running);
}

/* ---- open and close ---- */

htc_status htc__exact_tre_open(exact *x, size_t i)
{
    exact_tre                     *e = &x->tre[i];
    htc_sim_provision_environment *o = &e->o;
    htc_provision_usage            u;
    htc_status                     status = htc__options_at(o, sizeof *o, x->options.environments, i, offsetof(htc_sim_provision_environment, next_job));
    if (status == HTC_OK && o->book)
        status = htc__options_copy(&e->book_options, sizeof e->book_options, o->book, o->book->size, sizeof(size_t));
    if (status == HTC_OK && ((o->jobs != NULL) + (o->next_job != NULL) + (o->flows != NULL) + (o->next_flow != NULL) > 1 || (o->n_jobs && !o->jobs) || (o->n_flows && !o->flows) ||
                             o->period_ns == HTC_NEVER))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "environment %zu cannot be: %s", i, status == HTC_EINVAL ? "a number is out of range, or there is more than one workload" : htc_strerror(status));
    e->x = x;
    e->number = (uint32_t)i;
    e->first = e->last = HTC_NEVER;
    e->free_job = SIZE_MAX;
    e->book_options.size = sizeof e->book_options;
    e->has_flows = o->flows || o->next_flow;
    e->book_options.kind = e->has_flows ? HTC_PROVISION_MTC : HTC_PROVISION_HTC;
    e->book_options.scan_ns = e->book_options.scan_ns ? e->book_options.scan_ns : (e->has_flows ? 3 : 60) * HTC_SECOND;
    e->unit = e->book_options.unit_ns ? e->book_options.unit_ns : 3600 * HTC_SECOND;
    if (e->book_options.scan_ns <= 2 * (x->costs.latency_ns + x->costs.jitter_ns) + x->costs.gather_ns)
        return htc__twin_refuse(&x->t, HTC_EINVAL, "environment %zu looks at its queue every %.6g s, and an answer of the provider takes up to %.6g s", i, (double)e->book_options.scan_ns / 1e9,
                                 (double)(2 * (x->costs.latency_ns + x->costs.jitter_ns) + x->costs.gather_ns) / 1e9);
    status = htc_provision_create(&x->t.memory.env, &e->book_options, 0, &e->book); /* to know its initial nodes: its own is opened when it begins */
    if (status == HTC_OK)
        status = htc_provision_usage_at(e->book, 0, &u);
    htc_provision_destroy(e->book);
    e->book = NULL;
    if (status == HTC_OK && u.owned > UINT32_MAX)
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "environment %zu cannot be: %s", i, status == HTC_EINVAL ? "a number of its book is out of range" : htc_strerror(status));
    e->initial = u.owned;
    status = htc_fit_create(&x->t.memory.env, &(htc_fit_options){ .size = sizeof(htc_fit_options), .policy = htc__asked_fit(&e->asked_order, o->fit ? o->fit : &x->policies[e->has_flows], x->answer),
                                                         .jobs_max = x->options.active_max, .nodes = (uint32_t)e->initial },
                            &e->fit);
    return status == HTC_OK ? HTC_OK : htc__twin_refuse(&x->t, status, "environment %zu cannot be: %s", i, htc_strerror(status));
}

void htc__exact_tre_close(exact_tre *e)
{
    if (!e->x)
        return;
    htc_provision_destroy(e->book);
    htc_fit_destroy(e->fit);
    htc__free(&e->x->t.memory.env, e->job, e->jobs_cap * sizeof *e->job);
    htc__free(&e->x->t.memory.env, e->ends, e->ends_cap * sizeof *e->ends);
    htc__free(&e->x->t.memory.env, e->setting, e->settings_cap * sizeof *e->setting);
    htc__exact_flow_close(e);
}
