#include "kvs/wire/kv_wire.h"

#include "htcsched/kv_members.h"

void htc__kv_head_write(htc_buf *b, const htc__kv_head *head)
{
    htc_put_u64(b, head->session);
    htc__kv_head_write_packed(b, head);
}

void htc__kv_head_write_packed(htc_buf *b, const htc__kv_head *head)
{
    htc_put_u64(b, head->client);
    htc_put_varint(b, head->since);
    htc_put_u8(b, head->flags);
    htc_put_varint(b, head->sequence);
    htc_put_varint(b, head->count);
}

void htc__kv_head_read(htc_reader *r, htc__kv_head *head)
{
    head->session = htc_get_u64(r);
    htc__kv_head_read_packed(r, head);
}

void htc__kv_head_read_packed(htc_reader *r, htc__kv_head *head)
{
    head->client = htc_get_u64(r);
    head->since = htc_get_varint(r);
    head->flags = htc_get_u8(r);
    head->unknown = 0;
    head->sequence = htc_get_varint(r);
    head->count = htc_get_count(r, 1); /* COUNT is one byte */
    if (head->flags > HTC__KV_REPEATED || head->sequence > UINT64_MAX - head->count)
        htc_reader_fail(r);
}

void htc__kv_pack_begin(htc_buf *b, uint64_t serial, uint64_t session)
{
    htc_wire_begin(b, HTC_WIRE_KV_PACK, serial);
    htc_put_u64(b, session);
}

int htc__kv_pack_next(htc_reader *r, htc_bytes *request)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *request = htc_get_bytes(r);
    return r->status == HTC_OK;
}

void htc__kv_request_rename(uint8_t *message, uint64_t serial, uint64_t session)
{
    htc__le64_put(message + 2, serial);
    htc__le64_put(message + 10, session);
}

void htc__kv_answer_rename(uint8_t *message, uint64_t serial, uint64_t session)
{
    htc__le64_put(message + 2, serial);
    htc__le64_put(message + 18, session);
}

int htc__kv_is_change(uint32_t op)
{
    switch ((htc_kv_op)op) {
    case HTC_KV_PUT:
    case HTC_KV_DELETE:
    case HTC_KV_APPEND:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
    case HTC_KV_ADD:
        return 1;
    case HTC_KV_GET:
    case HTC_KV_SCAN:
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
    case HTC_KV_COUNT:
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        break;
    }
    return 0;
}

static int has_key(uint32_t op)
{
    return op == HTC_KV_GET || htc__kv_is_change(op);
}

/* What flags and a ttl go with which operation, and with one another. */
static int extras_fit(const htc_kv_request *q)
{
    uint32_t f = q->flags, sets = HTC_KV_KEEP_TTL | HTC_KV_TOUCH | HTC_KV_PERSIST;
    int      both = (f & HTC_KV_NX && f & HTC_KV_XX) || (q->lease && q->ttl);
    switch ((htc_kv_op)q->op) {
    case HTC_KV_PUT:
        if (f & ~(sets | HTC_KV_NX | HTC_KV_XX | HTC_KV_WANT_OLD) || both)
            return 0;
        if (f & HTC_KV_KEEP_TTL && (f & HTC_KV_TOUCH || q->ttl || q->lease))
            return 0;
        if (f & HTC_KV_TOUCH)
            return !(f & (HTC_KV_NX | HTC_KV_XX)) && !q->lease && q->value.len == 0 &&
                   !(f & HTC_KV_PERSIST) == (q->ttl > 0);
        return !(f & HTC_KV_PERSIST);
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
        return !(f & ~(uint32_t)HTC_KV_KEEP_TTL) && !(f && q->ttl);
    case HTC_KV_DELETE:
        return !(f & ~(uint32_t)(HTC_KV_WANT_OLD | HTC_KV_IF_VERSION)) && !q->ttl && !(f & HTC_KV_IF_VERSION && q->version == 0);
    case HTC_KV_SCAN:
        if (f == HTC_KV_EVENTUAL)
            return !q->ttl;
        return !(f & ~(uint32_t)HTC_KV_PLACES) && !q->ttl &&
               (!f || (q->key.len == 0 && (q->cursor.len == 0 || q->cursor.len == 8)));
    case HTC_KV_LEASE_GRANT:
        return !f;
    case HTC_KV_COUNT:
        return !(f & ~(uint32_t)HTC_KV_EVENTUAL) && !q->ttl;
    case HTC_KV_GET:
    case HTC_KV_APPEND:
    case HTC_KV_ADD:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        return !f && !q->ttl;
    }
    return 0;
}

