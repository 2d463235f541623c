/* Writers and readers of what gateway and agent say to each other. Every reader is given bytes from a stranger: counts
 * are checked against what is there and against the list that takes them, enumerations against their values. */
#include "roles/runtime/agent_wire.h"

#include <string.h>

#include "core/util.h"
#include "htcsched/calls.h"

#define ATTEMPT_BYTES_MIN 3 /* three varints */
#define WITH_SIGNAL 0x80u   /* beside the compatible environment of a granted task */

void htc_write_attempt(htc_buf *b, const htc_attempt *a)
{
    htc_put_varint(b, a->job);
    htc_put_varint(b, a->task);
    htc_put_varint(b, a->attempt);
}

static uint32_t get_varint32(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v > UINT32_MAX) {
        htc_reader_fail(r);
        return 0;
    }
    return (uint32_t)v;
}

void htc_read_attempt(htc_reader *r, htc_attempt *a)
{
    a->job = htc_get_varint(r);
    a->task = htc_get_varint(r);
    a->attempt = get_varint32(r);
}

/* A count that must fit a list of max places. A reader that failed answers 0, so that loops end. */
static uint32_t get_count(htc_reader *r, size_t min_size, uint32_t max)
{
    size_t n = htc_get_count(r, min_size);
    if (n > max) {
        htc_reader_fail(r);
        return 0;
    }
    return (uint32_t)n;
}

/* A list longer than its places is a bug of the writer; the sticky error tells it. */
static uint32_t put_count(htc_buf *b, uint32_t n, uint32_t max)
{
    if (n > max) {
        if (b->status == HTC_OK)
            b->status = HTC_EFULL;
        return 0;
    }
    htc_put_varint(b, n);
    return n;
}

static htc_status get_status(htc_reader *r)
{
    return (htc_status)(int32_t)htc_get_u32(r);
}

static void put_status(htc_buf *b, htc_status status)
{
    htc_put_u32(b, (uint32_t)status);
}

static void put_attempts(htc_buf *b, const htc_attempt *list, uint32_t count)
{
    count = put_count(b, count, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < count; i++)
        htc_write_attempt(b, &list[i]);
}

static uint32_t get_attempts(htc_reader *r, htc_attempt *list)
{
    uint32_t count = get_count(r, ATTEMPT_BYTES_MIN, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < count; i++)
        htc_read_attempt(r, &list[i]);
    return count;
}

static void put_held(htc_buf *b, const htc_held_list *list)
{
    uint32_t count = put_count(b, list->count, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        htc_write_attempt(b, &list->held[i].attempt);
        htc_put_u8(b, list->held[i].state);
    }
}

static void get_held(htc_reader *r, htc_held_list *list)
{
    list->count = get_count(r, ATTEMPT_BYTES_MIN + 1, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        htc_held *h = &list->held[i];
        htc_read_attempt(r, &h->attempt);
        h->state = htc_get_u8(r);
        if (h->state < HTC_HELD_WAITING || h->state > HTC_HELD_REPORTING)
            htc_reader_fail(r);
    }
}

void htc_agent_hello_write(htc_buf *b, const htc_agent_hello *m)
{
    htc_wire_begin(b, HTC_WIRE_AGENT_HELLO, 0);
    htc_put_u64(b, m->agent);
    htc_put_str(b, m->node);
    htc_put_u32(b, m->slots);
    htc_put_u64(b, m->memory);
    htc_put_u32(b, m->cores);
    htc_put_u64(b, m->seq);
    htc_put_u64(b, m->last_grant);
    put_held(b, &m->held);
}

htc_status htc_agent_hello_read(htc_reader *r, htc_agent_hello *m)
{
    m->agent = htc_get_u64(r);
    htc_get_str(r, m->node, sizeof m->node);
    htc__text_clean(m->node);
    m->slots = htc_get_u32(r);
    m->memory = htc_get_u64(r);
    m->cores = htc_get_u32(r);
    m->seq = htc_get_u64(r);
    m->last_grant = htc_get_u64(r);
    get_held(r, &m->held);
    return htc_reader_done(r);
}

