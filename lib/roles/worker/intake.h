/* Tasks that are added to a flow from outside, while it runs. An open flow has a task that nobody runs, its intake. Whoever adds tasks ends it: its
 * record becomes done and holds their text, as of a task that has printed them; the last of them is the next intake, unless the flow takes no more.
 *
 *     INTAKE  on the task      done; the text, which worker is to begin with them, and whether the next intake is among them
 *     NEWS    on the header    a hint to whoever owns the intake's ledger, who reads the record then
 *     DRAW, NOTE, CREATE, COUNT, as of any task that adds tasks (addition.h); with DRAW the header says which is the next intake
 *
 * Of several who add at the same moment one changes the record, since each changes the version that it has read; the others go on with the next
 * intake. The flow cannot end before it is closed: its intake is a task of it.
 *
 * Pure. */
#ifndef HTC_ROLES_INTAKE_H
#define HTC_ROLES_INTAKE_H

#include "htcsched/flow.h"
#include "roles/worker/addition.h"
#include "roles/worker/flow.h"

/* The text that adds these (NULL: none) and, unless it is the last, the intake behind the one of that name. Appended. *tasks: how many those are. As
 * htc_flow_write; HTC_ETOOBIG. */
htc_status htc__intake_text(const htc_flow *given, htc_bytes name, int last, htc_buf *text, uint32_t *tasks, htc_error *error);
/* Whether it can be added to: HTC_OK; HTC_AGAIN: what was added before has not been taken up; HTC_EBUSY: the flow takes no more, HTC_EUNSUPPORTED: it never
 * did. f: the header; t: the record of f->intake, NULL: not read yet. */
htc_status htc__intake_look(const flow *f, const graph_task *t, htc_error *error);
/* INTAKE, checked as whoever runs the flow would: a text that is refused there would be nobody's to mend. t: lies in len bytes; text: the task's
 * from now on. nonce: so that its author knows it again. wall: now. As htc__addition_check. */
htc_status htc__intake_add(const htc_env *env, const flow *f, uint64_t flow_id, graph_task *t, size_t len, htc_bytes text, int last, uint64_t worker,
                           uint64_t nonce, htc_ns wall, htc_error *error);
int        htc__intake_is_mine(const graph_task *t, uint64_t nonce);
/* NEWS: of f->intake. HTC_EEXISTS: that was known. */
htc_status htc__intake_news(flow *f, uint64_t intake, int last);

#endif
