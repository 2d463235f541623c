/* Waiting numbers are ranges in order, suspects among them. A portion that is out has two bits for each number: it is settled (done, failed, or
 * waiting again), and it is closed (the helper is behind it). A portion is over when all of it is closed, whatever is settled: its place is used
 * again, and what was still to come for it would be taken for the next one's. */
#include "roles/functions/span_book.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "roles/functions/fn_frames.h"

typedef struct range {
    uint64_t from, to;
} range;

typedef struct portion {
    uint32_t  n, left; /* left: not closed; 0: it is not out */
    uint64_t  from;
    uint32_t  alone;
    uint64_t *settled, *closed; /* in one piece of memory */
} portion;

struct htc__span_book {
    htc_env  env;
    range   *waits; /* in order, no two touch */
    uint32_t n_waits, room;
    portion  portions[HTC__SPAN_PORTIONS];
    uint32_t n_suspects;
    uint64_t suspects[HTC__SPAN_SUSPECTS_MAX]; /* in no order; each waits, or is out in a portion that is being lost */
    uint64_t done, failed, total;
};

static size_t words(uint32_t n)
{
    return ((size_t)n + 63) / 64;
}

static int is_settled(const portion *p, uint32_t i)
{
    return p->settled[i / 64] >> (i % 64) & 1;
}

static void check(const htc__span_book *b)
{
    assert(b->done + b->failed <= b->total);
    assert(b->n_waits <= b->room);
    (void)b;
}

htc_status htc__span_book_create(const htc_env *env, uint64_t from, uint64_t to, htc__span_book **out)
{
    htc__span_book *b = htc__alloc(env, sizeof *b);
    assert(from < to);
    if (!b)
        return HTC_ENOMEM;
    if (env)
        b->env = *env;
    b->room = 16;
    b->waits = htc__alloc(env, b->room * sizeof *b->waits);
    if (!b->waits) {
        htc__free(env, b, sizeof *b);
        return HTC_ENOMEM;
    }
    b->waits[0] = (range){ from, to };
    b->n_waits = 1;
    b->total = to - from;
    *out = b;
    return HTC_OK;
}

static void forget(htc__span_book *b, portion *p)
{
    htc__free(&b->env, p->settled, 2 * words(p->n) * sizeof *p->settled);
    *p = (portion){ 0 };
}

void htc__span_book_destroy(htc__span_book *b)
{
    if (!b)
        return;
    htc_env env = b->env;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        if (b->portions[i].left)
            forget(b, &b->portions[i]);
    htc__free(&env, b->waits, b->room * sizeof *b->waits);
    htc__free(&env, b, sizeof *b);
}

/* ---- what waits ---- */

