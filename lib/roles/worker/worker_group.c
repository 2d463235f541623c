/* Who else is there, what the header says, who looks for the end. All three are watched, so that an idle worker does nothing.
 *
 * Who looks for the end has a key bound to its lease. Counts never fall, and each task is counted once: their sum over all ledgers,
 * whatever their age, is the truth or less. Owners send it the counts of their ledgers after each change, again and again until it says
 * that it knows. */
#include <string.h>

#include "htcsched/flow.h"
#include "roles/objects/objects.h"
#include "roles/worker/worker_private.h"

#define COLLECT_NS (20 * HTC_MS) /* who comes first to look for the end is drawn within this */

/* ---- members ---- */

static member *find(htc_worker *w, uint64_t id, uint32_t *at)
{
    uint32_t low = 0, high = w->n_members;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->members[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return low < w->n_members && w->members[low].id == id ? &w->members[low] : NULL;
}

static const member *member_of(const htc_worker *w, uint64_t id)
{
    uint32_t at;
    return find((htc_worker *)(uintptr_t)w, id, &at);
}

uint32_t htc__worker_place_of_self(const htc_worker *w)
{
    uint32_t at;
    (void)find((htc_worker *)(uintptr_t)w, w->id, &at);
    return at;
}

uint32_t htc__worker_peer(const htc_worker *w, uint64_t id)
{
    const member *m = member_of(w, id);
    return m ? m->peer : 0;
}

int htc__worker_lives(const htc_worker *w, uint64_t id, uint64_t epoch)
{
    const member *m = member_of(w, id);
    return id == w->id ? epoch == w->epoch : m && m->epoch == epoch;
}

static void hang_up(htc_worker *w, uint32_t peer)
{
    htc_buf_clear(&w->buf);
    htc_put_u32(&w->buf, peer);
    if (!htc__worker_written(w, "hanging up"))
        return;
    htc_runtime_call(w->runtime, HTC_CALL_HANG_UP, htc_buf_bytes(&w->buf), NULL, NULL);
}

void htc__worker_hang_up_all(htc_worker *w)
{
    for (uint32_t i = 0; i < w->n_members; i++)
        if (w->members[i].peer)
            hang_up(w, w->members[i].peer);
    w->n_members = 0;
}

typedef struct dial_of {
    uint64_t id, epoch;
} dial_of;

static void dialled(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_worker *w = role;
    dial_of      d = *(dial_of *)ctx;
    htc_reader   r = htc_reader_of(body);
    uint32_t     peer = htc_get_u32(&r), at;
    htc_runtime_context_free(w->runtime, ctx);
    if (status != HTC_OK || htc_reader_done(&r) != HTC_OK || peer == 0) {
        htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("worker", d.id), HTC__STATUS(status)),
                      "worker %llu cannot be called -> go on without it", (unsigned long long)d.id);
        return;
    }
    member *m = find(w, d.id, &at);
    if (m && m->epoch == d.epoch && m->peer == 0)
        m->peer = peer;
    else
        hang_up(w, peer);
}

static void dial(htc_worker *w, const member *m, const char *address)
{
    dial_of *d = htc_runtime_context(w->runtime, sizeof *d);
    if (!d)
        return;
    *d = (dial_of){ m->id, m->epoch };
    htc_buf_clear(&w->buf);
    htc_put_str(&w->buf, address);
    if (!htc__worker_written(w, "calling a worker"))
        return;
    htc_runtime_call(w->runtime, HTC_CALL_DIAL, htc_buf_bytes(&w->buf), dialled, d);
}

static void member_gone(htc_worker *w, uint32_t at)
{
    member gone = w->members[at];
    if (gone.peer)
        hang_up(w, gone.peer);
    memmove(&w->members[at], &w->members[at + 1], (w->n_members - at - 1) * sizeof w->members[0]);
    w->n_members--;
    if (w->objects)
        htc__objects_worker_gone(w->objects, gone.id);
    htc__worker_group_changed(w);
    if (htc__worker_collects(w))
        htc__worker_survey_soon(w, 0);
}

static void member_is(htc_worker *w, uint64_t id, const flow_worker *f)
{
    uint32_t at;
    member  *m = find(w, id, &at);
    if (m && m->epoch == f->epoch) {
        m->stale = 0;
        return;
    }
    if (m)
        member_gone(w, at);
    if (w->n_members == GROUP_MAX - 1)
        return;
    m = &w->members[at];
    memmove(m + 1, m, (w->n_members - at) * sizeof *m);
    *m = (member){ .id = id, .epoch = f->epoch, .gone_at = HTC_NEVER };
    w->n_members++;
    if (!htc__worker_was_here(w, m, f->address))
        dial(w, m, f->address);
    htc__worker_group_changed(w);
}

