/* Several grids with their hierarchy behind messages: the exact twin of lib/sim/models/grids.c (htcsched/sim_grids.h). The hierarchy (grids_exact_jobs.c,
 * grids_exact_tasks.c) and each grid (grids_exact_grid.c) are nodes of a simulated network; here is a run from its options to its report. */
#include "sim/scenarios/grids_exact.h"

#include <stdio.h>
#include <string.h>

#include "core/codec.h"
#include "core/util.h"

#define HOUR (3600 * HTC_SECOND)

/* ---- messages ---- */

htc_status htc__grids_say(grids_exact *x, htc_output *out, uint32_t peer, const grids_said *s)
{
    uint8_t  data[30];
    uint64_t kflop;
    memcpy(&kflop, &s->kflop, sizeof kflop);
    data[0] = (uint8_t)s->type;
    data[1] = (uint8_t)s->flag;
    htc__le32_put(data + 2, s->attempt);
    htc__le32_put(data + 6, s->slot);
    htc__le32_put(data + 10, s->number);
    htc__le64_put(data + 14, s->value);
    htc__le64_put(data + 22, kflop);
    x->sent++;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = { data, sizeof data } });
}

int htc__grids_hear(grids_exact *x, htc_bytes body, grids_said *s)
{
    htc_reader r = htc_reader_of(body);
    *s = (grids_said){ .type = htc_get_u8(&r) };
    s->flag = htc_get_u8(&r);
    s->attempt = htc_get_u32(&r);
    s->slot = htc_get_u32(&r);
    s->number = htc_get_u32(&r);
    s->value = htc_get_u64(&r);
    uint64_t kflop = htc_get_u64(&r);
    memcpy(&s->kflop, &kflop, sizeof kflop);
    x->received++;
    if (htc_reader_done(&r) == HTC_OK && s->type >= GRIDS_SAY_CPUS && s->type <= GRIDS_SAY_STOPPED && (s->type != GRIDS_SAY_CPUS || s->number < x->m.n_grids))
        return 1;
    htc__twin_fail(&x->t, HTC_EPROTO, "a message that cannot be read");
    return 0;
}

void *htc__grids_room(grids_exact *x, void *array, size_t *cap, size_t each, size_t n)
{
    size_t larger = *cap ? 2 * *cap : 64;
    if (n < *cap)
        return array;
    void *all = n < UINT32_MAX / 2 ? htc__resize(&x->t.memory.env, array, *cap * each, larger * each) : NULL;
    if (all)
        *cap = larger;
    else
        htc__twin_fail(&x->t, HTC_ENOMEM, "no memory for %zu jobs or tasks", larger);
    return all;
}

/* ---- what it is given ---- */

static htc_status read_options(grids_exact *x, const htc_sim_grids_options *in, const htc_sim_grids_exact_options *costs)
{
    htc_sim_grids_options *o = &x->m.options;
    htc_status             status = htc__grids_options(in, o);
    x->costs = (htc_sim_grids_exact_options){ .size = sizeof x->costs };
    if (status == HTC_OK && costs)
        status = htc__options_copy(&x->costs, sizeof x->costs, costs, costs->size, sizeof x->costs);
    if (status == HTC_OK)
        status = htc__twin_host(&x->t, o->host);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "the options of the run are out of range");
    o->tick_ns = 1;
    x->costs.latency_ns = x->costs.latency_ns ? x->costs.latency_ns : HTC_MS;
    if (x->costs.latency_ns > HOUR || x->costs.jitter_ns > HOUR)
        return htc__twin_refuse(&x->t, HTC_EINVAL, "a message takes more than an hour");
    if (o->resume || o->checkpoint)
        return htc__twin_refuse(&x->t, HTC_EUNSUPPORTED, "a run of the exact engine has no checkpoint (resume, checkpoint)");
    htc_error why = { 0 };
    status = htc__grids_can_be(o, &why);
    return status == HTC_OK ? HTC_OK : htc__twin_refuse(&x->t, status, "%s", why.text);
}

/* ---- its world ---- */

static htc_status boot_grid(void *ctx, htc_sim_node *node)
{
    exact_grid *g = ctx;
    htc_status  status = htc_sim_install(node, &htc__grids_grid_ops, g);
    return status == HTC_OK ? htc_sim_dial(node, 1, g->x->node, NULL) : status;
}

static htc_status boot_hierarchy(void *ctx, htc_sim_node *node)
{
    return htc_sim_install(node, &htc__grids_hierarchy_ops, ctx);
}

