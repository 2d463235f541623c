#include "sim/scale/ladder.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"

/* ---- memory ---- */

/* Each list has at most one chunk that is not full; a key more is held while a chunk is divided. */
static uint64_t chunks_for(uint64_t count_max)
{
    uint64_t lists = (uint64_t)LADDER_RUNGS * LADDER_FAN + 2;
    return count_max / LADDER_CHUNK + (count_max < lists ? count_max : lists) + 4;
}

uint64_t htc__ladder_memory(uint64_t count_max)
{
    return sizeof(ladder) + chunks_for(count_max) * sizeof(ladder_chunk);
}

htc_status htc__ladder_create(const htc_env *env, uint64_t count_max, uint32_t id_bits, ladder **out)
{
    uint64_t chunks = chunks_for(count_max);
    ladder  *q = htc__alloc_raw(env, sizeof *q);
    if (!q)
        return HTC_ENOMEM;
    memset(q, 0, offsetof(ladder, rung)); /* rungs are made when they are needed */
    q->chunk = chunks < UINT32_MAX && chunks * sizeof *q->chunk <= SIZE_MAX ? htc__alloc_raw(env, (size_t)chunks * sizeof *q->chunk) : NULL;
    if (!q->chunk) {
        htc__free(env, q, sizeof *q);
        return HTC_ENOMEM;
    }
    q->chunks = (uint32_t)chunks;
    q->chunk[0] = (ladder_chunk){ .n = LADDER_CHUNK };
    q->count_max = count_max;
    q->id_mask = (UINT64_C(1) << id_bits) - 1;
    q->top_min = UINT64_MAX;
    *out = q;
    return HTC_OK;
}

void htc__ladder_destroy(const htc_env *env, ladder *q)
{
    if (!q)
        return;
    htc__free(env, q->chunk, (size_t)q->chunks * sizeof *q->chunk);
    htc__free(env, q, sizeof *q);
}

/* The first chunk of a list is used no more; the next one. */
static uint32_t release(ladder *q, uint32_t number)
{
    uint32_t next = q->chunk[number].next;
    q->chunk[number].next = q->chunk_free;
    q->chunk_free = number;
    return next;
}

/* ---- the side heap: four children a node ---- */

static void divide_side(ladder *q);

void htc__ladder_side_put(ladder *q, uint64_t key)
{
    if (q->bottom_n < LADDER_FEW) { /* so few are moved sooner than the heap is put in order twice */
        uint32_t at = q->bottom_n++;
        for (; at && q->bottom[at - 1] < key; at--)
            q->bottom[at] = q->bottom[at - 1];
        q->bottom[at] = key;
        return;
    }
    if (q->side_n == LADDER_SIDE) {
        divide_side(q);
        q->count--;
        htc__ladder_push(q, key);
        return;
    }
    uint32_t i = q->side_n++;
    while (i) {
        uint32_t parent = (i - 1) / 4;
        if (q->side[parent] <= key)
            break;
        q->side[i] = q->side[parent];
        i = parent;
    }
    q->side[i] = key;
}

/* The lesser of two places by their keys, without a branch: which it is nobody can foresee. */
static inline uint32_t lesser(const uint64_t *v, uint32_t a, uint32_t b)
{
    return a ^ ((a ^ b) & (0 - (uint32_t)(v[b] < v[a])));
}

uint64_t htc__ladder_side_take(ladder *q)
{
    uint64_t first = q->side[0], key = q->side[--q->side_n];
    uint32_t i = 0, n = q->side_n;
    for (;;) {
        uint32_t child = 4 * i + 1, least;
        if (child + 3 < n) {
            least = lesser(q->side, lesser(q->side, child, child + 1), lesser(q->side, child + 2, child + 3));
        } else {
            if (child >= n)
                break;
            for (least = child; ++child < n;)
                least = lesser(q->side, least, child);
        }
        if (q->side[least] >= key)
            break;
        q->side[i] = q->side[least];
        i = least;
    }
    q->side[i] = key;
    return first;
}

