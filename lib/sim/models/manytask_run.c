/* A run of the many-task model from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/manytask.h"

#define LINE       64 /* bytes of a cache line, */
#define SPANS      64 /* spans of a queue that there is room for at first, beside one a node */
#define PER_NODE   4  /* events beside the ends of tasks, most of them stale */

/* ---- options ---- */

static htc_status copy_options(const htc_sim_manytask_options *in, htc_sim_manytask_options *o)
{
    *o = (htc_sim_manytask_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_manytask_options, lengths)) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    o->latency_ns = o->latency_ns ? o->latency_ns : 100 * HTC_US;
    o->bytes_per_s = o->bytes_per_s ? o->bytes_per_s : UINT64_C(850000000);
    o->load_bytes = o->load_bytes ? o->load_bytes : 100;
    o->task_bytes = o->task_bytes ? o->task_bytes : 1024;
    o->dispatch_ns = o->dispatch_ns == 0 ? HTC_MS : o->dispatch_ns == HTC_NEVER ? 0 : o->dispatch_ns;
    o->fanout = o->fanout ? o->fanout : 32;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_US;
    o->hand_ns = o->hand_ns == 0 ? o->dispatch_ns : o->hand_ns == HTC_NEVER ? 0 : o->hand_ns;
    o->schedulers = o->schedulers ? o->schedulers : 8;
    o->probes = o->probes ? o->probes : 2;
    o->placed = o->placed ? o->placed : 16;
    o->grids = o->grids ? o->grids : 1;
    o->parts = o->parts ? o->parts : 1;
    if (o->batch && o->below == 0)
        o->below = (o->batch + 4) / 5;
    if (o->tasks < 1 || o->tasks >= UINT64_MAX / 2 || o->architecture > HTC_SIM_MANYTASK_CLOUDKON || o->layout > HTC_SIM_MANYTASK_RANDOM || !o->groups ||
        o->n_groups < 1 || o->n_groups > 255 || (o->lengths && o->n_lengths < 1) || o->fanout < 2 || o->in_turn > 1 || o->tiles > 1 ||
        (!o->lengths && htc_scale_law_check(&o->length) != HTC_OK) || o->latency_ns > HTC_NEVER / 4096 || o->schedulers > 65536 || o->probes > 1024 || o->placed > 65536 || o->grids > HTC_SCALE_PARTS_MAX || o->parts > HTC_SCALE_PARTS_MAX || o->servers > HTC_SIM_MANYTASK_NODES_MAX ||
        (o->shape.x && (o->architecture == HTC_SIM_MANYTASK_SPARROW || o->architecture == HTC_SIM_MANYTASK_CLOUDKON)))
        return HTC_EINVAL;
    return HTC_OK;
}

static htc_status copy_groups(many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    for (size_t i = 0; i < o->n_groups; i++) {
        htc_sim_manytask_group g = { 0 };
        htc_status             status = htc__options_at(&g, sizeof g, o->groups, i, offsetof(htc_sim_manytask_group, reserved));
        if (status != HTC_OK)
            return status;
        if (g.nodes < 1 || g.nodes > HTC_SIM_MANYTASK_NODES_MAX - m->nodes || g.cores < 1 || g.cores > (HTC_SIM_MANYTASK_CORES_MAX - m->cores) / g.nodes ||
            !(g.speed >= 0 && g.speed <= 1e6) || (g.speed > 0 && g.speed < 1e-6) || g.reserved)
            return HTC_EINVAL;
        m->group[i] = (many_group){ .first = m->nodes, .cores = g.cores, .speed = g.speed > 0 ? g.speed : 1 };
        m->nodes += g.nodes;
        m->cores += g.nodes * g.cores;
        m->power += (double)(g.nodes * g.cores) * m->group[i].speed;
    }
    return HTC_OK;
}

static int is_queued(const many *m)
{
    return m->options.architecture == HTC_SIM_MANYTASK_DISTRIBUTED || m->options.architecture == HTC_SIM_MANYTASK_SPARROW;
}

/* Events that concern one node alone are what several threads go through: nodes that nudge are not so, nor is a policy that remembers; and tasks are told
 * one after the other. */
