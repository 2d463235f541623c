/* The whole system in a world: one store or three members of one, one gateway or two, the agents it launches and the users who ask it, with a model of
 * what tasks do and checks of what must hold after every event.
 *
 *   system_store.c    the store over a disk that keeps what was durable at a crash and no more
 *   system_members.c  instead of it three members, and a proxy for each gateway
 *   system_gateway.c  the gateway and what its host does for it: launching, ending and watching agents
 *   system_agent.c    agents and their executor: run times and failures from the seed, stored outputs
 *   system_user.c     users: requests in JSON, repeated over broken connections
 *   system_flow.c     flows: their users submit seats, agents are workers, and what the store has of each is audited
 *   system_usage.c    what attempts have cost, added up from what became durable, and compared with what users are told
 *   system_records.c what is read of the gateway's records, and a job's document
 *   system_run.c     draws a run from its seed: who submits what, and what goes wrong
 *   system.c         puts them together; what was submitted, committed and stored, and the checks
 */
#ifndef HTC_SIM_SYSTEM_PRIVATE_H
#define HTC_SIM_SYSTEM_PRIVATE_H

#define HASH_NONFATAL_OOM 1
#include <jansson.h>
#include <stdio.h>
#include <uthash.h>

#include "htcsched/agent.h"
#include "htcsched/gateway.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "htcsched/work.h"
#include "core/codec.h"
#include "core/util.h"
#include "roles/runtime/agent_wire.h"
#include "htcsched/calls.h"

#define SYS_SITES_MAX    4
#define SYS_MEMBERS      3
#define SYS_PROXIES      2    /* one for each gateway */
#define SYS_UID          1000 /* whose processes they all are */
#define SYS_PEER_STORE   1    /* the gateway's number of its connection to the store */
#define SYS_PEER_GATEWAY 1    /* an agent's or user's number of its connection to the gateway */
#define SYS_DRIFT_PPM    10000 /* clocks of nodes run slower or faster by less than this, after a fault */

typedef struct sys       sys;
typedef struct sys_agent sys_agent;
typedef struct sys_user  sys_user;
typedef struct sys_member   sys_member;
typedef struct sys_proxy    sys_proxy;
typedef struct sys_register sys_register;

/* How one attempt goes. */
typedef struct sys_run {
    htc_ns     span;
    htc_status status; /* of the outcome */
    int32_t    exit_code;
    htc_status stage_in, stage_out; /* of those calls */
} sys_run;

typedef struct sys_options {
    htc_sim_options     sim;
    htc_sim_net         net;
    htc_gateway_options gateway; /* sites, policy, periods; the rest is filled in */
    htc_site_options    sites[SYS_SITES_MAX];
    uint32_t            n_sites;
    htc_ns              commit_ns, commit_jitter_ns; /* of the disk */
    htc_ns              launch_ns, launch_jitter_ns; /* until an agent's process is there */
    htc_ns              stage_ns;                    /* of staging either way */
    uint32_t            launch_fail_ppm;
    /* NULL: no task takes time or fails. */
    void (*run)(sys *s, const char *user, const htc_attempt *attempt, sys_run *run);
    uint32_t gateways;    /* 2: one of them waits */
    uint32_t flows;       /* 1: there are some among the jobs */
    uint32_t members;     /* SYS_MEMBERS: of the store; 0: it is one server */
    htc_ns   suspect_ns, request_ns; /* of these */
    int      check_idle;  /* no slot is free for longer than it may be while somebody demands it */
    uint32_t check_every; /* steps of the gateway are its counts added up; 0: 1 */
    void    *ctx;
} sys_options;

typedef struct sys_try {
    uint8_t    output; /* 1 stored, 2 dropped again */
    uint8_t    result; /* 1: a result of success is durable */
    uint8_t    told;   /* 1: a result is durable */
    htc_status status;
    htc_ns     span;
} sys_try;

/* What the disk holds of one task: results by attempt, and the stored outputs. */
typedef struct sys_task {
    struct {
        uint64_t job, task;
    } key;
    uint32_t committed; /* the attempt that the durable chunk record calls done; 0: none */
    sys_try *attempts;
    uint32_t       n_attempts;
    uint32_t       runs;      /* processes started for it */
    int            cancelled; /* so says the durable chunk record */
    uint32_t       leased;    /* so says it: this attempt; 0: none */
    htc_ns         leased_at; /* since then, at the latest */
    htc_ns         ended;
    UT_hash_handle hh;
} sys_task;

/* Where outputs of a job go, from its submission until it is removed. */
typedef struct sys_place {
    uint64_t       job;
    UT_hash_handle hh;
} sys_place;

