/* The ledgers that this worker owns.
 *
 * A ledger has at most one change under way: the next version is made of the one that is stored, of what has ended, of what thieves have
 * asked for, of what is to be cancelled and of what is known of notes. Where the store answers anything but OK, nothing is known: the record
 * is read again, and the worker goes on from what stands there. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/flow.h"
#include "roles/worker/worker_private.h"

own *htc__worker_own(const htc_worker *w, uint64_t number)
{
    own *o;
    HASH_FIND(hh, w->owns, &number, sizeof number, o);
    return o;
}

static int has_spans(const htc_worker *w, const ledger_span *s, uint32_t n)
{
    uint64_t most = w->flow.adds ? HTC_FLOW_TOTAL_MAX : w->flow.tasks; /* the header may say more by now */
    for (uint32_t i = 0; i < n; i++)
        if (s[i].to > most)
            return 0;
    return 1;
}

htc_status htc__worker_ledger_read(const htc_worker *w, htc_bytes bytes, ledger *l)
{
    htc_status status = htc__ledger_read(bytes, l);
    if (status != HTC_OK)
        return status;
    int good = has_spans(w, l->live.at, l->live.n) && (w->flow.kind != FLOW_GRAPH || htc__ids_count(&l->live) <= GRAPH_LIVE);
    for (uint32_t i = 0; i < l->n_out; i++)
        good &= has_spans(w, l->out[i].ids, l->out[i].n) && (w->flow.kind != FLOW_GRAPH || htc__ledger_note_tasks(&l->out[i]) <= GRAPH_LIVE);
    return good ? HTC_OK : HTC_ECORRUPT;
}

static void own_free(htc_worker *w, own *o)
{
    HASH_DEL(w->owns, o);
    htc__free(&w->env, o, sizeof *o);
}

void htc__worker_ledgers_free(htc_worker *w)
{
    while (w->owns)
        own_free(w, w->owns);
}

static int is_graph(const htc_worker *w)
{
    return w->flow.kind == FLOW_GRAPH;
}

/* It is somebody else's, or nobody's. */
static void lose(htc_worker *w, own *o)
{
    htc__log_with(&w->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("worker", w->id), HTC__NUMBER("ledger", o->number)),
                  "worker %llu has ledger %llu no more", (unsigned long long)w->id, (unsigned long long)o->number);
    htc__worker_given(w, o, 0);
    uint64_t number = o->number;
    htc__worker_nodes_lost(w, o);
    own_free(w, o);
    htc__worker_drop_runs(w, number);
    if (w->round.stealing)
        htc__worker_settle(w, 0);
    htc__worker_survey_soon(w, 0);
}

/* Of what is known of notes, what is still to be said. */
static void forget_said(own *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_accepted; i++)
        if (htc__ledger_note(&o->now, o->accepted[i].note))
            o->accepted[n++] = o->accepted[i];
    o->n_accepted = n;
    n = 0;
    for (uint32_t i = 0; i < o->n_cleared; i++)
        if (htc__ledger_accepted(&o->now, o->cleared[i].ledger, o->cleared[i].note))
            o->cleared[n++] = o->cleared[i];
    o->n_cleared = n;
}

/* As the record stands, whatever was thought before. */
static void adopt(htc_worker *w, own *o, const ledger *l, uint64_t version)
{
    o->now = *l;
    o->version = version;
    htc__worker_forget_counted(o);
    if (is_graph(w))
        htc__worker_nodes_anew(w, o);
    else
        htc__worker_ready_anew(w, o);
    forget_said(o);
    o->marked = w->flow.n_marks > 0;
}

