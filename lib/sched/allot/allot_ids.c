/* Whether users differ: sorted by the digits of their ids, so that it costs O(n) whatever these are. */
#include "sched/allot/allot_private.h"

/* Equal digits keep their order. 0: all digits are equal, and nothing was moved. */
static int sort_by_digit(const uint64_t *from, uint64_t *to, size_t n, uint32_t shift)
{
    size_t place[257] = { 0 };
    for (size_t i = 0; i < n; i++)
        place[(from[i] >> shift & 255) + 1]++;
    if (place[(from[0] >> shift & 255) + 1] == n)
        return 0;
    for (size_t d = 1; d < 256; d++)
        place[d] += place[d - 1];
    for (size_t i = 0; i < n; i++)
        to[place[from[i] >> shift & 255]++] = from[i];
    return 1;
}

int htc__allot_ids_differ(const htc_allot_user *users, size_t n, void *room)
{
    uint64_t *ids = room, *sorted = ids + n;
    size_t    i = 1;
    while (i < n && users[i - 1].id < users[i].id)
        i++;
    if (i >= n)
        return 1; /* as they are as a rule */
    for (i = 0; i < n; i++)
        ids[i] = users[i].id;
    for (uint32_t shift = 0; shift < 64; shift += 8)
        if (sort_by_digit(ids, sorted, n, shift)) {
            uint64_t *swapped = ids;
            ids = sorted;
            sorted = swapped;
        }
    for (i = 1; i < n && ids[i - 1] != ids[i];)
        i++;
    return i == n;
}
