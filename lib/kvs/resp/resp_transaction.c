/* MULTI, EXEC, DISCARD, WATCH and UNWATCH.
 *
 * Commands are queued and executed with EXEC, on a draft of the keys that they are about (resp_draft.c), which is written then: by
 * one member alone all in one batch, after a look whether there is room for all of it. With several members each key is a register of
 * its own, so a transaction is about one key, and its draft is a compare-and-swap of that (resp_edit.c). A watched key is unchanged
 * if it has the version at EXEC that it had at WATCH. */
#include "kvs/resp/resp_transaction.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"

#define SEVERAL                                                                                                        \
    "EXECABORT this store has several members, and each key is a register of its own: a transaction is about one "     \
    "key, "                                                                                                            \
    "which alone may be watched (redis-py: pipeline(transaction=False))"

void htc__resp_transaction_free(htc__resp *f, htc__resp_transaction *tx)
{
    if (!tx)
        return;
    assert(f->queued >= tx->counted);
    f->queued -= tx->counted;
    htc_buf_free(&tx->queue);
    htc_buf_free(&tx->keys);
    htc__free(&f->env, tx->watches, tx->watch_cap * sizeof *tx->watches);
    htc__free(&f->env, tx, sizeof *tx);
}

htc_bytes htc__resp_transaction_key(const htc__resp_transaction *tx)
{
    return tx->key;
}

void htc__resp_transaction_end(htc__resp *f, htc__resp_conn *c)
{
    htc__resp_transaction_free(f, c->tx);
    c->tx = NULL;
}

size_t htc__resp_transaction_bytes(const htc__resp_conn *c)
{
    return c->tx ? c->tx->counted : 0;
}

static htc__resp_transaction *transaction_make(htc__resp *f)
{
    htc__resp_transaction *tx = htc__alloc(&f->env, sizeof *tx);
    if (!tx)
        return NULL;
    *tx = (htc__resp_transaction){ .id = ++f->transactions };
    htc_buf_init(&tx->queue, &f->env, HTC__RESP_QUEUE_BYTES);
    htc_buf_init(&tx->keys, &f->env, 0);
    return tx;
}

static htc__resp_transaction *transaction_of(htc__resp_call *x)
{
    htc__resp_conn *c = x->c;
    if (!c->tx)
        c->tx = transaction_make(x->f);
    return c->tx;
}

static int fits(const htc__resp *f, size_t bytes)
{
    return f->input + f->queued <= f->options.input_max && bytes <= f->options.input_max - f->input - f->queued;
}

/* All transactions together hold as much as input may: so many bytes more? Others who hold much for long make room. */
static int has_room(const htc__resp_call *x, size_t bytes)
{
    while (!fits(x->f, bytes))
        if (!htc__resp_end_holder(x->f, x->c, 1))
            return 0;
    return 1;
}

static void count_bytes(htc__resp *f, htc__resp_transaction *tx, size_t bytes)
{
    tx->counted += bytes;
    f->queued += bytes;
}

/* --- the queue --- */

void htc__resp_transaction_failed(htc__resp_conn *c)
{
    if (c->tx && c->tx->multi)
        c->tx->failed = 1;
}

int htc__resp_queues(const htc__resp_conn *c, const htc__resp_command *command)
{
    return c->tx && c->tx->multi && !(command->flags & HTC__RESP_NOW);
}

static int cannot_queue(htc__resp_call *x, const char *why)
{
    htc__resp_transaction_failed(x->c);
    return htc__resp_error(x, why);
}

int htc__resp_queue(htc__resp_call *x, const htc__resp_command *command)
{
    htc__resp             *f = x->f;
    htc__resp_transaction *tx = x->c->tx;
    size_t                 before = tx->queue.len;
    if (command->flags & HTC__RESP_OUTSIDE)
        return cannot_queue(x, "ERR Command not allowed inside a transaction");
    if (tx->count >= HTC__RESP_QUEUE_COMMANDS)
        return cannot_queue(x, "ERR a transaction has at most 32768 commands and 25165824 bytes of them");
    if (!has_room(x, 0))
        return cannot_queue(x, "ERR too many bytes of transactions are held for all clients");
    htc__resp_pack(&tx->queue, x);
    if (tx->queue.status != HTC_OK) {
        tx->queue.status = HTC_OK;
        tx->queue.len = before;
        return cannot_queue(x, "ERR a transaction has at most 32768 commands and 25165824 bytes of them");
    }
    count_bytes(f, tx, tx->queue.len - before);
    tx->count++;
    htc__resp_raw(htc__resp_begin(f, x->c), "+QUEUED\r\n");
    htc__resp_end(f, x->c);
    return 1;
}

