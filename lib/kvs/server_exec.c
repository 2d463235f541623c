/* The operations on keys. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "kvs/server.h"

/* A batch is not added to beyond this; one more change may stand on top. */
#define STAGED_MAX    ((size_t)16 << 20)
#define SCAN_PAGE_MAX ((size_t)1 << 20)

typedef struct execution {
    htc_kv_server *s;
    htc_kv_request q;
    uint64_t       client, sequence, since;
    int            fresh; /* known to be the first transmission ever executed */
    htc_kv_result  result;
    uint8_t        fields;
    int            staged; /* something was changed: the answer may not be taken back */
    char           number[24];
    htc__kv_name   last_key; /* of a page */
} execution;

static void answer_observed(execution *x, htc_status status, const htc__kv_record *record)
{
    x->result.status = status;
    x->result.version = record->deleted ? 0 : record->version;
    x->result.value = record->value;
    x->fields |= HTC__KV_HAS_VALUE;
}

/* "Unknown outcomes": 1 if the change must not be executed, and the answer is set. */
static int answered_before(execution *x, const htc__kv_record *record)
{
    const htc__kv_seen *seen = htc__kv_record_find(record, x->client);
    if (seen && seen->sequence == x->sequence) {
        x->result.status = HTC_OK;
        x->result.version = seen->version;
        x->result.number = seen->number;
        x->fields |= HTC__KV_HAS_NUMBER;
        x->s->stats.answered_from_list++;
        return 1;
    }
    /* Lower than the listed one: long answered, or given up by its client. Not listed, and entries were dropped that
     * are newer than what the client had seen when it first sent this: it may have been one of them. */
    if ((seen && seen->sequence > x->sequence) || (!seen && !x->fresh && x->since < record->forgot)) {
        x->result.status = HTC_EUNKNOWN;
        x->result.version = record->deleted ? 0 : record->version;
        x->s->stats.unknown++;
        return 1;
    }
    return 0;
}

/* Decimal, as ADD writes it: an optional minus, digits, no more. */
static int read_number(htc_bytes text, int64_t *number)
{
    const char *p = text.data;
    size_t      i = text.len && p[0] == '-';
    int64_t     v = 0;
    if (i == text.len)
        return 0;
    for (int minus = i == 1; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            (minus ? __builtin_sub_overflow(v, p[i] - '0', &v) : __builtin_add_overflow(v, p[i] - '0', &v)))
            return 0;
    }
    *number = v;
    return 1;
}

/* The value after the change; HTC_OK, or why not. *value may point into x->q, x->number or the scratch. */
static htc_status new_value(execution *x, const htc__kv_record *record, htc_bytes *value)
{
    const htc_kv_request *q = &x->q;
    *value = q->value;
    switch ((htc_kv_op)q->op) {
    case HTC_KV_PUT:
        return q->lease && !htc__kv_lease_alive(x->s, q->lease) ? HTC_ENOTFOUND : HTC_OK;
    case HTC_KV_DELETE:
        *value = (htc_bytes){ NULL, 0 };
        return record->deleted ? HTC_ENOTFOUND : HTC_OK;
    case HTC_KV_CAS_VERSION:
        return (record->deleted ? 0 : record->version) == q->version ? HTC_OK : HTC_MISMATCH;
    case HTC_KV_CAS_VALUE:
        return !record->deleted && htc_bytes_equal(record->value, q->seen) ? HTC_OK : HTC_MISMATCH;
    case HTC_KV_APPEND: {
        htc_buf *b = &x->s->scratch_items;
        if (record->value.len + q->value.len > HTC_KV_VALUE_MAX)
            return HTC_ETOOBIG;
        htc_buf_clear(b);
        htc_put_raw(b, record->value);
        htc_put_raw(b, q->value);
        *value = htc_buf_bytes(b);
        x->result.number = (int64_t)value->len;
        x->fields |= HTC__KV_HAS_NUMBER;
        return b->status;
    }
    case HTC_KV_ADD: {
        int64_t old = 0;
        if (!record->deleted && !read_number(record->value, &old))
            return HTC_EINVAL;
        if (__builtin_add_overflow(old, q->delta, &x->result.number))
            return HTC_EINVAL;
        int n = snprintf(x->number, sizeof x->number, "%lld", (long long)x->result.number);
        *value = (htc_bytes){ x->number, (size_t)n };
        x->fields |= HTC__KV_HAS_NUMBER;
        return HTC_OK;
    }
    case HTC_KV_GET:
    case HTC_KV_SCAN:
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
        break;
    }
    return HTC_EINTERNAL;
}

static int grows(const execution *x, const htc__kv_record *record, htc_bytes value)
{
    return x->q.op != HTC_KV_DELETE && (record->deleted || value.len > record->value.len);
}

