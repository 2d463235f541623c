/* Requests to the store and calls to the host, and what goes on when they are answered. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

static key make(const char *format, ...) __attribute__((format(printf, 1, 2)));


static key make(const char *format, ...)
{
    key     k;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(k.text, sizeof k.text, format, args);
    va_end(args);
    k.len = n < 0 ? 0 : (size_t)n < sizeof k.text ? (size_t)n : sizeof k.text - 1;
    return k;
}

/* Numbers are 16 hex digits, so that the order of keys is the order of numbers. Jobs count down: a scan meets the newest
 * first. */
#define DOWN(id) ((unsigned long long)(UINT64_MAX - (id)))
#define UP(id) ((unsigned long long)(id))

key key_user(const char *name)
{
    key k = { .len = 2 };
    memcpy(k.text, "u/", 2);
    size_t n = strlen(name);
    if (n > sizeof k.text - 3)
        n = sizeof k.text - 3;
    memcpy(k.text + 2, name, n);
    k.len += n;
    return k;
}

key key_token(const char *hash_hex)
{
    key k = { .len = 2 };
    memcpy(k.text, "t/", 2);
    size_t n = strlen(hash_hex);
    if (n > 60)
        n = 60;
    memcpy(k.text + 2, hash_hex, n);
    k.len += n;
    return k;
}

key key_open(uint64_t id)
{
    return make("o/%016llx", UP(id));
}

key key_job(uint64_t id)
{
    return make("j/%016llx", DOWN(id));
}

key key_spec(uint64_t id)
{
    return make("s/%016llx", UP(id));
}

key key_chunk(uint64_t id, uint64_t index)
{
    return make("c/%016llx/%016llx", UP(id), UP(index));
}

key key_chunks(uint64_t id)
{
    return make("c/%016llx/", UP(id));
}

key key_result(uint64_t id, uint64_t index, uint32_t attempt)
{
    return make("r/%016llx/%016llx/%08x", UP(id), UP(index), attempt);
}

key key_results(uint64_t id)
{
    return make("r/%016llx/", UP(id));
}

key key_agent(uint64_t id)
{
    return make("a/%016llx", UP(id));
}

key key_removal(uint64_t id)
{
    return make("d/%016llx", UP(id));
}

key key_content(uint64_t id)
{
    return make("b/%016llx", UP(id));
}

htc_bytes key_bytes(const key *k)
{
    return (htc_bytes){ k->text, k->len };
}

void gw_break(htc_gateway *gw, htc_status status, const char *why)
{
    if (gw->broken == HTC_OK) {
        gw->broken = status;
        htc__log_with(&gw->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(status)),
                      "%s: %s -> this gateway ends, the next starts from the store", why,
                      htc_strerror(status));
    }
}

typedef struct ctx_head {
    struct ctx_head *prev, *next;
    size_t           size;
    max_align_t      data[];
} ctx_head;

void *ctx_new(htc_gateway *gw, size_t size)
{
    ctx_head *h = htc__alloc(&gw->env, sizeof *h + size);
    if (!h) {
        gw_break(gw, HTC_ENOMEM, "remembering what to do next");
        return NULL;
    }
    h->size = size;
    DL_APPEND(gw->ctxs, h);
    return h->data;
}

void ctx_free(htc_gateway *gw, void *ctx)
{
    ctx_head *h = (ctx_head *)(void *)((char *)ctx - offsetof(ctx_head, data));
    DL_DELETE(gw->ctxs, h);
    htc__free(&gw->env, h, sizeof *h + h->size);
}

static void forget(htc_gateway *gw, pending *p)
{
    HASH_DEL(gw->pending, p);
    htc__free(&gw->env, p, sizeof *p);
}

void gw_pending_free(htc_gateway *gw)
{
    pending *p, *next;
    HASH_ITER(hh, gw->pending, p, next)
    forget(gw, p);
    while (gw->ctxs)
        ctx_free(gw, gw->ctxs->data);
}

static pending *remember(htc_gateway *gw, store_fn store, call_fn call, void *ctx)
{
    pending *p = htc__alloc(&gw->env, sizeof *p);
    if (!p) {
        gw_break(gw, HTC_ENOMEM, "remembering a request");
        return NULL;
    }
    *p = (pending){ .tag = ++gw->last_tag, .store = store, .call = call, .ctx = ctx };
    HASH_ADD(hh, gw->pending, tag, sizeof p->tag, p);
    if (!p->hh.tbl) {
        htc__free(&gw->env, p, sizeof *p);
        gw_break(gw, HTC_ENOMEM, "remembering a request");
        return NULL;
    }
    return p;
}