static int ok(htc__resp_call *x)
{
    htc__resp_raw(htc__resp_begin(x->f, x->c), "+OK\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_run_multi(htc__resp_call *x)
{
    if (x->c->tx && x->c->tx->multi)
        return htc__resp_error(x, "ERR MULTI calls can not be nested");
    if (!transaction_of(x))
        return htc__resp_error(x, "ERR out of memory");
    x->c->tx->multi = 1;
    return ok(x);
}

int htc__resp_run_discard(htc__resp_call *x)
{
    if (!x->c->tx || !x->c->tx->multi)
        return htc__resp_error(x, "ERR DISCARD without MULTI");
    htc__resp_transaction_end(x->f, x->c);
    return ok(x);
}

int htc__resp_run_unwatch(htc__resp_call *x)
{
    htc__resp_transaction_end(x->f, x->c);
    return ok(x);
}

htc_status htc__resp_ask_plain(htc__resp_call *x, const htc_kv_request *q)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_result              a = { .size = sizeof a, .status = HTC_EINTERNAL };
    x->f->backend.ask(x->f->backend.ctx, q, &nobody, &x->f->face, 0, 0, &a);
    return a.status;
}

/* --- watched keys --- */

static htc_bytes watched(const htc__resp_transaction *tx, size_t i)
{
    return (htc_bytes){ tx->keys.data + tx->watches[i].at, tx->watches[i].len };
}

static int is_watched(const htc__resp_transaction *tx, htc_bytes key)
{
    for (uint32_t i = 0; i < tx->watch_count; i++)
        if (htc_bytes_equal(watched(tx, i), key))
            return 1;
    return 0;
}

static uint32_t cap_for(const htc__resp_transaction *tx, uint32_t count)
{
    uint32_t cap = tx->watch_cap ? tx->watch_cap : 4;
    while (cap < count)
        cap *= 2;
    return cap;
}

static htc__resp_watch *add_watch(htc__resp *f, htc__resp_transaction *tx, htc_bytes key)
{
    if (tx->watch_count == tx->watch_cap) {
        uint32_t         cap = cap_for(tx, tx->watch_count + 1);
        htc__resp_watch *more = htc__resize(&f->env, tx->watches, tx->watch_cap * sizeof *more, cap * sizeof *more);
        if (!more)
            return NULL;
        count_bytes(f, tx, (cap - tx->watch_cap) * sizeof *more);
        tx->watches = more;
        tx->watch_cap = cap;
    }
    size_t at = tx->keys.len;
    htc_put_raw(&tx->keys, key);
    if (tx->keys.status != HTC_OK)
        return NULL;
    count_bytes(f, tx, key.len);
    tx->watches[tx->watch_count] = (htc__resp_watch){ .at = at, .len = key.len };
    return &tx->watches[tx->watch_count++];
}

void htc__resp_watch_answer(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_kv_result *a)
{
    htc__resp_slot        *s = htc__resp_slot_of(c, slot);
    htc__resp_transaction *tx = c->tx && c->tx->id == (uint64_t)s->number ? c->tx : NULL;
    if (tx) {
        assert(tx->waits > 0);
        tx->waits--;
        tx->unread |= a->status != HTC_OK && a->status != HTC_ENOTFOUND;
        tx->watches[s->parts].version = a->status == HTC_OK ? a->version : 0;
        f->more |= c->paused;
    }
    htc__resp_slot_say(f, c, slot, NULL);
}

/* One slot for each key, of which none says anything. */
static int watch(htc__resp_call *x, htc__resp_transaction *tx, htc_bytes key)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc__resp                 *f = x->f;
    uint64_t                   slot = x->c->tail;
    htc_kv_result              a = { .size = sizeof a };
    if (!add_watch(f, tx, key))
        return 0;
    htc__resp_slot *s = htc__resp_slot_add(f, x->c, KIND_WATCH);
    if (!s)
        return 0;
    s->number = (int64_t)tx->id;
    s->parts = tx->watch_count - 1;
    tx->waits++;
    if (f->backend.ask(f->backend.ctx, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key }, &nobody, &f->face, x->c->id,
                       slot, &a))
        htc__resp_watch_answer(f, x->c, slot, &a);
    return 1;
}

