/* A directory as one content, or copied: what is in it, written one after the other in the order of names, so that the same files make the same content.
 *
 *   "htc-tree 1\n", then entries, then a byte 0 at the end. An entry: a byte of type, the length of its name (u32, little-endian), the name below the
 *   directory, and
 *     'd'        nothing more
 *     'f', 'x'   u64 size, the bytes; x: may be executed
 *     'l'        u32 length, the target
 *   A directory stands before what is in it.
 *
 * Times, owners and other modes are no part of it. */
#ifndef HTC_NET_FILES_TREE_H
#define HTC_NET_FILES_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/status.h"

#define HTC__TREE_ENTRIES_MAX UINT64_C(1000000)

/* Write the directory, of at most so many entries, to out, from its position on. HTC_EPATH: a symbolic link leads outside; HTC_EINPUT: what is there is no file, cannot be read or
 * changes; HTC_ETOOBIG; HTC_ENOSPC, HTC_EIO. why names the entry. */
htc_status htc__tree_pack(const char *dir, int out, uint64_t most, char *why, size_t room);

/* The directory that from is open on, as name below dir: what htc__tree_unpack makes of its content, by the same rules, without keeping that. HTC_EINPUT also:
 * the place of the copy is in it. */
htc_status htc__tree_copy(int from, int dir, const char *name, uint64_t most, char *why, size_t room);

/* Make name below dir of what from has from its position on; hash: of all that was read, to its end, whatever the status. What is there already stays, files
 * that the tree has too get its content. No name leaves dir, and nothing is written behind a symbolic link. HTC_EINPUT: it is no tree; HTC_EPATH: a name or a link
 * in it leads outside, or what is there is in the way; HTC_ETOOBIG: more than a million entries; HTC_ENOSPC, HTC_EIO. */
htc_status htc__tree_unpack(int from, int dir, const char *name, uint8_t hash[32], char *why, size_t room);

#endif
