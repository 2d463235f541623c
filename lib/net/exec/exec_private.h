/* The executor's run: one attempt of one task on this node, from staging in to cleaning up. */
#ifndef HTC_NET_EXEC_PRIVATE_H
#define HTC_NET_EXEC_PRIVATE_H

#include <limits.h>
#include <sys/resource.h>

#include "htcsched/agent_host.h"
#include "htcsched/work.h"
#include "net/exec/exec_confine.h"
#include "net/exec/keeper.h"
#include "net/exec/objects.h"
#include "net/exec/outputs_at.h"
#include "net/loop/host_private.h"
#include "net/files/proc.h"
#include "htcsched/calls.h"
#include "roles/attempt/progress.h"
#include "roles/runtime/agent_wire.h"

typedef struct htc__keeper htc__keeper;
struct htc__functions;
struct htc__fn_process;
struct htc__program;

typedef enum htc__run_phase {
    RUN_STAGING_IN = 1,
    RUN_READY,   /* staged in, or ended */
    RUN_WAITING, /* RUN was asked, and no slot is free */
    RUN_RUNNING,
    RUN_SWEEPING, /* its first process has ended; the rest of its tree is being ended */
    RUN_STAGING_OUT
} htc__run_phase;

/* Written by the main thread only while no worker has the run; by the worker only then. */
typedef struct htc__run {
    htc_agent_host  *agent;
    struct htc__run *next;
    uint64_t         run, tag, count;
    htc_attempt      attempt;
    uint32_t         phase, compat;
    char             user[64];
    /* A plain task is run by a keeper, in the keeper's place; the names below are the keeper's then. */
    int              plain;
    htc__keeper     *keeper; /* it has the run; NULL before and after */
    int              start_told;
    uint32_t         left;   /* htc__keeper_left: then place is the run's own */
    /* A run that nobody has asked for: a helper process of functions. */
    struct htc__fn_process *process; /* NULL: it is none */
    int              channel; /* its standard input, while it is started; -1 */
    htc_task        *task;  /* malloc'd: read by worker threads */
    int              gang;  /* a process for the leader of a gang: it shares the place of the member's run */
    struct htc__gang_door *door; /* of a gang's leader: where htc-gang asks; NULL: there is none */
    /* Its directory, made by staging in and held from then on. Once the task has run, the paths may lead anywhere: all that
     * is looked at afterwards is opened below dir_fd (htc__run_open_work, htc__run_open_out), the streams are held open. */
    int              dir_fd;
    /* While htc-transfer fetches what it names by URL, or sends it */
    struct htc__program *fetch; /* NULL: it does not */
    int              fetch_stopped;
    size_t           appended;  /* targets up to that one are not appended again */
    int              urls_here; /* all is fetched, and nothing of it used yet */
    void           (*fetched)(struct htc__run *r); /* then status and text say how it went */
    /* While it sends what goes to URLs */
    void           (*sent)(struct htc__run *r);
    int              stored_all;    /* all outputs are stored: another STAGE_OUT sends the rest */
    int              send_unwanted; /* nothing of it is to be sent any more */
    char            *place; /* its name below the slot: scratch/JOB.TASK.ATTEMPT */
    char            *dir;   /* slots/SITE.N/place */
    char            *work;  /* dir/work, or the task's own absolute directory: where it runs */
    char            *work_below; /* of dir: work, or a directory below it */
    char            *scratch; /* dir/work */
    char            *out;   /* dir/out */
    int              streams[2]; /* what it writes to 1 and 2, open for reading since before it began; -1 */
    char            *scratch_entry; /* "HTC_SCRATCH=…", by which orphans are known */
    char            *mark; /* of a gang's process: by which its own are known among those of its place */
    /* cleaning was asked for while something was going on */
    int              clean_wanted, drop_wanted;
    /* the process */
    pid_t            pid;
    uint64_t         start;
    pid_t            first; /* of a confined task: process 1 of its PID namespace, our child too; 0: none */
    int              first_asked; /* how often it has been asked to end */
    int              pidfd;
    struct event    *exit_event, *sweep_event;
    htc_ns           sweep_pause, sweep_since;
    int              leader_reaped, wait_status;
    int              stop_told;
    task_progress    progress;
    int              behind; /* its first process only waits for it: that is not asked to end, but killed */
    uint64_t         oom_kills; /* of the cgroup, before it began */
    htc_status       why; /* HTC_OK: nobody ended it */
    char             why_text[256];
    uint64_t         cpu_ns, memory_peak;
    htc_ns           started, ended; /* wall */
    int              failed;  /* the outcome was not HTC_OK: missing outputs are no news */
    int              exec_errno, exec_stage;
    /* a worker's answer */
    htc_status       status;
    char             text[512];
    htc_stored       stored;
} htc__run;

