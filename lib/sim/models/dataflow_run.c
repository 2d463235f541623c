/* A run of tasks that wait for tasks, from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "sim/models/checked.h"
#include "sim/models/dataflow.h"

#define PER_NODE   4  /* events beside the ends of tasks, some of them stale */

/* ---- options ---- */

static htc_ns cost(htc_ns given, htc_ns by_default)
{
    return given == HTC_NEVER ? 0 : given ? given : by_default;
}

static htc_status copy_options(const htc_sim_dataflow_options *in, htc_sim_dataflow_options *o)
{
    *o = (htc_sim_dataflow_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_dataflow_options, phases)) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    o->degree = o->degree ? o->degree : o->shape == HTC_SIM_DATAFLOW_MAPREDUCE ? 1 : 2;
    o->latency_ns = cost(o->latency_ns, 10 * HTC_US);
    o->bytes_per_s = o->bytes_per_s ? o->bytes_per_s : UINT64_C(1250000000);
    o->load_bytes = o->load_bytes ? o->load_bytes : 100;
    o->task_bytes = o->task_bytes ? o->task_bytes : 1024;
    o->task_ns = cost(o->task_ns, HTC_MS);
    o->store_ns = cost(o->store_ns, HTC_MS);
    o->commit_ns = cost(o->commit_ns, 0);
    o->dispatch_ns = cost(o->dispatch_ns, HTC_MS);
    o->pfs_bytes_per_s = o->pfs_bytes_per_s ? o->pfs_bytes_per_s : UINT64_C(1000000000);
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_US;
    int knows_itself = o->shape == HTC_SIM_DATAFLOW_PHASES || o->shape == HTC_SIM_DATAFLOW_FLOW || o->shape == HTC_SIM_DATAFLOW_DAG;
    if (o->system > HTC_SIM_DATAFLOW_YARN || o->shape > HTC_SIM_DATAFLOW_DAG || o->layout > HTC_SIM_DATAFLOW_RANDOM || o->inputs > HTC_SIM_DATAFLOW_PAIRS ||
        o->links > HTC_SIM_DATAFLOW_BOTH || o->nodes < 1 || o->cores < 1 || o->nodes > HTC_SIM_DATAFLOW_CORES_MAX || o->cores > HTC_SIM_DATAFLOW_CORES_MAX / o->nodes ||
        o->in_turn > 1 || o->scattered > 1 || o->shuffled > 1 || o->reserved || (!knows_itself && (o->tasks < 1 || o->tasks > HTC_SIM_DATAFLOW_TASKS_MAX)) ||
        htc_scale_law_check(&o->length) != HTC_OK || htc_scale_law_check(&o->bytes) != HTC_OK || o->files > HTC_SIM_DATAFLOW_TASKS_MAX ||
        (o->inputs == HTC_SIM_DATAFLOW_ONE_FILE && o->files < 1) || (o->inputs == HTC_SIM_DATAFLOW_PAIRS && (o->files < 2 || o->files % 2)) ||
        o->latency_ns > HTC_NEVER / 4096 || o->commit_ns > HTC_NEVER / 4096)
        return HTC_EINVAL;
    if (o->system == HTC_SIM_DATAFLOW_YARN && o->shape != HTC_SIM_DATAFLOW_BAG && o->shape != HTC_SIM_DATAFLOW_MAPREDUCE && o->shape != HTC_SIM_DATAFLOW_PHASES)
        return HTC_EINVAL;
    if (o->system == HTC_SIM_DATAFLOW_YARN && o->shape == HTC_SIM_DATAFLOW_BAG) { /* a job of one phase */
        o->shape = HTC_SIM_DATAFLOW_MAPREDUCE;
        o->degree = 0;
    }
    if (!o->sample)
        o->sample_ns = 0;
    return HTC_OK;
}

