/**
 * @file htcsched/kv_server.h
 * @brief The key-value store's server, single member: messages in, commits and answers out.
 *
 * Drive it as any machine (htcsched/machine.h): START first, then OPENED, MESSAGE, CLOSED of its peers, TIMEOUT,
 * STORED.
 *
 * Changes are staged in memory and leave as HTC_OUT_COMMIT whose body is one batch; the driver applies it
 * (engine->ops->apply, or somewhere else) and says HTC_IN_STORED with the same tag. One commit is in flight at a time;
 * what arrives meanwhile is the next one, so a driver gets group commit by handing over all messages of a loop turn
 * before it carries out the commit of the first, or by committing on another thread. Nothing that depends on a change,
 * a read included, is answered before that change is stored.
 *
 * STORED with HTC_EIO or HTC_ECORRUPT ends the server (HTC_OUT_STOP with that status): after a failed sync nobody knows
 * what is on the disk. With any other failure (HTC_ENOSPC) the batch is undone, its changes are answered with that
 * status, and reads go on.
 *
 * Threads: owner.   Allocation: through env, bounded by the options.
 */
#ifndef HTCSCHED_KV_SERVER_H
#define HTCSCHED_KV_SERVER_H

#include "htcsched/kv.h"
#include "htcsched/kv_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** HTC_IN_EVENT with this op: commit what is staged, answer it, then HTC_OUT_STOP with HTC_OK. */
#define HTC_KV_SERVER_SHUTDOWN 64

/** How a server works; every field's zero is its default but for engine. */
typedef struct htc_kv_server_options {
    size_t        size;            /**< sizeof(htc_kv_server_options) */
    htc_kv_engine engine;          /**< kept, not destroyed */
    uint32_t      connections_max; /**< 0: 256. Beyond: HTC_EBUSY and closed */
    uint32_t      inflight_max;    /**< messages of one connection not yet answered; 0: 8192. Beyond: "send again" */
    size_t        output_max;      /**< bytes of answers held for one connection; 0: 32 MiB. Beyond: "send again" */
    size_t        memory_max;      /**< bytes of records in memory (engine->ops->used); growing changes beyond it are
                                        answered HTC_EFULL; 0: no ceiling */
    uint32_t leases_max;           /**< 0: 65536. Beyond: HTC_EBUSY */
    uint32_t tombstones_max;       /**< deletions remembered one by one; 0: 10000 */
    htc_ns   lease_ttl_min;        /**< shorter ones are raised to it; 0: 1 ms */
    htc_ns   lease_ttl_max;        /**< longer ones are cut to it; 0: 1 hour */
} htc_kv_server_options;

/** A server, as a machine: self of htc_kv_server_ops. */
typedef struct htc_kv_server htc_kv_server;

/**
 * Create a server over what the engine holds.
 *
 * @param[in]  env      what it points to is kept; env->rng is required: it names the sessions, and no two servers of one store may
 *                      draw the same numbers
 * @param[in]  options  borrowed; the engine is kept
 * @param[out] out      gives the server: htc_kv_server_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation; the store is read at HTC_IN_START.   Since: 0.1
 */
HTC_API htc_status htc_kv_server_create(const htc_env *env, const htc_kv_server_options *options, htc_kv_server **out);

/**
 * Free a server; the engine stays.
 *
 * @param[in] server  NULL is fine
 *
 * Cost: O(what it holds).   Since: 0.1
 */
HTC_API void htc_kv_server_destroy(htc_kv_server *server);

/**
 * The server as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const htc_machine_ops *htc_kv_server_ops(void);

/** What a monitor wants to know. */
typedef struct htc_kv_server_stats {
    size_t   size;               /**< sizeof(htc_kv_server_stats), set by the caller */
    uint64_t messages;           /**< that arrived */
    uint64_t reads;              /**< requests that change nothing */
    uint64_t changes;            /**< requests that do */
    uint64_t answered_from_list; /**< repeated changes whose outcome was still known */
    uint64_t unknown;            /**< repeated changes answered HTC_EUNKNOWN */
    uint64_t commits;            /**< batches stored */
    uint64_t commits_failed;     /**< batches that were not */
    uint64_t pushed_back;        /**< requests to be sent again */
    uint64_t clock;              /**< the newest version that is durable */
    uint64_t leases;             /**< that run now */
    uint64_t tombstones;         /**< deletions remembered now */
    uint64_t connections;        /**< open now */
} htc_kv_server_stats;

/**
 * The counters of a server.
 *
 * @param[in]     server  borrowed
 * @param[in,out] stats   as much of it is filled as its size says
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or size 0
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_kv_server_stats_get(const htc_kv_server *server, htc_kv_server_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
