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
    const void *data; /**< the first byte */
    size_t      len;  /**< how many */
} htc_bytes;

/** Nanoseconds: a duration, or a moment of a clock whose origin the context names. */
typedef uint64_t htc_ns;

/** A microsecond. */
#define HTC_US UINT64_C(1000)
/** A millisecond. */
#define HTC_MS UINT64_C(1000000)
/** A second. */
#define HTC_SECOND UINT64_C(1000000000)
/** Later than every moment. */
#define HTC_NEVER UINT64_MAX

/**
 * The bytes of a C string, without its end.
 *
 * @param[in] text  the answer points into it; NULL: an empty run
 * @return the run
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_bytes htc_bytes_of(const char *text);

/**
 * Are two runs the same?
 *
 * @param[in] a  borrowed
 * @param[in] b  borrowed
 * @return 1 if they have the same length and content, else 0
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API int htc_bytes_equal(htc_bytes a, htc_bytes b);

/**
 * Order two runs as unsigned bytes, a shorter prefix first.
 *
 * @param[in] a  borrowed
 * @param[in] b  borrowed
 * @return below, equal to or above 0 as a stands before, with or behind b
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API int htc_bytes_compare(htc_bytes a, htc_bytes b);

/**
 * XXH3 with 64 bits: the same on every machine, for tables and rings. Not for content from strangers, who can make it collide.
 *
 * @param[in] bytes  borrowed
 * @param[in] seed   another seed, another hash
 * @return the hash
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API uint64_t htc_hash64(htc_bytes bytes, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
