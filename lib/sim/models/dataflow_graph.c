/* The graph: whose children and parents are whose, how long tasks take and how much they make. Shapes are computed; what is given is copied into lists. */
#include <assert.h>
#include <string.h>

#include "sim/models/dataflow.h"

/* ---- what is given ---- */

static int room_for(flow *m, uint64_t tasks, uint64_t edges)
{
    flow_graph *g = &m->graph;
    g->tasks = (uint32_t)tasks;
    g->edges = (uint32_t)edges;
    g->child_first = htc__alloc(&m->env, (tasks + 1) * sizeof *g->child_first);
    g->parent_first = htc__alloc(&m->env, (tasks + 1) * sizeof *g->parent_first);
    g->child = htc__alloc_raw(&m->env, edges * sizeof *g->child + 1);
    g->parent = htc__alloc_raw(&m->env, edges * sizeof *g->parent + 1);
    g->length_ns = htc__alloc(&m->env, tasks * sizeof *g->length_ns);
    g->bytes = htc__alloc(&m->env, tasks * sizeof *g->bytes);
    g->kind = htc__alloc(&m->env, tasks * sizeof *g->kind);
    return g->child_first && g->parent_first && g->child && g->parent && g->length_ns && g->bytes && g->kind;
}

void htc__dataflow_graph_close(flow *m)
{
    flow_graph *g = &m->graph;
    size_t      tasks = g->tasks, edges = g->edges;
    htc__free(&m->env, g->child_first, (tasks + 1) * sizeof *g->child_first);
    htc__free(&m->env, g->parent_first, (tasks + 1) * sizeof *g->parent_first);
    htc__free(&m->env, g->child, edges * sizeof *g->child + 1);
    htc__free(&m->env, g->parent, edges * sizeof *g->parent + 1);
    htc__free(&m->env, g->length_ns, tasks * sizeof *g->length_ns);
    htc__free(&m->env, g->bytes, tasks * sizeof *g->bytes);
    htc__free(&m->env, g->kind, tasks * sizeof *g->kind);
    *g = (flow_graph){ 0 };
}

/* The lists of children are there: those of parents follow from them. */
static void turn_around(flow_graph *g)
{
    for (uint32_t e = 0; e < g->edges; e++)
        g->parent_first[g->child[e] + 1]++;
    for (uint32_t t = 0; t < g->tasks; t++) {
        g->most_parents = g->parent_first[t + 1] > g->most_parents ? g->parent_first[t + 1] : g->most_parents;
        g->parent_first[t + 1] += g->parent_first[t];
    }
    for (uint32_t t = 0; t < g->tasks; t++)
        for (uint32_t e = g->child_first[t]; e < g->child_first[t + 1]; e++)
            g->parent[g->parent_first[g->child[e]]++] = t;
    for (uint32_t t = g->tasks; t > 0; t--) /* each is now where the next one began */
        g->parent_first[t] = g->parent_first[t - 1];
    g->parent_first[0] = 0;
}

static void take_task(flow_graph *g, uint32_t at, const htc_flow_task *t)
{
    g->length_ns[at] = t->run ? t->run : t->builtin == HTC_FLOW_SLEEP || t->builtin == HTC_FLOW_SPIN ? t->amount : 0;
    g->kind[at] = t->kind ? htc_hash64((htc_bytes){ t->kind, strlen(t->kind) }, 0) : 0;
    for (size_t i = 0; i < t->n_out; i++)
        g->bytes[at] += t->out[i].bytes;
}

static htc_status take_flow(flow *m)
{
    const htc_flow *f = m->options.flow;
    flow_graph     *g = &m->graph;
    uint64_t        total = htc_flow_total(f);
    uint32_t        n = htc_flow_count(f), e = 0;
    if (!f || n == 0 || total > HTC_SIM_DATAFLOW_TASKS_MAX)
        return HTC_EINVAL;
    if (!room_for(m, total, htc_flow_edges(f)))
        return HTC_ENOMEM;
    for (uint32_t id = 0; id < n; id++) {
        const htc_flow_task *t = htc_flow_get(f, id);
        const htc_flow_edge *children;
        size_t               k = htc_flow_children(f, id, &children);
        uint32_t             at = (uint32_t)htc_flow_first(f, id);
        for (uint64_t copy = 0; copy < t->count; copy++) {
            take_task(g, at + (uint32_t)copy, t);
            g->child_first[at + copy] = e;
        }
        for (size_t i = 0; i < k; i++) {
            if (children[i].rule == HTC_FLOW_FAILED)
                return HTC_EINVAL;
            g->child[e++] = (uint32_t)htc_flow_first(f, children[i].task);
        }
    }
    g->child_first[total] = e;
    return e == g->edges ? HTC_OK : HTC_EINVAL;
}