static void members_event(void *role, void *ctx, const htc_kv_event *e)
{
    htc_worker *w = role;
    flow_key     prefix = htc__flow_key_workers(w->options.flow);
    flow_worker  f;
    uint64_t     id;
    uint32_t     at;
    (void)ctx;
    switch ((htc_kv_event_kind)e->kind) {
    case HTC_KV_EVENT_VALUE:
        if (htc__flow_key_number(e->key, &prefix, &id) && id && id != w->id && htc__flow_worker_read(e->value, &f) == HTC_OK)
            member_is(w, id, &f);
        break;
    case HTC_KV_EVENT_DELETED:
        if (!htc__flow_key_number(e->key, &prefix, &id))
            break;
        if (id == w->id && !w->left)
            w->renew_at = w->now; /* we have been given up, it seems: ask */
        else if (find(w, id, &at))
            member_gone(w, at);
        break;
    case HTC_KV_EVENT_START_OVER:
        for (uint32_t i = 0; i < w->n_members; i++)
            w->members[i].stale = 1;
        break;
    case HTC_KV_EVENT_CURRENT:
        for (uint32_t i = w->n_members; i > 0; i--)
            if (w->members[i - 1].stale)
                member_gone(w, i - 1);
        if (!w->members_known)
            htc__worker_survey_soon(w, 0);
        w->members_known = 1;
        break;
    case HTC_KV_EVENT_ENDED: htc_runtime_break(w->runtime, e->status, "watching who works at a flow"); break;
    }
}

/* ---- the header ---- */

int htc__worker_runs_flow(const htc_worker *w)
{
    return w->header_known && w->members_known && w->flow.state == FLOW_RUNNING;
}

static void header_read(htc_worker *w, htc_bytes value, uint64_t version)
{
    int      known = w->header_known, runs = known && w->flow.state == FLOW_RUNNING;
    uint32_t n_marks = w->flow.n_marks;
    ledger_span marks[FLOW_MARKS_MAX];
    uint64_t tasks = w->flow.tasks, news = w->flow.news;
    uint8_t  kind = w->flow.kind;
    if (w->header_known && version <= w->header_version)
        return;
    memcpy(marks, w->flow.marks, n_marks * sizeof *marks);
    htc_buf_clear(&w->header_bytes);
    htc_put_raw(&w->header_bytes, value);
    w->header_version = version;
    w->header_known = 1;
    htc_status status = w->header_bytes.status == HTC_OK ? htc__flow_read(htc_buf_bytes(&w->header_bytes), &w->flow) : w->header_bytes.status;
    if (status == HTC_OK && (w->flow.tasks > HTC_FLOW_TOTAL_MAX || (known && (w->flow.tasks < tasks || (w->flow.tasks > tasks && !w->flow.adds) || w->flow.kind != kind))))
        status = HTC_ECORRUPT;
    if (status != HTC_OK) {
        htc_runtime_break(w->runtime, status, "reading a flow");
        return;
    }
    w->ended = w->flow.state == FLOW_ENDED || w->flow.state == FLOW_ABORTED;
    htc__worker_objects(w);
    htc__worker_places(w);
    htc__worker_steal_policy(w);
    if (w->flow.state == FLOW_RUNNING && !runs)
        htc__worker_survey_soon(w, 0);
    if (w->flow.state == FLOW_RUNNING && (!runs || w->flow.n_marks != n_marks || memcmp(marks, w->flow.marks, n_marks * sizeof *marks) != 0))
        htc__worker_marked(w);
    node *intake = w->flow.news && w->flow.news != news ? htc__worker_node(w, w->flow.news - 1) : NULL;
    if (intake)
        htc__worker_node_news(w, intake);
    if (known && w->flow.tasks != tasks && htc__worker_collects(w))
        w->collect_at = w->now; /* as many may be counted as there are now */
}

void htc__worker_header_is(htc_worker *w, htc_bytes value, uint64_t version)
{
    header_read(w, value, version);
}

static void header_event(void *role, void *ctx, const htc_kv_event *e)
{
    htc_worker *w = role;
    (void)ctx;
    if (e->kind == HTC_KV_EVENT_VALUE)
        header_read(w, e->value, e->version);
    else if (e->kind == HTC_KV_EVENT_DELETED && w->header_known)
        w->ended = 1; /* it was removed */
    else if (e->kind == HTC_KV_EVENT_ENDED)
        htc_runtime_break(w->runtime, e->status, "watching a flow");
}

