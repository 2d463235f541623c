/* Earliest finishing times: of the generated shapes task by task, since their numbers are an order in which parents come first; else by htc_dag_bound. */
#include <string.h>

#include "sim/models/dataflow.h"

__extension__ typedef unsigned __int128 wide;

static htc_ns plus(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

static htc_ns later(htc_ns a, htc_ns b)
{
    return a > b ? a : b;
}

static htc_ns length_ns(const flow *m, uint32_t task)
{
    return m->graph.length_ns ? m->graph.length_ns[task] : htc__dataflow_length(m, task) * m->options.tick_ns;
}

static uint64_t message_ns(const flow *m)
{
    return m->options.latency_ns + (htc_ns)((double)m->options.task_bytes * 1e9 / (double)m->options.bytes_per_s + 0.5);
}

/* ---- task by task ---- */

static htc_ns mean_wait(const flow *m, uint64_t tasks_per_slot)
{
    wide sum = 0;
    for (uint64_t t = 0; t < m->tasks; t++)
        sum += length_ns(m, (uint32_t)t);
    wide wait = sum / m->tasks * (tasks_per_slot ? tasks_per_slot - 1 : 0) / 2;
    return wait > HTC_NEVER ? HTC_NEVER : (htc_ns)wait;
}

static htc_ns earliest(const flow *m, const htc_ns *finish, uint32_t task, htc_ns move)
{
    htc_ns first = 0, second = 0, first_end = 0; /* data of the parent that comes last, of the others, and that parent's end */
    for (uint32_t k = 0, n = htc__dataflow_parents(m, task); k < n; k++) {
        uint32_t u = htc__dataflow_parent(m, task, k);
        wide     way = (wide)htc__dataflow_size(m, u) * HTC_SECOND / m->options.bytes_per_s;
        htc_ns   when = plus(finish[u], way > HTC_NEVER ? HTC_NEVER : (htc_ns)way);
        if (k == 0 || when > first) {
            second = k ? later(second, first) : 0;
            first = when;
            first_end = finish[u];
        } else {
            second = later(second, when);
        }
    }
    htc_ns near = plus(later(first_end, second), move);
    return near < first ? near : first;
}

static htc_status by_task(flow *m, uint64_t tasks_per_slot, htc_ns *bound)
{
    htc_ns *finish = htc__alloc_raw(&m->env, m->tasks * sizeof *finish), last = 0, wait = mean_wait(m, tasks_per_slot), move = message_ns(m);
    if (!finish)
        return HTC_ENOMEM;
    for (uint64_t t = 0; t < m->tasks; t++) {
        finish[t] = plus(plus(earliest(m, finish, (uint32_t)t, move), wait), length_ns(m, (uint32_t)t));
        last = later(last, finish[t]);
    }
    htc__free(&m->env, finish, m->tasks * sizeof *finish);
    *bound = last;
    return HTC_OK;
}

/* ---- a graph that is built ---- */

static htc_status add_phases(const flow *m, htc_dag *dag)
{
    htc_status status = HTC_OK;
    for (uint32_t p = 1; p < m->phases; p++) {
        const flow_phase *before = &m->phase[p - 1], *now = &m->phase[p];
        for (uint64_t t = now->first; t < now->first + now->tasks; t++)
            for (uint64_t u = before->first; u < before->first + before->tasks && status == HTC_OK; u++)
                status = htc_dag_add_edge(dag, (uint32_t)u, (uint32_t)t);
    }
    return status;
}

static htc_status add_graph(const flow *m, htc_dag *dag)
{
    const flow_graph *g = &m->graph;
    htc_status        status = HTC_OK;
    for (uint32_t t = 0; t < g->tasks; t++)
        for (uint32_t e = g->child_first[t]; e < g->child_first[t + 1] && status == HTC_OK; e++)
            status = htc_dag_add_edge(dag, t, g->child[e]);
    return status;
}

static htc_status by_graph(flow *m, uint64_t tasks_per_slot, htc_ns *bound)
{
    htc_dag_options dag_options = { sizeof dag_options, (uint32_t)m->tasks, 0 };
    htc_dag        *dag = NULL;
    htc_ns         *exec = htc__alloc_raw(&m->env, m->tasks * sizeof *exec);
    uint64_t       *bytes = htc__alloc_raw(&m->env, m->tasks * sizeof *bytes);
    htc_dag_model   model = HTC_DAG_MODEL_INIT;
    htc_status      status = exec && bytes ? htc_dag_create(&m->env, &dag_options, &dag) : HTC_ENOMEM;
    for (uint64_t t = 0; t < m->tasks && status == HTC_OK; t++) {
        uint32_t next = m->phases ? htc__dataflow_phase_of(m, (uint32_t)t) + 1 : 0;
        exec[t] = length_ns(m, (uint32_t)t);
        bytes[t] = htc__dataflow_size(m, (uint32_t)t) / (next && next < m->phases ? m->phase[next].tasks : 1);
        status = htc_dag_add_task(dag, (uint32_t)t);
    }
    if (status == HTC_OK)
        status = m->phases ? add_phases(m, dag) : add_graph(m, dag);
    model.tasks = m->tasks;
    model.exec_ns = exec;
    model.bytes = bytes;
    model.tasks_per_slot = tasks_per_slot;
    model.bandwidth = m->options.bytes_per_s;
    model.move_ns = message_ns(m);
    if (status == HTC_OK)
        status = htc_dag_bound(dag, &model, NULL, bound);
    htc_dag_destroy(dag);
    htc__free(&m->env, exec, m->tasks * sizeof *exec);
    htc__free(&m->env, bytes, m->tasks * sizeof *bytes);
    return status;
}

htc_status htc_sim_dataflow_bound(const htc_env *env, const htc_sim_dataflow_options *options, uint64_t tasks_per_slot, htc_ns *bound)
{
    flow       m;
    htc_status status = bound ? htc__dataflow_known(env, options, &m, NULL) : HTC_EINVAL;
    if (!bound)
        return status;
    if (status == HTC_OK)
        status = m.phases || m.graph.tasks ? by_graph(&m, tasks_per_slot, bound) : by_task(&m, tasks_per_slot, bound);
    htc__dataflow_graph_close(&m);
    return status;
}
