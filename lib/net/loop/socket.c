/* Unix sockets whose path may be longer than sun_path: bound and connected through the directory's descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/loop/host_private.h"

/* The address of path: itself where it fits, else by way of its directory, held open in *dir (else -1). */
static int address_of(const char *path, struct sockaddr_un *address, int *dir)
{
    char        directory[4096];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    int         n;
    *dir = -1;
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) < sizeof address->sun_path) {
        memcpy(address->sun_path, path, strlen(path) + 1);
        return 0;
    }
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (len >= sizeof directory || *name == 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(directory, path, len);
    directory[len] = 0;
    *dir = open(slash ? (len ? directory : "/") : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return -1;
    n = snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", *dir, name);
    if (n < 0 || (size_t)n >= sizeof address->sun_path) {
        close(*dir);
        *dir = -1;
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

/* close that keeps errno. */
static void shut(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
}

int htc__unix_connect(const char *path, int flags)
{
    struct sockaddr_un address;
    int                dir, fd;
    if (address_of(path, &address, &dir) != 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        shut(fd);
        fd = -1;
    }
    shut(dir);
    return fd;
}

void htc__socket_watch(int fd, int silent_s, int takes)
{
    int on = 1, idle_s = silent_s / 3, every_s = silent_s / 6, count = 4, lost_ms = silent_s * 1000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    if (takes)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
}

/* 1 if somebody listens there, 0 if the file is a leftover or missing, -1 with errno if it is something else. */
static int answers(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISSOCK(st.st_mode)) {
        errno = ENOTSOCK;
        return -1;
    }
    int fd = htc__unix_connect(path, SOCK_NONBLOCK);
    if (fd >= 0) {
        close(fd);
        return 1;
    }
    if (errno == EAGAIN) /* its backlog is full: it lives */
        return 1;
    if (errno != ECONNREFUSED && errno != ENOENT)
        return -1;
    if (errno == ECONNREFUSED && unlink(path) != 0 && errno != ENOENT)
        return -1;
    return 0;
}

/* The mode of the socket that was bound there. Not by the path alone: somebody who may rename in its directory could have put
 * a link there. */
static int set_mode(const char *path, uint32_t mode)
{
    struct stat st;
    char        own[64];
    int         fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), result = -1;
    if (fd < 0)
        return -1;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        errno = EPERM;
    else
        result = chmod(own, (mode_t)mode);
    shut(fd);
    return result;
}

int htc__unix_listen(const char *path, uint32_t mode, int *in_use)
{
    struct sockaddr_un address;
    int                dir, fd, alive = answers(path);
    *in_use = alive == 1;
    if (alive != 0) {
        if (alive == 1)
            errno = EADDRINUSE;
        return -1;
    }
    if (address_of(path, &address, &dir) != 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        shut(dir);
        return -1;
    }
    /* The socket's own mode becomes the file's (less the umask), so there is no moment in which it is open to others. */
    if (fchmod(fd, (mode_t)mode) != 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        set_mode(path, mode) != 0 || listen(fd, 128) != 0) {
        shut(fd);
        fd = -1;
    }
    shut(dir);
    return fd;
}
