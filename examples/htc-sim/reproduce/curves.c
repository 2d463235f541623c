/* Curves over what varies, with published values as rings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../study/plot.h"
#include "../study/values.h"
#include "reproduce.h"

enum { LEFT = 70, WIDE = 640, HIGH = 300, TOP = 46, BELOW = 60, ROW = 18 };
static const char *const colours[] = { "#4472c4", "#ed7d31", "#70ad47", "#c0504d", "#7e57c2", "#26a69a", "#8d6e63", "#607d8b" };
#define COLOURS (sizeof colours / sizeof *colours)

typedef struct axis {
    double least, most;
    int    log;
} axis;

static void text(FILE *out, const char *s)
{
    for (; *s; s++)
        if (*s == '<' || *s == '&')
            fprintf(out, "&#%d;", *s);
        else
            fputc((unsigned char)*s < ' ' ? '?' : *s, out);
}

/* Where a value of what varies lies: its number, or its place. */
static double x_of(const series *s, size_t i, int places)
{
    uint64_t n;
    double   v;
    htc_ns   span;
    if (!places && value_count(s->point[i], &n))
        return (double)n;
    if (!places && value_real(s->point[i], &v))
        return v;
    return !places && value_span(s->point[i], &span) ? (double)span / 1e9 : (double)i;
}

/* The key without its section: series of two models may vary the same thing under two names. */
static const char *bare(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static int in_picture(const series *s, const series *first)
{
    return s->plot[0] && strcmp(s->plot, first->plot) == 0 && s->n > 1 && strcmp(bare(s->varies), bare(first->varies)) == 0;
}

int curve_begins(const experiment *e, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (in_picture(&e->series[i], &e->series[at]))
            return 0;
    return in_picture(&e->series[at], &e->series[at]);
}

static void widen(axis *a, double v)
{
    if (!isfinite(v))
        return;
    a->least = fmin(a->least, v);
    a->most = fmax(a->most, v);
}

static double place(const axis *a, double v)
{
    double from = a->log ? log(a->least) : a->least, to = a->log ? log(a->most) : a->most;
    return to > from ? ((a->log ? log(v) : v) - from) / (to - from) : 0.5;
}

static double at_x(const axis *a, double v)
{
    return LEFT + WIDE * place(a, v);
}

static double at_y(const axis *a, double v)
{
    return TOP + HIGH - HIGH * place(a, v);
}

/* 1, 2, 5, 10, 20 ... that makes four to ten steps. */
static double step_of(double range)
{
    double raw = range / 10, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void number(double v, char *out, size_t room)
{
    double size = fabs(v);
    if (size >= 1e9)
        snprintf(out, room, "%.3gG", v / 1e9);
    else if (size >= 1e6)
        snprintf(out, room, "%.3gM", v / 1e6);
    else if (size >= 1e4)
        snprintf(out, room, "%.3gK", v / 1e3);
    else
        snprintf(out, room, "%.4g", v);
}

static void grid_y(const axis *a, FILE *out)
{
    char   shown[32];
    double step = a->log ? 10 : step_of(a->most - a->least), v = a->log ? pow(10, ceil(log10(a->least) - 1e-9)) : ceil(a->least / step) * step;
    for (; v <= a->most * (1 + 1e-9) + (a->log ? 0 : step * 1e-6); v = a->log ? v * step : v + step) {
        number(fabs(v) < step * 1e-6 ? 0 : v, shown, sizeof shown);
        fprintf(out, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT, at_y(a, v), WIDE, LEFT - 6,
                at_y(a, v) + 4, shown);
    }
}

static void grid_x(const series *s, const axis *a, int places, FILE *out)
{
    double free_from = -100; /* behind the last label */
    for (size_t i = 0; i < s->n; i++) {
        double at = x_of(s, i, places), x = at_x(a, at), half = 4.0 * (double)strlen(s->point[i]);
        if (x - half < free_from || at < a->least || at > a->most)
            continue;
        free_from = x + half + 4;
        fprintf(out, "<path d=\"M%.1f %dv4\" stroke=\"#888\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, TOP + HIGH, x, TOP + HIGH + 18);
        text(out, s->point[i]);
        fprintf(out, "</text>\n");
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT + WIDE / 2, TOP + HIGH + 36);
    text(out, s->varies);
    fprintf(out, "</text>\n");
}

static void curve(const series *s, const axis *x, const axis *y, int places, size_t number, FILE *out)
{
    const char *colour = colours[number % COLOURS];
    int         m = 0, open = 0;
    while (strcmp(s->measure[m], s->plot) != 0)
        m++;
    fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", colour);
    for (size_t i = 0; i < s->n; i++)
        if (s->ran[i] && isfinite(s->found[i][m].mean) && (!y->log || s->found[i][m].mean > 0)) {
            fprintf(out, "%c%.1f %.1f", open ? 'L' : 'M', at_x(x, x_of(s, i, places)), at_y(y, s->found[i][m].mean));
            open = 1;
        }
    fprintf(out, "\"/>\n");
    for (size_t i = 0; i < s->n; i++)
        if (s->ran[i] && isfinite(s->found[i][m].mean) && (!y->log || s->found[i][m].mean > 0))
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%.6g</title></circle>\n", at_x(x, x_of(s, i, places)), at_y(y, s->found[i][m].mean),
                    colour, s->found[i][m].mean);
    for (size_t i = 0; i < s->n_published; i++)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"><title>published: %.6g</title></circle>\n",
                at_x(x, x_of(s, s->published[i].point, places)), at_y(y, s->published[i].value), colour, s->published[i].value);
}

static void extent(const experiment *e, const series *first, int places, axis *x, axis *y)
{
    *x = *y = (axis){ INFINITY, -INFINITY, 0 };
    for (size_t k = 0; k < e->n_series; k++) {
        const series *s = &e->series[k];
        int           m = 0;
        if (!in_picture(s, first))
            continue;
        while (strcmp(s->measure[m], s->plot) != 0)
            m++;
        for (size_t i = 0; i < s->n; i++) {
            if (!s->ran[i])
                continue;
            widen(x, x_of(s, i, places));
            widen(y, s->found[i][m].mean);
        }
        for (size_t i = 0; i < s->n_published; i++) {
            widen(x, x_of(s, s->published[i].point, places));
            widen(y, s->published[i].value);
        }
    }
    x->log = x->least > 0 && x->most / x->least >= 16;
    y->log = y->least > 0 && y->most / y->least >= 100;
    if (!y->log) {
        y->least = fmin(0, y->least);
        y->most = y->most > y->least ? y->most + (y->most - y->least) * 0.05 : y->least + 1;
    }
}

static const char *name_of(const series *s)
{
    return s->about[0] ? s->about : s->name;
}

/* Names with their colours, as many in a row as there is room for; how many rows these are. Nothing is drawn without a file. */
static int legend(const experiment *e, const series *first, FILE *out)
{
    int    x = LEFT, rows = 1;
    size_t number = 0;
    for (size_t k = 0; k < e->n_series; k++) {
        const series *s = &e->series[k];
        if (!in_picture(s, first))
            continue;
        int wide = 34 + 7 * (int)strlen(name_of(s));
        if (x > LEFT && x + wide > LEFT + WIDE) {
            x = LEFT;
            rows++;
        }
        if (out) {
            int y = TOP + HIGH + 50 + (rows - 1) * ROW;
            fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">", x, y, colours[number++ % COLOURS], x + 14, y + 9);
            text(out, name_of(s));
            fprintf(out, "</text>\n");
        }
        x += wide;
    }
    return rows;
}

