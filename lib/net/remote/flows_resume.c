/* A flow that goes on where another one has ended: lib/roles/worker/resumption.h decides, this file reads and writes. */
#include <stddef.h>

#include "core/util.h"
#include "htcsched/work.h"
#include "net/remote/flows_private.h"
#include "roles/worker/resumption.h"
#include "roles/worker/submission.h"

typedef struct resuming {
    resumption    r;
    htc_status    status;
    uint64_t      id, number; /* of the new flow; of the old task at hand */
    htc_buf       page;       /* old records: number, bytes */
    flows_sending out;
} resuming;

/* ---- read once: what is done, and what waits for what ---- */

static int add_task(void *ctx, uint64_t number, const htc_kv_item *item)
{
    resuming  *x = ctx;
    graph_task t;
    x->number = number;
    x->status = htc__graph_read(item->value, &t);
    if (x->status == HTC_OK)
        x->status = htc__resumption_add(&x->r, number, &t);
    return x->status == HTC_OK;
}

/* ---- read again, and written ---- */

static int keep_task(void *ctx, uint64_t number, const htc_kv_item *item)
{
    resuming *x = ctx;
    htc_put_u64(&x->page, number);
    htc_put_bytes(&x->page, item->value);
    return x->page.status == HTC_OK;
}

static htc_status write_page(void *ctx, htc_error *error)
{
    resuming  *x = ctx;
    htc_reader r = htc_reader_of(htc_buf_bytes(&x->page));
    htc_status status = x->page.status;
    while (status == HTC_OK && r.p < r.end) {
        flow_key  *k;
        htc_buf   *b;
        graph_task t;
        x->number = htc_get_u64(&r);
        status = htc__graph_read(htc_get_bytes(&r), &t);
        if (status == HTC_OK)
            status = htc__flows_sending_room(&x->out, &k, &b, error);
        if (status != HTC_OK)
            break;
        status = htc__resumption_task(&x->r, x->number, &t, b);
        if (status == HTC_OK) {
            *k = htc__flow_key_task(x->id, x->r.tasks[x->number].number);
            x->out.n++;
        }
        status = status == HTC_ENOTFOUND ? HTC_OK : status;
    }
    htc_buf_clear(&x->page);
    return status == HTC_OK ? htc__flows_sending_flush(&x->out, error) : status;
}

static htc_status write_records(htc_store *store, resuming *x, uint64_t from, htc_error *error)
{
    flow_key   old = htc__flow_key_tasks(from);
    htc_status status = HTC_OK;
    htc__flows_sending_begin(&x->out, store);
    for (uint64_t i = 0; i < x->r.n_ledgers && status == HTC_OK; i++) {
        flow_key *k;
        htc_buf  *b;
        status = htc__flows_sending_room(&x->out, &k, &b, error);
        if (status != HTC_OK)
            break;
        *k = htc__flow_key_ledger(x->id, i);
        htc__resumption_ledger(&x->r, i, b);
        status = b->status;
        x->out.n += status == HTC_OK;
    }
    if (status == HTC_OK)
        status = htc__flows_sending_flush(&x->out, error);
    if (status == HTC_OK)
        status = htc__flows_walk(store, &old, keep_task, write_page, x, error);
    return htc__flows_sending_end(&x->out, status, error);
}

static htc_status write_header(htc_store *store, const resuming *x, const flow *old, const htc_flows_options *o, htc_error *error)
{
    htc_buf    b;
    flow       now = *old;
    htc_status status = htc__submission_policy(&now, o->policy, o->steal, error);
    if (status != HTC_OK)
        return status;
    htc_buf_init(&b, NULL, 0);
    htc__resumption_header(&x->r, &now, o->tries, o->max_fails, &b);
    status = b.status == HTC_OK ? htc__flows_put_header(store, x->id, htc_buf_bytes(&b), error) : b.status;
    htc_buf_free(&b);
    return status;
}

static htc_status may_resume(const flow *f, uint64_t id, htc_error *error)
{
    if (f->state != FLOW_ENDED)
        return htc__error(error, HTC_EBUSY, "flow %llu has not ended: cancel it first, or wait for its end", (unsigned long long)id);
    if (f->kind != FLOW_GRAPH)
        return htc__error(error, HTC_EUNSUPPORTED, "flow %llu is a bag, and bags do not go on: htc flow tasks lists what failed",
                          (unsigned long long)id);
    return HTC_OK;
}

static htc_status read_old(htc_store *store, resuming *x, uint64_t from, const flow *f, uint32_t workers, htc_error *error)
{
    flow_key   k = htc__flow_key_tasks(from);
    htc_status status = htc__flows_walk(store, &k, add_task, NULL, x, error);
    if (status == HTC_OK && x->status != HTC_OK)
        return htc__error(error, x->status, "the record of task %llu of flow %llu cannot be read: %s", (unsigned long long)x->number, (unsigned long long)from,
                          htc_strerror(x->status));
    if (status != HTC_OK)
        return status;
    status = htc__resumption_settle(&x->r, f, workers);
    if (status == HTC_ECORRUPT)
        return htc__error(error, status, "the records of flow %llu are not those of a flow", (unsigned long long)from);
    if (status == HTC_EEXISTS)
        return htc__error(error, status, "nothing of flow %llu is left to be run", (unsigned long long)from);
    return status;
}

htc_status htc_flows_resume(htc_store *store, uint64_t from, const htc_flows_options *options, uint64_t *id, uint64_t *tasks, htc_error *error)
{
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    flows_header      h;
    resuming          x = { .status = HTC_OK };
    uint64_t          number = 0;
    if (!store || !id)
        return htc__error(error, HTC_EINVAL, "no store");
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_flows_options, directory)) : HTC_OK;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of a flow: %s", htc_strerror(status));
    if (o.user || o.directory || o.inputs)
        return htc__error(error, HTC_EINVAL, "user, directory and inputs are those of the flow that goes on");
    htc__resumption_init(&x.r, NULL);
    htc_buf_init(&x.page, NULL, 0);
    status = htc__flows_header_get(store, from, &h, error);
    if (status == HTC_OK)
        status = may_resume(&h.f, from, error);
    if (status == HTC_OK)
        status = read_old(store, &x, from, &h.f, o.workers, error);
    if (status == HTC_OK)
        status = htc__flows_draw(store, HTC_FLOW_USER(from), &number, error);
    x.id = number;
    if (status == HTC_OK)
        status = write_header(store, &x, &h.f, &o, error);
    if (number)
        *id = number;
    if (status == HTC_OK)
        status = write_records(store, &x, from, error);
    if (status == HTC_OK && tasks)
        *tasks = x.r.again - x.r.inserted;
    htc_buf_free(&x.page);
    htc__resumption_free(&x.r);
    htc_buf_free(&h.bytes);
    return status;
}
