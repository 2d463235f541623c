/**
 * @file htcsched/kv_engine.h
 * @brief What the store asks of the place where its records lie: read what is committed, apply one batch.
 *
 * An engine knows nothing of versions, leases or retries: it holds bytes under bytes, in the order of
 * htc_bytes_compare. It never sees a change that is not part of a whole batch: the server keeps what is staged to
 * itself and hands over one batch at a time, as the body of HTC_OUT_COMMIT. A batch is applied entirely or not at all.
 *
 * Threads: get and scan belong to the server's thread. apply may run on another one beside them only if the engine
 * says so (lmdb does, memory does not); never two at once.   Allocation: through env; LMDB's own by malloc.
 */
#ifndef HTCSCHED_KV_ENGINE_H
#define HTCSCHED_KV_ENGINE_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The longest key that an engine is asked to hold: a user's key, and what the server writes in front of it. */
#define HTC_KV_ENGINE_KEY_MAX 416

/**
 * Called for each record in order.
 *
 * @param[in] visitor  as given to scan
 * @param[in] key      borrowed until it returns
 * @param[in] value    borrowed until it returns
 * @return 0 to end the scan, else 1
 */
typedef int (*htc_kv_visit)(void *visitor, htc_bytes key, htc_bytes value);

/** What an engine can do. */
typedef struct htc_kv_engine_ops {
    size_t size; /**< sizeof(htc_kv_engine_ops) */
    /**
     * Read one committed record.
     *
     * @param[in]  ctx    the engine
     * @param[in]  key    borrowed
     * @param[out] value  lends the value until the next call of any of these functions with this engine
     * @return HTC_OK; HTC_ENOTFOUND; HTC_EIO; HTC_ECORRUPT; HTC_ENOMEM
     */
    htc_status (*get)(void *ctx, htc_bytes key, htc_bytes *value);
    /**
     * Visit committed records in order.
     *
     * @param[in] ctx      the engine
     * @param[in] from     the first key, or what stands before it; borrowed
     * @param[in] visit    does not call the engine
     * @param[in] visitor  handed to visit
     * @return HTC_OK, also if the visitor ended it; HTC_EIO; HTC_ECORRUPT; HTC_ENOMEM
     */
    htc_status (*scan)(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor);
    /**
     * Apply a batch, all of it or nothing; htc_kv_batch_next reads it.
     *
     * @param[in] ctx    the engine
     * @param[in] batch  borrowed
     * @return HTC_OK: as durable as the engine was opened for; HTC_ENOSPC, HTC_ENOMEM: nothing was changed, go on; HTC_EIO,
     *         HTC_ECORRUPT: what is stored is not known, the server ends
     */
    htc_status (*apply)(void *ctx, htc_bytes batch);
    /**
     * How much memory records take.
     *
     * @param[in] ctx  the engine
     * @return bytes; 0 for an engine that keeps them elsewhere
     */
    size_t (*used)(const void *ctx);
    /**
     * Close the engine.
     *
     * @param[in] ctx  the engine
     */
    void (*destroy)(void *ctx);
} htc_kv_engine_ops;

/** An engine in use. ops and ctx outlive the server that was given them. */
typedef struct htc_kv_engine {
    const htc_kv_engine_ops *ops; /**< what it can do */
    void                    *ctx; /**< what it is */
} htc_kv_engine;

/** One change of a batch. */
typedef struct htc_kv_change {
    uint32_t  drop; /**< 1: the key is removed, there is no value */
    htc_bytes key;   /**< of the record */
    htc_bytes value; /**< to be stored */
} htc_kv_change;

/**
 * The next change of a batch: call until it is not 1.
 *
 * @param[in]     batch   borrowed
 * @param[in,out] at      the place in the batch: 0 before the first
 * @param[out]    change  lent as long as the batch; untouched unless 1
 * @return 1: there was one; 0: the end; -1: these bytes are no batch, and nothing of it may be applied: read it to its end
 *         first
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API int htc_kv_batch_next(htc_bytes batch, size_t *at, htc_kv_change *change);

/**
 * The engine that keeps records in memory only, in an ordered table.
 *
 * @param[in]  env     what it points to is kept; NULL: malloc
 * @param[out] engine  gives engine->ctx: engine->ops->destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if engine is NULL; HTC_ENOMEM
 *
 * Cost: O(1); then O(log n) a change and O(1) a get.   Since: 0.1
 */
HTC_API htc_status htc_kv_memory_create(const htc_env *env, htc_kv_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
