/* Partition controllers, message by message: the monitor (Algorithm 6), a process of its own with a member that keeps the census, and controllers that read it
 * (Algorithm 7). Both end with the last job. */
#include "core/util.h"
#include "sim/scenarios/jobs_exact.h"

/* ---- controllers ---- */

htc_status htc__jobs_exact_pull(jobs_exact_caller *c)
{
    if (!c->x->m.left)
        return HTC_OK;
    c->x->m.now.services++;
    return htc__jobs_exact_read(c, c->x->m.parts, "census", JOBS_EXACT_PULL);
}

htc_status htc__jobs_exact_pulled(jobs_exact_caller *c, const htc_kv_result *r)
{
    htc_ns     now = htc__twin_now(&c->x->t);
    htc_status status = r->status == HTC_OK ? htc_balance_pull(c->balance, now, &c->rng, r->value) : r->status == HTC_ENOTFOUND ? HTC_OK : r->status; /* there is none before the first */
    htc_ns     due = htc_balance_pull_due(c->balance), tick = c->x->m.tick_ns;
    if (status != HTC_OK)
        return htc__twin_refuse(&c->x->t, status, "a controller cannot read the census: %s", htc_strerror(status));
    return htc_sim_event(c->node, due > now + tick ? due - now : tick, JOBS_EXACT_PULL, HTC_OK, (htc_bytes){ 0 });
}

/* ---- the monitor ---- */

static htc_status step(jobs_exact_caller *c, const htc_balance_answer *answer)
{
    htc_balance_action a;
    char               key[JOBS_EXACT_KEY];
    htc_ns             now = htc__twin_now(&c->x->t), tick = c->x->m.tick_ns;
    if (!c->x->m.left)
        return HTC_OK;
    htc_status status = htc_balance_monitor_step(c->x->m.monitor, now, answer, &a);
    if (status != HTC_OK)
        return htc__twin_refuse(&c->x->t, status, "the monitor cannot go on: %s", htc_strerror(status));
    if (a.kind == HTC_BALANCE_WAIT)
        return htc_sim_event(c->node, a.until > now + tick ? a.until - now : tick, JOBS_EXACT_LOOK, HTC_OK, (htc_bytes){ 0 });
    c->x->m.now.services++;
    if (a.kind == HTC_BALANCE_PUBLISH)
        return htc__jobs_exact_write(c, c->number, "census", a.body, JOBS_EXACT_LOOK);
    htc__jobs_exact_key(key, "partition", a.partition);
    return htc__jobs_exact_read(c, a.partition, key, JOBS_EXACT_LOOK);
}

static htc_status meet(jobs_exact_caller *c)
{
    htc_status status = HTC_OK;
    c->x->met++;
    for (uint32_t p = 0; p < c->x->callers && status == HTC_OK; p++)
        status = htc__jobs_exact_read(c, p, "census", JOBS_EXACT_MEET);
    return status;
}

static htc_status happened(jobs_exact_caller *c, uint32_t event)
{
    return event == JOBS_EXACT_MEET ? meet(c) : step(c, NULL);
}

/* Of a write nothing but that it is done. */
static htc_status answered(jobs_exact_caller *c, const htc_kv_result *r)
{
    htc_balance_answer answer = HTC_BALANCE_ANSWER_INIT;
    if (r->tag == JOBS_EXACT_MEET)
        return HTC_OK;
    htc_status status = r->status == HTC_OK && r->op == HTC_KV_GET ? htc__jobs_exact_free_in(c->x, r->value, &answer.free) : r->status;
    return status == HTC_OK ? step(c, r->op == HTC_KV_GET ? &answer : NULL) : htc__twin_refuse(&c->x->t, status, "the monitor cannot go on: %s", htc_strerror(status));
}

htc_status htc__jobs_exact_monitor_open(jobs_exact_caller *c)
{
    c->happened = happened;
    c->answered = answered;
    return htc_balance_monitor_create(&c->x->t.memory.env, c->x->m.parts, c->x->m.options.monitor_ns, &c->x->m.monitor);
}
