/* Uploads, stored outputs and live logs: the files behind a gateway's calls. On a worker thread. */
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
#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "net/gateway/gateway_private.h"
#include "net/files/manifest.h"

#define READ_MAX (1u << 20)
#define PREFIX_MAX 64
#define SAY(j, ...) snprintf((j)->text, sizeof(j)->text, __VA_ARGS__)

static htc_status failed(htc__job *j, const char *what, const char *path, int error)
{
    SAY(j, "%s %.200s: %s", what, path, strerror(error));
    return error == ENOENT || error == ENOTDIR || error == ELOOP ? HTC_ENOTFOUND : htc__status_of(error, HTC_EIO);
}

/* --- uploads --- */

typedef struct upload {
    char      user[64];
    uint8_t   hash[32];
    uint64_t  size, offset, most; /* most: that all of the user's may come to */
    htc_bytes bytes;
    char      part[PATH_MAX], final[PATH_MAX], dir[PATH_MAX];
} upload;

static int name_places(const htc__job *j, upload *u)
{
    char hex[65];
    htc_content_hex(u->hash, hex);
    int a = snprintf(u->part, sizeof u->part, "%s/tmp/%s.%s.part", j->gateway->data_dir, u->user, hex);
    int b = snprintf(u->dir, sizeof u->dir, "%s/blobs/%s", j->gateway->data_dir, u->user);
    int c = snprintf(u->final, sizeof u->final, "%s/blobs/%s/%s", j->gateway->data_dir, u->user, hex);
    return a > 0 && a < PATH_MAX && b > 0 && c > 0 && c < PATH_MAX ? 0 : -1;
}

/* Whose upload, and which. HTC_EPROTO. */
static htc_status read_names(htc_reader *r, upload *u)
{
    htc_get_str(r, u->user, sizeof u->user);
    htc_bytes hash = htc_get_raw(r, sizeof u->hash);
    if (r->status != HTC_OK || !htc__content_user_ok(u->user))
        return HTC_EPROTO;
    memcpy(u->hash, hash.data, sizeof u->hash);
    return HTC_OK;
}

/* The user may own the directory, so that what lies there is not followed. */
static int is_stored(const upload *u, struct stat *st)
{
    return lstat(u->final, st) == 0 && S_ISREG(st->st_mode);
}

/* --- unfinished ones: what they may come to is bounded; blobs is held --- */

#define UPLOAD_IDLE   (3600 * HTC_SECOND) /* one that nobody went on with for so long is forgotten, */
#define UPLOAD_YIELDS (60 * HTC_SECOND)   /* and after this when others need the room, or its user does */
#define UPLOADS_AT_ONCE 1024

static htc__upload **upload_of(htc_gateway_host *g, const upload *u)
{
    htc__upload **at = &g->uploads;
    while (*at && (memcmp((*at)->hash, u->hash, 32) != 0 || strcmp((*at)->user, u->user) != 0))
        at = &(*at)->next;
    return at;
}

static void upload_drop(htc_gateway_host *g, htc__upload **at)
{
    char         path[PATH_MAX], hex[65];
    htc__upload *u = *at;
    htc_content_hex(u->hash, hex);
    snprintf(path, sizeof path, "%.3900s/tmp/%s.%s.part", g->data_dir, u->user, hex);
    unlink(path);
    *at = u->next;
    free(u);
}

/* Of that user, or NULL: of all. 1: there were some. */
static int uploads_drop_idle(htc_gateway_host *g, const char *user, htc_ns idle)
{
    htc_ns now = htc_host_now();
    int    some = 0;
    for (htc__upload **at = &g->uploads; *at;)
        if (now - (*at)->at > idle && (!user || strcmp((*at)->user, user) == 0)) {
            upload_drop(g, at);
            some = 1;
        } else
            at = &(*at)->next;
    return some;
}

void htc__uploads_forget(htc_gateway_host *g)
{
    pthread_mutex_lock(&g->blobs);
    uploads_drop_idle(g, NULL, UPLOAD_IDLE);
    pthread_mutex_unlock(&g->blobs);
}

void htc__uploads_end(htc_gateway_host *g)
{
    while (g->uploads) {
        htc__upload *u = g->uploads;
        g->uploads = u->next;
        free(u);
    }
}

