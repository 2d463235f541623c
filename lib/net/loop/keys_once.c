/* Files of keys that several programs change: read, changed and written under a lock. And the file of one-time secrets. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "channel/keyring.h"
#include "core/util.h"
#include "net/loop/keys_private.h"

#define LINE_ROOM 256

static const char *const role_names[] = { "", "member", "host", "user" };

/* ---- the lock ---- */

static int lock(const char *path, htc_status *status, htc_error *error)
{
    char name[PATH_MAX];
    int  n = snprintf(name, sizeof name, "%s.lock", path);
    if (n < 0 || (size_t)n >= sizeof name) {
        *status = htc__error(error, HTC_EINVAL, "the path is too long");
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int bad = fd < 0;
    while (!bad && flock(fd, LOCK_EX) != 0)
        bad = errno != EINTR;
    if (!bad)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    *status = htc__error(error, htc__status_of(why, HTC_EIO), "cannot lock %s: %s", name, strerror(why));
    return -1;
}

htc_status htc_keys_change_ring(const char *path, htc_keys_change_fn change, void *ctx, htc_error *error)
{
    htc_keyring *ring = NULL;
    htc_status   status = HTC_OK;
    if (!path || !*path || !change)
        return htc__error(error, HTC_EINVAL, "a path and a change are needed");
    int held = lock(path, &status, error);
    if (held < 0)
        return status;
    status = htc_keyring_create(NULL, 0, &ring);
    if (status != HTC_OK)
        htc__error(error, status, "out of memory");
    else if ((status = htc_keys_load_ring(path, ring, error)) == HTC_ENOTFOUND)
        status = HTC_OK;
    if (status == HTC_OK)
        status = change(ctx, ring);
    if (status == HTC_OK)
        status = htc_keys_save_ring(path, ring, error);
    htc_keyring_destroy(ring);
    close(held);
    return status == HTC_EMPTY ? HTC_OK : status;
}

/* ---- one-time secrets ---- */

typedef struct htc__secret {
    char     name[HTC_KEY_NAME_MAX + 1];
    uint32_t role;
    uint64_t expires; /* seconds since 1970 */
    uint8_t  secret[HTC_KEY_BYTES];
} once;

void htc__secrets_free(htc__secrets *s)
{
    if (s->at)
        sodium_memzero(s->at, s->room * sizeof *s->at);
    free(s->at);
    *s = (htc__secrets){ .at = NULL };
}

static uint32_t role_of(const char *name)
{
    for (uint32_t i = HTC_KEY_MEMBER; i <= HTC_KEY_USER; i++)
        if (strcmp(name, role_names[i]) == 0)
            return i;
    return 0;
}

/* NULL, or what is wrong with the line. */
static const char *read_line(const char *line, once *o)
{
    char role[16], name[80], expires[24], key[96], more[2];
    int  n = sscanf(line, "%15s %79s %23s %95s %1s", role, name, expires, key, more);
    *o = (once){ .role = 0 };
    char *end = expires;
    if (n == 4) {
        o->role = role_of(role);
        o->expires = strtoull(expires, &end, 10);
    }
    const char *fault = n != 4     ? "a line is: ROLE NAME EXPIRES SECRET"
                        : !o->role ? "the role is member, host or user"
                        : !htc__key_name_ok(name, strlen(name))
                            ? "a name has 1 to 63 of a-z, 0-9, dash, underscore and dot"
                        : *end || end == expires ? "EXPIRES is a number of seconds since 1970"
                        : htc_key_read(HTC_KEY_ONCE, htc_bytes_of(key), o->secret, NULL) != HTC_OK ||
                                  sodium_is_zero(o->secret, sizeof o->secret)
                            ? "the secret is no once-..., or mistyped"
                            : NULL;
    if (!fault)
        memcpy(o->name, name, strlen(name) + 1);
    sodium_memzero(key, sizeof key);
    return fault;
}

/* A file that is not there holds none. more: as many more fit. */
static htc_status secrets_read(const char *path, htc__secrets *s, size_t more, htc_error *error)
{
    char  *text = NULL, line[LINE_ROOM];
    size_t len = 0, lines = 1;
    htc_error why = { .status = HTC_OK };
    *s = (htc__secrets){ .at = NULL };
    htc_status status = htc__keys_text(path, 077, 0, "a file of secrets", &text, &len, &why);
    if (status != HTC_OK && status != HTC_ENOTFOUND) {
        if (error)
            *error = why;
        return status;
    }
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    if (status == HTC_ENOTFOUND)
        text = NULL;
    status = lines > 4 * HTC__SECRETS_MAX ? htc__error(error, HTC_ETOOBIG, "%s has too many lines", path) : HTC_OK;
    if (status == HTC_OK && !(s->at = calloc(lines + more, sizeof *s->at)))
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    s->room = s->at ? lines + more : 0;
    uint32_t number = 0;
    for (size_t at = 0; status == HTC_OK && at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t      n = end ? (size_t)(end - text) - at : len - at;
        number++;
        if (n >= sizeof line || memchr(text + at, 0, n)) {
            status = htc__keys_at_line(error, path, number, "the line is too long, or no text");
            break;
        }
        memcpy(line, text + at, n);
        line[n] = 0;
        line[strcspn(line, "#")] = 0;
        at += n + 1;
        if (line[strspn(line, " \t\r")] == 0)
            continue;
        const char *fault = read_line(line, &s->at[s->count]);
        if (fault)
            status = htc__keys_at_line(error, path, number, fault);
        else
            s->count++;
    }
    sodium_memzero(line, sizeof line);
    if (text)
        sodium_memzero(text, len);
    free(text);
    if (status != HTC_OK)
        htc__secrets_free(s);
    return status;
}

static htc_status secrets_write(const char *path, const htc__secrets *s, htc_error *error)
{
    static const char head[] = "# one-time secrets that are open: for nobody else to read\n";
    size_t            room = sizeof head + s->count * LINE_ROOM, len = sizeof head - 1;
    char             *text = malloc(room), key[HTC_KEY_TEXT_MAX];
    if (!text)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    memcpy(text, head, len);
    for (size_t i = 0; i < s->count; i++) {
        htc_key_write(HTC_KEY_ONCE, s->at[i].secret, key);
        len += (size_t)snprintf(text + len, room - len, "%s %s %llu %s\n", role_names[s->at[i].role], s->at[i].name,
                                (unsigned long long)s->at[i].expires, key);
    }
    htc_status status = htc__keys_put(path, 0, 0600, text, len, error);
    sodium_memzero(key, sizeof key);
    sodium_memzero(text, room);
    free(text);
    return status;
}

/* Without those of this name and role (name NULL: none is meant), and without those that have expired by this moment. */
static size_t secrets_drop(htc__secrets *s, const char *name, uint32_t role, uint64_t now)
{
    size_t kept = 0, dropped = 0;
    for (size_t i = 0; i < s->count; i++) {
        int meant = name && strcmp(s->at[i].name, name) == 0 && (!role || s->at[i].role == role);
        dropped += (size_t)meant;
        if (!meant && s->at[i].expires > now)
            s->at[kept++] = s->at[i];
    }
    s->count = kept;
    return dropped;
}

htc_status htc_keys_once_add(const char *path, const char *name, uint32_t role, htc_ns expires, uint8_t *secret,
                             htc_error *error)
{
    htc__secrets s;
    htc_status   status = HTC_OK;
    uint64_t     now = (uint64_t)time(NULL);
    if (!path || !*path || !name || !htc__key_name_ok(name, strlen(name)) || role < HTC_KEY_MEMBER ||
        role > HTC_KEY_USER || !secret || expires / HTC_SECOND <= now)
        return htc__error(error, HTC_EINVAL, "a path, a name, a role and a moment to come are needed");
    int held = lock(path, &status, error);
    if (held < 0)
        return status;
    status = secrets_read(path, &s, 1, error);
    if (status == HTC_OK) {
        secrets_drop(&s, name, role, now);
        once *o = &s.at[s.count];
        *o = (once){ .role = role, .expires = expires / HTC_SECOND };
        memcpy(o->name, name, strlen(name) + 1);
        if (s.count >= HTC__SECRETS_MAX)
            status = htc__error(error, HTC_EFULL, "%s: %d secrets are open", path, HTC__SECRETS_MAX);
        else if (htc_keys_random(o->secret, sizeof o->secret) != HTC_OK)
            status = htc__error(error, HTC_EINTERNAL, "the system has no random numbers");
        s.count += status == HTC_OK;
        if (status == HTC_OK)
            status = secrets_write(path, &s, error);
        if (status == HTC_OK)
            memcpy(secret, s.at[s.count - 1].secret, HTC_KEY_BYTES);
        htc__secrets_free(&s);
    }
    close(held);
    return status;
}

htc_status htc_keys_once_drop(const char *path, const char *name, uint32_t role, size_t *n, htc_error *error)
{
    htc__secrets s;
    htc_status   status = HTC_OK;
    if (!path || !*path || !name || role > HTC_KEY_USER)
        return htc__error(error, HTC_EINVAL, "a path and a name are needed");
    int held = lock(path, &status, error);
    if (held < 0)
        return status;
    status = secrets_read(path, &s, 0, error);
    if (status == HTC_OK) {
        size_t dropped = secrets_drop(&s, name, role, (uint64_t)time(NULL));
        if (dropped)
            status = secrets_write(path, &s, error);
        if (status == HTC_OK && n)
            *n = dropped;
        htc__secrets_free(&s);
    }
    close(held);
    return status;
}

htc_status htc__secrets_load(const char *path, htc_ns wall, htc__secrets *s, htc_error *error)
{
    htc_status status = secrets_read(path, s, 0, error);
    if (status != HTC_OK)
        return status;
    secrets_drop(s, NULL, 0, wall / HTC_SECOND);
    if (s->count <= HTC__SECRETS_MAX)
        return HTC_OK;
    htc__secrets_free(s);
    return htc__error(error, HTC_EFULL, "%s: more than %d secrets are open", path, HTC__SECRETS_MAX);
}

htc_status htc__secrets_open(const htc__secrets *s, htc_enrolment *enrolment, htc_ns now, htc_ns wall,
                             const char *path, htc_error *error)
{
    uint64_t   second = wall / HTC_SECOND;
    htc_status status = HTC_OK;
    /* The others go first: they may have the room that is needed. */
    htc__enrolment_mark(enrolment);
    for (size_t i = 0; i < s->count; i++)
        htc__enrolment_keep(enrolment, s->at[i].secret);
    htc__enrolment_sweep(enrolment);
    for (size_t i = 0; i < s->count && status == HTC_OK; i++) {
        const once *o = &s->at[i];
        htc_ns      left = (o->expires - second) * HTC_SECOND;
        if (o->expires - second > 3600u * 24 * 366)
            left = (htc_ns)3600 * 24 * 366 * HTC_SECOND;
        status = htc_enrolment_open(enrolment, now, o->secret, o->name, o->role, now + left);
        if (status == HTC_EEXISTS)
            status = HTC_OK;
        if (status != HTC_OK)
            htc__error(error, status, "%s: %s: %s", path, o->name, htc_strerror(status));
    }
    return status;
}

htc_status htc_keys_once_load(const char *path, htc_enrolment *enrolment, htc_ns now, htc_ns wall, htc_error *error)
{
    htc__secrets s;
    if (!path || !*path || !enrolment)
        return htc__error(error, HTC_EINVAL, "a path and an enrolment are needed");
    htc_status status = htc__secrets_load(path, wall, &s, error);
    if (status == HTC_OK)
        status = htc__secrets_open(&s, enrolment, now, wall, path, error);
    htc__secrets_free(&s);
    return status;
}
