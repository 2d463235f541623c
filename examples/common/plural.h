/* What programs say of one, and of several. */
#ifndef HTC_EXAMPLES_PLURAL_H
#define HTC_EXAMPLES_PLURAL_H

#include <stdint.h>

/* "1 task", "2 tasks" */
static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