/* ---- sorting ---- */

/* Descending; 0: it takes more than so many moves, and not all is sorted. */
static int insertion(uint64_t *v, uint32_t n, uint32_t moves)
{
    for (uint32_t i = 1; i < n; i++) {
        uint64_t key = v[i];
        uint32_t j = i;
        for (; j && v[j - 1] < key; j--)
            v[j] = v[j - 1];
        v[j] = key;
        if (i - j > moves)
            return 0;
        moves -= i - j;
    }
    return 1;
}

/* One pass of a radix sort, descending and stable, by the eight bits from shift on. */
static void pass(const uint64_t *from, uint64_t *to, uint32_t n, uint32_t shift)
{
    uint32_t place[257] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        place[256 - (from[i] >> shift & 255)]++;
    for (uint32_t i = 1; i < 257; i++)
        place[i] += place[i - 1];
    for (uint32_t i = 0; i < n; i++)
        to[place[255 - (from[i] >> shift & 255)]++] = from[i];
}

static void radix(uint64_t *v, uint64_t *other, uint32_t n, uint32_t from, uint32_t to)
{
    uint64_t *a = v, *b = other;
    for (uint32_t shift = from; shift < to; shift += 8) {
        uint64_t *sorted = b;
        pass(a, b, n, shift);
        b = a;
        a = sorted;
    }
    if (a != v)
        memcpy(v, a, n * sizeof *v);
}

/* The highest 16 bits in which they differ put a few hundred keys nearly in order; insertion does the rest, unless the keys are in clusters. */
static void sort(uint64_t *v, uint64_t *other, uint32_t n)
{
    uint64_t differ = 0;
    uint32_t bits = 0;
    if (n < 32) {
        insertion(v, n, UINT32_MAX);
        return;
    }
    for (uint32_t i = 1; i < n; i++)
        differ |= v[i] ^ v[0];
    while (bits < 64 && differ >> bits)
        bits++;
    radix(v, other, n, bits > 16 ? bits - 16 : 0, bits);
    if (bits > 16 && !insertion(v, n, 4 * n))
        radix(v, other, n, 0, bits);
}

/* ---- rungs ---- */

/* A list becomes the bottom. */
static void open_list(ladder *q, ladder_list *list)
{
    assert(q->bottom_n == 0 && list->count <= LADDER_SORTED);
    for (uint32_t c = list->head; c; c = release(q, c)) {
        memcpy(q->bottom + q->bottom_n, q->chunk[c].key, q->chunk[c].n * sizeof *q->bottom);
        q->bottom_n += q->chunk[c].n;
    }
    *list = (ladder_list){ 0 };
    sort(q->bottom, q->other, q->bottom_n);
}

/* A new rung below all others, for count keys from first to last. */
static ladder_rung *add_rung(ladder *q, uint64_t first, uint64_t last, uint64_t count)
{
    ladder_rung *r = &q->rung[q->rungs];
    uint64_t     wanted = count / (LADDER_SORTED / 3) + 1;
    assert(q->rungs < LADDER_RUNGS && first <= last);
    wanted = wanted < LADDER_NARROW ? LADDER_NARROW : wanted > LADDER_FAN ? LADDER_FAN : wanted;
    r->base = first;
    r->shift = 0;
    r->current = 0;
    while ((last - first) >> r->shift >= wanted)
        r->shift++;
    r->buckets = (uint32_t)((last - first) >> r->shift) + 1;
    memset(r->list, 0, r->buckets * sizeof *r->list);
    q->limit[q->rungs++] = first;
    return r;
}

