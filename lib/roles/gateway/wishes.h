/* What a submission may ask for beside limits (wishes.c), higher limits of tasks that are tried again, and filters of lists of jobs (filter.c). */
#ifndef HTC_ROLES_GATEWAY_WISHES_H
#define HTC_ROLES_GATEWAY_WISHES_H

#include <jansson.h>

#include "htcsched/codec.h"
#include "htcsched/work.h"

typedef struct htc_gateway htc_gateway;
typedef struct job         job;
typedef struct request     request;

#define ARRAY_TEXT_MAX 256
#define RAISED_MAX 15 /* limits of one job: a task's entry has four bits for which are its */

/* Limits of tasks that were tried again with more. 0: as the job has it. */
typedef struct raised {
    uint64_t memory; /* bytes */
    double   time_limit_s;
} raised;

#define MAIL_TO_MAX 256

/* How the job ended at whose end this one runs. */
typedef struct end_counts {
    uint8_t  known;
    uint64_t done, failed, cancelled;
    char     name[128];
} end_counts;

/* In the record only where there is any. */
typedef struct wishes {
    char     array[ARRAY_TEXT_MAX]; /* the numbers of its tasks, as Slurm writes them; "": none */
    char     signal[32];            /* SIG@SECONDS: sent ahead of the wall-time limit; "": none */
    htc_ns   begin;                 /* wall; 0: at once */
    raised   raised[RAISED_MAX];    /* task.level says which; from 1 */
    uint32_t n_raised;
    uint64_t   end_job; /* runs when this one has ended; 0: none */
    end_counts end;     /* of such a job */
    char       mail_to[MAIL_TO_MAX]; /* addresses with commas between them; "": nobody is told */
    uint8_t    mail_fail;            /* only if a task failed or was cancelled */
    char     project[33]; /* that it is for; "": none */
    uint8_t  credentials; /* has a record of users and passwords for its URLs: job.credentials has them while it is open */
} wishes;

/* wishes.c */
/* What the document's Submission says, put into the request where the request itself says nothing. */
void htc__gw_wishes_of_document(request *q, const htc_spec *spec);
int  htc__gw_wishes_parse(htc_gateway *gw, request *q, job *j); /* of a submission; 0: q has been answered */
int  htc__gw_wishes_are(const job *j);                          /* are there any? */
void htc__gw_wishes_write(htc_buf *b, const job *j);
void htc__gw_wishes_read(htc_reader *r, job *j, uint32_t least); /* so many, at least */
void htc__gw_wishes_json(json_t *o, const job *j); /* into a job's object */
void htc__gw_begin_arm(htc_gateway *gw, job *j);   /* early or not; looked at again when its time comes */
void htc__gw_begin_due(htc_gateway *gw, job *j);
int  htc__gw_begin_why(const htc_gateway *gw, const job *j, char *text, size_t cap); /* 0: it is not its time that it waits for */
/* The limits that a retry asks for, as those of the job (q->level; 0: none are asked for). 0: q has been answered. */
int  htc__gw_raise(htc_gateway *gw, request *q, job *j);
const raised *htc__gw_raised(const job *j, uint32_t level); /* NULL: as the job has it */

/* ---- users and passwords for its URLs: credentials.c ---- */

int  htc__gw_credentials_parse(htc_gateway *gw, request *q, job *j); /* of a submission; 0: q has been answered */
int  htc__gw_credentials_share(htc_gateway *gw, job *to, const job *from); /* 0: the gateway ends */
/* What its record has. HTC_ECORRUPT; HTC_ENOMEM: the gateway ends. */
htc_status  htc__gw_credentials_read(htc_gateway *gw, job *j, htc_bytes record);
htc_bytes   htc__gw_credentials_bytes(const job *j); /* for its record */
const char *htc__gw_credentials_of(const job *j, const htc_task *t); /* what this task gets; NULL: it has no URL, or there are none. Lent by the job */
void        htc__gw_credentials_free(job *j); /* wiped */

/* ---- what runs when a job has ended: end_job.c ---- */

/* The "on_end" of a submission as a job of its own, whose edge waits for parent; NULL: there is none. 0: q has been answered. */
int  htc__gw_end_parse(htc_gateway *gw, request *q, const job *parent, job **out);
void htc__gw_end_number(job *end, job *parent, uint64_t id);       /* the parent's is known */
void htc__gw_end_add(htc_gateway *gw, job *end);                   /* both are stored, and the parent is open */
void htc__gw_end_note(job *end, const job *parent);                /* the parent's end is durable */
/* A task's environment with what it is told of the parent: a list that ends with NULL, in one piece of *bytes, for htc__free; NULL: j is no such job, or the
 * gateway ends. n: of env, then of the list. */
const char **htc__gw_end_env(htc_gateway *gw, const job *j, const char *const *env, size_t *n, size_t *bytes);

/* ---- who is told that a job has ended: mail.c ---- */

typedef struct mail {
    uint64_t     id;
    uint32_t     tries;
    htc_ns       at; /* not before */
    struct mail *next;
} mail;

/* Addresses that can stand in a header and nowhere else: NAME@HOST or NAME, at most 8. Pure. */
int    htc__mail_to_is_fine(const char *text);
void   htc__gw_mail_add(htc_gateway *gw, uint64_t id); /* its end is durable */
void   htc__gw_mails_go(htc_gateway *gw);
htc_ns htc__gw_mails_deadline(const htc_gateway *gw);
void   htc__gw_mails_recover(htc_gateway *gw);
void   htc__gw_mails_free(htc_gateway *gw);

/* ---- filters ---- */

typedef struct job_filter {
    char    state[24], name[128]; /* "": any; name is a pattern */
    htc_ns  since, until;         /* of the submission; 0: any */
    uint8_t on;
} job_filter;

#define FILTER_LOOKED_MAX 10000 /* jobs that one request looks at */

/* Does text match a pattern of * (any text) and ? (one character)? Pure. Cost: O(length of both, multiplied). */
int  htc__glob(const char *pattern, const char *text);
int  htc__gw_filter_parse(htc_gateway *gw, request *q); /* 0: q has been answered */
/* read: as its record has it, with its user. */
int  htc__gw_filter_takes(htc_gateway *gw, const request *q, job *read);

#endif
