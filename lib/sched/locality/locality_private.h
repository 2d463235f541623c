/* What the files of locality share. */
#ifndef HTC_SCHED_LOCALITY_PRIVATE_H
#define HTC_SCHED_LOCALITY_PRIVATE_H

#include "htcsched/locality.h"
#include "sched/registry/registry_private.h"

extern const htc__builtin htc__locality_builtin[];

/* Can this policy be put in force? HTC_OK, HTC_EINVAL or HTC_EABI. */
htc_status htc__locality_check(const htc_locality_policy *policy);

#endif