/* The keys of a list, which lie between first and last, go to a new rung. */
static void divide(ladder *q, ladder_list list, uint64_t first, uint64_t last)
{
    ladder_rung *r = add_rung(q, first, last, list.count);
    for (uint32_t c = list.head; c; c = release(q, c)) {
        const ladder_chunk *from = &q->chunk[c];
        __builtin_prefetch(&q->chunk[from->next]);
        __builtin_prefetch(&q->chunk[from->next].key[LADDER_CHUNK / 2]);
        for (uint32_t i = 0; i < from->n; i++)
            htc__ladder_append(q, &r->list[(from->key[i] - first) >> r->shift], from->key[i]);
    }
}

static void gather(ladder *q, ladder_list *all, const ladder_list *list)
{
    for (uint32_t c = list->head; c; c = release(q, c))
        for (uint32_t i = 0; i < q->chunk[c].n; i++)
            htc__ladder_append(q, all, q->chunk[c].key[i]);
}

/* There is no room for a rung, which takes events that ask again and again for an earlier id of the same tick: all rungs become one. */
static void rebuild(ladder *q)
{
    ladder_list all = { 0 };
    for (uint32_t r = 0; r < q->rungs; r++)
        for (uint32_t k = q->rung[r].current; k < q->rung[r].buckets; k++)
            gather(q, &all, &q->rung[r].list[k]);
    q->rungs = 0;
    divide(q, all, q->last & ~q->id_mask, q->top_start - 1);
}

/* The side heap is full: what is in it and in the bottom goes to a new rung. Nothing before the tick that is now will be pushed. */
static void divide_side(ladder *q)
{
    if (q->rungs == LADDER_RUNGS)
        rebuild(q);
    uint64_t     end = q->rungs ? q->limit[q->rungs - 1] : q->top_start, first = q->last & ~q->id_mask;
    int          inside = first < end; /* not so after a rebuild: everything is in its rung */
    ladder_rung *r = inside ? add_rung(q, first, end - 1, q->bottom_n + q->side_n) : &q->rung[q->rungs - 1];
    for (uint32_t i = 0; i < q->bottom_n; i++)
        htc__ladder_append(q, &r->list[(q->bottom[i] - r->base) >> r->shift], q->bottom[i]);
    for (uint32_t i = 0; i < q->side_n; i++)
        htc__ladder_append(q, &r->list[(q->side[i] - r->base) >> r->shift], q->side[i]);
    q->bottom_n = q->side_n = 0;
}

/* Too many keys to become the bottom? More than are sorted at once; and a large part of all that is pending, since many of the keys that are pushed before
 * the last of them would then go through the side heap, which costs several times what a list does. */
static int too_many(const ladder *q, uint64_t n)
{
    return n > LADDER_SORTED || (n > LADDER_FEW && n > q->count / LADDER_PART && q->rungs < LADDER_RUNGS);
}

/* Nothing is in a rung: the top becomes the first one. */
static void divide_top(ladder *q)
{
    ladder_list list = q->top;
    uint64_t    first = q->top_min, last = q->top_max;
    q->top = (ladder_list){ 0 };
    q->top_start = last + 1;
    q->top_min = UINT64_MAX;
    q->top_max = 0;
    if (too_many(q, list.count))
        divide(q, list, first, last);
    else
        open_list(q, &list);
}

/* Of more equal keys than are sorted at once, a chunk. Equal keys that are pushed now belong before the next chunk, as well as behind it. */
static void open_chunk(ladder *q, ladder_list *list, uint64_t key)
{
    uint32_t c = list->head, n = q->chunk[c].n;
    memcpy(q->bottom, q->chunk[c].key, n * sizeof *q->bottom);
    q->bottom_n = n;
    list->head = release(q, c);
    list->count -= n;
    q->limit[q->rungs - 1] = key + 1;
}

