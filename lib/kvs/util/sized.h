/* Requests and results of callers that were built with another length of these structs: an array's stride is the size that its first
 * element names, a result is written no further than it reaches. Uses core alone. */
#ifndef HTC_KVS_SIZED_H
#define HTC_KVS_SIZED_H

#include "htcsched/kv.h"

/* What the first release had: no caller's struct is shorter. */
#define HTC__KV_REQUEST_MIN offsetof(htc_kv_request, flags)
#define HTC__KV_RESULT_MIN  offsetof(htc_kv_result, ttl)

/* The n requests as this library knows them: the caller's own where they have its size, else in *made, to be freed with
 * htc__kv_requests_free. HTC_EINVAL: a size is missing, too short or not that of the first; HTC_EABI: a field that this library does not know is
 * set; HTC_ENOMEM. */
htc_status htc__kv_requests_known(const htc_env *env, const htc_kv_request *requests, size_t n, const htc_kv_request **known,
                                  htc_kv_request **made);
void       htc__kv_requests_free(const htc_env *env, htc_kv_request *made, size_t n);

/* Is there room for what every caller reads? */
int htc__kv_result_fits(const htc_kv_result *result);
/* Hand over what is known, as far as the caller's struct reaches; its size stays, what is beyond this library's is zero. */
void htc__kv_result_give(htc_kv_result *result, const htc_kv_result *known);

/* The same for a request that the library makes. HTC_EINVAL: the caller's has no size. */
htc_status htc__kv_request_give(htc_kv_request *request, const htc_kv_request *known);

#endif
