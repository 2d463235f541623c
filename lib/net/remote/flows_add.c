/* Tasks are added to a flow that runs: lib/roles/worker/intake.h says how, this file asks the store. */
#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/host.h"
#include "net/remote/flows_private.h"
#include "roles/worker/intake.h"

typedef struct adding {
    htc_store       *store;
    uint64_t         id, nonce;
    const htc_flow  *flow;
    htc_flows_adding options;
    char            *intake; /* its name; NULL: it is not asked for */
} adding;

typedef struct news {
    uint64_t intake;
    int      last;
} news;

static htc_status say_news(flow *f, const void *ctx, htc_error *error)
{
    const news *n = ctx;
    (void)error;
    return f->state == FLOW_RUNNING ? htc__intake_news(f, n->intake, n->last) : HTC_EEXISTS;
}

static void name_of(const adding *a, const graph_task *t)
{
    size_t len = t->name.len < HTC_FLOW_NAME_MAX ? t->name.len : HTC_FLOW_NAME_MAX;
    if (!a->intake)
        return;
    if (len)
        memcpy(a->intake, t->name.data, len);
    a->intake[len] = '\0';
}

/* The record as it stands; value: lent until the next request. */
static htc_status intake_get(adding *a, const flow *f, htc_buf *bytes, graph_task *t, uint64_t *version, htc_error *error)
{
    htc_kv_result  r;
    flow_key       k = htc__flow_key_task(a->id, f->intake - 1);
    htc_kv_request q = htc__flows_of_key(HTC_KV_GET, &k);
    htc_status     status = htc__flows_ask(a->store, &q, &r, error);
    htc_buf_clear(bytes);
    if (status == HTC_ENOTFOUND)
        return htc__error(error, HTC_AGAIN, "the flow's next intake is being made: try again in some milliseconds");
    if (status == HTC_OK) {
        htc_put_raw(bytes, r.value);
        *version = r.version;
        status = bytes->status == HTC_OK ? htc__graph_read(htc_buf_bytes(bytes), t) : bytes->status;
    }
    return status == HTC_ECORRUPT ? htc__error(error, status, "the record of the intake of flow %llu cannot be read", (unsigned long long)a->id) : status;
}

/* The record is changed, at the version that was read. HTC_AGAIN: another was faster. */
static htc_status intake_put(adding *a, const flow *f, graph_task *t, uint64_t version, htc_error *error)
{
    htc_kv_result r;
    htc_buf       b, again;
    flow_key      k = htc__flow_key_task(a->id, f->intake - 1);
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    htc__graph_write(&b, t);
    htc_kv_request q = htc__flows_of_key(HTC_KV_CAS_VERSION, &k);
    q.value = htc_buf_bytes(&b);
    q.version = version;
    htc_status status = b.status == HTC_OK ? htc__flows_ask(a->store, &q, &r, error) : b.status;
    if (b.status == HTC_OK && status != HTC_OK) { /* it may have been written all the same */
        graph_task now;
        htc_status was = status;
        status = intake_get(a, f, &again, &now, &version, NULL);
        status = status != HTC_OK ? was : htc__intake_is_mine(&now, a->nonce) ? HTC_OK : was;
    }
    htc_buf_free(&b);
    htc_buf_free(&again);
    return status == HTC_MISMATCH ? htc__error(error, HTC_AGAIN, "another client was faster: try again in some milliseconds") : status;
}

static htc_status add(adding *a, const flow *f, htc_buf *record, htc_error *error)
{
    graph_task t;
    uint64_t   version = 0;
    uint32_t   tasks = 0;
    int        last = a->options.close != 0;
    htc_buf    text;
    news       n = { f->intake, last };
    htc_status status = intake_get(a, f, record, &t, &version, error);
    if (status == HTC_OK) {
        status = htc__intake_look(f, &t, error);
        if (status != HTC_OK && t.state == GRAPH_DONE) /* whoever did it may have gone before it said so */
            (void)htc__flows_header_change(a->store, a->id, say_news, &(news){ f->intake, !t.added_intake }, NULL);
    }
    htc_buf_init(&text, NULL, 0);
    if (status == HTC_OK)
        status = htc__intake_text(a->flow, t.name, last, &text, &tasks, error);
    if (status == HTC_OK)
        status = htc__intake_add(NULL, f, a->id, &t, record->len, htc_buf_bytes(&text), last, a->options.worker, a->nonce, htc_host_wall(), error);
    if (status == HTC_OK)
        status = intake_put(a, f, &t, version, error);
    if (status == HTC_OK) {
        name_of(a, &t);
        (void)htc__flows_header_change(a->store, a->id, say_news, &n, NULL); /* a hint: they are added */
    }
    htc_buf_free(&text);
    return status;
}

void htc_flows_adding_init(htc_flows_adding *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_flows_add(htc_store *store, uint64_t id, const htc_flow *given, const htc_flows_adding *options, char *intake, htc_error *error)
{
    adding       a = { .store = store, .id = id, .flow = given, .options = HTC_FLOWS_ADDING_INIT, .intake = intake };
    flows_header h;
    htc_buf      record;
    htc_status   status = options ? htc__options_copy(&a.options, sizeof a.options, options, options->size, offsetof(htc_flows_adding, worker)) : HTC_OK;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of what is added: %s", htc_strerror(status));
    if (!store || (!given && !a.options.close))
        return htc__error(error, HTC_EINVAL, "no store, or nothing to add");
    randombytes_buf(&a.nonce, sizeof a.nonce);
    htc_buf_init(&record, NULL, 0);
    status = htc__flows_header_get(store, id, &h, error);
    if (status == HTC_OK)
        status = htc__intake_look(&h.f, NULL, error);
    if (status == HTC_OK)
        status = add(&a, &h.f, &record, error);
    htc_buf_free(&record);
    htc_buf_free(&h.bytes);
    return status;
}
