/* The store of htc up: which keys a connection may reach. Whoever started the system, and root, reach all; another user of the machine their own
 * flows; a host that has joined the flows of the users that its site serves (htc.ini). */
#ifndef HTC_KVD_REACH_H
#define HTC_KVD_REACH_H

#include "daemon.h"
#include "htcsched/kv_server.h"

/* As htc_kv_server_options.admit; ctx: the htc_daemon. */
htc_status reach_of(void *ctx, htc_bytes opened, htc_kv_reach *reach);

#endif