void gw_store(htc_gateway *gw, const htc_kv_request *requests, size_t n, store_fn fn, void *ctx)
{
    pending *p = remember(gw, fn, NULL, ctx);
    if (!p)
        return;
    htc_status status = htc_kv_client_submit(gw->kv, gw->now, requests, n, p->tag, gw->out);
    if (status != HTC_OK) {
        forget(gw, p);
        gw_break(gw, status, "asking the store");
    }
}

void gw_store_one(htc_gateway *gw, htc_kv_request rq, store_fn fn, void *ctx)
{
    gw_store(gw, &rq, 1, fn, ctx);
}

place gw_next_page(htc_gateway *gw, const htc_kv_result *r)
{
    place p;
    p.len = r->cursor.len;
    if (p.len > sizeof p.text) {
        gw_break(gw, HTC_EPROTO, "reading on from a place of the store's that is too long");
        p.len = 0;
    }
    if (p.len)
        memcpy(p.text, r->cursor.data, p.len);
    return p;
}

void gw_scan(htc_gateway *gw, htc_bytes prefix, const place *from, uint32_t limit, store_fn fn, void *ctx)
{
    htc_kv_request rq = { .size = sizeof rq, .op = HTC_KV_SCAN, .key = prefix, .limit = limit };
    if (from && from->len)
        rq.cursor = (htc_bytes){ from->text, from->len };
    gw_store_one(gw, rq, fn, ctx);
}

static void put_done(htc_gateway *gw, void *ctx, const htc_kv_result *r)
{
    (void)ctx;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(r->status)),
                      "the store answers %s to a note -> go on without it", htc_status_name(r->status));
}

void gw_put(htc_gateway *gw, key k, htc_bytes value)
{
    gw_store_one(gw, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key_bytes(&k), .value = value }, put_done, NULL);
}

void gw_delete(htc_gateway *gw, key k)
{
    gw_store_one(gw, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = key_bytes(&k) }, put_done, NULL);
}

void gw_store_answers(htc_gateway *gw)
{
    htc_kv_result r = { .size = sizeof r };
    while (gw->broken == HTC_OK && htc_kv_client_next(gw->kv, &r)) {
        pending *p;
        HASH_FIND(hh, gw->pending, &r.tag, sizeof r.tag, p);
        if (!p)
            continue;
        store_fn fn = p->store;
        void    *ctx = p->ctx;
        if (r.last)
            forget(gw, p);
        fn(gw, ctx, &r);
    }
}

static void add_effect(htc_gateway *gw, const htc_effect *effect)
{
    htc_status status = htc_output_add(gw->out, effect);
    if (status != HTC_OK)
        gw_break(gw, status, "writing down what is to be done");
}

void gw_call(htc_gateway *gw, uint32_t op, htc_bytes body, call_fn fn, void *ctx)
{
    uint64_t tag = 0;
    if (fn) {
        pending *p = remember(gw, NULL, fn, ctx);
        if (!p)
            return;
        tag = p->tag;
    }
    add_effect(gw, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = tag, .body = body });
}

void gw_call_answer(htc_gateway *gw, const htc_input *in)
{
    pending *p;
    HASH_FIND(hh, gw->pending, &in->tag, sizeof in->tag, p);
    if (!p || !p->call)
        return;
    call_fn fn = p->call;
    void   *ctx = p->ctx;
    forget(gw, p);
    fn(gw, ctx, in->status, in->body);
}

void gw_send(htc_gateway *gw, uint32_t peer, const htc_buf *message)
{
    if (peer == 0)
        return;
    if (message->status != HTC_OK) {
        gw_break(gw, message->status, "writing a message");
        return;
    }
    add_effect(gw, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(message) });
}

void gw_close(htc_gateway *gw, uint32_t peer, htc_status status)
{
    add_effect(gw, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = status });
}

waiter *waiter_new(htc_gateway *gw, void (*fn)(htc_gateway *, void *, htc_status), void *ctx)
{
    waiter *w = htc__alloc(&gw->env, sizeof *w);
    if (!w) {
        gw_break(gw, HTC_ENOMEM, "remembering what waits for a write");
        return NULL;
    }
    w->fn = fn;
    w->ctx = ctx;
    return w;
}

void waiters_run(htc_gateway *gw, waiter **list, htc_status status)
{
    waiter *w = *list;
    *list = NULL;
    while (w) {
        waiter *next = w->next;
        w->fn(gw, w->ctx, status);
        htc__free(&gw->env, w, sizeof *w);
        w = next;
    }
}
