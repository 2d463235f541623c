/* What the agent says to the gateway and hears from it. A message that cannot be read, or is about what this agent does
 * not hold, is ignored: heartbeats put it right. */
#include <string.h>

#include "roles/agent/agent_private.h"

#define AT_REST 6 /* times as rarely an agent beats that nothing is expected of */

static void say(htc_agent *a)
{
    if (a->buf.status != HTC_OK) {
        a->holder.failed = a->holder.failed != HTC_OK ? a->holder.failed : a->buf.status;
        return;
    }
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = a->peer, .body = htc_buf_bytes(&a->buf) });
}

static void list_held(const htc_agent *a, htc_held_list *list)
{
    list->count = a->count;
    for (uint32_t i = 0; i < a->count; i++)
        list->held[i] = (htc_held){ a->held[i]->attempt.id, htc__attempt_told(&a->held[i]->attempt) };
}

void htc__agent_say_hello(htc_agent *a)
{
    htc_agent_hello *m = &a->m.hello;
    *m = (htc_agent_hello){ .agent = a->id,
                            .slots = a->slots,
                            .memory = a->memory,
                            .cores = a->cores,
                            .seq = a->beat_seq,
                            .last_grant = a->last_grant };
    memcpy(m->node, a->holder.node, sizeof m->node);
    list_held(a, &m->held);
    htc_agent_hello_write(&a->buf, m);
    say(a);
    a->hello_at = a->holder.now + htc__attempt_backoff(&a->holder, &a->hello_tries);
}

void htc__agent_say_heartbeat(htc_agent *a)
{
    htc_heartbeat *m = &a->m.beat;
    a->beat_gap = a->reconciling ? a->holder.retry_ns : htc__agent_rests(a) ? AT_REST * a->heartbeat_ns : a->heartbeat_ns;
    *m = (htc_heartbeat){ .agent = a->id, .seq = ++a->beat_seq, .last_grant = a->last_grant, .next = a->beat_gap };
    list_held(a, &m->held);
    htc_heartbeat_write(&a->buf, m);
    say(a);
    a->beat_at = a->holder.now + a->beat_gap;
    if (a->asked_at <= a->heard_at)
        a->asked_at = a->holder.now;
    if (a->reconciling == UINT64_MAX)
        a->reconciling = a->beat_seq;
}

void htc__agent_say_pull(htc_agent *a)
{
    htc_pull m = {
        .agent = a->id, .seq = a->pull_seq, .want = HTC_AGENT_HELD_MAX - a->count, .last_grant = a->last_grant
    };
    htc_pull_write(&a->buf, &m);
    say(a);
    a->pull_at = a->holder.now + htc__attempt_backoff(&a->holder, &a->pull_tries);
}

void htc__agent_say_started(htc_agent *a, const attempt *t)
{
    htc_started m = { a->id, t->id };
    htc_started_write(&a->buf, &m);
    say(a);
}

void htc__agent_say_slots_held(htc_agent *a)
{
    htc_slots_held_write(&a->buf, &(htc_slots_held){ .agent = a->id, .seq = a->slots_seq, .slots = a->occupied });
    say(a);
}

void htc__agent_say_bye(htc_agent *a, htc_status status, const char *reason)
{
    htc_bye m = { .agent = a->id, .status = status };
    size_t  n = strlen(reason);
    memcpy(m.reason, reason, n < sizeof m.reason ? n : sizeof m.reason - 1);
    htc_bye_write(&a->buf, &m);
    say(a);
}

void htc__agent_say_result(htc_agent *a, agent_held *t)
{
    htc_task_result m = { a->id, t->attempt.id, t->attempt.outcome };
    htc_task_result_write(&a->buf, &m);
    say(a);
    t->reported = 1;
    t->say_at = a->holder.now + htc__attempt_backoff(&a->holder, &t->tries);
}

void htc__agent_say_content_want(htc_agent *a, const agent_held *t, htc_bytes hashes)
{
    htc_content_want_write(&a->buf, &(htc_content_want){ .agent = a->id, .attempt = t->attempt.id, .spoilt = t->spoilt, .hashes = hashes });
    say(a);
}

void htc__agent_say_outputs(htc_agent *a)
{
    htc_agent_outputs m = { .agent = a->id, .status = a->outputs.status };
    memcpy(m.text, a->outputs.text, sizeof m.text);
    htc_agent_outputs_write(&a->buf, &m);
    say(a);
}

