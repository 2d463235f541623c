/* What a flow took, from the records of its tasks. */
#include "chart.h"
#include "flow.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 60 /* of the makespan, in what is printed as JSON */

/* ---- the picture: a lane for each slot, and how many were busy ---- */

enum { LEFT = 90, WIDE = 760, LANE = 14, TOP = 40, HIGH = 120, GAP = 60, LANES_MAX = 400 };

void flow_put_xml(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == '<' || *p == '&' || *p == '"')
            fprintf(out, "&#%d;", *p);
        else
            fputc(*p < ' ' || *p == 127 ? '?' : *p, out);
}

static double seconds(htc_ns ns)
{
    return (double)ns / 1e9;
}

static void svg_lanes(const flow_graph *g, const flow_figures *f, double x_of, uint32_t lanes, FILE *out)
{
    double *drawn = must(calloc(lanes, sizeof *drawn)); /* how far each lane has been drawn: what is narrower than can be seen is left out */
    for (uint32_t i = 0; i < f->n_workers && f->workers[i].first_slot < lanes; i++)
        fprintf(out, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">%" PRIu64 "</text>\n", LEFT - 6, TOP + f->workers[i].first_slot * LANE + 11,
                f->workers[i].worker);
    for (uint32_t l = 0; l < lanes; l++)
        fprintf(out, "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n", LEFT, TOP + l * LANE, WIDE, LANE - 2);
    for (uint64_t i = 0; i < f->ran; i++) {
        const flow_task *t = &g->tasks[f->order[i]];
        double           from = seconds(t->began - f->first) * x_of, to = fmax(seconds(t->ended - f->first) * x_of, from + 0.5);
        if (t->lane >= lanes || to < drawn[t->lane] + 0.25)
            continue;
        from = fmax(from, drawn[t->lane]);
        drawn[t->lane] = to;
        fprintf(out, "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>", LEFT + from, TOP + t->lane * LANE, to - from, LANE - 2,
                t->state == FLOW_TASK_DONE ? "#70ad47" : t->state == FLOW_TASK_FAILED ? "#c0504d" : "#9e9e9e");
        flow_put_xml(out, t->name);
        fprintf(out, ": %s, %s</title></rect>\n", flow_task_state_name(t->state), show_seconds(seconds(t->ended - t->began)).s);
    }
    free(drawn);
}

static void svg_busy(const flow_graph *g, const flow_figures *f, int top, FILE *out)
{
    double busy[CHART_BINS], y_of = (double)HIGH / f->slots;
    flow_busy(g, f, FLOW_NOBODY, CHART_BINS, busy);
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">slots busy: %.0f%% of %u</text>\n<path fill=\"#4472c4\" d=\"M%d %d", LEFT, top - 8,
            100 * f->utilisation, f->slots, LEFT, top + HIGH);
    for (int b = 0; b < CHART_BINS; b++)
        fprintf(out, "L%.2f %.2fH%.2f", LEFT + (double)b * WIDE / CHART_BINS, top + HIGH - busy[b] * y_of, LEFT + (double)(b + 1) * WIDE / CHART_BINS);
    fprintf(out, "V%dz\"/>\n<path d=\"M%d %dh%d\" stroke=\"#999\"/>\n", top + HIGH, LEFT, top, WIDE);
    for (int i = 0; i <= 4; i++)
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + i * WIDE / 4, top + HIGH + 16,
                i ? show_seconds(f->makespan_s * i / 4).s : "0");
}

static htc_status write_svg(flow_call *k, uint64_t id, const flow_graph *g, const flow_figures *f)
{
    uint32_t   lanes = f->slots < LANES_MAX ? f->slots : LANES_MAX;
    int        top = TOP + (int)lanes * LANE + 40;
    out_file   out;
    htc_status s = f->ran ? out_open(k->c, &out, k->svg, 0666) : cli_error(k->c, HTC_ENOTFOUND, "--svg", "", "no task of flow %" PRIu64 " has run yet", id);
    if (s != HTC_OK)
        return s;
    fprintf(out.f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"10\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"20\" font-size=\"12\" font-weight=\"bold\">flow %" PRIu64
            ": %" PRIu64 " task%s on %u slot%s in %s%s</text>\n",
            LEFT + WIDE + 30, top + HIGH + GAP, LEFT, id, f->ran, plural(f->ran), f->slots, plural(f->slots), show_seconds(f->makespan_s).s, lanes < f->slots ? ", not all slots drawn" : "");
    svg_lanes(g, f, f->makespan_s > 0 ? WIDE / f->makespan_s : 0, lanes, out.f);
    svg_busy(g, f, top, out.f);
    fprintf(out.f, "</svg>\n");
    return out_close(k->c, &out, HTC_OK);
}

/* ---- told ---- */

