/* Children are told how a task ended, and owners that a task has news.
 *
 * What a child is to be told gathers here while a change of its record is under way: one change for all of it. A record is changed by whoever
 * ends a parent, so the version is a guess: an answer that refuses it says what stands there, and the change is made again on top of that.
 * Who tells a child the last it waits for says so to the owner of the ledger that the child waits in; if that word is lost the owner sees it
 * when it looks by itself. */
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

#define TELLS_AT_ONCE 256   /* records that are read or changed at once */
#define CHILDREN_KEPT 4096  /* records remembered with nothing to tell */
#define SENT_ON_MAX   3     /* how often a word is sent after an owner that was not one */

/* ---- owners ---- */

void htc__worker_ledger_is(htc_worker *w, uint64_t number, const ledger *l)
{
    owner *x;
    HASH_FIND(hh, w->owners, &number, sizeof number, x);
    if (!x) {
        x = htc__alloc(&w->env, sizeof *x);
        if (x) {
            x->ledger = number;
            HASH_ADD(hh, w->owners, ledger, sizeof x->ledger, x);
        }
        if (!x || !x->hh.tbl) {
            htc__free(&w->env, x, sizeof *x);
            return; /* a hint */
        }
    }
    x->worker = l->worker;
    x->live = htc__ids_count(&l->live);
}

int htc__worker_is_ledger(const htc_worker *w, uint64_t number)
{
    owner *x;
    HASH_FIND(hh, w->owners, &number, sizeof number, x);
    return x != NULL;
}

int htc__worker_ledger_of(htc_worker *w, uint64_t worker, uint32_t tasks, uint64_t *number)
{
    owner *x, *found = NULL;
    for (x = w->owners; x; x = x->hh.next)
        if (x->worker == worker && x->live + tasks <= LEDGER_HOME && (!found || x->live < found->live || (x->live == found->live && x->ledger < found->ledger)))
            found = x;
    if (!found)
        return 0;
    found->live += tasks; /* until it is read again */
    *number = found->ledger;
    return 1;
}

static void say_told(htc_worker *w, uint64_t worker, const word *x)
{
    if (worker == w->id) {
        node *n = htc__worker_node(w, x->id);
        if (n)
            htc__worker_node_news(w, n);
        return;
    }
    htc__worker_say(w, htc__worker_peer(w, worker), HTC_WIRE_WORKER_TOLD, &(worker_message){ .to = x->ledger, .note = x->id, .seq = x->seq });
}

/* Words for one ledger. */
typedef struct words_for {
    uint32_t n;
    word     of[];
} words_for;

static void owner_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    words_for   *a = ctx;
    ledger       l;
    if (r->status == HTC_OK && htc__worker_ledger_read(w, r->value, &l) == HTC_OK) {
        htc__worker_ledger_is(w, a->of[0].ledger, &l);
        for (uint32_t i = 0; i < a->n; i++)
            say_told(w, l.worker, &a->of[i]);
    }
    htc_runtime_context_free(w->runtime, a);
}

/* Each ledger is read once, behind all changes that the words for it are about. */
void htc__worker_find_owners(htc_worker *w)
{
    while (w->n_words) {
        uint64_t   number = w->words[0].ledger;
        uint32_t   left = 0;
        flow_key   k = htc__flow_key_ledger(w->options.flow, number);
        words_for *a = htc_runtime_context(w->runtime, sizeof *a + w->n_words * sizeof a->of[0]);
        if (!a)
            return;
        for (uint32_t i = 0; i < w->n_words; i++)
            if (w->words[i].ledger == number)
                a->of[a->n++] = w->words[i];
            else
                w->words[left++] = w->words[i];
        w->n_words = left;
        htc__worker_ask_together(w, &k, HTC_KV_GET, (htc_bytes){ NULL, 0 }, 0, owner_read, a);
    }
}

static void find_owner(htc_worker *w, const word *x)
{
    if (w->n_words == WORDS_MAX)
        htc__worker_find_owners(w);
    if (w->n_words < WORDS_MAX)
        w->words[w->n_words++] = *x;
}

static void tell_owner(htc_worker *w, uint64_t number, uint64_t id)
{
    word   x = { number, id, 0 };
    owner *o;
    HASH_FIND(hh, w->owners, &number, sizeof number, o);
    if (htc__worker_own(w, number))
        say_told(w, w->id, &x);
    else if (o && htc__worker_peer(w, o->worker))
        say_told(w, o->worker, &x);
    else
        find_owner(w, &x);
}

void htc__worker_told_heard(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m)
{
    node *n = htc__worker_node(w, m->note);
    if (type == HTC_WIRE_WORKER_TOLD && htc__worker_own(w, m->to)) {
        if (n)
            htc__worker_node_news(w, n);
    } else if (type == HTC_WIRE_WORKER_TOLD) {
        htc__worker_say(w, peer, HTC_WIRE_WORKER_NOT_OWNER, m);
    } else if (m->seq < SENT_ON_MAX) {
        find_owner(w, &(word){ m->to, m->note, m->seq + 1 });
    }
}

