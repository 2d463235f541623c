/* The inside of the gateway. One struct a thing, one file a duty:
 *
 *   gateway.c   create, step, deadline, connections       fair.c      who gets slots, who leaves (htcsched/allot.h)
 *   keys.c      under which keys records are kept         agents.c    launch, register, heartbeat, lose, leave
 *   records.c   what is kept there, byte by byte          grants.c    pull, grant, result, verdict: fenced attempts
 *   jobs.c      open jobs, their counts and chunks        accounts.c  users, passwords, tokens
 *   recover.c   the start: everything back from the store held.c      what an agent holds
 *   api*.c      the users' requests (doc/api.md)
 *   remove.c    jobs that are removed, however often it is interrupted
 *   probe.c     whether a job that has ended could be opened again
 *   health.c    when a job is handed out slowly (pure)    place.c     which job may hand out a task at which site
 *   memory.c    what tasks reserve, and who waits (pure)  admission.c what is taken on while much is on its way (pure)
 *   offers.c    which machine a task asks for, and which ones there are (pure)
 *   logins.c    whose password is looked at next, and who is told late that it is wrong (pure)
 *   node_health.c  which nodes fail everybody (pure)      site_choice.c  where a task fits, where an agent starts (pure)
 *   requests.h  the users' requests: api*.c, and whose jobs they are about
 *   content.c   what is uploaded, and goes when no job names it
 *   content_sites.c  what of it tasks read at sites beyond this machine
 *   submissions.c  keys under which a submission may be repeated
 *   wishes.c    what a submission may ask for beside limits: an array's numbers, a time to begin, a signal
 *   end_job.c   what runs when a job has ended              mail.c    who is told that it has
 *   elsewhere.c a task that failed is tried again on another node, if it can be
 *   dues.c      what is due later                       filter.c  which jobs of a list are meant
 *   after.c     jobs that wait for other jobs             owned.c    which jobs a user has
 *   share_history.c  cores by user over time (pure)      api_history.c  who is told
 *   slots.c     which slots an agent has                 agent_figures.c  what attempts came to, for monitors (pure)
 *   wide.c      tasks that take several slots of one agent
 *   gang.c      which nodes a gang is of, and when it is given up (pure)  gangs.c  gangs
 *   reservation.c  which task of several slots has waited for longest (pure)  reserved.c  slots for it alone
 *   nodes_closed.c  nodes out of service
 *   counted.c   what sites count: GPUs, licences (pure)   taken.c     what attempts have of that
 *   projects.h  projects, quotas, and who used what: projects.c, quotas.c, usage.c, usage_fold.c, api_report.c; pure: quota.c, day_usage.c
 *   joined.c    sites beyond this machine, whose hosts have joined
 *   joined_files.c  files that tasks have left on the disks of these
 *   active.c    which of several gateways on one store is the active one; nothing leaves before that is confirmed
 *   writes.c    the writes of open jobs
 *   seal.c      a gateway that becomes active writes all that it goes on from anew
 *
 * The rule that makes a kill at any moment harmless: what the outside may rely on (a grant, a verdict, an accepted job)
 * is said only after the record that holds it is durable. Memory runs ahead of the store, never the other way; each
 * record has at most one write in flight, and what changes meanwhile travels with the next. */
#ifndef HTC_ROLES_GATEWAY_GATEWAY_H
#define HTC_ROLES_GATEWAY_GATEWAY_H

#include <jansson.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/util.h"
#include "core/wire.h"
#include "htcsched/allot.h"
#include "htcsched/gateway.h"
#include "htcsched/kv.h"
#include "htcsched/runtime.h"
#include "htcsched/work.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/apart.h"
#include "htcsched/calls.h"
#include "roles/gateway/active.h"
#include "roles/gateway/admission.h"
#include "roles/gateway/after.h"
#include "roles/gateway/agent_figures.h"
#include "roles/gateway/counted.h"
#include "roles/gateway/health.h"
#include "roles/gateway/day_usage.h"
#include "roles/gateway/keys.h"
#include "roles/gateway/logins.h"
#include "roles/gateway/memory.h"
#include "roles/gateway/node_health.h"
#include "roles/gateway/offers.h"
#include "roles/gateway/quota.h"
#include "roles/gateway/share_history.h"
#include "roles/gateway/site_choice.h"
#include "roles/gateway/taken.h"
#include "roles/gateway/wide.h"
#include "roles/gateway/wishes.h"

#define NAME_MAX_BYTES 64
#define REASON_MAX     320 /* why nothing is launched somewhere */
#define AGENT_SLOTS_MAX 64 /* of one agent */
#define CHUNK_TASKS 1024u      /* tasks in one chunk record */
#define BRIEF_BYTES 16         /* of a result in there */
#define CHUNKS_OPEN_MAX 256    /* of one job: no fresh chunk is begun beyond, which bounds memory when everything fails */
#define CHUNKS_AHEAD_MAX 256   /* of one job: chunks that exist only because tasks in them were cancelled by name */
#define KNOWN_KEY_MAX 64
#define JOB_PRIORITY_MAX 1000 /* and, below 0, as much */
#define AFTER_MAX 64          /* jobs that a job waits for */
#define LOOK_MAX 1000 /* jobs of a user that are looked at, past those that have no room now */
#define REALLOCATE_GAP (50 * HTC_MS)

typedef struct user  user;
typedef struct job   job;
typedef struct chunk chunk;
typedef struct agent agent;
typedef struct closed_node closed_node;
typedef struct project project;

/* ---- tasks and chunks ---- */

typedef enum task_state {
    TASK_NEW = 0,    /* waiting, never handed out: attempt 0 */
    TASK_WAITING,    /* waiting again */
    TASK_LEASED,     /* an agent holds it; phase says how far it is */
    TASK_RETRY_WAIT, /* until due */
    TASK_DONE,
    TASK_FAILED,
    TASK_CANCELLED
} task_state;

typedef struct task {
    uint8_t  state;  /* task_state */
    uint8_t  phase;  /* htc_held_state while LEASED; not stored */
    uint8_t  level;  /* of its limits among job.wishes.raised, from 1; 0: as the job has it */
    uint8_t  cancel; /* asked to end while LEASED; stored, so that a restart does not forget */
    uint16_t tries;  /* failed attempts counted against the limit */
    uint16_t lost;
    uint32_t attempt; /* newest attempt number; only grows */
    int32_t  status;  /* of the last attempt that ended */
    union {
        uint64_t agent;     /* while LEASED */
        uint64_t failed_at; /* in RETRY_WAIT, and WAITING after it: where its last try failed, as htc__gw_place_of_try; else 0. Not stored */
    };
    union {
        uint8_t  brief[BRIEF_BYTES];    /* DONE: its result, if it is as most are; brief[0] 0: it has a record of its own */
        uint64_t left[BRIEF_BYTES / 8]; /* else left[1]: bytes of outputs that its last attempt left, until another one's come; left[0] is 0 */
    };
    htc_ns   since;   /* on the clock of now; RETRY_WAIT: when it is due. Not stored */
} task;

