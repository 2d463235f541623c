/* A node that steals, as htcsched/steal.h knows it: what the models of many tasks and of tasks with data have in common. Their nodes keep it in their own way. */
#ifndef HTC_SIM_MODELS_THIEF_H
#define HTC_SIM_MODELS_THIEF_H

#include "htcsched/sim_scale.h"
#include "htcsched/steal.h"

/* NONE: its wait is over, and it has nothing to look for; WAITING: for its event; RESTING: until a nudge. Then its round: ASKED: the loads are not known yet;
 * TOLD: a request is on its way to its victim; BACK: the answer is, with tasks or without. */
enum { THIEF_NONE, THIEF_WAITING, THIEF_RESTING, THIEF_ASKED, THIEF_TOLD, THIEF_BACK };

static inline int htc__thief_is_in_round(uint32_t phase)
{
    return phase >= THIEF_ASKED;
}

/* Something is to happen to it: once nothing is pending any more, that cannot be. */
static inline int htc__thief_waits(uint32_t phase)
{
    return phase != THIEF_NONE && phase != THIEF_RESTING;
}

/* One of n; nudged: since its round began. */
static inline htc_steal_thief htc__thief_of(uint64_t n, uint32_t self, uint32_t phase, uint32_t failures, uint32_t nudged, htc_ns due)
{
    return (htc_steal_thief){ .due_ns = due, .n = (uint32_t)n, .self = self, .failures = failures, .round = htc__thief_is_in_round(phase) ? 1u + nudged : 0 };
}

static inline uint32_t htc__thief_was_nudged(const htc_steal_thief *t)
{
    return t->round == 2;
}

/* A nudge: the phase that it is in then. */
static inline uint32_t htc__thief_nudge(htc_steal_thief *t, uint32_t phase, htc_ns now)
{
    htc_steal_nudge(t, now);
    return htc__thief_is_in_round(phase) ? phase : THIEF_NONE;
}

/* A round has brought nothing to begin with: the phase that follows, and of WAITING for how many ticks. NONE: it may ask at once. */
static inline uint32_t htc__thief_pauses(const htc_scale *scale, const htc_steal_thief *t, htc_ns now, uint64_t *ticks)
{
    if (t->due_ns == HTC_NEVER)
        return THIEF_RESTING;
    if (t->due_ns <= now)
        return THIEF_NONE;
    *ticks = htc_scale_ticks(scale, t->due_ns - now);
    *ticks = *ticks ? *ticks : 1;
    return THIEF_WAITING;
}

#endif