/* ---- children ---- */

static child *find_child(const htc_worker *w, uint64_t id)
{
    const task_page *p = htc__worker_page(w, id);
    return p ? p->children[id % PAGE_TASKS] : NULL;
}

static child *child_of(htc_worker *w, uint64_t id)
{
    child *c = find_child(w, id);
    if (c)
        return c;
    c = htc__alloc(&w->env, sizeof *c);
    task_page *p = c ? htc__worker_page_enter(w, id) : NULL;
    if (!p) {
        htc__free(&w->env, c, sizeof *c);
        htc_runtime_break(w->runtime, HTC_ENOMEM, "telling a task");
        return NULL;
    }
    p->children[id % PAGE_TASKS] = c;
    c->id = id;
    DL_APPEND2(w->children, c, all_prev, all_next);
    w->n_children++;
    return c;
}

static void child_free(htc_worker *w, child *c)
{
    while (c->tells) {
        tell *t = c->tells;
        LL_DELETE(c->tells, t);
        htc__free(&w->env, t, sizeof *t);
    }
    if (c->queued)
        DL_DELETE(w->to_tell, c);
    DL_DELETE2(w->children, c, all_prev, all_next);
    task_page *p = htc__worker_page(w, c->id);
    p->children[c->id % PAGE_TASKS] = NULL;
    htc__worker_page_leave(w, p);
    w->n_children--;
    htc__free(&w->env, c->bytes, c->len);
    htc__free(&w->env, c, sizeof *c);
}

void htc__worker_tell_free(htc_worker *w)
{
    owner *x, *next;
    while (w->children)
        child_free(w, w->children);
    HASH_ITER(hh, w->owners, x, next)
    {
        HASH_DEL(w->owners, x);
        htc__free(&w->env, x, sizeof *x);
    }
}

static void queue(htc_worker *w, child *c)
{
    if (c->queued || c->busy)
        return;
    c->queued = 1;
    DL_APPEND(w->to_tell, c);
}

void htc__worker_tell(htc_worker *w, uint64_t id, const node *parent, uint32_t which, graph_bit bit)
{
    child *c = child_of(w, id);
    tell  *t = c ? htc__alloc(&w->env, sizeof *t) : NULL;
    if (!t) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "telling a task");
        return;
    }
    *t = (tell){ .parent_id = parent->id, .telling = parent->telling, .parent = which, .bit = (uint8_t)bit };
    LL_APPEND(c->tells, t);
    queue(w, c);
}

/* What is remembered of the record; a node of ours may know better. */
static int remember(htc_worker *w, child *c, htc_bytes value, uint64_t version)
{
    uint8_t *bytes = htc__alloc(&w->env, value.len);
    if (!bytes) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "telling a task");
        return 0;
    }
    memcpy(bytes, value.data, value.len);
    htc__free(&w->env, c->bytes, c->len);
    c->bytes = bytes;
    c->len = value.len;
    c->version = version;
    c->known = 1;
    return 1;
}

/* The parent's child knows. */
static void is_told(htc_worker *w, const tell *t)
{
    node *n = htc__worker_node(w, t->parent_id);
    w->figures.tells++;
    if (n && n->phase == NODE_TELLING && n->telling == t->telling && --n->untold == 0)
        htc__worker_node_told(w, n);
}

static void tells_done(htc_worker *w, child *c, int sent_alone)
{
    tell *t, *next;
    LL_FOREACH_SAFE(c->tells, t, next)
    if (t->sent || !sent_alone) {
        LL_DELETE(c->tells, t);
        is_told(w, t);
        htc__free(&w->env, t, sizeof *t);
    }
}

/* Its owner is to know if it can run now, or never. */
static void has_news(htc_worker *w, const graph_task *t, uint64_t id)
{
    if (htc__graph_is_ready(t) || htc__graph_is_terminal(t))
        tell_owner(w, t->home, id);
}

static void tell_child(htc_worker *w, child *c);

typedef struct told_of {
    uint64_t id;
    size_t   len;
    uint8_t  bytes[];
} told_of;

static void told(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    told_of     *a = ctx;
    child       *c = find_child(w, a->id);
    graph_task   t;
    w->tells--;
    if (c) {
        int kept_by_node = 0;
        c->busy = 0;
        if (r->status == HTC_OK) {
            node *n = htc__worker_node(w, c->id);
            kept_by_node = n && n->phase <= NODE_READY && !n->reading;
            if (kept_by_node) {
                c->known = 0; /* the node's is newer */
                htc__worker_node_record(w, n, (htc_bytes){ a->bytes, a->len }, r->version);
                tells_done(w, c, 1);
            } else if (remember(w, c, (htc_bytes){ a->bytes, a->len }, r->version) && htc__graph_read((htc_bytes){ c->bytes, c->len }, &t) == HTC_OK) {
                has_news(w, &t, c->id);
                tells_done(w, c, 1);
            }
        } else if (r->status == HTC_MISMATCH && r->version) {
            (void)remember(w, c, r->value, r->version);
        } else if (r->status == HTC_MISMATCH) {
            tells_done(w, c, 0); /* it is not there: its flow is being removed */
        } else {
            c->known = 0;
            w->tell_at = w->now + AGAIN_NS;
        }
        if (c->tells)
            queue(w, c);
        else if (kept_by_node)
            child_free(w, c); /* thousands that nobody needs would be in the way of those that are told now */
    }
    htc_runtime_context_free(w->runtime, ctx);
}

