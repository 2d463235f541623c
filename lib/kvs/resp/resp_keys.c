/* Commands on keys, all but SET, SCAN, those of times and of parts. */
#include "kvs/resp/resp_private.h"

static int one(htc__resp_call *x, uint32_t op, htc__resp_kind kind)
{
    htc__resp_ask(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .key = htc__resp_arg(x, 1) }, kind);
    return 1;
}

int htc__resp_run_get(htc__resp_call *x)
{
    return one(x, HTC_KV_GET, KIND_BULK);
}

int htc__resp_run_strlen(htc__resp_call *x)
{
    return one(x, HTC_KV_GET, KIND_LENGTH);
}

int htc__resp_run_type(htc__resp_call *x)
{
    return one(x, HTC_KV_GET, KIND_TYPE);
}

int htc__resp_run_getdel(htc__resp_call *x)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc__resp_arg(x, 1), .flags = HTC_KV_WANT_OLD };
    htc__resp_ask(x, &q, KIND_OLD);
    return 1;
}

int htc__resp_run_append(htc__resp_call *x)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_APPEND, .key = htc__resp_arg(x, 1), .value = htc__resp_arg(x, 2) };
    htc__resp_ask(x, &q, KIND_NUMBER);
    return 1;
}

int htc__resp_run_setnx(htc__resp_call *x)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc__resp_arg(x, 1), .value = htc__resp_arg(x, 2), .flags = HTC_KV_NX
    };
    htc__resp_ask(x, &q, KIND_DONE);
    return 1;
}

/* --- counters --- */

static int add(htc__resp_call *x, int64_t delta)
{
    htc__resp_ask(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = htc__resp_arg(x, 1), .delta = delta }, KIND_NUMBER);
    return 1;
}

int htc__resp_run_incr(htc__resp_call *x)
{
    return add(x, 1);
}

int htc__resp_run_decr(htc__resp_call *x)
{
    return add(x, -1);
}

int htc__resp_run_incrby(htc__resp_call *x)
{
    int64_t delta;
    if (!htc__resp_number(htc__resp_arg(x, 2), &delta))
        return htc__resp_error(x, "ERR value is not an integer or out of range");
    return add(x, delta);
}

int htc__resp_run_decrby(htc__resp_call *x)
{
    int64_t delta;
    if (!htc__resp_number(htc__resp_arg(x, 2), &delta))
        return htc__resp_error(x, "ERR value is not an integer or out of range");
    if (delta == INT64_MIN)
        return htc__resp_error(x, "ERR decrement would overflow");
    return add(x, -delta);
}

/* --- several keys: interrupted where the connection has to wait, and gone on with at next_arg --- */

int htc__resp_run_mget(htc__resp_call *x)
{
    if (x->c->next_arg == 0 && htc__resp_refuse_pairs(x, 1))
        return 1;
    if (x->c->next_arg == 0) {
        htc__resp_head(htc__resp_begin(x->f, x->c), '*', x->r->argc - 1);
        htc__resp_end(x->f, x->c);
        x->c->next_arg = 1;
    }
    for (; x->c->next_arg < x->r->argc && !x->c->broken; x->c->next_arg++) {
        if (!htc__resp_may_ask(x->f, x->c) || !htc__resp_may_read(x, htc__resp_arg(x, x->c->next_arg)))
            return 0;
        htc__resp_ask(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__resp_arg(x, x->c->next_arg) }, KIND_BULK);
        if (x->c->put_off) /* this one is not answered yet */
            return 0;
    }
    return 1;
}

/* One reply for all: how many, or OK. */
static int each(htc__resp_call *x, uint32_t op, htc__resp_kind kind, uint32_t step)
{
    htc__resp_conn *c = x->c;
    if (c->next_arg == 0 && htc__resp_refuse_pairs(x, step))
        return 1;
    if (c->next_arg == 0) {
        uint64_t        slot = c->tail;
        htc__resp_slot *s = htc__resp_slot_add(x->f, c, kind);
        if (!s)
            return 1;
        s->parts = (x->r->argc - 1) / step;
        c->sum = slot;
        c->next_arg = 1;
    }
    for (; c->next_arg < x->r->argc && !c->broken; c->next_arg += step) {
        size_t bytes = step == 2 ? htc__resp_arg(x, c->next_arg + 1).len : 0;
        if (op == HTC_KV_GET ? !htc__resp_may_read(x, htc__resp_arg(x, x->c->next_arg)) : !htc__resp_may_change(x, bytes))
            return 0;
        htc_kv_request q = { .size = sizeof q, .op = op, .key = htc__resp_arg(x, c->next_arg) };
        if (step == 2)
            q.value = htc__resp_arg(x, c->next_arg + 1);
        htc__resp_ask(x, &q, kind);
    }
    return 1;
}

int htc__resp_run_mset(htc__resp_call *x)
{
    if (x->r->argc % 2 == 0)
        return htc__resp_error(x, "ERR wrong number of arguments for 'mset' command");
    return each(x, HTC_KV_PUT, KIND_ALL, 2);
}

int htc__resp_run_del(htc__resp_call *x)
{
    return x->r->argc == 2 ? one(x, HTC_KV_DELETE, KIND_DONE) : each(x, HTC_KV_DELETE, KIND_SUM, 1);
}

int htc__resp_run_exists(htc__resp_call *x)
{
    return x->r->argc == 2 ? one(x, HTC_KV_GET, KIND_DONE) : each(x, HTC_KV_GET, KIND_SUM, 1);
}
