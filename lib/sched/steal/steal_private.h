/* What the rules and the policies of stealing share. */
#ifndef HTC_SCHED_STEAL_PRIVATE_H
#define HTC_SCHED_STEAL_PRIVATE_H

#include "htcsched/steal.h"
#include "sched/registry/registry_private.h"

extern const htc_steal_policy htc__steal_by_default;
extern const htc__builtin     htc__steal_builtin[];

/* A policy of any version, as this one knows it; HTC_EINVAL without choose. */
htc_status htc__steal_policy_copy(const htc_steal_policy *in, htc_steal_policy *out);
/* The largest r with r * r <= n. */
uint32_t htc__steal_root(uint64_t n);
/* How many to ask under these options: never more than all others. */
uint32_t htc__steal_degree(const htc_steal_options *options, uint32_t n);
/* poll_ns, doubled for each failure after the first; what lies above the ceiling is as at_ceiling says. */
htc_ns htc__steal_wait(const htc_steal_options *options, uint32_t failures);

#endif