int htc__kv_space_name_fits(htc_bytes name)
{
    const uint8_t *at = name.data;
    if (name.len == 0 || name.len > HTC_KV_SPACE_MAX)
        return 0;
    for (size_t i = 0; i < name.len; i++)
        if (!(at[i] >= 'a' && at[i] <= 'z') && !(at[i] >= '0' && at[i] <= '9') && !memchr("-_.", at[i], 3))
            return 0;
    return 1;
}

/* What can be asked of an eventual namespace. */
static htc_status check_space(const htc_kv_request *q)
{
    if (q->space.len == 0)
        return q->context.len ? HTC_EINVAL : HTC_OK;
    if ((q->op != HTC_KV_GET && q->op != HTC_KV_PUT && q->op != HTC_KV_DELETE) || q->flags || q->ttl || q->lease ||
        (q->op == HTC_KV_GET && q->context.len) || !htc__kv_space_name_fits(q->space))
        return HTC_EINVAL;
    if (q->space.len + 1 + q->key.len > HTC_KV_KEY_MAX || q->value.len > HTC_KV_SIBLING_MAX ||
        q->context.len > HTC_KV_CONTEXT_MAX)
        return HTC_ETOOBIG;
    return HTC_OK;
}

/* A member, and a weight where it is about that; a number of buckets; nothing where the change under way is meant. */
static int change_fits(const htc_kv_request *q)
{
    if (q->limit == HTC_KV_CHANGE_WEIGHT)
        return q->version && q->delta >= 1 && q->delta <= HTC_RING_WEIGHT_MAX;
    if (q->limit == HTC_KV_CHANGE_LEAVE)
        return q->version && q->delta == 0;
    if (q->limit == HTC_KV_CHANGE_RATE)
        return q->version == 0 && q->delta >= 0 && q->delta <= UINT32_MAX;
    return q->limit == HTC_KV_CHANGE_BACK && q->version == 0 && q->delta == 0;
}

htc_status htc__kv_op_check(const htc_kv_request *q)
{
    if (q->op < HTC_KV_GET || q->op > HTC_KV_CHANGE || (has_key(q->op) && q->key.len == 0))
        return HTC_EINVAL;
    if ((q->flags || q->ttl) && !extras_fit(q))
        return HTC_EINVAL;
    htc_status space = check_space(q);
    if (space != HTC_OK)
        return space;
    if (q->key.len > HTC_KV_KEY_MAX || q->cursor.len > HTC_KV_KEY_MAX)
        return HTC_ETOOBIG;
    if (q->value.len > HTC_KV_VALUE_MAX || q->seen.len > HTC_KV_VALUE_MAX ||
        (q->op == HTC_KV_CAS_VALUE && q->seen.len + q->value.len > HTC_KV_VALUE_MAX))
        return HTC_ETOOBIG;
    if (q->op == HTC_KV_SCAN && q->limit > HTC__KV_SCAN_LIMIT)
        return HTC_EINVAL;
    if ((q->op == HTC_KV_MEMBERS && q->limit > 1) || (q->op == HTC_KV_CHANGE && !change_fits(q)))
        return HTC_EINVAL;
    if (q->op == HTC_KV_LEASE_GRANT && q->ttl == 0)
        return HTC_EINVAL;
    if ((q->op == HTC_KV_LEASE_RENEW || q->op == HTC_KV_LEASE_REVOKE) && q->lease == 0)
        return HTC_EINVAL;
    return HTC_OK;
}

