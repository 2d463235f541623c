#include "kvs/cell/cell.h"

#include <assert.h>
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

#define FORMAT_BEFORE 2 /* another form of the list, and nothing else */

htc__kv_cell htc__kv_cell_absent(const htc__kv_floors *floors)
{
    htc__kv_cell cell = { .present = 0 };
    if (floors)
        cell.version = cell.forgot = floors->version;
    return cell;
}

void htc__kv_cell_lift(htc__kv_cell *cell, uint64_t floor)
{
    if (!cell->present)
        *cell = (htc__kv_cell){ .present = 1, .deleted = 1, .version = floor, .forgot = floor };
    else if (cell->version <= floor)
        cell->version = floor + !cell->deleted;
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
        flags |= PRESENT | (cell->deleted ? DELETED : 0u) | (cell->forgot ? FORGOT : 0u) |
                 (cell->count || cell->listed.bytes.len ? LIST : 0u) |
                 (cell->lease || cell->ttl || cell->term ? LIFE : 0u);
    return (uint8_t)flags;
}

/* Nothing hangs on it: most cells where a key has one owner. They are written and read without a look at all the rest. */
static int is_plain(const htc__kv_cell *cell)
{
    return cell->present && !(cell->deleted | cell->count) && cell->listed.bytes.len == 0 &&
           !(cell->lease | cell->ttl | cell->term) && htc__kv_ballot_none(&cell->accepted) &&
           htc__kv_ballot_none(&cell->promise);
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
    htc__le64_put(p, v);
    return p + 8;
}

static uint8_t *put_ballot(uint8_t *p, const htc__kv_ballot *ballot)
{
    return put_u64(put_varint(put_varint(p, ballot->epoch), ballot->counter), ballot->proposer);
}

static uint8_t *put_seen(uint8_t *p, const htc__kv_seen *seen, uint64_t before)
{
    p = put_u64(put_varint(p, before - seen->version), seen->client);
    return put_varint(put_varint(p, seen->sequence), zigzag(seen->number));
}

/* Entries as they are stored, of which the first lies so much further below the one before. */
static uint8_t *put_stored(uint8_t *p, const uint8_t *from, const uint8_t *end, uint64_t further)
{
    uint64_t below = 0;
    if (from == end)
        return p;
    for (unsigned shift = 0;; shift += 7) {
        below |= (uint64_t)(*from & 0x7f) << shift;
        if (*from++ < 0x80)
            break;
    }
    p = put_varint(p, below + further);
    memcpy(p, from, (size_t)(end - from));
    return p + (end - from);
}

/* The list as it was stored, without what goes if a newer change was noted. */
static uint8_t *put_listed(uint8_t *p, const htc__kv_left_list *l, int noted, uint64_t before)
{
    const uint8_t *from = l->bytes.data, *end = from + l->bytes.len;
    uint64_t       further = before - l->version;
    if (!noted)
        return put_stored(p, from, end, further);
    if (l->cut_at)
        p = put_stored(p, from, from + l->cut_at, further);
    return put_stored(p, from + l->cut_end, end, l->cut_below + (l->cut_at ? 0 : further));
}

#define VARINT    10
#define ENTRY_MAX (8 + 3 * VARINT)
#define LIST_MAX  (HTC__KV_CLIENTS * ENTRY_MAX)

/* The length in front is of one byte or two, and of one as often as can be known beforehand. */
static uint8_t *put_list(uint8_t *p, const htc__kv_cell *cell)
{
    size_t   most = cell->count * ENTRY_MAX + cell->listed.bytes.len + 2 * VARINT;
    uint8_t *list = p + (most < 0x80 ? 1 : 2), *end = list;
    uint64_t before = cell->version;
    for (size_t i = 0; i < cell->count; i++) {
        end = put_seen(end, &cell->seen[i], before);
        before = cell->seen[i].version;
    }
    if (cell->listed.bytes.len)
        end = put_listed(end, &cell->listed, cell->count != 0, before);
    size_t len = (size_t)(end - list);
    p = put_varint(p, len);
    if (p != list)
        memmove(p, list, len);
    return p + len;
}

