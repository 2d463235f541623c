/* Pictures of a flow: the graph as DOT or laid out by depth, and the load of its workers as a map of tiles. */
#include "flow.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAID_OUT_MAX 1000 /* tasks; beyond, Graphviz has better ways */

static const char *const fills[FLOW_TASK_STATES] = { "#ffffff", "#eeeeee", "#fff2cc", "#c6e0b4", "#f4b6b6", "#d0d0d0" };
static const char *const rules[] = { "ok", "any", "failed" };

static const char *rule_name(uint8_t rule)
{
    return rule < sizeof rules / sizeof *rules ? rules[rule] : "?";
}

static uint8_t rule_of(const flow_graph *g, const flow_edge *e)
{
    return g->waits[g->tasks[e->child].waits + e->place].rule;
}

/* ---- DOT ---- */

static void put_dot_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc(*p < ' ' || *p == 127 ? '?' : *p, out);
    }
    fputc('"', out);
}

static void write_dot(const flow_graph *g, FILE *out)
{
    fputs("digraph flow {\n  rankdir=LR;\n  node [shape=box, style=filled];\n", out);
    for (uint32_t i = 0; i < g->n; i++) {
        char *label = g->tasks[i].count > 1 ? must_print("%s (%" PRIu64 ")", g->tasks[i].name, g->tasks[i].count) : must_dup(g->tasks[i].name);
        fprintf(out, "  t%u [label=", i);
        put_dot_text(out, label);
        fprintf(out, ", fillcolor=\"%s\"%s%s%s];\n", fills[g->tasks[i].state], g->tasks[i].state ? ", tooltip=\"" : "", flow_task_state_name(g->tasks[i].state),
                g->tasks[i].state ? "\"" : "");
        free(label);
    }
    for (uint32_t i = 0; i < g->n; i++)
        for (size_t n = 0; n < g->tasks[i].n_edges; n++) {
            const flow_edge *e = &g->edges[g->tasks[i].edges + n];
            if (rule_of(g, e) == HTC_FLOW_OK)
                fprintf(out, "  t%u -> t%u;\n", i, e->child);
            else
                fprintf(out, "  t%u -> t%u [style=dashed, label=\"%s\"];\n", i, e->child, rule_name(rule_of(g, e)));
        }
    fputs("}\n", out);
}

/* ---- laid out by depth ---- */

enum { BOX_W = 120, BOX_H = 20, STEP_X = 180, STEP_Y = 28, MARGIN = 30, HEADER = 40, SWEEPS = 4 };

typedef struct place {
    double   key; /* mean place of what it hangs together with in the column beside */
    uint32_t task;
} place;

typedef struct layout {
    uint32_t *depth, *row, columns, rows;
    place    *places; /* of a column */
} layout;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->task < y->task ? -1 : x->task > y->task;
}

/* What hangs together comes to stand side by side: each column in the order of its parents' rows, then of its children's, a few times. */
static void order_column(const flow_graph *g, layout *l, uint32_t column, int by_parents)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const flow_task *t = &g->tasks[i];
        double           sum = 0;
        uint32_t         of = 0;
        if (l->depth[i] != column)
            continue;
        for (uint32_t w = 0; by_parents && w < t->n_waits; w++)
            if (g->waits[t->waits + w].parent != FLOW_NOBODY) {
                sum += l->row[g->waits[t->waits + w].parent];
                of++;
            }
        for (uint32_t e = 0; !by_parents && e < t->n_edges; e++, of++)
            sum += l->row[g->edges[t->edges + e].child];
        l->places[n++] = (place){ of ? sum / of : l->row[i], i };
    }
    qsort(l->places, n, sizeof *l->places, by_key);
    for (uint32_t i = 0; i < n; i++)
        l->row[l->places[i].task] = i;
    l->rows = n > l->rows ? n : l->rows;
}

static htc_status lay_out(const flow_graph *g, layout *l)
{
    uint32_t deepest;
    l->depth = must(calloc((size_t)g->n + 1, sizeof *l->depth));
    l->row = must(calloc((size_t)g->n + 1, sizeof *l->row));
    l->places = must(calloc((size_t)g->n + 1, sizeof *l->places));
    htc_status s = flow_depths(g, l->depth, &deepest);
    l->columns = deepest + 1;
    for (uint32_t i = 0; i < g->n; i++)
        l->row[i] = i;
    for (int sweep = 0; s == HTC_OK && sweep < SWEEPS; sweep++)
        for (uint32_t c = 0; c < l->columns; c++)
            order_column(g, l, sweep % 2 ? l->columns - 1 - c : c, sweep % 2 == 0);
    return s;
}

