/* The forms of answers: RESP2, and RESP3 where they differ. */
#include <stdio.h>
#include <string.h>

#include "kvs/resp/resp_private.h"

void htc__resp_raw(htc_buf *b, const char *text)
{
    htc_put_raw(b, htc_bytes_of(text));
}

/* The longest head: a type, a sign, 19 digits, the line's end. */
#define HEAD_MAX 24

/* A type, a number, the line's end, written backwards from end: without printf, for every reply has one. */
static char *head(char *end, char type, int64_t number)
{
    *--end = '\n';
    *--end = '\r';
    end = htc__decimal(end, number);
    *--end = type;
    return end;
}

void htc__resp_head(htc_buf *b, char type, int64_t number)
{
    char text[HEAD_MAX], *p = head(text + sizeof text, type, number);
    htc_put_raw(b, (htc_bytes){ p, (size_t)(text + sizeof text - p) });
}

void htc__resp_bulk(htc_buf *b, htc_bytes bytes)
{
    char     text[HEAD_MAX], *h = head(text + sizeof text, '$', (int64_t)bytes.len);
    size_t   len = (size_t)(text + sizeof text - h);
    uint8_t *p = htc_buf_extend(b, len + bytes.len + 2);
    if (!p)
        return;
    memcpy(p, h, len);
    if (bytes.len)
        memcpy(p + len, bytes.data, bytes.len);
    p[len + bytes.len] = '\r';
    p[len + bytes.len + 1] = '\n';
}

void htc__resp_text(htc_buf *b, const char *text)
{
    htc__resp_bulk(b, htc_bytes_of(text));
}

void htc__resp_null(const htc__resp_conn *c, htc_buf *b)
{
    htc__resp_raw(b, c->proto == 3 ? "_\r\n" : "$-1\r\n");
}

void htc__resp_integer(htc_buf *b, int64_t number)
{
    htc__resp_head(b, ':', number);
}

void htc__resp_map(const htc__resp_conn *c, htc_buf *b, int64_t pairs)
{
    htc__resp_head(b, c->proto == 3 ? '%' : '*', c->proto == 3 ? pairs : 2 * pairs);
}

static int reads(uint32_t op)
{
    return op == HTC_KV_GET || op == HTC_KV_SCAN || op == HTC_KV_COUNT;
}

/* The first word is what clients look at. */
void htc__resp_failure(const htc__resp *f, htc_buf *b, htc_status status, uint32_t op)
{
    const char *text = NULL;
    char        limit[96];
    if (status == HTC_EINVAL && op == HTC_KV_ADD)
        text = "ERR value is not an integer or out of range";
    else if (status == HTC_ETOOBIG && op == HTC_KV_SCAN)
        text = "ERR KEYS answers at most 33554432 bytes: take SCAN";
    else if (status == HTC_ETOOBIG && op == HTC_KV_ADD)
        text = "ERR increment or decrement would overflow";
    else if (status == HTC_ETOOBIG &&
             snprintf(limit, sizeof limit, "ERR string exceeds maximum allowed size (%zu bytes here)", f->options.value_max) > 0)
        text = limit;
    else if (status == HTC_EFULL)
        text = "OOM command not allowed when used memory > 'maxmemory'.";
    else if (status == HTC_ENOSPC)
        text = "MISCONF the disk is full: changes are refused, reads go on";
    else if (status == HTC_EUNSUPPORTED)
        text = "ERR this store does not do that";
    else if (status == HTC_EUNREACHABLE || status == HTC_ETIMEDOUT)
        text = reads(op) ? "CLUSTERDOWN no owner has answered in time" : "CLUSTERDOWN no owner has answered in time; it may be done all the same";
    else if (status == HTC_EBUSY || status == HTC_AGAIN)
        text = "TRYAGAIN the store is busy";
    htc_put_u8(b, '-');
    if (!text)
        htc__resp_raw(b, "ERR ");
    htc__resp_raw(b, text ? text : htc_strerror(status));
    htc__resp_raw(b, "\r\n");
}

static int64_t milliseconds(htc_ns ns)
{
    return ns / HTC_MS > INT64_MAX ? INT64_MAX : (int64_t)(ns / HTC_MS);
}

