/* What a store over LMDB asks of it beside the engine. */
#ifndef HTC_NET_STORE_LMDB_H
#define HTC_NET_STORE_LMDB_H

#include "htcsched/host.h"
#include "htcsched/kv_store.h"

/* How the store runs from now on, and in which start of the machine: written into it and synced, with all that was there. *lost: it
 * last ran without syncing each change, in another start; then it stays as it was, and says so again. */
htc_status htc__lmdb_runs(const htc_kv_engine *engine, uint32_t durability, const char boot[HTC_HOST_BOOT_MAX], int *lost);

typedef struct htc__lmdb_walked {
    uint64_t counted; /* records, as LMDB has them written down */
    uint64_t seen;    /* by a cursor, from the first to the last */
    uint64_t astray;  /* of these: out of order, or not found under their keys */
    uint64_t free_counted, free_seen; /* of its list of free pages */
} htc__lmdb_walked;

/* Every page that a cursor reaches, and every record asked for by its key. visit answers 0: that is the end, and HTC_OK.
 * HTC_ECORRUPT: LMDB itself says so, behind what was seen. */
htc_status htc__lmdb_walk(const htc_kv_engine *engine, htc_kv_visit visit, void *visitor, htc__lmdb_walked *walked);

#endif