typedef struct holding {
    size_t   n, of_user;
    uint64_t bytes, bytes_of_user;
} holding;

/* A user's take no more than they leave free, so that whoever holds all that one may, or goes on slowly without end, leaves room for others. The
 * first of a user has a place as long as there is one. */
static int has_room(const htc_gateway_host *g, const upload *u, holding *h)
{
    *h = (holding){ 0 };
    for (const htc__upload *x = g->uploads; x; x = x->next) {
        int same = strcmp(x->user, u->user) == 0;
        h->n++;
        h->bytes += x->size;
        h->of_user += (size_t)same;
        h->bytes_of_user += same ? x->size : 0;
    }
    uint64_t free_bytes = h->bytes < g->uploads_max ? g->uploads_max - h->bytes : 0;
    return h->n < UPLOADS_AT_ONCE && (h->of_user == 0 || h->of_user + 1 <= UPLOADS_AT_ONCE - h->n - 1) && u->size <= free_bytes &&
           h->bytes_of_user + u->size <= free_bytes - u->size;
}

/* The first piece sets its room aside; a later one needs to belong to an upload that was begun. */
static htc_status upload_admit(htc__job *j, const upload *u)
{
    htc_gateway_host *g = j->gateway;
    htc__upload     **at = upload_of(g, u);
    holding           held;
    if (*at && u->offset) {
        if ((*at)->size != u->size) {
            SAY(j, "a piece of an upload of %" PRIu64 " bytes, which was begun as one of %" PRIu64, u->size, (*at)->size);
            return HTC_EINPUT;
        }
        if (u->offset + u->bytes.len > (*at)->reached) { /* what is sent again keeps nothing alive */
            (*at)->reached = u->offset + u->bytes.len;
            (*at)->at = htc_host_now();
        }
        return HTC_OK;
    }
    if (u->offset) {
        SAY(j, "a piece at %" PRIu64 " of an upload that was not begun here: send it from its beginning", u->offset);
        return HTC_EINPUT;
    }
    if (*at)
        upload_drop(g, at);
    if (u->size > g->uploads_max / 2) {
        SAY(j, "an upload may have half of data.uploads_max, %" PRIu64 " bytes, and this one has %" PRIu64, g->uploads_max / 2, u->size);
        return HTC_ETOOBIG;
    }
    if (!has_room(g, u, &held))
        uploads_drop_idle(g, NULL, UPLOAD_YIELDS);
    if (!has_room(g, u, &held)) {
        SAY(j, "there is no room now for %" PRIu64 " more bytes: a user's unfinished uploads may take no more than they leave free, and those of %s hold %" PRIu64
            " bytes in %zu upload%s (data.uploads_max)", u->size, u->user, held.bytes_of_user, held.of_user, htc__plural(held.of_user));
        return HTC_EBUSY;
    }
    htc_status status = htc__stored_room(j, u->user, u->size, u->most);
    if (status == HTC_EDENIED && uploads_drop_idle(g, u->user, UPLOAD_YIELDS)) /* what broke off costs its user nothing for long */
        status = htc__stored_room(j, u->user, u->size, u->most);
    if (status != HTC_OK)
        return status;
    htc__upload *begun = calloc(1, sizeof *begun);
    if (!begun)
        return HTC_ENOMEM;
    memcpy(begun->hash, u->hash, sizeof begun->hash);
    memcpy(begun->user, u->user, sizeof begun->user);
    begun->size = u->size;
    begun->reached = u->bytes.len;
    begun->at = htc_host_now();
    for (at = &g->uploads; *at;)
        at = &(*at)->next;
    *at = begun;
    return HTC_OK;
}

