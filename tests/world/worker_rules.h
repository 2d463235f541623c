/* The rules that test_worker.c leaves out one by one (lib/core/fault.h). */
#ifndef WORKER_RULES_H
#define WORKER_RULES_H

/* What fails without each, in the words of the exploration that found the rules. */
static const char *const rules[] = {
    "note_taken_back",     /* the note is accepted all the same: two owners */
    "clear_before_accept", /* the thief ends: lost */
    "forget_before_clear", /* the note is accepted again: two owners */
    "note_read_early",     /* the note was accepted meanwhile, counted and forgotten: two owners */
    "note_number_reused",  /* an old "accepted" clears a new note: lost */
    "ledger_unversioned",  /* who was thought dead writes over its successor */
    "log_rewritten",       /* a block says what was not counted, or not what was */
    "header_last",         /* records of a slow submitter are removed, and then it runs without them */
    "end_when_empty",      /* tasks move behind the reader: it ends early */
    "ledger_each_life",    /* as many records as lives */
    "parents_counted",     /* told twice, it runs too early */
    "bad_bit_ignored",     /* it waits for ever */
    "counted_before_told", /* who takes over does not see that its children wait: for ever */
    "task_unversioned",    /* who was thought dead ends it once more */
    "intake_unversioned",  /* of two who add at the same moment one takes the place of the other */
    "intake_unread",       /* added twice */
    "counted_before_created", /* who takes over finds nothing that could be run */
    "drawn_unread",        /* the header does not say any more what it has drawn, and its record does: drawn twice */
    "note_unversioned",    /* a late note says again who has what the task made, though it was made again since */
    "record_deleted",      /* who was thought dead creates it again, behind its end: open once more */
    "redo_unclaimed",      /* made twice */
    "claim_without_epoch", /* a dead claimant blocks all */
    "claim_kept",          /* so does a live one that needs it no more */
};

#endif
