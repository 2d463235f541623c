/* What became of tasks: asked of the gateway, noted in the session's jobs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

#define RESULTS_PAGE 1000
#define JOBS_PAGE    1000
#define FEW_JOBS     4 /* so many are asked for one by one */

static uint64_t number(const json_t *o, const char *member)
{
    return (uint64_t)json_integer_value(json_object_get(o, member));
}

static double real(const json_t *o, const char *member)
{
    return json_number_value(json_object_get(o, member));
}

static char *text(const json_t *o, const char *member)
{
    const char *value = json_string_value(json_object_get(o, member));
    return value && *value ? strdup(value) : NULL;
}

static uint64_t ended_of(const json_t *job)
{
    const json_t *n = json_object_get(job, "tasks");
    return number(n, "done") + number(n, "failed") + number(n, "cancelled");
}

/* One result is noted; under the lock. */
static void note(drmaa_job *j, const json_t *result)
{
    uint64_t    index = number(result, "index");
    const char *status = json_string_value(json_object_get(result, "status"));
    if (index >= j->count || j->ends[index].known || !json_is_object(result))
        return;
    task_end *e = &j->ends[index];
    e->known = 1;
    e->informed = !status || strcmp(status, "HTC_ECORRUPT") != 0;
    e->stat = htc__drmaa_stat(result);
    e->started = real(result, "started");
    e->ended = real(result, "ended");
    e->cpu_s = real(result, "cpu_s");
    e->memory = number(result, "memory_peak");
    e->node = text(result, "node");
    e->reason = text(result, "reason");
    j->known++;
}

/* One that was cancelled before anybody was to run it has no result. */
static void note_cancelled(drmaa_job *j, const json_t *task)
{
    uint64_t index = number(task, "index");
    if (index >= j->count || j->ends[index].known || number(task, "attempt"))
        return;
    j->ends[index] = (task_end){ .known = 1, .reaped = j->ends[index].reaped, .informed = 1, .stat = STAT_ABORTED, .reason = strdup("cancelled") };
    j->known++;
}

static htc_status note_all(session *s, drmaa_job *j, const json_t *answer, uint64_t *known)
{
    size_t      i;
    json_t     *one;
    htc_status  status = HTC_OK;
    htc__drmaa_lock();
    if (!j->ends && !(j->ends = calloc(j->count, sizeof *j->ends)))
        status = HTC_ENOMEM;
    else {
        json_array_foreach(json_object_get(answer, "results"), i, one)
            note(j, one);
        json_array_foreach(json_object_get(answer, "tasks"), i, one)
            note_cancelled(j, one);
    }
    while (j->ends && j->low < j->count && j->ends[j->low].known)
        j->low++;
    *known = j->known;
    pthread_cond_broadcast(&s->changed);
    htc__drmaa_unlock();
    return status;
}

/* All pages of a request about the job's tasks, from the first on of which the end is not known, until so many are. */
static htc_status fetch_pages(session *s, drmaa_job *j, const char *op, uint64_t ended, uint64_t *known, htc_error *error)
{
    htc__drmaa_lock();
    uint64_t from = j->low, output = 0;
    htc__drmaa_unlock();
    htc_status status = HTC_OK;
    for (int more = 1; status == HTC_OK && more && *known < ended;) {
        json_t *answer = NULL;
        json_t *request = json_pack("{s:s,s:I,s:I,s:I,s:i}", "op", op, "id", (json_int_t)j->id, "from", (json_int_t)from, "from_output",
                                    (json_int_t)output, "limit", RESULTS_PAGE);
        if (request && strcmp(op, "tasks") == 0)
            json_object_set_new(request, "state", json_string("cancelled"));
        status = htc__drmaa_ask(s, request, 0, &answer, error);
        json_decref(request);
        if (status == HTC_OK)
            status = note_all(s, j, answer, known);
        more = json_is_integer(json_object_get(answer, "next"));
        from = number(answer, "next");
        output = number(answer, "next_output");
        json_decref(answer);
    }
    return status;
}

/* The ends of as many tasks as have ended. A result that is still on its way to the store is found the next time. */
static htc_status fetch_ends(session *s, drmaa_job *j, const json_t *job, htc_error *error)
{
    uint64_t ended = ended_of(job);
    htc__drmaa_lock();
    uint64_t known = j->known;
    htc__drmaa_unlock();
    htc_status status = fetch_pages(s, j, "results", ended, &known, error);
    if (status == HTC_OK && known < ended && number(json_object_get(job, "tasks"), "cancelled"))
        status = fetch_pages(s, j, "tasks", ended, &known, error);
    return status;
}

