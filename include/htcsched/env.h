/**
 * @file htcsched/env.h
 * @brief What a state machine may need from its host: random numbers, memory and a place to log.
 *
 * The library reads no clock, draws no random number and prints nothing by itself: it uses what is passed in here.
 * Threads: an htc_env and what it points to belong to one thread at a time (owner).   Allocation: none.
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
    uint64_t state; /**< all there is of it */
} htc_rng;

/**
 * Draw 64 random bits.
 *
 * @param[in,out] rng  the stream; goes on
 * @return the bits, all equally likely
 *
 * Cost: 1 ns.   Since: 0.1
 */
HTC_API uint64_t htc_rng_next(htc_rng *rng);

/**
 * Draw a number below n, every one as likely as the next.
 *
 * @param[in,out] rng  the stream; goes on
 * @param[in]     n    any
 * @return 0 .. n-1; 0 if n is 0
 *
 * Cost: some ns: at most two draws expected.   Since: 0.1
 */
HTC_API uint64_t htc_rng_below(htc_rng *rng, uint64_t n);

/**
 * Derive an independent stream for a consumer: a new consumer shifts no other.
 *
 * @param[in] rng   the parent stream; stays where it is
 * @param[in] name  of the consumer; borrowed
 * @return the stream: the same for the same parent state and name
 *
 * Cost: O(length of name).   Since: 0.1
 */
HTC_API htc_rng htc_rng_fork(const htc_rng *rng, const char *name);

/** Where memory comes from. */
typedef struct htc_alloc {
    /**
     * One function does all three: allocate, free, grow or shrink.
     *
     * @param[in] ctx       of the allocator
     * @param[in] p         NULL: allocate
     * @param[in] old_size  of p in bytes; 0 if p is NULL
     * @param[in] new_size  in bytes; 0: free p, the answer is ignored
     * @return the memory, aligned for anything; NULL: refused, and p is as it was
     */
    void *(*resize)(void *ctx, void *p, size_t old_size, size_t new_size);
    void *ctx; /**< handed to resize */
} htc_alloc;

/** How much a line matters. */
typedef enum htc_log_level {
    HTC_LOG_ERROR = 1, /**< something is lost or refused */
    HTC_LOG_WARN,      /**< something is wrong, and was dealt with */
    HTC_LOG_INFO,      /**< what an operator wants to know */
    HTC_LOG_DEBUG      /**< each decision */
} htc_log_level;

/** A value that a line is about, under a name of its own, for those who search lines by machine. */
typedef struct htc_log_field {
    const char *name;   /**< lower case and underscores; borrowed until the call returns */
    const char *text;   /**< its value; NULL: it is number. Borrowed until the call returns */
    uint64_t    number; /**< its value, if text is NULL */
    uint32_t    hex;    /**< 1: an id, which people read as 16 hexadecimal digits */
} htc_log_field;

/** Where lines go. */
typedef struct htc_log {
    /**
     * Take one line.
     *
     * @param[in] ctx    of the log
     * @param[in] level  htc_log_level
     * @param[in] line   "what I see -> what I do", no newline; borrowed until the call returns
     */
    void (*write)(void *ctx, uint32_t level, const char *line);
    void    *ctx;   /**< handed to write */
    uint32_t level; /**< lines above this htc_log_level are not formatted at all; with or without HTC_LOG_FIELDS */
} htc_log;

/** In htc_log.level: the log is the first member of an htc_log_structured. */
#define HTC_LOG_FIELDS UINT32_C(0x100)

/** A log that takes the values of a line beside it. What an htc_env gets is the address of its log. */
typedef struct htc_log_structured {
    htc_log log; /**< level with HTC_LOG_FIELDS; write takes lines all the same, from whoever does not know of values */
    /**
     * Take one line.
     *
     * @param[in] ctx    of the log
     * @param[in] level  htc_log_level
     * @param[in] line   as of htc_log: it names whatever a person has to know
     * @param[in] field  n values that the line is about; borrowed until the call returns
     * @param[in] n      may be 0
     */
    void (*write_fields)(void *ctx, uint32_t level, const char *line, const htc_log_field *field, size_t n);
} htc_log_structured;

/** Who decides at the fault points inside the library: the simulator. Only builds for tests (-Dfaults=true) have such points. */
typedef struct htc_fault {
    /**
     * Does this point fire now?
     *
     * @param[in] ctx   of the faults
     * @param[in] name  of the point; borrowed
     * @return 1 or 0
     */
    int (*fires)(void *ctx, const char *name);
    void *ctx; /**< handed to fires */
} htc_fault;

/** A state that is written, or read back, piece by piece. The host keeps the pieces in order, and sees to it that what is read is what was written.
 *  Their form is that of this machine and this version of the library. */
typedef struct htc_tape {
    size_t   size;     /**< sizeof(htc_tape) */
    uint32_t reads;    /**< 1: pieces are read; 0: they are written */
    uint32_t reserved; /**< 0 */
    /**
     * Move a piece.
     *
     * @param[in]     ctx   of the tape
     * @param[in,out] data  what is written, or room for what is read; borrowed
     * @param[in]     n     bytes
     * @return HTC_OK; what whoever reads or writes answers then
     */
    htc_status (*move)(void *ctx, void *data, size_t n);
    void *ctx; /**< handed to it */
} htc_tape;

/** Kept: outlives every object created with it. */
typedef struct htc_env {
    size_t           size;  /**< sizeof(htc_env) */
    htc_rng         *rng;   /**< this machine's own stream */
    const htc_alloc *alloc; /**< NULL: malloc and free */
    const htc_log   *log;   /**< NULL: silent */
    const htc_fault *fault; /**< NULL: none; looked at in builds for tests alone */
} htc_env;

#ifdef __cplusplus
}
#endif
#endif
