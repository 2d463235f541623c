/* Files that other people name: never followed out of the directory they belong to, copied with their hash, removed with
 * all that is in them. Everything here may run on a worker thread; nothing is shared. */
#ifndef HTC_NET_FILES_H
#define HTC_NET_FILES_H

#include <stdio.h>
#include <sys/types.h>

#include "htcsched/status.h"

/* 1 if name is relative and has no empty, "." or ".." part. */
int htc__name_stays(const char *name);

/* open of a name below dir in which no part is a symbolic link. make_dirs: 0700 directories on the way are made. -1 and errno.
 * One openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; where the kernel has none (before 5.6, or a filter of system
 * calls), or where directories are to be made, part by part with O_NOFOLLOW, each below the descriptor of the one before. */
int htc__open_below(int dir, const char *name, int flags, mode_t mode, int make_dirs);

/* mkdir -p below dir, 0700, through no symbolic link. A descriptor (O_PATH) of the last one; -1 and errno. */
int htc__make_below(int dir, const char *name);

/* unlink of a name below dir whose directories are no symbolic links. 0, or -1 and errno. */
int htc__unlink_below(int dir, const char *name);

/* mkdir -p, 0700. */
int htc__make_dirs(const char *path);

typedef struct htc__copied {
    uint64_t size;
    uint8_t  hash[32];
} htc__copied;

/* Copy what is left of from to to, hashing it. to may be -1: only hash. HTC_EIO (reading), HTC_ENOSPC, HTC_ESTAGEOUT
 * (writing otherwise), HTC_ETOOBIG beyond bytes_max. */
htc_status htc__copy(int from, int to, uint64_t bytes_max, htc__copied *copied);

/* The same for the first bytes alone: what is left behind them is no error. */
htc_status htc__copy_head(int from, int to, uint64_t bytes, htc__copied *copied);

/* 1 if a symbolic link with this target, depth directories below a tree, stays in the tree: it is relative, and goes up only at
 * its beginning and no further than the tree. (A ".." behind a name may leave through another link.) */
int htc__link_stays(const char *target, unsigned depth);

/* HTC_ENOSPC, HTC_EIO, HTC_ETIMEDOUT, HTC_ENOMEM or other for an errno of file work. */
htc_status htc__status_of(int error, htc_status other);

/* Remove path and all below it; symbolic links are removed, not followed. A path that is not there is fine. */
int htc__remove_tree(const char *path);

/* The same for a name below dir, whose directories are no symbolic links. */
int htc__remove_below(int dir, const char *name);

/* fsync of a directory. */
int htc__sync_dir(const char *path);

/* Read a small regular file as text with an end; -1 if there is none. */
ssize_t htc__read_text(const char *path, char *out, size_t room);
/* The same of its end, if it is longer. */
ssize_t htc__read_end(const char *path, char *out, size_t room);
/* The same below dir, through no symbolic link. */
ssize_t htc__read_text_below(int dir, const char *name, char *out, size_t room);

/* The path of a file: URI (absolute; %XX decoded) in out; HTC_EINPUT if it is none. */
htc_status htc__file_uri(const char *uri, char *out, size_t room);

/* Where the outputs of an attempt are kept below the data directory. What is below out/JOB may be the user's: it is opened
 * below a descriptor of the data directory. 0, or -1 if it does not fit. */
int htc__output_place(char *out, size_t room, uint64_t job, uint64_t task, uint32_t attempt);

/* len bytes at offset. 0, or -1 with errno: EIO where the file ends before. */
int htc__read_at(int fd, void *to, size_t len, uint64_t offset);

/* All of it. 0, or -1 with errno. */
int htc__write_all(int fd, const void *data, size_t len);

#endif
