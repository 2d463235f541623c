/* Staging out: what a task left is hashed and stored under (job, task, attempt), with a manifest that names it. On a worker
 * thread. One output that cannot be stored costs no other one: it stands in the manifest with the reason. Only a full or broken
 * disk ends it all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "net/files/manifest.h"

#define SAY(o, ...) snprintf((o)->run->text, sizeof(o)->run->text, __VA_ARGS__)
#define DEPTH_MAX 128    /* directories below each other: each one holds a descriptor while it is read */
#define RENAMES_MAX 9    /* names tried for an output whose own is taken */
#define SYNCED_MAX 16    /* files synced one by one; beyond, the file system is synced once */

typedef struct outputs {
    htc__run   *run;
    char        above[96], final[64], part[80]; /* below the data directory: stored in above as part, renamed to final at the end */
    int         above_fd, part_fd, files_fd;    /* above, part, part/files; -1: nothing was stored yet */
    FILE       *manifest;
    uint64_t    entries;
    uint32_t    to_sync; /* files that were synced one by one */
    int         sync_all;
    uint32_t    lost;  /* what belongs to the result and is not stored */
    uint32_t    again; /* of these: might be the next time */
    char        first[200]; /* the first that is not stored, and why */
    char        path[HTC_OUTPUT_NAME_MAX]; /* below the output directory, while it is read */
} outputs;

/* --- the store --- */

static htc_status no_store(outputs *o, const char *path)
{
    int why = errno;
    SAY(o, "cannot store the outputs: %.300s: %s", path, strerror(why));
    return htc__status_of(why, HTC_ESTAGEOUT);
}

/* Of the node, not of the output: a full disk, a broken one, no descriptors left. */
static int is_broken(int why)
{
    return htc__status_of(why, HTC_OK) != HTC_OK;
}

/* The place of the job is there for as long as the job is, where the gateway makes it; what lies below it is made when it is needed. data is
 * taken. */
static int open_above(const outputs *o, int data, int own_places)
{
    char job[32];
    snprintf(job, sizeof job, "out/%" PRIu64, o->run->attempt.job);
    int place = data < 0 ? -1 : htc__open_below(data, job, O_PATH | O_DIRECTORY, 0, 0);
    if (place < 0 && data >= 0 && errno == ENOENT && own_places)
        place = htc__make_below(data, job);
    int above = place < 0 ? -1 : htc__make_below(place, o->above + strlen(job) + 1), why = errno;
    if (place >= 0)
        close(place);
    if (data >= 0)
        close(data);
    errno = why;
    return above;
}

/* 0, or -1 and errno. data is taken. */
static int open_part(outputs *o, int data, int own_places)
{
    o->above_fd = open_above(o, data, own_places);
    if (o->above_fd >= 0 && htc__remove_below(o->above_fd, o->part) == 0 && mkdirat(o->above_fd, o->part, 0700) == 0 &&
        (o->part_fd = htc__open_below(o->above_fd, o->part, O_PATH | O_DIRECTORY, 0, 0)) >= 0)
        return 0;
    int why = errno;
    if (o->above_fd >= 0)
        close(o->above_fd);
    o->above_fd = -1;
    errno = why;
    return -1;
}

/* In the gateway's directory, where it is seen and the job has a place there that this uid may write to. 0; 1: not there; -1 and errno: trouble of
 * a disk, which passes. */
static int open_shared(outputs *o)
{
    int shared = htc__outputs_at_dup(&o->run->agent->outputs_at);
    if (shared < 0)
        return 1;
    return open_part(o, shared, 0) == 0 ? 0 : is_broken(errno) ? -1 : 1;
}

static htc_status make_part(outputs *o)
{
    if (o->manifest)
        return HTC_OK;
    int opened = open_shared(o);
    if (opened > 0)
        opened = open_part(o, open(o->run->agent->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), o->run->agent->own_places);
    if (opened != 0)
        return no_store(o, o->above);
    o->files_fd = htc__make_below(o->part_fd, "files");
    int fd = openat(o->part_fd, "manifest", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && !(o->manifest = fdopen(fd, "w+")))
        close(fd);
    return o->files_fd < 0 || !o->manifest ? no_store(o, o->part) : HTC_OK;
}

