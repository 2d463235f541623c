/* A flow that goes on where another one has ended: lib/roles/worker/resumption.h and bag_resumption.h decide, this file reads and writes. */
#include <stddef.h>

#include "core/util.h"
#include "htcsched/work.h"
#include "net/remote/flows_private.h"
#include "roles/worker/bag_resumption.h"
#include "roles/worker/resumption.h"
#include "roles/worker/submission.h"

typedef struct resuming {
    resumption    r;
    htc_status    status;
    uint64_t      id, number; /* of the new flow; of the old task at hand */
    uint64_t      written;    /* records of tasks */
    htc_buf       page;       /* old records: number, bytes */
    flows_sending out;
} resuming;

/* ---- a graph is read once: what is done, and what waits for what ---- */

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
            x->written++;
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
    if (status == HTC_OK && x->written != x->r.again)
        status = htc__error(error, HTC_ENOTFOUND, "flow %llu was removed while it was read", (unsigned long long)from);
    return htc__flows_sending_end(&x->out, status, error);
}

static htc_status nothing_left(uint64_t from, htc_error *error)
{
    return htc__error(error, HTC_EEXISTS, "nothing of flow %llu is left to be run", (unsigned long long)from);
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
        return nothing_left(from, error);
    return status;
}

/* Of the new flow, whichever it is. */
typedef struct resumed {
    htc_store               *store;
    uint64_t                 from, id; /* id 0: nothing is stored yet */
    const htc_flows_options *options;
} resumed;

/* Takes b. */
static htc_status put_header(resumed *n, htc_buf *b, htc_error *error)
{
    htc_status status = b->status == HTC_OK ? htc__flows_draw(n->store, HTC_FLOW_USER(n->from), &n->id, error) : b->status;
    if (status == HTC_OK)
        status = htc__flows_put_header(n->store, n->id, htc_buf_bytes(b), error);
    htc_buf_free(b);
    return status;
}

static htc_status resume_graph(resumed *n, const flow *old, uint64_t *tasks, htc_error *error)
{
    resuming x = { .status = HTC_OK };
    htc_buf  b;
    htc__resumption_init(&x.r, NULL);
    htc_buf_init(&x.page, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    htc_status status = read_old(n->store, &x, n->from, old, n->options->workers, error);
    if (status == HTC_OK) {
        htc__resumption_header(&x.r, old, n->from, n->options->tries, n->options->max_fails, &b);
        status = put_header(n, &b, error);
    }
    x.id = n->id;
    if (status == HTC_OK)
        status = write_records(n->store, &x, n->from, error);
    *tasks = x.r.again - x.r.inserted;
    htc_buf_free(&x.page);
    htc__resumption_free(&x.r);
    return status;
}

/* ---- a bag ---- */

typedef struct bag_reading {
    bag_resumption r;
    htc_status     status;
} bag_reading;

static int add_outcome(void *ctx, const bag_outcome *o)
{
    bag_reading *x = ctx;
    x->status = htc__bag_resumption_add(&x->r, o);
    return x->status == HTC_OK;
}

static htc_status read_bag(htc_store *store, bag_reading *x, uint64_t from, const flow *old, uint32_t workers, htc_error *error)
{
    htc_status status = htc__flows_bag_walk(store, from, add_outcome, x, error);
    if (status != HTC_OK)
        return status;
    status = x->status == HTC_OK ? htc__bag_resumption_settle(&x->r, old, workers) : x->status;
    if (status == HTC_EEXISTS)
        return nothing_left(from, error);
    if (status == HTC_EFULL)
        return htc__error(error, HTC_ETOOBIG, "the missing tasks of flow %llu lie in more than %d pieces, which no flow has room for: run it anew",
                          (unsigned long long)from, BAG_RESUMPTION_LEDGERS * BAG_RESUMPTION_LIVE);
    if (status == HTC_ECORRUPT)
        return htc__error(error, status, "what flow %llu has logged of its tasks is not what it has counted: run it anew", (unsigned long long)from);
    return status;
}

static htc_status write_ledgers(htc_store *store, bag_resumption *r, uint64_t id, htc_error *error)
{
    flows_sending out;
    htc_status    status;
    htc__flows_sending_begin(&out, store);
    do {
        flow_key *k;
        htc_buf  *b;
        uint64_t  number;
        status = htc__flows_sending_room(&out, &k, &b, error);
        if (status == HTC_OK)
            status = htc__bag_resumption_ledger(r, &number, b);
        if (status == HTC_OK) {
            *k = htc__flow_key_ledger(id, number);
            out.n++;
        }
    } while (status == HTC_OK);
    return htc__flows_sending_end(&out, status == HTC_ENOTFOUND ? HTC_OK : status, error);
}

static htc_status resume_bag(resumed *n, const flow *old, uint64_t *tasks, htc_error *error)
{
    bag_reading x = { .status = HTC_OK };
    htc_buf     b;
    htc__bag_resumption_init(&x.r, NULL);
    htc_buf_init(&b, NULL, 0);
    htc_status status = read_bag(n->store, &x, n->from, old, n->options->workers, error);
    if (status == HTC_OK) {
        htc__bag_resumption_header(old, n->from, n->options->tries, n->options->max_fails, &b);
        status = put_header(n, &b, error);
    }
    if (status == HTC_OK)
        status = write_ledgers(n->store, &x.r, n->id, error);
    *tasks = x.r.missing;
    htc__bag_resumption_free(&x.r);
    return status;
}

/* ---- either ---- */

htc_status htc_flows_resume(htc_store *store, uint64_t from, const htc_flows_options *options, uint64_t *id, uint64_t *tasks, htc_error *error)
{
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    flows_header      h;
    uint64_t          missing = 0;
    if (!store || !id)
        return htc__error(error, HTC_EINVAL, "no store");
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_flows_options, directory)) : HTC_OK;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of a flow: %s", htc_strerror(status));
    if (o.user || o.directory || o.inputs)
        return htc__error(error, HTC_EINVAL, "user, directory and inputs are those of the flow that goes on");
    resumed n = { .store = store, .from = from, .options = &o };
    status = htc__flows_header_get(store, from, &h, error);
    if (status == HTC_OK && h.f.state != FLOW_ENDED)
        status = htc__error(error, HTC_EBUSY, "flow %llu has not ended: cancel it first, or wait for its end", (unsigned long long)from);
    if (status == HTC_OK)
        status = htc__submission_policy(&h.f, o.policy, o.steal, o.policies, error);
    if (status == HTC_OK)
        status = (h.f.kind == FLOW_GRAPH ? resume_graph : resume_bag)(&n, &h.f, &missing, error);
    if (n.id)
        *id = n.id;
    if (status == HTC_OK && tasks)
        *tasks = missing;
    htc_buf_free(&h.bytes);
    return status;
}
