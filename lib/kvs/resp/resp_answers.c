/* What is asked of the backend, and answers: they leave in the order of requests, whatever the order of the backend's. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/resp/resp_private.h"
#include "kvs/wire/kv_wire.h"

/* --- answers in the order of requests --- */

void htc__resp_slot_free(htc__resp *f, htc__resp_slot *s)
{
    htc__free(&f->env, s->text, s->text_len);
    s->text = NULL;
    s->text_len = 0;
}

void htc__resp_count_output(htc__resp *f, htc__resp_conn *c)
{
    size_t now = c->out.len + c->expected;
    f->output += now - c->counted;
    c->counted = now;
}

htc__resp_slot *htc__resp_slot_of(htc__resp_conn *c, uint64_t slot)
{
    return &c->slots[slot & (c->slots_cap - 1)];
}

static int slots_room(htc__resp *f, htc__resp_conn *c)
{
    uint32_t cap = c->slots_cap ? c->slots_cap * 2 : 8;
    if (c->tail - c->head < c->slots_cap)
        return 1;
    htc__resp_slot *grown = htc__alloc(&f->env, cap * sizeof *grown);
    if (!grown) {
        htc__resp_break(f, c);
        return 0;
    }
    for (uint64_t i = c->head; i < c->tail; i++)
        grown[i & (cap - 1)] = *htc__resp_slot_of(c, i);
    htc__free(&f->env, c->slots, c->slots_cap * sizeof *c->slots);
    c->slots = grown;
    c->slots_cap = cap;
    return 1;
}

htc__resp_slot *htc__resp_slot_add(htc__resp *f, htc__resp_conn *c, htc__resp_kind kind)
{
    if (!slots_room(f, c))
        return NULL;
    htc__resp_slot *s = htc__resp_slot_of(c, c->tail++);
    *s = (htc__resp_slot){ .kind = (uint8_t)kind };
    return s;
}

static htc_buf *out_of(htc__resp *f, htc__resp_conn *c)
{
    if (c->out.cap == 0 && f->pool_count > 0)
        c->out = f->pool[--f->pool_count];
    htc__resp_mark_dirty(f, c);
    return &c->out;
}

static void slot_text(htc__resp *f, htc__resp_conn *c, htc__resp_slot *s, const htc_buf *b)
{
    htc__resp_slot_free(f, s);
    if (b->status != HTC_OK || !(s->text = htc__alloc(&f->env, b->len))) {
        htc__resp_break(f, c);
        return;
    }
    memcpy(s->text, b->data, b->len);
    s->text_len = b->len;
    size_t expected = b->len + (s->ready ? 0 : s->expected);
    c->expected += expected - s->expected;
    s->expected = expected;
    htc__resp_count_output(f, c);
}

static void pop(htc__resp *f, htc__resp_conn *c)
{
    htc__resp_slot *s = htc__resp_slot_of(c, c->head++);
    assert(c->expected >= s->expected);
    c->expected -= s->expected;
    htc__resp_slot_free(f, s);
}

/* Whatever stands at the head and is ready leaves. */
static void settle(htc__resp *f, htc__resp_conn *c)
{
    while (c->head < c->tail && htc__resp_slot_of(c, c->head)->ready) {
        const htc__resp_slot *s = htc__resp_slot_of(c, c->head);
        htc_put_raw(out_of(f, c), (htc_bytes){ s->text, s->text_len });
        pop(f, c);
    }
    if (c->head == c->tail && c->slots_cap > 256) { /* a long pipeline is over */
        htc__free(&f->env, c->slots, c->slots_cap * sizeof *c->slots);
        c->slots = NULL;
        c->slots_cap = 0;
    }
    if (c->closing || c->ended)
        htc__resp_mark_dirty(f, c);
    htc__resp_count_output(f, c);
}

htc_buf *htc__resp_begin(htc__resp *f, htc__resp_conn *c)
{
    if (c->head == c->tail)
        return out_of(f, c);
    htc_buf_clear(&f->scratch);
    return &f->scratch;
}

void htc__resp_end(htc__resp *f, htc__resp_conn *c)
{
    if (c->head == c->tail)
        return;
    htc__resp_slot *s = htc__resp_slot_add(f, c, KIND_TEXT);
    if (!s)
        return;
    slot_text(f, c, s, &f->scratch);
    s->ready = 1;
}

void htc__resp_slot_ready(htc__resp *f, htc__resp_conn *c, uint64_t slot)
{
    htc__resp_slot *s = htc__resp_slot_of(c, slot);
    s->ready = 1;
    if (s->kind == KIND_STANDS && s->failed == HTC_OK) {
        settle(f, c);
        return;
    }
    htc_buf_clear(&f->scratch);
    if (s->kind == KIND_INFO)
        htc__resp_info(f, s->parts, s->failed, s->number, &f->scratch);
    else if (s->failed != HTC_OK)
        htc__resp_failure(f, &f->scratch, s->failed, s->op);
    else if (s->kind == KIND_ALL)
        htc__resp_raw(&f->scratch, "+OK\r\n");
    else
        htc__resp_integer(&f->scratch, s->number);
    slot_text(f, c, s, &f->scratch);
    if (slot == c->head)
        settle(f, c);
}

void htc__resp_slot_keep(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_buf *text)
{
    slot_text(f, c, htc__resp_slot_of(c, slot), text);
}

void htc__resp_slot_say(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_buf *text)
{
    if (text)
        htc__resp_slot_keep(f, c, slot, text);
    htc__resp_slot_of(c, slot)->ready = 1;
    if (slot == c->head)
        settle(f, c);
}

