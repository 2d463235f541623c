/* Waiting for jobs: drmaa_synchronize and drmaa_wait. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

#define SLICE_S     1.0  /* a session that ends is heard of within it */
#define POLL_FROM_S 0.01 /* the first pause between two looks */
#define POLL_TO_S   0.25 /* the longest */

/* When a timeout ends; INFINITY: never. */
static int until_of(signed long timeout, double *until, diagnosis *d)
{
    if (timeout < 0 && timeout != DRMAA_TIMEOUT_WAIT_FOREVER)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ARGUMENT, "a timeout is a number of seconds, or DRMAA_TIMEOUT_WAIT_FOREVER");
    *until = timeout == DRMAA_TIMEOUT_WAIT_FOREVER ? (double)INFINITY : htc__drmaa_now() + (double)timeout;
    return DRMAA_ERRNO_SUCCESS;
}

static int too_late(diagnosis *d)
{
    return htc__drmaa_fail(d, DRMAA_ERRNO_EXIT_TIMEOUT, "the time is over, and not all that was waited for has ended");
}

/* A job of the session by its name, and the task; under the lock. */
static int find_job(const session *s, const char *text, int whole, drmaa_job **job, uint64_t *task, diagnosis *d)
{
    job_name   name;
    drmaa_job *j = htc__drmaa_name_read(text, &name) ? htc__drmaa_job_find(s, name.job) : NULL;
    if (!j || (name.has_task && name.task >= j->count))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "this session has no job '%.60s': it did not submit it, or it has been waited for", text);
    if (!name.has_task && j->count > 1 && !whole)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "job %" PRIu64 " has %" PRIu64 " tasks: wait for each, as %" PRIu64 ".0", j->id, j->count,
                               j->id);
    *job = j;
    *task = name.has_task || j->count == 1 ? name.task : UINT64_MAX;
    if (*task != UINT64_MAX && htc__drmaa_task_reaped(j, *task))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "job %.60s has been waited for already", text);
    return DRMAA_ERRNO_SUCCESS;
}

/* ---- files that are brought here when a job is waited for ---- */

static char *with_index(const char *path, int64_t index)
{
    static const char place[] = DRMAA_PLACEHOLDER_INCR;
    char             *out = NULL;
    size_t            len = 0;
    FILE             *f = open_memstream(&out, &len);
    if (!f)
        return NULL;
    for (const char *at; (at = strstr(path, place)); path = at + sizeof place - 1)
        fprintf(f, "%.*s%" PRId64, (int)(at - path), path, index);
    fputs(path, f);
    return fclose(f) == 0 ? out : NULL;
}

static htc_status bring(session *s, const drmaa_job *j, uint64_t task, htc_error *error)
{
    static const char *const names[] = { "stdout", "stderr" };
    htc_status               status = HTC_OK;
    for (int i = 0; i < 2 && status == HTC_OK; i++) {
        char *path = j->files[i] ? with_index(j->files[i], j->start + (int64_t)task * j->incr) : NULL;
        if (j->files[i])
            status = path ? htc__drmaa_fetch(s, j->id, task, names[i], path, error) : HTC_ENOMEM;
        free(path);
    }
    return status;
}

/* ---- drmaa_wait ---- */

static int usage(const task_end *e, drmaa_attr_values_t **out)
{
    drmaa_attr_values_t *v = calloc(1, sizeof *v);
    int whole = v && htc__drmaa_list_print(&v->list, "start_time=%.3f", e->started) && htc__drmaa_list_print(&v->list, "end_time=%.3f", e->ended) &&
                htc__drmaa_list_print(&v->list, "wallclock=%.3f", e->started > 0 && e->ended > e->started ? e->ended - e->started : 0) &&
                htc__drmaa_list_print(&v->list, "cpu=%.6f", e->cpu_s) && htc__drmaa_list_print(&v->list, "maxrss=%" PRIu64, e->memory) &&
                htc__drmaa_list_print(&v->list, "node=%s", e->node ? e->node : "") &&
                htc__drmaa_list_print(&v->list, "reason=%s", e->reason ? e->reason : "");
    if (!whole) {
        drmaa_release_attr_values(v);
        return 0;
    }
    *out = v;
    return 1;
}

