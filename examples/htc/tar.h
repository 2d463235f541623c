/* A POSIX archive, written as the files come. */
#ifndef HTC_EXAMPLES_TAR_H
#define HTC_EXAMPLES_TAR_H

#include <stddef.h>
#include <stdint.h>

typedef struct tar_writer tar_writer;

tar_writer *tar_open(int fd); /* lent; NULL: errno says why */
/* One file: begin, its bytes by tar_write or into tar_fd, finish (which pads). 0, or -1 with errno. */
int tar_begin(tar_writer *t, const char *name, uint64_t size, uint64_t mtime, int executable);
int tar_write(tar_writer *t, const void *data, size_t len);
int tar_fd(const tar_writer *t);
int tar_finish(tar_writer *t);
int tar_dir(tar_writer *t, const char *name, uint64_t mtime);
int tar_link(tar_writer *t, const char *name, const char *target, uint64_t mtime);
int tar_close(tar_writer *t); /* writes the end mark and frees; the descriptor stays open */

#endif
