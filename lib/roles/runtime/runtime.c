#include "htcsched/runtime.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/codec.h"
#include "core/util.h"

/* Requests and calls draw from one row of tags: an answer names who goes on. */
typedef struct pending {
    uint64_t             tag;
    htc_runtime_store_fn store; /* of a request */
    htc_runtime_call_fn  call;  /* of a call */
    htc_runtime_watch_fn watch; /* of a watch, which has a tag of its own */
    uint8_t              from_store;
    void                *context;
    UT_hash_handle       hh;
} pending;

typedef struct context {
    struct context *prev, *next;
    size_t          size;
    max_align_t     data[];
} context;

struct htc_runtime_waiter {
    htc_runtime_wait_fn        fn;
    void                      *context;
    struct htc_runtime_waiter *next;
};

struct htc_runtime_ids {
    struct htc_runtime_ids *list_next;
    htc_runtime            *runtime;
    uint64_t                next, end; /* at hand */
    uint32_t                at_once;
    uint8_t                 asked;
    htc_runtime_wait_fn     ready;
    void                   *context;
    size_t                  key_len;
    uint8_t                 key[];
};

struct htc_runtime {
    htc_env          env;
    void            *role;
    char             name[32];
    uint32_t         store_peer;
    htc_kv_client   *store; /* NULL: none */
    htc_output      *out;   /* of the step under way */
    htc_ns           now;
    uint8_t          looked; /* at the input of this step */
    htc_status       broken;
    uint64_t         last_tag;
    pending         *pending;
    context         *contexts;
    htc_runtime_ids *ids;
};

/* ---------------------------------------------------------------- from creation to end */

htc_status htc_runtime_create(const htc_env *env, const htc_runtime_options *options, htc_runtime **out)
{
    htc_runtime_options o = { 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_runtime_options, calls_from));
    if (status != HTC_OK)
        return status;
    htc_runtime *r = htc__alloc(env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    if (env)
        r->env = *env;
    r->role = o.role;
    snprintf(r->name, sizeof r->name, "%s", o.name ? o.name : "role");
    r->last_tag = o.calls_from;
    if (o.store) {
        r->store_peer = o.store->peer;
        status = htc_kv_client_create(env, o.store, &r->store);
    }
    if (status != HTC_OK) {
        htc_runtime_destroy(r);
        return status;
    }
    *out = r;
    return HTC_OK;
}

static void forget(htc_runtime *r, pending *p)
{
    HASH_DEL(r->pending, p);
    htc__free(&r->env, p, sizeof *p);
}

void htc_runtime_destroy(htc_runtime *r)
{
    pending *p, *next;
    if (!r)
        return;
    HASH_ITER(hh, r->pending, p, next)
    forget(r, p);
    while (r->contexts)
        htc_runtime_context_free(r, r->contexts->data);
    while (r->ids) {
        htc_runtime_ids *ids = r->ids;
        r->ids = ids->list_next;
        htc__free(&r->env, ids, sizeof *ids + ids->key_len);
    }
    htc_kv_client_destroy(r->store);
    htc_env env = r->env;
    htc__free(&env, r, sizeof *r);
}

htc_status htc_runtime_status(const htc_runtime *r)
{
    return r->broken;
}

void htc_runtime_break(htc_runtime *r, htc_status status, const char *doing)
{
    if (r->broken != HTC_OK)
        return;
    r->broken = status;
    htc__log_with(&r->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(status)),
                  "%s: %s -> this %s ends, the next starts from the store", doing, htc_strerror(status), r->name);
}

/* ---------------------------------------------------------------- a step */

htc_status htc_runtime_begin(htc_runtime *r, const htc_input *in, htc_output *out)
{
    r->out = out;
    r->now = in->now;
    r->looked = 0;
    return r->broken;
}