static htc_status enter(outputs *o, const htc__entry *e)
{
    htc_status status = make_part(o);
    if (status == HTC_OK && (status = htc__manifest_add(o->manifest, e, &o->run->stored.outputs)) != HTC_OK)
        SAY(o, "cannot write the manifest in %.300s: %s", o->part, strerror(errno));
    o->entries++;
    return status;
}

/* Something is left out: it stands in the manifest, and the first of them in the task's reason. */
static htc_status leave_out(outputs *o, const htc__entry *e)
{
    char name[HTC_OUTPUT_NAME_MAX];
    htc__name_show(e->name, name, sizeof name);
    if (!o->first[0])
        snprintf(o->first, sizeof o->first, "%.80s%s: %.100s", name, strlen(name) > 80 ? "..." : "", e->error);
    return enter(o, e);
}

/* The same for what belongs to the result. again: it may be there the next time. */
static htc_status lose(outputs *o, const htc__entry *e, int again)
{
    o->lost++;
    o->again += again != 0;
    return leave_out(o, e);
}

/* --- one file --- */

typedef struct source {
    int         in; /* open for reading */
    struct stat st;
    const char *name; /* that it is to have */
    int         move; /* the task ended with it: a second name is as good as a copy */
    int         cut;  /* as much as there is room for, rather than nothing of it */
} source;

/* A file of the task's own that has no other name. One with another name, or of somebody else, is not ours to keep: what it
 * holds can change behind the hash. Its mode stays what it is in any case: the inode may be somebody's. */
static int own_alone(const struct stat *st)
{
    return st->st_nlink == 1 && st->st_uid == geteuid();
}

