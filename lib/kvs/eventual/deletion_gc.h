/* Deletions are forgotten. */
#ifndef HTC_KVS_EVENTUAL_COLLECT_H
#define HTC_KVS_EVENTUAL_COLLECT_H

#include "kvs/eventual/eventual.h"

void   htc__kv_forget_tick(htc_kv_server *s);
htc_ns htc__kv_forget_deadline(const htc_kv_server *s);
void   htc__kv_on_collect(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy);
void   htc__kv_on_collected(htc_kv_server *s, uint64_t from, const htc__kv_copy *copy);
void   htc__kv_collect_late(htc_kv_server *s, htc__kv_seeking *x); /* not all have answered */

#endif