/* The last piece is there: is it what was promised? */
static htc_status complete(htc__job *j, upload *u, int fd)
{
    uint8_t  hash[32];
    uint64_t size = 0;
    if (htc_content_hash_fd(fd, hash, &size) != HTC_OK)
        return failed(j, "cannot read", u->part, errno);
    if (size != u->size || memcmp(hash, u->hash, sizeof hash) != 0) {
        unlink(u->part);
        SAY(j, "the upload of %" PRIu64 " bytes does not have the hash it was announced with", size);
        return HTC_EINPUT;
    }
    if (fchmod(fd, 0444) != 0) /* the agents of the user may have another uid than we; nobody else passes into the directory */
        return failed(j, "cannot store", u->part, errno);
    if (mkdir(u->dir, 0700) != 0 && errno != EEXIST)
        return failed(j, "cannot make", u->dir, errno);
    if (j->gateway->durable && fsync(fd) != 0)
        return failed(j, "cannot sync", u->part, errno);
    if (rename(u->part, u->final) != 0)
        return failed(j, "cannot store", u->final, errno);
    htc__stored_add(j->gateway, u->user, u->size, 0);
    if (j->gateway->durable && htc__sync_dir(u->dir) != 0)
        return failed(j, "cannot sync", u->dir, errno);
    return HTC_OK;
}

