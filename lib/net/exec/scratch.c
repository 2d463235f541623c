/* Is the disk of the tasks full, and is that a task's own doing? */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "net/exec/exec_private.h"

#define SCRATCH_MIN 65536 /* bytes: with less than that a disk is full */
#define OWN_PART    16    /* a task that has one in so many bytes in use has filled the disk itself */
#define ENTRIES_MAX 10000 /* that are looked at; a task with more is not asked after */
#define DEPTH_MAX   64

static int is_full(const struct statvfs *s)
{
    return s->f_blocks && ((uint64_t)s->f_bavail * s->f_frsize < SCRATCH_MIN || (s->f_files && s->f_favail == 0));
}

int htc__scratch_full(const htc_agent_host *a)
{
    struct statvfs s;
    return fstatvfs(a->slot_fd, &s) == 0 && is_full(&s);
}

/* Adds what lies below dir, which is taken. 0: there is too much of it to be looked at. */
static int add_below(int dir, unsigned depth, uint32_t *entries, uint64_t *bytes)
{
    struct dirent *e;
    int            good = 1;
    DIR           *d = fdopendir(dir);
    if (!d) {
        close(dir);
        return 0;
    }
    while (good && (e = readdir(d))) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        *bytes += (uint64_t)st.st_blocks * 512;
        good = ++*entries <= ENTRIES_MAX;
        int below = good && S_ISDIR(st.st_mode) && depth < DEPTH_MAX ? openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (below >= 0)
            good = add_below(below, depth + 1, entries, bytes);
    }
    closedir(d);
    return good;
}

int htc__scratch_failed(const htc__run *r)
{
    struct statvfs s;
    struct stat    st;
    uint32_t       entries = 0;
    uint64_t       own = 0;
    if (fstatvfs(r->agent->slot_fd, &s) != 0 || !is_full(&s))
        return 0;
    int dir = r->dir_fd < 0 ? -1 : openat(r->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && !add_below(dir, 0, &entries, &own))
        return 0;
    for (int i = 0; dir < 0 && i < 2; i++)
        own += r->streams[i] >= 0 && fstat(r->streams[i], &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    return own < (uint64_t)(s.f_blocks - s.f_bfree) * s.f_frsize / OWN_PART;
}
