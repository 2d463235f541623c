/**
 * @file htcsched/host_keys.h
 * @brief Connections of a live host that go through a secure channel: from anywhere, for those whose key is known.
 *
 *     htc_host_keys *keys;
 *     htc_host_keys_options with = { .size = sizeof with, .key_path = "store-1.key", .ring_path = "ring" };
 *     htc_host_keys_listen_options at = { .size = sizeof at, .address = "0.0.0.0:7421", .port = 1 };
 *     htc_host_keys_dial_options to = { .size = sizeof to, .address = "10.0.0.2:7421", .name = "store-2", .port = 2 };
 *     htc_host_keys_open(host, &with, &keys, &error);
 *     htc_host_keys_listen(keys, &at, NULL, &error);
 *     htc_host_keys_dial(keys, &to, &peer, &error);
 *     htc_host_run(host, ops, machine);
 *
 * The machine sees connections as all others: HTC_IN_OPENED when both ends have shown a key that the other one knows, messages,
 * HTC_IN_CLOSED. Their transport is HTC_TRANSPORT_SECURE, and htc_peer_identity_read says whose key it is. What is said in a turn
 * of the loop is sealed together. htcsched/channel.h has the handshakes, htcsched/keys.h the files.
 *
 * **Changes without a stop.** htc_host_keys_load, or SIGHUP where the host handles signals, reads the files anew: connections whose
 * other end is revoked or no longer known are closed, and both ends are told; new keys are shown from then on. With look_ns that is done
 * whenever somebody else has changed a file. A second key in the
 * key file is announced to the other ends, which pin it as their next one, in memory and in their ring file. A file that cannot be
 * read changes nothing.
 *
 * **Strangers.** Who has not shown a key yet has the handshake's time for it and costs less than 8 KiB. There are at most
 * strangers_max of them: one more, and the oldest of those from the busiest addresses is closed. The gate (htcsched/channel.h)
 * limits the handshakes of each address. Connections that are open are not touched by any of that.
 *
 * Threads: owner, the host's.   Allocation: through the host's env.
 */
#ifndef HTCSCHED_HOST_KEYS_H
#define HTCSCHED_HOST_KEYS_H

#include "htcsched/host.h"
#include "htcsched/metrics.h"
#include "htcsched/keyring.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One's own keys, and whom one knows. */
typedef struct htc_host_keys htc_host_keys;

/** Where the keys are; every field's zero is its default but for the two paths. */
typedef struct htc_host_keys_options {
    size_t      size;          /**< sizeof(htc_host_keys_options) */
    const char *key_path;      /**< one's own key file (htcsched/keys.h); copied */
    const char *ring_path;     /**< the public keys that are known; copied */
    const char *once_path;     /**< open one-time secrets: who shows one is enrolled; copied. NULL: nobody is */
    uint32_t    role;          /**< htc_key_role that others have pinned one's own key with; 0: HTC_KEY_MEMBER */
    uint32_t    strangers_max; /**< connections that have not shown a key yet, at once; 0: 256 */
    uint32_t    rate;          /**< handshakes a second from one address, in the long run; 0: 16 */
    uint32_t    burst;         /**< and at once; 0: 64 */
    htc_ns      handshake_ns;  /**< time to show a key; 0: 10 s */
    htc_ns      look_ns;       /**< look so often whether a file was changed, and read all anew then; 0: never */
} htc_host_keys_options;

/**
 * Read the keys for connections of a host.
 *
 * @param[in,out] host     not running yet; with handle_signals SIGHUP reads the files anew from now on
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    out      lends the keys as long as the host lives; untouched on failure
 * @param[out]    error    why, with file and line; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; as htc_keys_read, htc_keys_load_ring and htc_keys_once_load
 *
 * Cost: O(bytes of the files), 100 KiB.   Since: 0.2
 */
HTC_API htc_status htc_host_keys_open(htc_host *host, const htc_host_keys_options *options, htc_host_keys **out,
                                      htc_error *error);

/**
 * Read the files anew.
 *
 * @param[in,out] keys   as they were on failure
 * @param[out]    error  why, with file and line; NULL is fine
 * @return HTC_OK; HTC_AGAIN: it is done when a file that is being written at the moment is; as htc_host_keys_open
 *
 * Cost: O(bytes of the files + connections).   Since: 0.2
 */
HTC_API htc_status htc_host_keys_load(htc_host_keys *keys, htc_error *error);

