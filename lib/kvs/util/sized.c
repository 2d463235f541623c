/* Structs of callers that may be older or newer than this library. */
#include <string.h>

#include "core/util.h"
#include "kvs/util/sized.h"

static htc_status request_copy(htc_kv_request *out, const uint8_t *at, size_t size)
{
    size_t own;
    memcpy(&own, at, sizeof own);
    if (own != size)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(out, sizeof *out, at, size, HTC__KV_REQUEST_MIN);
    out->size = sizeof *out;
    return status;
}

htc_status htc__kv_requests_known(const htc_env *env, const htc_kv_request *requests, size_t n, const htc_kv_request **known,
                                  htc_kv_request **made)
{
    size_t size = requests[0].size, same = 0;
    *made = NULL;
    if (size < HTC__KV_REQUEST_MIN)
        return HTC_EINVAL;
    if (size == sizeof *requests) {
        while (same < n && requests[same].size == size)
            same++;
        *known = requests;
        return same == n ? HTC_OK : HTC_EINVAL;
    }
    if (n > SIZE_MAX / sizeof *requests || !(*made = htc__alloc(env, n * sizeof **made)))
        return HTC_ENOMEM;
    htc_status status = HTC_OK;
    for (size_t i = 0; i < n && status == HTC_OK; i++)
        status = request_copy(*made + i, (const uint8_t *)requests + i * size, size);
    if (status != HTC_OK) {
        htc__kv_requests_free(env, *made, n);
        *made = NULL;
    }
    *known = *made;
    return status;
}

void htc__kv_requests_free(const htc_env *env, htc_kv_request *made, size_t n)
{
    if (made)
        htc__free(env, made, n * sizeof *made);
}

int htc__kv_result_fits(const htc_kv_result *result)
{
    return result && result->size >= HTC__KV_RESULT_MIN;
}

static void give(void *out, size_t size, const void *known, size_t known_size)
{
    size_t both = size < known_size ? size : known_size;
    memmove(out, known, both);
    memset((uint8_t *)out + both, 0, size - both);
    memcpy(out, &size, sizeof size); /* the first field of both */
}

void htc__kv_result_give(htc_kv_result *result, const htc_kv_result *known)
{
    give(result, result->size, known, sizeof *known);
}

htc_status htc__kv_request_give(htc_kv_request *request, const htc_kv_request *known)
{
    if (request->size < HTC__KV_REQUEST_MIN)
        return HTC_EINVAL;
    give(request, request->size, known, sizeof *known);
    return HTC_OK;
}
