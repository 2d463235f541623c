/* Pull, grant, result, verdict.
 *
 * An attempt's number is written into the chunk record before its grant leaves, and a result counts only while that very
 * (attempt, agent) holds the task there: that is the fence. Whatever else arrives is told HTC_MISMATCH and forgotten. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/script.h"
#include "roles/gateway/gateway.h"

#define GIVEN_BACK_FREE 2 /* a task that ran, without being charged */

/* ---- may it run at all, and here ---- */

/* A seat at another user's flow would run that user's tasks, and could cancel them. */
static int is_own_flow(const htc_gateway *gw, const user *u, const htc_task *t, uint64_t *flow)
{
    uint32_t number = strcmp(u->name, gw->owner_name) == 0 ? 0 : u->uid;
    if (!t->executable || strcmp(t->executable, HTC_FLOW_EXECUTABLE) != 0 || t->n_args != 1)
        return 1;
    *flow = strtoull(t->args[0], NULL, 10);
    return HTC_FLOW_USER(*flow) == number;
}

double htc__gw_job_task_wall(const job *j, const htc_task *t, uint32_t level)
{
    const raised *up = htc__gw_raised(j, level);
    return up && up->time_limit_s > 0 ? up->time_limit_s : j->time_limit_s > 0 ? j->time_limit_s : (double)t->limits.wall / (double)HTC_SECOND;
}

void htc__gw_task_limits(const job *j, const htc_task *t, uint32_t level, htc_limits *limits)
{
    const raised *up = htc__gw_raised(j, level);
    if (j->time_limit_s > 0 || (up && up->time_limit_s > 0))
        limits->wall = (htc_ns)(htc__gw_job_task_wall(j, t, level) * 1e9);
    if (j->memory || (up && up->memory))
        limits->memory = up && up->memory ? up->memory : j->memory;
}

htc_status htc__gw_fits(htc_gateway *gw, const job *j, const htc_task *t, uint32_t level, char *why, size_t cap)
{
    uint64_t flow = 0;
    if (!is_own_flow(gw, j->user, t, &flow)) {
        snprintf(why, cap, "asks for a seat at flow %llu, which is not a flow of %s", (unsigned long long)flow, j->user->name);
        return HTC_EDENIED;
    }
    if (flow && htc__gw_shared(gw)) {
        snprintf(why, cap, "asks for a seat at a flow, and hosts that join do not reach the store of a system with db.store");
        return HTC_ENOFIT;
    }
    counted_need taking;
    htc__counted_need(&taking, t->resources, t->n_resources);
    task_width width = htc__gw_task_width(t);
    if (width.members > 1 && width.members > htc__gw_gang_most(gw, width.part, NULL)) {
        snprintf(why, cap, "asks for %u core%s on each of %u nodes, and no site has more than %u such node%s", width.part, htc__plural(width.part), width.members,
                 htc__gw_gang_most(gw, width.part, NULL), htc__plural(htc__gw_gang_most(gw, width.part, NULL)));
        return HTC_ETOOBIG;
    }
    machine_wish asks = { 0 };
    if (htc__machine_wish_set(&gw->env, &asks, t) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading which machine a task asks for");
    site_wish wish = { .counts = &taking, .asks = htc__machine_wish_any(&asks) ? &asks : NULL, .memory = htc__gw_job_task_memory(j, t, level),
                       .cores = width.part, .wall_s = htc__gw_job_task_wall(j, t, level) };
    htc_status status = htc__site_fits(&wish, gw->site_nodes, gw->n_sites, (double)gw->options.task_wall_max_ns / 1e9, why, cap);
    htc__machine_wish_free(&gw->env, &asks);
    uint32_t most = status == HTC_OK && width.members > 1 && taking.n ? htc__gw_gang_most(gw, width.part, &taking) : UINT32_MAX;
    if (width.members > most) {
        snprintf(why, cap, "asks for %u of %s on each of %u nodes, and no site has that for more than %u", taking.of[0].count, taking.of[0].name, width.members, most);
        status = HTC_ETOOBIG;
    }
    return status;
}

void htc__gw_node_seen(htc_gateway *gw, const char *name)
{
    if (htc__nodes_seen(&gw->nodes, &gw->env, name) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a node");
}

int htc__gw_node_aside(const htc_gateway *gw, const char *name, htc_ns *until)
{
    return htc__nodes_aside(&gw->nodes, name, gw->now, until);
}

static void judge_node(htc_gateway *gw, const agent *a, const htc_outcome *o)
{
    node_news news;
    uint32_t  users;
    if (o->status != HTC_OK && o->final)
        return;
    htc_ns ran = o->ended > o->started ? o->ended - o->started : 0;
    if (htc__nodes_ended(&gw->nodes, &gw->env, a->node, a->user->name, htc__health_status(o->status, o->final), ran, gw->now, &news, &users) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a node");
    if (news != NODE_SAME)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("node", a->node), HTC__TEXT("user", a->user->name)),
                      "node %s failed %u tasks of %s fast in a row", a->node, HEALTH_LIMIT, a->user->name);
    if (news == NODE_SET_ASIDE)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("node", a->node)),
                      "node %s fails the tasks of %u users -> set aside for %u s", a->node, users, (unsigned)(NODE_ASIDE / HTC_SECOND));
}

