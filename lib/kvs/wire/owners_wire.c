#include "kvs/wire/owners_wire.h"

#include <string.h>

/* A member takes at least so many bytes, and a bucket that has changed. */
#define MEMBER_BYTES 9
#define BUCKET_BYTES 2

void htc__kv_welcome(htc_buf *b, uint64_t id, uint16_t version, uint64_t have, uint64_t member)
{
    htc_wire_welcome(b, id, version);
    if (!have || version < HTC_WIRE_VERSION_OWNERS)
        return;
    htc_put_varint(b, have);
    htc_put_u64(b, member);
}

htc_status htc__kv_welcome_read(htc_reader r, uint16_t highest, uint64_t *have, uint64_t *member)
{
    uint16_t   version;
    htc_status status = htc_wire_read_welcome(&r, highest, &version);
    *have = *member = 0;
    if (status != HTC_OK || version < HTC_WIRE_VERSION_OWNERS || htc_reader_left(&r) == 0)
        return status;
    uint64_t said = htc_get_varint(&r), id = htc_get_u64(&r);
    if (r.status != HTC_OK || id == 0)
        return HTC_OK;
    *have = said;
    *member = id;
    return HTC_OK;
}

void htc__kv_owners_ask(htc_buf *b, uint64_t id, uint64_t have)
{
    htc_wire_begin(b, HTC_WIRE_KV_OWNERS_ASK, id);
    htc_put_varint(b, have);
}

void htc__kv_owners_begin(htc_buf *b, uint64_t id, const htc__kv_owners_head *head)
{
    htc_wire_begin(b, HTC_WIRE_KV_OWNERS, id);
    htc_put_u8(b, HTC__KV_OWNERS_FORM);
    htc_put_varint(b, head->have);
    htc_put_u64(b, head->seed);
    htc_put_u8(b, head->bits);
    htc_put_varint(b, head->members);
}

void htc__kv_owners_member_write(htc_buf *b, const htc__kv_owners_member *member)
{
    htc_put_u64(b, member->id);
    htc_put_bytes(b, member->address);
}

void htc__kv_owners_buckets(htc_buf *b, int whole, size_t count)
{
    htc_put_u8(b, whole != 0);
    if (!whole)
        htc_put_varint(b, count);
}

void htc__kv_owners_bucket_write(htc_buf *b, int whole, uint32_t between, const htc__kv_owners_bucket *bucket)
{
    if (!whole)
        htc_put_varint(b, between);
    htc_put_u8(b, (uint8_t)bucket->n);
    for (uint32_t i = 0; i < bucket->n; i++)
        htc_put_varint(b, bucket->member[i]);
}

/* ---------------------------------------------------------------- reading */

static void read_head(htc_reader *r, htc__kv_owners_head *head)
{
    uint8_t form = htc_get_u8(r);
    head->have = htc_get_varint(r);
    head->seed = htc_get_u64(r);
    head->bits = htc_get_u8(r);
    head->members = htc_get_count(r, MEMBER_BYTES);
    if (form != HTC__KV_OWNERS_FORM || head->bits < 1 || head->bits > HTC__KV_MAP_BITS || head->members > HTC__KV_MAP_MEMBERS ||
        head->have == 0)
        htc_reader_fail(r);
}

void htc__kv_owners_member_read(htc__kv_owners_at *at, htc__kv_owners_member *member)
{
    member->id = htc_get_u64(&at->r);
    member->address = htc_get_bytes(&at->r);
    if (member->id == 0 || member->address.len >= HTC__KV_MAP_ADDRESS ||
        (member->address.len && memchr(member->address.data, 0, member->address.len)))
        htc_reader_fail(&at->r);
}

static void begin_buckets(htc__kv_owners_at *at)
{
    uint8_t whole = htc_get_u8(&at->r);
    at->whole = whole == 1;
    if (whole > 1)
        htc_reader_fail(&at->r);
    at->left = at->whole ? at->buckets : htc_get_count(&at->r, BUCKET_BYTES);
    at->next = 0;
}

static void skip_members(htc__kv_owners_at *at)
{
    htc__kv_owners_member member;
    for (size_t i = 0; i < at->members && at->r.status == HTC_OK; i++)
        htc__kv_owners_member_read(at, &member);
}

/* The members come first, and may be read any time: this one stands at them, the one for buckets is made when they are over. */
void htc__kv_owners_read(htc_reader r, htc__kv_owners_head *head, htc__kv_owners_at *at)
{
    *at = (htc__kv_owners_at){ .r = r, .whole = -1 };
    read_head(&at->r, head);
    at->members = at->r.status == HTC_OK ? head->members : 0;
    at->buckets = at->r.status == HTC_OK ? UINT32_C(1) << head->bits : 0;
}

int htc__kv_owners_bucket_read(htc__kv_owners_at *at, htc__kv_owners_bucket *bucket)
{
    if (at->whole < 0)
        begin_buckets(at);
    if (at->r.status != HTC_OK || at->left == 0)
        return 0;
    at->left--;
    uint64_t number = at->whole ? at->next : at->next + htc_get_varint(&at->r);
    *bucket = (htc__kv_owners_bucket){ .n = htc_get_u8(&at->r) };
    if (number >= at->buckets || number < at->next || bucket->n > HTC_RING_OWNERS_MAX) {
        htc_reader_fail(&at->r);
        return 0;
    }
    at->next = number + 1;
    bucket->number = (uint32_t)number;
    for (uint32_t i = 0; i < bucket->n; i++) {
        uint64_t member = htc_get_varint(&at->r);
        if (member >= at->members)
            htc_reader_fail(&at->r);
        bucket->member[i] = (uint32_t)member;
    }
    return at->r.status == HTC_OK;
}

htc_status htc__kv_owners_check(htc_reader r)
{
    htc__kv_owners_head   head;
    htc__kv_owners_at     at;
    htc__kv_owners_bucket bucket;
    htc__kv_owners_read(r, &head, &at);
    skip_members(&at);
    while (htc__kv_owners_bucket_read(&at, &bucket)) {
    }
    return htc_reader_done(&at.r) == HTC_OK ? HTC_OK : HTC_EPROTO;
}
