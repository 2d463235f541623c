/* Uploads that nobody names any more, and what disk is held by whom. On a worker thread.
 *
 * Uploads lie in blobs/USER, each named by its hash: who knows a hash has nothing of another user's. What lies in blobs itself is of a
 * system that kept them for everybody; the gateway says whose each is, and then the rest of it goes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "net/files/files.h"
#include "net/gateway/gateway_private.h"

#define SAY(j, ...) snprintf((j)->text, sizeof(j)->text, __VA_ARGS__)

static htc_status failed(htc__job *j, const char *what, const char *path, int error)
{
    SAY(j, "%s %.200s: %s", what, path, strerror(error));
    return htc__status_of(error, HTC_EIO);
}

static int open_place(const htc__job *j, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3900s/%s", j->gateway->data_dir, name);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* --- what is asked for is kept --- */

void htc__content_touch(int blobs, const char *hex)
{
    const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } }; /* when it was made says that it is the same file still */
    utimensat(blobs, hex, now, AT_SYMLINK_NOFOLLOW);
}

int htc__content_user_ok(const char *user)
{
    size_t n = strlen(user);
    return n > 0 && n < 64 && user[0] != '.' && !strchr(user, '/');
}

/* The uploads of the user whose name is read next; -1 and *status. */
static int open_uploads(htc__job *j, htc_reader *r, char path[PATH_MAX], htc_status *status)
{
    char user[64], name[80];
    htc_get_str(r, user, sizeof user);
    if (r->status != HTC_OK || !htc__content_user_ok(user)) {
        *status = HTC_EPROTO;
        return -1;
    }
    snprintf(name, sizeof name, "blobs/%s", user);
    int fd = open_place(j, name, path);
    *status = fd >= 0 ? HTC_OK : errno == ENOENT ? HTC_ENOTFOUND : failed(j, "cannot open", path, errno);
    return fd;
}

htc_status htc__content_touch_all(htc__job *j, htc_reader *r)
{
    char        path[PATH_MAX], hex[65];
    struct stat st;
    htc_status  status;
    int         uploads = open_uploads(j, r, path, &status);
    if (uploads < 0)
        return status == HTC_ENOTFOUND ? HTC_OK : status; /* none are here */
    while (r->status == HTC_OK && htc_reader_left(r)) {
        htc_bytes hash = htc_get_raw(r, 32);
        if (r->status != HTC_OK)
            break;
        htc_content_hex(hash.data, hex);
        pthread_mutex_lock(&j->gateway->blobs);
        htc__content_touch(uploads, hex);
        int there = fstatat(uploads, hex, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
        pthread_mutex_unlock(&j->gateway->blobs);
        if (there) {
            htc_put_raw(&j->answer, hash);
            htc_put_u64(&j->answer, (uint64_t)st.st_size);
        }
    }
    close(uploads);
    return r->status == HTC_OK ? HTC_OK : HTC_EPROTO;
}

/* --- uploads of before --- */

static uint64_t look_at_shared(int blobs, int remove)
{
    uint8_t        hash[32];
    struct dirent *e;
    uint64_t       n = 0;
    int            fd = openat(blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d)))
        if (htc_content_unhex(e->d_name, hash) == HTC_OK && (!remove || unlinkat(blobs, e->d_name, 0) == 0))
            n++;
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return n;
}

