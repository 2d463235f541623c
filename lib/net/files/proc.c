#include "net/files/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "net/files/files.h"

#define FULL_EVERY (2 * HTC_SECOND)

static int read_stat(const char *path, htc__proc *out)
{
    char               text[1024];
    int                parent, group, session;
    long               threads = 0;
    unsigned long long start = 0, spent[2] = { 0 };
    long long          waited[2] = { 0 };
    long long          pages = 0;
    if (htc__read_text(path, text, sizeof text) <= 0)
        return -1;
    /* The name stands in parentheses and may hold anything, also ") R 1": the last one ends it. */
    char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1,
                     " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %ld %*d %llu %*u %lld",
                     &out->state, &parent, &group, &session, &spent[0], &spent[1], &waited[0], &waited[1], &threads, &start, &pages) != 11)
        return -1;
    out->pid = (pid_t)strtol(text, NULL, 10);
    out->parent = parent;
    out->group = group;
    out->session = session;
    out->start = start;
    out->memory = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    out->ticks = spent[0] + spent[1] + (uint64_t)waited[0] + (uint64_t)waited[1];
    out->owner = -1;
    out->ended = (out->state == 'Z' || out->state == 'X') && threads <= 1;
    return 0;
}

/* Of a process whose first thread has ended the files of the process say nothing: those of a thread that lives do. 0: there is none. */
static long living_thread(pid_t pid)
{
    char           path[80];
    htc__proc      t;
    long           found = 0;
    struct dirent *e;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *tasks = opendir(path);
    while (tasks && !found && (e = readdir(tasks))) {
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", (long)pid, e->d_name);
        if (e->d_name[0] != '.' && read_stat(path, &t) == 0 && t.state != 'Z' && t.state != 'X')
            found = strtol(e->d_name, NULL, 10);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static int goes_on_without_its_first(const htc__proc *p)
{
    return !p->ended && (p->state == 'Z' || p->state == 'X');
}

static void take_memory_of_a_thread(htc__proc *p)
{
    char      path[80];
    htc__proc t;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", (long)p->pid, living_thread(p->pid));
    if (read_stat(path, &t) == 0)
        p->memory = t.memory;
}

int htc__proc_read(pid_t pid, htc__proc *out)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (read_stat(path, out) != 0)
        return -1;
    if (goes_on_without_its_first(out))
        take_memory_of_a_thread(out);
    return 0;
}

int htc__proc_self(htc__proc *out)
{
    return read_stat("/proc/self/stat", out);
}

int htc__proc_uid(pid_t pid, uid_t *uid)
{
    char     path[40], text[1024];
    unsigned real = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    const char *line = htc__read_text(path, text, sizeof text) > 0 ? strstr(text, "\nUid:") : NULL; /* a name has no newline there */
    if (!line || sscanf(line + 5, "%u", &real) != 1)
        return -1;
    *uid = real;
    return 0;
}

static int grow(void **list, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return 0;
    size_t more = *cap ? *cap * 2 : 256;
    void  *p = realloc(*list, more * size);
    if (!p)
        return -1;
    *list = p;
    *cap = more;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const htc__proc *)a)->pid, y = ((const htc__proc *)b)->pid;
    return (x > y) - (x < y);
}

