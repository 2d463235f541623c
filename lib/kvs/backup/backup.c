/* The form of a backup: doc/protocol.md. Its reader is in backup_read.c. */
#include "kvs/backup/backup.h"

#include <string.h>

#include "core/codec.h"
#include "core/util.h"

static int counts_fit(const htc_kv_backup_counts *c)
{
    return c && c->size >= HTC__KV_BACKUP_COUNTS_MIN;
}

static void put_entry(htc_buf *out, const htc_kv_backup_item *item, uint32_t kind)
{
    size_t before = out->len, key_len = (item->space.len ? item->space.len + 1 : 0) + item->key.len;
    size_t len = HTC__KV_BACKUP_HEAD + key_len + item->value.len;
    if (!htc_buf_extend(out, len + HTC__KV_BACKUP_SUM)) /* all of it, or nothing */
        return;
    out->len = before;
    htc_put_u32(out, (uint32_t)key_len);
    htc_put_u32(out, (uint32_t)item->value.len);
    htc_put_u64(out, item->version);
    htc_put_u64(out, item->ttl);
    htc_put_u8(out, (uint8_t)kind);
    htc_put_raw(out, item->space);
    if (item->space.len)
        htc_put_u8(out, 0);
    htc_put_raw(out, item->key);
    htc_put_raw(out, item->value);
    htc_put_u64(out, htc_hash64((htc_bytes){ out->data + before, len }, 0));
}

static htc_status check_item(const htc_kv_backup_item *it)
{
    size_t before = it->space.len ? it->space.len + 1 : 0;
    if (it->key.len == 0 || !it->key.data || (it->space.len && !it->space.data) || (it->value.len && !it->value.data))
        return HTC_EINVAL;
    if (it->space.len > HTC_KV_SPACE_MAX || it->key.len > HTC_KV_KEY_MAX - before || it->value.len > HTC_KV_VALUE_MAX)
        return HTC_ETOOBIG;
    if (before && memchr(it->space.data, 0, it->space.len))
        return HTC_EINVAL;
    return it->leased > 1 || (it->leased && before) || it->reserved ? HTC_EINVAL : HTC_OK;
}

htc_status htc_kv_backup_begin(htc_buf *out, htc_kv_backup_counts *counts)
{
    if (!out || !counts_fit(counts))
        return HTC_EINVAL;
    counts->items = counts->leased = counts->with_ttl = counts->siblings = 0;
    htc_put_raw(out, htc_bytes_of(HTC__KV_BACKUP_MAGIC));
    return out->status;
}

htc_status htc_kv_backup_put(htc_buf *out, htc_kv_backup_counts *counts, const htc_kv_backup_item *item)
{
    htc_kv_backup_item it;
    if (!out || !counts_fit(counts) || !item)
        return HTC_EINVAL;
    htc_status s = htc__options_copy(&it, sizeof it, item, item->size, HTC__KV_BACKUP_ITEM_MIN);
    if (s == HTC_OK)
        s = check_item(&it);
    if (s != HTC_OK)
        return s;
    put_entry(out, &it, it.space.len ? HTC__KV_BACKUP_SIBLING : it.leased ? HTC__KV_BACKUP_LEASED : HTC__KV_BACKUP_KEY);
    if (out->status != HTC_OK)
        return out->status;
    counts->items++;
    counts->leased += it.leased;
    counts->with_ttl += it.ttl != 0;
    counts->siblings += it.space.len != 0;
    return HTC_OK;
}

htc_status htc_kv_backup_end(htc_buf *out, const htc_kv_backup_counts *counts)
{
    if (!out || !counts_fit(counts))
        return HTC_EINVAL;
    put_entry(out, &(htc_kv_backup_item){ .version = counts->items }, HTC__KV_BACKUP_KEY);
    return out->status;
}
