#include "kvs/cell/change.h"

#include "core/fault.h"
#include "kvs/util/digest.h"
#include "kvs/wire/kv_wire.h"

typedef struct change {
    const htc__kv_cell   *cell;
    const htc_kv_request *q;
    htc_buf              *scratch;
    htc__kv_changed      *out;
    htc_bytes             value; /* after the change */
} change;

static int exists(const htc__kv_cell *cell)
{
    return cell->present && !cell->deleted;
}

static void show(htc__kv_changed *out, const htc__kv_cell *cell)
{
    out->result.value = exists(cell) ? cell->value : (htc_bytes){ NULL, 0 };
    out->fields |= HTC__KV_HAS_VALUE;
}

/* "Unknown outcomes": 1 if the change must not be made, and the answer is set. */
static int answered_before(const htc__kv_cell *cell, const htc__kv_stamp *stamp, htc__kv_changed *out)
{
    const htc__kv_seen *seen = htc__kv_cell_find(cell, stamp->client);
    if (stamp->client == 0 || HTC__BROKEN(sequence_forgotten))
        return 0;
    if (seen && seen->sequence == stamp->sequence) {
        out->effect = HTC__KV_LISTED;
        out->result.status = HTC_OK;
        out->result.version = seen->version;
        out->result.number = seen->number;
        out->fields = HTC__KV_HAS_NUMBER;
        return 1;
    }
    /* Lower than the listed one: long answered, or given up by its client. Not listed, and entries were dropped that
     * are newer than what the client had seen when it first sent this: it may have been one of them. */
    if ((seen && seen->sequence > stamp->sequence) || (!seen && !stamp->fresh && stamp->since < cell->forgot)) {
        out->effect = HTC__KV_UNKNOWN;
        out->result.status = HTC_EUNKNOWN;
        out->result.version = cell->version;
        return 1;
    }
    return 0;
}

/* Decimal, as ADD writes it: an optional minus, digits without a zero in front, no more. "007" is a text, which ADD would not give back. */
static int read_number(htc_bytes text, int64_t *number)
{
    const char *p = text.data;
    size_t      i = text.len && p[0] == '-';
    int64_t     v = 0;
    if (i == text.len || (p[i] == '0' && text.len > 1))
        return 0;
    for (int minus = i == 1; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            (minus ? __builtin_sub_overflow(v, p[i] - '0', &v) : __builtin_add_overflow(v, p[i] - '0', &v)))
            return 0;
    }
    *number = v;
    return 1;
}

static htc_status append(change *c)
{
    size_t old = exists(c->cell) ? c->cell->value.len : 0;
    if (c->q->value.len > HTC_KV_VALUE_MAX || old > HTC_KV_VALUE_MAX - c->q->value.len)
        return HTC_ETOOBIG;
    if (old)
        htc_put_raw(c->scratch, c->cell->value);
    htc_put_raw(c->scratch, c->q->value);
    c->value = htc_buf_bytes(c->scratch);
    c->out->result.number = (int64_t)c->value.len;
    c->out->fields |= HTC__KV_HAS_NUMBER;
    return c->scratch->status;
}

static htc_status add(change *c)
{
    int64_t old = 0;
    if (exists(c->cell) && !read_number(c->cell->value, &old))
        return HTC_EINVAL;
    if (__builtin_add_overflow(old, c->q->delta, &c->out->result.number))
        return HTC_ETOOBIG;
    char text[20], *begin = htc__decimal(text + sizeof text, c->out->result.number);
    htc_put_raw(c->scratch, (htc_bytes){ begin, (size_t)(text + sizeof text - begin) });
    c->value = htc_buf_bytes(c->scratch);
    c->out->fields |= HTC__KV_HAS_NUMBER;
    return c->scratch->status;
}

static htc_status put(change *c)
{
    uint32_t flags = c->q->flags;
    int      there = exists(c->cell), lives = c->cell->lease || c->cell->ttl;
    if ((flags & HTC_KV_NX) && there)
        return HTC_MISMATCH;
    if (((flags & (HTC_KV_XX | HTC_KV_TOUCH)) && !there) || ((flags & HTC_KV_PERSIST) && !lives))
        return HTC_ENOTFOUND;
    if (flags & HTC_KV_TOUCH)
        c->value = c->cell->value;
    return HTC_OK;
}

/* HTC_OK and the value after the change, or why there is none. */
static htc_status new_value(change *c)
{
    const htc_kv_request *q = c->q;
    c->value = q->value;
    switch (q->op) {
    case HTC_KV_PUT:
        return put(c);
    case HTC_KV_DELETE:
        c->value = (htc_bytes){ NULL, 0 };
        if (q->flags & HTC_KV_IF_VERSION && (exists(c->cell) ? c->cell->version : 0) != q->version)
            return HTC_MISMATCH;
        return exists(c->cell) ? HTC_OK : HTC_ENOTFOUND;
    case HTC__KV_EXPIRE:
        c->value = (htc_bytes){ NULL, 0 };
        return exists(c->cell) && c->cell->ttl && (c->cell->term == q->version || HTC__BROKEN(old_term_accepted))
                   ? HTC_OK
                   : HTC_MISMATCH;
    case HTC__KV_END:
        c->value = (htc_bytes){ NULL, 0 };
        return exists(c->cell) && (c->cell->version == q->version || HTC__BROKEN(old_term_accepted)) ? HTC_OK : HTC_MISMATCH;
    case HTC__KV_UNBIND:
        c->value = (htc_bytes){ NULL, 0 };
        return exists(c->cell) && c->cell->lease == q->version ? HTC_OK : HTC_MISMATCH;
    case HTC_KV_CAS_VERSION:
        return (exists(c->cell) ? c->cell->version : 0) == q->version ? HTC_OK : HTC_MISMATCH;
    case HTC_KV_CAS_VALUE:
        return exists(c->cell) && htc_bytes_equal(c->cell->value, q->seen) ? HTC_OK : HTC_MISMATCH;
    case HTC_KV_APPEND:
        return append(c);
    case HTC_KV_ADD:
        return add(c);
    }
    return HTC_EINVAL;
}

