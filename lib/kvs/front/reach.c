#include "kvs/front/reach.h"

#include <string.h>

int htc__kv_reach_has(const htc_kv_reach *reach, htc_bytes key)
{
    for (uint32_t i = 0; i < reach->count; i++) {
        size_t len = strnlen(reach->prefix[i], sizeof reach->prefix[i]);
        if (len && key.len >= len && memcmp(key.data, reach->prefix[i], len) == 0)
            return 1;
    }
    return 0;
}

int htc__kv_reach_allows(const htc_kv_reach *reach, const htc_kv_request *q)
{
    switch ((htc_kv_op)q->op) {
    case HTC_KV_GET:
    case HTC_KV_PUT:
    case HTC_KV_DELETE:
    case HTC_KV_APPEND:
    case HTC_KV_CAS_VERSION:
    case HTC_KV_CAS_VALUE:
    case HTC_KV_ADD: return q->space.len == 0 && htc__kv_reach_has(reach, q->key);
    case HTC_KV_SCAN: return !(q->flags & (HTC_KV_PLACES | HTC_KV_EVENTUAL)) && q->space.len == 0 && htc__kv_reach_has(reach, q->key);
    case HTC_KV_LEASE_GRANT:
    case HTC_KV_LEASE_RENEW:
    case HTC_KV_LEASE_REVOKE: return 1;
    case HTC_KV_COUNT:
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE: break;
    }
    return 0;
}
