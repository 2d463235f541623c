/* Tasks that a task adds to its flow. A task whose adds is set prints them, or leaves them as its output if it is a function, as a person types a flow
 * or as JSON lines; when it has succeeded they are tasks of the flow, named TASK/NAME; or #NUMBER/NAME, with the number of that task, where this would be longer than ADDITION_NAME_MAX, so that a long
 * chain of tasks that each add the next has short names. No other name in the flow has a slash.
 *
 *     END     on the task      done, and the text of what it adds stands in its record
 *     DRAW    on the header    the flow has so many tasks more; their numbers are the task's. The header says so until the task's record does
 *     NOTE    on the task      their first number, and the ledger that they will be live in
 *     CREATE                   a record for each of them, where there is none yet. The text says what they are, whoever reads it
 *     COUNT   on the ledger    the task is counted. In the same change what it adds is live, or, for another ledger, in a note
 *
 * The flow has ended when as many tasks are counted as its header has. The header's number grows before any added task is live. So no sum of
 * counts, however old, reaches it before every added task is counted.
 *
 * A task draws once: before a draw a worker knows the header's version, then reads the task's record, and changes the header only at that version. A
 * draw leaves the header only after it was noted.
 *
 * Added tasks wait for each other, and know the task that adds them as their last parent, which is done. They change no other record.
 *
 * Pure. */
#ifndef HTC_ROLES_ADDITION_H
#define HTC_ROLES_ADDITION_H

#include "htcsched/flow.h"
#include "roles/worker/graph_task.h"

#define ADDITION_TASKS_MAX 1024 /* that one task adds */
#define ADDITION_TEXT_MAX  (128 * 1024)
#define ADDITION_NAME_MAX  64
#define ADDITION_ALL_MAX   (UINT64_C(1) << 24) /* that are added to one flow */

/* Whose text it is. */
typedef struct addition_source {
    const char *name;      /* of what was read, for errors: "stdout", "output" */
    const char *directory; /* relative paths of objects of functions begin there; NULL: they are refused */
    int         files;     /* who reads a file waits for the task that makes it */
    int         intake;    /* the last task may be the next intake (intake.h) */
} addition_source;

/* What the text says. *out: htc_flow_destroy; NULL: it adds nothing. HTC_ESCHEMA and what else htc_flow_read answers; HTC_ETOOBIG beyond the
 * bounds; HTC_EINVAL: a name has a slash; HTC_EUNSUPPORTED: nothing executes that. */
htc_status htc__addition_read(const htc_env *env, htc_bytes text, const addition_source *from, htc_flow **out, htc_error *error);
/* The children of a task that adds these from there on: those that it has, and they. Appended to b. */
void htc__addition_children(const graph_task *adds, const htc_flow *added, uint64_t from, htc_buf *b);

#endif