struct sys_agent {
    sys                *s;
    htc_sim_node       *node;
    uint64_t            id;
    uint32_t            pid, site, slot;
    uint32_t            slots; /* its host was told that it may fill so many */
    char                user[64];
    int                 alive, watched; /* watched: the gateway of this incarnation is told of its end */
    uint64_t            watcher;
    htc_sim_node       *watched_by;
    uint32_t            running; /* slots that its processes fill */
    uint32_t            last_peer; /* connections that it had its host make */
    struct sys_process *processes;
    struct flow_disk   *disk; /* of its user in its slot: his next agent there has it too */
    sys_agent          *next;
};

/* A request, until it is answered or its connection breaks. */
typedef struct sys_request {
    uint64_t id;
    json_t  *body;
    int      sent;
    void (*answer)(sys_user *u, void *ctx, json_t *answer);
    void               *ctx;
    struct sys_request *next;
} sys_request;

struct sys_user {
    sys          *s;
    htc_sim_node *node;
    sys_request  *requests;
    uint64_t      last_id;
    int           connected, turns; /* turns: the gateway that it asked waits: it asks the other one */
    htc_buf       buf;
    sys_user     *next;
};

/* A batch on its way to a disk. */
typedef struct sys_commit {
    uint64_t tag;
    htc_buf  batch;
    int      pending;
} sys_commit;

/* What a chunk of a job has cost. */
typedef struct sys_cost {
    struct {
        uint64_t job, chunk; /* chunk UINT64_MAX: whose job it is */
    } key;
    uint64_t       core_ns;
    char           user[64];
    UT_hash_handle hh;
} sys_cost;

struct sys {
    htc_env       env;     /* its allocator alone is used */
    int           no_memory; /* for the run itself: it says nothing then */
    sys_task      no_task; /* given in the place of one for which there was no memory */
    sys_cost      no_cost;
    char          jsdl[2048], left[64];
    sys_options   options;
    htc_sim      *w;
    htc_kv_engine disk; /* what is durable; of several members: what is chosen */
    htc_sim_node *store, *gateway, *standby; /* standby: NULL: there is one gateway */
    uint64_t      instances[2]; /* of these two, as the record of the active one names them */
    sys_commit    commit;
    sys_member   *members; /* NULL: the store is one server */
    sys_proxy    *proxies;
    sys_register *registers;
    htc_ns              disk_full_until;
    htc_rng             rng_disk, rng_launch, rng_host, rng_random;
    sys_agent          *agents; /* newest first */
    uint32_t            last_node, last_pid, agents_alive, agents_launched;
    sys_task           *tasks;
    sys_place          *places;
    uint64_t            committed;
    uint32_t            crashes;    /* of gateway and store */
    htc_ns              idle_since; /* a slot is free and somebody demands it; HTC_NEVER: not so */
    htc_ns              idle_longest;
    htc_ns              disturbed_at; /* the last crash or pause of gateway or store */
    sys_user           *users;
    sys_user           *operator_;    /* who submits for everybody */
    struct sys_job     *jobs;
    struct sys_account *accounts;
    struct sys_flow    *flows;
    sys_cost           *costs;
    int                 usage_told;
    htc_ns              watch_every;
    uint64_t            steps; /* of the gateway */
};