static htc_status copy_policies(flow *m)
{
    htc_status status = HTC_OK;
    m->steal = (htc_steal_options)HTC_STEAL_OPTIONS_INIT;
    m->steal.poll_ns = 10 * HTC_MS;
    m->locality = (htc_locality_options)HTC_LOCALITY_OPTIONS_INIT;
    if (m->options.steal)
        status = htc__options_copy(&m->steal, sizeof m->steal, m->options.steal, m->options.steal->size, sizeof m->steal.size);
    if (status == HTC_OK && m->options.locality)
        status = htc__options_copy(&m->locality, sizeof m->locality, m->options.locality, m->options.locality->size, sizeof m->locality.size);
    m->steal.size = sizeof m->steal;
    m->locality.size = sizeof m->locality;
    if (m->locality.bytes_per_s == 0)
        m->locality.bytes_per_s = m->options.bytes_per_s;
    return status;
}

/* Near the golden section of n, and without a factor of it: multiples of it modulo n are all numbers below n, neighbours far apart. */
static uint64_t stride_of(uint64_t n)
{
    for (uint64_t stride = (uint64_t)((double)n * 0.6180339887) + 1;; stride++) {
        uint64_t a = n, b = stride;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

htc_status htc__dataflow_known(const htc_env *env, const htc_sim_dataflow_options *options, flow *m, htc_error *error)
{
    *m = (flow){ .copy_free = FLOW_NONE };
    if (env)
        m->env = *env;
    htc_status status = copy_options(options, &m->options);
    if (status == HTC_OK)
        status = copy_policies(m);
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    const htc_sim_dataflow_options *o = &m->options;
    m->nodes = o->nodes;
    m->cores = o->nodes * o->cores;
    m->half = o->files / 2;
    m->length = htc__scale_drawer_of(&o->length, o->tick_ns);
    m->bytes = htc__scale_drawer_of(&o->bytes, 1);
    m->lengths_stream = htc__scale_stream(o->seed, FLOW_LENGTHS);
    m->sizes_stream = htc__scale_stream(o->seed, FLOW_SIZES);
    m->layout_stream = htc__scale_stream(o->seed, FLOW_LAYOUT);
    m->records_stream = htc__scale_stream(o->seed, FLOW_RECORDS);
    if ((status = htc__dataflow_graph_open(m, error)) != HTC_OK)
        return status;
    m->stride = o->shuffled ? stride_of(m->tasks) : 1;
    m->node_id = m->cores;
    m->task_id = m->node_id + m->nodes * FLOW_NODE_IDS;
    m->run_id = m->task_id + m->tasks;
    return HTC_OK;
}

/* What is pending at once is at most what every edge and every pushed task has under way. */
static htc_scale_options engine_of(flow *m)
{
    const htc_sim_dataflow_options *o = &m->options;
    uint64_t pushes = m->has_data && !htc__dataflow_is_central(m) ? m->tasks : 0, events = m->cores + m->nodes * (PER_NODE + (o->nudge_ns ? HTC_STEAL_NUDGES_MAX : 0)) + FLOW_RUN_IDS + pushes;
    if (m->phases == 0)
        events += m->edges;
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = m->run_id + FLOW_RUN_IDS, .events_max = events < UINT32_MAX - 1 ? events : UINT32_MAX - 1,
                                .cores = m->cores, .tick_ns = o->tick_ns, .tasks = m->tasks, .event = htc__dataflow_event, .soon = htc__dataflow_soon, .next = htc__dataflow_next, .ctx = m, .host = o->host };
}

static uint64_t tables(const flow *m)
{
    uint64_t files = m->options.inputs ? m->options.files : 0, graph = m->graph.tasks ? m->tasks * 32 + m->edges * 8 : 0;
    return graph + m->nodes * (sizeof *m->node + 2 * sizeof *m->holder + sizeof *m->asked + sizeof *m->load + 700) + m->cores * sizeof *m->core +
           m->tasks * sizeof *m->waits + (m->tasks + files) * sizeof *m->where + htc__dataflow_inputs_max(m) * (sizeof *m->in + sizeof *m->input);
}

static uint64_t ready_at_first(const flow *m)
{
    uint64_t n = m->tasks, d = m->options.degree;
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_FANOUT:
        return 1;
    case HTC_SIM_DATAFLOW_FANIN:
        return n - (n - 1 + d - 1) / d;
    case HTC_SIM_DATAFLOW_PIPELINE:
        return (n + d - 1) / d;
    default:
        return m->phases ? m->phase[0].tasks : n;
    }
}

