/* The ledgers that this worker owns, and the survey of all.
 *
 * A ledger has at most one change under way: the next version is made of the one that is stored, of what has ended, of what thieves have
 * asked for and of what is known of notes. Where the store answers anything but OK, nothing is known: the record is read again, and the
 * worker goes on from what stands there. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

#define SURVEY_IDLE HTC_SECOND /* between surveys of one who looks for the end, or has no ledger */

own *htc__worker_own(const htc__worker *w, uint64_t number)
{
    own *o;
    DL_FOREACH2(w->owns, o, next_own)
    if (o->number == number)
        return o;
    return NULL;
}

static void own_free(htc__worker *w, own *o)
{
    DL_DELETE2(w->owns, o, prev, next_own);
    htc__free(&w->env, o, sizeof *o);
}

void htc__worker_ledgers_free(htc__worker *w)
{
    while (w->owns)
        own_free(w, w->owns);
}

/* It is somebody else's. */
static void lose(htc__worker *w, own *o)
{
    htc__log_with(&w->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("worker", w->id), HTC__NUMBER("ledger", o->number)),
                  "worker %llu has lost ledger %llu", (unsigned long long)w->id, (unsigned long long)o->number);
    o->n_asks ? htc__worker_given(w, o, 0) : (void)0;
    uint64_t number = o->number;
    own_free(w, o);
    htc__worker_drop_runs(w, number);
}

/* As the record stands. */
static void adopt(htc__worker *w, own *o, const ledger *l, uint64_t version)
{
    o->now = *l;
    o->version = version;
    htc__worker_counted(w, o);
    htc__worker_ready_anew(w, o);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_accepted; i++)
        if (htc__ledger_note(l, o->accepted[i].note))
            o->accepted[n++] = o->accepted[i];
    o->n_accepted = n;
    n = 0;
    for (uint32_t i = 0; i < o->n_cleared; i++)
        if (htc__ledger_accepted(l, o->cleared[i].ledger, o->cleared[i].note))
            o->cleared[n++] = o->cleared[i];
    o->n_cleared = n;
}

static own *take_up(htc__worker *w, uint64_t number, const ledger *l, uint64_t version)
{
    own *o = htc__alloc(&w->env, sizeof *o);
    if (!o) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "taking a ledger up");
        return NULL;
    }
    o->number = number;
    DL_APPEND2(w->owns, o, prev, next_own);
    adopt(w, o, l, version);
    return o;
}

/* ---- reading one again ---- */

static void read_again(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    uint64_t     number = *(uint64_t *)ctx;
    own         *o = htc__worker_own(w, number);
    ledger       l;
    htc_runtime_context_free(w->runtime, ctx);
    if (!o)
        return;
    o->reading = 0;
    if (r->status != HTC_OK) {
        o->write_at = w->now + 100 * HTC_MS;
        o->wanted = 2; /* to be read, before anything else */
        return;
    }
    if (htc__ledger_read(r->value, &l) != HTC_OK) {
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a ledger");
        return;
    }
    o->wanted = 0;
    if (!htc__ledger_is_of(&l, w->id, w->epoch)) {
        lose(w, o);
        return;
    }
    adopt(w, o, &l, r->version);
    htc__worker_given(w, o, 0);
    if (o->accept_read && !HTC__BROKEN(note_read_early))
        htc__worker_read_note(w, o); /* that it stands there was read before this version was known */
}

void htc__worker_read_again(htc__worker *w, own *o)
{
    uint64_t *number = htc_runtime_context(w->runtime, sizeof *number);
    flow_key  k = htc__flow_key_ledger(w->options.flow, o->number);
    if (!number)
        return;
    assert(!o->writing);
    *number = o->number;
    o->reading = 1;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, read_again, number);
}

/* ---- changing one ---- */

static void tell_cleared(htc__worker *w, own *o)
{
    for (uint32_t i = 0; i < o->n_accepted; i++)
        if (!htc__ledger_note(&o->now, o->accepted[i].note))
            htc__worker_say(w, o->accepted[i].peer, HTC_WIRE_WORKER_CLEARED, &(worker_message){ .from = o->number, .note = o->accepted[i].note });
}

