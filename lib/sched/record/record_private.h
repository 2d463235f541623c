/* Sets of node numbers as bits, and how they are written.
 *
 * Written: varint 0 for the empty set, else varint n << 1 | form, n >= 1, then
 *   form 0, ranges:  n times varint gap (from the end of the one before, from 0 for the first), varint length >= 1
 *   form 1, bits:    varint w, n bytes: the bits of the numbers from 64 * w on, low first; neither the first eight
 * bytes nor the last one are zero Which form is the set's own affair, so that equal sets are equal bytes: ranges if
 * there are at most n / 4 of them, n being the bytes that bits would take. A range costs two bytes, and a byte more for
 * each of its numbers from 128 and from 16384 on. All lengths and gaps together are 8 n and the bits before them, so
 * ranges are shorter than bits wherever they are chosen, and quickly written and read, being few. 65,536 nodes: at most
 * 8192 + 4 bytes. */
#ifndef HTC_SCHED_RECORD_PRIVATE_H
#define HTC_SCHED_RECORD_PRIVATE_H

#include "core/codec.h"
#include "htcsched/record.h"

struct htc_record_set {
    const htc_env *env;
    uint64_t      *words; /* number i is bit i % 64 of word i / 64 */
    size_t         n;     /* words; what would be behind them is zero */
};

typedef struct htc__run {
    uint64_t first, end; /* end is behind the last */
} htc__run;

static inline size_t htc__bits_words(uint64_t nodes)
{
    return (size_t)((nodes + 63) / 64);
}

uint32_t htc__bits_count(const uint64_t *words, size_t n);
/* Set or clear first .. end - 1. */
void htc__bits_fill(uint64_t *words, uint64_t first, uint64_t end);
void htc__bits_wipe(uint64_t *words, uint64_t first, uint64_t end);
/* The first run at or after from; 0: there is none. */
int htc__bits_run(const uint64_t *words, size_t n, uint64_t from, htc__run *run);

void htc__bits_put(htc_buf *b, const uint64_t *words, size_t n);
/* Add a written set to words, of which there are enough for numbers below `nodes`. The reader fails on a number from
 * `nodes` on, one that is there already, or a form that htc__bits_put would not have chosen; words are then of no more
 * use. */
void htc__bits_get(htc_reader *r, uint64_t *words, uint32_t nodes);

/* Room for n words, those that are new zero. */
htc_status htc__record_set_reserve(htc_record_set *set, size_t n);
/* Make set these bits; it has room for them. */
void htc__record_set_assign(htc_record_set *set, const uint64_t *words, size_t n);

/* Hand over what was written, in a piece of memory of just that size; frees the buffer. */
htc_status htc__record_take_bytes(const htc_env *env, htc_buf *b, htc_bytes *out);

#endif