/* ---- grants ---- */

typedef struct on_durable {
    uint64_t    agent, grant;
    uint32_t    peer;
    htc_attempt attempt;
    htc_status  status;
} on_durable;

static void grant_durable(void *role, void *ctx, htc_status status);

static htc_runtime_waiter *wait_with(htc_gateway *gw, void (*fn)(void *, void *, htc_status), on_durable values)
{
    on_durable *d = htc_runtime_context(gw->runtime, sizeof *d);
    if (!d)
        return NULL;
    *d = values;
    htc_runtime_waiter *w = htc_runtime_waiter_new(gw->runtime, fn, d);
    if (!w)
        htc_runtime_context_free(gw->runtime, d);
    return w;
}

void htc__gw_grant_with(htc_gateway *gw, chunk *c, const agent *a)
{
    htc__gw_chunk_dirty(gw, c, wait_with(gw, grant_durable, (on_durable){ .agent = a->id, .grant = a->grant }));
}

static void grant_durable(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    on_durable d = *(on_durable *)ctx;
    agent     *a = htc__gw_agent(gw, d.agent);
    htc_runtime_context_free(gw->runtime, ctx);
    if (status != HTC_OK || !a || a->grant != d.grant || a->grant_pending == 0 || --a->grant_pending > 0)
        return;
    assert(a->last_grant.len || a->last_grant.status != HTC_OK);
    htc_runtime_send(gw->runtime, a->peer, &a->last_grant);
}

/* Note how a task ended that no agent will ever run. */
static void fail_unrun(htc_gateway *gw, job *j, chunk *c, uint32_t offset, htc_status status, const char *reason)
{
    htc_outcome o = { .status = status };
    htc_buf     b;
    task       *t = &c->tasks[offset];
    snprintf(o.reason, sizeof o.reason, "%s", reason);
    t->attempt++;
    t->status = status;
    htc_buf_init(&b, &gw->env, 0);
    htc__gw_record_result_write(&b, &o);
    htc__gw_chunk_put(gw, c, htc__gw_key_result(j->id, c->index * CHUNK_TASKS + offset, t->attempt), &b);
    htc_buf_free(&b);
    htc__gw_task_set(gw, c, offset, TASK_FAILED);
    htc__gw_account(gw, j, "-", (day_sums){ .failed = 1 });
    htc__gw_chunk_dirty(gw, c, NULL);
}

typedef enum leased { LEASED = 1, LEASED_NOT_YET, LEASED_NEVER } leased;

/* Lease one task to the agent and append it to the grant; or there is no room for it yet, or it can never run and has failed. */
static leased lease(htc_gateway *gw, agent *a, job *j, chunk *c, uint32_t offset, htc_granted *g)
{
    htc_error error = { 0 };
    char      why[256];
    htc_task *t = NULL;
    uint64_t  index = c->index * CHUNK_TASKS + offset;
    htc_status status = htc_spec_task(j->spec, index, &t, &error);
    if (status == HTC_ENOMEM) {
        htc_runtime_break(gw->runtime, status, "expanding a task");
        return LEASED_NEVER;
    }
    if (status != HTC_OK) {
        fail_unrun(gw, j, c, offset, status, error.text);
        return LEASED_NEVER;
    }
    status = htc__gw_fits(gw, j, t, c->tasks[offset].level, why, sizeof why);
    if (status != HTC_OK) {
        htc_task_destroy(t);
        fail_unrun(gw, j, c, offset, status, why);
        return LEASED_NEVER;
    }
    uint64_t     asked = htc__gw_job_task_memory(j, t, c->tasks[offset].level);
    uint32_t     slots = t->limits.cores > 1 ? t->limits.cores : 1;
    counted_need taking;
    htc__counted_need(&taking, t->resources, t->n_resources);
    if (!htc__gw_wide_takes(gw, a, j, slots) || !htc__gw_memory_fits(gw, a, j, asked, slots) || !htc__gw_counted_fits(gw, a->site, j, &taking) ||
        htc__counted_lacks(&gw->sites[a->site].counted, j->id, &taking)) {
        htc_task_destroy(t);
        return LEASED_NOT_YET;
    }
    htc_attempt at = { j->id, index, c->tasks[offset].attempt + 1 };
    uint64_t    reserving = htc__site_needs(&gw->sites[a->site], asked, slots);
    task_hold      *k = htc__gw_take(gw, a->site, &at, &taking);
    if (k && gw->sites[a->site].memory.total)
        k->memory = reserving;
    char        devices[3 * COUNTED_DEVICES_MAX];
    htc__counted_devices(k ? k->devices : 0, devices, sizeof devices);
    htc_task copy = *t;
    copy.devices = devices[0] ? devices : NULL;
    copy.credentials = htc__gw_credentials_of(j, t);
    htc__gw_task_limits(j, t, c->tasks[offset].level, &copy.limits);
    memset(g, 0, sizeof *g);
    size_t       bytes = 0;
    const char **env = htc__gw_end_env(gw, j, t->env, &copy.n_env, &bytes);
    copy.env = env ? env : copy.env;
    status = htc_task_to_bytes(&gw->env, &copy, &g->task);
    htc__free(&gw->env, env, bytes);
    htc_task_destroy(t);
    if (status != HTC_OK) {
        htc__gw_taken_end(gw, k);
        htc_runtime_break(gw->runtime, status, "writing a task");
        return LEASED_NEVER;
    }
    task  *its = &c->tasks[offset];
    htc_ns waited = htc__gw_job_waited(gw, j, its);
    assert(its->state == TASK_NEW || its->state == TASK_WAITING); /* else two agents would run it */
    assert(j->user == a->user && !j->cancelled && !j->paused && !j->waits && !j->early);
    its->attempt++;
    its->agent = a->id;
    its->phase = HTC_HELD_WAITING;
    htc__gw_taken_note(gw, c, a->id, k);
    htc__gw_wide_handed(gw, j, slots);
    htc__gw_job_taken(gw, j, index);
    htc__gw_task_set(gw, c, offset, TASK_LEASED);
    g->attempt = at;
    g->count = j->count;
    g->compat = j->compat;
    if (j->wishes.signal[0])
        htc_signal_parse(j->wishes.signal, &g->signal, &g->signal_s);
    snprintf(g->user, sizeof g->user, "%s", j->user->name);
    j->user->project = j->project;
    htc__gw_use(c, (usage){ .attempts = 1 });
    htc__gw_account(gw, j, gw->sites[a->site].name, (day_sums){ .begun = 1, .wait_ns = waited });
    htc__gw_job_handed(gw, j, a->site);
    if (!j->started) {
        j->started = gw->wall;
        htc__gw_job_dirty(gw, j, NULL);
    }
    if (htc__gw_agent_hold(gw, a, &g->attempt, a->grant, reserving, slots)) {
        a->held[a->n_held - 1].taken = k;
        return LEASED;
    }
    htc__gw_taken_end(gw, k);
    htc_work_free(&gw->env, g->task);
    return LEASED_NEVER;
}

