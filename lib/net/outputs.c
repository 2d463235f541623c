/* Staging out: what a task left behind is hashed and stored under (job, task, attempt). On a worker thread. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec_private.h"
#include "net/files.h"

#define SAY(o, ...) snprintf((o)->run->text, sizeof(o)->run->text, __VA_ARGS__)
#define DEPTH_MAX 32

typedef struct outputs {
    htc__run *run;
    char      final[PATH_MAX - 16], part[PATH_MAX]; /* stored as part, renamed to final when all is there */
    int       made;
    uint64_t  bytes;
} outputs;

static htc_status make_part(outputs *o)
{
    if (o->made)
        return HTC_OK;
    htc__remove_tree(o->part);
    if (htc__make_dirs(o->part) != 0) {
        SAY(o, "cannot create %.300s: %s", o->part, strerror(errno));
        return htc__status_of(errno, HTC_ESTAGEOUT);
    }
    o->made = 1;
    return HTC_OK;
}

static htc_output_file *file_named(const outputs *o, const char *name)
{
    for (uint32_t i = 0; i < o->run->files_count; i++)
        if (strcmp(o->run->files[i].name, name) == 0)
            return &o->run->files[i];
    return NULL;
}

static htc_output_file *next_file(outputs *o, const char *name, htc_status *status)
{
    htc__run *r = o->run;
    *status = HTC_ESTAGEOUT;
    size_t len = strlen(name);
    if (len >= HTC_OUTPUT_NAME_MAX || !htc__name_stays(name)) {
        SAY(o, "%.*s is no name for an output", len > 300 ? 300 : (int)len, name);
        *status = len >= HTC_OUTPUT_NAME_MAX ? HTC_ESTAGEOUT : HTC_EPATH;
        return NULL;
    }
    if (file_named(o, name)) {
        SAY(o, "two outputs are called %.300s", name);
        return NULL;
    }
    if (r->files_count == HTC_OUTPUTS_MAX) {
        SAY(o, "more than %d output files", HTC_OUTPUTS_MAX);
        return NULL;
    }
    if (!r->files && !(r->files = calloc(HTC_OUTPUTS_MAX, sizeof *r->files))) {
        *status = HTC_ENOMEM;
        return NULL;
    }
    htc_output_file *f = &r->files[r->files_count];
    memset(f, 0, sizeof *f);
    memcpy(f->name, name, len + 1);
    *status = HTC_OK;
    return f;
}

static htc_status copy_failed(outputs *o, const char *name, htc_status status)
{
    if (status == HTC_ETOOBIG) {
        SAY(o, "the outputs together are larger than %" PRIu64 " bytes", o->run->agent->outputs_bytes_max);
        return HTC_ESTAGEOUT;
    }
    SAY(o, "storing the output %.300s: %s", name, htc_strerror(status));
    return status;
}

/* A second name is as good as a copy for a file of the task's own that has no other name: its task has ended. One with
 * another name, or of somebody else, is not ours to keep: what it holds can change behind the hash. */
static int own_alone(const struct stat *st)
{
    return st->st_nlink == 1 && st->st_uid == geteuid();
}

/* Store the regular file that in (taken) is open on as name: hashed, then moved where that is possible (the same file system,
 * and ours to move), else copied. Its mode stays what it is: the inode may be somebody's. from: what the task calls it. */
