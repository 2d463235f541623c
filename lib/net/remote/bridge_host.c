/* What a bridge asks for (kvs/bridge) is carried out by a store of others, whose descriptor is in the host's own loop. */
#include <event2/event.h>

#include "core/util.h"
#include "htcsched/kv_bridge.h"
#include "net/loop/host_private.h"

typedef struct attached {
    htc__hook     hook;
    htc_host     *host;
    htc_store    *store;
    struct event *ready, *timer;
    htc_buf       body;
} attached;

static void arm(attached *a)
{
    htc_ns at = htc_store_deadline(a->store), now = htc_host_now();
    if (at == HTC_NEVER) {
        evtimer_del(a->timer);
        return;
    }
    struct timeval tv = htc__timeval(at <= now ? 0 : at - now);
    evtimer_add(a->timer, &tv);
}

static void answers(attached *a)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    status;
    while ((status = htc_store_next(a->store, 0, &r)) == HTC_OK) {
        htc_buf_clear(&a->body);
        htc_kv_bridge_answer_write(&a->body, &r);
        if (a->body.status == HTC_OK)
            htc_host_answer(a->host, HTC_KV_BRIDGE_ASK, r.tag, HTC_OK, htc_buf_bytes(&a->body));
        else
            htc_host_stop(a->host, a->body.status);
    }
    if (status != HTC_ETIMEDOUT && status != HTC_EMPTY)
        htc_host_stop(a->host, status);
    else
        arm(a);
}

static void on_ready(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    answers(ctx);
}

static htc_status asked(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    attached      *a = ctx;
    htc_kv_request q = { .size = sizeof q };
    (void)host;
    if (op != HTC_KV_BRIDGE_ASK)
        return HTC_EUNSUPPORTED;
    htc_status status = htc_kv_bridge_ask_read(body, &q);
    if (status == HTC_OK)
        status = htc_store_submit(a->store, &q, 1, tag);
    if (status == HTC_OK)
        arm(a); /* what the loop does next is to send it, with all that was asked in this step */
    if (status == HTC_EFULL)
        status = HTC_EBUSY; /* it is asked again a little later */
    return status;
}

static void detach(void *ctx)
{
    attached *a = ctx;
    if (a->ready)
        event_free(a->ready);
    if (a->timer)
        event_free(a->timer);
    htc_buf_free(&a->body);
    htc__free(a->host->env, a, sizeof *a);
}

htc_status htc_kv_bridge_attach(htc_host *host, htc_store *store, htc_error *error)
{
    if (!host || !store || host->running)
        return htc__error(error, HTC_EINVAL, "a host that does not run yet and a store are needed");
    int fd = htc_store_fd(store);
    if (fd < 0)
        return htc__error(error, HTC_EUNSUPPORTED, "this store has no descriptor");
    attached *a = htc__alloc(host->env, sizeof *a);
    if (!a)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    a->host = host;
    a->store = store;
    htc_buf_init(&a->body, host->env, 0);
    a->hook = (htc__hook){ .fn = detach, .ctx = a };
    htc__host_hook(host, &a->hook);
    a->ready = event_new(host->base, fd, EV_READ | EV_PERSIST, on_ready, a);
    a->timer = evtimer_new(host->base, on_ready, a);
    if (!a->ready || !a->timer || event_add(a->ready, NULL) != 0)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_host_on_call(host, asked, a);
    return HTC_OK;
}