void htc__kv_op_write(htc_buf *b, const htc_kv_request *q)
{
    htc_ns ttl = q->op == HTC_KV_LEASE_GRANT ? 0 : q->ttl;
    uint32_t flags = q->flags | (q->space.len ? HTC__KV_IN_SPACE : 0);
    htc_put_u8(b, (uint8_t)(q->op | (flags || ttl ? HTC__KV_OP_EXTRAS : 0)));
    if (flags || ttl) {
        htc_put_varint(b, flags);
        htc_put_varint(b, ttl);
    }
    if (q->space.len) {
        htc_put_bytes(b, q->space);
        htc_put_bytes(b, q->context);
    }
    if (has_key(q->op) || q->op == HTC_KV_SCAN)
        htc_put_bytes(b, q->key);
    switch ((htc_kv_op)q->op) {
    case HTC_KV_GET:
        break;
    case HTC_KV_DELETE:
        if (q->flags & HTC_KV_IF_VERSION)
            htc_put_varint(b, q->version);
        break;
    case HTC_KV_PUT:
        htc_put_varint(b, q->lease);
        htc_put_bytes(b, q->value);
        break;
    case HTC_KV_APPEND:
        htc_put_bytes(b, q->value);
        break;
    case HTC_KV_CAS_VERSION:
        htc_put_varint(b, q->version);
        htc_put_bytes(b, q->value);
        break;
    case HTC_KV_CAS_VALUE:
        htc_put_bytes(b, q->seen);
        htc_put_bytes(b, q->value);
        break;
    case HTC_KV_ADD:
        htc_put_u64(b, (uint64_t)q->delta);
        break;
    case HTC_KV_SCAN:
        htc_put_bytes(b, q->cursor);
        htc_put_varint(b, q->limit);
        break;
    case HTC_KV_LEASE_GRANT:
        htc_put_varint(b, q->ttl);
        break;
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
        htc_put_varint(b, q->lease);
        break;
    case HTC_KV_COUNT:
        break;
    case HTC_KV_MEMBERS:
        htc_put_u8(b, (uint8_t)q->limit);
        break;
    case HTC_KV_CHANGE:
        htc_put_u8(b, (uint8_t)q->limit);
        htc_put_u64(b, q->version);
        htc_put_varint(b, (uint64_t)q->delta);
        break;
    }
}

#define FLAGS_KNOWN                                                                                                    \
    (HTC_KV_NX | HTC_KV_XX | HTC_KV_WANT_OLD | HTC_KV_KEEP_TTL | HTC_KV_PERSIST | HTC_KV_TOUCH | HTC_KV_PLACES |        \
     HTC__KV_IN_SPACE | HTC_KV_EVENTUAL | HTC_KV_IF_VERSION)

int htc__kv_op_unknown(htc_reader r)
{
    uint32_t first = htc_get_u8(&r), op = first & ~HTC__KV_OP_EXTRAS;
    uint64_t flags = first & HTC__KV_OP_EXTRAS ? htc_get_varint(&r) : 0;
    return r.status == HTC_OK && op >= HTC_KV_GET && (op > HTC_KV_CHANGE || flags & ~(uint64_t)FLAGS_KNOWN);
}

