/* Files of tests/data, and data of experiments (examples/sim/data), from a build directory below the tree or from the tree itself. */
#ifndef HTC_TESTS_DATA_H
#define HTC_TESTS_DATA_H

#include <stdio.h>

/* NULL: it is not found; a test that needs it says so and skips. */
static inline FILE *test_data(const char *name)
{
    static const char *const above[] = { "", "../", "../../", "../../../" }, *const folders[] = { "tests/data", "examples/sim/data" };
    char                     path[256];
    FILE                    *file = NULL;
    for (size_t i = 0; i < 2 * sizeof above / sizeof *above && !file; i++) {
        snprintf(path, sizeof path, "%s%s/%s", above[i / 2], folders[i % 2], name);
        file = fopen(path, "r");
    }
    return file;
}

#endif