/* Eight bytes where it is stored. */
uint64_t htc__kv_term(uint64_t version, const htc__kv_stamp *stamp)
{
    uint64_t words[3] = { version, stamp->client, stamp->client ? stamp->sequence : 0 };
    return htc__digest_words(words, 3, 0) >> 8 | 1;
}

/* A PUT says how long the key lives, and so does a compare-and-swap, but that it stays bound to its lease where it names no
 * ttl; every other change of a living key leaves that as it is. */
static void live(const change *c, const htc__kv_stamp *stamp, htc__kv_cell *to)
{
    const htc_kv_request *q = c->q;
    int                   cas = q->op == HTC_KV_CAS_VERSION || q->op == HTC_KV_CAS_VALUE;
    int                   set = (q->op == HTC_KV_PUT || cas) && !(q->flags & HTC_KV_KEEP_TTL);
    if (to->deleted || !exists(c->cell))
        to->lease = to->ttl = to->term = 0;
    if (!set)
        return;
    if (!cas || q->ttl)
        to->lease = q->lease;
    to->ttl = q->flags & HTC_KV_PERSIST ? 0 : q->ttl;
    to->term = to->ttl ? htc__kv_term(to->version, stamp) : 0;
}

static uint64_t max3(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t m = a > b ? a : b;
    return m > c ? m : c;
}

static void failed(change *c, htc_status status)
{
    c->out->effect = status == HTC_ENOMEM ? HTC__KV_NO_MEMORY : HTC__KV_UNCHANGED;
    c->out->result.status = status;
    c->out->result.number = 0;
    c->out->fields = 0;
    c->out->result.version = exists(c->cell) ? c->cell->version : 0;
    if (status != HTC_MISMATCH && c->q->op != HTC_KV_GET)
        return;
    show(c->out, c->cell);
    c->out->result.ttl = exists(c->cell) ? c->cell->ttl : 0;
    c->out->result.lease = exists(c->cell) ? c->cell->lease : 0;
}

void htc__kv_change(const htc__kv_cell *cell, const htc_kv_request *request, const htc__kv_stamp *stamp,
                    uint64_t at_least, htc_buf *scratch, htc__kv_changed *out)
{
    htc__kv_change_within(cell, request, stamp, at_least, HTC_KV_VALUE_MAX, scratch, out);
}

void htc__kv_change_within(const htc__kv_cell *cell, const htc_kv_request *request, const htc__kv_stamp *stamp,
                           uint64_t at_least, size_t value_max, htc_buf *scratch, htc__kv_changed *out)
{
    change c = { .cell = cell, .q = request, .scratch = scratch, .out = out };
    out->effect = HTC__KV_UNCHANGED;
    out->fields = 0;
    out->observed = cell->version;
    out->result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = request->op };
    if (request->op == HTC_KV_GET) {
        failed(&c, exists(cell) ? HTC_OK : HTC_ENOTFOUND);
        return;
    }
    if (answered_before(cell, stamp, out))
        return;
    htc_buf_clear(scratch);
    uint64_t   above = max3(cell->version, at_least, stamp->client ? stamp->since : 0);
    htc_status status = stamp->since > HTC__KV_SINCE_MAX || above >= UINT64_MAX - 1 ? HTC_EINVAL : new_value(&c);
    if (status == HTC_OK && c.value.len > value_max && c.value.len > (exists(cell) ? cell->value.len : 0))
        status = HTC_ETOOBIG;
    if (status != HTC_OK) {
        failed(&c, status);
        return;
    }
    if (request->flags & HTC_KV_WANT_OLD) {
        show(out, cell);
        out->result.existed = exists(cell) != 0;
        out->fields |= HTC__KV_HAS_OLD;
    }
    out->effect = HTC__KV_CHANGED;
    htc__kv_cell_copy(&out->to, cell);
    out->to.present = 1;
    out->to.deleted = request->op == HTC_KV_DELETE || (request->op >= HTC__KV_EXPIRE && request->op <= HTC__KV_END);
    out->to.value = c.value;
    out->to.version = out->observed = out->result.version = above + 1;
    live(&c, stamp, &out->to);
    /* What was there is not kept for an answer to a repeated request, but whether anything was. */
    int64_t number = request->flags & HTC_KV_WANT_OLD ? (int64_t)out->result.existed : out->result.number;
    if (stamp->client)
        htc__kv_cell_note(&out->to, &(htc__kv_seen){ stamp->client, stamp->sequence, out->to.version, number });
}
