#include "roles/worker/bag_resumption.h"

#include <assert.h>
#include <string.h>

#include "core/order.h"
#include "core/util.h"
#include "roles/worker/graph_task.h"

void htc__bag_resumption_init(bag_resumption *r, const htc_env *env)
{
    *r = (bag_resumption){ .env = env };
}

void htc__bag_resumption_free(bag_resumption *r)
{
    htc__free(r->env, r->spans, r->cap * sizeof *r->spans);
    *r = (bag_resumption){ .env = r->env };
}

/* ---- the missing spans ---- */

static int begins_before(const void *ctx, size_t a, size_t b)
{
    const ledger_span *s = ctx;
    return s[a].from < s[b].from;
}

static htc_status sort(bag_resumption *r)
{
    size_t *order = htc__alloc_raw(r->env, r->n * sizeof *order);
    if (!order)
        return HTC_ENOMEM;
    for (size_t i = 0; i < r->n; i++)
        order[i] = i;
    htc__order_sort(order, r->n, begins_before, r->spans);
    for (size_t i = 0; i < r->n; i++) { /* along each circle of those that change places */
        ledger_span first = r->spans[i];
        size_t      at = i;
        for (size_t next; (next = order[at]) != i; at = next) {
            r->spans[at] = r->spans[next];
            order[at] = at;
        }
        r->spans[at] = first;
        order[at] = at;
    }
    htc__free(r->env, order, r->n * sizeof *order);
    return HTC_OK;
}

/* In order, those that touch as one. HTC_ECORRUPT: some task is in two of them; HTC_ENOMEM. */
static htc_status put_in_order(bag_resumption *r)
{
    size_t     kept = 0;
    htc_status status = r->n ? sort(r) : HTC_OK;
    if (status != HTC_OK)
        return status;
    for (size_t i = 0; i < r->n; i++) {
        if (kept && r->spans[i].from < r->spans[kept - 1].to)
            return HTC_ECORRUPT;
        if (kept && r->spans[i].from == r->spans[kept - 1].to)
            r->spans[kept - 1].to = r->spans[i].to;
        else
            r->spans[kept++] = r->spans[i];
    }
    r->n = kept;
    return HTC_OK;
}

static htc_status make_room(bag_resumption *r)
{
    if (r->cap == BAG_RESUMPTION_SPANS) {
        htc_status status = put_in_order(r);
        return status == HTC_OK && r->n > BAG_RESUMPTION_SPANS / 2 ? HTC_EFULL : status;
    }
    size_t cap = r->cap ? 2 * r->cap : 64;
    void  *grown = htc__resize_raw(r->env, r->spans, r->cap * sizeof *r->spans, cap * sizeof *r->spans);
    if (!grown)
        return HTC_ENOMEM;
    r->spans = grown;
    r->cap = cap;
    return HTC_OK;
}

htc_status htc__bag_resumption_add(bag_resumption *r, const bag_outcome *o)
{
    ledger_span *last = r->n ? &r->spans[r->n - 1] : NULL;
    if (o->how == GRAPH_DONE)
        return HTC_OK;
    if (last && last->to == o->from) {
        last->to = o->to;
        return HTC_OK;
    }
    htc_status status = r->n == r->cap ? make_room(r) : HTC_OK;
    if (status == HTC_OK)
        r->spans[r->n++] = (ledger_span){ o->from, o->to };
    return status;
}

/* ---- shared out ---- */

static size_t varint_len(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

/* Of a span in a ledger's record; a third of the bits of three is no more than 4. */
static size_t span_len(ledger_span s, uint64_t last)
{
    size_t n = varint_len(s.to - s.from + 1) + varint_len(s.from - last);
    return n < 4 ? 4 : n;
}

/* The spans of the next ledger; none: there are no more. */
static void next_spans(bag_resumption *r, ledger_ids *ids)
{
    uint64_t left = r->home, last = 0;
    size_t   bytes = 0;
    ids->n = 0;
    while (r->at < r->n && left && ids->n < BAG_RESUMPTION_LIVE) {
        ledger_span s = r->spans[r->at];
        s.from = s.from > r->from ? s.from : r->from;
        s.to = s.to - s.from > left ? s.from + left : s.to;
        bytes += span_len(s, last);
        if (bytes > BAG_RESUMPTION_BYTES)
            return;
        ids->at[ids->n++] = s;
        left -= s.to - s.from;
        r->from = last = s.to;
        r->at += s.to == r->spans[r->at].to;
    }
}

static void begin(bag_resumption *r)
{
    r->at = 0;
    r->from = r->next = 0;
}

htc_status htc__bag_resumption_settle(bag_resumption *r, const flow *old, uint32_t workers)
{
    ledger_ids ids;
    htc_status status = put_in_order(r);
    if (status != HTC_OK)
        return status;
    r->tasks = old->tasks;
    r->missing = 0;
    for (size_t i = 0; i < r->n; i++)
        r->missing += r->spans[i].to - r->spans[i].from;
    const ledger_counts *c = &old->counts;
    if ((r->n && r->spans[r->n - 1].to > r->tasks) || c->done > r->tasks || r->missing != r->tasks - c->done)
        return HTC_ECORRUPT;
    if (r->missing == 0)
        return HTC_EEXISTS;
    workers = workers ? workers : 1;
    r->home = (r->missing - 1) / workers + 1;
    begin(r);
    for (r->n_ledgers = 0; r->at < r->n; r->n_ledgers++) {
        next_spans(r, &ids);
        assert(ids.n > 0);
    }
    begin(r);
    return r->n_ledgers > BAG_RESUMPTION_LEDGERS + (uint64_t)workers ? HTC_EFULL : HTC_OK;
}

/* ---- what is written ---- */

void htc__bag_resumption_header(const flow *old, uint64_t from, uint32_t tries, uint64_t max_fails, htc_buf *b)
{
    flow f = *old;
    f.state = FLOW_BUILDING;
    f.job = 0;
    f.from = from;
    f.tries = tries ? tries : old->tries;
    f.max_fails = max_fails ? max_fails : old->max_fails;
    f.n_marks = 0;
    f.counts = (ledger_counts){ 0, 0, 0 };
    htc__flow_write(b, &f);
}

htc_status htc__bag_resumption_ledger(bag_resumption *r, uint64_t *number, htc_buf *b)
{
    ledger l;
    if (r->at >= r->n)
        return HTC_ENOTFOUND;
    htc__ledger_init(&l, (ledger_span){ 0, 0 });
    next_spans(r, &l.live);
    if (r->next == 0)
        l.counts.done = r->tasks - r->missing;
    *number = r->next++;
    htc__ledger_write(b, &l);
    return b->status;
}
