/* drmaa_control and drmaa_job_ps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

static uint64_t number(const json_t *o, const char *member)
{
    return (uint64_t)json_integer_value(json_object_get(o, member));
}

static const char *text(const json_t *o, const char *member)
{
    const char *value = json_string_value(json_object_get(o, member));
    return value ? value : "";
}

/* Ask op of a job, or of a task; gives the answer. */
static int ask_of(session *s, const char *op, const job_name *name, json_t **answer, diagnosis *d)
{
    char      selector[48];
    htc_error error = { .status = HTC_OK };
    if (name->has_task)
        snprintf(selector, sizeof selector, "%" PRIu64 ".%" PRIu64, name->job, name->task);
    else
        snprintf(selector, sizeof selector, "%" PRIu64, name->job);
    json_t    *request = json_pack("{s:s,s:s}", "op", op, "id", selector);
    htc_status status = htc__drmaa_ask(s, request, 0, answer, &error);
    json_decref(request);
    return status == HTC_OK ? DRMAA_ERRNO_SUCCESS : htc__drmaa_refused(d, ASKING, status, &error);
}

/* The job's line of "status"; gives it. */
static int job_of(session *s, const job_name *name, json_t **job, diagnosis *d)
{
    json_t  *answer = NULL;
    job_name whole = { .job = name->job };
    int      code = ask_of(s, "status", &whole, &answer, d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    *job = json_incref(json_array_get(json_object_get(answer, "jobs"), 0));
    json_decref(answer);
    if (*job && (!name->has_task || name->task < number(*job, "count")))
        return DRMAA_ERRNO_SUCCESS;
    json_decref(*job);
    return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "there is no job %" PRIu64 ".%" PRIu64, name->job, name->task);
}

/* ---- job_ps ---- */

static int is_held(const json_t *job)
{
    return strcmp(text(job, "state"), "paused") == 0;
}

/* It waits: for what? */
static int ps_of_waiting(const json_t *job)
{
    int     held = is_held(job), others = json_number_value(json_object_get(job, "begin")) > (double)time(NULL);
    size_t  i;
    json_t *after;
    json_array_foreach(json_object_get(job, "after"), i, after)
        others |= json_is_null(json_object_get(after, "outcome"));
    return held && others ? DRMAA_PS_USER_SYSTEM_ON_HOLD : held ? DRMAA_PS_USER_ON_HOLD : others ? DRMAA_PS_SYSTEM_ON_HOLD : DRMAA_PS_QUEUED_ACTIVE;
}

static int ps_of_task(const json_t *job, const char *state)
{
    static const struct {
        const char *state;
        int         ps;
    } known[] = { { "leased", DRMAA_PS_QUEUED_ACTIVE }, { "running", DRMAA_PS_RUNNING }, { "staging_out", DRMAA_PS_RUNNING },
                  { "done", DRMAA_PS_DONE },            { "failed", DRMAA_PS_FAILED },   { "cancelled", DRMAA_PS_FAILED } };
    if (strcmp(state, "waiting") == 0 || strcmp(state, "retry_wait") == 0)
        return ps_of_waiting(job);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].state, state) == 0)
            return known[i].ps;
    return DRMAA_PS_UNDETERMINED;
}

/* A job as a whole; of one task that is the task's. */
static int ps_of_job(const json_t *job)
{
    const json_t *n = json_object_get(job, "tasks");
    uint64_t      ended = number(n, "done") + number(n, "failed") + number(n, "cancelled");
    if (ended == number(job, "count"))
        return number(n, "done") == ended ? DRMAA_PS_DONE : DRMAA_PS_FAILED;
    if (number(n, "running") + number(n, "staging_out"))
        return DRMAA_PS_RUNNING;
    return number(n, "leased") ? DRMAA_PS_QUEUED_ACTIVE : ps_of_waiting(job);
}