/* For a slot one task at a time, or as many as run in a tenth of a second: then handing out costs little, and none is hoarded. */
static uint32_t batch_of_slot(const htc_gateway *gw, const user *u)
{
    uint32_t max = gw->options.prefetch_max ? gw->options.prefetch_max : 64, n = 1;
    double   mean_s = u->runs.mean_s;
    if (u->runs.count && mean_s < 0.1)
        n = mean_s < 0.1 / 64 ? 64 : (uint32_t)(0.1 / mean_s + 0.999);
    uint64_t share = htc__gw_queued(u) / ((uint64_t)(u->agents ? u->agents : 1) * 2);
    if (n > share)
        n = share ? (uint32_t)share : 1;
    return n < max ? n : max;
}

#define LONG_S 2.0 /* a task: one that waited at an agent could have begun elsewhere */

/* An agent of several slots gets what fills them, and as much again of those that are not long. 0: it holds what it may, since it is to have fewer slots
 * or because none is handed out ahead. */
static uint32_t batch_size(const htc_gateway *gw, const agent *a, uint32_t want)
{
    uint32_t slots = htc__gw_slots_may_fill(a), n = batch_of_slot(gw, a->user);
    if ((a->want < a->n_slots || gw->options.prefetch_max == 1) && a->held_slots >= slots)
        return 0;
    if (a->n_slots > 1) {
        uint64_t most = (uint64_t)slots * (n + 1), idle = slots > a->held_slots ? slots - a->held_slots : 0;
        if (gw->options.prefetch_max == 1 || !a->user->runs.count || a->user->runs.mean_s > LONG_S)
            most = slots; /* none ahead */
        most = most > a->held_slots ? most - a->held_slots : 1;
        most = most < (uint64_t)slots * n ? most : (uint64_t)slots * n;
        most = most > idle ? most : idle;
        n = most < HTC_AGENT_HELD_MAX ? (uint32_t)most : HTC_AGENT_HELD_MAX;
    }
    if (n > want)
        n = want ? want : 1;
    return n < HTC_AGENT_HELD_MAX ? n : HTC_AGENT_HELD_MAX;
}

static void answer_pull(htc_gateway *gw, agent *a, uint32_t kind, htc_ns retry_ns)
{
    htc_grant *m = htc__alloc(&gw->env, sizeof *m);
    if (!m) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "answering a pull");
        return;
    }
    m->seq = a->pull_seq;
    m->kind = kind;
    m->retry_ns = retry_ns;
    htc_grant_write(&a->last_grant, m);
    htc__free(&gw->env, m, sizeof *m);
    a->grant_pending = 0;
    htc_runtime_send(gw->runtime, a->peer, &a->last_grant);
}

#define GRANT_BYTES_MAX ((size_t)4 << 20) /* of tasks, from which on no further one is added: a grant is one message */
#define UNFIT_AT_ONCE 256 /* tasks that are found unfit in one step; more wait for the next pull */

#define OLD_STAYS (60 * HTC_SECOND) /* then the next one that is launched may be of this version */

/* It has nothing to do because it is of an earlier version. Whoever is launched in its place may be so too: that does not begin at once. */
static int too_old(const htc_gateway *gw, const agent *a)
{
    int looks = 100;
    if (gw->shutdown || a->state != AGENT_READY || a->draining || a->stop || gw->now >= a->since + OLD_STAYS)
        return 0;
    for (const job *j = a->user->ready; j && looks--; j = j->ready_next)
        if (!htc__gw_job_readable(j, a) && htc__gw_job_may(gw, j, a->site))
            return 1;
    return 0;
}