/* A put that travels in front of a record's write. */
typedef struct extra_put {
    htc_buf           key, value;
    uint64_t          version; /* of what is there; 0: nothing, as far as is known */
    chunk            *chunk;   /* whose it is while it is written */
    struct extra_put *next;
} extra_put;

/* What attempts have cost: stored with the tasks that it belongs to, in one record, and so counted exactly when they are. */
typedef struct usage {
    uint64_t core_ns;  /* run time of every attempt whose result was counted, times its cores */
    uint64_t bytes;    /* of outputs that are kept */
    uint64_t attempts; /* begun */
    uint64_t losses;   /* attempts that were lost with their agent or suspended */
} usage;

struct chunk {
    job       *job;
    uint64_t   index;
    uint32_t   n;      /* tasks in it */
    uint32_t   cursor; /* no task below is TASK_NEW */
    uint32_t   open;   /* tasks that are not terminal */
    usage      used;   /* by its tasks */
    uint64_t   version;
    uint8_t    dirty, writing;
    uint8_t    unsure; /* a write of it has no known outcome: it may be what is found there */
    uint8_t    ahead; /* it exists, but its turn has not come: not among job->chunks_open */
    uint32_t   puts_pending; /* result writes that the record's own write waits for */
    extra_put *puts;         /* results of the next write */
    extra_put *putting;      /* results of the write in flight */
    htc_buf    image;        /* the record of the write in flight */
    htc_buf    nodes;        /* names that results in here mention by number, from 1: each a str */
    uint32_t   n_nodes;
    htc_bytes  nodes_read;   /* of a record that was just read: lies in its bytes */
    htc_runtime_waiter *next_done;  /* wait for the next write */
    htc_runtime_waiter *write_done; /* wait for the one in flight */
    chunk     *dirty_prev, *dirty_next;
    UT_hash_handle hh;
    task           tasks[];
};

typedef struct counts {
    uint64_t fresh; /* TASK_NEW, in and out of chunks */
    uint64_t waiting, leased, retry_wait, done, failed, cancelled;
    usage    used;
} counts;

typedef struct ready_task {
    uint64_t           index;
    struct ready_task *prev, *next;
} ready_task;

struct job {
    uint64_t  id;
    user     *user;
    htc_spec *spec;
    htc_buf   credentials; /* of an open one, and while it is submitted: what its URLs need, in the syntax of .netrc; nobody is told */
    htc_buf   content; /* while it is submitted: the hashes that its document names */
    uint64_t  count;
    char      name[128];
    project  *project;   /* of an open job; NULL: none, or it is gone */
    double    time_limit_s; /* of submit; 0: the document's */
    uint64_t  memory;
    uint32_t  max_attempts, compat;
    int32_t   priority;    /* among its user's jobs: the higher goes first */
    uint64_t  max_running; /* tasks that agents hold at once; 0: any number */
    edge     *edges;       /* jobs that it waits for; NULL: they lie in edges_read */
    uint32_t  n_edges;
    uint8_t   seats;       /* its tasks are seats at a flow (HTC_FLOW_EXECUTABLE) */
    uint8_t   waits;       /* for one of them, or for the record that says that they have ended */
    uint8_t   early;       /* its time to begin has not come */
    wishes    wishes;
    uint8_t   edges_late;  /* an outcome is known that is not in the record */
    htc_bytes edges_read;  /* of a record that was just read: lies in its bytes */
    char      output[256], error_output[256], submit_dir[512];
    char      key[KNOWN_KEY_MAX + 1]; /* of its submission; "": none */
    uint8_t   asked[16]; /* with a key: the hash of what was asked */
    htc_ns    submitted, started, ended; /* wall */
    uint64_t  duplicates; /* results without a lease, as far as known: a note, not an account */
    uint8_t   cancelled, paused, finished;
    uint64_t  next;  /* lowest index that may be TASK_NEW */
    uint64_t  low;   /* chunks below are complete */
    counts    base;  /* of the chunks below low, as in the record */
    counts    now;   /* of all */
    chunk    *chunks;
    uint32_t  chunks_open, chunks_ahead;
    ready_task *head, *tail; /* lost ones go first, by their index; retries after the fresh ones, as they come */
    uint64_t    version, open_version; /* of the record; of the one that says that it is open, 0: not known */
    uint8_t     dirty, writing, low_busy;
    uint8_t     unsure; /* as of a chunk */
    uint32_t    walks; /* through its tasks, under way: each may open chunks again that were complete */
    uint8_t     open; /* in gw->jobs; else read for one request and freed after it */
    uint32_t    uses; /* continuations that hold this pointer */
    job        *dirty_prev, *dirty_next;
    job        *all_prev, *all_next; /* every job in memory, open or not */
    htc_runtime_waiter *next_done, *write_done;
    UT_hash_handle hh;
    job *ready_prev, *ready_next; /* among the user's jobs with something to hand out, in turn */
    uint8_t  in_ready;
    uint64_t queued; /* of what it offers, as it is in the user's sum */
    uint64_t unfinished; /* tasks, as they are in the sums of its user and its project */
    htc_ns   could;   /* begin: since when, wall, as far as it is concerned itself: not paused, not before its time or other jobs */
    uint8_t  blocked; /* it cannot */
    job     *project_prev, *project_next; /* open ones of its project */
    health  *health; /* one a site, from the first failure on; NULL: well everywhere */
    size_t   n_health;
    double   need_wall_s;   /* of its next task, as need: the wall-time limit; 0: none */
    uint64_t need, need_of; /* what its next task asks for, bytes, 0: nothing named; the task's index + 1 */
    task_width width;       /* and of slots */
    htc_ns   wide_since;    /* likewise: it is its user's first since then; 0: it is not: reserved.c */
    gang_watch gang;        /* if these are of several nodes */
    htc_ns   memory_since;  /* its next task waits for memory since then; 0: it does not */
    htc_ns   counted_since; /* likewise, for what sites count */
    counted_need counts;    /* that its next task takes */
    machine_wish asks;      /* where its next task is to run */
};

/* ---- users ---- */

typedef struct owned_jobs {
    uint64_t *ids; /* in order, or mixed: then one may stand there twice */
    size_t    n, cap;
    uint8_t   mixed;
} owned_jobs;