/* Give what in is open on a second name. -1 and errno: EEXIST, or it cannot be. */
static int link_in(outputs *o, int in, const char *name)
{
    char own[64], above[HTC_OUTPUT_NAME_MAX];
    snprintf(own, sizeof own, "/proc/self/fd/%d", in);
    if (linkat(AT_FDCWD, own, o->files_fd, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    const char *slash = strrchr(name, '/');
    if (errno != ENOENT || !slash)
        return -1;
    snprintf(above, sizeof above, "%.*s", (int)(slash - name), name);
    int dir = htc__make_below(o->files_fd, above);
    if (dir < 0)
        return -1;
    int result = linkat(AT_FDCWD, own, dir, slash + 1, AT_SYMLINK_FOLLOW), why = errno;
    close(dir);
    errno = why;
    return result;
}

/* A place for it in the store: *to is a new empty file, or -1 where it was moved there. -1 and errno. */
static int take_place(outputs *o, const source *s, const char *name, int *to)
{
    *to = -1;
    if (s->move && own_alone(&s->st)) {
        if (link_in(o, s->in, name) == 0)
            return 0;
        if (errno == EEXIST)
            return -1;
    }
    *to = htc__open_below(o->files_fd, name, O_RDWR | O_CREAT | O_EXCL, 0600, 1);
    return *to < 0 ? -1 : 0;
}

/* The same under its name, or another where that is taken: name says which. */
static int take_some_place(outputs *o, const source *s, char name[HTC_OUTPUT_NAME_MAX + 4], int *to)
{
    int length = snprintf(name, HTC_OUTPUT_NAME_MAX + 4, "%s", s->name), taken = take_place(o, s, name, to);
    for (int i = 2; taken < 0 && errno == EEXIST && i <= RENAMES_MAX; i++) {
        snprintf(name + length, (size_t)(HTC_OUTPUT_NAME_MAX + 4 - length), ".%d", i);
        taken = take_place(o, s, name, to);
    }
    return taken;
}

/* Its content, hashed: as it lies in the store, so that nobody changes it behind the hash. */
static htc_status fill(const source *s, int to, uint64_t room, htc__copied *copied)
{
    if (to < 0)
        return htc__copy(s->in, -1, room, copied);
    if (!s->cut && ioctl(to, FICLONE, s->in) == 0) /* of what may be cut not all is to lie there */
        return htc__copy(to, -1, room, copied);
    htc_status status = htc__copy(s->in, to, room, copied);
    if (status != HTC_ETOOBIG || !s->cut)
        return status;
    if (lseek(s->in, 0, SEEK_SET) < 0 || lseek(to, 0, SEEK_SET) < 0 || ftruncate(to, 0) != 0)
        return HTC_EIO;
    status = htc__copy_head(s->in, to, room, copied);
    return status == HTC_OK ? HTC_ETOOBIG : status;
}

static htc_status sync_file(outputs *o, int fd, const char *name)
{
    if (!o->run->agent->durable)
        return HTC_OK;
    if (strchr(name, '/') || o->to_sync >= SYNCED_MAX)
        o->sync_all = 1; /* with the directories on the way */
    else if (o->to_sync++, fsync(fd) != 0)
        return htc__status_of(errno, HTC_EIO);
    return HTC_OK;
}

static uint64_t room_left(const outputs *o)
{
    uint64_t max = o->run->agent->outputs_bytes_max, used = o->run->stored.outputs.bytes;
    return !max ? UINT64_MAX : max > used ? max - used : 0;
}

/* Store s under name, a place that was taken for it. */
static htc_status store_at(outputs *o, const source *s, const char *name, int to)
{
    htc__copied copied = { 0 };
    char        why[96];
    uint64_t    room = room_left(o);
    htc__entry  e = { .type = 'f', .name = name, .mode = s->st.st_mode, .was = strcmp(name, s->name) ? s->name : NULL };
    htc_status  status = fill(s, to, room, &copied);
    if (status == HTC_ETOOBIG) {
        snprintf(why, sizeof why, s->cut ? "cut: outputs may have %" PRIu64 " bytes together"
                                         : "too large: outputs may have %" PRIu64 " bytes together", o->run->agent->outputs_bytes_max);
        e.error = why;
        if (!s->cut || to < 0) {
            unlinkat(o->files_fd, name, 0);
            return lose(o, &e, 0);
        }
        status = HTC_OK;
    }
    if (status == HTC_OK)
        status = sync_file(o, to < 0 ? s->in : to, name);
    if (status != HTC_OK) {
        SAY(o, "storing the output %.300s: %s", name, htc_strerror(status));
        return status;
    }
    e.stored = &copied;
    return e.error ? lose(o, &e, 0) : enter(o, &e);
}

static htc_status store(outputs *o, const source *s)
{
    char       name[HTC_OUTPUT_NAME_MAX + 4];
    int        to;
    htc_status status = make_part(o);
    if (status != HTC_OK)
        return status;
    if (take_some_place(o, s, name, &to) != 0) {
        int why = errno;
        if (is_broken(why))
            return no_store(o, o->part);
        return lose(o, &(htc__entry){ .type = 'f', .name = s->name, .mode = s->st.st_mode,
                                      .error = why == EEXIST || why == ENOTDIR || why == EISDIR ? "another output has its name"
                                                                                                : strerror(why) }, 0);
    }
    status = store_at(o, s, name, to);
    if (to >= 0 && close(to) != 0 && status == HTC_OK)
        status = no_store(o, o->part);
    return status;
}

/* --- the output directory --- */

static htc_status collect(outputs *o, int fd, size_t len, int depth);

static htc_status collect_file(outputs *o, int dir, const char *name, const struct stat *seen)
{
    source s = { .in = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), .name = o->path, .move = 1 };
    if (s.in < 0 || fstat(s.in, &s.st) != 0 || !S_ISREG(s.st.st_mode)) {
        int why = s.in < 0 ? errno : 0;
        if (s.in >= 0)
            close(s.in);
        if (is_broken(why))
            return no_store(o, o->path);
        return lose(o, &(htc__entry){ .type = 'f', .name = o->path, .mode = seen->st_mode,
                                      .error = why ? strerror(why) : "not a regular file any more" }, 0);
    }
    htc_status status = store(o, &s);
    close(s.in);
    return status;
}

static htc_status collect_link(outputs *o, int dir, const char *name, int depth)
{
    char    target[HTC_OUTPUT_NAME_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return leave_out(o, &(htc__entry){ .type = 'l', .name = o->path, .error = strerror(errno) });
    target[n] = '\0';
    htc__entry e = { .type = 'l', .name = o->path, .mode = 0777, .target = target };
    if (htc__link_stays(target, (unsigned)depth))
        return enter(o, &e);
    e.error = "a link that leaves the output directory";
    return leave_out(o, &e);
}

static htc_status collect_dir(outputs *o, int dir, const char *name, size_t len, int depth, const struct stat *st)
{
    htc__entry e = { .type = 'd', .name = o->path, .mode = st->st_mode };
    int        fd = depth < DEPTH_MAX ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 && depth < DEPTH_MAX && is_broken(errno))
        return no_store(o, o->path);
    if (fd < 0) {
        e.error = depth < DEPTH_MAX ? strerror(errno) : "more than 128 directories deep";
        return lose(o, &e, 0);
    }
    htc_status status = enter(o, &e);
    if (status != HTC_OK)
        close(fd);
    return status == HTC_OK ? collect(o, fd, len, depth + 1) : status;
}

static htc_status collect_one(outputs *o, int dir, const char *name, size_t len, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? HTC_OK : lose(o, &(htc__entry){ .type = 'f', .name = o->path, .error = strerror(errno) }, 0);
    if (S_ISDIR(st.st_mode))
        return collect_dir(o, dir, name, len, depth, &st);
    if (S_ISREG(st.st_mode))
        return collect_file(o, dir, name, &st);
    if (S_ISLNK(st.st_mode))
        return collect_link(o, dir, name, depth);
    return leave_out(o, &(htc__entry){ .type = S_ISFIFO(st.st_mode) ? 'p' : S_ISSOCK(st.st_mode) ? 's' : S_ISBLK(st.st_mode) ? 'b' : 'c',
                                       .name = o->path, .mode = st.st_mode, .error = "not a regular file" });
}

/* Everything below the directory of fd, which is taken; len: of its name in path. */
static htc_status collect(outputs *o, int fd, size_t len, int depth)
{
    struct dirent *e;
    htc_status     status = HTC_OK;
    char           shown[HTC_OUTPUT_NAME_MAX];
    DIR           *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return no_store(o, o->part);
    }
    while (status == HTC_OK && o->entries <= HTC_OUTPUTS_MAX && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int n = snprintf(o->path + len, sizeof o->path - len, "%s%s", len ? "/" : "", e->d_name);
        o->path[sizeof o->path - 1] = '\0';
        if (len + (size_t)n >= sizeof o->path || htc__name_show(o->path, shown, sizeof shown) != 0)
            status = lose(o, &(htc__entry){ .type = 'f', .name = o->path, .error = "its name is longer than 4095 bytes" }, 0);
        else if (o->entries == HTC_OUTPUTS_MAX)
            status = lose(o, &(htc__entry){ .type = 'f', .name = o->path, .error = "more than 1000000 outputs: the rest is left out" }, 0);
        else
            status = collect_one(o, fd, e->d_name, len + (size_t)n, depth);
        o->path[len] = '\0';
    }
    closedir(d);
    return status;
}

