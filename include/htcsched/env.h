/**
 * @file htcsched/env.h
 * @brief What a state machine may need from its host: random numbers, memory and a place to log.
 *
 * The library reads no clock, draws no random number and prints nothing by itself: it uses what is passed in here.
 * Threads: an htc_env and what it points to belong to one thread at a time (owner).
 */
#ifndef HTCSCHED_ENV_H
#define HTCSCHED_ENV_H

#include "htcsched/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A stream of random numbers (SplitMix64): any state is a good seed, equal states give equal streams.
 *  For choices that have to be spread, never for secrets. */
typedef struct htc_rng {
    uint64_t state;
} htc_rng;

/** The next 64 random bits. */
HTC_API uint64_t htc_rng_next(htc_rng *rng);

/** A number in [0, n), every one as likely as the next; 0 if n is 0. */
HTC_API uint64_t htc_rng_below(htc_rng *rng, uint64_t n);

/** Derive an independent stream for the consumer called name: a new consumer shifts no other. */
HTC_API htc_rng htc_rng_fork(const htc_rng *rng, const char *name);

/** Where memory comes from. One function does all three:
 *  p NULL: allocate new_size; new_size 0: free p (answer ignored); else grow or shrink. NULL = refused. */
typedef struct htc_alloc {
    void *(*resize)(void *ctx, void *p, size_t old_size, size_t new_size);
    void *ctx;
} htc_alloc;

typedef enum htc_log_level { HTC_LOG_ERROR = 1, HTC_LOG_WARN, HTC_LOG_INFO, HTC_LOG_DEBUG } htc_log_level;

/** Where lines go. A line has no newline and reads "what I see -> what I do"; borrowed until the call returns. */
typedef struct htc_log {
    void (*write)(void *ctx, uint32_t level, const char *line);
    void    *ctx;
    uint32_t level; /* lines above this htc_log_level are not formatted at all */
} htc_log;

/** Kept: outlives every object created with it. */
typedef struct htc_env {
    size_t           size;  /* sizeof(htc_env) */
    htc_rng         *rng;   /* this machine's own stream */
    const htc_alloc *alloc; /* NULL: malloc and free */
    const htc_log   *log;   /* NULL: silent */
} htc_env;

#ifdef __cplusplus
}
#endif
#endif
