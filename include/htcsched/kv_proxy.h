/**
 * @file htcsched/kv_proxy.h
 * @brief An aggregating proxy of the key-value store: many clients in, few messages out.
 *
 * Clients (htcsched/kv.h) connect to the proxy as to a store. What they ask for while a message is under way is collected and
 * goes on to the store together, as one message, when that one is answered; each answer is handed back to whoever asked. So a
 * store has one connection and some messages for each proxy, however many clients there are.
 *
 * The proxy keeps nothing: it repeats no request, remembers no answer, and has no disk. Client id, sequence and since of each request
 * reach the store as they are. A client whose proxy, or the store behind it, was killed sends its requests again, through
 * whomever it reaches then, and each change is made once, or said to be unknown, as if there were no proxy.
 *
 * Through it go all requests but HTC_KV_CHANGE, which is HTC_EDENIED: change the members at a member. Leases, scans and values to
 * HTC_KV_VALUE_MAX are among them. It has no watches: each ends with HTC_EUNSUPPORTED. Clients of a proxy are not told who has which key,
 * and send everything to it; several members of one store may be named as its stores, and the first that answers gets everything until its
 * connection is lost, or until it is silent while another one answers: a member hands on what is another's. A proxy does not serve proxies.
 *
 * Without a store behind it a proxy greets nobody (HTC_EUNREACHABLE), and when it loses its store it closes all its clients: they
 * see what they would see of a store that has died, and may go elsewhere.
 *
 * Bounds: a client that has too much waiting is told to send again, a little later, as by a store; clients take turns.
 *
 * Drive it as any machine (htcsched/machine.h): START first, then OPENED, MESSAGE, CLOSED of its peers, TIMEOUT, and TURN after each
 * group of them, so that what has arrived together leaves together. The driver keeps the connections to the stores.
 *
 *     htc_kv_proxy_options o = { .size = sizeof o, .stores = &peer, .store_count = 1 };
 *     htc_host_dial_unix(host, "DIR/kvd.sock", 2, &peer, &error);
 *     htc_kv_proxy_create(&env, &o, &proxy);
 *     htc_host_run(host, htc_kv_proxy_ops(), proxy);
 *
 * Threads: owner.   Allocation: through env, bounded by the options.
 */
#ifndef HTCSCHED_KV_PROXY_H
#define HTCSCHED_KV_PROXY_H

#include "htcsched/machine.h"
#include "htcsched/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

/** HTC_IN_EVENT with this op: HTC_OUT_STOP with HTC_OK. What is not answered yet is its clients' to repeat. The same number as
 *  HTC_KV_SERVER_SHUTDOWN. */
#define HTC_KV_PROXY_SHUTDOWN 64

/** The most stores of one proxy. */
#define HTC_KV_PROXY_STORES_MAX 16

/** How a proxy works; every field's zero is its default but for stores. */
typedef struct htc_kv_proxy_options {
    size_t          size;            /**< sizeof(htc_kv_proxy_options) */
    const uint32_t *stores;          /**< the driver's numbers of the connections to members of one store, as they are preferred; copied */
    uint32_t        store_count;     /**< 1 to HTC_KV_PROXY_STORES_MAX */
    uint32_t        connections_max; /**< clients; 0: 1024. Beyond: HTC_EBUSY and closed */
    uint32_t        inflight_max;    /**< messages of one client not answered yet; 0: 1024. Beyond: "send again" */
    uint32_t        inflight_all;    /**< messages of all of them that the store has not answered; 0: 8192. More wait */
    size_t          bytes_max;       /**< bytes of requests that wait, at least 32 MiB; 0: 64 MiB. A quarter of it for one client, and three for
                                          messages above 64 KiB. Beyond: "send again" */
    size_t          sent_max;        /**< bytes of requests that the store has not answered; 0: 32 MiB. More wait */
    htc_ns          linger_ns;       /**< a message is under way for no longer than this, answered or not; 0: 10 ms */
    htc_ns          retry_ns;        /**< a store that does not greet is greeted again after this; 0: 1 s */
    htc_ns          forget_ns;       /**< an answer that has not come after this is nobody's any more; 0: 60 s */
    htc_ns          silent_ns;       /**< a store that owes answers and has said nothing for retry_ns is asked whether it is there, and the others
                                          are too. If it stays silent for this long, and another one answers, it is left; 0: 3 s */
} htc_kv_proxy_options;

/** A proxy, as a machine: self of htc_kv_proxy_ops. */
typedef struct htc_kv_proxy htc_kv_proxy;

/**
 * Create a proxy without clients.
 *
 * @param[in]  env      what it points to is kept; env->rng is required: it names the sessions, and no two proxies may draw the
 *                      same numbers
 * @param[in]  options  borrowed
 * @param[out] out      gives the proxy: htc_kv_proxy_destroy
 * @return HTC_OK; HTC_EINVAL: a pointer is NULL, there is no store, or two have one number, or a bound is too low; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.2
 */
HTC_API htc_status htc_kv_proxy_create(const htc_env *env, const htc_kv_proxy_options *options, htc_kv_proxy **out);

/**
 * Free a proxy.
 *
 * @param[in] proxy  NULL is fine
 *
 * Cost: O(what it holds).   Since: 0.2
 */
HTC_API void htc_kv_proxy_destroy(htc_kv_proxy *proxy);

/**
 * The proxy as a machine, for a driver.
 *
 * @return lends a constant
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_machine_ops *htc_kv_proxy_ops(void);

/** What a monitor wants to know. */
typedef struct htc_kv_proxy_stats {
    size_t   size;        /**< sizeof(htc_kv_proxy_stats), set by the caller */
    uint64_t requests;    /**< messages of clients that were passed on, in whatever company */
    uint64_t messages;    /**< messages to the store in which they went */
    uint64_t answers;     /**< messages that were handed back */
    uint64_t pushed_back; /**< messages of clients that were to be sent again: too much at once */
    uint64_t lost;        /**< times that the store was lost */
    uint64_t connections; /**< clients now */
    uint64_t waiting;     /**< messages of clients now that wait to be passed on */
    uint64_t unanswered;  /**< now: passed on, and not answered */
    uint32_t store;       /**< 1: there is a store behind it now */
} htc_kv_proxy_stats;

/**
 * The counters of a proxy.
 *
 * @param[in]     proxy  borrowed
 * @param[in,out] stats  as much of it is filled as its size says
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or size 0
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_proxy_stats_get(const htc_kv_proxy *proxy, htc_kv_proxy_stats *stats);

/**
 * Write the counters of a proxy for a monitor: families whose names begin with htc_kv_proxy_, as doc/metrics.md lists them.
 *
 * @param[in]     proxy    borrowed; between two steps
 * @param[in,out] metrics  the text to add to; other families may come before and after
 *
 * Cost: some 20 lines.   Since: 0.2
 */
HTC_API void htc_kv_proxy_metrics(const htc_kv_proxy *proxy, htc_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
