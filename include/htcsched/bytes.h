/**
 * @file htcsched/bytes.h
 * @brief A run of borrowed bytes, and time in nanoseconds: the two types every layer passes around.
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_BYTES_H
#define HTCSCHED_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that somebody else owns; the function that hands them over says for how long. data may be NULL if len is 0. */
typedef struct htc_bytes {
    const void *data;
    size_t      len;
} htc_bytes;

/** Nanoseconds: a duration, or a moment of a clock whose origin the context names. */
typedef uint64_t htc_ns;

#define HTC_US UINT64_C(1000)
#define HTC_MS UINT64_C(1000000)
#define HTC_SECOND UINT64_C(1000000000)
/** Later than every moment. */
#define HTC_NEVER UINT64_MAX

/** The bytes of a C string, without its end. NULL gives an empty run. */
HTC_API htc_bytes htc_bytes_of(const char *text);

/** 1 if both runs have the same length and content, else 0. */
HTC_API int htc_bytes_equal(htc_bytes a, htc_bytes b);

/** Compare as unsigned bytes, a shorter prefix first: below, equal to or above 0. */
HTC_API int htc_bytes_compare(htc_bytes a, htc_bytes b);

/** XXH3 with 64 bits of the bytes: the same on every machine, for tables and rings. Not for content from strangers. */
HTC_API uint64_t htc_hash64(htc_bytes bytes, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
