/* Whose turn it is: a connection asks for a share at a time, and for no more than the backend has room for. */
#include "kvs/wire/kv_wire.h"
#include "kvs/resp/resp_private.h"

#define SHARE         4096 /* requests of a connection in one turn, */
#define SHARE_CROWDED 64   /* where others wait for theirs */

/* Requests of one connection in one turn, so that all get theirs: also those of one command of many keys. */
static uint32_t share(const htc__resp *f)
{
    return f->crowded ? SHARE_CROWDED : SHARE;
}

int htc__resp_has_had_its_share(const htc__resp *f, const htc__resp_conn *c)
{
    return c->turn == f->turn && c->asked >= share(f);
}

/* Who does not take its answers, or asks faster than they come, waits; and who has had its share of the turn. */
int htc__resp_may_ask(const htc__resp *f, const htc__resp_conn *c)
{
    if (c->exec)
        return 1;
    return !c->unsent && !c->job && c->tail - c->head < f->options.pending_max &&
           c->out.len + c->expected < f->options.output_max && !htc__resp_has_had_its_share(f, c);
}

int htc__resp_has_room(const htc__resp *f, size_t bytes)
{
    return !f->backend.full || !f->backend.full(f->backend.ctx, bytes);
}

int htc__resp_room_to_change(const htc__resp *f, size_t bytes)
{
    return !(f->backend.busy && f->backend.busy(f->backend.ctx)) && htc__resp_has_room(f, bytes);
}

int htc__resp_may_change(const htc__resp_call *x, size_t bytes)
{
    return x->c->exec || (htc__resp_room_to_change(x->f, bytes) && !htc__resp_has_had_its_share(x->f, x->c));
}

int htc__resp_may_read(const htc__resp_call *x, htc_bytes key)
{
    const htc__kv_backend *b = &x->f->backend;
    if (x->c->exec)
        return 1;
    return htc__resp_has_room(x->f, b->read ? b->read(b->ctx, key) : 0) && !htc__resp_has_had_its_share(x->f, x->c);
}

int htc__resp_may_begin(const htc__resp_call *x)
{
    const htc__resp_command *command = x->c->command;
    if (command->flags & HTC__RESP_WRITES)
        return htc__resp_may_change(x, htc__resp_longest(x));
    return command->first == 0 || htc__resp_may_read(x, htc__resp_arg(x, command->first));
}

void htc__resp_note_asked(const htc__resp *f, htc__resp_conn *c)
{
    c->asked = c->turn == f->turn ? c->asked + 1 : 1;
    c->turn = f->turn;
}

/* Answers that nobody takes are ended by the host; until then who wants a long one waits, and nobody else does. */
int htc__resp_puts_off(const htc__resp *f, const htc_kv_request *q, const htc_kv_result *a)
{
    return q->op == HTC_KV_GET && a->value.len > HTC__KV_LONG_VALUE && f->output > 0 && f->output + a->value.len > f->options.output_all;
}
