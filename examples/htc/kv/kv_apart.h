#ifndef HTC_EXAMPLES_KV_APART_H
#define HTC_EXAMPLES_KV_APART_H

#include "htcsched/kv_store.h"

/* As htc_kv_check; that reading the store kills who reads it is a problem of the store. error is given. */
htc_status kv_check_apart(const htc_kv_check_options *options, htc_kv_check_found *found, htc_error *error);

#endif
