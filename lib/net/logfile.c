/* A log over a file that is replaced when it is full. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/host.h"

struct htc_logfile {
    htc_log         log;
    pthread_mutex_t lock;
    char           *path, *name;
    int             fd;
    uint64_t        size, bytes_max;
    uint32_t        files_max;
};

static const char *const level_names[] = { "", "error", "warn", "info", "debug" };

static int open_file(htc_logfile *f)
{
    struct stat st;
    int         fd = open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    f->size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    f->fd = fd;
    return 0;
}

/* path.N-2 -> path.N-1, …, path -> path.1. If that fails the old file goes on: a log line is worth more than its bound. */
static void rotate(htc_logfile *f)
{
    size_t len = strlen(f->path) + 16;
    char  *from = malloc(len), *to = malloc(len);
    int    old = f->fd;
    if (from && to) {
        for (uint32_t i = f->files_max - 1; i > 0; i--) {
            snprintf(to, len, "%s.%u", f->path, i);
            if (i > 1)
                snprintf(from, len, "%s.%u", f->path, i - 1);
            else
                snprintf(from, len, "%s", f->path);
            rename(from, to);
        }
        if (f->files_max == 1)
            unlink(f->path);
        if (open_file(f) == 0)
            close(old);
    }
    free(from);
    free(to);
}

static void write_line(void *ctx, uint32_t level, const char *line)
{
    htc_logfile    *f = ctx;
    char            text[1400];
    struct timespec now;
    struct tm       tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    int    more = snprintf(text + n, sizeof text - n, ".%03ldZ %s %s%s%s", now.tv_nsec / 1000000,
                           level_names[level <= HTC_LOG_DEBUG ? level : HTC_LOG_DEBUG], f->name, *f->name ? ": " : "", line);
    size_t len = more < 0 ? n : n + (size_t)more;
    if (len > sizeof text - 2)
        len = sizeof text - 2;
    /* One line is one line, whatever a stranger wrote into it. */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 32 || text[i] == 127)
            text[i] = '?';
    text[len++] = '\n';
    pthread_mutex_lock(&f->lock);
    if (f->path && f->size + len > f->bytes_max && f->size > 0)
        rotate(f);
    ssize_t written = write(f->fd, text, len);
    if (written > 0)
        f->size += (uint64_t)written;
    pthread_mutex_unlock(&f->lock);
}

htc_status htc_logfile_open(const htc_logfile_options *options, htc_logfile **out, htc_error *error)
{
    htc_logfile_options o = { 0 };
    if (!options || !out || htc__options_copy(&o, sizeof o, options, options->size, sizeof o) != HTC_OK)
        return htc__error(error, HTC_EINVAL, "the options of a log file are wrong");
    htc_logfile *f = calloc(1, sizeof *f);
    if (!f)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    f->path = o.path ? strdup(o.path) : NULL;
    f->name = strdup(o.name ? o.name : "");
    f->bytes_max = o.bytes_max ? o.bytes_max : (uint64_t)8 << 20;
    f->files_max = o.files_max ? o.files_max : 4;
    f->fd = o.fd;
    f->log = (htc_log){ write_line, f, o.level ? o.level : HTC_LOG_INFO };
    pthread_mutex_init(&f->lock, NULL);
    if (!f->name || (o.path && !f->path)) {
        f->fd = -1;
        htc_logfile_close(f);
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    if (f->path && open_file(f) != 0) {
        htc_status status = htc__error(error, HTC_EIO, "cannot write the log %s: %s", o.path, strerror(errno));
        f->fd = -1;
        htc_logfile_close(f);
        return status;
    }
    *out = f;
    return HTC_OK;
}

void htc_logfile_close(htc_logfile *f)
{
    if (!f)
        return;
    if (f->path && f->fd >= 0)
        close(f->fd);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f->name);
    free(f);
}

const htc_log *htc_logfile_log(htc_logfile *file)
{
    return &file->log;
}
