#include "below.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 100

int below_dir(int top, const char *place, int make, const char **leaf)
{
    char        name[256];
    const char *slash;
    int         at = fcntl(top, F_DUPFD_CLOEXEC, 3);
    for (; at >= 0 && (slash = strchr(place, '/')); place = slash + 1) {
        size_t len = (size_t)(slash - place);
        int    next = -1;
        if (len >= sizeof name)
            errno = ENAMETOOLONG;
        else {
            memcpy(name, place, len);
            name[len] = '\0';
            if (!make || mkdirat(at, name, 0777) == 0 || errno == EEXIST)
                next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        int why = errno;
        close(at);
        errno = why;
        at = next;
    }
    *leaf = place;
    return at;
}

int below_begin(below_file *b, int top, const char *place, unsigned mode)
{
    struct stat st;
    b->fd = -1;
    b->dir = below_dir(top, place, 1, &b->leaf);
    if (b->dir < 0)
        return -1;
    errno = EEXIST;
    if (strlen(b->leaf) > 255)
        errno = ENAMETOOLONG;
    else if (fstatat(b->dir, b->leaf, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(st.st_mode))
        for (int i = 0; i < NAMES_TRIED && b->fd < 0 && (i == 0 || errno == EEXIST); i++) {
            snprintf(b->temporary, sizeof b->temporary, ".htc-fetch-%ld-%d", (long)getpid(), i);
            b->fd = openat(b->dir, b->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        }
    if (b->fd >= 0)
        return 0;
    int why = errno;
    close(b->dir);
    errno = why;
    return -1;
}

int below_end(below_file *b, int ok)
{
    int bad = close(b->fd) != 0, why = errno;
    if (ok && !bad && renameat(b->dir, b->temporary, b->dir, b->leaf) != 0) {
        bad = 1;
        why = errno;
    }
    if (!ok || bad)
        unlinkat(b->dir, b->temporary, 0);
    close(b->dir);
    errno = why;
    return bad ? -1 : 0;
}

int below_make_dir(int top, const char *place)
{
    const char *leaf;
    int         dir = below_dir(top, place, 1, &leaf);
    int         bad = dir < 0 || (mkdirat(dir, leaf, 0777) != 0 && errno != EEXIST), why = errno;
    int         is = bad ? -1 : openat(dir, leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!bad && is < 0) {
        bad = 1;
        why = errno;
    }
    if (is >= 0)
        close(is);
    if (dir >= 0)
        close(dir);
    errno = why;
    return bad ? -1 : 0;
}

int below_link(int top, const char *place, const char *target)
{
    char        is[4096];
    const char *leaf;
    int         dir = below_dir(top, place, 1, &leaf);
    if (dir < 0)
        return -1;
    ssize_t n = readlinkat(dir, leaf, is, sizeof is - 1);
    is[n > 0 ? n : 0] = '\0';
    int same = n > 0 && strcmp(is, target) == 0;
    if (n > 0 && !same)
        unlinkat(dir, leaf, 0);
    int bad = !same && symlinkat(target, dir, leaf) != 0, why = errno;
    close(dir);
    errno = why;
    return bad ? -1 : 0;
}

int below_open(int top, const char *place)
{
    struct stat st;
    const char *leaf;
    int         dir = below_dir(top, place, 0, &leaf);
    int         fd = dir < 0 ? -1 : openat(dir, leaf, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        close(dir);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}
