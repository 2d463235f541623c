/* Agents whose jobs the batch system does not list any more, and which nobody has cancelled: its accounting is asked why, by one command now and then.
 *
 * Their end is told before that: an accounting that is slow, or knows of a job only later, keeps nobody up. One command asks about the elements of one job, the
 * jobs in turn; what it does not know after BATCH_ASKS_MAX commands stays unknown.
 *
 * Threads: owner.   Allocation: none. */
#ifndef HTC_ROLES_BATCH_GONE_H
#define HTC_ROLES_BATCH_GONE_H

#include "roles/batch/batch.h"

#define BATCH_GONE_MAX    128 /* agents; of more at once nothing is asked */
#define BATCH_ASKS_MAX    3
#define BATCH_ASK_FIRST   2 /* periods after a job has gone: an accounting is written some seconds later */
#define BATCH_ASK_EVERY   5 /* periods from one command to the next */
#define BATCH_ASK_WITHIN  (20 * HTC_SECOND)
#define BATCH_ASK_BACKOFF (600 * HTC_SECOND) /* after one that could not be run, or took longer */

typedef struct batch_gone_one {
    uint64_t agent, ctx, submission;
    uint32_t index, asks;
    char     job[HTC__BATCH_NAME_MAX];
} batch_gone_one;

typedef struct batch_gone {
    batch_gone_one at[BATCH_GONE_MAX]; /* the first one's job is asked about next */
    uint32_t       n;
    uint64_t       asked; /* the submission that the last command was about */
    htc_ns         ask_at;
} batch_gone;

void   htc__batch_gone_add(batch_gone *g, const batch_gone_one *one, const char *job, htc_ns now, htc_ns period);
/* HTC_NEVER: there is nothing to ask. */
htc_ns htc__batch_gone_due(const batch_gone *g);
/* The command: all elements of the first one's job. */
void   htc__batch_gone_ask(batch_gone *g, const batch_system *system, const char *user, htc_buf *words);
/* That command has ended. told: each of which something is known; how it has ended: "" by itself. */
void   htc__batch_gone_answer(batch_gone *g, const batch_system *system, const char *prefix, const char *user, int exit_code, htc_bytes printed, htc_ns now, htc_ns period,
                              void (*told)(void *ctx, const batch_gone_one *one, const char *how), void *ctx);

#endif
