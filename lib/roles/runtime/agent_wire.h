/* What gateway and agent say to each other. One struct a message, one writer and one reader each.
 *
 * Rules both sides rely on:
 * - Every message may be lost, doubled, delayed or come after the connection was replaced.
 * - An agent id is drawn once by the gateway and never used again; the agent is told it when it is launched.
 * - PULL: the agent numbers its pulls (seq grows by one for each new wish) and repeats the same one until a GRANT with
 *   that seq comes. The gateway answers a repeated seq with the same grant.
 * - GRANT: grants are numbered by the gateway for each agent (grant grows); an agent ignores one it has seen.
 *   A grant of a gang comes unasked, with the seq of the newest pull, whose answer it is if that was lost. Until a pull says that the agent has it
 *   (last_grant), it is all that the gateway answers.
 * - HEARTBEAT: names the newest grant seen and lists all that the agent holds. seq grows; an older one is ignored.
 *     - a task of a grant <= last_grant that is not listed: missing; two heartbeats in a row end it (lost).
 *     - a grant > last_grant: its answer was lost, and is sent again.
 *     - a listed (task, attempt) that is not leased to this agent: revoked in the answer; the agent ends and drops it.
 * - TASK_RESULT is repeated until TASK_VERDICT comes; only then does the agent forget the outputs.
 * - SLOTS: how many slots the agent may fill now, numbered by the gateway (seq grows with each change). Above it no task
 *   begins; what runs goes on. The agent answers with SLOTS_HELD, and says it again whenever fewer are held. To a seq that is
 *   not the newest, or that it knows with another number, it answers with a newer one, from which the gateway goes on counting. The gateway takes a slot
 *   back only when SLOTS_HELD has said so, and repeats SLOTS with the heartbeat's answer until then. An agent that was
 *   launched before there were several slots has one, and is sent no SLOTS.
 * - The gateway's DRAIN, CANCEL, STOP are repeated as flags of the heartbeat's answer, so that a lost one costs no more
 *   than one heartbeat. */
#ifndef HTC_ROLES_AGENT_WIRE_H
#define HTC_ROLES_AGENT_WIRE_H

#include "core/wire.h"

#define HTC_AGENT_OUTPUTS_MAX 1024 /* of a path, with its NUL */
#define HTC_AGENT_HELD_MAX 128 /* tasks an agent holds at once, running and prefetched */

/* (job, task, attempt): what fences a result. */
typedef struct htc_attempt {
    uint64_t job, task;
    uint32_t attempt;
} htc_attempt;

typedef enum htc_held_state {
    HTC_HELD_WAITING = 1, /* not started: it waits for a slot, at the agent or at its host */
    HTC_HELD_STAGING_IN,
    HTC_HELD_RUNNING,
    HTC_HELD_STAGING_OUT,
    HTC_HELD_REPORTING /* ended; waits for the verdict */
} htc_held_state;

typedef struct htc_held {
    htc_attempt attempt;
    uint8_t     state; /* htc_held_state */
} htc_held;

typedef struct htc_held_list {
    uint32_t count;
    htc_held held[HTC_AGENT_HELD_MAX];
} htc_held_list;

/* AGENT_HELLO: the first message on each of the agent's connections (role HTC_WIRE_ROLE_AGENT's HELLO comes before). */
typedef struct htc_agent_hello {
    uint64_t agent;
    char     node[64]; /* host name */
    uint32_t slots;    /* that it may fill */
    uint64_t memory;   /* of the node, bytes */
    uint32_t cores;    /* of the node */
    uint64_t seq;      /* of the newest heartbeat sent */
    uint64_t last_grant;
    htc_held_list held;
} htc_agent_hello;

/* AGENT_WELCOME. status other than HTC_OK: the gateway does not know this agent (any more); it ends all and exits. */
typedef struct htc_agent_welcome {
    htc_status status;
    htc_ns     heartbeat_ns;
    htc_ns     lost_after_ns;
    char       store[256]; /* where the store is (HTC_CALL_DIAL), for agents of hosts that have joined; "": not said */
    char       outputs[HTC_AGENT_OUTPUTS_MAX]; /* the gateway's directory of data, for the same: outputs may be stored there, if it is seen; "": not said */
    char       outputs_id[65]; /* what says that it is seen (HTC_CALL_OUTPUTS_AT) */
} htc_agent_welcome;