static htc_status store(outputs *o, int in, const char *from, const char *name, int move)
{
    htc__run        *r = o->run;
    struct stat      st;
    htc_status       status;
    htc__copied      copied = { 0 };
    int              why = errno;
    htc_output_file *f = next_file(o, name, &status);
    errno = why;
    if (!f) {
        if (in >= 0)
            close(in);
        return status;
    }
    if (in < 0 || fstat(in, &st) != 0 || !S_ISREG(st.st_mode)) {
        SAY(o, "the output %.300s: %s", from, in < 0 ? strerror(errno) : "not a regular file");
        if (in >= 0)
            close(in);
        return HTC_ESTAGEOUT;
    }
    status = make_part(o);
    int store_dir = status == HTC_OK ? open(o->part, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int to = store_dir < 0 ? -1 : htc__open_below(store_dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600, 1);
    if (status == HTC_OK && to < 0) {
        SAY(o, "storing the output %.300s: %s", name, strerror(errno));
        status = htc__status_of(errno, HTC_ESTAGEOUT);
    }
    uint64_t room = r->agent->outputs_bytes_max ? r->agent->outputs_bytes_max - o->bytes : UINT64_MAX;
    char     source[64];
    int      moved = 0;
    if (status == HTC_OK && move && own_alone(&st)) {
        char place[PATH_MAX + HTC_OUTPUT_NAME_MAX];
        snprintf(source, sizeof source, "/proc/self/fd/%d", in);
        snprintf(place, sizeof place, "%s/%s", o->part, name);
        if (unlink(place) == 0)
            moved = linkat(AT_FDCWD, source, AT_FDCWD, place, AT_SYMLINK_FOLLOW) == 0;
        close(to);
        to = -1;
        if (!moved)
            to = htc__open_below(store_dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600, 1);
    }
    if (status == HTC_OK)
        status = htc__copy(in, moved ? -1 : to, room, &copied);
    if (status == HTC_OK && r->agent->durable && fsync(moved ? in : to) != 0)
        status = htc__status_of(errno, HTC_EIO);
    if (status != HTC_OK && !r->text[0])
        status = copy_failed(o, name, status);
    if (to >= 0 && close(to) != 0 && status == HTC_OK)
        status = copy_failed(o, name, htc__status_of(errno, HTC_ESTAGEOUT));
    if (store_dir >= 0)
        close(store_dir);
    close(in);
    if (status != HTC_OK)
        return status;
    f->size = copied.size;
    memcpy(f->hash, copied.hash, sizeof f->hash);
    o->bytes += copied.size;
    r->files_count++;
    return HTC_OK;
}

static htc_status store_below(outputs *o, int dir, const char *from, const char *name, int move)
{
    return store(o, htc__open_below(dir, from, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0), from, name, move);
}

/* A name for the result set: what is not UTF-8 in it, which no answer could carry, stands there as %XX. */
static int printable(const char *name, char *out, size_t room)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t            n = strlen(name), at = 0, len;
    for (size_t i = 0; i < n; i += len ? len : 1) {
        len = htc__utf8_len(name + i, n - i);
        if (at + 4 >= room)
            return -1;
        if (len) {
            memcpy(out + at, name + i, len);
            at += len;
        } else {
            out[at++] = '%';
            out[at++] = digits[(unsigned char)name[i] >> 4];
            out[at++] = digits[(unsigned char)name[i] & 15];
        }
    }
    out[at] = '\0';
    return 0;
}

/* Everything below the output directory; links and devices are left where they are. */
static htc_status collect(outputs *o, int top, const char *below, int depth)
{
    char           name[2 * HTC_OUTPUT_NAME_MAX];
    struct dirent *e;
    htc_status     status = HTC_OK;
    int fd = *below ? htc__open_below(top, below, O_RDONLY | O_DIRECTORY, 0, 0) : openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        SAY(o, "cannot read the output directory %.200s: %s", below, strerror(errno));
        if (fd >= 0)
            close(fd);
        return HTC_ESTAGEOUT;
    }
    while (status == HTC_OK && (e = readdir(d))) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int n = snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", e->d_name);
        if (n < 0 || n >= HTC_OUTPUT_NAME_MAX) {
            SAY(o, "the name of an output is longer than %d bytes: %.200s", HTC_OUTPUT_NAME_MAX - 1, name);
            status = HTC_ESTAGEOUT;
        } else if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        } else if (S_ISDIR(st.st_mode) && depth >= DEPTH_MAX) {
            SAY(o, "output directories are more than %d deep", DEPTH_MAX);
            status = HTC_ESTAGEOUT;
        } else if (S_ISDIR(st.st_mode)) {
            status = collect(o, top, name, depth + 1);
        } else if (S_ISREG(st.st_mode)) {
            char shown[HTC_OUTPUT_NAME_MAX + 4];
            if (printable(name, shown, sizeof shown) != 0) {
                SAY(o, "the name of an output is longer than %d bytes: %.200s", HTC_OUTPUT_NAME_MAX - 1, name);
                status = HTC_ESTAGEOUT;
            } else {
                status = store_below(o, top, name, shown, 1);
            }
        }
    }
    closedir(d);
    return status;
}

/* Copy a target to its absolute path: under another name first, so that nobody sees half of it. */
static htc_status deliver(outputs *o, int dir, const htc_stage *s)
{
    char        path[PATH_MAX - 64], temporary[PATH_MAX];
    htc__copied copied;
    if (htc__file_uri(s->uri, path, sizeof path) != HTC_OK) {
        SAY(o, "%.100s: %.300s is neither file: with an absolute path nor htc:", s->name, s->uri);
        return HTC_ESTAGEOUT;
    }
    int in = htc__open_below(dir, s->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
    if (in < 0) {
        SAY(o, "the output %.300s: %s", s->name, strerror(errno));
        return HTC_ESTAGEOUT;
    }
    struct stat there;
    if ((s->flags & HTC_STAGE_KEEP) && lstat(path, &there) == 0) {
        close(in);
        return HTC_OK;
    }
    snprintf(temporary, sizeof temporary, "%s.htc-%" PRIu64 ".%" PRIu64 ".%" PRIu32, path, o->run->attempt.job,
             o->run->attempt.task, o->run->attempt.attempt);
    int append = (s->flags & HTC_STAGE_APPEND) != 0;
    int out = append ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)
                     : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    htc_status status = out < 0 ? htc__status_of(errno, HTC_ESTAGEOUT) : HTC_OK;
    int        why = errno;
    if (status == HTC_OK && (status = htc__copy(in, out, UINT64_MAX, &copied)) != HTC_OK)
        why = errno;
    if (status == HTC_OK && o->run->agent->durable && fsync(out) != 0)
        status = htc__status_of(why = errno, HTC_EIO);
    if (out >= 0 && close(out) != 0 && status == HTC_OK)
        status = htc__status_of(why = errno, HTC_ESTAGEOUT);
    close(in);
    if (status == HTC_OK && !append && rename(temporary, path) != 0)
        status = htc__status_of(why = errno, HTC_ESTAGEOUT);
    if (status != HTC_OK) {
        if (out >= 0 && !append)
            unlink(temporary);
        SAY(o, "cannot write %.300s: %s", path, strerror(why));
    }
    return status;
}