void htc_agent_welcome_write(htc_buf *b, const htc_agent_welcome *m)
{
    htc_wire_begin(b, HTC_WIRE_AGENT_WELCOME, 0);
    put_status(b, m->status);
    htc_put_u64(b, m->heartbeat_ns);
    htc_put_u64(b, m->lost_after_ns);
    if (m->store[0] || m->outputs[0]) /* the agents of the gateway's machine may be older */
        htc_put_str(b, m->store);
    if (m->outputs[0]) {
        htc_put_str(b, m->outputs);
        htc_put_str(b, m->outputs_id);
    }
}

htc_status htc_agent_welcome_read(htc_reader *r, htc_agent_welcome *m)
{
    m->status = get_status(r);
    m->heartbeat_ns = htc_get_u64(r);
    m->lost_after_ns = htc_get_u64(r);
    m->store[0] = m->outputs[0] = m->outputs_id[0] = '\0';
    if (htc_reader_left(r))
        htc_get_str(r, m->store, sizeof m->store);
    if (htc_reader_left(r)) {
        htc_get_str(r, m->outputs, sizeof m->outputs);
        htc_get_str(r, m->outputs_id, sizeof m->outputs_id);
        if (r->status == HTC_OK && m->outputs[0] != '/')
            htc_reader_fail(r);
    }
    return htc_reader_done(r);
}

void htc_agent_outputs_write(htc_buf *b, const htc_agent_outputs *m)
{
    htc_wire_begin(b, HTC_WIRE_AGENT_OUTPUTS, 0);
    htc_put_u64(b, m->agent);
    put_status(b, m->status);
    htc_put_str(b, m->text);
}

htc_status htc_agent_outputs_read(htc_reader *r, htc_agent_outputs *m)
{
    m->agent = htc_get_u64(r);
    m->status = get_status(r);
    htc_get_str(r, m->text, sizeof m->text);
    htc__text_clean(m->text);
    if (m->status > 0)
        htc_reader_fail(r);
    return htc_reader_done(r);
}

void htc_heartbeat_write(htc_buf *b, const htc_heartbeat *m)
{
    htc_wire_begin(b, HTC_WIRE_HEARTBEAT, 0);
    htc_put_u64(b, m->agent);
    htc_put_u64(b, m->seq);
    htc_put_u64(b, m->last_grant);
    htc_put_u64(b, m->next);
    put_held(b, &m->held);
}

htc_status htc_heartbeat_read(htc_reader *r, htc_heartbeat *m)
{
    m->agent = htc_get_u64(r);
    m->seq = htc_get_u64(r);
    m->last_grant = htc_get_u64(r);
    m->next = htc_get_u64(r);
    get_held(r, &m->held);
    return htc_reader_done(r);
}

void htc_heartbeat_answer_write(htc_buf *b, const htc_heartbeat_answer *m)
{
    htc_wire_begin(b, HTC_WIRE_HEARTBEAT_ANSWER, 0);
    htc_put_u64(b, m->seq);
    htc_put_u32(b, m->flags);
    put_attempts(b, m->revoke, m->revoked);
    put_attempts(b, m->cancel, m->cancelled);
}

htc_status htc_heartbeat_answer_read(htc_reader *r, htc_heartbeat_answer *m)
{
    m->seq = htc_get_u64(r);
    m->flags = htc_get_u32(r);
    m->revoked = get_attempts(r, m->revoke);
    m->cancelled = get_attempts(r, m->cancel);
    return htc_reader_done(r);
}

void htc_pull_write(htc_buf *b, const htc_pull *m)
{
    htc_wire_begin(b, HTC_WIRE_PULL, 0);
    htc_put_u64(b, m->agent);
    htc_put_u64(b, m->seq);
    htc_put_u32(b, m->want);
    htc_put_u64(b, m->last_grant);
}

htc_status htc_pull_read(htc_reader *r, htc_pull *m)
{
    m->agent = htc_get_u64(r);
    m->seq = htc_get_u64(r);
    m->want = htc_get_u32(r);
    m->last_grant = htc_get_u64(r);
    return htc_reader_done(r);
}

