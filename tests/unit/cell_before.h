/* A cell as builds before this one wrote it: format 2, with a count in front of the list, the oldest change first and each told by how far it
 * lies below the cell's version. */
#ifndef HTC_TESTS_CELL_BEFORE_H
#define HTC_TESTS_CELL_BEFORE_H

#include "kvs/cell/cell.h"

static inline void cell_before(htc_buf *b, const htc__kv_cell *cell)
{
    htc_buf now;
    htc_buf_init(&now, NULL, 0);
    htc__kv_cell_write(&now, cell);
    unsigned flags = now.data[1];
    htc_buf_free(&now);
    htc_put_u8(b, 2);
    htc_put_u8(b, (uint8_t)flags);
    if (flags & 1)
        htc_put_varint(b, cell->version);
    if (flags & 4)
        htc__kv_ballot_write(b, &cell->accepted);
    if (flags & 8)
        htc__kv_ballot_write(b, &cell->promise);
    if (flags & 32)
        htc_put_varint(b, cell->forgot);
    if (flags & 64) {
        htc_put_varint(b, cell->lease);
        htc_put_varint(b, cell->ttl);
        htc_put_varint(b, cell->term);
    }
    if (flags & 128)
        htc_put_u8(b, cell->count);
    for (size_t i = cell->count; i-- > 0;) {
        const htc__kv_seen *s = &cell->seen[i];
        htc_put_u64(b, s->client);
        htc_put_varint(b, s->sequence);
        htc_put_varint(b, cell->version - s->version);
        htc_put_varint(b, (uint64_t)s->number << 1 ^ (s->number < 0 ? UINT64_MAX : 0));
    }
    htc_put_raw(b, cell->value);
}

#endif