struct htc_agent_host {
    const htc_env *env;
    htc_host      *host;
    htc__hook      hook;
    char          *slot_dir, *data_dir, *node, *site, *home, *path;
    char          *oom_events; /* where the cgroup's are counted, or NULL */
    uint64_t       oom_kills;  /* of the cgroup, as it was seen at oom_at */
    htc_ns         oom_at;
    char          *found_name, *found_path; /* the last program that was looked for, and where it is */
    htc_ns         found_at;
    char          *container; /* what runs containers: as site.NAME.container */
    uint32_t       confine;  /* tasks are another user's and share our uid */
    char         **confined_paths; /* what they see beside the system; NULL at the end */
    char         **env_pass; /* "NAME=value" that were found; NULL at the end */
    uint64_t       agent;
    uint32_t       durable, own_places;
    uint64_t       outputs_bytes_max;
    uint32_t       stages_max; /* at once, of all agents of this uid beside this one; 0: any */
    htc_ns         stall; /* tasks that do nothing for so long are told; 0: none */
    uint64_t       link_min; /* uploads of so many bytes are not copied where they can be shared */
    struct {
        char    *program; /* htc-transfer; NULL: inputs by URL are refused */
        char    *ca, *proxy; /* "": none */
        uint64_t bytes_max;
        htc_ns   connect, stall;
    } urls;
    htc__objects_host *objects; /* NULL: there are none */
    htc__outputs_at outputs_at; /* of the gateway: outputs go there first */
    struct htc_host_keys *keys; /* of connections beyond this machine; NULL: there are none */
    htc__run      *runs;
    htc__procs     procs;
    struct event  *poll;
    int            poll_armed;
    int            lock_fd;
    int            slot_fd;   /* slots/SITE.N */
    int            record_fd; /* slots/SITE.N/groups */
    size_t         record_len;
    char           boot[64];
    uint32_t       slots;   /* as they stand now */
    htc__keeper   *keepers; /* one for each slot that there may be */
    uint32_t       n_keepers;
    htc__keepers_file *keepers_file; /* slots/SITE.N/keepers, mapped; NULL: there are no keepers */
    struct htc__functions *functions; /* NULL while it begins and ends */
    int            full; /* its disk had no room when it began: it says so of each task, and runs none */
    char          *gang;      /* the program htc-gang; NULL: gangs start nothing on their other nodes */
    int            closing;
    uint32_t       in_work; /* pieces of work on the threads */
};

/* dial.c: HTC_CALL_DIAL, HTC_CALL_HANG_UP */
htc_status htc__exec_dial(htc_agent_host *a, uint64_t tag, htc_reader *body);
void       htc__exec_hang_up(htc_agent_host *a, htc_reader *body);

/* exec.c */
void htc__exec_answer(htc__run *r, uint32_t op, uint64_t tag, htc_status status, const char *text);
/* The run may be forgotten now if that was asked for. Frees it then. */
void htc__exec_settle(htc__run *r);
/* A run has ended: those that wait for its slot. */
void htc__exec_start_waiting(htc_agent_host *a);
void htc__run_free(htc__run *r);
/* Into the list; task is taken if there is one. NULL: out of memory. */
htc__run *htc__run_new(htc_agent_host *a, uint64_t number, const htc_attempt *attempt, htc_task *task, int plain);
htc_status htc__exec_work(htc__run *r, void (*work)(void *), void (*done)(void *));

/* Why a path of the machine that a document names is not for this task: it is another user's, and the paths would be opened with
 * the owner's rights. NULL: it is. */
const char *htc__run_no_paths(const htc__run *r);

/* Where the task runs (O_PATH), and its output directory. -1 and errno: ELOOP, ENOTDIR where it is a link now. An absolute
 * working directory is its user's affair, and opened as such. */
int htc__run_open_work(const htc__run *r);
int htc__run_open_out(const htc__run *r);

