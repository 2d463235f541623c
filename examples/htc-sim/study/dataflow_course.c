/* A run of tasks that wait for tasks over time. */
#include <stdio.h>
#include <stdlib.h>

#include "dataflow.h"

int dataflow_course_open(dataflow_study *d, htc_error *error)
{
    d->course = calloc(1, sizeof *d->course);
    if (d->course) {
        d->course->every = 1;
        return 1;
    }
    *error = (htc_error){ .status = HTC_ENOMEM };
    snprintf(error->text, sizeof error->text, "no memory for the course of the run");
    return 0;
}

static void thin(dataflow_course *c)
{
    for (size_t i = 0; i < c->n / 2; i++) {
        c->at[i] = c->at[2 * i];
        c->busy[i] = c->busy[2 * i];
        c->ready[i] = c->ready[2 * i];
        c->waiting[i] = c->waiting[2 * i];
        c->ended[i] = c->ended[2 * i];
    }
    c->n /= 2;
    c->every *= 2;
}

void dataflow_course_keep(void *ctx, const htc_sim_dataflow_sample *s)
{
    dataflow_course *c = ((dataflow_study *)ctx)->course;
    if (c->seen++ % c->every)
        return;
    if (c->n == DATAFLOW_SAMPLES) {
        thin(c);
        if ((c->seen - 1) % c->every)
            return;
    }
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
