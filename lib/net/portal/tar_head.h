/* Heads of a POSIX archive (ustar, with a pax record where a text is too long for it). */
#ifndef HTC_NET_PORTAL_TAR_HEAD_H
#define HTC_NET_PORTAL_TAR_HEAD_H

#include "htcsched/codec.h"

#define TAR_BLOCK 512u

typedef struct tar_entry {
    const char *name, *target; /* target: of a symbolic link; "": none */
    uint64_t    size, mtime;   /* bytes that follow; s since 1970 */
    char        type;          /* '0' a file, '5' a directory, '2' a symbolic link */
    int         executable;
} tar_entry;

/* What stands in front of the bytes of an entry, appended. Any thread. Cost: O(length of its texts). */
void htc__tar_head(htc_buf *out, const tar_entry *entry);
void htc__tar_pad(htc_buf *out, uint64_t size); /* what stands behind so many bytes */
void htc__tar_end(htc_buf *out);

#endif
