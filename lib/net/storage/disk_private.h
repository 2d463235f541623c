/* Which way writes have gone: for tests, and for who wants to know what a file system takes. */
#ifndef HTC_NET_STORE_DISK_PRIVATE_H
#define HTC_NET_STORE_DISK_PRIVATE_H

#include "htcsched/disk_host.h"

typedef struct htc__disk_ways {
    uint64_t buffered; /* through the page cache */
    uint64_t direct;   /* past it */
} htc__disk_ways;

/* While no call is on its way. */
void htc__disk_dir_ways(const htc_disk_dir *dir, htc__disk_ways *ways);

#endif
