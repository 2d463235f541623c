/* What the files of libhtc-drmaa share. */
#ifndef HTC_DRMAA_PRIVATE_H
#define HTC_DRMAA_PRIVATE_H

#include "htcsched/access.h"
#include "htcsched/client.h"
#include "htcsched/env.h"
#include "htcsched/status.h"
#include "htcsched/work.h"

#include "htc-drmaa/drmaa.h"

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* ---- codes.c ---- */

/* The caller's buffer for the cause. */
typedef struct diagnosis {
    char  *text;
    size_t len;
} diagnosis;

diagnosis htc__drmaa_diagnosis(char *text, size_t len); /* emptied */
/* Says why, and answers code. */
int  htc__drmaa_fail(diagnosis *d, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int  htc__drmaa_no_memory(diagnosis *d);
int  htc__drmaa_no_session(diagnosis *d);
void htc__drmaa_put(char *to, size_t len, const char *text); /* cut to len bytes with the zero; NULL or 0 is fine */

typedef enum purpose { ASKING, SUBMITTING } purpose;
/* Says what the gateway, or the way to it, said; answers what the standard calls that. */
int htc__drmaa_refused(diagnosis *d, purpose what, htc_status status, const htc_error *error);

/* ---- lists.c ---- */

typedef struct text_list {
    char **at;
    size_t count, room, next;
} text_list;

struct drmaa_attr_names_s {
    text_list list;
};
struct drmaa_attr_values_s {
    text_list list;
};

int  htc__drmaa_list_add(text_list *l, const char *text); /* 0: no memory */
int  htc__drmaa_list_print(text_list *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void htc__drmaa_list_free(text_list *l);

/* The ids of a bulk submission: not one text each. */
struct drmaa_job_ids_s {
    uint64_t job, count, next;
};

/* ---- attributes.c, template.c ---- */

typedef enum attribute {
    ATTR_REMOTE_COMMAND,
    ATTR_JS_STATE,
    ATTR_WD,
    ATTR_JOB_CATEGORY,
    ATTR_NATIVE_SPECIFICATION,
    ATTR_BLOCK_EMAIL,
    ATTR_START_TIME,
    ATTR_JOB_NAME,
    ATTR_INPUT_PATH,
    ATTR_OUTPUT_PATH,
    ATTR_ERROR_PATH,
    ATTR_JOIN_FILES,
    ATTR_TRANSFER_FILES,
    ATTR_WCT_HLIMIT,
    ATTR_DURATION_HLIMIT,
    ATTR_SCALARS, /* how many there are */
    ATTR_V_ARGV = ATTR_SCALARS,
    ATTR_V_ENV,
    ATTR_V_EMAIL,
    ATTR_COUNT
} attribute;

struct drmaa_job_template_s {
    char     *value[ATTR_SCALARS];            /* NULL: not set */
    text_list list[ATTR_COUNT - ATTR_SCALARS]; /* at is NULL: not set */
};

const char *htc__drmaa_attribute_name(attribute a);
attribute   htc__drmaa_attribute_find(const char *name); /* ATTR_COUNT: there is none */
/* Is this a value of it? Else says why. */
int htc__drmaa_attribute_check(attribute a, const char *value, diagnosis *d);
/* [[h:]m:]s; 0: it is something else. */
int htc__drmaa_seconds(const char *text, double *seconds);
/* A copy to submit from, made while nobody else changes it; 0: no memory. */
int  htc__drmaa_template_copy(const drmaa_job_template_t *from, drmaa_job_template_t *to);
void htc__drmaa_template_clear(drmaa_job_template_t *t);

/* ---- start_time.c ---- */

/* [[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]: the first such moment from now on, or the one that it names.
 * DRMAA_ERRNO_SUCCESS, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE. */
int htc__drmaa_start_time(const char *text, time_t now, time_t *moment);

/* ---- jobs.c: the session's jobs ---- */

/* How a task ended. */
typedef struct task_end {
    uint8_t  known, reaped, informed; /* informed: the rest is known too */
    int      stat;
    double   started, ended, cpu_s;
    uint64_t memory;
    char    *node, *reason; /* given, or NULL */
} task_end;

/* A job that this session submitted. */
typedef struct drmaa_job {
    uint64_t  id, count;
    uint8_t   bulk; /* its tasks are the jobs of a bulk submission */
    uint8_t   over; /* all tasks have ended */
    uint8_t   gone; /* the gateway has it no more */
    uint8_t   dropped;
    uint32_t  users;       /* of those who work with it outside of the lock */
    uint64_t  known, reaped; /* tasks of which the end is known; which were waited for */
    uint64_t  low, first;    /* below low every end is known, below first every task is reaped */
    task_end *ends;          /* count of them, or NULL: none is known, none reaped */
    char     *files[2];      /* where standard output and standard error are brought, with the index's placeholder; NULL: nowhere */
    int64_t   start, incr;   /* index of task 0, and from one to the next */
} drmaa_job;

/* Which job, or which task of one. */
typedef struct job_name {
    uint64_t job, task;
    uint8_t  has_task;
} job_name;

int  htc__drmaa_name_read(const char *text, job_name *name); /* 0: it is no id of ours */
void htc__drmaa_name_put(char *to, size_t len, const drmaa_job *j, uint64_t task);

/* ---- session.c ---- */

#define IDLE_MAX 8 /* connections that are kept */

typedef struct session {
    uint32_t    users; /* calls that are under way, and the process */
    uint8_t     ended;
    char       *dir, *gateway, *user, *token_file, *categories; /* as the contact has them; dir as an absolute path */
    htc_access *access; /* the way, and whose login is sent */
    double      timeout_s;
    char        contact[DRMAA_CONTACT_BUFFER];
    htc_client *idle[IDLE_MAX];
    size_t      n_idle;
    drmaa_job **jobs; /* by id, ascending */
    size_t      n_jobs, room;
    pthread_cond_t changed; /* an end became known, or the session ended */
} session;

/* One lock for all of the library's state; nothing is asked of the gateway while it is held. */
void htc__drmaa_lock(void);
void htc__drmaa_unlock(void);
/* Under the lock: until something has changed, or for so long. */
void htc__drmaa_pause(session *s, double seconds);
/* The session, to be given back; NULL: there is none. */
session *htc__drmaa_session(void);
void     htc__drmaa_session_done(session *s);
int      htc__drmaa_session_is_there(void);
double   htc__drmaa_now(void); /* monotonic, seconds */

/* ---- ask.c ---- */

/* A request (borrowed) and its answer (given). answer_s: how much longer than the session's timeout the answer may take. A gateway that is
 * away is waited for, for as long as that timeout says; HTC_ETIMEDOUT is the gateway's own word. */
htc_status htc__drmaa_ask(session *s, const json_t *request, double answer_s, json_t **answer, htc_error *error);
/* The content of a file goes to the gateway; hex: its name there. */
htc_status htc__drmaa_upload(session *s, const char *path, char hex[65], htc_error *error);
/* What a task wrote to "stdout" or "stderr" becomes the file path. */
htc_status htc__drmaa_fetch(session *s, uint64_t job, uint64_t task, const char *name, const char *path, htc_error *error);
void       htc__drmaa_hang_up(session *s); /* idle connections */

/* ---- jobs.c, under the lock ---- */

drmaa_job *htc__drmaa_job_find(const session *s, uint64_t id);
drmaa_job *htc__drmaa_job_add(session *s, uint64_t id, uint64_t count); /* NULL: no memory */
drmaa_job *htc__drmaa_job_use(drmaa_job *j);                            /* for work outside of the lock, then: */
void       htc__drmaa_job_done(drmaa_job *j);
int        htc__drmaa_task_ended(const drmaa_job *j, uint64_t task);
int        htc__drmaa_task_reaped(const drmaa_job *j, uint64_t task);
int        htc__drmaa_job_reap(session *s, drmaa_job *j, uint64_t task); /* the last one of a job drops it; 0: no memory */
void       htc__drmaa_job_drop(session *s, drmaa_job *j);
void       htc__drmaa_jobs_free(session *s);

/* ---- look.c, outside of the lock: what became of tasks ---- */

htc_status htc__drmaa_look(session *s, drmaa_job *j, htc_error *error);
htc_status htc__drmaa_look_all(session *s, htc_error *error);
/* Until the job has ended, at most so long: then job->over. */
htc_status htc__drmaa_await(session *s, drmaa_job *j, double seconds, htc_error *error);

/* ---- native.c ---- */

/* What a submission asks for beside the command. */
typedef struct wishes {
    json_t   *request; /* members of "submit" */
    uint32_t  cores, node_cores;
    text_list inputs, env;
    json_t   *after;
    char     *container;                     /* image, or NULL */
    char     *hosts, *architecture, *system; /* where it may run, or NULL */
    text_list resources;                     /* names of what is counted, and how many of each: */
    uint32_t  counts[HTC_TASK_RESOURCES_MAX];
} wishes;

/* The options of htc submit; DRMAA_ERRNO_... */
int  htc__drmaa_native(session *s, wishes *w, const char *text, diagnosis *d);
int  htc__drmaa_category(session *s, wishes *w, const char *name, diagnosis *d);
void htc__drmaa_wishes_free(wishes *w);

/* ---- status.c ---- */

/* stat of drmaa_wait. */
#define STAT_EXITED   (1 << 16)
#define STAT_SIGNALED (1 << 17)
#define STAT_ABORTED  (1 << 19)
int htc__drmaa_stat(const json_t *result);

#endif