/* What its client wants watched is not: nothing that relies on it is executed. */
static void unwatched(htc__resp_call *x)
{
    if (transaction_of(x))
        x->c->tx->failed = 1;
    else
        x->c->closing = 1;
}

static int cannot_watch(htc__resp_call *x, const char *why)
{
    unwatched(x);
    return htc__resp_error(x, why);
}

/* Argument i names a key that is neither watched nor named before. */
static int is_new(const htc__resp_call *x, const htc__resp_transaction *tx, uint32_t i)
{
    for (uint32_t k = 1; k < i; k++)
        if (htc_bytes_equal(htc__resp_arg(x, k), htc__resp_arg(x, i)))
            return 0;
    return !is_watched(tx, htc__resp_arg(x, i));
}

int htc__resp_run_watch(htc__resp_call *x)
{
    static const char too_many[] = "ERR a connection watches at most 1024 keys";
    uint32_t          count = 0;
    size_t            bytes = 0;
    if (x->c->tx && x->c->tx->multi)
        return htc__resp_error(x, "ERR WATCH inside MULTI is not allowed");
    if (x->r->argc - 1 > HTC__RESP_WATCHES_MAX)
        return cannot_watch(x, too_many);
    htc__resp_transaction *tx = transaction_of(x);
    if (!tx)
        return cannot_watch(x, "ERR out of memory");
    for (uint32_t i = 1; i < x->r->argc; i++) {
        htc_bytes key = htc__resp_arg(x, i);
        if (htc__resp_refuse_key(x, key)) {
            unwatched(x);
            return 1;
        }
        if (is_new(x, tx, i)) {
            count++;
            bytes += key.len;
        }
    }
    count += tx->watch_count;
    if (count > HTC__RESP_WATCHES_MAX)
        return cannot_watch(x, too_many);
    if (count > tx->watch_cap)
        bytes += (cap_for(tx, count) - tx->watch_cap) * sizeof *tx->watches;
    if (bytes && !has_room(x, bytes))
        return cannot_watch(x, "ERR too many bytes of transactions are held for all clients");
    for (uint32_t i = 1; i < x->r->argc; i++)
        if (!is_watched(tx, htc__resp_arg(x, i)) && !watch(x, tx, htc__resp_arg(x, i)))
            return cannot_watch(x, "ERR out of memory");
    return ok(x);
}

/* --- execution --- */

typedef int (*visit_key)(void *ctx, htc_bytes key, const htc__resp_command *command);

/* The keys of a request, by the table of commands. */
static int each_key(const htc__resp_call *x, const htc__resp_command *command, visit_key visit, void *ctx)
{
    int last = command->last < 0 ? (int)x->r->argc + command->last : command->last;
    for (int i = command->first; command->first && i <= last && i < (int)x->r->argc; i += command->step)
        if (!visit(ctx, htc__resp_arg(x, (uint32_t)i), command))
            return 0;
    return 1;
}

/* The next command of the queue, as a call of c; 0: memory was refused. */
static int next_call(htc__resp *f, htc__resp_conn *c, const htc__resp_transaction *tx, size_t *at, htc__resp_call *x)
{
    *x = (htc__resp_call){ f, c, &f->queued_request, tx->queue.data, 0 };
    return htc__resp_unpack(x->r, htc_buf_bytes(&tx->queue), at);
}

/* A connection of nobody, which says into b at once what it is told to say. */
static void stand_in(htc__resp *f, const htc__resp_conn *c, htc__resp_conn *s)
{
    *s = (htc__resp_conn){ .id = c->id, .proto = c->proto, .authed = 1, .dirty = 1, .exec = 1 };
    htc_buf_init(&s->in, &f->env, 0);
    htc_buf_init(&s->out, &f->env, 2 * HTC__RESP_REPLIES_MAX);
}

