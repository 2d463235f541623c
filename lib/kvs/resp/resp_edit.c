/* Commands whose effect no request of the store has: this face is shown how the key is, works out what becomes of it, and has that written
 * on condition that nothing has changed since; else it is shown the key anew.
 *
 *     GET ──▶ work ──stays──▶ the reply
 *              │ ▲
 *              ▼ └──mismatch── compare-and-swap, or a DELETE, of the version that was shown ──▶ the reply
 *
 * What its client asks for behind it waits meanwhile, so that it takes effect behind it. */
#include <string.h>

#include "core/util.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/resp/resp_transaction.h"

/* One of those that try together always wins: so many in vain are no chance any more. */
#define TRIES_MAX 1000

typedef enum edit_state { READING, WRITING } edit_state;

struct htc__resp_edit {
    htc__resp_edit        *next;
    uint64_t               conn, slot;
    htc__resp_work         work;
    htc__resp_transaction *tx; /* of EXEC; else NULL, and the arguments are in words */
    htc_buf                words, value, reply;
    htc__resp_request      request;
    edit_state             state;
    uint32_t               tries;
    int                    answered; /* and not looked at: a face does not ask while it is answered */
    htc_kv_result          a;
    htc_buf                seen; /* its value */
};

static void edit_free(htc__resp *f, htc__resp_edit *e)
{
    htc__resp_transaction_free(f, e->tx);
    htc__resp_request_free(&e->request);
    htc_buf_free(&e->words);
    htc_buf_free(&e->value);
    htc_buf_free(&e->reply);
    htc_buf_free(&e->seen);
    htc__free(&f->env, e, sizeof *e);
}

static htc__resp_edit *edit_make(htc__resp *f, const htc__resp_conn *c, htc__resp_work work)
{
    htc__resp_edit *e = htc__alloc(&f->env, sizeof *e);
    if (!e)
        return NULL;
    *e = (htc__resp_edit){ .conn = c->id, .slot = c->tail, .work = work, .state = READING };
    htc_buf_init(&e->words, &f->env, 0);
    htc_buf_init(&e->value, &f->env, 0);
    htc_buf_init(&e->reply, &f->env, HTC__RESP_REPLIES_MAX * 3);
    htc_buf_init(&e->seen, &f->env, 0);
    htc__resp_request_init(&e->request, &f->env);
    return e;
}

/* --- what is asked of the store --- */

htc__resp_state htc__resp_state_of(const htc_kv_result *a)
{
    if (a->status != HTC_OK)
        return (htc__resp_state){ .there = 0 };
    return (htc__resp_state){ .there = 1, .version = a->version, .value = a->value, .ttl = a->ttl, .lease = a->lease };
}

static htc_kv_request write_of(htc_bytes key, const htc__resp_state *now, const htc__resp_change *to)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_CAS_VERSION, .key = key, .version = now->version, .value = to->value, .ttl = to->ttl
    };
    if (to->keeps)
        q.flags = HTC_KV_KEEP_TTL;
    if (to->what == HTC__RESP_GOES)
        q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = key, .version = now->version, .flags = HTC_KV_IF_VERSION };
    return q;
}

static int answer_or_error(htc__resp_call *x, const htc_buf *reply, htc_status status, uint32_t op)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    if (status != HTC_OK || reply->status != HTC_OK)
        htc__resp_failure(x->f, b, status != HTC_OK ? status : reply->status, op);
    else
        htc_put_raw(b, htc_buf_bytes(reply));
    htc__resp_end(x->f, x->c);
    return 1;
}

/* Within a transaction everything is answered at once, and nobody else changes anything. */
static int edit_now(htc__resp_call *x, htc__resp_work work)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc__resp                 *f = x->f;
    htc_kv_request             q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__resp_arg(x, 1) };
    htc_kv_result              a = { .size = sizeof a, .status = HTC_EINTERNAL };
    htc_buf                    value, reply;
    htc_buf_init(&value, &f->env, 0);
    htc_buf_init(&reply, &f->env, HTC__RESP_REPLIES_MAX * 3);
    f->backend.ask(f->backend.ctx, &q, &nobody, &f->face, 0, 0, &a);
    if (a.status == HTC_OK || a.status == HTC_ENOTFOUND) {
        htc__resp_state  now = htc__resp_state_of(&a);
        htc__resp_change to = { .what = HTC__RESP_STAYS };
        a.status = HTC_OK;
        work(x, &now, &to, &value, &reply);
        if (to.what != HTC__RESP_STAYS && value.status == HTC_OK) {
            q = write_of(q.key, &now, &to);
            a.status = htc__kv_op_check(&q);
            if (a.status == HTC_OK)
                f->backend.ask(f->backend.ctx, &q, &nobody, &f->face, 0, 0, &a);
        }
    }
    answer_or_error(x, &reply, value.status != HTC_OK ? value.status : a.status, q.op);
    htc_buf_free(&value);
    htc_buf_free(&reply);
    return 1;
}

/* --- one that takes a while --- */

static htc_bytes key_of(const htc__resp_edit *e)
{
    return e->tx ? htc__resp_transaction_key(e->tx) : htc__resp_arg_of(&e->request, e->words.data, 1);
}

static void unlink_edit(htc__resp *f, const htc__resp_edit *e)
{
    htc__resp_edit **at = &f->edits;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
}