/* Nothing goes on after a failure, whatever is answered already. */
static void store_answers(htc_runtime *r)
{
    htc_kv_result result = { .size = sizeof result };
    while (r->broken == HTC_OK && htc_kv_client_next(r->store, &result)) {
        pending *p;
        HASH_FIND(hh, r->pending, &result.tag, sizeof result.tag, p);
        if (!p || !p->from_store)
            continue;
        htc_runtime_store_fn fn = p->store;
        void                *ctx = p->context;
        if (result.last)
            forget(r, p);
        if (fn)
            fn(r->role, ctx, &result);
    }
}

static void watch_events(htc_runtime *r)
{
    htc_kv_event event = { 0 };
    while (r->broken == HTC_OK && htc_kv_client_event(r->store, &event)) {
        pending *p;
        HASH_FIND(hh, r->pending, &event.tag, sizeof event.tag, p);
        if (!p || !p->watch)
            continue;
        htc_runtime_watch_fn fn = p->watch;
        void                *ctx = p->context;
        if (event.kind == HTC_KV_EVENT_ENDED)
            forget(r, p);
        fn(r->role, ctx, &event);
    }
}

static void call_answered(htc_runtime *r, const htc_input *in)
{
    pending *p;
    HASH_FIND(hh, r->pending, &in->tag, sizeof in->tag, p);
    if (!p || !p->call)
        return;
    htc_runtime_call_fn fn = p->call;
    void               *ctx = p->context;
    forget(r, p);
    fn(r->role, ctx, in->status, in->body);
}

htc_status htc_runtime_input(htc_runtime *r, const htc_input *in)
{
    r->looked = 1;
    if (r->broken == HTC_OK && in->kind == HTC_IN_RESULT)
        call_answered(r, in);
    if (!r->store)
        return r->broken;
    if (r->broken == HTC_OK && (in->peer == r->store_peer || in->kind == HTC_IN_TIMEOUT)) {
        htc_status status = htc_kv_client_step(r->store, in, r->out);
        if (status != HTC_OK)
            htc_runtime_break(r, status, "talking to the store");
    }
    store_answers(r);
    watch_events(r);
    return r->broken;
}

htc_status htc_runtime_end(htc_runtime *r, const htc_input *in)
{
    if (!r->looked)
        htc_runtime_input(r, in);
    r->out = NULL;
    return r->broken;
}

htc_ns htc_runtime_deadline(const htc_runtime *r)
{
    return r->store ? htc_kv_client_deadline(r->store) : HTC_NEVER;
}

int htc_runtime_connected(const htc_runtime *r)
{
    return r->store && htc_kv_client_connected(r->store);
}

size_t htc_runtime_pending(const htc_runtime *r)
{
    return r->store ? htc_kv_client_pending(r->store) : 0;
}

/* ---------------------------------------------------------------- who goes on */

void *htc_runtime_context(htc_runtime *r, size_t size)
{
    context *c = size <= SIZE_MAX / 2 ? htc__alloc(&r->env, sizeof *c + size) : NULL;
    if (!c) {
        htc_runtime_break(r, HTC_ENOMEM, "remembering what to do next");
        return NULL;
    }
    c->size = size;
    DL_APPEND(r->contexts, c);
    return c->data;
}

void htc_runtime_context_free(htc_runtime *r, void *data)
{
    if (!data)
        return;
    context *c = (context *)(void *)((char *)data - offsetof(context, data));
    DL_DELETE(r->contexts, c);
    htc__free(&r->env, c, sizeof *c + c->size);
}

static pending *remember(htc_runtime *r, const pending *as)
{
    pending *p = htc__alloc(&r->env, sizeof *p);
    if (p) {
        *p = *as;
        p->tag = ++r->last_tag;
        HASH_ADD(hh, r->pending, tag, sizeof p->tag, p);
        if (p->hh.tbl)
            return p;
        htc__free(&r->env, p, sizeof *p);
    }
    htc_runtime_break(r, HTC_ENOMEM, "remembering a request");
    return NULL;
}

