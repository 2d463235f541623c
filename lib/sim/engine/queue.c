/* The order of events: a heap by (time, number) with four children a node. The time and the number are in the heap itself, so
 * that finding a place looks at no event. What is to happen now never enters it: whatever is in the heap for this moment is
 * older, so these follow in a list, as they come. Events are used again, by size of their room: in the steady state a run takes
 * no memory. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sim/engine/sim_private.h"

static int before(const sim_slot *a, const sim_slot *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static size_t room(uint32_t class)
{
    return (size_t)SIM_BODY_MIN << class;
}

static uint32_t class_of(size_t len)
{
    uint32_t class = 0;
    while (class < SIM_CLASSES && room(class) < len)
        class ++;
    return class;
}

static size_t size_of(const sim_event *e)
{
    return sizeof *e + (e->class < SIM_CLASSES ? room(e->class) : e->in.body.len);
}

sim_event *htc__sim_event(htc_sim *sim, htc_sim_node *node, const htc_input *in)
{
    size_t len = in ? in->body.len : 0;
    uint32_t class = class_of(len);
    sim_event *e = class < SIM_CLASSES ? sim->queue.free[class] : NULL;
    if (e)
        sim->queue.free[class] = e->next;
    else
        e = htc__alloc(&sim->env, sizeof *e + (class < SIM_CLASSES ? room(class) : len));
    if (!e) {
        htc__sim_refused(sim);
        return NULL;
    }
    *e = (sim_event){ .node = node, .class = class, .incarnation = node ? node->incarnation : 0 };
    if (in) {
        e->in = *in;
        e->in.body.data = len ? memcpy(e->body, in->body.data, len) : NULL;
    }
    return e;
}

void htc__sim_event_free(htc_sim *sim, sim_event *e)
{
    if (e->conn)
        htc__sim_conn_unref(sim, e->conn);
    if (e->dial)
        htc__sim_dial_unref(sim, e->dial);
    if (e->class < SIM_CLASSES) {
        e->next = sim->queue.free[e->class];
        sim->queue.free[e->class] = e;
    } else {
        htc__free(&sim->env, e, size_of(e));
    }
}

htc_status htc__sim_push(htc_sim *sim, sim_event *e, htc_ns at)
{
    return htc__sim_push_as(sim, e, at, sim->queue.seq++);
}

htc_status htc__sim_push_as(htc_sim *sim, sim_event *e, htc_ns at, uint64_t seq)
{
    sim_queue *q = &sim->queue;
    if (at <= sim->now) {
        htc__sim_list_add(&q->now, e);
        return HTC_OK;
    }
    if (at == HTC_NEVER) {
        htc__sim_event_free(sim, e);
        return HTC_OK;
    }
    if (q->count == q->cap) {
        size_t    cap = q->cap ? q->cap * 2 : 256;
        sim_slot *heap = htc__resize(&sim->env, q->heap, q->cap * sizeof *heap, cap * sizeof *heap);
        if (!heap) {
            htc__sim_event_free(sim, e);
            return htc__sim_refused(sim);
        }
        q->heap = heap;
        q->cap = cap;
    }
    sim_slot s = { at, seq, e };
    size_t   i = q->count++;
    while (i > 0 && before(&s, &q->heap[(i - 1) / 4])) {
        q->heap[i] = q->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    q->heap[i] = s;
    return HTC_OK;
}

int htc__sim_due(const htc_sim *sim, htc_ns until)
{
    const sim_queue *q = &sim->queue;
    return q->now.first || (q->count && q->heap[0].at <= until);
}

sim_event *htc__sim_pop(htc_sim *sim, htc_ns *at)
{
    sim_queue *q = &sim->queue;
    if (q->now.first && (q->count == 0 || q->heap[0].at > sim->now)) {
        *at = sim->now;
        return htc__sim_list_take(&q->now);
    }
    assert(q->count > 0 && q->heap[0].at >= sim->now); /* time does not run backwards */
    sim_slot   first = q->heap[0], last = q->heap[--q->count];
    size_t     i = 0;
    for (;;) {
        size_t child = 4 * i + 1, least = child, end = child + 4 < q->count ? child + 4 : q->count;
        if (child >= q->count)
            break;
        while (++child < end)
            if (before(&q->heap[child], &q->heap[least]))
                least = child;
        if (!before(&q->heap[least], &last))
            break;
        q->heap[i] = q->heap[least];
        i = least;
    }
    if (q->count)
        q->heap[i] = last;
    *at = first.at;
    return first.event;
}

void htc__sim_list_add(sim_list *list, sim_event *e)
{
    e->next = NULL;
    if (list->first)
        *list->last = e;
    else
        list->first = e;
    list->last = &e->next;
}

sim_event *htc__sim_list_take(sim_list *list)
{
    sim_event *e = list->first;
    if (e)
        list->first = e->next;
    return e;
}

void htc__sim_queue_free(htc_sim *sim)
{
    sim_queue *q = &sim->queue;
    for (size_t i = 0; i < q->count; i++)
        htc__sim_event_free(sim, q->heap[i].event);
    for (sim_event *e; (e = htc__sim_list_take(&q->now));)
        htc__sim_event_free(sim, e);
    for (uint32_t class = 0; class < SIM_CLASSES; class ++)
        for (sim_event *e = q->free[class], *next; e; e = next) {
            next = e->next;
            htc__free(&sim->env, e, size_of(e));
        }
    htc__free(&sim->env, q->heap, q->cap * sizeof *q->heap);
}
