/* Files and memory of a short-lived program. */
#include "htc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *must(void *p)
{
    if (!p) {
        fputs("htc: out of memory\n", stderr);
        exit(htc_exit_code(HTC_ENOMEM));
    }
    return p;
}

char *must_dup(const char *s)
{
    return must(strdup(s));
}

char *must_print(const char *format, ...)
{
    char   *s;
    va_list ap;
    va_start(ap, format);
    if (vasprintf(&s, format, ap) < 0)
        s = NULL;
    va_end(ap);
    return must(s);
}

char *path_join(const char *a, const char *b)
{
    return b[0] == '/' || !a[0] ? must_dup(b) : must_print("%s/%s", a, b);
}

htc_status read_file(cli *c, const char *path, size_t max, char **data, size_t *len)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        int why = fd < 0 ? errno : EISDIR;
        if (fd >= 0)
            close(fd);
        return cli_error(c, HTC_EINPUT, path, "check the name and its permissions", "cannot read: %s", strerror(why));
    }
    size_t used = 0, cap = 4096;
    char  *buf = must(malloc(cap + 1));
    for (;;) {
        ssize_t got = read(fd, buf + used, cap - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || used + (size_t)(got > 0 ? got : 0) > max) {
            htc_status s = got < 0 ? HTC_EINPUT : HTC_ETOOBIG;
            if (got < 0)
                cli_error(c, s, path, "", "cannot read: %s", strerror(errno));
            else
                cli_error(c, s, path, "divide it, and submit its parts", "longer than %zu bytes, which is the most", max);
            free(buf);
            close(fd);
            return s;
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used == cap) {
            cap *= 2;
            buf = must(realloc(buf, cap + 1));
        }
    }
    close(fd);
    buf[used] = '\0';
    *data = buf;
    *len = used;
    return HTC_OK;
}

htc_status write_status(int why)
{
    if (why == ENOSPC || why == EDQUOT)
        return HTC_ENOSPC;
    if (why == ENOENT || why == EACCES || why == EPERM || why == EROFS || why == ENOTDIR || why == EISDIR ||
        why == ENAMETOOLONG || why == ELOOP || why == EEXIST)
        return HTC_EDENIED;
    return HTC_EIO;
}

static htc_status make_dirs_of(cli *c, const char *path, mode_t mode)
{
    char *copy = must_dup(path);
    for (char *p = copy + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(copy, mode) != 0 && errno != EEXIST) {
            htc_status s = write_status(errno);
            cli_error(c, s, path, "name another place", "cannot make the directory: %s", strerror(errno));
            free(copy);
            return s;
        }
        *p = end;
        if (!end)
            break;
    }
    free(copy);
    return HTC_OK;
}

htc_status make_dirs(cli *c, const char *path)
{
    return make_dirs_of(c, path, 0777);
}

htc_status make_private_dirs(cli *c, const char *path)
{
    return make_dirs_of(c, path, 0700);
}

int write_fully(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

htc_status write_secret(cli *c, const char *path, const char *data)
{
    out_file   out;
    htc_status s = out_open(c, &out, path, 0600);
    if (s == HTC_OK)
        fprintf(out.f, "%s\n", data);
    return out_close(c, &out, s);
}

char *own_directory(void)
{
    char    path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return must_dup(".");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return must_dup(path);
}
