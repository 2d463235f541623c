/* Flows for experiments: shapes of MATRIX, sections 2 and 6, with lengths and sizes that are drawn. */
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

#define FIELD_MAX (UINT64_C(1) << 63)

typedef struct maker {
    const htc_flow_generator *o;
    htc_flow                 *flow;
    htc_rng                   lengths, sizes;
    uint32_t                  n, degree;
    htc__flow_list            in; /* htc_flow_file */
    const htc_env            *env;
} maker;

void htc_flow_generator_init(htc_flow_generator *options, size_t size)
{
    htc__options_init(options, size);
}

/* Both ends are below 2^63, so that their number is one. */
static uint64_t draw(htc_rng *rng, uint64_t min, uint64_t max)
{
    return min < max ? min + htc_rng_below(rng, max - min + 1) : min;
}

/* ---- shapes: parents of a task have smaller numbers ---- */

typedef struct range {
    uint32_t from, to; /* not included */
} range;

/* Task t of a tree with the root first: its children. */
static range below(uint32_t n, uint32_t degree, uint32_t t)
{
    uint64_t from = (uint64_t)t * degree + 1, to = from + degree;
    return (range){ from < n ? (uint32_t)from : n, to < n ? (uint32_t)to : n };
}

static range parents_of(const maker *m, uint32_t t)
{
    uint32_t d = m->degree, n = m->n;
    range    children;
    switch ((htc_flow_shape)m->o->shape) {
    case HTC_FLOW_BAG:
        break;
    case HTC_FLOW_FANOUT:
        return t ? (range){ (t - 1) / d, (t - 1) / d + 1 } : (range){ 0, 0 };
    case HTC_FLOW_FANIN:
        children = below(n, d, n - 1 - t);
        return (range){ n - children.to, n - children.from };
    case HTC_FLOW_PIPELINE:
        return t % d ? (range){ t - 1, t } : (range){ 0, 0 };
    case HTC_FLOW_MAPREDUCE:
        return t >= n - d ? (range){ 0, n - d } : (range){ 0, 0 };
    }
    return (range){ 0, 0 };
}

static const char *kind_of(const maker *m, uint32_t t)
{
    static const char *const names[] = { [HTC_FLOW_BAG] = "bag",
                                         [HTC_FLOW_FANOUT] = "fanout",
                                         [HTC_FLOW_FANIN] = "fanin",
                                         [HTC_FLOW_PIPELINE] = "pipeline",
                                         [HTC_FLOW_MAPREDUCE] = "map" };
    return m->o->shape == HTC_FLOW_MAPREDUCE && t >= m->n - m->degree ? "reduce" : names[m->o->shape];
}

/* ---- tasks ---- */

static htc_status read_parents(maker *m, range parents)
{
    m->in.n = 0;
    for (uint32_t p = parents.from; p < parents.to; p++) {
        const htc_flow_task *parent = htc_flow_get(m->flow, p);
        htc_flow_file       *file = parent->n_out ? htc__flow_list_add(m->env, &m->in) : NULL;
        if (parent->n_out && !file)
            return HTC_ENOMEM;
        if (file)
            *file = parent->out[0];
    }
    return HTC_OK;
}

static htc_status add_task(maker *m, uint32_t t, uint64_t count)
{
    const htc_flow_generator *o = m->o;
    char                      name[24];
    range                     parents = parents_of(m, t);
    htc_flow_file             out = { name, draw(&m->sizes, o->data_min, o->data_max) };
    htc_status                status = read_parents(m, parents);
    if (status != HTC_OK)
        return status;
    snprintf(name, sizeof name, "t%u.out", t);
    htc_flow_task task = { .size = sizeof task,
                           .kind = kind_of(m, t),
                           .builtin = HTC_FLOW_SLEEP,
                           .amount = draw(&m->lengths, o->length_min, o->length_max),
                           .in = m->in.items,
                           .n_in = m->in.n,
                           .out = &out,
                           .n_out = o->data_min || o->data_max ? 1 : 0,
                           .count = count };
    task.run = task.amount;
    status = htc_flow_add(m->flow, &task, NULL, NULL);
    for (uint32_t p = parents.from; p < parents.to && status == HTC_OK; p++)
        status = htc_flow_after(m->flow, t, p, HTC_FLOW_OK);
    return status;
}

static int is_drawn(const htc_flow_generator *o)
{
    return o->length_min < o->length_max || o->data_min < o->data_max;
}

static htc_status make(maker *m)
{
    htc_status status = HTC_OK;
    if (m->o->shape == HTC_FLOW_BAG && !is_drawn(m->o))
        return add_task(m, 0, m->o->tasks);
    if (m->o->tasks > HTC_FLOW_TASKS_MAX)
        return HTC_EFULL;
    for (uint32_t t = 0; t < m->n && status == HTC_OK; t++)
        status = add_task(m, t, 1);
    return status;
}

static int is_fine(const htc_flow_generator *o)
{
    return o->shape >= HTC_FLOW_BAG && o->shape <= HTC_FLOW_MAPREDUCE && o->tasks >= 1 &&
           o->tasks <= HTC_FLOW_TOTAL_MAX && o->length_min < FIELD_MAX && o->length_max < FIELD_MAX &&
           o->length_min <= o->length_max && o->data_min < FIELD_MAX && o->data_max < FIELD_MAX &&
           o->data_min <= o->data_max && (o->shape != HTC_FLOW_MAPREDUCE || o->degree <= o->tasks);
}

htc_status htc_flow_generate(const htc_env *env, const htc_flow_generator *options, htc_flow **out)
{
    htc_flow_generator o = { .size = sizeof o };
    maker              m = { .o = &o, .env = env, .in = { .item = sizeof(htc_flow_file) } };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size);
    if (status != HTC_OK)
        return status;
    o.length_max = o.length_max ? o.length_max : o.length_min;
    o.data_max = o.data_max ? o.data_max : o.data_min;
    o.degree = o.degree ? o.degree : o.shape == HTC_FLOW_MAPREDUCE ? 1 : 2;
    if (!is_fine(&o))
        return HTC_EINVAL;
    htc_rng seed = { o.seed };
    m.lengths = htc_rng_fork(&seed, "lengths");
    m.sizes = htc_rng_fork(&seed, "sizes");
    m.n = o.tasks > HTC_FLOW_TASKS_MAX ? 0 : (uint32_t)o.tasks;
    m.degree = o.degree;
    status = htc_flow_create(env, o.bounds, &m.flow);
    if (status == HTC_OK)
        status = make(&m);
    if (status == HTC_OK)
        status = htc_flow_check(m.flow, NULL);
    htc__flow_list_free(env, &m.in);
    if (status != HTC_OK) {
        htc_flow_destroy(m.flow);
        return status;
    }
    *out = m.flow;
    return HTC_OK;
}
