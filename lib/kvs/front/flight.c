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
    assert(f->count > 0);
    f->count--;
    *sum -= bytes;
}

void htc__kv_flight_read(htc__kv_flight *f, size_t bytes)
{
    f->read = f->read - f->read / 8 + bytes / 8;
}