static uint32_t parts_of(const many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    uint64_t                        blocks = (m->nodes + (1u << MANY_BLOCK_BITS) - 1) >> MANY_BLOCK_BITS;
    if (o->architecture != HTC_SIM_MANYTASK_DISTRIBUTED || o->grids > 1 || o->nudge_ns || o->begun || (m->steal.policy && (m->steal.policy->ctx || m->steal.policy->settled)))
        return 1;
    return o->parts < blocks ? o->parts : (uint32_t)blocks;
}

static void set_parts(many *m, uint32_t parts)
{
    m->options.parts = parts;
    m->block_bits = MANY_BLOCK_BITS;
    while (m->block_bits < MANY_BLOCK_MOST && m->nodes >> m->block_bits >= (uint64_t)4 * parts)
        m->block_bits++;
}

/* The points of a mesh are at least as many as the nodes. */
static int shape_holds(const many *m)
{
    uint32_t hops;
    return !m->options.shape.x || htc_steal_hops(&m->options.shape, 0, (uint32_t)m->nodes - 1, &hops) == HTC_OK;
}

/* Dispatchers, and tables of the systems that are compared with. */
static void plan(many *m)
{
    htc_sim_manytask_options *o = &m->options;
    m->chiefs = 1;
    switch (o->architecture) {
    case HTC_SIM_MANYTASK_DISTRIBUTED:
        m->chiefs = 0;
        break;
    case HTC_SIM_MANYTASK_HIERARCHICAL:
        m->chiefs = htc__many_chiefs(m->nodes, o->fanout, &m->levels);
        break;
    case HTC_SIM_MANYTASK_FALKON:
        m->ring_size = m->cores;
        break;
    case HTC_SIM_MANYTASK_FALKON_TREE:
        m->chiefs = 1 + (m->nodes + o->fanout - 1) / o->fanout;
        m->levels = 2;
        m->ring_size = m->cores;
        break;
    case HTC_SIM_MANYTASK_SPARROW:
        m->chiefs = o->schedulers;
        m->ring_size = o->schedulers * (uint64_t)o->placed;
        break;
    case HTC_SIM_MANYTASK_CLOUDKON:
        o->servers = o->servers ? o->servers : (uint32_t)m->nodes;
        m->servers = o->servers;
        break;
    default:
        break;
    }
}

static htc_status known(const htc_sim_manytask_options *options, many *m)
{
    *m = (many){ 0 };
    htc_status status = copy_options(options, &m->options);
    if (status == HTC_OK)
        status = copy_groups(m);
    if (status != HTC_OK)
        return status;
    if (m->options.root >= m->nodes || !shape_holds(m) || m->cores > HTC_SIM_MANYTASK_CORES_MAX / m->options.grids || m->options.tasks >= UINT64_MAX / 2 / m->options.grids)
        return HTC_EINVAL;
    m->steal = (htc_steal_options)HTC_STEAL_OPTIONS_INIT;
    m->steal.poll_ns = 10 * HTC_MS;
    if (m->options.steal)
        status = htc__options_copy(&m->steal, sizeof m->steal, m->options.steal, m->options.steal->size, sizeof m->steal.size);
    m->steal.size = sizeof m->steal;
    set_parts(m, parts_of(m));
    plan(m);
    m->batches = m->options.begun && m->options.batch ? (m->options.tasks - 1) / m->options.batch + 1 : 0;
    m->ids = m->nodes * MANY_NODE_IDS + m->chiefs * MANY_CHIEF_IDS + 1;
    m->length = htc__scale_drawer_of(&m->options.length, m->options.tick_ns);
    m->stream = htc__scale_stream(m->options.seed, MANY_LENGTHS);
    return status;
}

/* ---- memory ---- */

