/**
 * @file htcsched/kv_store.h
 * @brief The engine that keeps records on disk (LMDB), and a whole store, over it or with a log, in three calls.
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
    HTC_KV_MEMORY    /**< it lasts as long as the process; what LMDB or the log write is never synced, so that a power failure may
                          leave nothing that can be read, but the end of the process does not */
} htc_kv_durability;

/** Where the records of a whole store are. */
typedef enum htc_kv_engine_kind {
    HTC_KV_IN_MEMORY = 1, /**< in memory, for as long as the process lasts; only with HTC_KV_MEMORY */
    HTC_KV_LMDB,          /**< in a file of LMDB, also more than there is memory for */
    HTC_KV_LOG            /**< in memory, with a log of all changes on disk, which is read at the start */
} htc_kv_engine_kind;

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
    const char *dir;         /**< the state directory's store/; not used with HTC_KV_IN_MEMORY */
    uint32_t    durability;  /**< htc_kv_durability; 0: HTC_KV_SYNC */
    htc_ns      interval_ns; /**< HTC_KV_INTERVAL; 0: 100 ms */
    uint64_t    bytes_max;   /**< of LMDB's file, else of memory for records; 0: no ceiling of ours */
    const htc_kv_server_options *server; /**< what else the server is told, its engine and memory_max aside; borrowed; NULL: nothing.
                                              HTC_KV_IN_MEMORY is not for one of several processes. Since: 0.2 */
    uint32_t    engine;        /**< htc_kv_engine_kind; 0: HTC_KV_LMDB, with HTC_KV_MEMORY HTC_KV_IN_MEMORY. A directory made by one
                                    engine is refused by the other (HTC_EINVAL). Since: 0.2 */
    uint32_t    reserved;      /**< 0 */
    uint64_t    segment_bytes; /**< HTC_KV_LOG: of one of its files, see htc_kv_server_options; 0: 64 MiB. Since: 0.2 */
    /**
     * Called once, when the store answers: by htc_kv_store_attach, with HTC_KV_LOG in the loop's thread after the log has been
     * read, until when connections wait. One of several members calls it when a majority of the owners of every key is there.
     * NULL: nobody is told. Since: 0.2
     *
     * @param[in] ctx  ready_ctx
     */
    void (*ready)(void *ctx);
    void *ready_ctx; /**< kept. Since: 0.2 */
    /**
     * Where members come and go: keep a connection to one, as htc_host_dial_unix and htc_host_keys_dial do, also while the host runs
     * (HTC_KV_SERVER_DIAL). In the loop's thread. NULL: the members are those that were named. Since: 0.2
     *
     * @param[in]  ctx      member_ctx
     * @param[in]  address  as that member was described to the others; ends with a zero byte
     * @param[out] peer     the number of the connection; of one that is there already, if it leads to that address
     * @return HTC_OK, or why not: the store goes on without it
     */
    htc_status (*dial)(void *ctx, const char *address, uint32_t *peer);
    /**
     * Called once, in the loop's thread, when this member is none any more (HTC_KV_SERVER_LEFT): it is to be ended. NULL: it is ended
     * (HTC_KV_SERVER_SHUTDOWN). Since: 0.2
     *
     * @param[in] ctx  member_ctx
     */
    void (*left)(void *ctx);
    void *member_ctx; /**< kept. Since: 0.2 */
    /**
     * Called once, in the loop's thread, when this member, which is to join, cannot be let in (HTC_KV_SERVER_REFUSED): it is to be ended.
     * NULL: it is ended (HTC_KV_SERVER_SHUTDOWN). Since: 0.2
     *
     * @param[in] ctx     member_ctx
     * @param[in] why     HTC_EFULL
     * @param[in] reason  in words; ends with a zero byte
     */
    void (*refused)(void *ctx, htc_status why, const char *reason);
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
 * Let a host carry out the commits, or the requests of the log: on worker threads where they are synced. With a log the host lets
 * nobody in before it has been read (htc_host_accept), and its calls are the store's (htc_host_on_call).
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