own *htc__worker_take_up(htc_worker *w, uint64_t number, const ledger *l, uint64_t version)
{
    own *o = htc__alloc(&w->env, sizeof *o);
    if (o) {
        o->number = number;
        HASH_ADD(hh, w->owns, number, sizeof o->number, o);
    }
    if (!o || !o->hh.tbl) {
        htc__free(&w->env, o, sizeof *o);
        htc_runtime_break(w->runtime, HTC_ENOMEM, "taking a ledger up");
        return NULL;
    }
    o->notes_gap = NOTES_NS;
    o->news_gap = NEWS_NS;
    o->notes_at = w->now + o->notes_gap;
    o->news_at = w->now + o->news_gap;
    o->counts_gap = AGAIN_NS;
    o->counts_at = w->now;
    htc__worker_ledger_is(w, number, l);
    adopt(w, o, l, version);
    return o;
}

/* ---- reading one again ---- */

static void read_again(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    uint64_t     number = *(uint64_t *)ctx;
    own         *o = htc__worker_own(w, number);
    ledger       l;
    htc_runtime_context_free(w->runtime, ctx);
    if (!o)
        return;
    o->reading = 0;
    if (r->status != HTC_OK) {
        o->write_at = w->now + AGAIN_NS;
        o->unsure = 1;
        return;
    }
    if (htc__worker_ledger_read(w, r->value, &l) != HTC_OK) {
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a ledger");
        return;
    }
    o->unsure = o->handing = 0;
    if (!htc__ledger_is_of(&l, w->id, w->epoch)) {
        lose(w, o);
        return;
    }
    adopt(w, o, &l, r->version);
    htc__worker_given(w, o, 0);
    htc__worker_counts_changed(w, o);
    if (o->accept_read && !HTC__BROKEN(note_read_early))
        htc__worker_read_note(w, o); /* that it stands there was read before this version was known */
}

void htc__worker_read_again(htc_worker *w, own *o)
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

/* Who takes over the ledger of a dead thief accepts one note at a time. When one of those that had to be looked after is gone, so is what the
 * next one waits for. */
static void tell_cleared(htc_worker *w, own *o)
{
    int some = 0;
    for (uint32_t i = 0; i < o->n_accepted; i++)
        if (!htc__ledger_note(&o->now, o->accepted[i].note)) {
            worker_message m = { .from = o->number, .note = o->accepted[i].note };
            if (o->accepted[i].peer)
                htc__worker_say(w, o->accepted[i].peer, HTC_WIRE_WORKER_CLEARED, &m);
            else /* a ledger of ours has it */
                htc__worker_heard(w, 0, HTC_WIRE_WORKER_CLEARED, &m);
            some = 1;
        }
    if (some && o->notes_gap > NOTES_NS && w->now + AGAIN_NS < o->notes_at) {
        o->notes_gap = NOTES_NS;
        o->notes_at = w->now + AGAIN_NS;
    }
}

static void accept_stored(htc_worker *w, own *o)
{
    ledger_pair        p = o->accept;
    const ledger_note *n = htc__ledger_note(&o->accept_from, p.note);
    o->accept = (ledger_pair){ 0, 0 };
    o->holds = o->accept_read = 0;
    w->figures.stolen += o->accept_pushed ? 0 : o->accept_tasks;
    for (uint32_t i = 0; is_graph(w) && n && i < n->n; i++) {
        htc__worker_nodes_add(w, o, n->ids[i]);
        htc__worker_nodes_came(w, n->ids[i], o->accept_pushed ? CAME_PUSHED : CAME_STOLEN);
    }
    if (HTC__BROKEN(forget_before_clear))
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_CLEARED, &(worker_message){ .from = p.ledger, .note = p.note });
    if (htc__worker_own(w, p.ledger))
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = p.ledger, .note = p.note, .to = o->number });
    else
        htc__worker_say(w, o->accept_peer, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = p.ledger, .note = p.note, .to = o->number });
    htc__worker_settle(w, o->accept_tasks);
}

/* For one of the mistakes: a record that nobody seems to need any more goes, while the flow runs. */
static void deleted(void *role, void *ctx, const htc_kv_result *r)
{
    (void)role;
    (void)ctx;
    (void)r;
}

static void delete_record(htc_worker *w, uint64_t id)
{
    flow_key    k = htc__flow_key_task(w->options.flow, id);
    const node *n = htc__worker_node(w, id);
    if (n && n->task.adds != GRAPH_ADDS_INTAKE && id >= w->flow.tasks - w->flow.added)
        htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc__flow_key_bytes(&k) }, 1, deleted, NULL);
}

