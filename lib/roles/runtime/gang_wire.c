#include "roles/runtime/gang_wire.h"

#include <stdio.h>
#include <string.h>

#include "core/codec.h"

static int has_body(uint32_t kind)
{
    return kind == HTC_GANG_START || kind == HTC_GANG_ENDED;
}

void htc_gang_word_write(htc_buf *b, const htc_gang_word *m)
{
    htc_wire_begin(b, HTC_WIRE_GANG_WORD, 0);
    htc_put_u64(b, m->agent);
    htc_write_attempt(b, &m->attempt);
    htc_put_varint(b, m->member);
    htc_put_varint(b, m->start);
    htc_put_u8(b, m->kind);
    if (has_body(m->kind))
        htc_put_bytes(b, m->body);
}

htc_status htc_gang_word_read(htc_reader *r, htc_gang_word *m)
{
    *m = (htc_gang_word){ .agent = htc_get_u64(r) };
    htc_read_attempt(r, &m->attempt);
    uint64_t member = htc_get_varint(r), start = htc_get_varint(r);
    m->kind = htc_get_u8(r);
    if (has_body(m->kind))
        m->body = htc_get_bytes(r);
    if (member == 0 || member >= HTC_TASK_NODES_MAX || start == 0 || start > HTC_GANG_STARTS_MAX || m->kind < HTC_GANG_START || m->kind > HTC_GANG_ENDED ||
        m->body.len > HTC_GANG_BODY_MAX || (m->kind == HTC_GANG_START && htc_gang_words(m->body) == 0))
        htc_reader_fail(r);
    m->member = (uint32_t)member;
    m->start = (uint32_t)start;
    return htc_reader_done(r);
}

size_t htc_gang_words(htc_bytes words)
{
    const char *at = words.data;
    size_t      n = 0;
    if (words.len < 2 || words.len > HTC_GANG_WORDS_MAX || at[0] == 0 || at[words.len - 1] != 0)
        return 0;
    for (size_t i = 0; i < words.len; i++)
        n += at[i] == 0;
    return n;
}

void htc_gang_command_write(htc_buf *b, const htc_gang_command *c)
{
    htc_put_str(b, c->node);
    htc_put_bytes(b, c->words);
}

htc_status htc_gang_command_read(htc_bytes bytes, htc_gang_command *c)
{
    htc_reader r = htc_reader_of(bytes);
    htc_get_str(&r, c->node, sizeof c->node);
    c->words = htc_get_bytes(&r);
    if (r.status == HTC_OK && (!c->node[0] || htc_gang_words(c->words) == 0))
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc_gang_end_write(htc_buf *b, const htc_gang_end *e)
{
    htc_put_u8(b, e->here);
    htc_put_u32(b, (uint32_t)e->status);
    htc_put_u32(b, (uint32_t)e->exit_code);
    htc_put_u32(b, e->signal);
    htc_put_str(b, e->reason);
    htc_put_bytes(b, e->out);
    htc_put_bytes(b, e->err);
}

htc_status htc_gang_end_read(htc_bytes bytes, htc_gang_end *e)
{
    htc_reader r = htc_reader_of(bytes);
    *e = (htc_gang_end){ .here = htc_get_u8(&r) };
    e->status = (htc_status)(int32_t)htc_get_u32(&r);
    e->exit_code = (int32_t)htc_get_u32(&r);
    e->signal = htc_get_u32(&r);
    htc_get_str(&r, e->reason, sizeof e->reason);
    e->out = htc_get_bytes(&r);
    e->err = htc_get_bytes(&r);
    if (e->here > 1 || e->status > 0 || e->exit_code < 0 || e->exit_code > 255 || e->signal > 64 || e->out.len > HTC_GANG_STREAM_MAX || e->err.len > HTC_GANG_STREAM_MAX)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

uint32_t htc_gang_member(const char *nodes, const char *name, const uint32_t *busy, uint32_t n)
{
    uint32_t best = HTC_GANG_NONE, at = 0, wanted = HTC_GANG_NONE;
    size_t   len = strlen(name);
    if (name[0] == '#') {
        wanted = 0;
        for (const char *c = name + 1; *c && wanted < HTC_TASK_NODES_MAX; c++)
            wanted = *c >= '0' && *c <= '9' ? wanted * 10 + (uint32_t)(*c - '0') : HTC_TASK_NODES_MAX;
        if (!name[1])
            return HTC_GANG_NONE;
    }
    for (const char *p = nodes; *p && at < n; at++) {
        size_t own = strcspn(p, " ");
        int    is = name[0] == '#' ? at == wanted : own == len && memcmp(p, name, len) == 0;
        if (is && (best == HTC_GANG_NONE || busy[at] < busy[best]))
            best = at;
        p += own + (p[own] == ' ');
    }
    return best;
}
