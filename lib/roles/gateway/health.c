#include "roles/gateway/health.h"

htc_status htc__health_status(htc_status status, int final)
{
    return status == HTC_ESTAGEIN && final ? HTC_EINPUT : status;
}

health_verdict htc__health_of(htc_status status, htc_ns ran)
{
    switch (status) {
    case HTC_OK: return HEALTH_WORKS;
    case HTC_ECANCELLED: /* somebody asked for it */
    case HTC_EINPUT:     /* known without running anything, and not tried again */
    case HTC_ELOST:      /* its node's fault */
    case HTC_ESTOPPED:   /* as when it is lost: by somebody on its node, perhaps */
        return HEALTH_NO_SIGN;
    default: return ran > HEALTH_FAST ? HEALTH_WORKS : HEALTH_FAILS_FAST;
    }
}

static void pause_for(health *h, htc_ns span, htc_ns now)
{
    h->left = 0;
    h->pause = span < HEALTH_PAUSE_MAX ? span : HEALTH_PAUSE_MAX;
    h->until = now + h->pause;
}

int htc__health_ended(health *h, health_verdict verdict, htc_ns now)
{
    int slowed = h->pause != 0;
    if (verdict == HEALTH_NO_SIGN)
        return 0;
    if (verdict == HEALTH_WORKS) {
        *h = (health){ 0 };
        return slowed;
    }
    h->in_a_row += h->in_a_row < UINT32_MAX;
    if (slowed || h->in_a_row < HEALTH_LIMIT)
        return 0;
    pause_for(h, HEALTH_PAUSE_FIRST, now);
    return 1;
}

int htc__health_handed(health *h, htc_ns now)
{
    if (h->pause == 0 || h->left == 0 || --h->left > 0)
        return 0;
    pause_for(h, 2 * h->pause, now);
    return 1;
}

int htc__health_rested(health *h, htc_ns now, uint32_t round)
{
    if (h->pause == 0 || h->left || now < h->until)
        return 0;
    h->left = round ? round : 1;
    return 1;
}

uint32_t htc__health_allows(const health *h)
{
    return h->pause ? h->left : UINT32_MAX;
}