htc_runtime_waiter *htc_runtime_waiter_new(htc_runtime *r, htc_runtime_wait_fn fn, void *ctx)
{
    htc_runtime_waiter *w = htc__alloc(&r->env, sizeof *w);
    if (!w) {
        htc_runtime_break(r, HTC_ENOMEM, "remembering what waits");
        return NULL;
    }
    w->fn = fn;
    w->context = ctx;
    return w;
}

void htc_runtime_wait(htc_runtime_waiter **list, htc_runtime_waiter *more)
{
    LL_CONCAT(*list, more);
}

void htc_runtime_wake(htc_runtime *r, htc_runtime_waiter **list, htc_status status)
{
    htc_runtime_waiter *w = *list;
    *list = NULL;
    while (w) {
        htc_runtime_waiter *next = w->next;
        w->fn(r->role, w->context, status);
        htc__free(&r->env, w, sizeof *w);
        w = next;
    }
}

/* ---------------------------------------------------------------- the store */

void htc_runtime_ask(htc_runtime *r, const htc_kv_request *requests, size_t n, htc_runtime_store_fn fn, void *ctx)
{
    assert(r->store && r->out);
    if (r->broken != HTC_OK)
        return; /* it ends with this step, and what it would say may be wrong */
    pending *p = remember(r, &(pending){ .store = fn, .from_store = 1, .context = ctx });
    if (!p)
        return;
    htc_status status = htc_kv_client_submit(r->store, r->now, requests, n, p->tag, r->out);
    if (status != HTC_OK) {
        forget(r, p);
        htc_runtime_break(r, status, "asking the store");
    }
}

void htc_runtime_watch(htc_runtime *r, htc_bytes key, uint32_t prefix, htc_runtime_watch_fn fn, void *ctx)
{
    assert(r->store && r->out);
    pending *p = r->broken == HTC_OK ? remember(r, &(pending){ .watch = fn, .context = ctx }) : NULL;
    if (!p)
        return;
    htc_status status = htc_kv_client_watch(r->store, r->now, &(htc_kv_watch){ .size = sizeof(htc_kv_watch), .key = key, .tag = p->tag, .prefix = prefix }, r->out);
    if (status != HTC_OK) {
        forget(r, p);
        htc_runtime_break(r, status, "watching the store");
    }
}

static void noted(void *role, void *ctx, const htc_kv_result *result)
{
    (void)role;
    const htc_runtime *r = ctx;
    if (result->status != HTC_OK && result->status != HTC_ENOTFOUND)
        htc__log_with(&r->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(result->status)),
                      "the store answers %s to a note -> go on without it", htc_status_name(result->status));
}

void htc_runtime_put(htc_runtime *r, htc_bytes key, htc_bytes value)
{
    htc_runtime_ask(r,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key, .value = value },
                    1, noted, r);
}

void htc_runtime_delete(htc_runtime *r, htc_bytes key)
{
    htc_runtime_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = key }, 1, noted,
                    r);
}

void htc_runtime_scan(htc_runtime *r, htc_bytes prefix, const htc_runtime_cursor *from, uint32_t limit,
                      htc_runtime_store_fn fn, void *ctx)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .key = prefix, .limit = limit };
    if (from && from->len)
        q.cursor = (htc_bytes){ from->text, from->len };
    htc_runtime_ask(r, &q, 1, fn, ctx);
}

htc_runtime_cursor htc_runtime_next_page(htc_runtime *r, const htc_kv_result *page)
{
    htc_runtime_cursor cursor;
    cursor.len = page->cursor.len;
    if (cursor.len > sizeof cursor.text) {
        cursor.len = 0;
        htc_runtime_break(r, HTC_EPROTO, "reading on from a place of the store's that is too long");
    }
    if (cursor.len)
        memcpy(cursor.text, page->cursor.data, cursor.len);
    return cursor;
}

/* ---------------------------------------------------------------- host and connections */