static void accept_stored(htc__worker *w, own *o)
{
    ledger_pair p = o->accept;
    o->accept = (ledger_pair){ 0, 0 };
    o->holds = o->accept_read = 0;
    w->figures.stolen += o->accept_tasks;
    if (HTC__BROKEN(forget_before_clear))
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_CLEARED, &(worker_message){ .from = p.ledger, .note = p.note });
    htc__worker_say(w, o->accept_peer, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = p.ledger, .note = p.note, .to = o->number });
    htc__worker_settle(w, o->accept_tasks);
}

static void changed(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    uint64_t     number = *(uint64_t *)ctx;
    own         *o = htc__worker_own(w, number);
    htc_runtime_context_free(w->runtime, ctx);
    assert(o && o->writing);
    o->writing = 0;
    o->write_at = w->now + w->options.commit_gap_ns;
    if (r->status != HTC_OK) {
        htc__worker_read_again(w, o);
        return;
    }
    int accepts = o->accept_read && htc__ledger_accepted(&o->next, o->accept.ledger, o->accept.note);
    o->now = o->next;
    o->version = r->version;
    tell_cleared(w, o);
    adopt(w, o, &o->next, r->version);
    htc__worker_given(w, o, 1);
    if (accepts)
        accept_stored(w, o);
}

/* What is accepted first: what else it holds may be among the rest of this change. */
static int add_accept(htc__worker *w, own *o)
{
    ledger_span ids;
    if (!o->accept_read)
        return 0;
    htc_status status = htc__ledger_accept(&o->next, o->number, &o->accept_from, o->accept.ledger, o->accept.note, &ids);
    if (status == HTC_OK) {
        o->accept_tasks = ids.to - ids.from;
        return 1;
    }
    if (status == HTC_EEXISTS) /* accepted before: who gave it did not hear */
        htc__worker_say(w, o->accept_peer, HTC_WIRE_WORKER_ACCEPTED,
                        &(worker_message){ .from = o->accept.ledger, .note = o->accept.note, .to = o->number });
    o->accept = (ledger_pair){ 0, 0 };
    o->holds = o->accept_read = 0;
    htc__worker_settle(w, 0);
    return 0;
}

static uint32_t add_ended(own *o)
{
    uint32_t sent = 0;
    for (; sent < o->n_ended; sent++) {
        ledger_span   one = { o->ended[sent].id, o->ended[sent].id + 1 };
        ledger_counts c = { .done = !o->ended[sent].failed, .failed = o->ended[sent].failed };
        if (htc__ledger_commit(&o->next, &one, 1, &c) != HTC_OK)
            break; /* no room for more spans: with the next change */
    }
    return sent;
}

static void change(htc__worker *w, own *o)
{
    o->next = o->now;
    int some = add_accept(w, o);
    o->ended_sent = add_ended(o);
    for (uint32_t i = 0; i < o->n_accepted; i++)
        some |= htc__ledger_clear(&o->next, o->accepted[i].note) == HTC_OK;
    for (uint32_t i = 0; i < o->n_cleared; i++)
        some |= htc__ledger_forget(&o->next, o->cleared[i].ledger, o->cleared[i].note) == HTC_OK;
    htc__worker_give(w, o);
    some |= o->ended_sent > 0 || o->asks_sent > 0;
    o->wanted = 0;
    if (!some) {
        htc__worker_given(w, o, 1); /* those who get nothing */
        return;
    }
    uint64_t *number = htc_runtime_context(w->runtime, sizeof *number);
    flow_key  k = htc__flow_key_ledger(w->options.flow, o->number);
    htc__ledger_write(&w->buf, &o->next);
    if (!number || w->buf.status != HTC_OK) {
        htc_runtime_break(w->runtime, w->buf.status == HTC_OK ? HTC_ENOMEM : w->buf.status, "writing a ledger");
        return;
    }
    *number = o->number;
    o->writing = 1;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__BROKEN(ledger_unversioned) ? HTC_KV_PUT : HTC_KV_CAS_VERSION,
                                       .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf), .version = o->version }, 1, changed, number);
}

