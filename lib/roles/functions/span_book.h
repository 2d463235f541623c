/* The book of one span: of each number whether it waits, is with the helper in a portion, is done or has failed.
 *
 *     waits --next--> in a portion --ended--> done, --failed--> failed, --skipped--> waits
 *                          |
 *                          +--lost (the helper died)--> waits, or suspected: the next portion is that number alone
 *
 * ended and skipped say besides that the helper is behind a number: a portion is out until it is so of all of them, whatever has become of them.
 *
 * A suspect was under way when the process died, and nobody knows whose fault that was. It runs again while nothing else does; if the process
 * dies then, it was it. What is told of numbers that are settled changes nothing, and of portions that are not out it is refused. */
#ifndef HTC_ROLES_SPAN_BOOK_H
#define HTC_ROLES_SPAN_BOOK_H

#include "htcsched/env.h"

#define HTC__SPAN_PORTIONS 4
#define HTC__SPAN_RANGES_MAX 65536u
#define HTC__SPAN_SUSPECTS_MAX 256u

typedef struct htc__span_book htc__span_book;

/* A portion as it goes out. index: its place in this book, below HTC__SPAN_PORTIONS. */
typedef struct htc__span_portion {
    uint32_t index, n;
    uint64_t from;
    uint32_t alone; /* a suspect */
} htc__span_portion;

/* from < to. HTC_OK, HTC_ENOMEM. */
htc_status htc__span_book_create(const htc_env *env, uint64_t from, uint64_t to, htc__span_book **out);
void       htc__span_book_destroy(htc__span_book *b);

/* What waits next: a suspect first, which goes out only where no portion is. most: tasks, 1 to HTC__FN_PORTION_TASKS. HTC_OK; HTC_EMPTY:
 * nothing waits, or no portion may go out now; HTC_ENOMEM. The first number that waits, for whoever has to know how many to take. */
htc_status htc__span_book_next(htc__span_book *b, uint32_t most, htc__span_portion *out);
int        htc__span_book_first(const htc__span_book *b, uint64_t *number);

/* What a helper says of a portion's numbers. HTC_OK; HTC_EPROTO: there are no such in a portion that is out. */
htc_status htc__span_book_ended(htc__span_book *b, uint32_t index, uint32_t offset, uint32_t count);
/* HTC_EEXISTS where it is settled already: then nothing is counted. */
htc_status htc__span_book_failed(htc__span_book *b, uint32_t index, uint32_t offset);
htc_status htc__span_book_output(htc__span_book *b, uint32_t index, uint32_t offset); /* done; HTC_EEXISTS likewise */
htc_status htc__span_book_skipped(htc__span_book *b, uint32_t index, uint32_t offset, uint32_t count); /* or HTC_ENOMEM, HTC_EFULL */
/* It waits again, whatever the helper has done: there is no room for its result. HTC_EEXISTS where it is settled; HTC_ENOMEM, HTC_EFULL. */
htc_status htc__span_book_put_off(htc__span_book *b, uint32_t index, uint32_t offset);
int        htc__span_book_is_out(const htc__span_book *b, uint32_t index, uint32_t offset);

/* The helper is gone: all that is out waits again. HTC_OK; HTC_ENOMEM, HTC_EFULL: what is out is not known any more, and the rest is as it
 * was. */
htc_status htc__span_book_lost(htc__span_book *b);
/* Before that: a number that is out is to run alone. HTC_OK, HTC_EPROTO, HTC_EFULL: there are too many. */
htc_status htc__span_book_suspect(htc__span_book *b, uint32_t index, uint32_t offset);

uint64_t htc__span_book_done(const htc__span_book *b);
uint64_t htc__span_book_failures(const htc__span_book *b);
uint32_t htc__span_book_out(const htc__span_book *b);      /* portions */
uint32_t htc__span_book_suspects(const htc__span_book *b); /* that wait */
uint64_t htc__span_book_number(const htc__span_book *b, uint32_t index, uint32_t offset);
/* Everything is settled. */
int htc__span_book_over(const htc__span_book *b);
/* The ranges that are neither done nor failed, in order: the nth, while no portion is out. 0: there are no more. */
int htc__span_book_range(const htc__span_book *b, uint32_t nth, uint64_t *from, uint64_t *to);

#endif
