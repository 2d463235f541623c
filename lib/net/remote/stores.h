/* What the kinds of store have in common: store.c finds the kind by the address, the kinds do the work.
 *
 *   native.c   members of ours behind sockets: htc_kv_client in a loop of its own (native_link.c, native.h)
 *   sealed.c   its secure channel
 *   memory.c   client and server in one process, message by message
 *   window.c   for stores that are not ours: requests copied, the changes of a key one after another, answers in hand
 *   poll_set.c the sockets of a store as one descriptor, for a loop that is not ours
 *   bridge_host.c  requests of a bridge (htcsched/kv_bridge.h), in a host's loop
 *   quiet.c    and their libraries' writes that must not end a program
 *   redis.c    Redis and Valkey, by hiredis (redis.h)
 *   etcd.c     etcd, by its JSON gateway (etcd.h) */
#ifndef HTC_NET_STORES_H
#define HTC_NET_STORES_H

#include "htcsched/store.h"
#include "net/remote/poll_set.h"

typedef struct htc__store_kind {
    const char *scheme; /* how the address begins */
    uint32_t    can;    /* htc_store_ability */
    /* rest: the address behind the scheme. options are complete: no zeros that mean a default. */
    htc_status (*open)(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                       htc_error *error);
    htc_status (*submit)(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag);
    /* end: a moment of htc_host_now, or HTC_NEVER. HTC_OK, HTC_ETIMEDOUT, HTC_ENOMEM. */
    htc_status (*next)(void *ctx, htc_ns end, htc_kv_result *result);
    void (*close)(void *ctx);
    /* With HTC_STORE_WATCHES, else NULL; event as next. */
    htc_status (*watch)(void *ctx, const htc_kv_watch *watch);
    htc_status (*unwatch)(void *ctx, uint64_t tag);
    htc_status (*event)(void *ctx, htc_ns end, htc_kv_event *event);
    /* For other loops. The sockets there are, at most HTC__POLL_SET_MAX, and what each waits for; *dials as htc__poll_set_become has
     * it. NULL: there are none. */
    uint32_t (*sockets)(const void *ctx, htc__poll_socket *sockets, uint64_t *dials);
    /* The moment for a next turn though no socket says anything; in the past where an answer or event is at hand. */
    htc_ns (*deadline)(const void *ctx);
} htc__store_kind;

extern const htc__store_kind htc__store_unix, htc__store_tcp, htc__store_memory, htc__store_etcd;
#ifdef HTC_HAVE_HIREDIS
extern const htc__store_kind htc__store_redis, htc__store_redis_unix;
#endif

/* HOST[:PORT][/PREFIX]. HTC_EINVAL; a prefix is of letters, digits, '-', '_', '.' */
typedef struct htc__address {
    char     host[256], prefix[64];
    uint16_t port;
} htc__address;

htc_status htc__address_parse(const char *text, uint16_t port, htc__address *address);

/* now + span, HTC_NEVER if that is beyond the clock. */
htc_ns htc__store_end(htc_ns span);

#endif
