#include "kvs/wire/kv_members.h"

#include <string.h>

static void put_ids(htc_buf *b, uint32_t n, const uint64_t *ids)
{
    htc_put_u8(b, (uint8_t)n);
    for (uint32_t i = 0; i < n; i++)
        htc_put_u64(b, ids[i]);
}

static uint32_t get_ids(htc_reader *r, uint64_t *ids)
{
    uint32_t n = htc_get_u8(r);
    if (n > HTC_RING_OWNERS_MAX)
        htc_reader_fail(r);
    for (uint32_t i = 0; i < n && r->status == HTC_OK; i++)
        ids[i] = htc_get_u64(r);
    return n;
}

static uint32_t get_u32(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v > UINT32_MAX)
        htc_reader_fail(r);
    return (uint32_t)v;
}

static uint32_t get_up_to(htc_reader *r, uint32_t max)
{
    uint32_t v = htc_get_u8(r);
    if (v > max)
        htc_reader_fail(r);
    return v;
}

void htc__kv_members_member(htc_buf *b, const htc_kv_member_shown *m)
{
    htc_put_u64(b, m->id);
    htc_put_u64(b, m->process);
    htc_put_u64(b, m->domain);
    htc_put_varint(b, m->weight);
    htc_put_u8(b, (uint8_t)m->state);
    htc_put_u8(b, (uint8_t)m->heard);
    htc_put_varint(b, m->owned);
    htc_put_varint(b, m->first);
    htc_put_varint(b, m->planned);
    htc_put_bytes(b, m->address);
}

void htc__kv_members_bucket(htc_buf *b, const htc_kv_bucket_shown *bucket)
{
    htc_put_varint(b, bucket->epoch);
    put_ids(b, bucket->owners, bucket->owner);
}

void htc__kv_members_write(htc_buf *b, const htc_kv_members *m)
{
    htc_put_u8(b, HTC__KV_MEMBERS_FORMAT);
    htc_put_varint(b, m->version);
    htc_put_varint(b, m->epoch);
    htc_put_u64(b, m->asked);
    htc_put_varint(b, m->buckets);
    htc_put_varint(b, m->copies);
    htc_put_u8(b, (uint8_t)m->change);
    htc_put_u8(b, (uint8_t)m->back);
    htc_put_varint(b, m->weight);
    htc_put_u64(b, m->comer);
    htc_put_u64(b, m->goer);
    htc_put_varint(b, m->moved);
    htc_put_varint(b, m->to_move);
    htc_put_u64(b, m->driver);
    htc_put_u8(b, (uint8_t)m->settles);
    put_ids(b, m->keepers, m->keeper);
    htc_put_varint(b, m->count);
    htc_put_bytes(b, m->members_bytes);
    htc_put_bytes(b, m->buckets_bytes);
    htc_put_varint(b, m->rate);
}

htc_status htc_kv_members_read(htc_bytes value, htc_kv_members *members)
{
    htc_reader     r = htc_reader_of(value);
    htc_kv_members m = { .size = 0 };
    if (!members || members->size == 0)
        return HTC_EINVAL;
    if (htc_get_u8(&r) != HTC__KV_MEMBERS_FORMAT)
        return r.status == HTC_OK ? HTC_EVERSION : HTC_EPROTO;
    m.version = htc_get_varint(&r);
    m.epoch = htc_get_varint(&r);
    m.asked = htc_get_u64(&r);
    m.buckets = get_u32(&r);
    m.copies = get_u32(&r);
    m.change = get_up_to(&r, HTC_KV_CHANGE_RENEW);
    m.back = get_up_to(&r, 1);
    m.weight = get_u32(&r);
    m.comer = htc_get_u64(&r);
    m.goer = htc_get_u64(&r);
    m.moved = get_u32(&r);
    m.to_move = get_u32(&r);
    m.driver = htc_get_u64(&r);
    m.settles = get_up_to(&r, 1);
    m.keepers = get_ids(&r, m.keeper);
    m.count = get_u32(&r);
    m.members_bytes = htc_get_bytes(&r);
    m.buckets_bytes = htc_get_bytes(&r);
    m.rate = get_u32(&r);
    if (htc_reader_done(&r) != HTC_OK)
        return HTC_EPROTO;
    m.size = members->size;
    memcpy(members, &m, members->size < sizeof m ? members->size : sizeof m);
    return HTC_OK;
}

/* What is behind `at`; HTC_ENOTFOUND: nothing. */
static htc_status reader_at(const htc_kv_members *members, htc_bytes bytes, const size_t *at, htc_reader *r)
{
    if (!members || members->size < sizeof *members || !at || *at > bytes.len)
        return HTC_EINVAL;
    *r = htc_reader_of((htc_bytes){ (const uint8_t *)bytes.data + *at, bytes.len - *at });
    return htc_reader_left(r) ? HTC_OK : HTC_ENOTFOUND;
}

htc_status htc_kv_members_next(const htc_kv_members *members, size_t *at, htc_kv_member_shown *member)
{
    htc_bytes           none = { NULL, 0 };
    htc_reader          r;
    htc_kv_member_shown m = { .size = 0 };
    htc_status          status = reader_at(members, members ? members->members_bytes : none, at, &r);
    if (status != HTC_OK || !member || member->size == 0)
        return status != HTC_OK ? status : HTC_EINVAL;
    m.id = htc_get_u64(&r);
    m.process = htc_get_u64(&r);
    m.domain = htc_get_u64(&r);
    m.weight = get_u32(&r);
    m.state = get_up_to(&r, HTC_KV_MEMBER_GOING);
    m.heard = get_up_to(&r, 1);
    m.owned = get_u32(&r);
    m.first = get_u32(&r);
    m.planned = get_u32(&r);
    m.address = htc_get_bytes(&r);
    if (r.status != HTC_OK)
        return HTC_EPROTO;
    *at = members->members_bytes.len - htc_reader_left(&r);
    m.size = member->size;
    memcpy(member, &m, member->size < sizeof m ? member->size : sizeof m);
    return HTC_OK;
}

htc_status htc_kv_members_bucket(const htc_kv_members *members, size_t *at, htc_kv_bucket_shown *bucket)
{
    htc_bytes           none = { NULL, 0 };
    htc_reader          r;
    htc_kv_bucket_shown b = { .size = 0 };
    htc_status          status = reader_at(members, members ? members->buckets_bytes : none, at, &r);
    if (status != HTC_OK || !bucket || bucket->size == 0)
        return status != HTC_OK ? status : HTC_EINVAL;
    b.epoch = htc_get_varint(&r);
    b.owners = get_ids(&r, b.owner);
    if (r.status != HTC_OK)
        return HTC_EPROTO;
    *at = members->buckets_bytes.len - htc_reader_left(&r);
    b.size = bucket->size;
    memcpy(bucket, &b, bucket->size < sizeof b ? bucket->size : sizeof b);
    return HTC_OK;
}
