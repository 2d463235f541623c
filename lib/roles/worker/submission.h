/* A flow as records: what whoever submits it writes into the store, one by one. Pure. */
#ifndef HTC_ROLES_SUBMISSION_H
#define HTC_ROLES_SUBMISSION_H

#include "htcsched/flow.h"
#include "htcsched/flows.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/submission_data.h"

typedef struct submission {
    const htc_env  *env;
    const htc_flow *flow; /* as it is stored: no task of it has too many dependencies */
    htc_flow       *narrow; /* that, where it is not the one that was given; else NULL */
    flow            header; /* but for its task, which lies in task */
    htc_bytes       task;   /* of a bag: htc_task_to_bytes of one; else none. Freed by htc__submission_free */
    uint64_t        id, home; /* tasks that a ledger is home to */
    uint64_t        n_ledgers;
    uint32_t        layout;  /* htc_flows_layout */
    uint64_t       *ends;    /* of HTC_FLOWS_RANDOM: behind the last task of each ledger; NULL: home says */
    uint32_t        owner;     /* HTC_FLOW_USER of id */
    const char     *directory; /* of commands; NULL: private ones */
    const char     *inputs;    /* where what they read lies that no task makes; NULL: nowhere */
    submission_files *files;   /* NULL: no task reads or makes any that is brought */
    uint64_t        base;   /* of tasks that are added: the first's number, */
    uint64_t        ledger; /* where they are live, */
    htc_bytes       adder;  /* and the name of the task that adds them; empty: they are submitted */
    uint64_t        adder_number; /* for people */
    uint8_t         cancelled;    /* they are, as they are added */
    uint32_t        entry; /* the flow's task that the last record was of: they come in order */
    uint32_t        builtin_of; /* the flow's task that builtin is what is executed of */
    htc_bytes       builtin;    /* none: nothing yet */
} submission;

/* What the options say of the header and of directory, which is borrowed. *workers: the options' own. HTC_EINVAL, HTC_EABI. */
htc_status htc__submission_options(submission *s, const htc_flows_options *options, uint32_t *workers, htc_error *error);
/* By their names; NULL: as it is. HTC_ENOTFOUND; HTC_ENOMEM. */
htc_status  htc__submission_policy(flow *f, const char *policy, const char *steal, const htc_registry *policies, htc_error *error);
const char *htc__submission_rule(uint32_t rule); /* its name */
/* given: checked; kept. HTC_EINVAL, HTC_EUNSUPPORTED, HTC_EFULL, HTC_ENOMEM. directory, header.user, tries and max_fails are the caller's, before. */
htc_status htc__submission_init(submission *s, const htc_env *env, const htc_flow *given, uint64_t id, uint32_t workers, htc_error *error);
/* Of tasks that are added by that one (addition.h): records of tasks alone. given, task: kept. to: the flow. base: as above; that they are
 * live in task->added_home, and cancelled or not, is what task says. */
htc_status htc__submission_added(submission *s, const htc_env *env, const htc_flow *given, const flow *to, uint64_t id, uint64_t adder, const graph_task *task,
                                 uint64_t base, const char *directory, const char *inputs, htc_error *error);
/* The task with this number, counted from base. */
htc_status htc__submission_task(submission *s, uint64_t number, flow_key *key, htc_buf *b);
void       htc__submission_free(submission *s);
void       htc__submission_header(const submission *s, flow_state state, htc_buf *b);
uint64_t   htc__submission_records(const submission *s);
/* Record i: ledgers, then tasks. Appended to nothing: b is cleared. */
htc_status htc__submission_record(submission *s, uint64_t i, flow_key *key, htc_buf *b);

#endif