void htc__kv_op_read(htc_reader *r, htc_kv_request *q)
{
    uint32_t op = htc_get_u8(r);
    *q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op & ~HTC__KV_OP_EXTRAS };
    if (op & HTC__KV_OP_EXTRAS) {
        uint64_t flags = htc_get_varint(r);
        q->flags = flags > UINT32_MAX ? UINT32_MAX : (uint32_t)flags;
        q->ttl = htc_get_varint(r);
        if ((!q->flags && !q->ttl) || (q->ttl && q->op == HTC_KV_LEASE_GRANT))
            htc_reader_fail(r);
        if (q->flags & HTC__KV_IN_SPACE) {
            q->flags &= ~HTC__KV_IN_SPACE;
            q->space = htc_get_bytes(r);
            q->context = htc_get_bytes(r);
            if (q->space.len == 0)
                htc_reader_fail(r);
        }
    }
    if (has_key(q->op) || q->op == HTC_KV_SCAN)
        q->key = htc_get_bytes(r);
    switch ((htc_kv_op)q->op) {
    case HTC_KV_GET:
        break;
    case HTC_KV_DELETE:
        if (q->flags & HTC_KV_IF_VERSION)
            q->version = htc_get_varint(r);
        break;
    case HTC_KV_PUT:
        q->lease = htc_get_varint(r);
        q->value = htc_get_bytes(r);
        break;
    case HTC_KV_APPEND:
        q->value = htc_get_bytes(r);
        break;
    case HTC_KV_CAS_VERSION:
        q->version = htc_get_varint(r);
        q->value = htc_get_bytes(r);
        break;
    case HTC_KV_CAS_VALUE:
        q->seen = htc_get_bytes(r);
        q->value = htc_get_bytes(r);
        break;
    case HTC_KV_ADD:
        q->delta = (int64_t)htc_get_u64(r);
        break;
    case HTC_KV_SCAN: {
        q->cursor = htc_get_bytes(r);
        uint64_t limit = htc_get_varint(r);
        q->limit = limit > HTC__KV_SCAN_LIMIT ? HTC__KV_SCAN_LIMIT + 1 : (uint32_t)limit;
        break;
    }
    case HTC_KV_LEASE_GRANT:
        q->ttl = htc_get_varint(r);
        break;
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE:
        q->lease = htc_get_varint(r);
        break;
    case HTC_KV_COUNT:
        break;
    case HTC_KV_MEMBERS:
        q->limit = htc_get_u8(r);
        break;
    case HTC_KV_CHANGE: {
        q->limit = htc_get_u8(r);
        q->version = htc_get_u64(r);
        uint64_t weight = htc_get_varint(r);
        q->delta = weight > INT64_MAX ? -1 : (int64_t)weight;
        break;
    }
    }
    if (r->status == HTC_OK && htc__kv_op_check(q) != HTC_OK)
        htc_reader_fail(r);
}

int htc__kv_ops_check(htc_reader ops, htc__kv_head *head, htc_kv_request *read, size_t *len)
{
    htc_kv_request q = { .size = sizeof q };
    size_t         all = htc_reader_left(&ops);
    for (size_t i = 0; ops.status == HTC_OK && i < head->count; i++) {
        if (htc__kv_op_unknown(ops)) {
            head->unknown = i == 0;
            head->count = i ? i : 1;
            *len = all - htc_reader_left(&ops);
            return 1;
        }
        htc__kv_op_read(&ops, read ? &read[i] : &q);
    }
    *len = all;
    return htc_reader_done(&ops) == HTC_OK;
}

void htc__kv_answer_append(htc_buf *b, uint64_t serial, const htc__kv_answer_head *head)
{
    uint8_t *p = htc_buf_extend(b, HTC__KV_ANSWER_HEAD);
    if (!p)
        return;
    p[0] = HTC_WIRE_KV_ANSWER & 0xff;
    p[1] = HTC_WIRE_KV_ANSWER >> 8;
    htc__le64_put(p + 2, serial);
    htc__le64_put(p + 10, head->clock);
    htc__le64_put(p + 18, head->session);
    htc__le32_put(p + 26, head->count);
    htc__le32_put(p + 30, head->first);
    p[34] = (uint8_t)head->more;
}

void htc__kv_answer_begin(htc_buf *b, uint64_t serial, const htc__kv_answer_head *head)
{
    htc_buf_clear(b);
    htc__kv_answer_append(b, serial, head);
}

void htc__kv_answer_end_at(htc_buf *b, size_t at, uint32_t count, uint32_t more)
{
    if (b->status != HTC_OK)
        return;
    htc__le32_put(b->data + at + 26, count);
    b->data[at + 34] = (uint8_t)more;
}

void htc__kv_answer_end(htc_buf *b, uint32_t count, uint32_t more)
{
    htc__kv_answer_end_at(b, 0, count, more);
}

void htc__kv_answer_read(htc_reader *r, htc__kv_answer_head *head)
{
    head->clock = htc_get_u64(r);
    head->session = htc_get_u64(r);
    head->count = htc_get_u32(r);
    head->first = htc_get_u32(r);
    head->more = htc_get_u8(r);
    if (head->more > (HTC__KV_MORE | HTC__KV_ELSEWHERE))
        htc_reader_fail(r);
}