static int is_foreign(const htc__procs *procs, pid_t pid)
{
    size_t low = 0, high = procs->foreign_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (procs->foreign[middle] == pid)
            return 1;
        if (procs->foreign[middle] < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

int htc__procs_look(htc__procs *procs, int full, htc_ns now)
{
    struct dirent *e;
    DIR           *d = opendir("/proc");
    if (!d)
        return -1;
    if (full || now - procs->full_at >= FULL_EVERY) {
        procs->foreign_count = 0;
        procs->full_at = now;
    }
    procs->count = 0;
    while ((e = readdir(d))) {
        char *end;
        long  pid = strtol(e->d_name, &end, 10);
        if (*end || pid <= 0 || is_foreign(procs, (pid_t)pid))
            continue;
        if (grow((void **)&procs->list, &procs->cap, procs->count, sizeof *procs->list) != 0)
            break;
        if (htc__proc_read((pid_t)pid, &procs->list[procs->count]) == 0)
            procs->count++;
    }
    closedir(d);
    qsort(procs->list, procs->count, sizeof *procs->list, by_pid);
    return 0;
}

void htc__procs_free(htc__procs *procs)
{
    free(procs->list);
    free(procs->foreign);
    *procs = (htc__procs){ 0 };
}

htc__proc *htc__procs_find(const htc__procs *procs, pid_t pid)
{
    htc__proc key = { .pid = pid };
    return procs->count ? bsearch(&key, procs->list, procs->count, sizeof key, by_pid) : NULL;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

void htc__procs_spread(htc__procs *procs)
{
    int   changed = 1;
    pid_t self = getpid();
    /* Children mostly have greater pids than their parents, so one or two rounds do. */
    while (changed) {
        changed = 0;
        for (size_t i = 0; i < procs->count; i++) {
            htc__proc *p = &procs->list[i], *parent = p->owner < 0 ? htc__procs_find(procs, p->parent) : NULL;
            if (parent && parent->owner >= 0) {
                p->owner = parent->owner;
                changed = 1;
            }
        }
    }
    for (size_t i = 0; i < procs->count; i++)
        if (procs->list[i].owner < 0 && procs->list[i].parent != self &&
            grow((void **)&procs->foreign, &procs->foreign_cap, procs->foreign_count, sizeof *procs->foreign) == 0)
            procs->foreign[procs->foreign_count++] = procs->list[i].pid;
    if (procs->foreign_count)
        qsort(procs->foreign, procs->foreign_count, sizeof *procs->foreign, compare_pids);
}

static int open_environment(pid_t pid)
{
    char      path[80];
    htc__proc p;
    if (htc__proc_read(pid, &p) == 0 && goes_on_without_its_first(&p))
        snprintf(path, sizeof path, "/proc/%ld/task/%ld/environ", (long)pid, living_thread(pid));
    else
        snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int htc__proc_has_env(pid_t pid, const char *entry, int prefix)
{
    char   text[8192];
    size_t want = strlen(entry), have = 0;
    int    found = 0;
    int    fd = open_environment(pid);
    if (fd < 0 || want + 1 >= sizeof text / 2) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    /* Entries end with a zero; the rest of the last one read stays at the front. One longer than half the room is skipped
     * in pieces, which can only be taken for the entry if somebody builds it for that: then they are killed, and rightly. */
    for (ssize_t n; !found && (n = read(fd, text + have, sizeof text - have)) > 0;) {
        char *p = text, *end = text + have + n, *zero;
        while (!found && (zero = memchr(p, 0, (size_t)(end - p)))) {
            found = ((size_t)(zero - p) == want || (prefix && (size_t)(zero - p) > want)) && memcmp(p, entry, want) == 0;
            p = zero + 1;
        }
        have = (size_t)(end - p) < sizeof text / 2 ? (size_t)(end - p) : 0;
        memmove(text, p, have);
    }
    close(fd);
    return found;
}

/* The number after "oom_kill "; -1 if there is none. */
static int oom_kill_line(const char *path, uint64_t *count)
{
    char text[1024];
    if (htc__read_text(path, text, sizeof text) <= 0)
        return -1;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, "oom_kill ", 9) == 0) {
            *count = strtoull(line + 9, NULL, 10);
            return 0;
        }
    return -1;
}

int htc__oom_events_path(char *path, size_t size)
{
    char     text[8192], *rest = text, *line;
    uint64_t count;
    if (htc__read_text("/proc/self/cgroup", text, sizeof text) <= 0)
        return -1;
    while ((line = strsep(&rest, "\n"))) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        int unified = strcmp(line, "0:") == 0, memory = strcmp(controllers, ":memory") == 0;
        const char *base = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory",
                   *file = unified ? "memory.events" : "memory.oom_control";
        /* In a container the group's name may be that of the outside: then the root is what is seen of it. */
        for (int root = 0; (unified || memory) && root < 2; root++) {
            int n = snprintf(path, size, "%s%s/%s", base, root ? "" : group, file);
            if (n > 0 && (size_t)n < size && oom_kill_line(path, &count) == 0)
                return 0;
        }
    }
    return -1;
}

uint64_t htc__oom_kills(const char *path)
{
    uint64_t count = 0;
    return path && oom_kill_line(path, &count) == 0 ? count : 0;
}

uint64_t htc__memory_limit(const char *base, const char *group, const char *file)
{
    char     dir[4096], path[4200], text[64];
    uint64_t least = UINT64_MAX;
    int      n = snprintf(dir, sizeof dir, "%s", group);
    while (n > 0 && (size_t)n < sizeof dir && strlen(dir) >= strlen(base)) {
        snprintf(path, sizeof path, "%s/%s", dir, file);
        if (htc__read_text(path, text, sizeof text) > 0 && text[0] >= '0' && text[0] <= '9') { /* else it says max */
            uint64_t limit = strtoull(text, NULL, 10);
            least = limit < least ? limit : least;
        }
        char *last = strrchr(dir, '/');
        if (!last)
            break;
        *last = 0;
    }
    return least;
}

uint64_t htc__machine_memory(void)
{
    char     path[4096];
    long     pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, limit = UINT64_MAX;
    if (htc__oom_events_path(path, sizeof path) == 0) {
        char *file = strrchr(path, '/');
        int   unified = strcmp(file, "/memory.events") == 0;
        *file = 0;
        limit = htc__memory_limit("/sys/fs/cgroup", path, unified ? "memory.max" : "memory.limit_in_bytes");
    }
    return limit < all ? limit : all;
}

htc_status htc_host_boot(char *boot)
{
    if (!boot)
        return HTC_EINVAL;
    if (htc__read_text("/proc/sys/kernel/random/boot_id", boot, HTC_HOST_BOOT_MAX) <= 0)
        boot[0] = 0;
    boot[strcspn(boot, "\n")] = 0;
    return boot[0] ? HTC_OK : HTC_EIO;
}

void htc__proc_signal(const htc__proc *p, int signal)
{
    htc__proc now;
    int       fd = pidfd_open(p->pid, 0);
    if (fd < 0)
        return;
    /* The descriptor holds on to whoever has the number now; only then is it certain who that is. */
    if (htc__proc_read(p->pid, &now) == 0 && now.start == p->start)
        pidfd_send_signal(fd, signal, NULL, 0);
    close(fd);
}
