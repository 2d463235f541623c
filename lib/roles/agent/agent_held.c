/* The attempts that the agent holds: taken from grants, begun when a slot is free, and told to the gateway until it has
 * answered. What becomes of each is decided in roles/attempt. */
#include <string.h>

#include "roles/agent/agent_private.h"

#define SHORT (20 * HTC_MS)     /* a task */
#define TOLD_TOGETHER 48
#define TOLD_AFTER (10 * HTC_MS)
#define WAITS_SPAN (2 * HTC_SECOND) /* tasks no longer than this: one more waits here */

static agent_held *held_of(attempt *t)
{
    return (agent_held *)(void *)t;
}

static htc_agent *agent_of(attempt_holder *h)
{
    return (htc_agent *)(void *)h;
}

static uint32_t count_of(const htc_agent *a, int (*is)(const attempt *t))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += is(&a->held[i]->attempt) != 0;
    return n;
}

static uint32_t slots_of(const htc_agent *a, int (*is)(const attempt *t))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += is(&a->held[i]->attempt) ? a->held[i]->attempt.cores : 0;
    return n;
}

uint32_t htc__agent_active(const htc_agent *a)
{
    return slots_of(a, htc__attempt_wants_slot);
}

uint32_t htc__agent_filled(const htc_agent *a)
{
    return slots_of(a, htc__attempt_has_slot);
}

uint32_t htc__agent_begun(const htc_agent *a)
{
    return count_of(a, htc__attempt_has_begun);
}

agent_held *htc__agent_find(htc_agent *a, const htc_attempt *id)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (htc__attempt_is(&a->held[i]->attempt, id))
            return a->held[i];
    return NULL;
}

static attempt *find_run(htc_agent *a, uint64_t run)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->attempt.run == run)
            return &a->held[i]->attempt;
    return NULL;
}

void htc__agent_free_all(htc_agent *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        htc__agent_gang_forget(a, a->held[i]);
        htc__attempt_free(&a->holder, &a->held[i]->attempt, 0);
        htc__free(&a->env, a->held[i], sizeof *a->held[i]);
    }
    a->count = 0;
}

void htc__agent_remove(htc_agent *a, agent_held *t, int drop)
{
    uint32_t i = 0;
    htc__agent_gang_forget(a, t);
    htc__attempt_free(&a->holder, &t->attempt, drop && !t->member); /* what is stored under the attempt is the leader's */
    while (a->held[i] != t)
        i++;
    memmove(&a->held[i], &a->held[i + 1], (--a->count - i) * sizeof *a->held);
    htc__free(&a->env, t, sizeof *t);
    if (htc__agent_begun(a) == 0)
        a->idle_at = a->holder.now;
    if (a->count == 0 && a->waits_busy)
        a->wait_until = 0; /* what it held may be what the gateway waited for */
}

/* ---- how an attempt ends ---- */

/* Results of short tasks are told together: each costs the gateway's store a write that others can share. The last ones, and
 * those of long tasks, are told at once. */
static htc_ns tell_at(const htc_agent *a, const attempt *ended)
{
    uint32_t untold = 0, begun = 0;
    htc_ns   at = a->holder.now + TOLD_AFTER;
    for (uint32_t i = 0; i < a->count; i++) {
        const agent_held *t = a->held[i];
        begun += htc__attempt_wants_slot(&t->attempt) != 0;
        if (t->attempt.phase != ATTEMPT_ENDED || t->reported || &t->attempt == ended)
            continue;
        untold++;
        at = t->say_at < at ? t->say_at : at;
    }
    return a->span && a->span < SHORT && begun > 0 && untold < TOLD_TOGETHER ? at : a->holder.now;
}

static void ended(attempt_holder *h, attempt *t)
{
    htc_agent *a = agent_of(h);
    a->span = htc__attempt_lately(a->span, &t->outcome);
    htc_ns at = tell_at(a, t);
    held_of(t)->tries = 0;
    held_of(t)->say_at = at;
    for (uint32_t i = 0; at == h->now && i < a->count; i++) /* with it those that wait to be told */
        if (a->held[i]->attempt.phase == ATTEMPT_ENDED && !a->held[i]->reported)
            a->held[i]->say_at = at;
}

static void returned(attempt_holder *h, attempt *t)
{
    agent_of(h)->span = WAITS_SPAN + 1; /* what runs is longer than was thought, or all ends: nothing more is taken ahead */
    held_of(t)->tries = 0;
    held_of(t)->say_at = h->now; /* said when the step ends, all at once */
}

/* The gateway waits for the end of what it has revoked, for another task may need its devices: it is told at once. */
static void dropped(attempt_holder *h, attempt *t)
{
    htc__agent_remove(agent_of(h), held_of(t), 1);
    agent_of(h)->beat_at = h->now;
}

static void node_failed(attempt_holder *h, htc_status status, const char *reason)
{
    htc__agent_leave(agent_of(h), status, reason);
}

const attempt_holder_ops htc__agent_holder = { ended, returned, dropped, node_failed, htc__agent_carries_out };

/* ---- grants, orders, answers ---- */

void htc__agent_order(htc_agent *a, agent_held *t, attempt_order order)
{
    int waits = t->content; /* then it is still there, whatever the order */
    htc__attempt_order(&a->holder, &t->attempt, order);
    if (waits && t->attempt.order != ORDER_NONE)
        htc__agent_content_give_up(a, t);
}

