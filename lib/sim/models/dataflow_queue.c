/* A queue with two ends: a min-max heap (Atkinson, Sack, Santoro, Strothotte, 1986). Entries at even depths are before all below them, those at odd depths after. */
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

int htc__dataflow_queue_put(const htc_env *env, flow_queue *q, flow_entry e)
{
    if (q->n == q->room) {
        uint32_t    room = q->room ? 2 * q->room : 8;
        flow_entry *more = htc__dataflow_grown(env, q->at, q->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        q->at = more;
        q->room = room;
    }
    uint32_t i = q->n++, up = (i - 1) / 2;
    q->at[i] = e;
    if (i == 0)
        return 1;
    int even = is_even(i);
    if (is_nearer(&q->at[i], &q->at[up], !even)) { /* beyond what is above: to the other end */
        swap(&q->at[i], &q->at[up]);
        rise(q->at, up, !even);
    } else {
        rise(q->at, i, even);
    }
    return 1;
}

/* Of the children and grandchildren of i the nearest to its end; FLOW_NONE: there are none. */
static uint32_t nearest_below(const flow_queue *q, uint32_t i, int even)
{
    uint32_t best = FLOW_NONE, below[6] = { 2 * i + 1, 2 * i + 2, 4 * i + 3, 4 * i + 4, 4 * i + 5, 4 * i + 6 };
    for (int k = 0; k < 6; k++)
        if (below[k] < q->n && (best == FLOW_NONE || is_nearer(&q->at[below[k]], &q->at[best], even)))
            best = below[k];
    return best;
}

static flow_entry take(flow_queue *q, uint32_t i)
{
    flow_entry taken = q->at[i];
    int        even = is_even(i);
    q->at[i] = q->at[--q->n];
    for (uint32_t best; i < q->n && (best = nearest_below(q, i, even)) != FLOW_NONE && is_nearer(&q->at[best], &q->at[i], even); i = best) {
        swap(&q->at[best], &q->at[i]);
        if (best <= 2 * i + 2)
            break;
        uint32_t up = (best - 1) / 2;
        if (is_nearer(&q->at[up], &q->at[best], even))
            swap(&q->at[up], &q->at[best]);
    }
    return taken;
}

flow_entry htc__dataflow_queue_first(flow_queue *q)
{
    assert(q->n > 0);
    return take(q, 0);
}

flow_entry htc__dataflow_queue_last(flow_queue *q)
{
    assert(q->n > 0);
    if (q->n < 3)
        return take(q, q->n - 1);
    return take(q, is_before(&q->at[1], &q->at[2]) ? 2 : 1);
}

void htc__dataflow_queue_free(const htc_env *env, flow_queue *q)
{
    htc__free(env, q->at, q->room * sizeof *q->at);
    *q = (flow_queue){ NULL, 0, 0 };
}
