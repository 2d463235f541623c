/* What a client makes of several values, and the request that writes it back. */
#include "expect.h"

#include "htcsched/kv_siblings.h"
#include "kvs/wire/kv_wire.h"

static htc_buf        items;
static htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .space = { "e", 1 }, .key = { "k", 1 } };

static htc_kv_result answer(const char *const *values, uint32_t n)
{
    htc_buf_clear(&items);
    for (uint32_t i = 0; i < n; i++)
        htc__kv_item_write(&items, (htc_bytes){ NULL, 0 }, 0, htc_bytes_of(values[i]));
    return (htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_GET, .items = n, .items_bytes = htc_buf_bytes(&items), .context = htc_bytes_of("context")
    };
}

static htc_status fail(void *ctx, htc_bytes key, const htc_kv_item *siblings, size_t n, htc_bytes *value)
{
    (void)key, (void)siblings, (void)value;
    *(size_t *)ctx = n;
    return HTC_EFULL;
}

Test(kv_siblings, several_become_one)
{
    static const char *const values[] = { "b", "ba", "", "a" };
    htc_bytes                value = htc_bytes_of("as it was");
    htc_kv_request           put = { .size = sizeof put, .op = HTC_KV_COUNT };
    size_t                   met = 0;
    htc_buf_init(&items, NULL, 0);
    htc_kv_result r = answer(values, 4);
    cr_assert(eq(int, htc_kv_reconcile(&get, &r, fail, &met, &value, &put), HTC_EFULL));
    cr_assert(met == 4 && put.op == HTC_KV_COUNT && htc_bytes_equal(value, htc_bytes_of("as it was")));
    cr_assert(eq(int, htc_kv_reconcile(&get, &r, NULL, NULL, &value, &put), HTC_OK));
    cr_assert(htc_bytes_equal(value, htc_bytes_of("ba")) && put.op == HTC_KV_PUT);
    cr_assert(htc_bytes_equal(put.value, value) && htc_bytes_equal(put.context, r.context));
    cr_assert(htc_bytes_equal(put.space, get.space) && htc_bytes_equal(put.key, get.key));
    cr_assert(eq(int, htc__kv_op_check(&put), HTC_OK));
    htc_buf_free(&items);
}

Test(kv_siblings, one_alone_is_not_written_back)
{
    static const char *const values[] = { "only" };
    htc_bytes                value;
    htc_kv_request           put = { .size = sizeof put }, strong = { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { "k", 1 } };
    htc_buf_init(&items, NULL, 0);
    htc_kv_result r = answer(values, 1);
    cr_assert(eq(int, htc_kv_reconcile(&get, &r, fail, NULL, &value, &put), HTC_OK));
    cr_assert(htc_bytes_equal(value, htc_bytes_of("only")) && put.op == 0);
    cr_assert(eq(int, htc_kv_reconcile(&strong, &r, NULL, NULL, &value, &put), HTC_EINVAL));
    r.items = 2;
    cr_assert(eq(int, htc_kv_reconcile(&get, &r, NULL, NULL, &value, &put), HTC_EPROTO));
    r = answer(values, 0);
    r.status = HTC_ENOTFOUND;
    cr_assert(eq(int, htc_kv_reconcile(&get, &r, NULL, NULL, &value, &put), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_kv_merge_largest(NULL, get.key, NULL, 0, &value), HTC_EINVAL));
    htc_buf_free(&items);
}
