/* The handle: which kind of store an address names, and what is outstanding. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/host.h"
#include "kvs/util/sized.h"
#include "net/remote/stores.h"

struct htc_store {
    htc_env                env;
    const htc__store_kind *kind;
    void                  *ctx;
    char                  *address;
    size_t                 outstanding;
    htc__poll_set          set; /* made when somebody asks for its descriptor */
    int                    due; /* something was asked for, and no turn was made since */
    htc_status             broken; /* HTC_OK, or what ended it: memory ran out in the middle of something */
};

static const htc__store_kind *const kinds[] = { &htc__store_unix, &htc__store_tcp, &htc__store_memory,
                                                &htc__store_etcd,
#ifdef HTC_HAVE_HIREDIS
                                                &htc__store_redis, &htc__store_redis_unix
#endif
};

htc_ns htc__store_end(htc_ns span)
{
    htc_ns now = htc_host_now();
    return span > HTC_NEVER - now ? HTC_NEVER : now + span;
}

htc_status htc__address_parse(const char *text, uint16_t port, htc__address *address)
{
    size_t host = strcspn(text, ":/");
    char  *end = NULL;
    *address = (htc__address){ .port = port };
    if (host == 0 || host >= sizeof address->host)
        return HTC_EINVAL;
    memcpy(address->host, text, host);
    text += host;
    if (*text == ':') {
        unsigned long n = strtoul(text + 1, &end, 10);
        if (n == 0 || n > UINT16_MAX || end == text + 1)
            return HTC_EINVAL;
        address->port = (uint16_t)n;
        text = end;
    }
    if (*text == 0)
        return HTC_OK;
    size_t prefix = strspn(text + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    if (*text != '/' || text[1 + prefix] || prefix >= sizeof address->prefix)
        return HTC_EINVAL;
    memcpy(address->prefix, text + 1, prefix);
    return HTC_OK;
}

/* Where the address goes on behind its scheme; NULL: no known one. */
static const char *find(const char *address, const htc__store_kind **kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i]->scheme);
        if (strncmp(address, kinds[i]->scheme, len) == 0) {
            *kind = kinds[i];
            return address + len;
        }
    }
    *kind = &htc__store_unix;
    return strchr(address, '/') && !strchr(address, ':') ? address : NULL;
}

