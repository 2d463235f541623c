/* Before anything is multiplied on the curve: may this stranger take up our time? */
#ifndef HTC_CHANNEL_GATE_H
#define HTC_CHANNEL_GATE_H

#include "htcsched/channel.h"

/* cookie: what the caller showed; NULL: nothing. HTC_OK: let in, htc__gate_leave is due; HTC_AGAIN: send it away with fresh;
 * HTC_EBUSY: send it away. */
htc_status htc__gate_enter(htc_gate *gate, htc_ns now, htc_bytes source, const uint8_t *cookie,
                           uint8_t fresh[HTC_CHANNEL_COOKIE]);
void       htc__gate_leave(htc_gate *gate);

#endif
