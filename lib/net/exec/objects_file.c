/* Files of objects: written in order, checked, linked, listed. Everything is opened below a descriptor and is this user's own. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "core/codec.h"
#include "htcsched/client.h"
#include "net/exec/objects_file.h"
#include "net/files/files.h"
#include "net/files/manifest.h"

#define LIST_MAX    65536
#define NAME_MAX_OF 80 /* 64 digits and what stands behind them */

typedef struct names {
    char whole[65], part[NAME_MAX_OF], new[NAME_MAX_OF];
} names;

static names names_of(const uint8_t hash[32])
{
    names n;
    htc_content_hex(hash, n.whole);
    snprintf(n.part, sizeof n.part, "%s.part", n.whole);
    snprintf(n.new, sizeof n.new, "%s.new", n.whole);
    return n;
}

/* A regular file of ours, or -1 and errno. */
static int own_file(int fd, struct stat *st)
{
    if (fd < 0)
        return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid())
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

static int open_whole(const htc__objects_place *p, const char *name, struct stat *st)
{
    return own_file(openat(p->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), st);
}

int htc__object_fd(const htc__objects_place *p, const uint8_t hash[32])
{
    names       n = names_of(hash);
    struct stat st;
    return open_whole(p, n.whole, &st);
}

static int is_whole(const htc__objects_place *p, const names *n, uint64_t size)
{
    struct stat st;
    return fstatat(p->dir, n->whole, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (uint64_t)st.st_size == size;
}

void htc__object_part_close(htc__object_part *part)
{
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
}

/* ---- fetched ---- */

/* What is there of a life before is hashed, so that what follows can be. */
static htc_status take_up(htc__object_part *part, uint64_t bytes)
{
    uint8_t piece[65536];
    crypto_generichash_init(&part->hash, NULL, 0, 32);
    for (part->at = 0; part->at < bytes;) {
        size_t  want = bytes - part->at < sizeof piece ? (size_t)(bytes - part->at) : sizeof piece;
        ssize_t n = pread(part->fd, piece, want, (off_t)part->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return HTC_EIO;
        crypto_generichash_update(&part->hash, piece, (unsigned long long)n);
        part->at += (uint64_t)n;
    }
    return HTC_OK;
}

/* Where the file system can: so a disk that is too full says so now. */
static int set_aside(int fd, uint64_t size)
{
    struct stat st;
    if (!size || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
        return 0;
    if (fstat(fd, &st) == 0)
        (void)!ftruncate(fd, st.st_size); /* what it got of it goes back now, or else with the part */
    return -1;
}

htc_status htc__object_room(const htc__objects_place *p, htc__object_part *part, const uint8_t hash[32], uint64_t size)
{
    names       n = names_of(hash);
    struct stat st;
    if (is_whole(p, &n, size))
        return HTC_EEXISTS;
    if (part->fd >= 0 && part->size == size)
        return set_aside(part->fd, size) == 0 ? HTC_OK : HTC_ENOSPC;
    htc__object_part_close(part);
    unlinkat(p->dir, n.whole, 0); /* of another size: not what its name says */
    part->fd = own_file(openat(p->dir, n.part, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600), &st);
    if (part->fd < 0)
        return htc__status_of(errno, HTC_EIO);
    part->size = size;
    htc_status status = HTC_OK;
    if ((uint64_t)st.st_size > size) {
        st.st_size = 0;
        status = ftruncate(part->fd, 0) == 0 ? HTC_OK : HTC_EIO;
    }
    if (status == HTC_OK && set_aside(part->fd, size) != 0)
        status = HTC_ENOSPC;
    if (status == HTC_OK)
        status = take_up(part, (uint64_t)st.st_size);
    if (status != HTC_OK)
        htc__object_part_close(part);
    return status;
}

htc_status htc__object_append(htc__object_part *part, htc_bytes bytes)
{
    const uint8_t *from = bytes.data;
    assert(part->fd >= 0 && bytes.len <= part->size - part->at);
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = pwrite(part->fd, from + done, bytes.len - done, (off_t)(part->at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n < 0 ? errno : ENOSPC;
            if (ftruncate(part->fd, (off_t)part->at) != 0) /* its length says what is hashed */
                return HTC_EIO;
            return htc__status_of(why, HTC_EIO);
        }
        done += (size_t)n;
    }
    crypto_generichash_update(&part->hash, from, bytes.len);
    part->at += bytes.len;
    return HTC_OK;
}

/* dir/from becomes dir/to. */
static htc_status put(const htc__objects_place *p, int fd, const char *from, const char *to, int sync)
{
    if (p->durable && sync && fsync(fd) != 0)
        return htc__status_of(errno, HTC_EIO);
    if (renameat(p->dir, from, p->dir, to) != 0)
        return htc__status_of(errno, HTC_EIO);
    return p->durable && fsync(p->dir) != 0 ? htc__status_of(errno, HTC_EIO) : HTC_OK;
}

htc_status htc__object_finish(const htc__objects_place *p, htc__object_part *part, const uint8_t hash[32], const uint8_t content[32])
{
    names      n = names_of(hash);
    uint8_t    is[32];
    htc_status status = HTC_EINPUT;
    if (part->fd < 0)
        return HTC_ENOTFOUND;
    crypto_generichash_final(&part->hash, is, sizeof is);
    if (part->at == part->size && memcmp(is, content, sizeof is) == 0)
        status = fchmod(part->fd, 0400) == 0 ? put(p, part->fd, n.part, n.whole, 1) : HTC_EIO;
    else
        unlinkat(p->dir, n.part, 0);
    htc__object_part_close(part);
    return status;
}

/* ---- read ---- */

static htc_status put_piece(int fd, uint64_t offset, uint32_t len, htc_buf *answer)
{
    htc_put_varint(answer, len);
    uint8_t   *to = htc_buf_extend(answer, len);
    htc_status status = answer->status;
    for (size_t got = 0; status == HTC_OK && got < len;) {
        ssize_t k = pread(fd, to + got, len - got, (off_t)(offset + got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            status = HTC_EIO;
        else
            got += (size_t)k;
    }
    return status;
}

htc_status htc__object_piece(const htc__objects_place *p, const uint8_t hash[32], uint64_t offset, uint32_t len, htc_bytes prefix, htc_buf *answer)
{
    names       n = names_of(hash);
    struct stat st;
    int         fd = open_whole(p, n.whole, &st);
    if (fd < 0)
        return errno == ENOENT ? HTC_ENOTFOUND : htc__status_of(errno, HTC_EIO);
    if (offset > (uint64_t)st.st_size || len > (uint64_t)st.st_size - offset) {
        close(fd);
        return HTC_EINPUT;
    }
    if (offset == 0) /* it is in use; its own time stays: it may be an output's too */
        (void)futimens(fd, (struct timespec[]){ { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } });
    htc_put_raw(answer, prefix);
    htc_put_raw(answer, (htc_bytes){ hash, 32 });
    htc_put_u64(answer, offset);
    htc_put_u64(answer, (uint64_t)st.st_size);
    htc_status status = put_piece(fd, offset, len, answer);
    close(fd);
    return status;
}

/* ---- made here ---- */

/* Where the outputs of an attempt lie: O_PATH; -1 and errno. */
static int open_attempt(const htc__objects_place *p, const char *place)
{
    int top = htc__open_below(p->data, place, O_PATH | O_DIRECTORY, 0, 0);
    int shared = top < 0 && errno == ENOENT ? htc__outputs_at_dup(p->outputs_at) : -1;
    if (shared < 0) {
        errno = top < 0 && p->outputs_at ? ENOENT : errno;
        return top;
    }
    top = htc__open_below(shared, place, O_PATH | O_DIRECTORY, 0, 0);
    int why = errno;
    close(shared);
    errno = why;
    return top;
}

/* An output as it lies in the store. */
static int open_output(const htc__objects_place *p, const htc_attempt *a, const char *name, struct stat *st)
{
    char place[96], path[HTC_OUTPUT_NAME_MAX + 8] = "files/";
    if (htc__output_place(place, sizeof place, a->job, a->task, a->attempt) != 0 ||
        htc__name_of_shown(name, path + 6, sizeof path - 6) != 0 || !htc__name_stays(path + 6)) {
        errno = ENOENT;
        return -1;
    }
    int top = open_attempt(p, place);
    int fd = top < 0 ? -1 : htc__open_below(top, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0), why = errno;
    if (top >= 0)
        close(top);
    errno = why;
    return own_file(fd, st);
}

static int link_new(const htc__objects_place *p, int from, const char *name)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", from);
    return linkat(AT_FDCWD, own, p->dir, name, AT_SYMLINK_FOLLOW);
}

static htc_status copy_new(int from, int to, const uint8_t hash[32])
{
    htc__copied copied;
    htc_status  status = htc__copy(from, to, UINT64_MAX, &copied);
    if (status == HTC_OK && memcmp(copied.hash, hash, 32) != 0)
        status = HTC_EINPUT;
    return status == HTC_ESTAGEOUT ? HTC_EIO : status;
}

/* A copy that shares the blocks; else a second name for the same file: it is the user's own, nobody writes an output again, and who reads an
 * object looks at its hash; else a copy. */
static htc_status make_new(const htc__objects_place *p, int from, const names *n, const uint8_t hash[32])
{
    htc_status status = HTC_OK;
    unlinkat(p->dir, n->new, 0);
    int to = openat(p->dir, n->new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (to < 0)
        return htc__status_of(errno, HTC_EIO);
    if (ioctl(to, FICLONE, from) != 0) {
        unlinkat(p->dir, n->new, 0);
        if (link_new(p, from, n->new) == 0) {
            close(to);
            return put(p, from, n->new, n->whole, 0);
        }
        close(to);
        to = openat(p->dir, n->new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
        status = to < 0 ? htc__status_of(errno, HTC_EIO) : copy_new(from, to, hash);
    }
    if (status == HTC_OK)
        status = put(p, to, n->new, n->whole, 1);
    if (to >= 0)
        close(to);
    return status;
}

htc_status htc__object_adopt(const htc__objects_place *p, const uint8_t hash[32], uint64_t size, const htc_attempt *attempt, const char *name)
{
    names       n = names_of(hash);
    struct stat st;
    htc_status  status = HTC_OK;
    if (!is_whole(p, &n, size)) {
        int from = open_output(p, attempt, name, &st);
        if (from < 0)
            return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? HTC_ENOTFOUND : htc__status_of(errno, HTC_EIO);
        status = (uint64_t)st.st_size == size ? make_new(p, from, &n, hash) : HTC_EINPUT;
        close(from);
        unlinkat(p->dir, n.new, 0); /* what went wrong; a second name of what was there already */
    }
    if (status == HTC_OK)
        unlinkat(p->dir, n.part, 0);
    return status;
}

/* The entry of a file that is stored whole under this name. */
static int read_entry(const char *line, const char *name, htc_buf *answer)
{
    uint8_t       hash[32];
    json_t       *entry = json_loads(line, 0, NULL);
    const char   *is = json_string_value(json_object_get(entry, "name")), *type = json_string_value(json_object_get(entry, "type"));
    const char   *hex = json_string_value(json_object_get(entry, "hash"));
    const json_t *size = json_object_get(entry, "size");
    int           found = is && type && hex && strcmp(is, name) == 0 && strcmp(type, "f") == 0 && !json_object_get(entry, "error") &&
                json_is_integer(size) && json_integer_value(size) >= 0 && htc_content_unhex(hex, hash) == HTC_OK;
    if (found) {
        htc_put_raw(answer, (htc_bytes){ hash, sizeof hash });
        htc_put_u64(answer, (uint64_t)json_integer_value(size));
    }
    json_decref(entry);
    return found;
}

htc_status htc__object_output(const htc__objects_place *p, const htc_attempt *a, const char *name, htc_buf *answer)
{
    char        place[96], *line = NULL;
    struct stat st;
    size_t      room = 0;
    int         found = 0;
    if (htc__output_place(place, sizeof place, a->job, a->task, a->attempt) != 0)
        return HTC_ENOTFOUND;
    int top = open_attempt(p, place);
    int fd = top < 0 ? -1 : own_file(htc__open_below(top, "manifest", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0), &st);
    if (top >= 0)
        close(top);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f && fd >= 0)
        close(fd);
    while (f && !found && getline(&line, &room, f) >= 0)
        found = read_entry(line, name, answer);
    free(line);
    if (f)
        fclose(f);
    return found ? answer->status : HTC_ENOTFOUND;
}

htc_status htc__object_output_read(const htc__objects_place *p, const htc_attempt *attempt, const char *name, uint32_t most, htc_buf *answer)
{
    struct stat st;
    int         fd = open_output(p, attempt, name, &st);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? HTC_ENOTFOUND : htc__status_of(errno, HTC_EIO);
    htc_status status = (uint64_t)st.st_size <= most ? put_piece(fd, 0, (uint32_t)st.st_size, answer) : HTC_ETOOBIG;
    close(fd);
    return status;
}

/* Directories of users, 0711 where they have other uids; of one of them, made if it is not there. -1 and errno. */
static int open_given(const htc__objects_place *p, const char *user)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if (mkdirat(p->data, "given", 0711) != 0 && errno != EEXIST)
        return -1;
    int all = openat(p->data, "given", flags);
    if (all < 0 || !user)
        return all;
    int fd = mkdirat(all, user, 0700) == 0 || errno == EEXIST ? openat(all, user, flags) : -1, why = errno;
    close(all);
    errno = why;
    return fd;
}

/* A name of that content that is there is of another object of an earlier time, or of this one. */
static int link_given(const htc__objects_place *p, const char *whole, int to, const char *name)
{
    struct stat is, there;
    if (linkat(p->dir, whole, to, name, 0) == 0)
        return 1;
    if (errno != EEXIST)
        return 0;
    if (fstatat(p->dir, whole, &is, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (fstatat(to, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == is.st_ino && there.st_dev == is.st_dev)
        return 1;
    return unlinkat(to, name, 0) == 0 && linkat(p->dir, whole, to, name, 0) == 0;
}

htc_status htc__object_give(const htc__objects_place *p, const uint8_t hash[32], const uint8_t content[32], const char *user)
{
    names n = names_of(hash), as = names_of(content);
    if (!p->gives || !*user || *user == '.' || strchr(user, '/'))
        return HTC_EPROTO;
    int to = open_given(p, user);
    int done = to >= 0 && fchmodat(p->dir, n.whole, 0444, 0) == 0 && /* its agents may have another uid */
               link_given(p, n.whole, to, as.whole), why = errno;
    if (to >= 0)
        close(to);
    return done ? HTC_OK : why == ENOENT ? HTC_ENOTFOUND : htc__status_of(why, HTC_EIO);
}

/* Of all hashes, or of this one if it is that file. dir: taken. */
static void take_back_below(int dir, const char *only, const struct stat *is)
{
    uint8_t        hash[32];
    struct stat    st;
    struct dirent *e;
    DIR           *d = only ? NULL : fdopendir(dir);
    if (only && fstatat(dir, only, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == is->st_ino && st.st_dev == is->st_dev)
        unlinkat(dir, only, 0);
    while (d && (e = readdir(d)))
        if (htc_content_unhex(e->d_name, hash) == HTC_OK)
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
    else
        close(dir);
}

static void take_back(const htc__objects_place *p, const char *only, const struct stat *is)
{
    struct dirent *e;
    int            fd = open_given(p, NULL);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && (e = readdir(d))) {
        int user = e->d_name[0] == '.' ? -1 : openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (user >= 0)
            take_back_below(user, only, is);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

/* What agents have noted of a content that goes (stage.c); NULL: of all of them. */
static void drop_note(const htc__objects_place *p, const char *content)
{
    int fd = openat(p->data, "seen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!content) {
        take_back_below(fd, NULL, NULL);
        return;
    }
    unlinkat(fd, content, 0);
    close(fd);
}

void htc__object_take_back(const htc__objects_place *p)
{
    take_back(p, NULL, NULL);
    drop_note(p, NULL);
}

void htc__object_drop(const htc__objects_place *p, const uint8_t hash[32], const uint8_t content[32])
{
    names       n = names_of(hash), as = names_of(content);
    struct stat st;
    if (p->gives && fstatat(p->dir, n.whole, &st, AT_SYMLINK_NOFOLLOW) == 0)
        take_back(p, as.whole, &st);
    if (p->gives)
        drop_note(p, as.whole);
    unlinkat(p->dir, n.whole, 0);
    unlinkat(p->dir, n.part, 0);
}

/* ---- at a start ---- */

typedef struct found {
    uint8_t         hash[32];
    uint64_t        bytes;
    struct timespec used;
    int             whole;
} found;

static int by_use(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return memcmp(x->hash, y->hash, 32);
}

/* HASH, or HASH.part with something in it. All else goes: what was being made when somebody was killed. */
static int look_at(int dir, const char *name, found *f)
{
    char        hex[65];
    struct stat st;
    size_t      len = strlen(name);
    snprintf(hex, sizeof hex, "%.64s", name);
    f->whole = len == 64;
    if ((f->whole || (len == 69 && strcmp(name + 64, ".part") == 0)) && htc_content_unhex(hex, f->hash) == HTC_OK &&
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (f->whole || st.st_size)) {
        f->bytes = (uint64_t)st.st_size;
        f->used = st.st_atim;
        return 1;
    }
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        unlinkat(dir, name, 0);
    return 0;
}

/* The whole is enough: what is left of its part goes. */
static void drop_parts_of_whole(int dir, found *list, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        names       at = names_of(list[i].hash);
        struct stat st;
        if (!list[i].whole && fstatat(dir, at.whole, &st, AT_SYMLINK_NOFOLLOW) == 0)
            unlinkat(dir, at.part, 0);
        else
            list[kept++] = list[i];
    }
    *n = kept;
}

htc_status htc__object_list(const htc__objects_place *p, htc_buf *answer)
{
    struct dirent *e;
    size_t         n = 0, room = 0;
    found         *list = NULL;
    htc_status     status = HTC_OK;
    int            fd = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        status = htc__status_of(errno, HTC_EIO);
        if (fd >= 0)
            close(fd);
        return status;
    }
    while (status == HTC_OK && (e = readdir(d))) {
        if (n == room) {
            found *more = realloc(list, (room = room ? room * 2 : 64) * sizeof *list);
            if (!more) {
                status = HTC_ENOMEM;
                break;
            }
            list = more;
        }
        n += (size_t)look_at(dirfd(d), e->d_name, &list[n]);
    }
    drop_parts_of_whole(dirfd(d), list, &n);
    if (n)
        qsort(list, n, sizeof *list, by_use);
    for (size_t i = 0; i < n && status == HTC_OK; i++) {
        if (n - i > LIST_MAX) {
            htc__object_drop(p, list[i].hash, list[i].hash);
            continue;
        }
        htc_put_raw(answer, (htc_bytes){ list[i].hash, 32 });
        htc_put_u64(answer, list[i].bytes);
        htc_put_u8(answer, (uint8_t)list[i].whole);
        status = answer->status;
    }
    free(list);
    closedir(d);
    return status;
}
