/**
 * @file htcsched/store.h
 * @brief One handle for any key-value store, ours, Redis or etcd, over its socket or inside this process.
 *
 *     htc_store *store;
 *     htc_store_open(&env, &(htc_store_options){ sizeof(htc_store_options), "redis://127.0.0.1:6379" }, &store, &error);
 *     htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("greeting"), .value = htc_bytes_of("hello") };
 *     htc_kv_result  result = { .size = sizeof result };
 *     htc_store_ask(store, &put, &result, &error);
 *     printf("version %llu\n", (unsigned long long)result.version);
 *     htc_store_close(store);
 *
 * Requests and results are those of htcsched/kv.h, and mean the same whatever answers them: versions that grow over deletion
 * and re-creation, a mismatch that shows the current value, a change that is made once though it was sent twice. What a store
 * cannot do is said beforehand by htc_store_can and answered HTC_EUNSUPPORTED, never done half.
 *
 * | address | what answers |
 * |---|---|
 * | `unix:PATH`, or a path with a slash | a member of our store behind its Unix socket; `unix:PATH,unix:PATH` several of one store |
 * | `tcp://HOST:PORT` | the same on any host, through a secure channel: key_path, and ring_path or server; `tcp://HOST:PORT,HOST:PORT` |
 * | `tcp://127.0.0.1:PORT` | without key_path: behind loopback TCP; token_path names the token's file |
 * | `memory:` | a store of its own inside this handle, gone with it: for tests, and programs that need no more |
 * | `redis://HOST:PORT/PREFIX`, `redis+unix:PATH` | Redis or Valkey |
 * | `etcd://HOST:PORT,HOST:PORT/PREFIX` | etcd 3.4 or later, by its JSON gateway: one member, or several to go on with when one fails |
 *
 * Of several members of one store the first that answers is asked, and when its connection is lost the next one: at most 16, in their
 * order. A change that was sent to one and is repeated at another is made once.
 *
 * In Redis lie our records (value, version, last changes); a change is worked out here, by the same function as in our own
 * members, and stored by a compare-and-swap. Several handles, also of several machines, may
 * use one prefix; other clients of that Redis cannot read them as plain values. A replica is refused, for it shows what was;
 * what Redis loses in a fail-over to a replica is lost without a word.
 *
 * In etcd a key lies as PREFIX/KEY (PREFIX `htc` unless named) with its plain value, and its version is etcd's modification
 * revision; APPEND and ADD are compare-and-swaps of this library's, HTC_EBUSY when others were faster 256 times. Requests and
 * answers together carry values of up to 1 MiB. etcd does not tell a repeated change from a new one: HTC_STORE_SAFE_RETRIES is
 * missing, and a change whose answer was lost is answered HTC_EUNKNOWN. It was made once or not at all, or it may yet be. A key
 * has no ttl of its own (HTC_EUNSUPPORTED), but leases. No TLS, no users and passwords of etcd.
 *
 * Threads: owner.   Allocation: through env; hiredis, libevent and Jansson their own by malloc.
 */
#ifndef HTCSCHED_STORE_H
#define HTCSCHED_STORE_H

#include "htcsched/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a store can do, as bits of htc_store_can. */
typedef enum htc_store_ability {
    HTC_STORE_LINEARIZABLE = 1, /**< a read shows every change that was answered before it was asked */
    HTC_STORE_SAFE_RETRIES = 2, /**< a change is made once, also when its answer was lost on the way */
    HTC_STORE_LEASES = 4,       /**< LEASE_GRANT, LEASE_RENEW, LEASE_REVOKE, keys bound to a lease */
    HTC_STORE_ORDERED_SCAN = 8, /**< pages of a SCAN come in the order of htc_bytes_compare */
    HTC_STORE_FINE_LEASES = 16, /**< terms of leases are kept to the millisecond; else to whole seconds, rounded up */
    HTC_STORE_LARGE_VALUES = 32, /**< values up to HTC_KV_VALUE_MAX; else up to 1 MiB */
    HTC_STORE_WATCHES = 64 /**< htc_store_watch; a member that has none ends the watch with HTC_EUNSUPPORTED */
} htc_store_ability;

/** An open store. */
typedef struct htc_store htc_store;

