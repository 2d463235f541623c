/* A run of the model of several grids from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/grids.h"

/* ---- memory ---- */

/* Places of tasks: one a CPU, and as many again for those that are taken from their CPUs before their time. */
static uint64_t places_of(const htc_sim_grids_options *o)
{
    return 4 * htc__grids_cpus(o->hierarchy) + 1024;
}

static uint64_t tables(const htc_sim_grids_options *o)
{
    size_t q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    return places_of(o) * sizeof(grids_task) + o->active_max * (sizeof(grids_job) + sizeof(htc_hierarchy_decision)) +
           q * (sizeof(grids_queue) + sizeof(htc_hierarchy_queue) + sizeof(grids_tally) + 2 * sizeof(uint64_t)) +
           g * (sizeof(grids_grid) + sizeof(uint32_t) + sizeof(uint64_t)) + o->n_classes * (sizeof(grids_class) + sizeof(grids_tally));
}

static htc_scale_options engine_of(const htc_sim_grids_options *o, grids *m)
{
    uint64_t ids = places_of(o) + o->active_max + GRIDS_ID_GRID + 2 * o->hierarchy->grid_count;
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = ids, .events_max = ids + 2 * HTC_HIERARCHY_QUEUES_MAX + 4, .tick_ns = o->tick_ns,
                                .tasks = htc__grids_total(o), .event = htc__grids_event, .ctx = m, .host = o->host };
}

htc_status htc_sim_grids_memory(const htc_sim_grids_options *options, uint64_t *bytes)
{
    htc_sim_grids_options o;
    htc_status            status = bytes ? htc__grids_options(options, &o) : HTC_EINVAL;
    uint64_t              engine = 0;
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status == HTC_OK) /* the hierarchy has some 350 bytes a job and 88 a task */
        *bytes = sizeof(grids) + tables(&o) + engine + 350 * o.active_max + 88 * htc__grids_cpus(o.hierarchy);
    return status;
}

/* ---- a run ---- */

static void close_model(grids *m)
{
    htc_scale_destroy(m->scale);
    htc__free(&m->env, m->job, m->options.active_max * sizeof *m->job);
    htc__free(&m->env, m->task, m->tasks_max * sizeof *m->task);
    htc__free(&m->env, m->orders, m->options.active_max * sizeof *m->orders);
    htc__grids_close(m);
}

static htc_status open_model(grids *m, htc_error *error)
{
    htc_scale_options e = engine_of(&m->options, m);
    m->tasks_max = places_of(&m->options);
    htc_status status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->job = htc__alloc_raw(&m->env, m->options.active_max * sizeof *m->job);
    m->task = htc__alloc_raw(&m->env, m->tasks_max * sizeof *m->task);
    m->orders = htc__alloc_raw(&m->env, m->options.active_max * sizeof *m->orders);
    if (!m->job || !m->task || !m->orders)
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    return htc__grids_open(m, error);
}

/* ---- what is told ---- */

static void check(const grids *m, htc_sim_grids_report *r)
{
    uint64_t busy = 0, held = htc__grids_held_by_queues(m), span = (uint64_t)r->scale.makespan / m->options.tick_ns, lost = m->evicted + m->moved;
    for (uint32_t g = 0; g < m->n_grids; g++)
        busy += m->grid[g].busy;
    if (r->interrupted || r->scale.wrong[0])
        return;
    if (m->left || m->active || m->completed + m->rejected + m->terminated + m->failed != m->total)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "of %llu jobs %llu were completed, %llu rejected, %llu terminated, and %llu failed", (unsigned long long)m->total,
                 (unsigned long long)m->completed, (unsigned long long)m->rejected, (unsigned long long)m->terminated, (unsigned long long)m->failed);
    else if (busy)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu CPUs are busy in the end", (unsigned long long)busy);
    else if (m->ends - m->begins != m->work + lost)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "CPUs were busy for %llu ticks, of which tasks that were done had %llu and lost ones %llu",
                 (unsigned long long)(m->ends - m->begins), (unsigned long long)m->work, (unsigned long long)lost);
    else if (held != HTC_NEVER && held != (m->held + m->carried) * m->options.tick_ns)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "tasks held CPUs for %llu ticks, and the hierarchy counts %llu ns", (unsigned long long)m->held, (unsigned long long)held);
    else if (!(m->undone <= 1e-6 * (double)m->total))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "of the completed jobs %g of one was not done, or done twice", m->undone);
    else if (span < m->longest)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "a makespan of %llu ticks, where one task has %llu", (unsigned long long)span, (unsigned long long)m->longest);
    else if (span < m->held / m->cpus)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "a makespan of %llu ticks, where %llu CPUs were held for %llu", (unsigned long long)span, (unsigned long long)m->cpus,
                 (unsigned long long)m->held);
}

