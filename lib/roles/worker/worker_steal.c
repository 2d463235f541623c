/* Thief and victim. The thief asks some for their load, all at once, and robs the most loaded (htcsched/steal.h). The victim writes a note
 * into its ledger and tells; the thief reads the note where it stands, behind the version of its own ledger that it then changes. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

/* ---- victim ---- */

static own *richest(htc__worker *w)
{
    own *best = NULL, *o;
    DL_FOREACH2(w->owns, o, next_own)
    if (!o->holds && o->ready.n && (!best || htc__ids_count(&o->ready) > htc__ids_count(&best->ready)))
        best = o;
    return best;
}

static void nothing_for(htc__worker *w, uint32_t peer, uint64_t seq)
{
    htc__worker_say(w, peer, HTC_WIRE_WORKER_GIVEN, &(worker_message){ .seq = seq });
}

static void asked_for_tasks(htc__worker *w, uint32_t peer, const worker_message *m)
{
    own *o = richest(w);
    if (!o || o->n_asks == ASKS_MAX || htc__worker_own(w, m->to)) {
        nothing_for(w, peer, m->seq);
        return;
    }
    o->asks[o->n_asks++] = (thief_ask){ .peer = peer, .seq = m->seq, .to = m->to };
}

/* The rule's part of what is ready, from its end: the last span, so that one span goes. */
static ledger_span loot(htc__worker *w, const own *o)
{
    uint64_t    amount = 0;
    ledger_span last = o->ready.n ? o->ready.at[o->ready.n - 1] : (ledger_span){ 0, 0 };
    if (htc_steal_give(&w->options.steal, htc__ids_count(&o->ready), htc__worker_idle(w), &amount) != HTC_OK || amount == 0)
        return (ledger_span){ 0, 0 };
    if (amount > last.to - last.from)
        amount = last.to - last.from;
    return (ledger_span){ last.to - amount, last.to };
}

void htc__worker_give(htc__worker *w, own *o)
{
    o->asks_sent = 0;
    for (uint32_t i = 0; i < o->n_asks; i++) {
        thief_ask  *a = &o->asks[i];
        ledger_span ids = loot(w, o);
        a->note = a->tasks = 0;
        if (ids.from >= ids.to || htc__ids_remove(&o->ready, ids) != HTC_OK)
            continue;
        if (htc__ledger_give(&o->next, ids, a->to, &a->note) != HTC_OK) {
            (void)htc__ids_add(&o->ready, ids);
            a->note = 0;
            continue;
        }
        a->tasks = ids.to - ids.from;
        o->asks_sent++;
    }
}

void htc__worker_given(htc__worker *w, own *o, int stored)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o->n_asks; i++) {
        thief_ask a = o->asks[i];
        if (stored && a.note) {
            w->figures.given += a.tasks;
            htc__worker_say(w, a.peer, HTC_WIRE_WORKER_GIVEN,
                            &(worker_message){ .seq = a.seq, .tasks = a.tasks, .from = o->number, .note = a.note, .to = a.to });
            if (HTC__BROKEN(clear_before_accept))
                htc__worker_heard(w, a.peer, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = a.note, .to = a.to });
        } else {
            nothing_for(w, a.peer, a.seq);
        }
    }
    o->n_asks = kept;
    o->asks_sent = 0;
}

/* ---- the note's way ---- */

typedef struct note_read {
    uint64_t    number; /* of ours */
    ledger_pair pair;
} note_read;

static void accept_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc__worker *w = role;
    note_read    a = *(note_read *)ctx;
    own         *o = htc__worker_own(w, a.number);
    htc_runtime_context_free(w->runtime, ctx);
    if (!o || !o->holds || o->accept.ledger != a.pair.ledger || o->accept.note != a.pair.note)
        return;
    if (r->status == HTC_OK && htc__ledger_read(r->value, &o->accept_from) == HTC_OK) {
        o->accept_read = 1;
        return;
    }
    o->holds = 0; /* who gave it reminds us */
    o->accept = (ledger_pair){ 0, 0 };
    htc__worker_settle(w, 0);
}

/* The version of o is known, and nothing changes it until the note was read: then the note is still for o when o is changed. */
void htc__worker_read_note(htc__worker *w, own *o)
{
    flow_key   k = htc__flow_key_ledger(w->options.flow, o->accept.ledger);
    note_read *a = htc_runtime_context(w->runtime, sizeof *a);
    if (!a)
        return;
    *a = (note_read){ o->number, o->accept };
    o->holds = 1;
    o->accept_read = HTC__BROKEN(note_read_early) && o->read_of == o->accept.ledger && htc__ledger_note(&o->accept_from, o->accept.note);
    o->read_of = o->accept.ledger;
    if (o->accept_read) {
        htc_runtime_context_free(w->runtime, a);
        return;
    }
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, accept_read, a);
}

void htc__worker_accept(htc__worker *w, own *o, uint64_t from, uint64_t note, uint32_t peer)
{
    if (from == o->number || o->writing || o->reading || o->wanted == 2 || o->holds)
        return; /* who gave it reminds us */
    o->accept = (ledger_pair){ from, note };
    o->accept_peer = peer;
    o->accept_tasks = 0;
    htc__worker_read_note(w, o);
}

static void is_accepted(htc__worker *w, uint32_t peer, const worker_message *m)
{
    own *o = htc__worker_own(w, m->from);
    if (!o || !htc__ledger_note(&o->now, m->note))
        return;
    for (uint32_t i = 0; i < o->n_accepted; i++)
        if (o->accepted[i].note == m->note)
            return;
    if (o->n_accepted == LEDGER_OUT_MAX)
        return;
    o->accepted[o->n_accepted].note = m->note;
    o->accepted[o->n_accepted++].peer = peer;
}