/** Where others may come in. */
typedef struct htc_host_keys_listen_options {
    size_t      size;    /**< sizeof(htc_host_keys_listen_options) */
    const char *address; /**< "0.0.0.0:7421", "[::]:7421", "127.0.0.1:0" (port 0: any); copied */
    uint32_t    port;    /**< number handed to the machine in htc_peer_info.port */
    uint32_t    accept;  /**< roles let in, a bit 1 << htc_key_role each; 0: all */
} htc_host_keys_listen_options;

/**
 * Listen on TCP, on any address, for those whose keys are known.
 *
 * @param[in,out] keys     whose host is not running yet
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    bound    the port listened on; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ELOCKED if the port is taken; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_host_keys_listen(htc_host_keys *keys, const htc_host_keys_listen_options *options,
                                        uint16_t *bound, htc_error *error);

/** Whom to call. */
typedef struct htc_host_keys_dial_options {
    size_t      size;    /**< sizeof(htc_host_keys_dial_options) */
    const char *address; /**< "10.0.0.2:7421", "[fd00::2]:7421", "store-2.example:7421" (asked for each time); copied. Several with commas between: each is
                              tried in turn, and the next one when a connection has ended */
    const char *name;    /**< who has to answer, as in the ring; copied. NULL: anybody with peer_role */
    uint32_t    peer_role; /**< htc_key_role of who has to answer; 0: HTC_KEY_MEMBER */
    uint32_t    port;      /**< number handed to the machine in htc_peer_info.port */
    uint32_t    only_xx;   /**< 1: never IK (htcsched/channel.h) */
    /**
     * Called in the loop's thread whenever a try ends before both ends know each other, or a connection because one of them does not know the
     * other, or no longer. NULL: nobody is told but the log.
     *
     * @param[in] ctx     refused_ctx
     * @param[in] why     HTC_EDENIED: one of the two is not known to the other, or not let in; HTC_EUNREACHABLE: nobody answers there; others
     * @param[in] reason  in words; ends with a zero byte
     */
    void (*refused)(void *ctx, htc_status why, const char *reason);
    void *refused_ctx; /**< kept */
} htc_host_keys_dial_options;

/**
 * Keep a connection: dialled when the loop runs, and again whenever it is lost. Nobody has to answer yet, nor be known.
 *
 * @param[in,out] keys     whose host is not running yet, or in its loop's thread
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    peer     its number, the same for ever; HTC_IN_OPENED and HTC_IN_CLOSED come in turn
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_host_keys_dial(htc_host_keys *keys, const htc_host_keys_dial_options *options, uint32_t *peer,
                                      htc_error *error);

/**
 * The public keys that are known with one role, as a ring's text: to be told to others.
 *
 * @param[in]  keys  not NULL
 * @param[in]  role  htc_key_role; 0: all
 * @param[out] out   gets at most room bytes, no end behind them; may be NULL if room is 0
 * @param[in]  room  of out in bytes
 * @return how many bytes the whole takes; 0 also if memory is short
 *
 * Cost: O(keys).   Since: 0.2
 */
HTC_API size_t htc_host_keys_text(const htc_host_keys *keys, uint32_t role, char *out, size_t room);

/** What came of connections so far. */
typedef struct htc_host_keys_counts {
    uint64_t opened;        /**< both ends have shown a key that the other one knows */
    uint64_t refused;       /**< a handshake that failed, here or there, for whatever reason */
    uint64_t crowded_out;   /**< strangers closed to make room for others */
    uint64_t disowned;      /**< open connections closed because the key is no longer known, or revoked */
    uint64_t busy;          /**< handshakes refused or sent away with a cookie: too many at once */
    uint64_t rate_limited;  /**< handshakes refused: too many from one address */
    uint32_t strangers;     /**< now: connected, and no key shown yet */
    uint32_t strangers_top; /**< the most of them at one time */
} htc_host_keys_counts;

/**
 * What came of connections so far.
 *
 * @param[in]  keys    not NULL
 * @param[out] counts  filled
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_host_keys_count(const htc_host_keys *keys, htc_host_keys_counts *counts);

/**
 * The same for monitors: the families htc_channel_... of doc/metrics.md.
 *
 * @param[in]     keys     not NULL
 * @param[in,out] metrics  they are added to it; what goes wrong is said by htc_metrics_end
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_host_keys_metrics(const htc_host_keys *keys, htc_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
