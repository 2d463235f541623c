/* Staging in: the private directories and the inputs of a task, before it starts. On a worker thread. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"

#define SAY(r, ...) snprintf((r)->text, sizeof(r)->text, __VA_ARGS__)

static htc_status cannot_create(htc__run *r, const char *path)
{
    int why = errno;
    SAY(r, "cannot create %.300s: %s", path, strerror(why));
    return htc__status_of(why, HTC_EIO);
}

/* The run's own directory: made anew, and held by its descriptor from here on. */
static htc_status make_place(htc__run *r)
{
    if (htc__remove_below(r->agent->slot_fd, r->place) != 0) /* of an attempt that an agent before us began */
        return cannot_create(r, r->dir);
    if (r->dir_fd >= 0)
        close(r->dir_fd);
    r->dir_fd = htc__make_below(r->agent->slot_fd, r->place);
    if (r->dir_fd < 0 || mkdirat(r->dir_fd, "work", 0700) != 0 || mkdirat(r->dir_fd, "out", 0700) != 0)
        return cannot_create(r, r->dir);
    return HTC_OK;
}

/* Where it runs: a descriptor in *work. */
static htc_status make_scratch(htc__run *r, int *work)
{
    const char *directory = r->task->directory;
    htc_status  status = make_place(r);
    if (status != HTC_OK)
        return status;
    if (directory && directory[0] == '/' && htc__run_no_paths(r)) {
        SAY(r, "the working directory %.200s: %s", directory, htc__run_no_paths(r));
        return HTC_EPATH;
    }
    if (!directory || directory[0] == '/') {
        *work = htc__run_open_work(r);
        if (*work >= 0)
            return HTC_OK;
        SAY(r, "the working directory %.300s: %s", r->work, strerror(errno));
        return HTC_EINPUT;
    }
    if (!htc__name_stays(directory)) {
        SAY(r, "the working directory %.300s leaves the scratch directory", directory);
        return HTC_EPATH;
    }
    *work = htc__make_below(r->dir_fd, r->work_below);
    return *work >= 0 ? HTC_OK : cannot_create(r, r->work);
}

/* An upload, or an object: what has that hash. -1 and errno. */
static int open_content(const htc__run *r, const uint8_t hash[32], char path[PATH_MAX])
{
    char hex[65];
    htc_content_hex(hash, hex);
    snprintf(path, PATH_MAX, "%.3900s/blobs/%s", r->agent->data_dir, hex);
    int fd = r->agent->objects ? htc__objects_host_fd(r->agent->objects, hash) : -1;
    return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The source of a stage: a descriptor, and the content it has to have if that is known. -1: status and text are set. */
static int open_source(htc__run *r, const htc_stage *s, uint8_t hash[32], int *known, htc_status *status)
{
    char        path[PATH_MAX];
    struct stat st;
    *known = 0;
    if (strncmp(s->uri, "htc:", 4) == 0) {
        const char *digits = s->uri + 4 + strspn(s->uri + 4, "/");
        if (htc_content_unhex(digits, hash) != HTC_OK) {
            *status = HTC_EINPUT;
            SAY(r, "%.100s: %.300s is not the hash of an upload", s->name, s->uri);
            return -1;
        }
        *known = 1;
    } else if (htc__run_no_paths(r)) {
        *status = HTC_EPATH;
        SAY(r, "%.100s: %.200s: %s", s->name, s->uri, htc__run_no_paths(r));
        return -1;
    } else if (htc__file_uri(s->uri, path, sizeof path) != HTC_OK) {
        *status = HTC_EINPUT;
        SAY(r, "%.100s: %.300s is neither file: with an absolute path nor htc: with a hash", s->name, s->uri);
        return -1;
    }
    int fd = *known ? open_content(r, hash, path) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a fifo must not hold us */
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
        *status = *known && why == ENOENT ? HTC_ENOTFOUND : htc__status_of(why, HTC_EINPUT);
        SAY(r, "%.100s: %.300s: %s", s->name, path, why ? strerror(why) : "not a regular file");
        return -1;
    }
    return fd;
}

