/* What is not executed: HTTP, and commands that there are not. */
#include <string.h>

#include "core/util.h"
#include "kvs/resp_private.h"

int htc__resp_refuse_key(htc__resp_call *x, htc_bytes key)
{
    if (key.len == 0)
        return htc__resp_error(x, "ERR a key of this store has 1 to 400 bytes: this one is empty");
    return key.len > HTC_KV_KEY_MAX ? htc__resp_error(x, "ERR a key of this store has 1 to 400 bytes: this one is longer") : 0;
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

int htc__resp_end_http(htc__resp_call *x)
{
    uint32_t peer = (uint32_t)x->c->id;
    htc__log_with(&x->f->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", peer)),
                  "peer %u: HTTP where Redis' clients come -> close it, nothing of the request is executed", peer);
    htc__resp_error(x, "ERR this is no HTTP server: the connection ends");
    x->c->closing = 1;
    return 1;
}

int htc__resp_unknown(htc__resp_call *x)
{
    htc_bytes name = htc__resp_arg(x, 0);
    htc_buf  *b = htc__resp_begin(x->f, x->c);
    htc__resp_raw(b, "-ERR unknown command '");
    for (size_t i = 0; i < name.len && i < 128; i++) { /* a reply is one line */
        uint8_t c = ((const uint8_t *)name.data)[i];
        htc_put_u8(b, c < ' ' || c == 127 ? ' ' : c);
    }
    htc__resp_raw(b, "', with args beginning with: ");
    for (uint32_t k = 1; k < x->r->argc && k < 4; k++) {
        htc_bytes a = htc__resp_arg(x, k);
        htc_put_u8(b, '\'');
        for (size_t i = 0; i < a.len && i < 32; i++) {
            uint8_t c = ((const uint8_t *)a.data)[i];
            htc_put_u8(b, c < ' ' || c == 127 ? ' ' : c);
        }
        htc__resp_raw(b, "' ");
    }
    htc__resp_raw(b, "\r\n");
    htc__resp_end(x->f, x->c);
    return 1;
}
