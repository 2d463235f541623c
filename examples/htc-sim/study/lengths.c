#include "lengths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

#define LINE_MAX_BYTES 80
#define LENGTHS_MAX    ((size_t)1 << 28)

typedef struct list {
    htc_ns *at;
    size_t  n, room;
} list;

static int refuse(htc_error *error, htc_status status, const char *file, size_t line, const char *text, const char *hint)
{
    *error = (htc_error){ .status = status };
    if (line)
        snprintf(error->where, sizeof error->where, "%.130s:%zu", file, line);
    else
        snprintf(error->where, sizeof error->where, "%.150s", file);
    snprintf(error->text, sizeof error->text, "%s", text);
    snprintf(error->hint, sizeof error->hint, "%s", hint);
    return 0;
}

static int add(list *l, htc_ns length)
{
    if (l->n == l->room) {
        size_t  room = l->room ? 2 * l->room : 1024;
        htc_ns *more = realloc(l->at, room * sizeof *more);
        if (!more)
            return 0;
        l->at = more;
        l->room = room;
    }
    l->at[l->n++] = length;
    return 1;
}

/* Without what is behind a # and the spaces at both ends. */
static char *trim(char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t');)
        line[--n] = '\0';
    return line;
}

static int read_lines(FILE *in, const char *file, list *l, htc_error *error)
{
    char buffer[LINE_MAX_BYTES + 2];
    for (size_t line = 1; fgets(buffer, sizeof buffer, in); line++) {
        htc_ns length;
        if (!strchr(buffer, '\n') && !feof(in))
            return refuse(error, HTC_EINPUT, file, line, "the line is longer than 80 characters, or has a NUL", "write the length of one task in each line: 2.5s, 300ms");
        char *text = trim(buffer);
        if (!*text)
            continue;
        if (!value_span(text, &length))
            return refuse(error, HTC_EINPUT, file, line, "this is no length of a task", "write a span in each line: 2.5s, 300ms, 1h");
        if (l->n == LENGTHS_MAX)
            return refuse(error, HTC_ETOOBIG, file, line, "there are more than 2^28 lengths", "leave some out: tasks take them again and again");
        if (!add(l, length))
            return refuse(error, HTC_ENOMEM, file, line, "no memory for the lengths", "leave some out: tasks take them again and again");
    }
    if (ferror(in))
        return refuse(error, HTC_EIO, file, 0, strerror(errno), "give the name of a file with the length of a task in each line");
    return l->n > 0 || refuse(error, HTC_EINPUT, file, 0, "it has no length of a task", "write a span in each line: 2.5s, 300ms");
}

int lengths_read(const char *file, htc_ns **lengths, size_t *n, htc_error *error)
{
    list  l = { NULL, 0, 0 };
    FILE *in = fopen(file, "rb");
    if (!in)
        return refuse(error, HTC_EINPUT, file, 0, strerror(errno), "give the name of a file with the length of a task in each line; a relative one is looked for beside the INI file");
    int done = read_lines(in, file, &l, error);
    fclose(in);
    if (!done) {
        free(l.at);
        return 0;
    }
    *lengths = l.at;
    *n = l.n;
    return 1;
}