void htc_grant_write(htc_buf *b, const htc_grant *m)
{
    htc_wire_begin(b, HTC_WIRE_GRANT, 0);
    htc_put_u64(b, m->seq);
    htc_put_u64(b, m->grant);
    htc_put_u8(b, (uint8_t)m->kind);
    htc_put_u64(b, m->retry_ns);
    uint32_t count = put_count(b, m->count, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const htc_granted *t = &m->tasks[i];
        htc_write_attempt(b, &t->attempt);
        htc_put_varint(b, t->count);
        htc_put_str(b, t->user);
        htc_put_u8(b, (uint8_t)(t->compat | (t->signal ? WITH_SIGNAL : 0)));
        if (t->signal) {
            htc_put_u8(b, (uint8_t)t->signal);
            htc_put_varint(b, t->signal_s);
        }
        htc_put_bytes(b, t->task);
    }
}

htc_status htc_grant_read(htc_reader *r, htc_grant *m)
{
    m->seq = htc_get_u64(r);
    m->grant = htc_get_u64(r);
    m->kind = htc_get_u8(r);
    m->retry_ns = htc_get_u64(r);
    m->count = get_count(r, ATTEMPT_BYTES_MIN + 4, HTC_AGENT_HELD_MAX);
    for (uint32_t i = 0; i < m->count; i++) {
        htc_granted *t = &m->tasks[i];
        htc_read_attempt(r, &t->attempt);
        t->count = htc_get_varint(r);
        htc_get_str(r, t->user, sizeof t->user);
        uint8_t compat = htc_get_u8(r);
        t->compat = compat & (WITH_SIGNAL - 1);
        t->signal = compat & WITH_SIGNAL ? htc_get_u8(r) : 0;
        t->signal_s = compat & WITH_SIGNAL ? get_varint32(r) : 0;
        t->task = htc_get_bytes(r);
        if (t->compat > HTC_COMPAT_SGE || ((compat & WITH_SIGNAL) && (t->signal == 0 || t->signal > 64 || t->signal_s == 0 || t->signal_s > UINT16_MAX)))
            htc_reader_fail(r);
    }
    /* Only a grant of tasks has a number and tasks. */
    if (m->kind < HTC_GRANT_TASKS || m->kind > HTC_GRANT_EXIT || (m->kind == HTC_GRANT_TASKS) != (m->grant != 0) ||
        (m->kind != HTC_GRANT_TASKS && m->count != 0))
        htc_reader_fail(r);
    return htc_reader_done(r);
}

void htc_started_write(htc_buf *b, const htc_started *m)
{
    htc_wire_begin(b, HTC_WIRE_STARTED, 0);
    htc_put_u64(b, m->agent);
    htc_write_attempt(b, &m->attempt);
}

htc_status htc_started_read(htc_reader *r, htc_started *m)
{
    m->agent = htc_get_u64(r);
    htc_read_attempt(r, &m->attempt);
    return htc_reader_done(r);
}

void htc_content_want_write(htc_buf *b, const htc_content_want *m)
{
    htc_wire_begin(b, HTC_WIRE_CONTENT_WANT, 0);
    htc_put_u64(b, m->agent);
    htc_write_attempt(b, &m->attempt);
    htc_put_u8(b, m->spoilt);
    htc_put_bytes(b, m->hashes);
}

htc_status htc_content_want_read(htc_reader *r, htc_content_want *m)
{
    m->agent = htc_get_u64(r);
    htc_read_attempt(r, &m->attempt);
    m->spoilt = htc_get_u8(r);
    m->hashes = htc_get_bytes(r);
    if (m->spoilt > 1 || m->hashes.len == 0 || m->hashes.len % 32 || m->hashes.len / 32 > HTC_CONTENT_WANT_MAX)
        htc_reader_fail(r);
    return htc_reader_done(r);
}

void htc_content_here_write(htc_buf *b, const htc_content_here *m)
{
    htc_wire_begin(b, HTC_WIRE_CONTENT_HERE, 0);
    htc_write_attempt(b, &m->attempt);
    htc_put_u32(b, (uint32_t)m->status);
    htc_put_str(b, m->text);
}

htc_status htc_content_here_read(htc_reader *r, htc_content_here *m)
{
    htc_read_attempt(r, &m->attempt);
    m->status = (htc_status)(int32_t)htc_get_u32(r);
    htc_get_str(r, m->text, sizeof m->text);
    htc__text_clean(m->text);
    return htc_reader_done(r);
}