static int is_program(const htc__run *r, const htc_stage *s)
{
    const char *name = r->task->executable ? r->task->executable : "";
    return strcmp(strncmp(name, "./", 2) == 0 ? name + 2 : name, s->name) == 0;
}

static int runs_at_its_source(int from)
{
    struct stat st;
    return fstat(from, &st) == 0 && (st.st_mode & 0111) != 0;
}

/* A descriptor of a regular file, or -1 and *why: ENXIO where something else is there, which might hold us for ever. */
static int open_input(int dir, const htc_stage *s, int *why)
{
    struct stat st;
    int         how = s->flags & HTC_STAGE_APPEND ? O_APPEND : s->flags & HTC_STAGE_KEEP ? O_EXCL : O_TRUNC;
    int         to = htc__open_below(dir, s->name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | how, 0644, 1);
    *why = to < 0 ? errno : 0;
    if (to >= 0 && (fstat(to, &st) != 0 || !S_ISREG(st.st_mode))) {
        *why = ENXIO;
        close(to);
        return -1;
    }
    return to;
}

/* All of it, with its hash. Content that has a hash shares its blocks with the copy where the file system can; never the file itself: the task
 * runs as whoever owns it, and could write it. */
static htc_status copy_in(int from, int to, int known, const htc_stage *s, htc__copied *copied)
{
    if (known && !(s->flags & HTC_STAGE_APPEND) && ioctl(to, FICLONE, from) == 0)
        return htc__copy(from, -1, UINT64_MAX, copied);
    return htc__copy(from, to, UINT64_MAX, copied);
}

static htc_status stage_one(htc__run *r, int dir, const htc_stage *s)
{
    uint8_t     hash[32];
    htc__copied copied;
    int         known, why;
    htc_status  status = HTC_OK;
    int         from = open_source(r, s, hash, &known, &status);
    if (from < 0)
        return status;
    int to = open_input(dir, s, &why);
    if (to < 0) {
        close(from);
        if (why == EEXIST && (s->flags & HTC_STAGE_KEEP))
            return HTC_OK;
        SAY(r, "cannot create the input %.200s: %s", s->name,
            why == EPERM || why == ELOOP || why == ENOTDIR ? "it leaves the working directory"
            : why == ENXIO                                ? "what is there is no file"
                                                          : strerror(why));
        return why == EPERM || why == ELOOP || why == ENOTDIR || why == ENXIO ? HTC_EPATH : htc__status_of(why, HTC_ESTAGEIN);
    }
    status = copy_in(from, to, known, s, &copied);
    if (status == HTC_ESTAGEOUT)
        status = HTC_ESTAGEIN;
    if (status != HTC_OK)
        SAY(r, "copying the input %.200s: %s", s->name, htc_strerror(status));
    if (status == HTC_OK && known && memcmp(copied.hash, hash, 32) != 0) {
        status = HTC_ECORRUPT;
        SAY(r, "%.200s was staged in wrong: its content has another hash than %.100s", s->name, s->uri);
    }
    int executable = (s->flags & HTC_STAGE_EXECUTABLE) || is_program(r, s) || runs_at_its_source(from);
    if (status == HTC_OK && executable && fchmod(to, 0755) != 0) {
        status = HTC_ESTAGEIN;
        SAY(r, "cannot make %.200s executable: %s", s->name, strerror(errno));
    }
    close(from);
    if (close(to) != 0 && status == HTC_OK) {
        status = htc__status_of(errno, HTC_ESTAGEIN);
        SAY(r, "writing the input %.200s: %s", s->name, strerror(errno));
    }
    return status;
}

void htc__stage_in(void *arg)
{
    htc__run *r = arg;
    int       dir = -1;
    r->text[0] = 0;
    r->status = make_scratch(r, &dir);
    if (r->status != HTC_OK)
        return;
    for (size_t i = 0; i < r->task->n_in && r->status == HTC_OK; i++)
        r->status = stage_one(r, dir, &r->task->in[i]);
    close(dir);
}
