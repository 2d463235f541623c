/* The table of cells against a list: each three bytes are a change or a look, memory is refused now and then. */
#include <string.h>

#include "check.h"
#include "kvs/storage/cells_heap.h"

#define KEYS 64

typedef struct refusing {
    htc_alloc alloc;
    unsigned  left; /* requests until one is refused; 0: none is */
} refusing;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    refusing *r = ctx;
    (void)old_size;
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    if (r->left && --r->left == 0)
        return NULL;
    return realloc(p, new_size);
}

static size_t length_of(uint8_t stamp)
{
    return stamp < 240 ? stamp * 3u : stamp * 200u;
}

static int count_one(void *ctx, htc_bytes key, htc_bytes value)
{
    CHECK(key.len > 0 && key.len <= KEYS && (value.len == 0 || value.data));
    ++*(size_t *)ctx;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t letters[KEYS], bytes[256 * 200];
    uint8_t        have[KEYS] = { 0 };
    int            there[KEYS] = { 0 };
    refusing       r = { .left = 0 };
    htc_env        env = { .size = sizeof env, .alloc = &r.alloc };
    htc__heap      h;
    size_t         count = 0, seen = 0;
    r.alloc = (htc_alloc){ resize, &r };
    memset(letters, 'k', sizeof letters);
    htc__heap_init(&h, &env, &(htc__heap_options){ .seed = size ? data[0] : 0, .ordered = size & 1 });
    for (size_t at = 0; at + 3 <= size; at += 3) {
        size_t    i = data[at + 1] % KEYS;
        uint8_t   stamp = data[at + 2];
        htc_bytes key = { letters, i + 1 }, value;
        switch (data[at] % 4) {
        case 0:
        case 1:
            memset(bytes, stamp, length_of(stamp));
            if (data[at] >= 128)
                r.left = 1 + data[at] % 3;
            if (htc__heap_put(&h, key, (htc_bytes){ bytes, length_of(stamp) }) == HTC_OK) {
                count += !there[i];
                there[i] = 1;
                have[i] = stamp;
            } else {
                CHECK(data[at] >= 128);
            }
            r.left = 0;
            break;
        case 2:
            CHECK(htc__heap_drop(&h, key) == there[i]);
            count -= (size_t)there[i];
            there[i] = 0;
            break;
        default:
            htc__heap_hint(&h, (htc_bytes[]){ key, { letters, stamp % KEYS + 1 }, key }, 3);
            break;
        }
        CHECK((htc__heap_get(&h, key, &value) == HTC_OK) == there[i]);
        if (there[i])
            CHECK(value.len == length_of(have[i]) && (value.len == 0 || *(const uint8_t *)value.data == have[i]));
        CHECK(htc__heap_count(&h) == count);
    }
    CHECK(htc__heap_walk(&h, 0, UINT64_MAX, count_one, &seen) == HTC_OK && seen == count);
    seen = 0;
    if (size & 1)
        CHECK(htc__heap_scan(&h, (htc_bytes){ NULL, 0 }, count_one, &seen) == HTC_OK && seen == count);
    htc__heap_free(&h);
    CHECK(h.budget.used == 0);
    return 0;
}
