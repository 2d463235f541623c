#include "kvs/storage/log_format.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/kv_engine.h"

static uint8_t *put(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

static uint64_t get(const uint8_t **p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i > 0; i--)
        v = v << 8 | (*p)[i - 1];
    *p += n;
    return v;
}

/* ---------------------------------------------------------------- superblock */

#define SUPER_MAGIC 0x4c435448u /* "HTCL" */
#define SUPER_SUM   (HTC__LOG_SECTOR - 8)

static uint64_t super_sum(const uint8_t *at)
{
    return htc_hash64((htc_bytes){ at, SUPER_SUM }, SUPER_MAGIC);
}

void htc__log_super_write(const htc__log_super *s, uint8_t out[HTC_DISK_SECTOR])
{
    const uint64_t fields[] = { s->generation, s->member, s->seed, s->epoch, s->first, s->first_sequence };
    uint8_t       *p = out;
    memset(out, 0, HTC__LOG_SECTOR);
    p = put(put(p, SUPER_MAGIC, 4), HTC__LOG_FORMAT, 4);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        p = put(p, fields[i], 8);
    memcpy(p, s->boot, HTC__LOG_BOOT);
    memcpy(p + HTC__LOG_BOOT, s->area, HTC__LOG_AREA);
    p = put(put(p + HTC__LOG_BOOT + HTC__LOG_AREA, s->durability, 4), s->durable, 8);
    put(put(put(p, s->last, 8), s->last_length, 8), s->flags, 4);
    put(out + SUPER_SUM, super_sum(out), 8);
}

static int all_zero(htc_bytes bytes)
{
    const uint8_t *p = bytes.data;
    for (size_t i = 0; i < bytes.len; i++)
        if (p[i])
            return 0;
    return 1;
}

htc_status htc__log_super_read(htc_bytes bytes, htc__log_super *s, uint32_t *format)
{
    const uint8_t *p = bytes.data, *sum = p + SUPER_SUM;
    if (all_zero(bytes))
        return HTC_ENOTFOUND;
    if (bytes.len < HTC__LOG_SECTOR || get(&p, 4) != SUPER_MAGIC)
        return HTC_ECORRUPT;
    *format = (uint32_t)get(&p, 4);
    if (get(&sum, 8) != super_sum(bytes.data))
        return HTC_ECORRUPT;
    if (*format != HTC__LOG_FORMAT)
        return HTC_EFORMAT;
    uint64_t *fields[] = { &s->generation, &s->member, &s->seed, &s->epoch, &s->first, &s->first_sequence };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = get(&p, 8);
    memcpy(s->boot, p, HTC__LOG_BOOT);
    memcpy(s->area, p + HTC__LOG_BOOT, HTC__LOG_AREA);
    p += HTC__LOG_BOOT + HTC__LOG_AREA;
    s->durability = (uint32_t)get(&p, 4);
    s->durable = get(&p, 8);
    s->last = get(&p, 8);
    s->last_length = get(&p, 8);
    s->flags = (uint32_t)get(&p, 4);
    return s->generation && s->first && s->first_sequence ? HTC_OK : HTC_ECORRUPT;
}

/* ---------------------------------------------------------------- frames */

#define FRAME_MAGIC 0x46435448u /* "HTCF" */
#define FRAME_SUM   (HTC__LOG_HEAD - 8)

static uint64_t frame_sum(const uint8_t *at, uint64_t member)
{
    return htc_hash64((htc_bytes){ at, FRAME_SUM }, member ^ FRAME_MAGIC);
}

static uint64_t payload_sum(uint64_t sequence, htc_bytes payload)
{
    return htc_hash64(payload, sequence);
}

void htc__log_frame_seal(uint8_t *at, htc__log_frame *f, uint64_t member)
{
    f->payload = payload_sum(f->sequence, (htc_bytes){ at + HTC__LOG_HEAD, f->length });
    uint8_t *p = put(put(put(put(at, FRAME_MAGIC, 4), f->type, 4), f->length, 4), f->count, 4);
    p = put(put(put(put(put(p, f->epoch, 8), f->sequence, 8), f->synced, 8), f->previous, 8), f->payload, 8);
    f->sum = frame_sum(at, member);
    put(p, f->sum, 8);
}

