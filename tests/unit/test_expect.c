/* What tests say has to hold (expect.h): each comparison is right for each order of two values, and what does not hold is said in full. */
#include <criterion/criterion.h>
#include <stdio.h>

static char said[1400];
static int  went_on, stopped;

static void hear(struct criterion_assert_stats *stats)
{
    snprintf(said, sizeof said, "%s", stats->message);
}
#define criterion_send_assert hear
#include "expect.h"
#undef criterion_send_assert
/* From here on what does not hold is only counted; in parentheses the names are Criterion's. */
#define criterion_continue_test() went_on++
#define criterion_abort_test()    stopped++

static void must(int holds, const char *what)
{
    struct criterion_assert_stats stats = { .passed = holds, .file = __FILE__, .line = __LINE__, .message = what };
    if (holds)
        return;
    criterion_send_assert(&stats);
    (criterion_continue_test)();
}

/* Bits: eq, ne, lt, gt, le, ge. */
#define RELATIONS(type, a, b)                                                                                          \
    (eq(type, a, b) | ne(type, a, b) << 1 | lt(type, a, b) << 2 | gt(type, a, b) << 3 | le(type, a, b) << 4 | ge(type, a, b) << 5)
#define SAME    (1 | 1 << 4 | 1 << 5)
#define LESS    (1 << 1 | 1 << 2 | 1 << 4)
#define MORE    (1 << 1 | 1 << 3 | 1 << 5)
#define ORDERED(type, low, high)                                                                                       \
    must(RELATIONS(type, low, low) == SAME && RELATIONS(type, low, high) == LESS && RELATIONS(type, high, low) == MORE, #type)

Test(expect, compares_each_type)
{
    char two[2];
    ORDERED(int, -2147483647, 1);
    ORDERED(long, -1L, 1L << 40);
    ORDERED(i64, INT64_MIN, INT64_MAX);
    ORDERED(uint, 1, 4294967295U);
    ORDERED(u8, 1, 255);
    ORDERED(u16, 1, 65535);
    ORDERED(u32, 1, UINT32_MAX);
    ORDERED(u64, 1, UINT64_MAX);
    ORDERED(sz, 1, SIZE_MAX);
    ORDERED(dbl, -0.5, 0.25);
    ORDERED(ptr, &two[0], &two[1]);
    ORDERED(str, "a", "aa");
    must(RELATIONS(dbl, 0.0 / 0.0, 1.0) == 1 << 1, "no number");
    must(not(0) && !not(1), "not");
}

static int changed(int *what)
{
    return ++*what;
}

Test(expect, finds_the_first_value_first)
{
    int at = 3;
    must(eq(int, changed(&at), at) && at == 4, "in another order, or twice");
    must(!ne(int, changed(&at), at) && at == 5, "in another order, or twice");
}

static void is_said(const char *wanted, int on, int stop)
{
    must(strcmp(said, wanted) == 0, said);
    must(went_on == on && stopped == stop, wanted);
    said[0] = '\0';
    went_on = stopped = 0;
}

Test(expect, says_what_does_not_hold)
{
    int three = 3;
    cr_expect(three == 4);
    is_said("three == 4", 1, 0);
    cr_expect(three == 4, "own %d", three);
    is_said("three == 4: own 3", 1, 0);
    cr_expect(eq(int, three, 4));
    is_said("three == 4: 3, 4", 1, 0);
    cr_assert(le(u64, UINT64_MAX, 4), "%s", "own");
    is_said("UINT64_MAX <= 4: 18446744073709551615, 4: own", 0, 1);
    cr_assert(eq(str, "", "b"));
    is_said("\"\" == \"b\": \"\", \"b\"", 0, 1);
    cr_assert(eq(int, three, 4) || three == 5);
    is_said("three == 4: 3, 4", 0, 1);
    cr_expect(eq(int, three, 4) || three == 3);
    cr_assert(three == 3, "own");
    is_said("", 0, 0);
    cr_expect(three == 5);
    is_said("three == 5", 1, 0); /* what was compared before is forgotten */
    cr_fatal("here %d", three);
    is_said("here 3", 0, 1);
}
