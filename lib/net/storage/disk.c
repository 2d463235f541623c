/* Requests to a disk, carried out with files. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/disk_host.h"
#include "net/storage/direct.h"
#include "net/storage/disk_private.h"
#include "net/storage/patience.h"

#define MADE_MAX       4
#define LOCK_NAME      ".lock" /* no name of a file that can be asked for */
#define OPEN_MAX_FILES 8
#define ZEROS          ((size_t)256 << 10)
#define HERE_MAX       ((size_t)256 << 10)

typedef struct open_file {
    char name[HTC_DISK_NAME_MAX + 1];
    int  fd;
    int  direct;   /* the same past the page cache (direct.h); -1: it was not needed yet, or there is none */
    int  buffered; /* there will be none */
    int  dirty;    /* something was written, or may have been, that no sync has covered: one write's own would not */
    int  unsynced; /* in this run */
    uint64_t length;
} open_file;

typedef struct call {
    struct call  *next;
    htc_disk_dir *dir;
    htc_host     *host;
    uint64_t      tag;
    uint32_t      op;
    htc_status    status;
    htc_buf       answer;
    open_file    *file; /* its answer waits for this one's sync */
    htc_bytes     body; /* placed so that data to be written may go past the page cache */
    unsigned char room[];
} call;

struct htc_disk_dir {
    int             fd, lock;
    pthread_mutex_t failing; /* over these five, for files are made beside the rest */
    char            made[MADE_MAX][HTC_DISK_NAME_MAX + 1]; /* files that were made, synced, and not opened since */
    unsigned        made_next;
    int             failed, spare;
    char            why[128]; /* the first thing that went wrong for good, in words */
    open_file       files[OPEN_MAX_FILES];
    size_t          files_next;
    htc_buf         answer;          /* of htc_disk_dir_do */
    call           *waiting, **last; /* of the loop's thread */
    call           *running;
    htc__patience   patience;
    uint8_t        *bounce; /* HERE_MAX bytes: data to be written past the page cache, from any place */
    htc__disk_ways  ways;
};

static htc_status status_of(int error)
{
    switch (error) {
    case 0:
        return HTC_OK;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return HTC_ENOSPC;
    case ENOENT:
        return HTC_ENOTFOUND;
    case EEXIST:
        return HTC_EEXISTS;
    case ENOMEM:
        return HTC_ENOMEM;
    case EMFILE:
    case ENFILE:
        return HTC_EBUSY;
    case EACCES:
    case EPERM:
    case EROFS:
        return HTC_EDENIED;
    default:
        return HTC_EIO;
    }
}

static int has_failed(htc_disk_dir *d)
{
    pthread_mutex_lock(&d->failing);
    int failed = d->failed;
    pthread_mutex_unlock(&d->failing);
    return failed;
}

/* What is told when the machine gives up; the first such word stands. */
static void note(htc_disk_dir *d, const char *what, const char *name, int error)
{
    pthread_mutex_lock(&d->failing);
    if (!d->why[0])
        snprintf(d->why, sizeof d->why, "%s %.64s: %s", what, name, strerror(error));
    pthread_mutex_unlock(&d->failing);
}

/* Whatever the reason: what is on the disk is not known any more. */
static htc_status sync_failed(htc_disk_dir *d, const char *what, const char *name)
{
    note(d, what, name, errno);
    pthread_mutex_lock(&d->failing);
    d->failed = 1;
    pthread_mutex_unlock(&d->failing);
    return HTC_EIO;
}

/* errno as a status; if that is HTC_EIO, with the word for it. */
static htc_status failed(htc_disk_dir *d, const char *what, const char *name)
{
    int        error = errno;
    htc_status status = status_of(error);
    if (status == HTC_EIO)
        note(d, what, name, error);
    return status;
}

static htc_status sync_directory(htc_disk_dir *d)
{
    return fsync(d->fd) == 0 ? HTC_OK : sync_failed(d, "sync", "the directory");
}

