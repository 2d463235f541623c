/* Tasks that wait for tasks: a checkpoint. Nodes, cores, queues and copies are arrays whose elements name each other by their places; what a node's policy has
 * learned has tapes of its own. */
#include <string.h>

#include "sim/models/checked.h"
#include "sim/models/dataflow.h"

/* ---- of which options it is ---- */

static uint64_t mix(uint64_t print, const void *data, size_t n)
{
    return n ? htc_hash64((htc_bytes){ data, n }, print) : print;
}

static uint64_t mix_graph(uint64_t print, const flow *m)
{
    const flow_graph *g = &m->graph;
    for (uint32_t p = 0; p < m->phases; p++) {
        const flow_phase *phase = &m->phase[p];
        uint64_t          numbers[] = { phase->first, phase->tasks, phase->length.kind, phase->bytes.kind };
        double            laws[] = { phase->length.a, phase->length.b, phase->bytes.a, phase->bytes.b };
        print = mix(mix(print, numbers, sizeof numbers), laws, sizeof laws);
    }
    if (!g->tasks)
        return print;
    print = mix(mix(print, g->child_first, (g->tasks + UINT64_C(1)) * sizeof *g->child_first), g->child, (size_t)g->edges * sizeof *g->child);
    print = mix(mix(print, g->length_ns, g->tasks * sizeof *g->length_ns), g->bytes, g->tasks * sizeof *g->bytes);
    return mix(print, g->kind, g->tasks * sizeof *g->kind);
}

static uint64_t mix_policies(uint64_t print, const flow *m)
{
    const htc_steal_options    *s = &m->steal;
    const htc_locality_options *l = &m->locality;
    uint64_t numbers[] = { s->poll_ns, s->poll_ns_max, s->at_ceiling, s->neighbours, s->degree, s->amount, s->near_workers, s->hops, s->shape.x, s->shape.y, s->shape.z, s->shape.wrap,
                           l->tt_rule, l->bytes_per_s, l->ratio, l->tt_ns, l->tt_ns_min, l->tt_ns_max, l->tt_ns_small, l->window_ns, l->tail };
    const char *names[] = { s->policy && s->policy->name ? s->policy->name : "random", l->policy && l->policy->name ? l->policy->name : "flds" };
    print = mix(print, numbers, sizeof numbers);
    return mix(mix(print, names[0], strlen(names[0])), names[1], strlen(names[1]));
}

static uint64_t print_of(const flow *m)
{
    const htc_sim_dataflow_options *o = &m->options;
    uint64_t numbers[] = { o->system, o->shape, o->degree, o->layout, o->nodes, o->cores, o->in_turn, m->tasks, m->edges, m->phases, o->files, o->file_bytes, o->inputs, o->links, o->window,
                           o->scattered, o->shuffled, o->cache_bytes, o->expected_ns, m->hop_load, m->hop_task, m->task, m->store, m->commit, m->give, m->nudge, m->dispatch, m->sample,
                           m->launch, m->grant, m->container, m->length.kind, m->bytes.kind };
    double   parts[] = { m->tick_bytes, m->disk_tick_bytes, m->pfs_tick_bytes, m->length.a, m->length.b, m->bytes.a, m->bytes.b };
    return mix_graph(mix_policies(mix(mix(o->seed, numbers, sizeof numbers), parts, sizeof parts), m), m);
}

/* ---- queues ---- */

/* How much there is of something, and room for: at most twice as much as there can be of it. */
static htc_status move_sizes(const htc_scale_tape *tape, uint32_t *n, uint32_t *room, uint64_t most)
{
    uint32_t   numbers[] = { *n, *room };
    htc_status status = tape->move(tape->ctx, numbers, sizeof numbers);
    *n = numbers[0];
    *room = numbers[1];
    return status == HTC_OK && (*n > most || *n > *room || *room > 2 * most + 64) ? HTC_ECORRUPT : status;
}

