/* One page for monitors of several shards: each writes its part in its own thread, the front waits for them. */
#ifndef HTC_EXAMPLES_SHARDS_PAGE_H
#define HTC_EXAMPLES_SHARDS_PAGE_H

#include "member_private.h"

/* With a label that says which of them, from 1. One that does not write its part in time is left out. */
void shards_page_write(member *const *of, uint32_t count, const char *label, htc_metrics *metrics);

#endif