void htc__gw_pull(htc_gateway *gw, agent *a, const htc_pull *m)
{
    htc_ns until;
    if (m->seq < a->pull_seq)
        return;
    if (m->seq == a->pull_seq) {
        if (a->last_grant.len && a->grant_pending == 0)
            htc_runtime_send(gw->runtime, a->peer, &a->last_grant);
        return;
    }
    if (gw->phase != PHASE_READY || a->state < AGENT_READY)
        return; /* not yet, or not registered: it asks again */
    if (m->last_grant < a->pushed) { /* one that it did not ask for is on its way, or was lost */
        if (a->grant_pending == 0 && a->last_grant.len)
            htc_runtime_send(gw->runtime, a->peer, &a->last_grant);
        return;
    }
    a->pull_seq = m->seq;
    a->seen = m->last_grant;
    htc_buf_clear(&a->last_grant);
    a->grant_pending = 0;
    if (!gw->shutdown && htc__gw_gang_begin(gw, a))
        return; /* it leads one, or is a member of it */
    if (gw->shutdown || a->draining || a->stop || a->state != AGENT_READY || !htc__gw_job_for(gw, a)) {
        int old = too_old(gw, a), keeps = old || (!gw->shutdown && a->state == AGENT_READY && (htc__gw_wide_collects(gw, a) || (a->spares && !a->draining && !a->stop)));
        if (a->state == AGENT_READY && a->n_held == 0 && !keeps) {
            htc__gw_agent_counts(gw, a, -1);
            a->state = AGENT_LEAVING;
            htc__gw_agent_counts(gw, a, 1);
            htc__gw_reallocate_soon(gw);
        } else if (htc__gw_slots_idle(a) && !keeps) { /* nothing fills these: somebody else may have them */
            htc__gw_slots_want(gw, a, htc__gw_slots_filled(a));
            htc__gw_slots_tell(gw, a);
        }
        answer_pull(gw, a, a->n_held || keeps ? HTC_GRANT_WAIT : HTC_GRANT_EXIT, old ? HTC_SECOND : keeps ? 100 * HTC_MS : 200 * HTC_MS);
        return;
    }
    if (gw->store_status != HTC_OK) {
        answer_pull(gw, a, HTC_GRANT_WAIT, HTC_SECOND);
        return;
    }
    if (htc__gw_node_aside(gw, a->node, &until)) {
        answer_pull(gw, a, HTC_GRANT_WAIT, until - gw->now);
        return;
    }
    uint32_t n = batch_size(gw, a, m->want), unfit = 0;
    if (n == 0) { /* it asks again when a task of it ends */
        answer_pull(gw, a, HTC_GRANT_WAIT, a->n_slots == 1 ? HTC_SECOND : 100 * HTC_MS);
        return;
    }
    htc_grant *g = htc__alloc(&gw->env, sizeof *g);
    if (!g) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making a grant");
        return;
    }
    size_t   bytes = 0;
    chunk   *c;
    job     *j;
    uint32_t offset;
    g->seq = m->seq;
    g->grant = ++a->grant;
    g->kind = HTC_GRANT_TASKS;
    while (g->count < n && bytes < GRANT_BYTES_MAX && unfit < UNFIT_AT_ONCE && htc_runtime_status(gw->runtime) == HTC_OK && (j = htc__gw_job_for(gw, a))) {
        if ((j->seats || j->counts.n) && a->n_held >= htc__gw_slots_may_fill(a))
            break; /* a seat lasts, and what is counted would lie idle: none is handed out ahead */
        if (!htc__gw_job_peek(gw, j, &c, &offset)) {
            if (htc__gw_job_for(gw, a) == j)
                break;
            continue; /* it has nothing left that could be handed out now: the next job of the user */
        }
        leased got = lease(gw, a, j, c, offset, &g->tasks[g->count]);
        if (got != LEASED) {
            unfit += got == LEASED_NEVER ? 1 : UNFIT_AT_ONCE / 16;
            continue;
        }
        bytes += g->tasks[g->count++].task.len;
        a->grant_pending++;
        htc__gw_chunk_dirty(gw, c, wait_with(gw, grant_durable, (on_durable){ .agent = a->id, .grant = a->grant }));
    }
    assert(a->grant_pending == g->count); /* it leaves when the record of each of its leases is durable */
    if (g->count) {
        a->user->last_served = ++gw->served;
        if (gw->free) /* what is left of the memory may be more than was thought when agents were launched */
            htc__gw_reallocate_soon(gw);
        htc_grant_write(&a->last_grant, g);
        for (uint32_t i = 0; i < g->count; i++)
            htc_work_free(&gw->env, g->tasks[i].task);
        a->since = gw->now;
    } else {
        assert(a->grant > 0);
        a->grant--;
        answer_pull(gw, a, HTC_GRANT_WAIT, unfit ? HTC_MS : 100 * HTC_MS);
    }
    htc__free(&gw->env, g, sizeof *g);
}

void htc__gw_started(htc_gateway *gw, agent *a, const htc_attempt *at)
{
    job   *j = htc__gw_job(gw, at->job);
    chunk *c = j ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
    if (!c || at->task >= j->count || !htc__gw_agent_held(a, at))
        return;
    task *t = &c->tasks[at->task % CHUNK_TASKS];
    if (t->state == TASK_LEASED && t->agent == a->id && t->attempt == at->attempt && t->phase < HTC_HELD_RUNNING) {
        t->phase = HTC_HELD_RUNNING;
        t->since = gw->now;
    }
}