static void put_outputs(htc_buf *b, const htc_outputs *o)
{
    htc_put_varint(b, o->files);
    htc_put_varint(b, o->dirs);
    htc_put_varint(b, o->links);
    htc_put_varint(b, o->errors);
    htc_put_varint(b, o->bytes);
    htc_put_varint(b, o->manifest_bytes);
    if (o->manifest_bytes)
        htc_put_raw(b, (htc_bytes){ o->manifest, sizeof o->manifest });
}

static void get_outputs(htc_reader *r, htc_outputs *o)
{
    memset(o, 0, sizeof *o);
    o->files = htc_get_varint(r);
    o->dirs = htc_get_varint(r);
    o->links = htc_get_varint(r);
    o->errors = htc_get_varint(r);
    o->bytes = htc_get_varint(r);
    o->manifest_bytes = htc_get_varint(r);
    if (r->status != HTC_OK || !o->manifest_bytes)
        return;
    htc_bytes hash = htc_get_raw(r, sizeof o->manifest);
    if (r->status == HTC_OK)
        memcpy(o->manifest, hash.data, sizeof o->manifest);
}

static uint8_t get_flag(htc_reader *r)
{
    uint8_t v = htc_get_u8(r);
    if (v > 1)
        htc_reader_fail(r);
    return v == 1;
}

void htc_stored_write(htc_buf *b, const htc_stored *s)
{
    put_status(b, s->status);
    htc_put_u8(b, s->final);
    htc_put_str(b, s->reason);
    put_outputs(b, &s->outputs);
}

htc_status htc_stored_read(htc_reader *r, htc_stored *s)
{
    s->status = get_status(r);
    s->final = get_flag(r);
    htc_get_str(r, s->reason, sizeof s->reason);
    htc__text_clean(s->reason);
    get_outputs(r, &s->outputs);
    return htc_reader_done(r);
}

void htc_outcome_write(htc_buf *b, const htc_outcome *o)
{
    htc_bytes tail = o->stderr_tail;
    if (tail.len > HTC_STDERR_TAIL_MAX && b->status == HTC_OK)
        b->status = HTC_EFULL;
    put_status(b, o->status);
    htc_put_u32(b, (uint32_t)o->exit_code);
    htc_put_u32(b, o->signal);
    htc_put_u64(b, o->cpu_ns);
    htc_put_u64(b, o->memory_peak);
    htc_put_u64(b, o->started);
    htc_put_u64(b, o->ended);
    htc_put_str(b, o->node);
    htc_put_str(b, o->reason);
    htc_put_bytes(b, tail);
    htc_put_u8(b, o->final);
    put_outputs(b, &o->outputs);
}

htc_status htc_outcome_read(htc_reader *r, htc_outcome *o)
{
    memset(o, 0, sizeof *o);
    o->status = get_status(r);
    o->exit_code = (int32_t)htc_get_u32(r);
    o->signal = htc_get_u32(r);
    o->cpu_ns = htc_get_u64(r);
    o->memory_peak = htc_get_u64(r);
    o->started = htc_get_u64(r);
    o->ended = htc_get_u64(r);
    htc_get_str(r, o->node, sizeof o->node);
    htc_get_str(r, o->reason, sizeof o->reason);
    htc__text_clean(o->node);
    htc__text_clean(o->reason);
    o->stderr_tail = htc_get_bytes(r);
    if (o->stderr_tail.len > HTC_STDERR_TAIL_MAX)
        htc_reader_fail(r);
    o->final = get_flag(r);
    get_outputs(r, &o->outputs);
    return r->status == HTC_OK ? HTC_OK : HTC_EPROTO;
}

void htc_task_result_write(htc_buf *b, const htc_task_result *m)
{
    htc_wire_begin(b, HTC_WIRE_TASK_RESULT, 0);
    htc_put_u64(b, m->agent);
    htc_write_attempt(b, &m->attempt);
    htc_outcome_write(b, &m->outcome);
}

