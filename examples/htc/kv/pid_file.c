#include "pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "htcsched/state.h"

/* When a process began, in ticks since boot, together with which boot that was. One whose first thread has ended while another waits for
 * the disk is ending: it still has its files and sockets. */
static life began(pid_t pid, char text[80])
{
    char     path[64], line[1024], boot[HTC_HOST_BOOT_MAX], state = 0;
    long     threads = 0;
    uint64_t when = 0;
    ssize_t  n;
    int      fd;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return LIFE_NONE;
    n = read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    char *at = strrchr(line, ')'); /* its name may hold anything */
    if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %" SCNu64, &state, &threads, &when) != 3)
        return LIFE_NONE;
    (void)htc_host_boot(boot);
    snprintf(text, 80, "%" PRIu64 " %.40s", when, boot);
    return state != 'Z' && state != 'X' ? LIFE_RUNS : threads > 1 ? LIFE_ENDING : LIFE_NONE;
}

pid_t pid_file_read(const char *dir, life *how)
{
    char  path[4100], then[80] = "", now[80];
    long  pid = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/pid", dir);
    if (!(f = fopen(path, "re")))
        return 0;
    if (fscanf(f, "%ld %79[^\n]", &pid, then) != 2)
        pid = 0;
    fclose(f);
    *how = pid > 0 ? began((pid_t)pid, now) : LIFE_NONE;
    return *how != LIFE_NONE && strcmp(then, now) == 0 ? (pid_t)pid : 0;
}

pid_t pid_file_running(const char *dir)
{
    life how;
    return pid_file_read(dir, &how);
}

htc_status pid_file_write(const char *dir, pid_t of, htc_error *error)
{
    char path[4100], line[120], when[80] = "";
    (void)began(of, when);
    snprintf(path, sizeof path, "%s/pid", dir);
    snprintf(line, sizeof line, "%ld %s\n", (long)of, when);
    return htc_state_write_file(path, htc_bytes_of(line), 0600, error);
}

int pid_file_signal(const char *dir, pid_t pid, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0U);
    if (fd >= 0 && pid_file_running(dir) == pid)
        (void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0U);
    return fd;
}

pid_t start_program(const char *program, char *const *argv, const char *out, int *from)
{
    int ends[2] = { -1, -1 };
    if (from && pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    /* Emptied before anybody looks into it: what an earlier process said is not this one's. */
    int to = from ? ends[1] : open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (!from)
            setsid();
        dup2(null, 0);
        dup2(to, 1);
        if (!from)
            dup2(to, 2);
        syscall(SYS_close_range, 3U, ~0U, 4U /* at exec */);
        execv(program, argv);
        dprintf(2, "%s: %s\n", program, strerror(errno));
        _exit(127);
    }
    close(to);
    if (from)
        *from = ends[0];
    return pid;
}