/** Which store, and how patient to be. */
typedef struct htc_store_options {
    size_t      size;          /**< sizeof(htc_store_options) */
    const char *address;       /**< as above; copied */
    const char *token_path;    /**< `tcp:`: the file with the token; copied */
    const char *password_path; /**< `redis:`: a file whose first line is the password; NULL: none */
    htc_ns
             timeout_ns; /**< for the first connection, and for each request: then HTC_ETIMEDOUT; 0: 10 s; `redis:` at most half an hour */
    uint32_t window; /**< requests on their way at once, `redis:` and (at most 8) `etcd:`; 0: 64. More wait here */
    /* `tcp:` with keys (htcsched/keys.h) */
    const char    *key_path;  /**< one's own key file; copied. Since: 0.2 */
    const char    *ring_path; /**< the public keys that are known; copied. NULL: only that of server. Since: 0.2 */
    const char    *server;    /**< who has to answer: a name of the ring, or a public key as text (`pub-…`); copied. NULL: any member
                                   of the ring. Since: 0.2 */
    uint32_t       role;      /**< htc_key_role that one's own key is pinned with over there; 0: HTC_KEY_USER. Since: 0.2 */
    const uint8_t *once;      /**< a one-time secret, HTC_KEY_BYTES: have one's own key pinned there, and pin the one that answers as
                                   server in the file ring_path, made if need be; copied. NULL: no. Since: 0.2 */
    uint32_t       durable; /**< 1: refuse a store that may lose what it has answered when it is killed or its machine fails: of Redis, one without
                                 appendonly yes and appendfsync always, HTC_ESTORE with what to set; `memory:` too. Others keep it. Since: 0.2 */
} htc_store_options;

/**
 * Open a store: somebody answers there, or this says why not.
 *
 * @param[in]  env      kept; its rng may be NULL; NULL: malloc
 * @param[in]  options  borrowed; strings are copied
 * @param[out] out      gives the store: htc_store_close; untouched on failure
 * @param[out] error    why, naming the address; NULL is fine
 * @return HTC_OK; HTC_EINVAL for an address of no known form; HTC_EABI; HTC_EPROTO: somebody else answers there; HTC_EUNREACHABLE; HTC_EDENIED; HTC_EVERSION; HTC_ETIMEDOUT;
 *         HTC_EDENIED for tcp: beyond this machine without keys; as htc_keys_read and htc_keys_load_ring; HTC_ESTORE for a replica of Redis; HTC_ENOMEM
 *
 * Cost: a round trip or two.   Since: 0.2
 */
HTC_API htc_status htc_store_open(const htc_env *env, const htc_store_options *options, htc_store **out,
                                  htc_error *error);

/**
 * Hang up. What is not answered yet will not be; it may have been done.
 *
 * @param[in] store  NULL is fine
 *
 * Cost: O(requests held).   Since: 0.2
 */
HTC_API void htc_store_close(htc_store *store);

/**
 * What this store can do.
 *
 * @param[in] store  borrowed; NULL: nothing
 * @return bits of htc_store_ability
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_store_can(const htc_store *store);

/**
 * Send requests and go on; the answers come from htc_store_next.
 *
 * Several are no transaction. The changes of one key are made in the order they were submitted.
 *
 * @param[in,out] store     as it was on failure
 * @param[in]     requests  n of them, each as long as the first one's size says; copied with all their bytes
 * @param[in]     n         at least 1
 * @param[in]     tag       the caller's, comes back with each answer
 * @return HTC_OK; HTC_EINVAL for a wrong request or one without size, and none is sent; HTC_EABI: a field is set that this library does not know; HTC_ETOOBIG; HTC_EUNSUPPORTED for a namespace in Redis;
 *         HTC_EFULL when too much waits to be answered; HTC_ENOMEM
 *
 * Cost: O(bytes), amortised.   Since: 0.2
 */
HTC_API htc_status htc_store_submit(htc_store *store, const htc_kv_request *requests, size_t n, uint64_t tag);

/**
 * Take the next answer, and wait for it.
 *
 * A request that cannot be answered in time is answered with result->status HTC_ETIMEDOUT: it may have been done.
 *
 * @param[in,out] store   borrowed
 * @param[in]     wait    at most this long; 0: only what is here; HTC_NEVER: until there is one
 * @param[in,out] result  its size is the caller's; what it points to is lent until the next htc_store_submit, htc_store_next, htc_store_ask,
 *                        htc_store_event or htc_store_close of this store; untouched if there is none
 * @return HTC_OK; HTC_ETIMEDOUT: none came meanwhile; HTC_EMPTY: nothing is asked, none will come; HTC_EINVAL; HTC_ENOMEM: the
 *         store is broken, close it
 *
 * Cost: waits.   Since: 0.2
 */
HTC_API htc_status htc_store_next(htc_store *store, htc_ns wait, htc_kv_result *result);

