/* slots/SITE.N/groups: which process groups this agent runs, written before anything of a task runs; and what the next agent
 * does with what it finds there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/files/files.h"

#define RECOVER_PATIENCE (10 * HTC_SECOND)
#define LOCK_PATIENCE HTC_SECOND
#define RECORD_MAX 65536
#define RECORD_PAGE 4096 /* more than HTC_AGENT_HELD_MAX lines */

/* In place, in one write of less than a page: a process that is killed has done all of such a write or nothing. (To
 * write another file and rename it would have file systems flush it to the disk, at every start and end of a task.) No
 * sync: this has to survive the agent, not the machine, whose processes do not survive it either. */
htc_status htc__record_write(htc_agent_host *a)
{
    uint8_t bytes[RECORD_PAGE];
    size_t  n = (size_t)snprintf((char *)bytes, sizeof bytes, "boot %s\n", a->boot);
    for (const htc__run *r = a->runs; r; r = r->next)
        if (r->pid > 0) {
            int more = snprintf((char *)bytes + n, sizeof bytes - n, "%ld %" PRIu64 "\n", (long)r->pid, r->start);
            if (more < 0 || (size_t)more >= sizeof bytes - n)
                return HTC_ETOOBIG;
            n += (size_t)more;
        }
    /* What an older record had behind that becomes empty lines. */
    size_t len = n > a->record_len ? n : a->record_len;
    memset(bytes + n, '\n', len - n);
    if (pwrite(a->record_fd, bytes, len, 0) != (ssize_t)len)
        return htc__status_of(errno, HTC_EIO);
    a->record_len = n;
    return HTC_OK;
}

