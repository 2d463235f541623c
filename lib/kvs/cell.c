#include "kvs/cell.h"

#include <string.h>

enum {
    PRESENT = 1,
    DELETED = 2,
    ACCEPTED = 4,
    PROMISE = 8, /* neither `accepted` nor its successor: it follows */
    NEXT = 16,   /* the promise is the successor of `accepted` */
    FORGOT = 32,
    LIFE = 64,
    LIST = 128
};

htc__kv_cell htc__kv_cell_absent(const htc__kv_floors *floors)
{
    htc__kv_cell cell = { .present = 0 };
    if (floors)
        cell.version = cell.forgot = floors->version;
    return cell;
}

int htc__kv_cell_empty(const htc__kv_cell *cell)
{
    return !cell->present && htc__kv_ballot_none(&cell->promise);
}

void htc__kv_ballot_write(htc_buf *b, const htc__kv_ballot *ballot)
{
    htc_put_varint(b, ballot->epoch);
    htc_put_varint(b, ballot->counter);
    htc_put_u64(b, ballot->proposer);
}

htc__kv_ballot htc__kv_ballot_read(htc_reader *r)
{
    htc__kv_ballot ballot;
    ballot.epoch = htc_get_varint(r);
    ballot.counter = htc_get_varint(r);
    ballot.proposer = htc_get_u64(r);
    return ballot;
}

static uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
}

static uint8_t flags_of(const htc__kv_cell *cell)
{
    unsigned       flags = 0;
    htc__kv_ballot next = htc__kv_ballot_next(cell->accepted);
    if (!htc__kv_ballot_none(&cell->accepted))
        flags |= ACCEPTED;
    if (flags && htc__kv_ballot_compare(&cell->promise, &next) == 0)
        flags |= NEXT;
    else if (htc__kv_ballot_compare(&cell->promise, &cell->accepted) != 0)
        flags |= PROMISE;
    if (cell->present)
        flags |= PRESENT | (cell->deleted ? DELETED : 0u) | (cell->forgot ? FORGOT : 0u) | (cell->count ? LIST : 0u) |
                 (cell->lease || cell->ttl || cell->term ? LIFE : 0u);
    return (uint8_t)flags;
}

/* Nothing hangs on it: most cells where a key has one owner. They are written and read without a look at all the rest. */
static int is_plain(const htc__kv_cell *cell)
{
    return cell->present && !(cell->deleted | cell->count) && !(cell->lease | cell->ttl | cell->term) &&
           htc__kv_ballot_none(&cell->accepted) && htc__kv_ballot_none(&cell->promise);
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static void write_plain(htc_buf *b, const htc__kv_cell *cell)
{
    uint8_t  head[2 + 10 + 10] = { HTC__KV_CELL_FORMAT, cell->forgot ? PRESENT | FORGOT : PRESENT };
    uint8_t *end = put_varint(head + 2, cell->version);
    if (cell->forgot)
        end = put_varint(end, cell->forgot);
    size_t   len = (size_t)(end - head);
    uint8_t *p = htc_buf_extend(b, len + cell->value.len);
    if (!p)
        return;
    memcpy(p, head, len);
    if (cell->value.len)
        memcpy(p + len, cell->value.data, cell->value.len);
}

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    for (size_t i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
    return p + 8;
}

static uint8_t *put_ballot(uint8_t *p, const htc__kv_ballot *ballot)
{
    return put_u64(put_varint(put_varint(p, ballot->epoch), ballot->counter), ballot->proposer);
}

static uint8_t *put_list(uint8_t *p, const htc__kv_cell *cell)
{
    *p++ = cell->count;
    for (size_t i = 0; i < cell->count; i++) {
        const htc__kv_seen *seen = &cell->seen[i];
        p = put_varint(put_varint(put_u64(p, seen->client), seen->sequence), cell->version - seen->version);
        p = put_varint(p, zigzag(seen->number));
    }
    return p;
}

/* Format and flags, version, two ballots, what was forgotten, life, and the list. */
#define VARINT   10
#define HEAD_MAX (2 + VARINT + 2 * (2 * VARINT + 8) + VARINT + 3 * VARINT + 1 + HTC__KV_CLIENTS * (8 + 3 * VARINT))

void htc__kv_cell_write(htc_buf *b, const htc__kv_cell *cell)
{
    if (is_plain(cell)) {
        write_plain(b, cell);
        return;
    }
    uint8_t head[HEAD_MAX], *p = head, flags = flags_of(cell);
    *p++ = HTC__KV_CELL_FORMAT;
    *p++ = flags;
    if (flags & PRESENT)
        p = put_varint(p, cell->version);
    if (flags & ACCEPTED)
        p = put_ballot(p, &cell->accepted);
    if (flags & PROMISE)
        p = put_ballot(p, &cell->promise);
    if (flags & FORGOT)
        p = put_varint(p, cell->forgot);
    if (flags & LIFE)
        p = put_varint(put_varint(put_varint(p, cell->lease), cell->ttl), cell->term);
    if (flags & LIST)
        p = put_list(p, cell);
    htc_put_raw(b, (htc_bytes){ head, (size_t)(p - head) });
    if (flags & PRESENT)
        htc_put_raw(b, cell->value);
}

void htc__kv_cell_write_unpromised(htc_buf *b, htc_bytes bytes, const htc__kv_cell *cell)
{
    uint8_t flags = bytes.len >= 2 ? ((const uint8_t *)bytes.data)[1] : PROMISE;
    if (flags & PROMISE) {
        htc__kv_cell own;
        htc__kv_cell_copy(&own, cell);
        own.promise = own.accepted;
        htc__kv_cell_write(b, &own);
        return;
    }
    uint8_t *p = htc_buf_extend(b, bytes.len);
    if (!p)
        return;
    memcpy(p, bytes.data, bytes.len);
    p[1] = (uint8_t)(flags & ~NEXT);
}

/* What flags_of would never say. */
static int sound(uint8_t flags, const htc__kv_cell *cell)
{
    if (flags_of(cell) != flags)
        return 0;
    if (htc__kv_ballot_compare(&cell->promise, &cell->accepted) < 0 || cell->accepted.counter == UINT64_MAX)
        return 0;
    return cell->present ? !cell->deleted || (cell->value.len == 0 && !(flags & LIFE)) : !(flags & ACCEPTED);
}

/* Behind a number in its shortest form; NULL: it is none, or of more than 56 bits, which htc__kv_cell_read has to see. */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 56 && p < end; shift += 7) {
        uint8_t byte = *p++;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *v = sum;
            return byte == 0 && shift > 0 ? NULL : p;
        }
    }
    return NULL;
}