int htc__log_frame_read(const uint8_t *at, uint64_t member, htc__log_frame *f)
{
    const uint8_t *p = at, *sum = at + FRAME_SUM;
    if (get(&p, 4) != FRAME_MAGIC || get(&sum, 8) != frame_sum(at, member))
        return 0;
    f->type = (uint32_t)get(&p, 4);
    f->length = (uint32_t)get(&p, 4);
    f->count = (uint32_t)get(&p, 4);
    f->epoch = get(&p, 8);
    f->sequence = get(&p, 8);
    f->synced = get(&p, 8);
    f->previous = get(&p, 8);
    f->payload = get(&p, 8);
    f->sum = get(&p, 8);
    return f->sequence > 0 && f->synced < f->sequence &&
           (f->type == HTC__LOG_BATCH || (f->type == HTC__LOG_SEGMENT && f->length == HTC__LOG_SEGMENT_PAYLOAD));
}

int htc__log_frame_whole(const htc__log_frame *f, htc_bytes payload)
{
    return payload.len == f->length && payload_sum(f->sequence, payload) == f->payload;
}

void htc__log_segment_write(const htc__log_segment *s, uint8_t out[HTC__LOG_SEGMENT_PAYLOAD])
{
    put(put(put(put(put(out, s->number, 8), s->before, 8), s->before_end, 8), s->length, 8), s->member, 8);
}

void htc__log_segment_read(const uint8_t in[HTC__LOG_SEGMENT_PAYLOAD], htc__log_segment *s)
{
    const uint8_t *p = in;
    s->number = get(&p, 8);
    s->before = get(&p, 8);
    s->before_end = get(&p, 8);
    s->length = get(&p, 8);
    s->member = get(&p, 8);
}

/* ---------------------------------------------------------------- records */

/* u16 length of the key and above it the kind, u32 length of the value, u32 checksum of these and the key, u64 checksum of
 * the value; then key and value. So a damaged value has a key that can be believed. */
#define KIND_SHIFT  12
#define HEAD_SUMMED 6

static uint32_t head_sum(const uint8_t *head, htc_bytes key)
{
    const uint8_t *p = head;
    return (uint32_t)htc_hash64(key, get(&p, HEAD_SUMMED) ^ FRAME_MAGIC);
}

void htc__log_record_put(htc_buf *b, uint32_t kind, htc_bytes key, htc_bytes value)
{
    uint8_t *p = htc_buf_extend(b, htc__log_record_size(key, value));
    if (!p)
        return;
    uint8_t *end = put(put(p, key.len | (uint64_t)kind << KIND_SHIFT, 2), value.len, 4);
    end = put(put(end, head_sum(p, key), 4), htc_hash64(value, 0), 8);
    memcpy(end, key.data, key.len);
    if (value.len)
        memcpy(end + key.len, value.data, value.len);
}

int htc__log_record_next(htc_bytes payload, size_t *at, htc__log_record *r)
{
    size_t left = payload.len - *at;
    if (left == 0)
        return 0;
    if (left < HTC__LOG_RECORD_HEAD)
        return -1;
    const uint8_t *head = (const uint8_t *)payload.data + *at, *p = head;
    uint32_t       first = (uint32_t)get(&p, 2);
    uint64_t       value_len = get(&p, 4);
    uint32_t       sum = (uint32_t)get(&p, 4);
    uint64_t       value_sum = get(&p, 8);
    htc_bytes      key = { p, first & ((1u << KIND_SHIFT) - 1) };
    left -= HTC__LOG_RECORD_HEAD;
    if (key.len == 0 || key.len > HTC_KV_ENGINE_KEY_MAX || key.len > left || value_len > left - key.len ||
        first >> KIND_SHIFT > HTC__LOG_LOST || head_sum(head, key) != sum)
        return -1;
    *r = (htc__log_record){ .kind = first >> KIND_SHIFT, .key = key, .value = { p + key.len, (size_t)value_len } };
    r->damaged = htc_hash64(r->value, 0) != value_sum;
    *at += HTC__LOG_RECORD_HEAD + key.len + (size_t)value_len;
    return 1;
}

/* ---------------------------------------------------------------- names */

void htc__log_super_name(int which, char out[HTC__LOG_NAME])
{
    snprintf(out, HTC__LOG_NAME, "super.%d", which & 1);
}

void htc__log_segment_name(uint64_t number, char out[HTC__LOG_NAME])
{
    snprintf(out, HTC__LOG_NAME, "log-%016llx", (unsigned long long)number);
}

uint64_t htc__log_segment_number(htc_bytes name)
{
    const char *p = name.data;
    uint64_t    n = 0;
    if (name.len != 20 || memcmp(p, "log-", 4) != 0)
        return 0;
    for (size_t i = 4; i < 20; i++) {
        int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10 : -1;
        if (digit < 0)
            return 0;
        n = n << 4 | (uint64_t)digit;
    }
    return n;
}