static void svg_edge(const flow_graph *g, const layout *l, uint32_t from, const flow_edge *e, FILE *out)
{
    double x1 = MARGIN + l->depth[from] * (double)STEP_X + BOX_W, y1 = HEADER + l->row[from] * (double)STEP_Y + BOX_H / 2.0;
    double x2 = MARGIN + l->depth[e->child] * (double)STEP_X, y2 = HEADER + l->row[e->child] * (double)STEP_Y + BOX_H / 2.0;
    double gap = y1 + BOX_H / 2.0 + (STEP_Y - BOX_H) / 2.0; /* between two rows: what leads beyond the next column goes past the boxes there */
    if (l->depth[e->child] - l->depth[from] > 1)
        fprintf(out, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0fH%.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"", x1, y1, x1 + 20, y1, x1 + 20, gap, x1 + 40, gap, x2 - 40,
                x2 - 20, gap, x2 - 20, y2, x2, y2);
    else
        fprintf(out, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"", x1, y1, x1 + 30, y1, x2 - 30, y2, x2, y2);
    fprintf(out, " fill=\"none\" stroke=\"#777\"%s><title>", rule_of(g, e) == HTC_FLOW_OK ? "" : " stroke-dasharray=\"4 3\"");
    flow_put_xml(out, g->tasks[from].name);
    fputs(" > ", out);
    flow_put_xml(out, g->tasks[e->child].name);
    fprintf(out, " (%s)</title></path>\n", rule_name(rule_of(g, e)));
}

static void svg_box(const flow_task *t, double x, double y, FILE *out)
{
    fprintf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"#555\"><title>", x, y, BOX_W, BOX_H, fills[t->state]);
    flow_put_xml(out, t->name);
    if (t->state)
        fprintf(out, ": %s", flow_task_state_name(t->state));
    if (t->reason[0])
        fputs(", ", out);
    flow_put_xml(out, t->reason);
    fprintf(out, "</title></rect>\n<text x=\"%.0f\" y=\"%.0f\">", x + 5, y + 14);
    char  *name = must_dup(t->name);
    size_t cut = strlen(name) > 18 ? 17 : strlen(name);
    while (strlen(t->name) > 18 && cut > 0 && ((unsigned char)name[cut] & 0xc0) == 0x80)
        cut--; /* no half characters */
    name[cut] = '\0';
    flow_put_xml(out, name);
    free(name);
    fputs(strlen(t->name) > 18 ? "&#8230;</text>\n" : "</text>\n", out);
}

static htc_status write_graph(flow_call *k, const flow_graph *g, FILE *out)
{
    layout     l = { 0 };
    htc_status s = lay_out(g, &l);
    if (s == HTC_OK) {
        fprintf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"11\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                2 * MARGIN + (l.columns - 1) * STEP_X + BOX_W, HEADER + l.rows * STEP_Y + MARGIN);
        for (uint32_t s_of = g->n && g->tasks[0].state ? 1 : FLOW_TASK_STATES, x = MARGIN; s_of < FLOW_TASK_STATES; s_of++, x += 80)
            fprintf(out, "<rect x=\"%u\" y=\"10\" width=\"10\" height=\"10\" fill=\"%s\" stroke=\"#555\"/><text x=\"%u\" y=\"19\">%s</text>\n", x, fills[s_of], x + 14,
                    flow_task_state_name(s_of));
        for (uint32_t i = 0; i < g->n; i++)
            for (size_t e = 0; e < g->tasks[i].n_edges; e++)
                svg_edge(g, &l, i, &g->edges[g->tasks[i].edges + e], out);
        for (uint32_t i = 0; i < g->n; i++)
            svg_box(&g->tasks[i], MARGIN + l.depth[i] * (double)STEP_X, HEADER + l.row[i] * (double)STEP_Y, out);
        fputs("</svg>\n", out);
    } else {
        s = cli_error(k->c, s, "", "", "the tasks wait for each other");
    }
    free(l.depth);
    free(l.row);
    free(l.places);
    return s;
}

/* ---- the load of each worker over time ---- */

enum { TILES = 120, TILE = 6, ROW = 12, NAMES = 120 };

/* Idle is white, else from green (few slots busy) to red (all of them): hue (1 - rate) 0.36, saturation 1 - 0.4 (1 - rate), brightness 1. */
static void put_tile_colour(double rate, FILE *out)
{
    double hue = (1 - rate) * 0.36 * 6, saturation = 1 - 0.4 * (1 - rate), low = 1 - saturation;
    double x = low + saturation * (1 - fabs(fmod(hue, 2) - 1)), red = 1, green = x, blue = low;
    if (rate <= 0) {
        fputs("#ffffff", out);
        return;
    }
    if (hue >= 1) { /* below 2.16: yellow to green, and a little beyond */
        red = hue < 2 ? x : low;
        green = 1;
        blue = hue < 2 ? low : x;
    }
    fprintf(out, "#%02x%02x%02x", (unsigned)lround(red * 255), (unsigned)lround(green * 255), (unsigned)lround(blue * 255));
}