static htc_status collect_all(outputs *o)
{
    int fd = htc__run_open_out(o->run);
    if (fd >= 0)
        return collect(o, fd, 0, 0);
    if (errno == ENOENT) /* removed: then there are none */
        return HTC_OK;
    return lose(o, &(htc__entry){ .type = 'd', .name = "HTC_OUTPUT_DIR", .error = errno == ELOOP || errno == ENOTDIR
                                                                                ? "no directory any more" : strerror(errno) }, 0);
}

/* --- targets and streams --- */

#define NO_FILE (-1)

/* What is appended to: a regular file, or made. A FIFO would hold this thread for as long as nobody reads it. A descriptor, or -1 and
 * *why. */
static int open_to_append(const char *path, mode_t mode, int *why)
{
    struct stat st;
    int         out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
    *why = out < 0 ? errno == ENXIO ? NO_FILE : errno : 0;
    if (out >= 0 && (fstat(out, &st) != 0 || !S_ISREG(st.st_mode))) {
        *why = NO_FILE;
        close(out);
        return -1;
    }
    return out;
}

/* Write in to path: under another name first, so that nobody sees half of it. It takes the place of a file or a link, not that of a
 * device or a FIFO. 0, errno or NO_FILE. */
static int write_to(outputs *o, int in, mode_t mode, const char *path, int append)
{
    char        temporary[PATH_MAX + 80];
    struct stat there;
    htc__copied copied;
    int         why = 0;
    snprintf(temporary, sizeof temporary, "%s.htc-%" PRIu64 ".%" PRIu64 ".%" PRIu32, path, o->run->attempt.job,
             o->run->attempt.task, o->run->attempt.attempt);
    if (!append && lstat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode) && !S_ISDIR(there.st_mode))
        return NO_FILE;
    if (!append)
        unlink(temporary); /* ours of a try that was killed, or a trap: what lies there is not written to */
    int out = append ? open_to_append(path, mode, &why)
                     : open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (out < 0)
        return why ? why : errno;
    struct stat is;
    if (append && fstat(in, &is) == 0 && fstat(out, &there) == 0 && is.st_dev == there.st_dev && is.st_ino == there.st_ino) {
        close(out); /* it is that file: without an end, what is appended would be read */
        return 0;
    }
    errno = 0;
    why = htc__copy(in, out, UINT64_MAX, &copied) != HTC_OK ? (errno ? errno : EIO) : 0;
    if (!why && o->run->agent->durable && fsync(out) != 0)
        why = errno;
    if (close(out) != 0 && !why)
        why = errno;
    if (!why && !append && rename(temporary, path) != 0)
        why = errno;
    if (why && !append)
        unlink(temporary);
    return why;
}