static htc_status memory_of(flow *m, uint64_t *bytes)
{
    htc_scale_options e = engine_of(m);
    uint64_t          engine = 0;
    htc_status        status = htc_scale_memory(&e, &engine);
    if (status == HTC_OK)
        *bytes = sizeof *m + tables(m) + engine + ready_at_first(m) * sizeof(flow_entry);
    return status;
}

htc_status htc_sim_dataflow_memory(const htc_sim_dataflow_options *options, uint64_t *bytes)
{
    flow       m;
    htc_status status = bytes ? htc__dataflow_known(NULL, options, &m, NULL) : HTC_EINVAL;
    if (!bytes)
        return status;
    if (status == HTC_OK)
        status = memory_of(&m, bytes);
    htc__dataflow_graph_close(&m);
    return status;
}

/* ---- a run ---- */

static void close_node(flow *m, flow_node *v)
{
    htc__dataflow_queue_free(&m->env, &v->local);
    htc__dataflow_queue_free(&m->env, &v->shared);
    htc__dataflow_queue_free(&m->env, &v->loot);
    htc_locality_destroy(v->policy);
    htc_locality_lengths_destroy(v->lengths);
}

static size_t places(const flow *m)
{
    return (m->tasks + (m->options.inputs ? m->options.files : 0)) * sizeof *m->where;
}

static void close_model(flow *m)
{
    htc_scale_destroy(m->scale);
    for (uint64_t i = 0; m->node && i < m->nodes; i++)
        close_node(m, &m->node[i]);
    htc__free(&m->env, m->node, m->nodes * sizeof *m->node);
    htc__free(&m->env, m->core, m->cores * sizeof *m->core);
    htc__free(&m->env, m->waits, m->tasks * sizeof *m->waits);
    htc__free(&m->env, m->where, places(m));
    htc__free(&m->env, m->holder, 2 * m->nodes * sizeof *m->holder);
    htc__free(&m->env, m->asked, m->nodes * sizeof *m->asked);
    htc__free(&m->env, m->load, m->nodes * sizeof *m->load);
    htc__free(&m->env, m->in, m->inputs_room * sizeof *m->in);
    htc__free(&m->env, m->input, m->inputs_room * sizeof *m->input);
    htc__free(&m->env, m->copy, m->copies_room * sizeof *m->copy);
    htc__free(&m->env, m->bucket, m->buckets * sizeof *m->bucket);
    htc__free(&m->env, m->queue.at, m->queue.room * sizeof *m->queue.at);
    htc__free(&m->env, m->free_cores.at, m->free_cores.room * sizeof *m->free_cores.at);
    htc__dataflow_graph_close(m);
}

static int open_tables(flow *m)
{
    m->inputs_room = htc__dataflow_inputs_max(m);
    m->node = htc__alloc(&m->env, m->nodes * sizeof *m->node);
    m->core = htc__alloc_raw(&m->env, m->cores * sizeof *m->core);
    m->waits = htc__alloc_raw(&m->env, m->tasks * sizeof *m->waits);
    m->where = htc__alloc(&m->env, places(m));
    m->holder = htc__alloc_raw(&m->env, 2 * m->nodes * sizeof *m->holder);
    m->asked = htc__alloc_raw(&m->env, m->nodes * sizeof *m->asked);
    m->load = htc__alloc_raw(&m->env, m->nodes * sizeof *m->load);
    m->in = htc__alloc_raw(&m->env, m->inputs_room * sizeof *m->in);
    m->input = htc__alloc_raw(&m->env, m->inputs_room * sizeof *m->input);
    return m->node && m->core && m->waits && m->where && m->holder && m->asked && m->load && m->in && m->input;
}

