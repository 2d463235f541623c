/* Writes past the page cache that are durable when they end (O_DIRECT, RWF_DSYNC): there is no copy to be made, and nothing left to sync behind
 * them. One system call instead of two, and a sixth less processor time. */
#ifndef HTC_NET_STORE_DIRECT_H
#define HTC_NET_STORE_DIRECT_H

#include <stddef.h>
#include <stdint.h>

#define HTC__DIRECT_UNIT 512 /* offset, length and the place in memory are multiples of this */

/* Is that a file of a file system that keeps this promise? Some of a network or of a host take such a write and leave it in a cache. */
int htc__direct_is_kept(int fd);

/* 0: all of it is durable; else as in errno: EAGAIN also where only a part was written. fd was opened with O_DIRECT. */
int htc__direct_write(int fd, const void *data, size_t n, uint64_t offset);

/* Nothing is wrong with the disk: this file cannot be written so, or not now. What is there is what was there before, or in part the
 * new bytes, so that the same write by another way leaves the same. */
int htc__direct_is_no_way(int error);
/* Nor will it be later. */
int htc__direct_is_never(int error);

#endif
