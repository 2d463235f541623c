/* What writer and reader of a backup share. */
#ifndef HTC_KVS_BACKUP_H
#define HTC_KVS_BACKUP_H

#include "htcsched/kv_backup.h"

#define HTC__KV_BACKUP_MAGIC   "HTCKVB02"
#define HTC__KV_BACKUP_MAGIC_1 "HTCKVB01"
#define HTC__KV_BACKUP_FAMILY  6 /* bytes that all formats begin with */

/* Before key and value; of format 1; behind them. */
#define HTC__KV_BACKUP_HEAD   25
#define HTC__KV_BACKUP_HEAD_1 16
#define HTC__KV_BACKUP_SUM    8

enum { HTC__KV_BACKUP_KEY, HTC__KV_BACKUP_LEASED, HTC__KV_BACKUP_SIBLING };

/* What the first release of these structs had: no caller's is shorter. */
#define HTC__KV_BACKUP_ITEM_MIN   (offsetof(htc_kv_backup_item, reserved) + sizeof(uint32_t))
#define HTC__KV_BACKUP_COUNTS_MIN (offsetof(htc_kv_backup_counts, siblings) + sizeof(uint64_t))
#define HTC__KV_BACKUP_READER_MIN (offsetof(htc_kv_backup_reader, format) + sizeof(uint32_t))

#endif
