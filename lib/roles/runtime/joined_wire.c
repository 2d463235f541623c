#include "roles/runtime/joined_wire.h"

#include "core/util.h"

void htc_joined_hello_write(htc_buf *b, const htc_joined_hello *m)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_HELLO, 0);
    htc_put_str(b, m->node);
    htc_put_str(b, m->data);
    htc_put_u32(b, m->slots);
    htc_put_u32(b, m->cores);
    htc_put_u32(b, m->agent_slots);
    htc_put_u64(b, m->memory);
    htc_put_u8(b, m->leaving);
    htc_put_u64(b, m->launches);
    htc_put_u64(b, m->keys);
    htc_put_u32(b, m->count);
    for (uint32_t i = 0; i < m->count; i++)
        htc_put_u64(b, m->agents[i]);
    htc_put_raw(b, (htc_bytes){ m->phases, m->count });
    if (m->n_resources)
        htc_put_u32(b, m->n_resources);
    for (uint32_t i = 0; i < m->n_resources; i++) {
        htc_put_str(b, m->resources[i].name);
        htc_put_u32(b, m->resources[i].count);
    }
}

static void read_resources(htc_reader *r, htc_joined_hello *m)
{
    m->n_resources = 0;
    if (htc_reader_left(r) == 0)
        return;
    uint32_t n = htc_get_u32(r);
    if (n == 0 || n > HTC_JOINED_RESOURCES_MAX)
        htc_reader_fail(r);
    for (uint32_t i = 0; i < n && r->status == HTC_OK; i++) {
        htc_get_str(r, m->resources[i].name, sizeof m->resources[i].name);
        m->resources[i].count = htc_get_u32(r);
        m->n_resources++;
    }
}

htc_status htc_joined_hello_read(htc_reader *r, htc_joined_hello *m)
{
    htc_get_str(r, m->node, sizeof m->node);
    htc__text_clean(m->node);
    htc_get_str(r, m->data, sizeof m->data);
    htc__text_clean(m->data);
    m->slots = htc_get_u32(r);
    m->cores = htc_get_u32(r);
    m->agent_slots = htc_get_u32(r);
    m->memory = htc_get_u64(r);
    m->leaving = htc_get_u8(r);
    m->launches = htc_get_u64(r);
    m->keys = htc_get_u64(r);
    m->count = htc_get_u32(r);
    if (m->leaving > 1 || m->slots == 0 || m->count > HTC_JOINED_AGENTS_MAX)
        htc_reader_fail(r);
    if (r->status != HTC_OK)
        m->count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        m->agents[i] = htc_get_u64(r);
    for (uint32_t i = 0; i < m->count; i++)
        if ((m->phases[i] = htc_get_u8(r)) >= HTC_JOINED_PHASES)
            htc_reader_fail(r);
    read_resources(r, m);
    return htc_reader_done(r);
}

void htc_joined_welcome_write(htc_buf *b, const htc_joined_welcome *m)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_WELCOME, 0);
    htc_put_u32(b, (uint32_t)m->status);
    htc_put_str(b, m->text);
    htc_put_u64(b, m->heartbeat_ns);
    htc_put_u64(b, m->lost_after_ns);
    htc_put_u64(b, m->keys);
    htc_put_bytes(b, m->ring);
}

htc_status htc_joined_welcome_read(htc_reader *r, htc_joined_welcome *m)
{
    m->status = (htc_status)(int32_t)htc_get_u32(r);
    htc_get_str(r, m->text, sizeof m->text);
    htc__text_clean(m->text);
    m->heartbeat_ns = htc_get_u64(r);
    m->lost_after_ns = htc_get_u64(r);
    m->keys = htc_get_u64(r);
    m->ring = htc_get_bytes(r);
    return htc_reader_done(r);
}

void htc_joined_launched_write(htc_buf *b, uint64_t agent, htc_status status, htc_bytes body)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_LAUNCHED, 0);
    htc_put_u64(b, agent);
    htc_put_u32(b, (uint32_t)status);
    htc_put_bytes(b, body);
}

htc_status htc_joined_launched_read(htc_reader *r, uint64_t *agent, htc_status *status, htc_bytes *body)
{
    *agent = htc_get_u64(r);
    *status = (htc_status)(int32_t)htc_get_u32(r);
    *body = htc_get_bytes(r);
    return htc_reader_done(r);
}

void htc_joined_kill_write(htc_buf *b, uint64_t agent)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_KILL, 0);
    htc_put_u64(b, agent);
}

htc_status htc_joined_kill_read(htc_reader *r, uint64_t *agent)
{
    *agent = htc_get_u64(r);
    return htc_reader_done(r);
}

void htc_joined_call_write(htc_buf *b, uint32_t tag, uint32_t op, htc_bytes body)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_CALL, 0);
    htc_put_u32(b, tag);
    htc_put_u32(b, op);
    htc_put_bytes(b, body);
}

htc_status htc_joined_call_read(htc_reader *r, uint32_t *tag, uint32_t *op, htc_bytes *body)
{
    *tag = htc_get_u32(r);
    *op = htc_get_u32(r);
    *body = htc_get_bytes(r);
    return htc_reader_done(r);
}

void htc_joined_answer_write(htc_buf *b, uint32_t tag, htc_status status, htc_bytes body)
{
    htc_wire_begin(b, HTC_WIRE_JOINED_ANSWER, 0);
    htc_put_u32(b, tag);
    htc_put_u32(b, (uint32_t)status);
    htc_put_bytes(b, body);
}

htc_status htc_joined_answer_read(htc_reader *r, uint32_t *tag, htc_status *status, htc_bytes *body)
{
    *tag = htc_get_u32(r);
    *status = (htc_status)(int32_t)htc_get_u32(r);
    *body = htc_get_bytes(r);
    return htc_reader_done(r);
}