int htc__ladder_refill(ladder *q)
{
    assert(q->bottom_n == 0 && q->side_n == 0);
    while (q->bottom_n == 0) {
        if (q->rungs == 0) {
            if (q->top.count == 0)
                return 0;
            divide_top(q);
            continue;
        }
        ladder_rung *r = &q->rung[q->rungs - 1];
        while (r->current < r->buckets && r->list[r->current].count == 0)
            r->current++;
        if (r->current == r->buckets) {
            q->rungs--;
            continue;
        }
        ladder_list *list = &r->list[r->current], whole = *list;
        uint64_t     first = r->base + ((uint64_t)r->current << r->shift), last = first + (UINT64_C(1) << r->shift) - 1;
        if (whole.count > LADDER_SORTED && r->shift == 0) {
            open_chunk(q, list, first);
            continue;
        }
        if (whole.count > LADDER_SORTED && q->rungs == LADDER_RUNGS) {
            rebuild(q);
            continue;
        }
        *list = (ladder_list){ 0 };
        r->current++;
        q->limit[q->rungs - 1] = last + 1;
        if (r->shift && too_many(q, whole.count))
            divide(q, whole, first, last);
        else
            open_list(q, &whole);
    }
    return 1;
}

/* ---- a checkpoint ----
 *
 * What is read may be anybody's: each number that a push or a pop relies on is looked at. A chunk that was seen in one list has this bit, so that none is
 * in two and no list is a circle. */

#define SEEN (UINT32_C(1) << 31)

typedef struct audit {
    ladder  *q;
    uint64_t least, first_id, ids; /* of keys: none is less; and their ids */
    uint64_t keys, chunks;         /* seen */
} audit;

static int key_is_sound(audit *a, uint64_t key)
{
    a->keys++;
    return key >= a->least && key <= LADDER_KEY_MAX && (key & a->q->id_mask) - a->first_id < a->ids;
}

/* All chunks but the first are full, and its keys lie between two. */
static int list_is_sound(audit *a, const ladder_list *list, uint64_t first, uint64_t last)
{
    ladder  *q = a->q;
    uint64_t count = 0;
    for (uint32_t c = list->head; c;) {
        if (c > q->chunks_used || q->chunk[c].n & SEEN || !q->chunk[c].n || q->chunk[c].n > LADDER_CHUNK || (c != list->head && q->chunk[c].n != LADDER_CHUNK))
            return 0;
        for (uint32_t i = 0; i < q->chunk[c].n; i++)
            if (!key_is_sound(a, q->chunk[c].key[i]) || q->chunk[c].key[i] < first || q->chunk[c].key[i] > last)
                return 0;
        count += q->chunk[c].n;
        q->chunk[c].n |= SEEN;
        a->chunks++;
        c = q->chunk[c].next;
    }
    return count == list->count;
}

/* Keys from its limit on that are below `end` have a bucket in it. */
static int rung_is_sound(audit *a, const ladder_rung *r, uint64_t limit, uint64_t end)
{
    if (r->shift > 62 || !r->buckets || r->buckets > LADDER_FAN || r->current > r->buckets || r->base > LADDER_KEY_MAX || limit < r->base || !end ||
        (limit - r->base) >> r->shift < r->current || (limit - r->base) >> r->shift > r->buckets || (LADDER_KEY_MAX - r->base) >> r->shift < r->buckets - 1 || (end - 1 >= r->base && (end - 1 - r->base) >> r->shift >= r->buckets))
        return 0;
    for (uint32_t k = r->current; k < r->buckets; k++) {
        uint64_t first = r->base + ((uint64_t)k << r->shift), last = first + (UINT64_C(1) << r->shift) - 1;
        if (r->list[k].head && !list_is_sound(a, &r->list[k], first, last < end ? last : end - 1))
            return 0;
        if (!r->list[k].head && r->list[k].count)
            return 0;
    }
    return 1;
}

static int front_is_sound(audit *a)
{
    const ladder *q = a->q;
    uint64_t      end = q->rungs && q->limit[q->rungs - 1] < q->top_start ? q->limit[q->rungs - 1] : q->top_start;
    for (uint32_t i = 0; i < q->bottom_n; i++)
        if (!key_is_sound(a, q->bottom[i]) || q->bottom[i] >= end || (i && q->bottom[i] > q->bottom[i - 1]))
            return 0;
    for (uint32_t i = 0; i < q->side_n; i++)
        if (!key_is_sound(a, q->side[i]) || q->side[i] >= end || (i && q->side[i] < q->side[(i - 1) / 4]))
            return 0;
    return 1;
}

