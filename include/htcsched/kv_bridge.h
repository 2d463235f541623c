/**
 * @file htcsched/kv_bridge.h
 * @brief The way from clients of the key-value store (htcsched/kv.h) to a store of others: Redis or etcd.
 *
 * Clients connect to the bridge as to a member. Each change becomes a compare-and-swap of the other store, or a delete on condition, and every
 * value that the bridge stores ends with a mark: the client that wrote it, and which of its changes it was. So a change whose answer was
 * lost is sent again and finds its own mark if it was made, also if the bridge was killed meanwhile and its client repeats it through another one.
 * A CAS that is answered HTC_OK was made once. A PUT or an ADD is made again if its answer was lost and another client has written the key
 * since: use ADD there to draw numbers, of which some may be left out. What lies in the store under the bridge's prefix is for bridges alone:
 * what has no mark is HTC_ECORRUPT.
 *
 * Through it go GET, PUT, DELETE, ADD, CAS_VERSION, SCAN and COUNT, without ttl, lease, namespaces and flags but HTC_KV_IF_VERSION; the rest is
 * HTC_EUNSUPPORTED, and a watch ends with HTC_EFULL. Requests about one key are carried out in their order. A store that is away is asked again for
 * as long as it takes.
 *
 * The bridge keeps nothing but what is under way. Drive it as any machine; its driver carries out HTC_KV_BRIDGE_ASK:
 *
 *     htc_kv_bridge_create(&env, &o, &bridge);
 *     htc_store_open(&env, &(htc_store_options){ .size = sizeof(htc_store_options), .address = "etcd://127.0.0.1:2379" }, &store, &error);
 *     htc_kv_bridge_attach(host, store, &error);
 *     htc_host_run(host, htc_kv_bridge_ops(), bridge);
 *
 * Threads: owner.   Allocation: through env, bounded by the options.
 */
#ifndef HTCSCHED_KV_BRIDGE_H
#define HTCSCHED_KV_BRIDGE_H

#include "htcsched/codec.h"
#include "htcsched/host.h"
#include "htcsched/machine.h"
#include "htcsched/metrics.h"
#include "htcsched/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/** HTC_OUT_CALL with this op: ask the store for what htc_kv_bridge_ask_read makes of the body, and answer with what htc_kv_bridge_answer_write makes
 *  of the result. HTC_IN_RESULT with another status than HTC_OK: it was not answered, and may have been done. */
#define HTC_KV_BRIDGE_ASK 70
/** HTC_IN_EVENT with this op: HTC_OUT_STOP with HTC_OK. The same number as HTC_KV_SERVER_SHUTDOWN. */
#define HTC_KV_BRIDGE_SHUTDOWN 64

/** How a bridge works; every field's zero is its default. */
typedef struct htc_kv_bridge_options {
    size_t   size;            /**< sizeof(htc_kv_bridge_options) */
    uint32_t connections_max; /**< clients; 0: 1024. Beyond: HTC_EBUSY and closed */
    uint32_t asks_max;        /**< requests that are held; 0: 4096. Beyond: "send again" */
    size_t   bytes_max;       /**< bytes of these; 0: 32 MiB. Beyond: "send again" */
    htc_ns   retry_ns;        /**< what was not answered is sent again after this; 0: 50 ms */
} htc_kv_bridge_options;

/** A bridge, as a machine: self of htc_kv_bridge_ops. */
typedef struct htc_kv_bridge htc_kv_bridge;

/**
 * Create a bridge without clients.
 *
 * @param[in]  env      what it points to is kept; env->rng is required: it names the sessions
 * @param[in]  options  borrowed
 * @param[out] out      gives the bridge: htc_kv_bridge_destroy
 * @return HTC_OK; HTC_EINVAL: a pointer is NULL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.2
 */
HTC_API htc_status htc_kv_bridge_create(const htc_env *env, const htc_kv_bridge_options *options, htc_kv_bridge **out);

/**
 * Free a bridge. What is not answered yet will not be; it may have been done.
 *
 * @param[in] bridge  NULL is fine
 *
 * Cost: O(requests held).   Since: 0.2
 */
HTC_API void htc_kv_bridge_destroy(htc_kv_bridge *bridge);

/**
 * The bridge as a machine.
 *
 * @return its functions; self is a htc_kv_bridge
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_machine_ops *htc_kv_bridge_ops(void);

/**
 * Read the body of HTC_KV_BRIDGE_ASK.
 *
 * @param[in]  body     borrowed by request
 * @param[out] request  filled; its size is the caller's; untouched on failure
 * @return HTC_OK; HTC_EPROTO: that is no such body; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_bridge_ask_read(htc_bytes body, htc_kv_request *request);

/**
 * Write the answer to HTC_KV_BRIDGE_ASK.
 *
 * @param[in,out] body    appended to
 * @param[in]     result  borrowed
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_kv_bridge_answer_write(htc_buf *body, const htc_kv_result *result);

/**
 * Write the counters of a bridge for a monitor: families whose names begin with htc_kv_bridge_, as doc/metrics.md lists them.
 *
 * @param[in]     bridge   borrowed; between two steps
 * @param[in,out] metrics  the text to add to; other families may come before and after
 *
 * Cost: some 20 lines.   Since: 0.2
 */
HTC_API void htc_kv_bridge_metrics(const htc_kv_bridge *bridge, htc_metrics *metrics);

/**
 * Have a host carry out the calls of a bridge by a store, in its loop. It becomes what answers the host's calls (htc_host_on_call).
 *
 * @param[in,out] host   not running yet
 * @param[in]     store  kept; with nothing outstanding, and not used by anybody else before the host is destroyed. Not `memory:`
 * @param[out]    error  why not; NULL is fine
 * @return HTC_OK; HTC_EUNSUPPORTED: the store has no descriptor; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_kv_bridge_attach(htc_host *host, htc_store *store, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