static void checked_grid(void *ctx, htc_sim_node *node)
{
    const exact_grid *g = ctx;
    grids_exact      *x = g->x;
    (void)node;
    if (!x->wrong[0] && g->used > x->m.grid[g->number].cpus)
        snprintf(x->wrong, sizeof x->wrong, "grid %u has %llu CPUs and runs %llu tasks", g->number, (unsigned long long)x->m.grid[g->number].cpus, (unsigned long long)g->used);
}

static htc_status open_nodes(grids_exact *x)
{
    static const htc_sim_host hierarchies = { .size = sizeof hierarchies, .boot = boot_hierarchy };
    static const htc_sim_host of_grids = { .size = sizeof of_grids, .boot = boot_grid, .checked = checked_grid };
    const htc_sim_net         net = { .size = sizeof net, .latency_ns = x->costs.latency_ns, .jitter_ns = x->costs.jitter_ns };
    htc_status                status = htc_sim_create(&x->t.memory.env, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = x->costs.seed, .net = &net }, &x->t.w);
    if (status == HTC_OK)
        status = htc_sim_add(x->t.w, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "hierarchy", .host = &hierarchies, .ctx = x }, &x->node);
    if (status == HTC_OK)
        status = htc_sim_boot(x->node);
    for (uint32_t i = 0; i < x->m.n_grids && status == HTC_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "grid%u", i);
        htc__grids_grid_open(x, i);
        status = htc_sim_add(x->t.w, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = name, .host = &of_grids, .ctx = &x->grid[i] }, &x->grid[i].node);
        if (status == HTC_OK)
            status = htc_sim_boot(x->grid[i].node);
    }
    return status == HTC_OK ? HTC_OK : htc__twin_refuse(&x->t, status, "the network of the run: %s", htc_strerror(status));
}

static htc_status open_exact(grids_exact *x)
{
    grids     *m = &x->m;
    htc_error  why = { 0 };
    m->env = x->t.memory.env;
    m->tasks_max = 4 * htc__grids_cpus(m->options.hierarchy) + 1024; /* that the hierarchy may know */
    x->due.env = &x->t.memory.env;
    htc_status status = htc__grids_open(m, &why);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "%s", why.text);
    x->grid = htc__alloc(&m->env, m->n_grids * sizeof *x->grid);
    if (!x->grid)
        return htc__twin_refuse(&x->t, HTC_ENOMEM, "no memory for the run");
    htc__grids_draw_arrival(m);
    return open_nodes(x);
}

static void close_exact(grids_exact *x)
{
    const htc_env *env = &x->t.memory.env;
    htc_sim_destroy(x->t.w);
    for (uint32_t g = 0; x->grid && g < x->m.n_grids; g++)
        htc__grids_grid_close(&x->grid[g]);
    for (uint32_t g = 0; g < x->m.n_grids; g++)
        htc__free(env, x->known[g].free_slot, x->known[g].slots_cap * sizeof *x->known[g].free_slot);
    htc__free(env, x->grid, x->m.n_grids * sizeof *x->grid);
    htc__free(env, x->job, x->jobs_cap * sizeof *x->job);
    htc__free(env, x->attempt, x->attempts_cap * sizeof *x->attempt);
    htc__free(env, x->orders, x->orders_cap * sizeof *x->orders);
    htc__due_free(&x->due);
    if (x->m.env.alloc)
        htc__grids_close(&x->m);
}

/* ---- its course ---- */

static void take_sample(htc_sim *w, void *ctx)
{
    grids_exact *x = ctx;
    grids       *m = &x->m;
    for (uint32_t q = 0; q < m->n_queues; q++) {
        m->sample_queued[q] = m->queue[q].waiting;
        m->sample_busy[q] = m->queue[q].busy;
    }
    for (uint32_t g = 0; g < m->n_grids; g++)
        m->sample_ours[g] = m->grid[g].down ? 0 : m->grid[g].ours;
    m->options.sample(m->options.ctx, &(htc_sim_grids_sample){ .size = sizeof(htc_sim_grids_sample), .at = htc__twin_now(&x->t), .jobs = m->active, .ended = m->total - m->left,
                                                               .queued = m->sample_queued, .busy = m->sample_busy, .n_queues = m->n_queues, .ours = m->sample_ours,
                                                               .n_grids = m->n_grids });
    if (m->left)
        (void)htc_sim_at(w, htc_sim_now(w) + m->sample, take_sample, x, 0);
}