/* A target: to a path of the node, or into the result set. */
static htc_status target(outputs *o, int dir, const htc_stage *s)
{
    const char *uri = s->uri ? s->uri : "", *name = s->name;
    struct stat st;
    if (fstatat(dir, s->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (o->run->failed)
            return HTC_OK;
        SAY(o, "the task did not write its output %.300s", s->name);
        return HTC_ESTAGEOUT;
    }
    if (strncmp(uri, "file:", 5) == 0)
        return deliver(o, dir, s);
    if (strncmp(uri, "htc:", 4) == 0)
        uri += 4 + strspn(uri + 4, "/");
    if (*uri)
        name = uri;
    return file_named(o, name) ? HTC_OK : store_below(o, dir, s->name, name, 0);
}

/* stdout and stderr, as the task was given them: under the names they were redirected to, or their own names if anything was
 * written. */
static htc_status stream(outputs *o, int which, const char *redirected, const char *name)
{
    struct stat st;
    int         held = o->run->streams[which];
    if (held < 0 || fstat(held, &st) != 0 || (!redirected && st.st_size == 0))
        return HTC_OK;
    int in = fcntl(held, F_DUPFD_CLOEXEC, 3);
    if (in >= 0 && lseek(in, 0, SEEK_SET) < 0)
        SAY(o, "reading %s: %s", name, strerror(errno));
    return store(o, in, name, redirected ? redirected : name, !redirected);
}

static htc_status everything(outputs *o, int work, int out)
{
    const htc_task *t = o->run->task;
    htc_status      status = stream(o, 0, t->output, "stdout");
    if (status == HTC_OK)
        status = stream(o, 1, t->error, "stderr");
    if (status == HTC_OK)
        status = collect(o, out, "", 0);
    for (size_t i = 0; i < t->n_out && status == HTC_OK; i++)
        status = target(o, work, &t->out[i]);
    return status;
}

static htc_status finish(outputs *o)
{
    if (!o->made)
        return HTC_OK;
    if (rename(o->part, o->final) != 0) {
        htc__remove_tree(o->final); /* of a try before this one */
        if (rename(o->part, o->final) != 0) {
            SAY(o, "cannot store the outputs in %.300s: %s", o->final, strerror(errno));
            return htc__status_of(errno, HTC_ESTAGEOUT);
        }
    }
    if (!o->run->agent->durable)
        return HTC_OK;
    char *slash = strrchr(o->part, '/');
    *slash = 0;
    if (htc__sync_dir(o->final) == 0 && htc__sync_dir(o->part) == 0)
        return HTC_OK;
    SAY(o, "cannot sync %.300s: %s", o->final, strerror(errno));
    return HTC_EIO;
}

void htc__stage_out(void *arg)
{
    htc__run *r = arg;
    outputs   o = { .run = r };
    r->text[0] = 0;
    r->files_count = 0;
    if (htc__output_dir(o.final, sizeof o.final, r->agent->data_dir, r->attempt.job, r->attempt.task,
                                     r->attempt.attempt) != 0) {
        r->status = HTC_EINTERNAL;
        return;
    }
    snprintf(o.part, sizeof o.part, "%s.part", o.final);
    int work = htc__run_open_work(r), out = htc__run_open_out(r);
    if (work < 0 || out < 0) {
        SAY(&o, "the task removed its own directories");
        r->status = HTC_ESTAGEOUT;
    } else {
        r->status = everything(&o, work, out);
    }
    if (r->status == HTC_OK)
        r->status = finish(&o);
    if (r->status != HTC_OK && o.made)
        htc__remove_tree(o.part);
    if (work >= 0)
        close(work);
    if (out >= 0)
        close(out);
}

void htc__drop_outputs(const char *data_dir, const htc_attempt *attempt)
{
    char final[PATH_MAX - 16], part[PATH_MAX];
    if (htc__output_dir(final, sizeof final, data_dir, attempt->job, attempt->task, attempt->attempt) != 0)
        return;
    snprintf(part, sizeof part, "%s.part", final);
    htc__remove_tree(part);
    htc__remove_tree(final);
}
