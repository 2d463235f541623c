/* Tasks that a task adds to its flow. A task whose adds is set prints them, as a person types a flow or as JSON lines; when it has succeeded they
 * are tasks of the flow, named TASK/NAME; NUMBER/NAME, with the number of that task, where that is longer than ADDITION_NAME_MAX: tasks that add each other
 * in a row have names all the same.
 *
 *     END     on the task      done, and the text of what it adds stands in its record
 *     DRAW    on the header    the flow has so many tasks more; their numbers are the task's, which the header says until its record does
 *     NOTE    on the task      their first number
 *     CREATE                   the records of the tasks that are added, each if it is not there. The text says what they are, whoever reads it
 *     COUNT   on the ledger    the task is counted, and what it adds is live in its stead, in one change
 *
 * The flow has ended when as many are counted as its header says that there are: no sum of counts comes to that before all that was drawn for is
 * live somewhere and counted. A task draws once: who draws changes the header at a version, and has read behind that version that the record says
 * nothing. Tasks that are added wait for each other, and for the task that adds them, which they know to be done: it is the last of their parents. They change
 * no other record that is there.
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

/* What the text says. files: who reads a file waits for who makes it. *out: htc_flow_destroy; NULL: it adds nothing. HTC_ESCHEMA and what else htc_flow_read says; HTC_ETOOBIG beyond
 * the bounds; HTC_EUNSUPPORTED: nothing executes that. */
htc_status htc__addition_read(const htc_env *env, htc_bytes text, int files, htc_flow **out, htc_error *error);
/* The children of a task that adds these from there on: those that it has, and they. Appended to b. */
void htc__addition_children(const graph_task *adds, const htc_flow *added, uint64_t from, htc_buf *b);

#endif
