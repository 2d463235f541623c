/* Eventual keys of buckets that move (kvs/migrate/migration_batch.h): eventual/migration.c, eventual/orphan_handoff.c. */
#ifndef HTC_KVS_EVENTUAL_MOVE_H
#define HTC_KVS_EVENTUAL_MOVE_H

#include "kvs/replica/cluster_private.h"
#include "kvs/migrate/bucket_migration.h"

/* One page of the bucket, as an item of that kind (SHOWN, COPIED), to that member. */
void htc__kv_eventual_show(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask, uint8_t kind, size_t page_bytes);
/* Are these entries keys of that bucket, with states? */
int        htc__kv_eventual_may_take(const htc_kv_server *s, uint32_t bucket, htc_bytes entries);
int        htc__kv_eventual_may_install(htc_kv_server *s, const htc__kv_page *page); /* and is their image still to come? */
/* Merge them into what is held; copied: of what this member owns now, for it may have said that it holds nothing else (eventual/orphan_handoff.c). An image
 * has what comes to be its own. HTC_EBUSY: there is no room; HTC_ENOMEM, HTC_EIO. */
htc_status htc__kv_eventual_take(htc_kv_server *s, htc_bytes entries, int copied);
/* What this member says as a mover; NULL: the store has no eventual keys. */
const htc__kv_migration_eventual *htc__kv_eventual_migration(htc_kv_server *s);
/* The image of that number may yet become its bucket's, so what has come of it is to be kept. */
int htc__kv_eventual_awaits(const htc_kv_server *s, uint64_t number);
/* Who is to be no member any more when the change that is under way is over; 0: nobody. */
uint64_t htc__kv_eventual_goes(const htc_kv_server *s);
/* Whoever is a member now, and would be none by `next`, is heard and holds what others do not: it is to hand that over first. */
int htc__kv_eventual_holds_back(const htc_kv_server *s, const htc__kv_map *next);

#endif