/* One that has ended and was not waited for yet; under the lock. */
static drmaa_job *any_ended(const session *s, uint64_t *task)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        drmaa_job *j = s->jobs[i];
        for (uint64_t t = j->first; (j->gone || j->known > 0) && t < j->count; t++)
            if ((j->gone || (j->ends && j->ends[t].known)) && !htc__drmaa_task_reaped(j, t)) {
                *task = t;
                return j;
            }
    }
    return NULL;
}

typedef struct waiting {
    const char *id;
    int         any;
    char       *id_out;
    size_t      id_out_len;
    int        *stat;
    drmaa_attr_values_t **rusage;
} waiting;

/* It has ended: say how, once; under the lock, which is left while files are brought. */
static int reap(session *s, const waiting *w, drmaa_job *j, uint64_t task, diagnosis *d)
{
    htc_error error = { .status = HTC_OK };
    if (j->files[0] || j->files[1]) {
        htc__drmaa_job_use(j);
        htc__drmaa_unlock();
        htc_status status = j->gone ? HTC_OK : bring(s, j, task, &error);
        htc__drmaa_lock();
        int raced = j->dropped || htc__drmaa_task_reaped(j, task);
        htc__drmaa_job_done(j);
        if (raced)
            return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "another thread has waited for the job");
        if (status != HTC_OK)
            return htc__drmaa_refused(d, ASKING, status, &error);
    }
    const task_end *e = j->ends && j->ends[task].known ? &j->ends[task] : NULL;
    drmaa_attr_values_t *values = NULL;
    int informed = e && e->informed;
    if (informed && w->rusage && !usage(e, &values))
        return htc__drmaa_no_memory(d);
    int stat = informed ? e->stat : 0;
    htc__drmaa_name_put(w->id_out, w->id_out_len, j, task);
    if (!htc__drmaa_job_reap(s, j, task)) {
        drmaa_release_attr_values(values);
        return htc__drmaa_no_memory(d);
    }
    if (w->stat)
        *w->stat = stat;
    if (w->rusage)
        *w->rusage = values;
    return informed ? DRMAA_ERRNO_SUCCESS : htc__drmaa_fail(d, DRMAA_ERRNO_NO_RUSAGE, "the job has ended, and its record is gone or damaged");
}

/* 1: *code is the answer; 0: it has to be waited for, *job (in use; NULL: all) has to be looked at. */
static int answered(session *s, const waiting *w, drmaa_job **job, int *code, diagnosis *d)
{
    uint64_t task = 0;
    int      over = 0;
    *job = NULL;
    htc__drmaa_lock();
    if (s->ended) {
        *code = htc__drmaa_no_session(d);
        over = 1;
    } else if (w->any) {
        drmaa_job *j = any_ended(s, &task);
        if (j || s->n_jobs == 0) {
            *code = j ? reap(s, w, j, task, d) : htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "this session has no job to wait for");
            over = !j || *code != DRMAA_ERRNO_INVALID_JOB; /* else another thread was faster */
        }
    } else {
        *code = find_job(s, w->id, 0, job, &task, d);
        over = *code != DRMAA_ERRNO_SUCCESS;
        if (!over && ((*job)->gone || ((*job)->ends && (*job)->ends[task].known))) {
            *code = reap(s, w, *job, task, d);
            over = 1;
        } else if (!over)
            htc__drmaa_job_use(*job);
        if (over)
            *job = NULL;
    }
    htc__drmaa_unlock();
    return over;
}

static void job_done(drmaa_job *j)
{
    htc__drmaa_lock();
    htc__drmaa_job_done(j);
    htc__drmaa_unlock();
}

static double shorter(double a, double b)
{
    return a < b ? a : b;
}