struct user {
    char     name[NAME_MAX_BYTES];
    uint64_t weight; /* 1 to 2^32 */
    char     verifier[160];
    uint64_t version; /* of the record */
    htc_ns   created;
    uint32_t uid, gid;    /* whom the user's tasks run as; HTC_NO_UID: not known */
    htc_ns   tokens_from; /* tokens that were given for another one count no more: it changes with the password */
    job     *ready;
    uint64_t queued;  /* tasks that could be handed out now, though no more than htc__gw_queued() at once; 0: quotas let none */
    uint64_t offered; /* the same, whatever the user's own quotas say */
    uint64_t running; /* leased tasks */
    uint64_t unfinished, coming; /* tasks of open jobs that have not ended; of jobs that are being stored */
    uint64_t retrying; /* tasks in retry_wait */
    uint64_t open_jobs;
    owned_jobs owned;
    htc_ns  *denied_until; /* of each site that could not keep this user's tasks apart: when it is asked again; NULL: of none */
    uint64_t held_agents; /* since the gateway began: that were refused, held by a batch system or did not come */
    uint32_t waits; /* slots of agents that wait in queues: these may never come, and count nowhere else */
    uint32_t agents, draining, leaving, starting; /* slots; agents: of its agents, without the draining and the leaving ones */
    uint32_t busy; /* slots with tasks, as the last division counted them */
    uint32_t fits_slots; /* a task that takes more does not fit the share, as the last division knew it */
    uint32_t lent_slots; /* one that takes so many gets them beyond the share, since nobody else can use them; 0: none does */
    uint64_t usable, reserved; /* likewise: slots that tasks which could start would fill; bytes, at the site at hand */
    uint64_t ra, base;
    uint64_t weight_used; /* as the last division counted it, in 1/1024 */
    uint64_t last_served, arrival;
    htc_allot_profile runs; /* of tasks that are done */
    double   limit_s; /* what stands for their mean until one is done: the wall-time limits of tasks that wait or waited; 0: none is known */
    project     *project; /* of the job whose tasks went last, or go next */
    quota_holder quota;
    uint64_t     bytes; /* of the outputs of its jobs */
    uint64_t     uploads, uploading; /* bytes of its uploads, and of those that have begun, as the host said last, */
    uint64_t     uploads_number;     /* in the answer of that number */
    uint64_t core_ns, tasks_done; /* used and done, ever: of the jobs there are, and of those removed */
    uint64_t folded_core_ns, folded_done; /* of those removed, as in the record */
    uint64_t folded_job; /* the last whose sums are in there: they are added once, however often its removal begins anew */
    uint8_t  removing;   /* no request is taken for it: it is to go, or to have another uid */
    uint8_t  changing;   /* a change of the record is under way: nobody else writes it */
    uint8_t  folding;    /* the sums of a removed job are being added to it: a change waits */
    htc_runtime_waiter *folded; /* those changes */
    UT_hash_handle hh;
};

/* ---- agents ---- */

typedef enum agent_state {
    AGENT_SUBMITTED = 1, /* asked for */
    AGENT_STARTING,      /* its process runs, it has not registered */
    AGENT_UNKNOWN,       /* known from the store, has not come back yet */
    AGENT_READY,         /* idle or busy */
    AGENT_LEAVING,       /* told to exit, or said BYE */
    AGENT_LOST           /* given up; its slots wait for its process to be gone */
} agent_state;

typedef struct held {
    htc_attempt attempt;
    uint64_t    grant, memory; /* memory: it reserves, bytes */
    uint32_t    slots;   /* it takes */
    htc_ns      since;   /* now, when it was handed out; 0: by a gateway before */
    uint8_t     misses;
    uint8_t     member;  /* of a gang, which another agent leads; 0: none */
    uint8_t     durable; /* the grant was sent at least once */
    task_hold  *taken;   /* NULL: nothing */
} held;

/* Where an agent of a host that has joined stores outputs, as it has said. */
typedef enum outputs_where { OUTPUTS_UNKNOWN, OUTPUTS_SHARED, OUTPUTS_THERE } outputs_where;

struct agent {
    uint64_t id;
    user    *user;
    uint32_t site, peer;
    uint16_t speaks; /* the number of the protocol, HTC_WIRE_VERSION, on that connection */
    uint8_t  outputs; /* outputs_where */
    char     outputs_why[160]; /* they are kept there */
    uint32_t slots[AGENT_SLOTS_MAX]; /* of the site: slots.c */
    uint32_t n_slots, noted, want, told;
    uint64_t claim;                  /* of the slots that it was given last: they grow */
    uint64_t slots_seq, slots_heard; /* of SLOTS as said last; of the newest that it has answered */
    uint8_t  one_slot;               /* it was launched by a gateway that knew no SLOTS */
    uint8_t  tell, saving, save_again;
    uint8_t  ending; /* it is lost, and its process is ended when the record says so */
    uint8_t  given_up; /* so says the record that was read */
    uint64_t version; /* of the record; 0: it is not written yet */
    uint32_t handle_len; /* 0: not launched, or not known yet */
    uint8_t  handle[HTC_HANDLE_MAX];
    char     handle_name[HTC_HANDLE_NAME_MAX]; /* for people */
    uint8_t  state; /* agent_state */
    uint8_t  draining, stop, suspected;
    uint8_t  waits; /* it is launched, and has not begun: a job in a queue */
    uint8_t  spares; /* when a job was looked for last, one was passed over: elsewhere.c */
    uint8_t  expires; /* its time ends soon: it drains, whatever comes */
    uint64_t drain_order;
    char     node[64];
    machine_kinds kind; /* of its node: one, or not known */
    htc_ns   launched, heard, since; /* now */
    htc_ns   rests; /* it may be silent for so much longer, as it has said */
    htc_ns   launched_wall;
    uint64_t hb_seq, pull_seq, grant;
    uint64_t pushed, seen; /* grants: the last that no pull asked for; the newest that it had, as its last pull said */
    uint64_t launch_no; /* of the JOINED_LAUNCH of its site's present connection; 0: of an earlier one, or its site needs none */
    htc_buf  last_grant; /* message, as sent; empty while its writes are not durable */
    uint32_t grant_pending;
    held    *held;
    uint32_t n_held, cap_held;
    uint32_t held_slots; /* that all of them take, whether they run at once or not */
    task_hold *owed;   /* by attempts that it is to end, or has lost: until it says that it does not have them, or its process is gone */
    uint64_t memory; /* reserved: what the largest of them ask for, as many as it has slots */
    uint64_t tasks_done;
    char     reason[256];
    UT_hash_handle hh;
};

typedef struct slot {
    agent *agent;
} slot;