static int is_due(const own *o)
{
    return !o->writing && !o->reading && (o->wanted == 2 || ((!o->holds || o->accept_read) &&
                                          (o->n_ended || o->n_asks || o->n_accepted || o->n_cleared || o->accept_read || o->wanted)));
}

void htc__worker_flush(htc__worker *w)
{
    own *o, *next;
    DL_FOREACH_SAFE2(w->owns, o, next, next_own)
    if (is_due(o) && w->now >= o->write_at) {
        if (o->wanted == 2)
            htc__worker_read_again(w, o);
        else
            change(w, o);
    }
}

htc_ns htc__worker_ledgers_deadline(const htc__worker *w)
{
    htc_ns     at = HTC_NEVER;
    const own *o;
    DL_FOREACH2(w->owns, o, next_own)
    if (is_due(o) && o->write_at < at)
        at = o->write_at;
    return at;
}

/* ---- notes that nobody answers for ---- */

/* For one of the mistakes: what is thought of a ledger's owner without asking the store. */
int htc__worker_peer_lives(const htc__worker *w, const ledger *l)
{
    return l->worker == w->id || htc__worker_peer(w, l->worker) == 0 || w->round.answered > 0;
}

typedef struct look_at {
    uint64_t    number; /* of ours */
    ledger_pair pair;   /* a note of ours and whom it is for; or one of theirs */
    uint8_t     out;
} look_at;

/* Of a note that we gave: was it accepted? Of a pair: was the note cleared? Stale reads say only what stays true. */
static void looked(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    look_at      a = *(look_at *)ctx;
    own         *o = htc__worker_own(w, a.number);
    ledger       l;
    htc_runtime_context_free(w->runtime, ctx);
    if (!o || r->status != HTC_OK || htc__ledger_read(r->value, &l) != HTC_OK)
        return;
    if (a.out && htc__ledger_accepted(&l, o->number, a.pair.note)) {
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = a.pair.note, .to = a.pair.ledger });
    } else if (a.out && HTC__BROKEN(note_taken_back) && !htc__worker_peer_lives(w, &l)) {
        const ledger_note *n = htc__ledger_note(&o->now, a.pair.note);
        if (n && !o->writing && !o->reading && htc__ids_add(&o->now.live, n->ids) == HTC_OK) {
            htc__worker_ready_anew(w, o);
            htc__worker_heard(w, 0, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = a.pair.note });
        }
    } else if (a.out) {
        uint32_t peer = htc__worker_peer(w, l.worker);
        own     *mine = htc__worker_own(w, a.pair.ledger);
        if (mine)
            htc__worker_accept(w, mine, o->number, a.pair.note, 0);
        else if (peer)
            htc__worker_say(w, peer, HTC_WIRE_WORKER_NOTE, &(worker_message){ .from = o->number, .note = a.pair.note, .to = a.pair.ledger });
    } else if (l.next_note > a.pair.note && !htc__ledger_note(&l, a.pair.note)) {
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_CLEARED, &(worker_message){ .from = a.pair.ledger, .note = a.pair.note });
    }
}

static void look_at_ledger(htc__worker *w, own *o, ledger_pair pair, int out)
{
    look_at *a = htc_runtime_context(w->runtime, sizeof *a);
    flow_key k = htc__flow_key_ledger(w->options.flow, pair.ledger);
    if (!a)
        return;
    *a = (look_at){ o->number, pair, (uint8_t)out };
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, looked, a);
}

void htc__worker_ledgers_tick(htc__worker *w)
{
    own *o;
    DL_FOREACH2(w->owns, o, next_own)
    {
        for (uint32_t i = 0; i < o->now.n_out; i++)
            look_at_ledger(w, o, (ledger_pair){ o->now.out[i].ledger, o->now.out[i].note }, 1);
        for (uint32_t i = 0; i < o->now.n_in; i++)
            look_at_ledger(w, o, o->now.in[i], 0);
    }
}

