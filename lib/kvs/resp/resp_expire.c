/* How long a key lives: EXPIRE and its kind, TTL, PERSIST, and what sets or reads a value with a time. */
#include "kvs/resp/resp_private.h"

/* Redis counts in milliseconds of 64 bits, the store in nanoseconds of as many: beyond this a key lives as long as there is. */
#define LIFE_MAX_MS (INT64_MAX / (int64_t)HTC_MS)

static int one(htc__resp_call *x, const htc_kv_request *q, htc__resp_kind kind)
{
    htc__resp_ask(x, q, kind);
    return 1;
}

/* "…-ERR invalid expire time in 'setex' command" */
static int invalid_time(htc__resp_call *x)
{
    htc_bytes name = htc__resp_arg(x, 0);
    htc_buf  *b = htc__resp_begin(x->f, x->c);
    htc__resp_raw(b, "-ERR invalid expire time in '");
    for (size_t i = 0; i < name.len; i++)
        htc_put_u8(b, ((const uint8_t *)name.data)[i] | 0x20);
    htc__resp_raw(b, "' command\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_time(const htc__resp_call *x, htc_bytes text, int64_t unit_ms, int moment, int64_t *left_ms)
{
    int64_t n, now_ms = (int64_t)(x->f->wall / HTC_MS);
    if (!htc__resp_number(text, &n))
        return HTC__RESP_NO_NUMBER;
    if (__builtin_mul_overflow(n, unit_ms, &n) || __builtin_sub_overflow(n, moment ? now_ms : 0, left_ms) ||
        (!moment && n > INT64_MAX - now_ms))
        return HTC__RESP_NO_TIME;
    return n > 0 ? HTC__RESP_TIME : HTC__RESP_PAST;
}

htc_ns htc__resp_life(int64_t left_ms)
{
    return left_ms <= 0 ? 1 : left_ms > LIFE_MAX_MS ? (htc_ns)INT64_MAX : (htc_ns)left_ms * HTC_MS;
}

/* A time that has to lie ahead: 0, or it is said what is wrong with it. */
static int time_ahead(htc__resp_call *x, uint32_t i, int64_t unit_ms, int moment, int64_t *left_ms)
{
    int is = htc__resp_time(x, htc__resp_arg(x, i), unit_ms, moment, left_ms);
    if (is == HTC__RESP_NO_NUMBER)
        return htc__resp_error(x, "ERR value is not an integer or out of range");
    return is == HTC__RESP_TIME ? 0 : invalid_time(x);
}

static int set_with_time(htc__resp_call *x, int64_t unit_ms)
{
    int64_t left = 0;
    if (time_ahead(x, 2, unit_ms, 0, &left))
        return 1;
    return one(
        x,
        &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__resp_arg(x, 1), .value = htc__resp_arg(x, 3), .ttl = htc__resp_life(left) },
        KIND_OK);
}

int htc__resp_run_setex(htc__resp_call *x)
{
    return set_with_time(x, 1000);
}

int htc__resp_run_psetex(htc__resp_call *x)
{
    return set_with_time(x, 1);
}

/* --- EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT --- */

enum { NX = 1, XX = 2, GT = 4, LT = 8 };

/* The words behind the time; -1: it is said what is wrong with them. */
static int conditions(htc__resp_call *x)
{
    int all = 0;
    for (uint32_t i = 3; i < x->r->argc; i++) {
        int is = htc__resp_arg_is(x, i, "NX")   ? NX
                 : htc__resp_arg_is(x, i, "XX") ? XX
                 : htc__resp_arg_is(x, i, "GT") ? GT
                 : htc__resp_arg_is(x, i, "LT") ? LT
                                                : 0;
        if (!is) {
            htc__resp_unsupported(x, htc__resp_arg(x, i));
            return -1;
        }
        all |= is;
    }
    if ((all & NX && all & (XX | GT | LT)) || (all & GT && all & LT)) {
        htc__resp_error(x, all & NX ? "ERR NX and XX, GT or LT options at the same time are not compatible"
                                    : "ERR GT and LT options at the same time are not compatible");
        return -1;
    }
    return all;
}

typedef struct unit {
    int64_t ms;
    int     moment;
} unit;

static unit unit_of(const htc__resp_call *x)
{
    htc_bytes name = htc__resp_arg(x, 0);
    int       p = (((const uint8_t *)name.data)[0] & 0xdf) == 'P';
    return (unit){ p ? 1 : 1000, name.len > (p ? 7u : 6u) };
}

static int holds(int all, const htc__resp_state *now, int64_t left_ms)
{
    htc_ns life = htc__resp_life(left_ms);
    if ((all & NX && now->ttl) || (all & XX && !now->ttl))
        return 0;
    if (all & GT)
        return now->ttl && life > now->ttl;
    return !(all & LT) || !now->ttl || left_ms <= 0 || life < now->ttl;
}

static void expire_if(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value,
                      htc_buf *reply)
{
    unit    u = unit_of(x);
    int64_t left = 0;
    int     all = 0;
    htc__resp_time(x, htc__resp_arg(x, 2), u.ms, u.moment, &left);
    for (uint32_t i = 3; i < x->r->argc; i++)
        all |= htc__resp_arg_is(x, i, "NX")   ? NX
               : htc__resp_arg_is(x, i, "XX") ? XX
               : htc__resp_arg_is(x, i, "GT") ? GT
                                              : LT;
    int done = now->there && holds(all, now, left);
    htc__resp_integer(reply, done);
    if (!done)
        return;
    htc_put_raw(value, now->value);
    *to = (htc__resp_change){ .what = left <= 0 ? HTC__RESP_GOES : HTC__RESP_BECOMES,
                              .value = htc_buf_bytes(value),
                              .ttl = htc__resp_life(left) };
}

int htc__resp_run_expire(htc__resp_call *x)
{
    unit    u = unit_of(x);
    int64_t left = 0;
    int     is = htc__resp_time(x, htc__resp_arg(x, 2), u.ms, u.moment, &left);
    if (is == HTC__RESP_NO_NUMBER)
        return htc__resp_error(x, "ERR value is not an integer or out of range");
    if (is == HTC__RESP_NO_TIME)
        return invalid_time(x);
    int all = conditions(x);
    if (all < 0)
        return 1;
    if (all)
        return htc__resp_edit_key(x, expire_if);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc__resp_arg(x, 1) };
    if (left > 0)
        q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = q.key, .flags = HTC_KV_TOUCH, .ttl = htc__resp_life(left) };
    return one(x, &q, KIND_DONE);
}