static json_t *figures_json(uint64_t id, const htc_flows_view *v, const flow_graph *g, const flow_figures *f)
{
    double  busy[PARTS];
    json_t *o = flow_view_json(id, v), *workers = json_array(), *over_time = json_array(), *path = json_array();
    flow_busy(g, f, FLOW_NOBODY, PARTS, busy);
    for (size_t i = 0; i < PARTS && f->ran; i++)
        json_array_append_new(over_time, json_real(busy[i]));
    for (uint32_t i = 0; i < f->n_path; i++)
        json_array_append_new(path, json_string(g->tasks[f->path[i]].name));
    for (uint32_t i = 0; i < f->n_workers; i++)
        json_array_append_new(workers, json_pack("{s:I, s:I, s:I, s:f}", "worker", (json_int_t)f->workers[i].worker, "slots", (json_int_t)f->workers[i].slots, "tasks",
                                                 (json_int_t)f->workers[i].tasks, "run_s", f->workers[i].run_s));
    json_t *more = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "ran", (json_int_t)f->ran, "repeated",
                             (json_int_t)f->repeated, "slots_used", (json_int_t)f->slots, "began", seconds(f->first), "makespan_s", f->makespan_s, "run_s", f->run_s,
                             "critical_path_s", f->path_s, "area_s", f->area_s, "bound_s", f->bound_s, "efficiency", f->efficiency, "utilisation", f->utilisation,
                             "turnaround_s", f->turnaround_s, "ideal_turnaround_s", f->ideal_turnaround_s, "delay_ratio", f->delay_ratio, "by_worker", workers, "busy",
                             over_time, "critical_path", path);
    flow_kinds kinds;
    flow_kinds_of(g, &kinds);
    json_object_set_new(more, "tasks_cv", json_real(f->tasks_cv));
    json_object_set_new(more, "data_bytes", json_integer((json_int_t)kinds.data));
    json_object_set_new(more, "moved_bytes", json_integer((json_int_t)kinds.moved));
    json_object_set_new(more, "by_kind", flow_kinds_json(&kinds));
    flow_kinds_free(&kinds);
    json_object_update(o, more);
    json_decref(more);
    return o;
}

static void print_path(const flow_graph *g, const flow_figures *f)
{
    char  *text = must_print("critical path %s: %u task%s,", show_seconds(f->path_s).s, f->n_path, f->n_path == 1 ? "" : "s");
    size_t shown_tasks = f->n_path <= 6 ? f->n_path : 3;
    for (uint32_t i = 0; i < f->n_path; i++) {
        if (i == shown_tasks && i < f->n_path - shown_tasks)
            i = f->n_path - (uint32_t)shown_tasks;
        char *longer = must_print("%s%s%s", text, i == 0 ? " " : i == f->n_path - shown_tasks && f->n_path > 6 ? " ... " : " > ", g->tasks[f->path[i]].name);
        free(text);
        text = longer;
    }
    put_line(text);
    free(text);
}

static void print_figures(flow_call *k, const flow_graph *g, const flow_figures *f)
{
    table t;
    chart *c = must(calloc(1, sizeof *c));
    printf("makespan %s; %u slot%s, %.1f%% busy; run times together %s\n", show_seconds(f->makespan_s).s, f->slots, plural(f->slots), 100 * f->utilisation, show_seconds(f->run_s).s);
    printf("efficiency %.1f%%: no schedule of these run times takes less than %s\n", 100 * f->efficiency, show_seconds(f->bound_s).s);
    print_path(g, f);
    printf("a task ended %s after the first began, ideally %s: delay ratio %.3f\n", show_seconds(f->turnaround_s).s, show_seconds(f->ideal_turnaround_s).s,
           f->delay_ratio);
    printf("attempts repeated %" PRIu64 "; tasks by worker, coefficient of variation %.3f\n\n", f->repeated, f->tasks_cv);
    table_begin(&t, ">WORKER", ">SLOTS", ">TASKS", ">RUN TIME", ">BUSY", NULL);
    for (uint32_t i = 0; i < f->n_workers; i++)
        table_row(&t, "%" PRIu64 "\t%u\t%u\t%s\t%.1f%%", f->workers[i].worker, f->workers[i].slots, f->workers[i].tasks, show_seconds(f->workers[i].run_s).s,
                  f->makespan_s > 0 ? 100 * f->workers[i].run_s / f->workers[i].slots / f->makespan_s : 100.0);
    table_end(k->c, &t);
    flow_kinds kinds;
    flow_kinds_of(g, &kinds);
    flow_kinds_print(k, &kinds);
    flow_kinds_free(&kinds);
    c->to = f->makespan_s;
    flow_busy(g, f, FLOW_NOBODY, CHART_BINS, c->held[chart_user(c, "slots busy")]);
    putchar('\n');
    chart_print(c, stdout, k->c->colour, f->slots, chart_columns(stdout));
    free(c);
}

htc_status flow_report(flow_call *k)
{
    uint64_t       id = 0;
    htc_flows_view v;
    flow_graph     g = { 0 };
    flow_figures   f = { 0 };
    htc_status     s = flow_number(k, k->w.at[0], &id);
    if (s == HTC_OK && k->svg)
        s = out_check(k->c, k->svg);
    if (s == HTC_OK)
        s = flow_gather(k, id, &v, &g);
    if (s == HTC_OK && !v.graph)
        s = flow_gather_bag(k, id, &v, &g);
    if (s == HTC_OK) {
        s = flow_figures_of(&g, &f);
        if (s != HTC_OK)
            s = cli_error(k->c, s, "", "", "the figures of flow %" PRIu64 " cannot be worked out: %s", id, htc_strerror(s));
    }
    if (s == HTC_OK && k->svg)
        s = write_svg(k, id, &g, &f);
    if (s == HTC_OK && k->c->json)
        flow_put_json(k, figures_json(id, &v, &g, &f));
    else if (s == HTC_OK && !(k->svg && out_is_stdout(k->svg))) {
        printf("flow %" PRIu64 "  %s%s%s  tasks %" PRIu64 "  done %" PRIu64 "  failed %" PRIu64 "  cancelled %" PRIu64 "\n", id,
               colour_state(k->c, flow_state_name(&v)), flow_state_name(&v), colour_end(k->c), v.tasks, v.done, v.failed, v.cancelled);
        if (f.ran)
            print_figures(k, &g, &f);
        else
            printf("no task has run yet\n");
    }
    flow_figures_free(&f);
    flow_graph_free(&g);
    return s;
}