/** Something wrong with a store on the disk. All text is lent until the function returns. */
typedef struct htc_kv_problem {
    htc_status  status; /**< HTC_ECORRUPT, HTC_EFORMAT */
    const char *file;   /**< its name in the store's directory */
    uint64_t    offset; /**< where in it, in bytes; 0 also where that is not known */
    const char *text;   /**< what is wrong */
    const char *next;   /**< what to do */
} htc_kv_problem;

/** One value of a key, as it stands in the files. All bytes are lent until the function returns. Since: 0.2 */
typedef struct htc_kv_check_item {
    htc_bytes key;     /**< as clients name it */
    htc_bytes space;   /**< the eventual namespace that it is in; empty: in none */
    htc_bytes value;   /**< what is stored; in a namespace one sibling */
    uint64_t  version; /**< of the key; in a namespace 0 */
    htc_ns    ttl;     /**< the key's own, all of it: what is left is not stored; 0: it has none */
    uint64_t  lease;   /**< that the key is bound to; 0: none */
} htc_kv_check_item;

/** What is to be looked at, and who is told. */
typedef struct htc_kv_check_options {
    size_t      size; /**< sizeof(htc_kv_check_options) */
    const char *dir;  /**< the store's directory; borrowed */
    /**
     * A key that is there, in the order of keys. NULL: they are only counted.
     *
     * @param[in] ctx      as given
     * @param[in] key      borrowed
     * @param[in] version  of its value
     * @param[in] value    borrowed
     * @return HTC_OK; anything else ends the reading with it
     */
    htc_status (*record)(void *ctx, htc_bytes key, uint64_t version, htc_bytes value);
    /**
     * Something that is wrong. NULL: they are only counted.
     *
     * @param[in] ctx      as given
     * @param[in] problem  borrowed
     */
    void (*problem)(void *ctx, const htc_kv_problem *problem);
    void *ctx; /**< handed to both */
    /**
     * As record, which is not called then, with all that is known of a key; behind them those of eventual namespaces, in the order of
     * namespace and key, once for each sibling. NULL: record is called. Since: 0.2
     *
     * @param[in] ctx   as given
     * @param[in] item  borrowed
     * @return HTC_OK; anything else ends the reading with it
     */
    htc_status (*item)(void *ctx, const htc_kv_check_item *item);
} htc_kv_check_options;

/** What was found. */
typedef struct htc_kv_check_found {
    size_t   size;         /**< sizeof(htc_kv_check_found), set by the caller */
    uint32_t engine;       /**< htc_kv_engine_kind that made the store */
    uint32_t reserved;     /**< 0 */
    uint64_t keys;         /**< that are there and can be read, those of eventual namespaces aside */
    uint64_t lost;         /**< whose values cannot */
    uint64_t problems;     /**< that were told */
    uint64_t segments;     /**< of a log: its files */
    uint64_t batches;      /**< of a log: that were read; else records */
    uint64_t end_offset;   /**< of a log: where it ends, in end_file */
    char     end_file[24]; /**< its last segment */
    uint64_t eventual;     /**< keys of eventual namespaces that are there and can be read. Since: 0.2 */
} htc_kv_check_found;

/**
 * Look at a store that no process holds: every problem is told, and none keeps the rest from being read. Nothing is changed but
 * LMDB's own lock file.
 *
 * @param[in]     options  borrowed
 * @param[in,out] found    as much of it is filled as its size says
 * @param[out]    error    why it could not be looked at; NULL is fine
 * @return HTC_OK, also with problems; HTC_EINVAL; HTC_EABI; HTC_ENOTFOUND if there is no store; HTC_ELOCKED if a process holds it;
 *         HTC_EFORMAT; HTC_EDENIED; HTC_EIO; HTC_ENOMEM; what record answered
 *
 * Cost: reads all of it; a log is held in memory.   Since: 0.2
 */
HTC_API htc_status htc_kv_check(const htc_kv_check_options *options, htc_kv_check_found *found, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