htc_status htc__sys_open(const htc_env *env, const sys_options *options, sys **out);
void      *htc__sys_alloc(sys *s, size_t size); /* NULL: the run ends as one without memory */
void       htc__sys_no_memory(sys *s);
void      htc__sys_refused(sys *s, htc_status status, const char *what); /* for want of memory, or it is a fault */
void htc__sys_close(sys *s);
void htc__sys_fail(sys *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void htc__sys_note(sys *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void htc__sys_after(sys *s, htc_ns delay, void (*fn)(htc_sim *w, void *ctx), void *ctx);
void htc__sys_run_until(sys *s, htc_ns at); /* nothing if that is past */
/* faithful: a stream of bytes: it breaks, but loses nothing in the middle */
htc_sim_node *htc__sys_node(sys *s, const char *name, const htc_sim_host *host, void *ctx, int faithful);

/* system_store.c */
htc_sim_node *htc__sys_store_add(sys *s);
void          htc__sys_store_close(sys *s);
void          htc__sys_store_durable(sys *s, htc_bytes batch); /* it is stored: the disk has it and the checks are told */
/* A key of this job that the store still holds; NULL: none. Lent until the next call. */
const char *htc__sys_store_left(sys *s, uint64_t job);
uint64_t    htc__sys_store_jobs(sys *s); /* records of jobs */
/* The value of a key, as it is durable; HTC_ENOTFOUND. Lent until the disk changes. */
htc_status  htc__sys_store_value(sys *s, const char *key, htc_bytes *value);

/* system_members.c */
htc_sim_node *htc__sys_members_add(sys *s); /* the first of them */
void          htc__sys_members_boot(sys *s);
void          htc__sys_members_close(sys *s);
htc_sim_node *htc__sys_member(const sys *s, uint32_t i);
htc_sim_node *htc__sys_door(const sys *s, const htc_sim_node *gateway); /* that it speaks to the store through: the store, or its proxy */

/* system_gateway.c */
htc_sim_node *htc__sys_gateway_add(sys *s, const char *name);
htc_sim_node *htc__sys_some_gateway(const sys *s, htc_rng *rng);
int           htc__sys_is_gateway(const sys *s, const htc_sim_node *node);

/* system_records.c */
/* What a durable chunk record says of a task. */
typedef struct sys_task_state {
    uint64_t   offset;
    int        done, cancelled, leased;
    uint32_t   attempt;
    htc_status status;
    int        brief; /* its result is in here, */
    htc_ns     span;  /* with this run time */
} sys_task_state;
/* Its tasks, and the run time that it counts; HTC_EINVAL if it is no chunk record. */
htc_status htc__sys_chunk_read(sys *s, htc_bytes value, void (*seen)(void *ctx, const sys_task_state *task), void *ctx, uint64_t *core_ns);
/* What a durable job record says. */
typedef enum sys_end { SYS_OPEN = 0, SYS_OK, SYS_FAILED, SYS_CANCELLED } sys_end; /* OK: every task is done; CANCELLED: none failed */
typedef struct sys_job_state {
    uint64_t id;
    char     user[64], name[128];
    sys_end  end;
} sys_job_state;
int        htc__sys_is_void(htc_bytes value); /* a job's record that says that there is no such job */
htc_status htc__sys_job_read(htc_bytes value, sys_job_state *state);
int        htc__sys_serves(sys *s, uint64_t instance); /* of two gateways it is the active one, and what it goes on from is sealed */

/* system_agent.c */
sys_agent *htc__sys_agent_launch(sys *s, htc_sim_node *by, uint64_t id, uint32_t site, uint32_t slot, uint32_t slots, const char *user);
sys_agent *htc__sys_agent_find(sys *s, uint64_t id);
void       htc__sys_agent_tell_exit(sys_agent *a);
void       htc__sys_agent_put_handle(htc_buf *b, const sys_agent *a);
int        htc__sys_agent_is(const sys_agent *a, htc_bytes handle);
void       htc__sys_agent_stop_task(sys_agent *a); /* somebody suspends the process that it runs */
void       htc__sys_agents_close(sys *s);

/* system_user.c */
sys_user *htc__sys_user_add(sys *s, const char *name);
void      htc__sys_users_free(sys *s);
/* Ask as soon as there is a connection. body is taken, the answer is borrowed; NULL: the connection broke first. */
void htc__sys_ask(sys_user *u, json_t *body, void (*answer)(sys_user *u, void *ctx, json_t *answer), void *ctx);

/* system.c */
sys_task *htc__sys_task_of(sys *s, uint64_t job, uint64_t task);
void      htc__sys_output_stored(sys *s, const htc_attempt *attempt);
void      htc__sys_output_dropped(sys *s, const htc_attempt *attempt);
void      htc__sys_place_made(sys *s, uint64_t job);
void      htc__sys_place_dropped(sys *s, uint64_t job); /* with all that was stored there */
int       htc__sys_has_place(const sys *s, uint64_t job);
int       htc__sys_outputs_left(const sys *s, uint64_t job);
void      htc__sys_committed(sys *s, htc_bytes key, htc_bytes value); /* a value has become durable */
void      htc__sys_forgotten(sys *s, htc_bytes key);                   /* the record of what an attempt has is deleted */
void      htc__sys_check(sys *s, htc_sim_node *gateway);              /* after every step of a gateway */
#define SYS_AFTER_MAX 3
typedef enum sys_rule { SYS_AFTER_OK = 0, SYS_AFTER_ANY, SYS_AFTER_FAILED } sys_rule;

/* A job of a user, submitted again until it is there: the answer may be lost, the job not. */
typedef struct sys_job {
    sys            *s;
    char            user[64], name[64];
    uint64_t        count, id; /* 0: not known yet */
    uint64_t        memory;    /* bytes that a task asks for; 0: it names none */
    uint64_t        max_running; /* 0: any number */
    uint32_t        cores;       /* of a task; 0: 1 */
    uint32_t        node_cores;  /* of these on each node; 0: all */
    int             priority;
    int             acknowledged, finished, cancelled;
    int             removing, removed; /* asked for; answered */
    htc_ns          submitted, ended;
    struct {
        struct sys_job *parent;
        sys_rule        rule;
    } after[SYS_AFTER_MAX]; /* jobs that it waits for */
    uint32_t        n_after;
    struct sys_flow *flow;     /* its tasks are seats at this one; NULL: they are tasks */
    uint64_t        stored_id; /* of its record; 0: there was none yet */
    sys_end         stored_end; /* as its record said first */
    struct sys_job *next;
} sys_job;
sys_job *htc__sys_submit(sys *s, const char *user, const char *name, uint64_t count);
sys_job *htc__sys_submit_as(sys *s, const sys_job *wanted); /* by its user, name, count, memory, max_running, cores, priority and after */
sys_job *htc__sys_submit_large(sys *s, const char *user, const char *name, uint64_t count, uint64_t memory);
/* What a task of this job reserves at a site, as far as is known. */
uint64_t htc__sys_task_memory(sys *s, uint64_t job, uint32_t site);
void     htc__sys_cancel(sys_job *j); /* until it is told that it has */
void     htc__sys_remove(sys_job *j); /* until it is told that it is gone */
/* Keeps asking for all jobs: their counts must add up, and once finished they stay so. */
void htc__sys_watch_jobs(sys *s, htc_ns every);
int  htc__sys_all_finished(const sys *s);
/* Once nothing moves any more: each task has exactly one committed result, and what it names is stored. */
void htc__sys_check_results(sys *s);
typedef struct sys_account {
    sys                *s;
    char                name[64];
    uint64_t            weight;
    int                 ready;
    struct sys_account *next;
} sys_account;
/* Adds a user to the system, however often it has to be asked for. */
void htc__sys_add_account(sys *s, const char *name, uint64_t weight);
int  htc__sys_accounts_ready(const sys *s);

/* system_after.c */
void    htc__sys_job_stored(sys *s, const sys_job_state *state);            /* a job's record has become durable */
int     htc__sys_never_runs(const sys_job *j);                              /* a parent has ended as it should not */
void    htc__sys_check_begin(sys *s, const htc_attempt *attempt);           /* a process is started: all parents have ended as they should */
json_t *htc__sys_after_json(const sys_job *j);
void    htc__sys_draw_after(sys *s, sys_job *j, htc_rng *rng);              /* among the jobs of its user that there are */

/* system_flow.c */
typedef struct sys_flow sys_flow;
/* A flow of this user, drawn; its seats are submitted as a job of that name when it is stored. */
void      htc__sys_flow_add(sys *s, const char *user, const char *name, htc_rng *rng);
sys_flow *htc__sys_flow_of(const sys *s, uint64_t number);
uint64_t  htc__sys_flow_number(const sys_flow *f);
struct flow_audit *htc__sys_flow_files(const sys_flow *f); /* NULL: its tasks read nothing that others make */
uint64_t  htc__sys_flow_tasks(const sys *s); /* of all flows */
void      htc__sys_flow_text(const sys_flow *f, uint64_t task, htc_buf *b); /* what it prints, if it adds tasks */
/* An agent's process begins a task: how that goes. */
htc_status htc__sys_flow_begins(sys_flow *f, const sys_agent *a, uint64_t task);
void       htc__sys_flow_ends(sys_flow *f); /* and ends it, however */
void       htc__sys_flow_stopped(sys_flow *f); /* somebody has stopped the process of one of its tasks */
void       htc__sys_flow_cancel_some(sys *s, htc_rng *rng);
int        htc__sys_flows_submitted(const sys *s);
void       htc__sys_flows_stored(sys *s, htc_bytes batch); /* a batch has become durable */
void       htc__sys_flow_seat_done(const sys_flow *f, uint64_t job, uint64_t seat); /* so says a chunk record that has become durable */
int        htc__sys_flow_seats_fail(const sys_flow *f); /* its seats do not end well, for not all of its tasks did */
void       htc__sys_flows_check(sys *s);
void       htc__sys_flows_free(sys *s);

/* system_usage.c */
void htc__sys_usage_owner(sys *s, uint64_t job, const char *user);
/* A chunk's record has become durable that counts this much; sure: what its tasks' new results have cost, maybe: what may be
 * among it, of results of which it is not known whether they were counted or their attempt given up. */
void htc__sys_usage_chunk(sys *s, uint64_t job, uint64_t index, uint64_t core_ns, htc_ns sure, htc_ns maybe);
void htc__sys_usage_ask(sys *s); /* until users are told exactly what is durable: then usage_told */
void htc__sys_usage_free(sys *s);

/* The JSDL of a sweep of n tasks, no-ops for this world of so many cores each, of which node_cores on a node (0: all), or seats at a flow; 0: none. Lent
 * until the next call. */
const char *htc__sys_jsdl(sys *s, uint64_t n, uint32_t cores, uint32_t node_cores, uint64_t flow);
uint64_t    htc__sys_leased(const sys *s, uint64_t job); /* tasks of a job, as the durable chunk records say */
sys_job    *htc__sys_job_of_record(const sys *s, uint64_t id); /* as its durable record has it; NULL: none of ours */

#endif
