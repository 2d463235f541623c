#include "kvs/storage/schema.h"

htc__kv_name htc__kv_name_of(char kind, const uint64_t *number, htc_bytes key)
{
    htc__kv_name name; /* not zeroed: its bytes are many, and few are used */
    name.len = 1;
    name.data[0] = (uint8_t)kind;
    for (int shift = 56; number && shift >= 0; shift -= 8)
        name.data[name.len++] = (uint8_t)(*number >> shift);
    if (key.len)
        memcpy(name.data + name.len, key.data, key.len);
    name.len += key.len;
    return name;
}

uint64_t htc__kv_name_number(htc_bytes name)
{
    uint64_t v = 0;
    for (size_t i = 1; name.len >= 9 && i < 9; i++)
        v = v << 8 | ((const uint8_t *)name.data)[i];
    return v;
}