/* gang.c */
htc_status htc__gang_run(htc_agent_host *a, uint64_t tag, htc_reader *body); /* HTC_CALL_GANG_RUN */
void       htc__gang_answer(htc_agent_host *a, htc_reader *body);            /* HTC_CALL_GANG_ANSWER */
void       htc__gang_told(htc__run *r, const htc_outcome *o);                /* how one has ended: answers GANG_RUN */
int        htc__gang_leads(const htc__run *r); /* may it ask? */
void       htc__gang_door_open(htc__run *r);   /* it begins: without a door, its environment names none */
void       htc__gang_door_close(htc__run *r);  /* without one is fine; whoever waits there is told nothing */

/* stage.c: on a worker thread. Its directory, with one for what is fetched; the same, then its inputs. */
void htc__stage_place(void *run);
void htc__stage_in(void *run);
/* An upload of that user's by its hash, for reading. -1 and errno; path: of it. */
int  htc__upload_open(const htc_agent_host *a, const char *user, const char hex[65], char path[PATH_MAX]);
/* stage_turns.c: on a worker thread */
#define HTC__TURN_FREE (-1) /* there is no limit, or none can be kept */
#define HTC__TURN_NONE (-2) /* as many stage as may */
int  htc__turn_take(const htc_agent_host *a, uint64_t number);
void htc__turn_give(int turn);
/* Makes the file of turns for agents of another uid. 0, or -1 and errno. */
int  htc__turns_make(const char *slot_dir, uid_t uid, gid_t gid);
/* scratch.c */
int  htc__scratch_full(const htc_agent_host *a); /* 1: there is no room for what a task could write */
int  htc__scratch_failed(const htc__run *r);     /* 1: so it is, and not by what this task has written: its failure is not its own */
/* urls.c: does the task, or that input, need something by a URL? */
int htc__urls_is_wanted(const htc_stage *s);
int htc__urls_some(const htc_task *t);
int htc__urls_sends(const htc_task *t); /* does it send some output to a URL? */
/* Its place is made: fetch what it names. HTC_OK: fetched is called from the loop, with status and text of the run. Else these say why not. */
htc_status htc__urls_start(htc__run *r, void (*fetched)(htc__run *r));
void       htc__urls_stop(htc__run *r); /* fetched is called with HTC_ECANCELLED; nothing if nothing is fetched */
void       htc__urls_end(htc__run *r);  /* fetched is not called */
/* On a worker thread, while outputs are stored: a new place for those that are to be sent, and the output of s, open as in, in it. HTC_OK, or text of the
 * run says why not. */
htc_status htc__urls_keep_begin(htc__run *r);
htc_status htc__urls_keep(htc__run *r, int in, const htc_stage *s);
/* All is stored: is some of it to be sent? Of a task that failed nothing is: what it has left half done does not replace what is there. */
int        htc__urls_may_send(const htc__run *r);
/* Then send what has not been sent. done is called, now or from the loop, with status and stored of the run saying how that went. */
void       htc__urls_send(htc__run *r, void (*done)(htc__run *r));
/* outputs.c: on a worker thread */
void htc__stage_out(void *run);
void htc__drop_outputs(const char *data_dir, const htc_attempt *attempt);
void htc__drop_outputs_below(int data, const htc_attempt *attempt); /* data: a descriptor of the same */
htc_status htc__exec_outputs_at(htc_agent_host *a, uint64_t tag, htc_reader *body);

/* exec_run.c: the life of a process */
htc_status htc__run_start(htc__run *r, uint64_t tag);
uint32_t   htc__runs_unkept(const htc_agent_host *a); /* slots of those that run, and no keeper has */
uint32_t   htc__run_slots(const htc__run *r);         /* that it takes here, */
uint32_t   htc__run_nodes(const htc__run *r);         /* and on how many nodes as many */
void       htc__run_signal(htc__run *r, int signal);
void       htc__run_end_now(htc__run *r); /* at the end of everything: blocks until its tree is gone */
void       htc__exec_poll_arm(htc_agent_host *a);

