/* Projects, quotas and the accounts of usage, as the gateway keeps them; gateway.h includes this.
 *
 *   projects.c  projects: records, requests, weights      usage.c       who used what, by day: day_usage.h
 *   quotas.c    limits: who has room, requests            api_report.c  sums of it, asked for
 *   usage_fold.c  days of long ago, summed up */
#ifndef HTC_ROLES_GATEWAY_PROJECTS_H
#define HTC_ROLES_GATEWAY_PROJECTS_H

#define PROJECT_NAME_BYTES 33
#define PROJECT_USERS_MAX 4096
#define PROJECTS_MAX 4096
#define PROJECT_SHARES_MAX (UINT64_C(1) << 32)

struct project {
    char     name[PROJECT_NAME_BYTES];
    uint64_t shares; /* 1 to PROJECT_SHARES_MAX */
    char   (*users)[PROJECT_NAME_BYTES]; /* in order */
    uint32_t n_users;
    htc_allot_usage usage; /* of its jobs; on the clock of wall */
    quota_holder quota;
    uint64_t core_ns;  /* ever, as the days have it */
    uint64_t bytes;    /* of the outputs of its jobs */
    uint64_t running;  /* leased tasks of its jobs */
    uint64_t unfinished, coming; /* as a user's */
    job     *jobs;     /* open ones */
    uint64_t weight;   /* as the last division had it, in 1/1024 */
    uint64_t counted;  /* for a moment */
    uint64_t weighed;  /* while weights are made: the sum of those of its users */
    uint64_t version;
    uint8_t  dirty, writing, gone, deleting;
    struct request *told; /* when what is being written is durable; NULL: nobody is */
    struct request *asks; /* for a change that is written next */
    UT_hash_handle      hh;
};

/* What one user has used today; it outlives the user. */
typedef struct used_book {
    char     name[NAME_MAX_BYTES];
    day_usage   today;
    day_usage   folded; /* of all days before its number, which is 0 where there are none: usage_fold.c */
    uint64_t core_ns; /* in all days of that name, those too */
    uint64_t version, folded_version;
    uint8_t  kept; /* there is a record of some day */
    uint8_t  dirty, writing;
    uint8_t  counting; /* while the term is sealed: a gateway before this one may be counting for this user */
    UT_hash_handle hh;
} used_book;

/* usage.c */
/* Count what an attempt of j has cost at a site ("-": not known), for the report and the project. */
void htc__gw_account(htc_gateway *gw, const job *j, const char *site_name, day_sums more);
void htc__gw_usage_found(htc_gateway *gw, const htc_kv_item *item);  /* at the start */
void htc__gw_usage_settle(htc_gateway *gw); /* everything is read: what a gateway before us did not come to write down is in the days again */
void htc__gw_usage_seal(htc_gateway *gw); /* write anew what a gateway before this one may be writing (seal.c) */
void htc__gw_usage_flush(htc_gateway *gw);  /* at the end of a step: write what is due */
int  htc__gw_usage_busy(const htc_gateway *gw); /* something is not durable */
void htc__gw_usage_free(htc_gateway *gw);
uint32_t htc__gw_today(const htc_gateway *gw);

used_book *htc__gw_book(htc_gateway *gw, const char *name); /* NULL: there is no memory for it, and the gateway ends */
uint32_t   htc__gw_book_day(const htc_gateway *gw, const used_book *b); /* to which is counted what comes now */
void       htc__gw_book_add(htc_gateway *gw, used_book *b, const day_usage *l); /* to the sums of all days */

/* usage_fold.c */
void htc__gw_fold_note(htc_gateway *gw, uint32_t day); /* there is a record of that day */
void htc__gw_usage_fold(htc_gateway *gw);              /* at a tick: what is due */
void htc__gw_fold_found(htc_gateway *gw, const htc_kv_item *item); /* at the start, before the days */
void htc__gw_fold_seal(htc_gateway *gw, used_book *b);
void htc__gw_fold_free(htc_gateway *gw);