void htc__agent_order_all(htc_agent *a, attempt_order order)
{
    for (uint32_t i = a->count; i > 0; i--)
        htc__agent_order(a, a->held[i - 1], order);
}

void htc__agent_take(htc_agent *a, const htc_granted *granted)
{
    if (htc__agent_find(a, &granted->attempt) || a->count == HTC_AGENT_HELD_MAX)
        return;
    agent_held *t = htc__alloc(&a->env, sizeof *t);
    if (!t || htc__attempt_init(&a->holder, &t->attempt, granted, a->last_run + 1) != HTC_OK) {
        htc__free(&a->env, t, sizeof *t);
        a->holder.failed = HTC_ENOMEM;
        return;
    }
    a->last_run++;
    t->say_at = HTC_NEVER;
    a->held[a->count++] = t;
    htc__attempt_read(&a->holder, &t->attempt);
    if (t->attempt.phase == ATTEMPT_WAITING)
        (void)htc__agent_is_seat(a, t);
    /* One that is too wide was granted before SLOTS, and came after it. */
    if (t->attempt.phase == ATTEMPT_WAITING && (htc__agent_ending(a) || (t->attempt.cores > 1 && t->attempt.cores > a->slots)))
        htc__agent_order(a, t, ORDER_DRAIN);
}

uint32_t htc__agent_ahead(const htc_agent *a)
{
    if (!a->span || a->span > WAITS_SPAN || htc__agent_has_seat(a))
        return 0;
    return a->batch / 2 > a->slots ? a->batch / 2 : a->slots;
}

/* One that takes several slots waits for them, and none passes it. */
void htc__agent_start_waiting(htc_agent *a)
{
    uint32_t begun = htc__agent_filled(a), most = htc__attempt_most(a->span, a->slots);
    for (uint32_t i = 0; i < a->count && begun < most; i++) {
        attempt *t = &a->held[i]->attempt;
        if (t->phase != ATTEMPT_WAITING)
            continue;
        if (t->cores > 1 && begun + t->cores > a->slots)
            return;
        htc__attempt_begin(&a->holder, t, begun >= a->slots);
        begun += t->cores;
    }
}

void htc__agent_return_excess(htc_agent *a)
{
    uint32_t active = htc__agent_active(a);
    for (uint32_t i = a->count; i > 0; i--) {
        attempt *t = &a->held[i - 1]->attempt;
        uint32_t cores = htc__attempt_wants_slot(t) ? t->cores : 0;
        if (cores == 0 || (active <= a->slots && cores <= a->slots))
            continue;
        htc__agent_order(a, a->held[i - 1], ORDER_DRAIN); /* nothing, where it has begun */
        active -= htc__attempt_wants_slot(t) ? 0 : cores;
    }
}

void htc__agent_result(htc_agent *a, const htc_input *in)
{
    attempt *t = htc__agent_outputs_result(a, in) || htc__agent_gang_result(a, in) ? NULL : find_run(a, in->tag);
    if (t && !(in->op == HTC_CALL_STAGE_IN && htc__agent_content_ask(a, held_of(t), in->status)))
        htc__attempt_result(&a->holder, t, in);
}

static void shut_down(htc_agent *a, htc_status status)
{
    htc__log(&a->env, HTC_LOG_INFO, "asked to end %s -> give tasks back", status == HTC_OK ? "gently" : "now");
    a->finishing = 1;
    if (status == HTC_OK)
        htc__agent_order_all(a, ORDER_DRAIN);
    else
        htc__agent_stop(a);
}

void htc__agent_event(htc_agent *a, const htc_input *in)
{
    if (in->op == HTC_EVENT_SHUTDOWN) {
        shut_down(a, in->status);
        return;
    }
    if (htc__agent_gang_event(a, in))
        return;
    htc_reader r = htc_reader_of(in->body);
    attempt   *t = find_run(a, htc_get_u64(&r));
    if (!t || htc_reader_done(&r) != HTC_OK)
        return;
    if (in->op == HTC_EVENT_STARTED && htc__attempt_started(&a->holder, t) && a->registered)
        htc__agent_say_started(a, t);
    else if (in->op == HTC_EVENT_TASK_STOPPED)
        htc__attempt_stopped(&a->holder, t, in->status == HTC_ETIMEDOUT);
}

void htc__agent_verdict(htc_agent *a, const htc_task_verdict *verdict)
{
    agent_held *t = htc__agent_find(a, &verdict->attempt);
    if (t && t->attempt.phase == ATTEMPT_ENDED)
        htc__agent_remove(a, t, verdict->status != HTC_OK);
    else if (t && t->attempt.phase == ATTEMPT_RETURNED)
        htc__agent_remove(a, t, 1);
}

void htc__agent_timers(htc_agent *a)
{
    htc__agent_content_repeat(a);
    for (uint32_t i = a->count; i > 0; i--) {
        agent_held *t = a->held[i - 1];
        htc__attempt_timer(&a->holder, &t->attempt);
        if (t->attempt.phase == ATTEMPT_ENDED && a->registered && a->holder.now >= t->say_at)
            htc__agent_say_result(a, t);
    }
}

htc_ns htc__agent_tasks_deadline(const htc_agent *a)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < a->count; i++) {
        const agent_held *t = a->held[i];
        htc_ns            own = htc__attempt_deadline(&t->attempt);
        if (own < at)
            at = own;
        if (t->content && a->registered && t->content_at < at)
            at = t->content_at;
        if (htc__attempt_is_over(&t->attempt) && a->registered && t->say_at < at)
            at = t->say_at;
    }
    return at;
}
