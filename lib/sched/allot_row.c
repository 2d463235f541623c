/* Quickselect over the users of a division. The entries themselves change places: with indices each comparison of a
 * million would be a miss of the cache. */
#include "allot_private.h"

static void swap(htc__entry *a, htc__entry *b)
{
    htc__entry keep = *a;
    *a = *b;
    *b = keep;
}

uint64_t htc__room_of(const htc__division *d, const htc__entry *e)
{
    uint64_t room = e->demand - e->ra;
    return room < d->left ? room : d->left;
}

static const htc__entry *middle_of(const htc__division *d, const htc__entry *a, const htc__entry *b,
                                   const htc__entry *c, htc__entry_before *before)
{
    const htc__entry *first = before(d, b, a) ? b : a, *last = before(d, b, a) ? a : b;
    return before(d, c, first) ? first : before(d, c, last) ? c : last;
}

/* Hoare's, of n > 1: none of the first ones, whose number is answered, belongs behind the pivot, and none of the others
 * before it; neither part is empty. */
static size_t partition(const htc__division *d, htc__entry *e, size_t n, htc__entry *pivot, htc__entry_before *before)
{
    *pivot = *middle_of(d, &e[0], &e[(n - 1) / 2], &e[n - 1], before);
    for (size_t i = 0, j = n - 1;; i++, j--) {
        while (before(d, &e[i], pivot))
            i++;
        while (before(d, pivot, &e[j]))
            j--;
        if (i >= j)
            return j + 1;
        swap(&e[i], &e[j]);
    }
}

static void sink(const htc__division *d, htc__entry *e, size_t n, size_t at, htc__entry_before *before)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(d, &e[child], &e[child + 1]))
            child++;
        if (!before(d, &e[at], &e[child]))
            return;
        swap(&e[at], &e[child]);
    }
}

/* Heapsort: for when pivots were bad ones, since somebody chose them. */
static void sort(const htc__division *d, htc__entry *e, size_t n, htc__entry_before *before)
{
    for (size_t i = n / 2; i > 0; i--)
        sink(d, e, n, i - 1, before);
    for (size_t left = n; left > 1; left--) {
        swap(&e[0], &e[left - 1]);
        sink(d, e, left - 1, 0, before);
    }
}

/* Twice as many partitions as halving would take. */
static size_t rounds_for(size_t n)
{
    size_t rounds = 2;
    while (n >>= 1)
        rounds += 2;
    return rounds;
}

void htc__entries_select(const htc__division *d, htc__entry *entries, size_t n, size_t k, htc__entry_before *before)
{
    size_t     low = 0, high = n, rounds = rounds_for(n);
    htc__entry pivot;
    while (low < k && k < high) {
        if (rounds-- == 0) {
            sort(d, entries + low, high - low, before);
            return;
        }
        size_t middle = low + partition(d, entries + low, high - low, &pivot, before);
        if (k < middle)
            high = middle;
        else
            low = middle;
    }
}

/* The sums say on which side of the pivot to go on. */
size_t htc__entries_row(htc__division *d, htc__entry_before *before, htc__entry_enough *enough)
{
    size_t   low = 0, high = d->n, rounds = rounds_for(d->n);
    htc_u128 rooms_low = 0;
    uint64_t weights_low = 0;
    while (low < high) {
        if (rounds-- == 0) /* from now on the pivots halve */
            sort(d, d->entries + low, high - low, before);
        htc__entry pivot = d->entries[low];
        size_t     middle = high;
        htc_u128   rooms = rooms_low;
        uint64_t   weights = weights_low;
        if (high - low > 1)
            middle = low + partition(d, d->entries + low, high - low, &pivot, before);
        for (size_t i = low; i < middle; i++) {
            rooms += htc__room_of(d, &d->entries[i]);
            weights += d->entries[i].weight;
        }
        if (enough(d, &pivot, rooms, weights)) {
            low = middle;
            rooms_low = rooms;
            weights_low = weights;
        } else if (high - low > 1) {
            high = middle;
        } else {
            break;
        }
    }
    return low;
}