static void step_world(grids_exact *x)
{
    if (!htc__twin_step(&x->t))
        htc__twin_fail(&x->t, HTC_EINTERNAL, "nothing will happen any more, and of %llu jobs %llu have not ended", (unsigned long long)x->m.total, (unsigned long long)x->m.left);
}

/* The hierarchy knows what each grid has: from now on time counts. */
static void begin(grids_exact *x)
{
    x->t.begin = htc_sim_now(x->t.w) + HTC_SECOND;
    (void)htc_sim_event(x->node, 0, 0, HTC_OK, htc_bytes_of(NULL));
    for (uint32_t g = 0; g < x->m.n_grids; g++)
        (void)htc_sim_event(x->grid[g].node, 0, 0, HTC_OK, htc_bytes_of(NULL));
    if (x->m.options.sample && x->m.sample)
        (void)htc_sim_at(x->t.w, x->t.begin, take_sample, x, 0);
}

/* 1: it has ended; 0: the host has stopped it. */
static int run_world(grids_exact *x)
{
    while (x->met < x->m.n_grids && htc__grids_good(x))
        step_world(x);
    if (htc__grids_good(x))
        begin(x);
    for (uint64_t events = 0; htc__grids_good(x) && (x->m.left || x->sent != x->received); events++) {
        if (htc__twin_is_stopped(&x->t, events, x->m.total - x->m.left, x->m.total))
            return 0;
        step_world(x);
    }
    return 1;
}

/* ---- what is told ---- */

static double seconds(grids_sum ns)
{
    return (double)ns / 1e9;
}

/* All grids together. */
static exact_grid sum_of_grids(grids_exact *x)
{
    exact_grid sum = { .x = x };
    for (uint32_t i = 0; i < x->m.n_grids; i++) {
        exact_grid *g = &x->grid[i];
        htc__grids_grid_account(g);
        sum.used += g->used;
        sum.taken += g->taken;
        sum.done += g->done;
        sum.evicted += g->evicted;
        sum.stopped += g->stopped;
        sum.used_ns += g->used_ns;
        sum.held_ns += g->held_ns;
        sum.busy_ns += g->busy_ns;
        sum.done_ns += g->done_ns;
    }
    return sum;
}

static int jobs_are_wrong(const grids *m, char *wrong, size_t n)
{
    if (m->left == 0 && m->active == 0 && m->completed + m->rejected + m->terminated + m->failed == m->total)
        return 0;
    snprintf(wrong, n, "of %llu jobs %llu were completed, %llu rejected, %llu terminated, and %llu failed", (unsigned long long)m->total, (unsigned long long)m->completed,
             (unsigned long long)m->rejected, (unsigned long long)m->terminated, (unsigned long long)m->failed);
    return 1;
}

/* Each task that was handed in has ended, once; grids and the hierarchy have counted the same. */
static int tasks_are_wrong(const grids_exact *x, const exact_grid *g, char *wrong, size_t n)
{
    uint64_t evicted = x->m.evictions, ended = x->done + evicted + x->moved;
    if (x->submitted == ended && g->taken == ended && g->done + g->evicted + g->stopped == ended && g->done >= x->done && g->used == 0)
        return 0;
    snprintf(wrong, n, "of %llu tasks %llu were done, %llu evicted and %llu recalled; grids say %llu, %llu and %llu of %llu, and %llu run", (unsigned long long)x->submitted,
             (unsigned long long)x->done, (unsigned long long)evicted, (unsigned long long)x->moved, (unsigned long long)g->done, (unsigned long long)g->evicted, (unsigned long long)g->stopped,
             (unsigned long long)g->taken, (unsigned long long)g->used);
    return 1;
}

static int times_are_wrong(const grids_exact *x, const exact_grid *g, char *wrong, size_t n)
{
    uint64_t  held = htc__grids_held_by_queues(&x->m);
    grids_sum ended = x->work_ns + x->evicted_ns + x->moved_ns;
    if (g->busy_ns != ended || g->done_ns < x->work_ns)
        snprintf(wrong, n, "CPUs were busy for %.9f s, of which tasks that were done had %.9f, evicted ones %.9f and recalled ones %.9f", seconds(g->busy_ns), seconds(x->work_ns),
                 seconds(x->evicted_ns), seconds(x->moved_ns));
    else if (g->used_ns != g->held_ns)
        snprintf(wrong, n, "CPUs were held for %.9f s, and tasks held them for %.9f", seconds(g->used_ns), seconds(g->held_ns));
    else if (held != HTC_NEVER && held != x->known_ns + x->carried)
        snprintf(wrong, n, "tasks were handed in for %.9f s, and the hierarchy counts %.9f", seconds(x->known_ns + x->carried), seconds(held));
    else if (!(x->m.undone <= 1e-6 * (double)x->m.total))
        snprintf(wrong, n, "of the completed jobs %g of one was not done, or done twice", x->m.undone);
    return wrong[0] != '\0';
}

