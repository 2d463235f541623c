/* What the tasks of a random graph make of what they read: for the program that is such a task, and for a test that works it out by itself. */
#ifndef HTC_TESTS_FLOW_MIX_H
#define HTC_TESTS_FLOW_MIX_H

#include <stddef.h>
#include <stdint.h>

#define FLOW_MIX_MORE 1000000ull /* the number of a task that adds one, and this, is that of the added one */
#define FLOW_MIX_MAX 600000 /* bytes of one output, at most: some pieces of an object */

static inline uint64_t flow_mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
    return x ^ x >> 33;
}

/* Each byte of an input, and where it stands, goes into what comes out. */
static inline uint64_t flow_mix_read(uint64_t state, const uint8_t *bytes, size_t n)
{
    uint64_t word = 0;
    state = flow_mix(state + n + 1);
    for (size_t i = 0; i < n; i++) {
        word = word << 8 | bytes[i];
        if (i % 8 == 7 || i + 1 == n) {
            state = (state ^ word) * 0x9e3779b97f4a7c15;
            state ^= state >> 29;
            word = 0;
        }
    }
    return flow_mix(state);
}

/* out: FLOW_MIX_MAX bytes. How long it is: of eight one is larger than a piece, the others have up to 40 kB, some nothing. */
static inline size_t flow_mix_write(uint64_t state, uint8_t *out)
{
    uint64_t x = flow_mix(state + 1);
    size_t   n = x % 8 ? (size_t)(x >> 8) % 40000 : FLOW_MIX_MAX - (size_t)(x >> 8) % 300000;
    n = x % 50 ? n : 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            x = flow_mix(x + i + 1);
        out[i] = (uint8_t)(x >> i % 8 * 8);
    }
    return n;
}

#endif
