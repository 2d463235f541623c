/* Keys in files: who may read and change them is looked at on the open descriptor, what is written replaces what was at once. */
#include "htcsched/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "net/loop/keys_private.h"

#define KEY_FILE_MAX  4096
#define TEXT_FILE_MAX ((size_t)16 << 20)

htc_status htc_keys_random(void *out, size_t n)
{
    if (!out && n)
        return HTC_EINVAL;
    if (sodium_init() < 0)
        return HTC_EINTERNAL;
    randombytes_buf(out, n);
    return HTC_OK;
}

static htc_status failed(htc_error *error, int why, const char *what, const char *path)
{
    return htc__error(error, htc__status_of(why, HTC_EIO), "cannot %s %s: %s", what, path, strerror(why));
}

/* A new file beside path with this in it, on the disk. */
static int write_beside(const char *beside, mode_t mode, const char *bytes, size_t len)
{
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -1;
    int bad = fchmod(fd, mode) != 0 || htc__write_all(fd, bytes, len) != 0 || fsync(fd) != 0;
    int why = errno;
    if (close(fd) != 0 && !bad) {
        bad = 1;
        why = errno;
    }
    if (bad)
        unlink(beside);
    errno = why;
    return bad ? -1 : 0;
}

static int sync_directory_of(const char *path)
{
    char        dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int         n = slash ? snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path)
                          : snprintf(dir, sizeof dir, ".");
    return n > 0 && (size_t)n < sizeof dir ? htc__sync_dir(dir) : -1;
}

htc_status htc__keys_put(const char *path, int anew, mode_t mode, const char *bytes, size_t len, htc_error *error)
{
    char     beside[PATH_MAX];
    uint64_t tail;
    if (htc_keys_random(&tail, sizeof tail) != HTC_OK)
        return htc__error(error, HTC_EINTERNAL, "the system has no random numbers");
    int n = snprintf(beside, sizeof beside, "%s.%016llx", path, (unsigned long long)tail);
    if (n < 0 || (size_t)n >= sizeof beside)
        return htc__error(error, HTC_EINVAL, "the path is too long");
    if (write_beside(beside, mode, bytes, len) != 0)
        return failed(error, errno, "write", beside);
    /* A second name takes no other file's place; renaming does. */
    int bad = anew ? link(beside, path) != 0 : rename(beside, path) != 0;
    int why = errno;
    if (anew || bad)
        unlink(beside);
    if (bad && anew && why == EEXIST)
        return htc__error(error, HTC_EEXISTS, "%s exists already", path);
    if (bad)
        return failed(error, why, "put in place", path);
    return sync_directory_of(path) == 0 ? HTC_OK : failed(error, errno, "sync the directory of", path);
}

int htc__keys_open(const char *path, mode_t forbidden, int root_may_own, const char *what, htc_status *status,
                   htc_error *error)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        int why = errno;
        if (why == ENOENT)
            *status = htc__error(error, HTC_ENOTFOUND, "there is no %s %s", what + strlen("a "), path);
        else if (why == ELOOP)
            *status = htc__error(error, HTC_EDENIED, "%s is a symbolic link; %s is a plain file", path, what);
        else if (why == EACCES || why == EPERM)
            *status = htc__error(error, HTC_EDENIED, "cannot open %s: %s", path, strerror(why));
        else
            *status = failed(error, why, "open", path);
        return -1;
    }
    const char *fault = NULL;
    if (fstat(fd, &st) != 0)
        fault = "cannot be looked at";
    else if (!S_ISREG(st.st_mode))
        fault = "is no plain file";
    else if (st.st_uid != geteuid() && !(root_may_own && st.st_uid == 0))
        fault = "belongs to somebody else";
    else if (st.st_mode & forbidden)
        fault = forbidden & 044 ? "can be read by others: chmod 600 it, and think of the key as known"
                                : "can be changed by others";
    if (!fault)
        return fd;
    *status = htc__error(error, HTC_EDENIED, "%s %s", path, fault);
    close(fd);
    return -1;
}