/* AGENT_OUTPUTS: where the outputs of the agent's tasks are stored, said after each AGENT_WELCOME that names a directory, and whenever that changes.
 * HTC_OK: in the gateway's directory. Else why not; then they stay on the agent's host, and are asked for there. */
typedef struct htc_agent_outputs {
    uint64_t   agent;
    htc_status status;
    char       text[256];
} htc_agent_outputs;

typedef struct htc_heartbeat {
    uint64_t      agent;
    uint64_t      seq;
    uint64_t      last_grant;
    htc_ns        next; /* until the next one, at most */
    htc_held_list held;
} htc_heartbeat;

typedef enum htc_agent_flags { HTC_AGENT_DRAIN = 1, HTC_AGENT_STOP = 2 } htc_agent_flags;

typedef struct htc_heartbeat_answer {
    uint64_t    seq;
    uint32_t    flags;    /* htc_agent_flags as they stand now */
    uint32_t    revoked;  /* attempts to end and drop without a report */
    htc_attempt revoke[HTC_AGENT_HELD_MAX];
    uint32_t    cancelled; /* attempts to end by TERM, then KILL, and to report as HTC_ECANCELLED */
    htc_attempt cancel[HTC_AGENT_HELD_MAX];
} htc_heartbeat_answer;

typedef struct htc_pull {
    uint64_t agent;
    uint64_t seq;
    uint32_t want;      /* at most this many */
    uint64_t last_grant;
} htc_pull;

typedef enum htc_grant_kind { HTC_GRANT_TASKS = 1, HTC_GRANT_WAIT, HTC_GRANT_EXIT } htc_grant_kind;

typedef struct htc_granted {
    htc_attempt attempt;
    uint64_t    count; /* tasks of the job, for HTC_TASK_COUNT */
    char        user[64];
    uint32_t    compat; /* htc_compat */
    uint32_t    signal, signal_s; /* sent so many seconds ahead of the wall-time limit; 0: none is, and no agent need know of it */
    htc_bytes   task;   /* htc_task_to_bytes */
} htc_granted;

typedef enum htc_compat { HTC_COMPAT_NONE = 0, HTC_COMPAT_SLURM = 1, HTC_COMPAT_SGE = 2 } htc_compat;

/* GRANT. WAIT: pull again after retry_ns, on a NUDGE, or when the last task that was held then has its verdict.
 * EXIT: nothing more for this agent; it leaves. */
typedef struct htc_grant {
    uint64_t seq;   /* of the pull answered; 0 when sent again after a heartbeat */
    uint64_t grant; /* number of this grant, from 1; 0 with WAIT and EXIT */
    uint32_t kind;
    htc_ns   retry_ns;
    uint32_t count;
    htc_granted tasks[HTC_AGENT_HELD_MAX];
} htc_grant;

typedef struct htc_started {
    uint64_t    agent;
    htc_attempt attempt;
} htc_started;

#define HTC_OUTPUT_NAME_MAX 4096      /* of one output, below the task's directory, with its NUL */
#define HTC_OUTPUTS_MAX UINT64_C(1000000) /* entries of one attempt's manifest */

/* What an attempt left. Its outputs are named one by one in the manifest, which is stored beside them (doc/protocol.md). */
typedef struct htc_outputs {
    uint64_t files, dirs, links; /* stored */
    uint64_t errors;             /* not stored: the manifest says why */
    uint64_t bytes;              /* of the files */
    uint64_t manifest_bytes;     /* 0: it left nothing, and there is no manifest */
    uint8_t  manifest[32];       /* hash of the manifest */
} htc_outputs;

#define HTC_STDERR_TAIL_MAX 4096

