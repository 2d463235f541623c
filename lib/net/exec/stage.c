/* Staging in: the private directories and the inputs of a task, before it starts. On a worker thread. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "net/files/tree.h"

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
    if (r->dir_fd < 0 && htc__remove_below(r->agent->slot_fd, r->place) != 0) /* of an attempt that an agent before us began */
        return cannot_create(r, r->dir);
    if (r->dir_fd >= 0 && (htc__remove_below(r->dir_fd, "work") != 0 || htc__remove_below(r->dir_fd, "out") != 0)) /* of a try before: what was fetched stays */
        return cannot_create(r, r->dir);
    if (r->dir_fd < 0)
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

int htc__upload_open(const htc_agent_host *a, const char *user, const char hex[65], char path[PATH_MAX])
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    char      old[PATH_MAX];
    snprintf(path, PATH_MAX, "%.3900s/blobs/%.64s/%.64s", a->data_dir, user, hex);
    errno = ENOENT;
    int fd = *user && *user != '.' && !strchr(user, '/') ? open(path, flags) : -1;
    int why = errno;
    if (fd >= 0 || why != ENOENT)
        return fd;
    snprintf(old, sizeof old, "%.3900s/given/%.64s/%.64s", a->data_dir, user, hex); /* brought here for that user's tasks */
    if ((fd = open(old, flags)) >= 0) {
        snprintf(path, PATH_MAX, "%s", old);
        return fd;
    }
    snprintf(old, sizeof old, "%.3900s/blobs/%.64s", a->data_dir, hex); /* of a system that kept them for everybody, until the gateway has looked */
    fd = open(old, flags);
    errno = fd < 0 ? why : errno;
    return fd;
}

/* What is known of a source by its name: nothing, or its content. */
enum { UNKNOWN, OBJECT, UPLOAD, FETCHED, DIRECTORY /* of this machine */ };

/* An upload, or an object: what has that hash. -1 and errno. */
static int open_content(const htc__run *r, const uint8_t hash[32], char path[PATH_MAX], int *known)
{
    char hex[65];
    htc_content_hex(hash, hex);
    int fd = r->agent->objects ? htc__objects_host_fd(r->agent->objects, hash) : -1;
    *known = fd >= 0 ? OBJECT : UPLOAD;
    if (fd < 0)
        return htc__upload_open(r->agent, r->user, hex, path);
    snprintf(path, PATH_MAX, "object %s", hex);
    return fd;
}

/* The source of a stage: a descriptor, and the content it has to have if that is known. -1: status and text are set. */
static int open_source(htc__run *r, const htc_stage *s, uint8_t hash[32], int *known, htc_status *status)
{
    char        path[PATH_MAX];
    struct stat st;
    *known = UNKNOWN;
    if (strncmp(s->uri, "htc:", 4) == 0) {
        if (htc_content_of_uri(s->uri, hash, NULL) != HTC_OK) {
            *status = HTC_EINPUT;
            SAY(r, "%.100s: %.300s is not the hash of an upload", s->name, s->uri);
            return -1;
        }
        *known = UPLOAD;
    } else if (htc__run_no_paths(r)) {
        *status = HTC_EPATH;
        SAY(r, "%.100s: %.200s: %s", s->name, s->uri, htc__run_no_paths(r));
        return -1;
    } else if (htc__file_uri(s->uri, path, sizeof path) != HTC_OK) {
        *status = HTC_EINPUT;
        SAY(r, "%.100s: %.300s is neither file: with an absolute path nor htc: with a hash", s->name, s->uri);
        return -1;
    }
    int fd = *known ? open_content(r, hash, path, known) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a fifo must not hold us */
    if (fd >= 0 && !*known && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        *known = DIRECTORY;
        return fd;
    }
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
        *status = *known && why == ENOENT ? HTC_ENOTFOUND : htc__status_of(why, HTC_EINPUT);
        if (*status == HTC_ENOTFOUND)
            SAY(r, "%.100s: an upload that it reads is not there: upload it again (%.300s)", s->name, s->uri);
        else
            SAY(r, "%.100s: %.300s: %s", s->name, path, why ? strerror(why) : "neither a regular file nor a directory");
        return -1;
    }
    return fd;
}

