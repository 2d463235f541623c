#include "chart.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

static const char *const svg_colour[] = { "#4472c4", "#ed7d31", "#70ad47", "#c0504d",
                                          "#7e57c2", "#26a69a", "#8d6e63", "#607d8b" };
#define COLOURS (sizeof svg_colour / sizeof svg_colour[0])
static const int terminal_colour[COLOURS] = { 34, 33, 32, 31, 35, 36, 37, 90 };

size_t chart_user(chart *c, const char *name)
{
    for (size_t i = 0; i < c->users; i++)
        if (strcmp(c->name[i], name) == 0)
            return i;
    if (c->users == CHART_USERS) {
        strcpy(c->name[CHART_USERS - 1], "others");
        return CHART_USERS - 1;
    }
    snprintf(c->name[c->users], sizeof c->name[0], "%s", name);
    return c->users++;
}

void chart_add(chart *c, size_t user, double start, double end)
{
    double width = (c->to - c->from) / CHART_BINS;
    if (!(width > 0) || !(end > start) || end <= c->from || start >= c->to)
        return;
    start = fmax(start - c->from, 0) / width; /* in bins from here on */
    end = fmin((end - c->from) / width, CHART_BINS);
    for (size_t bin = (size_t)start; bin < CHART_BINS && (double)bin < end; bin++)
        c->held[user][bin] += fmax(0, fmin((double)bin + 1, end) - fmax((double)bin, start));
}

/* Mean over the bins that make up a column. */
static double column_mean(const chart *c, size_t user, int column, int columns)
{
    size_t first = (size_t)column * CHART_BINS / (size_t)columns;
    size_t last = (size_t)(column + 1) * CHART_BINS / (size_t)columns;
    double sum = 0;
    for (size_t b = first; b < last; b++)
        sum += c->held[user][b];
    return last > first ? sum / (double)(last - first) : 0;
}

/* Which user's part of the stack reaches this height; users: nobody's. */
static size_t owner(const chart *c, int column, int columns, double height)
{
    double sum = 0;
    for (size_t u = 0; u < c->users; u++) {
        sum += column_mean(c, u, column, columns);
        if (height < sum)
            return u;
    }
    return c->users;
}

int chart_columns(FILE *out)
{
    struct winsize w;
    if (ioctl(fileno(out), TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_col >= 78)
        return 70;
    return w.ws_col > 28 ? w.ws_col - 8 : 20;
}

void chart_print(const chart *c, FILE *out, uint32_t colour, uint64_t slots, int columns)
{
    int rows = slots < 8 ? (int)(slots * (slots < 5 ? 2 : 1)) : slots < 16 ? (int)slots : 16;
    for (int r = rows - 1; r >= 0; r--) {
        double height = ((double)r + 0.5) * (double)slots / rows;
        double label = (double)(r + 1) * (double)slots / rows;
        if (fabs(label - round(label)) < 1e-9)
            fprintf(out, "%5.0f |", label);
        else
            fprintf(out, "      |");
        size_t before = c->users;
        for (int x = 0; x < columns; x++) {
            size_t u = owner(c, x, columns, height);
            if (colour && u != before && u < c->users)
                fprintf(out, "\033[%dm", terminal_colour[u % COLOURS]);
            if (u == c->users)
                fputc(' ', out);
            else if (colour)
                fputs("\u2588", out);
            else
                fputc('A' + (int)u, out);
            before = u;
        }
        fputs(colour ? "\033[0m\n" : "\n", out);
    }
    fprintf(out, "      +");
    for (int x = 0; x < columns; x++)
        fputc(x % 10 == 9 ? '+' : '-', out);
    fprintf(out, "\n       0%*.0f s\n      ", columns - 3, c->to - c->from);
    for (size_t u = 0; u < c->users; u++)
        if (colour)
            fprintf(out, "  \033[%dm\u2588\033[0m %s", terminal_colour[u % COLOURS], c->name[u]);
        else
            fprintf(out, "  %c %s", 'A' + (int)u, c->name[u]);
    fputc('\n', out);
}

static void put_text(FILE *out, const char *s)
{
    for (; *s; s++)
        if (*s == '<' || *s == '&' || (unsigned char)*s < ' ')
            fprintf(out, "&#%d;", *s == '<' || *s == '&' ? *s : '?');
        else
            fputc(*s, out);
}

enum { LEFT = 50, WIDE = 720, HIGH = 180, TOP = 40, GAP = 90 };

static void svg_part(const chart *c, const char *title, double seconds, uint64_t slots, int top, FILE *out)
{
    double below[CHART_BINS] = { 0 }, x_of = WIDE * (c->to - c->from) / seconds / CHART_BINS,
           y_of = HIGH / (double)slots;
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">", LEFT, top - 12);
    put_text(out, title);
    fprintf(out, "</text>\n");
    for (uint64_t y = 0; y <= slots; y += slots > 16 ? (slots + 7) / 8 : 1)
        fprintf(out,
                "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%llu</text>\n",
                LEFT, top + HIGH - (double)y * y_of, WIDE, LEFT - 6, top + HIGH - (double)y * y_of + 4,
                (unsigned long long)y);
    for (size_t u = 0; u < c->users; u++) {
        fprintf(out, "<path fill=\"%s\" d=\"M%d %.1f", svg_colour[u % COLOURS], LEFT, top + HIGH - below[0] * y_of);
        for (int b = 0; b < CHART_BINS; b++)
            fprintf(out, "L%.2f %.2fH%.2f", LEFT + b * x_of, top + HIGH - (below[b] + c->held[u][b]) * y_of,
                    LEFT + (b + 1) * x_of);
        for (int b = CHART_BINS - 1; b >= 0; b--)
            fprintf(out, "L%.2f %.2fH%.2f", LEFT + (b + 1) * x_of, top + HIGH - below[b] * y_of, LEFT + b * x_of);
        fprintf(out, "z\"><title>");
        put_text(out, c->name[u]);
        fprintf(out, "</title></path>\n");
        for (int b = 0; b < CHART_BINS; b++)
            below[b] += c->held[u][b];
    }
    for (int i = 0; i <= 6; i++)
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.0f s</text>\n", LEFT + i * WIDE / 6,
                top + HIGH + 16, seconds * i / 6);
    for (size_t u = 0; u < c->users; u++) {
        int x = LEFT + (int)(u % 8) * 90, y = top + HIGH + 30;
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">", x, y,
                svg_colour[u % COLOURS], x + 14, y + 9);
        put_text(out, c->name[u]);
        fprintf(out, "</text>\n");
    }
}

void chart_svg(const chart *c, const char *title, const chart *second, const char *second_title, uint64_t slots,
               FILE *out)
{
    double seconds = fmax(fmax(c->to - c->from, second ? second->to - second->from : 0), 1e-3);
    int    height = TOP + HIGH + GAP + (second ? HIGH + GAP : 0);
    if (slots == 0)
        slots = 1;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + WIDE + 30, height);
    svg_part(c, title, seconds, slots, TOP, out);
    if (second)
        svg_part(second, second_title, seconds, slots, TOP + HIGH + GAP, out);
    fprintf(out, "</svg>\n");
}
