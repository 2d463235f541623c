/* What the library has of the codec beside htcsched/codec.h: the definitions of what is called for every few bytes, and text. */
#ifndef HTC_CORE_CODEC_H
#define HTC_CORE_CODEC_H

#include <string.h>

#include "htcsched/codec.h"

/* Fast inside the library, where these definitions are seen; the symbols that others call are codec.c's, which sees them without this. */
#ifndef HTC__FAST
#define HTC__FAST extern inline __attribute__((gnu_inline))
#endif

void htc__le32_put(uint8_t *p, uint32_t v);
void htc__le64_put(uint8_t *p, uint64_t v);
uint32_t htc__le32_get(const uint8_t *p);
uint64_t htc__le64_get(const uint8_t *p);
const uint8_t *htc__get_fixed(htc_reader *r, size_t n);

/* For what follows: as much more memory as n bytes take. */
uint8_t *htc__buf_extend_slowly(htc_buf *b, size_t n);
/* Room for n more bytes at the end, counted as written, as they come; NULL after an error. */
HTC__FAST uint8_t *htc_buf_extend(htc_buf *b, size_t n)
{
    if (b->status != HTC_OK || n > b->cap - b->len)
        return htc__buf_extend_slowly(b, n);
    uint8_t *p = b->data ? b->data + b->len : NULL;
    b->len += n;
    return p;
}
/* Remove n bytes from the front (n <= len). */
void htc_buf_consume(htc_buf *b, size_t n);

/* No length. */
HTC__FAST void htc_put_raw(htc_buf *b, htc_bytes bytes)
{
    uint8_t *p = bytes.len ? htc_buf_extend(b, bytes.len) : NULL;
    if (p)
        memcpy(p, bytes.data, bytes.len);
}

HTC__FAST void htc_put_u8(htc_buf *b, uint8_t v)
{
    uint8_t *p = htc_buf_extend(b, 1);
    if (p)
        *p = v;
}

/* The lowest byte first; compilers make one store, or one load, of it. */
HTC__FAST void htc__le32_put(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

HTC__FAST void htc__le64_put(uint8_t *p, uint64_t v)
{
    htc__le32_put(p, (uint32_t)v);
    htc__le32_put(p + 4, (uint32_t)(v >> 32));
}

HTC__FAST uint32_t htc__le32_get(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

HTC__FAST uint64_t htc__le64_get(const uint8_t *p)
{
    return htc__le32_get(p) | (uint64_t)htc__le32_get(p + 4) << 32;
}

HTC__FAST void htc_put_u32(htc_buf *b, uint32_t v)
{
    uint8_t *p = htc_buf_extend(b, 4);
    if (p)
        htc__le32_put(p, v);
}

HTC__FAST void htc_put_u64(htc_buf *b, uint64_t v)
{
    uint8_t *p = htc_buf_extend(b, 8);
    if (p)
        htc__le64_put(p, v);
}

HTC__FAST void htc_put_varint(htc_buf *b, uint64_t v)
{
    uint8_t form[10];
    size_t  n = 0;
    for (; v >= 0x80; v >>= 7)
        form[n++] = (uint8_t)(v | 0x80);
    form[n++] = (uint8_t)v;
    htc_put_raw(b, (htc_bytes){ form, n });
}

/* A number in decimal, written backwards from end (20 bytes at most); where it begins. */
char *htc__decimal(char *end, int64_t v);
/* printf into the buffer, no length, no end. */
void htc_put_text(htc_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Overwrite four bytes written before at offset at. */
void htc_patch_u32(htc_buf *b, size_t at, uint32_t v);

HTC__FAST size_t htc_reader_left(const htc_reader *r)
{
    return (size_t)(r->end - r->p);
}

HTC__FAST uint8_t htc_get_u8(htc_reader *r)
{
    if (r->p != r->end) /* never so after an error */
        return *r->p++;
    htc_reader_fail(r);
    return 0;
}

/* So many bytes, borrowed; NULL: they are not there. */
HTC__FAST const uint8_t *htc__get_fixed(htc_reader *r, size_t n)
{
    const uint8_t *p = r->p;
    if (htc_reader_left(r) < n) { /* always so after an error */
        htc_reader_fail(r);
        return NULL;
    }
    r->p += n;
    return p;
}

HTC__FAST uint16_t htc_get_u16(htc_reader *r)
{
    const uint8_t *p = htc__get_fixed(r, 2);
    return p ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

HTC__FAST uint32_t htc_get_u32(htc_reader *r)
{
    const uint8_t *p = htc__get_fixed(r, 4);
    return p ? htc__le32_get(p) : 0;
}

HTC__FAST uint64_t htc_get_u64(htc_reader *r)
{
    const uint8_t *p = htc__get_fixed(r, 8);
    return p ? htc__le64_get(p) : 0;
}

/* One of more than a byte. */
uint64_t htc__get_long_varint(htc_reader *r);

HTC__FAST uint64_t htc_get_varint(htc_reader *r)
{
    return r->p != r->end && *r->p < 0x80 ? *r->p++ : htc__get_long_varint(r);
}

/* Borrowed from the reader's bytes, no length before it. */
HTC__FAST htc_bytes htc_get_raw(htc_reader *r, size_t n)
{
    const uint8_t *p = r->status == HTC_OK ? htc__get_fixed(r, n) : NULL;
    return (htc_bytes){ p, p ? n : 0 };
}

/* The same behind its length. */
HTC__FAST htc_bytes htc_get_bytes(htc_reader *r)
{
    uint64_t n = htc_get_varint(r);
    if (n <= htc_reader_left(r))
        return htc_get_raw(r, (size_t)n);
    htc_reader_fail(r);
    return (htc_bytes){ NULL, 0 };
}

#endif