static htc_status write_piece(htc__job *j, upload *u)
{
    struct stat st;
    int         fd = open(u->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (u->offset == 0 ? O_TRUNC : 0), 0600);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return failed(j, "cannot write", u->part, why);
    }
    htc_status status = HTC_OK;
    if (u->offset > (uint64_t)st.st_size) {
        SAY(j, "a piece at %" PRIu64 " after %" PRIu64 " bytes: send the upload again", u->offset, (uint64_t)st.st_size);
        status = HTC_EINPUT;
    }
    const uint8_t *p = u->bytes.data;
    for (size_t done = 0; status == HTC_OK && done < u->bytes.len;) {
        ssize_t n = pwrite(fd, p + done, u->bytes.len - done, (off_t)(u->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            status = failed(j, "cannot write", u->part, n < 0 ? errno : ENOSPC);
        else
            done += (size_t)n;
    }
    if (status == HTC_ENOSPC)
        unlink(u->part); /* else what did not fit keeps the disk full */
    if (status == HTC_OK && u->offset + u->bytes.len == u->size)
        status = complete(j, u, fd);
    close(fd);
    return status;
}

static htc_status blob_write(htc__job *j, htc_reader *r)
{
    upload      u;
    struct stat st;
    htc_status  read = read_names(r, &u);
    u.size = htc_get_u64(r);
    u.offset = htc_get_u64(r);
    u.bytes = htc_get_bytes(r);
    u.most = htc_reader_left(r) ? htc_get_u64(r) : UINT64_MAX;
    if (read != HTC_OK || htc_reader_done(r) != HTC_OK)
        return HTC_EPROTO;
    if (u.offset > u.size || u.bytes.len > u.size - u.offset || (u.bytes.len == 0 && u.size > 0)) {
        SAY(j, "a piece of %zu bytes at %" PRIu64 " of an upload of %" PRIu64, u.bytes.len, u.offset, u.size);
        return HTC_EINPUT;
    }
    if (u.size > j->gateway->blob_bytes_max) {
        SAY(j, "an upload may have at most %" PRIu64 " bytes", j->gateway->blob_bytes_max);
        return HTC_ETOOBIG;
    }
    if (name_places(j, &u) != 0)
        return HTC_EINTERNAL;
    pthread_mutex_lock(&j->gateway->blobs);
    htc_status status = HTC_OK;
    if (is_stored(&u, &st)) {
        htc__content_touch(AT_FDCWD, u.final);
    } else {
        status = upload_admit(j, &u);
        if (status == HTC_OK)
            status = write_piece(j, &u);
        int over = status == HTC_EINPUT || status == HTC_ENOSPC || (status == HTC_OK && u.offset + u.bytes.len == u.size);
        if (over && *upload_of(j->gateway, &u))
            upload_drop(j->gateway, upload_of(j->gateway, &u));
    }
    if (status == HTC_OK)
        status = htc__stored_tell(j, u.user);
    pthread_mutex_unlock(&j->gateway->blobs);
    return status;
}

static htc_status blob_stat(htc__job *j, htc_reader *r)
{
    upload      u;
    struct stat st;
    htc_status  read = read_names(r, &u);
    if (read != HTC_OK || htc_reader_done(r) != HTC_OK)
        return HTC_EPROTO;
    if (name_places(j, &u) != 0)
        return HTC_EINTERNAL;
    pthread_mutex_lock(&j->gateway->blobs); /* what is said to be there is not swept between the look and the touch */
    int why = is_stored(&u, &st) ? 0 : ENOENT;
    if (!why)
        htc__content_touch(AT_FDCWD, u.final);
    pthread_mutex_unlock(&j->gateway->blobs);
    if (why)
        return failed(j, "no upload", u.final, why);
    htc_put_u64(&j->answer, (uint64_t)st.st_size);
    return HTC_OK;
}

/* --- reading --- */

static htc_status blob_read(htc__job *j, htc_reader *r)
{
    upload      u;
    struct stat st;
    htc_status  status = read_names(r, &u);
    uint64_t    offset = htc_get_u64(r);
    uint32_t    len = htc_get_u32(r);
    htc_bytes   prefix = htc_get_bytes(r);
    if (status != HTC_OK || htc_reader_done(r) != HTC_OK || len > READ_MAX || prefix.len > PREFIX_MAX)
        return HTC_EPROTO;
    if (name_places(j, &u) != 0)
        return HTC_EINTERNAL;
    int fd = open(u.final, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : ENOENT;
        if (fd >= 0)
            close(fd);
        return failed(j, "no upload", u.final, why);
    }
    if (offset > (uint64_t)st.st_size || len > (uint64_t)st.st_size - offset) {
        close(fd);
        return HTC_EINPUT;
    }
    htc_put_raw(&j->answer, prefix);
    htc_put_u64(&j->answer, offset);
    htc_put_u64(&j->answer, (uint64_t)st.st_size);
    htc_put_varint(&j->answer, len);
    uint8_t *to = htc_buf_extend(&j->answer, len);
    int      whole = to && htc__read_at(fd, to, len, offset) == 0, why = errno;
    close(fd);
    return whole ? HTC_OK : j->answer.status != HTC_OK ? j->answer.status : failed(j, "cannot read", u.final, why);
}

/* size, then the bytes at offset; fd is taken. */
static htc_status read_piece(htc__job *j, int fd, const char *name, uint64_t offset, uint32_t len)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : ENOENT;
        if (fd >= 0)
            close(fd);
        return failed(j, "no file", name, why);
    }
    uint64_t size = (uint64_t)st.st_size;
    size_t   want = offset >= size ? 0 : size - offset < len ? (size_t)(size - offset) : len;
    uint8_t *piece = malloc(want ? want : 1);
    size_t   got = 0;
    int      why = piece ? 0 : ENOMEM;
    while (!why && got < want) {
        ssize_t n = pread(fd, piece + got, want - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            why = errno;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    if (!why) {
        htc_put_u64(&j->answer, size);
        htc_put_bytes(&j->answer, (htc_bytes){ piece, got });
    }
    free(piece);
    return why ? failed(j, "cannot read", name, why) : HTC_OK;
}

/* A stored output, or the manifest (an empty name). */
static htc_status file_read(htc__job *j, htc_reader *r)
{
    char     place[96], shown[HTC_OUTPUT_NAME_MAX], name[HTC_OUTPUT_NAME_MAX + 8] = "files/";
    uint64_t job = htc_get_u64(r), task = htc_get_u64(r);
    uint32_t attempt = htc_get_u32(r);
    htc_get_str(r, shown, sizeof shown);
    uint64_t offset = htc_get_u64(r);
    uint32_t len = htc_get_u32(r);
    if (htc_reader_done(r) != HTC_OK)
        return HTC_EPROTO;
    if (!shown[0])
        strcpy(name, "manifest");
    else if (htc__name_of_shown(shown, name + 6, sizeof name - 6) != 0 || !htc__name_stays(name + 6)) {
        SAY(j, "%.200s is no name of an output", shown);
        return HTC_EPATH;
    }
    if (htc__output_place(place, sizeof place, job, task, attempt) != 0)
        return HTC_EINTERNAL;
    int root = open(j->gateway->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int top = root < 0 ? -1 : htc__open_below(root, place, O_PATH | O_DIRECTORY, 0, 0);
    int fd = top < 0 ? -1 : htc__open_below(top, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
    int why = errno;
    if (root >= 0)
        close(root);
    if (top >= 0)
        close(top);
    errno = why;
    return read_piece(j, fd, shown[0] ? shown : name, offset, len > READ_MAX ? READ_MAX : len);
}

/* In the slot that the gateway gave to the task's agent. What is in it is the user's to write: nothing there says whose it is. */
static htc_status live_read(htc__job *j, htc_reader *r)
{
    char        path[320], site[128], name[16];
    htc_attempt a;
    htc_get_str(r, site, sizeof site);
    uint32_t    number = htc_get_u32(r);
    htc_read_attempt(r, &a);
    htc_get_str(r, name, sizeof name);
    uint64_t offset = htc_get_u64(r);
    uint32_t len = htc_get_u32(r);
    if (htc_reader_done(r) != HTC_OK || (strcmp(name, "stdout") != 0 && strcmp(name, "stderr") != 0))
        return HTC_EPROTO;
    snprintf(path, sizeof path, "slots/%s.%" PRIu32, site, number);
    int top = open(j->gateway->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int slot = top < 0 ? -1 : htc__open_below(top, path, O_PATH | O_DIRECTORY, 0, 0);
    int keeper = slot < 0 ? -1 : htc__keeper_of(slot, &a);
    if (keeper >= 0)
        snprintf(path, sizeof path, "scratch/k%d/%s", keeper, name);
    else
        snprintf(path, sizeof path, "scratch/%" PRIu64 ".%" PRIu64 ".%" PRIu32 "/%s", a.job, a.task, a.attempt, name);
    int fd = slot < 0 ? -1 : htc__open_below(slot, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
    int why = errno;
    if (keeper >= 0 && fd >= 0 && htc__keeper_of(slot, &a) != keeper) { /* it ended meanwhile: that is another task's */
        close(fd);
        fd = -1;
        why = ENOENT;
    }
    if (top >= 0)
        close(top);
    if (slot >= 0)
        close(slot);
    errno = why;
    return read_piece(j, fd, name, offset, len > READ_MAX ? READ_MAX : len);
}

/* --- dropping --- */

static htc_status drop_job(htc__job *j, htc_reader *r)
{
    char     path[32];
    uint64_t job = htc_get_u64(r);
    if (htc_reader_done(r) != HTC_OK)
        return HTC_EPROTO;
    snprintf(path, sizeof path, "out/%" PRIu64, job);
    int data = open(j->gateway->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int removed = data < 0 ? -1 : htc__remove_below(data, path), why = errno;
    if (data >= 0)
        close(data);
    return removed == 0 ? HTC_OK : failed(j, "cannot remove", path, why);
}

static htc_status drop_output(htc__job *j, htc_reader *r)
{
    htc_attempt a;
    a.job = htc_get_u64(r);
    a.task = htc_get_u64(r);
    a.attempt = htc_get_u32(r);
    if (htc_reader_done(r) == HTC_OK)
        htc__drop_outputs(j->gateway->data_dir, &a);
    return HTC_OK;
}

void htc__gateway_files(htc__job *j)
{
    htc_reader r = htc_reader_of((htc_bytes){ j->body, j->len });
    switch (j->op) {
    case HTC_CALL_BLOB_WRITE: j->status = blob_write(j, &r); break;
    case HTC_CALL_BLOB_STAT: j->status = blob_stat(j, &r); break;
    case HTC_CALL_BLOB_READ: j->status = blob_read(j, &r); break;
    case HTC_CALL_CONTENT_ADOPT: j->status = htc__content_adopt(j, &r); break;
    case HTC_CALL_CONTENT_TOUCH: j->status = htc__content_touch_all(j, &r); break;
    case HTC_CALL_CONTENT_SWEEP: j->status = htc__content_sweep(j, &r); break;
    case HTC_CALL_CONTENT_SUM: j->status = htc__stored_sum(j, &r); break;
    case HTC_CALL_DISK_USE: j->status = htc__disk_use(j, &r); break;
    case HTC_CALL_FILE_READ: j->status = file_read(j, &r); break;
    case HTC_CALL_LIVE_READ: j->status = live_read(j, &r); break;
    case HTC_CALL_DROP_JOB: j->status = drop_job(j, &r); break;
    case HTC_CALL_DROP_OUTPUT: j->status = drop_output(j, &r); break;
    default: j->status = HTC_EUNSUPPORTED; break;
    }
}
