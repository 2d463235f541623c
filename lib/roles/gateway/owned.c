/* The numbers of each user's jobs, so that what a user asks of all of them costs as many reads as there are, however many others have.
 *
 * A start reads all records of jobs, the newest first, and adds their numbers; they are put in order when they are asked for. What is submitted later is
 * newer than all of them. The records say what the jobs are: a number without one is passed over. */
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* One that was open is added when its record is read, and when it is opened. */
static void put_in_order(owned_jobs *l)
{
    size_t n = 0;
    if (!l->mixed)
        return;
    qsort(l->ids, l->n, sizeof *l->ids, by_number);
    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || l->ids[i] != l->ids[n - 1])
            l->ids[n++] = l->ids[i];
    l->n = n;
    l->mixed = 0;
}

size_t htc__gw_owned_below(owned_jobs *l, uint64_t id)
{
    size_t from = 0, to;
    put_in_order(l);
    for (to = l->n; from < to;) {
        size_t mid = from + (to - from) / 2;
        if (l->ids[mid] < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

void htc__gw_owned_add(htc_gateway *gw, user *u, uint64_t id)
{
    owned_jobs *l = &u->owned;
    if (l->n && !l->mixed && id <= l->ids[l->n - 1]) {
        size_t at = htc__gw_owned_below(l, id);
        if (l->ids[at] == id)
            return;
        l->mixed = 1;
    }
    if (l->n == l->cap) {
        size_t    cap = l->cap ? l->cap * 2 : 8;
        uint64_t *ids = htc__resize(&gw->env, l->ids, l->cap * sizeof *ids, cap * sizeof *ids);
        if (!ids) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting whose a job is");
            return;
        }
        l->ids = ids;
        l->cap = cap;
    }
    l->ids[l->n++] = id;
}

void htc__gw_owned_drop(user *u, uint64_t id)
{
    owned_jobs *l = &u->owned;
    size_t      at = htc__gw_owned_below(l, id);
    if (at == l->n || l->ids[at] != id)
        return;
    memmove(l->ids + at, l->ids + at + 1, (l->n - at - 1) * sizeof *l->ids);
    l->n--;
}

void htc__gw_owned_free(htc_gateway *gw, user *u)
{
    htc__free(&gw->env, u->owned.ids, u->owned.cap * sizeof *u->owned.ids);
    u->owned = (owned_jobs){ 0 };
}
