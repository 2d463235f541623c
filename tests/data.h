/* Files of tests/data, from a build directory below the tree or from the tree itself. */
#ifndef HTC_TESTS_DATA_H
#define HTC_TESTS_DATA_H

#include <stdio.h>

/* NULL: it is not found; a test that needs it says so and skips. */
static inline FILE *test_data(const char *name)
{
    static const char *const places[] = { "tests/data", "../tests/data", "../../tests/data", "../../../tests/data" };
    char                     path[256];
    FILE                    *file = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !file; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], name);
        file = fopen(path, "r");
    }
    return file;
}

#endif
