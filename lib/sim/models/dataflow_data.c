/* What tasks read: where it is, copies that nodes keep of it, and how long it takes to get there. */
#include <assert.h>

#include "sim/models/dataflow.h"

/* ---- where things are ---- */

static flow_input input_of(const flow *m, uint32_t object, uint64_t bytes)
{
    return (flow_input){ bytes, object, m->where[object] };
}

static uint32_t add_files(const flow *m, uint32_t task, uint32_t n)
{
    const htc_sim_dataflow_options *o = &m->options;
    if (o->inputs == HTC_SIM_DATAFLOW_ONE_FILE && htc__dataflow_parents(m, task) == 0)
        m->in[n++] = input_of(m, (uint32_t)(m->tasks + task % o->files), o->file_bytes);
    if (o->inputs == HTC_SIM_DATAFLOW_PAIRS) {
        uint64_t pair = task * m->stride % m->tasks;
        m->in[n++] = input_of(m, (uint32_t)(m->tasks + pair / m->half % m->half), o->file_bytes);
        m->in[n++] = input_of(m, (uint32_t)(m->tasks + m->half + pair % m->half), o->file_bytes);
    }
    return n;
}

/* Its share of what each node has of the phase before. */
static uint32_t add_phase(const flow *m, uint32_t task, uint32_t n)
{
    uint32_t p = htc__dataflow_phase_of(m, task);
    for (uint32_t i = 0; p > 0 && i < m->now.holders; i++)
        m->in[n++] = (flow_input){ m->node[m->holder[i]].phase_bytes / m->phase[p].tasks, FLOW_NONE, m->holder[i] };
    return n;
}

uint32_t htc__dataflow_inputs(flow *m, uint32_t task)
{
    uint32_t n = 0;
    if (!m->has_data)
        return 0;
    if (m->phases > 1)
        n = add_phase(m, task, n);
    for (uint32_t k = 0, parents = m->phases ? 0 : htc__dataflow_parents(m, task); k < parents; k++) {
        uint32_t parent = htc__dataflow_parent(m, task, k);
        m->in[n++] = input_of(m, parent, htc__dataflow_size(m, parent));
    }
    n = add_files(m, task, n);
    assert(n <= m->inputs_room);
    return n;
}

void htc__dataflow_made(flow *m, uint32_t node, uint32_t task)
{
    flow_node *v = &m->node[node];
    uint64_t   bytes = m->has_data && m->phases > 1 ? htc__dataflow_size(m, task) : 0;
    if (bytes && !v->phase_next)
        m->holder[m->nodes + m->now.next_holders++] = node;
    v->phase_next += bytes;
}

/* What was made by the phase that has ended is what the next one reads. */
void htc__dataflow_next_phase(flow *m)
{
    for (uint32_t i = 0; i < m->now.holders; i++)
        m->node[m->holder[i]].phase_bytes = 0;
    for (uint32_t i = 0; i < m->now.next_holders; i++) {
        flow_node *v = &m->node[m->holder[i] = m->holder[m->nodes + i]];
        v->phase_bytes = v->phase_next;
        v->phase_next = 0;
    }
    m->now.holders = m->now.next_holders;
    m->now.next_holders = 0;
}

/* ---- copies: a table with chains, and for each node a list by use ---- */

static uint32_t *bucket_of(const flow *m, uint32_t node, uint32_t object)
{
    return &m->bucket[htc__scale_mix((uint64_t)node << 32 | object) & (m->buckets - 1)];
}

static uint32_t copy_of(const flow *m, uint32_t node, uint32_t object)
{
    if (!m->buckets || object == FLOW_NONE)
        return FLOW_NONE;
    uint32_t c = *bucket_of(m, node, object);
    while (c != FLOW_NONE && (m->copy[c].node != node || m->copy[c].object != object))
        c = m->copy[c].chain;
    return c;
}

static void unlink_copy(flow *m, uint32_t c)
{
    const flow_copy *k = &m->copy[c];
    flow_node       *v = &m->node[k->node];
    *(k->newer == FLOW_NONE ? &v->newest : &m->copy[k->newer].older) = k->older;
    *(k->older == FLOW_NONE ? &v->oldest : &m->copy[k->older].newer) = k->newer;
}

static void link_copy(flow *m, uint32_t c)
{
    flow_copy *k = &m->copy[c];
    flow_node *v = &m->node[k->node];
    k->newer = FLOW_NONE;
    k->older = v->newest;
    *(v->newest == FLOW_NONE ? &v->oldest : &m->copy[v->newest].newer) = c;
    v->newest = c;
}

static void drop_copy(flow *m, uint32_t c)
{
    flow_copy *k = &m->copy[c];
    uint32_t  *at = bucket_of(m, k->node, k->object);
    while (*at != c)
        at = &m->copy[*at].chain;
    *at = k->chain;
    unlink_copy(m, c);
    m->node[k->node].cached -= k->bytes;
    k->chain = m->copy_free;
    m->copy_free = c;
}

void htc__dataflow_table(flow *m)
{
    for (uint32_t i = 0; i < m->buckets; i++)
        m->bucket[i] = FLOW_NONE;
    for (uint32_t i = 0; i < m->nodes && m->buckets; i++)
        for (uint32_t c = m->node[i].newest; c != FLOW_NONE; c = m->copy[c].older) {
            uint32_t *at = bucket_of(m, i, m->copy[c].object);
            m->copy[c].chain = *at;
            *at = c;
        }
}