static void left(htc__resp_kind kind, const htc_kv_result *a, htc_buf *b)
{
    int64_t ms = milliseconds(a->ttl);
    if (a->status == HTC_ENOTFOUND)
        htc__resp_integer(b, -2);
    else if (a->ttl == 0)
        htc__resp_integer(b, -1);
    else
        htc__resp_integer(b, kind == KIND_PTTL ? ms : ms / 1000 + (ms % 1000 >= 500));
}

/* The moment since 1970. */
static void end(const htc__resp *f, htc__resp_kind kind, const htc_kv_result *a, htc_buf *b)
{
    int64_t ms = milliseconds(a->ttl), now = milliseconds(f->wall);
    if (a->status == HTC_ENOTFOUND || a->ttl == 0) {
        htc__resp_integer(b, a->status == HTC_ENOTFOUND ? -2 : -1);
        return;
    }
    ms = milliseconds(a->ttl % HTC_MS + f->wall % HTC_MS) + (ms > INT64_MAX - now - 1000 ? INT64_MAX - now - 1000 : ms) + now;
    htc__resp_integer(b, kind == KIND_PEND ? ms : (ms + 500) / 1000);
}

static void value_or_null(const htc__resp_conn *c, int there, const htc_kv_result *a, htc_buf *b)
{
    if (there)
        htc__resp_bulk(b, a->value);
    else
        htc__resp_null(c, b);
}

/* The kinds whose answer is not an error when the key, or the condition, is not there. */
static int is_outcome(htc__resp_kind kind, htc_status status)
{
    return status == HTC_OK ||
           (status == HTC_ENOTFOUND && kind != KIND_OK && kind != KIND_NUMBER && kind != KIND_SCAN && kind != KIND_STANDS) ||
           (status == HTC_MISMATCH &&
            (kind == KIND_OK_OR_NULL || kind == KIND_OLD || kind == KIND_SEEN || kind == KIND_DONE));
}

void htc__resp_reply(htc__resp *f, htc__resp_conn *c, htc__resp_kind kind, const htc_kv_result *a, htc_buf *b)
{
    int ok = a->status == HTC_OK;
    if (!is_outcome(kind, a->status)) {
        htc__resp_failure(f, b, a->status, kind == KIND_NUMBER && a->op != HTC_KV_APPEND ? HTC_KV_ADD : a->op);
        return;
    }
    switch (kind) {
    case KIND_BULK:
        f->stats.hits += (uint64_t)ok;
        f->stats.misses += (uint64_t)!ok;
        value_or_null(c, ok, a, b);
        break;
    case KIND_OK:
        htc__resp_raw(b, "+OK\r\n");
        break;
    case KIND_OK_OR_NULL:
        if (ok)
            htc__resp_raw(b, "+OK\r\n");
        else
            htc__resp_null(c, b);
        break;
    case KIND_OLD:
        if (ok && !a->existed && a->number) { /* said again between members, and made before: something was there */
            htc__resp_failure(f, b, HTC_EUNKNOWN, 0);
            break;
        }
        value_or_null(c, ok ? a->existed != 0 : a->status == HTC_MISMATCH && a->version != 0, a, b);
        break;
    case KIND_SEEN:
        value_or_null(c, a->status == HTC_MISMATCH && a->version != 0, a, b);
        break;
    case KIND_NUMBER:
        htc__resp_integer(b, a->number);
        break;
    case KIND_LENGTH:
        htc__resp_integer(b, ok ? (int64_t)a->value.len : 0);
        break;
    case KIND_DONE:
        htc__resp_integer(b, ok);
        break;
    case KIND_TTL:
    case KIND_PTTL:
        left(kind, a, b);
        break;
    case KIND_END:
    case KIND_PEND:
        end(f, kind, a, b);
        break;
    case KIND_RANGE:
        htc__resp_bulk(b, ok ? htc__resp_part(a->value, f->range) : (htc_bytes){ NULL, 0 });
        break;
    case KIND_TYPE:
        htc__resp_raw(b, ok ? "+string\r\n" : "+none\r\n");
        break;
    case KIND_SCAN:
        htc__resp_scan_reply(f, a, b);
        break;
    case KIND_TEXT:
    case KIND_SUM:
    case KIND_ALL:
    case KIND_INFO:
    case KIND_JOB:
    case KIND_EDIT:
    case KIND_WATCH:
    case KIND_STANDS:
        break;
    }
}