static int draw(const experiment *e, const series *first, const char *folder)
{
    axis     x, y;
    char     name[160];
    uint64_t count;
    double   real;
    htc_ns   span;
    int      places = 0;
    for (size_t i = 0; i < first->n; i++) /* a name among the values: their places are drawn */
        places |= !value_count(first->point[i], &count) && !value_real(first->point[i], &real) && !value_span(first->point[i], &span);
    extent(e, first, places, &x, &y);
    if (!isfinite(x.least) || !isfinite(y.least))
        return 0;
    snprintf(name, sizeof name, "%s-%s", e->id, first->plot);
    FILE *out = plot_open(folder, name, "", "svg");
    if (!out)
        return -1;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"20\" font-weight=\"bold\">",
            LEFT + WIDE + 30, TOP + HIGH + BELOW + ROW * legend(e, first, NULL), LEFT);
    text(out, e->name);
    fprintf(out, ": ");
    text(out, first->plot);
    fprintf(out, "</text>\n");
    for (size_t k = 0, told = 0; k < e->n_series && !told; k++)
        if (in_picture(&e->series[k], first) && e->series[k].n_published > 0) {
            fprintf(out, "<text x=\"%d\" y=\"36\">a ring is a published value</text>\n", LEFT);
            told = 1;
        }
    grid_y(&y, out);
    grid_x(first, &x, places, out);
    legend(e, first, out);
    size_t number = 0;
    for (size_t k = 0; k < e->n_series; k++)
        if (in_picture(&e->series[k], first))
            curve(&e->series[k], &x, &y, places, number++, out);
    fprintf(out, "</svg>\n");
    return plot_close(out);
}

int curves_draw(const experiment *e, const char *folder)
{
    int bad = 0;
    for (size_t i = 0; i < e->n_series; i++)
        if (curve_begins(e, i))
            bad |= draw(e, &e->series[i], folder) != 0;
    return bad ? -1 : 0;
}