static inline uint64_t get_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* As read_list, for numbers of up to 56 bits, which they nearly always are. 0: read it the long way. */
static int read_list_quickly(htc_reader *r, htc__kv_cell *cell)
{
    const uint8_t *p = r->p, *end = r->end;
    size_t         count = p < end ? *p++ : HTC__KV_CLIENTS + 1;
    if (r->status != HTC_OK || count > HTC__KV_CLIENTS)
        return 0;
    for (size_t i = 0; i < count; i++) {
        htc__kv_seen *seen = &cell->seen[i];
        uint64_t      below, number;
        if (end - p < 8)
            return 0;
        seen->client = get_u64(p);
        if (!(p = get_varint(p + 8, end, &seen->sequence)) || !(p = get_varint(p, end, &below)) ||
            !(p = get_varint(p, end, &number)) || below > cell->version)
            return 0;
        seen->version = cell->version - below;
        seen->number = unzigzag(number);
    }
    cell->count = (uint8_t)count;
    r->p = p;
    return 1;
}

static void read_list(htc_reader *r, htc__kv_cell *cell)
{
    cell->count = htc_get_u8(r);
    if (cell->count > HTC__KV_CLIENTS) {
        cell->count = 0;
        htc_reader_fail(r);
    }
    for (size_t i = 0; i < cell->count; i++) {
        htc__kv_seen *seen = &cell->seen[i];
        seen->client = htc_get_u64(r);
        seen->sequence = htc_get_varint(r);
        uint64_t below = htc_get_varint(r);
        if (below > cell->version)
            htc_reader_fail(r);
        seen->version = cell->version - below;
        seen->number = unzigzag(htc_get_varint(r));
    }
}

/* Behind the list of a cell of this version; NULL: it is none, or has a number that htc__kv_cell_read has to see. */
static const uint8_t *skip_list(const uint8_t *p, const uint8_t *end, uint64_t version)
{
    size_t count = p < end ? *p++ : 0;
    if (count == 0 || count > HTC__KV_CLIENTS)
        return NULL;
    for (; count > 0; count--) {
        uint64_t below, other;
        if (end - p < 8 || !(p = get_varint(p + 8, end, &other)) || !(p = get_varint(p, end, &below)) ||
            !(p = get_varint(p, end, &other)) || below > version)
            return NULL;
    }
    return p;
}

/* Behind version and what was forgotten, of a cell of a value that has nothing more than what `may` says; NULL: it is another one. */
static inline const uint8_t *read_front(htc_bytes bytes, uint8_t may, uint64_t *version, uint64_t *forgot)
{
    const uint8_t *p = bytes.data;
    *forgot = 0;
    if (bytes.len < 2 || p[0] != HTC__KV_CELL_FORMAT || (p[1] & ~may) != PRESENT)
        return NULL;
    const uint8_t *end = p + bytes.len;
    int            forgets = p[1] & FORGOT;
    p = get_varint(p + 2, end, version);
    if (p && forgets)
        p = get_varint(p, end, forgot);
    return forgets && *forgot == 0 ? NULL : p;
}

