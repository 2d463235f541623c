#include "roles/attempt/io_pace.h"

#define TURN_DOUBLINGS 5

int htc__io_pace_is_trouble(htc_status status)
{
    return status == HTC_ENOSPC || status == HTC_EIO || status == HTC_ETIMEDOUT;
}

static htc_ns first_of(const io_pace *p)
{
    htc_ns first = p->first ? p->first : IO_PACE_FIRST;
    return first < IO_PACE_MOST ? first : IO_PACE_MOST;
}

static htc_ns doubled(htc_ns span, uint32_t times)
{
    while (times-- && span < IO_PACE_MOST)
        span *= 2;
    return span < IO_PACE_MOST ? span : IO_PACE_MOST;
}

/* Later by 0 to 255/1024 of the pause. */
static htc_ns spread(htc_ns pause, uint64_t salt)
{
    salt = (salt ^ salt >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return pause / 1024 * (salt >> 56);
}

static htc_ns plus(htc_ns at, htc_ns span)
{
    return span > HTC_NEVER - at ? HTC_NEVER : at + span;
}

htc_ns htc__io_pace_trouble(io_pace *p, htc_ns now, uint32_t tries, uint64_t salt)
{
    if (now >= p->until) {
        p->pause = p->pause ? doubled(p->pause, 1) : first_of(p);
        p->until = plus(now, p->pause);
    }
    htc_ns own = doubled(first_of(p), tries), at = plus(now, own > p->pause ? own : p->pause); /* what went well beside it is no help to this one */
    return plus(at > p->until ? at : p->until, spread(p->pause, salt));
}

void htc__io_pace_success(io_pace *p)
{
    p->pause = p->pause / 2 < first_of(p) ? 0 : p->pause / 2;
}

htc_ns htc__io_pace_from(const io_pace *p, htc_ns now, uint64_t salt)
{
    return now >= p->until ? now : plus(p->until, spread(p->pause, salt));
}

htc_ns htc__io_pace_turn(const io_pace *p, htc_ns now, uint32_t tries, uint64_t salt)
{
    htc_ns span = doubled(first_of(p), tries < TURN_DOUBLINGS ? tries : TURN_DOUBLINGS);
    return plus(now, span + spread(span, salt));
}
