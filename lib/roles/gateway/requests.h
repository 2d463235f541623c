/* The users' requests, while they are worked on: api.c finds the operation and the jobs, the others carry it out. gateway.h includes this. */
#ifndef HTC_ROLES_GATEWAY_REQUESTS_H
#define HTC_ROLES_GATEWAY_REQUESTS_H

/* api.c */
/* The jobs that q's selector (its "id") names and q may see, newest first; fn may be called at once. "all" is worked through
 * in pages: the jobs with numbers below q's "before", at most "limit" of them, and q->more says whether older ones follow.
 * Without a match of another selector fn is not called and q is answered with the error. */
#define PAGE_JOBS_MAX 1000
typedef void (*select_fn)(htc_gateway *gw, request *q, const uint64_t *ids, size_t n);
typedef void (*job_fn)(htc_gateway *gw, request *q, job *j);
#define RANGES_MAX 64
typedef struct selector {
    uint64_t job;      /* 0: several */
    uint8_t  all, last, has_tasks;
    struct {
        uint64_t from, to;
    } ranges[RANGES_MAX]; /* of tasks, both ends included */
    uint32_t n_ranges;
} selector;

struct request {
    uint32_t peer;
    uint64_t id;
    user    *user; /* who is acted for */
    uint32_t uid;  /* who asks; UINT32_MAX: not known */
    uint32_t caller; /* the same, as far as callers are kept from crowding each other out: the uid, or a number of the key */
    uint8_t  operator_, by_token;
    json_t  *body;
    char     op[24];
    htc_ns   until;  /* wait: HTC_NEVER or the time to give up; 0: not waiting */
    selector select; /* of "id" */
    uint64_t *ids;   /* of the jobs it names */
    size_t    n_ids, cap_ids, at;
    uint8_t   more;      /* "all" names older ones than those */
    uint8_t   level;     /* retry: of the limits that it asks for */
    job_filter filter;
    uint64_t  looked, stopped_at; /* with a filter: jobs looked at; after which one, where the page ends early */
    uint64_t  usual;     /* the most of a page, without a "limit" */
    uint64_t  newest;    /* of the jobs whose keys are being read (htc__gw_key_jobs); of one's own: of those that are to be */
    htc_status select_failed; /* of one's own: reading one of them */
    uint32_t  reads;     /* so many records at once */
    job_fn    listed;    /* of each job of the page, as its record has it; NULL: nothing is done then */
    select_fn selected;
    select_fn passed;    /* of "all": the job at hand is gone by now; go on with the next. NULL: that is an error */
    htc_buf   raw;   /* the payload of UPLOAD and DOWNLOAD */
    json_t   *answer; /* as far as it is */
    uint64_t  total, left; /* changed; passed over because it cannot be changed now */
    request *prev, *next;
};
void htc__gw_user_message(htc_gateway *gw, conn *c, uint16_t type, uint64_t id, htc_bytes payload);
void htc__gw_request_run(htc_gateway *gw, request *q); /* who asks is settled: do it */
void htc__gw_req_answer(htc_gateway *gw, request *q, json_t *answer /* taken */);
void htc__gw_req_fail(htc_gateway *gw, request *q, htc_status status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void htc__gw_req_error(htc_gateway *gw, request *q, const htc_error *error);
void htc__gw_req_free(htc_gateway *gw, request *q);
const char *htc__gw_req_str(const request *q, const char *name); /* NULL if it is not a string */
uint64_t    htc__gw_req_u64(const request *q, const char *name, uint64_t otherwise);
double      htc__gw_req_num(const request *q, const char *name, double otherwise);
int         htc__gw_req_flag(const request *q, const char *name);
void htc__gw_requests_closed(htc_gateway *gw, uint32_t peer);
void htc__gw_changing_free(htc_gateway *gw);
int  htc__gw_job_changes(const htc_gateway *gw, uint64_t id); /* it is being removed or opened again */
int  htc__gw_job_unseen(htc_gateway *gw, const job *j); /* stored by a gateway whose term was over: nobody was told of it */
void htc__gw_waits_check(htc_gateway *gw);

/* owned.c */
void       htc__gw_owned_add(htc_gateway *gw, user *u, uint64_t id);
void       htc__gw_owned_drop(user *u, uint64_t id);
size_t     htc__gw_owned_below(owned_jobs *l, uint64_t id); /* so many have lower numbers: the first of ids, which are in order then */
void       htc__gw_owned_free(htc_gateway *gw, user *u);
htc_status htc__gw_selector_parse(const char *text, selector *s);
void       htc__gw_select(htc_gateway *gw, request *q, select_fn fn);
/* All that "all" names, of a request without "id": usual jobs in a page that has no "limit". listed may be NULL. */
void       htc__gw_list_jobs(htc_gateway *gw, request *q, uint64_t usual, job_fn listed, select_fn fn);
/* As htc__gw_select of whole jobs: a selector that names tasks is refused. instead: what does it for tasks, or "". */
void       htc__gw_select_jobs(htc_gateway *gw, request *q, select_fn fn, const char *instead);
uint64_t   htc__gw_req_page(const request *q, uint64_t otherwise, uint64_t *before); /* its "limit" and "before" */
json_t    *htc__gw_req_next(const request *q); /* of "all": the "before" of the page that follows, or null */
int        htc__gw_may_see(const request *q, const job *j);

void htc__gw_api_accounts(htc_gateway *gw, request *q);
void htc__gw_api_submit(htc_gateway *gw, request *q);
void htc__gw_api_status(htc_gateway *gw, request *q);
void htc__gw_api_tasks(htc_gateway *gw, request *q);
void htc__gw_api_results(htc_gateway *gw, request *q);
void htc__gw_api_control(htc_gateway *gw, request *q); /* cancel, retry, rm, shutdown */
void htc__gw_api_listing(htc_gateway *gw, request *q); /* users, agents, ping */
void htc__gw_api_why(htc_gateway *gw, request *q);
void htc__gw_api_du(htc_gateway *gw, request *q);
void htc__gw_api_generate(htc_gateway *gw, request *q); /* generate, validate */
json_t *htc__gw_spec_warnings(const htc_spec *spec);    /* a list of texts */
void htc__gw_request_add(htc_gateway *gw, request *q, uint64_t id); /* to the jobs that it is about */
void htc__gw_api_history(htc_gateway *gw, request *q), htc__gw_history_go(htc_gateway *gw); /* the latter at the beginning of a step */
void htc__gw_api_files(htc_gateway *gw, request *q); /* log, blob, UPLOAD, DOWNLOAD */
json_t *htc__gw_job_json(htc_gateway *gw, const job *j);
/* Job id for this request: an open one from memory, another from its record (without a specification). It is held while
 * fn runs. Not there, or another user's: q is answered with the error and fn is not called. */
void htc__gw_with_job(htc_gateway *gw, request *q, uint64_t id, job_fn fn);

#endif
