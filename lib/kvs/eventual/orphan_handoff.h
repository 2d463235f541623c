/* Records that this member holds and does not own any more: eventual/orphan_handoff.c. */
#ifndef HTC_KVS_EVENTUAL_LEAVE_H
#define HTC_KVS_EVENTUAL_LEAVE_H

#include "kvs/eventual/eventual.h"

void   htc__kv_orphans_tick(htc_kv_server *s);
htc_ns htc__kv_orphans_deadline(const htc_kv_server *s);
/* The owner at that place holds the same; something else, or nothing. */
void htc__kv_orphans_fetched(htc_kv_server *s, htc__kv_seeking *x, uint32_t place, int same);
void htc__kv_orphans_stored(htc_kv_server *s, htc__kv_seeking *x, uint32_t place);
void htc__kv_orphans_late(htc_kv_server *s, htc__kv_seeking *x);
void htc__kv_orphans_settled(htc_kv_server *s, uint64_t from, htc_bytes item);
/* Nobody holds anything of that bucket who does not own it, since it has its owners. */
int htc__kv_orphans_over(const htc_kv_server *s, uint32_t bucket);

#endif