/* ---- results ---- */

static void send_verdict(htc_gateway *gw, uint32_t peer, const htc_attempt *at, htc_status status)
{
    htc_task_verdict_write(&gw->scratch, &(htc_task_verdict){ *at, status });
    htc_runtime_send(gw->runtime, peer, &gw->scratch);
}

static void verdict_durable(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    on_durable d = *(on_durable *)ctx;
    agent     *a = htc__gw_agent(gw, d.agent);
    htc_runtime_context_free(gw->runtime, ctx);
    if (status == HTC_OK && a)
        send_verdict(gw, a->peer, &d.attempt, d.status);
}

static void verdict_later(htc_gateway *gw, chunk *c, const agent *a, const htc_attempt *at, htc_status status)
{
    htc_runtime_waiter *w = wait_with(gw, verdict_durable, (on_durable){ .agent = a->id, .attempt = *at, .status = status });
    if (w)
        htc__gw_chunk_dirty(gw, c, w);
}

static void drop_output(htc_gateway *gw, uint64_t id, uint64_t index, uint32_t attempt)
{
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, id);
    htc_put_u64(&gw->scratch, index);
    htc_put_u32(&gw->scratch, attempt);
    htc__gw_files_drop(gw, HTC_CALL_DROP_OUTPUT);
    htc_runtime_call(gw->runtime, HTC_CALL_DROP_OUTPUT, htc_buf_bytes(&gw->scratch), NULL, NULL);
}

#define DROPPED_MAX 32 /* attempts before this one whose outputs are looked for */

/* Repeating cannot mend these. */
static int is_final(const htc_outcome *o)
{
    htc_status status = o->status;
    return o->final || status == HTC_EINPUT || status == HTC_ENOEXEC || status == HTC_ENOFIT || status == HTC_EPATH ||
           status == HTC_EUNSUPPORTED;
}

static htc_ns backoff(const htc_gateway *gw, uint32_t tries)
{
    htc_ns pause = gw->options.retry_backoff_ns;
    for (uint32_t i = 1; i < tries && pause < gw->options.retry_backoff_max_ns; i++)
        pause *= 2;
    return pause < gw->options.retry_backoff_max_ns ? pause : gw->options.retry_backoff_max_ns;
}

static void keep_result(htc_gateway *gw, chunk *c, const htc_attempt *at, const htc_outcome *o)
{
    htc_buf b;
    htc_buf_init(&b, &gw->env, HTC_KV_VALUE_MAX);
    htc__gw_record_result_write(&b, o);
    htc__gw_chunk_put(gw, c, htc__gw_key_result(at->job, at->task, at->attempt), &b);
    htc_buf_free(&b);
}

/* No longer than since it was handed out, and not later than now; what a gateway before us did is known from its agent's launch
 * alone, which was after the machine began to run. An agent may be the user's own process, and say what it likes. */
static void bound_run(const htc_gateway *gw, agent *a, const htc_attempt *at, htc_outcome *o)
{
    const held *h = htc__gw_agent_held(a, at);
    htc_ns      most = h && h->since ? gw->now - h->since : gw->wall > a->launched_wall ? gw->wall - a->launched_wall : gw->now;
    if (o->ended < o->started)
        o->ended = o->started;
    htc_ns early = o->ended > gw->wall ? o->ended - gw->wall : 0;
    o->ended -= early;
    o->started -= early < o->started ? early : o->started;
    if (o->ended - o->started > most)
        o->started = o->ended - most;
    o->started -= o->started % HTC_US; /* as all results are kept, and so counted_pool */
    o->ended -= o->ended % HTC_US;
}

/* What would exceed a quota of bytes is not kept, and then the task has failed: trying again cannot mend that. */
static void judge_bytes(htc_gateway *gw, const job *j, const htc_attempt *at, htc_outcome *o)
{
    char why[sizeof o->reason];
    if (!o->outputs.bytes || htc__gw_quota_takes(gw, j, o->outputs.bytes, why, sizeof why))
        return;
    drop_output(gw, at->job, at->task, at->attempt);
    memset(&o->outputs, 0, sizeof o->outputs);
    if (o->status != HTC_OK)
        return;
    o->status = HTC_EDENIED;
    o->final = 1;
    snprintf(o->reason, sizeof o->reason, "%s", why);
}

/* All cores of it, those of a gang on all nodes. */
static uint32_t cores_of(htc_gateway *gw, agent *a, const job *j, const htc_attempt *at)
{
    const held  *h = htc__gw_agent_held(a, at);
    task_width   width = { .slots = h ? h->slots : 1 };
    counted_need taking;
    if (htc__gw_gang_leader(gw, at))
        (void)htc__gw_task_needs(gw, j, at->task, &width, &taking);
    return width.slots;
}

/* A task that began after the disk of its site failed has ended well: it works again. */
static void judge_disk(const htc_gateway *gw, site *s, const task *t, const htc_outcome *o)
{
    if (!s->disk_failed || o->status != HTC_OK || t->since <= s->disk_failed)
        return;
    s->disk_failed = 0;
    if (s->not_before != HTC_NEVER)
        s->reason[0] = '\0';
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__TEXT("site", s->name)), "a task has ended well at site %s -> its disk works again", s->name);
}