static void text_of(htc_bytes name, char text[HTC_DISK_NAME_MAX + 1])
{
    memcpy(text, name.data, name.len);
    text[name.len] = 0;
}

static open_file *known(htc_disk_dir *d, const char *name)
{
    for (size_t i = 0; i < OPEN_MAX_FILES; i++)
        if (d->files[i].fd >= 0 && strcmp(d->files[i].name, name) == 0)
            return &d->files[i];
    return NULL;
}

static void close_file(open_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->fd >= 0 && f->direct >= 0)
        close(f->direct);
    f->fd = -1;
    f->unsynced = 0;
}

static void forget(htc_disk_dir *d, const char *name)
{
    open_file *f = known(d, name);
    if (f)
        close_file(f);
}

/* This process has made it, all of it is on the disk, and nobody has looked into it since. */
static void note_made(htc_disk_dir *d, const char *name)
{
    pthread_mutex_lock(&d->failing);
    snprintf(d->made[d->made_next++ % MADE_MAX], sizeof d->made[0], "%s", name);
    pthread_mutex_unlock(&d->failing);
}

static int was_made(htc_disk_dir *d, const char *name)
{
    int was = 0;
    pthread_mutex_lock(&d->failing);
    for (size_t i = 0; i < MADE_MAX; i++)
        if (strcmp(d->made[i], name) == 0) {
            d->made[i][0] = 0;
            was = 1;
        }
    pthread_mutex_unlock(&d->failing);
    return was;
}

/* One that is open only to be found open the next time. */
static int give_one_up(htc_disk_dir *d)
{
    for (size_t i = 0; i < OPEN_MAX_FILES; i++)
        if (d->files[i].fd >= 0 && !d->files[i].unsynced) {
            close_file(&d->files[i]);
            return 1;
        }
    return 0;
}