typedef struct site {
    char     name[NAME_MAX_BYTES];
    uint32_t cores, node_cores;
    uint64_t task_memory;
    memory   memory;
    counted_pool counted;
    uint64_t wide_job; /* slots are kept for its next task; 0: none are: wide.c */
    uint32_t wide_parts;     /* agents that are to have them; more than one: of a gang */
    slot    *slots;
    uint32_t used, failures;
    htc_ns   disk_failed; /* when an agent left because a disk is full or fails; 0: never, or a task that began since has ended well */
    uint64_t launched, launches_failed; /* agents, since the gateway began */
    agent_figures figures; /* likewise */
    machine_kinds kinds; /* of its nodes, as far as they are known */
    htc_ns   not_before; /* launches pause until; HTC_NEVER: no host has joined */
    htc_ns   failed;     /* when the last of failures was */
    char     reason[REASON_MAX];
    uint64_t reason_of;  /* the agent that failed so; 0: none */
    double   speed;
    char     org[64], type[64], os[64]; /* labels */
    htc_ns   start_ns;        /* from the launch of an agent to its first word, lately */
    uint8_t  closed;          /* by the operator: sites.c */
    uint8_t  saving;          /* that is being changed */
    uint64_t closed_version;  /* of the record that says so; 0: there is none */
    char     closed_for[REASON_MAX]; /* why */
    /* joined.c */
    uint8_t  joins, leaving;
    uint32_t agent_slots; /* JOINED_HELLO */
    uint32_t cap;        /* slots that there is room for: cores are what the host has now */
    uint32_t host;       /* its connection; 0: none */
    uint64_t launches;   /* JOINED_LAUNCH said on it */
    uint64_t keys;       /* of hosts, that it was told last */
    htc_ns   heard;      /* now */
    char     node[64], data[256]; /* of the host that was there last: its name, and where outputs are stored there */
    uint64_t memory_set, task_memory_set; /* by the configuration; 0: what the host says */
    char   **users;      /* that it serves; none: the owner alone */
    size_t   n_users, cap_users;
} site;

/* ---- connections, pending work ---- */

typedef struct conn {
    uint32_t      peer;
    uint8_t       role; /* htc_wire_role; 0 before HELLO */
    uint16_t      speaks;
    htc_peer_info info;
    htc_peer_identity key; /* that it has shown; name "": none */
    htc_wire_machine machine; /* that it has said it is on */
    htc_ns        heard;
    uint64_t      agent; /* 0: none */
    UT_hash_handle hh;
} conn;

#define DUE_RESTED UINT64_MAX      /* no task: a pause of the job is over */
#define DUE_BEGIN (UINT64_MAX - 1) /* likewise: it may begin now */
typedef struct due {
    htc_ns   at;
    uint64_t job, index;
} due;

/* A user's request while it is worked on. */
typedef struct request request;

/* A job that is being removed: a record from the time that it is asked until nothing of the job is left. */
typedef enum removal_stage {
    REMOVE_MARK = 1, /* write the record */
    REMOVE_HIDE,     /* delete the job's own: from here on there is no such job */
    REMOVE_OUTPUTS,
    REMOVE_RESULTS,
    REMOVE_CHUNKS,
    REMOVE_REST,
    REMOVE_FOLD,     /* add its sums to the user's */
    REMOVE_FOLDED,   /* note in the record that they are */
    REMOVE_RECORD
} removal_stage;

typedef void (*removal_fn)(htc_gateway *gw, request *q, uint64_t id, htc_status status);

typedef struct removal {
    uint64_t   id;
    char       user[NAME_MAX_BYTES];
    uint64_t   core_ns, done;
    uint64_t   bytes; /* that count no more as soon as there is no such job; 0: they do not already */
    char       project_name[33];
    uint8_t    folded; /* they are among the user's: stored, */
    uint8_t    noted;  /* which its record says */
    uint8_t    stage;  /* removal_stage */
    uint8_t    listed; /* its record is written */
    uint8_t    relief; /* the store had no room for the record: what takes room goes first */
    uint64_t   version; /* of the record */
    uint64_t   term; /* that wrote the record last */
    htc_status status; /* of the requests of a stage */
    htc_ns     pause;  /* after a failure */
    removal_fn told;   /* when the job is gone from view, or cannot be; once */
    request   *q;      /* its argument; NULL: nobody is told */
    char       key[KNOWN_KEY_MAX + 1];
    htc_runtime_cursor next;   /* after what is deleted already: what is deleted still costs a scan time */
    struct removal *prev, *list_next;
    UT_hash_handle  hh;
} removal;

/* A key of a submission: it is known for as long as the job. */
typedef struct known_key {
    uint8_t        hash[16]; /* of user and key */
    uint64_t       job;      /* 0: it is on its way */
    UT_hash_handle hh;
} known_key;

/* WAITING: another gateway is active. SEALING: all is read, and is being written anew. HANDING: the term is given up when all is written. */
typedef enum gw_phase { PHASE_NEW = 0, PHASE_CONNECTING, PHASE_RECOVERING, PHASE_READY, PHASE_STOPPED, PHASE_WAITING, PHASE_SEALING, PHASE_HANDING } gw_phase;

struct htc_gateway {
    htc_env             env;
    htc_gateway_options options;
    char                owner_name[NAME_MAX_BYTES];
    char                apart_why[160];
    char                outputs[HTC_AGENT_OUTPUTS_MAX], outputs_id[65]; /* where agents of other hosts may store outputs; "": nowhere */
    char                store_join[300]; /* where agents of other hosts reach the store, as HTC_CALL_DIAL has it; "": nowhere */
    char                operator_hash[65]; /* of the operator's token; "": the owner's uid is the operator */
    uint32_t            policy; /* htc_allot_policy */
    char              **fair_users;
    size_t              n_fair_users;
    site               *sites;
    site_nodes         *site_nodes; /* of each: what tasks may ask for */
    site_rank *ranks; /* n_sites, for a moment */
    uint32_t  *order; /* n_sites: the best one first */
    gang_site          *gang_sites; /* n_sites, for a moment, as are parts */
    uint32_t           *parts;
    gang               *gangs;
    reservation_site   *reservation_sites; /* n_sites, for a moment */
    uint64_t            reserved; /* the job whose next task has the reservation: reserved.c; 0: none has */
    size_t              n_sites;
    uint32_t            slots, free;
    htc_runtime        *runtime;
    htc_runtime_ids    *agent_ids;
    share_history       history;
    htc_ns              now, wall, started_wall, expected, served_at; /* expected: when the driver was to call at the latest. served_at: now, when it began to serve */
    uint8_t             phase, shutdown, stop_now, turns;
    user               *users;
    job                *jobs;
    agent              *agents;
    conn               *conns;
    nodes               nodes;
    struct closed_node *closed_nodes; /* nodes_closed.c */
    uint8_t             node_changes; /* one of them is being changed */
    request            *requests;
    struct changing    *changing; /* jobs that are not open, and are being opened again or removed */
    removal            *removals, *removals_by_id; /* jobs that are removed; the first is worked on */
    uint8_t             removing;
    known_key          *known_keys;
    mail               *mails; /* of jobs that have ended, and that were not sent */
    uint8_t             mail_busy;
    awaited            *awaited; /* jobs that others wait for */
    htc_buf             marks; /* content that jobs name, as far as it is read */
    htc_ns              content_at;
    uint8_t             content_busy;
    htc_ns              remove_at; /* not before */
    uint64_t            served, arrivals, drains, claims;
    project            *projects;
    struct used_book   *used_books;
    quota_limits        site_quota; /* of users of whom nothing else is said */
    struct usage_fold  *fold;       /* usage_fold.c; NULL: nothing was folded yet */
    htc_ns              fold_at;    /* not before */
    uint32_t            fold_from, folds; /* the oldest day that may have records, 0: none; days that were folded */
    uint32_t            reports;    /* that read days now */
    uint8_t             fold_first, folding; /* there are records of day 0 */
    htc_ns              usage_at;   /* when what is used is written down; HTC_NEVER: nothing is to be */
    htc_registry       *registry;
    const htc_allot_weigher *fair_share;
    uint64_t            ended[3], lost_attempts; /* since it began: tasks done, failed and cancelled; metrics.c */
    chunk              *dirty_chunks;
    job                *dirty_jobs, *all_jobs;
    due                *dues;
    size_t              n_dues, cap_dues;
    htc_ns              reallocated; /* last run */
    uint8_t             reallocate_wanted;
    uint8_t             jobs_ended; /* in this step: who waits for one may be told */
    uint8_t             memory_waits, counted_waits; /* jobs may wait for memory, and for what sites count */
    hold_left          *found; /* records of a new start, until its tasks are read: by attempt */
    owed_attempt       *owed;  /* attempts that agents owe something of */
    htc_ns              tick_at, check_at, store_retry_at;
    htc_status          store_status; /* HTC_OK, or why the store refuses changes */
    htc_buf             scratch;
    size_t              submitting; /* bytes of specifications that are on their way to the store */
    htc_ns              idle_at;    /* when idle strangers are looked for; HTC_NEVER: there is none */
    htc_ns              tokens_at;  /* when expired tokens are looked for */
    uint8_t             tokens_busy;
    logins              logins;
    active              active;
    struct file_ask    *file_asks; /* on their way to hosts that have joined */
    struct content_ask *content_asks; /* attempts that wait for uploads at their sites, */
    uint32_t            n_content_asks, content_reads;
    struct permit      *permits;      /* and which uploads those hosts may read for them */
    uint64_t            content_refused; /* asked for by an agent whose task does not read them, since it began */
    uint32_t            file_tags;
};