static void accept_result(htc_gateway *gw, agent *a, job *j, chunk *c, const htc_task_result *m)
{
    uint32_t    offset = (uint32_t)(m->attempt.task % CHUNK_TASKS);
    task       *t = &c->tasks[offset];
    htc_outcome said = m->outcome, *o = &said;
    bound_run(gw, a, &m->attempt, o);
    double      ran = (double)(o->ended - o->started) / 1e9;
    uint64_t    core_ns = (o->ended - o->started) * cores_of(gw, a, j, &m->attempt);
    htc__gw_agent_unhold(gw, a, &m->attempt);
    a->tasks_done++;
    a->since = gw->now;
    judge_node(gw, a, o);
    judge_disk(gw, &gw->sites[a->site], t, o);
    htc__figures_add(&gw->sites[a->site].figures, o, gw->sites[a->site].node_cores);
    htc__gw_job_ended(gw, j, a->site, o);
    htc__gw_unuse_left(c, t);
    judge_bytes(gw, j, &m->attempt, o);
    htc__gw_use(c, (usage){ .core_ns = core_ns, .bytes = o->outputs.bytes, .losses = o->status == HTC_ESTOPPED });
    t->status = o->status;
    if (!htc__gw_brief_put(c, t, o))
        keep_result(gw, c, &m->attempt, o);
    if (o->status != HTC_OK)
        t->left[1] = o->outputs.bytes;
    if (o->status == HTC_OK) {
        if (!j->seats)
            htc_allot_profile_add(&j->user->runs, ran);
        htc__gw_task_set(gw, c, offset, TASK_DONE);
    } else if (o->status == HTC_ECANCELLED || t->cancel || j->cancelled) {
        htc__gw_task_set(gw, c, offset, TASK_CANCELLED);
    } else if (o->status == HTC_ESTOPPED) {
        /* By itself, or by somebody on its node: resubmitted, not charged against its attempts. */
        if (++t->lost > gw->options.max_lost)
            htc__gw_task_set(gw, c, offset, TASK_FAILED);
        else
            htc__gw_task_again(gw, c, offset, 1);
    } else if (++t->tries >= j->max_attempts || is_final(o)) {
        htc__gw_task_set(gw, c, offset, TASK_FAILED);
    } else {
        htc_ns at = gw->now + backoff(gw, t->tries);
        htc__gw_task_set(gw, c, offset, TASK_RETRY_WAIT);
        t->since = at;
        t->failed_at = htc__gw_place_of_try(a);
        htc__gw_due_add(gw, at, j->id, m->attempt.task);
    }
    htc__gw_account(gw, j, gw->sites[a->site].name,
                    (day_sums){ .core_ns = core_ns, .done = t->state == TASK_DONE, .failed = t->state == TASK_FAILED, .lost = o->status == HTC_ESTOPPED });
    /* What earlier attempts left is superseded by this one; those that were lost could not drop it themselves. */
    for (uint32_t n = 1; n < m->attempt.attempt && n <= DROPPED_MAX; n++)
        drop_output(gw, j->id, m->attempt.task, m->attempt.attempt - n);
    verdict_later(gw, c, a, &m->attempt, HTC_OK);
    htc__gw_wide_nudge(gw, a);
    htc__gw_reallocate_soon(gw);
}

/* The verdict on a result whose lease is not held: the same one again if it was counted, else none of our business. */
static htc_status judge_late(const task *t, const htc_attempt *at, htc_status status)
{
    int counted = t->attempt == at->attempt && t->status == status && t->state != TASK_LEASED && t->state != TASK_NEW;
    return counted ? HTC_OK : HTC_MISMATCH;
}

typedef struct late {
    uint32_t    peer;
    uint64_t    agent;
    htc_attempt attempt;
    htc_status  status;
} late;

static void late_answer(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    late       l = *(late *)ctx;
    htc_status verdict = HTC_MISMATCH;
    htc_runtime_context_free(gw->runtime, ctx);
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        return; /* it is asked again */
    if (r->status == HTC_OK) {
        htc_reader reader = htc_reader_of(r->value);
        htc_get_u8(&reader);
        uint64_t n = htc_get_varint(&reader);
        if (reader.status == HTC_OK && n <= CHUNK_TASKS && l.attempt.task % CHUNK_TASKS < n) {
            chunk *c = htc__alloc(&gw->env, sizeof *c + n * sizeof c->tasks[0]);
            if (c) {
                c->n = (uint32_t)n;
                if (htc__gw_record_chunk_read(r->value, c) == HTC_OK)
                    verdict = judge_late(&c->tasks[l.attempt.task % CHUNK_TASKS], &l.attempt, l.status);
                htc__free(&gw->env, c, sizeof *c + n * sizeof c->tasks[0]);
            }
        }
    }
    job *j = htc__gw_job(gw, l.attempt.job);
    if (j)
        j->duplicates++;
    send_verdict(gw, l.peer, &l.attempt, verdict);
}

