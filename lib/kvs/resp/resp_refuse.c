/* What is not executed: HTTP, and commands that there are not. */
#include <string.h>

#include "core/util.h"
#include "kvs/resp/resp_private.h"

/* Of one kind: who is refused may come again at once, and for ever. */
#define TELL_EVERY (10 * HTC_SECOND)

int htc__resp_error(htc__resp_call *x, const char *text)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc_put_u8(b, '-');
    htc__resp_raw(b, text);
    htc__resp_raw(b, "\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_wrong(htc__resp_call *x, const char *what)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_raw(b, "-ERR Protocol error: ");
    htc__resp_raw(b, what);
    if (x->c->authed && (strcmp(what, "invalid bulk length") == 0 || strcmp(what, "too big a request") == 0))
        htc_put_text(b, " (a request has at most %zu bytes, a value %zu)", x->f->options.request_max, x->f->options.value_max);
    htc__resp_raw(b, "\r\n");
    htc__resp_end(x->f, x->c);
    x->c->closing = 1;
    return 1;
}

int htc__resp_refuse_key(htc__resp_call *x, htc_bytes key)
{
    if (key.len == 0)
        return htc__resp_error(x, "ERR a key of this store has 1 to 400 bytes: this one is empty");
    return key.len > HTC_KV_KEY_MAX ? htc__resp_error(x, "ERR a key of this store has 1 to 400 bytes: this one is longer") : 0;
}

int htc__resp_too_big(htc__resp_call *x, uint32_t op)
{
    htc__resp_failure(x->f, htc__resp_begin(x->f, x->c), HTC_ETOOBIG, op);
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_refuse_pairs(htc__resp_call *x, uint32_t step)
{
    for (uint32_t i = 1; i < x->r->argc; i += step) {
        if (htc__resp_refuse_key(x, htc__resp_arg(x, i)))
            return 1;
        if (step == 2 && htc__resp_arg(x, i + 1).len > x->f->options.value_max)
            return htc__resp_too_big(x, HTC_KV_PUT);
    }
    return 0;
}

/* Of a word of the client's in an error: a reply is one line. */
static void put_word(htc_buf *b, htc_bytes word, size_t most)
{
    for (size_t i = 0; i < word.len && i < most; i++) {
        uint8_t c = ((const uint8_t *)word.data)[i];
        htc_put_u8(b, c < ' ' || c == 127 ? ' ' : c);
    }
}

int htc__resp_unsupported(htc__resp_call *x, htc_bytes option)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_raw(b, "-ERR Unsupported option ");
    put_word(b, option, 64);
    htc__resp_raw(b, "\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}

/* A browser can be made to send requests to this machine, with commands in their body: nothing behind the first line of one, or behind its
 * header Host, is executed. */
int htc__resp_is_http(const htc__resp_call *x)
{
    uint32_t  last = x->r->argc - 1;
    htc_bytes word = htc__resp_arg(x, last);
    return htc__resp_arg_is(x, 0, "POST") || htc__resp_arg_is(x, 0, "HOST:") ||
           (x->r->by_line && last > 0 && word.len > 5 && memcmp(word.data, "HTTP/", 5) == 0);
}

void htc__resp_tell(htc__resp *f, uint32_t peer, htc__resp_refusal why)
{
    static const char *const words[] = { "HTTP where Redis' clients come -> close it, nothing of the request is executed",
                                         "a wrong password or user of a Redis client -> refuse it",
                                         "all connections of Redis' clients are open -> refuse one more" };
    htc__resp_told *t = &f->told[why];
    t->untold++;
    if (t->said && f->now - t->at < TELL_EVERY)
        return;
    htc__log_with(&f->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", peer), HTC__NUMBER("refused", t->untold)),
                  "peer %u: %s (%llu since the last line)", peer, words[why], (unsigned long long)t->untold);
    *t = (htc__resp_told){ .said = 1, .at = f->now };
}

int htc__resp_end_http(htc__resp_call *x)
{
    htc__resp_tell(x->f, (uint32_t)x->c->id, HTC__RESP_IS_HTTP);
    htc__resp_error(x, "ERR this is no HTTP server: the connection ends");
    x->c->closing = 1;
    return 1;
}

int htc__resp_unknown(htc__resp_call *x)
{
    htc_bytes name = htc__resp_arg(x, 0);
    htc_buf  *b = htc__resp_begin(x->f, x->c);
    htc__resp_raw(b, "-ERR unknown command '");
    put_word(b, name, 128);
    htc__resp_raw(b, "', with args beginning with: ");
    for (uint32_t k = 1; k < x->r->argc && k < 4; k++) {
        htc_bytes a = htc__resp_arg(x, k);
        htc_put_u8(b, '\'');
        put_word(b, a, 32);
        htc__resp_raw(b, "' ");
    }
    htc__resp_raw(b, "\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}
