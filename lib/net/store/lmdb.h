/* What a store over LMDB asks of it beside the engine. */
#ifndef HTC_NET_STORE_LMDB_H
#define HTC_NET_STORE_LMDB_H

#include "htcsched/host.h"
#include "htcsched/kv_store.h"

/* How the store runs from now on, and in which start of the machine: written into it and synced, with all that was there. *lost: it
 * last ran without syncing each change, in another start; then it stays as it was, and says so again. */
htc_status htc__lmdb_runs(const htc_kv_engine *engine, uint32_t durability, const char boot[HTC_HOST_BOOT_MAX], int *lost);

#endif