/* Where clients or the machine have taken the last descriptor, the store goes on with those that it has. */
static int no_descriptor(int fd)
{
    return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

static int open_at(const htc_disk_dir *d, const char *name, int flags)
{
    return openat(d->fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static htc_status file_open(htc_disk_dir *d, htc_bytes name, open_file **out)
{
    char       text[HTC_DISK_NAME_MAX + 1];
    open_file *f;
    text_of(name, text);
    if ((f = known(d, text)) != NULL) {
        *out = f;
        return HTC_OK;
    }
    int fd = open_at(d, text, O_RDWR);
    while (no_descriptor(fd) && give_one_up(d))
        fd = open_at(d, text, O_RDWR);
    struct stat s;
    if (fd < 0)
        return failed(d, "open", text);
    if (fstat(fd, &s) != 0) {
        close(fd);
        return failed(d, "look at", text);
    }
    /* What a failed sync has left in memory looks written and is not: what is read has to be what is on the disk. Pages that still
     * wait to be written stay, and are. A file that was just made has no such pages, and without them each write of less than a block
     * would wait for that block to be read. */
    int made = was_made(d, text);
    if (!made)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    /* The oldest goes, but none that waits for its sync. */
    for (size_t i = 0; i < OPEN_MAX_FILES; i++) {
        f = &d->files[d->files_next++ % OPEN_MAX_FILES];
        if (f->fd < 0 || !f->unsynced)
            break;
    }
    if (f->fd >= 0 && f->unsynced) {
        close(fd);
        return HTC_EBUSY;
    }
    close_file(f);
    *f = (open_file){ .fd = fd, .direct = -1, .dirty = !made, .length = (uint64_t)s.st_size }; /* for good: files never grow */
    memcpy(f->name, text, sizeof text);
    *out = f;
    return HTC_OK;
}

static int write_all(int fd, const void *data, size_t n, uint64_t offset)
{
    const char *p = data;
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        p += done;
        n -= (size_t)done;
        offset += (size_t)done;
    }
    return 0;
}

/* ---------------------------------------------------------------- what can be asked */

static htc_status do_list(htc_disk_dir *d, htc_buf *answer)
{
    int  fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return status_of(error);
    }
    const struct dirent *e;
    while ((errno = 0, e = readdir(dir)) != NULL) {
        struct stat   s;
        unsigned char bytes[HTC_DISK_HEAD_MAX];
        htc_bytes     name = htc_bytes_of(e->d_name);
        if (!htc_disk_name_ok(name) || fstatat(d->fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
            continue;
        size_t n = htc_disk_file_encode(&(htc_disk_file){ name, (uint64_t)s.st_size }, bytes, sizeof bytes);
        htc_put_raw(answer, (htc_bytes){ bytes, n });
    }
    int error = errno;
    closedir(dir);
    return error ? status_of(error) : answer->status;
}

static int fill(int fd, uint64_t length)
{
    static const char zeros[ZEROS];
    int               error = posix_fallocate(fd, 0, (off_t)length);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL)
        return error;
    for (uint64_t at = 0; at < length;) {
        size_t n = length - at < ZEROS ? (size_t)(length - at) : ZEROS;
        if ((error = write_all(fd, zeros, n, at)) != 0)
            return error;
        at += n;
    }
    return 0;
}

/* Files are made beside the rest, whose descriptors are not to be touched then: there is one for the purpose. */
static int give_up_spare(htc_disk_dir *d)
{
    pthread_mutex_lock(&d->failing);
    int fd = d->spare;
    d->spare = -1;
    pthread_mutex_unlock(&d->failing);
    return fd >= 0 && close(fd) == 0;
}

static void keep_spare(htc_disk_dir *d)
{
    pthread_mutex_lock(&d->failing);
    if (d->spare < 0)
        d->spare = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pthread_mutex_unlock(&d->failing);
}

static htc_status do_create(htc_disk_dir *d, const htc_disk_request *q)
{
    char name[HTC_DISK_NAME_MAX + 1];
    text_of(q->name, name);
    int fd = open_at(d, name, O_RDWR | O_CREAT | O_EXCL);
    if (no_descriptor(fd) && give_up_spare(d))
        fd = open_at(d, name, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return failed(d, "make", name);
    errno = fill(fd, q->length);
    htc_status status = errno ? failed(d, "fill", name) : HTC_OK;
    if (status == HTC_OK && fsync(fd) != 0)
        status = errno == ENOSPC || errno == EDQUOT ? HTC_ENOSPC : sync_failed(d, "sync", name);
    close(fd);
    keep_spare(d);
    if (status != HTC_OK)
        unlinkat(d->fd, name, 0);
    htc_status synced = sync_directory(d);
    if (status == HTC_OK && synced == HTC_OK)
        note_made(d, name);
    return status != HTC_OK ? status : synced;
}

static htc_status do_read(htc_disk_dir *d, const htc_disk_request *q, htc_buf *answer)
{
    open_file *f;
    htc_status status = file_open(d, q->name, &f);
    uint8_t   *p = status == HTC_OK ? htc_buf_extend(answer, (size_t)q->length) : NULL;
    if (!p)
        return status != HTC_OK ? status : answer->status;
    size_t got = 0;
    while (got < q->length) {
        ssize_t n = pread(f->fd, p + got, (size_t)q->length - got, (off_t)(q->offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            note(d, "read", f->name, errno);
            return HTC_EIO;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    answer->len = got;
    return HTC_OK;
}

static int fits(const open_file *f, const htc_disk_request *q)
{
    return q->offset <= f->length && q->data.len <= f->length - q->offset;
}

/* What was written before and never synced would not be by a write that is durable for itself alone. */
static int may_go_direct(const open_file *f, const htc_disk_request *q)
{
    return q->sync && !f->dirty && !f->buffered && q->data.len <= HERE_MAX &&
           q->offset % HTC__DIRECT_UNIT == 0 && q->data.len % HTC__DIRECT_UNIT == 0;
}

/* Where there is no descriptor left for it now, there may be one later. */
static int open_direct(htc_disk_dir *d, open_file *f)
{
    if (f->direct >= 0)
        return 1;
    f->buffered = !htc__direct_is_kept(f->fd);
    if (f->buffered)
        return 0;
    f->direct = open_at(d, f->name, O_WRONLY | O_DIRECT);
    f->buffered = f->direct < 0 && !no_descriptor(f->direct);
    return f->direct >= 0;
}

static const void *placed(htc_disk_dir *d, htc_bytes data)
{
    if ((uintptr_t)data.data % HTC__DIRECT_UNIT == 0)
        return data.data;
    if (!d->bounce && !(d->bounce = aligned_alloc(4096, HERE_MAX)))
        return NULL;
    memcpy(d->bounce, data.data, data.len);
    return d->bounce;
}

/* 1: *status answers it; 0: it is to go through the page cache, for nothing is wrong with the disk. A write that fails otherwise is as a failed
 * sync. */
static int write_direct(htc_disk_dir *d, open_file *f, const htc_disk_request *q, htc_status *status)
{
    const void *data = may_go_direct(f, q) && open_direct(d, f) ? placed(d, q->data) : NULL;
    if (!data)
        return 0;
    int error = htc__direct_write(f->direct, data, q->data.len, q->offset);
    f->buffered |= htc__direct_is_never(error);
    if (htc__direct_is_no_way(error))
        return 0;
    errno = error;
    *status = error ? sync_failed(d, "write and sync", f->name) : HTC_OK;
    return 1;
}

static htc_status do_write(htc_disk_dir *d, const htc_disk_request *q, open_file **to_sync)
{
    open_file *f;
    htc_status status = file_open(d, q->name, &f);
    if (status != HTC_OK)
        return status;
    if (!fits(f, q))
        return HTC_EINVAL;
    if (write_direct(d, f, q, &status)) {
        d->ways.direct++;
        return status;
    }
    d->ways.buffered++;
    f->dirty = 1;
    errno = write_all(f->fd, q->data.data, q->data.len, q->offset);
    status = errno ? failed(d, "write", f->name) : HTC_OK;
    if (status == HTC_OK && q->sync)
        *to_sync = f;
    return status;
}

static htc_status do_rename(htc_disk_dir *d, const htc_disk_request *q)
{
    char from[HTC_DISK_NAME_MAX + 1], to[HTC_DISK_NAME_MAX + 1];
    text_of(q->name, from);
    text_of(q->to, to);
    forget(d, from);
    forget(d, to);
    (void)was_made(d, from); /* nor is one that will have these names another time */
    (void)was_made(d, to);
    return renameat(d->fd, from, d->fd, to) == 0 ? sync_directory(d) : failed(d, "rename", from);
}

static htc_status do_remove(htc_disk_dir *d, const htc_disk_request *q)
{
    char name[HTC_DISK_NAME_MAX + 1];
    text_of(q->name, name);
    forget(d, name);
    (void)was_made(d, name);
    return unlinkat(d->fd, name, 0) == 0 ? sync_directory(d) : failed(d, "remove", name);
}

/* All but the sync of a file, which *to_sync is still to get. */
static htc_status carry_out(htc_disk_dir *d, htc_bytes body, htc_buf *answer, open_file **to_sync)
{
    htc_disk_request q;
    *to_sync = NULL;
    if (htc_disk_decode(body, &q) != HTC_OK)
        return HTC_EINVAL;
    if (q.op != HTC_DISK_LIST && q.op != HTC_DISK_READ && has_failed(d))
        return HTC_EIO;
    switch (q.op) {
    case HTC_DISK_LIST:
        return do_list(d, answer);
    case HTC_DISK_CREATE:
        return do_create(d, &q);
    case HTC_DISK_READ:
        return do_read(d, &q, answer);
    case HTC_DISK_WRITE:
        return do_write(d, &q, to_sync);
    case HTC_DISK_SYNC:
        return file_open(d, q.name, to_sync);
    case HTC_DISK_RENAME:
        return do_rename(d, &q);
    default:
        return do_remove(d, &q);
    }
}

static htc_status sync_file(htc_disk_dir *d, open_file *f)
{
    assert(f->fd >= 0); /* a file that waits for its sync is not given up */
    if (fdatasync(f->fd) != 0)
        return sync_failed(d, "sync", f->name);
    f->dirty = 0;
    return HTC_OK;
}

htc_status htc_disk_dir_do(htc_disk_dir *d, htc_bytes body, htc_bytes *answer)
{
    open_file *f;
    htc_buf_clear(&d->answer);
    htc_status status = carry_out(d, body, &d->answer, &f);
    if (status == HTC_OK && f)
        status = sync_file(d, f);
    *answer = status == HTC_OK ? htc_buf_bytes(&d->answer) : (htc_bytes){ NULL, 0 };
    return status;
}

/* ---------------------------------------------------------------- beside a loop */

static void answer_and_free(call *c)
{
    htc_bytes body = c->status == HTC_OK ? htc_buf_bytes(&c->answer) : (htc_bytes){ NULL, 0 };
    htc_host_answer(c->host, c->op, c->tag, c->status, body);
    htc_buf_free(&c->answer);
    free(c);
}

static void make_work(void *ctx)
{
    call      *c = ctx;
    open_file *none;
    c->status = carry_out(c->dir, c->body, &c->answer, &none);
}

static void make_done(void *ctx)
{
    answer_and_free(ctx);
}

/* First everything but the syncs, then one sync for each file that wants it. */
static void run_work(void *ctx)
{
    htc_disk_dir *d = ctx;
    for (call *c = d->running; c; c = c->next) {
        c->status = carry_out(d, c->body, &c->answer, &c->file);
        if (c->file)
            c->file->unsynced = 1;
    }
    for (call *c = d->running; c; c = c->next) {
        if (!c->file || !c->file->unsynced)
            continue;
        htc_status status = has_failed(d) ? HTC_EIO : sync_file(d, c->file);
        c->file->unsynced = 0;
        for (call *other = c; other; other = other->next)
            if (other->file == c->file && other->status == HTC_OK)
                other->status = status;
    }
}

static htc_status run_next(htc_disk_dir *d, htc_host *host);

static void run_done(void *ctx)
{
    htc_disk_dir *d = ctx;
    call         *c = d->running;
    assert(c);
    d->running = NULL;
    htc_host *host = c->host;
    for (call *next; c; c = next) {
        next = c->next;
        answer_and_free(c);
    }
    if (d->waiting && run_next(d, host) != HTC_OK)
        /* Nobody to do it: each is answered so. */
        for (call *next; (c = d->waiting) != NULL; d->waiting = next) {
            next = c->next;
            c->status = HTC_EBUSY;
            answer_and_free(c);
        }
    if (!d->waiting)
        d->last = &d->waiting;
}

static htc_status run_next(htc_disk_dir *d, htc_host *host)
{
    call *all = d->waiting;
    assert(all && !d->running); /* one run at a time: what was asked for later is carried out later */
    d->running = all;
    d->waiting = NULL;
    htc_status status = htc_host_work(host, run_work, run_done, d);
    if (status == HTC_OK) {
        d->last = &d->waiting;
        return HTC_OK;
    }
    d->running = NULL;
    d->waiting = all;
    return status;
}

/* The data of a write stand at the end of its request. */
static void place(call *c, htc_bytes body)
{
    htc_disk_request q;
    size_t           data = c->op == HTC_DISK_WRITE && htc_disk_decode(body, &q) == HTC_OK ? q.data.len : body.len;
    uintptr_t        at = (uintptr_t)c->room + body.len - data;
    unsigned char   *to = c->room + (HTC__DIRECT_UNIT - at % HTC__DIRECT_UNIT) % HTC__DIRECT_UNIT;
    if (body.len)
        memcpy(to, body.data, body.len);
    c->body.data = to;
}

htc_status htc_disk_dir_call(htc_disk_dir *d, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    call *c = malloc(sizeof *c + HTC__DIRECT_UNIT + body.len); /* not calloc: a batch is long, and copied over it */
    if (!c)
        return HTC_ENOMEM;
    *c = (call){ .dir = d, .host = host, .tag = tag, .op = op, .body = { c->room, body.len } };
    place(c, body);
    htc_buf_init(&c->answer, NULL, 0);
    if (op == HTC_DISK_CREATE) {
        /* It takes long, and is about a file that nobody else asks for before it is answered. */
        htc_status status = htc_host_work(host, make_work, make_done, c);
        if (status != HTC_OK)
            free(c);
        return status;
    }
    call **before = d->last;
    *before = c;
    d->last = &c->next;
    if (d->running)
        return HTC_OK;
    htc_status status = run_next(d, host);
    if (status != HTC_OK) {
        *before = NULL;
        d->last = before;
        free(c);
    }
    return status;
}

htc_status htc_disk_dir_call_here(htc_disk_dir *d, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    htc_bytes answer;
    if (op != HTC_DISK_WRITE || body.len > HERE_MAX || d->running || d->waiting)
        return htc_disk_dir_call(d, host, op, tag, body);
    htc_ns begun = htc_host_now();
    if (!htc__patience_lasts(&d->patience, begun))
        return htc_disk_dir_call(d, host, op, tag, body);
    htc_status status = htc_disk_dir_do(d, body, &answer);
    htc_ns     now = htc_host_now();
    htc__patience_spend(&d->patience, now, now - begun);
    return htc_host_answer(host, op, tag, status, answer);
}

/* ---------------------------------------------------------------- both ends */

static htc_status take(htc_disk_dir *d, const char *path, htc_error *error)
{
    int rc = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
    if (rc == 0 && (d->fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC)) < 0)
        rc = errno;
    if (rc == 0 && (d->lock = openat(d->fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
        rc = errno;
    if (rc == 0 && flock(d->lock, LOCK_EX | LOCK_NB) != 0)
        rc = errno;
    if (rc == EWOULDBLOCK)
        return htc__error(error, HTC_ELOCKED, "%s: in use by another process", path);
    return rc == 0 ? HTC_OK : htc__error(error, status_of(rc), "%s: %s", path, strerror(rc));
}

void htc_disk_dir_close(htc_disk_dir *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < OPEN_MAX_FILES; i++)
        close_file(&d->files[i]);
    free(d->bounce);
    if (d->spare >= 0)
        close(d->spare);
    if (d->lock >= 0)
        close(d->lock);
    if (d->fd >= 0)
        close(d->fd);
    htc_buf_free(&d->answer);
    pthread_mutex_destroy(&d->failing);
    free(d);
}

void htc__disk_dir_ways(const htc_disk_dir *d, htc__disk_ways *ways)
{
    *ways = d->ways;
}

htc_status htc_disk_dir_failure(htc_disk_dir *d, htc_error *error)
{
    htc_status status = HTC_OK;
    pthread_mutex_lock(&d->failing);
    if (d->why[0])
        status = htc__error(error, HTC_EIO, "%s", d->why);
    pthread_mutex_unlock(&d->failing);
    return status;
}

htc_status htc_disk_dir_open(const char *path, htc_disk_dir **out, htc_error *error)
{
    if (!path || !path[0] || !out)
        return htc__error(error, HTC_EINVAL, "no directory");
    htc_disk_dir *d = calloc(1, sizeof *d);
    if (!d)
        return htc__error(error, HTC_ENOMEM, "%s", htc_strerror(HTC_ENOMEM));
    d->fd = d->lock = d->spare = -1;
    d->last = &d->waiting;
    for (size_t i = 0; i < OPEN_MAX_FILES; i++)
        d->files[i].fd = d->files[i].direct = -1;
    pthread_mutex_init(&d->failing, NULL);
    htc_buf_init(&d->answer, NULL, 0);
    htc_status status = take(d, path, error);
    if (status != HTC_OK) {
        htc_disk_dir_close(d);
        return status;
    }
    keep_spare(d);
    *out = d;
    return HTC_OK;
}