/* The tasks of a graph that this change has moved out of live: their nodes go. */
static void nodes_left(htc_worker *w, own *o)
{
    for (uint32_t i = 0; i < o->ended_sent; i++) {
        const ended_task *e = &o->ended[i];
        if (HTC__BROKEN(record_deleted))
            delete_record(w, e->id);
        htc__worker_nodes_gone(w, o, (ledger_span){ e->id, e->to });
        if (e->n_added)
            htc__worker_added(w, o, e);
    }
    for (uint32_t i = 0; i < o->n_asks; i++) {
        const ledger_note *n = o->asks[i].note ? htc__ledger_note(&o->next, o->asks[i].note) : NULL;
        for (uint32_t k = 0; n && k < n->n; k++)
            htc__worker_nodes_gone(w, o, n->ids[k]);
    }
}

static void changed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
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
    if (o->handing) {
        lose(w, o);
        return;
    }
    int accepts = o->accept_read && htc__ledger_accepted(&o->next, o->accept.ledger, o->accept.note);
    o->now = o->next;
    o->version = r->version;
    tell_cleared(w, o);
    if (is_graph(w))
        nodes_left(w, o);
    htc__worker_forget_counted(o);
    if (!is_graph(w))
        htc__worker_ready_anew(w, o);
    forget_said(o);
    htc__worker_given(w, o, 1);
    if (accepts)
        accept_stored(w, o);
    htc__worker_counts_changed(w, o);
}

/* More than a ledger may have. It stays in its note, and whoever gave it says so again. */
static int is_too_much(const htc_worker *w, const own *o)
{
    const ledger_note *n = htc__ledger_note(&o->accept_from, o->accept.note);
    return is_graph(w) && n && !htc__ledger_accepted(&o->next, o->accept.ledger, o->accept.note) &&
           htc__ids_count(&o->next.live) + htc__ledger_note_tasks(n) > GRAPH_LIVE;
}