/* Copy a target to its absolute path. */
static htc_status deliver(outputs *o, int in, const struct stat *st, const htc_stage *s)
{
    char        path[PATH_MAX - 64], why[300];
    struct stat there;
    htc__entry  e = { .type = 'f', .name = s->name, .mode = st->st_mode, .error = why };
    if (htc__run_no_paths(o->run)) {
        snprintf(why, sizeof why, "%.120s: %s", s->uri, htc__run_no_paths(o->run));
        return lose(o, &e, 0);
    }
    if (htc__file_uri(s->uri, path, sizeof path) != HTC_OK) {
        snprintf(why, sizeof why, "%.200s is neither file: with an absolute path nor htc:", s->uri);
        return lose(o, &e, 0);
    }
    if ((s->flags & HTC_STAGE_KEEP) && lstat(path, &there) == 0)
        return HTC_OK;
    int failed = write_to(o, in, 0644 | (st->st_mode & 0111 ? 0111 : 0), path, (s->flags & HTC_STAGE_APPEND) != 0);
    if (!failed)
        return HTC_OK;
    if ((failed == ENOSPC || failed == EDQUOT || failed == EIO) && !(s->flags & HTC_STAGE_APPEND)) { /* what was appended in part is not appended again */
        snprintf(o->run->text, sizeof o->run->text, "cannot write %.300s: %s", path, strerror(failed));
        return htc__status_of(failed, HTC_ESTAGEOUT);
    }
    snprintf(why, sizeof why, "cannot write %.200s: %s", path, failed == NO_FILE ? "it is there, and no file" : strerror(failed));
    return lose(o, &e, failed != NO_FILE);
}

/* A name in the result set for a target without one: its own. NULL: it is the stream's, which is stored already. */
static const char *name_of_target(const outputs *o, const htc_stage *s)
{
    const htc_task *t = o->run->task;
    const char     *name = s->uri && !htc__urls_is_wanted(s) ? s->uri : "";
    if (strncmp(name, "htc:", 4) == 0)
        name += 4 + strspn(name + 4, "/");
    if (!*name)
        name = s->name;
    return (t->output && strcmp(t->output, name) == 0) || (t->error && strcmp(t->error, name) == 0) ? NULL : name;
}

