#include "sim/scenarios/due.h"

#include "core/util.h"

static int before(const due_item *a, const due_item *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(due *d, size_t i, due_item x)
{
    d->heap[i] = x;
    d->place[x.id] = (uint32_t)i + 1;
}

/* To its place, from i, which is free. */
static void rise(due *d, size_t i, due_item x)
{
    for (; i && before(&x, &d->heap[(i - 1) / 2]); i = (i - 1) / 2)
        put(d, i, d->heap[(i - 1) / 2]);
    put(d, i, x);
}

static void sink(due *d, size_t i, due_item x)
{
    for (size_t child; (child = 2 * i + 1) < d->n; i = child) {
        child += child + 1 < d->n && before(&d->heap[child + 1], &d->heap[child]);
        if (!before(&d->heap[child], &x))
            break;
        put(d, i, d->heap[child]);
    }
    put(d, i, x);
}

static size_t larger(size_t cap, size_t need)
{
    cap = cap ? cap : 16;
    while (cap < need)
        cap *= 2;
    return cap;
}

static htc_status make_room(due *d, uint32_t id)
{
    if (id >= d->ids) {
        size_t    ids = larger(d->ids, (size_t)id + 1);
        uint32_t *place = htc__resize(d->env, d->place, d->ids * sizeof *place, ids * sizeof *place);
        if (!place)
            return HTC_ENOMEM;
        d->place = place;
        d->ids = ids;
    }
    if (d->n == d->cap) {
        size_t    cap = larger(d->cap, d->n + 1);
        due_item *heap = htc__resize_raw(d->env, d->heap, d->cap * sizeof *heap, cap * sizeof *heap);
        if (!heap)
            return HTC_ENOMEM;
        d->heap = heap;
        d->cap = cap;
    }
    return HTC_OK;
}

htc_status htc__due_set(due *d, uint32_t id, htc_ns at)
{
    htc_status status = make_room(d, id);
    if (status != HTC_OK)
        return status;
    htc__due_clear(d, id);
    rise(d, d->n++, (due_item){ at, d->sets++, id });
    return HTC_OK;
}

void htc__due_clear(due *d, uint32_t id)
{
    size_t i = id < d->ids ? d->place[id] : 0;
    if (i == 0)
        return;
    d->place[id] = 0;
    due_item last = d->heap[--d->n];
    if (i - 1 == d->n)
        return;
    if (i > 1 && before(&last, &d->heap[(i - 2) / 2]))
        rise(d, i - 1, last);
    else
        sink(d, i - 1, last);
}

htc_ns htc__due_first(const due *d, uint32_t *id)
{
    if (d->n && id)
        *id = d->heap[0].id;
    return d->n ? d->heap[0].at : HTC_NEVER;
}

void htc__due_free(due *d)
{
    htc__free(d->env, d->heap, d->cap * sizeof *d->heap);
    htc__free(d->env, d->place, d->ids * sizeof *d->place);
    *d = (due){ .env = d->env };
}
