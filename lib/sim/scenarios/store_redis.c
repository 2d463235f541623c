/* Clients of Redis' protocol: streams of bytes to members. They send a command once, know neither versions nor numbers of their own,
 * and of what was on its way when a connection is lost they never hear again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

#define LINE 1100 /* an answer is shorter: a value and what is around it */

/* ---- commands ---- */

static void word(htc_buf *b, htc_bytes bytes)
{
    char head[24];
    int  n = snprintf(head, sizeof head, "$%zu\r\n", bytes.len);
    htc_put_raw(b, (htc_bytes){ head, (size_t)n });
    htc_put_raw(b, bytes);
    htc_put_raw(b, htc_bytes_of("\r\n"));
}

static void command(htc_buf *b, const htc_bytes *words, uint32_t n)
{
    char head[16];
    htc_put_raw(b, (htc_bytes){ head, (size_t)snprintf(head, sizeof head, "*%u\r\n", n) });
    for (uint32_t i = 0; i < n; i++)
        word(b, words[i]);
}

static void ask(htc_buf *b, const htc_kv_request *q)
{
    char      by[24];
    htc_bytes words[6] = { htc_bytes_of("SET"), q->key, q->value };
    uint32_t  n = 3;
    snprintf(by, sizeof by, "%lld", (long long)q->delta);
    switch (q->op) {
    case HTC_KV_GET:
    case HTC_KV_DELETE:
        words[0] = htc_bytes_of(q->op == HTC_KV_GET ? "GET" : "DEL");
        n = 2;
        break;
    case HTC_KV_APPEND:
        words[0] = htc_bytes_of("APPEND");
        break;
    case HTC_KV_ADD:
        words[0] = htc_bytes_of("INCRBY");
        words[2] = htc_bytes_of(by);
        break;
    case HTC_KV_CAS_VALUE:
        words[3] = htc_bytes_of("IFEQ");
        words[4] = q->seen;
        words[5] = htc_bytes_of("GET");
        n = 6;
        break;
    default: /* HTC_KV_PUT */
        break;
    }
    command(b, words, n);
}

htc_status htc__store_redis_submit(store_client *c, const htc_kv_request *q, uint32_t n, htc_output *out)
{
    htc_buf b;
    c->pending = c->sent = n;
    c->told = 0;
    c->moved = c->now;
    htc_buf_init(&b, &c->s->env, 0);
    for (uint32_t i = 0; i < n; i++)
        ask(&b, &q[i]);
    htc_effect e = { .kind = HTC_OUT_BYTES, .peer = c->member + 1, .body = htc_buf_bytes(&b) };
    htc_status status = b.status == HTC_OK ? htc_output_add(out, &e) : b.status;
    htc_buf_free(&b);
    return status;
}

/* ---- answers ---- */

/* The first answer of what has come; 0: it is not all there. */
static size_t answer(const char *text, size_t len, char *kind, htc_bytes *value, long long *number)
{
    const char *end = memchr(text, '\n', len);
    if (!end)
        return 0;
    size_t line = (size_t)(end - text) + 1;
    *kind = text[0];
    *number = strtoll(text + 1, NULL, 10);
    *value = (htc_bytes){ NULL, 0 };
    if (*kind != '$' || *number < 0)
        return line;
    if (len < line + (size_t)*number + 2)
        return 0;
    *value = (htc_bytes){ text + line, (size_t)*number };
    return line + (size_t)*number + 2;
}

static htc_status status_of(const store_client *c, const store_asked *a, char kind, htc_bytes *value, long long number)
{
    if (kind == '-')
        return HTC_EUNKNOWN; /* perhaps it is done, or will be */
    if (a->op == HTC_KV_GET)
        return value->data ? HTC_OK : HTC_ENOTFOUND;
    if (a->op == HTC_KV_DELETE)
        return number ? HTC_OK : HTC_ENOTFOUND;
    if (a->op != HTC_KV_CAS_VALUE)
        return HTC_OK;
    if (!value->data || !htc_bytes_equal(*value, htc_bytes_of(c->seen[a - c->asked])))
        return HTC_MISMATCH;
    *value = (htc_bytes){ NULL, 0 };
    return HTC_OK;
}