/* The same of an input that came from a URL. */
static int open_fetched(htc__run *r, const htc_stage *s, const char *fetched, int *known, htc_status *status)
{
    int fd = htc__open_below(r->dir_fd, fetched, O_RDONLY, 0, 0);
    *known = FETCHED;
    if (fd < 0) {
        *status = htc__status_of(errno, HTC_ESTAGEIN);
        SAY(r, "%.100s was not fetched: %s", s->name, strerror(errno));
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
    if (known && known != FETCHED && !(s->flags & HTC_STAGE_APPEND) && ioctl(to, FICLONE, from) == 0)
        return htc__copy(from, -1, UINT64_MAX, copied);
    return htc__copy(from, to, UINT64_MAX, copied);
}

/* ---- large uploads: one content for all of a user's tasks ---- */

/* What says that this file has had the right content, and is the same file since: it is nobody's to write, but this uid's own processes could. */
static void seen_text(const struct stat *st, char text[160])
{
    char boot[64] = "";
    (void)htc__read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(text, 160, "%s %ju %jd %jd.%09ld\n", boot, (uintmax_t)st->st_ino, (intmax_t)st->st_size, (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* Is it the content of that hash? It is read once for all agents here: what is found is noted in data/seen, and whoever comes meanwhile waits for
 * it. 1; 0: it is another content; -1: it cannot be told so. */
static int is_verified(const htc__run *r, int from, const struct stat *st, const uint8_t hash[32])
{
    char    path[PATH_MAX], hex[65], want[160], is[160] = "";
    uint8_t found[32];
    htc_content_hex(hash, hex);
    snprintf(path, sizeof path, "%.3900s/seen", r->agent->data_dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    snprintf(path, sizeof path, "%.3900s/seen/%s", r->agent->data_dir, hex);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), result = -1;
    seen_text(st, want);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0) {
        ssize_t n = pread(fd, is, sizeof is - 1, 0);
        is[n > 0 ? n : 0] = '\0';
        result = strcmp(is, want) == 0;
        if (!result && htc_content_hash_fd(from, found, NULL) != HTC_OK)
            result = -1;
        else if (!result && memcmp(found, hash, sizeof found) == 0)
            result = ftruncate(fd, 0) == 0 && pwrite(fd, want, strlen(want), 0) == (ssize_t)strlen(want) ? 1 : -1;
    }
    if (fd >= 0)
        close(fd);
    return result;
}

/* A second name for the upload itself, which this uid's processes cannot write as long as they leave its mode alone. Not where modes mean
 * nothing (root), and not for tasks of others that share our uid. */
static int may_link(const htc__run *r, const struct stat *st)
{
    return geteuid() != 0 && !r->agent->confine && st->st_uid == geteuid() && !(st->st_mode & 0333);
}

static int link_input(int from, int dir, const htc_stage *s)
{
    char        own[40], above[PATH_MAX];
    const char *slash = strrchr(s->name, '/'), *name = slash ? slash + 1 : s->name;
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - s->name) : 0, s->name);
    snprintf(own, sizeof own, "/proc/self/fd/%d", from);
    int in = slash ? htc__make_below(dir, above) : dir;
    int done = in >= 0 && linkat(AT_FDCWD, own, in, name, AT_SYMLINK_FOLLOW) == 0;
    if (slash && in >= 0)
        close(in);
    return done;
}

/* In a directory of the user's own others read what is there, run it, or put the same there at the same time: nothing is changed in place. */
static int is_shared(const htc__run *r, const htc_stage *s)
{
    return r->task->directory && r->task->directory[0] == '/' && !(s->flags & HTC_STAGE_APPEND);
}

/* 1: it is there, or *status says why not; 0: it is copied like any other. */
static int share_input(htc__run *r, int from, int dir, const htc_stage *s, const uint8_t hash[32], htc_status *status)
{
    struct stat st, has;
    int         why;
    if (is_shared(r, s) || (s->flags & (HTC_STAGE_APPEND | HTC_STAGE_EXECUTABLE)) || is_program(r, s) || fstat(from, &st) != 0 || (uint64_t)st.st_size < r->agent->link_min ||
        (st.st_mode & 0333) || st.st_uid != geteuid())
        return 0;
    int known = is_verified(r, from, &st, hash);
    if (known <= 0) /* copying finds the same, and says so */
        return 0;
    if (fstatat(dir, s->name, &has, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return 0; /* it stands in the way: what that means is the copy's affair */
    int to = open_input(dir, s, &why);
    int done = to >= 0 && ioctl(to, FICLONE, from) == 0;
    if (to >= 0 && close(to) != 0 && done) {
        *status = htc__status_of(errno, HTC_ESTAGEIN);
        SAY(r, "writing the input %.200s: %s", s->name, strerror(errno));
    }
    if (!done && to >= 0)
        (void)htc__unlink_below(dir, s->name);
    return done || (to >= 0 && may_link(r, &st) && link_input(from, dir, s));
}

static int is_executable(const htc__run *r, const htc_stage *s, int from)
{
    return (s->flags & HTC_STAGE_EXECUTABLE) || is_program(r, s) || runs_at_its_source(from);
}

/* The content is there already, as another task has put it there or its user has submitted it. */
static int is_there(const htc__run *r, int from, int dir, const htc_stage *s, const uint8_t hash[32])
{
    struct stat is, has;
    uint8_t     found[32];
    int         fd = htc__open_below(dir, s->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
    int         same = fd >= 0 && fstat(from, &is) == 0 && fstat(fd, &has) == 0 && S_ISREG(has.st_mode) && has.st_size == is.st_size &&
               (!is_executable(r, s, from) || (has.st_mode & 0111)) && htc_content_hash_fd(fd, found, NULL) == HTC_OK && memcmp(found, hash, sizeof found) == 0;
    if (fd >= 0)
        close(fd);
    return same;
}

/* What is written beside it takes its name: who has it open keeps what was there. 0, or errno. */
static int take_name(int dir, const char *beside, const htc_stage *s)
{
    char        above[PATH_MAX];
    const char *slash = strrchr(s->name, '/'), *own = strrchr(beside, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - s->name) : 0, s->name);
    int in = slash ? htc__open_below(dir, above, O_PATH | O_DIRECTORY, 0, 0) : dir;
    int bad = in < 0, keep = s->flags & HTC_STAGE_KEEP;
    slash = slash ? slash + 1 : s->name;
    own = own ? own + 1 : beside;
    bad = bad || (keep ? linkat(in, own, in, slash, 0) != 0 && errno != EEXIST : renameat(in, own, in, slash) != 0);
    int why = errno;
    if (in >= 0 && (bad || keep))
        (void)unlinkat(in, own, 0);
    if (in >= 0 && in != dir)
        close(in);
    return bad ? why : 0;
}

/* What was fetched from its URL becomes the input itself, where nothing is to be kept of what is there. 1: it did; 0: it is copied like any other. */
static int move_input(const htc__run *r, int from, int dir, const htc_stage *s, const char *fetched)
{
    struct stat has;
    int         why, in_place = s->flags & (HTC_STAGE_APPEND | HTC_STAGE_KEEP);
    if (in_place || (is_shared(r, s) && fstatat(dir, s->name, &has, 0) == 0 && !S_ISREG(has.st_mode)))
        return 0;
    if (!is_shared(r, s)) {
        int to = open_input(dir, s, &why); /* what stands in the way is found as by others */
        if (to < 0)
            return 0;
        close(to);
    }
    char        above[PATH_MAX];
    const char *slash = strrchr(s->name, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - s->name) : 0, s->name);
    int in = slash ? htc__make_below(dir, above) : dir;
    int executable = (s->flags & HTC_STAGE_EXECUTABLE) || is_program(r, s);
    int moved = in >= 0 && fchmod(from, executable ? 0755 : 0644) == 0 && renameat(r->dir_fd, fetched, in, slash ? slash + 1 : s->name) == 0;
    if (slash && in >= 0)
        close(in);
    return moved;
}

/* A directory: one that was uploaded as one content, of that hash, is unpacked as it is read; hash NULL: one of this machine is copied. What was made of wrong
 * content goes, but for what was there before. */
static htc_status unpack_input(htc__run *r, int from, int dir, const htc_stage *s, const uint8_t *hash)
{
    struct stat st;
    uint8_t     found[32];
    char        why[300] = "";
    int         was_there = fstatat(dir, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (was_there && (s->flags & HTC_STAGE_KEEP))
        return HTC_OK;
    htc_status status = hash ? htc__tree_unpack(from, dir, s->name, found, why, sizeof why) : htc__tree_copy(from, dir, s->name, HTC__TREE_ENTRIES_MAX, why, sizeof why);
    if (hash && (status == HTC_OK || status == HTC_EINPUT || status == HTC_EPATH)) /* all of it was read */
        status = memcmp(found, hash, sizeof found) == 0 ? status : HTC_ECORRUPT;
    if (status == HTC_ECORRUPT)
        SAY(r, "%.200s was staged in wrong: its content has another hash than %.100s", s->name, s->uri);
    else if (status != HTC_OK)
        SAY(r, "the input %.150s: %.300s", s->name, why);
    if (status != HTC_OK && !was_there)
        (void)htc__remove_below(dir, s->name);
    return status;
}

/* It is what the task has under that name, as where it runs in its user's own directory: opening that to write would empty it. */
static int is_itself(int from, int dir, const htc_stage *s)
{
    struct stat is, has;
    int         to = htc__open_below(dir, s->name, O_PATH, 0, 0);
    int         same = to >= 0 && fstat(to, &has) == 0 && fstat(from, &is) == 0 && is.st_dev == has.st_dev && is.st_ino == has.st_ino;
    if (to >= 0)
        close(to);
    return same;
}

/* 1: there is a file of that name; 0: there is none; -1: something else is there. */
static int stands_there(int dir, const htc_stage *s)
{
    struct stat has;
    return fstatat(dir, s->name, &has, AT_SYMLINK_NOFOLLOW) != 0 ? 0 : S_ISREG(has.st_mode) || S_ISLNK(has.st_mode) ? 1 : -1;
}

static htc_status stage_one(htc__run *r, int dir, const htc_stage *s)
{
    int         tree = 0;
    char        fetched[40];
    uint8_t     hash[32];
    htc__copied copied;
    int         known, why;
    htc_status  status = HTC_OK;
    snprintf(fetched, sizeof fetched, "fetch/%zu", (size_t)(s - r->task->in));
    int from = htc__urls_is_wanted(s) ? open_fetched(r, s, fetched, &known, &status) : open_source(r, s, hash, &known, &status);
    if (from < 0)
        return status;
    if (known == FETCHED && move_input(r, from, dir, s, fetched)) {
        close(from);
        return HTC_OK;
    }
    if (known == DIRECTORY) {
        status = unpack_input(r, from, dir, s, NULL);
        close(from);
        return status;
    }
    if ((known == UPLOAD || known == OBJECT) && htc_content_of_uri(s->uri, hash, &tree) == HTC_OK && tree) {
        status = unpack_input(r, from, dir, s, hash);
        close(from);
        return status;
    }
    if (known == UPLOAD && share_input(r, from, dir, s, hash, &status)) {
        close(from);
        return status;
    }
    if (!known && is_itself(from, dir, s)) {
        close(from);
        return HTC_OK;
    }
    if (is_shared(r, s) && (known == UPLOAD || known == OBJECT) && is_there(r, from, dir, s, hash)) {
        close(from);
        return HTC_OK;
    }
    (void)lseek(from, 0, SEEK_SET);
    htc_stage draft = *s;
    char      beside[PATH_MAX];
    int       to = -1, has_it = is_shared(r, s) ? stands_there(dir, s) : 0;
    if (is_shared(r, s)) {
        snprintf(beside, sizeof beside, "%.3900s.htc-%llu.%llu.%u-%ld", s->name, (unsigned long long)r->attempt.job, (unsigned long long)r->attempt.task,
                 (unsigned)r->attempt.attempt, (long)getpid());
        draft.name = beside;
        draft.flags = HTC_STAGE_KEEP;
    }
    if (has_it < 0 || (has_it && (s->flags & HTC_STAGE_KEEP)))
        why = has_it < 0 ? ENXIO : EEXIST;
    else
        to = open_input(dir, &draft, &why);
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
    if (status == HTC_OK && known && known != FETCHED && memcmp(copied.hash, hash, 32) != 0) {
        status = HTC_ECORRUPT;
        SAY(r, "%.200s was staged in wrong: its content has another hash than %.100s", s->name, s->uri);
    }
    if (status == HTC_OK && is_executable(r, s, from) && fchmod(to, 0755) != 0) {
        status = HTC_ESTAGEIN;
        SAY(r, "cannot make %.200s executable: %s", s->name, strerror(errno));
    }
    close(from);
    if (close(to) != 0 && status == HTC_OK) {
        status = htc__status_of(errno, HTC_ESTAGEIN);
        SAY(r, "writing the input %.200s: %s", s->name, strerror(errno));
    }
    if (draft.name != s->name && status != HTC_OK) {
        (void)htc__unlink_below(dir, beside);
    } else if (draft.name != s->name && (why = take_name(dir, beside, s)) != 0) {
        status = htc__status_of(why, HTC_ESTAGEIN);
        SAY(r, "cannot put the input %.200s in its place: %s", s->name, strerror(why));
    }
    return status;
}

/* Where it runs, as a descriptor in *dir, and a place for what is fetched. */
static htc_status make_place_and_scratch(htc__run *r, int *dir)
{
    r->text[0] = 0;
    htc_status status = htc__scratch_full(r->agent) ? HTC_ENOSPC : make_scratch(r, dir);
    if (status == HTC_ENOSPC && !r->text[0])
        snprintf(r->text, sizeof r->text, "%.300s is on a disk without room", r->agent->slot_dir);
    if (status == HTC_OK && htc__urls_some(r->task) && mkdirat(r->dir_fd, "fetch", 0700) != 0 && errno != EEXIST)
        status = cannot_create(r, r->dir);
    return status;
}

void htc__stage_place(void *arg)
{
    htc__run *r = arg;
    int       dir = -1;
    r->status = make_place_and_scratch(r, &dir);
    if (dir >= 0)
        close(dir);
}

void htc__stage_in(void *arg)
{
    htc__run *r = arg;
    int       dir = -1, turn = r->task->n_in ? htc__turn_take(r->agent, r->run) : HTC__TURN_FREE;
    r->text[0] = 0;
    if (turn == HTC__TURN_NONE) {
        r->status = HTC_AGAIN;
        return;
    }
    r->status = make_place_and_scratch(r, &dir);
    r->urls_here = 0; /* they are moved to where the task runs, and go with that if another input fails */
    for (size_t i = 0; i < r->task->n_in && r->status == HTC_OK; i++)
        r->status = stage_one(r, dir, &r->task->in[i]);
    if (r->status == HTC_OK && htc__urls_some(r->task) && htc__remove_below(r->dir_fd, "fetch") != 0)
        r->status = cannot_create(r, r->dir);
    if (dir >= 0)
        close(dir);
    htc__turn_give(turn);
}