/* The target that goes to two URLs, or to one and into the result set, is stored once. */
static int is_stored(const outputs *o, const htc_stage *s, const char *name)
{
    for (const htc_stage *other = o->run->task->out; other < s; other++) {
        const char *its = strncmp(other->uri ? other->uri : "", "file:", 5) != 0 && strcmp(other->name, s->name) == 0 ? name_of_target(o, other) : NULL;
        if (its && strcmp(its, name) == 0)
            return 1;
    }
    return 0;
}

/* A target: to a path of the node, or into the result set, and from there to a URL. */
static htc_status target(outputs *o, int work, const htc_stage *s)
{
    source      f = { .in = work < 0 ? -1 : htc__open_below(work, s->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0) };
    int         why = work < 0 ? ENOENT : errno;
    const char *name = name_of_target(o, s);
    htc_status  status = HTC_OK;
    if (f.in < 0 && why == ENOENT)
        return o->run->failed ? HTC_OK : lose(o, &(htc__entry){ .type = 'f', .name = s->name, .error = "the task did not write it" }, 1);
    if (f.in < 0 || fstat(f.in, &f.st) != 0 || !S_ISREG(f.st.st_mode))
        status = lose(o, &(htc__entry){ .type = 'f', .name = s->name,
                                        .error = f.in < 0 && why != ELOOP ? strerror(why) : "not a regular file" }, 0);
    else if (s->uri && strncmp(s->uri, "file:", 5) == 0)
        status = deliver(o, f.in, &f.st, s);
    else if (name && (strlen(name) >= HTC_OUTPUT_NAME_MAX || !htc__name_stays(name)))
        status = lose(o, &(htc__entry){ .type = 'f', .name = s->name, .error = "its target is no name for an output" }, 0);
    else {
        uint32_t lost = o->lost;
        f.name = name;
        if (name && !(htc__urls_is_wanted(s) && is_stored(o, s, name)))
            status = store(o, &f);
        if (status == HTC_OK && o->lost == lost && htc__urls_is_wanted(s))
            status = htc__urls_keep(o->run, f.in, s);
    }
    if (f.in >= 0)
        close(f.in);
    return status;
}

/* stdout and stderr, as the task was given them: under the names they were redirected to, or their own names if anything was
 * written. */
static htc_status stream(outputs *o, int which, const char *redirected, const char *name)
{
    source s = { .in = o->run->streams[which], .name = redirected ? redirected : name, .move = !redirected, .cut = 1 };
    if (s.in < 0 || fstat(s.in, &s.st) != 0 || (!redirected && s.st.st_size == 0))
        return HTC_OK;
    if (lseek(s.in, 0, SEEK_SET) < 0)
        return lose(o, &(htc__entry){ .type = 'f', .name = s.name, .error = strerror(errno) }, 0);
    if (room_left(o) < (uint64_t)s.st.st_size)
        s.move = 0; /* it will be cut: a copy, then */
    return store(o, &s);
}

static htc_status everything(outputs *o)
{
    const htc_task *t = o->run->task;
    int             work = t->n_out ? htc__run_open_work(o->run) : -1;
    htc_status      status = htc__urls_sends(t) ? htc__urls_keep_begin(o->run) : HTC_OK;
    if (status == HTC_OK)
        status = stream(o, 0, t->output, "stdout");
    if (status == HTC_OK)
        status = stream(o, 1, t->error, "stderr");
    for (size_t i = 0; i < t->n_out && status == HTC_OK; i++) {
        int appends = (t->out[i].flags & HTC_STAGE_APPEND) && t->out[i].uri && strncmp(t->out[i].uri, "file:", 5) == 0;
        if (appends && i < o->run->appended)
            continue; /* in a try before this one */
        status = target(o, work, &t->out[i]);
        if (appends && status == HTC_OK)
            o->run->appended = i + 1;
    }
    if (work >= 0)
        close(work);
    return status == HTC_OK ? collect_all(o) : status;
}

