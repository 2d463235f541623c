/* Who moves the buckets of one batch (kvs/map/map.h): a mover for each (kvs/migrate/bucket_migration.h), all under one number, that the map activates at once when
 * the last of them is installed.
 *
 * All of them are blocked meanwhile, so a batch is as large as its content is small: what is empty goes by the hundred, and a bucket
 * that is large goes alone. A member does not know beforehand what lies in a bucket that it does not own. So the first batch is one bucket, each
 * takes at most twice as many as the one before, and one that turns out to be too large is begun anew with fewer. */
#ifndef HTC_KVS_MOVERS_H
#define HTC_KVS_MOVERS_H

#include "kvs/migrate/bucket_migration.h"

#define HTC__KV_MOVERS_BUCKETS 256                 /* at most */
#define HTC__KV_MOVERS_BYTES   ((size_t)4 << 20)   /* wanted, of what all old owners show together */
#define HTC__KV_MOVERS_MOST    (4 * HTC__KV_MOVERS_BYTES) /* more than that only in one bucket */

typedef struct htc__kv_migration_batch htc__kv_migration_batch;

/* Moves in ascending order of their buckets. The host's `activate` is called once, for all of them. HTC_ENOMEM. */
htc_status htc__kv_migration_batch_create(const htc_env *env, const htc__kv_migration_options *options, const htc__kv_migration_host *host,
                                const htc__kv_map_move *moves, uint32_t count, uint64_t number, htc_ns now, htc__kv_migration_batch **out);
void       htc__kv_migration_batch_destroy(htc__kv_migration_batch *batch);

/* As of one mover. HTC_EFULL: it cannot be moved in one batch, if it has more buckets than one. */
htc_status htc__kv_migration_batch_shown(htc__kv_migration_batch *batch, htc_ns now, uint64_t from, uint32_t bucket, htc_bytes after,
                               const htc__kv_floors *floors, htc_bytes entries, int last);
htc_status htc__kv_migration_batch_lost(htc__kv_migration_batch *movers, htc_ns now, uint64_t from, uint32_t bucket);
htc_status htc__kv_migration_batch_shown_eventual(htc__kv_migration_batch *batch, htc_ns now, uint64_t from, uint32_t bucket, htc_bytes after,
                                        htc_bytes entries, int last);
void       htc__kv_migration_batch_installed(htc__kv_migration_batch *batch, htc_ns now, uint64_t from, uint32_t bucket, uint64_t number, uint32_t pages);
htc_status htc__kv_migration_batch_timeout(htc__kv_migration_batch *batch, htc_ns now);
htc_ns     htc__kv_migration_batch_deadline(const htc__kv_migration_batch *batch);
uint32_t   htc__kv_migration_batch_count(const htc__kv_migration_batch *batch);
size_t     htc__kv_migration_batch_bytes(const htc__kv_migration_batch *batch); /* of what has been shown */
/* How many the next one should take, after one of that many buckets and bytes. */
uint32_t   htc__kv_migration_batch_next(uint32_t count, size_t bytes);

#endif
