#define HTC__FAST /* here they are defined for all */
#include "core/codec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"

void htc_buf_init(htc_buf *b, const htc_env *env, size_t max)
{
    *b = (htc_buf){ .max = max ? max : HTC_BUF_MAX, .alloc = env ? env->alloc : NULL };
}

void htc_buf_free(htc_buf *b)
{
    htc_env env = { .size = sizeof env, .alloc = b->alloc };
    htc__free(&env, b->data, b->cap);
    *b = (htc_buf){ .max = b->max, .alloc = b->alloc };
}

void htc_buf_clear(htc_buf *b)
{
    b->len = 0;
    b->status = HTC_OK;
}

htc_bytes htc_buf_bytes(const htc_buf *b)
{
    return (htc_bytes){ b->data, b->len };
}

static int reserve(htc_buf *b, size_t n)
{
    htc_env env = { .size = sizeof env, .alloc = b->alloc };
    if (b->status != HTC_OK)
        return 0;
    if (n > b->max - b->len) {
        b->status = HTC_EFULL;
        return 0;
    }
    if (b->len + n <= b->cap)
        return 1;
    size_t cap = b->cap ? b->cap : b->max < 64 ? b->max : 64; /* never beyond max: extend looks at cap alone */
    while (cap < b->len + n)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    uint8_t *data = htc__resize_raw(&env, b->data, b->cap, cap);
    if (!data) {
        b->status = HTC_ENOMEM;
        return 0;
    }
    b->data = data;
    b->cap = cap;
    return 1;
}

uint8_t *htc__buf_extend_slowly(htc_buf *b, size_t n)
{
    if (!reserve(b, n))
        return NULL;
    uint8_t *p = b->data ? b->data + b->len : NULL;
    b->len += n;
    return p;
}

void htc_buf_consume(htc_buf *b, size_t n)
{
    b->len -= n;
    if (n && b->len)
        memmove(b->data, b->data + n, b->len);
}

void htc_put_u16(htc_buf *b, uint16_t v)
{
    uint8_t *p = htc_buf_extend(b, 2);
    if (!p)
        return;
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

void htc_put_f64(htc_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    htc_put_u64(b, bits);
}

void htc_put_bytes(htc_buf *b, htc_bytes bytes)
{
    htc_put_varint(b, bytes.len);
    htc_put_raw(b, bytes);
}

void htc_put_str(htc_buf *b, const char *s)
{
    htc_put_bytes(b, htc_bytes_of(s));
}

char *htc__decimal(char *end, int64_t v)
{
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        *--end = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--end = '-';
    return end;
}

void htc_put_text(htc_buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    /* One byte more for the end that vsnprintf writes, given back at once. */
    char *p = n < 0 ? NULL : (char *)htc_buf_extend(b, (size_t)n + 1);
    if (!p)
        return;
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    b->len--;
}

void htc_patch_u32(htc_buf *b, size_t at, uint32_t v)
{
    if (b->status != HTC_OK || at + 4 > b->len)
        return;
    htc__le32_put(b->data + at, v);
}

htc_reader htc_reader_of(htc_bytes bytes)
{
    static const uint8_t none;
    const uint8_t       *p = bytes.len ? bytes.data : &none;
    return (htc_reader){ p, p + bytes.len, HTC_OK };
}

htc_status htc_reader_done(const htc_reader *r)
{
    return r->status != HTC_OK ? r->status : r->p == r->end ? HTC_OK : HTC_EPROTO;
}

void htc_reader_fail(htc_reader *r)
{
    r->status = HTC_EPROTO;
    r->p = r->end;
}

double htc_get_f64(htc_reader *r)
{
    uint64_t bits = htc_get_u64(r);
    double   v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

uint64_t htc__get_long_varint(htc_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = htc_get_u8(r);
        /* The tenth byte holds one bit; a last byte of zero means that a shorter form exists. */
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) {
            htc_reader_fail(r);
            return 0;
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    htc_reader_fail(r);
    return 0;
}

void htc_get_str(htc_reader *r, char *out, size_t cap)
{
    htc_bytes s = htc_get_bytes(r);
    if (s.len >= cap || (s.len && memchr(s.data, 0, s.len))) {
        htc_reader_fail(r);
        s.len = 0;
    }
    if (s.len)
        memcpy(out, s.data, s.len);
    out[s.len] = '\0';
}

size_t htc_get_count(htc_reader *r, size_t min_size)
{
    uint64_t n = htc_get_varint(r);
    if (n > htc_reader_left(r) / (min_size ? min_size : 1)) {
        htc_reader_fail(r);
        return 0;
    }
    return (size_t)n;
}