static void tell(store_client *c, htc_status status, htc_bytes value, long long number)
{
    const store_asked *a = &c->asked[c->told];
    htc_kv_result      r = { .size = sizeof r, .op = a->op, .index = c->told, .status = status, .value = value, .number = number };
    c->told++;
    htc__store_answered(c, &r);
}

static void hear(store_client *c)
{
    char      kind;
    htc_bytes value;
    long long number;
    size_t    at = 0, n;
    while (c->pending && (n = answer((const char *)c->heard.data + at, c->heard.len - at, &kind, &value, &number))) {
        htc_status status = status_of(c, &c->asked[c->told], kind, &value, number);
        tell(c, status, value, number);
        at += n;
    }
    if (c->heard.len - at > LINE || (!c->pending && at < c->heard.len))
        htc__store_fail(c->s, "client %u hears more than it asked for", c->at);
    memmove(c->heard.data, (const char *)c->heard.data + at, c->heard.len - at);
    c->heard.len -= at;
}

/* ---- connections ---- */

static void lose(store_client *c)
{
    c->member = STORE_NONE;
    htc_buf_clear(&c->heard);
    while (c->pending)
        tell(c, HTC_EUNKNOWN, (htc_bytes){ NULL, 0 }, 0);
}

static htc_status leave(store_client *c, uint32_t m, htc_output *out)
{
    htc_effect close = { .kind = HTC_OUT_CLOSE, .peer = m + 1, .status = HTC_ETIMEDOUT };
    c->open &= ~(UINT32_C(1) << m);
    if (m == c->member)
        lose(c);
    return htc_output_add(out, &close);
}

static htc_status arrives(store_client *c, const htc_input *in, htc_output *out)
{
    uint32_t m = in->peer - 1;
    switch (in->kind) {
    case HTC_IN_OPENED:
        c->open |= UINT32_C(1) << m;
        return HTC_OK;
    case HTC_IN_CLOSED:
        c->open &= ~(UINT32_C(1) << m);
        if (m == c->member)
            lose(c);
        return HTC_OK;
    case HTC_IN_BYTES:
        if (in->body.len == 0)
            return leave(c, m, out);
        if (m != c->member)
            return HTC_OK;
        htc_put_raw(&c->heard, in->body);
        if (c->heard.status == HTC_OK)
            hear(c);
        return c->heard.status;
    default:
        return HTC_OK;
    }
}

static void choose(store_client *c)
{
    uint32_t n = (uint32_t)__builtin_popcount(c->open), m = 0;
    if (c->member != STORE_NONE || n == 0)
        return;
    for (uint32_t skip = (uint32_t)htc_rng_below(&c->rng, n);; m++)
        if ((c->open >> m & 1) && skip-- == 0)
            break;
    c->member = m;
    c->moved = c->now;
}

/* A member answers each command in its own time; who waits for less learns nothing. */
static htc_ns patience(const store_client *c)
{
    return c->s->setting.patience + c->s->setting.request;
}

/* ---- the machine ---- */

htc_status htc__store_redis_step(void *self, const htc_input *in, htc_output *out)
{
    store_client *c = self;
    c->now = in->now;
    htc_status status = arrives(c, in, out);
    if (status == HTC_OK && c->pending && c->now - c->moved >= patience(c))
        status = leave(c, c->member, out);
    choose(c);
    if (status == HTC_OK && c->member != STORE_NONE && htc__store_wants(c) && c->now >= c->next)
        status = htc__store_ask(c, out);
    return status;
}

htc_ns htc__store_redis_deadline(const void *self)
{
    const store_client *c = self;
    if (c->member == STORE_NONE)
        return HTC_NEVER;
    if (c->pending)
        return c->moved + patience(c);
    return htc__store_wants(c) ? c->next : HTC_NEVER;
}