/* Ticks of the longest task that there can be; distributions are monotonous in their bits. */
static uint64_t longest(const many *m)
{
    uint64_t least = UINT64_MAX, most = 0;
    if (m->options.lengths) {
        for (size_t i = 0; i < m->options.n_lengths; i++)
            most = m->options.lengths[i] > most ? m->options.lengths[i] : most;
        most = most / m->options.tick_ns + 1;
    } else {
        least = htc__scale_drawer_ticks(&m->length, 0);
        most = htc__scale_drawer_ticks(&m->length, UINT64_MAX);
        most = most > least ? most : least;
    }
    double slowest = 1;
    for (size_t i = 0; i < m->options.n_groups; i++)
        slowest = m->group[i].speed < slowest ? m->group[i].speed : slowest;
    double span = (double)most / slowest;
    return span < 4e18 ? (uint64_t)span : UINT64_MAX / 4;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Tasks that run at once: no more than are dispatched while the longest one runs. */
static uint64_t running_max(const many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    uint64_t                        most = smaller(m->cores, o->tasks), lowest = m->chiefs > 1 ? (m->nodes + o->fanout - 1) / o->fanout : 1, ticks = o->dispatch_ns / o->tick_ns;
    if (is_queued(m) || ticks == 0 || htc__many_is_other(m))
        return most;
    uint64_t hops = o->shape.x ? (uint64_t)o->shape.x + o->shape.y + o->shape.z : 1;
    double   extra = (2.0 * (double)o->latency_ns * (double)hops + (double)o->task_ns + 2e9 * ((double)o->task_bytes + o->load_bytes) / (double)o->bytes_per_s) / (double)o->tick_ns;
    double   each = ((double)longest(m) + extra) / (double)ticks + 4;
    return each * (double)lowest < (double)most ? (uint64_t)(each * (double)lowest) : most;
}

/* Sparrow: tasks that are on their way at once. */
static uint64_t pushed_max(const many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    double                          tick = (double)o->tick_ns, wire = 1e9 / (double)o->bytes_per_s;
    double                          cycle = ((2 * ((double)o->latency_ns + wire * o->load_bytes) + (double)o->placed * (double)o->dispatch_ns) / tick) - 3;
    double                          batches = cycle >= 1 ? 2 + ((double)o->latency_ns + wire * o->task_bytes) / tick / cycle : 1e18;
    double                          most = batches * o->schedulers * o->placed;
    return most < (double)o->tasks ? (uint64_t)most : o->tasks;
}

static uint64_t other_events(const many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    double                          message = ((double)o->latency_ns + 1e9 * o->task_bytes / (double)o->bytes_per_s) / (double)o->tick_ns;
    uint64_t                        running = smaller(m->cores, o->tasks), hand = o->hand_ns / o->tick_ns, hops = o->shape.x ? (uint64_t)o->shape.x + o->shape.y + o->shape.z : 1;
    switch (o->architecture) {
    case HTC_SIM_MANYTASK_SPARROW:
        return running + o->schedulers + pushed_max(m);
    case HTC_SIM_MANYTASK_CLOUDKON:
        return m->cores;
    case HTC_SIM_MANYTASK_FALKON_TREE: {
        double handed = hand ? message * (double)hops / (double)hand + 4 : 1e18;
        return running + m->chiefs + (handed < (double)o->tasks ? (uint64_t)handed : o->tasks);
    }
    default:
        return running + m->chiefs;
    }
}

/* Grids do not act on each other: a window ends so that the host is looked at, after some million tasks. Short ones would only bring the grids in and out of the
 * cache. */
static htc_ns window_of(const many *m)
{
    double mean = m->options.lengths ? (double)longest(m) * (double)m->options.tick_ns / 2 : m->options.length.mean_ns;
    double part = 2e6 / ((double)m->options.tasks * m->options.grids), span = mean * (double)m->options.tasks / m->power * (part < 1.0 / 16 ? part : 1.0 / 16);
    return span < (double)m->options.tick_ns ? m->options.tick_ns : span < 1e18 ? (htc_ns)span : (htc_ns)1e18;
}

/* Cores of the part that has the most. */
static uint64_t cores_of_a_part(const many *m)
{
    uint64_t most = 0;
    for (uint32_t p = 0; p < m->options.parts; p++) {
        uint64_t cores = 0;
        for (size_t g = 0; g < m->options.n_groups; g++) {
            uint64_t end = g + 1 < m->options.n_groups ? m->group[g + 1].first : m->nodes;
            cores += (htc__many_nodes_of(m, p, end) - htc__many_nodes_of(m, p, m->group[g].first)) * m->group[g].cores;
        }
        most = cores > most ? cores : most;
    }
    return most;
}

#define FAR_NODES 8192 /* so many are not in the processor's own cache */

static htc_scale_options engine_of(many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    uint64_t                        events = running_max(m) + 8;
    if (o->parts > 1)
        events = smaller(cores_of_a_part(m), o->tasks) + htc__many_nodes_of(m, 0, m->nodes) * 2 * PER_NODE + 8; /* what one part lacks the others cannot lend */
    else if (htc__many_is_other(m))
        events = other_events(m) + 8;
    else if (is_queued(m))
        events += m->nodes * (PER_NODE + (o->nudge_ns ? HTC_STEAL_NUDGES_MAX : 0));
    else
        events += m->chiefs * 3 + (m->chiefs > 1 && o->dispatch_ns < o->tick_ns ? o->tasks : (uint64_t)(m->chiefs > 1) * m->chiefs * (1 + o->latency_ns / (o->dispatch_ns + 1)) * 2);
    int has_seats = !htc__many_is_other(m) && !is_queued(m), in_parts = o->grids > 1 || o->parts > 1, looks = !in_parts && (!has_seats || m->nodes >= FAR_NODES);
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = m->ids * o->grids, .part_ids = o->grids > 1 ? m->ids : 0, .window_ns = window_of(m),
                                .events_max = smaller(events, UINT32_MAX - 1), .cores = m->cores * o->grids, .tick_ns = o->tick_ns, .tasks = o->tasks * o->grids,
                                .event = in_parts ? htc__many_grid_event : htc__many_event,
                                .soon = looks ? htc__many_soon : NULL, .next = looks && has_seats ? htc__many_next : NULL, .ctx = m, .host = o->host };
}

