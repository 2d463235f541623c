/**
 * @file htcsched/kv_engine.h
 * @brief What the store asks of the place where its records lie: read what is committed, apply one batch.
 *
 * An engine knows nothing of versions, leases or retries: it holds bytes under bytes, in the order of
 * htc_bytes_compare. It never sees a change that is not part of a whole batch: the server keeps what is staged to
 * itself and hands over one batch at a time, as the body of HTC_OUT_COMMIT. A batch is applied entirely or not at all.
 *
 * Threads: get and scan belong to the server's thread. apply may run on another one beside them only if the engine
 * says so (lmdb does, memory does not); never two at once.
 */
#ifndef HTCSCHED_KV_ENGINE_H
#define HTCSCHED_KV_ENGINE_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The longest key that an engine is asked to hold: a user's key, and what the server writes in front of it. */
#define HTC_KV_ENGINE_KEY_MAX 416

/** Called for each record in order; answers 0 to end the scan. Key and value are lent until it returns. */
typedef int (*htc_kv_visit)(void *visitor, htc_bytes key, htc_bytes value);

typedef struct htc_kv_engine_ops {
    size_t size;
    /** The committed value; lent until the next call on the engine. HTC_ENOTFOUND, HTC_EIO, HTC_ECORRUPT, HTC_ENOMEM.
     */
    htc_status (*get)(void *ctx, htc_bytes key, htc_bytes *value);
    /** Visit committed records with key >= from, in order. The visitor does not call the engine. */
    htc_status (*scan)(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor);
    /** Apply a batch (htc_kv_batch_next reads it). HTC_OK: as durable as the engine was opened for. HTC_ENOSPC,
     *  HTC_ENOMEM: nothing was changed, go on. HTC_EIO, HTC_ECORRUPT: what is stored is not known; the server ends. */
    htc_status (*apply)(void *ctx, htc_bytes batch);
    /** Bytes of memory that records take; 0 for an engine that keeps them elsewhere. */
    size_t (*used)(const void *ctx);
    void (*destroy)(void *ctx);
} htc_kv_engine_ops;

/** An engine in use. ops and ctx outlive the server that was given them. */
typedef struct htc_kv_engine {
    const htc_kv_engine_ops *ops;
    void                    *ctx;
} htc_kv_engine;

/** One change of a batch. */
typedef struct htc_kv_change {
    uint32_t  drop; /* 1: the key is removed, there is no value */
    htc_bytes key, value;
} htc_kv_change;

/** Change number n of a batch: start with *at = 0 and call until 0. 1: *change is filled, borrowed from the batch.
 *  0: the end. -1: these bytes are no batch (then nothing of it may be applied: read it to its end first). */
HTC_API int htc_kv_batch_next(htc_bytes batch, size_t *at, htc_kv_change *change);

/** The engine that keeps records in memory only: an ordered table, O(log n) a change and O(1) a get.
 *  Gives engine->ctx: engine->ops->destroy. env is kept. */
HTC_API htc_status htc_kv_memory_create(const htc_env *env, htc_kv_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