static int state_of(session *s, const job_name *name, int *ps, diagnosis *d)
{
    json_t *job = NULL, *answer = NULL;
    int     code = job_of(s, name, &job, d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    if (!name->has_task || number(job, "count") == 1)
        *ps = ps_of_job(job);
    else if ((code = ask_of(s, "tasks", name, &answer, d)) == DRMAA_ERRNO_SUCCESS)
        *ps = ps_of_task(job, text(json_array_get(json_object_get(answer, "tasks"), 0), "state"));
    json_decref(answer);
    json_decref(job);
    return code;
}

static int read_name(const char *id, job_name *name, diagnosis *d)
{
    if (!id)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no job id");
    if (!htc__drmaa_name_read(id, name))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_JOB, "'%.60s' is no id of a job", id);
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_job_ps(const char *job_id, int *remote_ps, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    job_name  name;
    if (!remote_ps)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the state");
    session *s = htc__drmaa_session();
    if (!s)
        return htc__drmaa_no_session(&d);
    int code = read_name(job_id, &name, &d);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = state_of(s, &name, remote_ps, &d);
    htc__drmaa_session_done(s);
    return code;
}

/* ---- control ---- */

static int terminate(session *s, const job_name *name, diagnosis *d)
{
    json_t *answer = NULL;
    int     code = ask_of(s, "cancel", name, &answer, d);
    json_decref(answer);
    return code;
}

/* The gateway holds whole jobs. job: its line of "status". */
static int one_of_many(const json_t *job, const job_name *name, int code, diagnosis *d)
{
    if (name->has_task && number(job, "count") > 1)
        return htc__drmaa_fail(d, code, "the %" PRIu64 " jobs of a bulk submission are held and released together: name them all by %" PRIu64,
                               number(job, "count"), name->job);
    return DRMAA_ERRNO_SUCCESS;
}

/* A request whose answer was lost is sent again, and changes nothing then. before: the job as it was. 1: it was as was not wanted, and is now. */
static int has_become(session *s, const job_name *name, const json_t *before, int held)
{
    json_t   *now = NULL;
    diagnosis none = { NULL, 0 };
    int       has = is_held(before) != held && job_of(s, name, &now, &none) == DRMAA_ERRNO_SUCCESS && is_held(now) == held && ps_of_job(now) != DRMAA_PS_FAILED;
    json_decref(now);
    return has;
}

static int hold(session *s, const job_name *name, const json_t *job, diagnosis *d)
{
    const json_t *n = json_object_get(job, "tasks");
    json_t       *answer = NULL;
    job_name      whole = { .job = name->job };
    int           code = one_of_many(job, name, DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, d);
    if (code == DRMAA_ERRNO_SUCCESS && number(n, "waiting") + number(n, "retry_wait") == 0)
        code = htc__drmaa_fail(d, DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, "nothing of job %" PRIu64 " waits any more", name->job);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = ask_of(s, "hold", &whole, &answer, d);
    if (code == DRMAA_ERRNO_SUCCESS && number(answer, "held") == 0 && !has_become(s, name, job, 1))
        code = htc__drmaa_fail(d, DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, "job %" PRIu64 " is held already, or has ended", name->job);
    json_decref(answer);
    return code;
}

static int release(session *s, const job_name *name, const json_t *job, diagnosis *d)
{
    json_t  *answer = NULL;
    job_name whole = { .job = name->job };
    int      code = one_of_many(job, name, DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE, d);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = ask_of(s, "release", &whole, &answer, d);
    if (code == DRMAA_ERRNO_SUCCESS && number(answer, "released") == 0 && !has_become(s, name, job, 0))
        code = htc__drmaa_fail(d, DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE, "job %" PRIu64 " is not held", name->job);
    json_decref(answer);
    return code;
}

static int control(session *s, const job_name *name, int action, diagnosis *d)
{
    json_t *job = NULL;
    int     code = job_of(s, name, &job, d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    switch (action) {
    case DRMAA_CONTROL_TERMINATE:
        code = terminate(s, name, d);
        break;
    case DRMAA_CONTROL_HOLD:
        code = hold(s, name, job, d);
        break;
    case DRMAA_CONTROL_RELEASE:
        code = release(s, name, job, d);
        break;
    case DRMAA_CONTROL_RESUME:
        code = htc__drmaa_fail(d, DRMAA_ERRNO_RESUME_INCONSISTENT_STATE, "job %" PRIu64 " is not suspended: nothing is, here", name->job);
        break;
    default:
        code = htc__drmaa_fail(d, DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE,
                               "tasks that run are never stopped here: DRMAA_CONTROL_HOLD keeps those that wait from starting");
    }
    json_decref(job);
    return code;
}

/* Every job of the session; the first failure is told, after all were tried. */
static int control_all(session *s, int action, diagnosis *d)
{
    int first = DRMAA_ERRNO_SUCCESS;
    htc__drmaa_lock();
    size_t    n = s->n_jobs;
    uint64_t *ids = calloc(n + 1, sizeof *ids);
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = s->jobs[i]->id;
    htc__drmaa_unlock();
    if (!ids)
        return htc__drmaa_no_memory(d);
    for (size_t i = 0; i < n; i++) {
        diagnosis silent = { NULL, 0 };
        int       code = control(s, &(job_name){ .job = ids[i] }, action, first == DRMAA_ERRNO_SUCCESS ? d : &silent);
        first = first == DRMAA_ERRNO_SUCCESS ? code : first;
    }
    free(ids);
    return first;
}

int drmaa_control(const char *jobid, int action, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    job_name  name;
    if (action < DRMAA_CONTROL_SUSPEND || action > DRMAA_CONTROL_TERMINATE)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no action %d", action);
    session *s = htc__drmaa_session();
    if (!s)
        return htc__drmaa_no_session(&d);
    int all = jobid && strcmp(jobid, DRMAA_JOB_IDS_SESSION_ALL) == 0;
    int code = all ? DRMAA_ERRNO_SUCCESS : read_name(jobid, &name, &d);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = all ? control_all(s, action, &d) : control(s, &name, action, &d);
    htc__drmaa_session_done(s);
    return code;
}
