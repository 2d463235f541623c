#include "net/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE (128 << 10)
#define DEPTH_MAX 512 /* directories below each other that are removed: each one holds a descriptor open */

int htc__name_stays(const char *name)
{
    for (const char *p = name;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        if (!p[n])
            return 1;
        p += n + 1;
    }
}

static int open_part_by_part(int dir, const char *name, int flags, mode_t mode, int make_dirs)
{
    char part[NAME_MAX + 1];
    int  at = dir;
    for (;;) {
        size_t n = strcspn(name, "/");
        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        memcpy(part, name, n);
        part[n] = 0;
        int last = !name[n];
        if (!last && make_dirs && mkdirat(at, part, 0700) != 0 && errno != EEXIST)
            break;
        int fd = openat(at, part, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC, mode);
        int why = errno;
        if (at != dir)
            close(at);
        errno = why;
        if (last || fd < 0)
            return fd;
        at = fd;
        name += n + 1;
    }
    int why = errno;
    if (at != dir)
        close(at);
    errno = why;
    return -1;
}

/* -1 and errno; ENOSYS, EPERM (filters of system calls answer so) or EAGAIN (a rename beside it) where it says nothing. */
static int open_at_once(int dir, const char *name, int flags, mode_t mode)
{
    struct open_how how = { .flags = (uint64_t)(unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
                            .mode = flags & O_CREAT ? mode : 0,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

int htc__open_below(int dir, const char *name, int flags, mode_t mode, int make_dirs)
{
    if (!htc__name_stays(name)) {
        errno = EPERM;
        return -1;
    }
    int fd = make_dirs || strlen(name) >= PATH_MAX ? -1 : open_at_once(dir, name, flags, mode);
    if (fd >= 0 || (!make_dirs && errno != ENOSYS && errno != EPERM && errno != EAGAIN))
        return fd;
    return open_part_by_part(dir, name, flags, mode, make_dirs);
}

/* The directory of a name below dir, and the last part of the name. The descriptor may be dir itself. */
static int open_parent(int dir, const char *name, const char **last)
{
    char        above[PATH_MAX];
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    if (!slash)
        return dir;
    if ((size_t)(slash - name) >= sizeof above) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(above, name, (size_t)(slash - name));
    above[slash - name] = 0;
    return htc__open_below(dir, above, O_RDONLY | O_DIRECTORY, 0, 0);
}

static void close_parent(int parent, int dir)
{
    int why = errno;
    if (parent >= 0 && parent != dir)
        close(parent);
    errno = why;
}

int htc__make_below(int dir, const char *name)
{
    const char *last;
    int         fd = htc__open_below(dir, name, O_PATH | O_DIRECTORY, 0, 1); /* what lies above it is made on the way */
    if (fd >= 0 || errno != ENOENT)
        return fd;
    int parent = open_parent(dir, name, &last);
    int made = parent < 0 ? -1 : mkdirat(parent, last, 0700);
    close_parent(parent, dir);
    return made == 0 || (parent >= 0 && errno == EEXIST) ? htc__open_below(dir, name, O_PATH | O_DIRECTORY, 0, 0) : -1;
}

int htc__unlink_below(int dir, const char *name)
{
    const char *last;
    int         parent = htc__name_stays(name) ? open_parent(dir, name, &last) : -1;
    int         result = parent < 0 ? -1 : unlinkat(parent, last, 0);
    close_parent(parent, dir);
    return result;
}

int htc__make_dirs(const char *path)
{
    char   copy[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof copy) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    memcpy(copy, path, n + 1);
    for (size_t i = 1; i <= n; i++)
        if (copy[i] == '/' || copy[i] == 0) {
            char kept = copy[i];
            copy[i] = 0;
            if (mkdir(copy, 0700) != 0 && errno != EEXIST)
                return -1;
            copy[i] = kept;
        }
    return 0;
}

htc_status htc__status_of(int error, htc_status other)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT: return HTC_ENOSPC;
    case EIO:
    case EMFILE:
    case ENFILE:
    case EROFS: return HTC_EIO;
    case ETIMEDOUT: return HTC_ETIMEDOUT;
    case ENOMEM: return HTC_ENOMEM;
    default: return other;
    }
}

int htc__read_at(int fd, void *to, size_t len, uint64_t offset)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, (uint8_t *)to + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

int htc__write_all(int fd, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static htc_status copy(int from, int to, uint64_t bytes_max, int head, htc__copied *copied)
{
    crypto_generichash_state state;
    uint8_t                  piece[PIECE];
    copied->size = 0;
    crypto_generichash_init(&state, NULL, 0, 32);
    for (;;) {
        uint64_t left = bytes_max - copied->size;
        ssize_t  n = read(from, piece, head && left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return htc__status_of(errno, HTC_EIO);
        if (n == 0)
            break;
        copied->size += (uint64_t)n;
        if (copied->size > bytes_max)
            return HTC_ETOOBIG;
        crypto_generichash_update(&state, piece, (unsigned long long)n);
        if (to >= 0 && htc__write_all(to, piece, (size_t)n) != 0)
            return htc__status_of(errno, HTC_ESTAGEOUT);
    }
    crypto_generichash_final(&state, copied->hash, 32);
    return HTC_OK;
}

htc_status htc__copy(int from, int to, uint64_t bytes_max, htc__copied *copied)
{
    return copy(from, to, bytes_max, 0, copied);
}

htc_status htc__copy_head(int from, int to, uint64_t bytes, htc__copied *copied)
{
    return copy(from, to, bytes, 1, copied);
}

int htc__link_stays(const char *target, unsigned depth)
{
    unsigned up = 0, named = 0;
    if (!target[0] || target[0] == '/')
        return 0;
    for (const char *p = target; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (named || ++up > depth)
                return 0;
        } else if (n != 1 || p[0] != '.') {
            named = 1;
        }
        p += n;
    }
    return 1;
}

/* A directory to be emptied: a task may have made it unreadable for itself. Its mode is changed through a descriptor: at the
 * path somebody may have put another thing meanwhile. */
static int open_to_empty(int at, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int       fd = openat(at, name, flags);
    if (fd < 0 && errno == EACCES) {
        char own[64];
        int  path = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        snprintf(own, sizeof own, "/proc/self/fd/%d", path);
        if (path >= 0 && chmod(own, 0700) == 0)
            fd = openat(path, ".", flags);
        int why = errno;
        if (path >= 0)
            close(path);
        errno = why;
    }
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    return fd;
}

/* Empty the directory of descriptor fd, which is taken. */
static int empty_dir(int fd, int depth)
{
    struct dirent *e;
    int            result = 0;
    DIR           *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -1;
    }
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, e->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            result = -1;
            continue;
        }
        int below = depth < DEPTH_MAX ? open_to_empty(fd, e->d_name) : -1;
        if (below >= 0)
            empty_dir(below, depth + 1);
        if (unlinkat(fd, e->d_name, AT_REMOVEDIR) != 0)
            result = -1;
    }
    closedir(d);
    return result;
}