static void check(grids_exact *x, const exact_grid *g, htc_scale_report *s)
{
    char    *wrong = s->wrong;
    size_t   n = sizeof s->wrong;
    uint64_t span = s->makespan;
    if (jobs_are_wrong(&x->m, wrong, n) || tasks_are_wrong(x, g, wrong, n) || times_are_wrong(x, g, wrong, n))
        return;
    if (s->sent != s->received + s->lost)
        snprintf(wrong, n, "of %llu messages %llu were received and %llu lost", (unsigned long long)s->sent, (unsigned long long)s->received, (unsigned long long)s->lost);
    else if (span < x->longest)
        snprintf(wrong, n, "a makespan of %.9f s, where one task has %.9f", seconds(span), seconds(x->longest));
    else if ((grids_sum)span * x->m.cpus < g->held_ns)
        snprintf(wrong, n, "a makespan of %.9f s, where %llu CPUs were held for %.9f", seconds(span), (unsigned long long)x->m.cpus, seconds(g->held_ns));
}

static void tell_engine(const grids_exact *x, const exact_grid *g, htc_sim_grids_report *r)
{
    htc_scale_report *s = &r->scale;
    s->finished = !r->interrupted;
    s->events = s->events_here = htc_sim_events(x->t.w);
    s->submitted = x->m.next;
    s->ended = s->ended_here = x->m.total - x->m.left;
    s->sent = x->sent;
    s->received = x->received;
    s->hash = htc_sim_hash(x->t.w);
    s->span = htc__twin_now(&x->t);
    s->makespan = s->ended ? x->last_end - x->first_arrival : 0;
    s->longest = x->longest;
    s->work_s = seconds(x->work_ns);
    s->busy_s = seconds(g->busy_ns);
    s->bound_s = seconds(g->held_ns) / (double)x->m.cpus;
    s->bound_s = s->bound_s > seconds(x->longest) ? s->bound_s : seconds(x->longest);
    s->memory = x->t.memory.peak;
}

static void tell(grids_exact *x, htc_sim_grids_report *r)
{
    const grids *m = &x->m;
    exact_grid   g = sum_of_grids(x);
    tell_engine(x, &g, r);
    r->memory = x->t.memory.peak;
    r->n_queues = m->n_queues;
    r->completed = m->completed;
    r->rejected = m->rejected;
    r->terminated = m->terminated;
    r->failed = m->failed;
    r->moves = m->moves;
    r->tasks = x->submitted;
    r->evicted = m->evictions;
    r->active_most = m->active_most;
    r->work_s = seconds(x->work_ns);
    r->evicted_s = seconds(x->evicted_ns);
    r->moved_s = seconds(x->moved_ns);
    r->busy_s = r->work_s + r->evicted_s + r->moved_s;
    r->held_s = seconds(g.used_ns);
    snprintf(r->scale.wrong, sizeof r->scale.wrong, "%s", x->wrong);
    if (!r->interrupted && !r->scale.wrong[0])
        check(x, &g, &r->scale);
}

/* ---- all ---- */

htc_status htc_sim_grids_exact(const htc_env *env, const htc_sim_grids_options *options, const htc_sim_grids_exact_options *exact, htc_sim_grids_report *report,
                               htc_sim_grids_result *queues, htc_sim_grids_result *classes, htc_error *error)
{
    htc_sim_grids_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    grids_exact          x = { 0 };
    if (!report || report->size < offsetof(htc_sim_grids_report, scale))
        return htc__error(error, HTC_EINVAL, "the options of the run are out of range");
    htc__twin_open(&x.t, env);
    htc_status status = read_options(&x, options, exact);
    if (status == HTC_OK)
        status = open_exact(&x);
    if (status == HTC_OK)
        r.interrupted = !run_world(&x);
    status = x.t.why.status;
    if (status == HTC_OK) {
        tell(&x, &r);
        htc__grids_tell_results(&x.m, queues, classes);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_grids_report, scale));
    } else if (error) {
        *error = x.t.why;
    }
    close_exact(&x);
    return status;
}
