/* What the tests of the deque see beside its promise. */
#ifndef HTC_SCHED_DEQUE_PRIVATE_H
#define HTC_SCHED_DEQUE_PRIVATE_H

#include "htcsched/deque.h"

/* htc_deque_create with the index of the first item: near the wrap of the indexes, for one. */
htc_status htc__deque_create_at(const htc_env *env, const htc_deque_options *options, uint64_t start, htc_deque **out);

#endif
