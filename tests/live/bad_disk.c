/* Preloaded into a program: its syncs fail with EIO, or its writes to files do, as soon as the file named by BAD_DISK is there and says
 * "sync" or "write". What a disk does when it dies, on any machine. */
#undef _FILE_OFFSET_BITS /* both names of pwrite are to be had */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int says(const char *word)
{
    const char *path = getenv("BAD_DISK");
    char        text[16] = { 0 };
    int         fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && strncmp(text, word, strlen(word)) == 0;
}

static int fails(const char *word)
{
    if (!says(word))
        return 0;
    errno = EIO;
    return 1;
}

int fdatasync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return fails("sync") ? -1 : real(fd);
}

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return fails("sync") ? -1 : real(fd);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    return fails("write") ? -1 : real(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return pwrite64(fd, data, n, at);
}

/* LMDB's, of several pages. */
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t) =
        (ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "pwritev");
    return fails("write") ? -1 : real(fd, parts, n, at);
}

/* The log's, durable when they end: both. With BAD_DISK_BUFFERED there are none. */
ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off64_t at, int flags)
{
    ssize_t (*real)(int, const struct iovec *, int, off64_t, int) =
        (ssize_t(*)(int, const struct iovec *, int, off64_t, int))dlsym(RTLD_NEXT, "pwritev64v2");
    if (getenv("BAD_DISK_BUFFERED")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return fails("write") || fails("sync") ? -1 : real(fd, parts, n, at, flags);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags)
{
    return pwritev64v2(fd, parts, n, at, flags);
}
