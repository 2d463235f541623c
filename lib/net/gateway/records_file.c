#include "net/gateway/records_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (2 * HTC__RECORDS_MAX) /* the rest of a file that was replaced, and what stands in the new one */

struct htc__records_file {
    htc_env env;
    char   *path, *text;
    int     fd; /* -1: not open */
    off_t   at; /* what is before has been read */
    int     cut; /* at is within a line, of which nothing is told */
    int     troubled;
};

htc__records_file *htc__records_create(const htc_env *env, const char *path)
{
    htc__records_file *f = htc__alloc(env, sizeof *f);
    if (!f)
        return NULL;
    f->env = *env;
    f->fd = -1;
    f->path = htc__strdup(env, path);
    f->text = htc__alloc(env, TEXT_MAX);
    if (f->path && f->text)
        return f;
    htc__records_free(f);
    return NULL;
}

void htc__records_free(htc__records_file *f)
{
    if (!f)
        return;
    htc_env env = f->env;
    if (f->fd >= 0)
        close(f->fd);
    htc__strfree(&env, f->path);
    htc__free(&env, f->text, TEXT_MAX);
    htc__free(&env, f, sizeof *f);
}

/* It is somebody else's: a FIFO must not hold us up, and a terminal must not become ours. */
static int open_it(htc__records_file *f)
{
    struct stat st;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    f->at = f->cut = 0;
    if (f->fd >= 0 && fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (f->troubled)
            htc__log(&f->env, HTC_LOG_INFO, "%s can be read again", f->path);
        f->troubled = 0;
        return 1;
    }
    if (!f->troubled)
        htc__log(&f->env, HTC_LOG_WARN, "%s cannot be read: %s -> why jobs have ended is known only as long as the batch system lists them", f->path,
                 f->fd < 0 ? strerror(errno) : "it is no regular file");
    f->troubled = 1;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    return 0;
}

/* Nothing is added any more to one that has another file in its place. */
static int is_replaced(const htc__records_file *f)
{
    struct stat now, open;
    return stat(f->path, &now) == 0 && fstat(f->fd, &open) == 0 && (now.st_ino != open.st_ino || now.st_dev != open.st_dev);
}

/* From f->at to the end of the last whole line; so many bytes. */
static size_t read_lines(htc__records_file *f, char *text)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return 0;
    if (st.st_size < f->at) /* cut short: what stands there now is new */
        f->at = f->cut = 0;
    if (st.st_size - f->at > (off_t)HTC__RECORDS_MAX) {
        f->at = st.st_size - (off_t)HTC__RECORDS_MAX;
        f->cut = 1;
    }
    ssize_t n = pread(f->fd, text, HTC__RECORDS_MAX, f->at);
    char   *first = text, *last = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
    if (!last)
        return 0;
    f->at += last + 1 - text;
    if (f->cut)
        first = (char *)memchr(text, '\n', (size_t)n) + 1;
    f->cut = 0;
    memmove(text, first, (size_t)(last + 1 - first));
    return (size_t)(last + 1 - first);
}

htc_bytes htc__records_read(htc__records_file *f)
{
    if (f->fd < 0 && !open_it(f))
        return (htc_bytes){ 0 };
    int    replaced = is_replaced(f); /* looked at first: what was added before that is read */
    size_t n = read_lines(f, f->text);
    if (replaced) {
        close(f->fd);
        if (open_it(f))
            n += read_lines(f, f->text + n);
    }
    return (htc_bytes){ f->text, n };
}
