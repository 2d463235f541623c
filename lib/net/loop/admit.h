/* Who may come in while places are few: the owner and the agents always find one that strangers cannot fill. */
#ifndef HTC_NET_ADMIT_H
#define HTC_NET_ADMIT_H

#include <stdint.h>

#include "net/loop/host_private.h"

/* What is open, and what may be; a maximum of 0: none but `all`. */
typedef struct htc__crowd {
    uint32_t all, all_max;
    uint32_t strangers, strangers_max;
    uint32_t of_uid, of_uid_max; /* of the uid that asks; it is known */
} htc__crowd;

typedef enum htc__admission { HTC_ADMIT = 0, HTC_ADMIT_FULL, HTC_ADMIT_STRANGERS_FULL, HTC_ADMIT_UID_FULL } htc__admission;

htc__admission htc__admit(const htc__crowd *c, int stranger, int uid_known);

/* The same for a connection that has come to this host; *stranger: whether it counts as one. Refusals are logged with the
 * uid, once a second at most. */
int htc__host_admits(htc_host *host, const htc_peer_info *info, int *stranger);

#endif
