/* What people read: aligned tables, times and sizes they can take in at a glance, colour only where it is seen. */
#include "htc.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Columns on the screen: the bytes that do not continue a UTF-8 character. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

void table_begin(table *t, ...)
{
    *t = (table){ 0 };
    const char *titles[TABLE_COLUMNS], *title;
    va_list     ap;
    va_start(ap, t);
    while ((title = va_arg(ap, const char *)) && t->columns < TABLE_COLUMNS) {
        t->right[t->columns] = title[0] == '>';
        titles[t->columns++] = title + (title[0] == '>');
    }
    va_end(ap);
    t->cap = 64 * t->columns;
    t->cells = must(malloc(t->cap * sizeof *t->cells));
    for (size_t i = 0; i < t->columns; i++)
        t->cells[i] = must_dup(titles[i]);
    t->rows = 1;
}

void table_row(table *t, const char *format, ...)
{
    char   *line;
    va_list ap;
    va_start(ap, format);
    if (vasprintf(&line, format, ap) < 0)
        line = must(NULL);
    va_end(ap);
    if ((t->rows + 1) * t->columns > t->cap) {
        t->cap *= 2;
        t->cells = must(realloc(t->cells, t->cap * sizeof *t->cells));
    }
    char *at = line;
    for (size_t i = 0; i < t->columns; i++) {
        char *tab = i + 1 < t->columns ? strchr(at, '\t') : NULL;
        if (tab)
            *tab = '\0';
        char *cell = must_dup(at);
        htc_text_show(cell);
        t->cells[t->rows * t->columns + i] = cell;
        at = tab ? tab + 1 : at + strlen(at);
    }
    t->rows++;
    free(line);
}

static void print_cell(const cli *c, const table *t, size_t row, size_t column, size_t width)
{
    const char *s = t->cells[row * t->columns + column];
    int         pad = (int)(width - width_of(s));
    const char *on = row == 0 && c->colour ? "\033[1m" : row > 0 ? colour_state(c, s) : "";
    const char *off = *on ? "\033[0m" : "";
    if (t->right[column])
        printf("%*s%s%s%s", pad, "", on, s, off);
    else
        printf("%s%s%s%*s", on, s, off, column + 1 < t->columns ? pad : 0, "");
    fputs(column + 1 < t->columns ? "  " : "\n", stdout);
}

void table_drop(table *t)
{
    for (size_t i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (table){ 0 };
}

void table_end(cli *c, table *t)
{
    size_t width[TABLE_COLUMNS] = { 0 };
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        size_t w = width_of(t->cells[i]);
        if (w > width[i % t->columns])
            width[i % t->columns] = w;
    }
    for (size_t r = 0; r < t->rows; r++)
        for (size_t i = 0; i < t->columns; i++)
            print_cell(c, t, r, i, width[i]);
    table_drop(t);
}

const char *colour_state(const cli *c, const char *state)
{
    static const struct {
        const char *state, *colour;
    } colours[] = {
        { "done", "\033[32m" },      { "running", "\033[36m" },    { "busy", "\033[36m" },
        { "failed", "\033[31m" },    { "cancelled", "\033[33m" },  { "done_with_failures", "\033[31m" },
        { "suspected", "\033[33m" }, { "retry_wait", "\033[33m" }, { "draining", "\033[33m" },
    };
    for (size_t i = 0; c->colour && i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(colours[i].state, state) == 0)
            return colours[i].colour;
    return "";
}

const char *colour_end(const cli *c)
{
    return c->colour ? "\033[0m" : "";
}

shown_text show_seconds(double s)
{
    shown_text t;
    if (!(s >= 0))
        snprintf(t.s, sizeof t.s, "-");
    else if (s < 60)
        snprintf(t.s, sizeof t.s, s < 10 ? "%.1fs" : "%.0fs", s);
    else if (s < 3600)
        snprintf(t.s, sizeof t.s, "%dm%02ds", (int)(s / 60), (int)fmod(s, 60));
    else if (s < 86400)
        snprintf(t.s, sizeof t.s, "%dh%02dm", (int)(s / 3600), (int)(fmod(s, 3600) / 60));
    else
        snprintf(t.s, sizeof t.s, "%.0fd%02dh", floor(s / 86400), (int)(fmod(s, 86400) / 3600));
    return t;
}

shown_text show_size(double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t                   u = 0;
    while (bytes >= 1024 && u + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        u++;
    }
    shown_text t;
    snprintf(t.s, sizeof t.s, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return t;
}

static shown_text show(double epoch, const char *format)
{
    shown_text t = { "-" };
    time_t     when = epoch < 1e15 ? (time_t)epoch : 0; /* what a gateway says */
    struct tm  tm;
    if (when > 0 && localtime_r(&when, &tm))
        strftime(t.s, sizeof t.s, format, &tm);
    return t;
}

shown_text show_time(double epoch)
{
    return show(epoch, "%Y-%m-%d %H:%M:%S");
}

shown_text show_clock(double epoch)
{
    return show(epoch, "%H:%M:%S");
}

double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void pause_ms(unsigned ms)
{
    struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000L };
    nanosleep(&ts, NULL);
}

void progress_begin(progress *p, cli *c)
{
    *p = (progress){ .c = c, .started = now_s() };
}

char *shown(const char *text)
{
    char *copy = must_dup(text);
    htc_text_show(copy);
    return copy;
}

void put_line(const char *text)
{
    char *line = shown(text);
    puts(line);
    free(line);
}

void put_warning(const char *warning)
{
    char *text = shown(warning);
    fprintf(stderr, "htc: warning: %s\n", text);
    free(text);
}

void put_warnings(const json_t *answer)
{
    size_t  i;
    json_t *warning;
    json_array_foreach(json_object_get(answer, "warnings"), i, warning)
        put_warning(json_string_value(warning));
}

void progress_say(progress *p, const char *format, ...)
{
    double now = now_s();
    if (!p->c->progress || now - p->started < 2 || now - p->shown < 0.2)
        return;
    va_list ap;
    char *line = NULL;
    va_start(ap, format);
    if (vasprintf(&line, format, ap) < 0)
        line = must(NULL);
    va_end(ap);
    htc_text_show(line);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    free(line);
    p->shown = now;
}

void progress_end(progress *p)
{
    if (p->shown > 0)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}

shown_text show_count(double n)
{
    shown_text t;
    snprintf(t.s, sizeof t.s, "%.0f", n);
    return t;
}
