/* A graph that is slow and obviously right: a matrix of edges, looked through again and again. For the unit test and
 * the fuzzer, which say what to do with a promise that is broken:
 *
 *     #define MODEL_HOLDS(x) ...
 *     #include "dag_model.h" */
#ifndef HTC_TESTS_DAG_MODEL_H
#define HTC_TESTS_DAG_MODEL_H

#include <string.h>

#include "htcsched/dag.h"

#define MODEL_TASKS 24

typedef struct dag_model {
    uint32_t state[MODEL_TASKS];
    char     edge[MODEL_TASKS][MODEL_TASKS]; /* [parent][child] */
    int64_t  since[MODEL_TASKS];             /* of the ready: equal if they became so together */
    int64_t  now, front;
} dag_model;

static inline uint32_t model_waits(const dag_model *m, uint32_t t)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < MODEL_TASKS; p++)
        n += m->edge[p][t] && m->state[p] != HTC_DAG_DONE;
    return n;
}

/* What may be ready and is not, and the other way round. */
static inline void model_refresh(dag_model *m)
{
    m->now++;
    for (uint32_t t = 0; t < MODEL_TASKS; t++)
        if (m->state[t] == HTC_DAG_WAITING && model_waits(m, t) == 0) {
            m->state[t] = HTC_DAG_READY;
            m->since[t] = m->now;
        } else if (m->state[t] == HTC_DAG_READY && model_waits(m, t) > 0)
            m->state[t] = HTC_DAG_WAITING;
}

static inline htc_status model_add_task(dag_model *m, uint32_t t)
{
    if (t >= MODEL_TASKS)
        return HTC_EFULL;
    if (m->state[t] > HTC_DAG_NAMED)
        return m->state[t] == HTC_DAG_CANCELLED ? HTC_ECANCELLED : HTC_EEXISTS;
    m->state[t] = HTC_DAG_WAITING;
    model_refresh(m);
    return HTC_OK;
}

static inline htc_status model_add_edge(dag_model *m, uint32_t p, uint32_t c)
{
    if (p == c)
        return HTC_ECYCLE;
    if (p >= MODEL_TASKS || c >= MODEL_TASKS)
        return HTC_EFULL;
    if (m->state[p] == HTC_DAG_CANCELLED || m->state[c] == HTC_DAG_CANCELLED)
        return HTC_ECANCELLED;
    if (m->state[c] == HTC_DAG_RUNNING || m->state[c] == HTC_DAG_DONE)
        return HTC_EINVAL;
    m->edge[p][c] = 1;
    m->state[p] = m->state[p] == HTC_DAG_NONE ? HTC_DAG_NAMED : m->state[p];
    m->state[c] = m->state[c] == HTC_DAG_NONE ? HTC_DAG_NAMED : m->state[c];
    model_refresh(m);
    return HTC_OK;
}

/* Any of those that have been ready longest. */
static inline int model_may_take(dag_model *m, uint32_t t)
{
    if (t >= MODEL_TASKS || m->state[t] != HTC_DAG_READY)
        return 0;
    for (uint32_t other = 0; other < MODEL_TASKS; other++)
        if (m->state[other] == HTC_DAG_READY && m->since[other] < m->since[t])
            return 0;
    m->state[t] = HTC_DAG_RUNNING;
    return 1;
}

static inline htc_status model_put_back(dag_model *m, uint32_t t)
{
    if (t >= MODEL_TASKS || m->state[t] != HTC_DAG_RUNNING)
        return HTC_EINVAL;
    m->state[t] = HTC_DAG_READY;
    m->since[t] = --m->front;
    return HTC_OK;
}

static inline htc_status model_done(dag_model *m, uint32_t t)
{
    if (t >= MODEL_TASKS || m->state[t] < HTC_DAG_WAITING || m->state[t] > HTC_DAG_RUNNING)
        return HTC_EINVAL;
    m->state[t] = HTC_DAG_DONE;
    model_refresh(m);
    return HTC_OK;
}

static inline htc_status model_cancel(dag_model *m, uint32_t t)
{
    if (t >= MODEL_TASKS || m->state[t] == HTC_DAG_NONE || m->state[t] >= HTC_DAG_DONE)
        return HTC_EINVAL;
    m->state[t] = HTC_DAG_CANCELLED;
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t p = 0; p < MODEL_TASKS; p++)
            for (uint32_t c = 0; c < MODEL_TASKS; c++)
                if (m->edge[p][c] && m->state[p] == HTC_DAG_CANCELLED && m->state[c] < HTC_DAG_DONE) {
                    m->state[c] = HTC_DAG_CANCELLED;
                    changed = 1;
                }
    }
    return HTC_OK;
}

/* 1 if following edges leads from a task back to itself; cancelled ones do not count. */
static inline int model_has_cycle(const dag_model *m)
{
    char reach[MODEL_TASKS][MODEL_TASKS];
    for (uint32_t p = 0; p < MODEL_TASKS; p++)
        for (uint32_t c = 0; c < MODEL_TASKS; c++)
            reach[p][c] = m->edge[p][c] && m->state[p] != HTC_DAG_CANCELLED && m->state[c] != HTC_DAG_CANCELLED;
    for (uint32_t k = 0; k < MODEL_TASKS; k++)
        for (uint32_t i = 0; i < MODEL_TASKS; i++)
            for (uint32_t j = 0; j < MODEL_TASKS; j++)
                reach[i][j] |= reach[i][k] && reach[k][j];
    for (uint32_t t = 0; t < MODEL_TASKS; t++)
        if (reach[t][t])
            return 1;
    return 0;
}

static inline uint32_t model_edges(const dag_model *m)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < MODEL_TASKS; p++)
        for (uint32_t c = 0; c < MODEL_TASKS; c++)
            n += m->edge[p][c];
    return n;
}

