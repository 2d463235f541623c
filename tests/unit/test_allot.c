#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "htcsched/allot.h"

typedef struct row {
    uint64_t weight, demand, expected;
} row;

static void divide(const row *rows, size_t n, uint64_t slots, htc_allot_share *out)
{
    htc_allot_user users[16];
    for (size_t i = 0; i < n; i++)
        users[i] = (htc_allot_user){ .weight = rows[i].weight, .queued = rows[i].demand, .arrival = i, .id = i };
    cr_assert(eq(int, htc_allot(NULL, NULL, users, n, slots, out), HTC_OK));
}

#define TABLE(slots, ...)                                                                                              \
    do {                                                                                                               \
        const row       rows[] = { __VA_ARGS__ };                                                                      \
        size_t          n = sizeof rows / sizeof *rows;                                                                \
        htc_allot_share got[16];                                                                                       \
        divide(rows, n, slots, got);                                                                                   \
        for (size_t i = 0; i < n; i++)                                                                                 \
            cr_expect(eq(u64, got[i].ra, rows[i].expected), "A=%d user %zu", (int)(slots), i);                         \
    } while (0)

/* The tables of the specification. */
Test(allot, worked_tables)
{
    TABLE(10, { 1, 100, 4 }, { 1, 100, 3 }, { 1, 100, 3 });
    TABLE(3, { 1, 9, 1 }, { 1, 9, 1 }, { 1, 9, 1 }, { 1, 9, 0 }, { 1, 9, 0 });
    TABLE(10, { 2, 100, 5 }, { 1, 100, 3 }, { 1, 100, 2 });
    TABLE(10, { 1, 1, 1 }, { 1, 100, 5 }, { 1, 100, 4 });
    TABLE(10, { 3, 4, 4 }, { 1, 100, 6 });
    TABLE(0, { 1, 5, 0 }, { 7, 5, 0 });
    TABLE(10, { 1, 0, 0 }, { 1, 0, 0 });
}