/* Give the gateway time: a job alone is waited for there, tasks of a larger one by looking again. */
static htc_status let_time_pass(session *s, drmaa_job *j, int whole, double left, double *poll, htc_error *error)
{
    if (j && whole && !j->over)
        return htc__drmaa_await(s, j, shorter(left, SLICE_S), error);
    htc__drmaa_lock();
    if (!s->ended)
        htc__drmaa_pause(s, shorter(left, *poll));
    htc__drmaa_unlock();
    *poll = shorter(*poll * 1.5, POLL_TO_S);
    return HTC_OK;
}

static int wait_for(session *s, const waiting *w, double until, diagnosis *d)
{
    double    poll = POLL_FROM_S;
    htc_error error = { .status = HTC_OK };
    for (;;) {
        drmaa_job *j;
        int        code = DRMAA_ERRNO_SUCCESS;
        if (answered(s, w, &j, &code, d))
            return code;
        htc_status status = j ? htc__drmaa_look(s, j, &error) : htc__drmaa_look_all(s, &error);
        drmaa_job *again = NULL;
        int        over = status == HTC_OK && answered(s, w, &again, &code, d);
        if (again)
            job_done(again);
        double left = until - htc__drmaa_now();
        if (!over && status == HTC_OK && left > 0)
            status = let_time_pass(s, j, j && j->count == 1, left, &poll, &error);
        if (j)
            job_done(j);
        if (over)
            return code;
        if (status != HTC_OK)
            return htc__drmaa_refused(d, ASKING, status, &error);
        if (left <= 0)
            return too_late(d);
    }
}

