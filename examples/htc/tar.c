#include "tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 512

struct tar_writer {
    int      fd;
    uint64_t size; /* of the present file */
};

tar_writer *tar_open(int fd)
{
    tar_writer *t = calloc(1, sizeof *t);
    if (t)
        t->fd = fd;
    return t;
}

int tar_write(tar_writer *t, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(t->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int pad(tar_writer *t, uint64_t size)
{
    static const char zeros[BLOCK];
    return size % BLOCK ? tar_write(t, zeros, BLOCK - (size_t)(size % BLOCK)) : 0;
}

/* Numbers beyond 8 GiB do not fit eleven octal digits: base 256, as every tar of today reads. */
static void put_size(char *field, uint64_t size)
{
    if (size < UINT64_C(1) << 33)
        snprintf(field, 12, "%011" PRIo64, size);
    else {
        memset(field, 0, 12);
        field[0] = (char)0x80;
        for (int i = 11; size; i--, size >>= 8)
            field[i] = (char)(size & 0xFF);
    }
}

static int header(tar_writer *t, const char *name, uint64_t size, uint64_t mtime, char type, unsigned mode, const char *target)
{
    char h[BLOCK] = { 0 };
    memcpy(h, name, strnlen(name, 100));
    snprintf(h + 100, 8, "%07o", mode);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    put_size(h + 124, size);
    snprintf(h + 136, 12, "%011" PRIo64, mtime & UINT64_C(0x1FFFFFFFF));
    memset(h + 148, ' ', 8);
    h[156] = type;
    memcpy(h + 157, target, strnlen(target, 100));
    memcpy(h + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum & 0777777);
    return tar_write(t, h, BLOCK);
}

/* A record "LENGTH KEY=VALUE\n" whose length counts itself, where the header has too little room for the value. */
static int long_value(tar_writer *t, const char *key, const char *value, uint64_t mtime)
{
    if (strlen(value) <= 100)
        return 0;
    size_t body = strlen(key) + strlen(value) + strlen(" =\n"), len = body + 1;
    for (int i = 0; i < 4; i++)
        len = body + (size_t)snprintf(NULL, 0, "%zu", len);
    char *record = malloc(len + 1);
    if (!record)
        return -1;
    snprintf(record, len + 1, "%zu %s=%s\n", len, key, value);
    int failed = header(t, "pax", len, mtime, 'x', 0644, "") || tar_write(t, record, len) || pad(t, len);
    free(record);
    return failed ? -1 : 0;
}

int tar_begin(tar_writer *t, const char *name, uint64_t size, uint64_t mtime, int executable)
{
    t->size = size;
    if (long_value(t, "path", name, mtime) != 0)
        return -1;
    return header(t, name, size, mtime, '0', executable ? 0755 : 0644, "");
}

int tar_dir(tar_writer *t, const char *name, uint64_t mtime)
{
    if (long_value(t, "path", name, mtime) != 0)
        return -1;
    return header(t, name, 0, mtime, '5', 0755, "");
}

/* Two values too long for the header would need one record of both: a link of that kind is refused. */
int tar_link(tar_writer *t, const char *name, const char *target, uint64_t mtime)
{
    if (strlen(name) > 100 && strlen(target) > 100) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (long_value(t, "path", name, mtime) != 0 || long_value(t, "linkpath", target, mtime) != 0)
        return -1;
    return header(t, name, 0, mtime, '2', 0777, target);
}

int tar_fd(const tar_writer *t)
{
    return t->fd;
}

int tar_finish(tar_writer *t)
{
    return pad(t, t->size);
}

int tar_close(tar_writer *t)
{
    static const char end[2 * BLOCK];
    int               failed = tar_write(t, end, sizeof end) != 0;
    free(t);
    return failed ? -1 : 0;
}
