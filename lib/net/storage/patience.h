/* How long a loop may stand still for a slow disk. A slow moment now and then changes nothing: each wait is made up for by a hundredfold
 * time, and so much may be owed. A disk that stays slow is left to the threads. */
#ifndef HTC_NET_STORE_PATIENCE_H
#define HTC_NET_STORE_PATIENCE_H

#include "htcsched/env.h"

#define HTC__PATIENCE_SLOW  HTC_MS            /* a wait that is no longer costs nothing */
#define HTC__PATIENCE_SHARE 100               /* 1 % of the time may be spent in slow ones */
#define HTC__PATIENCE_OWED  (10 * HTC_SECOND) /* and 100 ms more */

typedef struct htc__patience {
    htc_ns even; /* all that was slow is made up for by then */
} htc__patience;

/* 1: another wait may be risked. */
static inline int htc__patience_lasts(const htc__patience *p, htc_ns now)
{
    return p->even < now + HTC__PATIENCE_OWED;
}

/* One has taken so long, and is over now. */
static inline void htc__patience_spend(htc__patience *p, htc_ns now, htc_ns took)
{
    if (took > HTC__PATIENCE_SLOW)
        p->even = (p->even > now ? p->even : now) + took * HTC__PATIENCE_SHARE;
}

#endif