/* What is accepted first: what else it holds may be among the rest of this change. */
static int add_accept(htc_worker *w, own *o)
{
    const ledger_note *n = NULL;
    if (!o->accept_read)
        return 0;
    htc_status status = is_too_much(w, o) ? HTC_EFULL : htc__ledger_accept(&o->next, o->number, &o->accept_from, o->accept.ledger, o->accept.note, &n);
    if (status == HTC_OK) {
        o->accept_tasks = htc__ledger_note_tasks(n);
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

static uint32_t add_ended(const htc_worker *w, own *o)
{
    uint32_t sent = 0;
    for (; sent < o->n_ended; sent++)
        if (o->ended[sent].n_added && (o->next.live.n + 2 > LEDGER_LIVE_MAX || o->next.n_out == LEDGER_OUT_MAX))
            break;
        else if (htc__worker_count(w, o->number, &o->next, &o->ended[sent], sent >= o->in_block) != HTC_OK)
            break; /* no room for more: with the next change */
    return sent;
}

/* Of a bag: what is marked, and neither runs nor has ended. */
static int add_cancelled(htc_worker *w, own *o)
{
    ledger_ids ids;
    int        some = 0;
    o->marked = 0;
    htc__worker_untouched(w, o, &ids);
    for (uint32_t i = 0; i < ids.n; i++)
        for (uint32_t k = 0; k < w->flow.n_marks; k++) {
            ledger_span s = ids.at[i], m = w->flow.marks[k];
            s.from = m.from > s.from ? m.from : s.from;
            s.to = m.to < s.to ? m.to : s.to;
            if (s.from >= s.to)
                continue;
            htc_status status = htc__worker_count(w, o->number, &o->next, &(ended_task){ .id = s.from, .to = s.to, .how = GRAPH_CANCELLED, .status = HTC_ECANCELLED }, 1);
            if (status == HTC_AGAIN)
                o->marked = 1; /* the rest with the next change */
            if (status != HTC_OK)
                continue;
            some = 1;
            for (uint32_t r = 0; r < o->ready.n; r++) { /* those that were to be begun */
                ledger_span x = o->ready.at[r];
                x.from = x.from > s.from ? x.from : s.from;
                x.to = x.to < s.to ? x.to : s.to;
                if (x.from < x.to && htc__ids_remove(&o->ready, x) == HTC_OK)
                    r = UINT32_MAX; /* from the first again */
            }
        }
    return some;
}

static int add_tries(own *o)
{
    uint64_t failures;
    int      some = o->n_again > 0;
    for (uint32_t i = 0; i < o->n_again; i++)
        (void)htc__ledger_try_again(&o->next, o->again[i], &failures);
    o->n_again = 0;
    return some;
}

/* What has been stored so far stays; a worker that leaves hands it to nobody when all of it is stored. */
static int hands(htc_worker *w, own *o)
{
    o->handing = w->leaving && htc__worker_quiet(w) && !o->n_ended && !o->told_first && !o->asks_sent;
    if (o->handing)
        htc__ledger_take(&o->next, 0, 0);
    return o->handing;
}

static void change(htc_worker *w, own *o)
{
    htc__worker_log_begin(o);
    int some = add_accept(w, o);
    if (is_graph(w))
        htc__worker_count_told(w, o);
    o->ended_sent = add_ended(w, o);
    if (!is_graph(w)) {
        some |= o->marked && add_cancelled(w, o);
        some |= add_tries(o);
    } else {
        o->marked = 0;
    }
    for (uint32_t i = 0; i < o->n_accepted; i++)
        some |= htc__ledger_clear(&o->next, o->accepted[i].note) == HTC_OK;
    for (uint32_t i = 0; i < o->n_cleared; i++)
        some |= htc__ledger_forget(&o->next, o->cleared[i].ledger, o->cleared[i].note) == HTC_OK;
    htc__worker_give(w, o);
    some |= o->ended_sent > 0 || o->asks_sent > 0;
    some |= hands(w, o);
    if (!some) {
        if (o->n_ended) /* there was no room: not before some note is cleared */
            o->write_at = w->now + FULL_NS;
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

static int has_cause(const htc_worker *w, const own *o)
{
    return o->n_ended || o->told_first || o->n_asks || o->n_accepted || o->n_cleared || o->accept_read || o->marked || o->n_again ||
           (w->leaving && htc__worker_quiet(w)) || htc__worker_pushes(w, o);
}

static int is_due(const htc_worker *w, const own *o)
{
    return !o->writing && !o->reading && !o->logging && (o->unsure || ((!o->holds || o->accept_read) && has_cause(w, o)));
}

void htc__worker_flush(htc_worker *w)
{
    own *o, *next;
    EACH_OWN_SAFE(w, o, next)
    {
        htc__worker_accept_next(w, o);
        if (!is_due(w, o) || w->now < o->write_at)
            continue;
        if (o->unsure)
            htc__worker_read_again(w, o);
        else if (!htc__worker_log_waits(w, o))
            change(w, o);
    }
}

void htc__worker_marked(htc_worker *w)
{
    own     *o;
    running *x, *next;
    node    *n;
    EACH_OWN(w, o)
    o->marked = 1;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->function && htc__flow_is_marked(&w->flow, x->id)) /* some of it: then what has not begun comes back */
        htc__worker_function_order(w, x, htc__flow_all_marked(&w->flow, (ledger_span){ x->id, x->to }) ? ORDER_CANCEL : ORDER_DRAIN);
    else if (htc__flow_is_marked(&w->flow, x->id))
        htc__attempt_order(&w->holder, &x->attempt, ORDER_CANCEL);
    EACH_OWN(w, o)
    EACH_NODE(o, n)
    if (htc__flow_is_marked(&w->flow, n->id))
        htc__worker_node_cancel(w, n);
}

/* ---- notes that nobody answers for ---- */

/* For one of the mistakes: what is thought of a ledger's owner without asking the store. */
static int peer_lives(const htc_worker *w, const ledger *l)
{
    return l->worker == w->id || htc__worker_peer(w, l->worker) == 0 || w->round.answered > 0;
}

typedef struct look_at {
    uint64_t    number; /* of ours */
    ledger_pair pair;   /* a note of ours and whom it is for; or one of theirs */
    uint8_t     out;
} look_at;

static void take_back(htc_worker *w, own *o, uint64_t note)
{
    const ledger_note *n = htc__ledger_note(&o->now, note);
    if (!n || o->writing || o->reading)
        return;
    for (uint32_t i = 0; i < n->n; i++)
        if (htc__ids_add(&o->now.live, n->ids[i]) != HTC_OK)
            return;
    htc__worker_ready_anew(w, o);
    htc__worker_heard(w, 0, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = note });
}

/* Of a note that we gave: was it accepted? Of a pair: was the note cleared? Stale reads say only what stays true. */
static void looked(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    look_at      a = *(look_at *)ctx;
    own         *o = htc__worker_own(w, a.number);
    ledger       l;
    htc_runtime_context_free(w->runtime, ctx);
    if (!o || r->status != HTC_OK || htc__worker_ledger_read(w, r->value, &l) != HTC_OK)
        return;
    if (a.out && htc__ledger_accepted(&l, o->number, a.pair.note)) {
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = a.pair.note, .to = a.pair.ledger });
    } else if (a.out && HTC__BROKEN(note_taken_back) && !peer_lives(w, &l)) {
        take_back(w, o, a.pair.note);
    } else if (a.out) {
        uint32_t peer = htc__worker_peer(w, l.worker);
        own     *mine = htc__worker_own(w, a.pair.ledger);
        if (mine)
            htc__worker_accept(w, mine, o->number, a.pair.note, 0, 0);
        else if (peer)
            htc__worker_say(w, peer, HTC_WIRE_WORKER_NOTE, &(worker_message){ .from = o->number, .note = a.pair.note, .to = a.pair.ledger });
    } else if (l.next_note > a.pair.note && !htc__ledger_note(&l, a.pair.note)) {
        htc__worker_heard(w, 0, HTC_WIRE_WORKER_CLEARED, &(worker_message){ .from = a.pair.ledger, .note = a.pair.note });
    }
}