/* The gateway has no such job: how its tasks ended is not to be had. */
static htc_status gone(session *s, drmaa_job *j)
{
    htc__drmaa_lock();
    j->gone = j->over = 1;
    pthread_cond_broadcast(&s->changed);
    htc__drmaa_unlock();
    return HTC_OK;
}

htc_status htc__drmaa_look(session *s, drmaa_job *j, htc_error *error)
{
    json_t    *answer = NULL, *request = json_pack("{s:s,s:I}", "op", "status", "id", (json_int_t)j->id);
    htc_status status = htc__drmaa_ask(s, request, 0, &answer, error);
    json_decref(request);
    if (status == HTC_ENOTFOUND)
        return gone(s, j);
    if (status == HTC_OK)
        status = fetch_ends(s, j, json_array_get(json_object_get(answer, "jobs"), 0), error);
    json_decref(answer);
    return status == HTC_ENOTFOUND ? gone(s, j) : status;
}

/* ---- all jobs of the session ---- */

typedef struct looked {
    drmaa_job *job;
    uint8_t    seen;
} looked;

/* Gives those of which not every end is known, each in use; *n of them. */
static looked *open_jobs(session *s, size_t *n)
{
    htc__drmaa_lock();
    looked *list = calloc(s->n_jobs + 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < s->n_jobs; i++)
        if (s->jobs[i]->known < s->jobs[i]->count && !s->jobs[i]->gone)
            list[(*n)++].job = htc__drmaa_job_use(s->jobs[i]);
    htc__drmaa_unlock();
    return list;
}

static void close_jobs(looked *list, size_t n)
{
    htc__drmaa_lock();
    for (size_t i = 0; i < n; i++)
        htc__drmaa_job_done(list[i].job);
    htc__drmaa_unlock();
    free(list);
}

static looked *find(looked *list, size_t n, uint64_t id)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle].job->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && list[low].job->id == id ? &list[low] : NULL;
}

/* By pages of the user's jobs, newest first, down to the oldest that is looked for. */
static htc_status look_by_pages(session *s, looked *list, size_t n, htc_error *error)
{
    htc_status status = HTC_OK;
    uint64_t   before = list[n - 1].job->id + 1;
    while (status == HTC_OK && before > list[0].job->id) {
        json_t *answer = NULL, *job, *request = json_pack("{s:s,s:I,s:i}", "op", "status", "before", (json_int_t)before, "limit", JOBS_PAGE);
        size_t  i;
        status = htc__drmaa_ask(s, request, 0, &answer, error);
        json_decref(request);
        json_array_foreach(json_object_get(answer, "jobs"), i, job) {
            looked *l = find(list, n, number(job, "id"));
            if (!l || status != HTC_OK)
                continue;
            l->seen = 1;
            status = fetch_ends(s, l->job, job, error);
        }
        before = number(answer, "next");
        json_decref(answer);
    }
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        if (!list[i].seen)
            status = htc__drmaa_look(s, list[i].job, error); /* removed, or another user's by now: it is asked for by its number */
    return status;
}

htc_status htc__drmaa_look_all(session *s, htc_error *error)
{
    size_t     n;
    looked    *list = open_jobs(s, &n);
    htc_status status = list ? HTC_OK : HTC_ENOMEM;
    if (n > FEW_JOBS)
        status = look_by_pages(s, list, n, error);
    else
        for (size_t i = 0; status == HTC_OK && i < n; i++)
            status = htc__drmaa_look(s, list[i].job, error);
    close_jobs(list, n);
    return status;
}

htc_status htc__drmaa_await(session *s, drmaa_job *j, double seconds, htc_error *error)
{
    json_t    *answer = NULL, *request = json_pack("{s:s,s:I,s:f}", "op", "wait", "id", (json_int_t)j->id, "timeout", seconds);
    htc_status status = htc__drmaa_ask(s, request, seconds, &answer, error);
    json_decref(request);
    json_decref(answer);
    if (status == HTC_ETIMEDOUT)
        return HTC_OK;
    if (status == HTC_ENOTFOUND)
        return gone(s, j);
    if (status == HTC_OK) {
        htc__drmaa_lock();
        j->over = 1;
        pthread_cond_broadcast(&s->changed);
        htc__drmaa_unlock();
    }
    return status;
}
