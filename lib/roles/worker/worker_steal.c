/* Thief and victim. The thief asks some for their load, all at once, and robs the most loaded (htcsched/steal.h). The victim writes a note
 * into its ledger and tells; the thief reads the note where it stands, behind the version of its own ledger that it then changes. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

#define PURSE_SPANS 128 /* a ledger that is more scattered than that takes nothing more in */
#define LOOK_UPS    64  /* messages that wait for a read of the ledger that they name */

/* ---- victim ---- */

static own *richest(htc_worker *w)
{
    own *best = NULL, *o;
    EACH_OWN(w, o)
    if (!o->holds && o->ready.n && (!best || htc__ids_count(&o->ready) > htc__ids_count(&best->ready)))
        best = o;
    return best;
}

static void nothing_for(htc_worker *w, uint32_t peer, uint64_t seq)
{
    htc__worker_say(w, peer, HTC_WIRE_WORKER_GIVEN, &(worker_message){ .seq = seq });
}

static void asked_for_tasks(htc_worker *w, uint32_t peer, const worker_message *m)
{
    own *o = w->leaving ? NULL : richest(w);
    if (!o || o->n_asks == ASKS_MAX || htc__worker_own(w, m->to)) {
        nothing_for(w, peer, m->seq);
        return;
    }
    o->asks[o->n_asks++] = (thief_ask){ .peer = peer, .seq = m->seq, .to = m->to };
}

/* The rule's part of what is ready, from its end, as far as a note has room. */
static uint32_t loot(htc_worker *w, const own *o, ledger_span *ids)
{
    uint64_t amount = 0;
    uint32_t n = 0;
    if (htc_steal_give(&w->steal, htc__ids_count(&o->ready), htc__worker_idle(w), &amount) != HTC_OK)
        return 0;
    if (w->places)
        return htc__worker_cheapest(w, o, amount, ids);
    for (uint32_t i = o->ready.n; i > 0 && n < LEDGER_NOTE_MAX && amount > 0; i--) {
        ledger_span s = o->ready.at[i - 1];
        if (s.to - s.from > amount)
            s.from = s.to - amount;
        amount -= s.to - s.from;
        ids[n++] = s;
    }
    return n;
}

static void mark_given(htc_worker *w, const own *o, const ledger_span *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t id = ids[i].from; id < ids[i].to; id++) {
            node *x = htc__worker_node(w, id);
            if (x && x->ledger == o->number && x->phase == NODE_READY) {
                htc__worker_place_left(w, x);
                x->phase = NODE_GIVEN;
            }
        }
}

static int give_to(htc_worker *w, own *o, thief_ask *a)
{
    ledger_span ids[LEDGER_NOTE_MAX];
    ledger      before = o->next;
    uint32_t    n = a->push ? htc__worker_pushed(w, o, a->push, ids) : loot(w, o, ids);
    if (n == 0 || htc__ledger_give(&o->next, ids, n, a->to, &a->note) != HTC_OK)
        return 0;
    htc__ledger_write(&w->buf, &o->next);
    if (w->buf.status != HTC_OK || w->buf.len - o->next.log.len > LEDGER_BYTES_GIVE) {
        o->next = before;
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        a->tasks += ids[i].to - ids[i].from;
        (void)htc__ids_remove(&o->ready, ids[i]); /* from its end it needs no room; else what stays is looked at when it begins */
    }
    if (w->flow.kind == FLOW_GRAPH)
        mark_given(w, o, ids, n);
    return 1;
}

void htc__worker_give(htc_worker *w, own *o)
{
    o->asks_sent = 0;
    htc__worker_push_asks(w, o);
    for (uint32_t i = 0; i < o->n_asks; i++) {
        thief_ask *a = &o->asks[i];
        a->note = a->tasks = 0;
        if (give_to(w, o, a))
            o->asks_sent++;
        else
            a->note = a->tasks = 0;
    }
    htc__worker_pushes_over(w, o);
}