static htc_status change(execution *x)
{
    htc_kv_server *s = x->s;
    htc__kv_record record;
    htc_bytes      value;
    htc_status     status = htc__kv_load(s, x->q.key, &record);
    s->stats.changes++;
    if (status == HTC_ECORRUPT) {
        x->result.status = status;
        return HTC_OK;
    }
    if (status != HTC_OK || answered_before(x, &record))
        return status;
    if (s->refuse != HTC_OK) {
        x->result.status = s->refuse;
        return HTC_OK;
    }
    status = new_value(x, &record, &value);
    if (status == HTC_ENOMEM)
        return status;
    if (status == HTC_MISMATCH)
        answer_observed(x, status, &record);
    else if (status == HTC_OK && s->options.memory_max && grows(x, &record, value) &&
             s->options.engine.ops->used(s->options.engine.ctx) + s->overlay.bytes > s->options.memory_max)
        status = HTC_EFULL;
    x->result.status = status;
    if (status != HTC_OK) {
        x->fields &= (uint8_t)~HTC__KV_HAS_NUMBER;
        return HTC_OK;
    }
    uint64_t old_lease = record.lease;
    record.lease = x->q.op == HTC_KV_PUT ? x->q.lease : record.deleted || x->q.op == HTC_KV_DELETE ? 0 : record.lease;
    record.deleted = x->q.op == HTC_KV_DELETE;
    record.version = x->result.version = ++s->clock;
    record.value = value;
    htc__kv_record_note(&record, &(htc__kv_seen){ x->client, x->sequence, record.version, x->result.number });
    x->staged = 1;
    status = htc__kv_save(s, x->q.key, &record);
    return status == HTC_OK ? htc__kv_lease_bind(s, x->q.key, old_lease, record.lease) : status;
}

static htc_status get(execution *x)
{
    htc__kv_record record;
    htc_status     status = htc__kv_load(x->s, x->q.key, &record);
    x->s->stats.reads++;
    if (status != HTC_OK && status != HTC_ECORRUPT)
        return status;
    if (status == HTC_OK)
        answer_observed(x, record.deleted ? HTC_ENOTFOUND : HTC_OK, &record);
    else
        x->result.status = status;
    return HTC_OK;
}

typedef struct page {
    execution *x;
    size_t     limit;
    int        more;
} page;

static int add_item(void *visitor, htc_bytes name, htc_bytes value)
{
    page          *p = visitor;
    htc_buf       *b = &p->x->s->scratch_items;
    htc_bytes      key = { (const uint8_t *)name.data + 1, name.len - 1 }, prefix = p->x->q.key;
    htc__kv_record record;
    if (((const uint8_t *)name.data)[0] != 'k' || key.len < prefix.len ||
        (prefix.len && memcmp(key.data, prefix.data, prefix.len) != 0))
        return 0;
    if (htc__kv_record_read(value, key, &record) != HTC_OK) {
        p->x->result.status = HTC_ECORRUPT; /* said, and the rest is read */
        return 1;
    }
    if (record.deleted || (record.lease && !htc__kv_lease_alive(p->x->s, record.lease)))
        return 1;
    size_t size = key.len + record.value.len + 24;
    if (p->x->result.items == p->limit || (p->x->result.items && b->len + size > SCAN_PAGE_MAX)) {
        p->more = 1;
        return 0;
    }
    htc__kv_item_write(b, key, record.version, record.value);
    p->x->result.items++;
    p->x->last_key = htc__kv_name_of('k', NULL, key);
    return b->status == HTC_OK;
}

/* A page begins behind its cursor, the last key of the page before. */
static htc_status scan(execution *x)
{
    htc_kv_server *s = x->s;
    page           p = { .x = x, .limit = x->q.limit ? x->q.limit : 1000 };
    int            behind = htc_bytes_compare(x->q.cursor, x->q.key) >= 0 && x->q.cursor.len;
    htc__kv_name   from = htc__kv_name_of('k', NULL, behind ? x->q.cursor : x->q.key);
    if (behind)
        from.data[from.len++] = 0;
    htc_buf_clear(&s->scratch_items);
    s->stats.reads++;
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&from), add_item, &p);
    if (status == HTC_OK)
        status = s->scratch_items.status;
    x->result.items_bytes = htc_buf_bytes(&s->scratch_items);
    if (p.more)
        x->result.cursor = (htc_bytes){ x->last_key.data + 1, x->last_key.len - 1 };
    x->fields = HTC__KV_HAS_ITEMS;
    return status;
}

static htc_status execute_one(execution *x)
{
    switch ((htc_kv_op)x->q.op) {
    case HTC_KV_GET:
        return get(x);
    case HTC_KV_SCAN:
        return scan(x);
    case HTC_KV_PUT:
    case HTC_KV_DELETE:
    case HTC_KV_APPEND:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
    case HTC_KV_ADD:
        return change(x);
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE: {
        size_t before = x->s->staged;
        x->fields = HTC__KV_HAS_LEASE;
        htc_status status = htc__kv_lease_op(x->s, &x->q, x->client, x->sequence, &x->result);
        x->staged = x->s->staged != before;
        return status;
    }
    }
    return HTC_EINTERNAL;
}

htc_status htc__kv_execute(htc_kv_server *s, const htc__kv_head *head, htc_reader *ops, htc_buf *answer, size_t *done,
                           int fresh)
{
    for (*done = 0; *done < head->count; ++*done) {
        execution x = { .s = s, .client = head->client, .since = head->since, .fresh = fresh };
        size_t    before = answer->len;
        x.sequence = head->sequence + *done;
        htc__kv_op_read(ops, &x.q);
        if (s->staged_bytes > STAGED_MAX && x.q.op != HTC_KV_GET && x.q.op != HTC_KV_SCAN)
            return HTC_OK;
        htc_status status = execute_one(&x);
        if (status != HTC_OK)
            return status;
        htc__kv_result_write(answer, &x.result, x.fields);
        if (answer->len > HTC__KV_ANSWER_MAX && *done > 0) {
            /* No room: a read is repeated in the next message; what a change answers is short and fits. */
            if (x.staged)
                ++*done;
            else
                answer->len = before;
            return HTC_OK;
        }
    }
    return answer->status;
}