/* What a sweep has set aside (below) when its gateway was killed gets its name back: the next sweep looks at it again. */
static void give_names_back(int blobs, const char *user)
{
    char           name[65];
    uint8_t        hash[32];
    struct dirent *e;
    int            fd = openat(blobs, user, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d))) {
        snprintf(name, sizeof name, "%.64s", e->d_name + 1);
        if (e->d_name[0] == '.' && strlen(e->d_name) == 69 && strcmp(e->d_name + 65, ".old") == 0 && htc_content_unhex(name, hash) == HTC_OK &&
            (linkat(dirfd(d), e->d_name, dirfd(d), name, 0) == 0 || errno == EEXIST))
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

static void give_all_names_back(int blobs)
{
    struct dirent *e;
    int            fd = openat(blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            give_names_back(blobs, e->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

htc_status htc__content_adopt(htc__job *j, htc_reader *r)
{
    char       path[PATH_MAX], user[64], hex[65];
    uint64_t   n = 0;
    uint8_t    what = htc_get_u8(r);
    int        blobs = open_place(j, "blobs", path);
    htc_status status = blobs >= 0 ? HTC_OK : failed(j, "cannot open", path, errno);
    if (status == HTC_OK && what == HTC_ADOPT_GIVE) {
        htc_get_str(r, user, sizeof user);
        int of = r->status == HTC_OK && htc__content_user_ok(user) && (mkdirat(blobs, user, 0700) == 0 || errno == EEXIST)
                     ? openat(blobs, user, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1;
        status = of >= 0 ? HTC_OK : failed(j, "cannot open the uploads below", path, errno);
        while (status == HTC_OK && htc_reader_left(r)) {
            htc_bytes hash = htc_get_raw(r, 32);
            if (r->status != HTC_OK)
                break;
            htc_content_hex(hash.data, hex);
            if (linkat(blobs, hex, of, hex, 0) == 0)
                n++;
            else if (errno != EEXIST && errno != ENOENT) /* a full disk: what is for everybody is not dropped then */
                status = failed(j, "cannot give an upload to its user in", path, errno);
        }
        if (of >= 0)
            close(of);
        pthread_mutex_lock(&j->gateway->blobs);
        htc__stored_forget(j->gateway, user);
        pthread_mutex_unlock(&j->gateway->blobs);
    } else if (status == HTC_OK && what <= HTC_ADOPT_DROP) {
        if (what == HTC_ADOPT_COUNT) /* a gateway begins */
            give_all_names_back(blobs);
        n = look_at_shared(blobs, what == HTC_ADOPT_DROP);
    }
    if (blobs >= 0)
        close(blobs);
    if (status == HTC_OK && htc_reader_done(r) != HTC_OK)
        return HTC_EPROTO;
    htc_put_u64(&j->answer, n);
    return status;
}

/* --- sweeping --- */

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static int is_older(const struct stat *st, htc_ns age)
{
    const struct timespec *t = st->st_atim.tv_sec > st->st_mtim.tv_sec ? &st->st_atim : &st->st_mtim;
    htc_ns asked = (htc_ns)t->tv_sec * HTC_SECOND + (htc_ns)t->tv_nsec, now = htc_host_wall();
    return asked < now && now - asked > age;
}

/* Another gateway may keep it for a job at any moment, which it says by touching it. Without its name nobody touches it any more: then it is
 * looked at again, and gets its name back if somebody has. */
static int remove_untouched(int dir, const char *name, htc_ns age)
{
    struct stat st;
    char        aside[80];
    snprintf(aside, sizeof aside, ".%.64s.old", name);
    if (renameat(dir, name, dir, aside) != 0)
        return 0;
    if (fstatat(dir, aside, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_older(&st, age))
        return unlinkat(dir, aside, 0) == 0;
    if (linkat(dir, aside, dir, name, 0) == 0 || errno == EEXIST)
        unlinkat(dir, aside, 0);
    return 0;
}

/* What is looked at is removed only while no upload of it ends. */
static int remove_if_old(htc__job *j, int dir, const char *user, const char *name, htc_ns age, uint64_t *bytes)
{
    struct stat st;
    pthread_mutex_lock(&j->gateway->blobs);
    int gone = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && is_older(&st, age) &&
               (j->gateway->shared ? remove_untouched(dir, name, age) : unlinkat(dir, name, 0) == 0);
    if (gone)
        htc__stored_add(j->gateway, user, (uint64_t)st.st_size, 1);
    pthread_mutex_unlock(&j->gateway->blobs);
    if (gone)
        *bytes += (uint64_t)st.st_size;
    return gone;
}

/* named: so many hashes in order. */
static uint64_t sweep_user(htc__job *j, int blobs, const char *user, htc_bytes named, htc_ns grace, uint64_t *bytes)
{
    struct dirent *e;
    uint8_t        hash[32];
    uint64_t       files = 0;
    int            fd = openat(blobs, user, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d)))
        if (htc_content_unhex(e->d_name, hash) == HTC_OK && !bsearch(hash, named.data, named.len, 32, by_bytes))
            files += (uint64_t)remove_if_old(j, dirfd(d), user, e->d_name, grace, bytes);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return files;
}

/* What agents have noted of contents that no job names (lib/net/exec/stage.c). A note that is missed costs one more reading. */
static void sweep_notes(htc__job *j, htc_bytes named)
{
    char           path[PATH_MAX];
    uint8_t        hash[32];
    struct dirent *e;
    int            fd = open_place(j, "seen", path);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d)))
        if (htc_content_unhex(e->d_name, hash) == HTC_OK && !bsearch(hash, named.data, named.len, 32, by_bytes))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

htc_status htc__content_sweep(htc__job *j, htc_reader *r)
{
    char           path[PATH_MAX];
    struct dirent *e;
    uint64_t       files = 0, bytes = 0;
    htc_ns         grace = htc_get_u64(r);
    size_t         n = htc_reader_left(r) / 32;
    if (r->status != HTC_OK || htc_reader_left(r) % 32)
        return HTC_EPROTO;
    uint8_t *named = malloc(n * 32 + 1);
    if (!named)
        return HTC_ENOMEM;
    memcpy(named, n ? r->p : named, n * 32);
    qsort(named, n, 32, by_bytes);
    int  fd = open_place(j, "blobs", path);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            files += sweep_user(j, dirfd(d), e->d_name, (htc_bytes){ named, n }, grace, &bytes);
    sweep_notes(j, (htc_bytes){ named, n });
    free(named);
    htc_status status = d ? HTC_OK : failed(j, "cannot read", path, errno);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    htc__uploads_forget(j->gateway);
    htc_put_u64(&j->answer, files);
    htc_put_u64(&j->answer, bytes);
    return status;
}

/* --- counting --- */

typedef struct sum {
    uint64_t bytes, files;
} sum;

/* Everything below; dir is taken. A name that vanishes meanwhile is passed over. */
static void add_up(int dir, sum *s, int depth)
{
    struct stat    st;
    struct dirent *e;
    DIR           *d = dir < 0 || depth > 64 ? NULL : fdopendir(dir);
    if (!d && dir >= 0)
        close(dir);
    while (d && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            add_up(openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), s, depth + 1);
        } else {
            s->bytes += (uint64_t)st.st_size;
            s->files++;
        }
    }
    if (d)
        closedir(d);
}

