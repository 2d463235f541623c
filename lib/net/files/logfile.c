/* A log over a file that is replaced when it is full. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/host.h"

struct htc_logfile {
    htc_log_structured log;
    pthread_mutex_t lock;
    char           *path, *name;
    int             fd, older; /* older: path.1, where the files cannot be renamed later; -1 */
    uint64_t        size, bytes_max;
    uint32_t        files_max;
    uint32_t        json, in_place;
};

/* Room for the message, behind it for its values, behind these for the end of an object. */
enum { TEXT_MAX = 1390, FIELDS_MAX = 1990, LINE_MAX_BYTES = 2000 };

static const char *const level_names[] = { "", "error", "warn", "info", "debug" };

static int open_file(htc_logfile *f)
{
    struct stat st;
    int         fd = open(f->path, (f->in_place ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    f->size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    f->fd = fd;
    return 0;
}

/* For who may not rename: what is in path goes to path.1, which is open. */
static void copy_over(htc_logfile *f)
{
    char    bytes[16384];
    off_t   at = 0;
    ssize_t n;
    if (f->older >= 0 && ftruncate(f->older, 0) == 0)
        while ((n = pread(f->fd, bytes, sizeof bytes, at)) > 0 && pwrite(f->older, bytes, (size_t)n, at) == n)
            at += n;
    if (ftruncate(f->fd, 0) == 0)
        f->size = 0;
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

typedef struct line {
    char   text[LINE_MAX_BYTES];
    size_t len;
} line;

static void put(line *l, const char *bytes, size_t n)
{
    if (n > sizeof l->text - 1 - l->len)
        n = sizeof l->text - 1 - l->len;
    memcpy(l->text + l->len, bytes, n);
    l->len += n;
}

static void put_text(line *l, const char *text)
{
    put(l, text, strlen(text));
}

/* One line is one line, whatever a stranger wrote into it. */
static void put_plain(line *l, const char *text)
{
    for (size_t n = strlen(text), i = 0, len; i < n && l->len < TEXT_MAX; i += len ? len : 1) {
        len = htc__utf8_len(text + i, n - i);
        size_t shown = htc_text_shown(text + i, n - i);
        put(l, shown ? text + i : "?", shown ? shown : 1);
    }
}

/* As much of it as fits below max, in whole characters. */
static void put_json(line *l, const char *text, size_t max)
{
    size_t n = strlen(text);
    for (size_t i = 0, len; i < n && l->len < max; i += len) {
        len = htc__utf8_len(text + i, n - i);
        if (text[i] == '"' || text[i] == '\\')
            put(l, "\\", 1);
        size_t shown = htc_text_shown(text + i, n - i);
        put(l, shown ? text + i : "?", shown ? shown : 1);
        len += len == 0;
    }
}

static void put_stamp(line *l)
{
    char            stamp[40];
    struct timespec now;
    struct tm       tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(stamp + n, sizeof stamp - n, ".%03ldZ", now.tv_nsec / 1000000);
    put_text(l, stamp);
}

/* One value; as if it had not been there if it does not fit. */
static void put_field(line *l, const htc_log_field *field)
{
    char   number[40];
    size_t before = l->len;
    put_text(l, ",\"");
    put_json(l, field->name, FIELDS_MAX);
    put_text(l, "\":");
    if (field->text) {
        put_text(l, "\"");
        put_json(l, field->text, FIELDS_MAX);
        put_text(l, "\"");
    } else {
        snprintf(number, sizeof number, field->hex ? "\"%016" PRIx64 "\"" : "%" PRIu64, field->number);
        put_text(l, number);
    }
    if (l->len > FIELDS_MAX)
        l->len = before;
}

static void put_object(line *l, const htc_logfile *f, const char *level, const char *message, const htc_log_field *field, size_t n)
{
    put_text(l, "{\"time\":\"");
    put_stamp(l);
    put_text(l, "\",\"level\":\"");
    put_text(l, level);
    put_text(l, "\",\"source\":\"");
    put_json(l, f->name, TEXT_MAX);
    put_text(l, "\",\"message\":\"");
    put_json(l, message, TEXT_MAX);
    put_text(l, "\"");
    for (size_t i = 0; i < n; i++)
        put_field(l, &field[i]);
    put_text(l, "}");
}

static void write_fields(void *ctx, uint32_t level, const char *message, const htc_log_field *field, size_t n)
{
    htc_logfile *f = ctx;
    line         l = { .len = 0 };
    const char  *name = level_names[level <= HTC_LOG_DEBUG ? level : HTC_LOG_DEBUG];
    if (f->json) {
        put_object(&l, f, name, message, field, n);
    } else {
        const char *const parts[] = { " ", name, " ", f->name, *f->name ? ": " : "" };
        put_stamp(&l);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            put_plain(&l, parts[i]);
        put_plain(&l, message);
    }
    l.text[l.len++] = '\n';
    pthread_mutex_lock(&f->lock);
    if (f->path && f->size + l.len > f->bytes_max && f->size > 0)
        f->in_place ? copy_over(f) : rotate(f);
    ssize_t written = write(f->fd, l.text, l.len);
    if (written > 0)
        f->size += (uint64_t)written;
    pthread_mutex_unlock(&f->lock);
}

static void write_line(void *ctx, uint32_t level, const char *message)
{
    write_fields(ctx, level, message, NULL, 0);
}

/* Without it, what was logged before is lost when the file is full. */
static void open_older(htc_logfile *f)
{
    size_t len = strlen(f->path) + 3;
    char  *path = malloc(len);
    if (path) {
        snprintf(path, len, "%s.1", f->path);
        f->older = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    free(path);
}

htc_status htc_logfile_open(const htc_logfile_options *options, htc_logfile **out, htc_error *error)
{
    htc_logfile_options o = { 0 };
    if (!options || !out ||
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_logfile_options, json)) != HTC_OK || (!o.path && o.fd <= 0))
        return htc__error(error, HTC_EINVAL, "the options of a log file are wrong");
    htc_logfile *f = calloc(1, sizeof *f);
    if (!f)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    f->path = o.path ? strdup(o.path) : NULL;
    f->name = strdup(o.name ? o.name : "");
    f->bytes_max = o.bytes_max ? o.bytes_max : (uint64_t)8 << 20;
    f->files_max = o.files_max ? o.files_max : 4;
    f->fd = o.fd;
    f->json = o.json;
    f->in_place = o.in_place;
    f->older = -1;
    f->log.log = (htc_log){ write_line, f, (o.level ? o.level : HTC_LOG_INFO) | (o.json ? HTC_LOG_FIELDS : 0) };
    f->log.write_fields = write_fields;
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
    if (f->path && f->in_place && f->files_max > 1)
        open_older(f);
    *out = f;
    return HTC_OK;
}

void htc_logfile_close(htc_logfile *f)
{
    if (!f)
        return;
    if (f->path && f->fd >= 0)
        close(f->fd);
    if (f->older >= 0)
        close(f->older);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f->name);
    free(f);
}

const htc_log *htc_logfile_log(htc_logfile *file)
{
    return &file->log.log;
}