static htc_status open_node(flow *m, uint32_t i)
{
    flow_node                  *v = &m->node[i];
    htc_locality_lengths_options lengths = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    htc_locality_options         locality = m->locality;
    locality.self = i;
    lengths.kinds_max = m->graph.tasks ? 1024 : m->phases > 1 ? m->phases : 1;
    lengths.unknown_ns = m->options.expected_ns;
    v->newest = v->oldest = v->idle_first = v->other = FLOW_NONE;
    for (uint32_t c = m->options.cores; c-- > 0;)
        htc__dataflow_idle(m, i * m->options.cores + c);
    if (htc__dataflow_is_central(m))
        return HTC_OK;
    htc_status status = htc_locality_create(&m->env, &locality, &v->policy);
    return status == HTC_OK ? htc_locality_lengths_create(&m->env, &lengths, &v->lengths) : status;
}

/* Where files lie; with a file system that has them, nowhere else. */
static void lay_files(flow *m)
{
    const htc_sim_dataflow_options *o = &m->options;
    uint64_t                        stream = htc__scale_stream(o->seed, FLOW_FILES);
    int                             nowhere = o->system == HTC_SIM_DATAFLOW_PFS || o->system == HTC_SIM_DATAFLOW_DATADIFF;
    for (uint64_t f = 0; o->inputs && f < o->files; f++)
        m->where[m->tasks + f] = nowhere ? FLOW_NONE : o->scattered ? (uint32_t)((htc__scale_draw(stream, f) >> 32) * m->nodes >> 32) : (uint32_t)(f % m->nodes);
}

static uint64_t ticks(const flow *m, htc_ns span)
{
    return htc_scale_ticks(m->scale, span);
}

static uint64_t message(const flow *m, double bytes)
{
    return ticks(m, m->options.latency_ns + (htc_ns)(bytes * 1e9 / (double)m->options.bytes_per_s + 0.5));
}

static void set_costs(flow *m)
{
    const htc_sim_dataflow_options *o = &m->options;
    double                          second = 1e9 / (double)o->tick_ns;
    m->hop_load = message(m, o->load_bytes);
    m->hop_task = message(m, o->task_bytes);
    m->task = ticks(m, o->task_ns);
    m->store = ticks(m, o->store_ns);
    m->commit = ticks(m, o->commit_ns);
    m->give = ticks(m, o->give_ns);
    m->dispatch = ticks(m, o->dispatch_ns);
    m->launch = ticks(m, o->launch_ns);
    m->grant = ticks(m, o->grant_ns);
    m->container = ticks(m, o->container_ns);
    m->nudge = o->nudge_ns && !ticks(m, o->nudge_ns) ? 1 : ticks(m, o->nudge_ns);
    m->sample = o->sample_ns && !ticks(m, o->sample_ns) ? 1 : ticks(m, o->sample_ns);
    m->tick_bytes = (double)o->bytes_per_s / second;
    m->disk_tick_bytes = (double)o->disk_bytes_per_s / second;
    m->pfs_tick_bytes = (double)o->pfs_bytes_per_s / second;
}

static htc_status open_model(flow *m, htc_error *error)
{
    htc_scale_options e = engine_of(m);
    htc_status        status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    if (!open_tables(m))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    m->steal.policy = htc__asked_steal(&m->asked_thief, m->steal.policy, m->answer);
    m->locality.policy = htc__asked_locality(&m->asked_place, m->locality.policy, m->nodes, m->answer);
    for (uint32_t i = 0; i < m->nodes && status == HTC_OK; i++)
        status = open_node(m, i);
    if (status != HTC_OK)
        return htc__error(error, status, "the policy of a node: %s", htc_strerror(status));
    set_costs(m);
    lay_files(m);
    m->now.idle = m->cores;
    for (uint32_t c = 0; c < m->cores && htc__dataflow_is_central(m) && m->options.system < HTC_SIM_DATAFLOW_YARN && m->options.system != HTC_SIM_DATAFLOW_DATADIFF; c++) {
        m->now.idle--;
        htc__dataflow_core_is_free(m, (uint32_t)(c % m->nodes * m->options.cores + c / m->nodes)); /* one of each node, then the next of each */
    }
    return HTC_OK;
}

