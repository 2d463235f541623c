/* Whether a job that has ended could be opened again: its specification, what it fetches with and its chunks are read, and nothing is kept. A gateway ends
 * with an open job that it cannot read, and the next one does not start; a request does not make an ended job such a one. */
#include <string.h>

#include "core/netrc.h"
#include "roles/gateway/gateway.h"

typedef struct probe {
    job   job; /* its number, its count and whether it has credentials: not in any table */
    void (*fn)(htc_gateway *gw, void *ctx, htc_status status, const char *what);
    void *ctx;
} probe;

static void probed(htc_gateway *gw, probe *p, htc_status status, const char *what)
{
    probe over = *p;
    htc_runtime_context_free(gw->runtime, p);
    over.fn(gw, over.ctx, status, what);
}

static htc_status read_chunk(htc_gateway *gw, const probe *p, const htc_kv_item *item)
{
    uint64_t index;
    if (!htc__gw_chunk_index(&p->job, item->key, &index))
        return HTC_ECORRUPT;
    uint32_t n = htc__gw_job_chunk_size(&p->job, index);
    size_t   bytes = sizeof(chunk) + n * sizeof(task);
    chunk   *c = htc__alloc(&gw->env, bytes);
    if (!c)
        return HTC_ENOMEM;
    c->n = n;
    htc_status status = htc__gw_record_chunk_read(item->value, c);
    htc__free(&gw->env, c, bytes);
    return status;
}

static void chunks_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    probe       *p = ctx;
    htc_kv_item  item;
    size_t       at = 0;
    htc_status   status = r->status;
    htc_runtime_cursor next = status == HTC_OK ? htc_runtime_next_page(gw->runtime, r) : (htc_runtime_cursor){ 0 };
    for (uint32_t i = 0; status == HTC_OK && i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++)
        status = read_chunk(gw, p, &item);
    if (status != HTC_OK || next.len == 0) {
        probed(gw, p, status, "a record of its tasks");
        return;
    }
    key k = htc__gw_key_chunks(p->job.id);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), &next, 0, chunks_page, p);
}

static void read_chunks(htc_gateway *gw, probe *p)
{
    key k = htc__gw_key_chunks(p->job.id);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), NULL, 0, chunks_page, p);
}

static void credentials_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_status status = r->status == HTC_OK && htc__netrc_wrong(r->value) ? HTC_ECORRUPT : r->status;
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        read_chunks(role, ctx);
    else
        probed(role, ctx, status, "what it fetches with");
}

static void ask(htc_gateway *gw, probe *p, key k, htc_runtime_store_fn fn)
{
    htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, fn, p);
}

/* One that is not there is being removed, which whoever opens the job finds. */
static void spec_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    probe       *p = ctx;
    htc_spec    *spec = NULL;
    htc_status   status = r->status == HTC_OK ? htc_spec_from_bytes(&gw->env, r->value, &spec) : r->status == HTC_ENOTFOUND ? HTC_OK : r->status;
    htc_spec_destroy(spec);
    if (status != HTC_OK)
        probed(gw, p, status, "its specification");
    else if (p->job.wishes.credentials)
        ask(gw, p, htc__gw_key_credentials(p->job.id), credentials_read);
    else
        read_chunks(gw, p);
}

void htc__gw_job_probe(htc_gateway *gw, const job *j, void (*fn)(htc_gateway *gw, void *ctx, htc_status status, const char *what), void *ctx)
{
    probe *p = htc_runtime_context(gw->runtime, sizeof *p);
    if (!p)
        return;
    *p = (probe){ .fn = fn, .ctx = ctx };
    p->job.id = j->id;
    p->job.count = j->count;
    p->job.wishes.credentials = j->wishes.credentials;
    ask(gw, p, htc__gw_key_spec(j->id), spec_read);
}
