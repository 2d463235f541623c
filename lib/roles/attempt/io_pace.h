/* How fast one holder may use storage that others use as well. Trouble with it (no space, an input or output error, a time-out) makes all its
 * staging pause; the pause doubles with each further trouble, and each staging that goes well halves it. Pure: time comes in, nothing is kept but
 * three numbers. */
#ifndef HTC_ROLES_IO_PACE_H
#define HTC_ROLES_IO_PACE_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#define IO_PACE_FIRST (50 * HTC_MS)
#define IO_PACE_MOST  (30 * HTC_SECOND)

typedef struct io_pace {
    htc_ns first; /* the shortest pause; 0: IO_PACE_FIRST */
    htc_ns pause; /* the one that trouble has led to; 0: none */
    htc_ns until; /* no staging begins before */
} io_pace;

/* 1: storage that is used by too many says that. */
int htc__io_pace_is_trouble(htc_status status);

/* A staging met trouble: when it may be tried again. tries: how often it has met trouble before; salt: differs from one staging to the next, so
 * that those of many holders do not come back at one moment (up to a quarter of the pause later). Trouble while a pause lasts is the same trouble,
 * and does not double it. O(1). */
htc_ns htc__io_pace_trouble(io_pace *p, htc_ns now, uint32_t tries, uint64_t salt);

/* A staging went well. O(1). */
void htc__io_pace_success(io_pace *p);

/* When a staging may begin that is not known to have met trouble: now, or later. */
htc_ns htc__io_pace_from(const io_pace *p, htc_ns now, uint64_t salt);

/* All turns are taken: when to ask again, the tries-th time. It is no trouble, and takes at most 32 times the shortest pause. */
htc_ns htc__io_pace_turn(const io_pace *p, htc_ns now, uint32_t tries, uint64_t salt);

#endif