static int remove_at(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    int fd = open_to_empty(at, name);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    empty_dir(fd, 0);
    return unlinkat(at, name, AT_REMOVEDIR);
}

int htc__remove_tree(const char *path)
{
    return remove_at(AT_FDCWD, path);
}

int htc__remove_below(int dir, const char *name)
{
    const char *last;
    if (!htc__name_stays(name)) {
        errno = EPERM;
        return -1;
    }
    int parent = open_parent(dir, name, &last);
    int result = parent < 0 ? (errno == ENOENT ? 0 : -1) : remove_at(parent, last);
    close_parent(parent, dir);
    return result;
}

int htc__sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = fsync(fd);
    close(fd);
    return result;
}

/* fd is taken. */
static ssize_t read_text(int fd, char *out, size_t room)
{
    struct stat st;
    ssize_t     n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, out, room - 1) : -1;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
    return n;
}

ssize_t htc__read_text(const char *path, char *out, size_t room)
{
    return read_text(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), out, room); /* a FIFO must not hold us */
}

ssize_t htc__read_end(const char *path, char *out, size_t room)
{
    int   fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (size > 0)
        (void)lseek(fd, size >= (off_t)room ? size - (off_t)room + 1 : 0, SEEK_SET);
    return read_text(fd, out, room);
}

ssize_t htc__read_text_below(int dir, const char *name, char *out, size_t room)
{
    return read_text(htc__open_below(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0), out, room);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

htc_status htc__file_uri(const char *uri, char *out, size_t room)
{
    size_t n = 0;
    if (strncmp(uri, "file:", 5) != 0)
        return HTC_EINPUT;
    uri += 5;
    if (strncmp(uri, "//localhost/", 12) == 0)
        uri += 11;
    else if (strncmp(uri, "///", 3) == 0)
        uri += 2;
    if (uri[0] != '/' || uri[1] == '/')
        return HTC_EINPUT;
    for (; *uri; uri++) {
        char c = *uri;
        if (c == '%') {
            int high = hex_digit(uri[1]), low = high < 0 ? -1 : hex_digit(uri[2]);
            if (low < 0 || (c = (char)(high * 16 + low)) == 0)
                return HTC_EINPUT;
            uri += 2;
        }
        if (n + 1 >= room)
            return HTC_EINPUT;
        out[n++] = c;
    }
    out[n] = 0;
    return HTC_OK;
}

int htc__output_place(char *out, size_t room, uint64_t job, uint64_t task, uint32_t attempt)
{
    /* 1024 tasks a directory: listing one stays cheap for a sweep of a billion. */
    int n = snprintf(out, room, "out/%" PRIu64 "/%" PRIu64 "/%" PRIu64 ".%" PRIu32, job, task / 1024, task, attempt);
    return n > 0 && (size_t)n < room ? 0 : -1;
}
