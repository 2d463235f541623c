/* What one connection may reach: keys that begin with one of some prefixes. Requests without a key that concern no other connection (leases)
 * are for all; whatever else looks at the whole store, or at who keeps it, is for those who reach everything. */
#ifndef HTC_KVS_REACH_H
#define HTC_KVS_REACH_H

#include "htcsched/kv.h"
#include "htcsched/kv_server.h"

/* 1: within reach. */
int htc__kv_reach_allows(const htc_kv_reach *reach, const htc_kv_request *q);
int htc__kv_reach_has(const htc_kv_reach *reach, htc_bytes key); /* of a key, and of all keys that begin with it */

#endif