int htc__resp_run_persist(htc__resp_call *x)
{
    return one(
        x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__resp_arg(x, 1), .flags = HTC_KV_TOUCH | HTC_KV_PERSIST },
        KIND_DONE);
}

/* --- GETEX --- */

static void get_persist(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value,
                        htc_buf *reply)
{
    if (!now->there) {
        htc__resp_null(x->c, reply);
        return;
    }
    htc__resp_bulk(reply, now->value);
    if (!now->ttl)
        return;
    htc_put_raw(value, now->value);
    *to = (htc__resp_change){ .what = HTC__RESP_BECOMES, .value = htc_buf_bytes(value) };
}

int htc__resp_run_getex(htc__resp_call *x)
{
    int64_t        left = 0;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__resp_arg(x, 1) };
    if (x->r->argc == 2)
        return one(x, &q, KIND_BULK);
    if (htc__resp_arg_is(x, 2, "PERSIST") && x->r->argc == 3)
        return htc__resp_edit_key(x, get_persist);
    int seconds = htc__resp_arg_is(x, 2, "EX") || htc__resp_arg_is(x, 2, "EXAT");
    int moment = htc__resp_arg_is(x, 2, "EXAT") || htc__resp_arg_is(x, 2, "PXAT");
    if (x->r->argc != 4 || (!seconds && !moment && !htc__resp_arg_is(x, 2, "PX")))
        return htc__resp_error(x, "ERR syntax error");
    if (time_ahead(x, 3, seconds ? 1000 : 1, moment, &left))
        return 1;
    q = left > 0 ? (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT,
                                     .key = q.key,
                                     .flags = HTC_KV_TOUCH | HTC_KV_WANT_OLD,
                                     .ttl = htc__resp_life(left) }
                 : (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = q.key, .flags = HTC_KV_WANT_OLD };
    return one(x, &q, KIND_OLD);
}

/* --- what is left --- */

static int left(htc__resp_call *x, htc__resp_kind kind)
{
    return one(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__resp_arg(x, 1) }, kind);
}

int htc__resp_run_ttl(htc__resp_call *x)
{
    return left(x, KIND_TTL);
}

int htc__resp_run_pttl(htc__resp_call *x)
{
    return left(x, KIND_PTTL);
}

int htc__resp_run_expiretime(htc__resp_call *x)
{
    return left(x, KIND_END);
}

int htc__resp_run_pexpiretime(htc__resp_call *x)
{
    return left(x, KIND_PEND);
}