/* There is room for one more, and twice as many buckets if they are full. 0: no memory. */
static int room_for_copy(flow *m)
{
    if (m->copy_free != FLOW_NONE || m->copies < m->copies_room)
        return 1;
    uint32_t   room = m->copies_room ? 2 * m->copies_room : 1024;
    flow_copy *more = room > m->copies_room ? htc__dataflow_grown(&m->env, m->copy, m->copies_room * sizeof *more, room * sizeof *more) : NULL;
    if (!more)
        return 0;
    m->copy = more;
    uint32_t *bucket = htc__alloc_raw(&m->env, room * sizeof *bucket);
    if (!bucket) {
        m->copies_room = room;
        return 0;
    }
    htc__free(&m->env, m->bucket, m->buckets * sizeof *bucket);
    m->bucket = bucket;
    m->buckets = m->copies_room = room;
    htc__dataflow_table(m);
    return 1;
}

static void keep_copy(flow *m, uint32_t node, const flow_input *in)
{
    flow_node *v = &m->node[node];
    if (in->object == FLOW_NONE || in->bytes == 0 || in->bytes > m->options.cache_bytes)
        return;
    while (v->cached > m->options.cache_bytes - in->bytes)
        drop_copy(m, v->oldest);
    if (!room_for_copy(m)) {
        htc_scale_fail(m->scale, HTC_ENOMEM);
        return;
    }
    uint32_t c = m->copy_free;
    if (c == FLOW_NONE)
        c = m->copies++;
    else
        m->copy_free = m->copy[c].chain;
    uint32_t *at = bucket_of(m, node, in->object);
    m->copy[c] = (flow_copy){ .bytes = in->bytes, .node = node, .object = in->object, .chain = *at };
    *at = c;
    link_copy(m, c);
    v->cached += in->bytes;
}

int htc__dataflow_has(const flow *m, uint32_t node, const flow_input *in)
{
    return in->node == node || copy_of(m, node, in->object) != FLOW_NONE;
}

/* ---- transfers ---- */

uint64_t htc__dataflow_transfer(double rate, uint64_t bytes)
{
    double ticks = rate > 0 ? (double)bytes / rate : 0;
    return ticks < 4e18 ? (uint64_t)(ticks + 0.5) : UINT64_MAX / 4;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A request goes to where the object is, which comes back. From when on the object is there, if it is asked for at tick at. */
static uint64_t from_node(flow *m, uint32_t node, flow_core *c, const flow_input *in, uint64_t at)
{
    flow_node *source = &m->node[in->node], *v = &m->node[node];
    uint64_t   asked = at + m->hop_load, take = htc__dataflow_transfer(m->tick_bytes, in->bytes), begin = asked;
    htc__scale_messages(m->scale, 2, 0, 0);
    c->asked += 2;
    if (m->options.links != HTC_SIM_DATAFLOW_FREE)
        begin = later(begin, source->out_free);
    if (m->options.links == HTC_SIM_DATAFLOW_BOTH)
        begin = later(begin, v->in_free);
    source->out_free = begin + take;
    v->in_free = begin + take;
    return begin + take + htc_scale_ticks(m->scale, m->options.latency_ns);
}

static uint64_t from_file_system(flow *m, flow_core *c, uint64_t bytes, uint64_t at)
{
    uint64_t begin = later(at + m->hop_load, m->now.pfs_free), take = htc__dataflow_transfer(m->pfs_tick_bytes, bytes);
    htc__scale_messages(m->scale, 2, 0, 0);
    c->asked += 2;
    m->now.pfs_free = begin + take;
    return begin + take + htc_scale_ticks(m->scale, m->options.latency_ns);
}

uint64_t htc__dataflow_written(flow *m, flow_core *c, uint64_t bytes, uint64_t at)
{
    return bytes ? from_file_system(m, c, bytes, at) : at;
}

int htc__dataflow_is_contended(const flow *m)
{
    return m->options.links != HTC_SIM_DATAFLOW_FREE || m->options.system == HTC_SIM_DATAFLOW_PFS || m->options.system == HTC_SIM_DATAFLOW_DATADIFF;
}

int htc__dataflow_is_far(const flow *m, uint32_t node, const flow_input *in)
{
    if (in->bytes == 0 || m->options.system == HTC_SIM_DATAFLOW_ACTIVE)
        return 0;
    return m->options.system == HTC_SIM_DATAFLOW_PFS || !htc__dataflow_has(m, node, in);
}

/* What is on its way to a node counts as there. */
static uint64_t fetch_far(flow *m, uint32_t node, flow_core *c, const flow_input *in, uint64_t at)
{
    int is_file = in->object != FLOW_NONE && in->object >= m->tasks, system = (int)m->options.system;
    m->now.moved_bytes += in->bytes;
    at = system == HTC_SIM_DATAFLOW_PFS || (system == HTC_SIM_DATAFLOW_DATADIFF && is_file) ? from_file_system(m, c, in->bytes, at) : from_node(m, node, c, in, at);
    if (system != HTC_SIM_DATAFLOW_PFS && m->options.cache_bytes)
        keep_copy(m, node, in);
    return at;
}

uint64_t htc__dataflow_fetch(flow *m, uint32_t node, flow_core *c, const flow_input *in, uint64_t at)
{
    uint32_t copy;
    m->now.read_bytes += in->bytes;
    if (htc__dataflow_is_far(m, node, in)) {
        c->moved += in->bytes;
        return fetch_far(m, node, c, in, at);
    }
    if (in->bytes == 0)
        return at;
    if (in->node != node && m->options.system != HTC_SIM_DATAFLOW_ACTIVE && (copy = copy_of(m, node, in->object)) != FLOW_NONE) {
        m->now.cached_bytes += in->bytes;
        unlink_copy(m, copy);
        link_copy(m, copy);
    } else {
        m->now.local_bytes += in->bytes;
    }
    return at + htc__dataflow_transfer(m->disk_tick_bytes, in->bytes);
}