static htc_status take_dag(flow *m)
{
    htc_dag       *d = m->options.dag;
    flow_graph    *g = &m->graph;
    uint32_t       n = htc_dag_size(d), edges = 0, e = 0, k = 0, wrong = 0;
    const uint32_t *children;
    htc_status     status = d && n && m->options.dag_ns ? htc_dag_check(d, 0, NULL, &wrong) : HTC_EINVAL;
    if (status == HTC_OK)
        status = htc_dag_edges(d, &edges);
    if (status != HTC_OK)
        return status;
    if (n > HTC_SIM_DATAFLOW_TASKS_MAX)
        return HTC_EINVAL;
    if (!room_for(m, n, edges))
        return HTC_ENOMEM;
    for (uint32_t t = 0; t < n; t++) {
        g->child_first[t] = e;
        g->length_ns[t] = m->options.dag_ns[t];
        g->bytes[t] = m->options.dag_bytes ? m->options.dag_bytes[t] : 0;
        if (htc_dag_state_of(d, t) == HTC_DAG_NONE || htc_dag_children(d, t, &children, &k) != HTC_OK)
            return HTC_EINVAL;
        if (k)
            memcpy(g->child + e, children, k * sizeof *children);
        e += k;
    }
    g->child_first[n] = e;
    return HTC_OK;
}

/* ---- phases ---- */

static htc_status take_phases(flow *m)
{
    const htc_sim_dataflow_options *o = &m->options;
    uint64_t                        first = 0;
    if (!o->phases || o->n_phases < 1 || o->n_phases > HTC_SIM_DATAFLOW_PHASES_MAX)
        return HTC_EINVAL;
    for (size_t i = 0; i < o->n_phases; i++) {
        htc_sim_dataflow_phase p = { 0 };
        htc_status             status = htc__options_at(&p, sizeof p, o->phases, i, sizeof p);
        if (status != HTC_OK)
            return status;
        if (p.tasks < 1 || p.tasks > HTC_SIM_DATAFLOW_TASKS_MAX - first || htc_scale_law_check(&p.length) != HTC_OK || htc_scale_law_check(&p.bytes) != HTC_OK)
            return HTC_EINVAL;
        m->phase[i] = (flow_phase){ first, p.tasks, htc__scale_drawer_of(&p.length, o->tick_ns), htc__scale_drawer_of(&p.bytes, 1) };
        m->has_data |= p.bytes.mean_ns > 0;
        first += p.tasks;
    }
    m->phases = (uint32_t)o->n_phases;
    m->tasks = first;
    m->edges = first - m->phase[0].tasks;
    return HTC_OK;
}

static void two_phases(flow *m)
{
    uint64_t last = m->options.degree < m->options.tasks ? m->options.degree : m->options.tasks - 1;
    m->phases = last ? 2 : 1;
    m->phase[0] = (flow_phase){ 0, m->options.tasks - last, m->length, m->bytes };
    m->phase[1] = (flow_phase){ m->options.tasks - last, last, m->length, m->bytes };
    m->edges = last;
}

htc_status htc__dataflow_graph_open(flow *m, htc_error *error)
{
    htc_status status = HTC_OK;
    m->tasks = m->options.tasks;
    m->has_data = m->options.bytes.mean_ns > 0 || (m->options.inputs && m->options.file_bytes);
    if (m->options.shape == HTC_SIM_DATAFLOW_FANOUT || m->options.shape == HTC_SIM_DATAFLOW_FANIN)
        m->edges = m->tasks - 1;
    else if (m->options.shape == HTC_SIM_DATAFLOW_PIPELINE)
        m->edges = m->tasks - (m->tasks + m->options.degree - 1) / m->options.degree;
    else if (m->options.shape == HTC_SIM_DATAFLOW_MAPREDUCE)
        two_phases(m);
    else if (m->options.shape == HTC_SIM_DATAFLOW_PHASES)
        status = take_phases(m);
    else if (m->options.shape >= HTC_SIM_DATAFLOW_FLOW) {
        status = m->options.shape == HTC_SIM_DATAFLOW_FLOW ? take_flow(m) : take_dag(m);
        if (status == HTC_OK)
            turn_around(&m->graph);
        m->tasks = m->graph.tasks;
        m->edges = m->graph.edges;
        for (uint32_t t = 0; t < m->graph.tasks && m->graph.bytes; t++)
            m->has_data |= m->graph.bytes[t] > 0;
    }
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "the graph cannot be taken: %s", htc_strerror(status));
}