void htc__agent_say_give_back(htc_agent *a)
{
    htc_give_back *m = &a->m.back;
    *m = (htc_give_back){ .agent = a->id };
    for (uint32_t i = 0; i < a->count; i++) {
        agent_held *t = a->held[i];
        if (t->attempt.phase != ATTEMPT_RETURNED || a->holder.now < t->say_at)
            continue;
        m->attempts[m->count++] = t->attempt.id;
        t->say_at = a->holder.now + htc__attempt_backoff(&a->holder, &t->tries);
    }
    if (m->count == 0)
        return;
    htc_give_back_write(&a->buf, m);
    say(a);
}

/* All that waits for an answer is said again at once: what was said before the connection broke may be lost. */
static void repeat_all(htc_agent *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        a->held[i]->content_at = a->holder.now;
        if (htc__attempt_is_over(&a->held[i]->attempt)) {
            a->held[i]->tries = 0;
            a->held[i]->say_at = a->holder.now;
        }
    }
    htc__agent_gang_repeat(a);
    a->pull_at = a->beat_at = a->holder.now;
    a->pull_tries = 0;
}

/* The gateway has written this agent off. What it has reported may be committed, so its outputs stay; the rest goes. */
static void disowned(htc_agent *a)
{
    htc__log(&a->env, HTC_LOG_WARN, "the gateway does not know this agent -> drop %u task%s and leave",
             (unsigned)a->count, htc__plural(a->count));
    a->disowned = 1;
    for (uint32_t i = a->count; i > 0; i--) {
        agent_held *t = a->held[i - 1];
        if (htc__attempt_is_over(&t->attempt))
            htc__agent_remove(a, t, !t->reported);
        else
            htc__agent_order(a, t, ORDER_REVOKE);
    }
}

static void hear_welcome(htc_agent *a, htc_reader *r)
{
    htc_agent_welcome m;
    if (htc_agent_welcome_read(r, &m) != HTC_OK || a->disowned)
        return;
    if (m.status != HTC_OK) {
        disowned(a);
        return;
    }
    if (m.heartbeat_ns)
        a->heartbeat_ns = m.heartbeat_ns;
    if (m.lost_after_ns)
        a->lost_after_ns = m.lost_after_ns;
    if (m.store[0] && !a->store[0] && a->address[0])
        memcpy(a->store, m.store, sizeof a->store);
    if (a->registered)
        return; /* the answer to a hello that was repeated */
    a->registered = 1;
    htc__agent_outputs_welcome(a, &m);
    repeat_all(a);
}

static void hear_heartbeat_answer(htc_agent *a, htc_reader *r)
{
    htc_heartbeat_answer *m = &a->m.answer;
    if (htc_heartbeat_answer_read(r, m) != HTC_OK || m->seq <= a->beat_answered || m->seq > a->beat_seq)
        return;
    a->beat_answered = m->seq;
    if (a->reconciling && m->seq >= a->reconciling) {
        a->reconciling = 0;
        a->beat_at = a->holder.now + a->heartbeat_ns;
    }
    for (uint32_t i = 0; i < m->revoked; i++) {
        agent_held *t = htc__agent_find(a, &m->revoke[i]);
        if (t)
            htc__agent_order(a, t, ORDER_REVOKE);
    }
    for (uint32_t i = 0; i < m->cancelled; i++) {
        agent_held *t = htc__agent_find(a, &m->cancel[i]);
        if (t)
            htc__agent_order(a, t, ORDER_CANCEL);
    }
    uint32_t flags = m->flags;
    htc__agent_drain(a, (flags & HTC_AGENT_DRAIN) != 0);
    if (flags & HTC_AGENT_STOP)
        htc__agent_stop(a);
}

static void hear_tasks(htc_agent *a, const htc_grant *m)
{
    if (m->grant <= a->last_grant)
        return;
    a->last_grant = m->grant;
    a->exit = 0;
    a->batch = m->count;
    for (uint32_t i = 0; i < m->count; i++)
        htc__agent_take(a, &m->tasks[i]);
}