/* ---- who looks for the end ---- */

int htc__worker_collects(const htc_worker *w)
{
    return w->collector == w->id && w->collector_epoch == w->epoch;
}

static void collector_is(htc_worker *w, uint64_t id, uint64_t epoch)
{
    own *o;
    if (w->collector == id && w->collector_epoch == epoch)
        return;
    w->collector = id;
    w->collector_epoch = epoch;
    w->collector_known = 1;
    w->collect_at = HTC_NEVER;
    EACH_OWN(w, o)
    {
        o->counted = (ledger_counts){ 0 };
        o->counts_at = w->now;
        o->counts_gap = AGAIN_NS;
    }
    if (htc__worker_collects(w))
        htc__worker_survey_soon(w, 0); /* of all ledgers: the sums so far, and what is nobody's */
}

static void collector_gone(htc_worker *w)
{
    w->collector = 0;
    w->collect_at = w->now + htc_rng_below(w->env.rng, COLLECT_NS);
}

static void collector_event(void *role, void *ctx, const htc_kv_event *e)
{
    htc_worker *w = role;
    htc_reader   r = htc_reader_of(e->value);
    (void)ctx;
    if (e->kind == HTC_KV_EVENT_VALUE) {
        uint64_t id = htc_get_u64(&r), epoch = htc_get_u64(&r);
        if (htc_reader_done(&r) == HTC_OK)
            collector_is(w, id, epoch);
        else /* nobody would look for the end */
            htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading who looks for the end of a flow");
    } else if (e->kind == HTC_KV_EVENT_DELETED || (e->kind == HTC_KV_EVENT_CURRENT && !w->collector)) {
        collector_gone(w);
    } else if (e->kind == HTC_KV_EVENT_ENDED) {
        htc_runtime_break(w->runtime, e->status, "watching who looks for the end of a flow");
    }
}

static void collecting(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    (void)ctx;
    if (r->status == HTC_OK)
        collector_is(w, w->id, w->epoch);
    else if (r->status != HTC_MISMATCH) /* else somebody was faster, and the watch says who */
        w->collect_at = w->now + AGAIN_NS;
}

static void collect(htc_worker *w)
{
    flow_key k = htc__flow_key_collector(w->options.flow);
    w->collect_at = HTC_NEVER;
    htc_buf_clear(&w->buf);
    htc_put_u64(&w->buf, w->id);
    htc_put_u64(&w->buf, w->epoch);
    if (!htc__worker_written(w, "offering to look for the end"))
        return;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k),
                                       .value = htc_buf_bytes(&w->buf), .lease = w->epoch }, 1, collecting, NULL);
}

void htc__worker_watch(htc_worker *w)
{
    flow_key header = htc__flow_key_header(w->options.flow), members = htc__flow_key_workers(w->options.flow),
             collector = htc__flow_key_collector(w->options.flow);
    w->watching = 1;
    htc_runtime_watch(w->runtime, htc__flow_key_bytes(&header), 0, header_event, NULL);
    htc_runtime_watch(w->runtime, htc__flow_key_bytes(&members), 1, members_event, NULL);
    htc_runtime_watch(w->runtime, htc__flow_key_bytes(&collector), 0, collector_event, NULL);
}

/* ---- the sum of counts ---- */

static int same(const ledger_counts *a, const ledger_counts *b)
{
    return a->done == b->done && a->failed == b->failed && a->cancelled == b->cancelled;
}

static uint64_t all(const ledger_counts *c)
{
    return c->done + c->failed + c->cancelled;
}

static void header_changed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    int          cancels = ctx == w;
    w->ending = 0;
    if (r->status == HTC_MISMATCH && r->version > w->header_version)
        header_read(w, r->value, r->version);
    if (r->status == HTC_OK || w->ended)
        return;
    w->cancel_wanted |= cancels != 0;
    w->collect_at = w->now + AGAIN_NS; /* looked at again then */
}

static void change_header(htc_worker *w, const flow *f, int cancels)
{
    flow_key k = htc__flow_key_header(w->options.flow);
    htc__flow_write(&w->buf, f);
    if (!htc__worker_written(w, "writing a flow"))
        return;
    w->ending = 1;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = w->header_version }, 1, header_changed, cancels ? w : NULL);
}

/* Whoever is told that nobody wants it says so, collector or not. */
static void cancel_flow(htc_worker *w)
{
    flow f = w->flow;
    if (!htc__worker_runs_flow(w) || w->ending)
        return;
    w->cancel_wanted = 0;
    if (htc__flow_mark(&f, (ledger_span){ 0, w->flow.tasks }) == HTC_OK)
        change_header(w, &f, 1);
}

