/* A bag that goes on: the tasks of one that has ended which are not done are live in the ledgers of a new flow, which has as many tasks under the
 * same numbers; the others are counted there as done from the beginning. Pure.
 *
 *     htc__bag_resumption_add     what the logs of the old flow say, in any order
 *     htc__bag_resumption_settle  which tasks are run, and how many ledgers share them
 *     htc__bag_resumption_header, _ledger    what is written
 *
 * Memory: 24 bytes a span of missing tasks, at most BAG_RESUMPTION_SPANS of them at once. */
#ifndef HTC_ROLES_BAG_RESUMPTION_H
#define HTC_ROLES_BAG_RESUMPTION_H

#include "roles/worker/flow.h"

#define BAG_RESUMPTION_LEDGERS 1024 /* beyond one for each worker no more: whoever is alone owns them all, in 240 kB each */
#define BAG_RESUMPTION_LIVE    512  /* spans of a new ledger: one more for each task that runs has room, and what thieves bring */
#define BAG_RESUMPTION_BYTES   3072 /* of these: less than LEDGER_BYTES_GIVE, or nobody could steal of them */
#define BAG_RESUMPTION_SPANS   (2 * BAG_RESUMPTION_LEDGERS * BAG_RESUMPTION_LIVE)

typedef struct bag_resumption {
    const htc_env *env;
    size_t         n, cap; /* spans that are missing; in order and apart once settled */
    ledger_span   *spans;
    uint64_t       tasks, missing; /* of the flow; those of the spans */
    uint64_t       home, n_ledgers; /* tasks of a ledger, at most */
    size_t         at; /* the next ledger: it begins with this span, */
    uint64_t       from; /* with this task of it or a later one, */
    uint64_t       next; /* and has this number */
} bag_resumption;

void       htc__bag_resumption_init(bag_resumption *r, const htc_env *env);
void       htc__bag_resumption_free(bag_resumption *r);
/* HTC_ECORRUPT: tasks that are among others already; HTC_EFULL: too many spans; HTC_ENOMEM. */
htc_status htc__bag_resumption_add(bag_resumption *r, const bag_outcome *o);
/* old: the header of the flow that has ended; workers: that are expected. HTC_EEXISTS: nothing is left to be run; HTC_EFULL: in too many pieces;
 * HTC_ECORRUPT: what was added is not what the header counts; HTC_ENOMEM. */
htc_status htc__bag_resumption_settle(bag_resumption *r, const flow *old, uint32_t workers);
/* Of the new flow, which goes on where from ended, not started yet. tries, max_fails: 0 as in old. */
void       htc__bag_resumption_header(const flow *old, uint64_t from, uint32_t tries, uint64_t max_fails, htc_buf *b);
/* The next one, *number from 0; b is cleared. HTC_ENOTFOUND: there are no more. */
htc_status htc__bag_resumption_ledger(bag_resumption *r, uint64_t *number, htc_buf *b);

#endif