static void child_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    uint64_t     id = *(uint64_t *)ctx;
    child       *c = find_child(w, id);
    htc_runtime_context_free(w->runtime, ctx);
    w->tells--;
    if (!c)
        return;
    c->busy = 0;
    if (r->status == HTC_OK)
        (void)remember(w, c, r->value, r->version);
    else if (r->status == HTC_ENOTFOUND)
        tells_done(w, c, 0);
    else
        w->tell_at = w->now + AGAIN_NS;
    if (c->tells)
        queue(w, c);
}

static void read_child(htc_worker *w, child *c)
{
    flow_key  k = htc__flow_key_task(w->options.flow, c->id);
    uint64_t *id = htc_runtime_context(w->runtime, sizeof *id);
    if (!id)
        return;
    *id = c->id;
    c->busy = 1;
    w->tells++;
    htc__worker_ask_together(w, &k, HTC_KV_GET, (htc_bytes){ NULL, 0 }, 0, child_read, id);
}

/* All that it is to be told, in one change; what it knows as it is stored is done with. 1: there is something to be written. */
static int tell_all(htc_worker *w, child *c, graph_task *t, uint8_t *parents, uint8_t *known)
{
    graph_task stored = *t;
    tell      *x, *next;
    int        some = 0;
    LL_FOREACH_SAFE(c->tells, x, next)
    {
        uint8_t    alone[GRAPH_PARENTS_MAX];
        graph_task one = stored;
        const node *n = htc__worker_node(w, x->parent_id);
        x->sent = htc__graph_tell(&one, alone, x->parent, (graph_bit)x->bit) == HTC_OK;
        if (x->sent && n && n->task.made.len) /* else whoever runs it looks where it was made */
            htc__graph_inform(t, known, x->parent_id, &n->task);
        if (x->sent)
            (void)htc__graph_tell(t, parents, x->parent, (graph_bit)x->bit); /* refused if this change cancels it: it is stored all the same */
        some |= x->sent;
        if (x->sent)
            continue;
        LL_DELETE(c->tells, x);
        is_told(w, x);
        htc__free(&w->env, x, sizeof *x);
    }
    return some;
}

static void tell_child(htc_worker *w, child *c)
{
    uint8_t     parents[GRAPH_PARENTS_MAX], known[GRAPH_KNOWN_MAX * GRAPH_KNOWN_BYTES];
    graph_task  t;
    const node *n = htc__worker_node(w, c->id);
    int         by_node = n && n->bytes && (!c->known || n->version > c->version);
    uint64_t    version = by_node ? n->version : c->version;
    if (!by_node && !c->known) {
        read_child(w, c);
        return;
    }
    if (by_node) {
        t = n->task;
    } else if (htc__graph_read((htc_bytes){ c->bytes, c->len }, &t) != HTC_OK) {
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a task");
        return;
    }
    if (!tell_all(w, c, &t, parents, known)) { /* told before; whether its owner has heard of that is not known */
        has_news(w, &t, c->id);
        return;
    }
    flow_key k = htc__flow_key_task(w->options.flow, c->id);
    htc__graph_write(&w->buf, &t);
    told_of *a = htc_runtime_context(w->runtime, sizeof *a + w->buf.len);
    if (!a || w->buf.status != HTC_OK) {
        htc_runtime_break(w->runtime, w->buf.status == HTC_OK ? HTC_ENOMEM : w->buf.status, "telling a task");
        return;
    }
    a->id = c->id;
    a->len = w->buf.len;
    memcpy(a->bytes, w->buf.data, w->buf.len);
    c->busy = 1;
    w->tells++;
    htc__worker_ask_together(w, &k, HTC_KV_CAS_VERSION, (htc_bytes){ a->bytes, a->len }, version, told, a);
}

/* Those remembered longest go first. */
static void keep_few(htc_worker *w)
{
    child *c, *next;
    uint32_t looked = 0;
    DL_FOREACH_SAFE2(w->children, c, next, all_next)
    {
        if (w->n_children <= CHILDREN_KEPT || looked++ == 64)
            return;
        if (!c->busy && !c->queued && !c->tells)
            child_free(w, c);
    }
}

void htc__worker_tells(htc_worker *w)
{
    if (w->now >= w->tell_at)
        w->tell_at = HTC_NEVER;
    while (w->to_tell && w->tells < TELLS_AT_ONCE && w->tell_at == HTC_NEVER && htc_runtime_status(w->runtime) == HTC_OK) {
        child *c = w->to_tell;
        DL_DELETE(w->to_tell, c);
        c->queued = 0;
        tell_child(w, c);
    }
    keep_few(w);
}
