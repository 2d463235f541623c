/* What was lost is made again: the task that made it runs once more, wherever the first who misses it is.
 *
 *     READ --claimed--> READY --a slot--> RUNNING --kept--> WRITE (REDO) --> who missed it goes on
 *      | ^                ^  \               |
 *      | +-- in a while --|   \ not needed   | what it reads is lost too: LACKING until that is made again
 *      +-> THEIRS         |    v             v
 *          somebody else  +- GIVE_UP (UNCLAIM) <- it cannot be made again
 *
 * The claim is the record's: of all who miss something one makes it. A claim of a dead worker is anybody's. Who claimed it and needs it no more
 * gives the claim back; asked about a claim that it does not remember it reads the record, and does one or the other. What tasks miss is
 * remembered by those tasks (node.lacks), not here. */
#include <string.h>

#include "core/fault.h"
#include "htcsched/work.h"
#include "roles/worker/worker_private.h"

#define THEIRS_MIN HTC_SECOND
#define THEIRS_MAX (30 * HTC_SECOND)

static remake *find(const htc_worker *w, uint64_t id)
{
    remake *r;
    HASH_FIND(hh, w->remakes, &id, sizeof id, r);
    return r;
}

static remake *remake_new(htc_worker *w, uint64_t id)
{
    remake *r = htc__alloc(&w->env, sizeof *r);
    if (r) {
        r->id = id;
        r->gap = THEIRS_MIN;
        htc_buf_init(&r->made, &w->env, 0);
        HASH_ADD(hh, w->remakes, id, sizeof r->id, r);
    }
    if (!r || !r->hh.tbl) {
        htc__free(&w->env, r, sizeof *r);
        htc_runtime_break(w->runtime, HTC_ENOMEM, "making an object again");
        return NULL;
    }
    return r;
}

static void remake_free(htc_worker *w, remake *r)
{
    running *x = r->run ? htc__worker_run(w, r->run) : NULL;
    if (x) {
        x->remake = 0;
        if (x->over)
            htc__worker_forget_run(w, x, 1);
        else
            htc__attempt_order(&w->holder, &x->attempt, ORDER_REVOKE);
    }
    HASH_DEL(w->remakes, r);
    htc_buf_free(&r->made);
    htc__free(&w->env, r->bytes, r->len);
    htc__free(&w->env, r, sizeof *r);
}

void htc__worker_remakes_free(htc_worker *w)
{
    while (w->remakes) {
        w->remakes->run = 0; /* what runs is freed by itself */
        remake_free(w, w->remakes);
    }
}

/* Somebody here misses what this task made. */
static int is_needed(const htc_worker *w, const remake *r)
{
    const own    *o;
    const node   *n;
    const remake *other;
    EACH_OWN(w, o)
    EACH_NODE(o, n)
    if (n->phase == NODE_LACKING && n->lacks == r->id)
        return 1;
    for (other = w->remakes; other; other = other->hh.next)
        if (other->phase == REMAKE_LACKING && other->lacks == r->id)
            return 1;
    return 0;
}

/* It is over: who missed it looks again. */
static void finish(htc_worker *w, remake *r, int failed)
{
    uint64_t id = r->id;
    own     *o;
    node    *n;
    remake  *other;
    remake_free(w, r);
    for (other = w->remakes; other; other = other->hh.next)
        if (other->phase == REMAKE_LACKING && other->lacks == id) {
            other->phase = failed ? REMAKE_GIVE_UP : REMAKE_READY;
            other->failed = failed != 0;
        }
    EACH_OWN(w, o)
    EACH_NODE(o, n)
    if (n->phase == NODE_LACKING && n->lacks == id) {
        n->phase = NODE_WAITING;
        n->hopeless = failed != 0;
        htc__worker_node_news(w, n);
    }
    w->poked = 1;
}

/* ---- who misses something ---- */

void htc__worker_lacks(htc_worker *w, running *x, uint64_t maker, const graph_object *lost)
{
    remake      *r = find(w, maker), *of = x->remake ? find(w, x->id) : NULL;
    node        *n = x->remake ? NULL : htc__worker_node(w, x->id);
    graph_object kept = *lost; /* it may be the run's */
    if (of) {
        of->phase = REMAKE_LACKING;
        of->lacks = maker;
        of->run = 0;
    } else if (n && n->run == x->attempt.run) {
        n->phase = NODE_LACKING;
        n->lacks = maker;
        n->run = 0;
    }
    htc__log_with(&w->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("task", x->id), HTC__NUMBER("maker", maker)),
                  "task %llu reads what task %llu made, and nobody has it any more -> make it again", (unsigned long long)x->id, (unsigned long long)maker);
    htc__worker_forget_run(w, x, 1);
    if (!r && (r = remake_new(w, maker)))
        r->lost = kept;
    w->poked = 1;
}