/**
 * One request and its answer. Not while answers to others are outstanding: these would be taken for it.
 *
 * @param[in,out] store    with nothing outstanding
 * @param[in]     request  borrowed
 * @param[in,out] result   as from htc_store_next, with the caller's size; untouched unless HTC_OK
 * @param[out]    error    why, in a sentence, also where result->status is a failure; NULL is fine
 * @return HTC_OK: there is an answer, look at result->status; HTC_EBUSY: something is outstanding; as htc_store_submit
 *
 * Cost: a round trip.   Since: 0.2
 */
HTC_API htc_status htc_store_ask(htc_store *store, const htc_kv_request *request, htc_kv_result *result,
                                 htc_error *error);

/**
 * Watch a key, or all keys with a prefix (htc_kv_client_watch says what is promised).
 *
 *     htc_kv_watch watch = { .size = sizeof watch, .key = htc_bytes_of("jobs/"), .prefix = 1 };
 *     htc_kv_event e;
 *     htc_store_watch(store, &watch);
 *     while (htc_store_event(store, HTC_NEVER, &e) == HTC_OK)
 *         if (e.kind == HTC_KV_EVENT_VALUE)
 *             printf("%.*s changed\n", (int)e.key.len, (const char *)e.key.data);
 *
 * @param[in,out] store  as it was on failure
 * @param[in]     watch  copied
 * @return HTC_OK; HTC_EUNSUPPORTED without HTC_STORE_WATCHES; as htc_kv_client_watch
 *
 * Cost: no waiting.   Since: 0.2
 */
HTC_API htc_status htc_store_watch(htc_store *store, const htc_kv_watch *watch);

/**
 * End a watch: no event of it comes any more.
 *
 * @param[in,out] store  borrowed
 * @param[in]     tag    of the watch
 * @return HTC_OK; HTC_ENOTFOUND: there is none; HTC_EUNSUPPORTED; HTC_EINVAL
 *
 * Cost: no waiting.   Since: 0.2
 */
HTC_API htc_status htc_store_unwatch(htc_store *store, uint64_t tag);

/**
 * Take the next event of any watch, and wait for it. Answers to requests wait meanwhile for htc_store_next.
 *
 * @param[in,out] store  borrowed
 * @param[in]     wait   at most this long; 0: only what is here; HTC_NEVER: until there is one
 * @param[out]    event  what it points to is lent until the next call of any function with this store but htc_store_can; untouched if there is none
 * @return HTC_OK; HTC_ETIMEDOUT: none came meanwhile; HTC_EUNSUPPORTED; HTC_EINVAL; HTC_ENOMEM: the store is broken, close it
 *
 * Cost: waits.   Since: 0.2
 */
HTC_API htc_status htc_store_event(htc_store *store, htc_ns wait, htc_kv_event *event);

/**
 * For a program with a loop of its own: one descriptor that stands for all sockets of this store.
 *
 *     int fd = htc_store_fd(store);
 *     struct pollfd p = { fd, htc_store_events(store), 0 };
 *     htc_ns until = htc_store_deadline(store), now = htc_host_now();
 *     poll(&p, 1, until == HTC_NEVER ? -1 : until <= now ? 0 : (int)((until - now) / HTC_MS) + 1);
 *     while (htc_store_next(store, 0, &result) == HTC_OK)
 *         take(&result);
 *     while (htc_store_event(store, 0, &event) == HTC_OK)  // where it watches something
 *         notice(&event);
 *
 * What the loop has to do is just that: when the descriptor is ready or the deadline is over, call htc_store_next with a wait of 0, and
 * htc_store_event if there are watches, until they give nothing. These read, write and dial, and do not wait: but a lost connection
 * to Redis is made anew, up to a second. From the first call of this on, htc_store_next does so also with nothing outstanding.
 *
 * @param[in,out] store  borrowed
 * @return the descriptor, the same until htc_store_close, which closes it: not to be read, written or closed; -1: `memory:` has no
 *         socket and needs none, its deadline is enough; or the system refuses one
 *
 * Cost: two system calls the first time; from then on each change of what a socket waits for is one.   Since: 0.2
 */
HTC_API int htc_store_fd(htc_store *store);

/**
 * What to poll that descriptor for.
 *
 * @param[in] store  borrowed
 * @return bits of poll(2); 0: there is no descriptor
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API short htc_store_events(const htc_store *store);

/**
 * When the store wants to be called though its descriptor says nothing: a retry, the end of a request's time, or at once after
 * htc_store_submit and htc_store_watch. To be asked anew after each call with this store.
 *
 * @param[in] store  borrowed; NULL: HTC_NEVER
 * @return a moment of htc_host_now, also one that is over; HTC_NEVER
 *
 * Cost: O(requests outstanding) for stores of others, else O(connections and watches).   Since: 0.2
 */
HTC_API htc_ns htc_store_deadline(const htc_store *store);

#ifdef __cplusplus
}
#endif
#endif
