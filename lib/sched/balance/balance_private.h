/* What the parts of balance share. */
#ifndef HTC_SCHED_BALANCE_PRIVATE_H
#define HTC_SCHED_BALANCE_PRIVATE_H

#include "core/codec.h"
#include "htcsched/balance.h"
#include "sched/registry/registry_private.h"

#define HTC__BALANCE_PAUSE_NS (100 * HTC_MS) /* between two censuses, and between two pulls, unless told otherwise */

/* The best partition when no options name a policy. */
extern const htc_balance_policy htc__balance_monitored;
extern const htc__builtin       htc__balance_builtin[];

/* Make room for a count, so that setting it cannot fail. */
htc_status htc__balance_tree_reserve(htc_balance_tree *tree, uint32_t free);

/* One that is not in the tree; there is room for its count. */
void htc__balance_tree_enter(htc_balance_tree *tree, uint32_t partition, uint32_t free);
/* As htc_balance_tape has it; the tape is checked. */
htc_status htc__balance_tree_tape(htc_balance_tree *tree, const htc_tape *tape);

/* The census: u8 format, varint n, n times varint (free + 1, or 0: unknown). */
void htc__census_write(htc_buf *b, const uint32_t *free, uint32_t n);
/* The first n counts of a census; those it does not have are unknown. */
htc_status htc__census_read(htc_bytes census, uint32_t *free, uint32_t n);

/* The sum, or the last moment that is not HTC_NEVER. */
htc_ns htc__later(htc_ns now, htc_ns by);

#endif