void htc__worker_given(htc_worker *w, own *o, int stored)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o->n_asks; i++) {
        thief_ask a = o->asks[i];
        if (stored && a.note) {
            w->figures.given += a.push ? 0 : a.tasks;
            w->figures.pushed += a.push ? a.tasks : 0;
            htc__worker_say(w, a.peer, a.push ? HTC_WIRE_WORKER_NOTE : HTC_WIRE_WORKER_GIVEN,
                            &(worker_message){ .seq = a.push ? 1 : a.seq, .tasks = a.tasks, .from = o->number, .note = a.note, .to = a.to });
            if (HTC__BROKEN(clear_before_accept))
                htc__worker_heard(w, a.peer, HTC_WIRE_WORKER_ACCEPTED, &(worker_message){ .from = o->number, .note = a.note, .to = a.to });
        } else if (!a.push) {
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
    htc_worker *w = role;
    note_read    a = *(note_read *)ctx;
    own         *o = htc__worker_own(w, a.number);
    htc_runtime_context_free(w->runtime, ctx);
    if (!o || !o->holds || o->accept.ledger != a.pair.ledger || o->accept.note != a.pair.note)
        return;
    if (r->status == HTC_OK && htc__worker_ledger_read(w, r->value, &o->accept_from) == HTC_OK) {
        o->accept_read = 1;
        return;
    }
    o->holds = 0; /* who gave it reminds us */
    o->accept = (ledger_pair){ 0, 0 };
    htc__worker_settle(w, 0);
}

/* The version of o is known, and nothing changes it until the note was read: then the note is still for o when o is changed. */
void htc__worker_read_note(htc_worker *w, own *o)
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

static int is_busy(const own *o)
{
    return o->writing || o->reading || o->unsure || o->holds;
}

static void keep_note(own *o, ledger_pair pair, uint32_t peer, int pushed)
{
    if (o->holds && o->accept.ledger == pair.ledger && o->accept.note == pair.note)
        return;
    for (uint32_t i = 0; i < o->n_notes; i++)
        if (o->notes[i].pair.ledger == pair.ledger && o->notes[i].pair.note == pair.note)
            return;
    if (o->n_notes == NOTES_KEPT)
        return;
    o->notes[o->n_notes].pair = pair;
    o->notes[o->n_notes].pushed = pushed != 0;
    o->notes[o->n_notes++].peer = peer;
}

void htc__worker_accept_next(htc_worker *w, own *o)
{
    if (o->n_notes == 0 || is_busy(o))
        return;
    ledger_pair pair = o->notes[0].pair;
    uint32_t    peer = o->notes[0].peer;
    int         pushed = o->notes[0].pushed;
    o->n_notes--;
    memmove(&o->notes[0], &o->notes[1], o->n_notes * sizeof o->notes[0]);
    htc__worker_accept(w, o, pair.ledger, pair.note, peer, pushed);
}

void htc__worker_accept(htc_worker *w, own *o, uint64_t from, uint64_t note, uint32_t peer, int pushed)
{
    if (from == o->number)
        return;
    if (is_busy(o)) {
        keep_note(o, (ledger_pair){ from, note }, peer, pushed);
        return;
    }
    o->accept = (ledger_pair){ from, note };
    o->accept_peer = peer;
    o->accept_pushed = pushed != 0;
    o->accept_tasks = 0;
    htc__worker_read_note(w, o);
}

static void is_accepted(htc_worker *w, uint32_t peer, const worker_message *m)
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
static void is_cleared(htc_worker *w, const worker_message *m)
{
    own *o;
    EACH_OWN(w, o)
    {
        int known = 0;
        for (uint32_t i = 0; i < o->n_cleared; i++)
            known |= o->cleared[i].ledger == m->from && o->cleared[i].note == m->note;
        if (!known && htc__ledger_accepted(&o->now, m->from, m->note) && o->n_cleared < LEDGER_IN_MAX)
            o->cleared[o->n_cleared++] = (ledger_pair){ m->from, m->note };
    }
}

/* ---- thief ---- */

void htc__worker_settle(htc_worker *w, uint64_t got)
{
    if (!w->round.stealing)
        return;
    w->round.stealing = 0;
    w->round.until = HTC_NEVER;
    (void)htc_steal_settle(&w->thief, &w->steal, w->now, got ? w->round.victim : HTC_STEAL_NOBODY, got);
    if (!got)
        htc__worker_place_steal_failed(w);
}

static own *purse(const htc_worker *w)
{
    own *o;
    EACH_OWN(w, o)
    if (!o->writing && !o->reading && !o->holds && !o->unsure && o->now.n_in < LEDGER_IN_MAX / 2 && o->now.live.n < PURSE_SPANS)
        return o;
    return NULL;
}

static void rob(htc_worker *w)
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
    htc__worker_say(w, w->round.peers[place], HTC_WIRE_WORKER_STEAL, &(worker_message){ .seq = w->round.seq, .to = o->number });
}

static void load_known(htc_worker *w, uint32_t peer, const worker_message *m)
{
    if (!w->round.loads || m->seq != w->round.seq)
        return;
    for (uint32_t i = 0; i < w->round.n; i++)
        if (w->round.peers[i] == peer) {
            w->round.load[i] = m->tasks;
            w->round.answered++;
        }
    if (w->round.answered >= w->round.n)
        rob(w);
}

