#include "kvs/storage/cells_heap.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/util/place.h"

/* In front of a record: 9 bits for the key's length, 15 for the value's; the highest of these say that it is longer, and
 * stands in four more bytes, or that the value is lost. Where there is an order of keys, its node follows in LINK_BYTES: a record that
 * moves tells its node, which would else have to be looked for through some forty cold lines. */
#define SHORT_BYTES 3
#define LONG_BYTES  7
#define LINK_BYTES  sizeof(htc__order_link5)
#define KEY_BITS    9
#define LONG        0x7fffu
#define LOST        0x7ffeu

_Static_assert(HTC_KV_ENGINE_KEY_MAX < 1 << KEY_BITS, "the length of a key has its bits");

typedef struct record {
    uint8_t *key, *value;
    size_t   key_len, value_len;
    int      lost;
} record;

static inline size_t head_of(size_t value_len)
{
    return value_len < LOST ? SHORT_BYTES : LONG_BYTES;
}

static inline uint32_t get_le(const uint8_t *p, size_t n)
{
    uint32_t v = 0;
    for (size_t i = n; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static void put_le(uint8_t *p, uint32_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline record record_at(const htc__arena *a, uint64_t ref, int ordered)
{
    uint8_t *p = htc__arena_at(a, ref);
    uint32_t head = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16, len = head >> KEY_BITS;
    record   r = { .key = p + SHORT_BYTES, .key_len = head & ((1u << KEY_BITS) - 1), .value_len = len };
    if (len == LONG) {
        r.value_len = get_le(p + SHORT_BYTES, 4);
        r.key = p + LONG_BYTES;
    } else if (len == LOST) {
        r.value_len = 0;
        r.lost = 1;
    }
    if (ordered)
        r.key += LINK_BYTES;
    r.value = r.key + r.key_len;
    return r;
}

static inline record record_of(const htc__heap *h, uint64_t ref)
{
    return record_at(&h->arena, ref, h->ordered);
}

static size_t size_of(const htc__heap *h, size_t key_len, size_t value_len)
{
    return head_of(value_len) + (h->ordered ? LINK_BYTES : 0) + key_len + value_len;
}

/* Asked by the order. */
static htc_bytes key_of(const htc__arena *a, uint64_t ref)
{
    record r = record_at(a, ref, 1);
    return (htc_bytes){ r.key, r.key_len };
}

/* Its node in the order of keys; 0: there is no such order. */
static uint64_t node_of(const htc__heap *h, const record *r)
{
    htc__order_link5 link;
    if (!h->ordered)
        return 0;
    memcpy(&link, r->key - LINK_BYTES, sizeof link);
    return htc__order_link_get(&link);
}

/* The value may lie in the piece itself: it goes first, as the key may be there already. */
static void record_write(const htc__heap *h, uint64_t ref, uint64_t node, htc_bytes key, htc_bytes value, int lost)
{
    uint8_t *p = htc__arena_at(&h->arena, ref), *begin = p + size_of(h, 0, value.len) - value.len;
    int      is_long = head_of(value.len) == LONG_BYTES;
    uint32_t len = lost ? LOST : is_long ? LONG : (uint32_t)value.len;
    if (value.len)
        memmove(begin + key.len, value.data, value.len);
    memmove(begin, key.data, key.len);
    put_le(p, (uint32_t)key.len | len << KEY_BITS, SHORT_BYTES);
    if (is_long)
        put_le(p + SHORT_BYTES, (uint32_t)value.len, 4);
    if (h->ordered) {
        htc__order_link5 link;
        htc__order_link_set(&link, node);
        memcpy(begin - LINK_BYTES, &link, sizeof link);
    }
}

/* ---------------------------------------------------------------- one record */

static inline int is_of(const record *r, htc_bytes key)
{
    return r->key_len == key.len && memcmp(r->key, key.data, key.len) == 0;
}

static void forget_found(htc__heap *h)
{
    h->found_count = h->found_next = 0;
}

/* Its slot stays where it is: what else was found is not touched. */
static void found_moved(htc__heap *h, uint64_t ref, uint64_t other)
{
    for (size_t i = 0; i < h->found_count; i++)
        if (h->found[i].ref == ref)
            h->found[i].ref = other;
}

static int is_found(htc__heap *h, size_t i, htc_bytes key, record *r)
{
    if (i >= h->found_count)
        return 0;
    *r = record_of(h, h->found[i].ref);
    if (!is_of(r, key))
        return 0;
    h->found_next = i + 1;
    h->asked = h->found[i].place;
    return 1;
}

/* Until the next call; NULL: there is none, and nothing that was found before is remembered. again: it is likely the one
 * that was found last, as a change follows its reading, and not the next that was hinted at. */
static htc__found *find(htc__heap *h, htc_bytes key, int again, record *r)
{
    size_t next = h->found_next;
    if (is_found(h, again ? next - 1 : next, key, r) || is_found(h, again ? next : next - 1, key, r))
        return &h->found[h->found_next - 1];
    forget_found(h);
    htc__found *found = &h->found[0];
    uint64_t    place = h->asked = found->place = htc__kv_place(h->seed, key);
    for (found->ref = htc__places_first(&h->places, place, &found->spot); found->ref;
         found->ref = htc__places_again(place, &found->spot)) {
        *r = record_of(h, found->ref);
        if (is_of(r, key)) {
            h->found_count = h->found_next = 1;
            return found;
        }
    }
    return NULL;
}

htc_status htc__heap_get(htc__heap *h, htc_bytes key, htc_bytes *value)
{
    record r;
    if (!find(h, key, 0, &r))
        return HTC_ENOTFOUND;
    *value = (htc_bytes){ r.value, r.value_len };
    return r.lost ? HTC_ECORRUPT : HTC_OK;
}

static htc_status put_new(htc__heap *h, htc_bytes key, htc_bytes value, int lost)
{
    uint64_t   place = h->asked;
    size_t     size = size_of(h, key.len, value.len);
    htc_status status = htc__places_reserve(&h->places);
    if (status != HTC_OK)
        return status;
    uint64_t ref = htc__arena_take(&h->arena, size), at = 0;
    if (!ref)
        return h->budget.why;
    if (h->ordered && !(at = htc__order_make(&h->order, place))) {
        htc__arena_give(&h->arena, ref, size);
        return h->budget.why;
    }
    status = htc__places_insert(&h->places, place, ref);
    if (status != HTC_OK) {
        htc__arena_give(&h->arena, ref, size);
        if (at)
            htc__order_discard(&h->order, at, place);
        return status;
    }
    record_write(h, ref, at, key, value, lost);
    if (at)
        htc__order_link(&h->order, at, place, key, ref);
    h->live += key.len + value.len;
    h->lost += (size_t)lost;
    return HTC_OK;
}

static htc_status put(htc__heap *h, htc_bytes key, htc_bytes value, int lost)
{
    record r;
    if (key.len == 0)
        return HTC_EINVAL;
    if (key.len > HTC_KV_ENGINE_KEY_MAX || value.len > UINT32_MAX)
        return HTC_ETOOBIG;
    htc__found *found = find(h, key, 1, &r);
    if (!found)
        return put_new(h, key, value, lost);
    uint64_t node = node_of(h, &r);
    size_t   before = size_of(h, r.key_len, r.value_len), size = size_of(h, key.len, value.len);
    if (!htc__arena_fits(&h->arena, found->ref, before, size)) {
        uint64_t other = htc__arena_take(&h->arena, size);
        if (!other)
            return h->budget.why;
        record_write(h, other, node, key, value, lost);
        htc__places_replace(&found->spot, other);
        if (node)
            htc__order_rename(&h->order, node, other);
        htc__arena_give(&h->arena, found->ref, before);
        found_moved(h, found->ref, other);
    } else {
        record_write(h, found->ref, node, key, value, lost);
    }
    h->live += value.len - r.value_len;
    h->lost += (size_t)lost - (size_t)r.lost;
    return HTC_OK;
}

htc_status htc__heap_put(htc__heap *h, htc_bytes key, htc_bytes value)
{
    return put(h, key, value, 0);
}

htc_status htc__heap_lose(htc__heap *h, htc_bytes key)
{
    return put(h, key, (htc_bytes){ NULL, 0 }, 1);
}

int htc__heap_drop(htc__heap *h, htc_bytes key)
{
    record      r;
    htc__found *found = find(h, key, 1, &r);
    if (!found)
        return 0;
    uint64_t ref = found->ref;
    if (h->ordered)
        htc__order_remove(&h->order, found->place, key);
    assert(h->live >= r.key_len + r.value_len);
    h->live -= r.key_len + r.value_len;
    h->lost -= (size_t)r.lost;
    htc__places_erase(&h->places, &found->spot);
    forget_found(h);
    htc__arena_give(&h->arena, ref, size_of(h, r.key_len, r.value_len));
    htc__places_settle(&h->places);
    return 1;
}

void htc__heap_hint(htc__heap *h, const htc_bytes *keys, size_t n)
{
    uint64_t places[HTC__HEAP_FOUND];
    size_t   of[HTC__HEAP_FOUND], many = n < HTC__HEAP_FOUND ? n : HTC__HEAP_FOUND, known = 0, kept = 0;
    for (size_t i = 0; i < many; i++) {
        places[i] = htc__kv_place(h->seed, keys[i]);
        htc__places_hint(&h->places, places[i]);
    }
    forget_found(h);
    for (size_t i = 0; i < many; i++) {
        htc__found *found = &h->found[known];
        if (!(found->ref = htc__places_first(&h->places, places[i], &found->spot)))
            continue;
        found->place = places[i];
        of[known] = i;
        const char *p = htc__arena_at(&h->arena, found->ref);
        __builtin_prefetch(p);
        __builtin_prefetch(p + 64);
        __builtin_prefetch(p + 128);
        known++;
    }
    /* Another key with the same upper bits has another place than the one it would be remembered with. */
    for (size_t i = 0; i < known; i++) {
        record r = record_of(h, h->found[i].ref);
        if (is_of(&r, keys[of[i]]))
            h->found[kept++] = h->found[i];
    }
    h->found_count = kept;
}

/* ---------------------------------------------------------------- all records */

/* As cells.h says: what is damaged is shown, without a value. */
static htc_bytes value_of(const record *r)
{
    return r->lost ? (htc_bytes){ NULL, 0 } : (htc_bytes){ r->value, r->value_len };
}

htc_status htc__heap_scan(const htc__heap *h, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    if (!h->ordered)
        return HTC_EUNSUPPORTED;
    for (uint64_t at = htc__order_seek(&h->order, from); at; at = htc__order_next(&h->order, at)) {
        record r = record_of(h, htc__order_ref(&h->order, at));
        if (!visit(visitor, (htc_bytes){ r.key, r.key_len }, value_of(&r)))
            break;
    }
    return HTC_OK;
}

typedef struct walker {
    const htc__heap *heap;
    uint64_t         from, to; /* whole places */
    htc_kv_visit     visit;
    void            *visitor;
    int (*visit_top)(void *ctx, uint64_t top, htc_bytes key, htc_bytes value);
} walker;

static int walk_place(void *ctx, uint64_t top, uint64_t ref)
{
    const walker *w = ctx;
    record        r = record_of(w->heap, ref);
    htc_bytes     key = { r.key, r.key_len };
    /* Those at either end share their upper bits with places beyond it. */
    if (top == htc__place_top(w->from) || top == htc__place_top(w->to)) {
        uint64_t place = htc__kv_place(w->heap->seed, key);
        if (place < w->from || place > w->to)
            return 1;
    }
    return w->visit(w->visitor, key, value_of(&r));
}

htc_status htc__heap_walk(const htc__heap *h, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor)
{
    walker w = { .heap = h, .from = from, .to = to, .visit = visit, .visitor = visitor };
    if (from <= to)
        htc__places_walk(&h->places, htc__place_top(from), htc__place_top(to), walk_place, &w);
    return HTC_OK;
}

static int walk_top(void *ctx, uint64_t top, uint64_t ref)
{
    const walker *w = ctx;
    record        r = record_of(w->heap, ref);
    htc_bytes     value = { r.lost ? NULL : r.value, r.lost ? SIZE_MAX : r.value_len };
    return w->visit_top(w->visitor, top, (htc_bytes){ r.key, r.key_len }, value);
}

void htc__heap_walk_tops(const htc__heap *h, uint64_t from, uint64_t to,
                         int (*visit)(void *ctx, uint64_t top, htc_bytes key, htc_bytes value), void *ctx)
{
    walker w = { .heap = h, .visitor = ctx, .visit_top = visit };
    htc__places_walk(&h->places, from, to, walk_top, &w);
}

/* ---------------------------------------------------------------- both ends */

void htc__heap_init(htc__heap *h, const htc_env *env, const htc__heap_options *options)
{
    *h = (htc__heap){ .seed = options->seed, .ordered = options->ordered };
    h->budget = (htc__budget){ .max = options->bytes_max };
    if (env)
        h->budget.env = *env;
    htc__arena_init(&h->arena, &h->budget);
    htc__places_init(&h->places, &h->budget);
    htc__order_init(&h->order, &h->arena, key_of);
}

static int give_big(void *ctx, uint64_t top, uint64_t ref)
{
    htc__heap *h = ctx;
    (void)top;
    if (ref & HTC__ARENA_BIG) {
        record r = record_of(h, ref);
        htc__arena_give(&h->arena, ref, size_of(h, r.key_len, r.value_len));
    }
    return 1;
}

void htc__heap_free(htc__heap *h)
{
    htc__places_walk(&h->places, 0, UINT64_MAX, give_big, h);
    htc__arena_free(&h->arena);
    htc__places_free(&h->places);
}
