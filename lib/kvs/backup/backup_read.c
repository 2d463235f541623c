/* A backup that is read as its bytes come. Nothing is believed that the checksum of an entry does not cover, but its lengths, which are
 * bounded. */
#include "kvs/backup/backup.h"

#include <string.h>

#include "core/codec.h"

typedef struct entry {
    uint32_t  key_len, value_len, kind;
    uint64_t  version;
    htc_ns    ttl;
    htc_bytes bytes; /* key and value */
    size_t    len;   /* of all of it */
} entry;

static htc_status wrong(htc_kv_backup_reader *r, htc_status status, uint64_t at, const char *text)
{
    r->wrong = text;
    r->wrong_at = at;
    return r->status = status;
}

static htc_status more(htc_kv_backup_reader *r, size_t need)
{
    r->need = need;
    return HTC_AGAIN;
}

/* Which format it has, by its first bytes. */
static htc_status read_magic(htc_kv_backup_reader *r, htc_bytes in, int last)
{
    const size_t n = sizeof HTC__KV_BACKUP_MAGIC - 1;
    if (in.len < n)
        return last ? wrong(r, HTC_EINPUT, 0, "this is no backup") : more(r, n);
    if (memcmp(in.data, HTC__KV_BACKUP_MAGIC, n) == 0)
        r->format = 2;
    else if (memcmp(in.data, HTC__KV_BACKUP_MAGIC_1, n) == 0)
        r->format = 1;
    else if (memcmp(in.data, HTC__KV_BACKUP_MAGIC, HTC__KV_BACKUP_FAMILY) == 0)
        return wrong(r, HTC_EFORMAT, 0, "this is a backup of another version");
    else
        return wrong(r, HTC_EINPUT, 0, "this is no backup");
    return HTC_OK;
}

/* The entry that begins `skip` bytes behind the first of in, which lies at r->at. */
static htc_status read_entry(htc_kv_backup_reader *r, htc_bytes in, size_t skip, int last, entry *e)
{
    size_t     head = r->format == 1 ? HTC__KV_BACKUP_HEAD_1 : HTC__KV_BACKUP_HEAD;
    uint64_t   at = r->at + skip;
    htc_reader from = htc_reader_of(in), sum;
    if (in.len < skip + head)
        return last ? wrong(r, HTC_ECORRUPT, at, "it ends too early") : more(r, skip + head);
    (void)htc_get_raw(&from, skip);
    *e = (entry){ .key_len = htc_get_u32(&from) };
    e->value_len = htc_get_u32(&from);
    e->version = htc_get_u64(&from);
    e->ttl = r->format == 1 ? 0 : htc_get_u64(&from);
    e->kind = r->format == 1 ? HTC__KV_BACKUP_KEY : htc_get_u8(&from);
    if (e->key_len > HTC_KV_KEY_MAX || e->value_len > HTC_KV_VALUE_MAX || e->kind > HTC__KV_BACKUP_SIBLING)
        return wrong(r, HTC_ECORRUPT, at, "it is damaged");
    e->len = head + e->key_len + e->value_len + HTC__KV_BACKUP_SUM;
    if (in.len < skip + e->len)
        return last ? wrong(r, HTC_ECORRUPT, at, "it ends too early") : more(r, skip + e->len);
    const uint8_t *begin = (const uint8_t *)in.data + skip;
    e->bytes = (htc_bytes){ begin + head, (size_t)e->key_len + e->value_len };
    sum = htc_reader_of((htc_bytes){ begin + e->len - HTC__KV_BACKUP_SUM, HTC__KV_BACKUP_SUM });
    if (htc_get_u64(&sum) != htc_hash64((htc_bytes){ begin, e->len - HTC__KV_BACKUP_SUM }, 0))
        return wrong(r, HTC_ECORRUPT, at, "it is damaged");
    return HTC_OK;
}

/* The last entry: all items are there, and it is all there is. */
static htc_status read_end(htc_kv_backup_reader *r, const entry *e, size_t skip, size_t len, int last)
{
    uint64_t at = r->at + skip;
    if (e->value_len || e->ttl || e->kind != HTC__KV_BACKUP_KEY)
        return wrong(r, HTC_ECORRUPT, at, "it is damaged");
    if (e->version != r->items || len > skip + e->len)
        return wrong(r, HTC_ECORRUPT, at, "keys are missing or added");
    if (!last)
        return more(r, len + 1);
    r->taken = len;
    r->at += len;
    return r->status = HTC_EMPTY;
}

static htc_status read_item(htc_kv_backup_reader *r, const entry *e, uint64_t at, htc_kv_backup_item *item)
{
    htc_kv_backup_item found = { .size = item->size, .version = e->version, .ttl = e->ttl, .leased = e->kind == HTC__KV_BACKUP_LEASED };
    const uint8_t     *bytes = e->bytes.data;
    found.key = (htc_bytes){ bytes, e->key_len };
    found.value = (htc_bytes){ bytes + e->key_len, e->value_len };
    if (e->kind == HTC__KV_BACKUP_SIBLING) {
        const uint8_t *end = memchr(bytes, 0, e->key_len);
        size_t         n = end ? (size_t)(end - bytes) : 0;
        if (n == 0 || n > HTC_KV_SPACE_MAX || e->key_len == n + 1)
            return wrong(r, HTC_ECORRUPT, at, "it has a key in no namespace");
        found.space = (htc_bytes){ bytes, n };
        found.key = (htc_bytes){ end + 1, e->key_len - n - 1 };
    }
    memcpy(item, &found, item->size < sizeof found ? item->size : sizeof found);
    return HTC_OK;
}

htc_status htc_kv_backup_read(htc_kv_backup_reader *reader, htc_bytes in, int last, htc_kv_backup_item *item)
{
    htc_kv_backup_reader *r = reader;
    entry                 e;
    if (!r || r->size < HTC__KV_BACKUP_READER_MIN || !item || item->size < HTC__KV_BACKUP_ITEM_MIN || (in.len && !in.data))
        return HTC_EINVAL;
    r->taken = r->need = 0;
    if (r->status != HTC_OK)
        return r->status;
    size_t     skip = r->at == 0 ? sizeof HTC__KV_BACKUP_MAGIC - 1 : 0;
    htc_status s = skip ? read_magic(r, in, last) : HTC_OK;
    if (s == HTC_OK)
        s = read_entry(r, in, skip, last, &e);
    if (s != HTC_OK)
        return s;
    if (e.key_len == 0)
        return read_end(r, &e, skip, in.len, last);
    s = read_item(r, &e, r->at + skip, item);
    if (s != HTC_OK)
        return s;
    r->items++;
    r->taken = skip + e.len;
    r->at += r->taken;
    return HTC_OK;
}