/* ---- what is told ---- */

static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 100; i++)
        r = (r + x / r) / 2;
    return r;
}

static double spread(const flow *m)
{
    double mean = (double)m->now.ended / (double)m->nodes, sum = 0;
    for (uint64_t i = 0; i < m->nodes; i++) {
        double off = (double)m->node[i].ended - mean;
        sum += off * off;
    }
    return mean > 0 && sum > 0 ? root(sum / (double)m->nodes) / mean : 0;
}

static uint64_t held(const flow *m)
{
    uint64_t bytes = m->copies_room * (sizeof *m->copy + sizeof *m->bucket) + (m->queue.room + m->free_cores.room) * sizeof(uint32_t);
    for (uint64_t i = 0; i < m->nodes; i++)
        bytes += htc__dataflow_queue_bytes(&m->node[i].local) + htc__dataflow_queue_bytes(&m->node[i].shared) + htc__dataflow_queue_bytes(&m->node[i].loot);
    return bytes;
}

/* (k + 1) l / 2 with k tasks of length l a core, at least one, over all tasks. */
static double ideal_turnaround(const flow *m)
{
    double all = 0;
    for (uint32_t p = 0; p < (m->phases ? m->phases : 1); p++) {
        uint64_t first = m->phases ? m->phase[p].first : 0, n = m->phases ? m->phase[p].tasks : m->tasks;
        double   work = 0, k = (double)n / (double)m->cores;
        for (uint64_t t = first; t < first + n; t++)
            work += (double)htc__dataflow_length(m, (uint32_t)t);
        all += ((k < 1 ? 1 : k) + 1) * work / 2;
    }
    return all / (double)m->tasks;
}

static void check(const flow *m, htc_sim_dataflow_report *r)
{
    uint64_t counted = 0, queued = m->queue.n, over = 0, thieves = 0; /* thieves: for which something is to happen */
    for (uint64_t i = 0; i < m->nodes; i++) {
        const flow_node *v = &m->node[i];
        counted += v->ended;
        queued += v->local.n + v->shared.n + v->loot.n;
        over += v->cached > m->options.cache_bytes;
        thieves += (uint64_t)htc__thief_waits(v->phase);
    }
    if (r->scale.wrong[0])
        return;
    if (counted != r->scale.ended || (!r->interrupted && (queued || m->now.waiting || m->now.ready)))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "nodes have ended %llu of %llu tasks, %llu are queued, and %llu wait", (unsigned long long)counted,
                 (unsigned long long)r->scale.ended, (unsigned long long)queued, (unsigned long long)m->now.waiting);
    else if (!r->interrupted && thieves)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu nodes wait for an answer in the end, and none is on its way", (unsigned long long)thieves);
    else if (m->now.read_bytes != m->now.local_bytes + m->now.cached_bytes + m->now.moved_bytes || over)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu bytes were read, and %llu found; %llu caches are too full", (unsigned long long)m->now.read_bytes,
                 (unsigned long long)(m->now.local_bytes + m->now.cached_bytes + m->now.moved_bytes), (unsigned long long)over);
}

