/**
 * @file htcsched/codec.h
 * @brief The form of bytes in messages, calls and records: a buffer that is written into, and a reader that never leaves its bytes.
 *
 * Integers have their lowest byte first; a length or a count is a varint (7 bits a byte, the lowest first, at most 10 bytes, the
 * shortest form only); bytes and strings are a length and the bytes. Both sides remember their first error, and every call after it does no
 * harm: a whole record is written or read, and looked at once at its end.
 *
 *     htc_buf_init(&b, NULL, 0);
 *     htc_put_str(&b, "node7");
 *     htc_put_varint(&b, slots);
 *     if (b.status == HTC_OK)
 *         send(htc_buf_bytes(&b));
 *
 *     htc_reader r = htc_reader_of(received);
 *     htc_get_str(&r, name, sizeof name);
 *     slots = htc_get_varint(&r);
 *     if (htc_reader_done(&r) != HTC_OK)
 *         refuse();
 *
 * Threads: owner.   Allocation: a buffer's, through env; a reader has none.   Since: 0.2
 */
#ifndef HTCSCHED_CODEC_H
#define HTCSCHED_CODEC_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that are written. A caller reads data, len and status, and writes none of it. */
typedef struct htc_buf {
    uint8_t         *data;   /**< what has been written; NULL: nothing yet */
    size_t           len;    /**< bytes of it */
    size_t           cap;    /**< bytes that there is memory for */
    size_t           max;    /**< never holds more */
    const htc_alloc *alloc;  /**< NULL: malloc */
    htc_status       status; /**< HTC_OK; HTC_EFULL: beyond max; HTC_ENOMEM */
} htc_buf;

/** The most that a buffer holds if nothing else is said, in bytes. */
#define HTC_BUF_MAX ((size_t)64 << 20)

/** Bytes that are read: those from p to end are left. */
typedef struct htc_reader {
    const uint8_t *p;      /**< the next one */
    const uint8_t *end;    /**< behind the last one */
    htc_status     status; /**< HTC_OK; HTC_EPROTO from the first thing on that did not fit */
} htc_reader;

/* ---- writing ---- */

/**
 * Make an empty buffer.
 *
 * @param[out]    b  not NULL
 * @param[in]     env  its allocator is kept; NULL: malloc
 * @param[in]     max  bytes that it holds at most; 0: HTC_BUF_MAX
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_buf_init(htc_buf *b, const htc_env *env, size_t max);

/**
 * Free its memory; it is empty then, and can be used again.
 *
 * @param[in,out] b  not NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_buf_free(htc_buf *b);

/**
 * Empty it: the memory stays, the error is forgotten.
 *
 * @param[in,out] b  not NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_buf_clear(htc_buf *b);

/**
 * What has been written.
 *
 * @param[in]     b  not NULL
 * @return lent until the buffer is written to, cleared or freed
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_bytes htc_buf_bytes(const htc_buf *b);

/**
 * Room for n more bytes at the end, which count as written.
 *
 * @param[in,out] b  not NULL
 * @param[in]     n  bytes
 * @return lent until the buffer is written to, cleared or freed; NULL after an error
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API uint8_t *htc_buf_extend(htc_buf *b, size_t n);

/**
 * Write: one byte.
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_u8(htc_buf *b, uint8_t v);

/**
 * Write: two bytes.
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_u16(htc_buf *b, uint16_t v);

/**
 * Write: four bytes.
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_u32(htc_buf *b, uint32_t v);

/**
 * Write: eight bytes.
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_u64(htc_buf *b, uint64_t v);

/**
 * Write: a double, as its eight bytes (IEEE 754).
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_f64(htc_buf *b, double v);

/**
 * Write: a length, a count, or a number that is mostly small: 1 to 10 bytes.
 *
 * @param[in,out] b  not NULL
 * @param[in]     v  the number
 *
 * Cost: O(1), at times more memory.   Since: 0.2
 */
HTC_API void htc_put_varint(htc_buf *b, uint64_t v);

/**
 * Write bytes without their length.
 *
 * @param[in,out] b  not NULL
 * @param[in]     bytes  copied
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_put_raw(htc_buf *b, htc_bytes bytes);

/**
 * Write bytes behind their length.
 *
 * @param[in,out] b  not NULL
 * @param[in]     bytes  copied
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_put_bytes(htc_buf *b, htc_bytes bytes);

/**
 * Write a string behind its length, without its zero.
 *
 * @param[in,out] b  not NULL
 * @param[in]     s  copied; NULL: an empty one
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_put_str(htc_buf *b, const char *s);

/* ---- reading ---- */

/**
 * A reader at the begin of these bytes.
 *
 * @param[in]     bytes  lent as long as the reader is used
 * @return gives the reader; it needs no end
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_reader htc_reader_of(htc_bytes bytes);

/**
 * Bytes that are left.
 *
 * @param[in]     r  not NULL
 * @return bytes; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_reader_left(const htc_reader *r);

/**
 * Was all of it read, and nothing missing?
 *
 * @param[in]     r  not NULL
 * @return HTC_OK; HTC_EPROTO
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_reader_done(const htc_reader *r);

/**
 * What was read cannot be: from here on there is nothing left.
 *
 * @param[in,out] r  not NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_reader_fail(htc_reader *r);

/**
 * Read: one byte.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint8_t htc_get_u8(htc_reader *r);

/**
 * Read: two bytes.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint16_t htc_get_u16(htc_reader *r);

/**
 * Read: four bytes.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_get_u32(htc_reader *r);

/**
 * Read: eight bytes.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_get_u64(htc_reader *r);

/**
 * Read: a double.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API double htc_get_f64(htc_reader *r);

/**
 * Read: a varint; a longer form than needed is an error.
 *
 * @param[in,out] r  not NULL
 * @return the number; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_get_varint(htc_reader *r);

/**
 * Read n bytes that have no length before them.
 *
 * @param[in,out] r  not NULL
 * @param[in]     n  bytes
 * @return lent, they lie in the reader's bytes; none after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_bytes htc_get_raw(htc_reader *r, size_t n);

/**
 * Read bytes behind their length.
 *
 * @param[in,out] r  not NULL
 * @return lent, they lie in the reader's bytes; none after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_bytes htc_get_bytes(htc_reader *r);

/**
 * Read a string of at most cap - 1 bytes that has no zero byte in it; anything else is an error.
 *
 * @param[in,out] r  not NULL
 * @param[out]    out  the string and its zero; empty after an error
 * @param[in]     cap  bytes of out, at least 1
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_get_str(htc_reader *r, char *out, size_t cap);

/**
 * Read a count of things of at least min_size bytes each; if so many cannot be left it is an error. Allocate after this, never before.
 *
 * @param[in,out] r  not NULL
 * @param[in]     min_size  bytes, at least 1
 * @return the count; 0 after an error
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_get_count(htc_reader *r, size_t min_size);

#ifdef __cplusplus
}
#endif
#endif
