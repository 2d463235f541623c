/**
 * @file htcsched/metrics_host.h
 * @brief A page for monitors: OpenMetrics text over HTTP, beside whatever else a live host does.
 *
 * GET /metrics is answered with what the caller writes; every other path is 404, every other method 405. It is HTTP/1.1 with one
 * request a connection. A request has at most 8 KiB and 10 s for it and its answer, at most 16 connections are open at once, of
 * which a further one ends the oldest: nobody can keep a monitor out, or the host busy, by holding on.
 *
 * Nothing is encrypted and nobody is asked who they are, so that addresses beyond loopback are refused; what is shown are figures. A
 * monitor elsewhere comes through a collector on this machine, or a tunnel.
 *
 * Threads: owner; the page is written in the loop's thread.   Allocation: through env.
 */
#ifndef HTCSCHED_METRICS_HOST_H
#define HTCSCHED_METRICS_HOST_H

#include "htcsched/host.h"
#include "htcsched/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Writes the page.
 *
 * @param[in]     ctx      as given
 * @param[in,out] metrics  an empty text, at most 1 MiB; it is ended afterwards. A mistake in it is answered 500
 */
typedef void (*htc_host_metrics_fn)(void *ctx, htc_metrics *metrics);

/** Where the page is, and what it shows. */
typedef struct htc_host_metrics_options {
    size_t              size;     /**< sizeof(htc_host_metrics_options) */
    const char         *address;  /**< "127.0.0.1:9464", "[::1]:9464" (port 0: any) or "unix:PATH"; copied */
    htc_host_metrics_fn write;    /**< in the loop's thread, between two steps of the machine; not for long */
    void               *ctx;      /**< of write; kept */
    uint32_t            mode;     /**< of the file of a Unix socket; 0: 0600 */
    uint32_t            reserved; /**< 0 */
} htc_host_metrics_options;

/**
 * Show a page. It is shown from when the host runs until it is destroyed, also while the machine lets nobody else in.
 *
 * @param[in,out] host     not running yet
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    bound    TCP: the port listened on; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EDENIED for an address beyond loopback; HTC_ELOCKED if the port or path is
 *         taken; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_host_listen_metrics(htc_host *host, const htc_host_metrics_options *options, uint16_t *bound,
                                           htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