/* All commands, one after the other, on the draft; what is to be answered into b. HTC_ETOOBIG: that is too much. */
static htc_status execute_all(htc__resp *f, htc__resp_conn *c, htc__resp_transaction *tx, htc__resp_draft *d,
                              htc_buf *b)
{
    htc__kv_backend store = f->backend;
    htc__resp_conn  s;
    htc__resp_call  x;
    size_t          at = 0;
    int             fits = 1;
    stand_in(f, c, &s);
    if (!tx->bare)
        htc__resp_head(b, '*', tx->count);
    f->backend = htc__resp_draft_backend(d);
    for (uint32_t i = 0; i < tx->count && fits && !s.broken && !d->too_much; i++) {
        if (!next_call(f, &s, tx, &at, &x)) {
            s.broken = 1;
            break;
        }
        s.next_arg = 0;
        htc__resp_command_find(f, htc__resp_arg(&x, 0))->run(&x);
        fits = s.out.len <= HTC__RESP_REPLIES_MAX || i + 1 == tx->count;
        f->stats.commands += !tx->bare; /* that one is counted as what it is */
    }
    f->backend = store;
    if (s.out.status != HTC_OK || d->too_much)
        fits = 0;
    if (fits)
        htc_put_raw(b, htc_buf_bytes(&s.out));
    htc_buf_free(&s.out);
    htc__free(&f->env, s.slots, s.slots_cap * sizeof *s.slots);
    return s.broken || d->failed != HTC_OK ? HTC_ENOMEM : !fits ? HTC_ETOOBIG : b->status;
}

static void abort_with(const htc__resp_transaction *tx, htc_buf *b, htc_status status)
{
    htc_buf_clear(b);
    htc__resp_raw(b, tx->bare ? "-ERR Nothing was done: " : "-EXECABORT Transaction discarded: ");
    htc__resp_raw(b, status == HTC_ETOOBIG  ? "its replies are more than 16777216 bytes, or the values that it writes "
                                              "more than 33554432, or the keys that it looks at take more than "
                                              "67108864, or it is more than the log takes at once"
                     : status == HTC_ENOSPC ? "the disk is full"
                     : status == HTC_EFULL  ? "it needs more memory than the store may take (--memory)"
                     : status == HTC_ENOMEM ? "out of memory"
                     : status == HTC_EUNSUPPORTED ? "its key hangs on a lease of another client"
                                                  : htc_strerror(status));
    htc__resp_raw(b, "\r\n");
}

static void nothing(const htc__resp_conn *c, htc_buf *b)
{
    htc__resp_raw(b, c->proto == 3 ? "_\r\n" : "*-1\r\n");
}

/* --- one member alone --- */

static int have_changed(const htc__resp *f, const htc__resp_transaction *tx)
{
    for (uint32_t i = 0; i < tx->watch_count; i++) {
        htc_kv_result a = { .size = sizeof a, .status = HTC_EINTERNAL };
        htc_status    status = f->backend.look(f->backend.ctx, watched(tx, i), &a);
        if ((status == HTC_OK ? a.version : 0) != tx->watches[i].version)
            return 1;
    }
    return 0;
}

static void written(const htc__resp_draft *d, htc__resp_sums *sum)
{
    *sum = (htc__resp_sums){ 0 };
    for (htc__node *n = d->keys.head[0]; n; n = n->next[0]) {
        htc__resp_change to;
        htc__resp_draft_change(htc__node_value(n), &to);
        if (to.what == HTC__RESP_STAYS)
            continue;
        sum->changes++;
        sum->puts += to.what == HTC__RESP_BECOMES;
        sum->keys += htc__node_key(n).len;
        sum->values += to.what == HTC__RESP_BECOMES ? to.value.len : 0;
    }
}

static void ask_part(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_kv_request *q)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_result              a = { .size = sizeof a };
    if (f->backend.ask(f->backend.ctx, q, &nobody, &f->face, c->id, slot, &a))
        htc__resp_count(f, c, slot, q->op, a.status);
}

