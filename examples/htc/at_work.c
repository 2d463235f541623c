/* A member that begins reads its log, which may take minutes, and is not ready before; one that waits for others wakes some times a second,
 * and looks at little. */
#include "at_work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READS_MIN    (1u << 20) /* at least so many bytes, */
#define COMPUTES_MIN 0.02       /* or for so much of the time */

static char *look(pid_t pid, const char *file, char *text, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, file);
    FILE  *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, cap - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return text;
}

work_done work_of(pid_t pid)
{
    char      text[1024];
    uint64_t  called = 0, fetched = 0, user = 0, system = 0;
    work_done w = { 0 };
    char     *at = look(pid, "io", text, sizeof text);
    if (sscanf(at, "rchar: %" SCNu64, &called) == 1 && (at = strstr(at, "\nread_bytes: ")))
        (void)sscanf(at, " read_bytes: %" SCNu64, &fetched);
    w.read = called > fetched ? called : fetched; /* what is mapped is fetched, and no call reads it */
    at = strrchr(look(pid, "stat", text, sizeof text), ')'); /* its name may hold anything */
    if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user, &system) == 2)
        w.seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    return w;
}

int has_worked(const work_done *now, const work_done *then, double seconds)
{
    return now->read >= then->read + READS_MIN || now->seconds - then->seconds >= COMPUTES_MIN * seconds;
}
