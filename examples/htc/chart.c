#include "chart.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

static const char *const svg_colour[CHART_USERS] = { "#4472c4", "#ed7d31", "#70ad47", "#c0504d", "#7e57c2", "#26a69a", "#8d6e63", "#607d8b",
                                                     "#9dc3e6", "#f8cbad", "#c5e0b4", "#e6b8b7", "#cbb8e9", "#a8dcd5", "#d7ccc8", "#b0bec5" };
static const int terminal_colour[] = { 34, 33, 32, 31, 35, 36, 37, 90 };
#define COLOURS (sizeof terminal_colour / sizeof terminal_colour[0])

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

void chart_add(chart *c, size_t user, double start, double end, double cores)
{
    double width = (c->to - c->from) / CHART_BINS;
    if (!(width > 0) || !(end > start) || end <= c->from || start >= c->to)
        return;
    start = fmax(start - c->from, 0) / width; /* in bins from here on */
    end = fmin((end - c->from) / width, CHART_BINS);
    for (size_t bin = (size_t)start; bin < CHART_BINS && (double)bin < end; bin++)
        c->held[user][bin] += cores * fmax(0, fmin((double)bin + 1, end) - fmax((double)bin, start));
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

/* The unit in which this many seconds are a number of few digits. */
static const char *time_unit(double seconds, double *one)
{
    *one = seconds < 2e4 ? 1 : seconds < 1e6 ? 3600 : 86400;
    return seconds < 2e4 ? "s" : seconds < 1e6 ? "h" : "d";
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
    int labels = snprintf(NULL, 0, "%5.0f", (double)slots); /* columns of them */

    double      one, span = c->to - c->from;
    const char *unit = time_unit(span, &one);
    span /= one;
    for (int r = rows - 1; r >= 0; r--) {
        double height = ((double)r + 0.5) * (double)slots / rows;
        double label = (double)(r + 1) * (double)slots / rows;
        if (fabs(label - round(label)) < 1e-9)
            fprintf(out, "%*.0f |", labels, label);
        else
            fprintf(out, "%*s |", labels, "");
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
    fprintf(out, "%*s +", labels, "");
    for (int x = 0; x < columns; x++)
        fputc(x % 10 == 9 ? '+' : '-', out);
    fprintf(out, "\n%*s  0%*.*f %s\n      ", labels, "", columns - 3, span < 10 ? 2 : span < 100 ? 1 : 0, span, unit);
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

enum { LEFT = 60, WIDE = 720, HIGH = 180, TOP = 40, LEGEND = 30, ROW = 16, BELOW = 40 };

/* 1, 2, 5, 10, 20 ... of which about as many as asked make the range. */
static double step_of(double range, double steps)
{
    double raw = range / steps, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void put_number(FILE *out, double v)
{
    if (v >= 1e9)
        fprintf(out, "%.4gG", v / 1e9);
    else if (v >= 1e6)
        fprintf(out, "%.4gM", v / 1e6);
    else if (v >= 1e4)
        fprintf(out, "%.4gK", v / 1e3);
    else
        fprintf(out, "%.0f", v);
}

/* What the parts of the stack add up to where they are the highest. */
static double peak_of(const chart *c)
{
    double peak = 0;
    for (int b = 0; b < CHART_BINS; b++) {
        double sum = 0;
        for (size_t u = 0; u < c->users; u++)
            sum += c->held[u][b];
        peak = fmax(peak, sum);
    }
    return peak;
}

/* Names with their colours, as many in a row as there is room for; how many rows these are. Nothing is drawn without a file. */
static int legend(const chart *c, int top, FILE *out)
{
    int x = LEFT, rows = 1;
    for (size_t u = 0; u < c->users; u++) {
        int wide = 30 + 8 * (int)strlen(c->name[u]);
        wide = wide > 90 ? wide : 90;
        if (x > LEFT && x + wide > LEFT + WIDE) {
            x = LEFT;
            rows++;
        }
        if (out) {
            int y = top + (rows - 1) * ROW;
            fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">", x, y, svg_colour[u], x + 14, y + 9);
            put_text(out, c->name[u]);
            fprintf(out, "</text>\n");
        }
        x += wide;
    }
    return rows;
}

static void grid(double most, double seconds, int top, FILE *out)
{
    double      one, span, step = fmax(1, step_of(most, 8));
    const char *unit = time_unit(seconds, &one);
    for (double y = 0; y <= most * (1 + 1e-9); y += step) {
        fprintf(out, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT, top + HIGH - y / most * HIGH, WIDE,
                LEFT - 6, top + HIGH - y / most * HIGH + 4);
        put_number(out, y);
        fprintf(out, "</text>\n");
    }
    span = seconds / one;
    step = step_of(span, 6);
    for (int i = 0; i * step <= span * (1 + 1e-9); i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g %s</text>\n", LEFT + i * step / span * WIDE, top + HIGH + 16, i * step, unit);
}

static void svg_part(const chart *c, const char *title, double seconds, double most, int top, FILE *out)
{
    double below[CHART_BINS] = { 0 }, x_of = WIDE * (c->to - c->from) / seconds / CHART_BINS, y_of = HIGH / most;
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">", LEFT, top - 12);
    put_text(out, title);
    fprintf(out, "</text>\n");
    grid(most, seconds, top, out);
    for (size_t u = 0; u < c->users; u++) {
        fprintf(out, "<path fill=\"%s\" d=\"M%d %.1f", svg_colour[u], LEFT, top + HIGH - below[0] * y_of);
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
    legend(c, top + HIGH + LEGEND, out);
}

void chart_svg(const chart *c, const char *title, const chart *second, const char *second_title, uint64_t slots, uint64_t second_slots, FILE *out)
{
    double seconds = fmax(fmax(c->to - c->from, second ? second->to - second->from : 0), 1e-3);
    double most = fmax(fmax((double)slots, peak_of(c)), 1);
    int    below = HIGH + LEGEND + ROW * legend(c, 0, NULL) + BELOW; /* of the first part, with the title of the second one */
    int    height = TOP + below + (second ? HIGH + LEGEND + ROW * legend(second, 0, NULL) + BELOW : 0) - BELOW / 2;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + WIDE + 30, height);
    svg_part(c, title, seconds, most, TOP, out);
    if (second)
        svg_part(second, second_title, seconds, fmax(fmax((double)second_slots, peak_of(second)), 1), TOP + below, out);
    fprintf(out, "</svg>\n");
}
