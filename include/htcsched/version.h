/**
 * @file htcsched/version.h
 * @brief Which version of the library a program was built with, and which one is loaded.
 *
 *     if (htc_version() < HTC_VERSION_NUMBER) ...   the library is older than the headers
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_VERSION_H
#define HTCSCHED_VERSION_H

#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Of these headers: grows when something is gone or has another meaning. Since: 0.2 */
#define HTC_VERSION_MAJOR 0
/** Grows with each release that adds something. Since: 0.2 */
#define HTC_VERSION_MINOR 2
/** Grows with each release that only mends. Since: 0.2 */
#define HTC_VERSION_PATCH 0
/** The three as one number that can be compared: 0x000200 is 0.2.0. Since: 0.2 */
#define HTC_VERSION_NUMBER ((HTC_VERSION_MAJOR << 16) | (HTC_VERSION_MINOR << 8) | HTC_VERSION_PATCH)

/**
 * The version of the library that is loaded.
 *
 * @return major << 16 | minor << 8 | patch, to compare with HTC_VERSION_NUMBER
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_version(void);

/**
 * The version of the library that is loaded, as text.
 *
 * @return lends a constant, such as "0.2.0"
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_version_text(void);

#ifdef __cplusplus
}
#endif
#endif