static void finish(htc__resp *f, htc__resp_edit *e, htc_status status, uint32_t op)
{
    htc__resp_conn *c = htc__resp_find(f, (uint32_t)e->conn);
    if (status == HTC_OK)
        status = e->reply.status;
    if (status != HTC_OK) {
        htc_buf_clear(&e->reply);
        htc__resp_failure(f, &e->reply, status, op);
    }
    unlink_edit(f, e);
    if (c && c->id == e->conn) {
        c->job = 0;
        f->more |= c->paused;
        htc__resp_slot_say(f, c, e->slot, &e->reply);
    }
    edit_free(f, e);
}

/* 1: the answer is there. */
static int ask(htc__resp *f, htc__resp_edit *e, const htc_kv_request *q)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    e->a = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = htc__kv_op_check(q) };
    return e->a.status != HTC_OK || f->backend.ask(f->backend.ctx, q, &nobody, &f->face, e->conn, e->slot, &e->a);
}

/* The key was shown. 1: there is an answer to what is asked next; 0: wait, or it is over. */
static int shown(htc__resp *f, htc__resp_edit *e)
{
    htc__resp_conn  *c = htc__resp_find(f, (uint32_t)e->conn);
    htc__resp_call   x = { f, c, &e->request, e->words.data, 0 };
    htc__resp_state  now = htc__resp_state_of(&e->a);
    htc__resp_change to = { .what = HTC__RESP_STAYS, .tx = e->tx };
    htc_buf_clear(&e->value);
    htc_buf_clear(&e->reply);
    e->work(&x, &now, &to, &e->value, &e->reply);
    if (to.what == HTC__RESP_STAYS || e->value.status != HTC_OK) {
        finish(f, e, e->value.status, HTC_KV_PUT);
        return 0;
    }
    htc_kv_request q = write_of(key_of(e), &now, &to);
    e->state = WRITING;
    return ask(f, e, &q);
}

static int read_again(htc__resp *f, htc__resp_edit *e)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = key_of(e) };
    e->state = READING;
    return ask(f, e, &q);
}

static void go_on(htc__resp *f, htc__resp_edit *e)
{
    for (;;) {
        htc_status status = e->a.status;
        if (e->state == READING && (status == HTC_OK || status == HTC_ENOTFOUND)) {
            if (!shown(f, e))
                return;
        } else if (e->state == WRITING && status == HTC_MISMATCH && ++e->tries < TRIES_MAX) {
            if (!read_again(f, e))
                return;
        } else {
            finish(f, e, status == HTC_MISMATCH ? HTC_EBUSY : status, e->state == READING ? HTC_KV_GET : HTC_KV_PUT);
            return;
        }
    }
}

static int begin(htc__resp *f, htc__resp_conn *c, htc__resp_edit *e)
{
    if (!htc__resp_slot_add(f, c, KIND_EDIT)) {
        edit_free(f, e);
        return 1;
    }
    c->job = 1;
    e->next = f->edits;
    f->edits = e;
    if (read_again(f, e))
        go_on(f, e);
    return 1;
}

int htc__resp_edit_key(htc__resp_call *x, htc__resp_work work)
{
    htc__resp     *f = x->f;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__resp_arg(x, 1) };
    size_t         at = 0;
    if (htc__resp_refuse_key(x, q.key))
        return 1;
    if (x->c->exec)
        return edit_now(x, work);
    htc__resp_edit *e = edit_make(f, x->c, work);
    if (e)
        htc__resp_pack(&e->words, x);
    if (!e || e->words.status != HTC_OK || !htc__resp_unpack(&e->request, htc_buf_bytes(&e->words), &at)) {
        if (e)
            edit_free(f, e);
        return htc__resp_error(x, "ERR out of memory");
    }
    return begin(f, x->c, e);
}

int htc__resp_edit_transaction(htc__resp_call *x, htc__resp_work work, htc__resp_transaction *tx)
{
    htc__resp_edit *e = edit_make(x->f, x->c, work);
    if (!e) {
        htc__resp_transaction_free(x->f, tx);
        return htc__resp_error(x, "ERR out of memory");
    }
    e->tx = tx;
    return begin(x->f, x->c, e);
}

void htc__resp_edit_answer(htc__resp *f, uint64_t conn, uint64_t slot, const htc_kv_result *a)
{
    htc__resp_edit *e = f->edits;
    while (e && (e->conn != conn || e->slot != slot))
        e = e->next;
    if (!e)
        return;
    e->a = *a;
    htc_buf_clear(&e->seen);
    htc_put_raw(&e->seen, a->value);
    if (e->seen.status != HTC_OK)
        e->a.status = HTC_ENOMEM;
    e->a.value = htc_buf_bytes(&e->seen);
    e->answered = 1;
    f->more = 1;
}

void htc__resp_edits_go_on(htc__resp *f)
{
    for (htc__resp_edit *e = f->edits, *next; e; e = next) {
        next = e->next;
        if (e->answered) {
            e->answered = 0;
            go_on(f, e);
        }
    }
}

void htc__resp_edits_forget(htc__resp *f, uint64_t conn)
{
    for (htc__resp_edit **at = &f->edits, *e; (e = *at);)
        if (conn == 0 || e->conn == conn) {
            *at = e->next;
            edit_free(f, e);
        } else {
            at = &e->next;
        }
}