/* Format and flags, version, two ballots, what was forgotten, life, and the list. */
#define HEAD_MAX (2 + VARINT + 2 * (2 * VARINT + 8) + VARINT + 3 * VARINT + 2 + LIST_MAX)

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
    const uint8_t *read = bytes.data;
    uint8_t        flags = bytes.len >= 2 ? read[1] : PROMISE;
    if (flags & PROMISE || read[0] != HTC__KV_CELL_FORMAT) {
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

/* Behind a number in its shortest form; NULL: it is none, or of more than 56 bits, which htc_get_varint has to see. */
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

/* As htc_get_varint, for one of up to 56 bits quickly: nearly all are. */
static inline const uint8_t *get_number(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
    const uint8_t *behind = get_varint(p, end, v);
    if (behind)
        return behind;
    htc_reader r = htc_reader_of((htc_bytes){ p, (size_t)(end - p) });
    *v = htc_get_varint(&r);
    return r.status == HTC_OK ? r.p : NULL;
}

/* Behind the entry at p, which lies below the version `before`; NULL: it is none. */
static inline const uint8_t *get_seen(const uint8_t *p, const uint8_t *end, uint64_t before, htc__kv_seen *seen)
{
    uint64_t below, number;
    if (!(p = get_number(p, end, &below)) || below > before || end - p < 8)
        return NULL;
    seen->version = before - below;
    seen->client = htc__le64_get(p);
    if (!(p = get_number(p + 8, end, &seen->sequence)) || !(p = get_number(p, end, &number)))
        return NULL;
    seen->number = unzigzag(number);
    return p;
}

#define HIGH_BITS UINT64_C(0x8080808080808080) /* of a number's bytes: set in all but the last */

/* Behind the two numbers that begin these eight bytes. NULL: they are longer, or not in their shortest form, which ends in no 0 behind others. */
static inline const uint8_t *skip_two(const uint8_t *p)
{
    uint64_t w = htc__le64_get(p), last = ~w & HIGH_BITS, second = last & (last - 1);
    uint64_t zero = ~(((w & ~HIGH_BITS) + ~HIGH_BITS) | w) & HIGH_BITS;
    if (second == 0 || (w & HIGH_BITS) << 8 & zero & (second ^ (second - 1)))
        return NULL;
    return p + __builtin_ctzll(second) / 8 + 1;
}

/* As get_seen, for who is only to know whose entry it is. Up to readable there are bytes, also behind the list's end. */
static inline const uint8_t *pass_seen(const uint8_t *p, const uint8_t *end, const uint8_t *readable, uint64_t before,
                                       htc__kv_seen *seen)
{
    uint64_t       below;
    const uint8_t *at = get_varint(p, end, &below), *behind = NULL;
    if (at && below <= before && end - at > 8 && readable - at >= 16)
        behind = skip_two(at + 8);
    if (!behind || behind > end)
        return get_seen(p, end, before, seen);
    seen->version = before - below;
    seen->client = htc__le64_get(at);
    return behind;
}

static int take_list(htc__kv_cell *cell, htc_bytes list)
{
    const uint8_t *p = list.data, *end = p + list.len;
    uint64_t       before = cell->version;
    while (p != end) {
        htc__kv_seen *seen = &cell->seen[cell->count];
        if (cell->count == HTC__KV_CLIENTS || !(p = get_seen(p, end, before, seen)))
            return 0;
        before = seen->version;
        cell->count++;
    }
    return 1;
}

/* The entry of a list that goes when its client's next change is noted. */
static void cut(htc__kv_left_list *l, htc_bytes list, const uint8_t *at, const uint8_t *behind, uint64_t before,
                uint64_t version)
{
    l->cut_at = (size_t)(at - (const uint8_t *)list.data);
    l->cut_end = (size_t)(behind - (const uint8_t *)list.data);
    l->cut_below = before - version;
    l->cut_version = version;
}

/* The same, but that the entries stay where they are. */
static int look_at_list(htc__kv_cell *cell, htc_bytes list, const uint8_t *readable, uint64_t client)
{
    htc__kv_left_list *l = &cell->listed;
    const uint8_t     *p = list.data, *end = p + list.len, *at = p;
    uint64_t           before = cell->version, version = before;
    size_t             n = 0;
    l->cut_at = l->cut_end = list.len;
    for (; p != end; n++) {
        htc__kv_seen seen;
        at = p;
        before = version;
        if (n == HTC__KV_CLIENTS || !(p = pass_seen(p, end, readable, before, &seen)))
            return 0;
        version = seen.version;
        if (seen.client != client || l->own.client || !client)
            continue;
        get_seen(at, end, before, &l->own);
        cut(l, list, at, p, before, version);
    }
    if (n == HTC__KV_CLIENTS && !l->own.client) /* the oldest */
        cut(l, list, at, end, before, version);
    l->version = cell->version;
    l->bytes = list;
    return 1;
}

typedef enum list_use { LIST_TAKEN, LIST_LEFT, LIST_OWN, LIST_UNSEEN } list_use;

/* Behind the list at p; NULL: it is none. Unseen: also all that is behind it. */
static inline const uint8_t *read_list(const uint8_t *p, const uint8_t *end, htc__kv_cell *cell, list_use use,
                                       uint64_t client)
{
    uint64_t len;
    if (use == LIST_UNSEEN)
        return end;
    if (!(p = get_number(p, end, &len)) || len == 0 || len > LIST_MAX || len > (size_t)(end - p))
        return NULL;
    htc_bytes list = { p, (size_t)len };
    if (use == LIST_OWN) {
        cell->listed.version = cell->version;
        cell->listed.bytes = list;
        return p + len;
    }
    return (use == LIST_LEFT ? look_at_list(cell, list, end, client) : take_list(cell, list)) ? p + len : NULL;
}

/* As format 2 has it: how many, then the oldest change first, each told by how far it lies below the cell's own version. */
static void take_list_2(htc_reader *r, htc__kv_cell *cell)
{
    uint8_t n = htc_get_u8(r);
    if (n == 0 || n > HTC__KV_CLIENTS) {
        htc_reader_fail(r);
        return;
    }
    uint64_t before = 0;
    for (size_t i = n; i-- > 0;) {
        htc__kv_seen *seen = &cell->seen[i];
        seen->client = htc_get_u64(r);
        seen->sequence = htc_get_varint(r);
        uint64_t below = htc_get_varint(r);
        seen->number = unzigzag(htc_get_varint(r));
        if (below > cell->version || cell->version - below < before)
            htc_reader_fail(r);
        before = seen->version = cell->version - below;
    }
    cell->count = n;
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

int htc__kv_cell_plain(htc_bytes bytes, uint64_t *version, htc_bytes *value)
{
    uint64_t       forgot;
    const uint8_t *p = read_front(bytes, FORGOT | LIST, version, &forgot);
    if (p && ((const uint8_t *)bytes.data)[1] & LIST) {
        const uint8_t *end = (const uint8_t *)bytes.data + bytes.len;
        uint64_t       len;
        p = get_varint(p, end, &len);
        p = p && len <= (size_t)(end - p) ? p + len : NULL;
    }
    if (p)
        *value = behind(bytes, p);
    return p != NULL;
}

/* A cell of any kind, into one that is zero. */
static __attribute__((noinline)) htc_status read_any(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell,
                                                     list_use use, uint64_t client)
{
    htc_reader r = htc_reader_of(bytes);
    uint8_t    format = htc_get_u8(&r), flags = htc_get_u8(&r);
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
    if (flags & LIST && format == FORMAT_BEFORE && use != LIST_UNSEEN)
        take_list_2(&r, cell);
    else if (flags & LIST && r.status == HTC_OK) {
        const uint8_t *p = read_list(r.p, r.end, cell, use, client);
        if (!p)
            return HTC_ECORRUPT;
        r.p = p;
    }
    if (use == LIST_UNSEEN)
        flags &= (uint8_t)~LIST;
    if (flags & PRESENT)
        cell->value = htc_get_raw(&r, htc_reader_left(&r));
    if (htc_reader_done(&r) != HTC_OK || (format != HTC__KV_CELL_FORMAT && format != FORMAT_BEFORE) ||
        !sound(flags, cell))
        return HTC_ECORRUPT;
    if (!cell->present && floors)
        cell->version = cell->forgot = floors->version;
    return HTC_OK;
}

static inline htc_status read_cell(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell, list_use use,
                                   uint64_t client)
{
    memset(cell, 0, offsetof(htc__kv_cell, seen)); /* the list has `count` entries, the others mean nothing */
    uint64_t       version, forgot;
    const uint8_t *p = read_front(bytes, FORGOT | LIST, &version, &forgot);
    if (!p)
        return read_any(bytes, floors, cell, use, client);
    cell->present = 1;
    cell->version = version;
    cell->forgot = forgot;
    if (((const uint8_t *)bytes.data)[1] & LIST &&
        !(p = read_list(p, (const uint8_t *)bytes.data + bytes.len, cell, use, client)))
        return HTC_ECORRUPT;
    cell->value = behind(bytes, p);
    return HTC_OK;
}

htc_status htc__kv_cell_read(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell)
{
    return read_cell(bytes, floors, cell, LIST_TAKEN, 0);
}

htc_status htc__kv_cell_read_for(htc_bytes bytes, const htc__kv_floors *floors, uint64_t client, htc__kv_cell *cell)
{
    return read_cell(bytes, floors, cell, LIST_LEFT, client);
}

htc_status htc__kv_cell_read_own(htc_bytes bytes, htc__kv_cell *cell)
{
    return read_cell(bytes, NULL, cell, LIST_OWN, 0);
}

htc_status htc__kv_cell_head(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell)
{
    htc_status status = read_cell(bytes, floors, cell, LIST_UNSEEN, 0);
    cell->value = (htc_bytes){ NULL, 0 };
    return status;
}

void htc__kv_cell_copy(htc__kv_cell *to, const htc__kv_cell *from)
{
    memcpy(to, from, offsetof(htc__kv_cell, seen));
    memcpy(to->seen, from->seen, from->count * sizeof from->seen[0]);
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
    return cell->listed.own.client == client && client ? &cell->listed.own : NULL;
}

static void forget(htc__kv_cell *cell, uint64_t version)
{
    if (version > cell->forgot)
        cell->forgot = version;
}

void htc__kv_cell_note(htc__kv_cell *cell, const htc__kv_seen *seen)
{
    const htc__kv_left_list *l = &cell->listed;
    assert(cell->count <= HTC__KV_CLIENTS && (cell->count == 0 || cell->seen[0].version <= seen->version)); /* the newest is first */
    if (l->bytes.len) {
        if (!cell->count && l->cut_at < l->cut_end && !l->own.client)
            forget(cell, l->cut_version);
        cell->count = 1;
        cell->seen[0] = *seen;
        return;
    }
    size_t i = 0;
    while (i < cell->count && cell->seen[i].client != seen->client)
        i++;
    if (i == HTC__KV_CLIENTS)
        forget(cell, cell->seen[--i].version);
    else if (i == cell->count)
        cell->count++;
    memmove(&cell->seen[1], &cell->seen[0], i * sizeof cell->seen[0]);
    cell->seen[0] = *seen;
}
