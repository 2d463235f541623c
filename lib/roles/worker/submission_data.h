/* What the tasks of a flow read and make, where each of them runs in a directory of its own: who makes which file, and what a task's record and
 * its stages say of that. A name that begins with "/" is left alone: it is a path of the node. Pure. */
#ifndef HTC_ROLES_SUBMISSION_DATA_H
#define HTC_ROLES_SUBMISSION_DATA_H

#include "core/codec.h"
#include "htcsched/flow.h"
#include "htcsched/work.h"

typedef struct submission_files submission_files;

/* HTC_OK, *out NULL: no command of it reads or makes a file. HTC_ESCHEMA: two make one, or one that stands for several is read; HTC_EUNSUPPORTED, HTC_ETOOBIG,
 * HTC_ENOMEM. The flow is kept. inputs: an absolute directory, kept: what a command reads and no task makes lies there; NULL: such a file is not
 * looked for. */
htc_status htc__submission_files_create(const htc_env *env, const htc_flow *f, const char *inputs, submission_files **out, htc_error *error);
/* What its tasks read and none of them makes a task with this number may have made, which is no task of the flow: these files. makes is borrowed. */
void       htc__submission_files_outside(submission_files *s, uint64_t maker, htc_bytes makes);
void       htc__submission_files_destroy(submission_files *s); /* NULL is fine */
/* Of a task's record: reads and makes. first: the number of the flow's first task. */
void       htc__submission_files_put(const submission_files *s, uint32_t entry, uint64_t first, htc_buf *reads, htc_buf *makes);
/* A command with what is brought to it from elsewhere, and what is stored of it. *bytes: htc_work_free, is replaced. HTC_EPATH: a name that
 * leaves the task's directory; HTC_ENOMEM. */
htc_status htc__submission_files_stage(const submission_files *s, uint32_t entry, htc_bytes *bytes);

#endif
