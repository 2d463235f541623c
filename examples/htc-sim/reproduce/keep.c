/* What runs have found, a file each, so that an interrupted command goes on. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/bytes.h"
#include "reproduce.h"

/* The content of a regular file, mixed in. 1; 0: it is none. */
static int mix_file(const char *path, uint64_t *sum)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (good && st.st_size > 0) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        good = at != MAP_FAILED;
        if (good) {
            *sum = htc_hash64((htc_bytes){ at, (size_t)st.st_size }, *sum);
            munmap(at, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
    return good;
}

static void mix(const char *text, uint64_t *sum)
{
    *sum = htc_hash64((htc_bytes){ text, strlen(text) + 1 }, *sum);
}

static int mix_library(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    if (strstr(info->dlpi_name, "htcsched"))
        (void)mix_file(info->dlpi_name, sum);
    return 0;
}

/* The program that runs: itself and our libraries. What is found by another one may differ. */
static uint64_t program(void)
{
    static uint64_t sum;
    if (sum == 0) {
        (void)mix_file("/proc/self/exe", &sum);
        dl_iterate_phdr(mix_library, &sum);
    }
    return sum;
}

/* A value that names a file stands for what the file has. */
static uint64_t setting_sum(const char *name, const char *value)
{
    uint64_t sum = 0;
    mix(name, &sum);
    mix(value, &sum);
    (void)mix_file(value, &sum);
    return sum;
}

/* Names in any order, and those alone whose values differ from what they are where they are not set; sections are in theirs. */
static void mix_settings(const settings *s, uint64_t *sum)
{
    const char *name, *value;
    uint64_t    all = 0;
    for (size_t i = 0; (name = settings_item(s, i, &value)); i++)
        if (!settings_is_fallback(s, name))
            all += setting_sum(name, value);
    for (size_t i = 0; (name = settings_any_section(s, i)); i++)
        mix(name, sum);
    *sum = htc_hash64((htc_bytes){ &all, sizeof all }, *sum);
}

uint64_t run_key(const series *s, size_t point, uint64_t seed)
{
    char      number[24];
    htc_error why;
    settings *all = s->model ? settings_copy(s->settings) : NULL;
    uint64_t  sum = program();
    mix(s->model ? s->model->name : s->command, &sum);
    if (all && (!s->varies[0] || settings_set(all, s->varies, s->point[point], &why)))
        mix_settings(all, &sum);
    else
        mix(s->point[point], &sum);
    settings_destroy(all);
    snprintf(number, sizeof number, "%llu", (unsigned long long)(s->seed + seed));
    mix(number, &sum);
    return sum;
}

static int name_of(const char *folder, const experiment *e, const series *s, size_t point, uint64_t seed, char *path, size_t room)
{
    int n = snprintf(path, room, "%s/%s.%s.%016llx.json", folder, e->id, s->name, (unsigned long long)run_key(s, point, seed));
    return n > 0 && (size_t)n < room;
}

/* Where pictures of it are drawn; "": nowhere. */
static void drawn_in(const char *pictures, char *out, size_t room)
{
    char *absolute = pictures ? realpath(pictures, NULL) : NULL;
    snprintf(out, room, "%s", absolute ? absolute : "");
    free(absolute);
}

int kept_find(const char *folder, const char *pictures, const experiment *e, const series *s, size_t point, uint64_t seed, outcome *o)
{
    char    path[1200], where[1024];
    json_t *kept = name_of(folder, e, s, point, seed, path, sizeof path) ? json_load_file(path, 0, NULL) : NULL, *values = json_object_get(kept, "values");
    const char *drawn = json_string_value(json_object_get(kept, "drawn"));
    drawn_in(pictures, where, sizeof where);
    int     good = values && (!where[0] || (drawn && strcmp(drawn, where) == 0));
    for (size_t m = 0; good && m < s->n_measures; m++) { /* a measure that is asked for since then is not there */
        const json_t *v = json_object_get(values, s->measure[m]);
        good = json_is_number(v);
        o->value[m] = json_number_value(v);
    }
    o->seconds = json_number_value(json_object_get(kept, "seconds"));
    o->done = good;
    json_decref(kept);
    return good;
}

void kept_write(const char *folder, const char *pictures, const experiment *e, const series *s, size_t point, uint64_t seed, const outcome *o)
{
    char    path[1200], where[1024], fresh[1240];
    json_t *values = json_object(), *kept;
    int     good = 1;
    drawn_in(pictures, where, sizeof where);
    for (size_t m = 0; m < s->n_measures && good; m++)
        good = json_object_set_new(values, s->measure[m], json_real(o->value[m])) == 0; /* not of what JSON cannot say: no number */
    kept = json_pack("{ss ss ss sI sf ss so}", "experiment", e->id, "series", s->name, "point", s->point[point], "seed", (json_int_t)(s->seed + seed), "seconds", o->seconds,
                     "drawn", where, "values", values);
    if (good && kept && name_of(folder, e, s, point, seed, path, sizeof path)) {
        snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
        if (json_dump_file(kept, fresh, JSON_COMPACT) != 0 || rename(fresh, path) != 0) { /* the run counts, though it will be done again */
            fprintf(stderr, "htc-sim: %s could not be written: %s\n", path, strerror(errno));
            unlink(fresh);
        }
    }
    json_decref(kept);
}
