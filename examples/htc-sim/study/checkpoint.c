#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)
#define FIRST "htc-sim checkpoint 1\n"

static int refuse(htc_error *e, htc_status status, const char *path, const char *text, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->where, sizeof e->where, "%.150s", path);
    snprintf(e->text, sizeof e->text, "%s", text);
    snprintf(e->hint, sizeof e->hint, "%s", hint);
    return 0;
}

/* ---- writing ---- */

static int flush_block(checkpoint *c)
{
    c->sum = htc_hash64((htc_bytes){ c->block, c->filled }, c->sum);
    int good = fwrite(c->block, 1, c->filled, c->file) == c->filled;
    c->filled = 0;
    return good;
}

static htc_status put(void *ctx, void *data, size_t n)
{
    checkpoint *c = ctx;
    for (const char *p = data; n;) {
        size_t part = n < BLOCK - c->filled ? n : BLOCK - c->filled;
        memcpy(c->block + c->filled, p, part);
        c->filled += part;
        p += part;
        n -= part;
        if (c->filled == BLOCK && !flush_block(c))
            return HTC_EIO;
    }
    return HTC_OK;
}

static void put_text(checkpoint *c, const char *text)
{
    (void)put(c, (char *)(uintptr_t)text, strlen(text)); /* a mistake of the file is found when it is written */
}

int checkpoint_write(checkpoint *c, const char *path, const settings *s, htc_error *error)
{
    const char *name, *value;
    *c = (checkpoint){ .tape = { .size = sizeof c->tape, .move = put, .ctx = c } };
    c->path = strdup(path);
    c->draft = malloc(strlen(path) + 5);
    c->block = malloc(BLOCK);
    if (!c->path || !c->draft || !c->block) {
        checkpoint_close(c);
        return refuse(error, HTC_ENOMEM, path, "no memory for a checkpoint", "free some");
    }
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) { /* the draft takes its place in the end */
        checkpoint_close(c);
        return refuse(error, HTC_EIO, path, "it is no ordinary file", "choose for --checkpoint a file, or a name that there is not yet");
    }
    sprintf(c->draft, "%s.new", path);
    int fd = unlink(c->draft) == 0 || errno == ENOENT ? open(c->draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    c->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!c->file) {
        if (fd >= 0)
            close(fd);
        refuse(error, HTC_EIO, c->draft, strerror(errno), "choose a file that can be written for --checkpoint");
        checkpoint_close(c);
        return 0;
    }
    put_text(c, FIRST);
    for (size_t i = 0; (name = settings_any_section(s, i)) != NULL; i++) {
        put_text(c, "[");
        put_text(c, name);
        put_text(c, "]\n");
    }
    for (size_t i = 0; (name = settings_item(s, i, &value)) != NULL; i++) {
        put_text(c, name);
        put_text(c, "=");
        put_text(c, value);
        put_text(c, "\n");
    }
    put_text(c, "\n");
    return 1;
}

int checkpoint_written(checkpoint *c, htc_error *error)
{
    int good = flush_block(c);
    good = good && fwrite(&c->sum, sizeof c->sum, 1, c->file) == 1 && fflush(c->file) == 0 && !ferror(c->file) && fsync(fileno(c->file)) == 0;
    good = fclose(c->file) == 0 && good;
    c->file = NULL;
    if (good && rename(c->draft, c->path) == 0) {
        free(c->draft);
        c->draft = NULL;
        return 1;
    }
    return refuse(error, HTC_EIO, c->draft, strerror(errno), "choose a file that can be written for --checkpoint");
}

/* ---- reading ---- */

static htc_status get(void *ctx, void *data, size_t n)
{
    checkpoint *c = ctx;
    return fread(data, 1, n, c->file) == n ? HTC_OK : HTC_EIO;
}

/* A model takes its state as it finds it, and nobody can sign what anybody may read: a file counts that none but its reader, or root, can have written. */
static int is_ours(const checkpoint *c)
{
    struct stat is;
    return fstat(fileno(c->file), &is) == 0 && S_ISREG(is.st_mode) && (is.st_uid == geteuid() || is.st_uid == 0) && !(is.st_mode & (S_IWGRP | S_IWOTH));
}

/* Everything up to the last eight bytes has the checksum that these are. */
static int is_whole(checkpoint *c)
{
    uint64_t sum = 0, stored = 0;
    off_t    left;
    if (fseeko(c->file, 0, SEEK_END) != 0 || (left = ftello(c->file)) < (off_t)sizeof sum || fseeko(c->file, 0, SEEK_SET) != 0)
        return 0;
    for (left -= (off_t)sizeof sum; left > 0;) {
        size_t n = left < (off_t)BLOCK ? (size_t)left : BLOCK;
        if (fread(c->block, 1, n, c->file) != n)
            return 0;
        sum = htc_hash64((htc_bytes){ c->block, n }, sum);
        left -= (off_t)n;
    }
    return fread(&stored, sizeof stored, 1, c->file) == 1 && stored == sum && fseeko(c->file, 0, SEEK_SET) == 0;
}

/* Names and values are shown in messages: none has what a terminal would obey. */
static int is_text(const char *line)
{
    for (; *line; line++)
        if (((unsigned char)*line < ' ' && *line != '\t') || *line == 127)
            return 0;
    return 1;
}

static int take_line(settings *s, char *line, htc_error *error)
{
    char *equals = strchr(line, '='), *end = strrchr(line, ']');
    line[strcspn(line, "\n")] = '\0';
    if (!is_text(line))
        return 0;
    if (line[0] == '[' && end) {
        *end = '\0';
        return settings_section_begins(s, line + 1, error);
    }
    if (!equals)
        return 0;
    *equals = '\0';
    return settings_set(s, line, equals + 1, error);
}

int checkpoint_read(checkpoint *c, const char *path, settings *s, htc_error *error)
{
    char line[1024] = "";
    *c = (checkpoint){ .tape = { .size = sizeof c->tape, .reads = 1, .move = get, .ctx = c } };
    *error = (htc_error){ 0 };
    c->block = malloc(BLOCK);
    c->file = c->block ? fopen(path, "rb") : NULL;
    if (!c->file) {
        refuse(error, HTC_EINPUT, path, strerror(errno), "give the FILE of an earlier --checkpoint FILE");
        checkpoint_close(c);
        return 0;
    }
    int ours = is_ours(c), good = ours && fgets(line, sizeof line, c->file) && strcmp(line, FIRST) == 0;
    if (!ours)
        refuse(error, HTC_EINPUT, path, "it is no file that you or root alone can have written", "if you trust who made it: cp FILE YOURS, chmod go-w YOURS, and resume YOURS");
    else if (!good)
        refuse(error, HTC_EFORMAT, path, "it is no checkpoint of this version", "give the FILE of an earlier --checkpoint FILE");
    else if (!(good = is_whole(c)))
        refuse(error, HTC_ECORRUPT, path, "it is damaged: its checksum does not hold", "run the experiment again");
    good = good && fgets(line, sizeof line, c->file);
    while (good && (good = fgets(line, sizeof line, c->file) != NULL) && line[0] != '\n')
        if (!(good = take_line(s, line, error)))
            break;
    if (good)
        return 1;
    if (!error->text[0])
        refuse(error, HTC_ECORRUPT, path, "its settings cannot be read", "run the experiment again");
    checkpoint_close(c);
    return 0;
}

void checkpoint_close(checkpoint *c)
{
    if (c->file)
        fclose(c->file);
    if (c->draft)
        unlink(c->draft);
    free(c->block);
    free(c->path);
    free(c->draft);
    *c = (checkpoint){ 0 };
}