/* ---- the survey ----
 *
 * The header, who lives, who looks for the end, all ledgers; in that order, so that who is thought dead was dead before its ledger was
 * read. Then: what is nobody's is taken, one ledger if it is only that there is none here, all by who looks for the end. */

typedef struct seen_ledger {
    uint64_t version;
    ledger   l;
} seen_ledger;

typedef struct survey {
    uint8_t            collects;
    uint64_t           epochs[GROUP_MAX]; /* of the living, by number - 1; 0: dead */
    uint64_t           first_absent;
    uint64_t           live; /* spans that were seen in ledgers */
    uint64_t           take; /* under way */
    ledger             taking;
    htc_runtime_cursor next;
} survey;

static void survey_end(htc__worker *w)
{
    htc_runtime_context_free(w->runtime, w->survey);
    w->survey = NULL;
    w->survey_at = w->now + SURVEY_IDLE;
}

static int lives(const survey *s, const ledger *l)
{
    return l->worker && l->worker <= GROUP_MAX && s->epochs[l->worker - 1] == l->epoch;
}

static void ended_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    (void)ctx;
    (void)r; /* another one may have been first */
    if (w->survey)
        survey_end(w);
}

/* Counts never fall, and each task is counted once: their sum is the truth, or less. */
static void end_flow(htc__worker *w)
{
    flow     f = w->flow;
    flow_key k = htc__flow_key_header(w->options.flow);
    f.state = FLOW_ENDED;
    f.counts = w->survey->taking.counts;
    htc__flow_write(&w->buf, &f);
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = w->header_version }, 1, ended_written, NULL);
}

static void made(void *role, void *ctx, const htc_kv_result *r);

static void put_ledger(htc__worker *w, uint64_t number, const ledger *l, uint64_t version)
{
    flow_key k = htc__flow_key_ledger(w->options.flow, number);
    w->survey->take = number;
    w->survey->taking = *l;
    htc__ledger_write(&w->buf, l);
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = version }, 1, made, NULL);
}

static void ledgers_page(void *role, void *ctx, const htc_kv_result *r);

static void next_page(htc__worker *w)
{
    flow_key k = htc__flow_key_ledgers(w->options.flow);
    htc_runtime_scan(w->runtime, htc__flow_key_bytes(&k), &w->survey->next, 0, ledgers_page, NULL);
}

/* Taken or created, or somebody was faster. Then all is looked at again. */
static void made(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    survey      *s = w->survey;
    (void)ctx;
    if (!s)
        return;
    if (r->status == HTC_OK && !htc__worker_own(w, s->take)) {
        w->figures.taken++;
        take_up(w, s->take, &s->taking, r->version);
        htc_steal_nudge(&w->thief, w->now);
    }
    survey_end(w);
    if (r->status == HTC_OK)
        w->survey_at = w->now; /* there may be more */
}

static void seen(htc__worker *w, uint64_t number, const ledger *l, uint64_t version, ledger_counts *sum, uint64_t *take, ledger *taking, uint64_t *at)
{
    survey *s = w->survey;
    sum->done += l->counts.done;
    sum->failed += l->counts.failed;
    sum->cancelled += l->counts.cancelled;
    s->live += l->live.n;
    if (number == s->first_absent)
        s->first_absent++;
    own *o = htc__worker_own(w, number);
    if (htc__ledger_is_of(l, w->id, w->epoch)) {
        if (!o)
            take_up(w, number, l, version); /* taken before, though the answer was lost */
        else if (version > o->version && !o->writing && !o->reading)
            htc__worker_read_again(w, o); /* what was taken up was read before a change of ours that was late */
    } else if (!*take && !lives(s, l) && (s->collects || !w->owns)) {
        *take = number + 1;
        *taking = *l;
        *at = version;
    }
}

