/* DIR/shards: "htc-kvd shards 1", "count N", and "alone" if they are the whole store. */
#include "shards_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void name_file(const member *m, char *path, size_t cap)
{
    snprintf(path, cap, "%s/shards", htc_state_dir(m->d->state));
}

htc_status shards_dir_read(const member *m, shards_dir *dir)
{
    char     path[4200], line[80];
    unsigned format = 0, count = 0;
    name_file(m, path, sizeof path);
    *dir = (shards_dir){ 0 };
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return HTC_OK;
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "htc-kvd shards %u", &format);
        sscanf(line, "count %u", &count);
        dir->alone |= strcmp(line, "alone\n") == 0;
    }
    if (f)
        fclose(f);
    if (format != 1 || count < 2 || count > SHARDS_MAX)
        return member_wrong(m->d, HTC_EFORMAT, "look at it", "%.300s is damaged, or of another version", path);
    dir->count = count;
    return HTC_OK;
}

htc_status shards_dir_write(const member *m, const shards_dir *dir)
{
    char path[4200], text[80];
    name_file(m, path, sizeof path);
    snprintf(text, sizeof text, "htc-kvd shards 1\ncount %" PRIu32 "\n%s", dir->count, dir->alone ? "alone\n" : "");
    return htc_state_write_file(path, htc_bytes_of(text), 0600, &m->d->error);
}

htc_status shards_dir_open(const member *m, uint32_t nth, htc_state **out)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/shard-%" PRIu32, htc_state_dir(m->d->state), nth);
    return htc_state_open(NULL, path, 1, out, &m->d->error);
}