htc_status htc__record_open(htc_agent_host *a)
{
    (void)htc_host_boot(a->boot); /* "" is as good a name as any: numbers and starts of processes say the rest */
    if (unlinkat(a->slot_fd, "groups", 0) != 0 && errno != ENOENT)
        return htc__status_of(errno, HTC_EIO);
    a->record_fd = openat(a->slot_fd, "groups", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return a->record_fd < 0 ? htc__status_of(errno, HTC_EIO) : HTC_OK;
}

typedef struct record {
    pid_t    pid;
    uint64_t start, latest; /* ticks: it was started in this time */
} record;

/* The records of this boot; those of another boot name nobody who still lives. */
static size_t read_records(const char *slot_dir, record *list, size_t max)
{
    char   path[PATH_MAX], boot[64], want[80], *text = malloc(RECORD_MAX), *rest = NULL;
    size_t count = 0;
    if (!text)
        return 0;
    snprintf(path, sizeof path, "%.4000s/groups", slot_dir);
    (void)htc_host_boot(boot);
    snprintf(want, sizeof want, "boot %s", boot);
    if (htc__read_text(path, text, RECORD_MAX) > 0) {
        char *line = strtok_r(text, "\n", &rest);
        if (line && strcmp(line, want) == 0)
            while (count < max && (line = strtok_r(NULL, "\n", &rest))) {
                long     pid;
                uint64_t start;
                if (sscanf(line, "%ld %" SCNu64, &pid, &start) == 2 && pid > 1)
                    list[count++] = (record){ (pid_t)pid, start, start };
            }
    }
    free(text);
    return count;
}

#define START_TAKES 100 /* ticks: of a keeper that was killed before it saw its task begin */

/* 1: the file of this boot's keepers. What is in it may be a user's to write. */
static int read_keepers_file(int slot_fd, htc__keepers_file *file)
{
    char boot[64];
    int  fd = openat(slot_fd, "keepers", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int  whole = fd >= 0 && read(fd, file, sizeof *file) == (ssize_t)sizeof *file;
    if (fd >= 0)
        close(fd);
    (void)htc_host_boot(boot);
    return whole && memcmp(file->magic, HTC__KEEPERS_MAGIC, 8) == 0 && strncmp(file->boot, boot, sizeof file->boot) == 0;
}

int htc__keeper_of(int slot_fd, const htc_attempt *attempt)
{
    htc__keepers_file *file = calloc(1, sizeof *file);
    int                found = -1;
    if (file && read_keepers_file(slot_fd, file))
        for (int i = 0; i < HTC__KEEPERS_MAX && found < 0; i++) {
            const htc__keeper_record *k = &file->keeper[i];
            if (k->attempt == attempt->attempt && k->attempt && k->job == attempt->job && k->task == attempt->task)
                found = i;
        }
    free(file);
    return found;
}

/* Those of keepers. */
static size_t read_keepers(const char *slot_dir, record *list, size_t count, size_t max)
{
    htc__keepers_file *file = calloc(1, sizeof *file);
    int                slot = open(slot_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file && slot >= 0 && read_keepers_file(slot, file))
        for (size_t i = 0; i < HTC__KEEPERS_MAX && count < max; i++) {
            const htc__keeper_record *k = &file->keeper[i];
            if (k->attempt && k->pid > 1)
                list[count++] = (record){ (pid_t)k->pid, k->begin, k->end ? k->end : k->begin + START_TAKES };
            if (k->session > 1 && count < max) /* without its leader: what is in it has begun there, unless that lives and is another */
                list[count++] = (record){ (pid_t)k->session, k->since > START_TAKES ? k->since - START_TAKES : 0, k->since };
        }
    if (slot >= 0)
        close(slot);
    free(file);
    return count;
}

/* Whose processes the record of this slot may name. Under root it is its user's to write: who wrote it may end their own, and
 * nobody else's. */
typedef struct writer {
    int   any;
    uid_t uid;
} writer;

static writer writer_of(const char *slot_dir)
{
    struct stat st;
    if (geteuid() != 0)
        return (writer){ .any = 1 }; /* the kernel sees to it */
    if (lstat(slot_dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return (writer){ .uid = (uid_t)-1 };
    return (writer){ .any = st.st_uid == 0, .uid = st.st_uid };
}

static int is_of(const htc__proc *p, const writer *w)
{
    uid_t uid;
    return w->any || (htc__proc_uid(p->pid, &uid) == 0 && uid == w->uid);
}

/* Does p belong to a recorded group? A group's number is not used again while anybody is in it, so whoever is in the
 * session began with it, unless its leader lives and is another process than the one recorded. */
static int is_leftover(const htc__procs *procs, const htc__proc *p, const record *list, size_t count, const char *entry)
{
    if (p->ended || p->pid == getpid())
        return 0;
    for (size_t i = 0; i < count; i++) {
        const htc__proc *leader = htc__procs_find(procs, list[i].pid);
        if (leader && (leader->start < list[i].start || leader->start > list[i].latest))
            continue;
        if ((p->group == list[i].pid || p->session == list[i].pid) && p->start >= list[i].start)
            return 1;
    }
    return htc__proc_has_env(p->pid, entry, 1);
}

static uint32_t end_leftovers(const htc_env *env, const char *slot_dir)
{
    record     list[HTC_AGENT_HELD_MAX + 2 * HTC__KEEPERS_MAX];
    size_t     groups = read_records(slot_dir, list, HTC_AGENT_HELD_MAX);
    size_t     count = read_keepers(slot_dir, list, groups, sizeof list / sizeof *list);
    char       entry[PATH_MAX + 32];
    htc__procs procs = { 0 };
    uint32_t   ended = 0, alive = 1;
    writer     whose = writer_of(slot_dir);
    htc_ns     began = htc_host_now();
    snprintf(entry, sizeof entry, "HTC_SCRATCH=%s/scratch/", slot_dir);
    for (int round = 0; alive && htc_host_now() - began < RECOVER_PATIENCE; round++) {
        alive = 0;
        if (htc__procs_look(&procs, 1, 0) != 0)
            break;
        for (size_t i = 0; i < procs.count; i++)
            if (is_leftover(&procs, &procs.list[i], list, count, entry) && is_of(&procs.list[i], &whose)) {
                htc__proc_signal(&procs.list[i], SIGKILL);
                alive++;
            }
        if (round == 0)
            ended = alive;
        if (alive)
            usleep(2000); /* a killed process needs a moment; the loop looks again until there is none */
    }
    htc__procs_free(&procs);
    if (ended)
        htc__log(env, HTC_LOG_WARN, "%u processes of an agent that was killed -> ended%s", ended,
                 alive ? ", some of them not yet" : "");
    return ended;
}

/* A process that a killed agent was about to start holds the lock for a moment longer than the agent: until it has closed what it inherited. 0 or why not. */
static int lock_in_time(const htc_env *env, const char *path, int fd)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    htc_ns       end = htc_host_now() + LOCK_PATIENCE;
    int          why = fcntl(fd, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
    if (why == EAGAIN || why == EACCES)
        htc__log(env, HTC_LOG_DEBUG, "%s is held -> wait a moment", path);
    while ((why == EAGAIN || why == EACCES) && htc_host_now() < end) {
        usleep(2000);
        why = fcntl(fd, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
    }
    return why;
}

/* Nobody else lives in the slot: *fd holds the lock. It lies beside the slot: what is in there is its user's, who could hold it. */
static htc_status lock_slot(const htc_env *env, const char *slot_dir, int *fd, htc_error *error)
{
    char         path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s.lock", slot_dir);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (*fd < 0)
        return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot open %s: %s", path, strerror(errno));
    int why = lock_in_time(env, path, *fd);
    if (!why)
        return HTC_OK;
    close(*fd);
    *fd = -1;
    if (why != EAGAIN && why != EACCES)
        return htc__error(error, htc__status_of(why, HTC_EIO), "cannot lock %s: %s", path, strerror(why));
    return htc__error(error, HTC_ELOCKED, "another agent lives in %s", slot_dir);
}

static char *absolute_slot(const char *slot_dir, htc_error *error)
{
    char *real = htc__make_dirs(slot_dir) == 0 ? realpath(slot_dir, NULL) : NULL;
    if (!real)
        htc__error(error, htc__status_of(errno, HTC_EIO), "cannot use %s: %s", slot_dir, strerror(errno));
    else if (strlen(real) > 3500) {
        htc__error(error, HTC_EINVAL, "the path of the slot is too long");
        free(real);
        real = NULL;
    }
    return real;
}

htc_status htc__slot_enter(const htc_env *env, const char *slot_dir, char **real, int *lock_fd, htc_error *error)
{
    *real = absolute_slot(slot_dir, error);
    if (!*real)
        return error && error->status ? error->status : HTC_EIO;
    htc_status status = *lock_fd >= 0 ? HTC_OK : lock_slot(env, *real, lock_fd, error);
    if (status != HTC_OK) {
        free(*real);
        *real = NULL;
    }
    return status;
}

htc_status htc_agent_host_recover(const htc_env *env, const char *slot_dir, int *lock, uint32_t *ended, htc_error *error)
{
    char     path[PATH_MAX], *real;
    int      fd = -1;
    uint32_t n;
    if (lock)
        *lock = -1;
    if (!slot_dir)
        return htc__error(error, HTC_EINVAL, "a slot directory is needed");
    htc_status status = htc__slot_enter(env, slot_dir, &real, &fd, error);
    if (status != HTC_OK)
        return status;
    n = end_leftovers(env, real);
    int slot = open(real, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (slot < 0 || htc__remove_below(slot, "scratch") != 0)
        htc__log(env, HTC_LOG_WARN, "%s/scratch cannot be removed: %s -> leave it", real, strerror(errno));
    if (slot >= 0)
        close(slot);
    static const char *const records[] = { "groups", "keepers" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", real, records[i]);
        unlink(path);
    }
    if (lock)
        *lock = fd;
    else
        close(fd);
    free(real);
    if (ended)
        *ended = n;
    return HTC_OK;
}
