#include <assert.h>
#include <string.h>

#include "htcsched/runtime.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/outcome_log.h"

#define BLOCK_FORMAT 1

/* What an entry has beside what follows from the one before it. The two lowest bits: 1 done, 2 failed, 3 cancelled. */
enum {
    HOW = 3,
    HAS_WORKER = 4,
    HAS_CODE = 8,    /* status, exit code, signal; else all are 0 */
    HAS_NUMBER = 16, /* of tasks; else one */
    HAS_TIMES = 32,  /* else it never ran */
    HAS_ATTEMPT = 64, /* else the next one */
    HAS_FROM = 128   /* else the task behind the last one */
};

static uint64_t folded(uint64_t to, uint64_t from)
{
    uint64_t d = to - from;
    return d << 1 ^ (d >> 63 ? UINT64_MAX : 0);
}

static uint64_t unfolded(uint64_t from, uint64_t d)
{
    return from + (d >> 1 ^ (d & 1 ? UINT64_MAX : 0));
}

static uint8_t *put(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static uint8_t flags_of(const bag_outcome *o, const bag_outcome *last)
{
    unsigned f = o->how - GRAPH_DONE + 1u;
    f |= o->worker != last->worker ? HAS_WORKER : 0;
    f |= o->status || o->exit_code || o->signal ? HAS_CODE : 0;
    f |= o->to - o->from != 1 ? HAS_NUMBER : 0;
    f |= o->ended_us ? HAS_TIMES : 0;
    f |= o->attempt != last->attempt + 1 ? HAS_ATTEMPT : 0;
    f |= o->from != last->to ? HAS_FROM : 0;
    return (uint8_t)f;
}

htc_status htc__outcome_log_add(outcome_log *l, const bag_outcome *o)
{
    const bag_outcome *last = &l->last;
    uint8_t        bytes[OUTCOME_BYTES], *p = bytes, flags = flags_of(o, last);
    assert(o->from < o->to && o->how >= GRAPH_DONE && o->how <= GRAPH_CANCELLED);
    *p++ = flags;
    if (flags & HAS_WORKER)
        p = put(p, o->worker);
    if (flags & HAS_FROM)
        p = put(p, folded(o->from, last->to));
    if (flags & HAS_NUMBER)
        p = put(p, o->to - o->from);
    if (flags & HAS_ATTEMPT)
        p = put(p, o->attempt);
    if (flags & HAS_CODE) {
        p = put(p, (uint32_t)o->status);
        p = put(p, o->exit_code);
        p = put(p, o->signal);
    }
    if (flags & HAS_TIMES) {
        p = put(p, folded(o->ended_us, last->clock_us));
        p = put(p, folded(o->began_us, o->ended_us));
    }
    if ((size_t)(p - bytes) > OUTCOME_LOG_MAX - l->len)
        return HTC_EFULL;
    memcpy(l->bytes + l->len, bytes, (size_t)(p - bytes));
    l->len += (uint32_t)(p - bytes);
    uint64_t clock_us = o->ended_us ? o->ended_us : last->clock_us;
    l->last = *o;
    l->last.clock_us = clock_us;
    return HTC_OK;
}

void htc__outcome_log_cut(outcome_log *l, uint64_t number)
{
    l->block = number;
    l->len = 0;
    memset(&l->last, 0, sizeof l->last);
}

static uint32_t get_u32(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v > UINT32_MAX)
        htc_reader_fail(r);
    return (uint32_t)v;
}

void htc__outcome_get(htc_reader *r, bag_outcome *o)
{
    uint8_t  flags = htc_get_u8(r);
    uint64_t n = 1;
    if (!(flags & HOW))
        htc_reader_fail(r);
    o->how = (uint8_t)(GRAPH_DONE + (flags & HOW) - 1);
    if (flags & HAS_WORKER)
        o->worker = htc_get_varint(r);
    o->from = flags & HAS_FROM ? unfolded(o->to, htc_get_varint(r)) : o->to;
    if (flags & HAS_NUMBER)
        n = htc_get_varint(r);
    if (n == 0 || n > UINT64_MAX - o->from)
        htc_reader_fail(r);
    o->to = o->from + n;
    o->attempt = flags & HAS_ATTEMPT ? get_u32(r) : o->attempt + 1;
    o->status = flags & HAS_CODE ? (int32_t)get_u32(r) : 0;
    o->exit_code = flags & HAS_CODE ? get_u32(r) : 0;
    o->signal = flags & HAS_CODE ? get_u32(r) : 0;
    o->began_us = o->ended_us = 0;
    if (flags & HAS_TIMES) {
        o->clock_us = o->ended_us = unfolded(o->clock_us, htc_get_varint(r));
        o->began_us = unfolded(o->ended_us, htc_get_varint(r));
    }
}

/* All of them can be read; *last: the last one. */
static int are_entries(htc_bytes bytes, bag_outcome *last)
{
    htc_reader r = htc_reader_of(bytes);
    memset(last, 0, sizeof *last);
    while (r.status == HTC_OK && htc_reader_left(&r))
        htc__outcome_get(&r, last);
    return r.status == HTC_OK;
}

void htc__outcome_log_write(htc_buf *b, const outcome_log *l)
{
    htc_put_varint(b, l->block);
    htc_put_bytes(b, (htc_bytes){ l->bytes, l->len });
}

void htc__outcome_log_read(htc_reader *r, outcome_log *l)
{
    l->block = htc_get_varint(r);
    htc_bytes bytes = htc_get_bytes(r);
    l->len = 0;
    if (r->status != HTC_OK)
        return;
    if (bytes.len > OUTCOME_LOG_MAX || !are_entries(bytes, &l->last)) {
        htc_reader_fail(r);
        return;
    }
    l->len = (uint32_t)bytes.len;
    if (l->len)
        memcpy(l->bytes, bytes.data, l->len);
}

void htc__outcome_block_write(htc_buf *b, const outcome_log *l)
{
    htc_runtime_record_begin(b, BLOCK_FORMAT);
    htc__outcome_log_write(b, l);
}

htc_status htc__outcome_block_read(htc_bytes bytes, uint64_t *before, htc_bytes *entries)
{
    htc_reader  r;
    bag_outcome last;
    htc_runtime_record_open(bytes, BLOCK_FORMAT, BLOCK_FORMAT, &r);
    *before = htc_get_varint(&r);
    *entries = htc_get_bytes(&r);
    if (r.status == HTC_OK && (entries->len == 0 || !are_entries(*entries, &last)))
        htc_reader_fail(&r);
    return htc_runtime_record_end(&r);
}