/* keeper_runs.c: plain tasks, which keepers run */
int        htc__keepers_open(htc_agent_host *a, uint32_t slots); /* 0, or -1 and errno */
void       htc__keepers_close(htc_agent_host *a);                /* ends them and what they run */
int        htc__kept_plain(const htc_agent_host *a, const htc_task *t, size_t bytes); /* does a keeper run it? */
/* HTC_ETOOBIG: it has more words than a keeper takes; then it is plain no more, and nothing was answered. */
htc_status htc__kept_start(htc__run *r, uint64_t tag);
void       htc__kept_signal(htc__run *r, int signal); /* one that has not begun is taken back: its RUN answers HTC_AGAIN */
int        htc__kept_take_back(htc__run *r);          /* 1: it had not begun, and has not now: its RUN is answered */
uint32_t   htc__kept_runs(const htc_agent_host *a);   /* that keepers have */
uint32_t   htc__keepers_busy(const htc_agent_host *a); /* that have some */
pid_t      htc__kept_pid(const htc__run *r);          /* of its first process; 0: none */
void       htc__kept_look_again(htc_agent_host *a);   /* behind each look at all processes while something runs */
/* The run whose processes are children of pid, which is a keeper; NULL: pid is none. *kept: it is one. */
htc__run  *htc__kept_by(const htc_agent_host *a, pid_t pid, int *kept);

/* functions_judge.c: the process has ended, or could not be started; what is left of its run is for the caller to settle. */
void       htc__functions_ended(htc__run *r, const htc_outcome *o);

/* for keeper_runs.c: exec.c, */
void htc__run_unkept(htc__run *r); /* it is not plain, and has no names of places yet */
/* exec_run.c */
int  htc__run_look(htc_agent_host *a, int full, const htc__run *orphans); /* fills procs, owner: place of the run in a->runs */
int  htc__run_index(const htc_agent_host *a, const htc__run *r);
void htc__run_tell_started(htc__run *r);
void htc__run_outcome(htc__run *r); /* of its wait_status, exec_stage and why: answers RUN */
void htc__run_refuse(htc__run *r, htc_status status); /* it never ran: r->text says why */
size_t htc__run_tail(const htc__run *r, int which, char *out, size_t max); /* the last bytes of a standard stream */

/* exec_child.c: what the child needs, and what it says of itself, in memory that both see until exec. */
typedef enum htc__child_stage {
    CHILD_SESSION = 1, CHILD_RECORD, CHILD_LIMITS, CHILD_DIRECTORY, CHILD_STREAMS, CHILD_EXEC, CHILD_CONFINE,
    CHILD_PLACE, CHILD_FORK /* of a keeper: before there is a process */
} htc__child_stage;
typedef struct htc__child {
    htc__run    *run;
    char       **argv, **envp;
    int          own_words; /* argv's words are freed with it */
    char         program[PATH_MAX];
    int          directory; /* where it begins */
    int          in, out, err;
    htc__keeper_limit limits[HTC__KEEPER_LIMITS];
    size_t       limits_count;
    pid_t        parent;
    htc__confine *confine; /* NULL: not */
    int          stage, error;  /* 0: it has begun; else where it failed, and errno */
    htc_status   record_status; /* if it failed in CHILD_RECORD */
} htc__child;
/* Answers the pid when the program has begun or could not (stage), -1 when there is no process. Its process is recorded
 * before anything of the program runs. */
pid_t      htc__child_start(htc__child *c);
void       htc__child_limits(htc__child *c, const htc_limits *limits);
/* Find the program of a task: in its directory, then along path. HTC_ENOEXEC with a sentence. */
htc_status htc__child_find(htc__child *c, const htc__run *r, char *text, size_t room);

/* exec_contain.c: argv and program are those that run the task in its container, if it asks for one. Else why not is in the run's text. */
htc_status htc__child_contain(htc__child *c, htc__run *r);

/* exec_env.c */
char **htc__child_env(const htc__run *r, htc_ns wall_now); /* NULL: out of memory */
void   htc__strings_free(char **list);

/* exec_record.c: slots/SITE.N/groups; the slot and its lock. real is malloced. *lock_fd below 0: the slot is locked and that is the
 * lock; else the caller holds it. */
htc_status htc__slot_enter(const htc_env *env, const char *slot_dir, char **real, int *lock_fd, htc_error *error);
htc_status htc__record_open(htc_agent_host *a);
htc_status htc__record_write(htc_agent_host *a);
/* Which keeper of the slot (a descriptor) runs the attempt now; -1: none. */
int        htc__keeper_of(int slot_fd, const htc_attempt *attempt);

#endif
