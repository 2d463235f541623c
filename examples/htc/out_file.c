/* Files whose names a user gives to a command. One appears under its name when it is whole, and takes the place of a plain file and
 * of nothing else: no device, no pipe, no link, no directory. "-" is standard output. */
#include "htc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 100

int out_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

static htc_status cannot_write(cli *c, const char *path, int why)
{
    htc_status s = write_status(why);
    return cli_error(c, s, path, s == HTC_ENOSPC ? "make room and try again" : "name another place", "cannot write: %s",
                     strerror(why));
}

htc_status out_check(cli *c, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
        return HTC_OK;
    return cli_error(c, HTC_EUSAGE, path, "name a file, or - for standard output",
                     "it is there, and no plain file that may be replaced");
}

/* A file of a new name beside the one that is wanted. */
static int open_beside(out_file *o, mode_t mode)
{
    int fd = -1;
    for (int i = 0; i < NAMES_TRIED && fd < 0; i++) {
        o->temporary = must_print("%s.%ld-%d", o->path, (long)getpid(), i);
        fd = open(o->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0)
            break;
        free(o->temporary);
        o->temporary = NULL;
        if (errno != EEXIST)
            break;
    }
    return fd;
}

htc_status out_open(cli *c, out_file *o, const char *path, mode_t mode)
{
    *o = (out_file){ .path = path };
    if (out_is_stdout(path)) {
        if (c->json)
            return cli_error(c, HTC_EUSAGE, "--json", "name a file", "two things cannot go to standard output");
        o->f = stdout;
        return HTC_OK;
    }
    htc_status s = out_check(c, path);
    if (s != HTC_OK)
        return s;
    int fd = open_beside(o, mode);
    o->f = fd >= 0 ? fdopen(fd, "w+b") : NULL;
    if (!o->f) {
        s = cannot_write(c, path, errno);
        if (fd >= 0) {
            close(fd);
            unlink(o->temporary);
        }
        free(o->temporary);
        o->temporary = NULL;
    }
    return s;
}

htc_status out_close(cli *c, out_file *o, htc_status s)
{
    if (!o->f)
        return s;
    int bad = fflush(o->f) != 0 || ferror(o->f), why = errno;
    if (o->f == stdout) {
        o->f = NULL;
        return s == HTC_OK && bad ? cannot_write(c, "standard output", why) : s;
    }
    if (!bad && s == HTC_OK && fsync(fileno(o->f)) != 0) {
        bad = 1;
        why = errno;
    }
    if (fclose(o->f) != 0 && !bad) {
        bad = 1;
        why = errno;
    }
    o->f = NULL;
    if (s == HTC_OK && bad)
        s = cannot_write(c, o->path, why);
    if (s == HTC_OK)
        s = out_check(c, o->path);
    if (s == HTC_OK && rename(o->temporary, o->path) != 0)
        s = cannot_write(c, o->path, errno);
    if (s != HTC_OK)
        unlink(o->temporary);
    free(o->temporary);
    o->temporary = NULL;
    return s;
}