/* manifest.c */
int        htc__gw_name_stays(const char *name);
/* Append the entries of the whole lines of a piece to list; *taken: the bytes of these lines. HTC_ECORRUPT: a line is no entry,
 * or none ends. */
htc_status htc__gw_manifest_entries(htc_bytes piece, json_t *list, size_t *taken);

/* records.c: each writer clears b first; each reader answers HTC_ECORRUPT for what it cannot have written. */
/* What was written there, to be stored. Where there was no memory for all of it, the gateway ends and nothing more is asked of the store. */
htc_bytes  htc__gw_record_bytes(htc_gateway *gw, const htc_buf *b);
void       htc__gw_record_result_write(htc_buf *b, const htc_outcome *o);
htc_status htc__gw_record_result_read(htc_bytes bytes, htc_outcome *o);
void       htc__gw_record_user_write(htc_buf *b, const user *u);
htc_status htc__gw_record_user_read(htc_bytes bytes, user *u);
void       htc__gw_record_job_write(htc_buf *b, const job *j);
htc_status htc__gw_record_job_read(htc_bytes bytes, job *j, char user_name[NAME_MAX_BYTES]);
void       htc__gw_record_chunk_write(htc_buf *b, const chunk *c);
/* c->n is set and its tasks are zero. Who keeps c calls htc__gw_chunk_read_done while the bytes are there. */
htc_status htc__gw_record_chunk_read(htc_bytes bytes, chunk *c);
void       htc__gw_chunk_read_done(htc_gateway *gw, chunk *c); /* it keeps nodes_read */
/* 1: the result says no more than that it went well, where, and how long it took, and now stands in the chunk. Times are rounded down to
 * microseconds; CPU time and memory to 11 bits. */
int        htc__gw_brief_put(chunk *c, task *t, const htc_outcome *o);
/* What was put. submitted: of the job. Names are in nodes or nodes_read. */
void       htc__gw_brief_get(const chunk *c, const task *t, htc_ns submitted, htc_outcome *o);
void       htc__gw_record_agent_write(htc_buf *b, const agent *a);
void       htc__gw_agent_handle(agent *a, htc_bytes handle); /* at most HTC_HANDLE_MAX bytes */
htc_status htc__gw_record_agent_read(htc_bytes bytes, agent *a, char user_name[NAME_MAX_BYTES]);
void       htc__gw_record_removal_write(htc_buf *b, const removal *m);
htc_status htc__gw_record_removal_read(htc_bytes bytes, removal *m);

