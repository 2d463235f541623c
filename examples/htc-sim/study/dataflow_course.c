/* A run of tasks that wait for tasks over time. */
#include <stdio.h>
#include <stdlib.h>

#include "course.h"
#include "dataflow.h"

int dataflow_course_open(dataflow_study *d, htc_error *error)
{
    d->course = calloc(1, sizeof *d->course);
    if (d->course)
        return 1;
    *error = (htc_error){ .status = HTC_ENOMEM };
    snprintf(error->text, sizeof error->text, "no memory for the course of the run");
    return 0;
}

void dataflow_course_keep(void *ctx, const htc_sim_dataflow_sample *s)
{
    dataflow_course *c = ((dataflow_study *)ctx)->course;
    const course_row rows[] = { { c->at, sizeof *c->at }, { c->busy, sizeof *c->busy }, { c->ready, sizeof *c->ready }, { c->waiting, sizeof *c->waiting }, { c->ended, sizeof *c->ended } };
    if (!course_keeps(&c->n, DATAFLOW_SAMPLES, &c->every, &c->seen, rows, sizeof rows / sizeof *rows))
        return;
    c->at[c->n] = (double)s->at / 1e9;
    c->busy[c->n] = s->busy;
    c->ready[c->n] = s->ready;
    c->waiting[c->n] = s->waiting;
    c->ended[c->n++] = s->ended;
}

double dataflow_course_tail(const dataflow_study *d, double part)
{
    const dataflow_course *c = d->course;
    double                 span = (double)d->report.scale.makespan / 1e9, from = 0;
    for (size_t i = 0; i < c->n; i++)
        if ((double)c->busy[i] >= part * (double)d->report.cores)
            from = i + 1 < c->n ? c->at[i + 1] : span;
    return span > from ? span - from : 0;
}

double dataflow_course_reaches(const dataflow_study *d, double part)
{
    const dataflow_course *c = d->course;
    for (size_t i = 0; i < c->n; i++)
        if ((double)c->busy[i] >= part * (double)d->report.cores)
            return c->at[i];
    return (double)d->report.scale.makespan / 1e9;
}
