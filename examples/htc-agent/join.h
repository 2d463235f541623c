/* htc-agent --join: this machine becomes a site of a system on another one (htcsched/joined.h). */
#ifndef HTC_EXAMPLES_JOIN_H
#define HTC_EXAMPLES_JOIN_H

#include "daemon.h"

#define JOIN_ADDRESS_MAX 256

/* The address of this machine that packets to HOST:PORT come from: others reach it there, if they reach it as the gateway does. option: whose value
 * that is, for errors. */
htc_status join_own_address(htc_daemon *d, const char *gateway, const char *option, char at[JOIN_ADDRESS_MAX]);

htc_status join_check(htc_daemon *d, const htc_daemon_options *o);
htc_status join_serve(htc_daemon *d, const htc_daemon_options *o);

#endif
