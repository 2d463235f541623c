/* What a test holds to be so: Criterion's cr_expect and cr_assert, in a form that a compiler reads in a moment. Criterion's own are a
 * thousand lines of macros each time, which is most of what a test takes to build.
 *
 *     cr_expect(eq(int, htc_ring_create(&o, &ring), HTC_OK), "with %d seats", seats);
 *
 * A type is named as Criterion names it (int, u32, sz, str, ...); both values are shown. Criterion looks for the tests, runs them and says
 * how they have ended, as ever. */
#ifndef HTC_TESTS_EXPECT_H
#define HTC_TESTS_EXPECT_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Behind a test's own words stands an empty string, so that there may be none of them. */
#pragma GCC diagnostic ignored "-Wformat-extra-args"

/* What a comparison that does not hold has seen. */
static char expect_saw[600];

/* For each type: how two values of it are written, and when the first is the same, less, more. */
#define EXPECT_TYPE(name, type, written, same, less, more)                                                             \
    typedef type      expect_type_##name;                                                                              \
    static inline int expect_##name(type a, char how, type b, const char *what)                                        \
    {                                                                                                                  \
        int holds = how == '=' ? same : how == '!' ? !(same) : how == '<' ? less : how == '>' ? more                   \
                  : how == 'l' ? (less) || (same) : (more) || (same);                                                  \
        if (!holds)                                                                                                    \
            snprintf(expect_saw, sizeof expect_saw, "%s: " written ", " written, what, a, b);                          \
        return holds;                                                                                                  \
    }
#define EXPECT_NUMBER(name, type, written) EXPECT_TYPE(name, type, written, a == b, a < b, a > b)
EXPECT_NUMBER(int, int, "%d")
EXPECT_NUMBER(long, long, "%ld")
EXPECT_NUMBER(i64, int64_t, "%" PRId64)
EXPECT_NUMBER(uint, unsigned, "%u")
EXPECT_NUMBER(u8, uint8_t, "%" PRIu8)
EXPECT_NUMBER(u16, uint16_t, "%" PRIu16)
EXPECT_NUMBER(u32, uint32_t, "%" PRIu32)
EXPECT_NUMBER(u64, uint64_t, "%" PRIu64)
EXPECT_NUMBER(sz, size_t, "%zu")
EXPECT_NUMBER(dbl, double, "%.17g")
EXPECT_NUMBER(ptr, const void *, "%p")
EXPECT_TYPE(str, const char *, "\"%.250s\"", strcmp(a, b) == 0, strcmp(a, b) < 0, strcmp(a, b) > 0)
#undef EXPECT_NUMBER
#undef EXPECT_TYPE

/* The first value is found before the second, which may speak of what that has changed. */
#define EXPECT_TWO(type, a, how, b, what)                                                                              \
    __extension__({                                                                                                    \
        expect_type_##type expect_first = (a);                                                                         \
        expect_##type(expect_first, how, (b), what);                                                                   \
    })
#define eq(type, a, b) EXPECT_TWO(type, a, '=', b, #a " == " #b)
#define ne(type, a, b) EXPECT_TWO(type, a, '!', b, #a " != " #b)
#define lt(type, a, b) EXPECT_TWO(type, a, '<', b, #a " < " #b)
#define gt(type, a, b) EXPECT_TWO(type, a, '>', b, #a " > " #b)
#define le(type, a, b) EXPECT_TWO(type, a, 'l', b, #a " <= " #b)
#define ge(type, a, b) EXPECT_TWO(type, a, 'g', b, #a " >= " #b)
#define not(condition)   (!(condition))

/* words begins with a letter that is not shown. */
static inline __attribute__((format(printf, 4, 5))) void expect_fails(const char *file, int line, const char *what, const char *words, ...)
{
    char    own[600], all[1300];
    va_list args;
    va_start(args, words);
    vsnprintf(own, sizeof own, words, args);
    va_end(args);
    if (expect_saw[0])
        what = expect_saw;
    snprintf(all, sizeof all, "%s%s%s", what, what[0] && own[1] ? ": " : "", own + 1);
    struct criterion_assert_stats stats = { .passed = 0, .file = file, .line = (unsigned)line, .message = all };
    criterion_send_assert(&stats);
}

#define EXPECT(otherwise, condition, ...)                                                                              \
    do {                                                                                                               \
        expect_saw[0] = '\0';                                                                                          \
        if (!(condition)) {                                                                                            \
            expect_fails(__FILE__, __LINE__, #condition, "x" __VA_ARGS__);                                             \
            otherwise();                                                                                               \
        }                                                                                                              \
    } while (0)

#undef cr_expect
#undef cr_assert
#undef cr_fatal
#define cr_expect(...) EXPECT(criterion_continue_test, __VA_ARGS__, "")
#define cr_assert(...) EXPECT(criterion_abort_test, __VA_ARGS__, "")
#define cr_fatal(...)                                                                                                  \
    do {                                                                                                               \
        expect_saw[0] = '\0';                                                                                          \
        expect_fails(__FILE__, __LINE__, "", "x" __VA_ARGS__);                                                         \
        criterion_abort_test();                                                                                        \
    } while (0)

#endif
