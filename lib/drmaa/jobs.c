/* The session's jobs, and what is known of the ends of their tasks. All of it under the library's lock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

static int read_number(const char **p, uint64_t *out)
{
    uint64_t v = 0;
    size_t   digits = strspn(*p, "0123456789");
    if (digits == 0 || digits > 18)
        return 0;
    for (size_t i = 0; i < digits; i++)
        v = v * 10 + (uint64_t)((*p)[i] - '0');
    *p += digits;
    *out = v;
    return 1;
}

int htc__drmaa_name_read(const char *text, job_name *name)
{
    *name = (job_name){ 0 };
    if (!text || !read_number(&text, &name->job) || name->job == 0)
        return 0;
    if (*text == '\0')
        return 1;
    name->has_task = 1;
    return *text++ == '.' && read_number(&text, &name->task) && *text == '\0';
}

void htc__drmaa_name_put(char *to, size_t len, const drmaa_job *j, uint64_t task)
{
    if (!to || len == 0)
        return;
    if (j->bulk)
        snprintf(to, len, "%" PRIu64 ".%" PRIu64, j->id, task);
    else
        snprintf(to, len, "%" PRIu64, j->id);
}

/* Where it stands, or would. */
static size_t place_of(const session *s, uint64_t id)
{
    size_t low = 0, high = s->n_jobs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->jobs[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

drmaa_job *htc__drmaa_job_find(const session *s, uint64_t id)
{
    size_t at = place_of(s, id);
    return at < s->n_jobs && s->jobs[at]->id == id ? s->jobs[at] : NULL;
}

drmaa_job *htc__drmaa_job_add(session *s, uint64_t id, uint64_t count)
{
    drmaa_job *j = htc__drmaa_job_find(s, id);
    if (j) /* a submission that was repeated under its key */
        return j;
    if (s->n_jobs == s->room) {
        size_t      room = s->room ? 2 * s->room : 16;
        drmaa_job **jobs = realloc(s->jobs, room * sizeof *jobs);
        if (!jobs)
            return NULL;
        s->jobs = jobs;
        s->room = room;
    }
    j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->id = id;
    j->count = count;
    size_t at = place_of(s, id);
    memmove(&s->jobs[at + 1], &s->jobs[at], (s->n_jobs - at) * sizeof *s->jobs);
    s->jobs[at] = j;
    s->n_jobs++;
    return j;
}

static void job_free(drmaa_job *j)
{
    for (uint64_t i = 0; j->ends && i < j->count; i++) {
        free(j->ends[i].node);
        free(j->ends[i].reason);
    }
    free(j->ends);
    free(j->files[0]);
    free(j->files[1]);
    free(j);
}

drmaa_job *htc__drmaa_job_use(drmaa_job *j)
{
    j->users++;
    return j;
}

void htc__drmaa_job_done(drmaa_job *j)
{
    if (--j->users == 0 && j->dropped)
        job_free(j);
}

int htc__drmaa_task_ended(const drmaa_job *j, uint64_t task)
{
    return j->over || (j->ends && j->ends[task].known);
}

int htc__drmaa_task_reaped(const drmaa_job *j, uint64_t task)
{
    return j->ends && j->ends[task].reaped;
}

int htc__drmaa_job_reap(session *s, drmaa_job *j, uint64_t task)
{
    if (!j->ends && !(j->ends = calloc(j->count, sizeof *j->ends)))
        return 0;
    j->reaped += !j->ends[task].reaped;
    j->ends[task].reaped = 1;
    while (j->first < j->count && j->ends[j->first].reaped)
        j->first++;
    if (j->reaped == j->count)
        htc__drmaa_job_drop(s, j);
    return 1;
}

void htc__drmaa_job_drop(session *s, drmaa_job *j)
{
    size_t at = place_of(s, j->id);
    if (j->dropped)
        return;
    memmove(&s->jobs[at], &s->jobs[at + 1], (s->n_jobs - at - 1) * sizeof *s->jobs);
    s->n_jobs--;
    j->dropped = 1;
    pthread_cond_broadcast(&s->changed);
    if (j->users == 0)
        job_free(j);
}

void htc__drmaa_jobs_free(session *s)
{
    for (size_t i = 0; i < s->n_jobs; i++)
        job_free(s->jobs[i]);
    free(s->jobs);
    s->jobs = NULL;
    s->n_jobs = s->room = 0;
}