/* jobs.c */
job     *htc__gw_job(htc_gateway *gw, uint64_t id);
job     *htc__gw_job_new(htc_gateway *gw);
void     htc__gw_job_add(htc_gateway *gw, job *j); /* into the tables; j->user is set */
void     htc__gw_job_free(htc_gateway *gw, job *j);
void     htc__gw_job_hold(job *j);                     /* one use more */
void     htc__gw_job_release(htc_gateway *gw, job *j); /* one use less; the last use of a finished job frees it */
void     htc__gw_job_drop(htc_gateway *gw, job *j);    /* out of the tables; freed with its last use */
void     htc__gw_flush(htc_gateway *gw);               /* at the end of a step: write what is dirty */
uint64_t htc__gw_job_chunks(const job *j);
uint32_t htc__gw_job_chunk_size(const job *j, uint64_t index);
uint64_t htc__gw_job_terminal(const job *j);
void     htc__gw_job_counts_from_record(job *j); /* of one that is not open */
const char *htc__gw_job_state(const job *j);
uint64_t htc__gw_job_waiting(const job *j); /* tasks that no agent has, and that wait for one */
uint64_t htc__gw_job_ready(const job *j);   /* of those, how many could be handed out now */
uint64_t htc__gw_job_offers(const job *j);  /* the same, whatever is left of quotas; 0 if its project's let none be */
uint64_t htc__gw_queued(const user *u);     /* what of u->queued its quotas let be handed out at once */
void     htc__gw_user_moved(htc_gateway *gw, user *u); /* what it offers, or whether its quotas let it, has changed */
htc_ns   htc__gw_job_waited(const htc_gateway *gw, const job *j, const task *t); /* a task that is handed out now, since it could begin */
int         htc__gw_job_is_full(const job *j); /* tasks wait, and as many run as may */
int         htc__gw_job_turn(const job *a, const job *b); /* < 0: a's tasks are handed out before b's */
void     htc__gw_job_places(htc_gateway *gw); /* of outputs: what could not be made is made */
void     htc__gw_job_touch(htc_gateway *gw, job *j);
void     htc__gw_job_dirty(htc_gateway *gw, job *j, htc_runtime_waiter *w);
chunk   *htc__gw_chunk(job *j, uint64_t index); /* in memory, or NULL */
chunk   *htc__gw_chunk_new(htc_gateway *gw, job *j, uint64_t index);
void     htc__gw_chunk_ahead(htc_gateway *gw, chunk *c, int on); /* its turn has not come yet, or comes now */
void     htc__gw_chunk_dirty(htc_gateway *gw, chunk *c, htc_runtime_waiter *w);
/* Then fn, with HTC_OK: all that memory says of this task when the step ends is durable. At once, if its chunk is not in memory. */
void     htc__gw_task_durable(htc_gateway *gw, const htc_attempt *at, htc_runtime_wait_fn fn, void *ctx);
void     htc__gw_chunk_put(htc_gateway *gw, chunk *c, key k, const htc_buf *value);
void     htc__gw_puts_free(htc_gateway *gw, extra_put **list);
void     htc__gw_task_set(htc_gateway *gw, chunk *c, uint32_t offset, task_state state); /* keeps every count right */
void     htc__gw_task_again(htc_gateway *gw, chunk *c, uint32_t offset, int first);      /* -> WAITING, queued */
void     htc__gw_use(chunk *c, usage more);                                              /* count what an attempt has cost */
void     htc__gw_unuse_left(chunk *c, task *t);                                          /* what its last attempt left goes */
ready_task *htc__gw_job_listed(htc_gateway *gw, job *j, ready_task **list, ready_task *from); /* that waits, from there on; those cancelled since are dropped; NULL: none */
int      htc__gw_job_peek(htc_gateway *gw, job *j, chunk **c, uint32_t *offset);         /* next task to hand out: it stays the next */
void     htc__gw_job_taken(htc_gateway *gw, job *j, uint64_t index);                     /* that one has been handed out */
int      htc__gw_job_next_is_retry(const job *j);                                           /* that one is the first of the tail */
uint64_t htc__gw_job_next(const job *j);                                                    /* its index; what a cancel left behind may be before it */
void     htc__gw_job_cancel(htc_gateway *gw, job *j);
void     htc__gw_job_check(htc_gateway *gw, job *j); /* has it ended? */
void     htc__gw_task_queue(htc_gateway *gw, job *j, uint64_t index, int first); /* one that is TASK_WAITING already */
void     htc__gw_jobs_free(htc_gateway *gw);
void     htc__gw_chunk_count(counts *sum, const chunk *c);
/* Continue with the chunk in memory (c) or NULL if it does not exist in the store either. */
typedef void (*chunk_fn)(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status);
void htc__gw_chunk_load(htc_gateway *gw, job *j, uint64_t index, chunk_fn fn, void *ctx);
void htc__gw_chunk_settle(htc_gateway *gw, chunk *c); /* drop it from memory if nothing keeps it there */

/* agents.c */
agent *htc__gw_agent(htc_gateway *gw, uint64_t id);
uint32_t htc__gw_agent_launch(htc_gateway *gw, user *u, uint32_t site_index, uint32_t slots); /* with how many, 0: none was launched */
void   htc__gw_agent_message(htc_gateway *gw, conn *c, uint16_t type, htc_reader *r);
void   htc__gw_agent_closed(htc_gateway *gw, conn *c);
void   htc__gw_agent_event(htc_gateway *gw, const htc_input *in);
void   htc__gw_agents_check(htc_gateway *gw);
void   htc__gw_agent_drain(htc_gateway *gw, agent *a, int on);
int    htc__gw_agent_waits(const agent *a); /* in a queue */
void   htc__gw_agent_cancel(htc_gateway *gw, agent *a, const char *why); /* one that waits */
/* Of those that wait some are taken out, the newest first, as long as the user has more slots than its share: at most so many slots, and how many. */
uint64_t htc__gw_agents_yield(htc_gateway *gw, user *u, uint64_t most);
/* Of the user's agents that wait in queues those that would find nothing to do are taken out. */
void   htc__gw_agents_trim(htc_gateway *gw, user *u);

/* ---- sites.c ---- */

/* May agents be launched there, as far as the site is concerned? */
int  htc__gw_site_open(const htc_gateway *gw, const site *s);
void htc__gw_api_sites(htc_gateway *gw, request *q); /* site.drain, site.resume */
void htc__gw_site_save(htc_gateway *gw, site *s); /* the record that it is out of service, as it is */
void htc__gw_site_found(htc_gateway *gw, const htc_kv_item *item); /* at the start */
void   htc__gw_agent_gone(htc_gateway *gw, agent *a, const char *why); /* its tasks are lost, its slot is free */
void   htc__gw_agent_lost(htc_gateway *gw, agent *a, const char *why); /* its tasks are lost, its process is ended */
void   htc__gw_agent_adopt(htc_gateway *gw, agent *a);                 /* recovered from the store */
void   htc__gw_agent_counts(htc_gateway *gw, agent *a, int add);
const char *htc__gw_agent_state_name(const agent *a);
void   htc__gw_agents_stop(htc_gateway *gw, int at_once);
void   htc__gw_agents_free(htc_gateway *gw);
void   htc__gw_agent_end_process(htc_gateway *gw, agent *a); /* of one that is lost */
uint32_t htc__gw_place(const htc_gateway *gw, const user *u); /* htc__place_kind: how that user's tasks run */
void     htc__gw_place_text(const htc_gateway *gw, const user *u, char *text, size_t cap); /* for people, or why not */
void     htc__gw_apart_text(const htc_gateway *gw, char *text, size_t cap); /* of all other users than the owner */
void   htc__gw_agent_ids_ready(void *role, void *ctx, htc_status status);
void   htc__gw_agent_launched(htc_gateway *gw, agent *a, htc_status status, htc_bytes body); /* what LAUNCH answers */
void   htc__gw_agent_ended(htc_gateway *gw, agent *a, const char *how); /* its process has; how: for people, or "" */
#define GW_ENDED_EARLY "an agent ended before it registered" /* so begins the reason of a site */