static void look_at_ledger(htc_worker *w, own *o, ledger_pair pair, int out)
{
    look_at *a = htc_runtime_context(w->runtime, sizeof *a);
    flow_key k = htc__flow_key_ledger(w->options.flow, pair.ledger);
    if (!a)
        return;
    *a = (look_at){ o->number, pair, (uint8_t)out };
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, looked, a);
}

static htc_ns longer(htc_ns gap)
{
    return gap * 2 < GAP_MAX ? gap * 2 : GAP_MAX;
}

static void look_after_notes(htc_worker *w, own *o)
{
    o->notes_at = w->now + o->notes_gap;
    o->notes_gap = longer(o->notes_gap);
    for (uint32_t i = 0; i < o->now.n_out; i++)
        look_at_ledger(w, o, (ledger_pair){ o->now.out[i].ledger, o->now.out[i].note }, 1);
    for (uint32_t i = 0; i < o->now.n_in; i++)
        look_at_ledger(w, o, o->now.in[i], 0);
}

void htc__worker_ledgers_timers(htc_worker *w)
{
    own *o;
    EACH_OWN(w, o)
    if (!o->now.n_out && !o->now.n_in) {
        o->notes_gap = NOTES_NS;
        o->notes_at = w->now + o->notes_gap;
    } else if (w->now >= o->notes_at) {
        look_after_notes(w, o);
    }
}

htc_ns htc__worker_ledgers_deadline(const htc_worker *w)
{
    htc_ns     at = HTC_NEVER;
    const own *o;
    EACH_OWN(w, o)
    {
        if (is_due(w, o) && o->write_at < at)
            at = o->write_at;
        if ((o->now.n_out || o->now.n_in) && o->notes_at < at)
            at = o->notes_at;
    }
    return at;
}