/* The first range that ends behind number, or n_waits. */
static uint32_t find(const htc__span_book *b, uint64_t number)
{
    uint32_t low = 0, high = b->n_waits;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->waits[middle].to <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static htc_status make_room(htc__span_book *b, uint32_t more)
{
    uint32_t room = b->room;
    if (more > HTC__SPAN_RANGES_MAX - b->n_waits)
        return HTC_EFULL;
    while (room < b->n_waits + more)
        room *= 2;
    if (room == b->room)
        return HTC_OK;
    range *waits = htc__resize(&b->env, b->waits, b->room * sizeof *waits, room * sizeof *waits);
    if (!waits)
        return HTC_ENOMEM;
    b->waits = waits;
    b->room = room;
    return HTC_OK;
}

/* There is room for one more; none of it waits yet. */
static void put_back(htc__span_book *b, uint64_t from, uint64_t to)
{
    uint32_t i = find(b, from);
    int      joins_before = i > 0 && b->waits[i - 1].to == from, joins_behind = i < b->n_waits && b->waits[i].from == to;
    assert(b->n_waits < b->room && from < to);
    if (joins_before && joins_behind) {
        b->waits[i - 1].to = b->waits[i].to;
        memmove(&b->waits[i], &b->waits[i + 1], (b->n_waits - i - 1) * sizeof *b->waits);
        b->n_waits--;
    } else if (joins_before) {
        b->waits[i - 1].to = to;
    } else if (joins_behind) {
        b->waits[i].from = from;
    } else {
        memmove(&b->waits[i + 1], &b->waits[i], (b->n_waits - i) * sizeof *b->waits);
        b->waits[i] = (range){ from, to };
        b->n_waits++;
    }
}

/* All of it waits. There is room for one more. */
static void take_out(htc__span_book *b, uint64_t from, uint64_t to)
{
    uint32_t i = find(b, from);
    range    r = b->waits[i];
    assert(i < b->n_waits && r.from <= from && to <= r.to && b->n_waits < b->room);
    if (r.from == from && r.to == to) {
        memmove(&b->waits[i], &b->waits[i + 1], (b->n_waits - i - 1) * sizeof *b->waits);
        b->n_waits--;
    } else if (r.from == from) {
        b->waits[i].from = to;
    } else if (r.to == to) {
        b->waits[i].to = from;
    } else {
        memmove(&b->waits[i + 1], &b->waits[i], (b->n_waits - i) * sizeof *b->waits);
        b->waits[i].to = from;
        b->waits[i + 1].from = to;
        b->n_waits++;
    }
}

int htc__span_book_first(const htc__span_book *b, uint64_t *number)
{
    if (b->n_suspects)
        *number = b->suspects[b->n_suspects - 1];
    else if (b->n_waits)
        *number = b->waits[0].from;
    return b->n_suspects || b->n_waits;
}

static portion *free_portion(htc__span_book *b)
{
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        if (!b->portions[i].left)
            return &b->portions[i];
    return NULL;
}

htc_status htc__span_book_next(htc__span_book *b, uint32_t most, htc__span_portion *out)
{
    uint64_t number;
    portion *p = free_portion(b);
    assert(most > 0 && most <= HTC__FN_PORTION_TASKS);
    if (!p || !htc__span_book_first(b, &number) || (b->n_suspects && htc__span_book_out(b)))
        return HTC_EMPTY;
    uint32_t   n = 1;
    htc_status status = make_room(b, 1);
    if (status != HTC_OK)
        return status;
    if (!b->n_suspects)
        n = b->waits[0].to - number < most ? (uint32_t)(b->waits[0].to - number) : most;
    uint64_t *settled = htc__alloc(&b->env, 2 * words(n) * sizeof *settled);
    if (!settled)
        return HTC_ENOMEM;
    take_out(b, number, number + n);
    *p = (portion){ .n = n, .left = n, .from = number, .alone = b->n_suspects > 0, .settled = settled, .closed = settled + words(n) };
    if (b->n_suspects)
        b->n_suspects--;
    *out = (htc__span_portion){ (uint32_t)(p - b->portions), n, number, p->alone };
    check(b);
    return HTC_OK;
}

/* ---- what is out ---- */

static portion *portion_at(const htc__span_book *b, uint32_t index, uint32_t offset, uint32_t count)
{
    portion *p = index < HTC__SPAN_PORTIONS ? (portion *)(uintptr_t)&b->portions[index] : NULL;
    return p && p->left && count > 0 && count <= p->n && offset <= p->n - count ? p : NULL;
}

/* How many of these bits were not set; they are now. A word at a time: a portion of a million costs some thousands of steps. */
static uint32_t set_all(uint64_t *bits, uint32_t offset, uint32_t count)
{
    uint32_t fresh = 0;
    for (uint32_t i = offset, end = offset + count; i < end;) {
        uint32_t bit = i % 64, n = 64 - bit < end - i ? 64 - bit : end - i;
        uint64_t mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << bit;
        fresh += (uint32_t)__builtin_popcountll(mask & ~bits[i / 64]);
        bits[i / 64] |= mask;
        i += n;
    }
    return fresh;
}

/* The helper is behind these. */
static void close_all(htc__span_book *b, portion *p, uint32_t offset, uint32_t count)
{
    (void)set_all(p->settled, offset, count);
    p->left -= set_all(p->closed, offset, count);
    if (!p->left)
        forget(b, p);
    check(b);
}

htc_status htc__span_book_ended(htc__span_book *b, uint32_t index, uint32_t offset, uint32_t count)
{
    portion *p = portion_at(b, index, offset, count);
    if (!p)
        return HTC_EPROTO;
    b->done += set_all(p->settled, offset, count);
    close_all(b, p, offset, count);
    return HTC_OK;
}

static htc_status settle_one(htc__span_book *b, uint32_t index, uint32_t offset, uint64_t *counted)
{
    portion *p = portion_at(b, index, offset, 1);
    if (!p)
        return HTC_EPROTO;
    if (is_settled(p, offset))
        return HTC_EEXISTS;
    (void)set_all(p->settled, offset, 1);
    ++*counted;
    check(b);
    return HTC_OK;
}

htc_status htc__span_book_failed(htc__span_book *b, uint32_t index, uint32_t offset)
{
    return settle_one(b, index, offset, &b->failed);
}

htc_status htc__span_book_output(htc__span_book *b, uint32_t index, uint32_t offset)
{
    return settle_one(b, index, offset, &b->done);
}

int htc__span_book_is_out(const htc__span_book *b, uint32_t index, uint32_t offset)
{
    const portion *p = portion_at(b, index, offset, 1);
    return p && !is_settled(p, offset);
}

/* The pieces of these that are not settled: counted, or put back. */
static uint32_t unsettled(htc__span_book *b, const portion *p, uint32_t offset, uint32_t count, int back)
{
    uint32_t pieces = 0;
    for (uint32_t i = offset, end = offset + count, begin; i < end;) {
        if (is_settled(p, i)) {
            i++;
            continue;
        }
        for (begin = i; i < end && !is_settled(p, i); i++)
            ;
        pieces++;
        if (back)
            put_back(b, p->from + begin, p->from + i);
    }
    return pieces;
}

static htc_status put_back_all(htc__span_book *b, const portion *p, uint32_t offset, uint32_t count)
{
    htc_status status = make_room(b, unsettled(b, p, offset, count, 0) + 1);
    if (status == HTC_OK)
        (void)unsettled(b, p, offset, count, 1);
    return status;
}

htc_status htc__span_book_skipped(htc__span_book *b, uint32_t index, uint32_t offset, uint32_t count)
{
    portion *p = portion_at(b, index, offset, count);
    if (!p)
        return HTC_EPROTO;
    htc_status status = put_back_all(b, p, offset, count);
    if (status == HTC_OK)
        close_all(b, p, offset, count);
    return status;
}

htc_status htc__span_book_put_off(htc__span_book *b, uint32_t index, uint32_t offset)
{
    portion *p = portion_at(b, index, offset, 1);
    if (!p)
        return HTC_EPROTO;
    if (is_settled(p, offset))
        return HTC_EEXISTS;
    htc_status status = put_back_all(b, p, offset, 1);
    if (status == HTC_OK)
        (void)set_all(p->settled, offset, 1);
    return status;
}

htc_status htc__span_book_suspect(htc__span_book *b, uint32_t index, uint32_t offset)
{
    if (!htc__span_book_is_out(b, index, offset))
        return HTC_EPROTO;
    if (b->n_suspects == HTC__SPAN_SUSPECTS_MAX)
        return HTC_EFULL;
    b->suspects[b->n_suspects++] = b->portions[index].from + offset;
    return HTC_OK;
}

htc_status htc__span_book_lost(htc__span_book *b)
{
    uint32_t pieces = 1;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        if (b->portions[i].left)
            pieces += unsettled(b, &b->portions[i], 0, b->portions[i].n, 0);
    htc_status status = make_room(b, pieces);
    if (status != HTC_OK)
        return status;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        if (b->portions[i].left) {
            (void)unsettled(b, &b->portions[i], 0, b->portions[i].n, 1);
            forget(b, &b->portions[i]);
        }
    check(b);
    return HTC_OK;
}

/* ---- what is known ---- */

uint64_t htc__span_book_done(const htc__span_book *b)
{
    return b->done;
}

uint64_t htc__span_book_failures(const htc__span_book *b)
{
    return b->failed;
}

uint32_t htc__span_book_out(const htc__span_book *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        n += b->portions[i].left > 0;
    return n;
}

uint32_t htc__span_book_suspects(const htc__span_book *b)
{
    return b->n_suspects;
}

uint64_t htc__span_book_number(const htc__span_book *b, uint32_t index, uint32_t offset)
{
    assert(index < HTC__SPAN_PORTIONS);
    return b->portions[index].from + offset;
}

int htc__span_book_over(const htc__span_book *b)
{
    return b->done + b->failed == b->total;
}

int htc__span_book_range(const htc__span_book *b, uint32_t nth, uint64_t *from, uint64_t *to)
{
    assert(!htc__span_book_out(b));
    if (nth >= b->n_waits)
        return 0;
    *from = b->waits[nth].from;
    *to = b->waits[nth].to;
    return 1;
}