/* Into one batch. What was read rests on the newest one, as a count of all keys does. */
static void write_all(htc__resp *f, htc__resp_conn *c, const htc__resp_draft *d, uint64_t slot)
{
    for (htc__node *n = d->keys.head[0]; n; n = n->next[0]) {
        htc__resp_change to;
        htc__resp_draft_change(htc__node_value(n), &to);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc__node_key(n), .value = to.value, .ttl = to.ttl };
        if (to.keeps)
            q.flags = HTC_KV_KEEP_TTL;
        if (to.what == HTC__RESP_GOES)
            q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = q.key };
        if (to.what != HTC__RESP_STAYS)
            ask_part(f, c, slot, &q);
    }
    if (d->reads)
        ask_part(f, c, slot, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
}

static int is_alone(const htc__resp *f)
{
    return f->backend.together && f->backend.together(f->backend.ctx, 0, 0, 0, 0) != HTC_EUNSUPPORTED;
}

static htc_status together(const htc__resp *f, const htc__resp_sums *sum)
{
    return f->backend.together(f->backend.ctx, sum->changes, sum->puts, sum->keys, sum->values);
}

/* 0: there is no room for it yet. It is worked out again when there is room for what it would have written. */
static int execute_alone(htc__resp_call *x, htc__resp_transaction *tx)
{
    htc__resp      *f = x->f;
    htc__resp_conn *c = x->c;
    htc__resp_draft d;
    htc_buf         b;
    htc__resp_sums  sum;
    htc__resp_stats before = f->stats;
    uint64_t        slot = c->tail;
    if (together(f, &c->tried) == HTC_EBUSY)
        return 0;
    htc_buf_init(&b, &f->env, 3 * HTC__RESP_REPLIES_MAX);
    htc__resp_draft_init(&d, f);
    htc_status status = HTC_OK;
    int        changed = have_changed(f, tx);
    if (changed)
        nothing(c, &b);
    else
        status = execute_all(f, c, tx, &d, &b);
    written(&d, &sum);
    if (status == HTC_OK && !changed)
        status = together(f, &sum);
    c->tried = status == HTC_EBUSY ? sum : (htc__resp_sums){ 0 };
    if (status == HTC_EBUSY)
        f->stats = before; /* it is not done */
    if (status != HTC_OK && status != HTC_EBUSY)
        abort_with(tx, &b, status);
    htc__resp_slot *s = status == HTC_EBUSY ? NULL : htc__resp_slot_add(f, c, KIND_STANDS);
    if (s) {
        size_t parts = status == HTC_OK && !changed ? sum.changes + (size_t)d.reads : 0;
        s->parts = (uint32_t)parts;
        htc__resp_slot_keep(f, c, slot, &b);
        if (parts == 0)
            htc__resp_slot_ready(f, c, slot);
        else
            write_all(f, c, &d, slot);
    }
    htc_buf_free(&b);
    htc__resp_draft_free(&d);
    return status != HTC_EBUSY;
}

/* --- several --- */

static int is_the_key(void *ctx, htc_bytes key, const htc__resp_command *command)
{
    htc__resp_transaction *tx = ctx;
    (void)command;
    if (!tx->key.data)
        tx->key = key;
    return htc_bytes_equal(tx->key, key);
}

/* 1: it is about one key at most, tx->key. */
static int about_one_key(htc__resp *f, htc__resp_conn *c, htc__resp_transaction *tx)
{
    htc__resp_call x;
    size_t         at = 0;
    tx->key = (htc_bytes){ NULL, 0 };
    for (uint32_t i = 0; i < tx->count; i++)
        if (!next_call(f, c, tx, &at, &x) ||
            !each_key(&x, htc__resp_command_find(f, htc__resp_arg(&x, 0)), is_the_key, tx))
            return 0;
    for (uint32_t i = 0; i < tx->watch_count; i++)
        if (!is_the_key(tx, watched(tx, i), NULL))
            return 0;
    return 1;
}

