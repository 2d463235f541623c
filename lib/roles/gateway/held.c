/* The attempts that an agent holds, as the gateway knows it: from the grant until they have ended, or are no longer that agent's. */
#include <assert.h>
#include <stdlib.h>

#include "roles/gateway/gateway.h"

static int same(const htc_attempt *a, const htc_attempt *b)
{
    return a->job == b->job && a->task == b->task && a->attempt == b->attempt;
}

const htc_held *htc__gw_listed(const htc_held_list *list, const htc_attempt *at)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (same(&list->held[i].attempt, at))
            return &list->held[i];
    return NULL;
}

held *htc__gw_agent_held(agent *a, const htc_attempt *at)
{
    for (uint32_t i = 0; i < a->n_held; i++)
        if (same(&a->held[i].attempt, at))
            return &a->held[i];
    return NULL;
}

int htc__gw_agent_hold(htc_gateway *gw, agent *a, const htc_attempt *at, uint64_t grant, uint64_t reserves, uint32_t slots)
{
    assert(a->state == AGENT_READY || grant == 0); /* 0: a lease that a gateway before gave */
    if (a->n_held == a->cap_held) {
        uint32_t cap = a->cap_held ? a->cap_held * 2 : 4;
        held    *more = htc__resize(&gw->env, a->held, a->cap_held * sizeof *more, cap * sizeof *more);
        if (!more) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a lease");
            return 0;
        }
        a->held = more;
        a->cap_held = cap;
    }
    a->held[a->n_held++] = (held){ .attempt = *at, .grant = grant, .memory = reserves, .slots = slots, .since = grant ? gw->now : 0 };
    a->held_slots += slots;
    htc__gw_memory_reserve(gw, a);
    return 1;
}

void htc__gw_agent_unhold(htc_gateway *gw, agent *a, const htc_attempt *at)
{
    held *h = htc__gw_agent_held(a, at);
    if (!h)
        return;
    task_hold *k = h->taken;
    a->held_slots -= h->slots;
    *h = a->held[--a->n_held];
    htc__gw_memory_reserve(gw, a);
    htc__gw_taken_end(gw, k);
}

/* Its slots are its agent's to fill, one task after the other; its devices and its memory could be another agent's: not before its processes have ended. */
void htc__gw_agent_disown(htc_gateway *gw, agent *a, const htc_attempt *at)
{
    held *h = htc__gw_agent_held(a, at);
    if (!h)
        return;
    held was = *h;
    h->taken = NULL;
    htc__gw_agent_unhold(gw, a, at);
    htc__gw_taken_owe(gw, a, &was, 0);
}

static int by_memory(const void *x, const void *y)
{
    const held *a = x, *b = y;
    if (a->memory != b->memory)
        return a->memory > b->memory ? -1 : 1;
    if (a->attempt.job != b->attempt.job)
        return a->attempt.job < b->attempt.job ? -1 : 1;
    return a->attempt.task < b->attempt.task ? -1 : a->attempt.task > b->attempt.task;
}

void htc__gw_held_sort(agent *a)
{
    if (a->n_held)
        qsort(a->held, a->n_held, sizeof *a->held, by_memory);
}