/* A fact about some ledger of ours: whichever has the pair. */
static void is_cleared(htc__worker *w, const worker_message *m)
{
    own *o;
    DL_FOREACH2(w->owns, o, next_own)
    {
        int known = 0;
        for (uint32_t i = 0; i < o->n_cleared; i++)
            known |= o->cleared[i].ledger == m->from && o->cleared[i].note == m->note;
        if (!known && htc__ledger_accepted(&o->now, m->from, m->note) && o->n_cleared < LEDGER_IN_MAX)
            o->cleared[o->n_cleared++] = (ledger_pair){ m->from, m->note };
    }
}

/* ---- thief ---- */

void htc__worker_settle(htc__worker *w, uint64_t got)
{
    if (!w->round.stealing)
        return;
    w->round.stealing = 0;
    w->round.until = HTC_NEVER;
    (void)htc_steal_settle(&w->thief, &w->options.steal, w->now, got ? w->round.victim : HTC_STEAL_NOBODY, got);
}

static own *purse(const htc__worker *w)
{
    own *o;
    DL_FOREACH2(w->owns, o, next_own)
    if (!o->writing && !o->reading && !o->holds && o->wanted != 2 && o->now.n_in < LEDGER_IN_MAX && o->now.live.n < LEDGER_LIVE_MAX / 2)
        return o;
    return NULL;
}

static void rob(htc__worker *w)
{
    uint32_t place = 0;
    own     *o = purse(w);
    w->round.loads = 0;
    w->round.stealing = 1;
    if (!o || htc_steal_victim(w->round.load, w->round.n, &place) != HTC_OK) {
        htc__worker_settle(w, 0);
        return;
    }
    w->round.victim = w->round.asked[place];
    w->round.until = w->now + GIVEN_NS;
    htc__worker_say(w, w->peers[w->round.victim], HTC_WIRE_WORKER_STEAL, &(worker_message){ .seq = w->round.seq, .to = o->number });
}

static void load_known(htc__worker *w, uint32_t peer, const worker_message *m)
{
    if (!w->round.loads || m->seq != w->round.seq)
        return;
    for (uint32_t i = 0; i < w->round.n; i++)
        if (w->peers[w->round.asked[i]] == peer) {
            w->round.load[i] = m->tasks;
            w->round.answered++;
        }
    if (w->round.answered >= w->round.n)
        rob(w);
}

static void given(htc__worker *w, uint32_t peer, const worker_message *m)
{
    own *o = m->tasks ? htc__worker_own(w, m->to) : NULL;
    if (o)
        htc__worker_accept(w, o, m->from, m->note, peer);
    if (w->round.stealing && m->seq == w->round.seq && (!o || !o->holds))
        htc__worker_settle(w, 0);
}

static int is_idle(const htc__worker *w)
{
    return w->owns && htc__worker_waiting(w) == 0 && htc__worker_idle(w) > 0 && !w->round.loads && !w->round.stealing;
}

void htc__worker_steal(htc__worker *w)
{
    uint32_t n = 0;
    if (w->round.loads && w->now >= w->round.until)
        rob(w);
    else if (w->round.stealing && w->now >= w->round.until)
        htc__worker_settle(w, 0);
    if (!is_idle(w) || !purse(w) || w->now < htc_steal_due(&w->thief))
        return;
    if (htc_steal_ask(&w->thief, &w->options.steal, w->now, w->env.rng, GROUP_MAX, w->round.asked, &n) != HTC_OK)
        return;
    w->round.loads = 1;
    w->round.seq++;
    w->round.n = n;
    w->round.answered = 0;
    w->round.until = w->now + ROUND_NS;
    memset(w->round.load, 0, n * sizeof *w->round.load);
    for (uint32_t i = 0; i < n; i++)
        htc__worker_say(w, w->peers[w->round.asked[i]], HTC_WIRE_WORKER_LOAD_ASK, &(worker_message){ .seq = w->round.seq });
}

htc_ns htc__worker_steal_deadline(const htc__worker *w)
{
    if (w->round.loads || w->round.stealing)
        return w->round.until;
    return is_idle(w) && purse(w) ? htc_steal_due(&w->thief) : HTC_NEVER;
}

/* ---- what is heard ---- */

void htc__worker_heard(htc__worker *w, uint32_t peer, uint16_t type, const worker_message *m)
{
    own *o;
    switch (type) {
    case HTC_WIRE_WORKER_LOAD_ASK:
        htc__worker_say(w, peer, HTC_WIRE_WORKER_LOAD, &(worker_message){ .seq = m->seq, .tasks = htc__worker_waiting(w) });
        break;
    case HTC_WIRE_WORKER_LOAD: load_known(w, peer, m); break;
    case HTC_WIRE_WORKER_STEAL: asked_for_tasks(w, peer, m); break;
    case HTC_WIRE_WORKER_GIVEN: given(w, peer, m); break;
    case HTC_WIRE_WORKER_NOTE:
        if ((o = htc__worker_own(w, m->to)))
            htc__worker_accept(w, o, m->from, m->note, peer);
        break;
    case HTC_WIRE_WORKER_ACCEPTED: is_accepted(w, peer, m); break;
    case HTC_WIRE_WORKER_CLEARED: is_cleared(w, m); break;
    default: break;
    }
}