/* ---- asked of it ---- */

uint32_t htc__dataflow_phase_of(const flow *m, uint32_t task)
{
    uint32_t low = 0, high = m->phases;
    while (low + 1 < high) {
        uint32_t mid = (low + high) / 2;
        if (task < m->phase[mid].first)
            high = mid;
        else
            low = mid;
    }
    return low;
}

uint32_t htc__dataflow_parents(const flow *m, uint32_t task)
{
    const flow_graph *g = &m->graph;
    uint64_t          n = m->tasks, d = m->options.degree, first;
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_BAG:
        return 0;
    case HTC_SIM_DATAFLOW_FANOUT:
        return task > 0;
    case HTC_SIM_DATAFLOW_FANIN:
        first = (n - 1 - task) * d + 1;
        return first >= n ? 0 : (uint32_t)(n - first < d ? n - first : d);
    case HTC_SIM_DATAFLOW_PIPELINE:
        return task % d != 0;
    case HTC_SIM_DATAFLOW_FLOW:
    case HTC_SIM_DATAFLOW_DAG:
        return g->parent_first[task + 1] - g->parent_first[task];
    default: /* it waits for a phase */
        return task >= m->phase[0].tasks;
    }
}

uint32_t htc__dataflow_parent(const flow *m, uint32_t task, uint32_t k)
{
    uint64_t n = m->tasks, d = m->options.degree;
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_FANOUT:
        return (uint32_t)((task - 1) / d);
    case HTC_SIM_DATAFLOW_FANIN:
        return (uint32_t)(n - 1 - ((n - 1 - task) * d + 1 + k));
    case HTC_SIM_DATAFLOW_PIPELINE:
        return task - 1;
    default:
        return m->graph.parent[m->graph.parent_first[task] + k];
    }
}

void htc__dataflow_children(flow *m, uint32_t task, void (*each)(flow *m, uint32_t child, uint64_t arg), uint64_t arg)
{
    const flow_graph *g = &m->graph;
    uint64_t          n = m->tasks, d = m->options.degree, first = task * d + 1;
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_FANOUT:
        for (uint64_t c = first; c < n && c < first + d; c++)
            each(m, (uint32_t)c, arg);
        return;
    case HTC_SIM_DATAFLOW_FANIN:
        if (task < n - 1)
            each(m, (uint32_t)(n - 1 - (n - 2 - task) / d), arg);
        return;
    case HTC_SIM_DATAFLOW_PIPELINE:
        if ((task + UINT64_C(1)) % d && task + UINT64_C(1) < n)
            each(m, task + 1, arg);
        return;
    case HTC_SIM_DATAFLOW_FLOW:
    case HTC_SIM_DATAFLOW_DAG:
        for (uint32_t e = g->child_first[task]; e < g->child_first[task + 1]; e++)
            each(m, g->child[e], arg);
        return;
    default:
        return;
    }
}

uint64_t htc__dataflow_length(const flow *m, uint32_t task)
{
    if (m->graph.length_ns)
        return htc_scale_ticks(m->scale, m->graph.length_ns[task]);
    const htc__scale_drawer *d = m->phases ? &m->phase[htc__dataflow_phase_of(m, task)].length : &m->length;
    return htc__scale_drawer_ticks(d, htc__scale_draw(m->lengths_stream, task));
}

uint64_t htc__dataflow_size(const flow *m, uint32_t task)
{
    if (m->graph.bytes)
        return m->graph.bytes[task];
    const htc__scale_drawer *d = m->phases ? &m->phase[htc__dataflow_phase_of(m, task)].bytes : &m->bytes;
    return d->a > 0 || d->kind ? htc__scale_drawer_ticks(d, htc__scale_draw(m->sizes_stream, task)) : 0;
}

