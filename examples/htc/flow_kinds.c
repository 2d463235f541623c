/* What a flow took by kind of task, as its flow file names kinds; and what its tasks read of each other. */
#include "flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_kind(const void *a, const void *b)
{
    const flow_task *x = *(const flow_task *const *)a, *y = *(const flow_task *const *)b;
    int              order = strcmp(x->kind, y->kind);
    return order ? order : x < y ? -1 : x > y;
}

void flow_kinds_free(flow_kinds *k)
{
    free(k->kinds);
    *k = (flow_kinds){ 0 };
}

void flow_kinds_of(const flow_graph *g, flow_kinds *k)
{
    const flow_task **sorted = must(calloc((size_t)g->n + 1, sizeof *sorted));
    *k = (flow_kinds){ .kinds = must(calloc((size_t)g->n + 1, sizeof *k->kinds)) };
    for (uint32_t i = 0; i < g->n; i++)
        sorted[i] = &g->tasks[i];
    qsort(sorted, g->n, sizeof *sorted, by_kind);
    for (uint32_t i = 0; i < g->n; i++) {
        const flow_task *t = sorted[i];
        flow_kind       *of = k->n ? &k->kinds[k->n - 1] : NULL;
        if (!of || strcmp(of->name, t->kind) != 0) {
            of = &k->kinds[k->n++];
            of->name = t->kind;
        }
        double ran = flow_task_ran(t) ? (double)(t->ended - t->began) / 1e9 : 0;
        of->tasks++;
        of->ran += flow_task_ran(t) != 0;
        of->failed += t->state == FLOW_TASK_FAILED;
        of->run_s += ran;
        of->longest_s = ran > of->longest_s ? ran : of->longest_s;
        of->data += t->data;
        of->moved += t->moved;
        k->data += t->data;
        k->moved += t->moved;
    }
    free(sorted);
}

json_t *flow_kinds_json(const flow_kinds *k)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < k->n; i++) {
        const flow_kind *x = &k->kinds[i];
        json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "kind", x->name, "tasks", (json_int_t)x->tasks, "ran", (json_int_t)x->ran, "failed",
                                             (json_int_t)x->failed, "run_s", x->run_s, "mean_s", x->ran ? x->run_s / (double)x->ran : 0.0, "longest_s", x->longest_s,
                                             "data_bytes", (json_int_t)x->data, "moved_bytes", (json_int_t)x->moved));
    }
    return all;
}

void flow_kinds_print(flow_call *c, const flow_kinds *k)
{
    table t;
    if (k->data)
        printf("tasks read %s of each other, of which %s were moved between workers\n", show_size((double)k->data).s, show_size((double)k->moved).s);
    if (k->n < 2 && !(k->n && k->kinds[0].name[0]))
        return;
    putchar('\n');
    table_begin(&t, "KIND", ">TASKS", ">FAILED", ">MEAN", ">LONGEST", ">RUN TIME", ">READ", ">MOVED", NULL);
    for (uint32_t i = 0; i < k->n; i++) {
        const flow_kind *x = &k->kinds[i];
        table_row(&t, "%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\t%s\t%s", x->name[0] ? x->name : "-", x->tasks, x->failed,
                  x->ran ? show_seconds(x->run_s / (double)x->ran).s : "-", show_seconds(x->longest_s).s, show_seconds(x->run_s).s, show_size((double)x->data).s,
                  show_size((double)x->moved).s);
    }
    table_end(c->c, &t);
}
