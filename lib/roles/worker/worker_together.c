/* What is asked of single records in one step goes to the store in few requests: of a message most of the cost is its own, here and at the store.
 * Each answer goes to whoever asked. The store makes each change by itself: one that is refused does not touch the others. */
#include "roles/worker/worker_private.h"

#define TOGETHER_BYTES ((size_t)512 << 10) /* of values: no request is longer, but for its last one */

struct asked_with {
    struct {
        htc_runtime_store_fn fn;
        void                *ctx;
    } of[TOGETHER];
};

static void answered(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker        *w = role;
    struct asked_with *a = ctx;
    int                last = r->last != 0;
    a->of[r->index].fn(w, a->of[r->index].ctx, r);
    if (last)
        htc_runtime_context_free(w->runtime, a);
}

void htc__worker_send_together(htc_worker *w)
{
    together          *t = &w->together;
    struct asked_with *a = t->who;
    uint32_t           n = t->n;
    t->n = 0;
    t->bytes = 0;
    t->who = NULL;
    if (n == 1) {
        htc_runtime_store_fn fn = a->of[0].fn;
        void                *ctx = a->of[0].ctx;
        htc_runtime_context_free(w->runtime, a);
        htc_runtime_ask(w->runtime, t->requests, 1, fn, ctx);
    } else if (n) {
        htc_runtime_ask(w->runtime, t->requests, n, answered, a);
    }
}

void htc__worker_ask_together(htc_worker *w, const flow_key *key, uint32_t op, htc_bytes value, uint64_t version, htc_runtime_store_fn fn, void *ctx)
{
    together *t = &w->together;
    if (!t->who)
        t->who = htc_runtime_context(w->runtime, sizeof *t->who);
    if (!t->who)
        return; /* the runtime is broken: that was its last step */
    uint32_t i = t->n++;
    t->keys[i] = *key;
    t->requests[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .key = htc__flow_key_bytes(&t->keys[i]), .value = value, .version = version };
    t->who->of[i].fn = fn;
    t->who->of[i].ctx = ctx;
    t->bytes += value.len;
    if (t->n == TOGETHER || t->bytes >= TOGETHER_BYTES)
        htc__worker_send_together(w);
}