static int is_sound(audit *a)
{
    ladder  *q = a->q;
    uint64_t end = q->top_start;
    if (q->top_start > LADDER_KEY_MAX + 1 || (q->last & ~q->id_mask) > a->least || !list_is_sound(a, &q->top, q->top_start > q->top_min ? q->top_start : q->top_min, q->top_max) ||
        (!q->top.count && (q->top_min != UINT64_MAX || q->top_max)) || !front_is_sound(a))
        return 0;
    for (uint32_t i = 0; i < q->rungs; i++) { /* the end of the last bucket may be beyond what the rung divides */
        if (!rung_is_sound(a, &q->rung[i], q->limit[i], end))
            return 0;
        end = q->limit[i] < end ? q->limit[i] : end;
    }
    for (uint32_t c = q->chunk_free; c; c = q->chunk[c].next, a->chunks++) {
        if (c > q->chunks_used || q->chunk[c].n & SEEN)
            return 0;
        q->chunk[c].n |= SEEN;
    }
    return a->keys == q->count && a->chunks == q->chunks_used;
}

static htc_status move_rungs(ladder *q, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < q->rungs && status == HTC_OK; i++) {
        ladder_rung *r = &q->rung[i];
        status = tape->move(tape->ctx, r, offsetof(ladder_rung, list));
        if (status == HTC_OK && r->buckets > LADDER_FAN)
            return HTC_ECORRUPT;
        if (status == HTC_OK)
            status = tape->move(tape->ctx, r->list, r->buckets * sizeof *r->list);
    }
    return status;
}

htc_status htc__ladder_move(ladder *q, const htc_scale_tape *tape, uint64_t tick, uint64_t first_id, uint64_t ids)
{
    htc_status status = tape->move(tape->ctx, q, offsetof(ladder, rung));
    if (status == HTC_OK &&
        (q->count > q->count_max || q->rungs > LADDER_RUNGS || q->bottom_n > LADDER_SORTED || q->side_n > LADDER_SIDE || q->chunks_used >= q->chunks))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = move_rungs(q, tape);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, q->chunk + 1, q->chunks_used * sizeof *q->chunk);
    if (status != HTC_OK || !tape->reads)
        return status;
    audit a = { .q = q, .least = tick <= LADDER_KEY_MAX / (q->id_mask + 1) ? tick * (q->id_mask + 1) : UINT64_MAX, .first_id = first_id, .ids = ids };
    int   sound = is_sound(&a);
    for (uint32_t c = 1; c <= q->chunks_used; c++)
        q->chunk[c].n &= ~SEEN;
    return sound ? HTC_OK : HTC_ECORRUPT;
}

static void count_keys(const ladder *q, const uint64_t *key, uint32_t n, uint8_t *of)
{
    for (uint32_t i = 0; i < n; i++)
        if (of[key[i] & q->id_mask] < UINT8_MAX)
            of[key[i] & q->id_mask]++;
}

static void count_list(const ladder *q, const ladder_list *list, uint8_t *of)
{
    for (uint32_t c = list->head; c; c = q->chunk[c].next)
        count_keys(q, q->chunk[c].key, q->chunk[c].n, of);
}

void htc__ladder_count_ids(const ladder *q, uint8_t *of)
{
    count_keys(q, q->bottom, q->bottom_n, of);
    count_keys(q, q->side, q->side_n, of);
    count_list(q, &q->top, of);
    for (uint32_t i = 0; i < q->rungs; i++)
        for (uint32_t k = q->rung[i].current; k < q->rung[i].buckets; k++)
            count_list(q, &q->rung[i].list[k], of);
}
