/* The file of a site's credentials: nobody else may read it, and what it says goes to ssh by a file of our own, to a batch system in its scripts. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/files/files.h"
#include "net/gateway/gateway_private.h"
#include "roles/batch/site_credentials.h"

/* Opened once, and looked at by its descriptor. what: with the file of the credentials, which alone is named. */
static int open_secret(const char *path, const char *what, const char *file, htc_error *error)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        htc__error(error, HTC_ECONFIG, "cannot read %s %.200s: %s", what, file, strerror(errno));
        return -1;
    }
    const char *wrong = fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ? "is no file"
                        : st.st_uid != geteuid() && st.st_uid != 0 ? "is somebody else's"
                        : st.st_mode & 077                          ? "can be read or written by others"
                                                                    : NULL;
    if (!wrong)
        return fd;
    htc__error(error, HTC_EDENIED, "%s %.200s %s", what, file, wrong);
    if (error)
        snprintf(error->hint, sizeof error->hint, "chmod 600 FILE, and own it");
    close(fd);
    return -1;
}

static htc_status read_all(int fd, char *text, size_t room, size_t *len)
{
    ssize_t n = 1;
    *len = 0;
    while (n > 0 && *len < room) {
        n = read(fd, text + *len, room - *len);
        *len += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? HTC_EIO : HTC_OK;
}

/* It is made anew, and is nobody's but ours. */
static htc_status write_ssh(htc_gateway_host *g, const site_credentials *c, htc_error *error)
{
    htc_buf b;
    char   *path = NULL;
    htc_buf_init(&b, g->env, 4 * SITE_CREDENTIALS_MAX);
    htc__site_credentials_ssh(c, &b);
    if (asprintf(&path, "%s/ssh_config", g->state_dir) < 0)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    unlink(path);
    int     fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int     whole = fd >= 0 && b.status == HTC_OK && write(fd, b.data, b.len) == (ssize_t)b.len;
    int     why = errno;
    if (fd >= 0)
        close(fd);
    htc_buf_free(&b);
    g->ssh_config = path;
    return whole ? HTC_OK : htc__error(error, htc__status_of(why, HTC_EIO), "cannot write %.200s: %s", path, strerror(why));
}

htc_status htc__gateway_credentials(htc_gateway_host *g, const htc_gateway_host_batch *b, htc_buf *lines, htc_error *error)
{
    char             text[SITE_CREDENTIALS_MAX + 1];
    size_t           len;
    site_credentials c;
    const char      *path = b->size > offsetof(htc_gateway_host_batch, credentials) ? b->credentials : NULL;
    if (!path || !path[0])
        return HTC_OK;
    int fd = open_secret(path, "the credentials", path, error);
    if (fd < 0)
        return error && error->status != HTC_OK ? error->status : HTC_EDENIED;
    htc_status status = read_all(fd, text, sizeof text, &len);
    close(fd);
    if (status != HTC_OK)
        return htc__error(error, status, "cannot read the credentials %.200s", path);
    if ((status = htc__site_credentials_read((htc_bytes){ text, len }, b->system, &c, error)) != HTC_OK) {
        if (error)
            snprintf(error->where, sizeof error->where, "%.140s", path);
    } else if (strcmp(b->system, "ssh") != 0) {
        htc__site_credentials_lines(&c, b->system, lines);
        status = lines->status;
    } else {
        fd = c.identity[0] ? open_secret(c.identity, "the identity that is named by", path, error) : -1;
        status = fd < 0 && c.identity[0] ? (error && error->status != HTC_OK ? error->status : HTC_EDENIED) : write_ssh(g, &c, error);
        if (fd >= 0)
            close(fd);
    }
    explicit_bzero(text, sizeof text);
    explicit_bzero(&c, sizeof c);
    return status;
}
