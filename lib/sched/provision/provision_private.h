/* What the files of provision share. */
#ifndef HTC_SCHED_PROVISION_PRIVATE_H
#define HTC_SCHED_PROVISION_PRIVATE_H

#include "htcsched/provision.h"
#include "sched/registry/registry_private.h"

__extension__ typedef unsigned __int128 htc_provision_u128;

extern const htc__builtin htc__provision_builtin[];
extern const htc__builtin htc__provision_granter_builtin[];
extern const htc__builtin htc__provision_setup_builtin[];

/* Can this be used? HTC_OK, HTC_EINVAL or HTC_EABI. */
htc_status htc__provision_check(const htc_provision_policy *policy);
/* Are the numbers possible with this many nodes held? */
int htc__provision_demand_ok(const htc_provision_demand *demand, uint64_t owned);

#endif