static void hear_grant(htc_agent *a, htc_reader *r)
{
    htc_grant *m = &a->m.grant;
    if (htc_grant_read(r, m) != HTC_OK)
        return;
    int answer = a->pulling && m->seq == a->pull_seq;
    if (m->kind == HTC_GRANT_TASKS)
        hear_tasks(a, m);
    if (!answer)
        return;
    a->pulling = 0;
    a->wait_until = 0;
    a->waits_busy = a->count > 0;
    if (m->kind == HTC_GRANT_WAIT && !a->nudged)
        a->wait_until = m->retry_ns > HTC_NEVER - a->holder.now ? HTC_NEVER : a->holder.now + m->retry_ns;
    if (m->kind == HTC_GRANT_EXIT && !a->nudged)
        a->exit = 1;
    a->nudged = 0;
}

static void hear_nudge(htc_agent *a)
{
    a->nudged = a->pulling;
    a->wait_until = 0;
    a->exit = 0;
}

static void hear_cancel(htc_agent *a, htc_reader *r)
{
    htc_attempt id;
    if (htc_cancel_read(r, &id) != HTC_OK)
        return;
    agent_held *t = htc__agent_find(a, &id);
    if (t)
        htc__agent_order(a, t, ORDER_CANCEL);
}

static void hear_revoke(htc_agent *a, htc_reader *r)
{
    htc_attempt id;
    agent_held *t = htc_revoke_read(r, &id) == HTC_OK ? htc__agent_find(a, &id) : NULL;
    if (t)
        htc__agent_order(a, t, ORDER_REVOKE);
}

static void hear_verdict(htc_agent *a, htc_reader *r)
{
    htc_task_verdict m;
    if (htc_task_verdict_read(r, &m) == HTC_OK)
        htc__agent_verdict(a, &m);
}

static void hear_drain(htc_agent *a, htc_reader *r)
{
    int on;
    if (htc_drain_read(r, &on) == HTC_OK)
        htc__agent_drain(a, on);
}

static void hear_slots(htc_agent *a, htc_reader *r)
{
    htc_slots m;
    if (htc_slots_read(r, &m) == HTC_OK)
        htc__agent_set_slots(a, &m);
}

/* What the connection speaks. */
static void hear_wire_welcome(htc_agent *a, htc_reader *r)
{
    uint16_t version;
    if (htc_wire_read_welcome(r, HTC_WIRE_VERSION, &version) == HTC_OK)
        a->gateway_speaks = version;
}

static void hear_error(htc_agent *a, htc_reader *r)
{
    char       text[320];
    htc_status status = (htc_status)(int32_t)htc_get_u32(r);
    htc_get_str(r, text, sizeof text);
    if (htc_reader_done(r) == HTC_OK)
        htc__log_with(&a->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                      "the gateway says %s: %s -> try again later", htc_status_name(status), text);
}

void htc__agent_heard(htc_agent *a, htc_bytes body)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(body, &type, &id);
    if (r.status != HTC_OK)
        return;
    a->heard_at = a->holder.now;
    switch (type) {
    case HTC_WIRE_ERROR:
        hear_error(a, &r);
        break;
    case HTC_WIRE_WELCOME:
        hear_wire_welcome(a, &r);
        break;
    case HTC_WIRE_AGENT_WELCOME:
        hear_welcome(a, &r);
        break;
    case HTC_WIRE_HEARTBEAT_ANSWER:
        hear_heartbeat_answer(a, &r);
        break;
    case HTC_WIRE_GRANT:
        hear_grant(a, &r);
        break;
    case HTC_WIRE_TASK_VERDICT:
        hear_verdict(a, &r);
        break;
    case HTC_WIRE_DRAIN:
        hear_drain(a, &r);
        break;
    case HTC_WIRE_CANCEL:
        hear_cancel(a, &r);
        break;
    case HTC_WIRE_REVOKE:
        hear_revoke(a, &r);
        break;
    case HTC_WIRE_STOP:
        htc__agent_stop(a);
        break;
    case HTC_WIRE_NUDGE:
        hear_nudge(a);
        break;
    case HTC_WIRE_SLOTS:
        hear_slots(a, &r);
        break;
    case HTC_WIRE_CONTENT_HERE:
        if (htc_content_here_read(&r, &a->m.here) == HTC_OK)
            htc__agent_content_heard(a, &a->m.here);
        break;
    case HTC_WIRE_GANG_WORD:
        if (htc_gang_word_read(&r, &a->m.word) == HTC_OK)
            htc__agent_gang_heard(a, &a->m.word);
        break;
    default:
        break; /* what is not for an agent */
    }
}