/* ---- the record ---- */

static void seen(htc_worker *w, remake *r);

static void remember(htc_worker *w, remake *r, htc_bytes value, uint64_t version)
{
    uint8_t *bytes = htc__alloc(&w->env, value.len);
    if (!bytes) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "making an object again");
        return;
    }
    memcpy(bytes, value.data, value.len);
    htc__free(&w->env, r->bytes, r->len);
    r->bytes = bytes;
    r->len = value.len;
    r->version = version;
    if (htc__graph_read((htc_bytes){ bytes, value.len }, &r->task) != HTC_OK) {
        memset(&r->task, 0, sizeof r->task);
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a task");
        return;
    }
    seen(w, r);
}

typedef struct change_of {
    uint64_t id;
    size_t   len; /* 0: it was read */
    uint8_t  bytes[];
} change_of;

static void answered(void *role, void *ctx, const htc_kv_result *result)
{
    htc_worker *w = role;
    change_of  *a = ctx;
    remake     *r = find(w, a->id);
    if (r) {
        r->asked = 0;
        if (result->status == HTC_OK && a->len)
            remember(w, r, (htc_bytes){ a->bytes, a->len }, result->version);
        else if ((result->status == HTC_OK || result->status == HTC_MISMATCH) && result->version)
            remember(w, r, result->value, result->version);
        else if (result->status == HTC_ENOTFOUND || result->status == HTC_MISMATCH)
            finish(w, r, 1); /* its flow is being removed */
        else {
            r->unsure = 1;
            r->at = w->now + AGAIN_NS;
        }
    }
    htc_runtime_context_free(w->runtime, ctx);
}

static void read_record(htc_worker *w, remake *r)
{
    flow_key   k = htc__flow_key_task(w->options.flow, r->id);
    change_of *a = htc_runtime_context(w->runtime, sizeof *a);
    if (!a)
        return;
    a->id = r->id;
    r->asked = 1;
    r->unsure = 0;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, answered, a);
}

static void write_record(htc_worker *w, remake *r, const graph_task *t)
{
    flow_key k = htc__flow_key_task(w->options.flow, r->id);
    htc__graph_write(&w->buf, t);
    change_of *a = htc__worker_written(w, "writing a task") ? htc_runtime_context(w->runtime, sizeof *a + w->buf.len) : NULL;
    if (!a)
        return;
    a->id = r->id;
    a->len = w->buf.len;
    memcpy(a->bytes, w->buf.data, w->buf.len);
    r->asked = 1;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = r->version }, 1, answered, a);
}

/* What was lost is what the record names still. */
static int is_lost(const remake *r)
{
    htc_reader names = htc_reader_of(r->task.makes);
    while (htc_reader_left(&names)) {
        graph_object o;
        htc_bytes    name = htc_get_bytes(&names);
        if (htc__graph_made(&r->task, name, &o) == HTC_OK && o.worker == r->lost.worker && memcmp(o.hash, r->lost.hash, sizeof o.hash) == 0)
            return 1;
    }
    return 0;
}

static int claimant_is_dead(const htc_worker *w, const graph_task *t)
{
    if (HTC__BROKEN(claim_without_epoch))
        return t->redo_worker != w->id && !htc__worker_peer(w, t->redo_worker);
    return !htc__worker_lives(w, t->redo_worker, t->redo_epoch);
}

/* REMAKE_READ: the record is known. */
static void claim(htc_worker *w, remake *r)
{
    graph_task t = r->task;
    if (!is_lost(r) || !is_needed(w, r)) {
        finish(w, r, 0);
    } else if (HTC__BROKEN(redo_unclaimed)) {
        r->phase = REMAKE_READY;
    } else if (htc__graph_claim(&t, w->id, w->epoch, claimant_is_dead(w, &t)) == HTC_OK) {
        write_record(w, r, &t);
    } else { /* another one makes it, or is asked whether it does */
        r->phase = REMAKE_THEIRS;
        r->at = w->now + r->gap;
        r->gap = r->gap * 2 < THEIRS_MAX ? r->gap * 2 : THEIRS_MAX;
        htc__worker_say(w, htc__worker_peer(w, t.redo_worker), HTC_WIRE_WORKER_REDO, &(worker_message){ .note = r->id });
    }
}