void htc__resp_count(htc__resp *f, htc__resp_conn *c, uint64_t slot, uint32_t op, htc_status status)
{
    htc__resp_slot *s = htc__resp_slot_of(c, slot);
    s->number += status == HTC_OK;
    if (status != HTC_OK && status != HTC_ENOTFOUND && s->failed == HTC_OK) {
        s->failed = status;
        s->op = (uint16_t)op;
    }
    if (--s->parts == 0)
        htc__resp_slot_ready(f, c, slot);
}

static int counts(htc__resp_kind kind)
{
    return kind == KIND_SUM || kind == KIND_ALL || kind == KIND_STANDS;
}

static void take(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_kv_result *a)
{
    htc__resp_slot *s = htc__resp_slot_of(c, slot);
    if (s->ready)
        return;
    if (counts(s->kind)) {
        htc__resp_count(f, c, slot, a->op, a->status);
        return;
    }
    if (s->kind == KIND_JOB) {
        htc__resp_job_answer(f, c->id, slot, a);
        return;
    }
    if (s->kind == KIND_EDIT) {
        htc__resp_edit_answer(f, c->id, slot, a);
        return;
    }
    if (s->kind == KIND_WATCH) {
        htc__resp_watch_answer(f, c, slot, a);
        return;
    }
    s->ready = 1;
    if (s->kind == KIND_RANGE)
        f->range = (htc__resp_range){ (int32_t)(s->number >> 32), (int32_t)s->number };
    if (s->kind == KIND_SCAN) {
        f->pattern = (htc_bytes){ s->text, s->text_len };
        f->pattern_nothing = s->parts != 0;
    }
    if (s->kind == KIND_SEEN && a->status == HTC_OK) {
        settle(f, c); /* its text stands */
    } else if (slot == c->head) {
        htc__resp_reply(f, c, s->kind, a, out_of(f, c));
        pop(f, c);
        settle(f, c);
    } else {
        htc_buf_clear(&f->scratch);
        htc__resp_reply(f, c, s->kind, a, &f->scratch);
        slot_text(f, c, s, &f->scratch);
    }
}

void htc__resp_answer(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *a)
{
    htc__resp      *f = ctx;
    htc__resp_conn *c = htc__resp_find(f, (uint32_t)conn);
    if (c && c->id == conn && slot >= c->head && slot < c->tail)
        take(f, c, slot, a);
}

int htc__resp_gone(void *ctx, uint64_t conn)
{
    const htc__resp_conn *c = htc__resp_find(ctx, (uint32_t)conn);
    return !c || c->id != conn;
}

/* --- asking --- */

static size_t lengths(const htc_kv_result *a)
{
    return a->value.len + a->items_bytes.len;
}

static int keep_seen(htc__resp *f, htc__resp_conn *c, htc__resp_slot *s, htc_bytes seen)
{
    htc_buf_clear(&f->scratch);
    htc__resp_bulk(&f->scratch, seen);
    slot_text(f, c, s, &f->scratch);
    return !c->broken;
}

static int keep_pattern(htc__resp *f, htc__resp_conn *c, htc__resp_slot *s)
{
    htc_buf_clear(&f->scratch);
    htc_put_raw(&f->scratch, f->pattern);
    s->parts = f->pattern_nothing != 0;
    if (f->pattern.len)
        slot_text(f, c, s, &f->scratch);
    return !c->broken;
}

static int refused(htc__resp_call *x, const htc_kv_request *q, htc__resp_kind kind)
{
    htc_status status = htc__kv_op_check(q);
    if (status == HTC_OK)
        return 0;
    if (counts(kind)) {
        htc__resp_count(x->f, x->c, x->c->sum, q->op, status);
        return 1;
    }
    if (htc__resp_refuse_key(x, q->key))
        return 1;
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_failure(x->f, b, status, q->op);
    htc__resp_end(x->f, x->c);
    return 1;
}

void htc__resp_ask(htc__resp_call *x, const htc_kv_request *q, htc__resp_kind kind)
{
    static const htc__kv_stamp nobody = { .fresh = 1 }, alone = { .fresh = 1, .alone = 1 };
    htc__resp                 *f = x->f;
    htc__resp_conn            *c = x->c;
    htc_kv_result              a = { .size = sizeof a };
    if (refused(x, q, kind))
        return;
    uint64_t slot = counts(kind) ? c->sum : c->tail;
    if (!slots_room(f, c))
        return;
    htc__resp_note_asked(f, c);
    c->alone = x->last && c->head == c->tail && !counts(kind);
    int now = f->backend.ask(f->backend.ctx, q, c->alone ? &alone : &nobody, &f->face, c->id, slot, &a);
    if (counts(kind)) {
        if (now)
            htc__resp_count(f, c, slot, q->op, a.status);
        return;
    }
    if (now && !c->exec && htc__resp_puts_off(f, q, &a)) {
        c->put_off = 1;
        return;
    }
    if (now && c->head == c->tail) { /* the usual case */
        htc_buf *b = out_of(f, c);
        if (kind == KIND_SEEN && a.status == HTC_OK)
            htc__resp_bulk(b, q->seen);
        else
            htc__resp_reply(f, c, kind, &a, b);
        return;
    }
    htc__resp_slot *s = htc__resp_slot_add(f, c, kind);
    if (!now) {
        s->expected = lengths(&a);
        c->expected += s->expected;
    }
    if (kind == KIND_RANGE)
        s->number = (int64_t)((uint64_t)(uint32_t)f->range.from << 32 | (uint32_t)f->range.to);
    if (kind == KIND_SEEN && !keep_seen(f, c, s, q->seen))
        return;
    if (kind == KIND_SCAN && !keep_pattern(f, c, s))
        return;
    if (now)
        take(f, c, slot, &a);
}