static inline uint32_t model_in_state(const dag_model *m, uint32_t state)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < MODEL_TASKS; t++)
        n += m->state[t] == state;
    return n;
}

#ifdef MODEL_HOLDS

/* What can be seen without putting edges in order. */
static inline void model_check_states(const dag_model *m, const htc_dag *d)
{
    htc_dag_counts n;
    MODEL_HOLDS(htc_dag_count(d, &n) == HTC_OK);
    MODEL_HOLDS(n.named == model_in_state(m, HTC_DAG_NAMED) && n.waiting == model_in_state(m, HTC_DAG_WAITING));
    MODEL_HOLDS(n.ready == model_in_state(m, HTC_DAG_READY) && n.running == model_in_state(m, HTC_DAG_RUNNING));
    MODEL_HOLDS(n.done == model_in_state(m, HTC_DAG_DONE) && n.cancelled == model_in_state(m, HTC_DAG_CANCELLED));
    for (uint32_t t = 0; t < MODEL_TASKS + 2; t++)
        MODEL_HOLDS(htc_dag_state_of(d, t) == (t < MODEL_TASKS ? m->state[t] : HTC_DAG_NONE));
}

static inline void model_check_edges(const dag_model *m, htc_dag *d)
{
    uint32_t n;
    MODEL_HOLDS(htc_dag_edges(d, &n) == HTC_OK && n == model_edges(m));
    for (uint32_t t = 0; t < MODEL_TASKS; t++) {
        const uint32_t *children;
        int             counts = m->state[t] < HTC_DAG_DONE;
        MODEL_HOLDS(htc_dag_waits(d, t, &n) == HTC_OK && n == (counts ? model_waits(m, t) : 0));
        MODEL_HOLDS(htc_dag_children(d, t, &children, &n) == HTC_OK);
        char seen[MODEL_TASKS] = { 0 };
        for (uint32_t i = 0; i < n; i++) {
            MODEL_HOLDS(children[i] < MODEL_TASKS && !seen[children[i]]);
            seen[children[i]] = 1;
        }
        MODEL_HOLDS(memcmp(seen, m->edge[t], sizeof seen) == 0);
    }
}

static inline void model_check_cycle(const dag_model *m, htc_dag *d)
{
    uint32_t   out[MODEL_TASKS], n = 77;
    htc_status status = htc_dag_check(d, MODEL_TASKS, out, &n);
    if (model_has_cycle(m)) {
        MODEL_HOLDS(status == HTC_ECYCLE && n >= 2 && n <= MODEL_TASKS);
        for (uint32_t i = 0; i < n; i++) {
            MODEL_HOLDS(out[i] < MODEL_TASKS && out[0] <= out[i]);
            MODEL_HOLDS(m->edge[out[i]][out[(i + 1) % n]] && m->state[out[i]] != HTC_DAG_CANCELLED);
            for (uint32_t j = 0; j < i; j++)
                MODEL_HOLDS(out[i] != out[j]);
        }
        return;
    }
    MODEL_HOLDS(status == (model_in_state(m, HTC_DAG_NAMED) ? HTC_ENOTFOUND : HTC_OK));
    MODEL_HOLDS(n == model_in_state(m, HTC_DAG_NAMED));
    for (uint32_t i = 0; i < n; i++)
        MODEL_HOLDS(out[i] < MODEL_TASKS && m->state[out[i]] == HTC_DAG_NAMED && (i == 0 || out[i - 1] < out[i]));
}

/* What a cancellation tells: each task once, what it was, the one that was asked for first. */
typedef struct model_cancelling {
    const dag_model *before;
    uint32_t         first, n;
    char             told[MODEL_TASKS];
} model_cancelling;

static inline void model_told(void *ctx, uint32_t task, uint32_t was)
{
    model_cancelling *c = ctx;
    MODEL_HOLDS(task < MODEL_TASKS && !c->told[task] && was == c->before->state[task]);
    MODEL_HOLDS(c->n > 0 || task == c->first);
    c->told[task] = 1;
    c->n++;
}

/* One call on both, chosen by the numbers: what 0 to 15, a and b tasks. */
static inline void model_step(dag_model *m, htc_dag *d, uint32_t what, uint32_t a, uint32_t b)
{
    uint32_t         t = 77;
    dag_model        before = *m;
    model_cancelling c = { .before = &before, .first = a };
    htc_status       status;
    switch (what) {
    case 0:
    case 1:
    case 2:
        MODEL_HOLDS(htc_dag_add_task(d, a) == model_add_task(m, a));
        break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        MODEL_HOLDS(htc_dag_add_edge(d, a, b) == model_add_edge(m, a, b));
        break;
    case 8:
    case 9:
        status = htc_dag_take(d, &t);
        MODEL_HOLDS(status == (model_in_state(m, HTC_DAG_READY) ? HTC_OK : HTC_AGAIN));
        MODEL_HOLDS(status == HTC_OK ? model_may_take(m, t) : t == 77);
        break;
    case 10:
        MODEL_HOLDS(htc_dag_put_back(d, a) == model_put_back(m, a));
        break;
    case 11:
    case 12:
        MODEL_HOLDS(htc_dag_done(d, a) == model_done(m, a));
        break;
    case 13:
        MODEL_HOLDS(htc_dag_cancel(d, a, model_told, &c) == model_cancel(m, a));
        MODEL_HOLDS(c.n == model_in_state(m, HTC_DAG_CANCELLED) - model_in_state(&before, HTC_DAG_CANCELLED));
        break;
    case 14:
        model_check_edges(m, d);
        break;
    default:
        model_check_cycle(m, d);
    }
    model_check_states(m, d);
}

#endif
#endif