static void given(htc_worker *w, uint32_t peer, const worker_message *m)
{
    own *o = m->tasks ? htc__worker_own(w, m->to) : NULL;
    if (o)
        htc__worker_accept(w, o, m->from, m->note, peer, 0);
    if (w->round.stealing && m->seq == w->round.seq && (!o || (!o->holds && !o->n_notes)))
        htc__worker_settle(w, 0);
}

/* Tasks whose records are being read may be ready. */
static int is_idle(const htc_worker *w)
{
    return w->owns && w->n_members > 0 && htc__worker_waiting(w) == 0 && !w->to_read && !w->reads && htc__worker_idle(w) > 0 && !w->round.loads && !w->round.stealing;
}

/* It asks nobody any more, until there is news. */
int htc__worker_rests(const htc_worker *w)
{
    return htc_steal_due(&w->thief) == HTC_NEVER && is_idle(w) && purse(w);
}

/* Numbers of the group count the living by id, this one among them. */
static uint32_t peer_at(const htc_worker *w, uint32_t place)
{
    uint32_t self = htc__worker_place_of_self(w);
    return w->members[place > self ? place - 1 : place].peer;
}

void htc__worker_group_changed(htc_worker *w)
{
    w->round.loads = 0;
    w->round.stealing = 0;
    w->round.warned = 0;
    w->round.seq++;
    (void)htc_steal_start(w->n_members + 1, htc__worker_place_of_self(w), w->now, &w->thief);
}

/* A mesh may have fewer points than there are workers, and a policy may fail: then nothing would be stolen for ever. */
static htc_status choose_whom_to_ask(htc_worker *w, uint32_t *n)
{
    htc_status status = htc_steal_ask(&w->thief, &w->steal, w->now, w->env.rng, GROUP_MAX, w->round.asked, n);
    if (status == HTC_OK || status == HTC_AGAIN)
        return status;
    if (!w->round.warned)
        htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("workers", w->n_members + 1), HTC__STATUS(status)),
                      "the policy of stealing does not choose among %u workers -> ask some at random", w->n_members + 1);
    w->round.warned = 1;
    return htc_steal_ask(&w->thief, NULL, w->now, w->env.rng, GROUP_MAX, w->round.asked, n);
}

static void ask_loads(htc_worker *w)
{
    uint32_t n = 0;
    if (choose_whom_to_ask(w, &n) != HTC_OK)
        return;
    w->round.loads = 1;
    w->round.seq++;
    w->round.n = n;
    w->round.answered = 0;
    w->round.until = w->now + ROUND_NS;
    memset(w->round.load, 0, n * sizeof *w->round.load);
    for (uint32_t i = 0; i < n; i++) {
        w->round.peers[i] = peer_at(w, w->round.asked[i]);
        if (w->round.peers[i] == 0)
            w->round.answered++; /* nobody there yet: nothing to be had */
        else
            htc__worker_say(w, w->round.peers[i], HTC_WIRE_WORKER_LOAD_ASK, &(worker_message){ .seq = w->round.seq });
    }
    if (w->round.answered >= w->round.n)
        rob(w);
}

void htc__worker_steal(htc_worker *w)
{
    if (w->round.loads && w->now >= w->round.until)
        rob(w);
    else if (w->round.stealing && w->now >= w->round.until)
        htc__worker_settle(w, 0);
    if (is_idle(w) && purse(w) && w->now >= htc_steal_due(&w->thief))
        ask_loads(w);
}

/* More is ready here than can begin: some others are told, so that nobody has to ask again and again. */
void htc__worker_nudge(htc_worker *w)
{
    uint32_t to[HTC_STEAL_NUDGES_MAX], n = 0;
    if (w->n_members == 0 || w->now < w->nudge_at || htc__worker_idle(w) > 0 || htc__worker_waiting(w) == 0)
        return;
    w->nudge_at = w->now + HTC_STEAL_NUDGE_NS;
    if (htc_steal_whom_to_nudge(w->env.rng, w->n_members + 1, htc__worker_place_of_self(w), HTC_STEAL_NUDGES_MAX, to, &n) != HTC_OK)
        return;
    for (uint32_t i = 0; i < n; i++)
        htc__worker_say(w, peer_at(w, to[i]), HTC_WIRE_WORKER_NUDGE, &(worker_message){ 0 });
}

htc_ns htc__worker_steal_deadline(const htc_worker *w)
{
    if (w->round.loads || w->round.stealing)
        return w->round.until;
    return is_idle(w) && purse(w) ? htc_steal_due(&w->thief) : HTC_NEVER;
}