uint32_t htc__many_cores_max(const many *m)
{
    uint32_t most = 0;
    for (size_t i = 0; i < m->options.n_groups; i++)
        most = m->group[i].cores > most ? m->group[i].cores : most;
    return most;
}

static uint64_t tables(const many *m)
{
    uint64_t tiles = (m->options.tiles ? m->nodes * sizeof *m->tile : 0) + m->batches * sizeof *m->batch_at + m->ring_size * sizeof *m->ring + m->servers * sizeof *m->until;
    if (is_queued(m))
        return tiles + LINE + m->nodes * (sizeof *m->node + sizeof *m->waiting + sizeof *m->asked + sizeof *m->load + sizeof *m->span) + SPANS * sizeof *m->span + m->chiefs * sizeof *m->chief;
    return tiles + m->nodes * sizeof *m->seat + m->chiefs * sizeof *m->chief + (htc__many_cores_max(m) + (size_t)1) * sizeof *m->busy_list;
}

static htc_status memory_of(many *m, uint64_t *bytes)
{
    htc_scale_options e = engine_of(m);
    uint64_t          engine = 0;
    uint64_t          own = (m->options.parts - 1) * (sizeof *m + m->nodes * (sizeof *m->asked + sizeof *m->load)) + htc__many_ahead_memory(m);
    htc_status        status = htc__scale_memory_shared(&e, m->options.parts > 1 ? m->options.parts : 0, &engine);
    if (status == HTC_OK)
        *bytes = m->options.grids * (sizeof *m + tables(m)) + own + engine;
    return status;
}

htc_status htc_sim_manytask_memory(const htc_sim_manytask_options *options, uint64_t *bytes)
{
    many       m;
    htc_status status = bytes ? known(options, &m) : HTC_EINVAL;
    return status == HTC_OK ? memory_of(&m, bytes) : status;
}

/* ---- a run ---- */

static void close_grid(many *m)
{
    htc__free(&m->env, m->node_block, m->nodes * sizeof *m->node + LINE);
    htc__free(&m->env, m->waiting, m->nodes * sizeof *m->waiting);
    htc__free(&m->env, m->asked, m->nodes * sizeof *m->asked);
    htc__free(&m->env, m->load, m->nodes * sizeof *m->load);
    htc__free(&m->env, m->span, m->now.spans * sizeof *m->span);
    htc__free(&m->env, m->seat, m->nodes * sizeof *m->seat);
    htc__free(&m->env, m->chief, m->chiefs * sizeof *m->chief);
    htc__free(&m->env, m->busy_list, (htc__many_cores_max(m) + (size_t)1) * sizeof *m->busy_list);
    htc__free(&m->env, m->tile, m->nodes * sizeof *m->tile);
    htc__free(&m->env, m->batch_at, m->batches * sizeof *m->batch_at);
    htc__free(&m->env, m->ring, m->ring_size * sizeof *m->ring);
    htc__free(&m->env, m->until, m->servers * sizeof *m->until);
}

