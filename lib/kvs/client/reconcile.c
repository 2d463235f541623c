/* What a client makes of siblings. */
#include "htcsched/kv_siblings.h"
#include "kvs/util/sized.h"

htc_status htc_kv_merge_largest(void *ctx, htc_bytes key, const htc_kv_item *siblings, size_t n, htc_bytes *value)
{
    (void)ctx, (void)key;
    if (!siblings || n == 0 || !value)
        return HTC_EINVAL;
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = htc_bytes_compare(siblings[i].value, siblings[best].value) > 0 ? i : best;
    *value = siblings[best].value;
    return HTC_OK;
}

htc_status htc_kv_reconcile(const htc_kv_request *get, const htc_kv_result *result, htc_kv_merge merge, void *ctx,
                            htc_bytes *value, htc_kv_request *put)
{
    htc_kv_item item[HTC_KV_SIBLINGS_MAX];
    size_t      at = 0, n = 0;
    if (!get || !result || !value || !put || get->op != HTC_KV_GET || get->space.len == 0 ||
        result->items > HTC_KV_SIBLINGS_MAX)
        return HTC_EINVAL;
    if (result->status != HTC_OK || result->items == 0)
        return result->status < HTC_OK ? result->status : HTC_ENOTFOUND;
    for (; n < result->items; n++)
        if (htc_kv_result_item(result, &at, &item[n]) != HTC_OK)
            return HTC_EPROTO;
    htc_bytes  one = item[0].value;
    htc_status status = n == 1 ? HTC_OK : (merge ? merge : htc_kv_merge_largest)(ctx, get->key, item, n, &one);
    if (status != HTC_OK)
        return status;
    htc_kv_request answer = { .size = sizeof answer };
    if (n > 1) {
        answer.op = HTC_KV_PUT;
        answer.space = get->space;
        answer.key = get->key;
        answer.value = one;
        answer.context = result->context;
    }
    status = htc__kv_request_give(put, &answer);
    if (status == HTC_OK)
        *value = one;
    return status;
}