static void result_late(htc_gateway *gw, agent *a, uint32_t peer, const htc_attempt *at, htc_status status)
{
    late *l = htc_runtime_context(gw->runtime, sizeof *l);
    if (!l)
        return;
    *l = (late){ peer, a ? a->id : 0, *at, status };
    key k = htc__gw_key_chunk(at->job, at->task / CHUNK_TASKS);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, late_answer, l);
}

void htc__gw_result(htc_gateway *gw, agent *a, uint32_t peer, const htc_task_result *m)
{
    job   *j = htc__gw_job(gw, m->attempt.job);
    chunk *c = j && m->attempt.task < j->count ? htc__gw_chunk(j, m->attempt.task / CHUNK_TASKS) : NULL;
    if (gw->phase != PHASE_READY)
        return; /* it is repeated */
    if (!c) {
        result_late(gw, a, peer, &m->attempt, m->outcome.status);
        return;
    }
    task       *t = &c->tasks[m->attempt.task % CHUNK_TASKS];
    const held *h = a ? htc__gw_agent_held(a, &m->attempt) : NULL;
    if (a && t->state == TASK_LEASED && t->agent == a->id && t->attempt == m->attempt.attempt) {
        accept_result(gw, a, j, c, m);
        return;
    }
    if (h && h->member) { /* it only holds its slots: whatever ended it ends the gang */
        htc__gw_agent_unhold(gw, a, &m->attempt);
        htc__gw_task_lost(gw, &m->attempt, t->agent, m->outcome.reason[0] ? m->outcome.reason : "a member of its gang has ended");
        verdict_later(gw, c, a, &m->attempt, HTC_OK);
        return;
    }
    htc_status verdict = judge_late(t, &m->attempt, m->outcome.status);
    j->duplicates++;
    htc__log_with(&gw->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__NUMBER("task", m->attempt.task), HTC__NUMBER("attempt", m->attempt.attempt)),
                  "a result of %llu.%llu attempt %u comes without its lease -> %s",
                  (unsigned long long)j->id, (unsigned long long)m->attempt.task, m->attempt.attempt,
                  verdict == HTC_OK ? "counted already" : "discarded");
    if (verdict == HTC_OK && a && (c->dirty || c->writing))
        verdict_later(gw, c, a, &m->attempt, verdict);
    else
        send_verdict(gw, peer, &m->attempt, verdict);
}

/* ---- given back ---- */

/* What an attempt has taken whose agent says nothing any more: from when it began until its agent was heard last. */
static uint64_t lost_core_ns(htc_gateway *gw, const agent *a, const job *j, uint64_t index, const task *t)
{
    task_width   width;
    counted_need taking;
    if (!a || t->phase < HTC_HELD_RUNNING || a->heard <= t->since)
        return 0;
    (void)htc__gw_task_needs(gw, j, index, &width, &taking);
    return (a->heard - t->since) * width.slots;
}

/* It is given back, and its process has run: its node could not go on or store what it left, or its agent had to end at once. Twice that is nobody's fault. From then on it
 * counts as a failed attempt: a task that fills each disk by itself would go round for ever. */
static void back_after_a_run(htc_gateway *gw, const agent *a, job *j, chunk *c, const htc_attempt *at)
{
    uint32_t offset = (uint32_t)(at->task % CHUNK_TASKS);
    task    *t = &c->tasks[offset];
    uint64_t core_ns = lost_core_ns(gw, a, j, at->task, t);
    if (t->lost < UINT16_MAX)
        t->lost++;
    htc__gw_use(c, (usage){ .core_ns = core_ns, .losses = 1 });
    if (t->lost <= GIVEN_BACK_FREE) {
        htc__gw_task_again(gw, c, offset, 1);
    } else if (++t->tries >= j->max_attempts) {
        htc_outcome o = { .status = HTC_ENOSPC };
        snprintf(o.node, sizeof o.node, "%s", a->node);
        snprintf(o.reason, sizeof o.reason, "given back or lost %u times while it ran, as where the disk of its node was full: perhaps it fills each by itself", t->lost);
        t->status = o.status;
        keep_result(gw, c, at, &o);
        htc__gw_task_set(gw, c, offset, TASK_FAILED);
    } else {
        htc__gw_task_set(gw, c, offset, TASK_RETRY_WAIT);
        t->since = gw->now + backoff(gw, t->tries);
        t->failed_at = htc__gw_place_of_try(a);
        htc__gw_due_add(gw, t->since, j->id, at->task);
    }
    htc__gw_account(gw, j, gw->sites[a->site].name, (day_sums){ .core_ns = core_ns, .lost = 1, .failed = t->state == TASK_FAILED });
}