/* Grids, or parts of one. */
static uint32_t copies(const many *all)
{
    return all->options.grids > 1 ? all->options.grids : all->options.parts;
}

static void close_model(many *all)
{
    htc_env  env = all->env;
    uint32_t n = copies(all);
    htc_scale_destroy(all->scale);
    htc__many_ahead_close(all);
    for (uint32_t p = 1; p < all->options.parts; p++) {
        htc__free(&env, all[p].asked, all->nodes * sizeof *all->asked);
        htc__free(&env, all[p].load, all->nodes * sizeof *all->load);
    }
    for (uint32_t g = 0; g < all->options.grids; g++)
        close_grid(&all[g]);
    htc__free(&env, all, n * sizeof *all);
}

static int open_queued(many *m)
{
    m->node_block = htc__alloc_raw(&m->env, m->nodes * sizeof *m->node + LINE);
    m->node = m->node_block ? (many_node *)((char *)m->node_block + (LINE - (uintptr_t)m->node_block % LINE) % LINE) : NULL;
    m->waiting = htc__alloc(&m->env, m->nodes * sizeof *m->waiting);
    m->asked = htc__alloc_raw(&m->env, m->nodes * sizeof *m->asked);
    m->load = htc__alloc_raw(&m->env, m->nodes * sizeof *m->load);
    m->span = htc__alloc_raw(&m->env, (m->nodes + SPANS) * sizeof *m->span);
    m->now.spans = m->span ? (uint32_t)m->nodes + SPANS : 0;
    m->now.span_free = MANY_NONE;
    m->chief = m->chiefs ? htc__alloc(&m->env, m->chiefs * sizeof *m->chief) : NULL;
    return (m->chief || !m->chiefs) && m->node && m->waiting && m->asked && m->load && m->span;
}

static int open_seated(many *m)
{
    m->seat = htc__alloc(&m->env, m->nodes * sizeof *m->seat);
    m->chief = htc__alloc(&m->env, m->chiefs * sizeof *m->chief);
    m->busy_list = htc__alloc_raw(&m->env, (htc__many_cores_max(m) + (size_t)1) * sizeof *m->busy_list);
    m->now.fewest = htc__many_cores_max(m);
    return m->seat && m->chief && m->busy_list;
}

static int open_others(many *m)
{
    if (m->ring_size)
        m->ring = htc__alloc(&m->env, m->ring_size * sizeof *m->ring);
    if (m->servers)
        m->until = htc__alloc(&m->env, m->servers * sizeof *m->until);
    return (m->ring || !m->ring_size) && (m->until || !m->servers);
}

static void fill(many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    for (size_t g = 0; g < o->n_groups; g++) {
        uint64_t end = g + 1 < o->n_groups ? m->group[g + 1].first : m->nodes;
        for (uint64_t i = m->group[g].first; i < end; i++) {
            if (m->seat)
                m->seat[i].group = (uint32_t)g;
            else
                m->node[i] = (many_node){ .more = MANY_NONE, .last = MANY_NONE, .idle = m->group[g].cores, .other = MANY_NONE, .loot = MANY_NONE, .group = (uint8_t)g };
        }
    }
    if (!m->seat) {
        if (m->chief)
            htc__many_seat(m);
        return;
    }
    for (uint32_t i = 0; i <= htc__many_cores_max(m); i++)
        m->busy_list[i] = MANY_NONE;
    htc__many_seat(m);
}

/* A node's share, if tasks go to all of them. */
static uint64_t below_of(const many *m)
{
    uint64_t below = m->options.batch ? m->options.below : 0;
    if (is_queued(m) && m->options.layout != HTC_SIM_MANYTASK_ONE && below)
        below = (below + m->nodes - 1) / m->nodes;
    return below;
}

static uint64_t ticks(const many *m, htc_ns span)
{
    return htc_scale_ticks(m->scale, span);
}