static htc_status tell(flow *m, htc_sim_dataflow_report *r, htc_error *error)
{
    htc_scale_report_get(m->scale, &r->scale);
    (void)memory_of(m, &r->memory);
    r->memory += held(m);
    r->cores = m->cores;
    r->tasks = m->tasks;
    r->edges = m->edges;
    r->rounds = m->now.rounds;
    r->steals = m->now.steals;
    r->stolen = m->now.stolen;
    r->nudges = m->now.nudges;
    r->pushed = m->now.pushed;
    r->freed = m->now.freed;
    r->read_bytes = m->now.read_bytes;
    r->local_bytes = m->now.local_bytes;
    r->cached_bytes = m->now.cached_bytes;
    r->moved_bytes = m->now.moved_bytes;
    r->cv = spread(m);
    double span = (double)r->scale.makespan / 1e9, tick = (double)m->options.tick_ns / 1e9, path = htc__dataflow_longest_path(m), share = m->now.work / (double)m->cores;
    double longest = (double)r->scale.longest / (double)m->options.tick_ns;
    if (path < 0)
        return htc__error(error, path < -1 ? HTC_ECYCLE : HTC_ENOMEM, path < -1 ? "tasks of the graph wait for each other" : "no memory for the longest path");
    path = path > longest ? path : longest;
    r->held_s = m->now.held * tick;
    r->ideal_s = (path > share ? path : share) * tick;
    if (span > 0) {
        r->throughput = (double)r->scale.ended / span;
        r->efficiency = r->interrupted ? 0 : r->ideal_s / span;
        r->utilisation = r->scale.busy_s / ((double)m->cores * span);
    }
    if (m->now.ended)
        r->turnaround_s = (m->now.end_sum - m->now.ready_sum) / (double)m->now.ended * tick;
    if (!r->interrupted && (m->phases || m->options.shape == HTC_SIM_DATAFLOW_BAG)) {
        double ideal = ideal_turnaround(m) * tick;
        r->delay_ratio = ideal > 0 ? (r->turnaround_s - ideal) / ideal : 0;
    }
    check(m, r);
    return HTC_OK;
}

static htc_status check_memory(flow *m, htc_error *error)
{
    uint64_t   bytes = 0, allowed = m->options.host ? m->options.host->memory_max : 0;
    htc_status status = memory_of(m, &bytes);
    if (status == HTC_OK && allowed && bytes > allowed)
        return htc__error(error, HTC_ETOOBIG, "%llu task%s on %llu core%s need %llu MiB, and %llu MiB are allowed", (unsigned long long)m->tasks, htc__plural(m->tasks), (unsigned long long)m->cores,
                          htc__plural(m->cores), (unsigned long long)(bytes >> 20), (unsigned long long)(allowed >> 20));
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "the options of the run are out of range");
}

static htc_status run_model(flow *m, htc_sim_dataflow_report *r, htc_error *error)
{
    htc_status status = HTC_OK;
    if (!m->options.resume)
        htc__dataflow_begin(m);
    else if ((status = htc__dataflow_tape(m, m->options.resume)) != HTC_OK)
        return htc__checked_error(m->scale, error, status);
    status = htc_scale_run(m->scale);
    r->interrupted = status == HTC_AGAIN;
    if (r->interrupted && m->options.checkpoint && (status = htc__dataflow_tape(m, m->options.checkpoint)) != HTC_OK)
        return htc__error(error, status, "the checkpoint could not be written");
    if (status < 0 && m->answer[0])
        return htc__asked_error(error, status, m->answer);
    if (status < 0)
        return htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
    return HTC_OK;
}

htc_status htc_sim_dataflow_run(const htc_env *env, const htc_sim_dataflow_options *options, htc_sim_dataflow_report *report, htc_error *error)
{
    htc_sim_dataflow_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    flow                    m;
    if (!report || report->size < offsetof(htc_sim_dataflow_report, scale))
        return htc__error(error, HTC_EINVAL, "there is no report");
    htc_status status = htc__dataflow_known(env, options, &m, error);
    if (status == HTC_OK)
        status = check_memory(&m, error);
    if (status == HTC_OK)
        status = open_model(&m, error);
    if (status == HTC_OK)
        status = run_model(&m, &r, error);
    if (status == HTC_OK)
        status = tell(&m, &r, error);
    if (status == HTC_OK)
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_dataflow_report, scale));
    close_model(&m);
    return status;
}