static htc_status write_tiles(flow_call *k, flow_graph *g, FILE *out)
{
    flow_figures f;
    double       busy[TILES];
    htc_status   s = flow_figures_of(g, &f);
    if (s == HTC_OK && f.ran == 0)
        s = HTC_ENOTFOUND;
    if (s != HTC_OK) {
        flow_figures_free(&f);
        return cli_error(k->c, s, "--tiles", "", "%s%s", s == HTC_ENOTFOUND ? "no task has run yet" : "the load cannot be worked out: ",
                         s == HTC_ENOTFOUND ? "" : htc_strerror(s));
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" font-family=\"sans-serif\" font-size=\"10\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ddd\"/>\n<text x=\"%d\" y=\"20\" font-size=\"12\">%u workers over %s</text>\n",
            NAMES + TILES * TILE + MARGIN, HEADER + f.n_workers * ROW + MARGIN, NAMES, f.n_workers, show_seconds(f.makespan_s).s);
    for (uint32_t w = 0; w < f.n_workers; w++) {
        flow_busy(g, &f, w, TILES, busy);
        fprintf(out, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">%" PRIu64 "</text>\n", NAMES - 6, HEADER + w * ROW + 10, f.workers[w].worker);
        for (int i = 0; i < TILES; i++) {
            fprintf(out, "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"", NAMES + i * TILE, HEADER + w * ROW, TILE, ROW - 1);
            put_tile_colour(fmin(busy[i] / f.workers[w].slots, 1), out);
            fputs("\"/>\n", out);
        }
    }
    fputs("</svg>\n", out);
    flow_figures_free(&f);
    return HTC_OK;
}

/* ---- the command ---- */

static json_t *graph_json(const flow_graph *g)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < g->n; i++) {
        const flow_task *t = &g->tasks[i];
        json_t          *after = json_array();
        for (uint32_t w = 0; w < t->n_waits; w++)
            json_array_append_new(after, json_pack("{s:I, s:s}", "task", (json_int_t)g->waits[t->waits + w].parent, "rule", rule_name(g->waits[t->waits + w].rule)));
        json_array_append_new(all, json_pack("{s:I, s:s, s:s, s:o}", "task", (json_int_t)i, "name", t->name, "state", flow_task_state_name(t->state), "after", after));
    }
    return all;
}

static int is_number(const char *word)
{
    const char *p = word;
    while (isdigit((unsigned char)*p))
        p++;
    return p > word && !*p;
}

static htc_status have_graph(flow_call *k, flow_graph *g)
{
    htc_flow      *flow = NULL;
    htc_flows_view v;
    uint64_t       id = 0;
    htc_status     s;
    if (k->w.count && !k->shape && is_number(k->w.at[0])) {
        s = flow_number(k, k->w.at[0], &id);
        if (s == HTC_OK)
            s = flow_gather(k, id, &v, g);
        if (s == HTC_OK && !v.graph)
            s = cli_error(k->c, HTC_EUNSUPPORTED, "", "htc flow status counts its tasks", "flow %" PRIu64 " is a bag: there is nothing to draw", id);
        return s;
    }
    if (k->tiles)
        return cli_error(k->c, HTC_EUSAGE, "--tiles", "name the number of a flow that was run", "a file has no workers");
    s = flow_read(k, &flow);
    if (s == HTC_OK)
        flow_gather_read(flow, g);
    htc_flow_destroy(flow);
    return s;
}

htc_status flow_render(flow_call *k)
{
    flow_graph  g = { 0 };
    out_file    out = { 0 };
    const char *path = k->svg ? k->svg : "-";
    int         as_json = k->c->json && !k->svg;
    htc_status  s = as_json ? HTC_OK : out_check(k->c, path);
    if (s == HTC_OK && k->tiles && !k->svg)
        s = cli_error(k->c, HTC_EUSAGE, "--tiles", "--svg FILE", "tiles are a picture");
    if (s == HTC_OK)
        s = have_graph(k, &g);
    if (s == HTC_OK && k->svg && !k->tiles && g.n > LAID_OUT_MAX)
        s = cli_error(k->c, HTC_ETOOBIG, "--svg", "without --svg it is written for Graphviz: dot -Tsvg, or sfdp", "%u tasks are too many to be laid out here, %d are the most", g.n,
                      LAID_OUT_MAX);
    if (s == HTC_OK && !as_json)
        s = out_open(k->c, &out, path, 0666);
    if (s == HTC_OK && as_json)
        flow_put_json(k, graph_json(&g));
    else if (s == HTC_OK && k->tiles)
        s = write_tiles(k, &g, out.f);
    else if (s == HTC_OK && k->svg)
        s = write_graph(k, &g, out.f);
    else if (s == HTC_OK)
        write_dot(&g, out.f);
    s = out_close(k->c, &out, s);
    if (s == HTC_OK && k->svg && k->c->json)
        flow_put_json(k, json_pack("{s:s, s:I}", "svg", k->svg, "tasks", (json_int_t)g.n));
    flow_graph_free(&g);
    return s;
}