static htc_status open_grid(many *m, htc_error *error)
{
    if (m->options.tiles)
        m->tile = htc__alloc_raw(&m->env, m->nodes * sizeof *m->tile);
    if (m->batches)
        m->batch_at = htc__alloc(&m->env, m->batches * sizeof *m->batch_at);
    if (!(is_queued(m) ? open_queued(m) : open_seated(m)) || (m->options.tiles && !m->tile) || (m->batches && !m->batch_at) || !open_others(m))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    m->dispatch = ticks(m, m->options.dispatch_ns);
    m->task = ticks(m, m->options.task_ns);
    m->give = ticks(m, m->options.give_ns);
    m->hand = ticks(m, m->options.hand_ns);
    m->store = ticks(m, m->options.store_ns);
    m->nudge = m->options.nudge_ns && !ticks(m, m->options.nudge_ns) ? 1 : ticks(m, m->options.nudge_ns);
    m->sample = m->options.sample_ns && !ticks(m, m->options.sample_ns) ? 1 : ticks(m, m->options.sample_ns);
    m->hop_load = htc__many_message(m, 1, m->options.load_bytes);
    m->hop_task = htc__many_message(m, 1, m->options.task_bytes);
    m->below = below_of(m);
    m->id_mask = m->scale->queue->id_mask;
    fill(m);
    return HTC_OK;
}

/* The others are copies of the first one, but for what they are and where it stands. */
static htc_status open_grids(many *all, htc_error *error)
{
    htc_status status = HTC_OK;
    for (uint32_t g = 1; g < all->options.grids; g++) {
        all[g] = all[0];
        all[g].grid = g;
        all[g].first_id = g * all->ids;
        all[g].first_node = g * all->nodes;
        all[g].first_task = g * all->options.tasks;
    }
    for (uint32_t g = 0; g < all->options.grids && status == HTC_OK; g++) {
        all[g].scale = &all->scale->run->part[g];
        all[g].home = &all[g];
        all[g].steal.policy = htc__asked_steal(&all[g].asked_policy, all[g].steal.policy, all[g].answer);
        status = open_grid(&all[g], error);
    }
    return status;
}

/* What is of each part alone. */
static htc_status open_parts(many *all, htc_error *error)
{
    for (uint32_t p = 1; p < all->options.parts; p++) {
        all[p] = all[0];
        all[p].scale = &all->scale->run->part[p];
        all[p].now = (struct many_state){ .span_free = MANY_NONE };
        all[p].asked = NULL;
        all[p].load = NULL;
        if (all->steal.policy == &all->asked_policy.policy) /* a policy of one's own is asked by several threads, each with a text of its own */
            all[p].steal.policy = htc__asked_steal(&all[p].asked_policy, &all->asked_policy.of, all[p].answer);
    }
    for (uint32_t p = 1; p < all->options.parts; p++) {
        all[p].asked = htc__alloc_raw(&all->env, all->nodes * sizeof *all->asked);
        all[p].load = htc__alloc_raw(&all->env, all->nodes * sizeof *all->load);
        if (!all[p].asked || !all[p].load)
            return htc__error(error, HTC_ENOMEM, "no memory for the parts");
    }
    return htc__many_ahead_open(all) == HTC_OK ? HTC_OK : htc__error(error, HTC_ENOMEM, "no memory for the parts");
}

static htc_status open_model(many *all, htc_error *error)
{
    htc_scale_options e = engine_of(all);
    uint32_t          parts = all->options.parts;
    htc_status        status = htc__scale_create_shared(&all->env, &e, parts > 1 ? parts : 0, htc__many_turn, &all->scale, error);
    if (status == HTC_OK)
        status = open_grids(all, error);
    return status == HTC_OK && parts > 1 ? open_parts(all, error) : status;
}

/* ---- a checkpoint ---- */

/* What an experiment is: another one's checkpoint is refused. */
static uint64_t print_of(const many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    uint64_t numbers[] = { o->grids, o->architecture, o->layout, o->tasks, o->n_lengths, o->batch, m->below, o->root, o->shape.x, o->shape.y, o->shape.z, o->shape.wrap, o->latency_ns,
                           o->bytes_per_s, o->load_bytes, o->task_bytes, o->each_bytes, o->in_turn, m->dispatch, m->task, m->give, m->nudge, o->fanout, m->sample,
                           m->steal.poll_ns, m->steal.poll_ns_max, m->steal.at_ceiling, m->steal.neighbours, m->steal.degree, m->steal.amount, m->steal.near_workers,
                           m->batches, m->hand, m->store, o->schedulers, o->probes, o->placed, o->servers, m->steal.hops, m->steal.shape.x, m->steal.shape.y, m->steal.shape.z, m->steal.shape.wrap };
    uint64_t print = htc_hash64((htc_bytes){ numbers, sizeof numbers }, o->seed);
    print = htc_hash64((htc_bytes){ &o->length, sizeof o->length }, print);
    for (size_t i = 0; i < o->n_groups; i++)
        print = htc_hash64((htc_bytes){ &m->group[i], sizeof m->group[i] }, print);
    if (o->lengths)
        print = htc_hash64((htc_bytes){ o->lengths, o->n_lengths * sizeof *o->lengths }, print);
    if (m->steal.policy && m->steal.policy->name)
        print = htc_hash64((htc_bytes){ m->steal.policy->name, strlen(m->steal.policy->name) }, print);
    return print;
}

