/* A queue with two ends. What is put before or behind all that stands in the line joins it there. The rest is a min-max heap (Atkinson, Sack, Santoro,
 * Strothotte, 1986): entries at even depths are before all below them, those at odd depths after. The tasks of a bag come in order: they need no heap, which
 * costs a miss of the cache for each of its levels. */
#include <assert.h>
#include <string.h>

#include "sim/models/dataflow.h"

static int is_before(const flow_entry *a, const flow_entry *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->task < b->task;
}

static int is_even(uint32_t i)
{
    return __builtin_clz(i + 1) & 1; /* depth = 31 - clz */
}

static void swap(flow_entry *a, flow_entry *b)
{
    flow_entry e = *a;
    *a = *b;
    *b = e;
}

/* Is a nearer to the end that this kind of depth is for? */
static int is_nearer(const flow_entry *a, const flow_entry *b, int even)
{
    return even ? is_before(a, b) : is_before(b, a);
}

static void rise(flow_entry *at, uint32_t i, int even)
{
    while (i > 2) {
        uint32_t up = ((i - 1) / 2 - 1) / 2;
        if (!is_nearer(&at[i], &at[up], even))
            return;
        swap(&at[i], &at[up]);
        i = up;
    }
}

void *htc__dataflow_grown(const htc_env *env, void *old, size_t old_size, size_t size)
{
    void *more = htc__alloc_raw(env, size);
    if (more && old_size)
        memcpy(more, old, old_size);
    if (more)
        htc__free(env, old, old_size);
    return more;
}

/* ---- the heap ---- */

static int heap_put(const htc_env *env, flow_queue *q, flow_entry e)
{
    if (q->heap_n == q->heap_room) {
        uint32_t    room = q->heap_room ? 2 * q->heap_room : 8;
        flow_entry *more = htc__dataflow_grown(env, q->heap, q->heap_room * sizeof *more, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        q->heap = more;
        q->heap_room = room;
    }
    uint32_t i = q->heap_n++, up = (i - 1) / 2;
    q->heap[i] = e;
    if (i == 0)
        return 1;
    int even = is_even(i);
    if (is_nearer(&q->heap[i], &q->heap[up], !even)) { /* beyond what is above: to the other end */
        swap(&q->heap[i], &q->heap[up]);
        rise(q->heap, up, !even);
    } else {
        rise(q->heap, i, even);
    }
    return 1;
}

/* Of the children and grandchildren of i the nearest to its end; FLOW_NONE: there are none. */
static uint32_t nearest_below(const flow_queue *q, uint32_t i, int even)
{
    uint32_t best = FLOW_NONE, below[6] = { 2 * i + 1, 2 * i + 2, 4 * i + 3, 4 * i + 4, 4 * i + 5, 4 * i + 6 };
    for (int k = 0; k < 6; k++)
        if (below[k] < q->heap_n && (best == FLOW_NONE || is_nearer(&q->heap[below[k]], &q->heap[best], even)))
            best = below[k];
    return best;
}

static flow_entry heap_take(flow_queue *q, uint32_t i)
{
    flow_entry taken = q->heap[i];
    int        even = is_even(i);
    q->heap[i] = q->heap[--q->heap_n];
    for (uint32_t best; i < q->heap_n && (best = nearest_below(q, i, even)) != FLOW_NONE && is_nearer(&q->heap[best], &q->heap[i], even); i = best) {
        swap(&q->heap[best], &q->heap[i]);
        if (best <= 2 * i + 2)
            break;
        uint32_t up = (best - 1) / 2;
        if (is_nearer(&q->heap[up], &q->heap[best], even))
            swap(&q->heap[up], &q->heap[best]);
    }
    return taken;
}

static uint32_t heap_last(const flow_queue *q)
{
    if (q->heap_n < 3)
        return q->heap_n - 1;
    return is_before(&q->heap[1], &q->heap[2]) ? 2 : 1;
}

/* ---- the line ---- */

static flow_entry *in_line(const flow_queue *q, uint32_t i)
{
    return &q->line[(q->line_from + i) & (q->line_room - 1)];
}

static int line_grows(const htc_env *env, flow_queue *q)
{
    uint32_t    room = q->line_room ? 2 * q->line_room : 8;
    flow_entry *more = htc__alloc_raw(env, (size_t)room * sizeof *more);
    if (!more)
        return 0;
    for (uint32_t i = 0; i < q->line_n; i++)
        more[i] = *in_line(q, i);
    htc__free(env, q->line, q->line_room * sizeof *more);
    q->line = more;
    q->line_room = room;
    q->line_from = 0;
    return 1;
}

static int line_put(const htc_env *env, flow_queue *q, flow_entry e, int first)
{
    if (q->line_n == q->line_room && !line_grows(env, q))
        return 0;
    q->line_from -= (uint32_t)first; /* round the ring: it is used modulo its room */
    *in_line(q, first ? 0 : q->line_n) = e;
    q->line_n++;
    return 1;
}

/* ---- both ---- */

int htc__dataflow_queue_put(const htc_env *env, flow_queue *q, flow_entry e)
{
    int behind = q->line_n == 0 || is_before(in_line(q, q->line_n - 1), &e), first = !behind && is_before(&e, in_line(q, 0));
    int done = behind || first ? line_put(env, q, e, first) : heap_put(env, q, e);
    q->n += (uint32_t)done;
    return done;
}

flow_entry htc__dataflow_queue_first(flow_queue *q)
{
    assert(q->n > 0);
    q->n--;
    if (q->line_n == 0 || (q->heap_n && is_before(&q->heap[0], in_line(q, 0))))
        return heap_take(q, 0);
    q->line_n--;
    return q->line[q->line_from++ & (q->line_room - 1)];
}

flow_entry htc__dataflow_queue_last(flow_queue *q)
{
    assert(q->n > 0);
    q->n--;
    uint32_t last = q->heap_n ? heap_last(q) : FLOW_NONE;
    if (q->line_n == 0 || (q->heap_n && is_before(in_line(q, q->line_n - 1), &q->heap[last])))
        return heap_take(q, last);
    return *in_line(q, --q->line_n);
}

uint32_t htc__dataflow_queue_task(const flow_queue *q, uint32_t i)
{
    return i < q->line_n ? in_line(q, i)->task : q->heap[i - q->line_n].task;
}

int htc__dataflow_queue_has_order(const flow_queue *q)
{
    for (uint32_t i = 1; i < q->line_n; i++)
        if (!is_before(in_line(q, i - 1), in_line(q, i)))
            return 0;
    return 1;
}

size_t htc__dataflow_queue_bytes(const flow_queue *q)
{
    return ((size_t)q->line_room + q->heap_room) * sizeof(flow_entry);
}

void htc__dataflow_queue_free(const htc_env *env, flow_queue *q)
{
    htc__free(env, q->line, q->line_room * sizeof *q->line);
    htc__free(env, q->heap, q->heap_room * sizeof *q->heap);
    *q = (flow_queue){ 0 };
}
