/* What durable records of the gateway say: read by the gateway's own code, for the checks. */
#include "roles/gateway/gateway.h"
#include "sim/scenarios/system_private.h"

htc_status htc__sys_chunk_read(sys *s, htc_bytes value, void (*seen)(void *ctx, const sys_task_state *task), void *ctx, uint64_t *core_ns)
{
    htc_reader r = htc_reader_of(value);
    htc_get_u8(&r);
    uint64_t n = htc_get_varint(&r);
    size_t   size = sizeof(chunk) + n * sizeof(task);
    chunk   *c = r.status == HTC_OK && n <= CHUNK_TASKS ? htc__sys_alloc(s, size) : NULL;
    if (!c)
        return HTC_EINVAL;
    c->n = (uint32_t)n;
    htc_status status = htc__gw_record_chunk_read(value, c);
    for (uint32_t i = 0; status == HTC_OK && i < c->n; i++) {
        const task *t = &c->tasks[i];
        htc_outcome o = { 0 };
        if (t->brief[0])
            htc__gw_brief_get(c, t, 0, &o);
        seen(ctx, &(sys_task_state){ .offset = i, .done = t->state == TASK_DONE, .cancelled = t->state == TASK_CANCELLED,
                                     .leased = t->state == TASK_LEASED, .attempt = t->attempt, .status = t->status,
                                     .brief = t->brief[0] != 0, .span = o.ended - o.started });
    }
    *core_ns = c->used.core_ns;
    htc__free(&s->env, c, size);
    return status;
}

int htc__sys_serves(sys *s, uint64_t instance)
{
    htc_bytes    value;
    active_claim c;
    return htc__sys_store_value(s, "gateway/active", &value) == HTC_OK && htc__gw_record_active_read(value, &c) == HTC_OK && c.instance == instance &&
           c.sealed == c.term && !c.released;
}

int htc__sys_is_void(htc_bytes value)
{
    return htc__gw_record_job_void(value);
}

htc_status htc__sys_job_read(htc_bytes value, sys_job_state *state)
{
    job j;
    memset(&j, 0, sizeof j);
    memset(state, 0, sizeof *state);
    htc_status status = htc__gw_record_job_read(value, &j, state->user);
    state->id = j.id;
    memcpy(state->name, j.name, sizeof state->name);
    if (j.finished)
        state->end = j.base.done == j.count ? SYS_OK : j.base.failed ? SYS_FAILED : SYS_CANCELLED;
    return status;
}