static void ledgers_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker  *w = role;
    survey       *s = w->survey;
    htc_kv_item   item;
    size_t        at = 0;
    ledger        l, taking;
    ledger_counts sum = { 0 };
    uint64_t      number, take = 0, version = 0;
    flow_key      prefix = htc__flow_key_ledgers(w->options.flow);
    (void)ctx;
    if (!s)
        return;
    if (r->status != HTC_OK) {
        survey_end(w);
        return;
    }
    sum = s->taking.counts; /* of the pages before */
    while (htc_kv_result_item(r, &at, &item) == HTC_OK)
        if (htc__flow_key_number(item.key, &prefix, &number) && htc__ledger_read(item.value, &l) == HTC_OK)
            seen(w, number, &l, item.version, &sum, &take, &taking, &version);
    s->taking.counts = sum;
    s->next = htc_runtime_next_page(w->runtime, r);
    if (HTC__BROKEN(end_when_empty) && s->collects && !s->live && !s->next.len && sum.done) {
        s->taking.counts.done = w->flow.tasks;
        end_flow(w);
    } else if (take) {
        htc__ledger_take(&taking, w->id, w->epoch);
        put_ledger(w, take - 1, &taking, version);
    } else if (s->next.len) {
        next_page(w);
    } else if (sum.done + sum.failed + sum.cancelled == w->flow.tasks && s->collects) {
        end_flow(w);
    } else if (!w->owns) {
        htc__ledger_init(&l, (ledger_span){ 0, 0 });
        htc__ledger_take(&l, w->id, w->epoch);
        put_ledger(w, s->first_absent, &l, 0);
    } else {
        survey_end(w);
    }
}

static void collector_known(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    (void)ctx;
    if (!w->survey)
        return;
    htc_reader value = htc_reader_of(r->value);
    w->survey->collects = r->status == HTC_OK || (r->status == HTC_MISMATCH && htc_get_u64(&value) == w->epoch && value.status == HTC_OK);
    next_page(w);
}

static void workers_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    survey      *s = w->survey;
    htc_kv_item  item;
    size_t       at = 0;
    uint64_t     number;
    flow_key     prefix = htc__flow_key_workers(), k = htc__flow_key_collector(w->options.flow);
    (void)ctx;
    if (!s)
        return;
    if (r->status != HTC_OK) {
        survey_end(w);
        return;
    }
    while (htc_kv_result_item(r, &at, &item) == HTC_OK) {
        htc_reader value = htc_reader_of(item.value);
        uint64_t   epoch = htc_get_u64(&value);
        if (htc__flow_key_number(item.key, &prefix, &number) && number && number <= GROUP_MAX && value.status == HTC_OK)
            s->epochs[number - 1] = epoch;
    }
    s->next = htc_runtime_next_page(w->runtime, r);
    if (s->next.len) {
        htc_runtime_scan(w->runtime, htc__flow_key_bytes(&prefix), &s->next, 0, workers_page, NULL);
        return;
    }
    htc_buf_clear(&w->buf);
    htc_put_u64(&w->buf, w->epoch);
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k),
                                       .value = htc_buf_bytes(&w->buf), .lease = w->epoch }, 1, collector_known, NULL);
}

static void header_known(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    flow_key     k = htc__flow_key_workers();
    (void)ctx;
    if (!w->survey)
        return;
    if (r->status == HTC_OK) {
        htc_buf_clear(&w->header_bytes);
        htc_put_raw(&w->header_bytes, r->value);
        w->header_version = r->version;
        if (w->header_bytes.status != HTC_OK || htc__flow_read(htc_buf_bytes(&w->header_bytes), &w->flow) != HTC_OK) {
            htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a flow");
            return;
        }
    }
    if (r->status == HTC_OK && w->flow.state == FLOW_ENDED) {
        w->ended = 1;
        survey_end(w);
    } else if (r->status != HTC_OK || w->flow.state != FLOW_RUNNING) {
        survey_end(w); /* not yet */
    } else {
        htc_runtime_scan(w->runtime, htc__flow_key_bytes(&k), NULL, 0, workers_page, NULL);
    }
}

void htc__worker_survey(htc__worker *w)
{
    flow_key k = htc__flow_key_header(w->options.flow);
    if (w->survey || w->ended)
        return;
    w->survey = htc_runtime_context(w->runtime, sizeof *w->survey);
    if (!w->survey)
        return;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, header_known, NULL);
}