static void work(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value, htc_buf *reply)
{
    htc__resp_transaction *tx = to->tx;
    htc__resp_draft        d;
    if (tx->watch_count && (now->there ? now->version : 0) != tx->watches[0].version) {
        nothing(x->c, reply);
        return;
    }
    htc__resp_stats before = x->f->stats;
    htc__resp_draft_init(&d, x->f);
    htc__resp_draft_key *k = htc__resp_draft_put(&d, tx->key, now);
    htc_status           status = k ? execute_all(x->f, x->c, tx, &d, reply) : d.too_much ? HTC_ETOOBIG : HTC_ENOMEM;
    if (k && status == HTC_OK)
        htc__resp_draft_change(k, to);
    /* A compare-and-swap leaves a key where it hangs, unless it gives it a time. */
    if (to->what == HTC__RESP_BECOMES && now->there && now->lease && !to->keeps && !to->ttl)
        status = HTC_EUNSUPPORTED;
    if (status != HTC_OK) {
        to->what = HTC__RESP_STAYS;
        abort_with(tx, reply, status);
    }
    htc_put_raw(value, to->value);
    to->value = htc_buf_bytes(value);
    htc__resp_draft_free(&d);
    if (tx->worked) /* its commands are counted once */
        x->f->stats = before;
    tx->worked = 1;
}

/* Nothing is asked of the store, or one thing: that is one by itself, and begun again if its answer is put off. */
static int execute_plain(htc__resp_call *x, htc__resp_transaction *tx)
{
    htc__resp_call one;
    size_t         at = 0;
    if (!tx->begun) {
        htc__resp_head(htc__resp_begin(x->f, x->c), '*', tx->count);
        htc__resp_end(x->f, x->c);
        tx->begun = 1;
    }
    for (uint32_t i = 0; i < tx->count && !x->c->broken; i++) {
        if (!next_call(x->f, x->c, tx, &at, &one)) {
            htc__resp_error(x, "ERR out of memory");
            continue;
        }
        x->c->next_arg = 0;
        htc__resp_command_find(x->f, htc__resp_arg(&one, 0))->run(&one);
    }
    x->c->next_arg = 0;
    if (x->c->put_off) {
        x->c->tx = tx;
        return 0;
    }
    htc__resp_transaction_free(x->f, tx);
    return 1;
}

static int execute_on_several(htc__resp_call *x, htc__resp_transaction *tx)
{
    htc__resp_call one;
    size_t         at = 0;
    x->c->tx = NULL;
    if (!about_one_key(x->f, x->c, tx)) {
        htc__resp_transaction_free(x->f, tx);
        return htc__resp_error(x, SEVERAL);
    }
    if (!tx->key.data)
        return execute_plain(x, tx);
    if (tx->count == 1 && !tx->watch_count && next_call(x->f, x->c, tx, &at, &one)) {
        const htc__resp_command *command = htc__resp_command_find(x->f, htc__resp_arg(&one, 0));
        if (command->first == command->last)
            return execute_plain(x, tx);
    }
    return htc__resp_edit_transaction(x, work, tx);
}

int htc__resp_run_exec(htc__resp_call *x)
{
    htc__resp_transaction *tx = x->c->tx;
    if (!tx || !tx->multi)
        return htc__resp_error(x, "ERR EXEC without MULTI");
    if (tx->waits)
        return 0;
    if (tx->failed || tx->unread) {
        const char *why = tx->failed ? "EXECABORT Transaction discarded because of previous errors."
                                     : "EXECABORT Transaction discarded: a watched key could not be read";
        htc__resp_transaction_end(x->f, x->c);
        return htc__resp_error(x, why);
    }
    if (is_alone(x->f)) {
        if (!execute_alone(x, tx))
            return 0;
        htc__resp_transaction_end(x->f, x->c);
        return 1;
    }
    return execute_on_several(x, tx);
}

int htc__resp_transaction_of_one(htc__resp_call *x, const char *several)
{
    htc__resp             *f = x->f;
    htc__resp_transaction *tx = transaction_make(f);
    if (tx)
        htc__resp_pack(&tx->queue, x);
    if (!tx || tx->queue.status != HTC_OK) {
        htc__resp_transaction_free(f, tx);
        return htc__resp_error(x, tx ? "ERR too many bytes for one step" : "ERR out of memory");
    }
    count_bytes(f, tx, tx->queue.len);
    tx->count = tx->bare = 1;
    if (is_alone(f)) {
        int done = execute_alone(x, tx);
        htc__resp_transaction_free(f, tx);
        return done;
    }
    if (!about_one_key(f, x->c, tx)) {
        htc__resp_transaction_free(f, tx);
        return htc__resp_error(x, several);
    }
    return htc__resp_edit_transaction(x, work, tx);
}