/* Room for entries that are read, as much as the run had. */
static htc_status room_for_entries(const flow *m, flow_entry **at, uint32_t *had, uint32_t room)
{
    if (room <= *had)
        return HTC_OK;
    flow_entry *more = htc__dataflow_grown(&m->env, *at, *had * sizeof *more, (size_t)room * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    *at = more;
    *had = room;
    return HTC_OK;
}

static htc_status move_heap(const flow *m, const htc_scale_tape *tape, flow_queue *q)
{
    uint32_t   n = q->heap_n, room = q->heap_room;
    htc_status status = move_sizes(tape, &n, &room, m->tasks);
    if (status == HTC_OK)
        status = room_for_entries(m, &q->heap, &q->heap_room, room);
    status = htc__checked_piece(tape, status, q->heap, (size_t)n * sizeof *q->heap);
    q->heap_n = status == HTC_OK ? n : q->heap_n;
    return status;
}

/* In two pieces, where it goes round the end of its ring. */
static htc_status move_line(const flow *m, const htc_scale_tape *tape, flow_queue *q)
{
    uint32_t   n = q->line_n, room = q->line_room, from = room ? q->line_from & (room - 1) : 0;
    htc_status status = move_sizes(tape, &n, &room, m->tasks);
    if (status == HTC_OK && room & (room - 1))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = room_for_entries(m, &q->line, &q->line_room, room);
    uint32_t ahead = room - from < n ? room - from : n;
    status = htc__checked_piece(tape, status, ahead ? q->line + from : NULL, (size_t)ahead * sizeof *q->line);
    status = htc__checked_piece(tape, status, q->line, (size_t)(n - ahead) * sizeof *q->line);
    q->line_n = status == HTC_OK ? n : q->line_n;
    return status;
}

static htc_status move_queue(const flow *m, const htc_scale_tape *tape, flow_queue *q)
{
    htc_status status = move_line(m, tape, q);
    if (status == HTC_OK)
        status = move_heap(m, tape, q);
    if (status != HTC_OK)
        return status;
    if (q->heap_n > m->tasks - q->line_n)
        return HTC_ECORRUPT;
    q->n = q->line_n + q->heap_n;
    for (uint32_t i = 0; i < q->n; i++)
        if (htc__dataflow_queue_task(q, i) >= m->tasks)
            return HTC_ECORRUPT;
    return htc__dataflow_queue_has_order(q) ? HTC_OK : HTC_ECORRUPT;
}

/* From its first to its last: read, it begins at the first place. */
static htc_status move_ring(flow *m, const htc_scale_tape *tape, flow_ring *r, uint64_t most)
{
    uint32_t   n = r->n, room = r->room;
    htc_status status = move_sizes(tape, &n, &room, most);
    if (status == HTC_OK && room > r->room) {
        uint32_t *more = htc__alloc_raw(&m->env, (size_t)room * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        htc__free(&m->env, r->at, r->room * sizeof *r->at);
        *r = (flow_ring){ more, 0, 0, room };
    }
    if (tape->reads && status == HTC_OK) {
        r->from = 0;
        r->n = n;
    }
    for (uint32_t i = 0; i < n && status == HTC_OK; i++) {
        uint32_t *at = &r->at[(r->from + i) % r->room];
        status = tape->move(tape->ctx, at, sizeof *at);
        if (status == HTC_OK && *at >= most)
            status = HTC_ECORRUPT;
    }
    return status;
}

/* ---- nodes ---- */

static htc_status move_node(flow *m, const htc_scale_tape *tape, flow_node *v)
{
    const size_t from = offsetof(flow_node, due);
    htc_status   status = tape->move(tape->ctx, (char *)v + from, sizeof *v - from);
    if (status == HTC_OK && (v->phase > THIEF_BACK || (v->other != FLOW_NONE && v->other >= m->nodes) || (v->phase == THIEF_TOLD && v->other == FLOW_NONE)))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = move_queue(m, tape, &v->local);
    if (status == HTC_OK)
        status = move_queue(m, tape, &v->shared);
    if (status == HTC_OK)
        status = move_queue(m, tape, &v->loot);
    if (status == HTC_OK && v->policy)
        status = htc_locality_tape(v->policy, tape);
    return status == HTC_OK && v->lengths ? htc_locality_lengths_tape(v->lengths, tape) : status;
}

static int is_consistent(const flow *m)
{
    const struct flow_state *s = &m->now;
    uint64_t                 makers = 0;
    for (uint64_t c = 0; c < m->cores; c++)
        if (m->core[c].task != FLOW_NONE && m->core[c].task >= m->tasks)
            return 0;
    for (uint64_t t = 0; t < m->tasks; t++)
        if (m->where[t] >= m->nodes || m->waits[t] > htc__dataflow_parents(m, (uint32_t)t))
            return 0;
    for (uint32_t i = 0; i < m->nodes; i++)
        makers += m->node[i].phase_next > 0;
    if (s->holders > m->nodes || s->next_holders != makers || (m->phases ? s->phase > m->phases : s->phase > 0))
        return 0;
    for (uint32_t i = 0; i < s->holders; i++)
        if (m->holder[i] >= m->nodes)
            return 0;
    for (uint32_t i = 0; i < s->next_holders; i++)
        if (m->holder[m->nodes + i] >= m->nodes)
            return 0;
    return !s->at_work || (m->queue.n && s->idle);
}

/* ---- copies: those of a node by use, and what is free; the table follows from them ---- */

/* As many as a run has room for when it has so many. */
static int room_can_be(const flow *m, uint32_t room, uint32_t copies)
{
    return room >= copies && !(room & (room - 1)) && (room <= 1024 || room / 2 <= copies) && (m->options.cache_bytes || !room);
}

/* There is room for twice what the tape has had, whatever it says. */
static htc_status read_copies(flow *m, const htc_scale_tape *tape, uint32_t copies, uint32_t room)
{
    htc_status status = HTC_OK;
    for (uint32_t step; (m->copies < copies || m->copies_room < room) && status == HTC_OK; m->copies += status == HTC_OK ? step : 0) {
        uint32_t   more = m->copies_room ? 2 * m->copies_room : room < 1024 ? room : 1024;
        flow_copy *grown = htc__dataflow_grown(&m->env, m->copy, m->copies_room * sizeof *grown, (size_t)more * sizeof *grown);
        if (!grown)
            return HTC_ENOMEM;
        m->copy = grown;
        m->copies_room = more;
        step = copies < more ? copies - m->copies : more - m->copies;
        status = htc__checked_piece(tape, status, m->copy + m->copies, (uint64_t)step * sizeof *m->copy);
    }
    if (status != HTC_OK || !room)
        return status;
    m->bucket = htc__alloc_raw(&m->env, (size_t)room * sizeof *m->bucket);
    m->buckets = m->bucket ? room : 0;
    return m->bucket ? HTC_OK : HTC_ENOMEM;
}

static int are_listed(const flow *m)
{
    uint64_t n = 0;
    for (uint32_t c = m->copy_free; c != FLOW_NONE; c = m->copy[c].chain)
        if (c >= m->copies || ++n > m->copies)
            return 0;
    for (uint32_t i = 0; i < m->nodes; i++) {
        uint32_t newer = FLOW_NONE;
        uint64_t bytes = 0;
        for (uint32_t c = m->node[i].newest; c != FLOW_NONE; newer = c, c = m->copy[c].older) {
            if (c >= m->copies || ++n > m->copies || m->copy[c].node != i || m->copy[c].newer != newer)
                return 0;
            bytes += m->copy[c].bytes;
        }
        if (m->node[i].oldest != newer || m->node[i].cached != bytes)
            return 0;
    }
    return n == m->copies;
}

static htc_status move_copies(flow *m, const htc_scale_tape *tape)
{
    uint32_t   numbers[] = { m->copies, m->copies_room, m->copy_free };
    htc_status status = tape->move(tape->ctx, numbers, sizeof numbers);
    if (status != HTC_OK || !tape->reads)
        return htc__checked_piece(tape, status, m->copy, (uint64_t)m->copies * sizeof *m->copy);
    m->copies = 0;
    m->copy_free = numbers[2];
    if (!room_can_be(m, numbers[1], numbers[0]))
        return HTC_ECORRUPT;
    status = read_copies(m, tape, numbers[0], numbers[1]);
    if (status != HTC_OK)
        return status;
    if (!are_listed(m))
        return HTC_ECORRUPT;
    htc__dataflow_table(m);
    return HTC_OK;
}

/* ---- all ---- */

/* The lists of nodes with output of a phase are as long as the state says. */
static htc_status move_holders(flow *m, const htc_scale_tape *tape)
{
    if (m->now.holders > m->nodes || m->now.next_holders > m->nodes)
        return HTC_ECORRUPT;
    htc_status status = htc__checked_piece(tape, HTC_OK, m->holder, m->now.holders * sizeof *m->holder);
    return htc__checked_piece(tape, status, m->holder + m->nodes, m->now.next_holders * sizeof *m->holder);
}

htc_status htc__dataflow_tape(flow *m, const htc_scale_tape *tape)
{
    uint64_t   head[] = { print_of(m), sizeof *m, sizeof *m->node, sizeof *m->core, sizeof *m->copy, sizeof m->now }, found[sizeof head / sizeof *head];
    uint8_t   *events = NULL;
    htc_status status = htc__tape_check(tape);
    memcpy(found, head, sizeof head);
    status = htc__checked_piece(tape, status, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    status = htc__checked_piece(tape, status, &m->now, sizeof m->now);
    status = htc__checked_piece(tape, status, m->core, m->cores * sizeof *m->core);
    status = htc__checked_piece(tape, status, m->waits, m->tasks * sizeof *m->waits);
    status = htc__checked_piece(tape, status, m->where, m->tasks * sizeof *m->where); /* files stay where they lie */
    if (status == HTC_OK)
        status = move_holders(m, tape);
    for (uint32_t i = 0; i < m->nodes && status == HTC_OK; i++)
        status = move_node(m, tape, &m->node[i]);
    if (status == HTC_OK)
        status = move_copies(m, tape);
    if (status == HTC_OK)
        status = move_ring(m, tape, &m->queue, m->tasks);
    if (status == HTC_OK)
        status = move_ring(m, tape, &m->free_cores, m->cores);
    if (status == HTC_OK && tape->reads && !is_consistent(m))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__dataflow_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}
