#include "kvs/peer/eventual_wire.h"

void htc__kv_pass_write(htc_buf *b, const htc__kv_pass *p)
{
    htc_put_u64(b, p->tag);
    htc_put_u64(b, p->stamp.client);
    htc_put_varint(b, p->stamp.sequence);
    htc__kv_op_write(b, &p->request);
}

htc_status htc__kv_pass_read(htc_bytes bytes, htc__kv_pass *p)
{
    htc_reader r = htc_reader_of(bytes);
    *p = (htc__kv_pass){ .tag = htc_get_u64(&r) };
    p->stamp.client = htc_get_u64(&r);
    p->stamp.sequence = htc_get_varint(&r);
    if (htc__kv_op_unknown(r))
        return HTC_EUNSUPPORTED;
    htc__kv_op_read(&r, &p->request);
    if (p->request.space.len == 0)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc__kv_passed_write(htc_buf *b, uint64_t tag, const htc_kv_result *result)
{
    htc_put_u64(b, tag);
    htc__kv_result_write(b, result);
}

htc_status htc__kv_passed_read(htc_bytes bytes, uint64_t *tag, htc_kv_result *result)
{
    htc_reader r = htc_reader_of(bytes);
    *tag = htc_get_u64(&r);
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result) };
    htc__kv_result_read(&r, result);
    return htc_reader_done(&r);
}

/* ---------------------------------------------------------------- copies */

int htc__kv_space_key_fits(htc_bytes key)
{
    const uint8_t *end = key.len ? memchr(key.data, 0, key.len) : NULL;
    size_t         name = end ? (size_t)(end - (const uint8_t *)key.data) : 0;
    return end && key.len <= HTC_KV_KEY_MAX && name + 1 < key.len &&
           htc__kv_space_name_fits((htc_bytes){ key.data, name });
}

enum { HAS_DIGEST = 1, HAS_FLAG = 2, HAS_KEY = 4, HAS_STATE = 8, HAS_EPOCH = 16 };

static unsigned parts_of(uint8_t kind)
{
    switch (kind) {
    case HTC__KV_ITEM_FETCH:
        return HAS_EPOCH | HAS_DIGEST | HAS_KEY;
    case HTC__KV_ITEM_FETCHED:
        return HAS_FLAG | HAS_STATE;
    case HTC__KV_ITEM_STORE:
        return HAS_EPOCH | HAS_KEY | HAS_STATE;
    case HTC__KV_ITEM_COLLECT:
        return HAS_EPOCH | HAS_FLAG | HAS_DIGEST | HAS_KEY;
    case HTC__KV_ITEM_COLLECTED:
        return HAS_FLAG;
    default: /* STORED */
        return 0;
    }
}

void htc__kv_copy_write(htc_buf *b, uint8_t kind, const htc__kv_copy *c)
{
    unsigned parts = parts_of(kind);
    htc_put_u64(b, c->tag);
    if (parts & HAS_EPOCH)
        htc_put_varint(b, c->epoch);
    if (parts & HAS_FLAG)
        htc_put_u8(b, c->flag);
    if (parts & HAS_DIGEST)
        htc_put_u64(b, c->digest);
    if (parts & HAS_KEY)
        htc_put_bytes(b, c->key);
    if (parts & HAS_STATE)
        htc_put_raw(b, c->state);
}

htc_status htc__kv_copy_read(uint8_t kind, htc_bytes bytes, htc__kv_copy *c)
{
    unsigned   parts = parts_of(kind);
    htc_reader r = htc_reader_of(bytes);
    *c = (htc__kv_copy){ .tag = htc_get_u64(&r) };
    if (parts & HAS_EPOCH)
        c->epoch = htc_get_varint(&r);
    if (parts & HAS_FLAG)
        c->flag = htc_get_u8(&r);
    if (parts & HAS_DIGEST)
        c->digest = htc_get_u64(&r);
    if (parts & HAS_KEY)
        c->key = htc_get_bytes(&r);
    if (parts & HAS_STATE)
        c->state = htc_get_raw(&r, htc_reader_left(&r));
    if (c->flag > 1 || (parts & HAS_KEY && !htc__kv_space_key_fits(c->key)) ||
        (kind == HTC__KV_ITEM_FETCHED && c->flag && c->state.len))
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

/* ---------------------------------------------------------------- comparing */

void htc__kv_tree_write(htc_buf *b, const htc__kv_tree *t)
{
    htc_put_u32(b, t->bucket);
    htc_put_u8(b, t->level);
    if (t->level == 2)
        htc_put_u16(b, t->branches);
    for (uint32_t i = 0; i < (t->level == 0 ? 1 : t->level == 1 ? HTC__DIGEST_BRANCHES : HTC__DIGEST_LEAVES); i++)
        if (t->level < 2 || t->branches >> i / HTC__KV_TREE_FAN & 1)
            htc_put_u64(b, t->sum[i]);
}

htc_status htc__kv_tree_read(htc_bytes bytes, htc__kv_tree *t)
{
    htc_reader r = htc_reader_of(bytes);
    t->bucket = htc_get_u32(&r);
    t->level = htc_get_u8(&r);
    t->branches = t->level == 2 ? htc_get_u16(&r) : 0;
    if (t->level > 2)
        htc_reader_fail(&r);
    for (uint32_t i = 0; i < (t->level == 0 ? 1 : t->level == 1 ? HTC__DIGEST_BRANCHES : HTC__DIGEST_LEAVES); i++)
        t->sum[i] = t->level < 2 || t->branches >> i / HTC__KV_TREE_FAN & 1 ? htc_get_u64(&r) : 0;
    return htc_reader_done(&r);
}

void htc__kv_summed_begin(htc_buf *b, uint32_t bucket, const htc__kv_leaves *leaves)
{
    htc_put_u32(b, bucket);
    htc_put_raw(b, (htc_bytes){ leaves->bit, sizeof leaves->bit });
}

void htc__kv_summed_write(htc_buf *b, const htc__kv_summed *entry)
{
    htc_put_bytes(b, entry->key);
    htc_put_u64(b, entry->digest);
}

htc_status htc__kv_summed_read(htc_reader *r, uint32_t *bucket, htc__kv_leaves *leaves)
{
    *bucket = htc_get_u32(r);
    htc_bytes bits = htc_get_raw(r, sizeof leaves->bit);
    if (r->status == HTC_OK)
        memcpy(leaves->bit, bits.data, sizeof leaves->bit);
    return r->status;
}

int htc__kv_summed_next(htc_reader *r, htc__kv_summed *entry)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    entry->key = htc_get_bytes(r);
    entry->digest = htc_get_u64(r);
    if (!htc__kv_space_key_fits(entry->key))
        htc_reader_fail(r);
    return r->status == HTC_OK;
}

int htc__kv_pulled_next(htc_reader *r, htc_bytes *key)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *key = htc_get_bytes(r);
    if (!htc__kv_space_key_fits(*key))
        htc_reader_fail(r);
    return r->status == HTC_OK;
}
