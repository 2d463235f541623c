#include "htcsched/bytes.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

htc_bytes htc_bytes_of(const char *text)
{
    return (htc_bytes){ text, text ? strlen(text) : 0 };
}

int htc_bytes_equal(htc_bytes a, htc_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int htc_bytes_compare(htc_bytes a, htc_bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int    c = n ? memcmp(a.data, b.data, n) : 0;
    if (c != 0)
        return c;
    return a.len < b.len ? -1 : a.len > b.len;
}

uint64_t htc_hash64(htc_bytes bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, seed);
}