uint64_t htc__dataflow_kind(const flow *m, uint32_t task)
{
    return m->graph.kind ? m->graph.kind[task] : m->phases ? htc__dataflow_phase_of(m, task) : 0;
}

uint64_t htc__dataflow_inputs_max(const flow *m)
{
    uint64_t files = m->options.inputs == HTC_SIM_DATAFLOW_PAIRS ? 2 : m->options.inputs != 0;
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_BAG:
        return files + 1;
    case HTC_SIM_DATAFLOW_FANIN:
        return files + (m->options.degree < m->tasks ? m->options.degree : m->tasks);
    case HTC_SIM_DATAFLOW_FLOW:
    case HTC_SIM_DATAFLOW_DAG:
        return files + m->graph.most_parents + 1;
    default:
        return files + (m->phases > 1 ? m->nodes : 1);
    }
}

/* ---- the longest path ---- */

static double length_of(const flow *m, uint32_t task)
{
    return (double)htc__dataflow_length(m, task);
}

/* Every leaf of a tree has one way to its root: that of a fan-in is the last task. */
static double longest_of_tree(const flow *m)
{
    double   most = 0;
    uint64_t n = m->tasks, d = m->options.degree;
    for (uint64_t leaf = (n - 1 + d - 1) / d; leaf < n; leaf++) {
        double way = 0;
        for (uint64_t i = leaf;; i = (i - 1) / d) {
            way += length_of(m, (uint32_t)(m->options.shape == HTC_SIM_DATAFLOW_FANIN ? n - 1 - i : i));
            if (i == 0)
                break;
        }
        most = way > most ? way : most;
    }
    return most;
}

static double longest_of_pipes(const flow *m)
{
    double most = 0, way = 0;
    for (uint64_t t = 0; t < m->tasks; t++) {
        way = (t % m->options.degree ? way : 0) + length_of(m, (uint32_t)t);
        most = way > most ? way : most;
    }
    return most;
}

/* Phase after phase, each the larger of its longest task and its share of the cores. */
static double ideal_of_phases(const flow *m)
{
    double all = 0;
    for (uint32_t p = 0; p < m->phases; p++) {
        double most = 0, work = 0;
        for (uint64_t t = m->phase[p].first; t < m->phase[p].first + m->phase[p].tasks; t++) {
            double l = length_of(m, (uint32_t)t);
            work += l;
            most = l > most ? l : most;
        }
        work /= (double)m->cores;
        all += work > most ? work : most;
    }
    return all;
}

/* Tasks in an order in which parents come first, by the number of parents that are left. */
static double longest_of_graph(flow *m)
{
    const flow_graph *g = &m->graph;
    uint32_t         *order = htc__alloc_raw(&m->env, (size_t)g->tasks * sizeof *order), n = 0;
    uint32_t         *left = htc__alloc_raw(&m->env, (size_t)g->tasks * sizeof *left);
    double           *way = htc__alloc(&m->env, g->tasks * sizeof *way), most = -1;
    if (order && left && way) {
        for (uint32_t t = 0; t < g->tasks; t++)
            if ((left[t] = htc__dataflow_parents(m, t)) == 0)
                order[n++] = t;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t t = order[i];
            way[t] += length_of(m, t);
            most = way[t] > most ? way[t] : most;
            for (uint32_t e = g->child_first[t]; e < g->child_first[t + 1]; e++) {
                uint32_t c = g->child[e];
                way[c] = way[t] > way[c] ? way[t] : way[c];
                if (--left[c] == 0)
                    order[n++] = c;
            }
        }
        most = n == g->tasks ? most : -2;
    }
    htc__free(&m->env, order, (size_t)g->tasks * sizeof *order);
    htc__free(&m->env, left, (size_t)g->tasks * sizeof *left);
    htc__free(&m->env, way, g->tasks * sizeof *way);
    return most;
}

double htc__dataflow_longest_path(flow *m)
{
    switch (m->options.shape) {
    case HTC_SIM_DATAFLOW_BAG:
        return 0;
    case HTC_SIM_DATAFLOW_FANOUT:
    case HTC_SIM_DATAFLOW_FANIN:
        return longest_of_tree(m);
    case HTC_SIM_DATAFLOW_PIPELINE:
        return longest_of_pipes(m);
    case HTC_SIM_DATAFLOW_FLOW:
    case HTC_SIM_DATAFLOW_DAG:
        return longest_of_graph(m);
    default:
        return ideal_of_phases(m);
    }
}