static void tell(const grids *m, htc_sim_grids_report *r)
{
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_grids_memory(&m->options, &r->memory);
    r->n_queues = m->n_queues;
    r->completed = m->completed;
    r->rejected = m->rejected;
    r->terminated = m->terminated;
    r->failed = m->failed;
    r->moves = m->moves;
    r->tasks = m->handed_in;
    r->evicted = m->evictions;
    r->active_most = m->active_most;
    r->work_s = htc__grids_seconds(m, m->work);
    r->evicted_s = htc__grids_seconds(m, m->evicted);
    r->moved_s = htc__grids_seconds(m, m->moved);
    uint64_t running = 0; /* tasks that have not ended: if the run was stopped */
    for (uint32_t q = 0; q < m->n_queues; q++)
        running += m->queue[q].busy;
    r->held_s = htc__grids_seconds(m, m->held + running * htc__scale_time(m->scale));
    r->busy_s = r->work_s + r->evicted_s + r->moved_s;
    check(m, r);
}

htc_status htc_sim_grids_run(const htc_env *env, const htc_sim_grids_options *options, htc_sim_grids_report *report, htc_sim_grids_result *queues,
                             htc_sim_grids_result *classes, htc_error *error)
{
    htc_sim_grids_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    grids                m = { 0 };
    uint64_t             bytes = 0;
    htc_status           status = report && report->size >= offsetof(htc_sim_grids_report, scale) ? htc__grids_options(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    status = htc__grids_can_be(&m.options, error);
    if (status != HTC_OK)
        return status;
    (void)htc_sim_grids_memory(&m.options, &bytes);
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu CPU%s and %llu job%s at once need %llu MiB, and %llu MiB are allowed", (unsigned long long)htc__grids_cpus(m.options.hierarchy),
                          htc__plural(htc__grids_cpus(m.options.hierarchy)), (unsigned long long)m.options.active_max, htc__plural(m.options.active_max), (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (env)
        m.env = *env;
    status = open_model(&m, error);
    if (status == HTC_OK) {
        m.print = htc__grids_print(&m);
        if (!m.options.resume)
            htc__grids_begin(&m);
        else if ((status = htc__grids_tape(&m, m.options.resume)) != HTC_OK)
            htc__checked_error(m.scale, error, status);
    }
    if (status == HTC_OK) {
        status = htc_scale_run(m.scale);
        r.interrupted = status == HTC_AGAIN;
        if (r.interrupted && m.options.checkpoint && (status = htc__grids_tape(&m, m.options.checkpoint)) != HTC_OK)
            htc__error(error, status, "the checkpoint could not be written");
        else if (status == HTC_EFULL)
            htc__error(error, status, m.active >= m.options.active_max ? "%llu jobs are in the system, and no more may be: is it overloaded? Else raise active_max" :
                                                                        "there are %llu jobs, and too many tasks were taken from their CPUs before their time",
                       (unsigned long long)m.active);
        else if (status < 0 && status != HTC_AGAIN)
            htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
        status = status == HTC_AGAIN ? HTC_OK : status;
    }
    if (status == HTC_OK) {
        tell(&m, &r);
        htc__grids_tell_results(&m, queues, classes);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_grids_report, scale));
    }
    close_model(&m);
    return status;
}
