/* What goes with db.store, and what does not. */
#ifndef HTC_NET_CONFIG_STORE_H
#define HTC_NET_CONFIG_STORE_H

#include "htcsched/config.h"
#include "htcsched/gateway.h"

/* HTC_ECONFIG: what another gateway on the same store could not go on with. */
htc_status htc__config_check_store(const htc_config *c, htc_error *error);

/* Who else may be the gateway. */
void htc__config_store_options(const htc_config *c, htc_gateway_options *o);

#endif