void htc__gw_give_back(htc_gateway *gw, agent *a, uint32_t peer, const htc_give_back *m)
{
    if (gw->phase != PHASE_READY)
        return;
    for (uint32_t i = 0; i < m->count; i++) {
        const htc_attempt *at = &m->attempts[i];
        job               *j = htc__gw_job(gw, at->job);
        chunk             *c = j && at->task < j->count ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
        uint32_t           offset = (uint32_t)(at->task % CHUNK_TASKS);
        task              *t = c ? &c->tasks[offset] : NULL;
        const held        *h = htc__gw_agent_held(a, at);
        if (t && t->state == TASK_LEASED && (t->agent == a->id || (h && h->member)) && t->attempt == at->attempt) {
            int ran = (t->phase == HTC_HELD_RUNNING || t->phase == HTC_HELD_STAGING_OUT) && t->agent == a->id;
            htc__gw_agent_unhold(gw, a, at);
            t->status = HTC_OK;
            if (t->cancel || j->cancelled) {
                uint64_t core_ns = ran ? lost_core_ns(gw, a, j, at->task, t) : 0;
                htc__gw_use(c, (usage){ .core_ns = core_ns });
                htc__gw_account(gw, j, gw->sites[a->site].name, (day_sums){ .core_ns = core_ns });
                htc__gw_task_set(gw, c, offset, TASK_CANCELLED);
            } else if (ran && !gw->shutdown) {
                back_after_a_run(gw, a, j, c, at);
            } else {
                htc__gw_task_again(gw, c, offset, 1);
            }
            verdict_later(gw, c, a, at, HTC_OK);
        } else if (c && (c->dirty || c->writing)) {
            verdict_later(gw, c, a, at, HTC_OK);
        } else {
            send_verdict(gw, peer, at, HTC_OK);
        }
    }
}

/* ---- losses ---- */

void htc__gw_task_lost(htc_gateway *gw, const htc_attempt *at, uint64_t agent_id, const char *why)
{
    job     *j = htc__gw_job(gw, at->job);
    chunk   *c = j && at->task < j->count ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
    uint32_t offset = (uint32_t)(at->task % CHUNK_TASKS);
    task    *t = c ? &c->tasks[offset] : NULL;
    if (!t || t->state != TASK_LEASED || t->agent != agent_id || t->attempt != at->attempt)
        return;
    htc__log_with(&gw->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__NUMBER("task", at->task), HTC__NUMBER("attempt", at->attempt)),
                  "%llu.%llu attempt %u is lost (%s) -> it waits again", (unsigned long long)j->id,
                  (unsigned long long)at->task, at->attempt, why);
    const agent *holder = htc__gw_agent(gw, agent_id);
    t->status = HTC_ELOST;
    t->lost++;
    gw->lost_attempts++;
    if (holder)
        htc__figures_add(&gw->sites[holder->site].figures, &(htc_outcome){ .status = HTC_ELOST }, 1);
    uint64_t core_ns = lost_core_ns(gw, holder, j, at->task, t);
    htc__gw_use(c, (usage){ .core_ns = core_ns, .losses = 1 });
    if (t->cancel || j->cancelled) {
        htc__gw_task_set(gw, c, offset, TASK_CANCELLED);
    } else if (t->lost > gw->options.max_lost) {
        htc_outcome  o = { .status = HTC_ELOST };
        snprintf(o.node, sizeof o.node, "%s", holder ? holder->node : "");
        snprintf(o.reason, sizeof o.reason, "lost %u times, the last time because %s", t->lost, why);
        keep_result(gw, c, at, &o);
        htc__gw_task_set(gw, c, offset, TASK_FAILED);
    } else {
        htc__gw_task_again(gw, c, offset, 1);
    }
    htc__gw_account(gw, j, holder ? gw->sites[holder->site].name : "-", (day_sums){ .core_ns = core_ns, .lost = 1, .failed = t->state == TASK_FAILED });
    htc__gw_chunk_dirty(gw, c, NULL);
}

/* ---- what both sides believe, compared ---- */

static task *task_of(htc_gateway *gw, const htc_attempt *at)
{
    job   *j = htc__gw_job(gw, at->job);
    chunk *c = j && at->task < j->count ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
    return c ? &c->tasks[at->task % CHUNK_TASKS] : NULL;
}

void htc__gw_reconcile(htc_gateway *gw, agent *a, const htc_heartbeat *m, htc_heartbeat_answer *answer)
{
    int again = 0;
    for (uint32_t i = a->n_held; i > 0; i--) {
        held           *h = &a->held[i - 1];
        htc_attempt     at = h->attempt;
        task           *t = task_of(gw, &at);
        const htc_held *l = htc__gw_listed(&m->held, &at);
        if (l) {
            h->misses = 0;
            if (t && t->phase != l->state && !h->member) {
                if (t->phase < HTC_HELD_RUNNING || l->state < HTC_HELD_RUNNING) /* what it takes counts from its start on */
                    t->since = gw->now;
                t->phase = l->state;
            }
            if (t && t->cancel && !h->member && answer->cancelled < HTC_AGENT_HELD_MAX)
                answer->cancel[answer->cancelled++] = at;
        } else if (h->grant > m->last_grant) {
            again = 1;
        } else if (++h->misses >= 2) {
            uint64_t leader = h->member ? htc__gw_gang_leader(gw, &at) : a->id;
            htc__gw_agent_unhold(gw, a, &at);
            htc__gw_task_lost(gw, &at, leader, "its agent does not have it");
        }
    }
    if (again && a->grant_pending == 0 && a->last_grant.len)
        htc_runtime_send(gw->runtime, a->peer, &a->last_grant);
    for (uint32_t i = 0; i < m->held.count; i++) {
        const htc_held *l = &m->held.held[i];
        /* One that reports gets its verdict by its result. */
        if (l->state != HTC_HELD_REPORTING && !htc__gw_agent_held(a, &l->attempt) && answer->revoked < HTC_AGENT_HELD_MAX)
            answer->revoke[answer->revoked++] = l->attempt;
    }
    htc__gw_taken_heard(gw, a, m);
}
