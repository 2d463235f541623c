/* What a server counts for monitors: plain numbers, added to where things happen; server_metrics.c shows them. */
#ifndef HTC_KVS_COUNTS_H
#define HTC_KVS_COUNTS_H

#include "htcsched/kv.h"

#define HTC__KV_OPS (HTC_KV_CHANGE + 1)

/* What has become of a request. */
typedef enum htc__kv_fate {
    HTC__KV_FATE_OK,
    HTC__KV_FATE_NOT_FOUND,
    HTC__KV_FATE_MISMATCH,
    HTC__KV_FATE_MEMORY_FULL,
    HTC__KV_FATE_DISK_FULL,
    HTC__KV_FATE_BUSY,
    HTC__KV_FATE_TIMED_OUT,
    HTC__KV_FATE_UNKNOWN,
    HTC__KV_FATE_ERROR,
    HTC__KV_FATES
} htc__kv_fate;

/* How long a batch was on its way: the buckets, in server_metrics.c. */
#define HTC__KV_COMMIT_BOUNDS 14
extern const htc_ns htc__kv_commit_bounds[HTC__KV_COMMIT_BOUNDS];

typedef struct htc__kv_counts {
    uint64_t answers[HTC__KV_OPS][HTC__KV_FATES];
    uint64_t received;  /* bytes, of clients and other members */
    uint64_t committed; /* bytes of batches that are stored */
    uint64_t commits[HTC__KV_COMMIT_BOUNDS + 1];
    htc_ns   commits_sum;
    uint64_t expired; /* keys whose ttl has ended, by this member */
    uint64_t contended; /* lost compare-and-swaps that waited to be let go */
    uint64_t on_way; /* bytes of the batch that is on its way */
    htc_ns   begun;  /* and when it left */
} htc__kv_counts;

htc__kv_fate htc__kv_fate_of(htc_status status);
/* The batch that left at `begun` is stored. */
void htc__kv_count_commit(htc__kv_counts *c, htc_ns now);

static inline void htc__kv_count_answer(htc__kv_counts *c, uint32_t op, htc_status status)
{
    if (op < HTC__KV_OPS)
        c->answers[op][status == HTC_OK ? HTC__KV_FATE_OK : htc__kv_fate_of(status)]++;
}

/* It was counted, and is not answered yet. */
static inline void htc__kv_uncount_answer(htc__kv_counts *c, uint32_t op, htc_status status)
{
    if (op < HTC__KV_OPS)
        c->answers[op][htc__kv_fate_of(status)]--;
}

#endif
