/* What every test of ring.h begins with: options, rings of so many members, copies, bytes. */
#ifndef HTC_TESTS_RING_HAND_H
#define HTC_TESTS_RING_HAND_H

#include "expect.h"

#include "property.h"
#include "ring_model.h"

#define SAME(what) /* a check of ring_model.h, with what it complains about */                                         \
    do {                                                                                                               \
        const char *complaint = (what);                                                                                \
        cr_assert(complaint == NULL, "%s; HTC_TEST_SEED=%llu replays it", complaint,                                   \
                  (unsigned long long)property_seed);                                                                  \
    } while (0)

static inline htc_ring_options options(uint32_t bits, uint32_t owners, uint32_t members_max)
{
    htc_ring_options o = HTC_RING_OPTIONS_INIT;
    o.bits = bits;
    o.owners = owners;
    o.members_max = members_max;
    return o;
}

static inline htc_ring *ring_of(const htc_ring_options *o, const htc_ring_member *m, size_t n)
{
    htc_ring *r = NULL;
    cr_assert(eq(int, htc_ring_create(NULL, o, m, n, &r), HTC_OK));
    return r;
}

static inline htc_ring *copy_of(const htc_ring *r)
{
    htc_ring *copy = NULL;
    cr_assert(eq(int, htc_ring_copy(r, NULL, &copy), HTC_OK));
    return copy;
}

/* n members of one weight, without racks. */
static inline htc_ring *even_ring(uint32_t bits, uint32_t owners, uint32_t n)
{
    htc_ring_member *m = calloc(n + 1, sizeof *m);
    htc_ring_options o = options(bits, owners, ring_min(n + 64, 1u << bits));
    for (uint32_t i = 0; i < n; i++)
        m[i] = (htc_ring_member){ .id = i + 1, .weight = 1 };
    htc_ring *r = ring_of(&o, m, n);
    free(m);
    return r;
}

static inline uint8_t *bytes_of(const htc_ring *r, uint32_t since, size_t *len)
{
    size_t   size = htc_ring_encoded_size(r, since);
    uint8_t *bytes = malloc(size);
    cr_assert(eq(int, htc_ring_encode(r, since, bytes, size, len), HTC_OK));
    cr_assert(eq(sz, *len, size));
    return bytes;
}

static inline htc_ring *through_bytes(const htc_ring *r)
{
    htc_ring *copy = NULL;
    size_t    len;
    uint8_t  *bytes = bytes_of(r, 0, &len);
    cr_assert(eq(int, htc_ring_decode(NULL, (htc_bytes){ bytes, len }, &copy), HTC_OK));
    free(bytes);
    return copy;
}

static inline htc_status apply_from(htc_ring *to, const htc_ring *from, uint32_t since)
{
    size_t     len;
    uint8_t   *bytes = bytes_of(from, since, &len);
    htc_status status = htc_ring_apply(to, (htc_bytes){ bytes, len });
    free(bytes);
    return status;
}

#endif