int drmaa_wait(const char *job_id, char *job_id_out, size_t job_id_out_len, int *stat, signed long timeout, drmaa_attr_values_t **rusage,
               char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    waiting   w = { job_id, job_id && strcmp(job_id, DRMAA_JOB_IDS_SESSION_ANY) == 0, job_id_out, job_id_out_len, stat, rusage };
    double    until = 0;
    if (rusage)
        *rusage = NULL;
    if (!job_id)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no job id");
    int code = until_of(timeout, &until, &d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    session *s = htc__drmaa_session();
    if (!s)
        return htc__drmaa_no_session(&d);
    code = wait_for(s, &w, until, &d);
    htc__drmaa_session_done(s);
    return code;
}

/* ---- drmaa_synchronize ---- */

/* A job, or one task of it. */
typedef struct wanted {
    drmaa_job *job; /* in use */
    uint64_t   task; /* UINT64_MAX: all */
} wanted;

typedef struct wanted_list {
    wanted *at;
    size_t  n;
} wanted_list;

static int want(wanted_list *l, size_t room, drmaa_job *j, uint64_t task)
{
    if (!l->at && !(l->at = calloc(room, sizeof *l->at)))
        return 0;
    l->at[l->n++] = (wanted){ htc__drmaa_job_use(j), task };
    return 1;
}

/* Under the lock. */
static int want_all(session *s, wanted_list *l, diagnosis *d)
{
    for (size_t i = 0; i < s->n_jobs; i++)
        if (!want(l, s->n_jobs, s->jobs[i], UINT64_MAX))
            return htc__drmaa_no_memory(d);
    return DRMAA_ERRNO_SUCCESS;
}

static int want_named(session *s, const char *const ids[], wanted_list *l, diagnosis *d)
{
    int        code = DRMAA_ERRNO_SUCCESS;
    size_t     n = 0;
    drmaa_job *j;
    uint64_t   task;
    while (ids[n])
        n++;
    for (size_t i = 0; i < n && code == DRMAA_ERRNO_SUCCESS; i++) {
        code = find_job(s, ids[i], 1, &j, &task, d);
        if (code == DRMAA_ERRNO_SUCCESS && !want(l, n, j, task))
            code = htc__drmaa_no_memory(d);
    }
    return code;
}

static void want_nothing(wanted_list *l)
{
    htc__drmaa_lock();
    for (size_t i = 0; i < l->n; i++)
        htc__drmaa_job_done(l->at[i].job);
    htc__drmaa_unlock();
    free(l->at);
}

static int has_ended(const wanted *w)
{
    const drmaa_job *j = w->job;
    return j->dropped || (w->task == UINT64_MAX ? j->over || j->known == j->count : htc__drmaa_task_ended(j, w->task));
}

/* The first that has not ended, from *at on; whole: nothing of its job is outside of what is waited for. Under the lock. */
static drmaa_job *first_open(const wanted_list *l, size_t *at, int *whole)
{
    while (*at < l->n && has_ended(&l->at[*at]))
        ++*at;
    if (*at == l->n)
        return NULL;
    drmaa_job *j = l->at[*at].job;
    uint64_t   open = 0;
    for (size_t i = *at; i < l->n && l->at[i].task != UINT64_MAX && l->at[i].job == j; i++)
        open += !has_ended(&l->at[i]);
    *whole = l->at[*at].task == UINT64_MAX || open >= j->count - j->known;
    return j;
}

/* Their files are brought, and with dispose they are forgotten. */
static int settle(session *s, const wanted_list *l, int dispose, diagnosis *d)
{
    htc_error  error = { .status = HTC_OK };
    htc_status status = HTC_OK;
    for (size_t i = 0; i < l->n && status == HTC_OK; i++) {
        drmaa_job *j = l->at[i].job;
        uint64_t   from = l->at[i].task == UINT64_MAX ? 0 : l->at[i].task, end = l->at[i].task == UINT64_MAX ? j->count : from + 1;
        int        files = (j->files[0] || j->files[1]) && !j->gone;
        for (uint64_t t = from; files && t < end && status == HTC_OK; t++)
            status = bring(s, j, t, &error);
    }
    if (status != HTC_OK)
        return htc__drmaa_refused(d, ASKING, status, &error);
    int whole = 1;
    htc__drmaa_lock();
    for (size_t i = 0; dispose && i < l->n; i++) {
        drmaa_job *j = l->at[i].job;
        if (j->dropped)
            continue;
        if (l->at[i].task == UINT64_MAX)
            htc__drmaa_job_drop(s, j);
        else
            whole &= htc__drmaa_job_reap(s, j, l->at[i].task);
    }
    htc__drmaa_unlock();
    return whole ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
}

static int synchronize(session *s, const wanted_list *l, double until, int dispose, diagnosis *d)
{
    htc_error error = { .status = HTC_OK };
    size_t    at = 0, before = 0;
    double    poll = POLL_FROM_S;
    for (int looked = 0;;) {
        int whole = 0;
        htc__drmaa_lock();
        int        ended = s->ended;
        drmaa_job *j = first_open(l, &at, &whole);
        htc__drmaa_unlock();
        if (ended)
            return htc__drmaa_no_session(d);
        if (!j)
            return settle(s, l, dispose, d);
        looked = looked && at == before; /* of another job the last look said nothing */
        before = at;
        double     left = until - htc__drmaa_now();
        htc_status status = HTC_OK;
        if (whole)
            status = htc__drmaa_await(s, j, left <= 0 ? 0 : shorter(left, SLICE_S), &error);
        else {
            if (looked && left > 0)
                let_time_pass(s, j, 0, left, &poll, &error);
            status = htc__drmaa_look(s, j, &error);
        }
        if (status != HTC_OK)
            return htc__drmaa_refused(d, ASKING, status, &error);
        if (left <= 0 && looked)
            return too_late(d);
        looked = 1;
    }
}

int drmaa_synchronize(const char *job_ids[], signed long timeout, int dispose, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis   d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    wanted_list l = { 0 };
    double      until = 0;
    int         all = 0;
    if (!job_ids)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there are no job ids");
    int code = until_of(timeout, &until, &d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    session *s = htc__drmaa_session();
    if (!s)
        return htc__drmaa_no_session(&d);
    for (size_t i = 0; job_ids[i]; i++)
        all |= strcmp(job_ids[i], DRMAA_JOB_IDS_SESSION_ALL) == 0;
    htc__drmaa_lock();
    code = all ? want_all(s, &l, &d) : want_named(s, job_ids, &l, &d);
    htc__drmaa_unlock();
    if (code == DRMAA_ERRNO_SUCCESS)
        code = synchronize(s, &l, until, dispose, &d);
    want_nothing(&l);
    htc__drmaa_session_done(s);
    return code;
}