/* Before what is described by it. */
typedef struct head {
    uint64_t parts, print, sizes[3];
} head;

static head head_of(const many *all)
{
    return (head){ .parts = all->options.parts, .print = print_of(all), .sizes = { sizeof all->now, sizeof *all->node, sizeof *all->seat } };
}

/* The head was moved. */
static htc_status move_model(many *all, const htc_scale_tape *tape)
{
    uint8_t   *events = NULL;
    htc_status status = HTC_OK;
    for (uint32_t g = 0; g < all->options.grids && status == HTC_OK; g++)
        status = htc__many_move_grid(&all[g], tape);
    for (uint32_t p = 1; p < all->options.parts && status == HTC_OK; p++)
        status = tape->move(tape->ctx, &all[p].now, sizeof all->now);
    if (status == HTC_OK)
        status = htc__checked_engine(all->scale, tape, &events);
    for (uint32_t g = 0; g < all->options.grids && status == HTC_OK && tape->reads; g++)
        status = htc__many_check(&all[g], events);
    htc__checked_forget(all->scale, events);
    return status;
}

/* ---- what is told ---- */

static uint64_t ended_of(const many *m, uint64_t i)
{
    return m->seat ? m->seat[i].ended : m->node[i].ended;
}

static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 100; i++)
        r = (r + x / r) / 2;
    return r;
}

static double spread(const many *all, uint64_t ended)
{
    double nodes = (double)all->nodes * all->options.grids, mean = (double)ended / nodes, sum = 0;
    for (const many *m = all; m < all + all->options.grids; m++)
        for (uint64_t i = 0; i < m->nodes; i++) {
            double off = (double)ended_of(m, i) - mean;
            sum += off * off;
        }
    return mean > 0 && sum > 0 ? root(sum / nodes) / mean : 0;
}

/* The ticks of all lengths together; and the other counts. */
static double add_up(const many *all, htc_sim_manytask_report *r, uint64_t *ended, uint64_t *counted, uint64_t *waiting, uint64_t *thieves)
{
    double work = 0;
    for (const many *m = all; m < all + copies(all); m++) {
        r->rounds += m->now.rounds;
        r->steals += m->now.steals;
        r->stolen += m->now.stolen;
        r->nudges += m->now.nudges;
        work += (double)m->now.work;
        for (uint64_t i = 0; i < m->nodes && m == m->home; i++) {
            *counted += ended_of(m, i);
            *waiting += m->waiting ? m->waiting[i] : 0;
            *thieves += m->node && htc__thief_waits(m->node[i].phase);
            if (ended)
                ended[m->first_node + i] = ended_of(m, i);
        }
    }
    return work;
}

static void tell(many *all, htc_sim_manytask_report *r, uint64_t *ended)
{
    uint64_t counted = 0, waiting = 0, thieves = 0; /* thieves: for which something is to happen */
    htc_scale_report_get(all->scale, &r->scale);
    (void)memory_of(all, &r->memory);
    r->nodes = all->nodes * all->options.grids;
    r->cores = all->cores * all->options.grids;
    double work = add_up(all, r, ended, &counted, &waiting, &thieves), span = (double)r->scale.makespan / 1e9, tick = (double)all->options.tick_ns / 1e9;
    double ideal = work * tick / (all->power * all->options.grids), longest_task = (double)r->scale.longest / 1e9;
    ideal = ideal > longest_task ? ideal : longest_task;
    r->cv = spread(all, counted);
    if (span > 0) {
        r->throughput = (double)r->scale.ended / span;
        r->efficiency = r->interrupted ? 0 : ideal / span; /* what has begun is not over */
        r->utilisation = r->scale.busy_s / ((double)r->cores * span);
    }
    if (!r->scale.wrong[0] && (counted != r->scale.ended || (!r->interrupted && waiting)))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "nodes have ended %llu of %llu tasks, and %llu wait", (unsigned long long)counted,
                 (unsigned long long)r->scale.ended, (unsigned long long)waiting);
    else if (!r->scale.wrong[0] && !r->interrupted && thieves)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu nodes wait for an answer in the end, and none is on its way", (unsigned long long)thieves);
}