static void seen(htc_worker *w, remake *r)
{
    graph_task t = r->task;
    int        mine = htc__graph_is_claimed_by(&t, w->id, w->epoch);
    if (t.state != GRAPH_DONE) {
        finish(w, r, 1);
        return;
    }
    switch ((remake_phase)r->phase) {
    case REMAKE_READ:
    case REMAKE_THEIRS:
        r->phase = REMAKE_READ;
        if (mine)
            r->phase = REMAKE_READY;
        else
            claim(w, r);
        break;
    case REMAKE_WRITE:
        if (HTC__BROKEN(redo_unclaimed) && t.redo_worker != w->id && t.made_by != w->id)
            (void)htc__graph_claim(&t, w->id, w->epoch, 1);
        if (htc__graph_redo(&t, w->id, w->epoch, htc_buf_bytes(&r->made)) == HTC_OK)
            write_record(w, r, &t);
        else
            finish(w, r, 0); /* it is stored, or somebody else was thought to be alone */
        break;
    case REMAKE_GIVE_UP:
        if (htc__graph_unclaim(&t, w->id, w->epoch) == HTC_OK && !HTC__BROKEN(claim_kept))
            write_record(w, r, &t);
        else
            finish(w, r, r->failed);
        break;
    default: break;
    }
}

void htc__worker_redo_heard(htc_worker *w, const worker_message *m)
{
    if (!find(w, m->note) && w->flow.kind == FLOW_GRAPH && m->note < w->flow.tasks)
        (void)remake_new(w, m->note); /* it reads the record, and gives back a claim that it does not remember */
}

/* ---- the run ---- */

static void again_or_not(htc_worker *w, remake *r, int counts)
{
    r->run = 0;
    r->tries += counts != 0;
    r->phase = r->tries <= w->flow.tries ? REMAKE_READY : REMAKE_GIVE_UP; /* it has succeeded once: one try more than others have */
    r->failed = r->phase == REMAKE_GIVE_UP;
    w->poked = 1;
}

void htc__worker_remade(htc_worker *w, running *x)
{
    remake *r = find(w, x->id);
    if (!r || r->run != x->attempt.run) {
        htc__worker_forget_run(w, x, 1);
        return;
    }
    if (x->attempt.outcome.status == HTC_OK) {
        htc_buf_clear(&r->made);
        htc__worker_data_put_made(x, &r->made);
        if (r->made.status != HTC_OK)
            htc_runtime_break(w->runtime, HTC_ENOMEM, "making an object again");
        r->phase = REMAKE_WRITE;
        r->run = 0;
        w->figures.remade++;
        w->poked = 1;
    } else {
        again_or_not(w, r, 1);
    }
    htc__worker_forget_run(w, x, 1); /* the object is kept, what it is a copy of is not */
}

void htc__worker_remake_ended(htc_worker *w, running *x)
{
    remake *r = find(w, x->id);
    if (r && r->run == x->attempt.run && x->attempt.outcome.status == HTC_OK) {
        htc__worker_run_over(w, x);
        if (htc__worker_data_keep(w, x, &r->task))
            return;
    }
    htc__worker_remade(w, x);
}

void htc__worker_remake_not_run(htc_worker *w, const running *x)
{
    remake *r = find(w, x->id);
    if (r && r->run == x->attempt.run)
        again_or_not(w, r, 0);
}

uint8_t *htc__worker_remake_spoilt(const htc_worker *w, const running *x)
{
    remake *r = find(w, x->id);
    return r && r->run == x->attempt.run ? &r->spoilt : NULL;
}

void htc__worker_remakes(htc_worker *w)
{
    remake *r, *next;
    HASH_ITER(hh, w->remakes, r, next)
    {
        if (htc_runtime_status(w->runtime) != HTC_OK)
            return;
        if (r->phase == REMAKE_READY && (w->leaving || !is_needed(w, r)))
            r->phase = REMAKE_GIVE_UP;
        if (r->phase == REMAKE_READY && htc__worker_idle(w))
            htc__worker_begin_remake(w, r);
        if (r->asked || w->now < r->at)
            continue;
        if ((r->phase == REMAKE_READ || r->phase == REMAKE_THEIRS) && w->leaving)
            finish(w, r, 0);
        else if (r->phase == REMAKE_READ || r->phase == REMAKE_THEIRS || r->unsure)
            read_record(w, r);
        else if (r->phase == REMAKE_WRITE || r->phase == REMAKE_GIVE_UP)
            seen(w, r);
    }
}

htc_ns htc__worker_remakes_deadline(const htc_worker *w)
{
    htc_ns        at = HTC_NEVER;
    const remake *r;
    for (r = w->remakes; r; r = r->hh.next)
        if (!r->asked && r->phase != REMAKE_READY && r->phase != REMAKE_RUNNING && r->phase != REMAKE_LACKING && r->at < at)
            at = r->at;
    return at;
}