htc_status htc_store_open(const htc_env *env, const htc_store_options *options, htc_store **out, htc_error *error)
{
    htc_store_options o = { 0 };
    if (!options || !out)
        return htc__error(error, HTC_EINVAL, "options and a place for the store are needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_store_options, token_path));
    if (status != HTC_OK)
        return htc__error(error, status, "options of another library");
    const htc__store_kind *kind = NULL;
    const char            *rest = o.address ? find(o.address, &kind) : NULL;
    if (!rest)
        return htc__error(error, HTC_EINVAL,
                          "%s: not the address of a store: unix:PATH, tcp://HOST:PORT, memory:, redis://HOST:PORT, etcd://HOST:PORT",
                          o.address ? o.address : "(none)");
    if (o.durable && kind == &htc__store_memory)
        return htc__error(error, HTC_ESTORE, "%s: it is gone with this process", o.address);
    o.timeout_ns = o.timeout_ns ? o.timeout_ns : 10 * HTC_SECOND;
    o.window = o.window ? o.window : 64;
    htc_store *store = htc__alloc(env, sizeof *store);
    if (!store)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    store->env = env ? *env : (htc_env){ .size = sizeof(htc_env) };
    store->kind = kind;
    store->set.fd = -1;
    store->address = htc__strdup(env, o.address);
    status = store->address ? kind->open(&store->env, &o, rest, &store->ctx, error)
                            : htc__error(error, HTC_ENOMEM, "out of memory");
    if (status != HTC_OK) {
        htc_store_close(store);
        return status;
    }
    *out = store;
    return HTC_OK;
}

void htc_store_close(htc_store *store)
{
    if (!store)
        return;
    htc_env env = store->env;
    if (store->ctx)
        store->kind->close(store->ctx);
    htc__poll_set_close(&store->set);
    htc__strfree(&env, store->address);
    htc__free(&env, store, sizeof *store);
}

/* After whatever may have changed the sockets, or what they wait for. */
static htc_status follow(htc_store *store)
{
    htc__poll_socket sockets[HTC__POLL_SET_MAX];
    uint64_t         dials = 0;
    if (store->set.fd < 0)
        return HTC_OK;
    uint32_t   n = store->kind->sockets(store->ctx, sockets, &dials);
    htc_status status = htc__poll_set_become(&store->set, sockets, n, dials);
    if (status != HTC_OK)
        store->broken = status;
    return status;
}

int htc_store_fd(htc_store *store)
{
    if (!store || !store->kind->sockets || store->broken != HTC_OK)
        return -1;
    if (store->set.fd < 0 && htc__poll_set_open(&store->set) == HTC_OK && follow(store) != HTC_OK)
        htc__poll_set_close(&store->set);
    return store->set.fd;
}

short htc_store_events(const htc_store *store)
{
    return store && store->set.fd >= 0 ? POLLIN : 0;
}

htc_ns htc_store_deadline(const htc_store *store)
{
    if (!store)
        return HTC_NEVER;
    return store->broken != HTC_OK || store->due ? 0 : store->kind->deadline(store->ctx);
}

uint32_t htc_store_can(const htc_store *store)
{
    return store ? store->kind->can : 0;
}

htc_status htc_store_submit(htc_store *store, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    if (!store || !requests || n == 0)
        return HTC_EINVAL;
    if (store->broken != HTC_OK)
        return store->broken;
    const htc_kv_request *known;
    htc_kv_request       *made;
    htc_status            status = htc__kv_requests_known(&store->env, requests, n, &known, &made);
    if (status == HTC_OK)
        status = store->kind->submit(store->ctx, known, n, tag);
    htc__kv_requests_free(&store->env, made, n);
    if (status != HTC_OK)
        return status;
    store->outstanding += n;
    store->due = 1;
    return HTC_OK;
}

htc_status htc_store_next(htc_store *store, htc_ns wait, htc_kv_result *out)
{
    if (!store || !htc__kv_result_fits(out))
        return HTC_EINVAL;
    if (store->broken != HTC_OK)
        return store->broken;
    int empty = store->outstanding == 0;
    if (empty && store->set.fd < 0)
        return HTC_EMPTY;
    htc_kv_result result = { .size = sizeof result };
    htc_status    status = store->kind->next(store->ctx, htc__store_end(empty ? 0 : wait), &result);
    store->due &= status == HTC_OK;
    if (status == HTC_OK) {
        store->outstanding--;
        htc__kv_result_give(out, &result);
    } else if (status != HTC_ETIMEDOUT) {
        return store->broken = status;
    }
    htc_status followed = follow(store);
    if (followed != HTC_OK)
        return followed;
    return empty && status == HTC_ETIMEDOUT ? HTC_EMPTY : status;
}

htc_status htc_store_ask(htc_store *store, const htc_kv_request *request, htc_kv_result *result, htc_error *error)
{
    if (!store || !request || !htc__kv_result_fits(result))
        return htc__error(error, HTC_EINVAL, "a store, a request and a place for its answer, with its size, are needed");
    if (store->outstanding)
        return htc__error(error, HTC_EBUSY, "%s: answers are outstanding", store->address);
    htc_status status = htc_store_submit(store, request, 1, 0);
    if (status == HTC_OK)
        status = htc_store_next(store, HTC_NEVER, result);
    if (status != HTC_OK)
        return htc__error(error, status, "%s: %s", store->address, htc_strerror(status));
    if (result->status < HTC_OK)
        htc__error(error, result->status, "%s: %s", store->address, htc_strerror(result->status));
    return HTC_OK;
}

htc_status htc_store_watch(htc_store *store, const htc_kv_watch *watch)
{
    if (!store || !watch)
        return HTC_EINVAL;
    if (store->broken != HTC_OK)
        return store->broken;
    htc_status status = store->kind->watch ? store->kind->watch(store->ctx, watch) : HTC_EUNSUPPORTED;
    store->due |= status == HTC_OK;
    return status;
}

htc_status htc_store_unwatch(htc_store *store, uint64_t tag)
{
    if (!store)
        return HTC_EINVAL;
    htc_status status = store->kind->unwatch ? store->kind->unwatch(store->ctx, tag) : HTC_EUNSUPPORTED;
    store->due |= status == HTC_OK;
    return status;
}

htc_status htc_store_event(htc_store *store, htc_ns wait, htc_kv_event *event)
{
    if (!store || !event)
        return HTC_EINVAL;
    if (store->broken != HTC_OK)
        return store->broken;
    if (!store->kind->event)
        return HTC_EUNSUPPORTED;
    htc_status status = store->kind->event(store->ctx, htc__store_end(wait), event);
    store->due &= status == HTC_OK;
    if (status != HTC_OK && status != HTC_ETIMEDOUT)
        return store->broken = status;
    htc_status followed = follow(store);
    return followed == HTC_OK ? status : followed;
}