/* Answer to HTC_CALL_STAGE_OUT. */
typedef struct htc_stored {
    htc_status  status; /* HTC_OK; HTC_ESTAGEOUT: something that belongs to the result could not be stored, or not be sent to its URL; HTC_EBUSY,
                         * HTC_EUNREACHABLE, HTC_ECLOSED: all is stored, and sending it met trouble that may pass: STAGE_OUT may be asked for
                         * again, and sends the rest; HTC_ECANCELLED: the same, ended by TAKE_BACK */
    uint8_t     final;  /* it would not be stored or sent the next time either */
    char        reason[256];
    htc_outputs outputs;
} htc_stored;

/* How an attempt ended. status: HTC_OK, HTC_EEXIT, HTC_ESIGNAL, HTC_EKILLED, HTC_EOOM, HTC_EWALLTIME, HTC_EREFUSED,
 * HTC_ENOEXEC, HTC_ESTAGEIN, HTC_EINPUT, HTC_ESTAGEOUT, HTC_ENOSPC, HTC_ECANCELLED. */
typedef struct htc_outcome {
    htc_status       status;
    int32_t          exit_code;
    uint32_t         signal;
    uint64_t         cpu_ns, memory_peak;
    htc_ns           started, ended; /* wall clock; 0 if never started */
    char             node[64];
    char             reason[256];
    htc_bytes        stderr_tail; /* at most HTC_STDERR_TAIL_MAX, only kept for a failure */
    uint8_t          final; /* trying again cannot mend it, whatever the status */
    htc_outputs      outputs;
} htc_outcome;

typedef struct htc_task_result {
    uint64_t    agent;
    htc_attempt attempt;
    htc_outcome outcome;
} htc_task_result;

/* TASK_VERDICT. HTC_OK: committed, once and for all. HTC_MISMATCH: discarded, the attempt holds no lease. Either way the
 * agent forgets the attempt; on anything but HTC_OK it also drops the stored outputs. */
typedef struct htc_task_verdict {
    htc_attempt attempt;
    htc_status  status;
} htc_task_verdict;

/* GIVE_BACK: tasks that have not begun, and those that the node or a stopped agent cannot finish; they wait again, and the gateway charges those that ran from
 * the third time on. Answered by TASK_VERDICT for each (HTC_OK). */
typedef struct htc_give_back {
    uint64_t    agent;
    uint32_t    count;
    htc_attempt attempts[HTC_AGENT_HELD_MAX];
} htc_give_back;

typedef struct htc_bye {
    uint64_t   agent;
    htc_status status; /* HTC_OK, or why: HTC_ENOSPC (scratch full), HTC_EREFUSED (black-hole guard), … */
    char       reason[256];
} htc_bye;

/* SLOTS. */
typedef struct htc_slots {
    uint64_t seq;   /* from 1 */
    uint32_t slots; /* at least 1; none at all is DRAIN */
} htc_slots;

/* SLOTS_HELD. */
typedef struct htc_slots_held {
    uint64_t agent;
    uint64_t seq;   /* of the newest SLOTS; 0: none has come */
    uint32_t slots; /* that it may fill, or that are still filled, if these are more */
} htc_slots_held;

#define HTC_CONTENT_WANT_MAX 2048 /* hashes */

/* CONTENT_WANT: an attempt that the agent holds reads uploads that are not at its site. It is repeated until CONTENT_HERE comes. */
typedef struct htc_content_want {
    uint64_t    agent;
    htc_attempt attempt;
    uint8_t     spoilt; /* 1: what is there under one of these is another content */
    htc_bytes   hashes; /* 32 bytes each, 1 to HTC_CONTENT_WANT_MAX; borrowed from the reader */
} htc_content_want;

/* CONTENT_HERE. HTC_OK: they are; HTC_ENOTFOUND: the attempt's user has no such upload, or this is the gateway's own machine, where all of them
 * are; else why not, for now (HTC_EUNREACHABLE and its like), or by the node's fault (HTC_ENOSPC, HTC_EIO). */
typedef struct htc_content_here {
    htc_attempt attempt;
    htc_status  status;
    char        text[256];
} htc_content_here;

