/* For whom a change has been missed: an owner that was away, and is told when it is back. */
#ifndef HTC_KVS_EVENTUAL_HINTS_H
#define HTC_KVS_EVENTUAL_HINTS_H

#include "kvs/eventual/eventual.h"

htc_status htc__kv_hints_load(htc_kv_server *s);
/* That member may lack something of the key. Beyond hints_max, or without room, it is left to be found by comparing. */
void   htc__kv_hint(htc_kv_server *s, uint64_t member, htc_bytes key);
void   htc__kv_hint_stored(htc_kv_server *s, htc__kv_seeking *x, uint64_t by); /* by has what x hands over */
void   htc__kv_hint_late(htc_kv_server *s, htc__kv_seeking *x);                /* nobody has answered */
void   htc__kv_hints_tick(htc_kv_server *s);
htc_ns htc__kv_hints_deadline(const htc_kv_server *s);
/* Those for members that do not own the key go. 1: there are none any more. */
int htc__kv_hints_tidy(htc_kv_server *s);

#endif