htc_status htc__keys_take(int fd, char *out, size_t room, size_t *len, const char *path, htc_error *error)
{
    *len = 0;
    for (;;) {
        ssize_t n = read(fd, out + *len, room - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(error, errno, "read", path);
        if (n == 0)
            return HTC_OK;
        *len += (size_t)n;
        if (*len == room)
            return htc__error(error, HTC_ETOOBIG, "%s is larger than such a file can be", path);
    }
}

htc_status htc_keys_write(const char *path, const uint8_t *secrets, size_t n, htc_error *error)
{
    static const char head[] = "# secret keys, the one in use first: for nobody else to read\n";
    char              text[sizeof head + HTC_IDENTITY_MAX * (HTC_KEY_TEXT_MAX + 1)];
    size_t            len = sizeof head - 1;
    if (!path || !*path || !secrets || n < 1 || n > HTC_IDENTITY_MAX)
        return htc__error(error, HTC_EINVAL, "a path and one to four keys are needed");
    memcpy(text, head, len);
    for (size_t i = 0; i < n; i++) {
        htc_key_write(HTC_KEY_SECRET, secrets + i * HTC_KEY_BYTES, text + len);
        len += strlen(text + len);
        text[len++] = '\n';
    }
    htc_status status = htc__keys_put(path, 0, 0600, text, len, error);
    sodium_memzero(text, sizeof text);
    return status;
}

htc_status htc_keys_create(const char *path, uint8_t *public_key, htc_error *error)
{
    uint8_t secret[HTC_KEY_BYTES];
    char    text[HTC_KEY_TEXT_MAX + 1];
    if (!path || !*path)
        return htc__error(error, HTC_EINVAL, "a path is needed");
    if (htc_keys_random(secret, sizeof secret) != HTC_OK)
        return htc__error(error, HTC_EINTERNAL, "the system has no random numbers");
    htc_key_write(HTC_KEY_SECRET, secret, text);
    size_t len = strlen(text);
    text[len++] = '\n';
    htc_status status = htc__keys_put(path, 1, 0600, text, len, error);
    if (status == HTC_OK && public_key)
        htc_key_public(secret, public_key);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    return status;
}

htc_status htc__keys_at_line(htc_error *error, const char *path, uint32_t line, const char *text)
{
    htc__error(error, HTC_ECONFIG, "%s", text);
    if (error) {
        error->line = line;
        snprintf(error->where, sizeof error->where, "%s", path);
    }
    return HTC_ECONFIG;
}

static htc_status parse(const char *path, const char *text, size_t len, uint8_t *secrets, size_t *n, htc_error *error)
{
    const char *p = text, *behind = text + len;
    size_t      found = 0;
    for (uint32_t line = 1; p < behind; line++) {
        const char *newline = memchr(p, '\n', (size_t)(behind - p)), *end = newline ? newline : behind;
        const char *comment = memchr(p, '#', (size_t)(end - p));
        htc_error   why;
        size_t      used = (size_t)((comment ? comment : end) - p);
        size_t      blanks = 0;
        while (blanks < used && (p[blanks] == ' ' || p[blanks] == '\t' || p[blanks] == '\r'))
            blanks++;
        if (blanks < used) {
            if (found == HTC_IDENTITY_MAX)
                return htc__keys_at_line(error, path, line, "a key file has at most four keys");
            if (htc_key_read(HTC_KEY_SECRET, (htc_bytes){ p, used }, secrets + found * HTC_KEY_BYTES, &why) != HTC_OK)
                return htc__keys_at_line(error, path, line, why.text);
            found++;
        }
        p = newline ? newline + 1 : behind;
    }
    if (found == 0)
        return htc__keys_at_line(error, path, 0, "there is no key in this file");
    *n = found;
    return HTC_OK;
}

static htc_status missing(htc_status status, const char *hint, htc_error *error)
{
    if (status == HTC_ENOTFOUND && error)
        snprintf(error->hint, sizeof error->hint, "%s", hint);
    return status;
}

htc_status htc_keys_read(const char *path, uint8_t *secrets, size_t *n, htc_error *error)
{
    char       text[KEY_FILE_MAX];
    size_t     len = 0;
    htc_status status = HTC_OK;
    if (!path || !*path || !secrets || !n)
        return htc__error(error, HTC_EINVAL, "a path and room for the keys are needed");
    memset(secrets, 0, HTC_IDENTITY_MAX * HTC_KEY_BYTES);
    int fd = htc__keys_open(path, 077, 0, "a key file", &status, error);
    if (fd < 0)
        return missing(status, "htc keys new FILE makes one", error);
    status = htc__keys_take(fd, text, sizeof text, &len, path, error);
    close(fd);
    if (status == HTC_ETOOBIG)
        status = htc__keys_at_line(error, path, 0, "a key file is shorter than 4096 bytes");
    if (status == HTC_OK)
        status = parse(path, text, len, secrets, n, error);
    if (status != HTC_OK)
        sodium_memzero(secrets, HTC_IDENTITY_MAX * HTC_KEY_BYTES);
    sodium_memzero(text, sizeof text);
    return status;
}

htc_status htc__keys_text(const char *path, mode_t forbidden, int root_may_own, const char *what, char **text,
                          size_t *len, htc_error *error)
{
    htc_status  status = HTC_OK;
    struct stat st;
    int         fd = htc__keys_open(path, forbidden, root_may_own, what, &status, error);
    if (fd < 0)
        return status;
    size_t room = fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size + 1 : 1;
    *text = room <= TEXT_FILE_MAX ? malloc(room) : NULL;
    if (room > TEXT_FILE_MAX)
        status = htc__error(error, HTC_ETOOBIG, "%s is larger than 16 MiB", path);
    else if (!*text)
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    else
        status = htc__keys_take(fd, *text, room, len, path, error);
    close(fd);
    if (status != HTC_OK && *text) {
        sodium_memzero(*text, room); /* half a file of secrets is secret too */
        free(*text);
    }
    return status;
}

htc_status htc_keys_load_ring(const char *path, htc_keyring *ring, htc_error *error)
{
    char  *text;
    size_t len = 0;
    if (!path || !*path || !ring)
        return htc__error(error, HTC_EINVAL, "a path and a ring are needed");
    htc_status status = htc__keys_text(path, 022, 1, "a ring file", &text, &len, error);
    if (status != HTC_OK)
        return missing(status, "htc keys add NAME PUBLIC --ring FILE makes it, with the first key that is known", error);
    status = htc_keyring_load(ring, (htc_bytes){ text, len }, path, error);
    free(text);
    return status;
}

htc_status htc_keys_save_ring(const char *path, const htc_keyring *ring, htc_error *error)
{
    if (!path || !*path || !ring)
        return htc__error(error, HTC_EINVAL, "a path and a ring are needed");
    size_t len = htc_keyring_text(ring, NULL, 0);
    char  *text = malloc(len + 1);
    if (!text)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_keyring_text(ring, text, len);
    htc_status status = htc__keys_put(path, 0, 0644, text, len, error);
    free(text);
    return status;
}
