/* Where outputs go in a result set (examples/htc/places.h): every place once, and no more of them than were allowed. */
#include "expect.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/htc/htc.h"
#include "../../examples/htc/places.h"

void *must(void *p)
{
    cr_assert(p != NULL);
    return p;
}

char *must_dup(const char *s)
{
    return must(strdup(s));
}

char *must_print(const char *format, ...)
{
    char   *s = NULL;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&s, format, ap);
    va_end(ap);
    return must(n < 0 ? NULL : s);
}

static void takes(places *p, const char *wanted, uint64_t index, const char *name, const char *place)
{
    int   renamed;
    char *got = places_take(p, wanted, index, name, &renamed);
    cr_assert(got != NULL);
    cr_expect(eq(str, got, (char *)(uintptr_t)place));
    cr_expect(eq(int, renamed, strcmp(wanted, place) != 0));
    free(got);
}

Test(result_places, each_is_taken_once)
{
    places *p = places_new(PLACES_MAX);
    takes(p, "a", 0, "stdout", "a");
    takes(p, "a", 1, "stdout", "1~/stdout");
    takes(p, "a", 1, "stdout", "1~~/stdout");
    takes(p, "a/b", 2, "stdout", "2~/stdout"); /* a is a file */
    takes(p, "3/x/y", 3, "x/y", "3/x/y");
    takes(p, "3/x", 4, "stdout", "4~/stdout"); /* 3/x is a folder */
    takes(p, "3", 5, "stdout", "5~/stdout");
    takes(p, "3/x/z", 3, "x/z", "3/x/z");
    takes(p, "manifest.json", 6, "stdout", "6~/stdout");
    places_free(p);
}

Test(result_places, of_many_each_is_remembered)
{
    enum { N = 100000 };
    places *p = places_new(PLACES_MAX);
    char    text[40], other[40];
    for (uint64_t i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%" PRIu64 "/out", i);
        takes(p, text, i, "out", text);
    }
    for (uint64_t i = 0; i < N; i += 7) {
        snprintf(text, sizeof text, "%" PRIu64 "/out", i);
        snprintf(other, sizeof other, "%" PRIu64 "~/err", i);
        takes(p, text, i, "err", other);
    }
    places_free(p);
}

Test(result_places, their_number_has_a_limit)
{
    places *p = places_new(5); /* manifest.json is one */
    int     renamed;
    takes(p, "0/a", 0, "a", "0/a");
    cr_expect(eq(int, places_full(p), 0));
    takes(p, "1/a", 1, "a", "1/a");
    cr_expect(eq(int, places_full(p), 1));
    cr_expect(places_take(p, "2", 2, "a", &renamed) == NULL);
    cr_expect(places_take_dir(p, "0", 0, "d", &renamed) == NULL);
    places_free(p);
}
