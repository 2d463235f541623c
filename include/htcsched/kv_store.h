/**
 * @file htcsched/kv_store.h
 * @brief The engine that keeps records on disk (LMDB), and a whole store in three calls.
 *
 * What htc-kvd does:
 *
 *     htc_kv_store_open(&env, &options, &store, &error);
 *     htc_kv_store_attach(store, host);
 *     status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
 *     htc_kv_store_close(store);      (after htc_host_destroy)
 *
 * Threads: owner, but the engine's apply, which the host may run on another thread beside reads.   Allocation: through env;
 * LMDB's own by malloc.
 */
#ifndef HTCSCHED_KV_STORE_H
#define HTCSCHED_KV_STORE_H

#include "htcsched/host.h"
#include "htcsched/kv_server.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What "stored" means before it is answered. */
typedef enum htc_kv_durability {
    HTC_KV_SYNC = 1, /**< it survives a power failure: every commit is synced */
    HTC_KV_INTERVAL, /**< it survives the end of the process; a power failure may take the last interval_ns */
    HTC_KV_MEMORY    /**< it lasts as long as the process: nothing is written */
} htc_kv_durability;

/** Where the records are, and how safe. */
typedef struct htc_kv_lmdb_options {
    size_t      size;       /**< sizeof(htc_kv_lmdb_options) */
    const char *dir;        /**< made if missing (0700); copied */
    uint32_t    durability; /**< HTC_KV_SYNC (0: the same) or HTC_KV_INTERVAL; HTC_KV_MEMORY never syncs */
    uint64_t    bytes_max;  /**< how far the file may grow; 0: 1 TiB, or as far as addresses go. Beyond: HTC_ENOSPC */
} htc_kv_lmdb_options;

/**
 * Open or make a store's files. One process holds them.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed; strings are copied
 * @param[out] engine   gives engine->ctx: engine->ops->destroy; apply may run on another thread beside get and scan
 * @param[out] error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ELOCKED if another process holds them; HTC_EFORMAT if another version wrote them;
 *         HTC_ECORRUPT if this is no store, or a damaged one; HTC_EDENIED; HTC_EIO; HTC_ENOSPC; HTC_ENOMEM
 *
 * Cost: some file system calls.   Since: 0.1
 */
HTC_API htc_status htc_kv_lmdb_open(const htc_env *env, const htc_kv_lmdb_options *options, htc_kv_engine *engine,
                                    htc_error *error);

/**
 * Write to the disk what was committed without being synced. Threads: shared.
 *
 * @param[in] engine  of htc_kv_lmdb_open
 * @return HTC_OK; HTC_EIO; HTC_ENOSPC
 *
 * Cost: a sync.   Since: 0.1
 */
HTC_API htc_status htc_kv_lmdb_sync(const htc_kv_engine *engine);

/** How a whole store works. */
typedef struct htc_kv_store_options {
    size_t      size;        /**< sizeof(htc_kv_store_options) */
    const char *dir;         /**< the state directory's store/; not used with HTC_KV_MEMORY */
    uint32_t    durability;  /**< htc_kv_durability; 0: HTC_KV_SYNC */
    htc_ns      interval_ns; /**< HTC_KV_INTERVAL; 0: 100 ms */
    uint64_t    bytes_max;   /**< of the file, or of memory with HTC_KV_MEMORY; 0: no ceiling of ours */
} htc_kv_store_options;

/** An engine with a server over it. */
typedef struct htc_kv_store htc_kv_store;

/**
 * Open engine and server.
 *
 * @param[in]  env      with its rng; kept
 * @param[in]  options  borrowed; strings are copied
 * @param[out] out      gives the store: htc_kv_store_close; untouched on failure
 * @param[out] error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; as htc_kv_lmdb_open and htc_kv_server_create
 *
 * Cost: as these two.   Since: 0.1
 */
HTC_API htc_status htc_kv_store_open(const htc_env *env, const htc_kv_store_options *options, htc_kv_store **out,
                                     htc_error *error);

/**
 * Let a host carry out the commits: on a worker thread where they are synced.
 *
 * @param[in,out] store  outlives the host
 * @param[in,out] host   not running yet
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_kv_store_attach(htc_kv_store *store, htc_host *host);

/**
 * The machine for htc_host_run.
 *
 * @param[in] store  borrowed
 * @return lends the server as long as the store is open
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_kv_server *htc_kv_store_server(htc_kv_store *store);

/**
 * Close a store, after its host is destroyed. Syncs what an interval has not.
 *
 * @param[in] store  NULL is fine
 *
 * Cost: a sync at most.   Since: 0.1
 */
HTC_API void htc_kv_store_close(htc_kv_store *store);

#ifdef __cplusplus
}
#endif
#endif
