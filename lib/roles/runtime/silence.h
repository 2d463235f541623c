/* How long nothing heard of a gateway is borne. */
#ifndef HTC_ROLES_RUNTIME_SILENCE_H
#define HTC_ROLES_RUNTIME_SILENCE_H

#include "htcsched/bytes.h"

/* From the moment at which its answer was due: half of the time that is left until who beats is thought lost. Late enough for a gateway that is busy, early enough to
 * be heard on another connection before. */
static inline htc_ns htc__silence_borne(htc_ns heartbeat_ns, htc_ns lost_after_ns)
{
    return lost_after_ns > heartbeat_ns ? (lost_after_ns - heartbeat_ns) / 2 : 0;
}

#endif
