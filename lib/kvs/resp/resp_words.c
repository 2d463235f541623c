/* The arguments of a request, where they came in or kept. */
#include "kvs/resp/resp_private.h"

htc_bytes htc__resp_arg(const htc__resp_call *x, uint32_t i)
{
    return htc__resp_arg_of(x->r, x->base, i);
}

int htc__resp_arg_is(const htc__resp_call *x, uint32_t i, const char *word)
{
    htc_bytes a = htc__resp_arg(x, i);
    size_t    k = 0;
    for (; k < a.len && word[k]; k++) {
        uint8_t c = ((const uint8_t *)a.data)[k];
        if ((c >= 'a' && c <= 'z' ? c - 32 : c) != word[k])
            return 0;
    }
    return k == a.len && !word[k];
}

size_t htc__resp_longest(const htc__resp_call *x)
{
    size_t most = 0;
    for (uint32_t i = 1; i < x->r->argc && i < 4; i++)
        most = x->r->args[i].len > most ? x->r->args[i].len : most;
    return most;
}

void htc__resp_pack(htc_buf *b, const htc__resp_call *x)
{
    htc_put_u32(b, x->r->argc);
    for (uint32_t i = 0; i < x->r->argc; i++) {
        htc_bytes a = htc__resp_arg(x, i);
        htc_put_u32(b, (uint32_t)a.len);
        htc_put_raw(b, a);
    }
}

int htc__resp_unpack(htc__resp_request *r, htc_bytes packed, size_t *at)
{
    htc_reader p = htc_reader_of((htc_bytes){ (const uint8_t *)packed.data + *at, packed.len - *at });
    htc__resp_request_clear(r);
    r->argc = htc_get_u32(&p);
    for (uint32_t i = 0; i < r->argc; i++) {
        uint32_t len = htc_get_u32(&p);
        if (htc__resp_request_add(r, packed.len - htc_reader_left(&p), len) != 1)
            return 0;
        htc_get_raw(&p, len);
    }
    *at = packed.len - htc_reader_left(&p);
    return 1;
}
