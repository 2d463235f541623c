/* Parts of values, and numbers that are no integers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvs/resp/resp_private.h"

#define NOT_AN_INTEGER "ERR value is not an integer or out of range"

int htc__resp_run_getset(htc__resp_call *x)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc__resp_arg(x, 1), .value = htc__resp_arg(x, 2), .flags = HTC_KV_WANT_OLD
    };
    htc__resp_ask(x, &q, KIND_OLD);
    return 1;
}

/* --- GETRANGE, SETRANGE --- */

static int32_t bounded(int64_t n)
{
    return n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int32_t)n;
}

int htc__resp_run_getrange(htc__resp_call *x)
{
    int64_t from, to;
    if (!htc__resp_number(htc__resp_arg(x, 2), &from) || !htc__resp_number(htc__resp_arg(x, 3), &to))
        return htc__resp_error(x, NOT_AN_INTEGER);
    x->f->range = (htc__resp_range){ bounded(from), bounded(to) };
    htc__resp_ask(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__resp_arg(x, 1) }, KIND_RANGE);
    return 1;
}

htc_bytes htc__resp_part(htc_bytes value, htc__resp_range range)
{
    int64_t len = (int64_t)value.len, from = range.from, to = range.to;
    if (from < 0 && to < 0 && from > to)
        return (htc_bytes){ NULL, 0 };
    from = from < 0 ? from + len : from;
    to = to < 0 ? to + len : to;
    from = from < 0 ? 0 : from;
    to = to < 0 ? 0 : to >= len ? len - 1 : to;
    if (from > to || len == 0)
        return (htc_bytes){ NULL, 0 };
    return (htc_bytes){ (const uint8_t *)value.data + from, (size_t)(to - from + 1) };
}

static void set_range(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value,
                      htc_buf *reply)
{
    int64_t   at = 0;
    htc_bytes part = htc__resp_arg(x, 3);
    htc__resp_number(htc__resp_arg(x, 2), &at);
    if (part.len == 0) {
        htc__resp_integer(reply, (int64_t)now->value.len);
        return;
    }
    size_t   end = (size_t)at + part.len, len = end > now->value.len ? end : now->value.len;
    uint8_t *p = htc_buf_extend(value, len);
    if (!p)
        return;
    if (now->value.len)
        memcpy(p, now->value.data, now->value.len);
    memset(p + now->value.len, 0, len - now->value.len);
    memcpy(p + at, part.data, part.len);
    *to = (htc__resp_change){ .what = HTC__RESP_BECOMES, .value = htc_buf_bytes(value), .keeps = now->there };
    htc__resp_integer(reply, (int64_t)len);
}

int htc__resp_run_setrange(htc__resp_call *x)
{
    int64_t at;
    if (!htc__resp_number(htc__resp_arg(x, 2), &at))
        return htc__resp_error(x, NOT_AN_INTEGER);
    if (at < 0)
        return htc__resp_error(x, "ERR offset is out of range");
    if (htc__resp_arg(x, 3).len && (uint64_t)at + htc__resp_arg(x, 3).len > x->f->options.value_max)
        return htc__resp_too_big(x, HTC_KV_PUT);
    return htc__resp_edit_key(x, set_range);
}

/* --- INCRBYFLOAT --- */

/* Of the bytes of a value, with nothing before or behind it. The point is the program's locale's: to others it is a dot. */
static int read_float(htc_bytes text, long double *number)
{
    char copy[256], point[8], *end;
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.data, 0, text.len))
        return 0;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    snprintf(point, sizeof point, "%.1f", 0.5);
    char *dot = strchr(copy, '.');
    if (dot)
        *dot = point[1];
    if (copy[0] == ' ' || (copy[0] >= '\t' && copy[0] <= '\r'))
        return 0;
    *number = strtold(copy, &end);
    return *end == 0 && !isnan(*number);
}

/* As Redis shows it: 17 digits behind the point, without the zeros at their end. */
static size_t write_float(char *text, size_t room, long double number)
{
    int n = snprintf(text, room, "%.17Lf", number);
    if (n < 0 || (size_t)n >= room)
        return 0;
    size_t len = (size_t)n;
    char  *point = text + len - 18;
    *point = '.';
    while (text[len - 1] == '0')
        len--;
    len -= text[len - 1] == '.';
    if (len == 2 && memcmp(text, "-0", 2) == 0) {
        text[0] = '0';
        len = 1;
    }
    return len;
}

static void add_float(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value,
                      htc_buf *reply)
{
    long double sum = 0, delta = 0;
    char        text[5120]; /* the largest has 4933 digits before the point */
    if ((now->there && !read_float(now->value, &sum)) || !read_float(htc__resp_arg(x, 2), &delta)) {
        htc__resp_raw(reply, "-ERR value is not a valid float\r\n");
        return;
    }
    sum += delta;
    size_t len = isnan(sum) || isinf(sum) ? 0 : write_float(text, sizeof text, sum);
    if (len == 0) {
        htc__resp_raw(reply, "-ERR increment would produce NaN or Infinity\r\n");
        return;
    }
    htc_put_raw(value, (htc_bytes){ text, len });
    htc__resp_bulk(reply, htc_buf_bytes(value));
    *to = (htc__resp_change){ .what = HTC__RESP_BECOMES, .value = htc_buf_bytes(value), .keeps = now->there };
}

int htc__resp_run_incrbyfloat(htc__resp_call *x)
{
    long double delta;
    if (!read_float(htc__resp_arg(x, 2), &delta))
        return htc__resp_error(x, "ERR value is not a valid float");
    return htc__resp_edit_key(x, add_float);
}

/* --- MSETNX: a transaction of its own --- */

static void set_all(htc__resp_call *x)
{
    for (uint32_t i = 1; i < x->r->argc; i += 2)
        htc__resp_ask_plain(
            x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__resp_arg(x, i), .value = htc__resp_arg(x, i + 1) });
}

int htc__resp_run_msetnx(htc__resp_call *x)
{
    int there = 0;
    if (x->r->argc % 2 == 0)
        return htc__resp_error(x, "ERR wrong number of arguments for 'msetnx' command");
    if (htc__resp_refuse_pairs(x, 2))
        return 1;
    if (!x->c->exec)
        return htc__resp_transaction_of_one(
            x, "ERR MSETNX of several keys: this store has several members, and each key is a register of its own");
    for (uint32_t i = 1; i < x->r->argc && !there; i += 2)
        there = htc__resp_ask_plain(x, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__resp_arg(x, i) }) == HTC_OK;
    if (!there)
        set_all(x);
    htc__resp_integer(htc__resp_begin(x->f, x->c), !there);
    htc__resp_end(x->f, x->c);
    return 1;
}