/* projects.c */
project *htc__gw_project(const htc_gateway *gw, const char *name); /* NULL: there is none, also for "" and NULL */
int      htc__gw_project_has(const project *p, const char *user_name);
project *htc__gw_project_of(htc_gateway *gw, const char *user_name); /* the first one in order of names with that user; NULL: none */
void     htc__gw_project_found(htc_gateway *gw, const htc_kv_item *item);
void     htc__gw_project_dirty(htc_gateway *gw, project *p); /* it is written before long */
void     htc__gw_project_save(htc_gateway *gw, request *q, project *p); /* p->asks is NULL: it is written now, or next, and then q is answered */
void     htc__gw_projects_seal(htc_gateway *gw); /* as usage */
void     htc__gw_projects_flush(htc_gateway *gw);
/* The weights of n users who divide, each with its own in weight_used: users of one project divide that project's weight. */
htc_status htc__gw_project_weights(htc_gateway *gw, user **who, size_t n);
void     htc__gw_api_projects(htc_gateway *gw, request *q); /* project.add, project.set, project.rm, projects */
void     htc__gw_projects_free(htc_gateway *gw);
void       htc__gw_record_project_write(htc_buf *b, const project *p);
htc_status htc__gw_record_project_read(const htc_env *env, htc_bytes bytes, project *p); /* gives p->users */
void       htc__gw_limits_write(htc_buf *b, const quota_limits *l);
void       htc__gw_limits_read(htc_reader *r, quota_limits *l);

/* quotas.c */
/* Held tasks, core time or limits of them have changed: what may be handed out follows. u, p: NULL: of nobody. */
void htc__gw_quota_moved(htc_gateway *gw, user *u, project *p);
uint64_t htc__gw_quota_room(const job *j); /* tasks of it that quotas let be handed out */
uint64_t htc__gw_quota_demand(htc_gateway *gw, const user *u);
int      htc__gw_quota_spent(const htc_gateway *gw, const user *u); /* core hours: O(1) */
void htc__gw_quotas_look(htc_gateway *gw); /* now and then: what runs counts too */
/* A submission of so many tasks begins to be stored (1), or that is over (0), whatever came of it: it counts meanwhile. */
void htc__gw_quota_coming(user *u, project *p, uint64_t tasks, int on);
int  htc__gw_quota_has_task(const htc_gateway *gw, const job *j); /* may one more of it be unfinished? */
/* May u submit that many tasks in p (NULL: in none)? 0: q has been answered. */
int  htc__gw_quota_admits(htc_gateway *gw, request *q, const user *u, const project *p, uint64_t tasks);
/* May so many bytes more of outputs of j be kept? 0: and why not. */
int  htc__gw_quota_takes(const htc_gateway *gw, const job *j, uint64_t bytes, char *why, size_t cap);
/* Bytes that uploads of u may come to, beside the outputs that are kept; QUOTA_NONE: any number. */
uint64_t htc__gw_quota_uploads(const htc_gateway *gw, const user *u);
void     htc__gw_quota_refuses_upload(htc_gateway *gw, request *q, htc_bytes left); /* the host has; left: in its words */
/* Why nothing of the job may be handed out, for people; 0: quotas do not keep it. */
int  htc__gw_quota_why(const htc_gateway *gw, const job *j, char *text, size_t cap);
json_t *htc__gw_quota_json(htc_gateway *gw, const user *u, const project *p); /* of one of them; the other NULL */
void htc__gw_quota_found(htc_gateway *gw, const htc_kv_item *item);
void htc__gw_quotas_seal(htc_gateway *gw); /* as usage */
void htc__gw_api_quota(htc_gateway *gw, request *q);
int  htc__gw_quota_retries(htc_gateway *gw, request *q, const job *j); /* may any be? 0: q has been answered */

/* api_report.c */
void htc__gw_api_report(htc_gateway *gw, request *q);

#endif
