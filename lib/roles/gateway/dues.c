/* What is due later: a binary heap by time. */
#include "roles/gateway/gateway.h"

void htc__gw_due_add(htc_gateway *gw, htc_ns at, uint64_t id, uint64_t index)
{
    if (gw->n_dues == gw->cap_dues) {
        size_t cap = gw->cap_dues ? gw->cap_dues * 2 : 64;
        due   *dues = htc__resize(&gw->env, gw->dues, gw->cap_dues * sizeof *dues, cap * sizeof *dues);
        if (!dues) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "remembering a retry");
            return;
        }
        gw->dues = dues;
        gw->cap_dues = cap;
    }
    size_t i = gw->n_dues++;
    for (; i > 0 && gw->dues[(i - 1) / 2].at > at; i = (i - 1) / 2)
        gw->dues[i] = gw->dues[(i - 1) / 2];
    gw->dues[i] = (due){ at, id, index };
}

static due due_pop(htc_gateway *gw)
{
    due    top = gw->dues[0], last = gw->dues[--gw->n_dues];
    size_t i = 0;
    for (;;) {
        size_t kid = 2 * i + 1;
        if (kid >= gw->n_dues)
            break;
        if (kid + 1 < gw->n_dues && gw->dues[kid + 1].at < gw->dues[kid].at)
            kid++;
        if (gw->dues[kid].at >= last.at)
            break;
        gw->dues[i] = gw->dues[kid];
        i = kid;
    }
    if (gw->n_dues)
        gw->dues[i] = last;
    return top;
}

void htc__gw_dues_run(htc_gateway *gw)
{
    while (gw->n_dues && gw->dues[0].at <= gw->now) {
        due    d = due_pop(gw);
        job   *j = htc__gw_job(gw, d.job);
        if (j && d.index == DUE_RESTED)
            htc__gw_job_rested(gw, j);
        else if (j && d.index == DUE_BEGIN)
            htc__gw_begin_due(gw, j);
        chunk *c = j && d.index < j->count ? htc__gw_chunk(j, d.index / CHUNK_TASKS) : NULL;
        task  *t = c ? &c->tasks[d.index % CHUNK_TASKS] : NULL;
        /* since holds when it is due: an entry of an older wait finds another time there. */
        if (t && t->state == TASK_RETRY_WAIT && t->since == d.at)
            htc__gw_task_again(gw, c, (uint32_t)(d.index % CHUNK_TASKS), 0);
    }
}