static htc_status check_memory(many *m, htc_error *error)
{
    uint64_t bytes = 0, allowed = m->options.host ? m->options.host->memory_max : 0;
    htc_status status = memory_of(m, &bytes);
    if (status == HTC_OK && allowed && bytes > allowed)
        return htc__error(error, HTC_ETOOBIG, "%llu node%s with %llu core%s need %llu MiB, and %llu MiB are allowed", (unsigned long long)m->nodes * m->options.grids,
                          htc__plural(m->nodes * m->options.grids), (unsigned long long)m->cores * m->options.grids, htc__plural(m->cores * m->options.grids), (unsigned long long)(bytes >> 20), (unsigned long long)(allowed >> 20));
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "the options of the run are out of range");
}

static htc_status resume_model(many *all, const head *found)
{
    head expected = head_of(all);
    return memcmp(found, &expected, sizeof expected) == 0 ? move_model(all, all->options.resume) : HTC_EFORMAT;
}

static htc_status write_model(many *all)
{
    const htc_scale_tape *tape = all->options.checkpoint;
    head                  h = head_of(all);
    htc_status            status = tape->move(tape->ctx, &h, sizeof h);
    return status == HTC_OK ? move_model(all, tape) : status;
}

static htc_status run_model(many *m, const head *found, htc_sim_manytask_report *r, htc_error *error)
{
    htc_status status = HTC_OK;
    for (uint32_t g = 0; g < m->options.grids && !m->options.resume; g++)
        htc__many_begin(&m[g]);
    if (m->options.resume && (status = resume_model(m, found)) != HTC_OK)
        return htc__checked_error(m->scale, error, status);
    status = htc_scale_run(m->scale);
    r->interrupted = status == HTC_AGAIN;
    if (r->interrupted && m->options.checkpoint && (status = write_model(m)) != HTC_OK)
        return htc__error(error, status, "the checkpoint could not be written");
    for (uint32_t g = 0; status < 0 && g < copies(m); g++)
        if (m[g].answer[0])
            return htc__asked_error(error, status, m[g].answer);
    if (status < 0)
        return htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
    return HTC_OK;
}

/* A checkpoint goes on in as many parts as it has. */
static htc_status read_head(many *m, head *found)
{
    if (!m->options.resume)
        return HTC_OK;
    htc_status status = m->options.resume->move(m->options.resume->ctx, found, sizeof *found);
    if (status != HTC_OK)
        return status;
    uint32_t most = (m->options.parts = HTC_SCALE_PARTS_MAX, parts_of(m));
    set_parts(m, (uint32_t)found->parts);
    return found->parts >= 1 && found->parts <= most ? HTC_OK : HTC_EFORMAT;
}

htc_status htc_sim_manytask_run(const htc_env *env, const htc_sim_manytask_options *options, htc_sim_manytask_report *report, uint64_t *ended, htc_error *error)
{
    htc_sim_manytask_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    many                    first, *m;
    head                    found = { 0 };
    htc_status              status = report && report->size >= offsetof(htc_sim_manytask_report, scale) ? known(options, &first) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    if ((status = read_head(&first, &found)) != HTC_OK)
        return htc__checked_error(NULL, error, status);
    if ((status = check_memory(&first, error)) != HTC_OK)
        return status;
    if (env)
        first.env = *env;
    if (!(m = htc__alloc(&first.env, copies(&first) * sizeof *m)))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    m[0] = first;
    status = open_model(m, error);
    if (status == HTC_OK)
        status = run_model(m, &found, &r, error);
    if (status == HTC_OK) {
        tell(m, &r, ended);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_manytask_report, scale));
    }
    close_model(m);
    return status;
}
