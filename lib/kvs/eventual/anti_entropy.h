/* Owners compare what they hold of a bucket, and copy what differs. */
#ifndef HTC_KVS_EVENTUAL_COMPARE_H
#define HTC_KVS_EVENTUAL_COMPARE_H

#include "kvs/eventual/eventual.h"

void   htc__kv_anti_entropy_tick(htc_kv_server *s);
htc_ns htc__kv_anti_entropy_deadline(const htc_kv_server *s);
/* TREE, ENTRIES, PULL. */
void htc__kv_anti_entropy_dispatch(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item);

#endif
