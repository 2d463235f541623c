/* What a checkpoint says may be anybody's. What all models use to look at what they have read, before a run goes on from it: places in arrays, lists through them, and
 * the events that are pending. A state that cannot be is HTC_ECORRUPT; one that is merely false ends with what is not conserved. */
#ifndef HTC_SIM_MODELS_CHECKED_H
#define HTC_SIM_MODELS_CHECKED_H

#include "core/util.h"
#include "sim/scale/scale_private.h"

#define CHECKED_NONE UINT32_MAX /* no place; every model's own NONE */

/* The next piece of a tape, unless one before it has failed. */
static inline htc_status htc__checked_piece(const htc_scale_tape *tape, htc_status before, void *data, uint64_t bytes)
{
    return before == HTC_OK && bytes ? tape->move(tape->ctx, data, bytes) : before;
}

static inline int htc__checked_is_place(uint32_t i, uint64_t n)
{
    return i < n || i == CHECKED_NONE;
}

/* Lists through the elements of one array, each with the number of the next. No element is in two of them, or twice in one. */
typedef struct checked_lists {
    const htc_env *env;
    const char    *next; /* that of element 0 */
    size_t         each; /* bytes from one to the next */
    uint64_t       n, found;
    uint8_t       *seen;
} checked_lists;

/* HTC_ENOMEM. Close it in any case. */
htc_status htc__checked_open(checked_lists *l, const htc_env *env, const void *first_next, size_t each, uint64_t n);
/* An element that is in no list yet is in one now; 0: it was, or there is none such. */
int        htc__checked_take(checked_lists *l, uint32_t i);
/* From first to the end. *last: CHECKED_NONE if it is empty; *count: elements; either may be NULL. 0: it is no list. */
int        htc__checked_list(checked_lists *l, uint32_t first, uint32_t *last, uint64_t *count);
static inline int htc__checked_was_taken(const checked_lists *l, uint32_t i)
{
    return l->seen[i];
}
void htc__checked_close(checked_lists *l);

/* The engine's part of a checkpoint. Read, *events tells how many are pending for each id, 255 for more; the caller frees them with htc__checked_forget. Written, it is NULL. */
htc_status htc__checked_engine(htc_scale *scale, const htc_scale_tape *tape, uint8_t **events);
void       htc__checked_forget(htc_scale *scale, uint8_t *events);

/* A part of what was read, which can be or cannot: HTC_ECORRUPT. */
static inline htc_status htc__checked_that(htc_scale *scale, int can_be, const char *part)
{
    if (can_be)
        return HTC_OK;
    scale->run->cannot_be = part;
    return HTC_ECORRUPT;
}

/* The error of a checkpoint that was not read; status. */
htc_status htc__checked_error(const htc_scale *scale, htc_error *error, htc_status status);

#endif
