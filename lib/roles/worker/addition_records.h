/* The records of tasks that are added, from their text. Pure. */
#ifndef HTC_ROLES_ADDITION_RECORDS_H
#define HTC_ROLES_ADDITION_RECORDS_H

#include "roles/worker/addition.h"
#include "roles/worker/submission.h"

typedef struct addition_records {
    htc_flow  *flow;       /* NULL: not read */
    submission submission; /* its env NULL: not begun */
    char      *directory, *inputs;
} addition_records;

/* What the text of that task of the flow says becomes r->flow; NULL: it adds nothing. End it also after a failure. As htc__addition_read. */
htc_status htc__addition_parse(addition_records *r, const htc_env *env, htc_bytes text, const flow *to, const graph_task *adds, htc_error *error);
/* to: the flow with number id, of which adder is the task that adds them; from: their first number. r was parsed. As htc__submission_added. */
htc_status htc__addition_begin(addition_records *r, const htc_env *env, const flow *to, uint64_t id, uint64_t adder, const graph_task *adds, uint64_t from,
                               htc_error *error);
void       htc__addition_end(addition_records *r, const htc_env *env);
/* Whether this text can be added by that task, whose record has len bytes: all its records are made once. *tasks: how many they are; 0: it adds nothing.
 * HTC_EFULL: the flow would have too many; HTC_ETOOBIG: a record would; as htc__addition_read and htc__submission_task. */
htc_status htc__addition_check(const htc_env *env, htc_bytes text, const flow *to, uint64_t id, uint64_t adder, const graph_task *adds, size_t len,
                               uint32_t *tasks, htc_error *error);

#endif