/* --- the end --- */

static htc_status end_manifest(outputs *o)
{
    htc_outputs *sums = &o->run->stored.outputs;
    int          fd = fileno(o->manifest);
    if (fflush(o->manifest) != 0 || (o->run->agent->durable && fsync(fd) != 0) ||
        htc_content_hash_fd(fd, sums->manifest, &sums->manifest_bytes) != HTC_OK)
        return no_store(o, o->part);
    return HTC_OK;
}

static int sync_below(int dir, const char *name, int all)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result = fd < 0 ? -1 : all ? syncfs(fd) : fsync(fd), why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return result;
}

static htc_status finish(outputs *o)
{
    if (!o->manifest)
        return HTC_OK;
    htc_status status = end_manifest(o);
    if (status != HTC_OK)
        return status;
    if (renameat(o->above_fd, o->part, o->above_fd, o->final) != 0) {
        htc__remove_below(o->above_fd, o->final); /* of a try before this one */
        if (renameat(o->above_fd, o->part, o->above_fd, o->final) != 0)
            return no_store(o, o->final);
    }
    if (o->run->agent->durable && (sync_below(o->part_fd, "files", o->sync_all) != 0 || sync_below(o->part_fd, ".", 0) != 0 ||
                                   sync_below(o->above_fd, ".", 0) != 0))
        return no_store(o, o->final);
    return HTC_OK;
}

static void say_what_is_missing(outputs *o)
{
    htc_stored *s = &o->run->stored;
    s->status = o->lost ? HTC_ESTAGEOUT : HTC_OK;
    s->final = o->lost && !o->again;
    if (s->outputs.errors == 1)
        snprintf(s->reason, sizeof s->reason, "an output is not stored: %s", o->first);
    else if (s->outputs.errors > 1)
        snprintf(s->reason, sizeof s->reason, "%" PRIu64 " outputs are not stored: %s, ...", s->outputs.errors, o->first);
}

static void put_away(outputs *o)
{
    if (o->run->status != HTC_OK && o->above_fd >= 0)
        htc__remove_below(o->above_fd, o->part);
    if (o->manifest)
        fclose(o->manifest);
    if (o->files_fd >= 0)
        close(o->files_fd);
    if (o->part_fd >= 0)
        close(o->part_fd);
    if (o->above_fd >= 0)
        close(o->above_fd);
    free(o);
}

void htc__stage_out(void *arg)
{
    htc__run *r = arg;
    int       turn = htc__turn_take(r->agent, r->run);
    outputs  *o = turn == HTC__TURN_NONE ? NULL : calloc(1, sizeof *o);
    r->text[0] = 0;
    r->stored = (htc_stored){ .status = HTC_OK };
    r->status = o ? HTC_OK : turn == HTC__TURN_NONE ? HTC_AGAIN : HTC_ENOMEM;
    if (!o) {
        htc__turn_give(turn);
        return;
    }
    o->run = r;
    o->above_fd = o->part_fd = o->files_fd = -1;
    htc__output_place(o->above, sizeof o->above, r->attempt.job, r->attempt.task, r->attempt.attempt);
    char *slash = strrchr(o->above, '/');
    *slash = 0;
    snprintf(o->final, sizeof o->final, "%.60s", slash + 1);
    snprintf(o->part, sizeof o->part, "%s.part", o->final);
    r->status = everything(o);
    if (r->status == HTC_OK)
        r->status = finish(o);
    say_what_is_missing(o);
    put_away(o);
    htc__turn_give(turn);
}

void htc__drop_outputs_below(int data, const htc_attempt *attempt)
{
    char place[96], part[104];
    if (htc__output_place(place, sizeof place, attempt->job, attempt->task, attempt->attempt) != 0)
        return;
    snprintf(part, sizeof part, "%s.part", place);
    htc__remove_below(data, part);
    htc__remove_below(data, place);
}

void htc__drop_outputs(const char *data_dir, const htc_attempt *attempt)
{
    int data = open(data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (data < 0)
        return;
    htc__drop_outputs_below(data, attempt);
    close(data);
}