static htc_bytes behind(htc_bytes bytes, const uint8_t *p)
{
    return (htc_bytes){ p, (size_t)((const uint8_t *)bytes.data + bytes.len - p) };
}

static int read_plain(htc_bytes bytes, uint64_t *version, uint64_t *forgot, htc_bytes *value)
{
    const uint8_t *p = read_front(bytes, FORGOT, version, forgot);
    if (p)
        *value = behind(bytes, p);
    return p != NULL;
}

int htc__kv_cell_plain(htc_bytes bytes, uint64_t *version, htc_bytes *value)
{
    uint64_t       forgot;
    const uint8_t *p = read_front(bytes, FORGOT | LIST, version, &forgot);
    if (p && ((const uint8_t *)bytes.data)[1] & LIST)
        p = skip_list(p, (const uint8_t *)bytes.data + bytes.len, *version);
    if (p)
        *value = behind(bytes, p);
    return p != NULL;
}

static inline htc_status read_cell(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell, int head)
{
    memset(cell, 0, offsetof(htc__kv_cell, seen)); /* the list has `count` entries, the others mean nothing */
    if (read_plain(bytes, &cell->version, &cell->forgot, &cell->value)) {
        cell->present = 1;
        return HTC_OK;
    }
    htc_reader r = htc_reader_of(bytes);
    uint8_t    format = htc_get_u8(&r), flags = htc_get_u8(&r);
    cell->version = cell->forgot = 0;
    cell->value = (htc_bytes){ NULL, 0 };
    cell->present = flags & PRESENT;
    cell->deleted = (flags & DELETED) != 0;
    if (flags & PRESENT)
        cell->version = htc_get_varint(&r);
    if (flags & ACCEPTED)
        cell->accepted = htc__kv_ballot_read(&r);
    if (flags & PROMISE)
        cell->promise = htc__kv_ballot_read(&r);
    else
        cell->promise = flags & NEXT ? htc__kv_ballot_next(cell->accepted) : cell->accepted;
    if (flags & FORGOT)
        cell->forgot = htc_get_varint(&r);
    if (flags & LIFE) {
        cell->lease = htc_get_varint(&r);
        cell->ttl = htc_get_varint(&r);
        cell->term = htc_get_varint(&r);
    }
    if (head && flags & LIST) {
        flags &= (uint8_t)~LIST;
        r.p = r.end;
    }
    if (flags & LIST && !read_list_quickly(&r, cell))
        read_list(&r, cell);
    if (flags & PRESENT)
        cell->value = htc_get_raw(&r, htc_reader_left(&r));
    if (htc_reader_done(&r) != HTC_OK || format != HTC__KV_CELL_FORMAT || !sound(flags, cell))
        return HTC_ECORRUPT;
    if (!cell->present && floors)
        cell->version = cell->forgot = floors->version;
    return HTC_OK;
}

htc_status htc__kv_cell_read(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell)
{
    return read_cell(bytes, floors, cell, 0);
}

htc_status htc__kv_cell_head(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell)
{
    htc_status status = read_cell(bytes, floors, cell, 1);
    cell->value = (htc_bytes){ NULL, 0 };
    return status;
}

void htc__kv_cell_copy(htc__kv_cell *to, const htc__kv_cell *from)
{
    memcpy(to, from, offsetof(htc__kv_cell, seen));
    memcpy(to->seen, from->seen, from->count * sizeof from->seen[0]);
    to->value = from->value;
}

int htc__kv_cell_same(const htc__kv_cell *a, const htc__kv_cell *b)
{
    if (a->present != b->present || a->version != b->version || a->forgot != b->forgot)
        return 0;
    if (!a->present)
        return 1;
    return htc__kv_ballot_compare(&a->accepted, &b->accepted) == 0 && a->deleted == b->deleted &&
           a->lease == b->lease && a->ttl == b->ttl && a->term == b->term && a->count == b->count &&
           memcmp(a->seen, b->seen, a->count * sizeof a->seen[0]) == 0 && htc_bytes_equal(a->value, b->value);
}

const htc__kv_seen *htc__kv_cell_find(const htc__kv_cell *cell, uint64_t client)
{
    for (size_t i = 0; i < cell->count; i++)
        if (cell->seen[i].client == client)
            return &cell->seen[i];
    return NULL;
}

void htc__kv_cell_note(htc__kv_cell *cell, const htc__kv_seen *seen)
{
    size_t i = 0;
    while (i < cell->count && cell->seen[i].client != seen->client)
        i++;
    if (i == HTC__KV_CLIENTS) {
        i = 0;
        if (cell->seen[0].version > cell->forgot)
            cell->forgot = cell->seen[0].version;
    }
    if (i < cell->count) {
        memmove(&cell->seen[i], &cell->seen[i + 1], (size_t)(cell->count - i - 1) * sizeof cell->seen[0]);
        cell->count--;
    }
    cell->seen[cell->count++] = *seen;
}