/* joined.c */
htc_status htc__gw_joined_init(htc_gateway *gw, site *s, const htc_site_options *from);
void       htc__gw_joined_free(htc_gateway *gw, site *s);
void       htc__gw_joined_message(htc_gateway *gw, conn *c, uint16_t type, htc_reader *r);
void       htc__gw_joined_closed(htc_gateway *gw, const conn *c);
void       htc__gw_joined_check(htc_gateway *gw);
htc_ns     htc__gw_joined_deadline(const htc_gateway *gw);
void       htc__gw_joined_launch(htc_gateway *gw, agent *a); /* gw->scratch: JOINED_LAUNCH */
void       htc__gw_joined_kill(htc_gateway *gw, const agent *a);
void       htc__gw_joined_away(site *s); /* it is, whatever its pause was to be */
int        htc__gw_joined_awaited(const htc_gateway *gw); /* may a host that was at the gateway before still come to this one? */
void       htc__gw_joined_make_room(htc_gateway *gw, uint32_t at, uint32_t number); /* a slot that an agent of an earlier time has */
/* joined_files.c; gw->scratch: the body */
void       htc__gw_file_ask(htc_gateway *gw, uint32_t op, const agent *live, htc_runtime_call_fn fn, void *ctx); /* live: at its site alone; NULL */
void       htc__gw_file_answer(htc_gateway *gw, const conn *c, htc_reader *r);
void       htc__gw_files_closed(htc_gateway *gw, uint32_t host);
void       htc__gw_files_drop(htc_gateway *gw, uint32_t op);
int        htc__gw_site_serves(const htc_gateway *gw, const user *u, size_t at);
int        htc__gw_site_is_of(const site *s, const conn *c); /* may the connection speak for the site and its agents? */

/* slots.c */
uint32_t htc__gw_slots_find(const htc_gateway *gw, agent *a, uint32_t n); /* free ones of its site, up to n, behind those in a->slots */
void     htc__gw_slots_seat(htc_gateway *gw, agent *a);                   /* a->slots are its from now on */
void     htc__gw_slots_leave(htc_gateway *gw, agent *a);
void     htc__gw_slots_lose(htc_gateway *gw, agent *a, uint32_t number); /* it is another's; not its first one */
uint32_t htc__gw_slots_filled(const agent *a);   /* with tasks that it holds, one after the other where they are more */
uint32_t htc__gw_slots_idle(const agent *a);     /* that are to be filled, without such */
uint32_t htc__gw_slots_may_fill(const agent *a);
int      htc__gw_slots_may_grow(const htc_gateway *gw, const agent *a);
uint32_t htc__gw_slots_grow(htc_gateway *gw, agent *a, uint32_t n);   /* how many it is given, n at most */
void     htc__gw_slots_want(htc_gateway *gw, agent *a, uint32_t n);   /* it is told with the next htc__gw_slots_tell_all */
void     htc__gw_slots_tell(htc_gateway *gw, agent *a);
void     htc__gw_slots_tell_all(htc_gateway *gw);
void     htc__gw_slots_greet(htc_gateway *gw, agent *a, uint32_t fills); /* it has registered */
void     htc__gw_slots_remind(htc_gateway *gw, agent *a);                /* if it has not answered, or has slots to give back */
void     htc__gw_slots_heard(htc_gateway *gw, agent *a, const htc_slots_held *m);
void     htc__gw_agent_save(htc_gateway *gw, agent *a); /* its record, one write at a time */

/* grants.c */
void htc__gw_task_limits(const job *j, const htc_task *t, uint32_t level, htc_limits *limits); /* what the job and a retry say of them */
void htc__gw_grant_with(htc_gateway *gw, chunk *c, const agent *a); /* its newest grant leaves when that chunk is durable */
void htc__gw_pull(htc_gateway *gw, agent *a, const htc_pull *m);
void htc__gw_started(htc_gateway *gw, agent *a, const htc_attempt *at);
void htc__gw_result(htc_gateway *gw, agent *a, uint32_t peer, const htc_task_result *m);
void htc__gw_give_back(htc_gateway *gw, agent *a, uint32_t peer, const htc_give_back *m);
void htc__gw_reconcile(htc_gateway *gw, agent *a, const htc_heartbeat *m, htc_heartbeat_answer *answer);
void htc__gw_task_lost(htc_gateway *gw, const htc_attempt *at, uint64_t agent_id, const char *why);
htc_status htc__gw_fits(htc_gateway *gw, const job *j, const htc_task *t, uint32_t level, char *why, size_t cap);
void  htc__gw_node_seen(htc_gateway *gw, const char *name); /* there is such a node, however its tasks fare */
int   htc__gw_node_aside(const htc_gateway *gw, const char *name, htc_ns *until); /* set aside for all users */

/* held.c */
const htc_held *htc__gw_listed(const htc_held_list *list, const htc_attempt *at); /* NULL: it is not */
held *htc__gw_agent_held(agent *a, const htc_attempt *at);
int   htc__gw_agent_hold(htc_gateway *gw, agent *a, const htc_attempt *at, uint64_t grant, uint64_t reserves, uint32_t slots);
void  htc__gw_agent_unhold(htc_gateway *gw, agent *a, const htc_attempt *at); /* it has ended */
void  htc__gw_agent_disown(htc_gateway *gw, agent *a, const htc_attempt *at); /* it is to end: until then its agent owes what it has */
void  htc__gw_held_sort(agent *a); /* the largest first, by memory */

/* place.c */
uint32_t htc__gw_job_allows(const job *j, size_t at);               /* tasks it may hand out there now; UINT32_MAX: any number */
uint32_t htc__gw_job_may(const htc_gateway *gw, const job *j, size_t at); /* the same; 0 where its next task does not want to run */
offer    htc__gw_site_offers(const htc_gateway *gw, const machine_wish *w, size_t at);
int      htc__gw_agent_offers(const htc_gateway *gw, const agent *a, const machine_wish *w); /* is its node known to be such a machine? */
/* It has begun on another kind of node than all that its user could have wanted it for. why: that, in words. */
int      htc__gw_agent_is_unsuited(htc_gateway *gw, const agent *a, char *why, size_t cap);
job     *htc__gw_job_for(htc_gateway *gw, agent *a);               /* whose task this agent gets next; NULL: nobody's */
int      htc__gw_job_readable(const job *j, const agent *a);         /* could that agent read a grant of it? */
uint64_t htc__gw_startable(htc_gateway *gw, const user *u, size_t at); /* tasks that could start there now, at most its slots */
uint64_t htc__gw_usable(htc_gateway *gw, const user *u, size_t at);    /* those that slots of others, and what these reserve, would start too */
double   htc__gw_job_task_wall(const job *j, const htc_task *t, uint32_t level); /* its wall-time limit, seconds; 0: none */
uint64_t htc__gw_job_task_memory(const job *j, const htc_task *t, uint32_t level); /* the figure it names, bytes; 0: none */
/* The same, the slots that it takes, and what of that which sites count; it is expanded. */
uint64_t htc__gw_task_needs(htc_gateway *gw, const job *j, uint64_t index, task_width *width, counted_need *taking);
void     htc__gw_job_needs(htc_gateway *gw, job *j);                     /* need and need_slots are those of its next task */
uint64_t htc__site_needs(const site *s, uint64_t named, uint32_t slots); /* what a task with that figure reserves there */
int      htc__gw_memory_fits(htc_gateway *gw, agent *a, job *j, uint64_t memory, uint32_t slots); /* if not, the job waits for memory */
int      htc__gw_memory_fits_slots(htc_gateway *gw, const agent *a, uint32_t slots); /* may what it holds run in so many? */
uint64_t htc__gw_memory_room(const htc_gateway *gw, const agent *a); /* what one more of its tasks could reserve, whoever waits for it */
void     htc__gw_memory_reserve(htc_gateway *gw, agent *a);         /* after a change of what it holds, or owes */
void     htc__gw_memory_note(htc_gateway *gw, const user *u, int owed); /* jobs, up to one that fits, that memory keeps from a slot that is free or owed to the user */
void     htc__gw_memory_keep(htc_gateway *gw);                      /* room for those who have waited for long */
void     htc__gw_job_handed(htc_gateway *gw, job *j, size_t at);
void     htc__gw_job_ended(htc_gateway *gw, job *j, size_t at, const htc_outcome *o);
void     htc__gw_job_rested(htc_gateway *gw, job *j);
htc_ns   htc__gw_job_slowed_until(const job *j); /* it pauses everywhere, until then; 0: it does not */