/* What the header names. A policy that is not known here is the default. */
void htc__worker_steal_policy(htc_worker *w)
{
    htc_status status = HTC_OK;
    if (w->steal_given || strcmp(w->flow.steal, w->steal_named) == 0)
        return;
    memcpy(w->steal_named, w->flow.steal, sizeof w->steal_named);
    w->steal.policy = NULL;
    if (w->flow.steal[0] && !w->options.policies && !w->registry && (status = htc_registry_create(&w->env, &w->registry)) == HTC_OK)
        status = htc_registry_add_builtin(w->registry);
    if (status != HTC_OK) {
        htc_runtime_break(w->runtime, status, "naming a policy");
        return;
    }
    if (w->flow.steal[0] && htc_steal_find(w->options.policies ? w->options.policies : w->registry, w->flow.steal, &w->steal.policy) != HTC_OK)
        htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("flow", w->options.flow)), "no policy of stealing is called %s -> the default", w->flow.steal);
    htc__worker_group_changed(w);
}

/* ---- what is heard ---- */

/* What names a ledger that is not known to exist waits until one read has said that it does. Tasks that are given to a ledger which nobody has
 * would stay in their note for ever, and counts of one would be remembered for ever. */
typedef struct unknown_ledger {
    uint32_t       peer;
    uint16_t       type;
    uint64_t       number;
    worker_message m;
} unknown_ledger;

static void looked_up(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker    *w = role;
    unknown_ledger x = *(unknown_ledger *)ctx;
    ledger         l;
    htc_runtime_context_free(w->runtime, ctx);
    w->look_ups--;
    if (r->status == HTC_OK && htc__worker_ledger_read(w, r->value, &l) == HTC_OK)
        htc__worker_ledger_is(w, x.number, &l);
    if (htc__worker_is_ledger(w, x.number))
        htc__worker_heard(w, x.peer, x.type, &x.m);
    else if (x.type == HTC_WIRE_WORKER_STEAL)
        nothing_for(w, x.peer, x.m.seq);
}

static void look_up(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m, uint64_t number)
{
    flow_key        k = htc__flow_key_ledger(w->options.flow, number);
    unknown_ledger *x = w->look_ups < LOOK_UPS ? htc_runtime_context(w->runtime, sizeof *x) : NULL;
    if (!x) {
        if (type == HTC_WIRE_WORKER_STEAL)
            nothing_for(w, peer, m->seq);
        return;
    }
    *x = (unknown_ledger){ peer, type, number, *m };
    w->look_ups++;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, looked_up, x);
}

void htc__worker_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m)
{
    own     *o;
    uint64_t named = type == HTC_WIRE_WORKER_STEAL ? m->to : m->from;
    if ((type == HTC_WIRE_WORKER_STEAL || (type == HTC_WIRE_WORKER_COUNTS && htc__worker_collects(w))) && !htc__worker_is_ledger(w, named)) {
        look_up(w, peer, type, m, named);
        return;
    }
    switch (type) {
    case HTC_WIRE_WORKER_LOAD_ASK:
        htc__worker_say(w, peer, HTC_WIRE_WORKER_LOAD, &(worker_message){ .seq = m->seq, .tasks = htc__worker_waiting(w) });
        break;
    case HTC_WIRE_WORKER_LOAD: load_known(w, peer, m); break;
    case HTC_WIRE_WORKER_STEAL: asked_for_tasks(w, peer, m); break;
    case HTC_WIRE_WORKER_GIVEN: given(w, peer, m); break;
    case HTC_WIRE_WORKER_NOTE:
        if ((o = htc__worker_own(w, m->to)))
            htc__worker_accept(w, o, m->from, m->note, peer, m->seq == 1);
        break;
    case HTC_WIRE_WORKER_ACCEPTED: is_accepted(w, peer, m); break;
    case HTC_WIRE_WORKER_CLEARED: is_cleared(w, m); break;
    case HTC_WIRE_WORKER_NUDGE: htc_steal_nudge(&w->thief, w->now); break;
    case HTC_WIRE_WORKER_TOLD:
    case HTC_WIRE_WORKER_NOT_OWNER: htc__worker_told_heard(w, peer, type, m); break;
    case HTC_WIRE_WORKER_REDO: htc__worker_redo_heard(w, m); break;
    case HTC_WIRE_WORKER_COUNTS:
    case HTC_WIRE_WORKER_COUNTED: htc__worker_counts_heard(w, peer, type, m); break;
    default: break;
    }
}
