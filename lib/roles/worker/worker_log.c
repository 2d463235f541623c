/* How the tasks of a bag ended (outcome_log.h). Entries are stored with the counts, by the same change of the ledger. When its record has many, the next
 * change waits until they are in a block, and leaves them out. */
#include "core/fault.h"
#include "roles/worker/worker_private.h"

typedef struct log_block {
    uint64_t ledger, version;
} log_block;

/* The block of what stands there now. */
static uint64_t number_of(const own *o)
{
    return HTC__BROKEN(log_rewritten) ? o->now.log.block + 1 : o->version;
}

static void add(const htc_worker *w, outcome_log *l, const ended_task *e)
{
    (void)htc__outcome_log_add(l, &(bag_outcome){ .from = e->id, .to = e->to, .worker = w->id, .began_us = e->ended ? (uint64_t)e->began / 1000 : 0,
                                              .ended_us = (uint64_t)e->ended / 1000, .attempt = e->attempt, .status = e->status, .exit_code = e->exit_code,
                                              .signal = e->signal, .how = e->how }); /* callers look for room */
}

static int has_room(const outcome_log *l)
{
    return l->len + OUTCOME_BYTES <= OUTCOME_LOG_MAX;
}

static void stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    log_block   a = *(log_block *)ctx;
    own        *o = htc__worker_own(w, a.ledger);
    htc_runtime_context_free(w->runtime, ctx);
    if (!o || o->logging != a.version)
        return; /* it is another life of it */
    o->logging = 0;
    if (r->status == HTC_OK)
        o->logged = a.version;
    else
        o->write_at = w->now + AGAIN_NS;
}

int htc__worker_log_waits(htc_worker *w, own *o)
{
    outcome_log log = o->now.log;
    if (w->flow.kind == FLOW_GRAPH || log.len == 0 || o->logged == o->version)
        return 0;
    if (log.len < OUTCOME_LOG_FULL && !HTC__FAULT(&w->env, log_block_early))
        return 0;
    log_block *a = htc_runtime_context(w->runtime, sizeof *a);
    if (!a)
        return 1;
    for (o->in_block = 0; HTC__BROKEN(log_rewritten) && o->in_block < o->n_ended && has_room(&log); o->in_block++)
        add(w, &log, &o->ended[o->in_block]);
    htc__outcome_block_write(&w->buf, &log);
    *a = (log_block){ o->number, o->version };
    if (!htc__worker_written(w, "writing a block of a log")) {
        htc_runtime_context_free(w->runtime, a);
        return 1;
    }
    flow_key k = htc__flow_key_block(w->options.flow, o->number, number_of(o));
    o->logging = o->version;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf) },
                    1, stored, a);
    return 1;
}

void htc__worker_log_begin(own *o)
{
    o->next = o->now;
    if (o->logged == o->version)
        htc__outcome_log_cut(&o->next.log, number_of(o));
    else
        o->in_block = 0;
}

/* What it adds is live here, or on its way to the ledger that is its home. */
static htc_status add_tasks(ledger *l, uint64_t number, ended_task *e)
{
    ledger_span s = { e->added_from, e->added_from + e->n_added };
    htc_status  status = htc__ids_add(&l->live, s);
    e->added_note = 0;
    return status == HTC_OK && e->added_home != number ? htc__ledger_give(l, &s, 1, e->added_home, &e->added_note) : status;
}

htc_status htc__worker_count(const htc_worker *w, uint64_t number, ledger *l, ended_task *e, int log)
{
    ledger_span   s = { e->id, e->to };
    uint64_t      n = e->to - e->id;
    ledger_counts c = { .done = e->how == GRAPH_DONE ? n : 0, .failed = e->how == GRAPH_FAILED ? n : 0, .cancelled = e->how == GRAPH_CANCELLED ? n : 0 };
    log = log && w->flow.kind == FLOW_BAG;
    if (log && !has_room(&l->log))
        return HTC_AGAIN;
    htc_status status = htc__ledger_commit(l, &s, 1, &c);
    if (status == HTC_OK && e->n_added)
        status = add_tasks(l, number, e);
    if (status == HTC_OK && log)
        add(w, &l->log, e);
    return status;
}