/* remove.c */
/* Remove a job that has ended; then q is told, and what is left of it goes in its own time. */
void     htc__gw_remove(htc_gateway *gw, const job *j, removal_fn told, request *q);
void     htc__gw_remove_join(removal *m, removal_fn told, request *q); /* who asks again for one that nobody waits for */
removal *htc__gw_removal(const htc_gateway *gw, uint64_t id);
int      htc__gw_removal_of(const htc_gateway *gw, const char *user_name); /* is there one of that user's? */
void     htc__gw_removal_found(htc_gateway *gw, const removal *read); /* recovered from the store */
void     htc__gw_removals_go(htc_gateway *gw);
void     htc__gw_removal_save(htc_gateway *gw, removal *m); /* its record, as it is */
void     htc__gw_removals_free(htc_gateway *gw);

/* content.c */
void htc__gw_content_find(htc_bytes document, htc_buf *hashes); /* appended, sorted, each once */
void htc__gw_content_begin(htc_gateway *gw);                    /* it serves from now on */
void htc__gw_uploads_are(user *u, htc_reader *sums);            /* u64 number, u64 bytes, u64 of unfinished ones; not what is older, nor what is not whole */
void htc__gw_uploads_ask(htc_gateway *gw, const user *u);       /* the host may have forgotten one that has begun */
void htc__gw_content_look(htc_gateway *gw);                     /* is it time to remove what no job names? */

/* content_sites.c */
void htc__gw_content_want(htc_gateway *gw, agent *a, const htc_content_want *m);
void htc__gw_content_piece(htc_gateway *gw, const conn *c, htc_reader *r); /* OBJECT_ASK of a host that has joined */
/* Bytes of the uploads that a task of the user reads which are at a site: fetched by its host since it has joined. Its cache may have let some go meanwhile.
 * UINT64_MAX: all, on this machine. 0: none, or none is known. */
uint64_t htc__gw_content_there(const htc_gateway *gw, const user *u, const htc_task *t, size_t at);
void htc__gw_content_closed(htc_gateway *gw, uint32_t host);
void htc__gw_content_free(htc_gateway *gw);

/* submissions.c */
known_key *htc__gw_known_key(const htc_gateway *gw, const char *user_name, const char *text); /* NULL: not known */
void       htc__gw_known_key_set(htc_gateway *gw, const char *user_name, const char *text, uint64_t id);
void       htc__gw_known_key_drop(htc_gateway *gw, const char *user_name, const char *text);
void       htc__gw_known_keys_free(htc_gateway *gw);
int        htc__gw_known_key_ok(const char *text);
int        htc__gw_request_hash(const request *q, uint8_t hash[16]); /* 0: out of memory */
int        htc__gw_note_asked(htc_gateway *gw, const request *q, job *j); /* of a request with a key as it came: so it comes again; 0: broken */

/* elsewhere.c */
uint64_t htc__gw_place_of_try(const agent *a); /* its site and node; not 0 */
/* The job's next task failed where this agent is, and another agent may have it soon. Else it, or a retry after it, is what this agent may have next. */
int      htc__gw_passes_over(htc_gateway *gw, job *j, const agent *a);

/* dues.c */
void     htc__gw_due_add(htc_gateway *gw, htc_ns at, uint64_t job, uint64_t index);
void     htc__gw_dues_run(htc_gateway *gw);

/* fair.c */
void htc__gw_reallocate_soon(htc_gateway *gw);
void htc__gw_reallocate(htc_gateway *gw);
uint64_t htc__gw_takers(const htc_gateway *gw, const user *u, size_t at); /* slots of the user's agents at a site that are about to be filled */

/* accounts.c */
user *htc__gw_user(htc_gateway *gw, const char *name);
user *htc__gw_user_new(htc_gateway *gw, const char *name);
void  htc__gw_user_free(htc_gateway *gw, user *u); /* one that is in no list any more */
int   htc__gw_user_name_ok(const char *name);
void  htc__gw_tokens_sweep(htc_gateway *gw);
void  htc__gw_tokens_end(htc_gateway *gw, request *q, user *u); /* all logins of u; answers q */
key   htc__gw_key_token_of(const char *token);
void  htc__gw_token_hash(const char *token, char hex[65]);
int   htc__gw_operator_token(const htc_gateway *gw, const char *token);
void  htc__gw_logins_go(htc_gateway *gw); /* what of the logins is due */
void  htc__gw_token_check(htc_gateway *gw, request *q, const char *token); /* then htc__gw_request_run, or an error */

/* leave.c */
void  htc__gw_api_leave(htc_gateway *gw, request *q); /* logout, user.rm */
/* then(HTC_OK) when nothing of u is here: no other request, no agent, no job, ended ones too. Until u->changing and u->removing are
 * cleared by what follows, none comes. Else q has been answered: "user NAME cannot be WHAT", and then has the status. */
void  htc__gw_user_quiet(htc_gateway *gw, request *q, user *u, const char *what, void (*then)(void *role, void *ctx, htc_status status),
                         void *ctx);

/* gateway.c */
void htc__gw_shutdown(htc_gateway *gw, int at_once);

/* recover.c */
void htc__gw_recover(htc_gateway *gw);
void htc__gw_serve(htc_gateway *gw); /* all is there */
/* Read job id into memory as an open one, then fn, with one walk begun: its end is not looked for before that ends. */
void htc__gw_job_open(htc_gateway *gw, uint64_t id, void (*fn)(htc_gateway *gw, void *ctx, job *j), void *ctx);
int  htc__gw_chunk_index(const job *j, htc_bytes name, uint64_t *index); /* that a chunk's key names; 0: none that the job has */

/* probe.c: HTC_OK, or what of it cannot be read. j has its number, its count and its wishes, and is not kept */
void htc__gw_job_probe(htc_gateway *gw, const job *j, void (*fn)(htc_gateway *gw, void *ctx, htc_status status, const char *what), void *ctx);

#include "roles/gateway/requests.h"
#include "roles/gateway/projects.h"

#endif
