#include "ini.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1 << 20)

typedef struct reading {
    ini_taker   take;
    void       *ctx;
    htc_error  *error;
    const char *file, *at, *end;
    uint32_t    line;
    int         failed;
} reading;

/* The file's own words are in it: none of them is one of the terminal's. */
static void fail_at(reading *r, uint32_t line)
{
    r->failed = 1;
    r->error->line = line;
    snprintf(r->error->where, sizeof r->error->where, "%.140s:%u", r->file, (unsigned)line);
    htc_text_show(r->error->where);
    htc_text_show(r->error->text);
    htc_text_show(r->error->hint);
}

static void fail(reading *r, uint32_t line, const char *text, const char *hint)
{
    *r->error = (htc_error){ .status = HTC_ECONFIG };
    snprintf(r->error->text, sizeof r->error->text, "%s", text);
    snprintf(r->error->hint, sizeof r->error->hint, "%s", hint);
    fail_at(r, line);
}

/* inih says nothing of a section in which nothing is set. */
static void begin_section(reading *r, const char *line, size_t n)
{
    char        name[256];
    const char *end = n && line[0] == '[' ? memchr(line, ']', n) : NULL;
    if (!end || (size_t)(end - line) > sizeof name)
        return;
    memcpy(name, line + 1, (size_t)(end - line) - 1);
    name[end - line - 1] = '\0';
    if (!r->take(r->ctx, r->line, name, NULL, NULL, r->error))
        fail_at(r, r->line);
}

/* A line at a time, so that its number is known; not indented, which inih takes for more of the value before it. */
static char *next_line(char *out, int room, void *ctx)
{
    reading *r = ctx;
    if (r->failed || r->at >= r->end)
        return NULL;
    r->line++;
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at)), *stop = newline ? newline : r->end;
    const char *from = r->at + strspn(r->at, " \t");
    size_t      n = from < stop ? (size_t)(stop - from) : 0;
    r->at = newline ? newline + 1 : r->end;
    if (n + 2 > (size_t)room) {
        fail(r, r->line, "the line is too long", "give its values in another form");
        return NULL;
    }
    begin_section(r, from, n);
    memcpy(out, from, n);
    out[n] = '\n';
    out[n + 1] = '\0';
    return out;
}

static int take(void *ctx, const char *section, const char *key, const char *value)
{
    reading *r = ctx;
    if (!r->failed && !r->take(r->ctx, r->line, section, key, value, r->error))
        fail_at(r, r->line);
    return 1;
}

static char *read_all(const char *file, size_t *n)
{
    FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "rb");
    char *text = f ? malloc(FILE_MAX + 1) : NULL;
    *n = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
    int why = f && text && !ferror(f) ? 0 : errno;
    if (f && f != stdin)
        fclose(f);
    if (!why && *n > FILE_MAX)
        why = EFBIG;
    if (!why && memchr(text, '\0', *n))
        why = EINVAL; /* it is no text */
    if (why) {
        free(text);
        errno = why;
        return NULL;
    }
    text[*n] = '\0';
    return text;
}

struct ini_text {
    char  *file, *text;
    size_t n;
};

const char *experiments_folder(void)
{
    return access("examples/sim", R_OK) == 0 ? "examples/sim" : HTC_SIM_EXPERIMENTS;
}

ini_text *ini_open(const char *file, htc_error *error)
{
    ini_text *t = calloc(1, sizeof *t);
    *error = (htc_error){ .status = HTC_EINPUT };
    errno = ENOMEM;
    if (t && (t->file = strdup(file)) && (t->text = read_all(file, &t->n)))
        return t;
    snprintf(error->where, sizeof error->where, "%.150s", file);
    snprintf(error->text, sizeof error->text, "it cannot be read: %s", errno == EINVAL ? "it is no text" : strerror(errno));
    snprintf(error->hint, sizeof error->hint, "give the name of an INI file; %.90s/fairshare.ini is one", experiments_folder());
    ini_close(t);
    return NULL;
}

void ini_close(ini_text *t)
{
    if (!t)
        return;
    free(t->file);
    free(t->text);
    free(t);
}

typedef struct search {
    const char *section, *key;
    char       *out;
    size_t      room;
    int         found;
} search;

static int look(void *ctx, const char *section, const char *key, const char *value)
{
    search *s = ctx;
    if (strcmp(section, s->section) == 0 && strcmp(key, s->key) == 0) {
        snprintf(s->out, s->room, "%s", value);
        s->found = 1;
    }
    return 1;
}

int ini_find(const ini_text *t, const char *section, const char *key, char *out, size_t room)
{
    search s = { section, key, out, room, 0 };
    (void)ini_parse_string(t->text, look, &s); /* what is wrong is told when it is read */
    return s.found;
}

int ini_each(const ini_text *t, ini_taker taker, void *ctx, htc_error *error)
{
    reading r = { taker, ctx, error, t->file, t->text, t->text + t->n, 0, 0 };
    *error = (htc_error){ .status = HTC_EINPUT };
    int bad = ini_parse_stream(next_line, &r, take, &r);
    if (bad > 0 && (!r.failed || (uint32_t)bad < error->line)) /* the first mistake is told */
        fail(&r, (uint32_t)bad, "the line is neither [SECTION] nor KEY = VALUE", "comments begin with ;");
    else if (bad < 0 && !r.failed)
        fail(&r, r.line, "no memory", "make the file smaller");
    return !r.failed;
}

int ini_is_of_experiment(const char *section)
{
    return strcmp(section, "reproduce") == 0 || strncmp(section, "series.", 7) == 0 || strncmp(section, "claim.", 6) == 0;
}

typedef struct setting_file {
    settings   *s;
    const char *file;
} setting_file;

static int set(void *ctx, uint32_t line, const char *section, const char *key, const char *value, htc_error *error)
{
    setting_file *f = ctx;
    char          name[256];
    if (ini_is_of_experiment(section))
        return 1;
    if (!key)
        return settings_section_begins(f->s, section, error);
    snprintf(name, sizeof name, "%s%s%s", section, section[0] ? "." : "", key);
    if (!settings_set(f->s, name, value, error))
        return 0;
    settings_stands(f->s, f->file, line);
    return 1;
}

int ini_read(settings *s, const ini_text *t, htc_error *error)
{
    *error = (htc_error){ .status = HTC_ENOMEM, .text = "no memory for the settings" };
    if (!settings_beside(s, t->file))
        return 0;
    setting_file f = { s, t->file };
    int          good = ini_each(t, set, &f, error);
    (void)settings_beside(s, NULL);
    return good;
}