/* DRAIN {on}: exit after the current task. STOP: end all tasks now, give them back, exit. NUDGE: pull now.
 * CANCEL {attempt}. REVOKE {attempt}: as a heartbeat's answer revokes it, at once: a gang has ended. */

void htc_write_attempt(htc_buf *b, const htc_attempt *a);
void htc_read_attempt(htc_reader *r, htc_attempt *a);

/* Writers begin the message (type, id 0) in b; readers start at the payload and answer htc_reader_done. */
void       htc_agent_hello_write(htc_buf *b, const htc_agent_hello *m);
htc_status htc_agent_hello_read(htc_reader *r, htc_agent_hello *m);
void       htc_agent_welcome_write(htc_buf *b, const htc_agent_welcome *m);
htc_status htc_agent_welcome_read(htc_reader *r, htc_agent_welcome *m);
void       htc_agent_outputs_write(htc_buf *b, const htc_agent_outputs *m);
htc_status htc_agent_outputs_read(htc_reader *r, htc_agent_outputs *m);
void       htc_heartbeat_write(htc_buf *b, const htc_heartbeat *m);
htc_status htc_heartbeat_read(htc_reader *r, htc_heartbeat *m);
void       htc_heartbeat_answer_write(htc_buf *b, const htc_heartbeat_answer *m);
htc_status htc_heartbeat_answer_read(htc_reader *r, htc_heartbeat_answer *m);
void       htc_pull_write(htc_buf *b, const htc_pull *m);
htc_status htc_pull_read(htc_reader *r, htc_pull *m);
void       htc_grant_write(htc_buf *b, const htc_grant *m);
htc_status htc_grant_read(htc_reader *r, htc_grant *m); /* task bytes borrowed from the reader */
void       htc_started_write(htc_buf *b, const htc_started *m);
htc_status htc_started_read(htc_reader *r, htc_started *m);
void       htc_task_result_write(htc_buf *b, const htc_task_result *m);
/* outcome.stderr_tail is borrowed from the reader. */
htc_status htc_task_result_read(htc_reader *r, htc_task_result *m);
void       htc_task_verdict_write(htc_buf *b, const htc_task_verdict *m);
htc_status htc_task_verdict_read(htc_reader *r, htc_task_verdict *m);
void       htc_give_back_write(htc_buf *b, const htc_give_back *m);
htc_status htc_give_back_read(htc_reader *r, htc_give_back *m);
void       htc_bye_write(htc_buf *b, const htc_bye *m);
htc_status htc_bye_read(htc_reader *r, htc_bye *m);
void       htc_slots_write(htc_buf *b, const htc_slots *m);
htc_status htc_slots_read(htc_reader *r, htc_slots *m);
void       htc_slots_held_write(htc_buf *b, const htc_slots_held *m);
htc_status htc_slots_held_read(htc_reader *r, htc_slots_held *m);
void       htc_content_want_write(htc_buf *b, const htc_content_want *m);
htc_status htc_content_want_read(htc_reader *r, htc_content_want *m);
void       htc_content_here_write(htc_buf *b, const htc_content_here *m);
htc_status htc_content_here_read(htc_reader *r, htc_content_here *m);
void       htc_drain_write(htc_buf *b, int on);
htc_status htc_drain_read(htc_reader *r, int *on);
void       htc_cancel_write(htc_buf *b, const htc_attempt *a);
htc_status htc_cancel_read(htc_reader *r, htc_attempt *a);
void       htc_revoke_write(htc_buf *b, const htc_attempt *a);
htc_status htc_revoke_read(htc_reader *r, htc_attempt *a);
void       htc_stop_write(htc_buf *b);
void       htc_nudge_write(htc_buf *b);

/* Shared with the records of the gateway and the answers of the agent's host. */
void       htc_outcome_write(htc_buf *b, const htc_outcome *o);
htc_status htc_outcome_read(htc_reader *r, htc_outcome *o); /* not to the reader's end */
void       htc_stored_write(htc_buf *b, const htc_stored *s);
htc_status htc_stored_read(htc_reader *r, htc_stored *s);

#endif