static void look_for_the_end(htc_worker *w)
{
    flow f = w->flow;
    if (!htc__worker_collects(w) || !htc__worker_runs_flow(w) || w->ending)
        return;
    if (all(&w->total) == w->flow.tasks) {
        f.state = FLOW_ENDED;
        f.counts = w->total;
        change_header(w, &f, 0);
    } else if (w->total.failed > w->flow.max_fails && htc__flow_mark(&f, (ledger_span){ 0, w->flow.tasks }) == HTC_OK) {
        change_header(w, &f, 0);
    }
}

void htc__worker_sum(htc_worker *w, uint64_t number, const ledger_counts *c)
{
    sum *s;
    HASH_FIND(hh, w->sums, &number, sizeof number, s);
    if (!s) {
        s = htc__alloc(&w->env, sizeof *s);
        if (s) {
            s->ledger = number;
            HASH_ADD(hh, w->sums, ledger, sizeof s->ledger, s);
        }
        if (!s || !s->hh.tbl) {
            htc__free(&w->env, s, sizeof *s);
            htc_runtime_break(w->runtime, HTC_ENOMEM, "counting what has ended");
            return;
        }
    }
    if (all(c) > all(&s->counts)) {
        w->total.done += c->done - s->counts.done;
        w->total.failed += c->failed - s->counts.failed;
        w->total.cancelled += c->cancelled - s->counts.cancelled;
        s->counts = *c;
    }
    look_for_the_end(w);
}

static void say_counts(htc_worker *w, own *o)
{
    const ledger_counts *c = &o->now.counts;
    o->counts_at = w->now + o->counts_gap;
    o->counts_gap = o->counts_gap * 2 < GAP_MAX ? o->counts_gap * 2 : GAP_MAX;
    htc__worker_say(w, htc__worker_peer(w, w->collector), HTC_WIRE_WORKER_COUNTS,
                    &(worker_message){ .from = o->number, .tasks = c->done, .note = c->failed, .to = c->cancelled });
}

void htc__worker_counts_changed(htc_worker *w, own *o)
{
    if (htc__worker_collects(w)) {
        htc__worker_sum(w, o->number, &o->now.counts);
    } else if (!same(&o->counted, &o->now.counts)) {
        o->counts_gap = AGAIN_NS;
        say_counts(w, o);
    }
}

void htc__worker_counts_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m)
{
    ledger_counts c = { .done = m->tasks, .failed = m->note, .cancelled = m->to };
    own          *o = htc__worker_own(w, m->from);
    if (type == HTC_WIRE_WORKER_COUNTED) {
        if (o)
            o->counted = c;
        htc__worker_place_progress(w, m->seq);
        return;
    }
    if (!htc__worker_collects(w) || !w->header_known || c.done > w->flow.tasks || c.failed > w->flow.tasks || c.cancelled > w->flow.tasks)
        return;
    htc__worker_sum(w, m->from, &c);
    worker_message answer = *m;
    answer.seq = all(&w->total);
    htc__worker_say(w, peer, HTC_WIRE_WORKER_COUNTED, &answer);
    htc__worker_place_progress(w, answer.seq);
}

/* ---- time ---- */

static int counts_wait(const htc_worker *w, const own *o)
{
    return w->collector && !htc__worker_collects(w) && !same(&o->counted, &o->now.counts);
}

void htc__worker_group_timers(htc_worker *w)
{
    own *o;
    htc__worker_gone_timers(w);
    if (w->cancel_wanted)
        cancel_flow(w);
    if (w->now >= w->collect_at && !w->leaving) {
        w->collect_at = HTC_NEVER;
        if (htc__worker_collects(w))
            look_for_the_end(w);
        else if (!w->collector)
            collect(w);
    }
    EACH_OWN(w, o)
    if (counts_wait(w, o) && w->now >= o->counts_at)
        say_counts(w, o);
}

htc_ns htc__worker_group_deadline(const htc_worker *w)
{
    htc_ns     at = w->leaving || w->gone_at < w->collect_at ? w->gone_at : w->collect_at;
    const own *o;
    EACH_OWN(w, o)
    if (counts_wait(w, o) && o->counts_at < at)
        at = o->counts_at;
    return at;
}

void htc__worker_group_free(htc_worker *w)
{
    sum *s, *next;
    HASH_ITER(hh, w->sums, s, next)
    {
        HASH_DEL(w->sums, s);
        htc__free(&w->env, s, sizeof *s);
    }
}
