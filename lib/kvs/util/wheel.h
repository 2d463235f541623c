/* Who is due when: a hierarchy of wheels (Varghese and Lauck 1987). Entering and leaving take a few steps, whatever there
 * is; an entry is moved at most once a level on its way to the lowest wheel, 64 entries or slots at a time.
 *
 * Moments are rounded up to the tick, so that nothing is due before its moment. */
#ifndef HTC_KVS_WHEEL_H
#define HTC_KVS_WHEEL_H

#include "htcsched/bytes.h"

#define HTC__WHEEL_LEVELS 8
#define HTC__WHEEL_SLOTS  64

/* Part of whatever is to be due; zeroed: in no wheel. */
typedef struct htc__wheel_entry {
    struct htc__wheel_entry *next, **link;
    uint64_t                 tick;
    uint32_t                 level, slot;
} htc__wheel_entry;

typedef struct htc__wheel {
    htc_ns            tick_ns;
    uint64_t          tick; /* all before it has been taken */
    uint64_t          count;
    uint64_t          full[HTC__WHEEL_LEVELS]; /* a bit for each slot that holds something */
    htc__wheel_entry *slots[HTC__WHEEL_LEVELS][HTC__WHEEL_SLOTS];
} htc__wheel;

void htc__wheel_init(htc__wheel *w, htc_ns now, htc_ns tick_ns);
/* An entry that is in no wheel. Moments that have passed are due at once. */
void htc__wheel_add(htc__wheel *w, htc__wheel_entry *entry, htc_ns at);
void htc__wheel_remove(htc__wheel *w, htc__wheel_entry *entry); /* one that is in none: nothing happens */
/* Take one that is due. NULL: none is, or the work of one call is done: then htc__wheel_next is not after now. */
htc__wheel_entry *htc__wheel_take(htc__wheel *w, htc_ns now);
/* Nothing is due before; HTC_NEVER: there is nothing. */
htc_ns htc__wheel_next(const htc__wheel *w);

#endif