void htc__kv_result_write(htc_buf *b, const htc_kv_result *a)
{
    uint8_t fields = 0;
    if (a->number)
        fields |= HTC__KV_HAS_NUMBER;
    if (a->lease)
        fields |= HTC__KV_HAS_LEASE;
    if (a->value.data)
        fields |= HTC__KV_HAS_VALUE;
    if (a->op == HTC_KV_SCAN || a->items)
        fields |= HTC__KV_HAS_ITEMS;
    if (a->existed)
        fields |= HTC__KV_HAS_OLD;
    if (a->ttl)
        fields |= HTC__KV_HAS_TTL;
    if (a->member || a->context.len)
        fields |= HTC__KV_HAS_CONTEXT;
    uint8_t head[4 + 10 + 1], *p = head + 4;
    htc__le32_put(head, (uint32_t)a->status);
    for (uint64_t v = a->version; (*p++ = (uint8_t)(v >= 0x80 ? v | 0x80 : v)) >= 0x80; v >>= 7)
        continue;
    *p++ = fields;
    htc_put_raw(b, (htc_bytes){ head, (size_t)(p - head) });
    if (fields & HTC__KV_HAS_NUMBER)
        htc_put_u64(b, (uint64_t)a->number);
    if (fields & HTC__KV_HAS_LEASE)
        htc_put_u64(b, a->lease);
    if (fields & HTC__KV_HAS_VALUE)
        htc_put_bytes(b, a->value);
    if (fields & HTC__KV_HAS_ITEMS) {
        htc_put_varint(b, a->items);
        htc_put_bytes(b, a->cursor);
        htc_put_bytes(b, a->items_bytes);
    }
    if (fields & HTC__KV_HAS_OLD)
        htc_put_u8(b, (uint8_t)a->existed);
    if (fields & HTC__KV_HAS_TTL)
        htc_put_varint(b, a->ttl);
    if (fields & HTC__KV_HAS_CONTEXT) {
        htc_put_u64(b, a->member);
        htc_put_bytes(b, a->context);
    }
}

void htc__kv_result_read(htc_reader *r, htc_kv_result *a)
{
    a->status = (htc_status)(int32_t)htc_get_u32(r);
    a->version = htc_get_varint(r);
    uint8_t fields = htc_get_u8(r);
    if (fields & HTC__KV_HAS_NUMBER)
        a->number = (int64_t)htc_get_u64(r);
    if (fields & HTC__KV_HAS_LEASE)
        a->lease = htc_get_u64(r);
    if (fields & HTC__KV_HAS_VALUE)
        a->value = htc_get_bytes(r);
    if (fields & HTC__KV_HAS_ITEMS) {
        uint64_t items = htc_get_varint(r);
        a->cursor = htc_get_bytes(r);
        a->items_bytes = htc_get_bytes(r);
        /* An item has at least three bytes: a longer list than can be there is a broken answer. */
        if (items > a->items_bytes.len / 3)
            htc_reader_fail(r);
        else
            a->items = (uint32_t)items;
    }
    if (fields & HTC__KV_HAS_OLD)
        a->existed = htc_get_u8(r);
    if (fields & HTC__KV_HAS_TTL)
        a->ttl = htc_get_varint(r);
    if (fields & HTC__KV_HAS_CONTEXT) {
        a->member = htc_get_u64(r);
        a->context = htc_get_bytes(r);
    }
    if (fields > 127 || a->existed > 1)
        htc_reader_fail(r);
}

void htc__kv_item_write(htc_buf *b, htc_bytes key, uint64_t version, htc_bytes value)
{
    htc_put_bytes(b, key);
    htc_put_varint(b, version);
    htc_put_bytes(b, value);
}

htc_status htc_kv_result_item(const htc_kv_result *result, size_t *at, htc_kv_item *item)
{
    if (!result || !at || !item || *at > result->items_bytes.len)
        return HTC_EINVAL;
    if (*at == result->items_bytes.len)
        return HTC_ENOTFOUND;
    size_t      left = result->items_bytes.len - *at;
    htc_reader  r = htc_reader_of((htc_bytes){ (const uint8_t *)result->items_bytes.data + *at, left });
    htc_kv_item found;
    found.key = htc_get_bytes(&r);
    found.version = htc_get_varint(&r);
    found.value = htc_get_bytes(&r);
    if (r.status != HTC_OK)
        return HTC_EPROTO;
    *item = found;
    *at += left - htc_reader_left(&r);
    return HTC_OK;
}