htc_status htc_task_result_read(htc_reader *r, htc_task_result *m)
{
    m->agent = htc_get_u64(r);
    htc_read_attempt(r, &m->attempt);
    htc_status status = htc_outcome_read(r, &m->outcome);
    return status == HTC_OK ? htc_reader_done(r) : status;
}

void htc_task_verdict_write(htc_buf *b, const htc_task_verdict *m)
{
    htc_wire_begin(b, HTC_WIRE_TASK_VERDICT, 0);
    htc_write_attempt(b, &m->attempt);
    put_status(b, m->status);
}

htc_status htc_task_verdict_read(htc_reader *r, htc_task_verdict *m)
{
    htc_read_attempt(r, &m->attempt);
    m->status = get_status(r);
    return htc_reader_done(r);
}

void htc_give_back_write(htc_buf *b, const htc_give_back *m)
{
    htc_wire_begin(b, HTC_WIRE_GIVE_BACK, 0);
    htc_put_u64(b, m->agent);
    put_attempts(b, m->attempts, m->count);
}

htc_status htc_give_back_read(htc_reader *r, htc_give_back *m)
{
    m->agent = htc_get_u64(r);
    m->count = get_attempts(r, m->attempts);
    return htc_reader_done(r);
}

void htc_bye_write(htc_buf *b, const htc_bye *m)
{
    htc_wire_begin(b, HTC_WIRE_BYE, 0);
    htc_put_u64(b, m->agent);
    put_status(b, m->status);
    htc_put_str(b, m->reason);
}

htc_status htc_bye_read(htc_reader *r, htc_bye *m)
{
    m->agent = htc_get_u64(r);
    m->status = get_status(r);
    htc_get_str(r, m->reason, sizeof m->reason);
    htc__text_clean(m->reason);
    return htc_reader_done(r);
}

void htc_slots_write(htc_buf *b, const htc_slots *m)
{
    htc_wire_begin(b, HTC_WIRE_SLOTS, 0);
    htc_put_u64(b, m->seq);
    htc_put_u32(b, m->slots);
}

htc_status htc_slots_read(htc_reader *r, htc_slots *m)
{
    m->seq = htc_get_u64(r);
    m->slots = htc_get_u32(r);
    if (m->seq == 0 || m->slots == 0)
        htc_reader_fail(r);
    return htc_reader_done(r);
}

void htc_slots_held_write(htc_buf *b, const htc_slots_held *m)
{
    htc_wire_begin(b, HTC_WIRE_SLOTS_HELD, 0);
    htc_put_u64(b, m->agent);
    htc_put_u64(b, m->seq);
    htc_put_u32(b, m->slots);
}

htc_status htc_slots_held_read(htc_reader *r, htc_slots_held *m)
{
    m->agent = htc_get_u64(r);
    m->seq = htc_get_u64(r);
    m->slots = htc_get_u32(r);
    return htc_reader_done(r);
}

void htc_drain_write(htc_buf *b, int on)
{
    htc_wire_begin(b, HTC_WIRE_DRAIN, 0);
    htc_put_u8(b, on != 0);
}

htc_status htc_drain_read(htc_reader *r, int *on)
{
    uint8_t v = htc_get_u8(r);
    if (v > 1)
        htc_reader_fail(r);
    *on = v == 1;
    return htc_reader_done(r);
}

void htc_cancel_write(htc_buf *b, const htc_attempt *a)
{
    htc_wire_begin(b, HTC_WIRE_CANCEL, 0);
    htc_write_attempt(b, a);
}

htc_status htc_cancel_read(htc_reader *r, htc_attempt *a)
{
    htc_read_attempt(r, a);
    return htc_reader_done(r);
}

void htc_revoke_write(htc_buf *b, const htc_attempt *a)
{
    htc_wire_begin(b, HTC_WIRE_REVOKE, 0);
    htc_write_attempt(b, a);
}

htc_status htc_revoke_read(htc_reader *r, htc_attempt *a)
{
    htc_read_attempt(r, a);
    return htc_reader_done(r);
}

void htc_stop_write(htc_buf *b)
{
    htc_wire_begin(b, HTC_WIRE_STOP, 0);
}

void htc_nudge_write(htc_buf *b)
{
    htc_wire_begin(b, HTC_WIRE_NUDGE, 0);
}
