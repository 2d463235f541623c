/* Ledgers: which tasks of a flow somebody answers for. A ledger is one record of the store, changed by its owner alone, by a
 * compare-and-swap on the version that the owner read; whoever takes it over changes the version, and so ends what the owner before
 * it still writes. Every task is at any time in exactly one place: live in one ledger, in one note that is not accepted yet, or
 * counted.
 *
 * A note says that tasks went from one ledger to another. It is addressed to a ledger, not to a worker, and never taken back:
 *
 *     GIVE    on the giving ledger     tasks leave live, the note stands in out
 *     ACCEPT  on the taking ledger     tasks are live, the pair (ledger, note) stands in in
 *     CLEAR   on the giving ledger     when it is known that the note was accepted
 *     FORGET  on the taking ledger     when it is known that it was cleared
 *
 * Functions of what is passed in: no store, no clock, no allocation. A step that is refused changes nothing. */
#ifndef HTC_ROLES_LEDGER_H
#define HTC_ROLES_LEDGER_H

#include "core/codec.h"
#include "roles/worker/outcome_log.h"

#define LEDGER_BYTES_MAX  8192 /* of a record, without its log */
#define LEDGER_BYTES_GIVE 4096 /* a step that can wait, GIVE or ACCEPT, waits if it would make a record longer: what cannot has room then */
#define LEDGER_LIVE_MAX   1100 /* spans */
#define LEDGER_OUT_MAX    24   /* notes that are not cleared */
#define LEDGER_IN_MAX     64   /* pairs that are not forgotten */
#define LEDGER_NOTE_MAX   16   /* spans of a note */
#define LEDGER_TRIES_MAX  100  /* tasks that are to be tried again */
#define LEDGER_HOME       2048 /* tasks of a graph that a ledger is home to: the spans of no subset of them exceed LEDGER_LIVE_MAX */

/* Tasks from up to but not including to. */
typedef struct ledger_span {
    uint64_t from, to;
} ledger_span;

/* A set of tasks: spans in order, none touching the next. */
typedef struct ledger_ids {
    uint32_t    n;
    ledger_span at[LEDGER_LIVE_MAX];
} ledger_ids;

typedef struct ledger_note {
    uint64_t    note;   /* its number in the giving ledger; never used again */
    uint64_t    ledger; /* whom it is for */
    uint32_t    n;
    ledger_span ids[LEDGER_NOTE_MAX];
} ledger_note;

typedef struct ledger_pair {
    uint64_t ledger, note;
} ledger_pair;

typedef struct ledger_counts {
    uint64_t done, failed, cancelled;
} ledger_counts;

/* A live task that has failed, and is to be tried again. */
typedef struct ledger_try {
    uint64_t id, failures;
} ledger_try;

typedef struct ledger {
    uint64_t      worker, epoch; /* owner; worker 0: nobody. An epoch is the worker's lease: another life has another one */
    uint64_t      next_note;     /* from 1 */
    ledger_counts counts;
    ledger_ids    live;
    uint32_t      n_out, n_in, n_tries;
    ledger_note   out[LEDGER_OUT_MAX];
    ledger_pair   in[LEDGER_IN_MAX];
    ledger_try    tries[LEDGER_TRIES_MAX];
    outcome_log   log; /* of a bag: how its counted tasks have ended. Those of a graph have records */
} ledger;

/* ---- sets ---- */

uint64_t   htc__ids_count(const ledger_ids *s);
int        htc__ids_has(const ledger_ids *s, ledger_span ids); /* all of them */
htc_status htc__ids_add(ledger_ids *s, ledger_span ids);    /* HTC_EINVAL: some are in it, or there are none; HTC_EFULL */
htc_status htc__ids_remove(ledger_ids *s, ledger_span ids); /* HTC_EINVAL: some are not; HTC_EFULL */

/* ---- steps ---- */

void       htc__ledger_init(ledger *l, ledger_span live); /* nobody's; an empty span: no tasks */
int        htc__ledger_is_of(const ledger *l, uint64_t worker, uint64_t epoch);
/* Tasks have ended: they are counted where counts says. HTC_EINVAL: they are not live, or the counts are not so many. */
htc_status htc__ledger_commit(ledger *l, const ledger_span *ids, size_t n, const ledger_counts *counts);
/* Tasks go to another ledger. *note: its number. HTC_EINVAL, HTC_EFULL. */
htc_status htc__ledger_give(ledger *l, const ledger_span *ids, uint32_t n, uint64_t to, uint64_t *note);
/* self is the number of l. from was read behind the version of l that is changed: the note stands there now, for l. *given lends it.
 * HTC_ENOTFOUND: it does not; HTC_EEXISTS: it was accepted before; HTC_EFULL. */
htc_status htc__ledger_accept(ledger *l, uint64_t self, const ledger *from, uint64_t from_number, uint64_t note, const ledger_note **given);
/* A live task has failed and is to be tried again. What does not fit is forgotten, and costs more tries. *failures: so far. HTC_EINVAL */
htc_status htc__ledger_try_again(ledger *l, uint64_t id, uint64_t *failures);
uint64_t   htc__ledger_failures(const ledger *l, uint64_t id);
uint64_t   htc__ledger_note_tasks(const ledger_note *n);
htc_status htc__ledger_clear(ledger *l, uint64_t note);               /* HTC_ENOTFOUND */
htc_status htc__ledger_forget(ledger *l, uint64_t from, uint64_t note); /* HTC_ENOTFOUND */
int        htc__ledger_accepted(const ledger *l, uint64_t from, uint64_t note); /* does it say so? */
const ledger_note *htc__ledger_note(const ledger *l, uint64_t note); /* NULL: there is none */
void       htc__ledger_take(ledger *l, uint64_t worker, uint64_t epoch);

/* ---- as a record ---- */

/* As part of a record. */
void htc__ledger_counts_write(htc_buf *b, const ledger_counts *c);
void htc__ledger_counts_read(htc_reader *r, ledger_counts *c);

void       htc__ledger_write(htc_buf *b, const ledger *l); /* clears b first; HTC_EFULL in b: it is too large */
htc_status htc__ledger_read(htc_bytes bytes, ledger *l);   /* HTC_ECORRUPT: nobody wrote that */

#endif