static void add(htc_runtime *r, const htc_effect *effect)
{
    assert(r->out);
    htc_status status = htc_output_add(r->out, effect);
    if (status != HTC_OK)
        htc_runtime_break(r, status, "writing down what is to be done");
}

void htc_runtime_call(htc_runtime *r, uint32_t op, htc_bytes body, htc_runtime_call_fn fn, void *ctx)
{
    pending *p = fn ? remember(r, &(pending){ .call = fn, .context = ctx }) : NULL;
    if (!fn || p)
        add(r, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = p ? p->tag : 0, .body = body });
}

void htc_runtime_send(htc_runtime *r, uint32_t peer, const htc_buf *message)
{
    if (peer == 0)
        return;
    if (message->status != HTC_OK)
        htc_runtime_break(r, message->status, "writing a message");
    else
        add(r, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(message) });
}

void htc_runtime_close(htc_runtime *r, uint32_t peer, htc_status status)
{
    add(r, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = status });
}

void htc_runtime_stop(htc_runtime *r, htc_status status)
{
    add(r, &(htc_effect){ .kind = HTC_OUT_STOP, .status = status });
}

/* ---------------------------------------------------------------- ids */

htc_status htc_runtime_ids_create(htc_runtime *r, htc_bytes key, uint32_t at_once, htc_runtime_wait_fn ready, void *ctx,
                                  htc_runtime_ids **out)
{
    if (!r || !r->store || key.len == 0 || key.len > HTC_KV_KEY_MAX || at_once == 0 || !out)
        return HTC_EINVAL;
    htc_runtime_ids *ids = htc__alloc(&r->env, sizeof *ids + key.len);
    if (!ids)
        return HTC_ENOMEM;
    *ids = (htc_runtime_ids){
        .list_next = r->ids, .runtime = r, .at_once = at_once, .ready = ready, .context = ctx, .key_len = key.len
    };
    memcpy(ids->key, key.data, key.len);
    r->ids = ids;
    *out = ids;
    return HTC_OK;
}

/* The counter is what was given out in all, and these are the last of it. */
static void reserved(void *role, void *ctx, const htc_kv_result *result)
{
    htc_runtime_ids *ids = ctx;
    htc_status       status = result->status;
    ids->asked = 0;
    if (status == HTC_OK && result->number < (int64_t)ids->at_once)
        status = HTC_ECORRUPT;
    if (status == HTC_OK) {
        ids->end = (uint64_t)result->number + 1;
        ids->next = ids->end - ids->at_once;
    }
    if (ids->ready)
        ids->ready(role, ids->context, status);
}

void htc_runtime_ids_reserve(htc_runtime_ids *ids)
{
    if (ids->asked || ids->next < ids->end)
        return;
    ids->asked = 1;
    htc_runtime_ask(ids->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request),
                                       .op = HTC_KV_ADD,
                                       .key = { ids->key, ids->key_len },
                                       .delta = ids->at_once },
                    1, reserved, ids);
}

uint64_t htc_runtime_ids_left(const htc_runtime_ids *ids)
{
    return ids->end - ids->next;
}

uint64_t htc_runtime_id(htc_runtime_ids *ids)
{
    if (ids->next < ids->end)
        return ids->next++;
    htc_runtime_ids_reserve(ids);
    return 0;
}

/* ---------------------------------------------------------------- records */

void htc_runtime_record_begin(htc_buf *record, uint8_t format)
{
    assert(format > 0);
    htc_buf_clear(record);
    htc_put_u8(record, format);
}

uint8_t htc_runtime_record_open(htc_bytes record, uint8_t oldest, uint8_t newest, htc_reader *r)
{
    *r = htc_reader_of(record);
    uint8_t format = htc_get_u8(r);
    if (format >= oldest && format <= newest && format > 0)
        return format;
    htc_reader_fail(r);
    return 0;
}

htc_status htc_runtime_record_end(const htc_reader *r)
{
    return htc_reader_done(r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}
