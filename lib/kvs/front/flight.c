#include "kvs/front/flight.h"

#include <assert.h>

#include "kvs/wire/kv_wire.h"

static int is_long(size_t bytes)
{
    return bytes > HTC__KV_LONG_VALUE;
}

int htc__kv_flight_full(const htc__kv_flight *f, size_t bytes)
{
    if (f->count >= f->count_max)
        return 1;
    if (is_long(bytes))
        return f->long_bytes > 0 && f->long_bytes + bytes > HTC__KV_FLIGHT_LONG;
    return f->short_bytes + bytes > HTC__KV_FLIGHT_SHORT;
}

void htc__kv_flight_enter(htc__kv_flight *f, size_t bytes)
{
    f->count++;
    *(is_long(bytes) ? &f->long_bytes : &f->short_bytes) += bytes;
}

void htc__kv_flight_leave(htc__kv_flight *f, size_t bytes)
{
    size_t *sum = is_long(bytes) ? &f->long_bytes : &f->short_bytes;
    assert(f->count > 0 && *sum >= bytes);
    f->count--;
    *sum -= bytes;
}

void htc__kv_flight_asked(htc__kv_flight *f, htc_bytes key, size_t bytes)
{
    if (!is_long(bytes))
        return;
    uint64_t hash = htc_hash64(key, 0);
    uint32_t i = (uint32_t)hash % HTC__KV_FLIGHT_KNOWN;
    f->known[i].mark = (uint32_t)(hash >> 32);
    f->known[i].bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* Its place, or -1. */
static int32_t place(const htc__kv_flight *f, htc_bytes key)
{
    uint64_t hash = htc_hash64(key, 0);
    uint32_t i = (uint32_t)hash % HTC__KV_FLIGHT_KNOWN;
    return f->known[i].bytes && f->known[i].mark == (uint32_t)(hash >> 32) ? (int32_t)i : -1;
}

void htc__kv_flight_read(htc__kv_flight *f, htc_bytes key, size_t bytes)
{
    int32_t i = place(f, key);
    if (i < 0)
        f->read = f->read - f->read / 8 + bytes / 8;
    else if (!is_long(bytes))
        f->known[i].bytes = 0;
    htc__kv_flight_asked(f, key, bytes);
}

size_t htc__kv_flight_guess(const htc__kv_flight *f, htc_bytes key)
{
    int32_t i = place(f, key);
    return i < 0 ? f->read : f->known[i].bytes;
}

htc_ns htc__kv_flight_patience(const htc__kv_flight *f, size_t bytes)
{
    return 4 * htc__kv_patience(bytes + f->long_bytes); /* handed on, stored by several, and answered */
}
