/* Uploads that nobody names any more, and what disk is held by whom. On a worker thread. */
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
    utimensat(blobs, hex, NULL, AT_SYMLINK_NOFOLLOW); /* now */
}

htc_status htc__content_touch_all(htc__job *j, htc_reader *r)
{
    char path[PATH_MAX], hex[65];
    int  blobs = open_place(j, "blobs", path);
    if (blobs < 0)
        return failed(j, "cannot open", path, errno);
    while (r->status == HTC_OK && htc_reader_left(r)) {
        htc_bytes hash = htc_get_raw(r, 32);
        if (r->status != HTC_OK)
            break;
        htc_content_hex(hash.data, hex);
        pthread_mutex_lock(&j->gateway->blobs);
        htc__content_touch(blobs, hex);
        pthread_mutex_unlock(&j->gateway->blobs);
    }
    close(blobs);
    return r->status == HTC_OK ? HTC_OK : HTC_EPROTO;
}

/* --- sweeping --- */

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static int is_older(const struct stat *st, htc_ns age)
{
    htc_ns changed = (htc_ns)st->st_mtim.tv_sec * HTC_SECOND + (htc_ns)st->st_mtim.tv_nsec, now = htc_host_wall();
    return changed < now && now - changed > age;
}

/* What is looked at is removed only while no upload of it ends. */
static int remove_if_old(htc__job *j, int dir, const char *name, htc_ns age, uint64_t *bytes)
{
    struct stat st;
    pthread_mutex_lock(&j->gateway->blobs);
    int gone = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && is_older(&st, age) &&
               unlinkat(dir, name, 0) == 0;
    pthread_mutex_unlock(&j->gateway->blobs);
    if (gone)
        *bytes += (uint64_t)st.st_size;
    return gone;
}

htc_status htc__content_sweep(htc__job *j, htc_reader *r)
{
    char           path[PATH_MAX];
    struct dirent *e;
    uint8_t        hash[32];
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
        if (htc_content_unhex(e->d_name, hash) == HTC_OK && !bsearch(hash, named, n, 32, by_bytes))
            files += (uint64_t)remove_if_old(j, dirfd(d), e->d_name, grace, &bytes);
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
    sum         outputs = { 0 }, uploads = { 0 }, unfinished = { 0 };
    uint64_t    id = htc_get_u64(r);
    if (r->status != HTC_OK || htc_reader_left(r) % 32)
        return HTC_EPROTO;
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
    int blobs = open_place(j, "blobs", path);
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