static void put_sum(htc_buf *b, const sum *s)
{
    htc_put_u64(b, s->bytes);
    htc_put_u64(b, s->files);
}

static void add_place(htc__job *j, const char *name, sum *s)
{
    char path[PATH_MAX];
    add_up(open_place(j, name, path), s, 0);
}

htc_status htc__disk_use(htc__job *j, htc_reader *r)
{
    char        path[PATH_MAX], name[40], hex[65];
    struct stat st;
    htc_status  status;
    sum         outputs = { 0 }, uploads = { 0 }, unfinished = { 0 };
    uint64_t    id = htc_get_u64(r);
    int         blobs = id ? open_uploads(j, r, path, &status) : -1;
    if (r->status != HTC_OK || htc_reader_left(r) % 32) {
        if (blobs >= 0)
            close(blobs);
        return HTC_EPROTO;
    }
    if (id)
        snprintf(name, sizeof name, "out/%" PRIu64, id);
    add_place(j, id ? name : "out", &outputs);
    put_sum(&j->answer, &outputs);
    if (!id) {
        add_place(j, "blobs", &uploads);
        add_place(j, "tmp", &unfinished);
        put_sum(&j->answer, &uploads);
        put_sum(&j->answer, &unfinished);
        return HTC_OK;
    }
    while (blobs >= 0 && htc_reader_left(r)) {
        htc_bytes hash = htc_get_raw(r, 32);
        htc_content_hex(hash.data, hex);
        if (fstatat(blobs, hex, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        htc_put_raw(&j->answer, hash);
        htc_put_u64(&j->answer, (uint64_t)st.st_size);
    }
    if (blobs >= 0)
        close(blobs);
    return HTC_OK;
}
